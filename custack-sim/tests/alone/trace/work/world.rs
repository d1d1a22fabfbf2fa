//! What a playing holds: the objects in the slots, who owns whom, and which steps a driver must not be given.
//!
//! An object that is destroyed leaves its slot empty, and an empty slot is NULL; so no wild pointer is ever given to a
//! driver. What goes with another (nodes with their graph, functions with their module, the graph of a capture with the
//! capture) goes from its slot with it. [`World::leaves_out`] says which steps are not played and why.

use super::functions::{Param, STREAM_OF_CONFIG};
use super::language::{Arg, KINDS, Kind, Step};
use std::collections::HashSet;

/// The type of a node that waits for an event.
const WAIT: u64 = 6;
/// The type of a node that does operations of a batch.
const BATCH: u64 = 12;

/// One object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) raw: u64,
    /// The graph of a node or of memory, the graph around a child, the module of a function, the library of a kernel.
    pub(super) owner: u64,
    /// It is another's, and not the trace's to destroy.
    pub(super) borrowed: bool,
    /// The pool of memory, where it is one that the trace has made.
    pub(super) pool: u64,
    /// How often the trace holds it, for user objects.
    pub(super) count: u64,
    /// Its graph frees it, and then allocates something else, which may have its address.
    pub(super) freed: bool,
    pub(super) reused: bool,
}

pub(super) struct World {
    slots: Vec<Vec<Held>>,
    /// What lost its slot to another and is still there.
    pub(super) leftover: Vec<(Kind, Held)>,
    /// What graphs, executables and captures may use: it is not let go before the end.
    pinned: HashSet<u64>,
    /// How often each graph holds each user object.
    holds: Vec<(u64, u64, u64)>,
    ids: Vec<(bool, u64)>,
    /// The graphs that captures make, of which something is in the slots, and a stream of each capture.
    captures: Vec<(u64, u64)>,
    /// Whether the trace has made user objects.
    objects: bool,
    /// The device's pool, if it is one that the trace has made.
    pub(super) current_pool: u64,
    /// The device's own pool, and what it counted at first: reserved and used, each with its peak.
    pub(super) base: (u64, [u64; 4]),
    /// What graphs had at first: used and reserved, each with its peak.
    pub(super) base_of_graphs: [u64; 4],
    /// The events that graphs wait for, and those that were last recorded in a capture.
    waited: HashSet<u64>,
    recorded: HashSet<u64>,
    /// A fill of NULL was captured.
    fills_null: bool,
    /// A graph may write values to, or wait for them at, what is NULL or was allocated; and the executables made or
    /// updated since, whose launch may be refused for that.
    values_elsewhere: bool,
    launches_values: HashSet<u64>,
    /// The graphs, and then the executables, that free what another graph allocates.
    frees_others: HashSet<u64>,
    launches_others: HashSet<u64>,
    /// The executables that were made of a graph, or updated from one, while a stream captured into it.
    made_meanwhile: HashSet<u64>,
    /// A graph has a cooperative kernel.
    cooperates: bool,
    /// A node of an executable was disabled.
    disables: bool,
}

/// Whether a kernel of a graph is cooperative from this step on.
fn makes_cooperative(step: &Step, capturing: bool) -> bool {
    const COOPERATIVE: u64 = 2;
    let is_set = |pair: &[Arg]| pair[0].number() == COOPERATIVE && pair[1].number() != 0;
    match step.function().name {
        "cuGraphKernelNodeSetAttribute" => {
            step.args[1].number() == COOPERATIVE
                && step.args[2].list().first().is_some_and(|it| it.number() != 0)
        }
        "cuLaunchCooperativeKernel" => capturing,
        "cuLaunchKernelEx" => {
            let attributes = step.args[0].list().get(STREAM_OF_CONFIG + 1..).unwrap_or_default();
            capturing && attributes.chunks_exact(2).any(is_set)
        }
        _ => false,
    }
}

