//! The default streams: each context has one, and each thread has one in each context.

use super::Stream;
use crate::context::in_call::InCall;
use crate::context::{ContextHandle, Resource, refuse_by_default};
use crate::driver::ffi::{CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
use crate::error::CudaResult;
use std::marker::PhantomData;
use std::ops::Deref;

/// The default stream of a context. Work without a stream, such as a plain copy, is in it, and so is the work of other
/// code in the NULL stream.
///
/// Its work waits for all earlier work of the context's streams, and their later work waits for it, unless they are
/// [`NON_BLOCKING`](super::StreamFlags::NON_BLOCKING). It cannot be captured.
///
/// For the driver it is the stream of whatever context is current. This one is that of its own context on every thread,
/// at the cost of a scope where that context is not current. It derefs to [`Stream`], and is never destroyed.
///
/// ```
/// use custack::stream::LegacyStream;
///
/// let context = custack::quick_init()?;
/// let legacy = LegacyStream::of(&context);
/// legacy.launch_host_func(|| println!("after all blocking streams"))?;
/// legacy.synchronize()?;
/// # Ok::<(), custack::error::CudaError>(())
/// ```
#[derive(Debug)]
pub struct LegacyStream(Stream);

impl LegacyStream {
    /// The default stream of this context. For a destroyed context every call with it returns `ContextIsDestroyed`.
    #[inline]
    pub fn of<C: ContextHandle>(context: &C) -> LegacyStream {
        let context = context.as_unowned().clone();
        LegacyStream(Resource::implicit(CU_STREAM_LEGACY, context, false).into())
    }
}

impl Clone for LegacyStream {
    fn clone(&self) -> LegacyStream {
        LegacyStream::of(self.context())
    }
}

impl Deref for LegacyStream {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        &self.0
    }
}

/// The default stream that the calling thread has in a context, beside those of other threads. It and the
/// [legacy](LegacyStream) stream wait for each other, as with a stream without flags.
///
/// It cannot leave its thread; if a `&Stream` from it does, every call there returns
/// [`InvalidHandle`](crate::error::CudaError::InvalidHandle). It derefs to [`Stream`], and is never destroyed.
///
/// ```
/// use custack::stream::PerThreadStream;
///
/// let context = custack::quick_init()?;
/// let mine = PerThreadStream::of(&context);
/// mine.launch_host_func(|| println!("after the work of this thread"))?;
/// mine.synchronize()?;
/// # Ok::<(), custack::error::CudaError>(())
/// ```
///
/// ```compile_fail,E0277
/// # use custack::stream::PerThreadStream;
/// # let context = custack::quick_init().unwrap();
/// let mine = PerThreadStream::of(&context);
/// std::thread::spawn(move || mine.synchronize());
/// ```
#[derive(Debug)]
pub struct PerThreadStream {
    stream: Stream,
    /// It belongs to one thread: neither `Send` nor `Sync`.
    thread: PhantomData<*const ()>,
}

impl PerThreadStream {
    /// The default stream of the calling thread in this context.
    #[inline]
    pub fn of<C: ContextHandle>(context: &C) -> PerThreadStream {
        let context = context.as_unowned().clone();
        let inner = Resource::implicit(CU_STREAM_PER_THREAD, context, true);
        PerThreadStream { stream: inner.into(), thread: PhantomData }
    }
}

impl Clone for PerThreadStream {
    fn clone(&self) -> PerThreadStream {
        PerThreadStream::of(self.context())
    }
}

impl Deref for PerThreadStream {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        &self.stream
    }
}

impl Stream {
    /// Whether it is the legacy stream of its context, which waits for blocking streams.
    #[inline]
    pub(crate) fn is_legacy(&self) -> bool {
        self.inner.is_legacy()
    }

    /// Whether it is a default stream: the legacy stream of its context, or that of a thread.
    pub(crate) fn is_default(&self) -> bool {
        self.inner.raw().addr() <= CU_STREAM_PER_THREAD.addr()
    }

    /// Of the legacy stream: refuses work while a stream is capturing that it would wait for; the result is held during the
    /// call.
    #[cold]
    pub(crate) fn refuse_by_default(&self, what: &'static str) -> CudaResult<InCall> {
        refuse_by_default(self.context(), what)
    }
}
