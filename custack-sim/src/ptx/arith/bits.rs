//! Instructions on the bits and bytes of a word.

/// `bfi.b32`: `b`, with the low `len` bits of `a` inserted at bit `pos`.
#[inline]
pub(crate) fn bfi32(a: u32, b: u32, pos: u32, len: u32) -> u32 {
    let (pos, len) = (pos & 0xff, len & 0xff);
    let ones = if len < 32 { (1 << len) - 1 } else { !0u32 };
    let (mask, a) = if pos < 32 { (ones << pos, a << pos) } else { (0, 0) };
    b & !mask | a & mask
}

/// `bfi.b64`. Here an H200 uses all bits of the position and the length; with words it uses the low 8 bits.
#[inline]
pub(crate) fn bfi64(a: u64, b: u64, pos: u32, len: u32) -> u64 {
    let ones = if len < 64 { (1 << len) - 1 } else { !0u64 };
    let (mask, a) = if pos < 64 { (ones << pos, a << pos) } else { (0, 0) };
    b & !mask | a & mask
}

/// `fns`: the position of the `offset`-th set bit, counted from bit `base`, downwards if `offset` is negative.
#[inline]
pub(crate) fn fns(mask: u32, base: u32, offset: i32) -> u32 {
    if base > 31 {
        return u32::MAX;
    }
    if offset == 0 {
        return if mask >> base & 1 == 1 { base } else { u32::MAX };
    }
    let mut left = if offset > 0 { mask & (u32::MAX << base) } else { mask & (u32::MAX >> (31 - base)) };
    for _ in 1..offset.unsigned_abs().min(33) {
        left = if offset > 0 { left & left.wrapping_sub(1) } else { left & !highest(left) };
    }
    if left == 0 {
        u32::MAX
    } else if offset > 0 {
        left.trailing_zeros()
    } else {
        31 - left.leading_zeros()
    }
}

/// The highest set bit alone.
#[inline]
fn highest(bits: u32) -> u32 {
    0x8000_0000u32.checked_shr(bits.leading_zeros()).unwrap_or(0)
}

/// The modes of `prmt`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Permute {
    /// The selector has four bits for each byte of the result.
    Plain,
    F4e,
    B4e,
    Rc8,
    Ecl,
    Ecr,
    Rc16,
}

/// `prmt`: four of the eight bytes of `b:a`, chosen by the selector.
#[inline]
pub(crate) fn prmt(mode: Permute, a: u32, b: u32, selector: u32) -> u32 {
    let bytes = u64::from(b) << 32 | u64::from(a);
    let low = selector & 3;
    let mut result = 0;
    for at in 0..4 {
        let nibble = selector >> (4 * at) & 0xf;
        let (from, spread) = match mode {
            Permute::Plain => (nibble & 7, nibble & 8 != 0),
            Permute::F4e => (low + at, false),
            Permute::B4e => (low.wrapping_sub(at) & 7, false),
            Permute::Rc8 => (low, false),
            Permute::Ecl => (low.max(at), false),
            Permute::Ecr => (low.min(at), false),
            Permute::Rc16 => ((low & 1) * 2 + (at & 1), false),
        };
        let byte = (bytes >> (8 * from)) as u8;
        let byte = if spread { (byte as i8 >> 7) as u8 } else { byte };
        result |= u32::from(byte) << (8 * at);
    }
    result
}

/// The amount of a funnel shift.
#[inline]
fn amount(wrap: bool, by: u32) -> u32 {
    if wrap { by & 31 } else { by.min(32) }
}

/// `shf.l`: `b:a` is shifted left, and the upper word is the result.
#[inline]
pub(crate) fn shf_l(wrap: bool, a: u32, b: u32, by: u32) -> u32 {
    ((u64::from(b) << 32 | u64::from(a)) << amount(wrap, by) >> 32) as u32
}

/// `shf.r`: `b:a` is shifted right, and the lower word is the result.
#[inline]
pub(crate) fn shf_r(wrap: bool, a: u32, b: u32, by: u32) -> u32 {
    ((u64::from(b) << 32 | u64::from(a)) >> amount(wrap, by)) as u32
}

/// `lop3`: for each bit, the three bits of the operands are an index in the table, with that of `a` as the highest.
#[inline]
pub(crate) fn lop3(a: u32, b: u32, c: u32, table: u8) -> u32 {
    let mut result = 0;
    for at in 0..8u32 {
        let chosen = 0u32.wrapping_sub(u32::from(table >> at & 1));
        let a = if at & 4 != 0 { a } else { !a };
        let b = if at & 2 != 0 { b } else { !b };
        let c = if at & 1 != 0 { c } else { !c };
        result |= a & b & c & chosen;
    }
    result
}

/// The value of a bit field of a word.
#[inline]
fn part(word: u32, at: u32, bits: u32, signed: bool) -> i32 {
    let up = word << (32 - bits - at * bits);
    if signed { up as i32 >> (32 - bits) } else { (up >> (32 - bits)) as i32 }
}

/// `dp4a`: the sum of four products of bytes and `c`.
#[inline]
pub(crate) fn dp4a(a_signed: bool, b_signed: bool, a: u32, b: u32, c: u32) -> u32 {
    (0..4).fold(c, |sum, at| sum.wrapping_add((part(a, at, 8, a_signed) * part(b, at, 8, b_signed)) as u32))
}

/// `dp2a`: the sum of two products and `c`; the factors are the halves of `a` and the bytes of the lower or upper half
/// of `b`.
#[inline]
pub(crate) fn dp2a(hi: bool, a_signed: bool, b_signed: bool, a: u32, b: u32, c: u32) -> u32 {
    let b = if hi { b >> 16 } else { b };
    (0..2).fold(c, |sum, at| sum.wrapping_add((part(a, at, 16, a_signed) * part(b, at, 8, b_signed)) as u32))
}

/// `szext`: the low `b` bits of `a`, extended to a word.
#[inline]
pub(crate) fn szext(wrap: bool, signed: bool, a: u32, b: u32) -> u32 {
    if b > 31 && !wrap {
        return a;
    }
    match b & 31 {
        0 => 0,
        bits => part(a, 0, bits, signed) as u32,
    }
}

/// `bmsk`: a mask of `b` ones from bit `a` on.
#[inline]
pub(crate) fn bmsk(wrap: bool, a: u32, b: u32) -> u32 {
    if wrap {
        return ((1u32 << (b & 31)) - 1) << (a & 31);
    }
    let ones = if b < 32 { (1 << b) - 1 } else { !0 };
    if a < 32 { ones << a } else { 0 }
}
