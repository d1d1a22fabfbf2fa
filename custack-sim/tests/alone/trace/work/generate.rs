//! Makes traces from seeds, by the table of functions.
//!
//! Arguments are mostly what the trace has, sometimes nothing, sometimes a wrong number. So that captures come to their
//! end and graphs to their launch, sequences are begun now and then whose steps come in order, others between them; and
//! what was used last is likely to be used next.

use super::super::random::Random;
use super::functions::{FUNCTIONS, Function, Param, find};
use super::language::{Arg, KINDS, Kind, Step, Trace};
use super::marshal::IMAGES;
use std::sync::LazyLock;

/// What the generator believes to be there.
struct Belief {
    there: Vec<Vec<bool>>,
    recent: Vec<usize>,
    /// Where in its quarter an address was chosen: copies keep it, so that all copies write the same.
    part: u64,
    /// How many nodes the list before has, or bytes the image.
    count: u64,
    /// The condition that an awaited value fulfils.
    condition: u64,
    /// The options of the compiler that are being given.
    options: &'static [(u64, Arg)],
}

/// Sequences of steps that lead somewhere.
const PLANS: &[&[&str]] = &[
    &[
        "cuStreamCreate",
        "cuStreamBeginCapture_v2",
        "*s",
        "*s",
        "*s",
        "cuStreamEndCapture",
        "cuGraphGetNodes",
        "cuGraphInstantiateWithFlags",
        "cuGraphLaunch",
        "*x",
        "cuGraphLaunch",
    ],
    &[
        "cuStreamBeginCapture_v2",
        "cuEventRecord",
        "cuStreamWaitEvent",
        "*s",
        "*s",
        "cuEventRecord",
        "cuStreamWaitEvent",
        "cuStreamEndCapture",
        "cuGraphInstantiateWithFlags",
        "cuGraphLaunch",
    ],
    &[
        "cuStreamBeginCapture_v2",
        "*s",
        "cuStreamGetCaptureInfo_v2",
        "cuStreamUpdateCaptureDependencies",
        "*s",
        "cuStreamEndCapture",
        "cuGraphInstantiateWithFlags",
        "cuGraphLaunch",
    ],
    &[
        "cuGraphCreate",
        "*g",
        "*g",
        "*g",
        "cuGraphAddDependencies",
        "cuGraphInstantiateWithFlags",
        "*x",
        "cuGraphLaunch",
        "cuGraphLaunch",
    ],
    &[
        "cuGraphCreate",
        "*g",
        "*g",
        "cuGraphInstantiateWithFlags",
        "*n",
        "cuGraphExecUpdate_v2",
        "cuGraphLaunch",
    ],
    &[
        "cuGraphCreate",
        "*g",
        "*g",
        "cuGraphClone",
        "cuGraphNodeFindInClone",
        "cuGraphInstantiateWithFlags",
        "cuGraphExecUpdate_v2",
        "cuGraphLaunch",
    ],
    &[
        "cuGraphCreate",
        "*g",
        "cuStreamBeginCaptureToGraph",
        "*s",
        "*s",
        "cuStreamEndCapture",
        "cuGraphGetNodes",
        "cuGraphInstantiateWithFlags",
        "cuGraphLaunch",
    ],
    &[
        "cuGraphCreate",
        "cuGraphAddMemAllocNode",
        "*g",
        "cuGraphAddMemFreeNode",
        "cuGraphInstantiateWithFlags",
        "cuGraphLaunch",
        "cuGraphLaunch",
        "cuMemFreeAsync",
        "cuGraphLaunch",
    ],
    &[
        "cuStreamBeginCapture_v2",
        "cuMemAllocAsync",
        "*s",
        "cuMemFreeAsync",
        "cuStreamEndCapture",
        "cuGraphInstantiateWithFlags",
        "cuGraphLaunch",
        "cuGraphLaunch",
    ],
    &[
        "cuGraphCreate",
        "*g",
        "cuGraphCreate",
        "cuGraphAddChildGraphNode",
        "cuGraphChildGraphNodeGetGraph",
        "*g",
        "cuGraphInstantiateWithFlags",
        "cuGraphLaunch",
    ],
    &[
        "cuModuleLoadData",
        "cuModuleGetFunction",
        "cuLaunchKernel",
        "*f",
        "cuGraphCreate",
        "cuGraphAddKernelNode_v2",
        "cuGraphInstantiateWithFlags",
        "cuGraphExecKernelNodeSetParams_v2",
        "cuGraphLaunch",
    ],
    &["cuLibraryLoadData", "cuLibraryGetKernel", "cuKernelGetFunction", "cuLaunchKernel", "*k", "*f"],
    &["cuMemPoolCreate", "cuMemAllocFromPoolAsync", "*q", "cuMemFreeAsync", "*q", "cuMemPoolTrimTo", "*q"],
    &["cuDeviceGetDefaultMemPool", "cuMemAllocAsync", "*q", "cuMemFreeAsync", "*q"],
    &[
        "cuUserObjectCreate",
        "cuGraphCreate",
        "cuGraphRetainUserObject",
        "cuUserObjectRelease",
        "*g",
        "cuGraphInstantiateWithFlags",
        "cuGraphDestroy",
        "cuGraphLaunch",
        "cuGraphExecDestroy",
    ],
    &[
        "cuStreamCreate",
        "cuEventCreate",
        "cuEventRecord",
        "cuStreamWaitEvent",
        "cuEventQuery",
        "cuEventElapsedTime",
    ],
    &[
        "cuMemPoolCreate",
        "cuMemPoolExportToShareableHandle",
        "cuMemAllocFromPoolAsync",
        "cuMemPoolExportPointer",
        "*q",
    ],
    &[
        "cuModuleLoadDataEx",
        "cuModuleGetFunction",
        "cuGraphCreate",
        "cuGraphAddKernelNode_v2",
        "cuGraphKernelNodeSetAttribute",
        "cuGraphAddKernelNode_v2",
        "cuGraphKernelNodeSetAttribute",
        "cuGraphKernelNodeCopyAttributes",
        "cuGraphKernelNodeGetAttribute",
        "cuGraphInstantiateWithFlags",
        "cuGraphLaunch",
    ],
    &["cuModuleLoadData", "cuModuleGetFunction", "cuLaunchKernelEx", "cuOccupancyMaxActiveClusters", "*f"],
    &[
        "cuStreamBeginCapture_v2",
        "cuLaunchKernelEx",
        "cuStreamBatchMemOp_v2",
        "cuMemcpy2DAsync_v2",
        "*s",
        "cuStreamEndCapture",
        "cuGraphGetNodes",
        "cuGraphKernelNodeSetAttribute",
        "cuGraphInstantiateWithFlags",
        "cuGraphLaunch",
    ],
    &[
        "cuGraphCreate",
        "cuGraphAddNode_v2",
        "cuGraphAddNode_v2",
        "*n",
        "cuGraphNodeSetParams",
        "cuGraphInstantiateWithFlags",
        "cuGraphExecNodeSetParams",
        "cuGraphLaunch",
        "cuGraphDebugDotPrint",
    ],
];

