//! Barriers, and instructions by which the lanes of a warp exchange values.

use super::super::inst::{Barrier, Exchange, Given, How, Kind, Reduce};
use super::super::run::{Lanes, Reg, WARP, each, lanes_of};
use super::super::tokens::Token;
use super::super::types::{Class, Type};
use super::super::{Refusal, unknown, wrong};
use super::compare::results;
use super::lanes::uniform;
use super::memory::Order;
use super::opcode::Opcode;
use super::operands::{Operands, exactly};
use super::{Builder, Names};
use std::array::from_fn;

impl Builder<'_> {
    pub(super) fn barrier(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        if op.has("warp") {
            if !op.has("sync") {
                return Err(unknown("this barrier of a warp"));
            }
            let [members] = exactly(operands)?;
            return Ok(Kind::Converge(self.source(names, members, Type::U(4))?));
        }
        op.has("aligned");
        if op.has("cluster") {
            return self.barrier_of_cluster(op, operands);
        }
        op.has("cta");
        let what =
            op.one_of(&[("sync", 0), ("arrive", 1), ("red", 2)]).ok_or_else(|| unknown("this barrier"))?;
        let mut operands = operands.to_vec();
        let mut reduce = None;
        if what == 2 {
            let how = op.one_of(&[("popc", How::Count), ("and", How::All), ("or", How::Any)]);
            let (how, ty) = (how.ok_or_else(|| unknown("this barrier"))?, op.ty()?);
            if operands.len() < 3 {
                return Err(wrong("it takes three operands or four"));
            }
            let (to, of) = (operands.remove(0), operands.pop().unwrap_or_default());
            let (of, is_negated) = match of {
                [Token::Sign('!'), rest @ ..] => (rest, true),
                other => (other, false),
            };
            let (to, of) = (self.to(names, to, ty)?, self.source(names, of, Type::Pred)?);
            reduce = Some(Reduce { of, is_negated, to, how });
        }
        let number = match operands.first() {
            Some([Token::Int(number)]) if !(0..16).contains(number) => {
                return Err(wrong(format!("there is no barrier {number}")));
            }
            Some(tokens) => self.source(names, tokens, Type::U(4))?,
            None => self.bits(Class::B32, 0),
        };
        let count = operands.get(1).map(|tokens| self.source(names, tokens, Type::U(4))).transpose()?;
        if operands.len() > 2 || what == 1 && count.is_none() {
            return Err(wrong(format!("{} operands", operands.len())));
        }
        Ok(Kind::Barrier(Barrier {
            number,
            count,
            arrives: true,
            waits: what != 1,
            is_of_cluster: false,
            reduce,
        }))
    }

    /// `barrier.cluster`.
    fn barrier_of_cluster(
        &mut self,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let arrives =
            op.one_of(&[("arrive", true), ("wait", false)]).ok_or_else(|| unknown("this barrier"))?;
        Order::of(op);
        let [] = exactly(operands)?;
        let number = self.bits(Class::B32, 16);
        Ok(Kind::Barrier(Barrier {
            number,
            count: None,
            arrives,
            waits: !arrives,
            is_of_cluster: true,
            reduce: None,
        }))
    }

    pub(super) fn activemask(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let ty = op.ty()?;
        let [to] = exactly(operands)?;
        let to = self.to(names, to, ty)?;
        Ok(uniform(to, |lanes| lanes.mask.into()))
    }

    pub(super) fn shfl(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let is_sync = self.is_sync(op)?;
        let modes = [("up", Mode::Up), ("down", Mode::Down), ("bfly", Mode::Butterfly), ("idx", Mode::Index)];
        let mode = op.one_of(&modes).ok_or_else(|| unknown("it without a mode"))?;
        let ty = op.ty()?;
        let ([to, from, by, clamp], members) = with_members(operands, is_sync)?;
        let (to, second) = results(to);
        let (to, second) = (self.to(names, to, ty)?, self.second_predicate(names, second)?);
        let from = self.source(names, from, ty)?;
        let [by, clamp] = [self.source(names, by, Type::U(4))?, self.source(names, clamp, Type::U(4))?];
        let take = move |lanes: &mut Lanes<'_>, given: &Given, _: u32| {
            let (by, clamp) = (lanes.get::<u32>(by), lanes.get::<u32>(clamp));
            let sources: [(usize, bool); WARP] =
                from_fn(|lane| mode.source(lane as i32, by[lane], clamp[lane]));
            lanes.set::<u32>(to, &sources.map(|(source, _)| given[source] as u32));
            if let Some(second) = second {
                lanes.set::<bool>(second, &sources.map(|(_, is_inside)| is_inside));
            }
        };
        self.together(names, members, words(from), take)
    }

    /// Whether an instruction names the lanes that take part. Texts for older devices need not do so.
    fn is_sync(&self, op: &mut Opcode<'_>) -> Result<bool, Refusal> {
        let is_sync = op.has("sync");
        if !is_sync && self.program.version >= 64 && self.program.target >= 70 {
            let why = "without '.sync' is not supported on .target sm_70 and higher from PTX ISA version 6.4";
            return Err(wrong(format!("Instruction '{}' {why}", op.name)));
        }
        Ok(is_sync)
    }

    /// An exchange between the lanes that are named, or, if none are, between those that execute it together.
    fn together(
        &mut self,
        names: &Names<'_, '_>,
        members: Option<&[Token]>,
        give: impl Fn(&Lanes<'_>) -> Given + Send + Sync + 'static,
        take: impl Fn(&mut Lanes<'_>, &Given, u32) + Send + Sync + 'static,
    ) -> Result<Kind, Refusal> {
        Ok(match members {
            Some(members) => exchange(self.source(names, members, Type::U(4))?, give, take),
            None => Kind::Lanes(Box::new(move |lanes| {
                let (given, here) = (give(lanes), lanes.mask);
                take(lanes, &given, here);
            })),
        })
    }

    pub(super) fn vote(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let is_sync = self.is_sync(op)?;
        let how = op.one_of(&[("all", 0), ("any", 1), ("uni", 2), ("ballot", 3)]);
        let (how, ty) = (how.ok_or_else(|| unknown("it without a mode"))?, op.ty()?);
        let ([to, of], members) = with_members(operands, is_sync)?;
        let (to, of) = (self.to(names, to, ty)?, self.source(names, of, Type::Pred)?);
        if (how == 3) != (to.class == Class::B32) {
            return Err(wrong(format!("a result of type {ty}")));
        }
        let give = move |lanes: &Lanes<'_>| [lanes.registers.predicate(of.at).into(); WARP];
        let take = move |lanes: &mut Lanes<'_>, given: &Given, here: u32| {
            let set = lanes_of(here).fold(0, |set, lane| set | given[lane] as u32 & 1 << lane);
            let mask = lanes.mask;
            let all = |holds: bool| if holds { u32::MAX } else { 0 };
            match how {
                0 => lanes.registers.set_predicate(to.at, all(set == here), mask),
                1 => lanes.registers.set_predicate(to.at, all(set != 0), mask),
                2 => lanes.registers.set_predicate(to.at, all(set == here || set == 0), mask),
                _ => lanes.set::<u32>(to, &[set; WARP]),
            }
        };
        self.together(names, members, give, take)
    }

    pub(super) fn match_lanes(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let all = op.one_of(&[("all", true), ("any", false)]).ok_or_else(|| unknown("it without a mode"))?;
        if !op.has("sync") {
            return Err(wrong("it is with .sync only"));
        }
        let ty = op.ty()?;
        let [to, from, members] = exactly(operands)?;
        let (to, second) = results(to);
        let (to, second) = (self.to(names, to, Type::U(4))?, self.second_predicate(names, second)?);
        let (from, members) = (self.source(names, from, ty)?, self.source(names, members, Type::U(4))?);
        let give = move |lanes: &Lanes<'_>| lanes.registers.bits(from).map(|bits| bits as u64);
        Ok(exchange(members, give, move |lanes, given, here| {
            let same = |lane: usize| {
                lanes_of(here)
                    .filter(|other| given[*other] == given[lane])
                    .fold(0u32, |found, it| found | 1 << it)
            };
            let found: [u32; WARP] = from_fn(|lane| if here >> lane & 1 != 0 { same(lane) } else { 0 });
            if all {
                let agree = lanes_of(here).all(|lane| found[lane] == here);
                lanes.set::<u32>(to, &[if agree { here } else { 0 }; WARP]);
                if let Some(second) = second {
                    lanes.set::<bool>(second, &[agree; WARP]);
                }
            } else {
                lanes.set::<u32>(to, &found);
            }
        }))
    }

    pub(super) fn redux(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        if !op.has("sync") {
            return Err(wrong("it is with .sync only"));
        }
        let how = op.one_of(&[("add", 0), ("min", 1), ("max", 2), ("and", 3), ("or", 4), ("xor", 5)]);
        let (how, ty) = (how.ok_or_else(|| unknown("this operation"))?, op.ty()?);
        let [to, from, members] = exactly(operands)?;
        let (to, from) = (self.to(names, to, ty)?, self.source(names, from, ty)?);
        let members = self.source(names, members, Type::U(4))?;
        if ty.is_float() || ty.size() != 4 {
            return Err(unknown(format!("it of type {ty}")));
        }
        let signed = ty.is_signed();
        let with = move |a: u32, b: u32| match (how, signed) {
            (0, _) => a.wrapping_add(b),
            (1, true) => (a as i32).min(b as i32) as u32,
            (1, false) => a.min(b),
            (2, true) => (a as i32).max(b as i32) as u32,
            (2, false) => a.max(b),
            (3, _) => a & b,
            (4, _) => a | b,
            _ => a ^ b,
        };
        Ok(exchange(members, words(from), move |lanes, given, here| {
            let all = lanes_of(here).map(|lane| given[lane] as u32).reduce(with);
            lanes.set::<u32>(to, &[all.unwrap_or_default(); WARP]);
        }))
    }

    /// Elects one of the named lanes, the first.
    pub(super) fn elect(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        if !op.has("sync") {
            return Err(wrong("it is with .sync only"));
        }
        let [to, members] = exactly(operands)?;
        let (to, second) = results(to);
        let second = self.second_predicate(names, second)?.ok_or_else(|| wrong("it gives a predicate"))?;
        let (to, members) = (self.to(names, to, Type::U(4))?, self.source(names, members, Type::U(4))?);
        Ok(exchange(
            members,
            |_| [0; WARP],
            move |lanes, _, here| {
                let first = here.trailing_zeros();
                lanes.set::<u32>(to, &[first; WARP]);
                lanes.registers.set_predicate(second.at, 1u32.checked_shl(first).unwrap_or(0), lanes.mask);
            },
        ))
    }
}

