//! The video instructions: arithmetic on bytes and halves of words.

use super::super::arith::compare::Compare;
use super::super::arith::simd::{self, Part, Second, Video};
use super::super::inst::Kind;
use super::super::tokens::Token;
use super::super::types::Type;
use super::super::{Refusal, unknown, wrong};
use super::lanes::lanes3;
use super::opcode::Opcode;
use super::operands::Operands;
use super::{Builder, Names};

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

/// The operation of an opcode, from its name without the number of lanes.
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

/// A register and the part of it that is selected, as in `%r1.b3`.
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

/// An H200 computes some of these in other ways than the manual says, so they are refused: with a selected part, or
/// with an unsigned sum, `.sat` clamps more than the result; with `min` and `max` some signs differ.
fn otherwise() -> Refusal {
    unknown("it with these modifiers, as an H200 does not compute what the manual says")
}

impl Builder<'_> {
    /// The scalar video instructions.
    pub(super) fn video(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let video = video_of(op)?;
        // The result of a comparison is unsigned.
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
        let is_combined = matches!(second, Second::Min | Second::Max);
        let is_sum = matches!(video, Video::Add | Video::Sub | Video::AbsDiff);
        let saturates = part != Part::Word || matches!(video, Video::Shl(_)) || is_sum && !d.is_signed();
        let is_merged_set = part != Part::Word && matches!(video, Video::Set(_));
        if is_combined || sat && saturates || is_merged_set {
            return Err(otherwise());
        }
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

    pub(super) fn vmad(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let [d, a_type, b_type] = [op.ty()?, op.ty()?, op.ty()?];
        let (plus_one, sat) = (op.has("po"), op.has("sat"));
        let scale = op.one_of(&[("shr7", 7), ("shr15", 15)]).unwrap_or(0);
        if sat || scale == 15 || !d.is_signed() {
            return Err(otherwise());
        }
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

    /// The video instructions on two halves or four bytes.
    pub(super) fn video_lanes(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
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
            // The text names the highest lane first.
            for (lane, digit) in lanes.iter_mut().zip(digits.bytes().rev()) {
                *lane = digit.wrapping_sub(b'0');
            }
            (vec![Token::Word(base.to_owned())], lanes)
        };
        let ((a, a_lanes), (b, b_lanes)) = (own(a, 0), own(b, count));
        let (to, mask) = match to {
            [Token::Word(name)] => match name.rsplit_once('.') {
                Some((base, mask))
                    if !name.starts_with('.') && mask.bytes().all(|it| b"hb0123".contains(&it)) =>
                {
                    let mask =
                        mask[1..].bytes().fold(0u8, |all, digit| all | 1 << (digit.wrapping_sub(b'0') & 7));
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
