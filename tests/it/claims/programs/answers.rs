//! What each act must answer, and what it changes.

use super::act::{Act, Kind, Thing, pick};
use super::oracle::{DESTROYED, Gone, Memory, Oracle, done};
use super::perform::Answer;
use super::stacks::{Guard, Life};
use super::world::values;
use custack::error::CudaError;

impl Oracle {
    /// The answers that the act may give; updates the oracle.
    pub(super) fn answer(&mut self, thread: usize, act: &Act) -> Vec<Answer> {
        match self.try_answer(thread, act) {
            Ok(expected) => expected,
            Err(error) => vec![Err(error)],
        }
    }

    fn try_answer(&mut self, thread: usize, act: &Act) -> Result<Vec<Answer>, CudaError> {
        if let Act::Push(n) | Act::Set(n) | Act::Enter(n) | Act::Synchronize(n) = *act {
            let Some(context) = self.context(n) else { return Ok(done()) };
            match act {
                Act::Push(_) => self.stacks.push(thread, context)?,
                Act::Set(_) => self.stacks.set(thread, context)?,
                Act::Synchronize(_) => self.stacks.usable(context)?,
                _ => {
                    let guard = self.stacks.enter(thread, context)?;
                    self.stacks.guards[thread].push(guard);
                }
            }
            return Ok(done());
        }
        match *act {
            Act::Create => {
                let owned = |life: &&Life| !life.primary && life.owners > 0;
                if self.stacks.contexts.iter().filter(owned).count() < self.most {
                    self.stacks.create(thread);
                }
            }
            Act::Retain => self.retain(),
            Act::Pop => return Ok(vec![Ok(vec![self.stacks.pop(thread)? as u32 + 1])]),
            Act::Unset => self.stacks.unset(thread)?,
            Act::Leave(n) => {
                let count = self.stacks.guards[thread].len();
                if count > 0 {
                    let guard: Guard = self.stacks.guards[thread].swap_remove(n % count);
                    self.stacks.leave(thread, guard);
                }
            }
            Act::LeaveAll => {
                while let Some(guard) = self.stacks.guards[thread].pop() {
                    self.stacks.leave(thread, guard);
                }
            }
            Act::PanicInScope(n, _) | Act::ForeignInScope(n, ..) => {
                if let Some(context) = self.context(n) {
                    self.stacks.usable(context)?;
                }
            }
            Act::SynchronizeCurrent => {
                let top = self.stacks.top(thread).ok_or(CudaError::InvalidContext)?;
                let life = &self.stacks.contexts[top];
                let pinned = self.buffers.iter().flatten().any(|memory| memory.context == top);
                if !life.alive && (life.primary || life.lingers || pinned || !self.waiting.is_empty()) {
                    return Ok(vec![Ok(vec![]), DESTROYED]);
                }
                self.stacks.usable(top)?;
            }
            Act::GetCurrent => {
                let top = match (self.stacks.top(thread), self.current(thread)) {
                    (None, _) => return Ok(vec![Ok(vec![0])]),
                    (_, Ok(living)) => return Ok(vec![Ok(vec![living as u32 + 1])]),
                    (Some(top), Err(_)) => top,
                };
                // One of the primary context's lives, if it had several.
                let same = (0..self.raws.len()).filter(|at| self.raws[*at] == self.raws[top]);
                let primary = self.stacks.contexts[top].primary;
                return Ok(same
                    .filter(|at| primary || *at == top)
                    .map(|at| Ok(vec![at as u32 + 1]))
                    .collect());
            }
            Act::Drop(thing, n) => {
                let gone = self.take(thing, n);
                self.dropped(gone, Some(thread));
            }
            Act::GiveBack(thing, n) => {
                let gone = self.take(thing, n);
                self.dropped(gone, Some(thread));
                return Ok(vec![Ok(vec![0])]);
            }
            Act::Callback { stream, ref drops, waits, .. } => {
                return self.callback(thread, stream, drops, waits);
            }
            _ => return self.work(thread, act),
        }
        Ok(done())
    }

    fn retain(&mut self) {
        let alive = self.stacks.contexts.iter_mut().find(|life| life.primary && life.alive);
        match alive {
            Some(life) => life.owners += 1,
            None => {
                let life = Life { alive: true, died: 0, primary: true, owners: 1, lingers: false };
                self.stacks.contexts.push(life);
            }
        }
    }

