//! Kernels: what is asked before they are launched, and their nodes in graphs.

use super::capture::{memory, stream};
use super::graph::{bench, destroy, graph};
use crate::child::child_succeeds;
use crate::harness::{drain, other, run};
use custack_sys::ffi::*;
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;

const CODE: &CStr = c".version 7.0 .target sm_70 .address_size 64 .visible .entry nothing() { ret; }";
const COOPERATIVE: u32 = 2;
const CLUSTER: u32 = 4;
const SCHEDULING: u32 = 5;
const PRIORITY: u32 = 8;
const MEM_SYNC_DOMAIN: u32 = 10;
const CARVEOUT: u32 = 14;

fn function() -> CUfunction {
    let (mut module, mut function) = (null_mut(), null_mut());
    assert_eq!(call!(cuModuleLoadData(&mut module, CODE.as_ptr().cast())), 0);
    assert_eq!(call!(cuModuleGetFunction(&mut function, module, c"nothing".as_ptr())), 0);
    function
}

fn kernel() -> CUkernel {
    let (mut library, mut kernel, none) = (null_mut(), null_mut(), null_mut());
    let code = CODE.as_ptr().cast();
    let loaded = call!(cuLibraryLoadData(&mut library, code, none, null_mut(), 0, null_mut(), null_mut(), 0));
    assert_eq!(loaded, 0);
    assert_eq!(call!(cuLibraryGetKernel(&mut kernel, library, c"nothing".as_ptr())), 0);
    kernel
}

fn config(grid: u32, stream: CUstream, attributes: &mut [CUlaunchAttribute]) -> CUlaunchConfig {
    CUlaunchConfig {
        gridDimX: grid,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: 32,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: 0,
        hStream: stream,
        attrs: attributes.as_mut_ptr(),
        numAttrs: attributes.len() as u32,
    }
}

fn with(id: u32, value: [u32; 3]) -> CUlaunchAttribute {
    let mut all = [0; 16];
    all[..3].copy_from_slice(&value);
    CUlaunchAttribute { id, pad: [0; 4], value: all }
}

#[test]
fn clusters_are_counted_in_the_context_of_the_stream() {
    run(|| {
        let context = other::create();
        let (function, kernel, stream) = (function(), kernel().cast(), stream(1));
        let ask = |function, grid, stream, attributes: &mut [CUlaunchAttribute]| {
            let config = config(grid, stream, attributes);
            let mut clusters = 77;
            (call!(cuOccupancyMaxActiveClusters(&mut clusters, function, &config)), clusters)
        };
        let most = |function, stream| {
            let mut size = 77;
            (
                call!(cuOccupancyMaxPotentialClusterSize(&mut size, function, &config(2, stream, &mut []))),
                size,
            )
        };
        assert_eq!((ask(kernel, 2, stream, &mut []), most(kernel, stream)), ((0, 0), (0, 8)));
        assert_eq!(ask(function, 0, stream, &mut [with(CLUSTER, [16, 1, 1])]), (1, 77), "no grid");
        assert_eq!(ask(function, 2, stream, &mut [with(CLUSTER, [16, 1, 1])]), (912, 77));
        let second = other::create();
        assert_eq!((ask(kernel, 2, stream, &mut []), most(kernel, stream)), ((0, 0), (0, 8)));
        for wrong in [with(77, [1, 0, 0]), with(CLUSTER, [0, 1, 1])] {
            assert_eq!(ask(function, 2, null_mut(), &mut [wrong]), (400, 77), "said of the function first");
        }
        assert_eq!(drain(), [second, context]);
        assert_eq!(ask(kernel, 2, stream, &mut []), (0, 0));
        for wrong in [with(77, [1, 0, 0]), with(CLUSTER, [0, 1, 1])] {
            assert_eq!(ask(function, 2, null_mut(), &mut [wrong]), (201, 77), "said of the context first");
        }
        other::destroy(second);
        other::destroy(context);
    });
}

#[test]
fn a_load_and_a_linker_need_a_context_before_a_place() {
    run(|| {
        drain();
        let (code, none) = (CODE.as_ptr().cast(), null_mut());
        let load = || call!(cuModuleLoadDataEx(null_mut(), code, 0, none, null_mut()));
        let link = || call!(cuLinkCreate_v2(0, none, null_mut(), null_mut()));
        assert_eq!((load(), link()), (201, 201));
        let context = other::create();
        assert_eq!((load(), link()), (1, 1));
        other::destroy(context);
    });
}

