//! Streams: work that the device does in order, while the program continues.
//!
//! A [`Stream`] belongs to the context that was current when it was made, and works on any thread, whatever is current
//! there. Work in one stream is done in the order in which it was submitted; [events](crate::event) order the work of
//! several streams.
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
//!
//! Which one to use:
//!
//! | type | what it is |
//! |---|---|
//! | [`Stream`] | a stream of the program's own, destroyed when it is dropped |
//! | [`BorrowedStream`] | a stream of somebody else's, for as long as that one keeps it |
//! | [`LegacyStream`] | the default stream of a context, in which is what other code gives no stream for |
//! | [`PerThreadStream`] | the default stream that each thread has in a context besides |
//!
//! The last three deref to [`Stream`]: they can be used wherever a `&Stream` is asked for.
#![doc = include_str!("names.md")]
// Raw handles from the caller, and the driver's flags.
#![allow(unsafe_code)]

mod attributes;
mod borrowed;
mod callback;
mod capture;
mod default;
#[cfg(feature = "green")]
mod green;
mod host_function;
mod in_capture;
mod lost;
mod mark;
mod scope;
mod shared;
mod spare;

pub use attributes::SynchronizationPolicy;
pub use borrowed::BorrowedStream;
pub use capture::{CaptureMode, CaptureStatus, ThreadCaptureMode};
pub use default::{LegacyStream, PerThreadStream};
pub(crate) use host_function::captured_elsewhere;
pub(crate) use host_function::refuse_while_capturing;
use in_capture::destroy;
pub(crate) use mark::EventCall;
pub use scope::SyncScope;
pub(crate) use shared::Shared;
pub(crate) use spare::Spare;

use crate::context::key::key_of_stream;
use crate::context::{Pin, Resource, UnownedContext, captures, refuse_unsafe};
use crate::device::Device;
use crate::driver::Driver;
use crate::driver::ffi::{CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, CUstream};
use crate::error::{CudaError, CudaResult, DropResult, keep_note};
use bitflags::bitflags;
use lost::EndsCapture;
use std::fmt;
use std::ptr;
use std::sync::Arc;

bitflags! {
    /// Options for making a stream.
    pub struct StreamFlags: u32 {
        /// No flag.
        const DEFAULT = 0x00;
        /// The stream and the [legacy default stream](super::LegacyStream) do not wait for each other. Copies without a
        /// stream are in that one, and often the work of other code.
        const NON_BLOCKING = 0x01;
    }
}

bitflags! {
    /// Options for waiting for an event.
    pub struct StreamWaitEventFlags: u32 {
        /// No flag.
        const DEFAULT = 0x0;
        /// In a capture: at each launch the graph waits for the event's last record outside the graph. Only
        /// `Capture::wait_external` does that, because the graph has to keep the event.
        const EXTERNAL = 0x1;
    }
}

/// A stream of work; see the [module](self).
///
/// It may be used by several threads at once. Dropping it does not wait for its work, which continues. A stream that
/// outlives its context is inert. If memory was allocated in its order, it is destroyed after the last of that memory.
#[repr(C)]
pub struct Stream {
    // At offset 0: existing programs read the handle there.
    raw: CUstream,
    /// Before the handle, which it needs.
    ends_capture: EndsCapture,
    inner: Arc<Shared>,
}

// SAFETY: the pointer is a handle, and the driver's functions may be called on any thread, with the handles of any
// thread.
unsafe impl Send for Stream {}
// SAFETY: as above, and on several threads at once.
unsafe impl Sync for Stream {}

#[doc(hidden)]
impl From<Resource<CUstream>> for Stream {
    fn from(stream: Resource<CUstream>) -> Stream {
        Stream::from((stream, None))
    }
}

#[doc(hidden)]
impl From<(Resource<CUstream>, Option<Pin>)> for Stream {
    /// The pin is of the green context that the stream is of.
    fn from((stream, green): (Resource<CUstream>, Option<Pin>)) -> Stream {
        let (raw, inner) = (stream.raw(), Shared::new(stream, green));
        Stream { raw, ends_capture: EndsCapture::of(&inner), inner: Arc::new(inner) }
    }
}

