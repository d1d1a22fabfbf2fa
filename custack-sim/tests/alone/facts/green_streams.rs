//! Streams and events of green contexts, and kernels in them: what an H200 answered.

use super::green::{destroy, green};
use super::retain;
use crate::harness::{current, drain, other, run};
use crate::run_alone;
use custack_sys::ffi::*;
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::ptr::{null_mut, without_provenance_mut};

fn stream(green: CUgreenCtx) -> CUstream {
    let mut stream = null_mut();
    assert_eq!(call!(cuGreenCtxStreamCreate(&mut stream, green, 1, 0)), 0);
    stream
}

fn event() -> CUevent {
    let mut event = null_mut();
    assert_eq!(call!(cuEventCreate(&mut event, 0)), 0);
    event
}

/// The status, and the context and the green context of a stream.
fn contexts(stream: CUstream) -> (u32, CUcontext, CUgreenCtx) {
    let (mut context, mut green) = (null_mut(), null_mut());
    (call!(cuStreamGetCtx_v2(stream, &mut context, &mut green)), context, green)
}

fn green_of(stream: CUstream) -> (u32, CUgreenCtx) {
    let mut green = without_provenance_mut(1);
    (call!(cuStreamGetGreenCtx(stream, &mut green)), green)
}

fn context_of(stream: CUstream) -> (u32, CUcontext) {
    let mut context = null_mut();
    (call!(cuStreamGetCtx(stream, &mut context)), context)
}

#[test]
fn streams_are_non_blocking_and_of_a_priority_in_the_range() {
    run(|| {
        let (made, _) = green(16);
        for (flags, status) in [(0, 1), (1, 0), (2, 1), (3, 1)] {
            let mut stream = null_mut();
            assert_eq!(call!(cuGreenCtxStreamCreate(&mut stream, made, flags, 0)), status);
            if status == 0 {
                assert_eq!(call!(cuStreamDestroy_v2(stream)), 0);
            }
        }
        for (asked, has) in [(-100, -5), (-6, -5), (-5, -5), (-3, -3), (-1, -1), (0, 0), (1, 0), (100, 0)] {
            let (mut stream, mut priority) = (null_mut(), 77);
            assert_eq!(call!(cuGreenCtxStreamCreate(&mut stream, made, 1, asked)), 0);
            assert_eq!((call!(cuStreamGetPriority(stream, &mut priority)), priority), (0, has));
            assert_eq!(call!(cuStreamDestroy_v2(stream)), 0);
        }
        assert_eq!(call!(cuGreenCtxStreamCreate(null_mut(), made, 1, 0)), 1);
        let mut stream = null_mut();
        assert_eq!(call!(cuGreenCtxStreamCreate(&mut stream, null_mut(), 1, 0)), 201);
        destroy(made);
    });
}

#[test]
fn a_stream_tells_its_contexts_and_needs_none_current() {
    run(|| {
        let ((made, of), primary) = (green(16), retain());
        let own = stream(made);
        assert_eq!(current(), null_mut());
        assert_eq!(context_of(own), (0, of));
        assert_eq!((contexts(own), green_of(own)), ((0, primary, made), (0, made)));
        let (mut flags, mut id, mut device) = (77, 0, 77);
        assert_eq!((call!(cuStreamGetFlags(own, &mut flags)), flags), (0, 1));
        assert_eq!((call!(cuStreamGetDevice(own, &mut device)), device), (0, 0));
        assert_eq!(call!(cuStreamGetId(own, &mut id)), 0);
        assert_eq!([call!(cuStreamQuery(own)), call!(cuStreamSynchronize(own))], [0, 0]);
        other::push(primary);
        let mut plain = null_mut();
        assert_eq!(call!(cuStreamCreate(&mut plain, 1)), 0);
        assert_eq!((contexts(plain), green_of(plain)), ((0, primary, null_mut()), (0, null_mut())));
        assert_eq!(drain(), [primary]);
        assert_eq!([call!(cuStreamDestroy_v2(plain)), call!(cuStreamDestroy_v2(own))], [0, 0]);
        destroy(made);
        other::release_primary();
    });
}

#[test]
fn while_it_is_current_streams_are_made_in_it() {
    run(|| {
        let ((made, of), primary) = (green(16), retain());
        other::push(of);
        let mut streams = [null_mut(); 3];
        assert_eq!(call!(cuStreamCreate(&mut streams[0], 1)), 0);
        assert_eq!(call!(cuStreamCreate(&mut streams[1], 0)), 0);
        assert_eq!(call!(cuStreamCreateWithPriority(&mut streams[2], 1, -3)), 0);
        for stream in [streams[0], null_mut(), CU_STREAM_LEGACY] {
            assert_eq!(green_of(stream), (0, made));
        }
        assert_eq!([green_of(CU_STREAM_PER_THREAD).0, context_of(CU_STREAM_PER_THREAD).0], [400, 400]);
        assert_eq!(call!(cuStreamGetCtx_v2(streams[0], null_mut(), null_mut())), 1);
        let mut told = null_mut();
        assert_eq!((call!(cuStreamGetCtx_v2(streams[0], null_mut(), &mut told)), told), (0, made));
        assert_eq!((contexts(null_mut()), context_of(null_mut())), ((0, primary, made), (0, of)));
        for (default, status) in [(CU_STREAM_LEGACY, 0), (CU_STREAM_PER_THREAD, 400)] {
            assert_eq!(call!(cuStreamSynchronize(default)), status);
        }
        for stream in streams {
            assert_eq!(call!(cuStreamDestroy_v2(stream)), 0);
        }
        assert_eq!(drain(), [of]);
        destroy(made);
        other::release_primary();
        assert_eq!(green_of(null_mut()).0, 201);
        assert_eq!(call!(cuStreamGetGreenCtx(null_mut(), null_mut())), 1);
    });
}

