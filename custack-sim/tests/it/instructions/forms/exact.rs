//! Floats of any format, computed as exact numbers of up to 128 bits: slow, and with nothing of the interpreter in it.

/// How a number is rounded to a format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::instructions) enum Mode {
    Nearest,
    Zero,
    Down,
    Up,
    /// To the nearest, halves away from zero.
    Away,
}

pub(in crate::instructions) const MODES: [(&str, Mode); 4] =
    [("rn", Mode::Nearest), ("rz", Mode::Zero), ("rm", Mode::Down), ("rp", Mode::Up)];

/// Bits of exponent and fraction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::instructions) struct Format(pub(in crate::instructions) u32, pub(in crate::instructions) u32);

pub(in crate::instructions) const F16: Format = Format(5, 10);
pub(in crate::instructions) const BF16: Format = Format(8, 7);
pub(in crate::instructions) const F32: Format = Format(8, 23);
pub(in crate::instructions) const F64: Format = Format(11, 52);

/// A number: its last bit stands for all those behind it that are not zero.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::instructions) enum Number {
    Nan,
    Infinite(bool),
    /// Negative, and this multiple of this power of two.
    Finite(bool, u128, i32),
}

use Number::{Finite, Infinite, Nan};

impl Format {
    pub(in crate::instructions) fn sign(self) -> u64 {
        1 << (self.0 + self.1)
    }

    pub(in crate::instructions) fn infinity(self) -> u64 {
        ((1 << self.0) - 1) << self.1
    }

    pub(in crate::instructions) fn is_nan(self, bits: u64) -> bool {
        bits & (self.sign() - 1) > self.infinity()
    }

    /// Zero for a subnormal number.
    pub(in crate::instructions) fn flush(self, bits: u64) -> u64 {
        if bits & self.infinity() == 0 { bits & self.sign() } else { bits }
    }

    pub(in crate::instructions) fn one(self) -> u64 {
        ((1 << (self.0 - 1)) - 1) << self.1
    }

    /// The NaN of operations on these operands.
    pub(in crate::instructions) fn nan(self, operands: &[u64]) -> u64 {
        if self == F64 {
            let first = operands.iter().find(|bits| self.is_nan(**bits));
            return first.map_or(0xfff8_0000_0000_0000, |bits| bits | 0x0008_0000_0000_0000);
        }
        self.sign() - 1
    }

    pub(in crate::instructions) fn decode(self, bits: u64) -> Number {
        let (negative, magnitude) = (bits & self.sign() != 0, bits & (self.sign() - 1));
        let (exponent, fraction) = ((magnitude >> self.1) as i32, magnitude & ((1 << self.1) - 1));
        let least = 2 - (1 << (self.0 - 1)) - self.1 as i32;
        match exponent {
            _ if magnitude > self.infinity() => Nan,
            _ if magnitude == self.infinity() => Infinite(negative),
            0 => Finite(negative, fraction.into(), least),
            _ => Finite(negative, (fraction | 1 << self.1).into(), least + exponent - 1),
        }
    }

    /// The bits of a number that is no NaN.
    pub(in crate::instructions) fn round(self, number: Number, mode: Mode) -> u64 {
        let (negative, mantissa, exponent) = match number {
            Nan => panic!("NaN has no bits"),
            Infinite(negative) => return self.infinity() | if negative { self.sign() } else { 0 },
            Finite(negative, mantissa, exponent) => (negative, mantissa, exponent),
        };
        let sign = if negative { self.sign() } else { 0 };
        if mantissa == 0 {
            return sign;
        }
        let least = 2 - (1 << (self.0 - 1)) - self.1 as i32;
        let top = exponent + 127 - mantissa.leading_zeros() as i32;
        let unit = (top - self.1 as i32).max(least);
        // Everything in units of an eighth, the last of which stands for the rest.
        let eighths = shift(mantissa, exponent - unit + 3);
        let (whole, rest) = ((eighths >> 3) as u64, eighths & 7);
        let more = match mode {
            Mode::Nearest => rest > 4 || rest == 4 && whole & 1 == 1,
            Mode::Away => rest >= 4,
            Mode::Zero => false,
            Mode::Down => negative && rest != 0,
            Mode::Up => !negative && rest != 0,
        };
        let bits = (((unit - least) as u64) << self.1) + whole + u64::from(more);
        let outwards = match mode {
            Mode::Nearest | Mode::Away => true,
            Mode::Zero => false,
            Mode::Down => negative,
            Mode::Up => !negative,
        };
        sign | if bits < self.infinity() { bits } else { self.infinity() - u64::from(!outwards) }
    }
}

