//! The calls of the event chapter with Rust types.

// Calls through C function pointers; see `ask!` for what makes them sound, and `Held` for the handles.
#![allow(unsafe_code)]

use super::{ask, made};
use crate::driver::ffi::*;
use crate::driver::{Driver, Held};
use crate::error::CudaResult;
use std::ptr;

impl Driver {
    #[inline]
    pub(crate) fn event_create(&self, flags: u32) -> CudaResult<CUevent> {
        let mut event = ptr::null_mut();
        made!(self, ask!(self.cuEventCreate(&mut event, flags)), event, event_destroy)
    }

    #[inline]
    pub(crate) fn event_destroy(&self, event: Held<'_, CUevent>) -> CudaResult<()> {
        ask!(self.cuEventDestroy_v2(event.raw()))
    }

    #[inline]
    pub(crate) fn event_record(
        &self,
        event: Held<'_, CUevent>,
        stream: Held<'_, CUstream>,
    ) -> CudaResult<()> {
        ask!(self.cuEventRecord(event.raw(), stream.raw()))
    }

    #[inline]
    pub(crate) fn event_record_with_flags(
        &self,
        event: Held<'_, CUevent>,
        stream: Held<'_, CUstream>,
        flags: u32,
    ) -> CudaResult<()> {
        ask!(self.cuEventRecordWithFlags(event.raw(), stream.raw(), flags))
    }

    #[inline]
    pub(crate) fn ipc_get_event_handle(&self, event: Held<'_, CUevent>) -> CudaResult<CUipcEventHandle> {
        let mut handle = CUipcEventHandle { reserved: [0; 64] };
        ask!(self.cuIpcGetEventHandle(&mut handle, event.raw()))?;
        Ok(handle)
    }

    #[inline]
    pub(crate) fn ipc_open_event_handle(&self, handle: CUipcEventHandle) -> CudaResult<CUevent> {
        let mut event = ptr::null_mut();
        made!(self, ask!(self.cuIpcOpenEventHandle(&mut event, handle)), event, event_destroy)
    }

    #[inline]
    pub(crate) fn event_query(&self, event: Held<'_, CUevent>) -> CudaResult<()> {
        ask!(self.cuEventQuery(event.raw()))
    }

    #[inline]
    pub(crate) fn event_synchronize(&self, event: Held<'_, CUevent>) -> CudaResult<()> {
        ask!(self.cuEventSynchronize(event.raw()))
    }

    #[inline]
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
