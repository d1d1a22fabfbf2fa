//! Products of matrices whose elements are distributed over the registers of a warp.
//!
//! Products of floats are exact, and are added as tensor cores do it: aligned to the one with the greatest exponent,
//! truncated two bits below the precision of `f32`, and rounded towards zero at the end.

use super::float::Float;
use super::half::{Bf16, F16, Short};
use super::matrix::{Matrix, Shape};
use super::round::{Format, Rounding};
use super::small::Fp8;

/// The type of the elements of A or B.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Element {
    F16,
    Bf16,
    Tf32,
    E4m3,
    E5m2,
    S8,
    U8,
    S4,
    U4,
}

impl Element {
    /// The number of elements in a register.
    #[inline]
    pub(crate) const fn per_register(self) -> usize {
        match self {
            Element::Tf32 => 1,
            Element::F16 | Element::Bf16 => 2,
            Element::E4m3 | Element::E5m2 | Element::S8 | Element::U8 => 4,
            Element::S4 | Element::U4 => 8,
        }
    }

    #[inline]
    const fn is_integer(self) -> bool {
        matches!(self, Element::S8 | Element::U8 | Element::S4 | Element::U4)
    }

    #[inline]
    fn bits(self, word: u32, part: usize) -> u32 {
        let width = 32 / self.per_register() as u32;
        word >> (width * part as u32 % 32) & (u32::MAX >> (32 - width))
    }

    #[inline]
    fn integer(self, word: u32, part: usize) -> i32 {
        let bits = self.bits(word, part);
        match self {
            Element::S8 => (bits as i8).into(),
            Element::S4 => (bits << 28) as i32 >> 28,
            _ => bits as i32,
        }
    }

    #[inline]
    pub(super) fn term(self, word: u32, part: usize) -> Term {
        let bits = self.bits(word, part);
        match self {
            Element::F16 => Term::of(F16::widen(bits as u16), -14),
            Element::Bf16 => Term::of(Bf16::widen(bits as u16), -126),
            Element::E4m3 => Term::of(F16::widen(Fp8::E4m3.to_f16(bits as u8)), -14),
            Element::E5m2 => Term::of(F16::widen(Fp8::E5m2.to_f16(bits as u8)), -14),
            // The last 13 bits are ignored.
            _ => Term::of(f32::from_bits(bits & !0x1fff), -126),
        }
    }
}

/// A float as `mantissa * 2^(exponent - 23)`.
#[derive(Clone, Copy)]
pub(super) struct Term {
    value: f32,
    mantissa: i64,
    exponent: i32,
}

/// An exponent below every sum of two exponents, so that zeros do not determine the alignment.
const NOWHERE: i32 = -10_000;

pub(super) const ZERO: Term = Term { value: 0.0, mantissa: 0, exponent: NOWHERE };

impl Term {
    /// `least` is the smallest exponent of the value's own format.
    #[inline]
    fn of(value: f32, least: i32) -> Term {
        let bits = value.to_bits();
        let (biased, fraction) = ((bits >> 23 & 0xff) as i32, i64::from(bits & 0x7f_ffff));
        let (size, exponent) =
            if biased == 0 { (fraction, -126) } else { (fraction | 1 << 23, biased - 127) };
        if size == 0 {
            return Term { value, ..ZERO };
        }
        let size = size >> (least - exponent).clamp(0, 63);
        Term { value, mantissa: if bits >> 31 == 1 { -size } else { size }, exponent: exponent.max(least) }
    }
}

/// Shifts a magnitude right, or by at most two bits left if `right` is negative.
#[inline]
fn shifted(value: i64, right: i32) -> i64 {
    let size = value.unsigned_abs();
    let size = if right < 0 { size << -right } else { size >> right.min(63) } as i64;
    if value < 0 { -size } else { size }
}

