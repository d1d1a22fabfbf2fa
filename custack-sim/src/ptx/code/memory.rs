//! Loads and stores.

use super::super::inst::{Attempt, Kind};
use super::super::run::{Bytes, Fault, Lane, Lanes, Reg, WARP, lanes_of};
use super::super::scope::Named;
use super::super::tokens::Token;
use super::super::types::{Class, Type};
use super::super::{Refusal, Space, unknown, wrong};
use super::opcode::Opcode;
use super::operands::{Elements, Operands};
use super::{Builder, Names};
use crate::memory::alone;
use std::sync::atomic::{Ordering, fence};

const SCOPES: &[(&str, ())] = &[("cta", ()), ("cluster", ()), ("gpu", ()), ("sys", ())];

/// The memory ordering that an access asks for.
pub(super) struct Order {
    /// Whether it is a strong access: threads that wait for each other see it.
    pub(super) is_strong: bool,
    pub(super) fences: bool,
}

impl Order {
    pub(super) fn of(op: &mut Opcode<'_>) -> Order {
        let strong = ["volatile", "relaxed", "mmio"].map(|it| op.has(it)).contains(&true);
        let fences = ["acquire", "release", "acq_rel"].map(|it| op.has(it)).contains(&true);
        op.has("weak");
        op.one_of(SCOPES);
        Order { is_strong: strong || fences, fences }
    }
}

/// Takes the modifiers that are hints to a cache.
pub(super) fn pass_hints(op: &mut Opcode<'_>) {
    for hint in ["nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt"] {
        op.has(hint);
    }
    op.pass(|part| part.starts_with("L1::") || part.starts_with("L2::"));
}

pub(super) const VECTORS: &[(&str, usize)] = &[("v2", 2), ("v4", 4), ("v8", 8)];

/// The memory that an access reads or writes.
#[derive(Clone, Copy)]
struct Place {
    space: Space,
    base: Reg,
    offset: i64,
    ty: Type,
    /// The number of consecutive values, which are aligned as a whole.
    count: usize,
}

impl Place {
    fn at(self, element: usize) -> i64 {
        self.offset.wrapping_add((element * self.ty.size()) as i64)
    }
}

impl Builder<'_> {
    /// The space of an access. The parameters of functions are in local memory, those of kernels are not.
    pub(super) fn space_of(
        &mut self,
        names: &Names<'_, '_>,
        space: Space,
        address: &[Token],
    ) -> Result<Space, Refusal> {
        if space == Space::Generic {
            // Without a modifier, the space is that of the variable, if one is named.
            let Some(Token::Word(name)) = address.get(1) else { return Ok(space) };
            return match names.find(name).or_else(|| self.shared_named(name)) {
                Some(Named::Local(_)) => Ok(Space::Local),
                Some(Named::Shared(_) | Named::Dynamic) => Ok(Space::Shared),
                Some(Named::Parameter(_)) => Err(wrong(format!(
                    "State space mismatch between instruction and address: {name} is in .param"
                ))),
                _ => Ok(space),
            };
        }
        if space != Space::Param {
            return Ok(space);
        }
        let is_local = match address.get(1) {
            Some(Token::Word(name)) => match names.find(name) {
                Some(Named::Local(_)) => true,
                Some(Named::Parameter(_)) => false,
                _ => self.present.is_some(),
            },
            _ => false,
        };
        Ok(if is_local { Space::Local } else { Space::Param })
    }

    /// The offset of a kernel's parameter that is named in an address.
    fn parameter(&self, names: &Names<'_, '_>, address: &[Token]) -> Option<u64> {
        let [Token::Sign('['), Token::Word(name), ..] = address else { return None };
        match names.find(name) {
            Some(Named::Parameter(at)) => Some(at),
            _ => None,
        }
    }

    fn place(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        address: &[Token],
    ) -> Result<Place, Refusal> {
        let space = op.space();
        let space = self.space_of(names, space, address)?;
        let count = op.one_of(VECTORS).unwrap_or(1);
        let ty = op.ty()?;
        if count * ty.size() > 32
            || matches!(ty, Type::Pred | Type::F16x2 | Type::Bf16x2 | Type::U16x2 | Type::S16x2)
        {
            return Err(unknown(format!("{count} values of type {ty}")));
        }
        let (base, offset) = self.address(names, address)?;
        Ok(Place { space, base, offset, ty, count })
    }

    pub(super) fn load(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let ([to, address] | [to, address, _]) = operands else { return Err(wrong("it takes two operands")) };
        let order = Order::of(op);
        pass_hints(op);
        let place = self.place(names, op, address)?;
        let to = match self.elements(names, to)? {
            Elements::Registers(registers) => registers,
            Elements::Tokens(all) => all
                .into_iter()
                .map(|tokens| self.any_to(names, tokens, place.ty))
                .collect::<Result<_, _>>()?,
        };
        check(&to, place)?;
        if let (Space::Param, Some(at)) = (place.space, self.parameter(names, address)) {
            return Ok(parameters(place, at, to));
        }
        let loads: Vec<Attempt> = to
            .iter()
            .enumerate()
            .map(|(at, to)| load(Place { offset: place.at(at), ..place }, *to))
            .collect();
        Ok(access(place, order, loads))
    }

    pub(super) fn store(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let ([address, from] | [address, from, _]) = operands else {
            return Err(wrong("it takes two operands"));
        };
        let order = Order::of(op);
        pass_hints(op);
        let place = self.place(names, op, address)?;
        let from = match self.elements(names, from)? {
            Elements::Registers(registers) => registers,
            Elements::Tokens(all) => all
                .into_iter()
                .map(|tokens| self.any_source(names, tokens, place.ty))
                .collect::<Result<_, _>>()?,
        };
        check(&from, place)?;
        let stores: Vec<Attempt> = from
            .iter()
            .enumerate()
            .map(|(at, from)| store(Place { offset: place.at(at), ..place }, *from))
            .collect();
        Ok(access(place, order, stores))
    }
}