    fn callback(
        &mut self,
        thread: usize,
        stream: usize,
        drops: &[(Thing, usize)],
        waits: bool,
    ) -> Result<Vec<Answer>, CudaError> {
        let Some(context) = self.stream(stream) else { return Ok(done()) };
        let gone: Vec<_> = drops.iter().map(|(thing, n)| self.take(*thing, *n)).collect();
        if let Err(error) = self.stacks.usable(context) {
            // The callback was not added, and everything is dropped here.
            gone.into_iter().for_each(|gone| self.dropped(gone, Some(thread)));
            return Err(error);
        }
        for gone in &gone {
            if let Gone::Buffer(context) = gone {
                self.stacks.contexts[*context].lingers = true;
            }
        }
        if !waits {
            self.in_flight.extend(gone);
            return Ok(done());
        }
        gone.into_iter().for_each(|gone| self.dropped(gone, None));
        let mut expected = vec![Ok(vec![1])];
        if !self.stacks.contexts[context].alive {
            expected.push(DESTROYED);
        }
        Ok(expected)
    }

    fn work(&mut self, thread: usize, act: &Act) -> Result<Vec<Answer>, CudaError> {
        match *act {
            Act::MakeBuffer(kind, len, seed) => {
                let context = self.current(thread)?;
                self.buffers.push(Some(Memory { context, kind, values: values(kind, len, seed) }));
            }
            Act::MakeStream => {
                let context = self.current(thread)?;
                self.streams.push(Some(context));
            }
            Act::MakeEvent => {
                let context = self.current(thread)?;
                self.events.push(Some(context));
            }
            Act::Write(n, seed) => {
                if let Some(at) = pick(n, self.buffers.len()).filter(|at| self.buffers[*at].is_some()) {
                    self.write(at, seed)?;
                }
            }
            Act::Read(n) => {
                if let Some(memory) = self.buffer(n) {
                    return self.read(memory).map(|values| vec![Ok(values)]);
                }
            }
            Act::ReadAll => {
                let each = |memory: &Memory| match self.read(memory) {
                    Ok(values) => [vec![0], values].concat(),
                    Err(_) => vec![1],
                };
                return Ok(vec![Ok(self.buffers.iter().flatten().flat_map(each).collect())]);
            }
            Act::Copy(to, from) => {
                let count = self.buffers.len();
                let (Some(to), Some(from)) = (pick(to, count), pick(from, count)) else { return Ok(done()) };
                let device = |at: usize| self.buffers[at].as_ref().filter(|it| it.kind == Kind::Device);
                if let (true, Some(target), Some(source)) = (to != from, device(to), device(from)) {
                    self.stacks.usable(source.context)?;
                    self.stacks.usable(target.context)?;
                    let values = source.values.clone();
                    let target = &mut self.buffers[to].as_mut().unwrap().values;
                    let count = values.len().min(target.len());
                    target[..count].copy_from_slice(&values[..count]);
                }
            }
            Act::StaleSlice(n, seed) => {
                let Some(memory) = self.buffer(n).filter(|memory| memory.kind == Kind::Device) else {
                    return Ok(done());
                };
                let (context, old) = (memory.context, memory.values.clone());
                let gone = self.take_owner(Some(context));
                self.dropped(gone, Some(thread));
                self.write(pick(n, self.buffers.len()).unwrap(), seed)?;
                return Ok(vec![Ok(old)]);
            }
            Act::SynchronizeStream(n) => {
                if let Some(context) = self.stream(n) {
                    self.stacks.usable(context)?;
                }
            }
            Act::SynchronizeElsewhere(n) => self.waiting.extend(self.stream(n)),
            Act::Record(event, stream) => {
                if let (Some(event), Some(stream)) = (self.event(event), self.stream(stream)) {
                    if event != stream {
                        return Err(CudaError::InvalidHandle);
                    }
                    self.stacks.usable(event)?;
                }
            }
            Act::SynchronizeEvent(n) => {
                if let Some(context) = self.event(n) {
                    self.stacks.usable(context)?;
                }
            }
            Act::Drain | Act::Scoped(..) => {}
            ref other => unreachable!("{other:?}"),
        }
        Ok(done())
    }

    /// Page-locked and managed memory is host memory, readable whatever happens to its context.
    fn reachable(&self, memory: &Memory) -> Result<(), CudaError> {
        match memory.kind {
            Kind::Unified | Kind::Locked => Ok(()),
            _ => self.stacks.usable(memory.context),
        }
    }

    fn read(&self, memory: &Memory) -> Result<Vec<u32>, CudaError> {
        self.reachable(memory).map(|()| memory.values.clone())
    }

    fn write(&mut self, at: usize, seed: u32) -> Result<(), CudaError> {
        let memory = self.buffers[at].as_ref().unwrap();
        self.reachable(memory)?;
        let new = values(memory.kind, memory.values.len(), seed);
        self.buffers[at].as_mut().unwrap().values = new;
        Ok(())
    }
}
