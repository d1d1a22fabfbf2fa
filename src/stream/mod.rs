//! Streams: work that the device does in its order, while the program goes on.
//!
//! A [`Stream`] belongs to the context that was current when it was made, and remembers it: it works on any thread,
//! whatever is current there. Work of one stream is done in the order in which it was given; streams among each other
//! are ordered by [events](crate::event).
//!
//! ```
//! use custack::stream::{Stream, StreamFlags};
//!
//! let _context = custack::quick_init()?;
//! let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
//! stream.add_callback(Box::new(|status| assert_eq!(status, Ok(()))))?;
//! stream.synchronize()?;
//! # Ok::<(), custack::error::CudaError>(())
//! ```

// Raw handles from the caller, and flags of the driver's.
#![allow(unsafe_code)]

mod callback;

use crate::context::{Resource, UnownedContext};
use crate::driver::Driver;
use crate::driver::ffi::CUstream;
use crate::error::{CudaError, CudaResult, DropResult};
use bitflags::bitflags;

bitflags! {
    /// How a stream is made.
    pub struct StreamFlags: u32 {
        /// No flag.
        const DEFAULT = 0x00;
        /// The stream does not wait for the NULL stream, nor that for it. custack gives no access to the NULL stream,
        /// but copies without a stream are in it, and so is the work of other code.
        const NON_BLOCKING = 0x01;
    }
}

bitflags! {
    /// How a stream waits for an event.
    pub struct StreamWaitEventFlags: u32 {
        /// No flag; there is no other.
        const DEFAULT = 0x0;
    }
}

/// A stream of work; see the [module](self).
///
/// It may be used by several threads at once. Dropping it does not wait for its work, which goes on. A stream that
/// outlives its context is inert.
#[repr(C)]
#[derive(Debug)]
pub struct Stream {
    // At offset 0: programs in the wild read the handle there.
    inner: Resource<CUstream>,
}

impl Stream {
    /// Makes a stream in the current context. A priority outside the context's range
    /// ([`stream_priority_range`](UnownedContext::stream_priority_range)) is moved to its nearer end; lower numbers go
    /// first.
    ///
    /// # Errors
    ///
    /// [`InvalidContext`](CudaError::InvalidContext) if no context is current,
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed) if a destroyed one is;
    /// [`InvalidValue`](CudaError::InvalidValue) for flags that the driver does not know.
    #[doc(alias("cuStreamCreate", "cuStreamCreateWithPriority"))]
    pub fn new(flags: StreamFlags, priority: Option<i32>) -> CudaResult<Stream> {
        let make = |driver: &Driver| driver.stream_create(flags.bits(), priority.unwrap_or(0));
        Ok(Stream { inner: Resource::make(make, Driver::stream_destroy)? })
    }

    /// The flags that the stream was made with; bits that have no name are kept.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    #[doc(alias = "cuStreamGetFlags")]
    pub fn get_flags(&self) -> CudaResult<StreamFlags> {
        let bits = self.inner.with(Driver::stream_get_flags)?;
        // SAFETY: any bits are good; the driver may have newer ones.
        Ok(unsafe { StreamFlags::from_bits_unchecked(bits) })
    }

    /// The priority that the stream has got.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    #[doc(alias = "cuStreamGetPriority")]
    pub fn get_priority(&self) -> CudaResult<i32> {
        self.inner.with(Driver::stream_get_priority)
    }

    /// The driver's own number of the stream, never used again in this process (CUDA 12.0 and later).
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed);
    /// [`CallRequiresNewerDriver`](CudaError::CallRequiresNewerDriver) on an older driver.
    #[doc(alias = "cuStreamGetId")]
    pub fn id(&self) -> CudaResult<u64> {
        self.inner.with(Driver::stream_get_id)
    }

    /// The context that the stream is of.
    pub fn context(&self) -> &UnownedContext {
        self.inner.context()
    }

    /// Whether all work given so far is done.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed); the error of work that failed.
    #[doc(alias = "cuStreamQuery")]
    pub fn is_done(&self) -> CudaResult<bool> {
        match self.inner.with(Driver::stream_query) {
            Ok(()) => Ok(true),
            Err(CudaError::NotReady) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits until all work given so far is done.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed); the error of work that failed.
    #[doc(alias = "cuStreamSynchronize")]
    pub fn synchronize(&self) -> CudaResult<()> {
        self.inner.with(Driver::stream_synchronize)
    }

    /// The driver's handle.
    pub fn as_raw(&self) -> CUstream {
        self.inner.raw()
    }

    /// Gives the stream away: it is not destroyed, and whoever has the handle owns it.
    pub fn into_raw(self) -> CUstream {
        self.inner.into_raw()
    }

    /// Takes ownership of a stream of the current context, made elsewhere or given away with
    /// [`into_raw`](Self::into_raw).
    ///
    /// # Errors
    ///
    /// [`InvalidContext`](CudaError::InvalidContext) if no context is current.
    ///
    /// # Safety
    ///
    /// The handle is a stream's of the current context, and nothing else will destroy it.
    pub unsafe fn from_raw(raw: CUstream) -> CudaResult<Stream> {
        let context = UnownedContext::of_this_thread()?;
        // SAFETY: the caller vouches for it.
        Ok(Stream { inner: unsafe { Resource::new(raw, context, Driver::stream_destroy) } })
    }

    /// Destroys the stream, and gives the error and the stream back if that fails.
    ///
    /// # Errors
    ///
    /// What the driver answers. It may have destroyed the stream all the same, so the one that comes back answers
    /// [`InvalidHandle`](CudaError::InvalidHandle), and dropping it does nothing; only after
    /// [`NotPermitted`](CudaError::NotPermitted), in a host function, is it as it was.
    #[doc(alias("cuStreamDestroy", "cuStreamDestroy_v2"))]
    pub fn drop(stream: Stream) -> DropResult<Stream> {
        stream.inner.drop().map_err(|(error, inner)| (error, Stream { inner }))
    }

    pub(crate) fn inner(&self) -> &Resource<CUstream> {
        &self.inner
    }
}
