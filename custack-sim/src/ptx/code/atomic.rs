//! Atomic operations.

use super::super::arith::compare::Extreme;
use super::super::arith::float::Float;
use super::super::arith::half::{Bf16, F16, Short, packed2};
use super::super::inst::{Attempt, Kind};
use super::super::run::{Bytes, Lane, Lanes, Reg, lanes_of};
use super::super::types::Type;
use super::super::{Refusal, Space, unknown, wrong};
use super::arithmetic::with_int;
use super::memory::Order;
use super::opcode::Opcode;
use super::operands::Operands;
use super::{Builder, Names};
use std::sync::atomic::{Ordering, fence};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Inc,
    Dec,
    Exch,
    Cas,
}

const VECTORS: &[(&str, usize)] = &[("v2", 2), ("v4", 4), ("v8", 8)];

const OPERATIONS: &[(&str, Operation)] = &[
    ("add", Operation::Add),
    ("min", Operation::Min),
    ("max", Operation::Max),
    ("and", Operation::And),
    ("or", Operation::Or),
    ("xor", Operation::Xor),
    ("inc", Operation::Inc),
    ("dec", Operation::Dec),
    ("exch", Operation::Exch),
    ("cas", Operation::Cas),
];

/// The operands of an operation: its address and its values.
#[derive(Clone, Copy)]
struct Place {
    space: Space,
    base: Reg,
    offset: i64,
    /// The register for the old value.
    to: Reg,
    with: [Reg; 2],
}

impl Builder<'_> {
    /// `atom`, and `red`, which returns no result.
    pub(super) fn atomic(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let returns = op.name == "atom";
        let order = Order::of(op);
        op.pass(|part| part.starts_with("L2::"));
        let space = op.space();
        let operation = op.one_of(OPERATIONS).ok_or_else(|| unknown("this operation"))?;
        op.has("noftz");
        let count = op.one_of(VECTORS);
        let ty = op.ty()?;
        if !returns && matches!(operation, Operation::Exch | Operation::Cas) {
            return Err(wrong("it returns nothing, and so does not exchange"));
        }
        if let Some(count) = count {
            return self.atomic_vector(names, (space, order, operation), (ty, count), operands);
        }
        let mut rest = operands;
        let to = if returns {
            let (first, others) = rest.split_first().ok_or_else(|| wrong("a result is missing"))?;
            rest = others;
            self.any_to(names, first, ty)?
        } else {
            self.new_register(ty.class())
        };
        let (address, values) = rest.split_first().ok_or_else(|| wrong("an address is missing"))?;
        let wanted = if operation == Operation::Cas { 2 } else { 1 };
        // A cache policy may follow the operands.
        if values.len() < wanted || values.len() > wanted + 1 {
            return Err(wrong(format!("{} values, where it takes {wanted}", values.len())));
        }
        let space = self.space_of(names, space, address)?;
        let (base, offset) = self.address(names, address)?;
        let first = self.source(names, values[0], ty)?;
        let second = if wanted == 2 { self.source(names, values[1], ty)? } else { first };
        if to.class != first.class {
            return Err(wrong("its result and its operand have different sizes"));
        }
        let attempt = attempt(operation, ty, Place { space, base, offset, to, with: [first, second] })?;
        Ok(ordered(order, attempt))
    }

    /// Consecutive values in global memory; each is an atomic operation of its own.
    fn atomic_vector(
        &mut self,
        names: &Names<'_, '_>,
        (space, order, operation): (Space, Order, Operation),
        (ty, count): (Type, usize),
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let is_there = match ty {
            Type::F32 => operation == Operation::Add && count <= 4,
            Type::F16 | Type::Bf16 => OF_HALVES.contains(&operation),
            Type::F16x2 | Type::Bf16x2 => OF_HALVES.contains(&operation) && count <= 4,
            _ => false,
        };
        if !is_there || !matches!(space, Space::Global | Space::Generic) {
            return Err(unknown(format!("this operation of {count} values of type {ty}")));
        }
        let (to, address, from) = match operands {
            [address, from, ..] if address.first().is_some_and(|token| token.is('[')) => {
                (None, address, from)
            }
            [to, address, from, ..] => (Some(to), address, from),
            _ => return Err(wrong("it takes an address and a vector")),
        };
        let (base, offset) = self.address(names, address)?;
        let from = self.sources_of(names, from, ty.class(), count)?;
        let to = match to {
            Some(to) => self.results_of(names, to, ty.class(), count)?,
            None => from.iter().map(|_| self.new_register(ty.class())).collect(),
        };
        let mut parts = Vec::new();
        for (at, (to, from)) in to.into_iter().zip(from).enumerate() {
            let offset = offset.wrapping_add((at * ty.size()) as i64);
            parts.push(attempt(operation, ty, Place { space, base, offset, to, with: [from, from] })?);
        }
        let whole = count * ty.size();
        Ok(ordered(
            order,
            Box::new(move |lanes| {
                let addresses = lanes.addresses(base, offset);
                lanes_of(lanes.mask)
                    .try_for_each(|lane| lanes.check_aligned(lane, addresses[lane], whole))?;
                parts.iter().try_for_each(|part| part(lanes))
            }),
        ))
    }
}