fn kernel_params(function: CUfunction, grid: u32) -> CUDA_KERNEL_NODE_PARAMS {
    CUDA_KERNEL_NODE_PARAMS {
        func: function,
        gridDimX: grid,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: 32,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: 0,
        kernelParams: null_mut(),
        extra: null_mut(),
        kern: null_mut(),
        ctx: null_mut(),
    }
}

fn add(graph: CUgraph, function: CUfunction, grid: u32) -> CUgraphNode {
    let mut node = null_mut();
    assert_eq!(
        call!(cuGraphAddKernelNode_v2(&mut node, graph, null_mut(), 0, &kernel_params(function, grid))),
        0
    );
    node
}

fn set(node: CUgraphNode, id: u32, value: [u32; 3]) -> u32 {
    let attribute = with(id, value);
    call!(cuGraphKernelNodeSetAttribute(node, id, (&raw const attribute.value).cast()))
}

fn get(node: CUgraphNode, id: u32) -> (u32, u32) {
    let mut value = [77; 16];
    (call!(cuGraphKernelNodeGetAttribute(node, id, value.as_mut_ptr().cast())), value[0])
}

fn update(executable: CUgraphExec, graph: CUgraph) -> (u32, u32) {
    let mut info =
        CUgraphExecUpdateResultInfo { result: 77, errorNode: null_mut(), errorFromNode: null_mut() };
    (call!(cuGraphExecUpdate_v2(executable, graph, &mut info)), info.result)
}

fn instantiate(graph: CUgraph) -> CUgraphExec {
    let mut executable = null_mut();
    assert_eq!(call!(cuGraphInstantiateWithFlags(&mut executable, graph, 0)), 0);
    executable
}

#[test]
fn the_clusters_of_a_node_divide_its_grid() {
    bench(|| {
        let (graph, function) = (graph(), function());
        let node = add(graph, function, 4);
        let sizes = [[1, 1, 1], [2, 1, 1], [4, 1, 1], [3, 1, 1], [8, 1, 1], [1, 2, 1], [1, 0, 1]];
        assert_eq!(sizes.map(|size| set(node, CLUSTER, size)), [0, 0, 0, 912, 912, 912, 912]);
        destroy(graph);
    });
}

#[test]
fn the_grid_of_a_node_consists_of_its_clusters_and_that_of_an_executable_of_those_it_was_made_with() {
    bench(|| {
        let (graph, function) = (graph(), function());
        let (node, other) = (add(graph, function, 4), add(graph, function, 3));
        assert_eq!(set(node, CLUSTER, [2, 1, 1]), 0);
        let executable = instantiate(graph);
        assert_eq!(set(node, CLUSTER, [4, 1, 1]), 0);
        let grids = [8, 4, 2, 1, 3, 0];
        let change = |grid| call!(cuGraphKernelNodeSetParams_v2(node, &kernel_params(function, grid)));
        let change_executable =
            |it| call!(cuGraphExecKernelNodeSetParams_v2(executable, node, &kernel_params(function, it)));
        assert_eq!(grids.map(change), [0, 0, 912, 912, 912, 1]);
        assert_eq!(grids.map(change_executable), [0, 0, 0, 912, 912, 1]);
        // Clusters are told apart from too much shared memory first, and from too many threads last.
        let too_much = |grid, threads, shared| {
            let mut params = kernel_params(function, grid);
            (params.blockDimX, params.sharedMemBytes) = (threads, shared);
            call!(cuGraphExecKernelNodeSetParams_v2(executable, node, &params))
        };
        assert_eq!([too_much(1, 1, 49_153), too_much(2, 1, 49_153), too_much(1, 1025, 0)], [912, 1, 1]);
        assert_eq!((call!(cuGraphKernelNodeCopyAttributes(other, node)), get(other, CLUSTER)), (1, (0, 0)));
        assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
        destroy(graph);
    });
}

