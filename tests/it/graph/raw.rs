//! Nodes whose parameters one function takes, whatever their type, and the attributes of kernel nodes.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::function::{module, read, stream};
use crate::harness::{current, pushed, run, skip, table};
use custack::device::DeviceAttribute;
use custack::driver::ffi::*;
use custack::error::CudaError;
use custack::function::LaunchConfig;
use custack::graph::{Graph, InstantiateFlags, NodeKind};
use custack::memory::DeviceBuffer;
use std::ptr::{null, null_mut};

const KERNEL: u32 = 0;
const FILL: u32 = 2;
const CHILD: u32 = 4;
const EMPTY: u32 = 5;
const ALLOCATE: u32 = 10;
const FREE: u32 = 11;
const BATCH: u32 = 12;

fn params<T: Copy>(kind: u32, of: T) -> CUgraphNodeParams {
    let mut all = CUgraphNodeParams { kind, reserved0: [0; 3], data: [0; 29], reserved2: 0 };
    assert!(size_of::<T>() <= 232);
    unsafe { all.data.as_mut_ptr().cast::<T>().write(of) };
    all
}

/// A fill as nodes of any type have it, with its context.
#[repr(C)]
#[derive(Clone, Copy)]
struct Fill {
    what: CUDA_MEMSET_NODE_PARAMS,
    context: CUcontext,
}

fn fill(to: u64, value: u32, width: usize) -> CUgraphNodeParams {
    let what = CUDA_MEMSET_NODE_PARAMS { dst: to, pitch: 0, value, elementSize: 4, width, height: 1 };
    // Memory of a graph does not say in which context it is filled.
    params(FILL, Fill { what, context: current() })
}

fn graph() -> CUgraph {
    let mut graph = null_mut();
    assert_eq!(unsafe { (table().cuGraphCreate)(&mut graph, 0) }, 0);
    graph
}

fn add(graph: CUgraph, after: &[CUgraphNode], params: &mut CUgraphNodeParams) -> (u32, CUgraphNode) {
    let mut node = null_mut();
    let add = table().cuGraphAddNode_v2;
    (unsafe { add(&mut node, graph, after.as_ptr(), null(), after.len(), params) }, node)
}

fn address<T>(buffer: &mut DeviceBuffer<T>) -> u64 {
    buffer.as_device_ptr().as_raw().addr() as u64
}

fn instantiate(graph: CUgraph) -> CUgraphExec {
    let mut exec = null_mut();
    assert_eq!(unsafe { (table().cuGraphInstantiateWithFlags)(&mut exec, graph, 0) }, 0);
    exec
}

fn launch(exec: CUgraphExec) {
    let stream = stream();
    assert_eq!(unsafe { (table().cuGraphLaunch)(exec, stream.as_raw()) }, 0);
    stream.synchronize().unwrap();
}

fn end(exec: CUgraphExec, graph: CUgraph) {
    assert_eq!(unsafe { (table().cuGraphExecDestroy)(exec) }, 0);
    assert_eq!(unsafe { (table().cuGraphDestroy)(graph) }, 0);
}