impl UnownedContext {
    /// Makes a stream in this context, whatever is current. A priority outside the context's
    /// [range](UnownedContext::stream_priority_range) is clamped to it; [`get_priority`](Stream::get_priority) returns
    /// the result.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed), without a driver call;
    /// [`InvalidContext`](CudaError::InvalidContext) for a null handle;
    /// [`InvalidValue`](CudaError::InvalidValue) for flags that the driver does not know.
    ///
    /// ```
    /// use custack::context::{ContextStack, CurrentContext};
    /// use custack::stream::StreamFlags;
    ///
    /// let context = custack::quick_init()?;
    /// ContextStack::pop()?;
    /// let stream = context.create_stream(StreamFlags::NON_BLOCKING, Some(-1))?;
    /// assert_eq!(stream.context(), &context.get_unowned());
    /// assert!(CurrentContext::get_current()?.is_null());
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuStreamCreate", "cuStreamCreateWithPriority"))]
    #[inline]
    pub fn create_stream(&self, flags: StreamFlags, priority: Option<i32>) -> CudaResult<Stream> {
        let make = |driver: &Driver| driver.stream_create(flags.bits(), priority.unwrap_or(0));
        let green = self.pin_if_green()?;
        Resource::make_in(self, make, destroy).map(|stream| Stream::from((stream, green)))
    }
}

