//! [`BorrowedStream`]: a stream with another owner; and when two values are one stream.

// The caller or a borrow vouches for the handles.
#![allow(unsafe_code)]

use super::Stream;
use crate::context::{Resource, UnownedContext};
use crate::driver::ffi::{CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, CUstream};
use crate::driver::{Held, driver};
use crate::error::{CudaError, CudaResult};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

/// A stream with another owner, which lives at least as long as `'a`. Dropping this does not destroy the stream. It
/// derefs to [`Stream`].
///
/// ```
/// use custack::stream::{BorrowedStream, Stream, StreamFlags};
///
/// fn give_work(stream: &Stream) -> custack::error::CudaResult<()> {
///     stream.launch_host_func(|| println!("at work"))
/// }
///
/// let _context = custack::quick_init()?;
/// let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
/// // SAFETY: such a handle comes from other code, a library for one; this one lives to the end.
/// let borrowed = unsafe { BorrowedStream::from_raw(stream.as_raw()) }?;
/// give_work(&borrowed)?;
/// stream.synchronize()?;
/// # Ok::<(), custack::error::CudaError>(())
/// ```
///
/// It does not outlive the stream that it was borrowed from:
///
/// ```compile_fail,E0505
/// # use custack::stream::{Stream, StreamFlags};
/// # let _context = custack::quick_init().unwrap();
/// let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
/// let borrowed = stream.to_borrowed();
/// drop(stream);
/// borrowed.synchronize().unwrap();
/// ```
pub struct BorrowedStream<'a> {
    stream: Stream,
    owner: PhantomData<&'a Stream>,
}

impl BorrowedStream<'_> {
    /// A stream from a raw handle of other code; null, 1 and 2 are the default streams of the current context, as they
    /// are for the driver. The driver says which context the stream belongs to.
    ///
    /// # Errors
    ///
    /// [`InvalidContext`](CudaError::InvalidContext) for a default stream if no context is current; any error of the
    /// driver.
    ///
    /// # Safety
    ///
    /// The handle is valid as long as the returned value, or a reference from it, is used.
    #[doc(alias = "cuStreamGetCtx")]
    #[inline]
    pub unsafe fn from_raw<'a>(raw: CUstream) -> CudaResult<BorrowedStream<'a>> {
        let inner = if raw.is_null() || raw == CU_STREAM_LEGACY {
            Resource::implicit(CU_STREAM_LEGACY, UnownedContext::current_itself()?, false)
        } else if raw == CU_STREAM_PER_THREAD {
            Resource::implicit(raw, UnownedContext::current_itself()?, true)
        } else {
            // SAFETY: the caller vouches for the handle, and the driver for the context, which lives as long as the
            // stream.
            unsafe {
                let context = driver()?.stream_get_ctx(Held::new(raw))?;
                let context = UnownedContext::from_raw(context);
                if context.is_null() {
                    return Err(CudaError::InvalidContext
                        .note(format_args!("to borrow {raw:p}, which belongs to no context")));
                }
                Resource::of_another(raw, context.base())
            }
        };
        Ok(BorrowedStream { stream: inner.into(), owner: PhantomData })
    }
}

impl Stream {
    /// The same stream, without its ownership.
    #[inline]
    pub fn to_borrowed(&self) -> BorrowedStream<'_> {
        BorrowedStream { stream: self.share(), owner: PhantomData }
    }
}

impl PartialEq for Stream {
    /// Whether both are the same stream of the driver, whoever owns it. Streams of a destroyed context are equal to none
    /// that was made later, although the driver reuses their handles.
    ///
    /// ```
    /// use custack::stream::{LegacyStream, StreamFlags};
    ///
    /// let context = custack::quick_init()?;
    /// let stream = context.create_stream(StreamFlags::NON_BLOCKING, None)?;
    /// assert!(*stream.to_borrowed() == stream);
    /// assert!(stream != *LegacyStream::of(&context));
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    fn eq(&self, other: &Stream) -> bool {
        Arc::ptr_eq(self.inner(), other.inner()) || self.inner().is_same(other.inner())
    }
}

impl Eq for Stream {}

impl Clone for BorrowedStream<'_> {
    fn clone(&self) -> Self {
        BorrowedStream { stream: self.stream.share(), owner: PhantomData }
    }
}

impl Deref for BorrowedStream<'_> {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        &self.stream
    }
}

impl fmt::Debug for BorrowedStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BorrowedStream").field(&self.stream).finish()
    }
}