/// A trace of `length` steps.
pub(super) fn generate(seed: u64, length: usize) -> Trace {
    let mut random = Random::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x776f_726b);
    let threads = if random.once_in(2) { 1 } else { 1 + random.below(4) };
    let mut belief = Belief {
        there: KINDS
            .iter()
            .map(|(kind, _, count)| vec![matches!(kind, Kind::Context | Kind::Fixed | Kind::Host); *count])
            .collect(),
        recent: vec![0; KINDS.len()],
        part: 0,
        count: 0,
        condition: 0,
        options: &[],
    };
    let total: usize = (0..FUNCTIONS.len()).map(weight).sum();
    let mut plan: &[&str] = &[];
    let mut steps = Vec::with_capacity(length);
    let mut thread = 0;
    // Some traces have errors everywhere, and some few, which come further.
    let rash = *random.choose(&[6, 20, 60, 200]);
    while steps.len() < length {
        if random.once_in(4) {
            thread = random.below(threads);
        }
        if plan.is_empty() && !random.once_in(3) {
            plan = random.pick(PLANS);
        }
        let function = match plan {
            [next, rest @ ..] if !random.once_in(4) => {
                plan = rest;
                if let Some(kind) = next.strip_prefix('*') {
                    about(&mut random, kind.chars().next().expect("a letter"))
                } else {
                    find(next).expect("a function of the table")
                }
            }
            _ => by_weight(&mut random, total),
        };
        push(&mut random, &mut belief, &mut steps, thread, function, rash);
    }
    Trace { steps }
}

