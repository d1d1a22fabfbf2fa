//! Reads and writes of surfaces.

use super::super::Space;
use super::super::inst::Kind;
use super::super::run::{Fault, Lanes, lanes_of};
use super::super::sample::{Beyond, Geometry, outside_of, place, store_converted};
use super::super::types::Type;
use super::super::{Refusal, unknown, wrong};
use super::opcode::Opcode;
use super::operands::{Elements, Operands, exactly};
use super::texture::{GEOMETRIES, Place};
use super::{Builder, Names};
use crate::texture::{Bound, Channel};

const BEYOND: &[(&str, Beyond)] = &[("trap", Beyond::Trap), ("clamp", Beyond::Clamp), ("zero", Beyond::Zero)];
const VECTORS: &[(&str, usize)] = &[("v2", 2), ("v4", 4)];

/// The modifiers of an access to a surface.
#[derive(Clone, Copy)]
struct Access {
    geometry: Geometry,
    beyond: Beyond,
    ty: Type,
    count: usize,
    /// Whether the first coordinate counts elements (`.p`) rather than bytes (`.b`).
    by_elements: bool,
}

impl Access {
    fn of(op: &mut Opcode<'_>) -> Result<Access, Refusal> {
        for hint in ["ca", "cg", "cs", "cv", "wb", "wt"] {
            op.has(hint);
        }
        let by_elements = op.has("p");
        if !by_elements && !op.has("b") {
            return Err(wrong("it is with .b or .p"));
        }
        let geometry = op.one_of(GEOMETRIES).ok_or_else(|| unknown("this geometry"))?;
        if matches!(geometry, Geometry::Cube | Geometry::CubeLayered) {
            return Err(wrong("a surface has no cubes"));
        }
        let beyond = op.one_of(BEYOND).ok_or_else(|| wrong("it is with .trap, .clamp or .zero"))?;
        let count = op.one_of(VECTORS).unwrap_or(1);
        Ok(Access { geometry, beyond, ty: op.ty()?, count, by_elements })
    }

    /// Refuses types other than untyped bits, and accesses of more than 16 bytes.
    fn is_of_bits(self) -> Result<Access, Refusal> {
        let known = matches!(self.ty, Type::B(1 | 2 | 4 | 8)) && self.count * self.ty.size() <= 16;
        if known { Ok(self) } else { Err(wrong(format!("{} values of type {}", self.count, self.ty))) }
    }

    /// The address of a lane's access of this size; `None` if the access is outside of the surface and has no effect.
    fn find<'a>(
        &self,
        lanes: &Lanes<'a>,
        lane: usize,
        at: &Place,
        bytes: impl Fn(&Bound) -> usize,
    ) -> Result<(&'a Bound, Option<u64>), Fault> {
        let handle = lanes.one(at.object, lane);
        let bound = lanes.bound(lane, handle)?;
        if bound.sampler.is_some() || outside_of(self.geometry, &bound.grid) {
            let geometry = self.geometry;
            return Err(lanes.fails(
                lane,
                format_args!("uses as {geometry:?} what is a texture, or has other dimensions"),
            ));
        }
        let (layer, bits) = at.bits(lanes, lane);
        let mut coordinates = bits.map(|bits| bits as i32);
        if self.by_elements {
            coordinates[0] = coordinates[0].saturating_mul(bound.element() as i32);
        }
        let bytes = bytes(bound);
        if !self.by_elements {
            lanes.check_aligned(lane, coordinates[0] as u64, bytes)?;
        }
        match place(bound, self.geometry, (layer, coordinates), bytes, self.beyond) {
            Ok(found) => Ok((bound, found)),
            Err(()) => Err(lanes.is_beyond(
                lane,
                format_args!(
                    "uses {bytes} bytes at {coordinates:?}, in layer {layer}, which is beyond the surface"
                ),
            )),
        }
    }

    fn bytes(&self) -> usize {
        self.ty.size() * self.count
    }
}

