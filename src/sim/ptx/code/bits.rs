//! Bits of integers: logic, shifts, fields, bytes, products of parts.

use super::super::arith::bits::{self, Permute};
use super::super::arith::compare::Compare;
use super::super::arith::int::Int;
use super::super::arith::simd::{self, Part, Second, Video};
use super::super::inst::Kind;
use super::super::run::{Lanes, WARP, pack};
use super::super::tokens::Token;
use super::super::types::{Class, Type};
use super::super::{Refusal, unknown, wrong};
use super::arithmetic::with_int;
use super::compare::results;
use super::lanes::{lanes1, lanes2, lanes3, lanes4, predicates};
use super::opcode::Opcode;
use super::operands::Operands;
use super::{Builder, Names};

impl Builder<'_> {
    pub(super) fn logic(&mut self, names: &Names<'_, '_>, op: &mut Opcode<'_>, operands: Operands<'_, '_>) -> Result<Kind, Refusal> {
        let (name, ty) = (op.name, op.ty()?);
        let (to, from) = self.alike(names, operands, ty)?;
        macro_rules! of {
            ($make:ident $(, $ty:ty)?) => {
                match name {
                    "and" => $make(to, from, |a $(: $ty)?, b $(: $ty)?| a & b),
                    "or" => $make(to, from, |a $(: $ty)?, b $(: $ty)?| a | b),
                    _ => $make(to, from, |a $(: $ty)?, b $(: $ty)?| a ^ b),
                }
            };
        }
        Ok(match ty.class() {
            Class::Pred => of!(predicates),
            Class::B16 => of!(lanes2, u16),
            Class::B32 => of!(lanes2, u32),
            Class::B64 => of!(lanes2, u64),
            Class::B128 => return Err(unknown(format!("it of type {ty}"))),
        })
    }

    pub(super) fn not(&mut self, names: &Names<'_, '_>, op: &mut Opcode<'_>, operands: Operands<'_, '_>) -> Result<Kind, Refusal> {
        let ty = op.ty()?;
        let (to, [from]) = self.alike(names, operands, ty)?;
        Ok(match ty.class() {
            Class::Pred => predicates(to, [from, from], |a, _| !a),
            Class::B16 => lanes1(to, from, |a: u16| !a),
            Class::B32 => lanes1(to, from, |a: u32| !a),
            Class::B64 => lanes1(to, from, |a: u64| !a),
            Class::B128 => return Err(unknown(format!("it of type {ty}"))),
        })
    }

    pub(super) fn cnot(&mut self, names: &Names<'_, '_>, op: &mut Opcode<'_>, operands: Operands<'_, '_>) -> Result<Kind, Refusal> {
        let ty = op.ty()?;
        let (to, [from]) = self.alike(names, operands, ty)?;
        with_int!(ty, T => lanes1(to, from, <T as Int>::cnot))
    }

    pub(super) fn lop3(&mut self, names: &Names<'_, '_>, op: &mut Opcode<'_>, operands: Operands<'_, '_>) -> Result<Kind, Refusal> {
        let (combine, ty) = (op.one_of(&[("or", false), ("and", true)]), op.ty()?);
        let [to, a, b, c, [Token::Int(table)], with @ ..] = operands else {
            return Err(wrong("its table is a number"));
        };
        let table = u8::try_from(*table).map_err(|_| wrong("its table has 8 bits"))?;
        let (to, second) = results(to);
        let (to, from) = self.alike(names, &[to, a, b, c], ty)?;
        let (and, second, with) = match (combine, self.second_predicate(names, second)?, with) {
            (None, None, []) => return Ok(lanes3(to, from, move |a, b, c| bits::lop3(a, b, c, table))),
            (Some(and), Some(second), [with]) => (and, second, self.source(names, with, Type::Pred)?),
            _ => return Err(wrong("a predicate goes with .or and .and")),
        };
        Ok(Kind::Lanes(Box::new(move |lanes: &mut Lanes<'_>| {
            let [a, b, c] = from.map(|from| lanes.get::<u32>(from));
            let values: [u32; WARP] = std::array::from_fn(|lane| bits::lop3(a[lane], b[lane], c[lane], table));
            let (set, with) = (pack(&values.map(|value| value != 0)), lanes.registers.predicate(with.at));
            lanes.set(to, &values);
            lanes.registers.set_predicate(second.at, if and { set & with } else { set | with }, lanes.mask);
        })))
    }

    pub(super) fn shift(&mut self, names: &Names<'_, '_>, op: &mut Opcode<'_>, operands: Operands<'_, '_>) -> Result<Kind, Refusal> {
        let (left, ty) = (op.name == "shl", op.ty()?);
        let (to, from) = self.typed(names, operands, ty, [ty, Type::U(4)])?;
        with_int!(ty, T => if left {
            lanes2(to, from, <T as Int>::shl)
        } else {
            lanes2(to, from, <T as Int>::shr)
        })
    }

    pub(super) fn funnel(&mut self, names: &Names<'_, '_>, op: &mut Opcode<'_>, operands: Operands<'_, '_>) -> Result<Kind, Refusal> {
        let left = op.one_of(&[("l", true), ("r", false)]).ok_or_else(|| unknown("it without .l or .r"))?;
        let wrap = op.one_of(&[("wrap", true), ("clamp", false)]).ok_or_else(|| unknown("it without .wrap or .clamp"))?;
        let ty = op.ty()?;
        let (to, from) = self.alike(names, operands, ty)?;
        Ok(if left {
            lanes3(to, from, move |a, b, by| bits::shf_l(wrap, a, b, by))
        } else {
            lanes3(to, from, move |a, b, by| bits::shf_r(wrap, a, b, by))
        })
    }

    /// `popc` and `clz`.
    pub(super) fn count_bits(&mut self, names: &Names<'_, '_>, op: &mut Opcode<'_>, operands: Operands<'_, '_>) -> Result<Kind, Refusal> {
        let (ones, ty) = (op.name == "popc", op.ty()?);
        let (to, [from]) = self.typed(names, operands, Type::U(4), [ty])?;
        with_int!(ty, T => if ones { lanes1(to, from, <T as Int>::popc) } else { lanes1(to, from, <T as Int>::clz) })
    }

    pub(super) fn brev(&mut self, names: &Names<'_, '_>, op: &mut Opcode<'_>, operands: Operands<'_, '_>) -> Result<Kind, Refusal> {
        let ty = op.ty()?;
        let (to, [from]) = self.alike(names, operands, ty)?;
        with_int!(ty, T => lanes1(to, from, <T as Int>::brev))
    }

    pub(super) fn bfind(&mut self, names: &Names<'_, '_>, op: &mut Opcode<'_>, operands: Operands<'_, '_>) -> Result<Kind, Refusal> {
        let (amount, ty) = (op.has("shiftamt"), op.ty()?);
        let (to, [from]) = self.typed(names, operands, Type::U(4), [ty])?;
        with_int!(ty, T => if amount {
            lanes1(to, from, <T as Int>::bfind_shift)
        } else {
            lanes1(to, from, <T as Int>::bfind)
        })
    }

    pub(super) fn fns(&mut self, names: &Names<'_, '_>, op: &mut Opcode<'_>, operands: Operands<'_, '_>) -> Result<Kind, Refusal> {
        let ty = op.ty()?;
        let (to, from) = self.typed(names, operands, ty, [ty, Type::U(4), Type::S(4)])?;
        Ok(lanes3(to, from, bits::fns))
    }

    pub(super) fn bfe(&mut self, names: &Names<'_, '_>, op: &mut Opcode<'_>, operands: Operands<'_, '_>) -> Result<Kind, Refusal> {
        let ty = op.ty()?;
        let (to, from) = self.typed(names, operands, ty, [ty, Type::U(4), Type::U(4)])?;
        with_int!(ty, T => lanes3(to, from, <T as Int>::bfe))
    }

    pub(super) fn bfi(&mut self, names: &Names<'_, '_>, op: &mut Opcode<'_>, operands: Operands<'_, '_>) -> Result<Kind, Refusal> {
        let ty = op.ty()?;
        let (to, from) = self.typed(names, operands, ty, [ty, ty, Type::U(4), Type::U(4)])?;
        Ok(match ty.class() {
            Class::B32 => lanes4(to, from, bits::bfi32),
            Class::B64 => lanes4(to, from, bits::bfi64),
            _ => return Err(unknown(format!("it of type {ty}"))),
        })
    }

    pub(super) fn prmt(&mut self, names: &Names<'_, '_>, op: &mut Opcode<'_>, operands: Operands<'_, '_>) -> Result<Kind, Refusal> {
        let modes = [
            ("f4e", Permute::F4e),
            ("b4e", Permute::B4e),
            ("rc8", Permute::Rc8),
            ("ecl", Permute::Ecl),
            ("ecr", Permute::Ecr),
            ("rc16", Permute::Rc16),
        ];
        let (mode, ty) = (op.one_of(&modes).unwrap_or(Permute::Plain), op.ty()?);
        let (to, from) = self.alike(names, operands, ty)?;
        Ok(lanes3(to, from, move |a, b, selector| bits::prmt(mode, a, b, selector)))
    }

    pub(super) fn bmsk(&mut self, names: &Names<'_, '_>, op: &mut Opcode<'_>, operands: Operands<'_, '_>) -> Result<Kind, Refusal> {
        let wrap = op.one_of(&[("wrap", true), ("clamp", false)]).ok_or_else(|| unknown("it without .wrap or .clamp"))?;
        let ty = op.ty()?;
        let (to, from) = self.alike(names, operands, ty)?;
        Ok(lanes2(to, from, move |a, b| bits::bmsk(wrap, a, b)))
    }

    pub(super) fn szext(&mut self, names: &Names<'_, '_>, op: &mut Opcode<'_>, operands: Operands<'_, '_>) -> Result<Kind, Refusal> {
        let wrap = op.one_of(&[("wrap", true), ("clamp", false)]).ok_or_else(|| unknown("it without .wrap or .clamp"))?;
        let ty = op.ty()?;
        let (to, from) = self.typed(names, operands, Type::U(4), [Type::U(4), Type::U(4)])?;
        Ok(lanes2(to, from, move |a, b| bits::szext(wrap, ty.is_signed(), a, b)))
    }

    pub(super) fn dp4a(&mut self, names: &Names<'_, '_>, op: &mut Opcode<'_>, operands: Operands<'_, '_>) -> Result<Kind, Refusal> {
        let [a_signed, b_signed] = [op.ty()?.is_signed(), op.ty()?.is_signed()];
        let (to, from) = self.alike(names, operands, Type::U(4))?;
        Ok(lanes3(to, from, move |a, b, c| bits::dp4a(a_signed, b_signed, a, b, c)))
    }

    pub(super) fn dp2a(&mut self, names: &Names<'_, '_>, op: &mut Opcode<'_>, operands: Operands<'_, '_>) -> Result<Kind, Refusal> {
        let hi = op.one_of(&[("hi", true), ("lo", false)]).ok_or_else(|| unknown("it without .lo or .hi"))?;
        let [a_signed, b_signed] = [op.ty()?.is_signed(), op.ty()?.is_signed()];
        let (to, from) = self.alike(names, operands, Type::U(4))?;
        Ok(lanes3(to, from, move |a, b, c| bits::dp2a(hi, a_signed, b_signed, a, b, c)))
    }
}

