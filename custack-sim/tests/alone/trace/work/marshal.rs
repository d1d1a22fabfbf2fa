//! Arguments as the driver takes them, and what it wrote as text.

use super::functions::{Param, STREAM_OF_CONFIG};
use super::language::{Arg, Kind, Step};
use super::world::{Held, World};
use custack_sys::ffi::*;
use std::ffi::{CStr, c_char, c_void};
use std::fmt::Write;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

/// What the driver finds in a place before it writes: a pattern that it would hardly write itself.
pub(super) const UNTOUCHED: u64 = 0x5a5a_5a5a_5a5a_5a5a;

/// How often functions were called and objects let go, for each number that they were given.
pub(super) static CALLS: [AtomicU32; 4] = [const { AtomicU32::new(0) }; 4];
pub(super) static DROPS: [AtomicU32; 4] = [const { AtomicU32::new(0) }; 4];

unsafe extern "C" fn called(data: *mut c_void) {
    CALLS[data.addr() & 3].fetch_add(1, Ordering::SeqCst);
}

unsafe extern "C" fn called_back(_: CUstream, _: u32, data: *mut c_void) {
    CALLS[data.addr() & 3].fetch_add(1, Ordering::SeqCst);
}

unsafe extern "C" fn dropped(data: *mut c_void) {
    DROPS[data.addr() & 3].fetch_add(1, Ordering::SeqCst);
}

pub(super) const IMAGES: [(&str, &CStr); 4] = [
    (
        "both",
        c".version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 cell;
.visible .entry add(.param .u64 to, .param .u32 value)
{
    .reg .b64 %rd<3>;
    .reg .b32 %r<3>;
    ld.param.u64 %rd1, [to];
    ld.param.u32 %r1, [value];
    cvta.to.global.u64 %rd2, %rd1;
    atom.global.add.u32 %r2, [%rd2], %r1;
    ret;
}
.visible .entry twice(.param .u64 to, .param .u32 value)
{
    .reg .b64 %rd<3>;
    .reg .b32 %r<4>;
    ld.param.u64 %rd1, [to];
    ld.param.u32 %r1, [value];
    add.u32 %r3, %r1, %r1;
    cvta.to.global.u64 %rd2, %rd1;
    atom.global.add.u32 %r2, [%rd2], %r3;
    ret;
}
",
    ),
    (
        "one",
        c".version 7.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 to, .param .u32 value)
{
    .reg .b64 %rd<3>;
    .reg .b32 %r<3>;
    ld.param.u64 %rd1, [to];
    ld.param.u32 %r1, [value];
    cvta.to.global.u64 %rd2, %rd1;
    atom.global.add.u32 %r2, [%rd2], %r1;
    ret;
}
",
    ),
    (
        "wrong",
        c".version 7.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 to)
{
    ret
}
",
    ),
    ("garbage", c"this is no module at all, whatever else it may be"),
];

pub(super) const NAMES: [(&str, &CStr); 4] =
    [("add", c"add"), ("twice", c"twice"), ("cell", c"cell"), ("none", c"none")];

const PATHS: [(&str, &CStr); 2] = [("file", c"/dev/null"), ("nowhere", c"/nowhere/file")];

