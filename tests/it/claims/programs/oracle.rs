//! Judges what was observed: the answer to each act, and the stack after it.

use super::act::{Act, Kind, Thing, pick};
use super::perform::{Answer, Seen};
use super::stacks::Stacks;
use custack::error::CudaError;
use std::slice::Iter;

#[derive(Debug)]
pub(super) struct Memory {
    pub(super) context: usize,
    pub(super) kind: Kind,
    pub(super) values: Vec<u32>,
}

#[derive(Debug, Default)]
pub(super) struct Oracle {
    pub(super) stacks: Stacks,
    /// How many created contexts may be alive at once.
    pub(super) most: usize,
    pub(super) buffers: Vec<Option<Memory>>,
    /// Their contexts.
    pub(super) streams: Vec<Option<usize>>,
    pub(super) events: Vec<Option<usize>>,
    /// What callbacks will drop at some time.
    pub(super) in_flight: Vec<Gone>,
    /// The contexts in whose calls a thread may be waiting.
    pub(super) waiting: Vec<usize>,
    pub(super) raws: Vec<usize>,
    /// What a fault has left at the driver: allocations, streams and events, shares.
    pub(super) leaks: [usize; 3],
    /// The contents of the stacks cannot be predicted any more.
    pub(super) lost: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Gone {
    Nothing,
    Owner(usize),
    Buffer(usize),
    Other,
}

pub(super) const DESTROYED: Answer = Err(CudaError::ContextIsDestroyed);

pub(super) fn done() -> Vec<Answer> {
    vec![Ok(vec![])]
}

impl Oracle {
    pub(super) fn new(most: usize) -> Oracle {
        Oracle { most, ..Oracle::default() }
    }

    pub(super) fn context(&self, n: usize) -> Option<usize> {
        pick(n, self.stacks.contexts.len())
    }

    pub(super) fn buffer(&self, n: usize) -> Option<&Memory> {
        pick(n, self.buffers.len()).and_then(|at| self.buffers[at].as_ref())
    }

    pub(super) fn stream(&self, n: usize) -> Option<usize> {
        pick(n, self.streams.len()).and_then(|at| self.streams[at])
    }

    pub(super) fn event(&self, n: usize) -> Option<usize> {
        pick(n, self.events.len()).and_then(|at| self.events[at])
    }

    /// Whether callbacks that run meanwhile affect the act.
    pub(super) fn touches(&self, thread: usize, act: &Act) -> bool {
        let owners = self.in_flight.iter().filter_map(|gone| match gone {
            Gone::Owner(context) => Some(*context),
            _ => None,
        });
        let dying: Vec<_> = owners.collect();
        let matters = |context: Option<usize>| context.is_some_and(|it| dying.contains(&it));
        match act {
            Act::Scoped(..) | Act::Ending { .. } | Act::ReadAll | Act::Drain | Act::Retain => return true,
            Act::Callback { .. } | Act::GiveBack(..) | Act::Faulty { .. } | Act::LeaveAll => return true,
            _ => {}
        }
        if self.stacks.of[thread].iter().any(|entry| matters(Some(entry.context))) {
            return true;
        }
        match *act {
            Act::Push(n) | Act::Set(n) | Act::Enter(n) | Act::Synchronize(n) => matters(self.context(n)),
            Act::PanicInScope(n, m) | Act::ForeignInScope(n, m, _) => {
                matters(self.context(n)) || matters(self.context(m))
            }
            Act::Write(n, _) | Act::Read(n) | Act::StaleSlice(n, _) => {
                matters(self.buffer(n).map(|memory| memory.context))
            }
            Act::Copy(n, m) => [n, m].iter().any(|n| matters(self.buffer(*n).map(|memory| memory.context))),
            Act::SynchronizeStream(n) | Act::SynchronizeElsewhere(n) => matters(self.stream(n)),
            Act::Record(n, m) => matters(self.event(n)) || matters(self.stream(m)),
            Act::SynchronizeEvent(n) => matters(self.event(n)),
            _ => false,
        }
    }

    /// All callbacks have run.
    pub(super) fn callbacks_done(&mut self) {
        for gone in std::mem::take(&mut self.in_flight) {
            self.dropped(gone, None);
        }
    }

