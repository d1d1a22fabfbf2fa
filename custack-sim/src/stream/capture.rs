//! Captures: streams whose work becomes nodes of a graph instead of being done.
//!
//! A capture begins in one stream and spreads to streams that wait for its events. Calls that would wait for its work
//! are refused and invalidate it, and so are, depending on the modes, calls that may wait for anything. An invalid
//! capture can only be ended, and gives no graph.

mod events;

pub(crate) use events::Captured;

use super::default::{Which, which};
use super::forbidden::CAPTURES;
use crate::graph::{Edge, Operation};
use crate::machine::*;
use custack_sys::ffi::{CUgraphEdgeData, CUresult};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::thread::{self, ThreadId};

pub(super) const CAPTURE_UNSUPPORTED: CUresult = 900;
const CAPTURE_INVALIDATED: CUresult = 901;
const CAPTURE_MERGE: CUresult = 902;
const CAPTURE_UNMATCHED: CUresult = 903;
const CAPTURE_UNJOINED: CUresult = 904;
pub(super) const CAPTURE_ISOLATION: CUresult = 905;
pub(super) const CAPTURE_IMPLICIT: CUresult = 906;
const CAPTURED_EVENT: CUresult = 907;
const CAPTURE_WRONG_THREAD: CUresult = 908;
pub(crate) const ILLEGAL_STATE: CUresult = 401;

pub(super) const RELAXED: u32 = 2;
const SET_DEPENDENCIES: u32 = 1;

/// All captures, by their ids, and which streams take part in which.
#[derive(Default)]
pub(crate) struct Captures {
    pub(super) by_id: BTreeMap<u64, Capture>,
    pub(super) of_stream: BTreeMap<usize, Member>,
    begun: u64,
    /// The streams that captured when their contexts were destroyed.
    lost: BTreeSet<usize>,
    /// The dependencies of each stream, as last returned to the program.
    shown: BTreeMap<usize, (Vec<usize>, Vec<CUgraphEdgeData>)>,
}

/// A stream that takes part in a capture.
#[derive(Clone, Copy)]
pub(crate) struct Member {
    key: usize,
    pub(super) id: u64,
    pub(super) context: Handle,
    /// The legacy stream waits for it.
    pub(super) blocks: bool,
}

pub(super) struct Capture {
    pub(super) mode: u32,
    pub(super) thread: ThreadId,
    origin: usize,
    graph: usize,
    pub(super) invalid: bool,
    /// The thread that is ending it.
    pub(super) ended_by: Option<ThreadId>,
    /// What the next node of each stream comes after.
    tips: BTreeMap<usize, Vec<Edge>>,
    /// The same of streams that were destroyed.
    lost: Vec<Edge>,
}

/// The result of a query of a capture.
pub(crate) struct Info {
    pub(crate) id: u64,
    pub(crate) graph: usize,
    pub(crate) tips: Vec<Edge>,
}

fn union(tips: &mut Vec<Edge>, more: &[Edge]) {
    for edge in more {
        if tips.iter().all(|tip| tip.from != edge.from) {
            tips.push(*edge);
        }
    }
}

impl Machine {
    /// The key of a stream here: its handle, or a number for a per-thread stream, whose handle is the same on all
    /// threads.
    fn key(&mut self, stream: usize) -> usize {
        if !matches!(which(stream), Some(Which::PerThread)) {
            return stream;
        }
        self.known_stream(stream).map_or(stream, |found| usize::MAX - found.id as usize)
    }

    pub(crate) fn member(&mut self, stream: usize) -> Option<Member> {
        // Most streams are asked while nothing captures.
        if self.captures.by_id.is_empty() {
            return None;
        }
        let key = self.key(stream);
        self.captures.of_stream.get(&key).copied()
    }

    fn join_capture(&mut self, stream: usize, id: u64) -> Answer<()> {
        let found = self.stream_of(stream)?;
        let key = self.key(stream);
        let member = Member { key, id, context: found.owner(), blocks: found.flags == 0 };
        self.captures.of_stream.entry(key).or_insert(member);
        Ok(())
    }

    /// Whether a stream is capturing; an error if its capture is invalid.
    pub(crate) fn capturing(&mut self, stream: usize) -> Answer<bool> {
        let Some(member) = self.member(stream) else { return Ok(false) };
        if self.captures.by_id.get(&member.id).is_some_and(|capture| capture.invalid) {
            return self.refuse(CAPTURE_INVALIDATED, "the stream's capture is invalid, and has to be ended");
        }
        Ok(true)
    }

    /// The stream's next operation becomes a node: `capturing` has said that it captures.
    pub(crate) fn record(&mut self, stream: usize, operation: Operation) -> Answer<()> {
        let Some(Member { key, id, .. }) = self.member(stream) else { return Err(ILLEGAL_STATE) };
        let Some(capture) = self.captures.by_id.get_mut(&id) else { return Err(ILLEGAL_STATE) };
        let (graph, tips) = (capture.graph, capture.tips.remove(&key).unwrap_or_default());
        let node = self.add_node(graph, &tips, operation)?;
        if let Some(capture) = self.captures.by_id.get_mut(&id) {
            capture.tips.insert(key, vec![Edge::plain(node)]);
        }
        Ok(())
    }