/// What makes an object of each kind.
const MAKERS: [(Kind, &str); 12] = [
    (Kind::Stream, "cuStreamCreate"),
    (Kind::Event, "cuEventCreate"),
    (Kind::Graph, "cuGraphCreate"),
    (Kind::Exec, "cuGraphInstantiateWithFlags"),
    (Kind::Node, "cuGraphAddEmptyNode"),
    (Kind::Pool, "cuMemPoolCreate"),
    (Kind::Module, "cuModuleLoadData"),
    (Kind::Function, "cuModuleGetFunction"),
    (Kind::Library, "cuLibraryLoadData"),
    (Kind::Kernel, "cuLibraryGetKernel"),
    (Kind::Object, "cuUserObjectCreate"),
    (Kind::Memory, "cuMemAllocAsync"),
];

/// Appends a step of this function, and before it what makes the objects that it needs, mostly.
fn push(
    random: &mut Random,
    belief: &mut Belief,
    steps: &mut Vec<Step>,
    thread: usize,
    function: usize,
    rash: usize,
) {
    for param in FUNCTIONS[function].params {
        let needed = match param {
            Param::In(kind) => *kind,
            Param::OwnStream => Kind::Stream,
            Param::KernelParams => Kind::Function,
            _ => continue,
        };
        let none = belief.there[needed as usize].iter().all(|there| !there);
        let maker = MAKERS.iter().find(|(kind, _)| *kind == needed);
        if let (true, Some((_, maker)), false) = (none, maker, random.once_in(rash.min(12))) {
            push(random, belief, steps, thread, find(maker).expect("a function of the table"), rash);
        }
    }
    let mut args = Vec::new();
    for at in 0..FUNCTIONS[function].params.len() {
        args.push(argument(random, belief, function, at, rash));
    }
    // A driver that has had a linker crashes at a later call, now and then, if only where that is destroyed: none is made.
    for (param, arg) in FUNCTIONS[function].params.iter().zip(&mut args) {
        if matches!(param, Param::New(Kind::Link) | Param::In(Kind::Link)) {
            *arg = Arg::Null;
        }
    }
    believe(belief, function, &args);
    steps.push(Step { thread, function, args });
}

/// One of these, of which the first half is usual.
fn usual<'a, T>(random: &mut Random, from: &'a [T], rash: usize) -> &'a T {
    let few = if random.once_in(rash / 5 + 1) { from.len() } else { from.len().div_ceil(2) };
    &from[random.below(few)]
}

/// How often a function is tried. Those in whose names is one of the words of `CUSTACK_WORK_FUNCTIONS`, which has commas
/// between them, are tried twelve times as often; a seed then gives another trace.
fn weight(function: usize) -> usize {
    static WEIGHTS: LazyLock<Vec<usize>> = LazyLock::new(|| {
        let words = std::env::var("CUSTACK_WORK_FUNCTIONS").unwrap_or_default();
        let words: Vec<&str> = words.split(',').filter(|word| !word.is_empty()).collect();
        let often = |function: &Function| words.iter().any(|word| function.name.contains(word));
        FUNCTIONS.iter().map(|it| if often(it) { 12 * it.weight } else { it.weight }).collect()
    });
    WEIGHTS[function]
}

fn by_weight(random: &mut Random, total: usize) -> usize {
    let mut at = random.below(total);
    let place = (0..FUNCTIONS.len()).find(|place| {
        let place = *place;
        let found = at < weight(place);
        at = at.wrapping_sub(weight(place));
        found
    });
    place.expect("the weights' sum is the total")
}

