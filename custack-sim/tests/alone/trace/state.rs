//! What is known of the driver's state while a trace is made: which contexts live, what was made in them, and which
//! stacks hold them. It says which calls would crash a driver.

use super::language::{ALL, Call, Ctx, EVENTS, Evt, GREEN, PRIMARY, SLOTS, STREAMS, Step, Stm, Trace};
use super::made::PARTS;
use super::play::Outcome;

/// A context in one of its lives: slots are used again, and so is the primary context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Life {
    slot: usize,
    number: usize,
}

/// A stream that was made: of a context, and of the context with whose memory it works.
#[derive(Clone, Copy)]
struct Made {
    of: Life,
    base: Life,
}

pub(super) struct State {
    alive: [bool; ALL],
    /// How many lives each slot has begun.
    lives: [usize; ALL],
    usage: [u32; SLOTS],
    stacks: Vec<Vec<usize>>,
    retained: bool,
    retains: u32,
    /// The primary context's life in which each green context was made.
    primary_of: [usize; ALL],
    streams: [Option<Made>; STREAMS],
    events: [Option<Life>; EVENTS],
    /// Contexts made so far; making one takes a real driver some time.
    pub(super) made: usize,
    pub(super) greens_made: usize,
}

pub(super) fn is_green(slot: usize) -> bool {
    slot >= GREEN
}

impl State {
    pub(super) fn new(threads: usize) -> State {
        State {
            alive: [false; ALL],
            lives: [0; ALL],
            usage: [0; SLOTS],
            stacks: vec![Vec::new(); threads],
            retained: false,
            retains: 0,
            primary_of: [0; ALL],
            streams: [None; STREAMS],
            events: [None; EVENTS],
            made: 0,
            greens_made: 0,
        }
    }

    pub(super) fn is_alive(&self, slot: usize) -> bool {
        self.alive[slot]
    }

    fn is_alive_top(&self, thread: usize, slot: usize) -> bool {
        self.is_alive(slot) && self.stacks[thread].last() == Some(&slot)
    }

    fn is_held(&self, slot: usize) -> bool {
        self.stacks.iter().flatten().any(|held| *held == slot)
    }

    fn greens(&self) -> usize {
        self.alive[GREEN..].iter().filter(|alive| **alive).count()
    }

    fn life(&self, slot: usize) -> Life {
        Life { slot, number: self.lives[slot] }
    }

    fn lives_now(&self, life: Life) -> bool {
        self.alive[life.slot] && self.lives[life.slot] == life.number
    }

    /// The context whose memory this one has.
    fn base(&self, slot: usize) -> usize {
        if is_green(slot) { PRIMARY } else { slot }
    }

    /// Whether the primary context in whose life this green one was made lives.
    fn has_primary(&self, green: usize) -> bool {
        self.alive[PRIMARY] && self.primary_of[green] == self.lives[PRIMARY]
    }

    /// Whether a context's handle can be given to the driver. What is behind that of a green context stays while it is
    /// on a stack and the primary context lives.
    fn good(&self, context: Ctx) -> bool {
        match context {
            Ctx::Null => true,
            Ctx::Slot(slot) if is_green(slot) => {
                self.alive[slot] || self.is_held(slot) && self.has_primary(slot)
            }
            // A green context may keep a primary one of which the trace has no handle yet.
            Ctx::Slot(PRIMARY) => self.is_alive(PRIMARY) && self.retained || self.is_held(PRIMARY),
            Ctx::Slot(slot) => self.is_alive(slot) || self.is_held(slot),
        }
    }

    fn good_green(&self, green: Ctx) -> bool {
        matches!(green, Ctx::Null | Ctx::Slot(GREEN..)) && self.good(green)
    }

    /// A stream can be used while its context lives. One of a green context is refused as long as the primary context
    /// lives, and a default stream is looked up in what is current.
    fn good_stream(&self, stream: Stm, thread: usize) -> bool {
        match stream {
            Stm::Default(_) => self.stacks[thread].last().is_none_or(|slot| self.is_alive(*slot)),
            Stm::Slot(slot) => self.streams[slot].is_some_and(|made| self.lives_now(made.base)),
        }
    }

    fn good_event(&self, event: Evt) -> bool {
        event.0.is_none_or(|slot| self.events[slot].is_some_and(|life| self.lives_now(life)))
    }

    /// Whether the call would give back a share of the primary context that only green ones have. It is refused, but an H200
    /// frees something twice after the second such call.
    fn over_releases(&self, call: Call) -> bool {
        let ends = matches!(
            call,
            Call::cuDevicePrimaryCtxRelease_v2 { device: 0 } | Call::cuDevicePrimaryCtxReset_v2 { device: 0 }
        );
        ends && self.retains == 0 && self.greens() > 0
    }

