//! The C ABI of green contexts, and of the resources that they are made from.

// C functions that read and write through the pointers that they get.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::{context, handle};
use crate::abi::{c_abi, call, call_when_idle, give, give_first, put, wait_for_work};
use crate::context::resource::Part;
use crate::machine::*;
use custack_sys::ffi::*;
use std::os::raw::{c_int, c_uint, c_ulonglong};

c_abi! {
    fn cuDevSmResourceSplitByCount(groups: *mut CUdevResource, count: *mut c_uint, input: *const CUdevResource, rest: *mut CUdevResource, flags: c_uint, least: c_uint) {
        call(|m| {
            let Some(input) = input.as_ref().filter(|_| !count.is_null()) else {
                return m.refuse(INVALID_VALUE, "the resource or the pointer for the number of groups is NULL");
            };
            let room = (!groups.is_null()).then(|| count.read());
            let split = m.split(room, input, flags, least)?;
            count.write(split.count);
            if groups.is_null() {
                return Ok(());
            }
            for (at, group) in split.groups.iter().enumerate() {
                groups.add(at).write(group.told());
            }
            put(rest, split.rest.map_or(NOTHING, Part::told));
            Ok(())
        })
    }
    // A driver of CUDA 13.0, which is what is simulated, lacks this.
    fn cuDevSmResourceSplit(_groups: *mut CUdevResource, _count: c_uint, _input: *const CUdevResource, _rest: *mut CUdevResource, _flags: c_uint, _parameters: *mut CU_DEV_SM_RESOURCE_GROUP_PARAMS) {
        CALL_REQUIRES_NEWER_DRIVER
    }
    fn cuDevResourceGenerateDesc(description: *mut CUdevResourceDesc, resources: *mut CUdevResource, count: c_uint) {
        give_first(description, |m| {
            if resources.is_null() {
                return m.refuse(INVALID_VALUE, "the resources are NULL");
            }
            let resources = std::slice::from_raw_parts(resources, count as usize);
            m.describe(resources).map(|handle| handle as CUdevResourceDesc)
        })
    }
    fn cuGreenCtxCreate(green: *mut CUgreenCtx, description: CUdevResourceDesc, device: CUdevice, flags: c_uint) {
        give(green, |m| {
            m.create_green(!green.is_null(), description.addr(), device, flags).map(|handle| handle as CUgreenCtx)
        })
    }
    fn cuGreenCtxDestroy(green: CUgreenCtx) {
        wait_for_work(green.addr());
        call_when_idle(|m| m.with_last_green(green.addr()), |m| m.destroy_green(green.addr()))
    }
    fn cuCtxFromGreenCtx(out: *mut CUcontext, green: CUgreenCtx) {
        give_first(out, |m| m.context_of_green(green.addr()).map(context))
    }
    fn cuGreenCtxGetDevResource(green: CUgreenCtx, resource: *mut CUdevResource, kind: c_uint) {
        give_first(resource, |m| m.resource_of_green(green.addr(), kind).map(Part::told))
    }
    fn cuCtxGetDevResource(context: CUcontext, resource: *mut CUdevResource, kind: c_uint) {
        give_first(resource, |m| m.resource_of_context(handle(context), kind).map(Part::told))
    }
    fn cuGreenCtxStreamCreate(stream: *mut CUstream, green: CUgreenCtx, flags: c_uint, priority: c_int) {
        give(stream, |m| {
            let made = m.create_stream_of_green(!stream.is_null(), green.addr(), flags, priority)?;
            Ok(made as CUstream)
        })
    }
    fn cuGreenCtxRecordEvent(green: CUgreenCtx, event: CUevent) { call(|m| m.record_green(green.addr(), event.addr())) }
    fn cuGreenCtxWaitEvent(green: CUgreenCtx, event: CUevent) { call(|m| m.wait_in_green(green.addr(), event.addr())) }
    fn cuGreenCtxGetId(green: CUgreenCtx, id: *mut c_ulonglong) { give_first(id, |m| m.id_of_green(green.addr())) }
}

/// What is told of no rest.
const NOTHING: CUdevResource = CUdevResource { kind: 0, internal: [0; 92], sm: [0; 3], reserved: [0; 9] };
