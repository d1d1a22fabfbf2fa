//! Integers of every width. Results wrap around, as on the device, and nothing panics.

/// What PTX computes with integers. The names differ from those of Rust's methods, which panic on overflow.
pub(crate) trait Int: Copy + Ord {
    /// The type of the result of `mul.wide`.
    type Wide: Copy;
    const BITS: u32;

    fn add(a: Self, b: Self) -> Self;
    fn sub(a: Self, b: Self) -> Self;
    fn add_sat(a: Self, b: Self) -> Self;
    fn sub_sat(a: Self, b: Self) -> Self;
    fn mul_lo(a: Self, b: Self) -> Self;
    fn mul_hi(a: Self, b: Self) -> Self;
    fn mul_wide(a: Self, b: Self) -> Self::Wide;
    fn mad_wide(a: Self, b: Self, c: Self::Wide) -> Self::Wide;
    /// All bits are set if the divisor is zero.
    fn quotient(a: Self, b: Self) -> Self;
    /// The result is the dividend if the divisor is zero.
    fn remainder(a: Self, b: Self) -> Self;
    /// `abs`. The least number has no positive counterpart, and stays as it is.
    fn magnitude(a: Self) -> Self;
    fn negated(a: Self) -> Self;
    /// `sad`: the sum of `c` and the distance between `a` and `b`.
    fn sad(a: Self, b: Self, c: Self) -> Self;
    /// `cnot`: 1 for zero, and 0 for all other numbers.
    fn cnot(a: Self) -> Self;
    fn popc(a: Self) -> u32;
    fn clz(a: Self) -> u32;
    fn brev(a: Self) -> Self;
    /// The position of the highest bit that differs from the sign bit; all bits are set if there is none.
    fn bfind(a: Self) -> u32;
    /// The result is zero if `by` is at least the width.
    fn shl(a: Self, by: u32) -> Self;
    /// The result has only copies of the sign bit if `by` is at least the width.
    fn shr(a: Self, by: u32) -> Self;
    /// `bfe`: the field of `len` bits from bit `pos` on.
    fn bfe(a: Self, pos: u32, len: u32) -> Self;
    /// A sum and its carry.
    fn addc(a: Self, b: Self, carry: bool) -> (Self, bool);
    /// A difference and its borrow.
    fn subc(a: Self, b: Self, borrow: bool) -> (Self, bool);
    fn zero() -> Self;

    #[inline]
    fn lesser(a: Self, b: Self) -> Self {
        if a < b { a } else { b }
    }

    #[inline]
    fn greater(a: Self, b: Self) -> Self {
        if a > b { a } else { b }
    }

    /// `.relu`.
    #[inline]
    fn relu(a: Self) -> Self {
        Self::greater(a, Self::zero())
    }

    #[inline]
    fn mad_lo(a: Self, b: Self, c: Self) -> Self {
        Self::add(Self::mul_lo(a, b), c)
    }

    #[inline]
    fn mad_hi(a: Self, b: Self, c: Self) -> Self {
        Self::add(Self::mul_hi(a, b), c)
    }

    #[inline]
    fn mad_hi_sat(a: Self, b: Self, c: Self) -> Self {
        Self::add_sat(Self::mul_hi(a, b), c)
    }

    /// `bfind.shiftamt`: the distance of the bit that was found from the highest bit.
    #[inline]
    fn bfind_shift(a: Self) -> u32 {
        let at = Self::bfind(a);
        if at == u32::MAX { at } else { Self::BITS - 1 - at }
    }

    /// `mad.lo.cc` or, with the carry, `madc.lo.cc`.
    #[inline]
    fn madc_lo(a: Self, b: Self, c: Self, carry: bool) -> (Self, bool) {
        Self::addc(Self::mul_lo(a, b), c, carry)
    }

    /// `mad.hi.cc` or, with the carry, `madc.hi.cc`.
    #[inline]
    fn madc_hi(a: Self, b: Self, c: Self, carry: bool) -> (Self, bool) {
        Self::addc(Self::mul_hi(a, b), c, carry)
    }
}