/// Refuses registers that are too small, or a number of registers that is not the number of values.
fn check(registers: &[Reg], place: Place) -> Result<(), Refusal> {
    if registers.len() != place.count {
        return Err(wrong(format!("{} registers for {} values", registers.len(), place.count)));
    }
    match registers.iter().find(|it| it.class == Class::Pred || it.class.bits() < place.ty.class().bits()) {
        Some(small) => {
            Err(wrong(format!("a register of {} bits for a value of type {}", small.class.bits(), place.ty)))
        }
        None => Ok(()),
    }
}

/// An access to one value or to several.
fn access(place: Place, order: Order, mut parts: Vec<Attempt>) -> Kind {
    let whole = place.count * place.ty.size();
    let all: Attempt = match parts.len() {
        1 => match parts.pop() {
            Some(one) => one,
            None => return Kind::Nothing,
        },
        _ => Box::new(move |lanes| {
            let addresses = lanes.addresses(place.base, place.offset);
            for lane in lanes_of(lanes.mask) {
                lanes.check_aligned(lane, addresses[lane], whole)?;
            }
            parts.iter().try_for_each(|part| part(lanes))
        }),
    };
    // A device accesses 16 bytes in one step, and programs rely on it, although PTX does not promise it for vectors.
    let is_whole = order.is_strong && whole > 8 && matches!(place.space, Space::Global | Space::Generic);
    let all: Attempt = match is_whole {
        true => Box::new(move |lanes| {
            let _alone = alone();
            all(lanes)
        }),
        false => all,
    };
    if order.fences {
        return Kind::Volatile(Box::new(move |lanes| {
            fence(Ordering::SeqCst);
            all(lanes)?;
            fence(Ordering::SeqCst);
            Ok(())
        }));
    }
    if order.is_strong && place.space != Space::Local { Kind::Volatile(all) } else { Kind::Memory(all) }
}

/// Loads a kernel's parameters from an offset on: they are the same for all threads.
fn parameters(place: Place, at: u64, to: Vec<Reg>) -> Kind {
    let (size, signed) = (place.ty.size(), place.ty.is_signed());
    Kind::Memory(Box::new(move |lanes: &mut Lanes<'_>| {
        let first = lanes.mask.trailing_zeros() as usize;
        lanes.check_aligned(first, at.wrapping_add_signed(place.offset), size * place.count)?;
        for (element, to) in to.iter().enumerate() {
            let bits =
                lanes.load_one(first, Space::Param, at.wrapping_add_signed(place.at(element)), size)?;
            let spare = 128 - 8 * size as u32;
            let value = if signed { ((bits << spare) as i128 >> spare) as u128 } else { bits };
            match to.class {
                Class::B32 => lanes.set::<u32>(*to, &[value as u32; WARP]),
                Class::B64 => lanes.set::<u64>(*to, &[value as u64; WARP]),
                _ => lanes.registers.set_bits(*to, &[value; WARP], lanes.mask),
            }
        }
        Ok(())
    }))
}

