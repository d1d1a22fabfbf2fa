//! Builders for instructions that compute each lane's result from operands of the same lane.

use super::super::inst::Kind;
use super::super::run::{Lane, Lanes, Reg, WARP, are_few, each, lanes_of};

/// A function of one value.
pub(super) fn lanes1<A: Lane, R: Lane>(to: Reg, a: Reg, f: impl Fn(A) -> R + Send + Sync + 'static) -> Kind {
    Kind::Lanes(Box::new(move |lanes: &mut Lanes<'_>| {
        if are_few(lanes.mask) {
            return lanes_of(lanes.mask).for_each(|lane| lanes.put(to, lane, f(lanes.one::<A>(a, lane))));
        }
        let a = lanes.get::<A>(a);
        lanes.set(to, &each(|lane| f(a[lane])));
    }))
}

pub(super) fn lanes2<A: Lane, B: Lane, R: Lane>(
    to: Reg,
    [a, b]: [Reg; 2],
    f: impl Fn(A, B) -> R + Send + Sync + 'static,
) -> Kind {
    Kind::Lanes(Box::new(move |lanes: &mut Lanes<'_>| {
        if are_few(lanes.mask) {
            return lanes_of(lanes.mask)
                .for_each(|lane| lanes.put(to, lane, f(lanes.one::<A>(a, lane), lanes.one::<B>(b, lane))));
        }
        let (a, b) = (lanes.get::<A>(a), lanes.get::<B>(b));
        let values = each(|lane| f(a[lane], b[lane]));
        lanes.set(to, &values);
    }))
}

pub(super) fn lanes3<A: Lane, B: Lane, C: Lane, R: Lane>(
    to: Reg,
    [a, b, c]: [Reg; 3],
    f: impl Fn(A, B, C) -> R + Send + Sync + 'static,
) -> Kind {
    Kind::Lanes(Box::new(move |lanes: &mut Lanes<'_>| {
        if are_few(lanes.mask) {
            return lanes_of(lanes.mask).for_each(|lane| {
                lanes.put(
                    to,
                    lane,
                    f(lanes.one::<A>(a, lane), lanes.one::<B>(b, lane), lanes.one::<C>(c, lane)),
                )
            });
        }
        let (a, b, c) = (lanes.get::<A>(a), lanes.get::<B>(b), lanes.get::<C>(c));
        let values = each(|lane| f(a[lane], b[lane], c[lane]));
        lanes.set(to, &values);
    }))
}

pub(super) fn lanes4<A: Lane, B: Lane, C: Lane, D: Lane, R: Lane>(
    to: Reg,
    [a, b, c, d]: [Reg; 4],
    f: impl Fn(A, B, C, D) -> R + Send + Sync + 'static,
) -> Kind {
    Kind::Lanes(Box::new(move |lanes: &mut Lanes<'_>| {
        if are_few(lanes.mask) {
            return lanes_of(lanes.mask).for_each(|lane| {
                lanes.put(
                    to,
                    lane,
                    f(
                        lanes.one::<A>(a, lane),
                        lanes.one::<B>(b, lane),
                        lanes.one::<C>(c, lane),
                        lanes.one::<D>(d, lane),
                    ),
                )
            });
        }
        let (a, b, c, d) = (lanes.get::<A>(a), lanes.get::<B>(b), lanes.get::<C>(c), lanes.get::<D>(d));
        let values = each(|lane| f(a[lane], b[lane], c[lane], d[lane]));
        lanes.set(to, &values);
    }))
}

/// A function of the predicates of all lanes at once, as bits.
pub(super) fn predicates(
    to: Reg,
    [a, b]: [Reg; 2],
    f: impl Fn(u32, u32) -> u32 + Send + Sync + 'static,
) -> Kind {
    Kind::Lanes(Box::new(move |lanes: &mut Lanes<'_>| {
        let value = f(lanes.registers.predicate(a.at), lanes.registers.predicate(b.at));
        lanes.registers.set_predicate(to.at, value, lanes.mask);
    }))
}

/// Copies the bits of a register; between classes of different widths, the bits that both have.
pub(super) fn copy(to: Reg, from: Reg) -> Kind {
    use super::super::types::Class;
    if to.class != from.class {
        return Kind::Lanes(Box::new(move |lanes: &mut Lanes<'_>| {
            let bits = lanes.registers.bits(from);
            lanes.registers.set_bits(to, &bits, lanes.mask);
        }));
    }
    match to.class {
        Class::Pred => predicates(to, [from, from], |a, _| a),
        Class::B16 => lanes1(to, from, |a: u16| a),
        Class::B32 => lanes1(to, from, |a: u32| a),
        Class::B64 => lanes1(to, from, |a: u64| a),
        Class::B128 => lanes1(to, from, |a: u128| a),
    }
}

/// Sets a register of any class to the same value in all lanes.
pub(super) fn uniform(to: Reg, f: impl Fn(&Lanes<'_>) -> u64 + Send + Sync + 'static) -> Kind {
    Kind::Lanes(Box::new(move |lanes: &mut Lanes<'_>| {
        let value = f(lanes);
        lanes.registers.set_bits(to, &[value.into(); WARP], lanes.mask);
    }))
}
