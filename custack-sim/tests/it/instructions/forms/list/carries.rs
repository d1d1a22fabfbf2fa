//! Sums, differences and products that set a carry, take one, or both.

use super::super::form::List;
use super::integers::{Int, S32, S64, U32, U64};

/// A sum of what has no sign, and its carry.
fn carried(ty: Int, a: u64, b: u64, carry: bool) -> (u64, u64) {
    let sum = u128::from(a) + u128::from(b) + u128::from(carry);
    (ty.cut(sum as i128), (sum >> ty.bits) as u64)
}

pub(super) fn list(list: &mut List) {
    for ty in [U32, S32, U64, S64] {
        let (name, kind, size) = (ty.name, ty.kind(), ty.size());
        let scratch = if ty.bits == 32 { "%w" } else { "%q" };
        let not = move |bits: u64| ty.cut(!bits as i128);
        let (t, u) = (format!("{scratch}0"), format!("{scratch}1"));
        // The carry of the first, as a number; then what the second makes of it, and its own carry.
        for (op, minus) in [("add", false), ("sub", true)] {
            let first = move |of: &[u64]| carried(ty, of[0], if minus { not(of[1]) } else { of[1] }, minus);
            let second = move |of: &[u64]| {
                carried(ty, of[1], if minus { not(of[0]) } else { of[0] }, first(of).1 != 0)
            };
            list.plain(format!("{op}.cc.{name}"), &[kind; 2], size, move |of| first(of).0);
            list.coded(
                format!("{op}.cc.{name} and the carry"),
                &[kind; 2],
                size,
                format!("{op}.cc.{name} {t}, $a, $b; addc.{name} $d, 0, 0;"),
                move |of| first(of).1,
            );
            list.coded(
                format!("{op}c.{name} after {op}.cc"),
                &[kind; 2],
                size,
                format!("{op}.cc.{name} {t}, $a, $b; {op}c.{name} $d, $b, $a;"),
                move |of| second(of).0,
            );
            list.coded(
                format!("{op}c.cc.{name} after {op}.cc and the carry"),
                &[kind; 2],
                size,
                format!("{op}.cc.{name} {t}, $a, $b; {op}c.cc.{name} {u}, $b, $a; addc.{name} $d, 0, 0;"),
                move |of| second(of).1,
            );
        }
        for (part, high) in [("lo", false), ("hi", true)] {
            let product = move |of: &[u64]| {
                let (a, b) = (ty.value(of[0]), ty.value(of[1]));
                let all =
                    if ty.signed { a.wrapping_mul(b) } else { (a as u128).wrapping_mul(b as u128) as i128 };
                let low = if ty.signed { all >> ty.bits } else { (all as u128 >> ty.bits) as i128 };
                ty.cut(if high { low } else { all })
            };
            let first = move |of: &[u64]| carried(ty, product(of), of[2], false);
            let second = move |of: &[u64]| carried(ty, product(&[of[2], of[1]]), of[0], first(of).1 != 0);
            list.plain(format!("mad.{part}.cc.{name}"), &[kind; 3], size, move |of| first(of).0);
            list.coded(
                format!("mad.{part}.cc.{name} and the carry"),
                &[kind; 3],
                size,
                format!("mad.{part}.cc.{name} {t}, $a, $b, $c; addc.{name} $d, 0, 0;"),
                move |of| first(of).1,
            );
            list.coded(
                format!("madc.{part}.{name} after mad.{part}.cc"),
                &[kind; 3],
                size,
                format!("mad.{part}.cc.{name} {t}, $a, $b, $c; madc.{part}.{name} $d, $c, $b, $a;"),
                move |of| second(of).0,
            );
            list.coded(
                format!("madc.{part}.cc.{name} after mad.{part}.cc and the carry"),
                &[kind; 3],
                size,
                format!(
                    "mad.{part}.cc.{name} {t}, $a, $b, $c; madc.{part}.cc.{name} {u}, $c, $b, $a; addc.{name} $d, 0, 0;"
                ),
                move |of| second(of).1,
            );
        }
    }
}