/// The comparisons of the video instructions.
const COMPARISONS: &[(&str, Compare)] = &[
    ("eq", Compare::Eq),
    ("ne", Compare::Ne),
    ("lt", Compare::Lt),
    ("le", Compare::Le),
    ("gt", Compare::Gt),
    ("ge", Compare::Ge),
];

const WRAP: &[(&str, bool)] = &[("wrap", true), ("clamp", false)];

/// What an instruction computes, by its name without the number of its lanes.
fn video_of(op: &mut Opcode<'_>) -> Result<Video, Refusal> {
    Ok(match op.name.trim_end_matches(['2', '4']) {
        "vadd" => Video::Add,
        "vsub" => Video::Sub,
        "vabsdiff" => Video::AbsDiff,
        "vmin" => Video::Min,
        "vmax" => Video::Max,
        "vavrg" => Video::Average,
        "vshl" => Video::Shl(op.one_of(WRAP).ok_or_else(|| unknown("it without .wrap or .clamp"))?),
        "vshr" => Video::Shr(op.one_of(WRAP).ok_or_else(|| unknown("it without .wrap or .clamp"))?),
        _ => Video::Set(op.one_of(COMPARISONS).ok_or_else(|| unknown("it without a comparison"))?),
    })
}

/// A register and the part of it that is meant: `%r1.b3`.
fn selected(tokens: &[Token]) -> (Vec<Token>, Part) {
    if let [Token::Word(name)] = tokens {
        let part = name.rsplit_once('.').and_then(|(base, part)| {
            let at = part.get(1..)?.parse().ok()?;
            let part = match part.as_bytes().first()? {
                b'h' if at < 2 => Part::Half(at),
                b'b' if at < 4 => Part::Byte(at),
                _ => return None,
            };
            Some((vec![Token::Word(base.to_owned())], part))
        });
        if let Some(part) = part {
            return part;
        }
    }
    (tokens.to_vec(), Part::Word)
}