#[test]
fn a_stream_of_a_destroyed_green_context_is_709() {
    run(|| {
        let (made, _) = green(16);
        let own = stream(made);
        destroy(made);
        let answers =
            [call!(cuStreamQuery(own)), call!(cuStreamSynchronize(own)), call!(cuStreamDestroy_v2(own))];
        assert_eq!(answers, [709; 3]);
    });
}

#[test]
fn events_of_the_primary_context_are_those_of_its_green_ones() {
    run(|| {
        let ((made, of), primary) = (green(16), retain());
        let own = stream(made);
        other::set(primary);
        let of_primary = event();
        assert_eq!(call!(cuEventRecord(of_primary, own)), 0);
        other::set(of);
        let of_green = event();
        assert_eq!(call!(cuEventRecord(of_green, own)), 0);
        for event in [of_primary, of_green] {
            assert_eq!(call!(cuGreenCtxRecordEvent(made, event)), 0);
            assert_eq!(call!(cuGreenCtxWaitEvent(made, event)), 0);
            for context in [of, primary] {
                assert_eq!(
                    [call!(cuCtxRecordEvent(context, event)), call!(cuCtxWaitEvent(context, event))],
                    [0, 0]
                );
            }
            assert_eq!(call!(cuEventSynchronize(event)), 0);
        }
        assert_eq!(call!(cuCtxSynchronize()), 0);
        let created = other::create();
        let of_created = event();
        assert_eq!(
            [call!(cuCtxRecordEvent(created, of_created)), call!(cuCtxWaitEvent(created, of_created))],
            [0, 0]
        );
        assert_eq!(
            [call!(cuCtxRecordEvent(created, of_primary)), call!(cuCtxWaitEvent(created, of_primary))],
            [400, 0]
        );
        assert_eq!(
            [call!(cuGreenCtxRecordEvent(made, of_created)), call!(cuGreenCtxWaitEvent(made, of_created))],
            [400, 0]
        );
        let none = null_mut();
        assert_eq!(
            [call!(cuCtxRecordEvent(created, none)), call!(cuCtxWaitEvent(created, none))],
            [400, 400]
        );
        assert_eq!(
            [call!(cuGreenCtxRecordEvent(made, none)), call!(cuGreenCtxWaitEvent(made, none))],
            [400, 400]
        );
        assert_eq!(
            [call!(cuCtxRecordEvent(null_mut(), of_created)), call!(cuCtxWaitEvent(null_mut(), of_created))],
            [201, 201]
        );
        assert_eq!(
            [
                call!(cuGreenCtxRecordEvent(null_mut(), of_primary)),
                call!(cuGreenCtxWaitEvent(null_mut(), of_primary))
            ],
            [201, 201]
        );
        for event in [of_primary, of_green, of_created] {
            assert_eq!(call!(cuEventDestroy_v2(event)), 0);
        }
        other::destroy(created);
        assert_eq!(drain(), [of]);
        assert_eq!(call!(cuStreamDestroy_v2(own)), 0);
        destroy(made);
        other::release_primary();
    });
}

#[test]
fn an_event_of_the_whole_is_refused_while_a_stream_captures() {
    run_alone(|| {
        let ((made, of), primary) = (green(16), retain());
        let (own, mut graph, mut status) = (stream(made), null_mut(), 0);
        assert_eq!(call!(cuStreamBeginCapture_v2(own, 1)), 0);
        other::push(of);
        let event = event();
        assert_eq!(
            [call!(cuGreenCtxRecordEvent(made, event)), call!(cuCtxRecordEvent(of, event))],
            [900, 900]
        );
        assert_eq!((call!(cuStreamIsCapturing(own, &mut status)), status), (0, 2));
        assert_eq!(call!(cuCtxRecordEvent(primary, event)), 0);
        assert_eq!(call!(cuStreamEndCapture(own, &mut graph)), 901);
        assert_eq!([call!(cuEventDestroy_v2(event)), call!(cuStreamDestroy_v2(own))], [0, 0]);
        assert_eq!(drain(), [of]);
        destroy(made);
        other::release_primary();
    });
}

