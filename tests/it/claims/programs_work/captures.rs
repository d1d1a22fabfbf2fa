//! Performs captures: begun, filled with acts, and ended well, by an error or by a panic.

use super::act::{Act, End, How};
use super::actor::{Actor, Frame, Within};
use super::world::{LEN, Plan};
use custack::error::{CudaError, CudaResult};
use custack::graph::{Capture, InstantiateFlags};
use custack::stream::{CaptureMode, CaptureStatus, Stream, StreamFlags};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;

/// The slot of a stream, if it has one, and the stream with its context.
type Taken = (Option<usize>, (Arc<Stream>, usize));

impl Actor {
    pub(super) fn capture(&mut self, n: usize, mode: CaptureMode, how: How, acts: &[Act], end: End) {
        if how == How::ByHand {
            return self.capture_by_hand(n, mode, acts, end);
        }
        let Some((at, (mut stream, context))) = self.to_capture(n) else { return };
        if let Some(stream) = Arc::get_mut(&mut stream) {
            self.capture_in(stream, context, mode, how, acts, end);
        }
        self.captured(at, stream, context);
    }

    /// A stream to capture: a new one if other threads could drop memory in its order at that moment.
    fn to_capture(&self, n: usize) -> Option<Taken> {
        if !self.world(|world| world.loose) {
            return self.world(|world| world.streams.take(n)).map(|(at, stream)| (Some(at), stream));
        }
        let context = self.world(|world| world.context(n));
        let made = self.handle(context).create_stream(StreamFlags::NON_BLOCKING, None);
        made.ok().map(|stream| (None, (Arc::new(stream), context)))
    }

    fn captured(&self, at: Option<usize>, stream: Arc<Stream>, context: usize) {
        if let Some(at) = at {
            self.world(|world| world.streams.put(at, (stream, context)));
        }
    }

    fn opened(&self) {
        self.world(|world| world.open += 1);
    }

    /// Notes the end; whether something may have broken the capture.
    fn closed(&self) -> bool {
        self.world(|world| {
            world.open -= 1;
            let may_fail = world.may_fail;
            world.may_fail &= world.open > 0;
            may_fail
        })
    }

