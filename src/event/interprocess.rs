//! Events that processes share.

// An event of another process is valid only as long as that process keeps it.
#![allow(unsafe_code)]

use super::Event;
use crate::context::{Resource, UnownedContext};
use crate::driver::Driver;
use crate::driver::ffi::CUipcEventHandle;
use crate::error::CudaResult;
use std::fmt;
use std::os::raw::c_char;

/// The handle with which another process opens an event, to wait for it, record it and query it: 64 bytes, which can be
/// sent in any way. Several processes may open it, but not the one that it comes from.
///
/// ```
/// use custack::event::{Event, EventFlags, IpcEventHandle};
///
/// let _context = custack::quick_init()?;
/// let event = Event::new(EventFlags::INTERPROCESS | EventFlags::DISABLE_TIMING)?;
/// let bytes = event.ipc_handle()?.to_bytes(); // to send
/// let handle = IpcEventHandle::from_bytes(bytes); // in the other process, which opens it
/// assert_eq!(handle.to_bytes(), bytes);
/// # Ok::<(), custack::error::CudaError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct IpcEventHandle(CUipcEventHandle);

impl IpcEventHandle {
    /// The bytes to send.
    #[inline]
    pub fn to_bytes(self) -> [u8; 64] {
        self.0.reserved.map(|byte| byte as u8)
    }

    /// The handle with these bytes.
    #[inline]
    pub fn from_bytes(bytes: [u8; 64]) -> IpcEventHandle {
        IpcEventHandle(CUipcEventHandle { reserved: bytes.map(|byte| byte as c_char) })
    }
}

impl fmt::Debug for IpcEventHandle {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IpcEventHandle(..)")
    }
}

impl Event {
    /// The handle with which another process can open the event. The event must have been made with
    /// [`INTERPROCESS`](super::EventFlags::INTERPROCESS), and must live as long as any process has it open.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed);
    /// [`InvalidHandle`](crate::error::CudaError::InvalidHandle) for an event without that flag, and for one of another
    /// process.
    #[doc(alias = "cuIpcGetEventHandle")]
    #[inline]
    pub fn ipc_handle(&self) -> CudaResult<IpcEventHandle> {
        self.0.with_current(Driver::ipc_get_event_handle).map(IpcEventHandle)
    }

    /// Opens an event of another process, in the current context.
    ///
    /// # Errors
    ///
    /// [`InvalidContext`](crate::error::CudaError::InvalidContext) if no context is current, and in the process that
    /// made the event; [`MapFailed`](crate::error::CudaError::MapFailed) for bytes that are not a handle.
    ///
    /// # Safety
    ///
    /// The bytes are from [`ipc_handle`](Event::ipc_handle) or `cuIpcGetEventHandle`, and the other process keeps the
    /// event as long as this one is used.
    #[doc(alias = "cuIpcOpenEventHandle")]
    #[inline]
    pub unsafe fn open(handle: IpcEventHandle) -> CudaResult<Event> {
        let open = |driver: &Driver| driver.ipc_open_event_handle(handle.0);
        Resource::make(open, super::destroy).map(Event::from)
    }
}

impl UnownedContext {
    /// Like [`Event::open`], in this context, whatever is current.
    ///
    /// # Errors
    ///
    /// Like [`Event::open`]; [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed), without a driver
    /// call.
    ///
    /// # Safety
    ///
    /// Like [`Event::open`].
    #[doc(alias = "cuIpcOpenEventHandle")]
    #[inline]
    pub unsafe fn open_event(&self, handle: IpcEventHandle) -> CudaResult<Event> {
        let open = |driver: &Driver| driver.ipc_open_event_handle(handle.0);
        Resource::make_in(self, open, super::destroy).map(Event::from)
    }
}