impl Builder<'_> {
    /// The scalar video instructions.
    pub(super) fn video(&mut self, names: &Names<'_, '_>, op: &mut Opcode<'_>, operands: Operands<'_, '_>) -> Result<Kind, Refusal> {
        let video = video_of(op)?;
        // The result of a comparison is no number with a sign.
        let d = if matches!(video, Video::Set(_)) { Type::U(4) } else { op.ty()? };
        let [a_type, b_type] = [op.ty()?, op.ty()?];
        let sat = op.has("sat");
        let second = op.one_of(&[("add", Second::Add), ("min", Second::Min), ("max", Second::Max)]);
        let [to, a, b, rest @ ..] = operands else { return Err(wrong("it takes three operands or four")) };
        let ((to, part), (a, a_part), (b, b_part)) = (selected(to), selected(a), selected(b));
        let second = match (part, second, rest) {
            (Part::Word, None, []) => Second::Nothing,
            (Part::Word, Some(second), [_]) => second,
            (part, None, [_]) if part != Part::Word => Second::Merge(part),
            _ => return Err(unknown("these operands of it")),
        };
        let how = simd::Scalar {
            op: video,
            a: a_part,
            b: b_part,
            a_signed: a_type.is_signed(),
            b_signed: b_type.is_signed(),
            d_signed: d.is_signed(),
            sat,
            second,
        };
        let zero = [Token::Int(0)];
        let c = rest.first().copied().unwrap_or(&zero);
        let (to, from) = self.alike(names, &[&to, &a, &b, c], Type::U(4))?;
        Ok(lanes3(to, from, move |a, b, c| simd::scalar(how, a, b, c)))
    }

    pub(super) fn vmad(&mut self, names: &Names<'_, '_>, op: &mut Opcode<'_>, operands: Operands<'_, '_>) -> Result<Kind, Refusal> {
        let [_, a_type, b_type] = [op.ty()?, op.ty()?, op.ty()?];
        let (plus_one, sat) = (op.has("po"), op.has("sat"));
        let scale = op.one_of(&[("shr7", 7), ("shr15", 15)]).unwrap_or(0);
        let [to, a, b, c] = operands else { return Err(wrong("it takes four operands")) };
        let sign = |tokens: &[Token]| match tokens {
            [Token::Sign('-'), rest @ ..] => (rest.to_vec(), true),
            rest => (rest.to_vec(), false),
        };
        let ((a, minus_a), (b, minus_b), (c, negate_c)) = (sign(a), sign(b), sign(c));
        let ((a, a_part), (b, b_part)) = (selected(&a), selected(&b));
        let how = simd::Mad {
            a: a_part,
            b: b_part,
            a_signed: a_type.is_signed(),
            b_signed: b_type.is_signed(),
            negate_product: minus_a != minus_b,
            negate_c,
            plus_one,
            sat,
            scale,
        };
        let (to, from) = self.alike(names, &[to, &a, &b, &c], Type::U(4))?;
        Ok(lanes3(to, from, move |a, b, c| simd::mad(how, a, b, c)))
    }

    /// Those of two halves or four bytes.
    pub(super) fn video_lanes(&mut self, names: &Names<'_, '_>, op: &mut Opcode<'_>, operands: Operands<'_, '_>) -> Result<Kind, Refusal> {
        let count = if op.name.ends_with('2') { 2 } else { 4 };
        let video = video_of(op)?;
        let d = if matches!(video, Video::Set(_)) { Type::U(4) } else { op.ty()? };
        let [a_type, b_type] = [op.ty()?, op.ty()?];
        let (sat, add) = (op.has("sat"), op.has("add"));
        let [to, a, b, c] = operands else { return Err(wrong("it takes four operands")) };
        let plain: [u8; 4] = [0, 1, 2, 3];
        let own = |tokens: &[Token], first: u8| {
            let order = plain.map(|lane| lane % count + first);
            let [Token::Word(name)] = tokens else { return (tokens.to_vec(), order) };
            let letter = if count == 2 { 'h' } else { 'b' };
            let Some((base, selector)) = name.rsplit_once('.') else { return (tokens.to_vec(), order) };
            let Some(digits) = selector.strip_prefix(letter) else { return (tokens.to_vec(), order) };
            let mut lanes = order;
            // The highest comes first.
            for (lane, digit) in lanes.iter_mut().zip(digits.bytes().rev()) {
                *lane = digit.wrapping_sub(b'0');
            }
            (vec![Token::Word(base.to_owned())], lanes)
        };
        let ((a, a_lanes), (b, b_lanes)) = (own(a, 0), own(b, count));
        let (to, mask) = match to {
            [Token::Word(name)] => match name.rsplit_once('.') {
                Some((base, mask)) if !name.starts_with('.') && mask.bytes().all(|it| b"hb0123".contains(&it)) => {
                    let mask = mask[1..].bytes().fold(0u8, |all, digit| all | 1 << (digit.wrapping_sub(b'0') & 7));
                    (vec![Token::Word(base.to_owned())], mask)
                }
                _ => (to.to_vec(), u8::MAX),
            },
            other => (other.to_vec(), u8::MAX),
        };
        let how = simd::Lanes {
            op: video,
            count: count.into(),
            a: a_lanes,
            b: b_lanes,
            a_signed: a_type.is_signed(),
            b_signed: b_type.is_signed(),
            d_signed: d.is_signed(),
            sat,
            add,
            mask,
        };
        let (to, from) = self.alike(names, &[&to, &a, &b, c], Type::U(4))?;
        Ok(lanes3(to, from, move |a, b, c| simd::lanes(how, a, b, c)))
    }
}