/// Whether an operation writes a value to, or waits for one at, what is not the memory that every trace finds.
fn has_values_elsewhere(step: &Step) -> bool {
    let is_elsewhere = |arg: &Arg| !matches!(arg, Arg::Slot(Kind::Fixed, ..));
    let any = |list: &[Arg]| {
        let mut operations = list.chunks_exact(4);
        operations.any(|it| matches!(it[0].number(), 1 | 2 | 4 | 5) && is_elsewhere(&it[1]))
    };
    match step.function().name {
        name if name.starts_with("cuStreamWriteValue") || name.starts_with("cuStreamWaitValue") => {
            is_elsewhere(&step.args[1])
        }
        "cuStreamBatchMemOp_v2" => any(step.args[2].list()),
        _ => step.function().params.iter().zip(&step.args).any(|(param, arg)| match (param, arg.list()) {
            (Param::NodeParams, [Arg::Number(BATCH), _, _, operations @ ..]) => any(operations),
            _ => false,
        }),
    }
}

impl World {
    pub(super) fn new() -> World {
        World {
            slots: KINDS.iter().map(|(_, _, count)| vec![Held::default(); *count]).collect(),
            leftover: Vec::new(),
            pinned: HashSet::new(),
            holds: Vec::new(),
            ids: Vec::new(),
            captures: Vec::new(),
            objects: false,
            current_pool: 0,
            base: (0, [0; 4]),
            base_of_graphs: [0; 4],
            waited: HashSet::new(),
            recorded: HashSet::new(),
            fills_null: false,
            values_elsewhere: false,
            launches_values: HashSet::new(),
            frees_others: HashSet::new(),
            launches_others: HashSet::new(),
            made_meanwhile: HashSet::new(),
            cooperates: false,
            disables: false,
        }
    }

    pub(super) fn all(&self, kind: Kind) -> &[Held] {
        &self.slots[kind as usize]
    }

    /// What an argument names; nothing if it names no object.
    pub(super) fn held(&self, arg: &Arg) -> Held {
        match arg {
            Arg::Slot(kind, slot, _) => self.slots[*kind as usize][*slot],
            Arg::Number(raw) => Held { raw: *raw, ..Held::default() },
            _ => Held::default(),
        }
    }

    pub(super) fn raw(&self, arg: &Arg) -> u64 {
        let raw = self.held(arg).raw;
        if let (Arg::Slot(_, _, offset), true) = (arg, raw != 0) { raw + offset } else { raw }
    }

    pub(super) fn put(&mut self, kind: Kind, slot: usize, held: Held) {
        self.objects |= kind == Kind::Object;
        if kind == Kind::Memory && held.owner != 0 {
            let freed = self.slots[kind as usize].iter_mut().filter(|it| it.freed && it.owner == held.owner);
            freed.for_each(|it| it.reused = true);
        }
        let place = &mut self.slots[kind as usize][slot];
        let old = std::mem::replace(place, held);
        let elsewhere = self.all(kind).iter().any(|other| other.raw == old.raw);
        if old.raw != 0 && !old.borrowed && kind != Kind::Node && !elsewhere {
            self.leftover.push((kind, old));
        }
    }

    pub(super) fn has_disabled_nodes(&self) -> bool {
        self.disables
    }

    pub(super) fn has_objects(&self) -> bool {
        self.objects
    }

    /// The name of a handle.
    pub(super) fn name(&self, kind: Kind, raw: u64) -> String {
        if raw == 0 {
            return "null".to_owned();
        }
        let slots = self.all(kind).iter().enumerate();
        if kind == Kind::Memory || kind == Kind::Fixed || kind == Kind::Host {
            let all = [Kind::Memory, Kind::Fixed, Kind::Host];
            let near = all.iter().find_map(|kind| {
                let mut slots = self.all(*kind).iter().enumerate();
                slots
                    .find(|(_, held)| {
                        held.raw != 0 && (held.raw..held.raw + 64).contains(&raw)
                            || *kind != Kind::Memory && (held.raw..held.raw + 256).contains(&raw)
                    })
                    .map(|(slot, held)| format!("{}", Arg::Slot(*kind, slot, raw - held.raw)))
            });
            return near.unwrap_or_else(|| "?".to_owned());
        }
        let mut slots = slots.filter(|(_, held)| held.raw == raw);
        slots.next().map_or_else(|| "?".to_owned(), |(slot, _)| format!("{}{slot}", kind.letter()))
    }