impl Builder<'_> {
    /// `suld.b`.
    pub(super) fn surface_load(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let access = Access::of(op)?.is_of_bits()?;
        if access.by_elements {
            return Err(unknown("a formatted read"));
        }
        let [to, at] = exactly(operands)?;
        let at = self.place_of(names, at, (access.geometry, Type::S(4)))?;
        let to = match self.elements(names, to)? {
            Elements::Registers(registers) => registers,
            Elements::Tokens(all) => all
                .into_iter()
                .map(|tokens| self.any_to(names, tokens, access.ty))
                .collect::<Result<_, _>>()?,
        };
        let narrow = to.iter().any(|to| to.class.bits() < access.ty.class().bits());
        if to.len() != access.count || narrow {
            return Err(wrong(format!("{} registers for {} values", to.len(), access.count)));
        }
        Ok(Kind::Memory(Box::new(move |lanes| {
            let mut found = vec![[0u128; 32]; to.len()];
            let size = access.ty.size();
            for lane in lanes_of(lanes.mask) {
                let (_, place) = access.find(lanes, lane, &at, |_| access.bytes())?;
                let Some(place) = place else { continue };
                for (element, found) in found.iter_mut().enumerate() {
                    let address = place + (element * size) as u64;
                    found[lane] = lanes.load_one(lane, Space::Global, address, size)?;
                }
            }
            let mask = lanes.mask;
            to.iter().zip(&found).for_each(|(to, found)| lanes.registers.set_bits(*to, found, mask));
            Ok(())
        })))
    }

    /// `sust.b` and `sust.p`.
    pub(super) fn surface_store(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let access = Access::of(op)?;
        if access.by_elements {
            if !matches!(access.ty, Type::B(4) | Type::U(4) | Type::S(4) | Type::F32) {
                return Err(wrong(format!("a formatted write of type {}", access.ty)));
            }
        } else {
            access.is_of_bits()?;
        }
        let [at, from] = exactly(operands)?;
        let at = self.place_of(names, at, (access.geometry, Type::S(4)))?;
        let from = match self.elements(names, from)? {
            Elements::Registers(registers) => registers,
            Elements::Tokens(all) => all
                .into_iter()
                .map(|tokens| self.any_source(names, tokens, access.ty))
                .collect::<Result<_, _>>()?,
        };
        let narrow = from.iter().any(|from| from.class.bits() < access.ty.class().bits());
        if from.len() != access.count || narrow {
            return Err(wrong(format!("{} registers for {} values", from.len(), access.count)));
        }
        Ok(Kind::Memory(Box::new(move |lanes| {
            let size = access.ty.size();
            let values: Vec<_> = from.iter().map(|from| lanes.registers.bits(*from)).collect();
            for lane in lanes_of(lanes.mask) {
                let bytes = |bound: &Bound| if access.by_elements { bound.element() } else { access.bytes() };
                let (bound, place) = access.find(lanes, lane, &at, bytes)?;
                let Some(place) = place else { continue };
                let (size, count) = match access.by_elements {
                    true => (bound.channel.size(), bound.channels),
                    false => (size, values.len()),
                };
                for element in 0..count {
                    let value = values.get(element).map_or(0, |value| value[lane]);
                    let value = match access.by_elements {
                        true => store_converted(bound.channel, value as u32).into(),
                        false => value,
                    };
                    lanes.store_one(lane, Space::Global, place + (element * size) as u64, size, value)?;
                }
            }
            Ok(())
        })))
    }

    /// `sured.b`, and `sured.p`, of which the surface says whether its words have a sign.
    pub(super) fn surface_reduce(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let how = op.one_of(REDUCTIONS).ok_or_else(|| unknown("this operation"))?;
        let access = Access::of(op)?;
        if access.geometry.is_layered() {
            return Err(wrong("it changes no layers"));
        }
        if access.count > 1 || access.by_elements && access.ty != Type::B(4) {
            return Err(wrong(format!("{} values of type {}", access.count, access.ty)));
        }
        let [at, from] = exactly(operands)?;
        let at = self.place_of(names, at, (access.geometry, Type::S(4)))?;
        let from = self.source(names, from, access.ty)?;
        let is_bitwise = matches!(how, Reduction::And | Reduction::Or);
        let types = match (access.by_elements, is_bitwise) {
            (true, false) => [Type::U(4), Type::S(4)],
            _ => [access.ty; 2],
        };
        let [unsigned, signed] = [update(how, types[0])?, update(how, types[1])?];
        Ok(Kind::Volatile(Box::new(move |lanes| {
            let values = lanes.registers.bits(from);
            for lane in lanes_of(lanes.mask) {
                let (bound, place) = access.find(lanes, lane, &at, |_| access.bytes())?;
                if access.by_elements && !(bound.channel.size() == 4 && bound.channel.is_integer()) {
                    return Err(lanes.fails(lane, format_args!("changes elements that are no words")));
                }
                let Some(place) = place else { continue };
                let update = if bound.channel == Channel::Signed(4) { &signed } else { &unsigned };
                update(lanes, lane, place, values[lane] as u64)?;
            }
            Ok(())
        })))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reduction {
    Add,
    Min,
    Max,
    And,
    Or,
}

const REDUCTIONS: &[(&str, Reduction)] = &[
    ("add", Reduction::Add),
    ("min", Reduction::Min),
    ("max", Reduction::Max),
    ("and", Reduction::And),
    ("or", Reduction::Or),
];

type Update = Box<dyn Fn(&mut Lanes<'_>, usize, u64, u64) -> Result<(), Fault> + Send + Sync>;

fn update(how: Reduction, ty: Type) -> Result<Update, Refusal> {
    let narrow = |f: fn(u32, u32) -> u32| -> Update {
        Box::new(move |lanes, lane, at, with| {
            lanes.update_global::<u32>(lane, at, |old| f(old, with as u32)).map(|_| ())
        })
    };
    let wide = |f: fn(u64, u64) -> u64| -> Update {
        Box::new(move |lanes, lane, at, with| {
            lanes.update_global::<u64>(lane, at, |old| f(old, with)).map(|_| ())
        })
    };
    Ok(match (how, ty) {
        (Reduction::Add, Type::U(4) | Type::S(4)) => narrow(u32::wrapping_add),
        (Reduction::Add, Type::U(8)) => wide(u64::wrapping_add),
        (Reduction::Min, Type::U(4)) => narrow(u32::min),
        (Reduction::Max, Type::U(4)) => narrow(u32::max),
        (Reduction::Min, Type::S(4)) => narrow(|a, b| (a as i32).min(b as i32) as u32),
        (Reduction::Max, Type::S(4)) => narrow(|a, b| (a as i32).max(b as i32) as u32),
        (Reduction::Min, Type::U(8)) => wide(u64::min),
        (Reduction::Max, Type::U(8)) => wide(u64::max),
        (Reduction::Min, Type::S(8)) => wide(|a, b| (a as i64).min(b as i64) as u64),
        (Reduction::Max, Type::S(8)) => wide(|a, b| (a as i64).max(b as i64) as u64),
        (Reduction::And, Type::B(4)) => narrow(|a, b| a & b),
        (Reduction::Or, Type::B(4)) => narrow(|a, b| a | b),
        (Reduction::And, Type::B(8)) => wide(|a, b| a & b),
        (Reduction::Or, Type::B(8)) => wide(|a, b| a | b),
        _ => return Err(unknown(format!("this operation of type {ty}"))),
    })
}
