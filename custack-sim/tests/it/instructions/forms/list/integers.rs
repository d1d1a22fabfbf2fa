//! Sums, products and quotients of integers, by numbers of 128 bits.

use super::super::form::List;
use super::super::operands::Kind;

/// An integer type.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Int {
    pub(super) name: &'static str,
    pub(super) bits: u32,
    pub(super) signed: bool,
}

const fn int(name: &'static str, bits: u32, signed: bool) -> Int {
    Int { name, bits, signed }
}

pub(super) const U8: Int = int("u8", 8, false);
pub(super) const S8: Int = int("s8", 8, true);
pub(super) const U16: Int = int("u16", 16, false);
pub(super) const S16: Int = int("s16", 16, true);
pub(super) const U32: Int = int("u32", 32, false);
pub(super) const S32: Int = int("s32", 32, true);
pub(super) const U64: Int = int("u64", 64, false);
pub(super) const S64: Int = int("s64", 64, true);
pub(super) const INTS: [Int; 6] = [U16, S16, U32, S32, U64, S64];

impl Int {
    pub(super) fn kind(self) -> Kind {
        match self.bits {
            8 | 16 => Kind::I16,
            32 => Kind::I32,
            _ => Kind::I64,
        }
    }

    /// Bytes of the register.
    pub(super) fn size(self) -> usize {
        self.kind().size()
    }

    /// What bits stand for.
    pub(super) fn value(self, bits: u64) -> i128 {
        let spare = 64 - self.bits;
        if self.signed { (bits << spare) as i64 as i128 >> spare } else { (bits << spare >> spare).into() }
    }

    pub(super) fn least(self) -> i128 {
        if self.signed { -(1 << (self.bits - 1)) } else { 0 }
    }

    pub(super) fn greatest(self) -> i128 {
        if self.signed { (1 << (self.bits - 1)) - 1 } else { (1 << self.bits) - 1 }
    }

    /// The low bits of a number.
    pub(super) fn cut(self, value: i128) -> u64 {
        value as u64 & (u64::MAX >> (64 - self.bits))
    }

    pub(super) fn clamp(self, value: i128) -> u64 {
        self.cut(value.clamp(self.least(), self.greatest()))
    }

    /// Of twice the width.
    fn wide(self) -> Int {
        match (self.bits, self.signed) {
            (16, false) => U32,
            (16, true) => S32,
            (_, false) => U64,
            _ => S64,
        }
    }
}

pub(super) fn list(list: &mut List) {
    for ty in INTS {
        let (name, kind, size) = (ty.name, ty.kind(), ty.size());
        let mut two = |op: &str, f: fn(i128, i128) -> i128| {
            list.plain(format!("{op}.{name}"), &[kind; 2], size, move |of| {
                ty.cut(f(ty.value(of[0]), ty.value(of[1])))
            });
        };
        two("add", |a, b| a + b);
        two("sub", |a, b| a - b);
        two("mul.lo", i128::wrapping_mul);
        two("min", std::cmp::min);
        two("max", std::cmp::max);
        // What a division by zero gives is the machine's affair.
        two("div", |a, b| if b == 0 { -1 } else { a / b });
        two("rem", |a, b| if b == 0 { -1 } else { a % b });
        let high = move |of: &[u64]| ty.value(of[0]).wrapping_mul(ty.value(of[1]));
        // A product of two numbers of 64 bits without a sign does not fit a number with one.
        let high = move |of: &[u64]| {
            if ty == U64 {
                ((u128::from(of[0]) * u128::from(of[1])) >> 64) as i128
            } else {
                high(of) >> ty.bits
            }
        };
        list.plain(format!("mul.hi.{name}"), &[kind; 2], size, move |of| ty.cut(high(of)));
        list.plain(format!("mad.hi.{name}"), &[kind; 3], size, move |of| ty.cut(high(of) + ty.value(of[2])));
        list.plain(format!("mad.lo.{name}"), &[kind; 3], size, move |of| {
            ty.cut(ty.value(of[0]).wrapping_mul(ty.value(of[1])).wrapping_add(ty.value(of[2])))
        });
        list.plain(format!("sad.{name}"), &[kind; 3], size, move |of| {
            ty.cut((ty.value(of[0]) - ty.value(of[1])).abs() + ty.value(of[2]))
        });
        if ty.signed {
            list.plain(format!("abs.{name}"), &[kind], size, move |of| ty.cut(ty.value(of[0]).abs()));
            list.plain(format!("neg.{name}"), &[kind], size, move |of| ty.cut(-ty.value(of[0])));
        }
        if ty.bits < 64 {
            let to = ty.wide();
            list.plain(format!("mul.wide.{name}"), &[kind; 2], to.size(), move |of| {
                to.cut(ty.value(of[0]) * ty.value(of[1]))
            });
            list.plain(format!("mad.wide.{name}"), &[kind, kind, to.kind()], to.size(), move |of| {
                to.cut(ty.value(of[0]) * ty.value(of[1]) + to.value(of[2]))
            });
        }
    }
    saturated(list);
    of_24_bits(list);
}

fn saturated(list: &mut List) {
    let mut two = |op: &str, f: fn(i128, i128) -> i128| {
        list.plain(format!("{op}.s32"), &[Kind::I32; 2], 4, move |of| {
            S32.clamp(f(S32.value(of[0]), S32.value(of[1])))
        });
    };
    two("add.sat", |a, b| a + b);
    two("sub.sat", |a, b| a - b);
    two("min.relu", |a, b| a.min(b).max(0));
    two("max.relu", |a, b| a.max(b).max(0));
    list.plain("mad.hi.sat.s32", &[Kind::I32; 3], 4, |of| {
        S32.clamp(((S32.value(of[0]) * S32.value(of[1])) >> 32) + S32.value(of[2]))
    });
}

/// Products of the low 24 bits: the low 32 bits of 48, or those above 16.
fn of_24_bits(list: &mut List) {
    let u24 = int("", 24, false);
    let s24 = int("", 24, true);
    for (ty, part) in [(U32, u24), (S32, s24)] {
        for (half, by) in [("lo", 0), ("hi", 16)] {
            let product = move |of: &[u64]| (part.value(of[0]) * part.value(of[1])) >> by;
            let name = ty.name;
            list.plain(format!("mul24.{half}.{name}"), &[Kind::I32; 2], 4, move |of| ty.cut(product(of)));
            list.plain(format!("mad24.{half}.{name}"), &[Kind::I32; 3], 4, move |of| {
                ty.cut(product(of) + ty.value(of[2]))
            });
        }
    }
    list.plain("mad24.hi.sat.s32", &[Kind::I32; 3], 4, move |of| {
        let product = (s24.value(of[0]) * s24.value(of[1])) >> 16;
        S32.clamp(S32.value(S32.cut(product)) + S32.value(of[2]))
    });
}
