//! Plays a trace on a driver, with real threads that take turns, and writes down what each call answered.
//!
//! After a step that gave a stream work, the player waits for that stream, in a way that breaks no capture; so what is
//! pending is never compared. Behind each outcome stand what is current, what the stream named says of its capture, how
//! often functions were called and objects let go, and a sum over the memory, where these have changed.

use super::functions::{FUNCTIONS, find};
use super::language::{Kind, Step, Trace};
use super::marshal::{CALLS, DROPS, UNTOUCHED, outs, words};
use super::world::{Held, World};
use custack_sys::Table;
use std::ffi::c_void;
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};

/// A driver to play on.
pub(super) struct Player<'a> {
    table: &'a Table,
    /// Two contexts of its own, and the primary one.
    contexts: [usize; 3],
    fixed: [u64; 3],
    host: [u64; 2],
    /// A stream of the first context, for the player's own work.
    stream: usize,
}

/// What a step answered, and nothing where it was left out.
pub(super) type Outcome = String;

/// The bytes of the memory that every trace finds: what is copied from, filled, added to and copied to.
const QUARTER: u64 = 64;
const FIXED: usize = 256;

impl<'a> Player<'a> {
    /// Makes the contexts and the memory.
    pub(super) fn new(table: &'a Table) -> Player<'a> {
        let mut player = Player { table, contexts: [0; 3], fixed: [0; 3], host: [0; 2], stream: 0 };
        // SAFETY: pointers are to locals.
        unsafe {
            for at in 0..3 {
                let mut raw = null_mut();
                if at < 2 {
                    assert_eq!((table.cuCtxCreate_v2)(&mut raw, 0, 0), 0);
                } else {
                    assert_eq!((table.cuDevicePrimaryCtxRetain)(&mut raw, 0), 0);
                    assert_eq!((table.cuCtxPushCurrent_v2)(raw), 0);
                }
                player.contexts[at] = raw.addr();
                assert_eq!((table.cuMemAlloc_v2)(&mut player.fixed[at], FIXED), 0);
                if at == 0 {
                    let mut stream = null_mut();
                    assert_eq!((table.cuStreamCreate)(&mut stream, 1), 0);
                    player.stream = stream.addr();
                }
                assert_eq!((table.cuCtxPopCurrent_v2)(null_mut()), 0);
            }
        }
        player.reset_pools();
        for place in &mut player.host {
            *place = Box::leak(Box::new([0u64; FIXED / 8])).as_ptr().addr() as u64;
        }
        player
    }

    /// Lets the contexts go.
    pub(super) fn end(self) {
        // SAFETY: the contexts are the player's own.
        unsafe {
            for context in &self.contexts[..2] {
                (self.table.cuCtxDestroy_v2)(without_provenance_mut(*context));
            }
            (self.table.cuDevicePrimaryCtxRelease_v2)(0);
        }
    }

    /// Calls a function of the language for the player's own sake.
    fn named(&self, name: &str, words: &[u64]) -> u32 {
        let function = find(name).expect("a function of the table");
        (FUNCTIONS[function].call)(self.table, words)
    }

    /// Plays the trace from a state that is as every trace finds it. `said` hears each outcome as it comes, and before
    /// it nothing.
    ///
    /// User objects are let go on a thread of the driver's own. Where it is known what was `expected`, the player waits
    /// until as many were, and stops at the first difference; else it waits a little.
    pub(super) fn play(
        &self,
        trace: &Trace,
        expected: Option<&[Outcome]>,
        mut said: impl FnMut(Option<&Step>, Option<&str>),
    ) -> Vec<Outcome> {
        let threads = trace.threads();
        let drops = |at: usize| {
            let drops =
                expected.and_then(|expected| expected.get(at)?.split(" drops ").nth(1)?.split(' ').next());
            expected.map(|_| drops.unwrap_or("").to_owned())
        };
        let mut turn = Turn { world: World::new(), seen: Seen::default(), drops: None };
        for count in CALLS.iter().chain(&DROPS) {
            count.store(0, Ordering::SeqCst);
        }
        for (at, raw) in self.contexts.iter().enumerate() {
            turn.world.put(Kind::Context, at, Held { raw: *raw as u64, borrowed: true, ..Held::default() });
            turn.world.put(Kind::Fixed, at, Held { raw: self.fixed[at], borrowed: true, ..Held::default() });
        }
        for (at, raw) in self.host.iter().enumerate() {
            turn.world.put(Kind::Host, at, Held { raw: *raw, borrowed: true, ..Held::default() });
        }
        self.fill();
        turn.world.base = self.base();
        turn.world.base_of_graphs = self.base_of_graphs();
        turn.seen.memory = self.sum();
        let mut outcomes = Vec::new();
        std::thread::scope(|scope| {
            let actors: Vec<_> = (0..threads)
                .map(|_| {
                    let (to, orders) = channel();
                    let (done, from) = channel();
                    scope.spawn(move || self.act(&orders, &done));
                    (to, from)
                })
                .collect();
            let mut turn = Some(turn);
            let mut ask = |thread: usize, order: Order| {
                let (to, from): &Actor = &actors[thread];
                to.send((order, turn.take().expect("no other has it"))).expect("the thread takes its turn");
                let (outcome, back) = from.recv().expect("the thread answers");
                turn = Some(back);
                outcome
            };
            for step in &trace.steps {
                said(Some(step), None);
                let outcome = ask(step.thread, Order::Step(step.clone(), drops(outcomes.len())));
                said(Some(step), Some(&outcome));
                let differs = expected.is_some_and(|expected| expected.get(outcomes.len()) != Some(&outcome));
                outcomes.push(outcome);
                if differs {
                    break;
                }
            }
            for _ in 0..2 {
                for thread in 0..threads {
                    ask(thread, Order::EndCaptures);
                }
            }
            for thread in 0..threads {
                said(None, None);
                let outcome = ask(thread, Order::Drain);
                said(None, Some(&outcome));
                outcomes.push(outcome);
            }
            let mut turn = turn.take().expect("no thread has it");
            said(None, None);
            turn.drops = drops(outcomes.len());
            let outcome = self.finish(&mut turn);
            said(None, Some(&outcome));
            outcomes.push(outcome);
        });
        outcomes
    }

    fn act(&self, orders: &Receiver<(Order, Turn)>, done: &Sender<(Outcome, Turn)>) {
        // SAFETY: the context is the player's own.
        unsafe { (self.table.cuCtxPushCurrent_v2)(self.context(0)) };
        for (order, mut turn) in orders {
            let outcome = match order {
                Order::Step(step, drops) => {
                    turn.drops = drops;
                    self.step(&mut turn, &step)
                }
                Order::EndCaptures => self.end_captures(&mut turn),
                Order::Drain => self.drain(&turn),
            };
            if done.send((outcome, turn)).is_err() {
                return;
            }
        }
    }

    fn context(&self, at: usize) -> custack_sys::ffi::CUcontext {
        without_provenance_mut(self.contexts[at])
    }

    fn step(&self, turn: &mut Turn, step: &Step) -> Outcome {
        let stream = step.stream().map(|arg| turn.world.raw(arg));
        let before = stream.filter(|stream| *stream != 0).map_or((0, 0), |stream| self.capturing(stream));
        let capturing = before == (0, 1);
        let mut current = null_mut();
        // SAFETY: writes to a local.
        unsafe { (self.table.cuCtxGetCurrent)(&mut current) };
        if let Some(why) = turn.world.leaves_out(step, current.is_null()) {
            return format!("left out: {why}");
        }
        let owner = stream.filter(|_| capturing).map_or(0, |stream| self.capture_graph(stream));
        let (words, places) = words(&turn.world, step);
        let mut status = (step.function().call)(self.table, &words);
        // Whether work is done already is not compared.
        if status == 600 {
            status = 0;
        }
        // What goes must go before what comes takes a slot.
        turn.world.apply(step, status, capturing.then_some(owner));
        let out = outs(&mut turn.world, step, &places, status, owner);
        let mut text = format!("{status}{out} |");
        let mut current = null_mut();
        // SAFETY: writes to a local.
        unsafe { (self.table.cuCtxGetCurrent)(&mut current) };
        text.push_str(&format!(" {}", turn.world.name(Kind::Context, current.addr() as u64)));
        if let Some(stream) = stream.filter(|_| step.function().name != "cuStreamDestroy_v2") {
            let (asked, capturing) = self.capturing(stream);
            text.push_str(&if asked == 0 { format!(" k{capturing}") } else { format!(" k!{asked}") });
            if status == 0 && (asked, capturing) == (0, 0) {
                self.wait(stream);
                if step.function().name == "cuGraphLaunch" && turn.world.has_disabled_nodes() {
                    // Nothing waits for what comes before a fill that is disabled.
                    std::thread::sleep(std::time::Duration::from_millis(2));
                }
            }
        } else if status == 0 && step.function().name.starts_with("cuMem") {
            self.wait(0);
        } else if status == 0 && step.function().name == "cuCtxRecordEvent" {
            self.wait_for_event(turn.world.raw(&step.args[1]));
        }
        for (graph, origin) in turn.world.captured() {
            if self.capturing(origin) != (0, 1) {
                turn.world.clear_graph(graph);
            }
        }
        let lets_go =
            matches!(step.function().name, "cuGraphExecDestroy" | "cuGraphExecUpdate_v2" | "cuGraphLaunch");
        self.settle(turn, if lets_go { 2 } else { 0 });
        self.see(turn, &mut text);
        text
    }

    /// Waits until what was let go is let go; where it is not known what that is, for some milliseconds.
    fn settle(&self, turn: &Turn, milliseconds: u64) {
        use std::time::{Duration, Instant};
        match &turn.drops {
            Some(drops) if drops.is_empty() => {}
            Some(drops) => {
                let until = Instant::now() + Duration::from_secs(2);
                while *drops != counts(DROPS.each_ref().map(|count| count.load(Ordering::SeqCst)))
                    && Instant::now() < until
                {
                    std::thread::sleep(Duration::from_micros(50));
                }
            }
            None if turn.world.has_objects() => std::thread::sleep(Duration::from_millis(milliseconds)),
            None => {}
        }
    }

    /// What a stream says of its capture: the status of the question, and the answer.
    fn capturing(&self, stream: u64) -> (u32, u32) {
        let mut capturing = 0;
        // SAFETY: the stream lives, and the place is a local.
        let status = unsafe {
            (self.table.cuStreamIsCapturing)(without_provenance_mut(stream as usize), &mut capturing)
        };
        (status, capturing)
    }

    fn capture_graph(&self, stream: u64) -> u64 {
        let (mut capturing, mut graph) = (0, null_mut());
        // SAFETY: the stream lives, and the places are locals.
        unsafe {
            (self.table.cuStreamGetCaptureInfo_v2)(
                without_provenance_mut(stream as usize),
                &mut capturing,
                null_mut(),
                &mut graph,
                null_mut(),
                null_mut(),
            );
        }
        graph.addr() as u64
    }

    /// Makes the call, whatever captures.
    fn relaxed(&self, call: impl FnOnce()) {
        let mut mode = 2;
        // SAFETY: the place is a local.
        let mut exchange = || unsafe { (self.table.cuThreadExchangeStreamCaptureMode)(&mut mode) };
        exchange();
        call();
        exchange();
    }

    fn wait(&self, stream: u64) {
        self.relaxed(|| {
            // SAFETY: the stream lives.
            unsafe { (self.table.cuStreamSynchronize)(without_provenance_mut(stream as usize)) };
        });
    }

    fn wait_for_event(&self, event: u64) {
        self.relaxed(|| {
            // SAFETY: the event lives.
            unsafe { (self.table.cuEventSynchronize)(without_provenance_mut(event as usize)) };
        });
    }

    /// Appends what has changed.
    fn see(&self, turn: &mut Turn, text: &mut String) {
        let now = Seen {
            calls: CALLS.each_ref().map(|count| count.load(Ordering::SeqCst)),
            drops: DROPS.each_ref().map(|count| count.load(Ordering::SeqCst)),
            memory: self.sum(),
        };
        if now.calls != turn.seen.calls {
            text.push_str(&format!(" calls {}", counts(now.calls)));
        }
        if now.drops != turn.seen.drops {
            text.push_str(&format!(" drops {}", counts(now.drops)));
        }
        if now.memory != turn.seen.memory {
            text.push_str(&format!(" memory {:08x}", now.memory));
        }
        turn.seen = now;
    }

    /// The memory as every trace finds it.
    fn fill(&self) {
        let pattern: Vec<u8> = (0..FIXED).map(|at| if at < 64 { (at as u8) ^ 0x5a } else { 0 }).collect();
        for to in self.fixed {
            self.own(|table, stream| {
                // SAFETY: the memory is the player's, and waited for.
                unsafe { (table.cuMemcpyHtoDAsync_v2)(to, pattern.as_ptr().cast(), FIXED, stream) };
            });
        }
        for to in self.host {
            // SAFETY: the memory is the player's, of this length, and no driver writes to it now.
            unsafe { std::ptr::copy_nonoverlapping(pattern.as_ptr(), to as *mut u8, FIXED) };
        }
    }

    /// A sum over the contents of the memory that every trace finds.
    fn sum(&self) -> u32 {
        let mut bytes = vec![0u8; FIXED * 5];
        for (at, from) in self.fixed.iter().enumerate() {
            let to = bytes[at * FIXED..].as_mut_ptr();
            self.own(|table, stream| {
                // SAFETY: the memory is the player's, and waited for.
                unsafe { (table.cuMemcpyDtoHAsync_v2)(to.cast(), *from, FIXED, stream) };
            });
        }
        for (at, from) in self.host.iter().enumerate() {
            // SAFETY: as above.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    *from as *const u8,
                    bytes[(3 + at) * FIXED..].as_mut_ptr(),
                    FIXED,
                )
            };
        }
        bytes.iter().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
    }

    /// Does something in the player's own stream and waits for it.
    fn own(&self, work: impl FnOnce(&Table, custack_sys::ffi::CUstream)) {
        // SAFETY: context and stream are the player's own.
        unsafe { (self.table.cuCtxPushCurrent_v2)(self.context(0)) };
        work(self.table, without_provenance_mut(self.stream));
        self.wait(self.stream as u64);
        // SAFETY: as above.
        unsafe { (self.table.cuCtxPopCurrent_v2)(null_mut()) };
    }

    /// Ends what this thread can end of captures.
    fn end_captures(&self, turn: &mut Turn) -> Outcome {
        let mut streams: Vec<u64> = turn.world.all(Kind::Stream).iter().map(|held| held.raw).collect();
        streams.extend(
            turn.world.leftover.iter().filter(|(kind, _)| *kind == Kind::Stream).map(|(_, held)| held.raw),
        );
        let mut graphs = Vec::new();
        let mut end = |stream: u64| {
            let (asked, capturing) = self.capturing(stream);
            if asked == 0 && capturing != 0 {
                let mut graph = null_mut();
                // SAFETY: the stream lives, and the place is a local.
                let ended = unsafe {
                    (self.table.cuStreamEndCapture)(without_provenance_mut(stream as usize), &mut graph)
                };
                if ended == 0 && !graph.is_null() {
                    graphs.push(graph.addr() as u64);
                }
            }
        };
        streams.iter().filter(|stream| **stream != 0).for_each(|stream| end(*stream));
        for at in 0..3 {
            // SAFETY: the context is the player's own.
            unsafe { (self.table.cuCtxPushCurrent_v2)(self.context(at)) };
            end(2);
            // SAFETY: as above.
            unsafe { (self.table.cuCtxPopCurrent_v2)(null_mut()) };
        }
        for graph in graphs {
            turn.world.own(graph);
            turn.world.leftover.push((Kind::Graph, Held { raw: graph, ..Held::default() }));
        }
        for (graph, origin) in turn.world.captured() {
            if self.capturing(origin) != (0, 1) {
                turn.world.clear_graph(graph);
            }
        }
        String::new()
    }

    /// Empties this thread's stack.
    fn drain(&self, turn: &Turn) -> Outcome {
        let mut mode = 0;
        let mut text = String::new();
        // SAFETY: the place is a local.
        unsafe { (self.table.cuThreadExchangeStreamCaptureMode)(&mut mode) };
        text.push_str(&format!("mode {mode} stack"));
        loop {
            let mut raw = null_mut();
            // SAFETY: as above.
            if unsafe { (self.table.cuCtxPopCurrent_v2)(&mut raw) } != 0 {
                return text;
            }
            text.push_str(&format!(" {}", turn.world.name(Kind::Context, raw.addr() as u64)));
        }
    }

    /// Says what the graphs are like in the end, and lets everything go.
    fn finish(&self, turn: &mut Turn) -> Outcome {
        let mut text = "end".to_owned();
        // SAFETY: the context is the player's own.
        unsafe { (self.table.cuCtxPushCurrent_v2)(self.context(0)) };
        for (at, held) in turn.world.all(Kind::Graph).iter().enumerate() {
            if held.raw != 0 && !held.borrowed {
                text.push_str(&format!(" g{at}{}", self.describe(held.raw)));
            }
        }
        text.push_str(&self.let_go(turn));
        let mut whole = true;
        for at in 0..3 {
            // SAFETY: the contexts are the player's own.
            unsafe {
                (self.table.cuCtxPushCurrent_v2)(self.context(at));
                whole &= (self.table.cuCtxSynchronize)() == 0;
                (self.table.cuCtxPopCurrent_v2)(null_mut());
            }
        }
        if !whole {
            text.push_str(" BROKEN");
        }
        self.settle(turn, 20);
        self.see(turn, &mut text);
        // SAFETY: takes the context that was pushed above.
        unsafe { (self.table.cuCtxPopCurrent_v2)(null_mut()) };
        text
    }

    /// The types of a graph's nodes, and its edges by their places.
    fn describe(&self, graph: u64) -> String {
        let graph = without_provenance_mut::<c_void>(graph as usize);
        let mut nodes = [null_mut(); 64];
        let (mut from, mut to) = ([null_mut(); 64], [null_mut(); 64]);
        let (mut count, mut edges) = (64, 64);
        let mut data = [0u64; 64];
        let mut text = "(".to_owned();
        // SAFETY: the graph lives, and the places are locals that are large enough.
        unsafe {
            let asked = (self.table.cuGraphGetNodes)(graph, nodes.as_mut_ptr(), &mut count);
            let and = (self.table.cuGraphGetEdges_v2)(
                graph,
                from.as_mut_ptr(),
                to.as_mut_ptr(),
                data.as_mut_ptr().cast(),
                &mut edges,
            );
            if asked != 0 || and != 0 {
                return format!("!{asked}!{and}");
            }
            for node in &nodes[..count] {
                let mut kind = UNTOUCHED as u32;
                (self.table.cuGraphNodeGetType)(*node, &mut kind);
                text.push_str(&format!("{}{kind}", if text.len() > 1 { "," } else { "" }));
            }
        }
        let at = |node: &*mut c_void| nodes[..count].iter().position(|other| other == node).unwrap_or(99);
        let mut pairs: Vec<_> = (0..edges).map(|edge| (at(&from[edge]), at(&to[edge]), data[edge])).collect();
        pairs.sort_unstable();
        for (from, to, data) in pairs {
            text.push_str(&format!(";{from}-{to}"));
            if data != 0 {
                text.push_str(&format!("/{data:x}"));
            }
        }
        text.push(')');
        text
    }

    fn let_go(&self, turn: &mut Turn) -> String {
        let table = self.table;
        let mut text = String::new();
        let world = &mut turn.world;
        let mut objects: Vec<(Kind, Held)> = std::mem::take(&mut world.leftover);
        for kind in [
            Kind::Stream,
            Kind::Exec,
            Kind::Graph,
            Kind::Event,
            Kind::Memory,
            Kind::Pool,
            Kind::Module,
            Kind::Library,
            Kind::Object,
            Kind::Link,
        ] {
            objects.extend(
                world
                    .all(kind)
                    .iter()
                    .filter(|held| held.raw != 0 && !held.borrowed)
                    .map(|held| (kind, *held)),
            );
        }
        let mut gone = std::collections::HashSet::new();
        let order = [
            Kind::Memory,
            Kind::Stream,
            Kind::Exec,
            Kind::Graph,
            Kind::Event,
            Kind::Pool,
            Kind::Module,
            Kind::Library,
            Kind::Object,
            Kind::Link,
        ];
        for now in order {
            for (kind, held) in objects.iter().filter(|(kind, _)| *kind == now) {
                if !gone.insert((*kind, held.raw)) {
                    continue;
                }
                let raw = held.raw as usize;
                // SAFETY: each is destroyed once, as nothing uses it any more.
                let status = unsafe {
                    match kind {
                        Kind::Stream => (table.cuStreamDestroy_v2)(without_provenance_mut(raw)),
                        Kind::Event => (table.cuEventDestroy_v2)(without_provenance_mut(raw)),
                        Kind::Graph => (table.cuGraphDestroy)(without_provenance_mut(raw)),
                        Kind::Exec => (table.cuGraphExecDestroy)(without_provenance_mut(raw)),
                        Kind::Memory => self.free(held.raw),
                        Kind::Link => (table.cuLinkDestroy)(without_provenance_mut(raw)),
                        Kind::Module => (table.cuModuleUnload)(without_provenance_mut(raw)),
                        Kind::Pool => self.named("cuMemPoolDestroy", &[held.raw]),
                        Kind::Library => self.named("cuLibraryUnload", &[held.raw]),
                        Kind::Object => {
                            (table.cuUserObjectRelease)(without_provenance_mut(raw), held.count as u32)
                        }
                        _ => 0,
                    }
                };
                // What a graph has allocated may be there or not.
                if status != 0 && held.owner == 0 {
                    text.push_str(&format!(" !{}{status}", kind.letter()));
                }
            }
        }
        self.reset_pools();
        text
    }

    /// Frees memory in the order of the player's stream, and in no order what is not of a pool: a pool still counts what
    /// was freed without an order after its stream had gone.
    fn free(&self, address: u64) -> u32 {
        match self.named("cuMemFreeAsync", &[address, self.stream as u64]) {
            0 => {
                self.wait(self.stream as u64);
                0
            }
            // SAFETY: it is freed once, as nothing uses it any more.
            _ => unsafe { (self.table.cuMemFree_v2)(address) },
        }
    }

    /// What the device's own pool counts already: reserved and used, each with its peak.
    fn base(&self) -> (u64, [u64; 4]) {
        let mut pool = 0u64;
        self.named("cuDeviceGetDefaultMemPool", &[(&raw mut pool).addr() as u64, 0]);
        let counts = [5, 6, 7, 8].map(|attribute| {
            let mut value = 0u64;
            self.named("cuMemPoolGetAttribute", &[pool, attribute, (&raw mut value).addr() as u64]);
            value
        });
        (pool, counts)
    }

    /// What graphs have of the device's memory already: used and reserved, each with its peak.
    fn base_of_graphs(&self) -> [u64; 4] {
        [0, 1, 2, 3].map(|attribute| {
            let mut value = 0u64;
            self.named("cuDeviceGetGraphMemAttribute", &[0, attribute, (&raw mut value).addr() as u64]);
            value
        })
    }

    /// The device's pools as every trace finds them.
    fn reset_pools(&self) {
        let mut pool = 0u64;
        let place = (&raw mut pool).addr() as u64;
        if self.named("cuDeviceGetDefaultMemPool", &[place, 0]) == 0 {
            self.named("cuDeviceSetMemPool", &[0, pool]);
            for (attribute, value) in [(1, 1), (2, 1), (3, 1), (4, 0)] {
                let mut value: u64 = value;
                self.named("cuMemPoolSetAttribute", &[pool, attribute, (&raw mut value).addr() as u64]);
            }
            self.named("cuMemPoolTrimTo", &[pool, 0]);
            for attribute in [6, 8] {
                let mut value = 0u64;
                self.named("cuMemPoolSetAttribute", &[pool, attribute, (&raw mut value).addr() as u64]);
            }
        }
        self.named("cuDeviceGraphMemTrim", &[0]);
        for attribute in [1, 3] {
            let mut value = 0u64;
            self.named("cuDeviceSetGraphMemAttribute", &[0, attribute, (&raw mut value).addr() as u64]);
        }
    }
}

/// What goes from thread to thread.
struct Turn {
    world: World,
    seen: Seen,
    drops: Option<String>,
}

#[derive(Default)]
struct Seen {
    calls: [u32; 4],
    drops: [u32; 4],
    memory: u32,
}

fn counts(counts: [u32; 4]) -> String {
    counts.map(|count| count.to_string()).join(".")
}

enum Order {
    /// With how many user objects are let go then, if that is known.
    Step(Step, Option<String>),
    EndCaptures,
    Drain,
}

/// A thread's orders go one way, its answers the other.
type Actor = (Sender<(Order, Turn)>, Receiver<(Outcome, Turn)>);

const _: () = assert!(QUARTER * 4 == FIXED as u64);