/// A function that works on this kind of object.
fn about(random: &mut Random, letter: char) -> usize {
    let kind = KINDS.iter().find(|(_, known, _)| *known == letter).expect("a letter of the language").0;
    let fits = |at: &usize| {
        let function = &FUNCTIONS[*at];
        let ends = ["Destroy", "Unload", "Capture", "Query", "Synchronize", "Get"];
        function.params.iter().any(|param| matches!(param, Param::In(other) if *other == kind))
            && (!ends.iter().any(|word| function.name.contains(word)) || random.once_in(4))
    };
    let fitting: Vec<usize> = (0..FUNCTIONS.len()).filter(fits).collect();
    let total: usize = fitting.iter().map(|at| weight(*at)).sum();
    let mut left = random.below(total);
    for at in fitting {
        if left < weight(at) {
            return at;
        }
        left -= weight(at);
    }
    unreachable!("the weights' sum is the total")
}

/// An object, mostly one that is there, and likely the one that was used last.
fn object(random: &mut Random, belief: &mut Belief, kind: Kind, rash: usize) -> Arg {
    if kind == Kind::Stream && random.once_in(5) {
        return random
            .choose(&[Arg::Null, Arg::Null, Arg::Number(1), Arg::Number(2), Arg::Number(2)])
            .clone();
    }
    if random.once_in(rash) {
        return Arg::Null;
    }
    if kind == Kind::Function && random.once_in(8) {
        return object(random, belief, Kind::Kernel, rash);
    }
    let there = &belief.there[kind as usize];
    let alive: Vec<usize> = (0..there.len()).filter(|slot| there[*slot]).collect();
    let slot = if !random.once_in(3) && there[belief.recent[kind as usize]] {
        belief.recent[kind as usize]
    } else if alive.is_empty() || random.once_in(rash) {
        random.below(kind.slots())
    } else {
        *random.choose(&alive)
    };
    belief.recent[kind as usize] = slot;
    Arg::Slot(kind, slot, 0)
}

fn free_slot(random: &mut Random, belief: &Belief, kind: Kind) -> usize {
    let there = &belief.there[kind as usize];
    let free: Vec<usize> = (0..there.len()).filter(|slot| !there[*slot]).collect();
    if free.is_empty() { random.below(kind.slots()) } else { *random.choose(&free) }
}

fn node_list(random: &mut Random, belief: &mut Belief, rash: usize) -> Vec<Arg> {
    let count = *random.choose(&[0, 0, 1, 1, 1, 1, 2, 2, 3]);
    (0..count).map(|_| object(random, belief, Kind::Node, 4 * rash)).collect()
}

fn address(random: &mut Random, belief: &mut Belief, quarter: u64, step: u64, rash: usize) -> Arg {
    if random.once_in(4 * rash) {
        return Arg::Null;
    }
    belief.part = 8 * random.below(4) as u64;
    let kind = Kind::Fixed;
    if quarter == 1 && random.once_in(6) {
        return object(random, belief, Kind::Memory, rash);
    }
    Arg::Slot(kind, random.below(kind.slots()), 64 * quarter + belief.part / 8 * step)
}

fn number(random: &mut Random, from: &[u64]) -> Arg {
    Arg::Number(*random.choose(from))
}

