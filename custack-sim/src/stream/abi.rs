//! The C ABI of the stream chapter.

// C functions that read and write through the pointers that they get.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

mod values;

pub(crate) use values::*;

use super::as_host_function;
use super::ending::begin_to_end;
use crate::abi::{c_abi, call, give, give_first, put, wait_then};
use crate::graph::Host;
use crate::graph::abi::after;
use crate::machine::*;
use custack_sys::ffi::*;
use std::cell::Cell;
use std::os::raw::{c_int, c_uint, c_ulonglong, c_void};

/// Pointers as numbers, so that they can be sent to the stream's thread.
#[derive(Clone, Copy)]
struct Callback {
    function: CUstreamCallback,
    stream: usize,
    data: usize,
}

c_abi! {
    fn cuStreamCreate(stream: *mut CUstream, flags: c_uint) { cuStreamCreateWithPriority(stream, flags, 0) }
    fn cuStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int) {
        give(stream, |m| m.create_stream(!stream.is_null(), flags, priority).map(|handle| handle as CUstream))
    }
    fn cuStreamDestroy_v2(stream: CUstream) { call(|m| m.destroy_stream(stream.addr())) }
    fn cuStreamQuery(stream: CUstream) { call(|m| m.query_stream(stream.addr())) }
    fn cuStreamSynchronize(stream: CUstream) {
        let owner = Cell::new(0);
        wait_then(
            |m| {
                let found = m.stream_of(stream.addr())?;
                m.no_node(stream.addr())?;
                m.may_wait()?;
                owner.set(found.owner());
                // What is submitted from now on is not waited for.
                let (before, count) = (m.comes_after(stream.addr(), &found), found.queue.added());
                Ok(Box::new(move || {
                    before.iter().for_each(|moment| moment.wait());
                    found.queue.wait_for(count);
                }))
            },
            // A capture that has begun meanwhile is no matter of a call that has been blocked since before.
            |m| m.healthy(owner.get()).map(|_| ()),
        )
    }
    fn cuStreamGetFlags(stream: CUstream, flags: *mut c_uint) { give_first(flags, |m| m.not_captured(stream.addr()).map(|s| s.flags)) }
    fn cuStreamGetPriority(stream: CUstream, priority: *mut c_int) {
        give_first(priority, |m| {
            m.capturing(stream.addr())?;
            m.known_stream(stream.addr()).map(|s| s.attributes.priority())
        })
    }
    fn cuStreamGetId(stream: CUstream, id: *mut c_ulonglong) {
        give_first(id, |m| {
            m.not_captured(stream.addr())?;
            m.stream_id(stream.addr())
        })
    }
    fn cuStreamGetCtx(stream: CUstream, context: *mut CUcontext) {
        give_first(context, |m| {
            m.capturing(stream.addr())?;
            m.known_stream(stream.addr()).map(|s| s.owner() as CUcontext)
        })
    }
    fn cuStreamGetCtx_v2(stream: CUstream, context: *mut CUcontext, green: *mut CUgreenCtx) {
        call(|m| {
            if context.is_null() && green.is_null() {
                return m.refuse(INVALID_VALUE, "the pointers for the context and for the green context are NULL");
            }
            m.capturing(stream.addr())?;
            let (base, own) = m.contexts_of_stream(stream.addr())?;
            put(context, base as CUcontext);
            put(green, own as CUgreenCtx);
            Ok(())
        })
    }
    fn cuStreamGetGreenCtx(stream: CUstream, green: *mut CUgreenCtx) {
        give_first(green, |m| {
            m.capturing(stream.addr())?;
            m.contexts_of_stream(stream.addr()).map(|(_, green)| green as CUgreenCtx)
        })
    }
    // A driver of CUDA 13.0, which is what is simulated, lacks this.
    fn cuStreamGetDevResource(_stream: CUstream, _resource: *mut CUdevResource, _kind: c_uint) {
        CALL_REQUIRES_NEWER_DRIVER
    }
    fn cuStreamGetDevice(stream: CUstream, device: *mut CUdevice) {
        give_first(device, |m| {
            let context = m.not_captured(stream.addr())?.context;
            m.context_device(context)
        })
    }
    fn cuStreamCopyAttributes(to: CUstream, from: CUstream) { call(|m| m.copy_stream_attributes(to.addr(), from.addr())) }
    fn cuStreamGetAttribute(stream: CUstream, attribute: c_uint, value: *mut c_void) {
        call(|m| {
            if value.is_null() {
                return m.misuse(INVALID_VALUE, "cuStreamGetAttribute to NULL");
            }
            value.cast::<c_uint>().write(m.stream_attribute(stream.addr(), attribute)?);
            Ok(())
        })
    }
    fn cuStreamSetAttribute(stream: CUstream, attribute: c_uint, value: *const c_void) {
        call(|m| {
            if value.is_null() {
                return m.misuse(INVALID_VALUE, "cuStreamSetAttribute of NULL");
            }
            m.set_stream_attribute(stream.addr(), attribute, value.cast::<c_uint>().read())
        })
    }
    fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint) {
        call(|m| m.wait_event(stream.addr(), event.addr(), flags))
    }
    fn cuStreamAddCallback(stream: CUstream, callback: CUstreamCallback, user_data: *mut c_void, flags: c_uint) {
        call(|m| {
            if callback.is_none() || flags != 0 {
                return m.refuse(INVALID_VALUE, "the callback is NULL, or flags are given");
            }
            let found = m.stream_of(stream.addr())?;
            m.no_node(stream.addr())?;
            let before = m.comes_after(stream.addr(), &found);
            let callback = Callback { function: callback, stream: stream.addr(), data: user_data.addr() };
            let context = found.context;
            found.queue.push(Box::new(move || {
                before.iter().for_each(|moment| moment.wait());
                let status = lock().error_of(context);
                let Callback { function: Some(function), stream, data } = callback else { return };
                // SAFETY: the program's function, with the argument that it asked for.
                as_host_function(|| unsafe { function(stream as CUstream, status, data as *mut c_void) });
            }));
            Ok(())
        })
    }
    fn cuLaunchHostFunc(stream: CUstream, function: CUhostFn, user_data: *mut c_void) {
        call(|m| {
            let operation = m.check_host(Host { function, data: user_data.addr() })?;
            let found = m.stream_of(stream.addr())?;
            m.record_or_enqueue(stream.addr(), &found, operation)
        })
    }
    fn cuStreamBeginCapture_v2(stream: CUstream, mode: c_uint) { call(|m| m.begin_capture(stream.addr(), mode)) }
    fn cuStreamBeginCaptureToGraph(stream: CUstream, graph: CUgraph, nodes: *const CUgraphNode, edges: *const CUgraphEdgeData, count: usize, mode: c_uint) {
        call(|m| {
            let after = after(m, nodes, edges, count)?;
            m.begin_capture_into(stream.addr(), graph.addr(), after, mode)
        })
    }
    fn cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph) {
        begin_to_end(stream.addr());
        call(|m| {
            m.is_ended_or_goes_on(stream.addr());
            let ended = m.end_capture(stream.addr());
            put(graph, ended.unwrap_or(0) as CUgraph);
            ended.map(|_| ())
        })
    }
    fn cuStreamIsCapturing(stream: CUstream, status: *mut c_uint) { give_first(status, |m| m.capture_status(stream.addr())) }
    fn cuStreamGetCaptureInfo_v2(stream: CUstream, status: *mut c_uint, id: *mut c_ulonglong, graph: *mut CUgraph, nodes: *mut *const CUgraphNode, count: *mut usize) {
        cuStreamGetCaptureInfo_v3(stream, status, id, graph, nodes, std::ptr::null_mut(), count)
    }
    fn cuStreamGetCaptureInfo_v3(stream: CUstream, status: *mut c_uint, id: *mut c_ulonglong, graph: *mut CUgraph, nodes: *mut *const CUgraphNode, edges: *mut *const CUgraphEdgeData, count: *mut usize) {
        give_first(status, |m| {
            let found = m.capture_status(stream.addr())?;
            let Some(info) = m.capture_info(stream.addr()) else { return Ok(found) };
            if nodes.is_null() && !edges.is_null() {
                put(status, found);
                return m.refuse(INVALID_VALUE, "what edges are like is told beside a list of the nodes");
            }
            if edges.is_null() && !nodes.is_null() {
                m.check_lossless(&info.tips)?;
            }
            let lists = m.shown(stream.addr(), &info.tips);
            put(id, info.id);
            put(graph, info.graph as CUgraph);
            let none = info.tips.is_empty();
            put(nodes, if none { std::ptr::null() } else { lists.0.as_ptr().cast::<CUgraphNode>() });
            put(edges, if none { std::ptr::null() } else { lists.1.as_ptr() });
            put(count, info.tips.len());
            Ok(found)
        })
    }
    fn cuStreamUpdateCaptureDependencies(stream: CUstream, nodes: *mut CUgraphNode, count: usize, flags: c_uint) {
        cuStreamUpdateCaptureDependencies_v2(stream, nodes, std::ptr::null(), count, flags)
    }
    fn cuStreamUpdateCaptureDependencies_v2(stream: CUstream, nodes: *mut CUgraphNode, edges: *const CUgraphEdgeData, count: usize, flags: c_uint) {
        call(|m| {
            m.is_captured(stream.addr())?;
            let after = after(m, nodes, edges, count)?;
            m.update_tips(stream.addr(), after, flags)
        })
    }
    fn cuThreadExchangeStreamCaptureMode(mode: *mut c_uint) {
        call(|m| {
            m.ready()?;
            if mode.is_null() {
                return m.misuse(INVALID_VALUE, "cuThreadExchangeStreamCaptureMode of NULL");
            }
            mode.write(m.exchange_capture_mode(mode.read()));
            Ok(())
        })
    }
}
