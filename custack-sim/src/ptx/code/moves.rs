//! Moves, selections, and conversions of addresses between state spaces.

use super::super::inst::Kind;
use super::super::run::{
    LOCAL_WINDOW, Lane, Lanes, PARAM_WINDOW, Reg, SHARED_WINDOW, WARP, WINDOW, are_few, each, lanes_of,
};
use super::super::scope::Named;
use super::super::tokens::Token;
use super::super::types::{Class, Type};
use super::super::{Refusal, Space, unknown, wrong};
use super::lanes::{copy, lanes1, lanes2, lanes3};
use super::memory::VECTORS;
use super::opcode::Opcode;
use super::operands::{Elements, Operands, exactly};
use super::{Builder, Names};

/// Special registers with three dimensions.
const COORDINATES: [&str; 8] =
    ["%tid", "%ntid", "%ctaid", "%nctaid", "%clusterid", "%nclusterid", "%cluster_ctaid", "%cluster_nctaid"];

impl Builder<'_> {
    pub(super) fn mov(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let ty = op.ty()?;
        let [to, from] = exactly(operands)?;
        let is_vector = |tokens: &[Token]| match tokens {
            [Token::Sign('{'), ..] => true,
            [Token::Word(name)] => matches!(names.find(name), Some(Named::Vector(_))),
            _ => false,
        };
        if let Some(count) = op.one_of(VECTORS) {
            return self.mov_vector(names, [to, from], ty, count);
        }
        if matches!(ty, Type::B(_)) {
            if is_vector(from) {
                let parts = self.parts(names, from, ty, false)?;
                let bits = (8 * ty.size() / parts.len()) as u32;
                return Ok(pack(self.to(names, to, ty)?, parts, bits));
            }
            if is_vector(to) {
                let parts = self.parts(names, to, ty, true)?;
                let bits = (8 * ty.size() / parts.len()) as u32;
                return Ok(unpack(parts, self.source(names, from, ty)?, bits));
            }
        }
        let register = self.any_source(names, from, ty)?;
        let to = self.to(names, to, ty)?;
        // Special registers may be wider than the register to which they are moved.
        let is_own =
            matches!(from, [Token::Word(name)] if name.starts_with('%') && names.find(name).is_none());
        if register.class != to.class && !is_own {
            self.source(names, from, ty)?;
        }
        Ok(copy(to, register))
    }

    /// Moves the elements of a vector to those of another one; all are read before one is written.
    fn mov_vector(
        &mut self,
        names: &Names<'_, '_>,
        [to, from]: [&[Token]; 2],
        ty: Type,
        count: usize,
    ) -> Result<Kind, Refusal> {
        // A special register with three dimensions is a vector too, whose last element is zero.
        let coordinates = match from {
            [Token::Word(name)] if COORDINATES.contains(&&name[..]) && names.find(name).is_none() => {
                let element = |axis: &str| vec![Token::Word(format!("{name}.{axis}"))];
                Some([element("x"), element("y"), element("z"), vec![Token::Int(0)]])
            }
            _ => None,
        };
        let from = match (self.elements(names, from)?, &coordinates) {
            (_, Some(all)) => {
                all.iter().map(|tokens| self.source(names, tokens, ty)).collect::<Result<_, _>>()?
            }
            (Elements::Registers(registers), _) => registers,
            (Elements::Tokens(all), _) => {
                all.iter().map(|tokens| self.source(names, tokens, ty)).collect::<Result<_, _>>()?
            }
        };
        let to = match self.elements(names, to)? {
            Elements::Registers(registers) => registers,
            Elements::Tokens(all) => {
                all.iter().map(|tokens| self.to(names, tokens, ty)).collect::<Result<_, _>>()?
            }
        };
        if to.len() != count || from.len() != count {
            return Err(wrong("Argument vector size mismatch"));
        }
        if to
            .iter()
            .chain(&from)
            .any(|register| register.class != ty.class() || register.class == Class::Pred)
        {
            return Err(wrong(format!("a register that holds no {ty}")));
        }
        Ok(Kind::Lanes(Box::new(move |lanes: &mut Lanes<'_>| {
            let values: Vec<_> = from.iter().map(|register| lanes.registers.bits(*register)).collect();
            for (register, bits) in to.iter().zip(&values) {
                lanes.registers.set_bits(*register, bits, lanes.mask);
            }
        })))
    }

    /// The registers of a vector that together have the size of a type.
    fn parts(
        &mut self,
        names: &Names<'_, '_>,
        tokens: &[Token],
        ty: Type,
        written: bool,
    ) -> Result<Vec<Reg>, Refusal> {
        let elements = self.elements(names, tokens)?;
        let count = elements.len();
        let part = match ty.size() / count.max(1) {
            size @ (1 | 2 | 4 | 8) if size * count == ty.size() => Type::B(size as u8),
            _ => return Err(wrong(format!("{count} parts of {} bits", 8 * ty.size()))),
        };
        match elements {
            Elements::Registers(registers) => match registers.iter().find(|it| it.class != part.class()) {
                Some(other) => Err(wrong(format!("a part of {} bits", other.class.bits()))),
                None => Ok(registers),
            },
            Elements::Tokens(all) if written => {
                all.into_iter().map(|tokens| self.to(names, tokens, part)).collect()
            }
            Elements::Tokens(all) => all.into_iter().map(|tokens| self.source(names, tokens, part)).collect(),
        }
    }

    pub(super) fn selp(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let ty = op.ty()?;
        let (to, from) = self.typed(names, operands, ty, [ty, ty, Type::Pred])?;
        fn select<T: Lane>(to: Reg, [a, b, by]: [Reg; 3]) -> Kind {
            Kind::Lanes(Box::new(move |lanes: &mut Lanes<'_>| {
                if are_few(lanes.mask) {
                    return lanes_of(lanes.mask).for_each(|lane| {
                        let chosen = if lanes.one::<bool>(by, lane) { a } else { b };
                        lanes.put(to, lane, lanes.one::<T>(chosen, lane));
                    });
                }
                let (a, b, by) = (lanes.get::<T>(a), lanes.get::<T>(b), lanes.get::<bool>(by));
                lanes.set(to, &each(|lane| if by[lane] { a[lane] } else { b[lane] }));
            }))
        }
        Ok(match ty.class() {
            Class::B16 => select::<u16>(to, from),
            Class::B32 => select::<u32>(to, from),
            Class::B64 => select::<u64>(to, from),
            _ => return Err(unknown(format!("it of type {ty}"))),
        })
    }

    /// The first of two values if the third one is not negative, or else the second.
    pub(super) fn slct(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let ftz = op.has("ftz");
        let (ty, by) = (op.ty()?, op.ty()?);
        let (to, from) = self.typed(names, operands, ty, [ty, ty, by])?;
        macro_rules! choose {
            ($ty:ty) => {
                match by {
                    Type::S(4) => lanes3(to, from, |a: $ty, b: $ty, by: i32| if by >= 0 { a } else { b }),
                    Type::F32 => lanes3(to, from, move |a: $ty, b: $ty, by: f32| {
                        // With `.ftz`, a negative subnormal number counts as zero, which is not negative.
                        if by >= 0.0 || ftz && by.is_subnormal() { a } else { b }
                    }),
                    other => return Err(unknown(format!("it by a number of type {other}"))),
                }
            };
        }
        Ok(match ty.class() {
            Class::B16 => choose!(u16),
            Class::B32 => choose!(u32),
            Class::B64 => choose!(u64),
            _ => return Err(unknown(format!("it of type {ty}"))),
        })
    }

    pub(super) fn cvta(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let to_space = op.has("to");
        let window = window(op.space());
        let ty = op.ty()?;
        if ty.size() != 8 {
            return Err(unknown("addresses of 32 bits"));
        }
        let (to, [from]) = self.alike(names, operands, ty)?;
        Ok(match (window, to_space) {
            (None, _) => copy(to, from),
            (Some(window), true) => lanes1(to, from, move |at: u64| at.wrapping_sub(window)),
            (Some(window), false) => lanes1(to, from, move |at: u64| at.wrapping_add(window)),
        })
    }

    pub(super) fn isspacep(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let constant = op.has("const");
        let space = if constant { Space::Global } else { op.space() };
        let (to, [from]) = self.typed(names, operands, Type::Pred, [Type::U(8)])?;
        if space == Space::Shared {
            return Ok(Kind::Lanes(Box::new(move |lanes: &mut Lanes<'_>| {
                let at = lanes.get::<u64>(from).map(|at| at.wrapping_sub(SHARED_WINDOW));
                let own = each(|lane| at[lane] < WINDOW && lanes.is_own(at[lane]));
                lanes.set(to, &own);
            })));
        }
        Ok(match window(space) {
            // Constants are in global memory here, and cannot be distinguished from it.
            None => {
                lanes1(to, from, move |at: u64| !constant && at.wrapping_sub(SHARED_WINDOW) >= 3 * WINDOW)
            }
            Some(window) => lanes1(to, from, move |at: u64| at.wrapping_sub(window) < WINDOW),
        })
    }
}

