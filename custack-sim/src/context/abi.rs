//! The C ABI of the context chapters: contexts and stacks, primary contexts, peer access.

// C functions that read and write through the pointers that they get.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

mod green;

pub(crate) use green::*;

use crate::abi::{c_abi, call, call_when_idle, give, give_first, put, wait_for_work};
use crate::device::SM_COUNT;
use crate::machine::*;
use custack_sys::ffi::*;
use std::os::raw::{c_int, c_uint, c_ulonglong};

fn handle(context: CUcontext) -> Handle {
    context.addr()
}

fn context(handle: Handle) -> CUcontext {
    handle as CUcontext
}

c_abi! {
    fn cuDevicePrimaryCtxRetain(out: *mut CUcontext, device: CUdevice) {
        give(out, |m| m.retain_primary(!out.is_null(), device).map(context))
    }
    fn cuDevicePrimaryCtxRelease_v2(device: CUdevice) {
        call_when_idle(|m| m.with_one_share(device), |m| m.release_primary(device))
    }
    fn cuDevicePrimaryCtxSetFlags_v2(device: CUdevice, flags: c_uint) { call(|m| m.set_primary_flags(device, flags)) }
    fn cuDevicePrimaryCtxGetState(device: CUdevice, flags: *mut c_uint, active: *mut c_int) {
        call(|m| {
            let (value, is_active) = m.primary_state(!flags.is_null() && !active.is_null(), device)?;
            put(flags, value);
            put(active, c_int::from(is_active));
            Ok(())
        })
    }
    fn cuDevicePrimaryCtxReset_v2(device: CUdevice) {
        call_when_idle(|m| m.resettable(device), |m| m.reset_primary(device))
    }
    fn cuCtxCreate_v2(out: *mut CUcontext, flags: c_uint, device: CUdevice) {
        give(out, |m| m.create(!out.is_null(), flags, device).map(context))
    }
    fn cuCtxCreate_v3(out: *mut CUcontext, affinities: *mut CUexecAffinityParam, count: c_int, flags: c_uint, device: CUdevice) {
        give(out, |m| m.create_with(!out.is_null(), count, !affinities.is_null(), flags, device).map(context))
    }
    fn cuCtxCreate_v4(out: *mut CUcontext, params: *mut CUctxCreateParams, flags: c_uint, device: CUdevice) {
        give(out, |m| {
            let (count, given, cig) = params.as_ref().map_or((0, false, false), |params| {
                (params.num_exec_affinity_params, !params.exec_affinity_params.is_null(), !params.cig_params.is_null())
            });
            if cig {
                return m.create_with_queue(device).map(context);
            }
            m.create_with(!out.is_null(), count, given, flags, device).map(context)
        })
    }
    fn cuCtxDestroy_v2(context: CUcontext) {
        call_when_idle(|m| m.device_of_created(handle(context)), |m| m.destroy(handle(context)))
    }
    fn cuCtxPushCurrent_v2(context: CUcontext) { call(|m| m.push(handle(context))) }
    fn cuCtxPopCurrent_v2(out: *mut CUcontext) {
        call(|m| {
            let popped = m.pop()?;
            put(out, context(popped));
            Ok(())
        })
    }
    fn cuCtxSetCurrent(context: CUcontext) { call(|m| m.set(handle(context))) }
    fn cuCtxGetCurrent(out: *mut CUcontext) { give(out, |m| m.top().map(context)) }
    fn cuCtxGetDevice(device: *mut CUdevice) { give_first(device, |m| m.context_device(0)) }
    fn cuCtxGetDevice_v2(device: *mut CUdevice, context: CUcontext) {
        give_first(device, |m| m.context_device(handle(context)))
    }
    fn cuCtxGetFlags(flags: *mut c_uint) { give_first(flags, |m| m.flags()) }
    fn cuCtxSetFlags(flags: c_uint) { call(|m| m.set_flags(flags)) }
    fn cuCtxGetId(context: CUcontext, id: *mut c_ulonglong) { give_first(id, |m| m.id(handle(context))) }
    fn cuCtxSynchronize() {
        cuCtxSynchronize_v2(std::ptr::null_mut())
    }
    fn cuCtxSynchronize_v2(context: CUcontext) {
        let mut which = handle(context);
        let status = call(|m| {
            if which == 0 {
                which = m.top()?;
            }
            m.no_capture_ends_in(which, false)?;
            m.may_wait_for(which)
        });
        if status != CUDA_SUCCESS {
            return status;
        }
        wait_for_work(which);
        call(|m| m.synchronize(which))
    }
    fn cuCtxGetLimit(value: *mut usize, limit: c_uint) { give(value, |m| m.limit(!value.is_null(), limit)) }
    fn cuCtxSetLimit(limit: c_uint, value: usize) { call(|m| m.set_limit(limit, value)) }
    fn cuCtxGetCacheConfig(config: *mut c_uint) { give(config, |m| m.current().map(|context| context.cache_config)) }
    fn cuCtxSetCacheConfig(config: c_uint) { call(|m| m.set_cache_config(config)) }
    fn cuCtxGetSharedMemConfig(config: *mut c_uint) { give(config, |m| m.shared_mem_config()) }
    fn cuCtxSetSharedMemConfig(config: c_uint) { call(|m| m.set_shared_mem_config(config)) }
    fn cuCtxGetApiVersion(context: CUcontext, version: *mut c_uint) {
        give(version, |m| m.api_version(handle(context), !version.is_null()))
    }
    fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        call(|m| {
            let range = m.stream_priority_range()?;
            put(least, range.0);
            put(greatest, range.1);
            Ok(())
        })
    }
    fn cuCtxResetPersistingL2Cache() { call(|m| m.current().map(|_| ())) }
    fn cuCtxGetExecAffinity(affinity: *mut CUexecAffinityParam, kind: c_uint) {
        give(affinity, |m| {
            m.current()?;
            let current = m.top()?;
            if m.is_green(current) {
                return m.refuse(INVALID_CONTEXT, "a green context has no execution affinity");
            }
            if !affinity.is_null() && kind != CU_EXEC_AFFINITY_TYPE_SM_COUNT {
                return m.refuse(UNSUPPORTED_EXEC_AFFINITY, format_args!("{kind} is no kind of execution affinity"));
            }
            Ok(CUexecAffinityParam { kind, sm_count: SM_COUNT })
        })
    }
    fn cuCtxRecordEvent(context: CUcontext, event: CUevent) { call(|m| m.record_context(handle(context), event.addr())) }
    fn cuCtxWaitEvent(context: CUcontext, event: CUevent) { call(|m| m.wait_in_context(handle(context), event.addr())) }
    fn cuCtxAttach(out: *mut CUcontext, flags: c_uint) { give(out, |m| m.attach(!out.is_null(), flags).map(context)) }
    fn cuCtxDetach(context: CUcontext) { call(|m| m.detach(handle(context))) }
    fn cuCtxEnablePeerAccess(peer: CUcontext, flags: c_uint) { call(|m| m.enable_peer(handle(peer), flags)) }
    fn cuCtxDisablePeerAccess(peer: CUcontext) { call(|m| m.disable_peer(handle(peer))) }
    // What a profiler records while a program runs is up to the profiler, and there is none.
    fn cuProfilerStart() { call(|m| m.healthy_current().map(|_| ())) }
    fn cuProfilerStop() { call(|m| m.healthy_current().map(|_| ())) }
}