#[test]
fn an_executable_stays_cooperative_or_not() {
    bench(|| {
        let (graph, function) = (graph(), function());
        let node = add(graph, function, 1);
        let executable = instantiate(graph);
        assert_eq!((set(node, COOPERATIVE, [1, 0, 0]), update(executable, graph)), (0, (910, 8)));
        assert_eq!(get(node, SCHEDULING), (0, 0));
        assert_eq!((set(node, COOPERATIVE, [0; 3]), update(executable, graph)), (0, (0, 0)));
        assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
        destroy(graph);
    });
}

#[test]
fn the_clusters_of_a_captured_launch_are_spread() {
    bench(|| {
        let (function, stream) = (function(), stream(1));
        for cooperative in [0, 1] {
            let (mut graph, mut node, mut one) = (null_mut(), null_mut(), 1);
            assert_eq!(call!(cuStreamBeginCapture_v2(stream, 2)), 0);
            let mut attributes = [with(COOPERATIVE, [1, 0, 0])];
            let config = config(1, stream, &mut attributes[..cooperative as usize]);
            assert_eq!(call!(cuLaunchKernelEx(&config, function, null_mut(), null_mut())), 0);
            assert_eq!(call!(cuStreamEndCapture(stream, &mut graph)), 0);
            assert_eq!(call!(cuGraphGetNodes(graph, &mut node, &mut one)), 0);
            assert_eq!((get(node, COOPERATIVE), get(node, SCHEDULING)), ((0, cooperative), (0, 1)));
            destroy(graph);
        }
        let graph = graph();
        assert_eq!(get(add(graph, function, 1), SCHEDULING), (0, 0), "of a node that was made by hand");
        destroy(graph);
    });
}

#[test]
fn a_captured_launch_keeps_what_its_configuration_says() {
    bench(|| {
        let (function, stream) = (function(), stream(1));
        for (attribute, value, kept) in [
            (PRIORITY, -5, -5),
            (PRIORITY, -3, -3),
            (PRIORITY, -77, -5),
            (PRIORITY, 0, 0),
            (MEM_SYNC_DOMAIN, 1, 1),
            (CARVEOUT, 50, 50),
        ] {
            let (mut graph, mut node, mut one) = (null_mut(), null_mut(), 1);
            assert_eq!(call!(cuStreamBeginCapture_v2(stream, 2)), 0);
            let mut attributes = [with(attribute, [value as u32, 0, 0])];
            let config = config(1, stream, &mut attributes);
            assert_eq!(call!(cuLaunchKernelEx(&config, function, null_mut(), null_mut())), 0);
            assert_eq!(call!(cuStreamEndCapture(stream, &mut graph)), 0);
            assert_eq!(call!(cuGraphGetNodes(graph, &mut node, &mut one)), 0);
            assert_eq!(get(node, attribute), (0, kept as u32), "{attribute} {value}");
            destroy(graph);
        }
    });
}

#[test]
fn clusters_of_no_blocks_are_refused_before_the_block_where_a_stream_captures() {
    bench(|| {
        let (function, stream) = (function(), stream(1));
        let launch = |size| {
            let mut attributes = [with(CLUSTER, [size, 1, 1])];
            let config = CUlaunchConfig { blockDimX: 0, ..config(1, stream, &mut attributes) };
            call!(cuLaunchKernelEx(&config, function, null_mut(), null_mut()))
        };
        assert_eq!(launch(0), 1);
        assert_eq!(call!(cuStreamBeginCapture_v2(stream, 2)), 0);
        let mut capturing = 9;
        assert_eq!((launch(0), call!(cuStreamIsCapturing(stream, &mut capturing)), capturing), (912, 0, 1));
        assert_eq!((launch(1), call!(cuStreamIsCapturing(stream, &mut capturing)), capturing), (1, 0, 2));
        let mut graph = null_mut();
        assert_eq!(call!(cuStreamEndCapture(stream, &mut graph)), 901);
    });
}

/// Operations on values in memory, as the driver takes them: the kind, the address, the value and the flags.
type Step = [u64; 6];

const FLUSH: u64 = 3;

fn write(at: u64) -> Step {
    [2, at, 9, 0, 0, 0]
}

fn wait(at: u64) -> Step {
    [1, at, 9, 0, 0, 0]
}

#[repr(C)]
struct Params {
    kind: u32,
    reserved: [u32; 3],
    context: CUcontext,
    count: u64,
    steps: *mut Step,
    flags: u64,
    rest: [u64; 28],
}