/// The operands, and the one that names lanes, if it is there.
type WithMembers<'o, const N: usize> = ([&'o [Token]; N], Option<&'o [Token]>);

/// Splits off the last operand, which names lanes if it is there.
fn with_members<'o, const N: usize>(
    operands: Operands<'_, 'o>,
    is_sync: bool,
) -> Result<WithMembers<'o, N>, Refusal> {
    match operands.split_last() {
        Some((members, rest)) if is_sync => Ok((exactly(rest)?, Some(members))),
        _ => Ok((exactly(operands)?, None)),
    }
}

/// The value that each lane gives: a word from a register.
fn words(from: Reg) -> impl Fn(&Lanes<'_>) -> Given + Send + Sync {
    move |lanes| {
        let words = lanes.get::<u32>(from);
        each(|lane| words[lane].into())
    }
}

/// An exchange of values between the lanes that the register names. They may be at different instructions with the
/// same opcode.
fn exchange(
    members: Reg,
    give: impl Fn(&Lanes<'_>) -> Given + Send + Sync + 'static,
    take: impl Fn(&mut Lanes<'_>, &Given, u32) + Send + Sync + 'static,
) -> Kind {
    Kind::Exchange(members, Exchange { give: Box::new(give), take: Box::new(take) })
}

/// An instruction that computes with the values of the lanes that the register names.
pub(super) fn joint(members: Reg, compute: impl Fn(&mut Lanes<'_>) + Send + Sync + 'static) -> Kind {
    Kind::Joint(
        members,
        Box::new(move |lanes| {
            compute(lanes);
            Ok(())
        }),
    )
}

/// From which lane a lane gets its value.
#[derive(Clone, Copy)]
enum Mode {
    Up,
    Down,
    Butterfly,
    Index,
}

impl Mode {
    /// The source lane, and whether it is inside of the segment; a lane whose source is outside gets its own value.
    fn source(self, lane: i32, by: u32, clamp: u32) -> (usize, bool) {
        let (by, bound, segment) = ((by & 31) as i32, (clamp & 31) as i32, (clamp >> 8 & 31) as i32);
        let last = lane & segment | bound & !segment;
        let first = lane & segment;
        let source = match self {
            Mode::Up => lane - by,
            Mode::Down => lane + by,
            Mode::Butterfly => lane ^ by,
            Mode::Index => first | by & !segment,
        };
        let is_inside = if matches!(self, Mode::Up) { source >= last } else { source <= last };
        (if is_inside { source as usize & 31 } else { lane as usize }, is_inside)
    }
}
