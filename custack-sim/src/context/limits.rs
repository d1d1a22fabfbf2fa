//! Limits, with the rounding and clamping of an H200.

use crate::machine::*;

pub(super) struct Limits {
    stack_size: usize,
    printf_fifo_size: usize,
    malloc_heap_size: usize,
    pending_launch_count: usize,
    l2_fetch_granularity: usize,
    persisting_l2_size: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            stack_size: 1024,
            printf_fifo_size: 8_650_752,
            malloc_heap_size: 8_388_608,
            pending_launch_count: 2048,
            l2_fetch_granularity: 64,
            persisting_l2_size: 11_796_480,
        }
    }
}

const MOST_STACK: usize = 523_712;
const SHARED_MEMORY: usize = 232_448;
const MOST_L2_FETCH: usize = 128;
const MOST_PERSISTING_L2: usize = 39_321_600;
/// The part of the L2 cache that is set aside comes in tenths of its maximum.
const L2_STEP: usize = MOST_PERSISTING_L2 / 10;

/// Rounds up to the next multiple; like the driver, wraps the largest values to 0.
fn round_up(value: usize, step: usize) -> usize {
    value.wrapping_add(step - 1) / step * step
}

impl Limits {
    fn get(&self, limit: u32) -> Answer<usize> {
        Ok(match limit {
            0 => self.stack_size,
            1 => self.printf_fifo_size,
            2 => self.malloc_heap_size,
            4 => self.pending_launch_count,
            5 => self.l2_fetch_granularity,
            6 => self.persisting_l2_size,
            7 => SHARED_MEMORY,
            8 => 0,
            3 | 9 => return Err(UNSUPPORTED_LIMIT),
            _ => return Err(INVALID_VALUE),
        })
    }

    fn set(&mut self, limit: u32, value: usize) -> Answer<()> {
        match limit {
            0 => return self.set_stack_size(value),
            1 => self.printf_fifo_size = round_up(value.max(524_288), 256).min(2_147_483_648),
            2 => self.malloc_heap_size = round_up(value.max(4_194_304), 65_536).min(17_681_179_680),
            4 => self.pending_launch_count = value.clamp(32, 599_186),
            5 if value <= MOST_L2_FETCH => self.l2_fetch_granularity = value,
            6 if value <= MOST_PERSISTING_L2 => self.persisting_l2_size = round_up(value, L2_STEP),
            7 | 8 => return Err(NOT_PERMITTED),
            3 | 9 => return Err(UNSUPPORTED_LIMIT),
            _ => return Err(INVALID_VALUE),
        }
        Ok(())
    }

    /// Rounds up to 16, unless that is the current size already: then the value is stored as given.
    fn set_stack_size(&mut self, value: usize) -> Answer<()> {
        if value > MOST_STACK {
            return Err(INVALID_VALUE);
        }
        let rounded = round_up(value, 16);
        self.stack_size = if rounded == round_up(self.stack_size, 16) { value } else { rounded };
        Ok(())
    }
}

impl Machine {
    pub(crate) fn limit(&mut self, has_out: bool, limit: u32) -> Answer<usize> {
        self.current()?;
        if !has_out {
            return self.refuse(INVALID_VALUE, "the pointer for the limit is NULL");
        }
        match self.current()?.limits.get(limit) {
            Err(status) => self.refuse(status, format_args!("limit {limit} cannot be read")),
            value => value,
        }
    }

    /// The size of the heap from which kernels of a context allocate.
    pub(crate) fn heap_size(&mut self, context: Handle) -> Option<usize> {
        self.get(context).map(|context| context.limits.malloc_heap_size)
    }

    /// Bytes of the stack that each thread of a context's kernels has.
    pub(crate) fn stack_size(&mut self, context: Handle) -> usize {
        self.get(context).map_or(0, |context| context.limits.stack_size)
    }

    pub(crate) fn set_limit(&mut self, limit: u32, value: usize) -> Answer<()> {
        match self.current()?.limits.set(limit, value) {
            Err(status) => self.refuse(status, format_args!("limit {limit} cannot be set to {value}")),
            done => done,
        }
    }
}
