//! The calls of the stream and event chapters with Rust's types.

// Calls through C function pointers; see `ask!` for what makes them sound, and `Held` for the handles.
#![allow(unsafe_code)]

use super::ffi::*;
use super::{Driver, Held, ask, made};
use crate::error::CudaResult;
use std::os::raw::c_void;
use std::ptr;

impl Driver {
    pub(crate) fn stream_create(&self, flags: u32, priority: i32) -> CudaResult<CUstream> {
        let mut stream = ptr::null_mut();
        made!(
            self,
            ask!(self.cuStreamCreateWithPriority(&mut stream, flags, priority)),
            stream,
            stream_destroy
        )
    }

    pub(crate) fn stream_destroy(&self, stream: Held<'_, CUstream>) -> CudaResult<()> {
        ask!(self.cuStreamDestroy_v2(stream.raw()))
    }

    pub(crate) fn stream_query(&self, stream: Held<'_, CUstream>) -> CudaResult<()> {
        ask!(self.cuStreamQuery(stream.raw()))
    }

    pub(crate) fn stream_synchronize(&self, stream: Held<'_, CUstream>) -> CudaResult<()> {
        ask!(self.cuStreamSynchronize(stream.raw()))
    }

    pub(crate) fn stream_get_flags(&self, stream: Held<'_, CUstream>) -> CudaResult<u32> {
        let mut flags = 0;
        ask!(self.cuStreamGetFlags(stream.raw(), &mut flags))?;
        Ok(flags)
    }

    pub(crate) fn stream_get_priority(&self, stream: Held<'_, CUstream>) -> CudaResult<i32> {
        let mut priority = 0;
        ask!(self.cuStreamGetPriority(stream.raw(), &mut priority))?;
        Ok(priority)
    }

    pub(crate) fn stream_get_id(&self, stream: Held<'_, CUstream>) -> CudaResult<u64> {
        let mut id = 0;
        ask!(self.cuStreamGetId(stream.raw(), &mut id))?;
        Ok(id)
    }

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
    pub(crate) unsafe fn stream_add_callback(
        &self,
        stream: Held<'_, CUstream>,
        callback: CUstreamCallback,
        data: *mut c_void,
    ) -> CudaResult<()> {
        ask!(self.cuStreamAddCallback(stream.raw(), callback, data, 0))
    }

    /// Sets which calls a capture of a stream forbids this thread to make, and gives the mode before: 0 those that no
    /// thread may make while any captures, 1 those while this thread captures, 2 none. The driver takes any number.
    #[allow(dead_code, reason = "freeing what was retired while streams are captured will call it")]
    pub(crate) fn thread_exchange_stream_capture_mode(&self, mode: u32) -> CudaResult<u32> {
        let mut mode = mode;
        ask!(self.cuThreadExchangeStreamCaptureMode(&mut mode))?;
        Ok(mode)
    }

    pub(crate) fn event_create(&self, flags: u32) -> CudaResult<CUevent> {
        let mut event = ptr::null_mut();
        made!(self, ask!(self.cuEventCreate(&mut event, flags)), event, event_destroy)
    }

    pub(crate) fn event_destroy(&self, event: Held<'_, CUevent>) -> CudaResult<()> {
        ask!(self.cuEventDestroy_v2(event.raw()))
    }

    pub(crate) fn event_record(
        &self,
        event: Held<'_, CUevent>,
        stream: Held<'_, CUstream>,
    ) -> CudaResult<()> {
        ask!(self.cuEventRecord(event.raw(), stream.raw()))
    }

    pub(crate) fn event_query(&self, event: Held<'_, CUevent>) -> CudaResult<()> {
        ask!(self.cuEventQuery(event.raw()))
    }

    pub(crate) fn event_synchronize(&self, event: Held<'_, CUevent>) -> CudaResult<()> {
        ask!(self.cuEventSynchronize(event.raw()))
    }

    pub(crate) fn event_elapsed_time(
        &self,
        start: Held<'_, CUevent>,
        end: Held<'_, CUevent>,
    ) -> CudaResult<f32> {
        let mut millis = 0.0;
        ask!(self.cuEventElapsedTime(&mut millis, start.raw(), end.raw()))?;
        Ok(millis)
    }
}