    /// Whether the call would end the primary context's life while a destroyed green one is on a stack: what the driver
    /// has behind that handle then is not known.
    fn uncovers_a_green(&self, call: Call) -> bool {
        let (destroyed, released) = match call {
            Call::cuGreenCtxDestroy { green: Ctx::Slot(slot) } if self.alive[slot] => (Some(slot), 0),
            Call::cuDevicePrimaryCtxRelease_v2 { device: 0 } => (None, 1),
            Call::cuDevicePrimaryCtxReset_v2 { device: 0 } => (None, self.retains),
            _ => return false,
        };
        let greens = self.greens() - usize::from(destroyed.is_some());
        let ends = self.alive[PRIMARY] && greens == 0 && self.retains <= released;
        let mut held = self.stacks.iter().flatten().filter(|slot| is_green(**slot));
        ends && held.any(|slot| !self.alive[*slot] || Some(*slot) == destroyed)
    }

    /// Whether a driver can be given this call.
    pub(super) fn allows(&self, Step { thread, call }: Step) -> bool {
        let current = self.stacks[thread].last();
        let good = |context| self.good(context);
        if self.uncovers_a_green(call) || self.over_releases(call) {
            return false;
        }
        match call {
            Call::cuCtxPushCurrent_v2 { context } | Call::cuCtxSetCurrent { context } => {
                // The driver keeps the memory behind a primary context's handle, and frees that behind a green one's twice.
                let dead = matches!(context, Ctx::Slot(slot) if is_green(slot) && !self.alive[slot]);
                good(context) && !dead || context == Ctx::Slot(PRIMARY) && self.retained
            }
            Call::cuCtxDestroy_v2 { context }
            | Call::cuCtxGetDevice_v2 { context, .. }
            | Call::cuCtxGetId { context, .. }
            | Call::cuCtxSynchronize_v2 { context }
            | Call::cuCtxGetApiVersion { context, .. }
            | Call::cuCtxGetDevResource { context, .. } => good(context),
            // What these do with a green context is not known.
            Call::cuCtxDetach { context } => {
                good(context)
                    && !matches!(context, Ctx::Slot(GREEN..))
                    && current.is_none_or(|slot| !is_green(*slot))
            }
            Call::cuCtxAttach { .. } => current.is_none_or(|slot| !is_green(*slot)),
            Call::cuCtxRecordEvent { context, event } | Call::cuCtxWaitEvent { context, event } => {
                good(context) && self.good_event(event)
            }
            Call::cuCtxEnablePeerAccess { peer, .. } | Call::cuCtxDisablePeerAccess { peer } => good(peer),
            Call::cuCtxSetFlags { .. } => current.is_none_or(|slot| self.is_alive(*slot)),
            Call::cuCtxCreate_v2 { out, .. }
            | Call::cuCtxCreate_v3 { out, .. }
            | Call::cuCtxCreate_v4 { out, .. } => match out {
                Ctx::Null => true,
                Ctx::Slot(slot) => slot < SLOTS && !self.alive[slot] && !self.is_held(slot),
            },
            Call::cuGreenCtxCreate { out: Ctx::Slot(slot), .. } => {
                is_green(slot) && !self.alive[slot] && !self.is_held(slot)
            }
            // Which groups there are in a green context's resource depends on how a device is built.
            Call::cuDevSmResourceSplitByCount { of, flags, .. } => {
                of < PARTS || flags == 1 && self.alive.get(GREEN + (of - PARTS) as usize) == Some(&true)
            }
            Call::cuCtxFromGreenCtx { green, .. }
            | Call::cuGreenCtxDestroy { green }
            | Call::cuGreenCtxGetDevResource { green, .. }
            | Call::cuGreenCtxGetId { green, .. } => self.good_green(green),
            Call::cuGreenCtxRecordEvent { green, event } | Call::cuGreenCtxWaitEvent { green, event } => {
                self.good_green(green) && self.good_event(event)
            }
            Call::cuGreenCtxStreamCreate { out, green, .. } => self.good_green(green) && self.has_room(out),
            Call::cuStreamCreate { out, .. } => {
                self.has_room(out) && current.is_none_or(|slot| self.is_alive(*slot))
            }
            Call::cuStreamDestroy_v2 { stream }
            | Call::cuStreamQuery { stream }
            | Call::cuStreamSynchronize { stream }
            | Call::cuStreamGetPriority { stream }
            | Call::cuStreamGetCtx { stream }
            | Call::cuStreamGetCtx_v2 { stream }
            | Call::cuStreamGetGreenCtx { stream } => self.good_stream(stream, thread),
            Call::cuStreamWaitEvent { stream, event } => {
                self.good_stream(stream, thread) && event.0.is_some() && self.good_event(event)
            }
            Call::cuEventCreate { out } => {
                out.0.is_some_and(|slot| self.events[slot].is_none())
                    && current.is_none_or(|slot| self.is_alive(*slot))
            }
            Call::cuEventDestroy_v2 { event } | Call::cuEventSynchronize { event } => {
                event.0.is_some() && self.good_event(event)
            }
            Call::cuEventRecord { event, stream } => {
                event.0.is_some() && self.good_event(event) && self.good_stream(stream, thread)
            }
            _ => true,
        }
    }

