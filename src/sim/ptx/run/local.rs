//! Local memory. Each lane has its own; the words of all lanes at one address lie side by side.

use super::registers::{WARP, blend};

const WORD: usize = 4;

/// The local memory of a warp.
#[derive(Default)]
pub(super) struct Local {
    rows: Vec<[u32; WARP]>,
    size: usize,
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

    /// Reads `size` bytes of one lane, where `size` is 1, 2, 4, 8 or 16 and `at` a multiple of it. The caller has
    /// checked that the bytes exist.
    pub(super) fn load(&self, lane: usize, at: usize, size: usize) -> u128 {
        let word = |at: usize| u128::from(self.rows[at / WORD][lane]);
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
            let word = &mut self.rows[at / WORD][lane];
            *word = *word & !(bits << shift) | (value as u32 & bits) << shift;
            return;
        }
        for part in 0..size / WORD {
            self.rows[at / WORD + part][lane] = (value >> (32 * part)) as u32;
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
