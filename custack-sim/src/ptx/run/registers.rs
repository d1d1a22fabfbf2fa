//! The registers of a warp: each register is a column with one value for each lane.

use super::super::types::Class;

/// The number of lanes of a warp.
pub(in super::super) const WARP: usize = 32;
pub(in super::super) const ALL: u32 = u32::MAX;

/// A register of a kernel: its class, and its number among those of the class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in super::super) struct Reg {
    pub(in super::super) class: Class,
    pub(in super::super) at: u32,
}

/// How many registers of each class there are.
#[derive(Debug, Clone, Copy, Default)]
pub(in super::super) struct Counts {
    predicates: u32,
    words: u32,
    doubles: u32,
    quads: u32,
}

impl Counts {
    /// Adds registers of the class, and returns the first of them.
    pub(in super::super) fn add(&mut self, class: Class, count: u32) -> Reg {
        let counted = match class {
            Class::Pred => &mut self.predicates,
            Class::B16 | Class::B32 => &mut self.words,
            Class::B64 => &mut self.doubles,
            Class::B128 => &mut self.quads,
        };
        let at = *counted;
        *counted = at.saturating_add(count);
        Reg { class, at }
    }

    pub(in super::super) fn all(&self) -> u64 {
        [self.predicates, self.words, self.doubles, self.quads].into_iter().map(u64::from).sum()
    }
}

/// The values of all registers of a warp.
pub(in super::super) struct Registers {
    /// Predicates, with a bit for each lane.
    pub(super) predicates: Vec<u32>,
    /// The registers of 16 and of 32 bits.
    words: Vec<[u32; WARP]>,
    doubles: Vec<[u64; WARP]>,
    quads: Vec<[u128; WARP]>,
}

impl Registers {
    pub(super) fn new(counts: &Counts) -> Registers {
        Registers {
            predicates: vec![0; counts.predicates as usize],
            words: vec![[0; WARP]; counts.words as usize],
            doubles: vec![[0; WARP]; counts.doubles as usize],
            quads: vec![[0; WARP]; counts.quads as usize],
        }
    }

    /// The lanes in which a predicate is true.
    #[inline]
    pub(in super::super) fn predicate(&self, at: u32) -> u32 {
        self.predicates[at as usize]
    }

    #[inline]
    pub(in super::super) fn set_predicate(&mut self, at: u32, lanes: u32, mask: u32) {
        let old = &mut self.predicates[at as usize];
        *old = (*old & !mask) | (lanes & mask);
    }

    #[inline]
    pub(in super::super) fn get<T: Lane>(&self, from: Reg) -> [T; WARP] {
        T::get(self, from.at)
    }

    /// Sets the register in these lanes.
    #[inline]
    pub(in super::super) fn set<T: Lane>(&mut self, to: Reg, values: &[T; WARP], mask: u32) {
        T::set(self, to.at, values, mask);
    }

    /// The bits of a register of any class, in every lane.
    pub(in super::super) fn bits(&self, from: Reg) -> [u128; WARP] {
        match from.class {
            Class::Pred => self.get::<bool>(from).map(u128::from),
            Class::B16 => self.get::<u16>(from).map(u128::from),
            Class::B32 => self.get::<u32>(from).map(u128::from),
            Class::B64 => self.get::<u64>(from).map(u128::from),
            Class::B128 => self.get::<u128>(from),
        }
    }

    /// Sets a register of any class; bits that it does not have are cut off.
    pub(in super::super) fn set_bits(&mut self, to: Reg, values: &[u128; WARP], mask: u32) {
        match to.class {
            Class::Pred => self.set(to, &values.map(|value| value & 1 != 0), mask),
            Class::B16 => self.set(to, &values.map(|value| value as u16), mask),
            Class::B32 => self.set(to, &values.map(|value| value as u32), mask),
            Class::B64 => self.set(to, &values.map(|value| value as u64), mask),
            Class::B128 => self.set(to, values, mask),
        }
    }
}

/// What a register holds for one lane.
pub(in super::super) trait Lane: Copy + Default + Send + Sync + 'static {
    fn get(registers: &Registers, at: u32) -> [Self; WARP];
    fn set(registers: &mut Registers, at: u32, values: &[Self; WARP], mask: u32);
    /// The value in one lane.
    fn one(registers: &Registers, at: u32, lane: usize) -> Self;
    fn put(self, registers: &mut Registers, at: u32, lane: usize);
}

/// A value for each lane. Unlike `array::map`, the compiler turns it into one vectorised loop over all lanes.
#[inline(always)]
pub(in super::super) fn each<T: Copy + Default>(f: impl Fn(usize) -> T) -> [T; WARP] {
    let mut values = [T::default(); WARP];
    for (lane, value) in values.iter_mut().enumerate() {
        *value = f(lane);
    }
    values
}

/// Replaces the values of these lanes.
#[inline]
pub(super) fn blend<T: Copy>(old: &mut [T; WARP], new: &[T; WARP], mask: u32) {
    if mask == ALL {
        *old = *new;
        return;
    }
    if are_few(mask) {
        return super::lanes::lanes_of(mask).for_each(|lane| old[lane] = new[lane]);
    }
    for lane in 0..WARP {
        old[lane] = if mask & BITS[lane] != 0 { new[lane] } else { old[lane] };
    }
}

/// Up to this number of lanes are computed one after the other.
const FEW: u32 = 4;

/// Whether so few lanes are active that a loop over all 32 is slower.
#[inline]
pub(in super::super) fn are_few(mask: u32) -> bool {
    mask.count_ones() <= FEW
}