#[allow(clippy::too_many_lines, reason = "one arm for each kind of argument")]
fn argument(random: &mut Random, belief: &mut Belief, function: usize, at: usize, rash: usize) -> Arg {
    let params = FUNCTIONS[function].params;
    let out = |random: &mut Random| if random.once_in(3 * rash) { Arg::Null } else { Arg::Here };
    match params[at] {
        Param::In(kind) => object(random, belief, kind, rash),
        Param::OwnStream => match object(random, belief, Kind::Stream, rash) {
            Arg::Slot(kind, slot, offset) => Arg::Slot(kind, slot, offset),
            _ => Arg::Slot(Kind::Stream, 0, 0),
        },
        Param::New(_) if random.once_in(3 * rash) => Arg::Null,
        Param::New(kind) => Arg::Slot(kind, free_slot(random, belief, kind), 0),
        Param::Pick(from) => Arg::Number(*usual(random, from, rash)),
        Param::Nodes => {
            let first = FUNCTIONS[function].name == "cuGraphAddNode_v2" && random.once_in(2);
            let list = if first { Vec::new() } else { node_list(random, belief, rash) };
            belief.count = list.len() as u64;
            if list.is_empty() && random.once_in(2) { Arg::Null } else { Arg::List(list) }
        }
        Param::Count => {
            // A count without a list of that length would have the driver read what is not there.
            let wrong = random.once_in(2 * rash) && belief.count > 0;
            Arg::Number(if wrong { belief.count - 1 } else { belief.count })
        }
        Param::Edges => {
            let of_node = FUNCTIONS[function].name == "cuGraphAddNode_v2";
            if random.once_in(2) || of_node && (belief.count == 0 || random.once_in(2)) {
                return Arg::Null;
            }
            let edge = |random: &mut Random| {
                number(
                    random,
                    &[0, 0, 0, 0, 0, 1, 0x1_00_00, 0x1_00_01, 0x1_00_02, 0x100, 0x2_00_00, 1 << 40],
                )
            };
            Arg::List((0..belief.count.max(1)).map(|_| edge(random)).collect())
        }
        Param::NewNodes => {
            if random.once_in(4) {
                belief.count = *random.choose(&[0, 0, 5]);
                return Arg::Null;
            }
            // A second list has the length of the first.
            let again = at > 0 && matches!(params[at - 1], Param::NewNodes) && belief.count > 0;
            let count = if again { belief.count as usize } else { *random.choose(&[1, 2, 4, 8]) };
            belief.count = count as u64;
            Arg::List(
                (0..count).map(|_| Arg::Slot(Kind::Node, free_slot(random, belief, Kind::Node), 0)).collect(),
            )
        }
        Param::NewEdges => {
            if random.once_in(3) {
                return Arg::Null;
            }
            Arg::List(vec![Arg::Here; belief.count as usize])
        }
        Param::NodesAt => {
            if random.once_in(6) {
                return Arg::Null;
            }
            let slot = free_slot(random, belief, Kind::Node);
            Arg::List(vec![Arg::Slot(Kind::Node, slot, 0)])
        }
        Param::EdgesAt => out(random),
        Param::Length => {
            if random.once_in(3 * rash) {
                return Arg::Null;
            }
            Arg::Number(belief.count)
        }
        Param::InOut(_, from) => number(random, from),
        Param::HostFn | Param::DropFn | Param::Callback => out(random),
        Param::Data => number(random, &[0, 1, 2, 3]),
        Param::Fill => address(random, belief, 1, 8, rash),
        Param::To => address(random, belief, 3, 8, rash),
        Param::From => copied(random, belief, Kind::Fixed),
        Param::HostTo => {
            belief.part = 8 * random.below(4) as u64;
            Arg::Slot(Kind::Host, random.below(2), 192 + belief.part)
        }
        Param::HostFrom => copied(random, belief, Kind::Host),
        Param::Add => address(random, belief, 2, 4, rash),
        Param::Arguments => Arg::List(vec![added(random), number(random, &[1, 2, 3, 1000])]),
        Param::AnyTo if random.once_in(3) => {
            belief.part = 8 * random.below(4) as u64;
            Arg::Slot(Kind::Host, random.below(2), 192 + belief.part)
        }
        Param::AnyTo => address(random, belief, 3, 8, rash),
        Param::AnyFrom => {
            let kind = if random.once_in(3) { Kind::Host } else { Kind::Fixed };
            copied(random, belief, kind)
        }
        Param::Needed(_) | Param::Descriptor | Param::AttributeOut => Arg::Here,
        Param::Sink | Param::NameOut => out(random),
        Param::Awaited(_) if random.once_in(4 * rash) => Arg::Null,
        Param::Awaited(_) => awaited(random, belief),
        Param::AwaitedValue(bits) => awaited_value(random, belief, bits),
        Param::Condition => {
            const FLUSH: u64 = 1 << 30;
            let more = if random.once_in(2 * rash) { *random.choose(&[4, FLUSH]) } else { 0 };
            Arg::Number(belief.condition | more)
        }
        Param::OperationCount => {
            belief.count = *random.choose(&[1, 1, 2, 2, 3, 0]);
            Arg::Number(belief.count)
        }
        Param::OptionCount => {
            belief.options = *usual(random, OPTIONS, rash);
            Arg::Number(belief.options.len() as u64)
        }
        Param::OptionNumbers if belief.options.is_empty() => Arg::Null,
        Param::OptionNumbers => {
            Arg::List(belief.options.iter().map(|(number, _)| Arg::Number(*number)).collect())
        }
        Param::OptionValues if belief.options.is_empty() => Arg::Null,
        Param::OptionValues => Arg::List(belief.options.iter().map(|(_, value)| value.clone()).collect()),
        Param::ImageLength => Arg::Number(if random.once_in(2 * rash) { 0 } else { belief.count }),
        Param::Path => Arg::Name((*usual(random, &["file", "nowhere"], rash)).to_owned()),
        Param::Name => Arg::Name(
            (*usual(random, &["add", "add", "add", "twice", "twice", "cell", "none"], rash)).to_owned(),
        ),
        Param::Image => {
            let name = *usual(random, &["both", "both", "both", "one", "one", "wrong", "garbage"], rash);
            let image = IMAGES.iter().find(|(known, _)| *known == name);
            belief.count = image.map_or(0, |(_, text)| text.count_bytes() as u64 + 1);
            Arg::Name(name.to_owned())
        }
        Param::Nothing => Arg::Null,
        param => structure(random, belief, param, rash),
    }
}