    /// Ids differ from driver to driver; the order in which they are first seen does not.
    pub(super) fn id(&mut self, of_capture: bool, id: u64) -> usize {
        let seen = self.ids.iter().position(|known| *known == (of_capture, id));
        seen.unwrap_or_else(|| {
            self.ids.push((of_capture, id));
            self.ids.len() - 1
        })
    }

    /// Takes an object from all its slots.
    pub(super) fn clear(&mut self, kind: Kind, raw: u64) {
        self.slots[kind as usize]
            .iter_mut()
            .filter(|held| held.raw == raw)
            .for_each(|held| *held = Held::default());
        self.leftover.retain(|(other, held)| (*other, held.raw) != (kind, raw));
    }

    fn owned_by(&self, kind: Kind, owner: u64) -> Vec<u64> {
        let leftover = self.leftover.iter().filter(|(other, _)| *other == kind).map(|(_, held)| held);
        self.all(kind)
            .iter()
            .chain(leftover)
            .filter(|held| held.raw != 0 && held.owner == owner)
            .map(|held| held.raw)
            .collect()
    }

    /// A graph is gone, and what was its own.
    pub(super) fn clear_graph(&mut self, raw: u64) {
        if raw == 0 {
            return;
        }
        self.clear(Kind::Graph, raw);
        self.captures.retain(|(graph, _)| *graph != raw);
        for node in self.owned_by(Kind::Node, raw) {
            self.clear(Kind::Node, node);
        }
        for memory in self.owned_by(Kind::Memory, raw) {
            // An executable may have allocated it: it is freed in the end.
            self.clear(Kind::Memory, memory);
            self.free_in_the_end(memory);
        }
        for child in self.owned_by(Kind::Graph, raw) {
            self.clear_graph(child);
        }
        self.holds.retain(|(graph, ..)| *graph != raw);
        self.frees_others.remove(&raw);
    }

    /// An executable is like this graph from now on.
    pub(super) fn see_executable(&mut self, raw: u64, graph: u64) {
        if self.frees_others.contains(&graph) {
            self.launches_others.insert(raw);
        } else {
            self.launches_others.remove(&raw);
        }
        if self.captures.iter().any(|(captured, _)| *captured == graph) {
            self.made_meanwhile.insert(raw);
        } else {
            self.made_meanwhile.remove(&raw);
        }
        if self.values_elsewhere {
            self.launches_values.insert(raw);
        } else {
            self.launches_values.remove(&raw);
        }
    }

    /// Memory that is in no slot is freed in the end.
    pub(super) fn free_in_the_end(&mut self, raw: u64) {
        self.leftover.push((Kind::Memory, Held { raw, owner: 1, ..Held::default() }));
    }

    fn clear_module(&mut self, raw: u64) {
        for kind in [Kind::Module, Kind::Library] {
            self.clear(kind, raw);
        }
        for module in self.owned_by(Kind::Module, raw) {
            self.clear_module(module);
        }
        for kind in [Kind::Function, Kind::Kernel] {
            for function in self.owned_by(kind, raw) {
                self.clear(kind, function);
            }
        }
    }

    /// The captures' graphs of which something is in the slots, and a stream of each.
    pub(super) fn captured(&self) -> Vec<(u64, u64)> {
        self.captures.clone()
    }