/// The product of a row and a column, added to the third operand, in this format.
pub(super) fn dot(a: &[Term], b: &[Term], c: Term, format: Format) -> u32 {
    let scale = a.iter().zip(b).map(|(a, b)| a.exponent + b.exponent).fold(c.exponent, i32::max);
    let finite = a.iter().chain(b).all(|term| term.value.is_finite()) && c.value.is_finite();
    if !finite {
        // If an operand is infinite or NaN, finite terms do not matter.
        let sum = a
            .iter()
            .zip(b)
            .fold(f64::from(c.value), |sum, (a, b)| sum + f64::from(a.value) * f64::from(b.value));
        return format.encode_f64(Rounding::Nearest, sum) as u32;
    }
    let mut sum = shifted(c.mantissa, scale - c.exponent - 2);
    for (a, b) in a.iter().zip(b) {
        // A product has 46 bits of fraction, and the sum 25.
        sum += shifted(a.mantissa * b.mantissa, 21 + scale - a.exponent - b.exponent);
    }
    let short = format != Format::F32;
    let r = if short { Rounding::Nearest } else { Rounding::Zero };
    let bits = format.magnitude(r, sum < 0, sum.unsigned_abs(), scale - 25);
    (bits.min(format.infinity()) | if sum < 0 { format.sign() } else { 0 }) as u32
}

/// The type of C and of the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Accumulator {
    F16,
    F32,
    S32,
}

impl Accumulator {
    /// The number of elements in a register.
    #[inline]
    pub(crate) const fn per_register(self) -> usize {
        if matches!(self, Accumulator::F16) { 2 } else { 1 }
    }

    #[inline]
    pub(super) fn term(self, bits: u32) -> Term {
        if self == Accumulator::F16 {
            Term::of(F16::widen(bits as u16), -14)
        } else {
            Term::of(f32::from_bits(bits), -126)
        }
    }
}

/// A product of matrices in 32-bit registers; `wmma` differs from `mma` only in its [`Shape`]s.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mma {
    pub(crate) shape: Shape,
    pub(crate) a: Element,
    pub(crate) b: Element,
    pub(crate) c: Accumulator,
    pub(crate) d: Accumulator,
    /// `.satfinite` of integers.
    pub(crate) sat: bool,
}

/// The greatest dimensions of a shape: `m` and `n`, and `k`.
const MOST: usize = 32;
const DEEPEST: usize = 64;

impl Mma {
    /// Computes the product plus C. A register is an array of 32 lanes; missing registers are zero.
    pub(crate) fn run(self, a: &[[u32; 32]], b: &[[u32; 32]], c: &[[u32; 32]], d: &mut [[u32; 32]]) {
        let mut third = [[0u32; MOST]; MOST];
        self.each(Matrix::C, self.c.per_register(), c, |(row, column), word, part| {
            third[row % MOST][column % MOST] =
                if self.c == Accumulator::F16 { word >> (16 * (part & 1)) & 0xffff } else { word };
        });
        if self.a.is_integer() {
            self.integers(a, b, &mut third);
        } else {
            self.floats(a, b, &mut third);
        }
        let per = self.d.per_register();
        for (register, words) in d.iter_mut().enumerate() {
            for (lane, word) in words.iter_mut().enumerate() {
                let at = |part| {
                    let (row, column) = self.shape.position(Matrix::C, per, register, part, lane);
                    third[row % MOST][column % MOST]
                };
                *word = if per == 2 { at(1) << 16 | at(0) } else { at(0) };
            }
        }
    }

    /// Calls `f` for each element of an operand, with its position, its register's word, and its index in the word.
    #[inline]
    fn each(
        self,
        matrix: Matrix,
        per: usize,
        registers: &[[u32; 32]],
        mut with: impl FnMut((usize, usize), u32, usize),
    ) {
        for (register, words) in registers.iter().enumerate() {
            for (lane, &word) in words.iter().enumerate() {
                for part in 0..per {
                    with(self.shape.position(matrix, per, register, part, lane), word, part);
                }
            }
        }
    }

    fn integers(self, a: &[[u32; 32]], b: &[[u32; 32]], c: &mut [[u32; MOST]; MOST]) {
        let (mut rows, mut columns) = ([[0i32; DEEPEST]; MOST], [[0i32; DEEPEST]; MOST]);
        self.each(Matrix::A, self.a.per_register(), a, |(row, at), word, part| {
            rows[row % MOST][at % DEEPEST] = self.a.integer(word, part);
        });
        self.each(Matrix::B, self.b.per_register(), b, |(at, column), word, part| {
            columns[column % MOST][at % DEEPEST] = self.b.integer(word, part);
        });
        for (row, results) in rows.iter().zip(c.iter_mut()).take(self.shape.m) {
            for (column, result) in columns.iter().zip(results).take(self.shape.n) {
                // 64 products of at most 255 * 255 fit the type.
                let product: i32 = row.iter().zip(column).map(|(a, b)| a * b).sum();
                let c = *result as i32;
                *result = if self.sat { c.saturating_add(product) } else { c.wrapping_add(product) } as u32;
            }
        }
    }

