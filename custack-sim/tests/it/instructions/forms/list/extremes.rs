//! The lesser and the greater of two floats.

use super::super::exact::F64;
use super::super::form::List;
use super::floats::{DOUBLE, Float, HALVES, SINGLE};

#[derive(Clone, Copy)]
struct How {
    greatest: bool,
    ftz: bool,
    nan: bool,
    xorsign: bool,
}

fn extreme(ty: Float, how: How, of: &[u64]) -> u64 {
    let format = ty.format;
    let [a, b] = [of[0], of[1]].map(|bits| if how.ftz { format.flush(bits) } else { bits });
    let sign = (a ^ b) & format.sign();
    let [a, b] = [a, b].map(|bits| if how.xorsign { bits & !format.sign() } else { bits });
    let (a_nan, b_nan) = (format.is_nan(a), format.is_nan(b));
    if a_nan && b_nan || how.nan && (a_nan || b_nan) {
        return format.nan(&[b, a]);
    }
    // As numbers of which -0 is just below +0.
    let order = |bits: u64| {
        let magnitude = (bits & (format.sign() - 1)) as i128;
        if bits & format.sign() != 0 { -1 - magnitude } else { magnitude }
    };
    let first = if a_nan || b_nan { b_nan } else { (order(a) < order(b)) != how.greatest };
    let chosen = if first { a } else { b };
    if how.xorsign { chosen | sign } else { chosen }
}

pub(super) fn list(list: &mut List) {
    for ty in HALVES.into_iter().chain([SINGLE, DOUBLE]) {
        let is_double = ty.format == F64;
        let ftzs: &[bool] = if ty.is_bf16() || is_double { &[false] } else { &[false, true] };
        let others: &[bool] = if is_double { &[false] } else { &[false, true] };
        for (op, greatest) in [("min", false), ("max", true)] {
            for &ftz in ftzs {
                for &nan in others {
                    for &xorsign in others {
                        let how = How { greatest, ftz, nan, xorsign };
                        let parts = [(ftz, ".ftz"), (nan, ".NaN"), (xorsign, ".xorsign.abs")];
                        let modifiers: String = parts.iter().filter(|it| it.0).map(|it| it.1).collect();
                        let name = format!("{op}{modifiers}.{}", ty.name);
                        list.plain(name, &[ty.kind; 2], ty.kind.size(), move |of| {
                            ty.each(of, |of| extreme(ty, how, of))
                        });
                    }
                }
            }
        }
    }
}