/// The bit of each lane, as a table: comparisons with it are vectorised, where shifts would not be.
const BITS: [u32; WARP] = {
    let mut bits = [0; WARP];
    let mut lane = 0;
    while lane < WARP {
        bits[lane] = 1 << lane;
        lane += 1;
    }
    bits
};

macro_rules! lanes {
    ($($ty:ty: $column:ident, |$bits:ident| $get:expr, |$value:ident| $set:expr;)*) => {
        $(impl Lane for $ty {
            #[inline]
            fn get(registers: &Registers, at: u32) -> [$ty; WARP] {
                let column = &registers.$column[at as usize];
                each(|lane| {
                    let $bits = column[lane];
                    $get
                })
            }

            #[inline]
            fn set(registers: &mut Registers, at: u32, values: &[$ty; WARP], mask: u32) {
                let bits = each(|lane| {
                    let $value = values[lane];
                    $set
                });
                blend(&mut registers.$column[at as usize], &bits, mask);
            }

            #[inline]
            fn one(registers: &Registers, at: u32, lane: usize) -> $ty {
                let $bits = registers.$column[at as usize][lane];
                $get
            }

            #[inline]
            fn put(self, registers: &mut Registers, at: u32, lane: usize) {
                let $value = self;
                registers.$column[at as usize][lane] = $set;
            }
        })*
    };
}

lanes! {
    u16: words, |bits| bits as u16, |value| value.into();
    i16: words, |bits| bits as i16, |value| (value as u16).into();
    u32: words, |bits| bits, |value| value;
    i32: words, |bits| bits as i32, |value| value as u32;
    f32: words, |bits| f32::from_bits(bits), |value| value.to_bits();
    u64: doubles, |bits| bits, |value| value;
    i64: doubles, |bits| bits as i64, |value| value as u64;
    f64: doubles, |bits| f64::from_bits(bits), |value| value.to_bits();
    u128: quads, |bits| bits, |value| value;
}

/// One bit for each value.
#[inline]
pub(in super::super) fn pack(values: &[bool; WARP]) -> u32 {
    let mut packed = 0;
    for (at, eight) in values.chunks_exact(8).enumerate() {
        let bytes = eight.iter().enumerate().fold(0, |all, (lane, set)| all | u64::from(*set) << (8 * lane));
        // The product moves the lowest bit of each byte into the highest byte, in their order.
        packed |= ((bytes.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32) << (8 * at);
    }
    packed
}

impl Lane for bool {
    #[inline]
    fn get(registers: &Registers, at: u32) -> [bool; WARP] {
        let lanes = registers.predicate(at);
        each(|lane| lanes & BITS[lane] != 0)
    }

    #[inline]
    fn set(registers: &mut Registers, at: u32, values: &[bool; WARP], mask: u32) {
        registers.set_predicate(at, pack(values), mask);
    }

    #[inline]
    fn one(registers: &Registers, at: u32, lane: usize) -> bool {
        registers.predicate(at) & BITS[lane] != 0
    }

    #[inline]
    fn put(self, registers: &mut Registers, at: u32, lane: usize) {
        registers.set_predicate(at, if self { u32::MAX } else { 0 }, BITS[lane]);
    }
}

/// A range of registers of each class: the first registers, and the first ones after the range.
#[derive(Debug, Clone, Copy, Default)]
pub(in super::super) struct Range(pub(in super::super) Counts, pub(in super::super) Counts);

/// The values of a function's registers that were saved.
#[derive(Clone)]
pub(super) struct Saved {
    predicates: Vec<u32>,
    words: Vec<[u32; WARP]>,
    doubles: Vec<[u64; WARP]>,
    quads: Vec<[u128; WARP]>,
}

impl Saved {
    pub(super) fn bytes(&self) -> usize {
        self.predicates.len() * 4
            + WARP * (self.words.len() * 4 + self.doubles.len() * 8 + self.quads.len() * 16)
    }

    /// Takes over the values of these lanes.
    pub(super) fn join(&mut self, other: &Saved, mask: u32) {
        for (own, its) in self.predicates.iter_mut().zip(&other.predicates) {
            *own = (*own & !mask) | (its & mask);
        }
        self.words.iter_mut().zip(&other.words).for_each(|(own, its)| blend(own, its, mask));
        self.doubles.iter_mut().zip(&other.doubles).for_each(|(own, its)| blend(own, its, mask));
        self.quads.iter_mut().zip(&other.quads).for_each(|(own, its)| blend(own, its, mask));
    }
}

impl Registers {
    pub(super) fn save(&self, Range(from, to): &Range) -> Saved {
        let range = |from: u32, to: u32| from as usize..to as usize;
        Saved {
            predicates: self.predicates[range(from.predicates, to.predicates)].to_vec(),
            words: self.words[range(from.words, to.words)].to_vec(),
            doubles: self.doubles[range(from.doubles, to.doubles)].to_vec(),
            quads: self.quads[range(from.quads, to.quads)].to_vec(),
        }
    }

    /// Restores the saved values of these lanes.
    pub(super) fn restore(&mut self, Range(from, _): &Range, saved: &Saved, mask: u32) {
        for (own, its) in self.predicates[from.predicates as usize..].iter_mut().zip(&saved.predicates) {
            *own = (*own & !mask) | (its & mask);
        }
        let words = self.words[from.words as usize..].iter_mut();
        words.zip(&saved.words).for_each(|(own, its)| blend(own, its, mask));
        let doubles = self.doubles[from.doubles as usize..].iter_mut();
        doubles.zip(&saved.doubles).for_each(|(own, its)| blend(own, its, mask));
        let quads = self.quads[from.quads as usize..].iter_mut();
        quads.zip(&saved.quads).for_each(|(own, its)| blend(own, its, mask));
    }
}
