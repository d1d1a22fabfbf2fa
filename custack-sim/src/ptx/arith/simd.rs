//! The video instructions: arithmetic on parts of words, with a second operation on the result.

use super::compare::{Compare, compare};

/// The operation of a video instruction on two parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Video {
    Add,
    Sub,
    AbsDiff,
    Min,
    Max,
    /// The average, rounded away from zero; only for lanes.
    Average,
    /// A shift by an amount with `.wrap` (true) or `.clamp`; only for scalars.
    Shl(bool),
    Shr(bool),
    /// One if the comparison is true, or else zero.
    Set(Compare),
}

/// A part of a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    Word,
    /// `.h0` or `.h1`.
    Half(u32),
    /// `.b0` to `.b3`.
    Byte(u32),
}

impl Part {
    #[inline]
    const fn bits(self) -> u32 {
        match self {
            Part::Word => 32,
            Part::Half(_) => 16,
            Part::Byte(_) => 8,
        }
    }

    #[inline]
    const fn shift(self) -> u32 {
        match self {
            Part::Word => 0,
            Part::Half(at) => (at & 1) * 16,
            Part::Byte(at) => (at & 3) * 8,
        }
    }

    #[inline]
    fn of(self, word: u32, signed: bool) -> i64 {
        extend((word >> self.shift()).into(), self.bits(), signed)
    }

    /// The word `into`, in which this part is replaced.
    #[inline]
    fn merge(self, value: u32, into: u32) -> u32 {
        let mask = u32::MAX >> (32 - self.bits()) << self.shift();
        value << self.shift() & mask | into & !mask
    }
}

/// The second operation, on the result and the third operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Second {
    Nothing,
    Add,
    Min,
    Max,
    /// The result replaces this part of the third operand.
    Merge(Part),
}

/// A scalar video instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Scalar {
    pub(crate) op: Video,
    pub(crate) a: Part,
    pub(crate) b: Part,
    pub(crate) a_signed: bool,
    pub(crate) b_signed: bool,
    /// The signedness of the result and of the third operand.
    pub(crate) d_signed: bool,
    pub(crate) sat: bool,
    pub(crate) second: Second,
}

/// The low `bits` bits of a number, sign-extended or zero-extended.
#[inline]
fn extend(value: i64, bits: u32, signed: bool) -> i64 {
    let spare = 64 - bits;
    if signed { value << spare >> spare } else { ((value << spare) as u64 >> spare) as i64 }
}

/// Clamps to the range of integers of `bits` bits.
#[inline]
fn clamp(value: i64, bits: u32, signed: bool) -> i64 {
    let (low, high) = if signed { (-1 << (bits - 1), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) };
    value.clamp(low, high)
}

#[inline]
fn compute(op: Video, a: i64, b: i64) -> i64 {
    let amount = |wrap: bool| if wrap { b & 31 } else { b.clamp(0, 32) };
    match op {
        Video::Add => a + b,
        Video::Sub => a - b,
        Video::AbsDiff => (a - b).abs(),
        Video::Min => a.min(b),
        Video::Max => a.max(b),
        Video::Average => {
            let sum = a + b;
            (sum + i64::from(sum >= 0)) >> 1
        }
        // Only a number from 2^31 on, shifted by 32, overflows; its low word is zero.
        Video::Shl(wrap) => a.checked_mul(1 << amount(wrap)).unwrap_or(0x7fff_ffff_0000_0000),
        Video::Shr(wrap) => a >> amount(wrap),
        Video::Set(op) => compare(op, a, b).into(),
    }
}

/// `vadd`, `vsub`, `vabsdiff`, `vmin`, `vmax`, `vshl`, `vshr` and `vset`.
#[inline]
pub(crate) fn scalar(how: Scalar, a: u32, b: u32, c: u32) -> u32 {
    let value = compute(how.op, how.a.of(a, how.a_signed), how.b.of(b, how.b_signed));
    let bits = if let Second::Merge(part) = how.second { part.bits() } else { 32 };
    let value = if how.sat { clamp(value, bits, how.d_signed) } else { value };
    let other = extend(c.into(), 32, how.d_signed);
    let word = extend(value, 32, how.d_signed);
    match how.second {
        Second::Nothing => value as u32,
        Second::Add => (value as u32).wrapping_add(c),
        Second::Min => word.min(other) as u32,
        Second::Max => word.max(other) as u32,
        Second::Merge(part) => part.merge(value as u32, c),
    }
}

/// `vmad`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mad {
    pub(crate) a: Part,
    pub(crate) b: Part,
    pub(crate) a_signed: bool,
    pub(crate) b_signed: bool,
    /// Whether exactly one of the factors is negated.
    pub(crate) negate_product: bool,
    pub(crate) negate_c: bool,
    /// `.po`: adds one to the result.
    pub(crate) plus_one: bool,
    pub(crate) sat: bool,
    /// The shift of the result, by 0, 7 or 15 bits.
    pub(crate) scale: u32,
}

/// `vmad`.
#[inline]
pub(crate) fn mad(how: Mad, a: u32, b: u32, c: u32) -> u32 {
    let signed = how.a_signed || how.b_signed || how.negate_product || how.negate_c;
    let product = i128::from(how.a.of(a, how.a_signed)) * i128::from(how.b.of(b, how.b_signed));
    let c = if !how.plus_one && !how.negate_product && how.negate_c {
        // The complement is that of the register's 32 bits, and one is added after the extension.
        i128::from(extend(i64::from(!c), 32, signed)) + 1
    } else {
        extend(c.into(), 32, signed).into()
    };
    let product = if how.negate_product && !how.plus_one { -product } else { product };
    let sum = product + c + i128::from(how.plus_one);
    let result = sum >> how.scale.min(31);
    let (low, high) = if signed { (i32::MIN.into(), i32::MAX.into()) } else { (0, u32::MAX.into()) };
    (if how.sat { result.clamp(low, high) } else { result }) as u32
}

/// A video instruction on two halves or four bytes at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lanes {
    pub(crate) op: Video,
    /// 2 or 4.
    pub(crate) count: u32,
    /// For each lane, the lowest first: the index of its operand among the lanes of `a`, followed by those of `b`.
    pub(crate) a: [u8; 4],
    pub(crate) b: [u8; 4],
    pub(crate) a_signed: bool,
    pub(crate) b_signed: bool,
    pub(crate) d_signed: bool,
    pub(crate) sat: bool,
    /// `.add`: the results are summed and added to `c`. Otherwise lanes that are not in the mask are taken from `c`.
    pub(crate) add: bool,
    /// A bit for each lane.
    pub(crate) mask: u8,
}

/// `vadd2`, `vset4` and the like.
#[inline]
pub(crate) fn lanes(how: Lanes, a: u32, b: u32, c: u32) -> u32 {
    let (count, bits) = if how.count == 2 { (2, 16) } else { (4, 8) };
    let words = u64::from(b) << 32 | u64::from(a);
    let lane =
        |which: u8, signed| extend((words >> (u32::from(which) % (2 * count) * bits)) as i64, bits, signed);
    let mut result = c;
    for (at, (&a, &b)) in (0..count).zip(how.a.iter().zip(&how.b)) {
        let value = compute(how.op, lane(a, how.a_signed), lane(b, how.b_signed));
        let value = if how.sat { clamp(value, bits, how.d_signed) } else { value } as u32;
        if how.mask >> at & 1 == 0 {
            continue;
        }
        if how.add {
            result = result.wrapping_add(value);
        } else {
            let mask = u32::MAX >> (32 - bits) << (at * bits);
            result = value << (at * bits) & mask | result & !mask;
        }
    }
    result
}
