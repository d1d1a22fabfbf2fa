//! The functions of the language: one line each, with how often it is tried and what its arguments are. The generator
//! makes arguments from it, and the player hands them to the driver and reads what came back.

use super::language::Kind::{self, *};
use custack_sys::Table;

/// What an argument is.
#[derive(Debug, Clone, Copy)]
#[allow(dead_code, reason = "the words of a table may be more than its lines need")]
pub(super) enum Param {
    /// An object, or null.
    In(Kind),
    /// A stream that the trace has made: what stays with the others would reach the next trace.
    OwnStream,
    /// A place for an object that is made or found.
    New(Kind),
    /// A place for an object that is told by the name of its slot.
    Which(Kind),
    /// One of these numbers.
    Pick(&'static [u64]),
    /// A list of nodes that are read.
    Nodes,
    /// How many the list before it has.
    Count,
    /// A list of places for nodes, which then take slots.
    NewNodes,
    /// A place for the address of a list of nodes, whose length is in the next argument.
    NodesAt,
    /// A place for the address of a list of edges.
    EdgesAt,
    /// A place with the length of the lists before it, in which the driver leaves theirs.
    Length,
    /// A list of what edges are like.
    Edges,
    /// A list of places for what edges are like.
    NewEdges,
    /// A place for a number of this width in bits.
    Out(u32),
    /// The same for a number that is read, too.
    InOut(u32, &'static [u64]),
    /// A place for an id. Ids are compared by the order in which they first occur.
    Id,
    /// A place for what is not compared.
    Time,
    /// The function that the driver calls, or null.
    HostFn,
    /// What it is called with: how much it counts for.
    Data,
    /// The function that is called when an object is let go.
    DropFn,
    /// The function that a stream calls.
    Callback,
    /// Where to fill with bytes: all fills write the same.
    Fill,
    /// Where to copy to, and the next is where from.
    To,
    From,
    HostTo,
    HostFrom,
    /// Where kernels add.
    Add,
    /// The arguments of a kernel, as a list of where to add and how much.
    Arguments,
    /// The name of a kernel or variable.
    Name,
    /// A module's image by name.
    Image,
    KernelParams,
    KernelParamsOut,
    CopyParams,
    CopyParamsOut,
    FillParams,
    FillParamsOut,
    HostParams,
    HostParamsOut,
    AllocParams,
    AllocParamsOut,
    PoolProps,
    UpdateInfo,
    InstantiateParams,
    Location,
    Access,
    Nothing,
    /// The place for one number of so many bits, which a driver needs.
    Needed(u32),
    /// A place of which only is told whether something was written there.
    Sink,
    /// A place for the address of a name.
    NameOut,
    /// A place for a descriptor, which is closed.
    Descriptor,
    /// As `To` and `From`, for functions that find out by the address where it is.
    AnyTo,
    AnyFrom,
    /// Rows from one place to another.
    Rows,
    /// An address whose contents never change, a value of so many bits for which a stream does not wait there, and the
    /// condition that is fulfilled.
    Awaited(u32),
    AwaitedValue(u32),
    Condition,
    /// How many operations of a batch there are, and the list of them.
    OperationCount,
    Operations,
    /// How many bytes the image before it has.
    ImageLength,
    /// How many options of the compiler there are, their numbers and their values.
    OptionCount,
    OptionNumbers,
    OptionValues,
    /// Grid, block, shared memory, stream, and pairs of an attribute and its value.
    Config,
    /// The type of a node and what it is to do.
    NodeParams,
    /// The value of a kernel node's attribute.
    AttributeValue,
    AttributeOut,
    /// The name of a file.
    Path,
    /// A device, as the place of a pool.
    DeviceLocation,
}
use Param::*;

/// Where in the list of a launch's configuration its stream stands.
pub(super) const STREAM_OF_CONFIG: usize = 3;

pub(super) struct Function {
    pub(super) name: &'static str,
    pub(super) weight: usize,
    pub(super) params: &'static [Param],
    /// Calls it in a table with these words.
    pub(super) call: fn(&Table, &[u64]) -> u32,
}

pub(super) fn find(name: &str) -> Option<usize> {
    FUNCTIONS.iter().position(|function| function.name == name)
}

/// What a C function takes, made from 64 bits.
trait Word {
    fn of(word: u64) -> Self;
}

macro_rules! words {
    ($($ty:ty),*) => { $(impl Word for $ty { fn of(word: u64) -> $ty { word as $ty } })* };
}
words!(u8, u16, u32, i32, u64, usize);

impl<T> Word for *mut T {
    fn of(word: u64) -> *mut T {
        word as *mut T
    }
}

impl<T> Word for *const T {
    fn of(word: u64) -> *const T {
        word as *const T
    }
}

impl Word for Option<unsafe extern "C" fn(*mut std::ffi::c_void)> {
    fn of(word: u64) -> Self {
        // SAFETY: the player hands in the address of such a function, or 0.
        unsafe { std::mem::transmute(word as usize) }
    }
}

impl Word for Option<unsafe extern "C" fn(i32) -> usize> {
    fn of(_: u64) -> Self {
        None
    }
}

impl<S> Word for Option<unsafe extern "C" fn(*mut S, u32, *mut std::ffi::c_void)> {
    fn of(word: u64) -> Self {
        // SAFETY: as above.
        unsafe { std::mem::transmute(word as usize) }
    }
}

macro_rules! functions {
    ($($weight:literal fn $name:ident($($param:expr),*);)*) => {
        pub(super) const FUNCTIONS: &[Function] = &[
            $(Function {
                name: stringify!($name),
                weight: $weight,
                params: &[$($param),*],
                call: functions!(@ $name($($param),*)),
            }),*
        ];
    };
    (@ $name:ident($($param:expr),*)) => {
        |table, words| {
            let mut words = words.iter();
            let _ = &mut words;
            // SAFETY: each word is an argument as its line says; pointers are to the player's places.
            unsafe { (table.$name)($({ let _ = $param; Word::of(*words.next().expect("an argument")) }),*) }
        }
    };
}

const DEVICE: Param = Pick(&[0, 0, 0, 0, 0, 0, 0, 99, u32::MAX as u64]);
const ATTRIBUTE: Param = Pick(&[0, 1, 3, 8, 9, 9, 77]);
const ZERO: Param = Pick(&[0]);
const SIZE: Param = Pick(&[64, 256, 256, 512, 4096, 0]);
const BYTES: Param = Pick(&[1, 4, 8, 8, 16, 32, 0]);
const ELEMENTS: Param = Pick(&[1, 2, 4, 8, 0]);
const MODE: Param = Pick(&[0, 1, 2, 0, 2, 3]);
const BYTE: Param = Pick(&[0xc3]);
const GRID: Param = Pick(&[1, 1, 1, 1, 1, 1, 2, 2, 0]);
const BLOCK: Param = Pick(&[1, 1, 32, 32, 32, 33, 1024, 1025, 0]);
const ONE: Param = Pick(&[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 2]);
const KERNEL_ATTRIBUTE: Param = Pick(&[2, 4, 5, 8, 14, 8, 10, 3, 6, 77]);
const WRITE_FLAGS: Param = Pick(&[0, 0, 1, 2]);
const CONFIG_FLAGS: Param = Pick(&[0, 0, 1, 2]);
const SHARED: Param = Pick(&[0, 0, 0, 0, 0, 0, 16, 49152, 49153]);

functions! {
    // Contexts.
    4 fn cuCtxPushCurrent_v2(In(Context));
    4 fn cuCtxPopCurrent_v2(Which(Context));
    6 fn cuCtxSetCurrent(In(Context));
    2 fn cuCtxSynchronize();
    2 fn cuCtxSynchronize_v2(In(Context));
    2 fn cuCtxRecordEvent(In(Context), In(Event));
    2 fn cuCtxWaitEvent(In(Context), In(Event));

    // Streams.
    10 fn cuStreamCreate(New(Stream), Pick(&[0, 0, 1, 1, 1, 2]));
    3 fn cuStreamCreateWithPriority(New(Stream), Pick(&[0, 1, 2]), Pick(&[0, 0, -1i32 as u32 as u64, -5i32 as u32 as u64, -9i32 as u32 as u64, 3]));
    4 fn cuStreamDestroy_v2(In(Stream));
    4 fn cuStreamQuery(In(Stream));
    4 fn cuStreamSynchronize(In(Stream));
    2 fn cuStreamGetFlags(In(Stream), Out(32));
    2 fn cuStreamGetPriority(In(Stream), Out(32));
    2 fn cuStreamGetId(In(Stream), Id);
    2 fn cuStreamGetCtx(In(Stream), Which(Context));
    1 fn cuStreamGetCtx_v2(In(Stream), Which(Context), Out(64));
    1 fn cuStreamGetGreenCtx(In(Stream), Out(64));
    1 fn cuStreamGetDevice(In(Stream), Out(32));
    1 fn cuStreamCopyAttributes(OwnStream, In(Stream));
    1 fn cuStreamGetAttribute(In(Stream), Pick(&[3, 8, 10, 0, 77]), Out(32));
    1 fn cuStreamSetAttribute(OwnStream, Pick(&[3, 8, 10, 0, 77]), InOut(32, &[0, 1, 2, 3, 4, 5, -3i32 as u32 as u64]));
    12 fn cuStreamWaitEvent(In(Stream), In(Event), Pick(&[0, 0, 0, 0, 1, 2]));
    2 fn cuStreamAddCallback(In(Stream), Callback, Data, Pick(&[0, 0, 0, 1]));
    6 fn cuLaunchHostFunc(In(Stream), HostFn, Data);
    10 fn cuStreamBeginCapture_v2(In(Stream), MODE);
    3 fn cuStreamBeginCaptureToGraph(In(Stream), In(Graph), Nodes, Edges, Count, MODE);
    10 fn cuStreamEndCapture(In(Stream), New(Graph));
    3 fn cuStreamIsCapturing(In(Stream), Out(32));
    3 fn cuStreamGetCaptureInfo_v2(In(Stream), Out(32), Id, New(Graph), NodesAt, Length);
    3 fn cuStreamGetCaptureInfo_v3(In(Stream), Out(32), Id, New(Graph), NodesAt, EdgesAt, Length);
    3 fn cuStreamUpdateCaptureDependencies(In(Stream), Nodes, Count, Pick(&[0, 1, 2]));
    2 fn cuStreamUpdateCaptureDependencies_v2(In(Stream), Nodes, Edges, Count, Pick(&[0, 1, 2]));
    4 fn cuThreadExchangeStreamCaptureMode(InOut(32, &[0, 1, 2, 2, 3]));
    3 fn cuStreamWriteValue32_v2(In(Stream), Fill, Pick(&[0xc3c3_c3c3]), WRITE_FLAGS);
    3 fn cuStreamWriteValue64_v2(In(Stream), Fill, Pick(&[0xc3c3_c3c3_c3c3_c3c3]), WRITE_FLAGS);
    3 fn cuStreamWaitValue32_v2(In(Stream), Awaited(32), AwaitedValue(32), Condition);
    3 fn cuStreamWaitValue64_v2(In(Stream), Awaited(64), AwaitedValue(64), Condition);
    4 fn cuStreamBatchMemOp_v2(In(Stream), OperationCount, Operations, Pick(&[0, 0, 0, 1]));

    // Events.
    8 fn cuEventCreate(New(Event), Pick(&[0, 0, 1, 2, 2, 3, 4, 8]));
    2 fn cuEventDestroy_v2(In(Event));
    12 fn cuEventRecord(In(Event), In(Stream));
    5 fn cuEventRecordWithFlags(In(Event), In(Stream), Pick(&[0, 1, 2]));
    4 fn cuEventQuery(In(Event));
    3 fn cuEventSynchronize(In(Event));
    3 fn cuEventElapsedTime(Time, In(Event), In(Event));
    2 fn cuEventElapsedTime_v2(Time, In(Event), In(Event));

    // Memory.
    4 fn cuMemAlloc_v2(New(Memory), SIZE);
    4 fn cuMemFree_v2(In(Memory));
    2 fn cuMemAllocManaged(New(Memory), SIZE, Pick(&[1, 1, 2, 0, 3]));
    1 fn cuMemcpyHtoD_v2(To, HostFrom, BYTES);
    1 fn cuMemcpyDtoH_v2(HostTo, From, BYTES);
    1 fn cuMemcpyDtoD_v2(To, From, BYTES);
    4 fn cuMemcpyHtoDAsync_v2(To, HostFrom, BYTES, In(Stream));
    4 fn cuMemcpyDtoHAsync_v2(HostTo, From, BYTES, In(Stream));
    5 fn cuMemcpyDtoDAsync_v2(To, From, BYTES, In(Stream));
    1 fn cuMemsetD8_v2(Fill, BYTE, BYTES);
    6 fn cuMemsetD8Async(Fill, BYTE, BYTES, In(Stream));
    1 fn cuMemsetD16_v2(Fill, Pick(&[0xc3c3]), ELEMENTS);
    1 fn cuMemsetD32_v2(Fill, Pick(&[0xc3c3_c3c3]), ELEMENTS);
    2 fn cuMemsetD16Async(Fill, Pick(&[0xc3c3]), ELEMENTS, In(Stream));
    2 fn cuMemsetD32Async(Fill, Pick(&[0xc3c3_c3c3]), ELEMENTS, In(Stream));
    1 fn cuMemsetD2D8_v2(Fill, Pick(&[16, 16, 8, 1, 0]), BYTE, Pick(&[1, 8, 16, 0]), Pick(&[1, 2, 0]));
    2 fn cuMemsetD2D8Async(Fill, Pick(&[16, 16, 8, 1, 0]), BYTE, Pick(&[1, 8, 16, 0]), Pick(&[1, 2, 0]), In(Stream));
    2 fn cuMemsetD2D32Async(Fill, Pick(&[16, 16, 8, 4, 2, 0]), Pick(&[0xc3c3_c3c3]), Pick(&[1, 2, 4, 0]), Pick(&[1, 2, 0]), In(Stream));
    1 fn cuMemsetD2D16_v2(Fill, Pick(&[16, 16, 8, 4, 2, 0]), Pick(&[0xc3c3]), Pick(&[1, 2, 4, 0]), Pick(&[1, 2, 0]));
    2 fn cuMemsetD2D16Async(Fill, Pick(&[16, 16, 8, 4, 2, 0]), Pick(&[0xc3c3]), Pick(&[1, 2, 4, 0]), Pick(&[1, 2, 0]), In(Stream));
    1 fn cuMemsetD2D32_v2(Fill, Pick(&[16, 16, 8, 4, 2, 0]), Pick(&[0xc3c3_c3c3]), Pick(&[1, 2, 4, 0]), Pick(&[1, 2, 0]));
    1 fn cuMemcpy(AnyTo, AnyFrom, BYTES);
    3 fn cuMemcpyAsync(AnyTo, AnyFrom, BYTES, In(Stream));
    1 fn cuMemcpyPeer(To, In(Context), From, In(Context), BYTES);
    3 fn cuMemcpyPeerAsync(To, In(Context), From, In(Context), BYTES, In(Stream));
    1 fn cuMemcpy2D_v2(Rows);
    1 fn cuMemcpy2DUnaligned_v2(Rows);
    4 fn cuMemcpy2DAsync_v2(Rows, In(Stream));
    1 fn cuMemcpy3D_v2(CopyParams);
    4 fn cuMemcpy3DAsync_v2(CopyParams, In(Stream));
    1 fn cuMemPrefetchAsync(In(Memory), SIZE, DEVICE, In(Stream));
    1 fn cuMemAdvise(In(Memory), SIZE, Pick(&[1, 2, 3, 4, 5, 6, 0, 77]), DEVICE);
    1 fn cuStreamAttachMemAsync(In(Stream), In(Memory), Pick(&[0, 0, 64, 256]), Pick(&[1, 2, 4, 3, 3]));
    2 fn cuMemGetAddressRange_v2(Which(Memory), Out(64), From);
    2 fn cuPointerGetAttribute(Needed(32), Pick(&[2, 9, 8, 77]), From);

    // Memory in stream order.
    10 fn cuMemAllocAsync(New(Memory), SIZE, In(Stream));
    6 fn cuMemAllocFromPoolAsync(New(Memory), SIZE, In(Pool), In(Stream));
    10 fn cuMemFreeAsync(In(Memory), In(Stream));
    5 fn cuMemPoolCreate(New(Pool), PoolProps);
    2 fn cuMemPoolDestroy(In(Pool));
    3 fn cuMemPoolSetAttribute(In(Pool), Pick(&[4, 6, 8, 1, 2, 3, 5, 7, 9, 0]), InOut(64, &[0, 0, 1, 5, 1 << 20, u64::MAX]));
    6 fn cuMemPoolGetAttribute(In(Pool), Pick(&[5, 6, 7, 8, 4, 1, 2, 3, 9, 0]), Out(64));
    3 fn cuMemPoolTrimTo(In(Pool), Pick(&[0, 0, 1, 1 << 25, 1 << 26, u64::MAX]));
    2 fn cuMemPoolSetAccess(In(Pool), Access, Pick(&[1, 1, 1, 0]));
    2 fn cuMemPoolGetAccess(Out(32), In(Pool), Location);
    3 fn cuDeviceGetMemPool(New(Pool), DEVICE);
    3 fn cuDeviceGetDefaultMemPool(New(Pool), DEVICE);
    2 fn cuDeviceSetMemPool(DEVICE, In(Pool));
    2 fn cuMemGetDefaultMemPool(New(Pool), DeviceLocation, Pick(&[1, 1, 0, 3, 77]));
    2 fn cuMemGetMemPool(New(Pool), DeviceLocation, Pick(&[1, 1, 0, 3, 77]));
    2 fn cuMemSetMemPool(DeviceLocation, Pick(&[1, 1, 0, 77]), In(Pool));
    2 fn cuMemPoolExportToShareableHandle(Descriptor, In(Pool), Pick(&[1, 1, 0, 2]), Pick(&[0, 0, 1]));
    2 fn cuMemPoolExportPointer(Sink, In(Memory));
    1 fn cuDeviceGraphMemTrim(DEVICE);
    3 fn cuDeviceGetGraphMemAttribute(DEVICE, Pick(&[0, 1, 2, 3, 4, 9]), Out(64));
    1 fn cuDeviceSetGraphMemAttribute(DEVICE, Pick(&[0, 1, 2, 3, 4, 9]), InOut(64, &[0, 0, 0, 1]));

    // Modules and launches.
    5 fn cuModuleLoadData(New(Module), Image);
    3 fn cuModuleLoadDataEx(New(Module), Image, OptionCount, OptionNumbers, OptionValues);
    2 fn cuModuleUnload(In(Module));
    6 fn cuModuleGetFunction(New(Function), In(Module), Name);
    2 fn cuModuleGetGlobal_v2(Which(Memory), Out(64), In(Module), Name);
    2 fn cuFuncGetAttribute(Out(32), ATTRIBUTE, In(Function));
    2 fn cuFuncSetAttribute(In(Function), Pick(&[8, 8, 9, 3, 77]), Pick(&[0, 1024, 65536, 300_000, u32::MAX as u64, 50, 100, 101]));
    1 fn cuFuncSetCacheConfig(In(Function), Pick(&[0, 1, 2, 3, 4]));
    1 fn cuFuncSetSharedMemConfig(In(Function), Pick(&[0, 1, 2, 3]));
    12 fn cuLaunchKernel(In(Function), GRID, ONE, ONE, BLOCK, ONE, ONE, SHARED, In(Stream), Arguments, Nothing);
    2 fn cuLaunchCooperativeKernel(In(Function), GRID, ONE, ONE, BLOCK, ONE, ONE, SHARED, In(Stream), Arguments);
    2 fn cuOccupancyMaxActiveBlocksPerMultiprocessor(Out(32), In(Function), Pick(&[0, 1, 32, 33, 64, 128, 1024, 1025]), Pick(&[0, 0, 40_000, 300_000]));
    2 fn cuFuncGetParamInfo(In(Function), Pick(&[0, 1, 2, 77]), Out(64), Out(64));
    1 fn cuModuleGetTexRef(Sink, In(Module), Name);
    1 fn cuModuleGetSurfRef(Sink, In(Module), Name);
    1 fn cuModuleGetLoadingMode(Needed(32));
    1 fn cuModuleGetFunctionCount(Out(32), In(Module));
    1 fn cuModuleEnumerateFunctions(Sink, Pick(&[1, 2, 5, 0]), In(Module));
    1 fn cuFuncGetName(NameOut, In(Function));
    1 fn cuFuncIsLoaded(Out(32), In(Function));
    1 fn cuFuncLoad(In(Function));
    6 fn cuLaunchKernelEx(Config, In(Function), Arguments, Nothing);
    2 fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(Out(32), In(Function), Pick(&[0, 1, 32, 33, 64, 128, 1024, 1025]), Pick(&[0, 0, 40_000, 300_000]), CONFIG_FLAGS);
    2 fn cuOccupancyMaxPotentialBlockSize(Out(32), Out(32), In(Function), Nothing, Pick(&[0, 0, 40_000, 300_000]), Pick(&[0, 0, 33, 128, 1025]));
    1 fn cuOccupancyMaxPotentialBlockSizeWithFlags(Out(32), Out(32), In(Function), Nothing, Pick(&[0, 0, 40_000, 300_000]), Pick(&[0, 0, 33, 128, 1025]), CONFIG_FLAGS);
    2 fn cuOccupancyAvailableDynamicSMemPerBlock(Needed(64), In(Function), Pick(&[1, 2, 4, 0, 33]), Pick(&[32, 64, 128, 1024, 1025, 0]));
    3 fn cuOccupancyMaxActiveClusters(Out(32), In(Function), Config);
    3 fn cuOccupancyMaxPotentialClusterSize(Out(32), In(Function), Config);

    // Linking.
    2 fn cuLinkCreate_v2(OptionCount, OptionNumbers, OptionValues, New(Link));
    3 fn cuLinkAddData_v2(In(Link), Pick(&[1, 1, 1, 1, 77]), Image, ImageLength, Nothing, ZERO, Nothing, Nothing);
    2 fn cuLinkComplete(In(Link), Sink, Sink);
    1 fn cuLinkDestroy(In(Link));

    // Libraries.
    5 fn cuLibraryLoadData(New(Library), Image, Nothing, Nothing, ZERO, Nothing, Nothing, ZERO);
    2 fn cuLibraryUnload(In(Library));
    6 fn cuLibraryGetKernel(New(Kernel), In(Library), Name);
    2 fn cuLibraryGetModule(New(Module), In(Library));
    4 fn cuKernelGetFunction(New(Function), In(Kernel));
    2 fn cuLibraryGetGlobal(Which(Memory), Out(64), In(Library), Name);
    2 fn cuLibraryGetManaged(Which(Memory), Out(64), In(Library), Name);
    2 fn cuLibraryGetKernelCount(Out(32), In(Library));
    2 fn cuKernelGetAttribute(Out(32), ATTRIBUTE, In(Kernel), DEVICE);
    2 fn cuKernelSetAttribute(Pick(&[8, 8, 3, 77]), Pick(&[0, 1024, 65536, 300_000, u32::MAX as u64, 50, 100, 101]), In(Kernel), DEVICE);
    1 fn cuKernelSetCacheConfig(In(Kernel), Pick(&[0, 1, 2, 3, 4]), DEVICE);
    1 fn cuKernelGetLibrary(Which(Library), In(Kernel));
    1 fn cuKernelGetParamInfo(In(Kernel), Pick(&[0, 1, 2, 77]), Out(64), Out(64));
    1 fn cuLibraryEnumerateKernels(Sink, Pick(&[1, 2, 5, 0]), In(Library));
    1 fn cuLibraryGetUnifiedFunction(Sink, In(Library), Name);
    1 fn cuKernelGetName(NameOut, In(Kernel));
    1 fn cuFuncGetModule(Which(Module), In(Function));

    // Graphs.
    8 fn cuGraphCreate(New(Graph), Pick(&[0, 0, 0, 0, 0, 1]));
    2 fn cuGraphDestroy(In(Graph));
    3 fn cuGraphClone(New(Graph), In(Graph));
    2 fn cuGraphNodeFindInClone(New(Node), In(Node), In(Graph));
    3 fn cuGraphNodeGetType(In(Node), Out(32));
    5 fn cuGraphGetNodes(In(Graph), NewNodes, Length);
    2 fn cuGraphGetRootNodes(In(Graph), NewNodes, Length);
    2 fn cuGraphGetEdges(In(Graph), NewNodes, NewNodes, Length);
    2 fn cuGraphGetEdges_v2(In(Graph), NewNodes, NewNodes, NewEdges, Length);
    2 fn cuGraphNodeGetDependencies(In(Node), NewNodes, Length);
    1 fn cuGraphNodeGetDependencies_v2(In(Node), NewNodes, NewEdges, Length);
    2 fn cuGraphNodeGetDependentNodes(In(Node), NewNodes, Length);
    1 fn cuGraphNodeGetDependentNodes_v2(In(Node), NewNodes, NewEdges, Length);
    4 fn cuGraphAddDependencies(In(Graph), Nodes, Nodes, Count);
    3 fn cuGraphAddDependencies_v2(In(Graph), Nodes, Nodes, Edges, Count);
    2 fn cuGraphRemoveDependencies(In(Graph), Nodes, Nodes, Count);
    2 fn cuGraphRemoveDependencies_v2(In(Graph), Nodes, Nodes, Edges, Count);
    3 fn cuGraphDestroyNode(In(Node));
    6 fn cuGraphAddEmptyNode(New(Node), In(Graph), Nodes, Count);
    6 fn cuGraphAddKernelNode_v2(New(Node), In(Graph), Nodes, Count, KernelParams);
    2 fn cuGraphKernelNodeGetParams_v2(In(Node), KernelParamsOut);
    2 fn cuGraphKernelNodeSetParams_v2(In(Node), KernelParams);
    1 fn cuGraphKernelNodeCopyAttributes(In(Node), In(Node));
    2 fn cuGraphKernelNodeGetAttribute(In(Node), KERNEL_ATTRIBUTE, AttributeOut);
    3 fn cuGraphKernelNodeSetAttribute(In(Node), KERNEL_ATTRIBUTE, AttributeValue);
    6 fn cuGraphAddNode_v2(New(Node), In(Graph), Nodes, Edges, Count, NodeParams);
    2 fn cuGraphNodeSetParams(In(Node), NodeParams);
    2 fn cuGraphExecNodeSetParams(In(Exec), In(Node), NodeParams);
    1 fn cuGraphDebugDotPrint(In(Graph), Path, Pick(&[0, 0, 1, 3, 1 << 20]));
    5 fn cuGraphAddMemcpyNode(New(Node), In(Graph), Nodes, Count, CopyParams, In(Context));
    2 fn cuGraphMemcpyNodeGetParams(In(Node), CopyParamsOut);
    2 fn cuGraphMemcpyNodeSetParams(In(Node), CopyParams);
    5 fn cuGraphAddMemsetNode(New(Node), In(Graph), Nodes, Count, FillParams, In(Context));
    2 fn cuGraphMemsetNodeGetParams(In(Node), FillParamsOut);
    2 fn cuGraphMemsetNodeSetParams(In(Node), FillParams);
    5 fn cuGraphAddHostNode(New(Node), In(Graph), Nodes, Count, HostParams);
    2 fn cuGraphHostNodeGetParams(In(Node), HostParamsOut);
    2 fn cuGraphHostNodeSetParams(In(Node), HostParams);
    4 fn cuGraphAddChildGraphNode(New(Node), In(Graph), Nodes, Count, In(Graph));
    3 fn cuGraphChildGraphNodeGetGraph(In(Node), New(Graph));
    3 fn cuGraphAddEventRecordNode(New(Node), In(Graph), Nodes, Count, In(Event));
    1 fn cuGraphEventRecordNodeGetEvent(In(Node), Which(Event));
    1 fn cuGraphEventRecordNodeSetEvent(In(Node), In(Event));
    3 fn cuGraphAddEventWaitNode(New(Node), In(Graph), Nodes, Count, In(Event));
    1 fn cuGraphEventWaitNodeGetEvent(In(Node), Which(Event));
    1 fn cuGraphEventWaitNodeSetEvent(In(Node), In(Event));
    4 fn cuGraphAddMemAllocNode(New(Node), In(Graph), Nodes, Count, AllocParams);
    2 fn cuGraphMemAllocNodeGetParams(In(Node), AllocParamsOut);
    3 fn cuGraphAddMemFreeNode(New(Node), In(Graph), Nodes, Count, In(Memory));
    2 fn cuGraphMemFreeNodeGetParams(In(Node), Which(Memory));
    8 fn cuGraphInstantiateWithFlags(New(Exec), In(Graph), Pick(&[0, 0, 0, 1, 2, 4, 8, 9, 16, 32]));
    2 fn cuGraphInstantiateWithParams(New(Exec), In(Graph), InstantiateParams);
    2 fn cuGraphExecGetFlags(In(Exec), Out(64));
    3 fn cuGraphExecKernelNodeSetParams_v2(In(Exec), In(Node), KernelParams);
    3 fn cuGraphExecMemcpyNodeSetParams(In(Exec), In(Node), CopyParams, In(Context));
    3 fn cuGraphExecMemsetNodeSetParams(In(Exec), In(Node), FillParams, In(Context));
    3 fn cuGraphExecHostNodeSetParams(In(Exec), In(Node), HostParams);
    2 fn cuGraphExecChildGraphNodeSetParams(In(Exec), In(Node), In(Graph));
    2 fn cuGraphExecEventRecordNodeSetEvent(In(Exec), In(Node), In(Event));
    2 fn cuGraphExecEventWaitNodeSetEvent(In(Exec), In(Node), In(Event));
    3 fn cuGraphNodeSetEnabled(In(Exec), In(Node), Pick(&[0, 0, 1, 2]));
    2 fn cuGraphNodeGetEnabled(In(Exec), In(Node), Out(32));
    5 fn cuGraphExecUpdate_v2(In(Exec), In(Graph), UpdateInfo);
    3 fn cuGraphUpload(In(Exec), In(Stream));
    14 fn cuGraphLaunch(In(Exec), In(Stream));
    2 fn cuGraphExecDestroy(In(Exec));
    3 fn cuUserObjectCreate(New(Object), Data, DropFn, Pick(&[1, 1, 1, 2, 3, 0]), Pick(&[1, 1, 1, 1, 0, 2]));
    1 fn cuUserObjectRetain(In(Object), Pick(&[1, 1, 2, 0]));
    2 fn cuUserObjectRelease(In(Object), Pick(&[1, 1, 2, 0]));
    3 fn cuGraphRetainUserObject(In(Graph), In(Object), Pick(&[1, 1, 2, 0]), Pick(&[0, 1, 1, 2]));
    2 fn cuGraphReleaseUserObject(In(Graph), In(Object), Pick(&[1, 1, 2, 0]));
}