fn params(context: CUcontext, steps: &mut [Step]) -> Params {
    let (count, steps) = (steps.len() as u64, steps.as_mut_ptr());
    Params { kind: 12, reserved: [0; 3], context, count, steps, flags: 0, rest: [0; 28] }
}

fn add_steps(graph: CUgraph, after: &[CUgraphNode], steps: &mut [Step]) -> (u32, CUgraphNode) {
    let mut params = params(crate::harness::current(), steps);
    let (mut node, list) = (null_mut(), after.as_ptr());
    let params = (&raw mut params).cast::<c_void>().cast();
    let status = call!(cuGraphAddNode_v2(&mut node, graph, list, std::ptr::null(), after.len(), params));
    (status, node)
}

#[test]
fn the_operations_of_a_node_are_looked_at_before_it_is_asked_what_comes_twice() {
    bench(|| {
        let (graph, at) = (graph(), memory(64));
        let (status, first) = add_steps(graph, &[], &mut [write(at)]);
        assert_eq!(status, 0);
        let flush = [[FLUSH, 0, 0, 0, 0, 0]];
        let with = |after: &[CUgraphNode]| add_steps(graph, after, &mut flush.clone()).0;
        assert_eq!([with(&[first]), with(&[first, first]), with(&[null_mut()])], [801, 801, 1]);
        assert_eq!(add_steps(graph, &[first, first], &mut [write(at)]).0, 1);
        destroy(graph);
    });
}

#[test]
fn the_operations_of_a_node_name_their_context() {
    bench(|| {
        let (graph, at, here) = (graph(), memory(64), crate::harness::current());
        let (_, node) = add_steps(graph, &[], &mut [write(at), wait(at)]);
        let executable = instantiate(graph);
        let answers = [here, null_mut()].map(|context| {
            let mut steps = [write(at + 4), wait(at)];
            let mut params = params(context, &mut steps);
            let params = (&raw mut params).cast::<c_void>().cast();
            (
                call!(cuGraphNodeSetParams(node, params)),
                call!(cuGraphExecNodeSetParams(executable, node, params)),
            )
        });
        assert_eq!(answers, [(0, 0), (1, 1)]);
        assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
        destroy(graph);
    });
}

#[test]
fn an_executable_keeps_the_kinds_of_its_operations() {
    bench(|| {
        let (a, at) = (graph(), memory(64));
        add_steps(a, &[], &mut [write(at), wait(at)]);
        let executable = instantiate(a);
        let others = [vec![write(at + 4), wait(at)], vec![write(at)], vec![wait(at), write(at)]];
        let answers = others.map(|mut steps| {
            let b = graph();
            assert_eq!(add_steps(b, &[], &mut steps).0, 0);
            let answer = update(executable, b);
            destroy(b);
            answer
        });
        assert_eq!(answers, [(0, 0), (910, 5), (910, 5)]);
        assert_eq!(call!(cuGraphExecDestroy(executable)), 0);
        destroy(a);
    });
}

#[test]
fn attributes_are_copied_between_kernels_of_one_context() {
    run(|| {
        let contexts = [other::create(), other::create()];
        let [elsewhere, here] = [0, 1].map(|at| {
            other::push(contexts[at]);
            let functions = [function(), function()];
            assert_eq!(other::pop(), Ok(contexts[at]));
            functions
        });
        let graph = graph();
        let node = |function| add(graph, function, 1);
        let ([a, b], far) = (here.map(node), node(elsewhere[0]));
        assert_eq!([(a, 5), (far, 7)].map(|(node, value)| set(node, CARVEOUT, [value, 0, 0])), [0, 0]);
        let copy = |to, from| call!(cuGraphKernelNodeCopyAttributes(to, from));
        assert_eq!([copy(b, a), copy(far, a), copy(b, far), copy(a, a)], [0, 1, 1, 0]);
        assert_eq!([a, b, far].map(|node| get(node, CARVEOUT)), [(0, 5), (0, 5), (0, 7)]);
        destroy(graph);
        assert_eq!(drain(), [contexts[1], contexts[0]]);
        contexts.into_iter().for_each(other::destroy);
    });
}