    /// The graph that a stream is captured into.
    pub(crate) fn captured_graph(&mut self, stream: usize) -> Option<usize> {
        let member = self.member(stream)?;
        self.captures.by_id.get(&member.id).map(|capture| capture.graph)
    }

    fn may_begin(&mut self, stream: usize, mode: u32) -> Answer<()> {
        self.known_mode(mode)?;
        self.stream_of(stream)?;
        if matches!(which(stream), Some(Which::Legacy)) {
            return self.refuse(CAPTURE_UNSUPPORTED, "the legacy stream is not captured");
        }
        if self.member(stream).is_some() {
            return self.refuse(ILLEGAL_STATE, "the stream is captured already");
        }
        Ok(())
    }

    pub(crate) fn begin_capture(&mut self, stream: usize, mode: u32) -> Answer<()> {
        self.may_begin(stream, mode)?;
        let graph = self.new_graph();
        self.begin(stream, mode, graph, Vec::new())
    }

    pub(crate) fn begin_capture_into(
        &mut self,
        stream: usize,
        graph: usize,
        after: Vec<Edge>,
        mode: u32,
    ) -> Answer<()> {
        self.known_mode(mode)?;
        self.nodes_of(graph)?;
        self.may_begin(stream, mode)?;
        let after = self.tips(graph, &after)?;
        if self.captures.by_id.values().any(|capture| capture.graph == graph) {
            if !after.is_empty() {
                return self.misuse(ILLEGAL_STATE, "two streams are captured into one graph");
            }
            return self.refuse(ILLEGAL_STATE, "two streams are captured into one graph");
        }
        self.begin(stream, mode, graph, after)
    }

    /// Nodes that the next one may come after, each once.
    fn tips(&mut self, graph: usize, after: &[Edge]) -> Answer<Vec<Edge>> {
        let mut tips = Vec::new();
        union(&mut tips, after);
        self.dependencies(graph, &tips)?;
        after.iter().try_for_each(|edge| self.check_data(edge, true))?;
        Ok(tips)
    }

    fn begin(&mut self, stream: usize, mode: u32, graph: usize, tips: Vec<Edge>) -> Answer<()> {
        self.captures.begun += 1;
        let id = self.number_of_captures(graph, self.captures.begun);
        let origin = self.key(stream);
        self.join_capture(stream, id)?;
        self.set_captured_into(graph, true);
        let (tips, thread) = (BTreeMap::from([(origin, tips)]), thread::current().id());
        let capture =
            Capture { mode, thread, origin, graph, invalid: false, ended_by: None, tips, lost: Vec::new() };
        self.captures.by_id.insert(id, capture);
        CAPTURES.store(self.captures.by_id.len(), Ordering::Relaxed);
        Ok(())
    }

    /// Ends a capture, even an invalid one, unless the stream is one that it only spread to.
    pub(crate) fn end_capture(&mut self, stream: usize) -> Answer<usize> {
        self.not_lost(stream)?;
        self.stream_of(stream)?;
        let Some(Member { key, id, .. }) = self.member(stream) else {
            return self.refuse(ILLEGAL_STATE, "the stream is not captured");
        };
        let Some(capture) = self.captures.by_id.get(&id) else { return Err(ILLEGAL_STATE) };
        if capture.origin != key {
            self.invalidate(id);
            return self.refuse(CAPTURE_UNMATCHED, "the capture was begun in another stream");
        }
        let graph = capture.graph;
        let wrong_thread = capture.mode != RELAXED && capture.thread != thread::current().id();
        let wrong = match () {
            () if capture.invalid => Some((CAPTURE_INVALIDATED, "the capture was invalidated")),
            () if !self.is_joined(id) => Some((CAPTURE_UNJOINED, "work of another stream was not joined")),
            () if wrong_thread => Some((CAPTURE_WRONG_THREAD, "the capture was begun on another thread")),
            () => None,
        };
        self.forget_capture(id, wrong.is_some());
        match wrong {
            Some((status, why)) => self.refuse(status, why),
            None => Ok(graph),
        }
    }

    /// Whether all that other streams did comes before what the first one did last.
    fn is_joined(&self, id: u64) -> bool {
        let Some(capture) = self.captures.by_id.get(&id) else { return true };
        let ends = capture.tips.get(&capture.origin).into_iter().flatten().map(|tip| tip.from);
        let before = self.up_to(capture.graph, ends);
        let others = capture.tips.iter().filter(|(stream, _)| **stream != capture.origin);
        others.flat_map(|(_, tips)| tips).chain(&capture.lost).all(|tip| before.contains(&tip.from))
    }