/// Shifted left, or right with what is shifted out in the last bit.
fn shift(mantissa: u128, by: i32) -> u128 {
    match by {
        0.. => mantissa << by,
        -127.. => mantissa >> -by | u128::from(mantissa & ((1 << -by) - 1) != 0),
        _ => u128::from(mantissa != 0),
    }
}

/// The same number with its highest bit at this place.
fn with_top(mantissa: u128, exponent: i32, top: i32) -> (u128, i32) {
    let by = top - (127 - mantissa.leading_zeros() as i32);
    (shift(mantissa, by), exponent - by)
}

pub(in crate::instructions) fn negated(a: Number) -> Number {
    match a {
        Nan => Nan,
        Infinite(negative) => Infinite(!negative),
        Finite(negative, mantissa, exponent) => Finite(!negative, mantissa, exponent),
    }
}

/// A sum of numbers of at most 106 bits. The mode says the sign of a zero.
pub(in crate::instructions) fn sum(a: Number, b: Number, mode: Mode) -> Number {
    let ((na, ma, ea), (nb, mb, eb)) = match (a, b) {
        (Nan, _) | (_, Nan) => return Nan,
        (Infinite(a), Infinite(b)) => return if a == b { Infinite(a) } else { Nan },
        (Infinite(negative), _) | (_, Infinite(negative)) => return Infinite(negative),
        (Finite(na, ma, ea), Finite(nb, mb, eb)) => ((na, ma, ea), (nb, mb, eb)),
    };
    let zero = Finite(mode == Mode::Down, 0, 0);
    match (ma, mb) {
        (0, 0) => return if na == nb { a } else { zero },
        (0, _) => return b,
        (_, 0) => return a,
        _ => {}
    }
    let ((ma, ea), (mb, eb)) = (with_top(ma, ea, 124), with_top(mb, eb, 124));
    let exponent = ea.max(eb);
    let (ma, mb) = (shift(ma, ea - exponent), shift(mb, eb - exponent));
    match ma.cmp(&mb) {
        _ if na == nb => Finite(na, ma + mb, exponent),
        std::cmp::Ordering::Equal => zero,
        std::cmp::Ordering::Greater => Finite(na, ma - mb, exponent),
        std::cmp::Ordering::Less => Finite(nb, mb - ma, exponent),
    }
}

/// A product, exactly.
pub(in crate::instructions) fn product(a: Number, b: Number) -> Number {
    match (a, b) {
        (Nan, _) | (_, Nan) => Nan,
        (Infinite(_), Finite(_, 0, _)) | (Finite(_, 0, _), Infinite(_)) => Nan,
        (Infinite(a) | Finite(a, ..), Infinite(b)) | (Infinite(a), Finite(b, ..)) => Infinite(a != b),
        (Finite(na, ma, ea), Finite(nb, mb, eb)) => Finite(na != nb, ma * mb, ea + eb),
    }
}

/// A quotient of numbers of at most 53 bits.
pub(in crate::instructions) fn quotient(a: Number, b: Number) -> Number {
    match (a, b) {
        (Nan, _) | (_, Nan) | (Infinite(_), Infinite(_)) | (Finite(_, 0, _), Finite(_, 0, _)) => Nan,
        (Infinite(a), Finite(b, ..)) | (Finite(a, ..), Finite(b, 0, _)) => Infinite(a != b),
        (Finite(a, ..), Infinite(b)) => Finite(a != b, 0, 0),
        (Finite(na, 0, _), Finite(nb, ..)) => Finite(na != nb, 0, 0),
        (Finite(na, ma, ea), Finite(nb, mb, eb)) => {
            let (ma, ea) = with_top(ma, ea, 127);
            Finite(na != nb, (ma / mb) | u128::from(ma % mb != 0), ea - eb)
        }
    }
}