const OF_HALVES: &[Operation] = &[Operation::Add, Operation::Min, Operation::Max];

fn ordered(order: Order, attempt: Attempt) -> Kind {
    if !order.fences {
        return Kind::Volatile(attempt);
    }
    Kind::Volatile(Box::new(move |lanes| {
        fence(Ordering::SeqCst);
        attempt(lanes)?;
        fence(Ordering::SeqCst);
        Ok(())
    }))
}

/// In each lane, replaces the value in memory by the result of `f`, which gets it and the lane's operands.
fn update<T: Bytes + Lane>(place: Place, f: impl Fn(T, T, T) -> T + Send + Sync + 'static) -> Attempt {
    let Place { space, base, offset, to, with: [first, second] } = place;
    Box::new(move |lanes: &mut Lanes<'_>| {
        let addresses = lanes.addresses(base, offset);
        let (a, b) = (lanes.get::<T>(first), lanes.get::<T>(second));
        let old = lanes.update(space, &addresses, |lane, old| f(old, a[lane], b[lane]))?;
        lanes.set(to, &old);
        Ok(())
    })
}

/// The same for an operation that has another result in global memory than in shared memory.
fn update_by_space<T: Bytes + Lane>(
    place: Place,
    f: impl Fn(T, T, bool) -> T + Send + Sync + 'static,
) -> Attempt {
    let Place { space, base, offset, to, with: [first, _] } = place;
    Box::new(move |lanes: &mut Lanes<'_>| {
        let addresses = lanes.addresses(base, offset);
        let a = lanes.get::<T>(first);
        let is_global = |lane: usize| Lanes::resolve(space, addresses[lane]).0 == Space::Global;
        let old = lanes.update(space, &addresses, |lane, old| f(old, a[lane], is_global(lane)))?;
        lanes.set(to, &old);
        Ok(())
    })
}

fn attempt(operation: Operation, ty: Type, place: Place) -> Result<Attempt, Refusal> {
    match (operation, ty) {
        (Operation::Exch, Type::B(4) | Type::U(4) | Type::S(4) | Type::F32) => {
            Ok(update(place, |_: u32, a, _| a))
        }
        (Operation::Exch, Type::B(8) | Type::U(8) | Type::S(8) | Type::F64) => {
            Ok(update(place, |_: u64, a, _| a))
        }
        (Operation::Exch, Type::B(16)) => Ok(update(place, |_: u128, a, _| a)),
        (Operation::Cas, Type::B(2) | Type::U(2) | Type::S(2)) => {
            Ok(update(place, |old: u16, a, b| if old == a { b } else { old }))
        }
        (Operation::Cas, Type::B(4) | Type::U(4) | Type::S(4) | Type::F32) => {
            Ok(update(place, |old: u32, a, b| if old == a { b } else { old }))
        }
        (Operation::Cas, Type::B(8) | Type::U(8) | Type::S(8) | Type::F64) => {
            Ok(update(place, |old: u64, a, b| if old == a { b } else { old }))
        }
        (Operation::Cas, Type::B(16)) => Ok(update(place, |old: u128, a, b| if old == a { b } else { old })),
        (Operation::Inc, Type::U(4)) => {
            Ok(update(place, |old: u32, a, _| if old >= a { 0 } else { old + 1 }))
        }
        (Operation::Dec, Type::U(4)) => {
            Ok(update(place, |old: u32, a, _| if old == 0 || old > a { a } else { old - 1 }))
        }
        (Operation::And, Type::B(4)) => Ok(update(place, |old: u32, a, _| old & a)),
        (Operation::Or, Type::B(4)) => Ok(update(place, |old: u32, a, _| old | a)),
        (Operation::Xor, Type::B(4)) => Ok(update(place, |old: u32, a, _| old ^ a)),
        (Operation::And, Type::B(8)) => Ok(update(place, |old: u64, a, _| old & a)),
        (Operation::Or, Type::B(8)) => Ok(update(place, |old: u64, a, _| old | a)),
        (Operation::Xor, Type::B(8)) => Ok(update(place, |old: u64, a, _| old ^ a)),
        (Operation::Add | Operation::Min | Operation::Max, ty) if ty.is_float() => {
            of_floats(operation, ty, place)
        }
        (Operation::Add, Type::U(4 | 8) | Type::S(4 | 8)) => Ok(if ty.size() == 4 {
            update(place, |old: u32, a, _| old.wrapping_add(a))
        } else {
            update(place, |old: u64, a, _| old.wrapping_add(a))
        }),
        (Operation::Min | Operation::Max, Type::U(4 | 8) | Type::S(4 | 8)) => {
            let greatest = operation == Operation::Max;
            with_int!(ty, T => pick::<T>(place, greatest))
        }
        _ => Err(without(ty)),
    }
}