    pub(super) fn take(&mut self, thing: Thing, n: usize) -> Gone {
        match thing {
            Thing::Owner => self.take_owner(self.context(n)),
            Thing::Buffer => {
                let taken = pick(n, self.buffers.len()).and_then(|at| self.buffers[at].take());
                taken.map_or(Gone::Nothing, |memory| Gone::Buffer(memory.context))
            }
            Thing::Stream => {
                let taken = pick(n, self.streams.len()).and_then(|at| self.streams[at].take());
                taken.map_or(Gone::Nothing, |_| Gone::Other)
            }
            Thing::Event => {
                let taken = pick(n, self.events.len()).and_then(|at| self.events[at].take());
                taken.map_or(Gone::Nothing, |_| Gone::Other)
            }
        }
    }

    pub(super) fn take_owner(&mut self, at: Option<usize>) -> Gone {
        match at.map(|at| (at, &mut self.stacks.contexts[at])).filter(|(_, life)| life.owners > 0) {
            None => Gone::Nothing,
            Some((at, life)) => {
                life.owners -= 1;
                Gone::Owner(at)
            }
        }
    }

    /// Drops what was taken, on a thread of the program or in a callback.
    pub(super) fn dropped(&mut self, gone: Gone, thread: Option<usize>) {
        match gone {
            Gone::Owner(context) if self.stacks.contexts[context].owners == 0 => {
                let pinned = self.buffers.iter().flatten().any(|memory| memory.context == context);
                let lingers = pinned || thread.is_none_or(|thread| thread == super::THREADS);
                let lingers = lingers || !self.waiting.is_empty() || self.stacks.contexts[context].lingers;
                self.stacks.end(context, lingers);
                if let Some(thread) = thread {
                    self.stacks.clear(thread);
                }
            }
            Gone::Buffer(context) if thread.is_none_or(|thread| thread == super::THREADS) => {
                self.stacks.contexts[context].lingers = true;
            }
            _ => {}
        }
    }

    /// The context in which this thread would make something.
    pub(super) fn current(&self, thread: usize) -> Result<usize, CudaError> {
        let top = self.stacks.top(thread).ok_or(CudaError::InvalidContext)?;
        if self.stacks.contexts[top].alive {
            return Ok(top);
        }
        // The primary context may be alive again, under another id.
        let again = |at: &usize| {
            self.stacks.contexts[*at].alive
                && self.stacks.contexts[*at].primary
                && self.raws[*at] == self.raws[top]
        };
        (0..self.stacks.contexts.len()).rev().find(again).ok_or(CudaError::ContextIsDestroyed)
    }

    pub(super) fn judge(&mut self, thread: usize, act: &Act, seen: &mut Iter<Seen>) -> Result<(), String> {
        if self.lost {
            return Ok(());
        }
        match act {
            Act::Scoped(n, acts) if self.context(*n).is_some() => self.scoped(thread, *n, acts, seen),
            Act::Faulty { code, after, act, .. } => self.faulty(thread, *code, *after, act, seen),
            _ => {
                let now = seen.next().ok_or("nothing was seen")?;
                self.raws.clone_from(&now.raws);
                let expected = self.answer(thread, act);
                self.compare(thread, act, &expected, now)
            }
        }
    }

    fn scoped(&mut self, thread: usize, n: usize, acts: &[Act], seen: &mut Iter<Seen>) -> Result<(), String> {
        let now = seen.next().ok_or("nothing was seen")?;
        self.raws.clone_from(&now.raws);
        let guard = match self.stacks.enter(thread, self.context(n).unwrap()) {
            Err(error) => return self.compare(thread, &Act::Enter(n), &[Err(error)], now),
            Ok(guard) => guard,
        };
        self.compare(thread, &Act::Enter(n), &done(), now)?;
        for act in acts {
            self.judge(thread, act, seen)?;
        }
        let now = seen.next().ok_or("the end of the scope was not seen")?;
        self.stacks.leave(thread, guard);
        self.compare(thread, &Act::Leave(0), &done(), now)
    }

