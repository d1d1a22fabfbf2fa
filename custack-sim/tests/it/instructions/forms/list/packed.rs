//! Two integers of 16 bits in a register.

use super::super::form::List;
use super::super::operands::Kind;
use super::integers::{Int, S16, U16};

/// What `f` makes of both halves.
pub(super) fn halves(of: &[u64], f: impl Fn(&[u64]) -> u64) -> u64 {
    let part = |by: u32| f(&of.iter().map(|word| word >> by & 0xffff).collect::<Vec<_>>()) & 0xffff;
    part(16) << 16 | part(0)
}

pub(super) fn list(list: &mut List) {
    let mut two = |name: String, ty: Int, f: fn(i128, i128) -> i128| {
        list.plain(name, &[Kind::I16x2; 2], 4, move |of| {
            halves(of, |of| ty.cut(f(ty.value(of[0]), ty.value(of[1]))))
        });
    };
    for ty in [U16, S16] {
        let name = format!("{}x2", ty.name);
        two(format!("add.{name}"), ty, |a, b| a + b);
        two(format!("min.{name}"), ty, std::cmp::min);
        two(format!("max.{name}"), ty, std::cmp::max);
    }
    two("min.relu.s16x2".to_owned(), S16, |a, b| a.min(b).max(0));
    two("max.relu.s16x2".to_owned(), S16, |a, b| a.max(b).max(0));
}