macro_rules! int {
    ($int:ty, $plain:ty, $wide:ty, $magnitude:expr) => {
        impl Int for $int {
            type Wide = $wide;
            const BITS: u32 = <$int>::BITS;

            #[inline]
            fn add(a: $int, b: $int) -> $int {
                a.wrapping_add(b)
            }
            #[inline]
            fn sub(a: $int, b: $int) -> $int {
                a.wrapping_sub(b)
            }
            #[inline]
            fn add_sat(a: $int, b: $int) -> $int {
                a.saturating_add(b)
            }
            #[inline]
            fn sub_sat(a: $int, b: $int) -> $int {
                a.saturating_sub(b)
            }
            #[inline]
            fn mul_lo(a: $int, b: $int) -> $int {
                a.wrapping_mul(b)
            }
            #[inline]
            fn mul_hi(a: $int, b: $int) -> $int {
                (Self::mul_wide(a, b) >> <$int>::BITS) as $int
            }
            #[inline]
            fn mul_wide(a: $int, b: $int) -> $wide {
                <$wide>::from(a).wrapping_mul(<$wide>::from(b))
            }
            #[inline]
            fn mad_wide(a: $int, b: $int, c: $wide) -> $wide {
                Self::mul_wide(a, b).wrapping_add(c)
            }
            #[inline]
            fn quotient(a: $int, b: $int) -> $int {
                if b == 0 { !0 } else { a.wrapping_div(b) }
            }
            #[inline]
            fn remainder(a: $int, b: $int) -> $int {
                if b == 0 { !0 } else { a.wrapping_rem(b) }
            }
            #[inline]
            fn magnitude(a: $int) -> $int {
                $magnitude(a)
            }
            #[inline]
            fn negated(a: $int) -> $int {
                a.wrapping_neg()
            }
            #[inline]
            fn sad(a: $int, b: $int, c: $int) -> $int {
                c.wrapping_add(a.abs_diff(b) as $int)
            }
            #[inline]
            fn cnot(a: $int) -> $int {
                <$int>::from(a == 0)
            }
            #[inline]
            fn popc(a: $int) -> u32 {
                a.count_ones()
            }
            #[inline]
            fn clz(a: $int) -> u32 {
                a.leading_zeros()
            }
            #[inline]
            fn brev(a: $int) -> $int {
                a.reverse_bits()
            }
            #[inline]
            #[allow(unused_comparisons, reason = "an unsigned number is never negative")]
            fn bfind(a: $int) -> u32 {
                let a = if a < 0 { !a } else { a };
                (<$int>::BITS - 1).wrapping_sub(a.leading_zeros())
            }
            #[inline]
            fn shl(a: $int, by: u32) -> $int {
                if by < <$int>::BITS { a << by } else { 0 }
            }
            #[inline]
            fn shr(a: $int, by: u32) -> $int {
                // In two steps: a single shift by the whole width would overflow.
                let by = by.min(<$int>::BITS);
                a >> (by / 2) >> (by - by / 2)
            }
            #[inline]
            fn bfe(a: $int, pos: u32, len: u32) -> $int {
                // An H200 uses the low 8 bits of these with words, and all bits with 64-bit integers.
                let counted = if <$int>::BITS == 64 { u32::MAX } else { 0xff };
                let (pos, len) = (pos & counted, len & counted);
                if len == 0 {
                    return 0;
                }
                // Shifts the field to the top, or as far as it reaches there.
                let up = <$int>::BITS.saturating_sub(pos.saturating_add(len));
                let pos = pos.min(<$int>::BITS);
                Self::shr(a << up, pos + up)
            }
            #[inline]
            fn addc(a: $int, b: $int, carry: bool) -> ($int, bool) {
                let (sum, first) = (a as $plain).overflowing_add(b as $plain);
                let (sum, second) = sum.overflowing_add(carry.into());
                (sum as $int, first | second)
            }
            #[inline]
            fn subc(a: $int, b: $int, borrow: bool) -> ($int, bool) {
                let (difference, first) = (a as $plain).overflowing_sub(b as $plain);
                let (difference, second) = difference.overflowing_sub(borrow.into());
                (difference as $int, first | second)
            }
            #[inline]
            fn zero() -> $int {
                0
            }
        }
    };
}

int!(u16, u16, u32, |a| a);
int!(i16, u16, i32, i16::wrapping_abs);
int!(u32, u32, u64, |a| a);
int!(i32, u32, i64, i32::wrapping_abs);
int!(u64, u64, u128, |a| a);
int!(i64, u64, i128, i64::wrapping_abs);

/// `mul24`: the product of the low 24 bits of the operands, from bit 0 or from bit 16 on.
#[inline]
pub(crate) fn mul24_u32(hi: bool, a: u32, b: u32) -> u32 {
    let product = u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff);
    (product >> if hi { 16 } else { 0 }) as u32
}

/// `mul24` of signed numbers.
#[inline]
pub(crate) fn mul24_s32(hi: bool, a: i32, b: i32) -> i32 {
    let product = i64::from(a << 8 >> 8) * i64::from(b << 8 >> 8);
    (product >> if hi { 16 } else { 0 }) as i32
}