    /// Something of the graph that this stream's capture makes is in a slot now.
    pub(super) fn see_capture(&mut self, graph: u64, stream: u64) {
        if graph != 0 && !self.captures.contains(&(graph, stream)) {
            self.captures.push((graph, stream));
        }
    }

    fn root(&self, held: Held) -> u64 {
        let module =
            self.all(Kind::Module).iter().find(|module| module.raw == held.owner && module.owner != 0);
        module.map_or(held.owner, |module| module.owner)
    }

    fn is_pinned(&self, raw: u64) -> bool {
        let below = |held: &Held| {
            held.owner == raw && (self.pinned.contains(&held.raw) || self.pinned.contains(&held.owner))
        };
        self.pinned.contains(&raw) || self.all(Kind::Module).iter().any(below)
    }

    fn is_in_use(&self, pool: u64) -> bool {
        let leftover = self.leftover.iter().map(|(_, held)| held);
        self.all(Kind::Memory).iter().chain(leftover).any(|memory| memory.pool == pool)
    }

    fn holds(&mut self, graph: u64, object: u64) -> &mut u64 {
        if let Some(at) = self.holds.iter().position(|hold| (hold.0, hold.1) == (graph, object)) {
            return &mut self.holds[at].2;
        }
        self.holds.push((graph, object, 0));
        &mut self.holds.last_mut().expect("it was just put there").2
    }

