//! Local memory. Each lane has its own; the words of all lanes at one address lie side by side.

use super::registers::{WARP, blend};

const WORD: usize = 4;

/// The stacks of the lanes begin at this address, behind all other local memory.
pub(super) const STACK: usize = 512 << 10;

/// How many bytes of each lane's stack are in use.
pub(super) type Tops = [u32; WARP];

/// The local memory of a warp.
#[derive(Default)]
pub(super) struct Local {
    rows: Vec<[u32; WARP]>,
    size: usize,
    /// What the lanes took from their stacks, if any did.
    stack: Option<Box<Stack>>,
}

#[derive(Default)]
struct Stack {
    rows: Vec<[u32; WARP]>,
    tops: Tops,
}

impl Local {
    /// Enlarges it to at least this many bytes for each lane, and keeps its contents.
    pub(super) fn grow(&mut self, size: usize) {
        self.size = self.size.max(size);
        let rows = size.div_ceil(WORD);
        if rows > self.rows.len() {
            self.rows.resize(rows, [0; WARP]);
        }
    }

    /// The size for each lane, in bytes.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn has_stack(&self) -> bool {
        self.stack.is_some()
    }

    pub(super) fn tops(&self) -> Tops {
        self.stack.as_ref().map_or([0; WARP], |stack| stack.tops)
    }

    /// The lanes have this much of their stacks in use.
    pub(super) fn set_tops(&mut self, tops: &Tops) {
        let stack = self.stack.get_or_insert_default();
        stack.tops = *tops;
        let most = tops.iter().copied().max().unwrap_or(0) as usize;
        let rows = most.div_ceil(WORD).max(stack.rows.len());
        stack.rows.resize(rows, [0; WARP]);
    }

    /// These lanes free what they took since they had so much, or all.
    pub(super) fn restore_tops(&mut self, tops: Option<&Tops>, mask: u32) {
        if let Some(stack) = &mut self.stack {
            blend(&mut stack.tops, tops.unwrap_or(&[0; WARP]), mask);
        }
    }

    /// Whether a lane has these bytes.
    pub(super) fn contains(&self, at: u64, size: usize) -> bool {
        let Some(end) = at.checked_add(size as u64) else { return false };
        let of_stack = || self.stack.as_ref().map_or(0, |stack| stack.rows.len() * WORD);
        end <= self.size as u64 || at >= STACK as u64 && end <= (STACK + of_stack()) as u64
    }

    /// The words at an address of all lanes.
    fn row(&self, at: usize) -> &[u32; WARP] {
        match &self.stack {
            Some(stack) if at >= STACK => &stack.rows[(at - STACK) / WORD],
            _ => &self.rows[at / WORD],
        }
    }

    fn row_mut(&mut self, at: usize) -> &mut [u32; WARP] {
        match &mut self.stack {
            Some(stack) if at >= STACK => &mut stack.rows[(at - STACK) / WORD],
            _ => &mut self.rows[at / WORD],
        }
    }

    /// Reads `size` bytes of one lane, where `size` is 1, 2, 4, 8 or 16 and `at` a multiple of it. The caller has
    /// checked that the bytes exist.
    pub(super) fn load(&self, lane: usize, at: usize, size: usize) -> u128 {
        let word = |at: usize| u128::from(self.row(at)[lane]);
        match size {
            1 => word(at) >> (8 * (at % WORD)) & 0xff,
            2 => word(at) >> (8 * (at % WORD)) & 0xffff,
            4 => word(at),
            _ => (0..size / WORD).fold(0, |all, part| all | word(at + WORD * part) << (32 * part)),
        }
    }

    pub(super) fn store(&mut self, lane: usize, at: usize, size: usize, value: u128) {
        if size < WORD {
            let (shift, bits) = (8 * (at % WORD), if size == 1 { 0xff } else { 0xffff });
            let word = &mut self.row_mut(at)[lane];
            *word = *word & !(bits << shift) | (value as u32 & bits) << shift;
            return;
        }
        for part in 0..size / WORD {
            self.row_mut(at + WORD * part)[lane] = (value >> (32 * part)) as u32;
        }
    }

    /// Copies bytes within the local memory of these lanes; the addresses need not be multiples of a word.
    pub(super) fn copy(&mut self, from: usize, to: usize, size: usize, mask: u32) {
        if (from | to | size) % WORD == 0 {
            for at in (0..size).step_by(WORD) {
                let row = self.rows[(from + at) / WORD];
                blend(&mut self.rows[(to + at) / WORD], &row, mask);
            }
            return;
        }
        for lane in (0..WARP).filter(|lane| mask >> lane & 1 != 0) {
            for at in 0..size {
                let byte = self.load(lane, from + at, 1);
                self.store(lane, to + at, 1, byte);
            }
        }
    }
}