/// Where the window of a space in the generic addresses begins; `None` for global memory, whose addresses are generic.
fn window(space: Space) -> Option<u64> {
    match space {
        Space::Shared | Space::Cluster => Some(SHARED_WINDOW),
        Space::Local => Some(LOCAL_WINDOW),
        Space::Param => Some(PARAM_WINDOW),
        Space::Global | Space::Generic => None,
    }
}

/// Concatenates values of `width` bits each, the lowest first.
fn pack(to: Reg, parts: Vec<Reg>, width: u32) -> Kind {
    if let (Class::B64, [low, high]) = (to.class, &parts[..]) {
        return lanes2(to, [*low, *high], |low: u32, high: u32| u64::from(high) << 32 | u64::from(low));
    }
    if let (Class::B32, [low, high]) = (to.class, &parts[..]) {
        return lanes2(to, [*low, *high], |low: u16, high: u16| u32::from(high) << 16 | u32::from(low));
    }
    Kind::Lanes(Box::new(move |lanes: &mut Lanes<'_>| {
        let (mut all, mut shift, mask) = ([0u128; WARP], 0, (1 << width) - 1);
        for part in &parts {
            let bits = lanes.registers.bits(*part);
            all.iter_mut().zip(bits).for_each(|(all, bits)| *all |= (bits & mask) << shift);
            shift += width;
        }
        lanes.registers.set_bits(to, &all, lanes.mask);
    }))
}

fn unpack(parts: Vec<Reg>, from: Reg, width: u32) -> Kind {
    Kind::Lanes(Box::new(move |lanes: &mut Lanes<'_>| {
        let (mut bits, mask) = (lanes.registers.bits(from), (1 << width) - 1);
        for part in &parts {
            lanes.registers.set_bits(*part, &bits.map(|bits| bits & mask), lanes.mask);
            bits.iter_mut().for_each(|bits| *bits >>= width);
        }
    }))
}