fn text(from: &[(&str, &'static CStr)], arg: &Arg) -> u64 {
    let Arg::Name(name) = arg else { return 0 };
    from.iter().find(|(known, _)| known == name).map_or(0, |(_, text)| text.as_ptr().addr() as u64)
}

pub(super) type Place = Box<[u64; 64]>;

/// Where the operations of a batch lie in a place in which the node is described that does them, and words of each.
const BATCH: usize = 33;
const OPERATION: usize = 6;

/// Where the log of a compiler, and where the attributes of a launch lie in a place, and the words of an attribute.
const LOG: usize = 32;
const ATTRIBUTES: usize = 8;
const ATTRIBUTE: usize = size_of::<CUlaunchAttribute>() / 8;

/// The words of the parameters of a node, and of what is before them.
const NODE: usize = 29;
const TYPE: usize = 2;

/// Where the arguments of kernels and the pointers to them lie in a place.
const VALUES: usize = 40;
const POINTERS: usize = 48;

/// The arguments in `place`, from a list of an address and a number: gives where the pointers are.
fn arguments(place: &mut Place, at: usize, pointers: usize, world: &World, list: &[Arg]) -> u64 {
    let [to, value] = list else { return 0 };
    place[at] = world.raw(to);
    place[at + 1] = value.number();
    for i in 0..2 {
        place[pointers + i] = (&raw const place[at + i]).addr() as u64;
    }
    (&raw const place[pointers]).addr() as u64
}

/// The operations of a batch, each of four words of the list.
fn operations(world: &World, list: &[Arg], place: &mut [u64]) {
    const BARRIER: u64 = 6;
    const FLUSH: u64 = 3;
    for (operation, to) in list.chunks(4).zip(place.chunks_mut(OPERATION)) {
        let (kind, flags) = (operation[0].number(), operation[3].number());
        if matches!(kind, BARRIER | FLUSH) {
            to[0] = kind | flags << 32;
        } else {
            to[..4].copy_from_slice(&[kind, world.raw(&operation[1]), operation[2].number(), flags]);
        }
    }
}

/// The parameters of a node, behind its type.
fn node(world: &World, list: &[Arg], place: &mut Place) {
    let (kind, list) = (list[0].number(), &list[1..]);
    let context = |at: usize| list.get(at).map_or(0, |arg| world.raw(arg));
    let mut before = 0;
    match kind {
        0 => structure(world, Param::KernelParams, list, place),
        1 => {
            structure(world, Param::CopyParams, list, place);
            before = 2;
        }
        2 => {
            structure(world, Param::FillParams, list, place);
            place[size_of::<CUDA_MEMSET_NODE_PARAMS>() / 8] = context(6);
        }
        3 => structure(world, Param::HostParams, list, place),
        6 | 7 => place[0] = context(0),
        12 => {
            operations(world, &list[2..], &mut place[BATCH..]);
            place[0] = context(0);
            place[1] = (list.len() as u64 - 2) / 4;
            place[2] = (&raw const place[BATCH]).addr() as u64;
            place[3] = list[1].number();
        }
        _ => {}
    }
    place.copy_within(..NODE - before, TYPE + before);
    place[..TYPE + before].fill(0);
    place[0] = kind;
    if before > 0 {
        place[TYPE + 1] = context(5);
    }
}

/// The words of a step's arguments, and the places that they point to.
pub(super) fn words(world: &World, step: &Step) -> (Vec<u64>, Vec<Place>) {
    let mut words = Vec::new();
    let mut places = Vec::new();
    for (param, arg) in step.function().params.iter().zip(&step.args) {
        let mut place: Place = Box::new([UNTOUCHED; 64]);
        words.push(word(world, *param, arg, &mut place));
        places.push(place);
    }
    (words, places)
}

#[allow(clippy::too_many_lines, reason = "one arm for each kind of argument")]
fn word(world: &World, param: Param, arg: &Arg, place: &mut Place) -> u64 {
    let address = (&raw const place[0]).addr() as u64;
    let here = if *arg == Arg::Null { 0 } else { address };
    let list = arg.list();
    match param {
        Param::In(_)
        | Param::OwnStream
        | Param::To
        | Param::From
        | Param::HostTo
        | Param::HostFrom
        | Param::Fill
        | Param::Add
        | Param::AnyTo
        | Param::AnyFrom
        | Param::Awaited(_) => world.raw(arg),
        Param::New(_)
        | Param::Which(_)
        | Param::NodesAt
        | Param::EdgesAt
        | Param::Out(_)
        | Param::Needed(_)
        | Param::Sink
        | Param::NameOut
        | Param::Descriptor
        | Param::AttributeOut
        | Param::Id
        | Param::Time => here,
        Param::KernelParamsOut
        | Param::CopyParamsOut
        | Param::FillParamsOut
        | Param::HostParamsOut
        | Param::AllocParamsOut => here,
        Param::Pick(_)
        | Param::Count
        | Param::Data
        | Param::AwaitedValue(_)
        | Param::Condition
        | Param::OperationCount
        | Param::OptionCount
        | Param::ImageLength => arg.number(),
        Param::Nothing => 0,
        Param::Nodes | Param::Edges => {
            place.fill(0);
            for (at, arg) in list.iter().enumerate() {
                place[at] = if let Arg::Number(number) = arg { *number } else { world.raw(arg) };
            }
            here
        }
        Param::NewNodes | Param::NewEdges => here,
        Param::Length => {
            place[0] = arg.number();
            here
        }
        Param::InOut(_, _) => {
            place[0] = arg.number();
            here
        }
        Param::HostFn => {
            if *arg == Arg::Null {
                0
            } else {
                called as *const () as usize as u64
            }
        }
        Param::Callback => {
            if *arg == Arg::Null {
                0
            } else {
                called_back as *const () as usize as u64
            }
        }
        Param::DropFn => {
            if *arg == Arg::Null {
                0
            } else {
                dropped as *const () as usize as u64
            }
        }
        Param::Arguments => arguments(place, VALUES, POINTERS, world, list),
        Param::Name => text(&NAMES, arg),
        Param::Image => text(&IMAGES, arg),
        Param::Path => text(&PATHS, arg),
        _ => {
            if *arg != Arg::Null {
                structure(world, param, list, place);
            }
            here
        }
    }
}

/// Writes a struct of numbers and names to its place.
fn structure(world: &World, param: Param, list: &[Arg], place: &mut Place) {
    place.fill(0);
    let number = |at: usize| list.get(at).map_or(0, Arg::number);
    let raw = |at: usize| list.get(at).map_or(0, |arg| world.raw(arg));
    let to = place.as_mut_ptr();
    // SAFETY: each struct is smaller than a place, whose alignment is theirs, and has no padding that is read.
    unsafe {
        match param {
            Param::KernelParams => {
                let kernel_params = arguments(place, VALUES, POINTERS, world, &list[8..10]);
                let is_kernel = matches!(list[0], Arg::Slot(Kind::Kernel, ..));
                to.cast::<CUDA_KERNEL_NODE_PARAMS>().write(CUDA_KERNEL_NODE_PARAMS {
                    func: if is_kernel { null_mut() } else { raw(0) as CUfunction },
                    gridDimX: number(1) as u32,
                    gridDimY: number(2) as u32,
                    gridDimZ: number(3) as u32,
                    blockDimX: number(4) as u32,
                    blockDimY: number(5) as u32,
                    blockDimZ: number(6) as u32,
                    sharedMemBytes: number(7) as u32,
                    kernelParams: kernel_params as *mut *mut c_void,
                    extra: null_mut(),
                    kern: if is_kernel { raw(0) as *mut c_void } else { null_mut() },
                    ctx: raw(10) as CUcontext,
                });
            }
            Param::CopyParams => {
                let mut copy: CUDA_MEMCPY3D = std::mem::zeroed();
                let on_host = |at: usize| matches!(list[at], Arg::Slot(Kind::Host, ..));
                copy.srcMemoryType = if on_host(1) { 1 } else { 2 };
                copy.srcHost = raw(1) as *const c_void;
                copy.srcDevice = raw(1);
                copy.dstMemoryType = if on_host(0) { 1 } else { 2 };
                copy.dstHost = raw(0) as *mut c_void;
                copy.dstDevice = raw(0);
                (copy.srcPitch, copy.dstPitch) = (16, 16);
                (copy.srcHeight, copy.dstHeight) = (2, 2);
                (copy.WidthInBytes, copy.Height, copy.Depth) =
                    (number(2) as usize, number(3) as usize, number(4) as usize);
                to.cast::<CUDA_MEMCPY3D>().write(copy);
            }
            Param::FillParams => to.cast::<CUDA_MEMSET_NODE_PARAMS>().write(CUDA_MEMSET_NODE_PARAMS {
                dst: raw(0),
                pitch: number(1) as usize,
                value: number(2) as u32,
                elementSize: number(3) as u32,
                width: number(4) as usize,
                height: number(5) as usize,
            }),
            Param::HostParams => to.cast::<CUDA_HOST_NODE_PARAMS>().write(CUDA_HOST_NODE_PARAMS {
                fn_: if list[0] == Arg::Null { None } else { Some(called) },
                userData: number(1) as *mut c_void,
            }),
            Param::AllocParams => {
                let mut params: CUDA_MEM_ALLOC_NODE_PARAMS = std::mem::zeroed();
                params.poolProps.allocType = number(1) as u32;
                params.poolProps.location = CUmemLocation { kind: 1, id: number(2) as i32 };
                params.bytesize = number(3) as usize;
                params.dptr = UNTOUCHED;
                to.cast::<CUDA_MEM_ALLOC_NODE_PARAMS>().write(params);
            }
            Param::PoolProps => {
                let mut props: CUmemPoolProps = std::mem::zeroed();
                props.allocType = number(0) as u32;
                props.handleTypes = number(1) as u32;
                props.location = CUmemLocation { kind: number(2) as u32, id: number(3) as i32 };
                props.maxSize = number(4) as usize;
                to.cast::<CUmemPoolProps>().write(props);
            }
            Param::InstantiateParams => {
                to.cast::<CUDA_GRAPH_INSTANTIATE_PARAMS>().write(CUDA_GRAPH_INSTANTIATE_PARAMS {
                    flags: number(0),
                    hUploadStream: raw(1) as CUstream,
                    hErrNode_out: UNTOUCHED as CUgraphNode,
                    result_out: UNTOUCHED as u32,
                });
            }
            Param::Rows => {
                let mut copy: CUDA_MEMCPY2D = std::mem::zeroed();
                let on_host = |at: usize| matches!(list[at], Arg::Slot(Kind::Host, ..));
                copy.srcMemoryType = if on_host(1) { 1 } else { 2 };
                copy.srcHost = raw(1) as *const c_void;
                copy.srcDevice = raw(1);
                copy.dstMemoryType = if on_host(0) { 1 } else { 2 };
                copy.dstHost = raw(0) as *mut c_void;
                copy.dstDevice = raw(0);
                (copy.srcPitch, copy.dstPitch) = (number(4) as usize, number(4) as usize);
                (copy.WidthInBytes, copy.Height) = (number(2) as usize, number(3) as usize);
                to.cast::<CUDA_MEMCPY2D>().write(copy);
            }
            Param::Operations => operations(world, list, &mut place[..]),
            Param::OptionNumbers => {
                list.iter()
                    .enumerate()
                    .for_each(|(at, arg)| to.cast::<u32>().add(at).write(arg.number() as u32));
            }
            Param::OptionValues => {
                let log = to.add(LOG).addr() as u64;
                for (at, arg) in list.iter().enumerate() {
                    place[at] = if *arg == Arg::Here { log } else { arg.number() };
                }
            }
            Param::Config => {
                let attributes = &list[STREAM_OF_CONFIG + 1..];
                to.cast::<CUlaunchConfig>().write(CUlaunchConfig {
                    gridDimX: number(0) as u32,
                    gridDimY: 1,
                    gridDimZ: 1,
                    blockDimX: number(1) as u32,
                    blockDimY: 1,
                    blockDimZ: 1,
                    sharedMemBytes: number(2) as u32,
                    hStream: raw(STREAM_OF_CONFIG) as CUstream,
                    attrs: to.add(ATTRIBUTES).cast(),
                    numAttrs: attributes.len() as u32 / 2,
                });
                for (at, pair) in attributes.chunks(2).enumerate() {
                    let mut value = [0; 16];
                    value[..3].copy_from_slice(&[pair[1].number() as u32, 1, 1]);
                    let attribute = CUlaunchAttribute { id: pair[0].number() as u32, pad: [0; 4], value };
                    to.add(ATTRIBUTES + at * ATTRIBUTE).cast::<CUlaunchAttribute>().write(attribute);
                }
            }
            Param::NodeParams => node(world, list, place),
            Param::AttributeValue => {
                list.iter()
                    .enumerate()
                    .for_each(|(at, arg)| to.cast::<u32>().add(at).write(arg.number() as u32));
            }
            Param::Location | Param::DeviceLocation => {
                to.cast::<CUmemLocation>()
                    .write(CUmemLocation { kind: number(0) as u32, id: number(1) as i32 });
            }
            Param::Access => {
                let location = CUmemLocation { kind: number(0) as u32, id: number(1) as i32 };
                to.cast::<CUmemAccessDesc>().write(CUmemAccessDesc { location, flags: number(2) as u32 });
            }
            _ => place.fill(UNTOUCHED),
        }
    }
}

fn mask(bits: u32) -> u64 {
    if bits == 64 { u64::MAX } else { (1 << bits) - 1 }
}

fn plain(bits: u32, value: u64) -> String {
    if value == UNTOUCHED { "-".to_owned() } else { (value & mask(bits)).to_string() }
}

/// What came back in the arguments' places, as text; objects that were made take their slots.
///
/// `owner` is the graph that the stream of the step captures into, or 0.
pub(super) fn outs(world: &mut World, step: &Step, places: &[Place], status: u32, owner: u64) -> String {
    let function = step.function();
    let mut text = String::new();
    let length =
        || function.params.iter().position(|param| matches!(param, Param::Length)).map(|at| places[at][0]);
    for (at, (param, arg)) in function.params.iter().zip(&step.args).enumerate() {
        let place = &places[at];
        if *arg == Arg::Null {
            continue;
        }
        let out = match param {
            Param::New(kind) => found(world, step, at, *kind, place[0], status, owner),
            Param::Which(kind) if place[0] == UNTOUCHED => format!("-{}", kind.letter()),
            Param::Which(kind) => world.name(*kind, place[0]),
            Param::Out(64) if status == 0 && function.name == "cuMemPoolGetAttribute" => {
                let (pool, attribute) = (world.raw(&step.args[0]), step.args[1].number());
                let base = attribute.checked_sub(5).and_then(|at| world.base.1.get(at as usize));
                let base = base.filter(|_| pool == world.base.0).copied().unwrap_or(0);
                (place[0].wrapping_sub(base) as i64).to_string()
            }
            Param::Out(64) if status == 0 && function.name == "cuDeviceGetGraphMemAttribute" => {
                let base = world.base_of_graphs.get(step.args[1].number() as usize);
                (place[0].wrapping_sub(base.copied().unwrap_or(0)) as i64).to_string()
            }
            Param::Out(bits) | Param::Needed(bits) | Param::InOut(bits, _) => plain(*bits, place[0]),
            Param::Sink => if place[0] == UNTOUCHED { "-" } else { "some" }.to_owned(),
            Param::NameOut if place[0] == UNTOUCHED || status != 0 => "-".to_owned(),
            Param::NameOut => {
                // SAFETY: the driver has written the address of a name.
                let name = unsafe { CStr::from_ptr(place[0] as *const c_char) };
                name.to_string_lossy().into_owned()
            }
            Param::Descriptor if status == 0 && place[0] != UNTOUCHED => {
                // SAFETY: the driver has made the descriptor for this caller.
                drop(unsafe { OwnedFd::from_raw_fd(place[0] as i32) });
                "descriptor".to_owned()
            }
            Param::Descriptor => if place[0] == UNTOUCHED { "-" } else { "some" }.to_owned(),
            Param::AttributeOut => {
                const CLUSTER: u64 = 4;
                let words = if step.args[1].number() == CLUSTER { 3 } else { 1 };
                let word = |at: usize| (place[at / 2] >> (at % 2 * 32)) as u32;
                let told =
                    |word: u32| if word == UNTOUCHED as u32 { "-".to_owned() } else { word.to_string() };
                (0..words).map(|at| told(word(at))).collect::<Vec<_>>().join("x")
            }
            Param::Length => plain(64, place[0]),
            Param::Id if place[0] == UNTOUCHED => "-".to_owned(),
            Param::Id if place[0] == 0 => "0".to_owned(),
            Param::Id if status != 0 => "-".to_owned(),
            Param::Id => format!("#{}", world.id(function.name.contains("Capture"), place[0])),
            Param::Time => if place[0] == UNTOUCHED { "-" } else { "time" }.to_owned(),
            Param::NewNodes => {
                let list: Vec<u64> = place[..arg.list().len()].to_vec();
                nodes(world, step, arg.list(), &list, status, 0)
            }
            Param::NewEdges => {
                let list = place[..arg.list().len()].iter().map(|edge| plain(64, *edge));
                format!("({})", list.collect::<Vec<_>>().join(","))
            }
            Param::NodesAt | Param::EdgesAt => {
                let at = place[0];
                let count = length().filter(|count| *count < 64 && status == 0);
                match (at, count) {
                    (UNTOUCHED, _) => "-".to_owned(),
                    // Where nothing is may be anywhere.
                    (_, Some(0)) => "()".to_owned(),
                    (0, _) => "none".to_owned(),
                    (_, None) => "somewhere".to_owned(),
                    (_, Some(count)) => {
                        // SAFETY: the driver has written where its list is and how long.
                        let list = unsafe { std::slice::from_raw_parts(at as *const u64, count as usize) };
                        let list = list.to_vec();
                        if matches!(param, Param::NodesAt) {
                            let slots: Vec<Arg> = arg.list().to_vec();
                            nodes(world, step, &slots, &list, status, owner)
                        } else {
                            format!("{list:?}").replace(' ', "")
                        }
                    }
                }
            }
            Param::AllocParams => {
                // SAFETY: the struct that was written there.
                let params = unsafe { place.as_ptr().cast::<CUDA_MEM_ALLOC_NODE_PARAMS>().read() };
                let graph = world.raw(&step.args[1]);
                if let (0, Some(Arg::Slot(Kind::Memory, slot, _))) = (status, arg.list().first()) {
                    world.put(
                        Kind::Memory,
                        *slot,
                        Held { raw: params.dptr, owner: graph, ..Held::default() },
                    );
                }
                if params.dptr == UNTOUCHED { "-" } else { "address" }.to_owned()
            }
            param => structure_text(world, *param, place, status),
        };
        if !out.is_empty() {
            write!(text, " {out}").expect("writing to a string");
        }
    }
    text
}

/// An object that a function made or found.
fn found(
    world: &mut World,
    step: &Step,
    at: usize,
    kind: Kind,
    raw: u64,
    status: u32,
    captured: u64,
) -> String {
    if raw == UNTOUCHED {
        return "-".to_owned();
    }
    if raw == 0 {
        return "null".to_owned();
    }
    if status != 0 {
        return "-".to_owned();
    }
    let known = world.name(kind, raw);
    let name = step.function().name;
    let owners: Vec<u64> = step.args.iter().map(|arg| world.raw(arg)).collect();
    let owner = |at: usize| owners[at];
    let mut held = Held { raw, ..Held::default() };
    match name {
        "cuGraphNodeFindInClone" => held.owner = owner(2),
        "cuGraphChildGraphNodeGetGraph" => {
            held.owner = world.held(&step.args[0]).owner;
            held.borrowed = true;
        }
        "cuStreamGetCaptureInfo_v2" | "cuStreamGetCaptureInfo_v3" => {
            held.borrowed = true;
            // Of the other streams it cannot be asked later whether they still capture.
            if owner(0) < 3 {
                return "found".to_owned();
            }
            let stream = owner(0);
            world.see_capture(raw, stream);
        }
        "cuMemAllocAsync" | "cuMemAllocFromPoolAsync" if captured == 0 => {
            held.pool = if step.args.len() == 4 { owner(2) } else { world.current_pool };
        }
        "cuMemAllocAsync" | "cuMemAllocFromPoolAsync" => {
            held.owner = captured;
            let stream = owner(step.args.len() - 1);
            if stream < 3 {
                world.free_in_the_end(raw);
                return "captured".to_owned();
            }
            world.see_capture(captured, stream);
        }
        "cuUserObjectCreate" => held.count = step.args[3].number(),
        "cuLibraryGetModule" => (held.owner, held.borrowed) = (owner(1), true),
        "cuModuleGetFunction" | "cuLibraryGetKernel" => held.owner = owner(1),
        "cuKernelGetFunction" => held.owner = world.held(&step.args[1]).owner,
        "cuDeviceGetMemPool" | "cuDeviceGetDefaultMemPool" | "cuMemGetMemPool" | "cuMemGetDefaultMemPool" => {
            held.borrowed = true
        }
        _ if kind == Kind::Node => held.owner = owner(1),
        _ if kind == Kind::Exec => world.see_executable(raw, owner(1)),
        _ => {}
    }
    if name == "cuStreamEndCapture" {
        world.own(raw);
    }
    if held.borrowed {
        // An alias of what the trace owns is the trace's.
        if let Some(own) = world.all(kind).iter().find(|own| own.raw == raw) {
            held = *own;
        }
    }
    if let Arg::Slot(_, slot, _) = step.args[at] {
        world.put(kind, slot, held);
    }
    // An address may come again while another slot still has it.
    if kind == Kind::Memory || known == "?" || known == step.args[at].to_string() {
        "new".to_owned()
    } else {
        format!("={known}")
    }
}

/// A list of nodes, which take the slots that are named for them.
fn nodes(world: &mut World, step: &Step, slots: &[Arg], list: &[u64], status: u32, captured: u64) -> String {
    let first = step.args[0].clone();
    let owner = match first {
        Arg::Slot(Kind::Graph, ..) => world.raw(&first),
        Arg::Slot(Kind::Node, ..) => world.held(&first).owner,
        // Of other streams it cannot be asked later whether they still capture.
        Arg::Slot(Kind::Stream, ..) => {
            let stream = world.raw(&first);
            world.see_capture(captured, stream);
            captured
        }
        _ => 0,
    };
    let mut names = Vec::new();
    for (at, raw) in list.iter().enumerate() {
        names.push(match *raw {
            UNTOUCHED => "-".to_owned(),
            0 => "null".to_owned(),
            raw => {
                let known = world.name(Kind::Node, raw);
                match slots.get(at) {
                    Some(Arg::Slot(_, slot, _)) if known == "?" && status == 0 && owner != 0 => {
                        world.put(Kind::Node, *slot, Held { raw, owner, ..Held::default() });
                        format!("n{slot}")
                    }
                    _ => known,
                }
            }
        });
    }
    format!("({})", names.join(","))
}

fn structure_text(world: &World, param: Param, place: &Place, status: u32) -> String {
    let from = place.as_ptr();
    // SAFETY: the place has room for each struct, and was written by the driver or before it; pointers to a kernel's
    // arguments are the driver's own.
    unsafe {
        match param {
            Param::UpdateInfo => {
                let info = from.cast::<CUgraphExecUpdateResultInfo>().read();
                if place[0] == UNTOUCHED {
                    return "-".to_owned();
                }
                let name = |raw: CUgraphNode| match raw.addr() as u64 {
                    UNTOUCHED => "-".to_owned(),
                    raw => world.name(Kind::Node, raw),
                };
                format!("{} {} {}", info.result, name(info.errorNode), name(info.errorFromNode))
            }
            Param::InstantiateParams => {
                let params = from.cast::<CUDA_GRAPH_INSTANTIATE_PARAMS>().read();
                let result = plain(
                    32,
                    if params.result_out == UNTOUCHED as u32 { UNTOUCHED } else { params.result_out.into() },
                );
                let node = match params.hErrNode_out.addr() as u64 {
                    UNTOUCHED => "-".to_owned(),
                    raw => world.name(Kind::Node, raw),
                };
                format!("{result} {node}")
            }
            _ if status != 0 => String::new(),
            Param::KernelParamsOut => {
                let p = from.cast::<CUDA_KERNEL_NODE_PARAMS>().read();
                let mut values = String::new();
                if !p.kernelParams.is_null() {
                    let to = (*p.kernelParams).cast::<u64>().read_unaligned();
                    let value = (*p.kernelParams.add(1)).cast::<u32>().read_unaligned();
                    values = format!("{}:{value}", world.name(Kind::Memory, to));
                }
                format!(
                    "{} {}x{}x{} {}x{}x{} {} {values} {} {} {}",
                    world.name(Kind::Function, p.func.addr() as u64),
                    p.gridDimX,
                    p.gridDimY,
                    p.gridDimZ,
                    p.blockDimX,
                    p.blockDimY,
                    p.blockDimZ,
                    p.sharedMemBytes,
                    if p.extra.is_null() { "-" } else { "extra" },
                    world.name(Kind::Kernel, p.kern.addr() as u64),
                    world.name(Kind::Context, p.ctx.addr() as u64),
                )
            }
            Param::CopyParamsOut => {
                let p = from.cast::<CUDA_MEMCPY3D>().read();
                let name = |kind: u32, host: u64, device: u64| {
                    world.name(Kind::Memory, if kind == 1 { host } else { device })
                };
                format!(
                    "{}:{} {}:{} {}x{}x{}",
                    p.dstMemoryType,
                    name(p.dstMemoryType, p.dstHost.addr() as u64, p.dstDevice),
                    p.srcMemoryType,
                    name(p.srcMemoryType, p.srcHost.addr() as u64, p.srcDevice),
                    p.WidthInBytes,
                    p.Height,
                    p.Depth
                )
            }
            Param::FillParamsOut => {
                let p = from.cast::<CUDA_MEMSET_NODE_PARAMS>().read();
                format!(
                    "{} {} {:x} {} {}x{}",
                    world.name(Kind::Memory, p.dst),
                    p.pitch,
                    p.value,
                    p.elementSize,
                    p.width,
                    p.height
                )
            }
            Param::HostParamsOut => {
                let p = from.cast::<CUDA_HOST_NODE_PARAMS>().read();
                let known = p
                    .fn_
                    .is_some_and(|f| std::ptr::fn_addr_eq(f, called as unsafe extern "C" fn(*mut c_void)));
                format!("{} {}", if known { "called" } else { "?" }, p.userData.addr())
            }
            Param::AllocParamsOut => {
                let p = from.cast::<CUDA_MEM_ALLOC_NODE_PARAMS>().read();
                format!("{} {} {}", world.name(Kind::Memory, p.dptr), p.bytesize, p.poolProps.location.id)
            }
            _ => String::new(),
        }
    }
}