    /// Whether the call ends a context's life.
    pub(super) fn ends(&self, Step { thread, call }: Step) -> bool {
        let held = self.retains > 0;
        match call {
            Call::cuCtxDestroy_v2 { context: Ctx::Slot(slot) } => slot < SLOTS && self.alive[slot],
            Call::cuCtxDetach { context: Ctx::Slot(slot) } if slot < SLOTS => {
                self.usage[slot] == 1 && self.is_alive_top(thread, slot)
            }
            Call::cuDevicePrimaryCtxRelease_v2 { device: 0 } => {
                self.retains == 1 && self.alive[PRIMARY] && self.greens() == 0
            }
            Call::cuDevicePrimaryCtxReset_v2 { device: 0 } => self.alive[PRIMARY] && self.greens() == 0,
            Call::cuGreenCtxDestroy { green: Ctx::Slot(slot) } => {
                self.alive[slot] && self.greens() == 1 && !held
            }
            _ => false,
        }
    }

    fn end(&mut self, thread: usize, slot: usize) {
        self.alive[slot] = false;
        if self.stacks[thread].last() == Some(&slot) {
            self.stacks[thread].pop();
        }
    }

    /// The effect of the call if it succeeds. The status is the driver's if the call was played, else the expected one.
    pub(super) fn apply(&mut self, Step { thread, call }: Step, status: Option<u32>) {
        let succeeded = |expected: bool| status.map_or(expected, |status| status == 0);
        let good_flags = |flags: u32| (flags & 7).count_ones() < 2 && flags < 0x100;
        match call {
            Call::cuCtxCreate_v2 { out: Ctx::Slot(slot), flags, device } => {
                self.create(thread, slot, succeeded(device == 0 && good_flags(flags)));
            }
            Call::cuCtxCreate_v3 { out: Ctx::Slot(slot), affinities, flags, device }
            | Call::cuCtxCreate_v4 { out: Ctx::Slot(slot), affinities, flags, device } => {
                self.create(thread, slot, succeeded(device == 0 && affinities <= 0 && good_flags(flags)));
            }
            Call::cuCtxDestroy_v2 { context: Ctx::Slot(slot) }
                if slot < SLOTS && succeeded(self.alive[slot]) =>
            {
                self.end(thread, slot);
            }
            Call::cuCtxPushCurrent_v2 { context: Ctx::Slot(slot) } => self.stacks[thread].push(slot),
            Call::cuCtxPopCurrent_v2 { .. } | Call::cuCtxSetCurrent { context: Ctx::Null } => {
                self.stacks[thread].pop();
            }
            Call::cuCtxSetCurrent { context: Ctx::Slot(slot) } => {
                self.stacks[thread].pop();
                self.stacks[thread].push(slot);
            }
            Call::cuCtxAttach { out: true, flags: 0 } => {
                if let Some(slot) =
                    self.stacks[thread].last().filter(|slot| **slot < SLOTS && self.alive[**slot])
                {
                    self.usage[*slot] += 1;
                }
            }
            Call::cuCtxDetach { context: Ctx::Slot(slot) }
                if slot < SLOTS && self.is_alive_top(thread, slot) =>
            {
                self.usage[slot] -= 1;
                if self.usage[slot] == 0 {
                    self.end(thread, slot);
                }
            }
            Call::cuDevicePrimaryCtxRetain { out: true, device: 0 } => {
                self.activate();
                self.retains += 1;
                self.retained = true;
            }
            Call::cuDevicePrimaryCtxRelease_v2 { device: 0 } if self.retains > 0 => {
                self.retains -= 1;
                self.deactivate_unless_held();
            }
            Call::cuDevicePrimaryCtxReset_v2 { device: 0 } if self.greens() == 0 => {
                self.alive[PRIMARY] = false;
            }
            _ => self.apply_to_what_is_made(Step { thread, call }, status),
        }
    }