    fn capture_in(
        &mut self,
        stream: &mut Stream,
        context: usize,
        mode: CaptureMode,
        how: How,
        acts: &[Act],
        end: End,
    ) {
        let plan = Plan { contexts: BTreeSet::from([context]), closed: true, ..Plan::default() };
        let into = match how {
            How::Into(n) => match self.world(|world| world.graphs.take(n)) {
                Some(taken) => Some(taken),
                None => return,
            },
            _ => None,
        };
        let (depth, mut begun) = ((self.stack.len(), self.frames.len()), false);
        let open = self.world(|world| world.open);
        self.opened();
        let closure = |this: &mut Actor, begun: &mut bool, capture: &Capture<'_>| {
            *begun = true;
            this.frames.push(Frame { context, plan: plan.clone(), abandon: false });
            acts.iter().for_each(|act| this.act(act, Some(capture)));
            match end {
                End::Well if this.frames.last().unwrap().abandon => Err(CudaError::NotFound),
                End::Well => Ok(()),
                End::Error => Err(CudaError::NotFound),
                End::Panic => resume_unwind(Box::new("on purpose")),
            }
        };
        let mut into = into;
        let result = catch_unwind(AssertUnwindSafe(|| match &mut into {
            None if how == How::Executable => {
                let flags = InstantiateFlags::empty();
                stream
                    .capture_executable(mode, flags, |it| closure(self, &mut begun, it))
                    .map(|it| (None, Some(it)))
            }
            None => stream.capture(mode, |it| closure(self, &mut begun, it)).map(|it| (Some(it), None)),
            Some((_, built)) => {
                let after: Vec<_> =
                    built.plan.steps.iter().rev().find_map(|step| step.node).into_iter().collect();
                let after: Vec<_> = after.into_iter().map(|node| (node, Default::default())).collect();
                let after = if built.plan.closed { vec![] } else { after };
                let graph = &mut built.graph;
                stream
                    .capture_into(graph, &after, mode, |it| closure(self, &mut begun, it))
                    .map(|()| (None, None))
            }
        }));
        let may_fail = self.closed();
        self.stack.truncate(depth.0);
        let plan = self.frames.get_mut(depth.1).map(|frame| std::mem::take(&mut frame.plan)).unwrap_or(plan);
        self.frames.truncate(depth.1);
        let needs: Vec<_> = plan.contexts.iter().copied().collect();
        let mut all = needs.clone();
        all.extend(into.iter().flat_map(|(_, built)| built.plan.contexts.iter().copied()));
        match &result {
            Err(_) if end == End::Panic && begun => {}
            Err(_) => self.problem("a capture panicked".to_owned()),
            Ok(Err(CudaError::NotFound)) if begun => {}
            Ok(Err(error))
                if may_fail || open > 0 || mode == CaptureMode::Global && self.world(|it| it.loose) =>
            {
                // Whatever came of it is the capture's, or of a context.
                let any = Err::<(), _>(*error);
                let captures = (900..=908).contains(&error.code()) || *error == CudaError::IllegalState;
                if !captures {
                    self.judge("capture", &any, all.iter().copied(), &[CudaError::InvalidHandle]);
                }
            }
            Ok(result) => {
                let vague = into.as_ref().is_some_and(|(_, built)| built.plan.vague);
                if !(vague && matches!(result, Err(CudaError::ContextIsDestroyed))) {
                    self.judge("capture", &result.as_ref().map(|_| ()).map_err(|error| *error), all, &[]);
                }
            }
        }
        if self.world(|world| world.is_alive(context)) && open == 0 {
            let status = stream.capture_status();
            self.judge("ask whether a stream captures", &status, [context], &[]);
            if status.is_ok_and(|status| status != CaptureStatus::None) {
                self.problem("a stream captures after its capture".to_owned());
            }
        }
        let whole = matches!(result, Ok(Ok(_)));
        if let Ok(Ok((graph, exec))) = result {
            let mut plan = plan.clone();
            plan.vague |= may_fail;
            graph.into_iter().for_each(|graph| self.new_graph(graph, plan.clone()));
            exec.into_iter().for_each(|exec| self.new_exec(exec, plan.clone(), 0));
        }
        if let Some((at, mut built)) = into {
            built.plan.steps.extend(plan.steps);
            built.plan.contexts.extend(plan.contexts);
            built.plan.allocates |= plan.allocates;
            (built.plan.closed, built.plan.vague) = (true, built.plan.vague || !whole || may_fail);
            let spent = built.graph.nodes() == Err(CudaError::InvalidHandle);
            // What a failed capture has left in the graph may use what is not kept.
            if whole && !spent {
                self.world(|world| world.graphs.put(at, built));
            }
        }
    }

    /// What is captured by hand is only what needs no closure, and is not launched. There may be memory in the order of the
    /// stream, which is dropped in the end or before.
    fn capture_by_hand(&mut self, n: usize, mode: CaptureMode, acts: &[Act], end: End) {
        // Another thread may still hold the stream when all are done, and with it the capture.
        if self.world(|world| world.loose) {
            return;
        }
        let Some((_, (stream, context))) = self.to_capture(n) else { return };
        // SAFETY: all acts on the stream expect that it captures.
        let begun: CudaResult<()> = unsafe { stream.begin_capture(mode) };
        self.judge("begin a capture", &begun, [context], &[]);
        if begun.is_err() {
            return;
        }
        self.opened();
        self.world(|world| world.streams.add((Arc::clone(&stream), context)));
        let begun_in = Arc::downgrade(&stream);
        drop(stream);
        acts.iter().for_each(|act| self.act(act, None));
        let find = |(it, _): &(Arc<Stream>, usize)| std::ptr::eq(Arc::as_ptr(it), begun_in.as_ptr());
        let taken = self.world(|world| world.streams.take_if(find));
        match (end, taken) {
            (End::Well, Some((at, (stream, context)))) => {
                // SAFETY: the graph is dropped.
                drop(unsafe { stream.end_capture() });
                self.world(|world| world.streams.put(at, (stream, context)));
            }
            // The capture may be lost so, but the stream is not.
            (End::Error, Some((_, (stream, _)))) => {
                // SAFETY: as above.
                drop(thread::spawn(move || drop(unsafe { stream.end_capture() })).join());
            }
            (_, taken) => drop(taken),
        }
        self.closed();
    }

    /// Captures memory that the graph allocates, fills and frees.
    pub(super) fn scratch(&mut self, within: Within<'_>) {
        let Some(capture) = within else { return };
        let (context, mut unfreed) = (self.frames.last().unwrap().context, false);
        let result = capture.allocate::<u32>(LEN).and_then(|memory| {
            unfreed = true;
            // SAFETY: the stream has allocated it.
            unsafe { capture.fill_bytes(&memory, 7) }?;
            capture.free(memory)
        });
        unfreed &= result.is_err();
        self.judge("capture memory", &result, [context], &[]);
        let frame = self.frames.last_mut().unwrap();
        frame.plan.allocates = true;
        frame.abandon |= unfreed;
    }

    pub(super) fn fork(&mut self, n: usize, acts: &[Act], end: End, within: Within<'_>) {
        let Some(capture) = within else { return };
        let Some((at, (mut stream, context))) = self.to_capture(n) else { return };
        if let Some(other) = Arc::get_mut(&mut stream) {
            let outer = self.frames.last_mut().unwrap();
            let (origin, plan, abandon) = (outer.context, std::mem::take(&mut outer.plan), outer.abandon);
            let (depth, mut begun) = ((self.stack.len(), self.frames.len()), false);
            self.frames.push(Frame { context, plan, abandon });
            let result = catch_unwind(AssertUnwindSafe(|| {
                capture.fork(other, |it| {
                    begun = true;
                    acts.iter().for_each(|act| self.act(act, Some(it)));
                    match end {
                        End::Well => Ok(()),
                        End::Error => Err(CudaError::NotFound),
                        End::Panic => resume_unwind(Box::new("on purpose")),
                    }
                })
            }));
            self.stack.truncate(depth.0);
            self.frames.truncate(depth.1 + 1);
            let inner = self.frames.pop().unwrap();
            let outer = self.frames.last_mut().unwrap();
            (outer.plan, outer.abandon) = (inner.plan, inner.abandon);
            if begun {
                outer.plan.contexts.insert(context);
            } else {
                outer.plan.vague = true;
            }
            match result {
                Err(_) if end == End::Panic && begun => {}
                Err(_) => self.problem("a fork panicked".to_owned()),
                Ok(Err(CudaError::NotFound)) if begun => {}
                Ok(result) => {
                    // A stream that captures already is refused, and a join can fail with its context.
                    self.world(|world| world.may_fail |= result.is_err());
                    self.judge("fork", &result, [origin, context], &[]);
                }
            }
        }
        self.captured(at, stream, context);
    }
}
