//! The calls of the stream chapter with Rust types.

// Calls through C function pointers; see `ask!` for what makes them sound, and `Held` for the handles.
#![allow(unsafe_code)]

use super::{ask, made};
use crate::driver::ffi::*;
use crate::driver::{Driver, Held};
use crate::error::{CudaResult, keep_note};
use std::os::raw::c_void;
use std::ptr;

/// The capture mode that allows the calls which other modes forbid during a capture.
pub(crate) const RELAXED: u32 = 2;

/// The number that an attribute's value begins with.
fn number_in(value: &[u64; 8]) -> u32 {
    let [a, b, c, d, ..] = value[0].to_ne_bytes();
    u32::from_ne_bytes([a, b, c, d])
}

/// An attribute's value that begins with this number.
fn value_of(number: u32) -> [u64; 8] {
    let [a, b, c, d] = number.to_ne_bytes();
    [u64::from_ne_bytes([a, b, c, d, 0, 0, 0, 0]), 0, 0, 0, 0, 0, 0, 0]
}

impl Driver {
    #[inline]
    pub(crate) fn stream_create(&self, flags: u32, priority: i32) -> CudaResult<CUstream> {
        let mut stream = ptr::null_mut();
        made!(
            self,
            ask!(self.cuStreamCreateWithPriority(&mut stream, flags, priority)),
            stream,
            stream_destroy
        )
    }

    #[inline]
    pub(crate) fn stream_destroy(&self, stream: Held<'_, CUstream>) -> CudaResult<()> {
        ask!(self.cuStreamDestroy_v2(stream.raw()))
    }

    #[inline]
    pub(crate) fn stream_query(&self, stream: Held<'_, CUstream>) -> CudaResult<()> {
        ask!(self.cuStreamQuery(stream.raw()))
    }

    #[inline]
    pub(crate) fn stream_synchronize(&self, stream: Held<'_, CUstream>) -> CudaResult<()> {
        ask!(self.cuStreamSynchronize(stream.raw()))
    }

    #[inline]
    pub(crate) fn stream_get_flags(&self, stream: Held<'_, CUstream>) -> CudaResult<u32> {
        let mut flags = 0;
        ask!(self.cuStreamGetFlags(stream.raw(), &mut flags))?;
        Ok(flags)
    }

    #[inline]
    pub(crate) fn stream_get_priority(&self, stream: Held<'_, CUstream>) -> CudaResult<i32> {
        let mut priority = 0;
        ask!(self.cuStreamGetPriority(stream.raw(), &mut priority))?;
        Ok(priority)
    }

    #[inline]
    pub(crate) fn stream_get_id(&self, stream: Held<'_, CUstream>) -> CudaResult<u64> {
        let mut id = 0;
        ask!(self.cuStreamGetId(stream.raw(), &mut id))?;
        Ok(id)
    }

    /// The context that the driver says a stream is of; of a default stream the current one.
    #[inline]
    pub(crate) fn stream_get_ctx(&self, stream: Held<'_, CUstream>) -> CudaResult<CUcontext> {
        let mut context = ptr::null_mut();
        ask!(self.cuStreamGetCtx(stream.raw(), &mut context))?;
        Ok(context)
    }

    /// 0 if the stream is not capturing, 1 if it is, 2 if its capture is invalidated.
    #[inline]
    pub(crate) fn stream_is_capturing(&self, stream: Held<'_, CUstream>) -> CudaResult<u32> {
        let mut status = 0;
        ask!(self.cuStreamIsCapturing(stream.raw(), &mut status))?;
        Ok(status)
    }

    #[inline]
    pub(crate) fn stream_copy_attributes(
        &self,
        to: Held<'_, CUstream>,
        from: Held<'_, CUstream>,
    ) -> CudaResult<()> {
        ask!(self.cuStreamCopyAttributes(to.raw(), from.raw()))
    }

    /// An attribute whose value is a number.
    #[inline]
    pub(crate) fn stream_get_attribute(&self, stream: Held<'_, CUstream>, attribute: u32) -> CudaResult<u32> {
        // As large as any attribute's value, and aligned as all of them.
        let mut value = [0u64; 8];
        ask!(self.cuStreamGetAttribute(stream.raw(), attribute, value.as_mut_ptr().cast()))?;
        Ok(number_in(&value))
    }

    #[inline]
    pub(crate) fn stream_set_attribute(
        &self,
        stream: Held<'_, CUstream>,
        attribute: u32,
        number: u32,
    ) -> CudaResult<()> {
        let value = value_of(number);
        ask!(self.cuStreamSetAttribute(stream.raw(), attribute, value.as_ptr().cast()))
    }

    /// # Safety
    ///
    /// The function may be called with this data, on another thread; at any time, and more than once if the stream is
    /// captured.
    #[inline]
    pub(crate) unsafe fn launch_host_func(
        &self,
        stream: Held<'_, CUstream>,
        function: CUhostFn,
        data: *mut c_void,
    ) -> CudaResult<()> {
        ask!(self.cuLaunchHostFunc(stream.raw(), function, data))
    }

    #[inline]
    pub(crate) fn stream_wait_event(
        &self,
        stream: Held<'_, CUstream>,
        event: Held<'_, CUevent>,
        flags: u32,
    ) -> CudaResult<()> {
        ask!(self.cuStreamWaitEvent(stream.raw(), event.raw(), flags))
    }

    /// # Safety
    ///
    /// The callback may be called with this data, once, on another thread.
    #[inline]
    pub(crate) unsafe fn stream_add_callback(
        &self,
        stream: Held<'_, CUstream>,
        callback: CUstreamCallback,
        data: *mut c_void,
    ) -> CudaResult<()> {
        ask!(self.cuStreamAddCallback(stream.raw(), callback, data, 0))
    }

    /// Sets which calls a stream capture forbids on this thread, and returns the previous mode: 0 those that no thread
    /// may make during any capture, 1 those during a capture of this thread, 2 none. The driver accepts any number.
    ///
    /// A driver that fails after it has set the mode has written the previous one, which is set again.
    #[inline]
    pub(crate) fn thread_exchange_stream_capture_mode(&self, mode: u32) -> CudaResult<u32> {
        let mut previous = mode;
        let asked = ask!(self.cuThreadExchangeStreamCaptureMode(&mut previous));
        if asked.is_err() && previous != mode {
            let _note = keep_note();
            let _ = self.thread_restore_stream_capture_mode(previous);
        }
        asked.map(|()| previous)
    }

    /// Sets the mode again that an exchange returned. If this fails, it may have been set all the same.
    #[inline]
    pub(crate) fn thread_restore_stream_capture_mode(&self, mode: u32) -> CudaResult<()> {
        let mut mode = mode;
        ask!(self.cuThreadExchangeStreamCaptureMode(&mut mode))
    }
}