    fn floats(self, a: &[[u32; 32]], b: &[[u32; 32]], c: &mut [[u32; MOST]; MOST]) {
        let (mut rows, mut columns) = ([[ZERO; DEEPEST]; MOST], [[ZERO; DEEPEST]; MOST]);
        self.each(Matrix::A, self.a.per_register(), a, |(row, at), word, part| {
            rows[row % MOST][at % DEEPEST] = self.a.term(word, part);
        });
        self.each(Matrix::B, self.b.per_register(), b, |(at, column), word, part| {
            columns[column % MOST][at % DEEPEST] = self.b.term(word, part);
        });
        let format = if self.d == Accumulator::F16 { Format::F16 } else { Format::F32 };
        let depth = self.shape.k.min(DEEPEST);
        for (row, results) in rows.iter().zip(c.iter_mut()).take(self.shape.m) {
            for (column, result) in columns.iter().zip(results).take(self.shape.n) {
                let mut sum = self.c.term(*result);
                let mut bits = 0;
                // The number of products that a tensor core adds in one step.
                for (a, b) in row[..depth].chunks(16).zip(column[..depth].chunks(16)) {
                    bits = dot(a, b, sum, format);
                    sum = self.d.term(bits);
                }
                *result = bits;
            }
        }
    }
}

/// A product of matrices of `f64` in 64-bit registers: fused multiply-adds in the order of `k`, each of which rounds.
pub(crate) fn mma_f64(
    shape: Shape,
    rounding: Rounding,
    a: &[[u64; 32]],
    b: &[[u64; 32]],
    c: &[[u64; 32]],
) -> Vec<[u64; 32]> {
    let (mut rows, mut columns) = ([[0.0f64; 16]; 16], [[0.0f64; 16]; 8]);
    for (register, words) in a.iter().enumerate() {
        for (lane, &bits) in words.iter().enumerate() {
            let (row, at) = shape.position(Matrix::A, 1, register, 0, lane);
            rows[row % 16][at % 16] = f64::from_bits(bits);
        }
    }
    for (register, words) in b.iter().enumerate() {
        for (lane, &bits) in words.iter().enumerate() {
            let (at, column) = shape.position(Matrix::B, 1, register, 0, lane);
            columns[column % 8][at % 16] = f64::from_bits(bits);
        }
    }
    let sum = |register: usize, lane: usize, start: u64| {
        let (row, column) = shape.position(Matrix::C, 1, register, 0, lane);
        let pairs = rows[row % 16].iter().zip(&columns[column % 8]).take(shape.k);
        pairs.fold(f64::from_bits(start), |sum, (a, b)| a.fma(*b, sum, rounding)).to_bits()
    };
    c.iter()
        .enumerate()
        .map(|(register, starts)| std::array::from_fn(|lane| sum(register, lane, starts[lane])))
        .collect()
}

/// A product of matrices of bits, 32 in a register: it counts the pairs that are both one (`.and`) or differ (`.xor`).
pub(crate) fn mma_bits(
    shape: Shape,
    and: bool,
    a: &[[u32; 32]],
    b: &[[u32; 32]],
    c: &[[u32; 32]],
) -> Vec<[u32; 32]> {
    let (mut rows, mut columns) = ([[0u32; 8]; 16], [[0u32; 8]; 8]);
    for (register, words) in a.iter().enumerate() {
        for (lane, &word) in words.iter().enumerate() {
            let (row, at) = shape.position(Matrix::A, 32, register, 0, lane);
            rows[row % 16][at / 32 % 8] = word;
        }
    }
    for (register, words) in b.iter().enumerate() {
        for (lane, &word) in words.iter().enumerate() {
            let (at, column) = shape.position(Matrix::B, 32, register, 0, lane);
            columns[column % 8][at / 32 % 8] = word;
        }
    }
    let count = |register: usize, lane: usize, start: u32| {
        let (row, column) = shape.position(Matrix::C, 1, register, 0, lane);
        let pairs = rows[row % 16].iter().zip(&columns[column % 8]);
        pairs.fold(start, |sum, (a, b)| sum.wrapping_add(if and { a & b } else { a ^ b }.count_ones()))
    };
    c.iter()
        .enumerate()
        .map(|(register, starts)| std::array::from_fn(|lane| count(register, lane, starts[lane])))
        .collect()
}