#[test]
fn one_function_adds_and_changes_nodes_of_any_type() {
    run(|| {
        let _ctx = pushed();
        let mut there = DeviceBuffer::from_slice(&[0u32; 8]).unwrap();
        let at = address(&mut there);
        let graph = graph();
        let (status, first) = add(graph, &[], &mut fill(at, 5, 8));
        assert_eq!(status, 0);
        let (status, empty) = add(graph, &[first], &mut params(EMPTY, ()));
        assert_eq!(status, 0);
        let mut write = [[2u64, at + 4, 9, 0, 0, 0]];
        #[repr(C)]
        #[derive(Clone, Copy)]
        struct Batch(CUcontext, u64, *mut [u64; 6], u64);
        let batch = Batch(current(), 1, write.as_mut_ptr(), 0);
        // Unlike other nodes it needs its context.
        assert_eq!(add(graph, &[empty], &mut params(BATCH, Batch(null_mut(), 1, batch.2, 0))).0, 1);
        assert_eq!(add(graph, &[empty], &mut params(BATCH, Batch(batch.0, 1, null_mut(), 0))).0, 1);
        assert_eq!(add(graph, &[empty], &mut params(BATCH, Batch(batch.0, 1, batch.2, 1))).0, 1);
        let (status, last) = add(graph, &[empty], &mut params(BATCH, batch));
        assert_eq!(status, 0);
        let kinds = [first, empty, last].map(|node| {
            let mut kind = 77;
            assert_eq!(unsafe { (table().cuGraphNodeGetType)(node, &mut kind) }, 0);
            kind
        });
        assert_eq!(kinds, [FILL, EMPTY, BATCH]);
        let exec = instantiate(graph);
        launch(exec);
        assert_eq!(read(&there), [5, 9, 5, 5, 5, 5, 5, 5]);

        let t = table();
        assert_eq!(unsafe { (t.cuGraphExecNodeSetParams)(exec, first, &mut fill(at, 6, 8)) }, 0);
        launch(exec);
        assert_eq!(read(&there), [6, 9, 6, 6, 6, 6, 6, 6]);
        assert_eq!(unsafe { (t.cuGraphNodeSetParams)(first, &mut fill(at, 7, 4)) }, 0);
        // Another type than the node's.
        assert_eq!(unsafe { (t.cuGraphNodeSetParams)(empty, &mut fill(at, 7, 4)) }, 1);
        assert_eq!(unsafe { (t.cuGraphExecNodeSetParams)(exec, last, &mut fill(at, 7, 4)) }, 1);
        let again = instantiate(graph);
        launch(again);
        assert_eq!(read(&there), [7, 9, 7, 7, 6, 6, 6, 6]);
        assert_eq!(unsafe { (t.cuGraphExecDestroy)(again) }, 0);
        end(exec, graph);
    });
}

#[test]
fn parameters_of_no_type_are_refused() {
    run(|| {
        let _ctx = pushed();
        let graph = graph();
        assert_eq!(add(graph, &[], &mut params(99, ())), (1, null_mut()));
        let mut odd = params(EMPTY, ());
        odd.reserved0[1] = 1;
        assert_eq!(add(graph, &[], &mut odd), (1, null_mut()));
        let t = table();
        let mut node = null_mut();
        assert_eq!(unsafe { (t.cuGraphAddNode_v2)(&mut node, graph, null(), null(), 0, null_mut()) }, 1);
        let mut empty = params(EMPTY, ());
        assert_eq!(unsafe { (t.cuGraphAddNode_v2)(null_mut(), graph, null(), null(), 0, &mut empty) }, 1);
        assert_eq!(unsafe { (t.cuGraphAddNode_v2)(&mut node, graph, null(), null(), 1, &mut empty) }, 1);
        assert_eq!(unsafe { (t.cuGraphAddNode_v2)(&mut node, null_mut(), null(), null(), 0, &mut empty) }, 1);
        assert_eq!(unsafe { (t.cuGraphDestroy)(graph) }, 0);
    });
}

#[test]
fn a_graph_is_added_as_a_child_and_memory_is_allocated_and_freed() {
    run(|| {
        let _ctx = pushed();
        let mut there = DeviceBuffer::from_slice(&[0u32; 4]).unwrap();
        let at = address(&mut there);
        let (child, parent) = (graph(), graph());
        assert_eq!(add(child, &[], &mut fill(at, 3, 4)).0, 0);
        let (status, node) = add(parent, &[], &mut params(CHILD, (child, 0u64)));
        assert_eq!(status, 0);
        let pool = CUmemPoolProps {
            allocType: 1,
            handleTypes: 0,
            location: CUmemLocation { kind: 1, id: 0 },
            win32SecurityAttributes: null_mut(),
            maxSize: 0,
            usage: 0,
            gpuDirectRDMACapable: 0,
            reserved: [0; 53],
        };
        let mut asked = params(
            ALLOCATE,
            CUDA_MEM_ALLOC_NODE_PARAMS {
                poolProps: pool,
                accessDescs: null(),
                accessDescCount: 0,
                bytesize: 4096,
                dptr: 0,
            },
        );
        let (status, allocated) = add(parent, &[node], &mut asked);
        assert_eq!(status, 0);
        let told = unsafe { asked.data.as_ptr().cast::<CUDA_MEM_ALLOC_NODE_PARAMS>().read() };
        assert_ne!(told.dptr, 0);
        let (status, filled) = add(parent, &[allocated], &mut fill(told.dptr, 8, 1024));
        assert_eq!(status, 0);
        assert_eq!(add(parent, &[filled], &mut params(FREE, told.dptr)).0, 0);
        let exec = instantiate(parent);
        launch(exec);
        assert_eq!(read(&there), [3; 4]);
        end(exec, parent);
        assert_eq!(unsafe { (table().cuGraphDestroy)(child) }, 0);
    });
}