#[test]
fn what_is_no_green_context_is_refused_before_the_flags_of_a_stream() {
    run(|| {
        let (made, _) = green(16);
        let mut stream = null_mut();
        let mut make = |green, flags| call!(cuGreenCtxStreamCreate(&mut stream, green, flags, 0));
        assert_eq!([make(null_mut(), 0), make(made, 0)], [201, 1]);
        destroy(made);
        assert_eq!([make(made, 0), make(made, 1)], [1, 709]);
    });
}

/// A launch after the green context is destroyed crashes an H200.
#[test]
fn a_kernel_that_was_captured_is_of_the_green_context() {
    run_alone(|| {
        let ((made, of), primary) = (green(16), retain());
        other::push(primary);
        let (mut module, mut function) = (null_mut(), null_mut());
        assert_eq!(call!(cuModuleLoadData(&mut module, WHERE.as_ptr().cast())), 0);
        assert_eq!(call!(cuModuleGetFunction(&mut function, module, c"where".as_ptr())), 0);
        let (own, mut graph, mut memory) = (stream(made), null_mut(), 0_u64);
        let mut arguments = [(&raw mut memory).cast::<c_void>()];
        assert_eq!(call!(cuStreamBeginCapture_v2(own, 1)), 0);
        let (to, none) = (arguments.as_mut_ptr(), null_mut());
        assert_eq!(call!(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, own, to, none)), 0);
        assert_eq!(call!(cuStreamEndCapture(own, &mut graph)), 0);
        let (mut node, mut count) = (null_mut(), 1);
        assert_eq!(call!(cuGraphGetNodes(graph, &mut node, &mut count)), 0);
        // SAFETY: a C structure of pointers and numbers.
        let mut params: CUDA_KERNEL_NODE_PARAMS = unsafe { std::mem::zeroed() };
        assert_eq!(call!(cuGraphKernelNodeGetParams_v2(node, &mut params)), 0);
        assert_eq!(params.ctx, of);
        assert_eq!([call!(cuGraphDestroy(graph)), call!(cuStreamDestroy_v2(own))], [0, 0]);
        assert_eq!(call!(cuModuleUnload(module)), 0);
        destroy(made);
        assert_eq!(drain(), [primary]);
        other::release_primary();
    });
}

#[test]
fn a_capture_ends_with_its_green_context() {
    run_alone(|| {
        let (made, _) = green(16);
        let (own, mut graph) = (stream(made), null_mut());
        assert_eq!(call!(cuStreamBeginCapture_v2(own, 1)), 0);
        destroy(made);
        assert_eq!([call!(cuStreamEndCapture(own, &mut graph)), call!(cuStreamDestroy_v2(own))], [709, 709]);
    });
}

const WHERE: &std::ffi::CStr = c".version 7.0
.target sm_70
.address_size 64
.visible .entry where(.param .u64 out) {
    .reg .b64 %rd<4>; .reg .b32 %r<3>;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %smid; mov.u32 %r2, %ctaid.x;
    mul.wide.u32 %rd2, %r2, 4; add.u64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r1; ret;
}";
const BLOCKS: usize = 1024;

/// The multiprocessors on which a kernel's blocks ran.
fn used(function: CUfunction, memory: u64, stream: CUstream) -> BTreeSet<u32> {
    let mut memory = memory;
    let mut arguments = [(&raw mut memory).cast::<c_void>()];
    let (blocks, none) = (BLOCKS as u32, null_mut());
    let launched =
        call!(cuLaunchKernel(function, blocks, 1, 1, 32, 1, 1, 0, stream, arguments.as_mut_ptr(), none));
    assert_eq!([launched, call!(cuStreamSynchronize(stream))], [0, 0]);
    let mut seen = vec![0u32; BLOCKS];
    assert_eq!(call!(cuMemcpyDtoH_v2(seen.as_mut_ptr().cast(), memory, 4 * BLOCKS)), 0);
    seen.into_iter().collect()
}

#[test]
fn kernels_run_on_the_multiprocessors_of_their_green_context() {
    run(|| {
        let ((made, of), primary) = (green(16), retain());
        let (mut module, mut function, mut memory) = (null_mut(), null_mut(), 0);
        other::push(of);
        assert_eq!(call!(cuModuleLoadData(&mut module, WHERE.as_ptr().cast())), 0);
        assert_eq!(call!(cuModuleGetFunction(&mut function, module, c"where".as_ptr())), 0);
        assert_eq!(call!(cuMemAlloc_v2(&mut memory, 4 * BLOCKS)), 0);
        let by_default = used(function, memory, null_mut());
        assert_eq!(by_default.len(), 16);
        other::set(primary);
        let own = stream(made);
        assert_eq!(used(function, memory, own), by_default, "whatever is current");
        assert!(used(function, memory, null_mut()).len() > 16);
        assert_eq!(call!(cuStreamDestroy_v2(own)), 0);
        destroy(made);
        assert!(used(function, memory, null_mut()).len() > 16, "the module is the primary context's");
        assert_eq!([call!(cuModuleUnload(module)), call!(cuMemFree_v2(memory))], [0, 0]);
        assert_eq!(drain(), [primary]);
        other::release_primary();
    });
}