#[test]
fn a_capture_takes_a_value_for_managed_memory() {
    bench(|| {
        let (stream, mut graph, mut at) = (stream(1), null_mut(), 0);
        assert_eq!(call!(cuMemAllocManaged(&mut at, 64, 1)), 0);
        assert_eq!(call!(cuStreamWriteValue32_v2(stream, at, 9, 0)), 1);
        assert_eq!(call!(cuStreamBeginCapture_v2(stream, 2)), 0);
        assert_eq!(call!(cuStreamWriteValue32_v2(stream, at, 9, 0)), 0);
        assert_eq!(call!(cuStreamEndCapture(stream, &mut graph)), 0);
        destroy(graph);
        assert_eq!(call!(cuMemFree_v2(at)), 0);
    });
}

#[test]
fn no_memory_and_no_device_are_told_apart_before_memory_that_is_not_managed() {
    bench(|| {
        let (stream, mut at) = (stream(1), 0);
        assert_eq!(call!(cuMemAllocAsync(&mut at, 256, stream)), 0);
        let prefetch = |at, device| call!(cuMemPrefetchAsync(at, 256, device, stream));
        assert_eq!([prefetch(0, 99), prefetch(at, 99), prefetch(at, 0)], [1, 101, 1]);
        let advise = |what, device| call!(cuMemAdvise(at, 256, what, device));
        assert_eq!([3, 5, 6].map(|what| advise(what, 99)), [101; 3]);
        assert_eq!([2, 4].map(|what| advise(what, 99)), [1; 2]);
        assert_eq!([3, 5, 6].map(|what| advise(what, 0)), [1; 3]);
        assert_eq!(call!(cuMemFreeAsync(at, stream)), 0);
        assert_eq!(call!(cuStreamSynchronize(stream)), 0);
    });
}

/// The body of a child process: what the launch of a kernel that fails answers, in each way to launch it, and the next call.
pub(crate) fn failing_launches() {
    let text = c".version 7.0 .target sm_70 .address_size 64 .visible .entry fails() {
        .reg .b64 %a; mov.b64 %a, 64; st.global.b64 [%a], %a; ret; }";
    let ctx = other::create();
    let (mut module, mut function, none) = (null_mut(), null_mut(), null_mut());
    assert_eq!(call!(cuModuleLoadData(&mut module, text.as_ptr().cast())), 0);
    assert_eq!(call!(cuModuleGetFunction(&mut function, module, c"fails".as_ptr())), 0);
    let (s, good) = (stream(1), self::function());
    let launch =
        |function, stream| call!(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, none, null_mut()));
    // What is captured waits for nothing.
    let mut captured = null_mut();
    assert_eq!(call!(cuStreamBeginCapture_v2(s, 1)), 0);
    assert_eq!((launch(function, s), call!(cuStreamEndCapture(s, &mut captured))), (0, 0));
    destroy(captured);
    assert_eq!((launch(good, s), launch(good, null_mut())), (0, 0));
    if std::env::var("CUDA_LAUNCH_BLOCKING").is_ok_and(|blocks| blocks == "1") {
        assert_eq!((call!(cuStreamQuery(s)), call!(cuStreamQuery(null_mut()))), (0, 0), "they are done");
    }
    let way = std::env::var("CUSTACK_TEST_WAY").unwrap();
    let first = match &*way {
        "plain" => launch(function, s),
        "default stream" => launch(function, null_mut()),
        "cooperative" => call!(cuLaunchCooperativeKernel(function, 1, 1, 1, 32, 1, 1, 0, s, none)),
        _ => call!(cuLaunchKernelEx(&config(1, s, &mut []), function, none, null_mut())),
    };
    println!("{way}: {first}, then {}", call!(cuCtxSynchronize()));
    other::pop().unwrap();
    assert!(!ctx.is_null());
}

#[test]
fn the_environment_has_a_launch_wait_for_its_kernel_and_return_its_error() {
    for way in ["plain", "default stream", "cooperative", "with a configuration"] {
        for (blocks, first) in [("1", 700), ("0", 0)] {
            let variables = [("CUDA_LAUNCH_BLOCKING", blocks), ("CUSTACK_TEST_WAY", way)];
            let text = child_succeeds("failing launches", &variables);
            assert!(text.contains(&format!("{way}: {first}, then 700")), "{blocks}: {text}");
        }
    }
}