/// Options of the compiler and their values: those that are right, and then those that are not.
const OPTIONS: &[&[(u64, Arg)]] = &[
    &[],
    &[],
    &[(0, Arg::Number(32))],
    &[(7, Arg::Number(0))],
    &[(7, Arg::Number(4)), (13, Arg::Number(1))],
    &[(8, Arg::Number(0))],
    &[(9, Arg::Number(90)), (12, Arg::Number(1))],
    &[(14, Arg::Number(0)), (0, Arg::Number(255))],
    &[(7, Arg::Number(5))],
    &[(7, Arg::Number(9)), (0, Arg::Number(0))],
    &[(9, Arg::Number(10))],
    &[(77, Arg::Number(1))],
    &[(13, Arg::Number(1)), (77, Arg::Number(0))],
    &[(3, Arg::Here)],
    &[(4, Arg::Number(64))],
    &[(0, Arg::Number(0))],
];

/// Where a stream waits: what all traces find there, none changes.
fn awaited(random: &mut Random, belief: &mut Belief) -> Arg {
    belief.part = 8 * random.below(4) as u64;
    Arg::Slot(Kind::Fixed, random.below(3), belief.part)
}

/// A value for which no stream waits there, so that none waits for ever.
fn awaited_value(random: &mut Random, belief: &mut Belief, bits: u32) -> Arg {
    let bytes = |at: u64| (belief.part + at) ^ 0x5a;
    let there = (0..u64::from(bits / 8)).fold(0, |value, at| value | bytes(at) << (8 * at));
    belief.condition = random.below(4) as u64;
    Arg::Number(match belief.condition {
        0 => there - random.below(2) as u64,
        3 => 0,
        _ => there,
    })
}

/// Operations of a batch, each of four words.
fn operations(random: &mut Random, belief: &mut Belief, count: u64, rash: usize) -> Vec<Arg> {
    let mut list = Vec::new();
    for _ in 0..count {
        let kind = *usual(random, &[1, 2, 2, 4, 5, 5, 6, 6, 3, 77], rash);
        let bits = if kind < 4 { 32 } else { 64 };
        let [address, value, flags] = match kind {
            1 | 4 => {
                let (address, value) = (awaited(random, belief), awaited_value(random, belief, bits));
                [address, value, Arg::Number(belief.condition)]
            }
            2 | 5 => {
                let value = if bits == 32 { 0xc3c3_c3c3 } else { 0xc3c3_c3c3_c3c3_c3c3 };
                let flags = *usual(random, &[0, 0, 1, 2], rash);
                [address(random, belief, 1, 8, rash), Arg::Number(value), Arg::Number(flags)]
            }
            _ => [Arg::Null, Arg::Number(0), Arg::Number(*usual(random, &[0, 0, 1, 2], rash))],
        };
        list.extend([Arg::Number(kind), address, value, flags]);
    }
    list
}

