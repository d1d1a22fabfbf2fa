//! What the driver does, called through its table: each claim was observed on an H200, and holds on both drivers.
//!
//! custack relies on these facts. If a new driver breaks one, the wrappers above have to be revised.

mod capture;
mod destroyed;
pub(crate) mod device;
mod graph;
mod graph_executable;
mod graph_memory;
mod graph_order;
mod graph_size;
mod green;
mod green_streams;
mod headers;
pub(crate) mod kernels;
mod library;
mod limits;
mod memory;
mod other_device;
pub(crate) mod pool;
mod pool_places;
mod primary;
mod room;
mod streams;
mod without_stream;

use crate::harness::{current, drain, other, run};
use custack_sys::ffi::CUcontext;
use std::ptr::null_mut;

/// Sets a limit, and returns the status and the resulting value.
pub(super) fn set_limit(which: u32, value: usize) -> (u32, usize) {
    (call!(cuCtxSetLimit(which, value)), limit(which).1)
}

/// Retains the primary context, which must succeed: what a test does next with the handle would crash.
pub(super) fn retain() -> CUcontext {
    let mut raw = null_mut();
    assert_eq!(call!(cuDevicePrimaryCtxRetain(&mut raw, 0)), 0);
    raw
}

pub(super) fn state() -> (u32, i32) {
    let (mut flags, mut active) = (7777, 7777);
    assert_eq!(call!(cuDevicePrimaryCtxGetState(0, &mut flags, &mut active)), 0);
    (flags, active)
}

/// Leaves a destroyed context on top of this thread's stack.
pub(super) fn dead_current() -> CUcontext {
    let a = other::create();
    let b = other::create();
    other::destroy(a);
    assert_eq!(other::pop(), Ok(b));
    other::destroy(b);
    a
}

pub(super) fn api_version(context: CUcontext) -> (u32, u32) {
    let mut version = 7777;
    (call!(cuCtxGetApiVersion(context, &mut version)), version)
}

pub(super) fn id(context: CUcontext) -> (u32, u64) {
    let mut id = 7777;
    (call!(cuCtxGetId(context, &mut id)), id)
}

pub(super) fn limit(limit: u32) -> (u32, usize) {
    let mut value = 7777;
    (call!(cuCtxGetLimit(&mut value, limit)), value)
}

pub(super) fn flags() -> (u32, u32) {
    let mut flags = 7777;
    (call!(cuCtxGetFlags(&mut flags)), flags)
}

pub(super) fn create(flags: u32, device: i32) -> (u32, CUcontext) {
    let mut raw = 0x1111 as CUcontext;
    (call!(cuCtxCreate_v2(&mut raw, flags, device)), raw)
}

#[test]
fn init_takes_no_flags_and_may_be_repeated() {
    run(|| {
        assert_eq!(call!(cuInit(1)), 1);
        assert_eq!(call!(cuInit(0)), 0);
        assert_eq!(call!(cuInit(0)), 0);
    });
}

#[test]
fn with_nothing_bound_current_is_null() {
    run(|| assert!(current().is_null()));
}

#[test]
fn pop_of_an_empty_stack_is_201_and_writes_nothing() {
    run(|| {
        let mut raw = 0x3333 as CUcontext;
        assert_eq!(call!(cuCtxPopCurrent_v2(&mut raw)), 201);
        assert_eq!(raw.addr(), 0x3333);
    });
}

#[test]
fn pop_into_null_pops() {
    run(|| {
        let a = other::create();
        assert_eq!(call!(cuCtxPopCurrent_v2(null_mut())), 0);
        assert!(current().is_null());
        other::destroy(a);
    });
}

#[test]
fn null_handles_and_out_parameters_are_1() {
    run(|| {
        assert_eq!(call!(cuCtxPushCurrent_v2(null_mut())), 1);
        assert_eq!(call!(cuCtxDestroy_v2(null_mut())), 1);
        assert_eq!(call!(cuCtxCreate_v2(null_mut(), 0, 0)), 1);
        assert_eq!(call!(cuCtxGetCurrent(null_mut())), 1);
        assert_eq!(call!(cuDeviceGetCount(null_mut())), 1);
        assert_eq!(call!(cuDriverGetVersion(null_mut())), 1);
    });
}

#[test]
fn pushes_stack_up() {
    run(|| {
        let (a, b) = (other::parked(), other::parked());
        other::push(a);
        other::push(a);
        other::push(b);
        assert_eq!(drain(), [b, a, a]);
        other::destroy(a);
        other::destroy(b);
    });
}

#[test]
fn create_pushes_the_new_context() {
    run(|| {
        let a = other::create();
        let b = other::create();
        assert_eq!(current(), b);
        assert_eq!(drain(), [b, a]);
        other::destroy(a);
        other::destroy(b);
    });
}