impl Stream {
    /// Makes a stream in the current context. A priority outside the context's range
    /// ([`stream_priority_range`](UnownedContext::stream_priority_range)) is clamped to it; lower numbers have
    /// precedence.
    ///
    /// # Errors
    ///
    /// [`InvalidContext`](CudaError::InvalidContext) if no context is current,
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed) if a destroyed one is;
    /// [`InvalidValue`](CudaError::InvalidValue) for flags that the driver does not know.
    #[doc(alias("cuStreamCreate", "cuStreamCreateWithPriority"))]
    #[inline]
    pub fn new(flags: StreamFlags, priority: Option<i32>) -> CudaResult<Stream> {
        let make = |driver: &Driver| driver.stream_create(flags.bits(), priority.unwrap_or(0));
        Resource::make_kept(make, destroy).map(Stream::from)
    }

    /// The flags that the stream was made with, including bits without a name.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    #[doc(alias("cuStreamGetFlags", "flags"))]
    #[inline]
    pub fn get_flags(&self) -> CudaResult<StreamFlags> {
        let bits = self.inner.outside_capture("ask for the flags of a stream", Driver::stream_get_flags)?;
        // SAFETY: any bits are valid; the driver may have newer flags.
        Ok(unsafe { StreamFlags::from_bits_unchecked(bits) })
    }

    /// The stream's actual priority.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    #[doc(alias("cuStreamGetPriority", "priority"))]
    #[inline]
    pub fn get_priority(&self) -> CudaResult<i32> {
        self.inner.with(Driver::stream_get_priority)
    }

    /// The driver's own number of the stream, never reused in this process (CUDA 12.0 and later).
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed);
    /// [`CallRequiresNewerDriver`](CudaError::CallRequiresNewerDriver) on an older driver.
    #[doc(alias = "cuStreamGetId")]
    #[inline]
    pub fn id(&self) -> CudaResult<u64> {
        self.inner.outside_capture("ask for the number of a stream", Driver::stream_get_id)
    }

    /// The stream's context.
    #[inline]
    pub fn context(&self) -> &UnownedContext {
        self.inner.context()
    }

    /// The device that the stream's work runs on.
    ///
    /// # Errors
    ///
    /// Like [`UnownedContext::device`]: only for a context of other code whose device is not known yet.
    #[doc(alias = "cuStreamGetDevice")]
    #[inline]
    pub fn device(&self) -> CudaResult<Device> {
        self.inner.context().device()
    }

    /// Whether all work submitted so far is done.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed); the error of work that failed.
    #[doc(alias("cuStreamQuery", "query"))]
    #[inline]
    pub fn is_done(&self) -> CudaResult<bool> {
        let what = "query a stream";
        self.refuse_in_capture(what)?;
        refuse_unsafe(what)?;
        match self.inner.outside_capture(what, Driver::stream_query) {
            Ok(()) => Ok(true),
            Err(CudaError::NotReady) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits until all work submitted so far is done.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed); the error of work that failed.
    #[doc(alias = "cuStreamSynchronize")]
    #[inline]
    pub fn synchronize(&self) -> CudaResult<()> {
        let what = "wait for a stream";
        self.refuse_in_capture(what)?;
        refuse_unsafe(what)?;
        self.inner.wait_outside_captures(what, Driver::stream_synchronize)
    }

    /// The driver's handle.
    #[inline]
    pub fn as_raw(&self) -> CUstream {
        self.raw
    }

    /// Gives up ownership: the stream is not destroyed, and whoever has the handle owns it, together with a capture that
    /// was begun in it by hand. Memory that was allocated in its order continues to use it, and must be dropped before the
    /// stream is destroyed.
    #[inline]
    pub fn into_raw(self) -> CUstream {
        self.ends_capture.give_away();
        match Arc::try_unwrap(self.inner) {
            Ok(shared) => shared.into_stream().0.into_raw(),
            Err(shared) => {
                shared.give_away();
                self.raw
            }
        }
    }

    /// Takes ownership of a stream of the current context, made elsewhere or given up with
    /// [`into_raw`](Self::into_raw).
    ///
    /// # Errors
    ///
    /// [`InvalidContext`](CudaError::InvalidContext) if no context is current;
    /// [`InvalidHandle`](CudaError::InvalidHandle) for a default stream, which nobody owns
    /// ([`LegacyStream`], [`PerThreadStream`]).
    ///
    /// # Safety
    ///
    /// The handle is that of a stream of the current context, and nothing else will destroy it.
    #[inline]
    pub unsafe fn from_raw(raw: CUstream) -> CudaResult<Stream> {
        let current = UnownedContext::current_itself()?;
        if [ptr::null_mut(), CU_STREAM_LEGACY, CU_STREAM_PER_THREAD].contains(&raw) {
            return Err(
                CudaError::InvalidHandle.note(format_args!("to own {raw:p}, which is a default stream"))
            );
        }
        let green = current.pin_if_green()?;
        // SAFETY: as the caller guarantees.
        Ok(Stream::from((unsafe { Resource::new(raw, current.base(), destroy) }, green)))
    }

    /// Destroys the stream; if that fails, returns the error and the stream. A stream in whose order memory was
    /// allocated that is not freed yet is destroyed with the last of it.
    ///
    /// # Errors
    ///
    /// Any error of the driver. It may have destroyed the stream all the same, so the returned one refuses every use
    /// with [`InvalidHandle`](CudaError::InvalidHandle), and dropping it does nothing; only after
    /// [`NotPermitted`](CudaError::NotPermitted), in a host function, is the stream unchanged.
    #[doc(alias("cuStreamDestroy", "cuStreamDestroy_v2"))]
    #[inline]
    pub fn drop(stream: Stream) -> DropResult<Stream> {
        stream.drop_after(Ok(()))
    }

    /// Waits until all work submitted so far is done, and destroys the stream, whether or not the work failed.
    ///
    /// # Errors
    ///
    /// The error of work that failed, else that of destroying the stream. On the returned stream every call returns
    /// [`InvalidHandle`](CudaError::InvalidHandle), and dropping it does nothing. The stream is unchanged only after
    /// [`NotPermitted`](CudaError::NotPermitted), in a host function, and
    /// [`StreamCaptureUnsupported`](CudaError::StreamCaptureUnsupported), while it is capturing.
    ///
    /// ```
    /// use custack::stream::{Stream, StreamFlags};
    ///
    /// let _context = custack::quick_init()?;
    /// let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    /// stream.launch_host_func(|| println!("done"))?;
    /// stream.shutdown().map_err(|(error, _)| error)?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuStreamSynchronize", "cuStreamDestroy", "cuStreamDestroy_v2"))]
    #[inline]
    pub fn shutdown(self) -> DropResult<Stream> {
        let asked = self.inner.with(host_function::refuse_while_capturing);
        if asked == Err(CudaError::StreamCaptureUnsupported) {
            return Err((CudaError::StreamCaptureUnsupported, self));
        }
        let _note = asked.is_err().then(keep_note);
        let waited = asked.and(self.synchronize());
        self.drop_after(waited)
    }

    /// Its context; of a default stream that is bound to none, the current one.
    #[inline]
    pub(crate) fn present_context(&self) -> CudaResult<UnownedContext> {
        if self.context().is_null() { UnownedContext::of_this_thread() } else { Ok(self.context().clone()) }
    }

    /// The same stream; it is destroyed when both are dropped.
    fn share(&self) -> Stream {
        Stream { raw: self.raw, ends_capture: EndsCapture::nothing(), inner: Arc::clone(&self.inner) }
    }

    /// The key of the stream in the list of captures.
    #[inline]
    pub(crate) fn key(&self) -> usize {
        key_of_stream(self.inner.raw(), self.context())
    }

    /// Refuses a call that cannot be captured if the stream is capturing, and one that would wait for a capturing
    /// stream.
    #[inline]
    pub(crate) fn refuse_in_capture(&self, what: &'static str) -> CudaResult<()> {
        captures::refuse_in(self.key(), what)?;
        let may_wait = captures::any() && self.is_legacy();
        if may_wait { self.refuse_by_default(what).map(drop) } else { Ok(()) }
    }

    #[inline]
    pub(crate) fn inner(&self) -> &Arc<Shared> {
        &self.inner
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("raw", &self.raw).field("context", self.context()).finish()
    }
}