/// The type of a node and what it is to do.
fn node_params(random: &mut Random, belief: &mut Belief, rash: usize) -> Vec<Arg> {
    let kind = *usual(random, &[0, 0, 1, 2, 3, 5, 6, 7, 12, 12, 0, 1, 2, 3, 5, 6, 7, 12, 77, 14], rash);
    let mut list = vec![Arg::Number(kind)];
    let described = match kind {
        0 => Some(Param::KernelParams),
        1 => Some(Param::CopyParams),
        2 => Some(Param::FillParams),
        3 => Some(Param::HostParams),
        _ => None,
    };
    if let Some(param) = described {
        // With no chance of NULL in place of the list.
        while list.len() == 1 {
            list.extend_from_slice(structure(random, belief, param, rash).list());
        }
    }
    match kind {
        1 | 2 => list.push(object(random, belief, Kind::Context, rash)),
        6 | 7 => list.push(object(random, belief, Kind::Event, rash)),
        12 => {
            list.push(object(random, belief, Kind::Context, rash));
            list.push(Arg::Number(*usual(random, &[0, 0, 1, 2], rash)));
            let count = *random.choose(&[1, 1, 2, 3]);
            list.extend(operations(random, belief, count, rash));
        }
        _ => {}
    }
    list
}

/// Attributes of a launch, each with values of which the first half is right.
const LAUNCH_ATTRIBUTES: &[(u64, &[u64])] = &[
    (4, &[1, 2, 2, 4, 3, 0, 8, 16]),
    (4, &[1, 2, 2, 4, 3, 0, 8, 16]),
    (2, &[1, 1, 0]),
    (5, &[0, 1, 2, 3]),
    (8, &[0, 0xffff_fffb, 3]),
    (14, &[0, 50, 100, 101]),
    (10, &[0, 1, 2]),
    (6, &[0, 0, 1]),
    (0, &[0]),
    (77, &[1]),
];

/// Grid, block, shared memory, stream, and attributes with their values.
fn launch_config(random: &mut Random, belief: &mut Belief, rash: usize) -> Vec<Arg> {
    let grid = *usual(random, &[1, 2, 2, 4, 8, 3, 0, 16], rash);
    let block = *usual(random, &[1, 32, 32, 33, 1024, 1025, 0], rash);
    let shared = *usual(random, &[0, 0, 0, 16, 49_152, 49_153], rash);
    let mut list = vec![Arg::Number(grid), Arg::Number(block), Arg::Number(shared)];
    list.push(object(random, belief, Kind::Stream, rash));
    for _ in 0..*random.choose(&[0, 0, 1, 1, 1, 2, 3]) {
        let (id, values) = *usual(random, LAUNCH_ATTRIBUTES, rash);
        list.extend([Arg::Number(id), Arg::Number(*usual(random, values, rash))]);
    }
    list
}

fn added(random: &mut Random) -> Arg {
    Arg::Slot(Kind::Fixed, random.below(3), 128 + 4 * random.below(4) as u64)
}

/// What a copy reads: as far into the first quarter as it writes into the last.
fn copied(random: &mut Random, belief: &Belief, kind: Kind) -> Arg {
    Arg::Slot(kind, random.below(kind.slots()), belief.part)
}