    /// A failed push, pop or set changes nothing; everything else has its normal effect.
    fn faulty(
        &mut self,
        thread: usize,
        code: u32,
        after: bool,
        act: &Act,
        seen: &mut Iter<Seen>,
    ) -> Result<(), String> {
        let now = seen.next().ok_or("nothing was seen")?;
        self.raws.clone_from(&now.raws);
        let before = self.stacks.clone();
        let error = CudaError::from_code(code).unwrap();
        let was_dead = self.stacks.top(thread).is_some_and(|top| !self.stacks.contexts[top].alive);
        let run_before = self.stacks.has_dead_run(thread, &self.raws);
        let expected = self.answer(thread, act);
        let failed = now.fired && now.answer == Err(error) && !expected.contains(&now.answer)
            || now.fired && now.answer == Err(error) && matches!(act, Act::Pop);
        match act {
            Act::Drop(thing, _) | Act::GiveBack(thing, _) if now.fired => self.leak(*thing),
            _ => {}
        }
        if now.fired && (run_before || before.of[thread].len() > 1 && self.with_dead(&before, thread)) {
            self.lost = true;
            return Ok(());
        }
        match act {
            Act::Push(_) | Act::Pop | Act::Set(_) | Act::Unset | Act::Enter(_) if failed => {
                self.stacks = before;
                let pops = matches!(act, Act::Pop | Act::Unset);
                let over_the_last =
                    matches!(act, Act::Pop) && code == 201 && self.stacks.of[thread].len() == 1;
                // A context that the driver has destroyed cannot be pushed again.
                let replaced = matches!(*act, Act::Set(n)
                    if self.context(n).map(|at| self.raws[at]) != self.stacks.top(thread).map(|at| self.raws[at]));
                let may_go = after && ((pops || replaced) && was_dead || over_the_last);
                if may_go && self.compare(thread, act, &[Err(error)], now).is_err() {
                    let _ = self.stacks.pop(thread);
                }
                self.compare(thread, act, &[Err(error)], now)
            }
            Act::Drop(thing, _) | Act::GiveBack(thing, _) if now.fired => {
                // What could not be destroyed at once is destroyed soon after.
                self.stacks.contexts.iter_mut().for_each(|life| life.lingers |= !life.alive);
                let mut allowed = expected;
                match now.answer.as_deref() {
                    Ok([1, given]) if *given == code && *thing == Thing::Owner => {
                        self.stacks = before;
                        allowed.push(Ok(vec![1, code]));
                    }
                    _ => allowed.push(Ok(vec![2, code])),
                }
                self.compare(thread, act, &allowed, now)
            }
            _ => self.compare(thread, act, &expected, now),
        }
    }

    /// What may stay at the driver because a call failed.
    fn leak(&mut self, thing: Thing) {
        match thing {
            Thing::Owner => self.leaks[2] += 1,
            // Freeing the last memory of a primary context releases a share.
            Thing::Buffer => {
                self.leaks[0] += 1;
                self.leaks[2] += 1;
            }
            Thing::Stream | Thing::Event => self.leaks[1] += 1,
        }
    }

    /// Whether the previous stack has a context twice that is dead by now.
    fn with_dead(&self, before: &Stacks, thread: usize) -> bool {
        let mut then = before.clone();
        then.contexts.clone_from(&self.stacks.contexts);
        then.has_dead_run(thread, &self.raws)
    }

    fn compare(&self, thread: usize, act: &Act, expected: &[Answer], now: &Seen) -> Result<(), String> {
        let stack = &self.stacks.of[thread];
        let raw = |context: usize| now.raws.get(context).copied().unwrap_or(1);
        let top = stack.last().map_or(0, |top| raw(top.context));
        let depth = now.depth.is_none_or(|depth| depth == stack.len());
        let drained: Vec<_> = stack.iter().rev().map(|entry| raw(entry.context)).collect();
        let drained = now.drained.as_ref().is_none_or(|seen| *seen == drained);
        let whole = now.drained.is_some() || now.current == top && depth && now.mirror == stack.len();
        let contexts = now.raws.len() == self.stacks.contexts.len();
        if expected.contains(&now.answer) && whole && drained && contexts {
            return Ok(());
        }
        let dead: Vec<_> = self.stacks.contexts.iter().map(|life| u8::from(life.alive)).collect();
        Err(format!(
            "thread {thread}, {act:?}: saw {now:x?}\nexpected {expected:?}, {top:#x} current, {stack:?}, \
             contexts alive {dead:?}"
        ))
    }
}