/// A square root of a number of at most 53 bits.
pub(in crate::instructions) fn root(a: Number) -> Number {
    match a {
        Finite(_, 0, _) | Infinite(false) => a,
        Finite(false, mantissa, exponent) => {
            let (mantissa, exponent) =
                with_top(mantissa, exponent, if exponent & 1 == 0 { 122 } else { 123 });
            let (mantissa, exponent) =
                if exponent & 1 == 0 { (mantissa, exponent) } else { (mantissa << 1, exponent - 1) };
            let mut root = (mantissa as f64).sqrt() as u128;
            // As near as 53 bits are; the rest by Newton.
            for _ in 0..3 {
                root = (root + mantissa / root) / 2;
            }
            while root * root > mantissa {
                root -= 1;
            }
            while (root + 1) * (root + 1) <= mantissa {
                root += 1;
            }
            Finite(false, root | u128::from(root * root != mantissa), exponent / 2)
        }
        _ => Nan,
    }
}

/// A number without a fraction.
pub(in crate::instructions) fn integral(a: Number, mode: Mode) -> Number {
    let Finite(negative, mantissa, exponent) = a else { return a };
    if mantissa == 0 || exponent >= 0 {
        return a;
    }
    let eighths = shift(mantissa, exponent + 3);
    let (whole, rest) = (eighths >> 3, eighths & 7);
    let more = match mode {
        Mode::Nearest => rest > 4 || rest == 4 && whole & 1 == 1,
        Mode::Away => rest >= 4,
        Mode::Zero => false,
        Mode::Down => negative && rest != 0,
        Mode::Up => !negative && rest != 0,
    };
    Finite(negative, whole + u128::from(more), 0)
}

/// An integer.
pub(in crate::instructions) fn of_integer(value: i128) -> Number {
    Finite(value < 0, value.unsigned_abs(), 0)
}

#[test]
fn the_reference_rounds_as_the_hosts_arithmetic_does() {
    let mut state = 7u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state ^ state >> 29
    };
    for _ in 0..100_000 {
        let shift = 64 * u64::from(next() >> 62 == 0);
        let [a, b, c] = [(); 3]
            .map(|()| if shift == 0 { next() } else { next() & 0xbfff_ffff_f000_0000 | 0x3f00_0000 << 32 });
        let [x, y, z] = [a, b, c].map(f64::from_bits);
        if x.is_nan() || y.is_nan() || z.is_nan() {
            continue;
        }
        let [a, b, c] = [a, b, c].map(|bits| F64.decode(bits));
        let near = Mode::Nearest;
        let cases = [
            (x + y, sum(a, b, near)),
            (x * y, product(a, b)),
            (x / y, quotient(a, b)),
            (x.abs().sqrt(), root(if x < 0.0 || a == Infinite(true) { negated(a) } else { a })),
            (x.mul_add(y, z), sum(product(a, b), c, near)),
        ];
        for (at, (host, number)) in cases.into_iter().enumerate() {
            if host.is_nan() {
                assert_eq!(number, Nan, "{at} of {x:e} {y:e} {z:e}");
            } else if host != 0.0 {
                assert_eq!(F64.round(number, near), host.to_bits(), "{at} of {x:e} {y:e} {z:e}");
            }
        }
        let narrow = x as f32;
        assert_eq!(F32.round(a, near), u64::from(narrow.to_bits()), "{x:e}");
        if x.round_ties_even() != 0.0 {
            assert_eq!(F64.round(integral(a, near), near), x.round_ties_even().to_bits(), "{x:e}");
        }
    }
}