fn structure(random: &mut Random, belief: &mut Belief, param: Param, rash: usize) -> Arg {
    if random.once_in(3 * rash) {
        return Arg::Null;
    }
    match param {
        Param::Operations => return Arg::List(operations(random, belief, belief.count, rash)),
        Param::NodeParams => return Arg::List(node_params(random, belief, rash)),
        Param::Config => return Arg::List(launch_config(random, belief, rash)),
        _ => {}
    }
    let mut few = |usual: u64, others: &[u64]| {
        Arg::Number(if random.once_in(rash) { *random.choose(others) } else { usual })
    };
    let list = match param {
        Param::KernelParams => {
            let (grid, block) = (few(1, &[0, 2]), few(1, &[0, 32, 1025]));
            let shared = few(0, &[16, 49_152, 49_153]);
            let one = || Arg::Number(1);
            let function = object(random, belief, Kind::Function, rash);
            let context =
                if random.once_in(3) { object(random, belief, Kind::Context, rash) } else { Arg::Null };
            let value = number(random, &[1, 2, 3, 1000]);
            vec![function, grid, one(), one(), block, one(), one(), shared, added(random), value, context]
        }
        Param::CopyParams => {
            let (width, height, depth) = (few(8, &[0, 1, 16, 17]), few(1, &[0, 2]), few(1, &[0]));
            let to = if random.once_in(4) {
                belief.part = 8 * random.below(4) as u64;
                Arg::Slot(Kind::Host, random.below(2), 192 + belief.part)
            } else {
                belief.part = 8 * random.below(4) as u64;
                Arg::Slot(Kind::Fixed, random.below(3), 192 + belief.part)
            };
            let kind = if random.once_in(4) { Kind::Host } else { Kind::Fixed };
            vec![to, copied(random, belief, kind), width, height, depth]
        }
        Param::FillParams => {
            let (size, width, height) = (few(1, &[0, 2, 4, 3, 8]), few(4, &[0, 1, 2, 4]), few(1, &[0, 2]));
            let pitch = few(16, &[0, 8, 3]);
            let (mask, width) = match size {
                Arg::Number(2) => (0xc3c3, width),
                Arg::Number(4) => (0xc3c3_c3c3, width),
                _ => (0xc3, width),
            };
            vec![address(random, belief, 1, 8, rash), pitch, Arg::Number(mask), size, width, height]
        }
        Param::HostParams => {
            vec![if random.once_in(3 * rash) { Arg::Null } else { Arg::Here }, number(random, &[0, 1, 2, 3])]
        }
        Param::AllocParams => {
            let (kind, device) = (few(1, &[0, 2]), few(0, &[99, u64::from(u32::MAX)]));
            let slot = free_slot(random, belief, Kind::Memory);
            vec![Arg::Slot(Kind::Memory, slot, 0), kind, device, number(random, &[64, 256, 4096, 0])]
        }
        Param::PoolProps => {
            let (kind, handles, at, device) =
                (few(1, &[0, 2]), few(0, &[1, 0x100]), few(1, &[0, 2, 9]), few(0, &[99]));
            let size = few(0, &[1, 1 << 25]);
            vec![kind, if random.once_in(3) { Arg::Number(1) } else { handles }, at, device, size]
        }
        Param::InstantiateParams => {
            let flags = few(0, &[1, 2, 3, 4, 8, 32]);
            vec![flags, object(random, belief, Kind::Stream, rash)]
        }
        Param::Rows => {
            let (width, height, pitch) = (few(8, &[0, 1, 16, 17]), few(2, &[0, 1]), few(16, &[0, 8]));
            let onto = if random.once_in(4) { Kind::Host } else { Kind::Fixed };
            belief.part = 8 * random.below(4) as u64;
            let to = Arg::Slot(onto, random.below(2), 192 + belief.part);
            let kind = if random.once_in(4) { Kind::Host } else { Kind::Fixed };
            vec![to, copied(random, belief, kind), width, height, pitch]
        }
        Param::AttributeValue => {
            vec![few(1, &[0, 2, 4, 50, 101, 0xffff_fffb]), few(1, &[0, 2]), few(1, &[0])]
        }
        Param::DeviceLocation => vec![few(1, &[0, 9]), few(0, &[99])],
        Param::Location => vec![few(1, &[0, 2, 9]), few(0, &[99])],
        Param::Access => vec![few(1, &[0, 2, 9]), few(0, &[99]), number(random, &[3, 3, 3, 0, 1, 2])],
        _ => return Arg::Here,
    };
    Arg::List(list)
}

/// What the step does if it succeeds.
fn believe(belief: &mut Belief, function: usize, args: &[Arg]) {
    let function = &FUNCTIONS[function];
    for (param, arg) in function.params.iter().zip(args) {
        let made: Vec<&Arg> = match param {
            Param::New(_) => vec![arg],
            Param::NewNodes | Param::NodesAt => arg.list().iter().take(3).collect(),
            Param::AllocParams => arg.list().iter().take(1).collect(),
            _ => Vec::new(),
        };
        for made in made {
            if let Arg::Slot(kind, slot, _) = made {
                belief.there[*kind as usize][*slot] = true;
                belief.recent[*kind as usize] = *slot;
            }
        }
    }
    let ends = ["Destroy", "Unload", "cuMemFree"];
    if let (true, Some(Arg::Slot(kind, slot, _))) =
        (ends.iter().any(|word| function.name.contains(word)), args.first())
    {
        belief.there[*kind as usize][*slot] = false;
    }
}