#[test]
fn set_on_an_empty_stack_makes_one_entry() {
    run(|| {
        let a = other::parked();
        other::set(a);
        assert_eq!(drain(), [a]);
        other::destroy(a);
    });
}

#[test]
fn set_replaces_the_top() {
    run(|| {
        let (a, b, x) = (other::parked(), other::parked(), other::parked());
        other::push(a);
        other::push(b);
        other::set(x);
        assert_eq!(drain(), [x, a]);
        [a, b, x].into_iter().for_each(other::destroy);
    });
}

#[test]
fn set_null_pops_and_is_nothing_on_an_empty_stack() {
    run(|| {
        let (a, b) = (other::parked(), other::parked());
        other::push(a);
        other::push(b);
        other::set(null_mut());
        assert_eq!(current(), a);
        other::set(null_mut());
        other::set(null_mut());
        assert!(current().is_null());
        [a, b].into_iter().for_each(other::destroy);
    });
}

#[test]
fn queries_without_a_context_are_201() {
    run(|| {
        assert_eq!(limit(0), (201, 7777));
        assert_eq!(limit(99), (201, 7777));
        assert_eq!(flags(), (201, 7777));
        assert_eq!(api_version(null_mut()), (201, 7777));
        assert_eq!(id(null_mut()), (201, 7777));
        assert_eq!(call!(cuCtxSynchronize()), 201);
        assert_eq!(call!(cuCtxSynchronize_v2(null_mut())), 201);
        assert_eq!(call!(cuCtxSetLimit(0, 1)), 201);
        assert_eq!(call!(cuCtxSetCacheConfig(99)), 201);
        assert_eq!(call!(cuCtxSetSharedMemConfig(99)), 201);
        assert_eq!(call!(cuCtxSetFlags(7)), 201);
        assert_eq!(call!(cuCtxResetPersistingL2Cache()), 201);
        assert_eq!(call!(cuCtxGetStreamPriorityRange(null_mut(), null_mut())), 201);
        assert_eq!(call!(cuCtxGetExecAffinity(null_mut(), 9)), 201);
        assert_eq!(call!(cuCtxRecordEvent(null_mut(), null_mut())), 201);
        assert_eq!(call!(cuCtxWaitEvent(null_mut(), null_mut())), 201);
        assert_eq!(call!(cuCtxAttach(null_mut(), 0)), 201);
        assert_eq!(call!(cuCtxDetach(null_mut())), 201);
        assert_eq!(call!(cuCtxEnablePeerAccess(null_mut(), 0)), 201);
        assert_eq!(call!(cuCtxDisablePeerAccess(null_mut())), 201);
    });
}

#[test]
fn some_functions_check_the_out_parameter_before_the_context() {
    run(|| {
        assert_eq!(call!(cuCtxGetDevice(null_mut())), 1);
        assert_eq!(call!(cuCtxGetDevice_v2(null_mut(), null_mut())), 1);
        assert_eq!(call!(cuCtxGetFlags(null_mut())), 1);
        assert_eq!(call!(cuCtxGetId(null_mut(), null_mut())), 1);
        assert_eq!(call!(cuCtxGetDevResource(null_mut(), null_mut(), 1)), 1);
        // The others check it after the context.
        assert_eq!(call!(cuCtxGetLimit(null_mut(), 0)), 201);
        assert_eq!(call!(cuCtxGetCacheConfig(null_mut())), 201);
        assert_eq!(call!(cuCtxGetApiVersion(null_mut(), null_mut())), 201);
    });
}

#[test]
fn null_out_parameters_with_a_context_are_1() {
    run(|| {
        let a = other::create();
        assert_eq!(call!(cuCtxGetLimit(null_mut(), 0)), 1);
        assert_eq!(call!(cuCtxGetCacheConfig(null_mut())), 1);
        assert_eq!(call!(cuCtxGetSharedMemConfig(null_mut())), 1);
        assert_eq!(call!(cuCtxGetApiVersion(a, null_mut())), 1);
        assert_eq!(call!(cuCtxGetExecAffinity(null_mut(), 0)), 1);
        assert_eq!(call!(cuCtxAttach(null_mut(), 0)), 1);
        assert_eq!(call!(cuCtxGetStreamPriorityRange(null_mut(), null_mut())), 0);
        other::destroy(a);
    });
}

#[test]
fn a_stack_can_be_very_deep() {
    run(|| {
        let a = other::parked();
        for _ in 0..100_000 {
            other::push(a);
        }
        assert_eq!(drain().len(), 100_000);
        other::destroy(a);
    });
}

#[test]
fn a_new_thread_starts_with_an_empty_stack() {
    run(|| {
        let a = other::create();
        std::thread::spawn(|| assert!(current().is_null())).join().unwrap();
        other::destroy(a);
    });
}