#[test]
fn a_kernel_node_keeps_and_tells_its_attributes() {
    run(|| {
        let _ctx = pushed();
        let module = module();
        let mut function = null_mut();
        let name = c"trapped".as_ptr();
        let t = table();
        assert_eq!(unsafe { (t.cuModuleGetFunction)(&mut function, module.as_raw(), name) }, 0);
        let kernel = CUDA_KERNEL_NODE_PARAMS {
            func: function,
            gridDimX: 1,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: 1,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            kernelParams: null_mut(),
            extra: null_mut(),
            kern: null_mut(),
            ctx: null_mut(),
        };
        let graph = graph();
        let (status, a) = add(graph, &[], &mut params(KERNEL, kernel));
        assert_eq!(status, 0);
        let (status, b) = add(graph, &[], &mut params(KERNEL, kernel));
        assert_eq!(status, 0);
        // As long as any value of an attribute.
        let get = |node, which| {
            let mut value = [0u32; 16];
            let to = value.as_mut_ptr().cast();
            (unsafe { (t.cuGraphKernelNodeGetAttribute)(node, which, to) }, value[0])
        };
        let set = |node, which, value: u32| {
            let mut all = [0u32; 16];
            all[0] = value;
            unsafe { (t.cuGraphKernelNodeSetAttribute)(node, which, all.as_ptr().cast()) }
        };
        const COOPERATIVE: u32 = 2;
        assert_eq!(get(a, COOPERATIVE), (0, 0));
        assert_eq!((set(a, COOPERATIVE, 1), get(a, COOPERATIVE)), (0, (0, 1)));
        assert_eq!(get(b, COOPERATIVE), (0, 0));
        assert_eq!(unsafe { (t.cuGraphKernelNodeCopyAttributes)(b, a) }, 0);
        assert_eq!(get(b, COOPERATIVE), (0, 1));
        // Other parameters leave them as they are.
        assert_eq!(unsafe { (t.cuGraphKernelNodeSetParams_v2)(b, &kernel) }, 0);
        assert_eq!(get(b, COOPERATIVE), (0, 1));
        assert_eq!((set(a, 0x7777, 1), get(a, 0x7777).0), (1, 1));
        let (status, empty) = add(graph, &[], &mut params(EMPTY, ()));
        assert_eq!((status, get(empty, COOPERATIVE).0), (0, 1));
        assert_eq!(unsafe { (t.cuGraphDestroy)(graph) }, 0);
    });
}

/// The first words of an attribute of a kernel node.
fn attribute(node: CUgraphNode, id: u32) -> [u32; 3] {
    let mut value = [0u32; 16];
    let get = table().cuGraphKernelNodeGetAttribute;
    assert_eq!(unsafe { get(node, id, value.as_mut_ptr().cast()) }, 0, "attribute {id}");
    [value[0], value[1], value[2]]
}

