//! The C ABI of the event chapter.

// C functions that read and write through the pointers that they get.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use crate::abi::{c_abi, call, give, wait_then};
use crate::machine::*;
use custack_sys::ffi::*;
use std::os::raw::c_uint;

c_abi! {
    fn cuEventCreate(event: *mut CUevent, flags: c_uint) {
        give(event, |m| m.create_event(!event.is_null(), flags).map(|handle| handle as CUevent))
    }
    fn cuEventDestroy_v2(event: CUevent) { call(|m| m.destroy_event(event.addr())) }
    fn cuEventRecord(event: CUevent, stream: CUstream) { call(|m| m.record_event(event.addr(), stream.addr(), 0)) }
    fn cuEventRecordWithFlags(event: CUevent, stream: CUstream, flags: c_uint) {
        call(|m| m.record_event(event.addr(), stream.addr(), flags))
    }
    fn cuEventQuery(event: CUevent) { call(|m| m.query_event(event.addr())) }
    fn cuEventSynchronize(event: CUevent) {
        wait_then(
            |m| {
                let moment = m.moment_of(event.addr())?;
                Ok(Box::new(move || moment.iter().for_each(|moment| moment.wait())))
            },
            |m| m.event_of(event.addr()).map(|_| ()),
        )
    }
    fn cuIpcGetEventHandle(handle: *mut CUipcEventHandle, event: CUevent) {
        give(handle, |m| m.ipc_event_handle(event.addr()).map(|reserved| CUipcEventHandle { reserved }))
    }
    fn cuIpcOpenEventHandle(event: *mut CUevent, handle: CUipcEventHandle) {
        give(event, |m| m.open_ipc_event(handle.reserved).map(|handle| handle as CUevent))
    }
    fn cuEventElapsedTime_v2(millis: *mut f32, start: CUevent, end: CUevent) { cuEventElapsedTime(millis, start, end) }
    fn cuEventElapsedTime(millis: *mut f32, start: CUevent, end: CUevent) {
        if millis.is_null() {
            return call(|m| m.refuse(INVALID_HANDLE, "the pointer for the time is NULL"));
        }
        give(millis, |m| m.elapsed(start.addr(), end.addr()))
    }
}
