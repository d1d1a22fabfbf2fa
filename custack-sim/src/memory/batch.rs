//! Streams that write a value of memory, or wait for one.

use super::allocation::Kind;
use super::lock;
use crate::graph::Operation;
use crate::machine::*;
use std::sync::Arc;
use std::time::Duration;

/// Kinds of these operations.
const WAIT_32: u32 = 1;
const WRITE_32: u32 = 2;
const FLUSH: u32 = 3;
const WAIT_64: u32 = 4;
const WRITE_64: u32 = 5;
const BARRIER: u32 = 6;
/// What a wait may be for.
const AT_LEAST: u32 = 0;
const EQUAL: u32 = 1;
const ANY_BIT: u32 = 2;
const NO_BIT: u32 = 3;
/// After a wait, writes of other devices are flushed.
const THEN_FLUSH: u32 = 1 << 30;
/// A batch is shorter.
const TOO_MANY: usize = 256;
/// The interval in which a stream polls that waits for a value in memory.
const PAUSE: Duration = Duration::from_micros(50);

/// One operation, as the program describes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) kind: u32,
    pub(crate) address: u64,
    pub(crate) value: u64,
    pub(crate) flags: u32,
}

/// Operations that a stream does one after the other.
#[derive(Clone)]
pub(crate) struct Batch {
    pub(crate) context: Handle,
    steps: Arc<Vec<Step>>,
}

impl Batch {
    /// Whether the operations are of the same kinds, one by one.
    pub(crate) fn has_the_kinds_of(&self, other: &Batch) -> bool {
        self.steps.iter().map(|step| step.kind).eq(other.steps.iter().map(|step| step.kind))
    }
}

impl Step {
    pub(crate) fn wait(wide: bool, address: u64, value: u64, flags: u32) -> Step {
        Step { kind: if wide { WAIT_64 } else { WAIT_32 }, address, value, flags }
    }

    pub(crate) fn write(wide: bool, address: u64, value: u64, flags: u32) -> Step {
        Step { kind: if wide { WRITE_64 } else { WRITE_32 }, address, value, flags }
    }

    fn is_wide(&self) -> bool {
        matches!(self.kind, WAIT_64 | WRITE_64)
    }

    fn is_wait(&self) -> bool {
        matches!(self.kind, WAIT_32 | WAIT_64)
    }

    fn size(&self) -> usize {
        if self.is_wide() { 8 } else { 4 }
    }

    /// Whether a wait for the value ends when this is there.
    fn is_met(&self, now: u64) -> bool {
        let value = if self.is_wide() { self.value } else { self.value & u64::from(u32::MAX) };
        match self.flags & !THEN_FLUSH {
            AT_LEAST if self.is_wide() => now.wrapping_sub(value) as i64 >= 0,
            AT_LEAST => (now as u32).wrapping_sub(value as u32) as i32 >= 0,
            EQUAL => now == value,
            ANY_BIT => now & value != 0,
            _ if self.is_wide() => !(now | value) != 0,
            _ => !((now | value) as u32) != 0,
        }
    }

    fn load(&self) -> Result<u64, String> {
        let (storage, at) = lock().storage_of(self.address, self.size())?;
        Ok(if self.is_wide() { storage.load::<u64>(at) } else { storage.load::<u32>(at).into() })
    }

    fn store(&self) -> Result<(), (u32, String)> {
        let (storage, at) = lock().storage_of(self.address, self.size()).map_err(|why| (700, why))?;
        match self.is_wide() {
            true => storage.store::<u64>(at, self.value)?,
            false => storage.store::<u32>(at, self.value as u32)?,
        }
        Ok(())
    }
}

impl Batch {
    /// Does all of it. A wait ends also when the context is in error, which other work may have put it in.
    pub(crate) fn run(&self) -> Result<(), (u32, String)> {
        let lost = |why| (700, why);
        for step in self.steps.iter() {
            if step.is_wait() {
                while !step.is_met(step.load().map_err(lost)?) {
                    if crate::machine::lock().error_of(self.context) != 0 {
                        return Ok(());
                    }
                    std::thread::sleep(PAUSE);
                }
            } else if matches!(step.kind, WRITE_32 | WRITE_64) {
                step.store()?;
            }
        }
        Ok(())
    }
}

impl Machine {
    fn check_step(&mut self, step: &Step) -> Answer<()> {
        let flush = step.kind == FLUSH || step.is_wait() && step.flags & THEN_FLUSH != 0;
        if flush {
            return self
                .refuse(NOT_SUPPORTED, "the device flushes no writes of others in the order of a stream");
        }
        let known = match step.kind {
            WAIT_32 | WAIT_64 => step.flags <= NO_BIT,
            // The flag by which a write would not wait for those before it is not taken.
            WRITE_32 | WRITE_64 => step.flags == 0,
            BARRIER => step.flags <= 1,
            _ => false,
        };
        if !known {
            let Step { kind, flags, .. } = step;
            return self
                .refuse(INVALID_VALUE, format_args!("operation {kind} of a stream, with flags {flags:#x}"));
        }
        let (address, size) = (step.address, step.size());
        if step.kind != BARRIER && address % size as u64 != 0 {
            return self.refuse(INVALID_VALUE, format_args!("{address:#x} is no multiple of {size}"));
        }
        Ok(())
    }

    /// Refuses operations at addresses where no memory is, or memory that no stream waits for.
    pub(crate) fn check_addresses(&mut self, batch: &Batch) -> Answer<()> {
        let mut with_address = batch.steps.iter().filter(|step| step.kind != BARRIER);
        with_address.try_for_each(|step| {
            self.check_span(step.address, Some(step.size()))?;
            if lock().pointed(step.address).is_some_and(|it| it.kind == Kind::Pool || it.is_managed()) {
                let why = format!("{:#x} is managed or of a pool, and not for values", step.address);
                return self.refuse(INVALID_VALUE, why);
            }
            Ok(())
        })
    }

    /// In the order of a stream, or as a node of the graph that it is captured into.
    pub(crate) fn batch(&mut self, stream: usize, steps: Vec<Step>, flags: u32) -> Answer<()> {
        let found = self.stream_of(stream)?;
        let is_captured = self.capturing(stream)?;
        let batch = self.checked_batch(found.context, steps, flags)?;
        // Of a node they are looked at when its graph is launched.
        if !is_captured {
            self.check_addresses(&batch)?;
        }
        self.record_or_enqueue(stream, &found, Operation::Batch(batch))
    }

    /// The operations, of which only the addresses are not looked at: of a node these are when its graph is launched.
    pub(crate) fn checked_batch(&mut self, context: Handle, steps: Vec<Step>, flags: u32) -> Answer<Batch> {
        if flags != 0 || steps.len() >= TOO_MANY {
            let why = format!("{} operations of a stream, with flags {flags:#x}", steps.len());
            return self.refuse(INVALID_VALUE, why);
        }
        steps.iter().try_for_each(|step| self.check_step(step))?;
        Ok(Batch { context, steps: Arc::new(steps) })
    }
}
