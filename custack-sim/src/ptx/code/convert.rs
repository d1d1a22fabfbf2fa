//! Conversions.

use super::super::arith::convert::{self, How, Kind as Number, convert};
use super::super::arith::round::Rounding;
use super::super::arith::small::{self, Fp8};
use super::super::inst::Kind;
use super::super::run::Reg;
use super::super::types::{Class, Type};
use super::super::{Refusal, unknown, wrong};
use super::floats::ROUNDINGS;
use super::lanes::{lanes1, lanes2, lanes3};
use super::opcode::Opcode;
use super::operands::{Operands, exactly};
use super::{Builder, Names};

const INTEGRAL: &[(&str, Rounding)] =
    &[("rni", Rounding::Nearest), ("rzi", Rounding::Zero), ("rmi", Rounding::Down), ("rpi", Rounding::Up)];

const SMALL: &[(&str, Fp8)] = &[("e4m3x2", Fp8::E4m3), ("e5m2x2", Fp8::E5m2)];

fn number(ty: Type) -> Result<Number, Refusal> {
    Ok(match ty {
        Type::U(1) => Number::U8,
        Type::U(2) => Number::U16,
        Type::U(4) => Number::U32,
        Type::U(8) => Number::U64,
        Type::S(1) => Number::S8,
        Type::S(2) => Number::S16,
        Type::S(4) => Number::S32,
        Type::S(8) => Number::S64,
        Type::F16 => Number::F16,
        Type::Bf16 => Number::Bf16,
        Type::F32 => Number::F32,
        Type::F64 => Number::F64,
        other => return Err(unknown(format!("conversions of type {other}"))),
    })
}

impl Builder<'_> {
    pub(super) fn cvt(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        if op.has("pack") {
            return self.cvt_pack(names, op, operands);
        }
        let (integral, rounding) = (op.one_of(INTEGRAL), op.one_of(ROUNDINGS));
        let how = How {
            rounding: integral.or(rounding).unwrap_or(Rounding::Nearest),
            integral: integral.is_some(),
            ftz: op.has("ftz"),
            sat: op.has("sat"),
            relu: op.has("relu"),
            satfinite: op.has("satfinite"),
        };
        // The type of the result is the first of the two.
        if let Some(format) =
            op.peek().and_then(|to| SMALL.iter().find(|(name, _)| *name == to)).map(|it| it.1)
        {
            op.next();
            return self.cvt_small(names, op, operands, format, how);
        }
        if op.has("tf32") {
            return self.cvt_tf32(names, op, operands, how);
        }
        let to_type = op.ty()?;
        if matches!(to_type, Type::F16x2 | Type::Bf16x2) {
            return self.cvt_halves(names, op, operands, to_type, how);
        }
        let from_type = op.ty()?;
        let [to, from] = exactly(operands)?;
        let (to, from) = (self.any_to(names, to, to_type)?, self.any_source(names, from, from_type)?);
        let (to_bits, from_bits) = (to_type.class().bits(), from_type.class().bits());
        if to.class.bits() < to_bits || from.class.bits() < from_bits {
            return Err(wrong("a register has fewer bits than its type"));
        }
        if !from_type.is_float() && !to_type.is_float() && (integral.is_some() || rounding.is_some()) {
            return Err(wrong("integers are not rounded"));
        }
        if from_type.is_float() && !to_type.is_float() && integral.is_none() {
            return Err(wrong("a conversion to an integer says how it rounds"));
        }
        converted(to, from, number(to_type)?, number(from_type)?, how)
    }

    /// A conversion to two floats of 16 bits, from two of 8 or 32 bits.
    fn cvt_halves(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
        to_type: Type,
        how: How,
    ) -> Result<Kind, Refusal> {
        if let Some(format) = op.one_of(SMALL) {
            if to_type != Type::F16x2 || how.ftz || how.sat || how.satfinite {
                return Err(unknown("this conversion from floats of 8 bits"));
            }
            let (to, [from]) = self.typed(names, operands, Type::F16x2, [Type::B(2)])?;
            let relu = |bits: u32| if bits >> 15 & 1 != 0 { bits & 0xffff_0000 } else { bits };
            let relu = move |bits: u32| {
                if how.relu { relu(relu(bits).rotate_left(16)).rotate_left(16) } else { bits }
            };
            return Ok(lanes1(to, from, move |a: u16| relu(format.unpack(a))));
        }
        let half = if to_type == Type::F16x2 { Number::F16 } else { Number::Bf16 };
        let from = op.ty()?;
        let (to, from) = self.typed(names, operands, to_type, [from, from])?;
        Ok(lanes2(to, from, move |a, b| convert::convert2(half, how, a, b)))
    }

    /// A conversion to two floats of 8 bits.
    fn cvt_small(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
        format: Fp8,
        how: How,
    ) -> Result<Kind, Refusal> {
        let from = op.ty()?;
        let relu = move |bits: u16| if how.relu { relu(format, bits) } else { bits };
        match from {
            Type::F32 => {
                let (to, from) = self.typed(names, operands, Type::B(2), [Type::F32, Type::F32])?;
                Ok(lanes2(to, from, move |a, b| relu(format.pack(a, b))))
            }
            Type::F16x2 => {
                let (to, [from]) = self.typed(names, operands, Type::B(2), [Type::F16x2])?;
                Ok(lanes1(to, from, move |a| relu(format.pack_halves(a))))
            }
            other => Err(unknown(format!("conversions of type {other} to 8 bits"))),
        }
    }

    fn cvt_tf32(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
        how: How,
    ) -> Result<Kind, Refusal> {
        let away = op.has("rna");
        if op.ty()? != Type::F32 {
            return Err(unknown("conversions to .tf32 of another type than .f32"));
        }
        let (to, [from]) = self.typed(names, operands, Type::B(4), [Type::F32])?;
        Ok(lanes1(to, from, move |a: f32| {
            let bits = if away { small::tf32_away(a) } else { small::tf32(a, how.rounding) };
            let bits = if how.satfinite { small::tf32_finite(bits) } else { bits };
            if how.relu { small::tf32_relu(bits) } else { bits }
        }))
    }

    fn cvt_pack(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        if !op.has("sat") {
            return Err(unknown("packing without .sat"));
        }
        let (size, from) = match op.next() {
            Some("u2") => ((false, 2), op.ty()?),
            Some("s2") => ((true, 2), op.ty()?),
            Some("u4") => ((false, 4), op.ty()?),
            Some("s4") => ((true, 4), op.ty()?),
            Some("u8") => ((false, 8), op.ty()?),
            Some("s8") => ((true, 8), op.ty()?),
            Some("u16") => ((false, 16), op.ty()?),
            Some("s16") => ((true, 16), op.ty()?),
            _ => return Err(unknown("packing to this type")),
        };
        if from != Type::S(4) {
            return Err(unknown(format!("packing of type {from}")));
        }
        let (signed, bits) = size;
        if operands.len() == 4 {
            op.has_type();
            let (to, from) = self.alike(names, operands, Type::B(4))?;
            return Ok(lanes3(to, from, move |a, b, c| convert::pack(signed, bits, a, b, c)));
        }
        let (to, from) = self.typed(names, operands, Type::B(4), [Type::S(4), Type::S(4)])?;
        Ok(lanes2(to, from, move |a, b| convert::pack(signed, bits, a, b, 0)))
    }
}

