//! The calls of the stream chapter with Rust's types.

// Calls through C function pointers; see `ask!` for what makes them sound, and `Held` for the handles.
#![allow(unsafe_code)]

use super::{ask, made};
use crate::driver::ffi::*;
use crate::driver::{Driver, Held};
use crate::error::CudaResult;
use std::os::raw::c_void;
use std::ptr;

/// The capture mode under which what is forbidden during captures is allowed.
pub(crate) const RELAXED: u32 = 2;

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
}