fn load(place: Place, to: Reg) -> Attempt {
    match (place.ty.size(), to.class) {
        (2, Class::B16) => load_exactly::<u16>(place, to),
        (4, Class::B32) => load_exactly::<u32>(place, to),
        (8, Class::B64) => load_exactly::<u64>(place, to),
        _ => load_extended(place, to),
    }
}

fn load_exactly<T: Bytes + Lane>(Place { space, base, offset, .. }: Place, to: Reg) -> Attempt {
    Box::new(move |lanes: &mut Lanes<'_>| {
        let addresses = lanes.addresses(base, offset);
        let values = match space {
            Space::Global => lanes.load_global::<T>(&addresses)?,
            Space::Shared => lanes.load_shared::<T>(&addresses)?,
            Space::Generic if lanes.are_global(&addresses) => lanes.load_global::<T>(&addresses)?,
            _ => {
                let mut values = [T::default(); WARP];
                for lane in lanes_of(lanes.mask) {
                    let bits = lanes.load_one(lane, space, addresses[lane], size_of::<T>())?;
                    values[lane] = T::of(&bits.to_le_bytes()[..size_of::<T>()]);
                }
                values
            }
        };
        lanes.set(to, &values);
        Ok(())
    })
}

/// Loads a value of `size` bytes from the function's frame in local memory; its address is in the register `base`.
pub(super) fn load_local(base: Reg, size: usize, to: Reg) -> Attempt {
    load(Place { space: Space::Local, base, offset: 0, ty: Type::B(size as u8), count: 1 }, to)
}

pub(super) fn store_local(base: Reg, size: usize, from: Reg) -> Attempt {
    store(Place { space: Space::Local, base, offset: 0, ty: Type::B(size as u8), count: 1 }, from)
}

/// Loads into a register that is wider than the value.
fn load_extended(Place { space, base, offset, ty, .. }: Place, to: Reg) -> Attempt {
    let (size, signed) = (ty.size(), ty.is_signed());
    Box::new(move |lanes: &mut Lanes<'_>| {
        let addresses = lanes.addresses(base, offset);
        let mut values = [0u128; WARP];
        for lane in lanes_of(lanes.mask) {
            let bits = lanes.load_one(lane, space, addresses[lane], size)?;
            let spare = 128 - 8 * size as u32;
            values[lane] = if signed { ((bits << spare) as i128 >> spare) as u128 } else { bits };
        }
        lanes.registers.set_bits(to, &values, lanes.mask);
        Ok(())
    })
}

fn store(place: Place, from: Reg) -> Attempt {
    match (place.ty.size(), from.class) {
        (2, Class::B16) => store_exactly::<u16>(place, from),
        (4, Class::B32) => store_exactly::<u32>(place, from),
        (8, Class::B64) => store_exactly::<u64>(place, from),
        _ => store_cut(place, from),
    }
}

fn store_exactly<T: Bytes + Lane>(Place { space, base, offset, .. }: Place, from: Reg) -> Attempt {
    Box::new(move |lanes: &mut Lanes<'_>| {
        let addresses = lanes.addresses(base, offset);
        let values = lanes.get::<T>(from);
        match space {
            Space::Global => lanes.store_global::<T>(&addresses, &values),
            Space::Shared => lanes.store_shared::<T>(&addresses, &values),
            Space::Generic if lanes.are_global(&addresses) => lanes.store_global::<T>(&addresses, &values),
            _ => lanes_of(lanes.mask).try_for_each(|lane| {
                let mut bytes = [0; 16];
                Bytes::put(values[lane], &mut bytes[..size_of::<T>()]);
                lanes.store_one(lane, space, addresses[lane], size_of::<T>(), u128::from_le_bytes(bytes))
            }),
        }
    })
}

/// Stores from a register that is wider than the value.
fn store_cut(Place { space, base, offset, ty, .. }: Place, from: Reg) -> Attempt {
    let size = ty.size();
    Box::new(move |lanes: &mut Lanes<'_>| -> Result<(), Fault> {
        let addresses = lanes.addresses(base, offset);
        let values = lanes.registers.bits(from);
        lanes_of(lanes.mask)
            .try_for_each(|lane| lanes.store_one(lane, space, addresses[lane], size, values[lane]))
    })
}
