//! `mma.m8n8k4` of halves: four products of 8 by 4 and 4 by 8 halves, each of the registers of eight lanes.

use super::mma::{Accumulator, Element, Term, ZERO, dot};
use super::round::Format;

/// The side of a product, and how many terms a sum has beside the third one.
const SIDE: usize = 8;
const DEPTH: usize = 4;

/// The layouts and the types of a product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Quads {
    pub(crate) a_by_rows: bool,
    pub(crate) b_by_rows: bool,
    pub(crate) c: Accumulator,
    pub(crate) d: Accumulator,
}

/// The lane of a product that is this one of its eight.
fn lane_of(quad: usize, member: usize) -> usize {
    4 * quad + member % 4 + member / 4 * 16
}

/// The row and the column of an element of A whose rows are lanes, or the reverse; of B turned.
fn of_factor(member: usize, at: usize, rows_are_lanes: bool) -> (usize, usize) {
    if rows_are_lanes { (member % SIDE, at) } else { (at + member / 4 * 4, member % 4) }
}

/// The row and the column of an element of C.
fn of_sum(member: usize, at: usize, sums: Accumulator) -> (usize, usize) {
    match sums {
        Accumulator::F16 => (member % SIDE, at),
        _ => ((member & 1) + (at & 2) + member / 4 * 4, (at & 4) + (member & 2) + (at & 1)),
    }
}

impl Quads {
    /// How many registers C or D has.
    pub(crate) fn registers(sums: Accumulator) -> usize {
        SIDE / sums.per_register()
    }

    /// Adds the products to C. A register is 32 lanes; those that are missing are zero.
    pub(crate) fn run(self, a: &[[u32; 32]], b: &[[u32; 32]], c: &[[u32; 32]], d: &mut [[u32; 32]]) {
        let part = |registers: &[[u32; 32]], lane: usize, at: usize, per: usize| {
            let word = registers.get(at / per).map_or(0, |words| words[lane % 32]);
            if per == 2 { word >> (16 * (at % 2)) & 0xffff } else { word }
        };
        for quad in 0..4 {
            let (mut rows, mut columns) = ([[ZERO; DEPTH]; SIDE], [[ZERO; DEPTH]; SIDE]);
            for member in 0..SIDE {
                let lane = lane_of(quad, member);
                for at in 0..DEPTH {
                    let (row, depth) = of_factor(member, at, self.a_by_rows);
                    rows[row % SIDE][depth % DEPTH] = Element::F16.term(part(a, lane, at, 2), 0);
                    let (column, depth) = of_factor(member, at, !self.b_by_rows);
                    columns[column % SIDE][depth % DEPTH] = Element::F16.term(part(b, lane, at, 2), 0);
                }
            }
            let mut sums = [[0u32; SIDE]; SIDE];
            for (member, at) in (0..SIDE).flat_map(|member| (0..SIDE).map(move |at| (member, at))) {
                let (row, column) = of_sum(member, at, self.c);
                let third = part(c, lane_of(quad, member), at, self.c.per_register());
                sums[row % SIDE][column % SIDE] = self.sum(&rows[row % SIDE], &columns[column % SIDE], third);
            }
            for (member, at) in (0..SIDE).flat_map(|member| (0..SIDE).map(move |at| (member, at))) {
                let (row, column) = of_sum(member, at, self.d);
                let (per, bits) = (self.d.per_register(), sums[row % SIDE][column % SIDE]);
                let Some(words) = d.get_mut(at / per) else { continue };
                let word = &mut words[lane_of(quad, member) % 32];
                *word = match (per, at % 2) {
                    (2, 1) => *word & 0xffff | bits << 16,
                    _ => bits,
                };
            }
        }
    }

    fn sum(self, row: &[Term; DEPTH], column: &[Term; DEPTH], third: u32) -> u32 {
        let format = if self.d == Accumulator::F16 { Format::F16 } else { Format::F32 };
        dot(row, column, self.c.term(third), format)
    }
}