    fn forget_capture(&mut self, id: u64, in_vain: bool) {
        let Some(capture) = self.captures.by_id.remove(&id) else { return };
        CAPTURES.store(self.captures.by_id.len(), Ordering::Relaxed);
        self.captures.of_stream.retain(|_, of| of.id != id);
        let streams = &self.captures.of_stream;
        self.captures.shown.retain(|stream, _| streams.contains_key(stream));
        self.set_captured_into(capture.graph, false);
        // A graph of the program is destroyed too: the driver does not distinguish them.
        if in_vain {
            self.drop_graph(capture.graph);
        }
    }

    /// The stream is destroyed: with it the capture that was begun in it, or its part of another.
    pub(crate) fn uncapture(&mut self, stream: usize) {
        if let Some(member) = self.member(stream) {
            self.leave_capture(member);
        }
    }

    fn leave_capture(&mut self, member: Member) {
        self.captures.of_stream.remove(&member.key);
        self.captures.shown.remove(&member.key);
        let Some(capture) = self.captures.by_id.get_mut(&member.id) else { return };
        if capture.origin == member.key {
            return self.forget_capture(member.id, true);
        }
        let tips = capture.tips.remove(&member.key).unwrap_or_default();
        capture.lost.extend(tips);
    }

    /// The captures of a context end with it.
    pub(crate) fn uncapture_all(&mut self, context: Handle) {
        let all: Vec<Member> = self.captures.of_stream.values().copied().collect();
        for member in all.into_iter().filter(|member| member.context == context) {
            // What is behind the handles of a green context stays.
            if !self.is_green(context) {
                self.captures.lost.insert(member.key);
            }
            self.leave_capture(member);
        }
    }

    /// The driver follows what a capture had in a context that is gone.
    fn not_lost(&mut self, stream: usize) -> Answer<()> {
        if self.captures.lost.contains(&stream) {
            return self
                .misuse(CONTEXT_IS_DESTROYED, "a stream that captured when its context was destroyed");
        }
        Ok(())
    }

    /// 0 not captured, 1 captured, 2 in an invalid capture. Asking of the legacy stream breaks nothing.
    pub(crate) fn capture_status(&mut self, stream: usize) -> Answer<u32> {
        if matches!(which(stream), Some(Which::Legacy)) {
            let context = self.healthy_top()?;
            let mut members = self.captures.of_stream.values();
            let captured = members.any(|member| member.context == context && member.blocks);
            return match captured {
                true => {
                    self.refuse(CAPTURE_IMPLICIT, "the legacy stream, while one that it waits for captures")
                }
                false => Ok(0),
            };
        }
        self.not_lost(stream)?;
        self.known_stream(stream)?;
        let member = self.member(stream);
        let capture = member.and_then(|member| self.captures.by_id.get(&member.id));
        Ok(capture.map_or(0, |capture| if capture.invalid { 2 } else { 1 }))
    }

    /// The state of a capture that is not invalid.
    pub(crate) fn capture_info(&mut self, stream: usize) -> Option<Info> {
        let Member { key, id, .. } = self.member(stream)?;
        let capture = self.captures.by_id.get(&id).filter(|capture| !capture.invalid)?;
        Some(Info { id, graph: capture.graph, tips: capture.tips.get(&key).cloned().unwrap_or_default() })
    }

    /// The lists of what the stream's next node comes after, where the program may read them until that changes.
    pub(crate) fn shown(&mut self, stream: usize, tips: &[Edge]) -> &(Vec<usize>, Vec<CUgraphEdgeData>) {
        let lists =
            (tips.iter().map(|tip| tip.from).collect(), tips.iter().map(|tip| tip.data.into()).collect());
        let key = self.key(stream);
        self.captures.shown.insert(key, lists);
        &self.captures.shown[&key]
    }

    pub(crate) fn is_captured(&mut self, stream: usize) -> Answer<()> {
        self.stream_of(stream)?;
        match self.capturing(stream)? {
            true => Ok(()),
            false => self.refuse(ILLEGAL_STATE, "the stream is not captured"),
        }
    }

    pub(crate) fn update_tips(&mut self, stream: usize, after: Vec<Edge>, flags: u32) -> Answer<()> {
        if flags > SET_DEPENDENCIES {
            return self.refuse(INVALID_VALUE, format_args!("{flags:#x} are no flags of dependencies"));
        }
        let graph = self.captured_graph(stream).unwrap_or(0);
        let after = self.tips(graph, &after)?;
        let Some(Member { key, id, .. }) = self.member(stream) else { return Err(ILLEGAL_STATE) };
        let Some(capture) = self.captures.by_id.get_mut(&id) else { return Err(ILLEGAL_STATE) };
        let tips = capture.tips.entry(key).or_default();
        if flags == SET_DEPENDENCIES {
            tips.clear();
        }
        union(tips, &after);
        Ok(())
    }
}