/// Sums, minima and maxima of floats.
fn of_floats(operation: Operation, ty: Type, place: Place) -> Result<Attempt, Refusal> {
    match (operation, ty) {
        (Operation::Add, Type::F32) => Ok(update_by_space(place, |old: u32, a, is_global| {
            let (old, a) = (f32::from_bits(old), f32::from_bits(a));
            // Atomic sums in global memory flush subnormal numbers of this type.
            if is_global { old.flush().add_rn(a.flush()).flush() } else { old.add_rn(a) }.to_bits()
        })),
        (Operation::Add, Type::F64) => Ok(update_by_space(place, |bits: u64, with, is_global| {
            let (old, a) = (f64::from_bits(bits), f64::from_bits(with));
            match (is_global, old.is_nan(), a.is_nan()) {
                // A NaN in global memory stays as it is.
                (true, _, true) => with,
                (true, true, false) => bits,
                (true, ..) => old.add_rn(a).to_bits(),
                // If both are NaN, the result is the last operand of the sum, which here is the value in memory.
                (false, ..) => a.add_rn(old).to_bits(),
            }
        })),
        (Operation::Add, Type::F16) => Ok(update(place, |old: u16, a, _| F16::add(old, a))),
        (Operation::Add, Type::Bf16) => Ok(update(place, |old: u16, a, _| Bf16::add(old, a))),
        (Operation::Add, Type::F16x2) => Ok(update(place, |old: u32, a, _| packed2(old, a, F16::add))),
        (Operation::Add, Type::Bf16x2) => Ok(update(place, |old: u32, a, _| packed2(old, a, Bf16::add))),
        (Operation::Min | Operation::Max, Type::F16 | Type::Bf16 | Type::F16x2 | Type::Bf16x2) => {
            let how = Extreme { greatest: operation == Operation::Max, nan: false, xorsign: false };
            Ok(match ty {
                Type::F16 => update(place, move |old: u16, a, _| F16::extreme(how, old, a)),
                Type::Bf16 => update(place, move |old: u16, a, _| Bf16::extreme(how, old, a)),
                Type::F16x2 => {
                    update(place, move |old: u32, a, _| packed2(old, a, |a, b| F16::extreme(how, a, b)))
                }
                _ => update(place, move |old: u32, a, _| packed2(old, a, |a, b| Bf16::extreme(how, a, b))),
            })
        }
        _ => Err(without(ty)),
    }
}

fn without(ty: Type) -> Refusal {
    unknown(format!("this operation of type {ty}"))
}

/// Integers in memory whose minimum or maximum is computed.
trait Picked: Copy + Ord + 'static {
    type Bits: Bytes + Lane;
    fn of(bits: Self::Bits) -> Self;
    fn bits(self) -> Self::Bits;
}

macro_rules! picked {
    ($($ty:ty, $bits:ty;)*) => {
        $(impl Picked for $ty {
            type Bits = $bits;
            fn of(bits: $bits) -> $ty {
                bits as $ty
            }
            fn bits(self) -> $bits {
                self as $bits
            }
        })*
    };
}

picked! { u16, u16; i16, u16; u32, u32; i32, u32; u64, u64; i64, u64; }

fn pick<T: Picked>(place: Place, greatest: bool) -> Attempt {
    update(place, move |old: T::Bits, a, _| {
        let (old, a) = (T::of(old), T::of(a));
        (if greatest { old.max(a) } else { old.min(a) }).bits()
    })
}