    /// The same of calls on green contexts, streams and events.
    fn apply_to_what_is_made(&mut self, Step { thread, call }: Step, status: Option<u32>) {
        let succeeded = |expected: bool| status.map_or(expected, |status| status == 0);
        let current = self.stacks[thread].last().copied().filter(|slot| self.alive[*slot]);
        match call {
            Call::cuGreenCtxCreate { out: Ctx::Slot(slot), device, flags, .. }
                if succeeded(device == 0 && flags == 1) =>
            {
                self.activate();
                self.alive[slot] = true;
                self.lives[slot] += 1;
                self.primary_of[slot] = self.lives[PRIMARY];
                self.greens_made += 1;
            }
            Call::cuGreenCtxDestroy { green: Ctx::Slot(slot) } if succeeded(self.alive[slot]) => {
                self.alive[slot] = false;
                self.deactivate_unless_held();
            }
            Call::cuGreenCtxStreamCreate { out: Stm::Slot(at), green: Ctx::Slot(slot), flags, .. }
                if succeeded(flags == 1 && self.alive[slot]) =>
            {
                self.streams[at] = Some(self.made_in(slot));
            }
            Call::cuStreamCreate { out: Stm::Slot(at), flags } => {
                if let Some(slot) = current.filter(|_| succeeded(flags < 2)) {
                    self.streams[at] = Some(self.made_in(slot));
                }
            }
            Call::cuStreamDestroy_v2 { stream: Stm::Slot(at) } => {
                let of = self.streams[at].filter(|made| succeeded(self.lives_now(made.of)));
                self.streams[at] = if of.is_some() { None } else { self.streams[at] };
            }
            Call::cuEventCreate { out: Evt(Some(at)) } => {
                self.events[at] = current.map(|slot| self.made_in(slot).base);
            }
            Call::cuEventDestroy_v2 { event: Evt(Some(at)) } if succeeded(true) => self.events[at] = None,
            _ => {}
        }
    }

    fn made_in(&self, slot: usize) -> Made {
        Made { of: self.life(slot), base: self.life(self.base(slot)) }
    }

    /// What can never be used again makes room.
    pub(super) fn forget_what_is_gone(&mut self) {
        let gone = |state: &State, base: Life| !state.lives_now(base);
        for at in 0..STREAMS {
            if self.streams[at].is_some_and(|made| gone(self, made.base)) {
                self.streams[at] = None;
            }
        }
        for at in 0..EVENTS {
            if self.events[at].is_some_and(|base| gone(self, base)) {
                self.events[at] = None;
            }
        }
    }

    /// Whether a slot has room for a stream: that of a destroyed green context is lost to the program.
    fn has_room(&self, stream: Stm) -> bool {
        let lost = |at: usize| self.streams[at].is_none_or(|made| !self.lives_now(made.of));
        matches!(stream, Stm::Slot(at) if lost(at))
    }

    fn activate(&mut self) {
        if !self.alive[PRIMARY] {
            self.alive[PRIMARY] = true;
            self.lives[PRIMARY] += 1;
            self.made += 1;
        }
    }

    fn deactivate_unless_held(&mut self) {
        self.alive[PRIMARY] &= self.retains > 0 || self.greens() > 0;
    }

    fn create(&mut self, thread: usize, slot: usize, succeeded: bool) {
        if succeeded {
            self.alive[slot] = true;
            self.lives[slot] += 1;
            self.usage[slot] = 1;
            self.made += 1;
            self.stacks[thread].push(slot);
        }
    }

    /// The streams and events whose contexts live.
    pub(super) fn usable(&self) -> (Vec<usize>, Vec<usize>) {
        let streams = (0..STREAMS).filter(|at| self.streams[*at].is_some_and(|made| self.lives_now(made.of)));
        let events = (0..EVENTS).filter(|at| self.events[*at].is_some_and(|base| self.lives_now(base)));
        (streams.collect(), events.collect())
    }
}

impl State {
    pub(super) fn contexts_alive(&self) -> impl Iterator<Item = usize> {
        (0..SLOTS).filter(|slot| self.alive[*slot])
    }

    pub(super) fn greens_alive(&self) -> impl Iterator<Item = usize> {
        (0..ALL - GREEN).filter(|at| self.alive[GREEN + at])
    }
}

/// Whether no step of the trace would crash a driver.
pub(super) fn is_safe(trace: &Trace) -> bool {
    let mut state = State::new(trace.threads());
    trace.steps.iter().all(|step| {
        state.forget_what_is_gone();
        let allowed = state.allows(*step);
        state.apply(*step, None);
        allowed
    })
}

/// The state after the trace was played.
pub(super) fn after(trace: &Trace, outcomes: &[Outcome]) -> State {
    let mut state = State::new(trace.threads());
    for (step, outcome) in trace.steps.iter().zip(outcomes) {
        state.forget_what_is_gone();
        state.apply(*step, Some(outcome.status));
    }
    state
}