#[test]
fn nodes_of_other_code_without_a_name_here_are_told_by_number_and_refuse_what_is_not_theirs() {
    const CONDITIONAL: u32 = 13;
    run(|| {
        let ctx = pushed();
        let there = DeviceBuffer::from_slice(&[0u32; 2]).unwrap();
        let mut graph = Graph::new(&ctx).unwrap();
        let mut write = [[2u64, there.as_ptr().addr() as u64, 9, 0, 0, 0]];
        #[repr(C)]
        #[derive(Clone, Copy)]
        struct Batch(CUcontext, u64, *mut [u64; 6], u64);
        let batch = Batch(current(), 1, write.as_mut_ptr(), 0);
        assert_eq!(add(graph.as_raw(), &[], &mut params(BATCH, batch)).0, 0);
        if crate::harness::is_simulated() {
            assert_eq!(add(graph.as_raw(), &[], &mut params(CONDITIONAL, [0u64; 8])).0, 801);
        }
        let nodes = graph.nodes().unwrap();
        assert_eq!((nodes.len(), graph.kind(nodes[0])), (1, Ok(NodeKind::Other(BATCH))));
        assert_eq!(graph.kernel(nodes[0]).unwrap_err(), CudaError::InvalidValue);
        assert_eq!(graph.copy(nodes[0]).unwrap_err(), CudaError::InvalidValue);
        assert_eq!(graph.fill(nodes[0]).unwrap_err(), CudaError::InvalidValue);
        let mut clone = graph.try_clone().unwrap();
        let copied = graph.node_in_clone(nodes[0], &mut clone).unwrap();
        assert_eq!(clone.kind(copied), Ok(NodeKind::Other(BATCH)));
        let stream = stream();
        clone.instantiate(InstantiateFlags::empty()).unwrap().launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(read(&there), [9, 0]);
    });
}

#[test]
fn a_kernel_node_launches_as_its_configuration_says() {
    run(|| {
        let ctx = pushed();
        if ctx.device().unwrap().get_attribute(DeviceAttribute::ComputeCapabilityMajor).unwrap() < 9 {
            return skip("a_kernel_node_launches_as_its_configuration_says", "the device has no clusters");
        }
        let (module, stream) = (module(), stream());
        let collatz = module.get_function(c"collatz").unwrap();
        let number = DeviceBuffer::from_slice(&[27u32; 4]).unwrap();
        let (at, count) = (number.as_ptr(), 4u32);
        let args = [(&raw const at).cast_mut().cast(), (&raw const count).cast_mut().cast()];
        let mut graph = Graph::new(&ctx).unwrap();
        let only = |graph: &mut Graph| {
            let (mut node, mut nodes) = (null_mut(), 1);
            assert_eq!(unsafe { (table().cuGraphGetNodes)(graph.as_raw(), &mut node, &mut nodes) }, 0);
            node
        };
        let config = LaunchConfig::new(4, 1).cluster(2).cooperative(true).priority(-1);
        let node = unsafe { graph.add_kernel_configured(&[], &collatz, &config, &args, ()) }.unwrap();
        let raw = only(&mut graph);
        assert_eq!(attribute(raw, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION), [2, 1, 1]);
        assert_eq!(attribute(raw, CU_LAUNCH_ATTRIBUTE_COOPERATIVE)[0], 1);
        assert_eq!(attribute(raw, CU_LAUNCH_ATTRIBUTE_PRIORITY)[0], -1i32 as u32);
        let config = LaunchConfig::new(4, 1).cluster(4);
        unsafe { graph.set_kernel_configured(node, &collatz, &config, &args, ()) }.unwrap();
        assert_eq!(attribute(raw, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION), [4, 1, 1]);
        assert_eq!(attribute(raw, CU_LAUNCH_ATTRIBUTE_PRIORITY)[0], -1i32 as u32, "as it was");
        for (config, error) in [
            (LaunchConfig::new(4, 1).cluster(3), CudaError::InvalidClusterSize),
            (LaunchConfig::new(4, 1).programmatic_serialization(true), CudaError::NotSupported),
            (LaunchConfig::new(0, 1), CudaError::InvalidValue),
        ] {
            let added = unsafe { graph.add_kernel_configured(&[], &collatz, &config, &args, ()) };
            assert_eq!(added, Err(error), "{config:?}");
        }
        assert_eq!(graph.nodes().unwrap(), [node]);
        graph.instantiate(InstantiateFlags::USE_NODE_PRIORITY).unwrap().launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(read(&number), [111; 4]);
    });
}