fn relu(format: Fp8, bits: u16) -> u16 {
    let [low, high] = bits.to_le_bytes();
    u16::from_le_bytes([format.relu(low), format.relu(high)])
}

/// A conversion between registers of any class.
fn converted(to: Reg, from: Reg, to_number: Number, from_number: Number, how: How) -> Result<Kind, Refusal> {
    let plain = how == How::rounded(Rounding::Nearest);
    match (to_number, from_number, to.class, from.class) {
        (Number::U64, Number::U32, Class::B64, Class::B32) if !how.sat => {
            return Ok(lanes1(to, from, |a: u32| u64::from(a)));
        }
        (Number::S64, Number::S32, Class::B64, Class::B32) if !how.sat => {
            return Ok(lanes1(to, from, |a: i32| i64::from(a)));
        }
        (Number::U32 | Number::S32, Number::U64 | Number::S64, Class::B32, Class::B64) if !how.sat => {
            return Ok(lanes1(to, from, |a: u64| a as u32));
        }
        (Number::F32, Number::S32, Class::B32, Class::B32) if plain => {
            return Ok(lanes1(to, from, |a: i32| a as f32));
        }
        (Number::F64, Number::S32, Class::B64, Class::B32) if plain => {
            return Ok(lanes1(to, from, |a: i32| f64::from(a)));
        }
        (Number::F64, Number::U32, Class::B64, Class::B32) if plain => {
            return Ok(lanes1(to, from, |a: u32| f64::from(a)));
        }
        _ => {}
    }
    macro_rules! with {
        ($($to:ident $r:ty, $from:ident $a:ty;)*) => {
            match (to.class, from.class) {
                $((Class::$to, Class::$from) => Ok(lanes1(to, from, move |a: $a| {
                    convert(to_number, from_number, how, a.into()) as $r
                })),)*
                _ => Err(unknown("conversions of these registers")),
            }
        };
    }
    with! {
        B16 u16, B16 u16;
        B16 u16, B32 u32;
        B16 u16, B64 u64;
        B32 u32, B16 u16;
        B32 u32, B32 u32;
        B32 u32, B64 u64;
        B64 u64, B16 u16;
        B64 u64, B32 u32;
        B64 u64, B64 u64;
    }
}