    /// Why a driver must not be given this step, if it must not. `nothing_current` tells whether its thread has no
    /// context.
    pub(super) fn leaves_out(&mut self, step: &Step, nothing_current: bool) -> Option<&'static str> {
        let function = step.function();
        let kind = |arg: &Arg| arg.list().first().map(Arg::number);
        let of_kernel = |(param, arg): (&Param, &Arg)| match param {
            Param::KernelParams => true,
            Param::NodeParams => kind(arg) == Some(0),
            _ => false,
        };
        if nothing_current && function.params.iter().zip(&step.args).any(of_kernel) {
            return Some("a kernel node crashes while no context is current");
        }
        let held = |at: usize| self.held(&step.args[at]);
        let first = step.args.first().map(|arg| self.held(arg)).unwrap_or_default();
        let handle_stream = matches!(step.args.first(), Some(Arg::Number(_)));
        let captured = |graph: u64| self.captured().iter().any(|(other, _)| *other == graph);
        match function.name {
            "cuLinkAddData_v2" if nothing_current => {
                return Some("the same driver was seen to take it and to refuse it");
            }
            "cuEventDestroy_v2" if self.is_pinned(first.raw) => return Some("graphs use the event"),
            "cuMemFree_v2" | "cuMemFreeAsync" if first.reused => {
                return Some("the graph may have given the address to another allocation");
            }
            "cuGraphAddMemFreeNode" if held(4).reused => {
                return Some("the graph may have given the address to another allocation");
            }
            "cuGraphNodeSetEnabled" if self.cooperates && step.args[2].number() == 0 => {
                return Some("a launch with a disabled cooperative kernel was seen to write somewhere");
            }
            "cuMemFree_v2" | "cuMemFreeAsync" if self.is_pinned(first.raw) => {
                return Some("graphs use the memory");
            }
            "cuModuleUnload" if first.borrowed => return Some("the module is its library's"),
            "cuModuleUnload" | "cuLibraryUnload" if self.is_pinned(first.raw) => {
                return Some("graphs use its kernels");
            }
            "cuStreamGetAttribute" if step.args[2] == Arg::Null => return Some("a value of NULL crashes"),
            "cuMemPrefetchAsync" | "cuMemAdvise" if first.owner != 0 => {
                return Some("the memory is a graph's");
            }
            "cuMemAdvise" if first.pool != 0 => {
                return Some("managed memory of a pool was refused, and it is not known when");
            }
            "cuStreamBatchMemOp_v2" if step.args[1].number() > 0 && step.args[2] == Arg::Null => {
                return Some("operations of NULL crash");
            }
            "cuGraphKernelNodeSetAttribute" if step.args[2] == Arg::Null => {
                return Some("an attribute of NULL crashes");
            }
            "cuStreamAttachMemAsync" if held(1).owner != 0 => return Some("the memory is a graph's"),
            "cuStreamSetAttribute" | "cuStreamCopyAttributes" if first.raw == 0 => {
                return Some("the attributes of default streams would stay for the next trace");
            }
            "cuMemPoolDestroy"
                if first.raw != 0 && (self.is_pinned(first.raw) || self.is_in_use(first.raw)) =>
            {
                return Some("memory of the pool lives");
            }
            "cuGraphLaunch" if self.launches_others.contains(&first.raw) => {
                return Some("a launch that frees what another graph's has allocated may hang");
            }
            "cuGraphLaunch" if self.launches_values.contains(&first.raw) => {
                return Some("a launch that is refused for the address of a value is begun all the same");
            }
            "cuGraphLaunch" if first.raw != 0 && !self.waited.is_disjoint(&self.recorded) => {
                return Some("the stream would be captured by a graph that waits for a captured event");
            }
            "cuGraphExecUpdate_v2" if self.made_meanwhile.contains(&first.raw) => {
                return Some("an executable made during a capture into its graph has another order of nodes");
            }
            "cuGraphInstantiateWithFlags" if self.fills_null && step.args[2].number() & 4 != 0 => {
                return Some("a fill of NULL for the device crashes");
            }
            "cuGraphInstantiateWithParams"
                if self.fills_null
                    && step.args[2].list().first().is_some_and(|flags| flags.number() & 4 != 0) =>
            {
                return Some("a fill of NULL for the device crashes");
            }
            "cuGraphDestroy" if first.borrowed => return Some("the graph is another's"),
            "cuGraphDestroyNode" if captured(first.owner) => return Some("a capture may depend on the node"),
            "cuStreamBeginCaptureToGraph" if handle_stream => {
                return Some("whether it captures cannot be asked");
            }
            "cuStreamBeginCaptureToGraph" if held(1).borrowed => return Some("the graph is another's"),
            "cuGraphAddChildGraphNode" => {
                let (into, child) = (held(1), held(4));
                if into.raw == child.raw && child.raw != 0 {
                    return Some("a graph as its own child crashes");
                }
                if into.borrowed || child.borrowed {
                    return Some("the graph is another's");
                }
            }
            "cuGraphExecChildGraphNodeSetParams" if held(2).borrowed => {
                return Some("the graph is another's");
            }
            "cuUserObjectRelease" if first.raw != 0 && step.args[1].number() > first.count => {
                return Some("it would be let go more often than held");
            }
            "cuGraphRetainUserObject"
                if step.args[3].number() == 1
                    && step.args[2].number() > held(1).count
                    && held(1).raw != 0 =>
            {
                return Some("it would be let go more often than held");
            }
            "cuGraphReleaseUserObject" => {
                let (graph, object, count) = (first.raw, held(1).raw, step.args[2].number());
                if object != 0 && graph != 0 && *self.holds(graph, object) < count {
                    return Some("it would be let go more often than held");
                }
            }
            _ => {}
        }
        for (param, arg) in function.params.iter().zip(&step.args) {
            let addresses: &[Arg] = match param {
                Param::To | Param::From | Param::Fill | Param::Add | Param::AnyTo | Param::AnyFrom => {
                    std::slice::from_ref(arg)
                }
                Param::FillParams
                | Param::CopyParams
                | Param::Rows
                | Param::Operations
                | Param::NodeParams => arg.list(),
                _ => &[],
            };
            if addresses
                .iter()
                .any(|arg| matches!(arg, Arg::Slot(Kind::Memory, ..)) && self.held(arg).owner != 0)
            {
                return Some("the memory is a graph's, and there only while that runs");
            }
        }
        None
    }

    /// What the step did, which the driver answered with this status, and the graph that its stream captures into.
    pub(super) fn apply(&mut self, step: &Step, status: u32, captured: Option<u64>) {
        let capturing = captured.is_some();
        let function = step.function();
        let first = step.args.first().map(|arg| self.held(arg)).unwrap_or_default();
        self.pin(step, capturing);
        if status != 0 {
            return;
        }
        self.note_events(step, capturing);
        self.note_freed(step, capturing);
        self.cooperates |= makes_cooperative(step, capturing);
        if (capturing || function.name.starts_with("cuGraph")) && has_values_elsewhere(step) {
            self.values_elsewhere = true;
            if function.name == "cuGraphExecNodeSetParams" {
                self.launches_values.insert(first.raw);
            }
        }
        match function.name {
            name if capturing && name.starts_with("cuMemset") => self.fills_null |= first.raw == 0,
            "cuMemFreeAsync" if captured.is_some_and(|graph| first.owner != 0 && first.owner != graph) => {
                self.frees_others.extend(captured);
            }
            "cuGraphAddMemFreeNode" => {
                let graph = self.held(&step.args[1]).raw;
                if self.held(&step.args[4]).owner != graph {
                    self.frees_others.insert(graph);
                }
            }
            "cuGraphNodeSetEnabled" => self.disables |= step.args[2].number() == 0,
            "cuGraphExecUpdate_v2" => self.see_executable(first.raw, self.held(&step.args[1]).raw),
            "cuStreamDestroy_v2" => {
                self.clear(Kind::Stream, first.raw);
                for (graph, _) in self.captured().into_iter().filter(|(_, origin)| *origin == first.raw) {
                    self.clear_graph(graph);
                }
            }
            "cuEventDestroy_v2" => self.clear(Kind::Event, first.raw),
            "cuMemFree_v2" | "cuMemFreeAsync" if first.owner == 0 => self.clear(Kind::Memory, first.raw),
            "cuMemPoolDestroy" => {
                self.clear(Kind::Pool, first.raw);
                if self.current_pool == first.raw {
                    self.current_pool = 0;
                }
            }
            "cuLinkDestroy" => self.clear(Kind::Link, first.raw),
            "cuDeviceSetMemPool" | "cuMemSetMemPool" => {
                let pool = self.held(step.args.last().unwrap_or(&Arg::Null));
                self.current_pool = if pool.borrowed { 0 } else { pool.raw };
            }
            "cuModuleUnload" | "cuLibraryUnload" => self.clear_module(first.raw),
            "cuGraphDestroy" => self.clear_graph(first.raw),
            "cuGraphExecDestroy" => self.clear(Kind::Exec, first.raw),
            "cuGraphDestroyNode" => {
                self.clear(Kind::Node, first.raw);
                for child in self.owned_by(Kind::Graph, first.owner) {
                    self.clear_graph(child);
                }
            }
            "cuStreamBeginCaptureToGraph" => {
                let (graph, origin) = (self.held(&step.args[1]).raw, first.raw);
                for held in self.slots[Kind::Graph as usize].iter_mut().filter(|held| held.raw == graph) {
                    held.borrowed = true;
                }
                self.see_capture(graph, origin);
            }
            "cuUserObjectRetain" => self.count(first.raw, step.args[1].number() as i64),
            "cuUserObjectRelease" => self.count(first.raw, -(step.args[1].number() as i64)),
            "cuGraphRetainUserObject" => {
                let (object, count) = (self.held(&step.args[1]).raw, step.args[2].number());
                *self.holds(first.raw, object) += count;
                if step.args[3].number() == 1 {
                    self.count(object, -(count as i64));
                }
            }
            "cuGraphReleaseUserObject" => {
                let (object, count) = (self.held(&step.args[1]).raw, step.args[2].number());
                *self.holds(first.raw, object) -= count;
            }
            _ => {}
        }
    }

    /// Which memory a graph frees that it has allocated.
    fn note_freed(&mut self, step: &Step, capturing: bool) {
        let freed = match step.function().name {
            "cuMemFreeAsync" if capturing => &step.args[0],
            "cuGraphAddMemFreeNode" => &step.args[4],
            _ => return,
        };
        // By its slot: on a driver that reuses the address two slots may have it.
        if let Arg::Slot(Kind::Memory, slot, _) = freed {
            let held = &mut self.slots[Kind::Memory as usize][*slot];
            held.freed = held.owner != 0;
        }
    }

    /// Which events graphs wait for, and which were recorded in a capture.
    fn note_events(&mut self, step: &Step, capturing: bool) {
        let event = |arg: Option<&Arg>| arg.map(|arg| self.held(arg).raw).unwrap_or_default();
        let (first, last) = (event(step.args.first()), event(step.args.last()));
        let external = step.args.last() == Some(&Arg::Number(1));
        match step.function().name {
            "cuGraphAddEventWaitNode"
            | "cuGraphEventWaitNodeSetEvent"
            | "cuGraphExecEventWaitNodeSetEvent" => {
                self.waited.insert(last);
            }
            "cuGraphAddNode_v2" | "cuGraphNodeSetParams" | "cuGraphExecNodeSetParams" => {
                if let Some([Arg::Number(WAIT), of]) = step.args.last().map(Arg::list) {
                    self.waited.insert(event(Some(of)));
                }
            }
            "cuStreamWaitEvent" if capturing && external => {
                self.waited.insert(event(step.args.get(1)));
            }
            "cuEventRecordWithFlags" if external => {}
            "cuEventRecord" | "cuEventRecordWithFlags" if capturing => {
                self.recorded.insert(first);
            }
            "cuEventRecord" | "cuEventRecordWithFlags" => {
                self.recorded.remove(&first);
            }
            "cuCtxRecordEvent" => {
                self.recorded.remove(&last);
            }
            _ => {}
        }
    }

    fn count(&mut self, object: u64, by: i64) {
        for held in self.slots[Kind::Object as usize].iter_mut().filter(|held| held.raw == object) {
            held.count = held.count.wrapping_add_signed(by);
        }
        if self.all(Kind::Object).iter().any(|held| held.raw == object && held.count == 0) {
            self.clear(Kind::Object, object);
        }
    }

    /// What a graph or a capture uses from now on stays until the end.
    fn pin(&mut self, step: &Step, capturing: bool) {
        let function = step.function();
        let into_graph = function.name.starts_with("cuGraph") || capturing;
        if !into_graph {
            return;
        }
        let mut args: Vec<&Arg> = step.args.iter().collect();
        args.extend(step.args.iter().flat_map(Arg::list));
        let external = |name: &str| matches!(name, "cuStreamWaitEvent" | "cuEventRecordWithFlags");
        for arg in args {
            let held = self.held(arg);
            match arg {
                Arg::Slot(Kind::Event, ..)
                    if function.name.starts_with("cuGraph")
                        || external(function.name) && step.args.last() == Some(&Arg::Number(1)) =>
                {
                    self.pinned.insert(held.raw);
                }
                Arg::Slot(Kind::Pool, ..) => {
                    self.pinned.insert(held.raw);
                }
                Arg::Slot(Kind::Memory, ..) if held.owner == 0 => {
                    self.pinned.insert(held.raw);
                }
                Arg::Slot(Kind::Function | Kind::Kernel, ..) => {
                    self.pinned.insert(held.owner);
                    self.pinned.insert(self.root(held));
                }
                _ => {}
            }
        }
        self.pinned.remove(&0);
    }

    /// The graph that a capture made is the trace's own now.
    pub(super) fn own(&mut self, graph: u64) {
        for held in self.slots[Kind::Graph as usize].iter_mut().filter(|held| held.raw == graph) {
            (held.borrowed, held.owner) = (false, 0);
        }
        self.captures.retain(|(other, _)| *other != graph);
    }
}
