//! Reads of textures, and queries of their properties.

use super::super::arith::half::{F16, Short, join};
use super::super::arith::round::Rounding;
use super::super::inst::Kind;
use super::super::run::{Lanes, Reg, WARP, lanes_of};
use super::super::sample::{self, At, Geometry};
use super::super::scope::{Named, split};
use super::super::tokens::{Token, Written};
use super::super::types::{Class, Type};
use super::super::{Refusal, unknown, wrong};
use super::opcode::Opcode;
use super::operands::{Elements, Operands};
use super::{Builder, Names};
use crate::texture::Bound;

pub(super) const GEOMETRIES: &[(&str, Geometry)] = &[
    ("1d", Geometry::One),
    ("2d", Geometry::Two),
    ("3d", Geometry::Three),
    ("a1d", Geometry::OneLayered),
    ("a2d", Geometry::TwoLayered),
    ("cube", Geometry::Cube),
    ("acube", Geometry::CubeLayered),
];

/// The registers of the operand `[object, coordinates]`.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) object: Reg,
    layer: Option<Reg>,
    coordinates: Vec<Reg>,
    is_float: bool,
}

impl Place {
    /// The layer and the coordinates in one lane, as bits.
    pub(super) fn bits(&self, lanes: &Lanes<'_>, lane: usize) -> (u32, [u32; 3]) {
        let layer = self.layer.map_or(0, |layer| lanes.one(layer, lane));
        let mut at = [0; 3];
        at.iter_mut().zip(&self.coordinates).for_each(|(to, from)| *to = lanes.one(*from, lane));
        (layer, at)
    }

    fn at(&self, lanes: &Lanes<'_>, lane: usize) -> (u32, At) {
        let (layer, at) = self.bits(lanes, lane);
        let at = if self.is_float {
            At::Floats(at.map(f32::from_bits))
        } else {
            At::Integers(at.map(|at| at as i32))
        };
        (layer, at)
    }
}

impl Builder<'_> {
    /// The register with the handle of a texture or a surface.
    fn object(&mut self, names: &Names<'_, '_>, tokens: &[Token]) -> Result<Reg, Refusal> {
        match tokens {
            [Token::Word(name)] => match names.find(name) {
                Some(Named::Register(_)) => self.source(names, tokens, Type::B(8)),
                _ => Err(unknown(format!("the texture or surface {name}, which is not in a register"))),
            },
            other => Err(unknown(format!("the texture or surface `{}`", Written(other)))),
        }
    }

    pub(super) fn place_of(
        &mut self,
        names: &Names<'_, '_>,
        tokens: &[Token],
        (geometry, ty): (Geometry, Type),
    ) -> Result<Place, Refusal> {
        let [Token::Sign('['), inner @ .., Token::Sign(']')] = tokens else {
            return Err(wrong(format!("`{}` is not `[object, coordinates]`", Written(tokens))));
        };
        let parts = split(inner);
        let [object, at] = parts[..] else {
            return Err(unknown("a sampler of its own"));
        };
        let object = self.object(names, object)?;
        let wanted = geometry.coordinates() + usize::from(geometry.is_layered());
        let mut registers = match self.elements(names, at)? {
            Elements::Registers(registers) => registers,
            Elements::Tokens(all) => all
                .into_iter()
                .take(wanted)
                .enumerate()
                .map(|(at, tokens)| {
                    let is_layer = at == 0 && geometry.is_layered();
                    self.source(names, tokens, if is_layer { Type::U(4) } else { ty })
                })
                .collect::<Result<_, _>>()?,
        };
        if registers.len() < wanted || registers.iter().any(|it| it.class != Class::B32) {
            return Err(wrong(format!("`{}` are not {wanted} coordinates", Written(at))));
        }
        registers.truncate(wanted);
        let layer = geometry.is_layered().then(|| registers.remove(0));
        Ok(Place { object, layer, coordinates: registers, is_float: ty == Type::F32 })
    }

    /// The registers for four channels of this type.
    fn channels(
        &mut self,
        names: &Names<'_, '_>,
        tokens: &[Token],
        (ty, count): (Type, usize),
    ) -> Result<Vec<Reg>, Refusal> {
        if tokens.iter().any(|token| token.is('|')) {
            return Err(unknown("the predicate of what is resident"));
        }
        match (ty, count) {
            (Type::U(4) | Type::S(4) | Type::F32 | Type::F16, 4) | (Type::F16x2, 2) => {
                self.results_of(names, tokens, ty.class(), count)
            }
            _ => Err(unknown(format!("a read of {count} values of type {ty}"))),
        }
    }

    /// `tex`. Textures have one level here, so modifiers and operands that choose a level are ignored.
    pub(super) fn texture(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let more = match (op.has("level"), op.has("grad"), op.has("base")) {
            (true, ..) => 1,
            (_, true, _) => 2,
            _ => 0,
        };
        let (geometry, ty, count) = reads(op)?;
        let at = op.ty()?;
        let fits = matches!(at, Type::F32 | Type::S(4));
        let is_cube = matches!(geometry, Geometry::Cube | Geometry::CubeLayered);
        if !fits || is_cube && at != Type::F32 {
            return Err(wrong(format!("coordinates of type {at}")));
        }
        let [to, place, rest @ ..] = operands else { return Err(wrong("it takes two operands")) };
        if rest.len() > more {
            return Err(unknown("an offset, or a comparison with a depth"));
        }
        if rest.len() < more {
            return Err(wrong("it takes a level, or two gradients"));
        }
        let to = self.channels(names, to, (ty, count))?;
        let place = self.place_of(names, place, (geometry, at))?;
        Ok(Kind::Memory(Box::new(move |lanes| {
            each_lane(lanes, (geometry, ty), &place, &to, |lanes, lane, bound, at| {
                sample::fetch(bound, geometry, at, |address, size| lanes.channel(lane, address, size))
            })
        })))
    }

    /// `tld4`.
    pub(super) fn gather(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let channel = op.one_of(&[("r", 0), ("g", 1), ("b", 2), ("a", 3)]);
        let channel = channel.ok_or_else(|| wrong("it gathers .r, .g, .b or .a"))?;
        let (geometry, ty, count) = reads(op)?;
        let at = op.ty()?;
        let is_flat = !matches!(geometry, Geometry::One | Geometry::Three | Geometry::OneLayered);
        if at != Type::F32 || !is_flat || ty == Type::F16x2 || ty == Type::F16 {
            return Err(wrong("it gathers from two dimensions, by coordinates of type .f32"));
        }
        let [to, place, rest @ ..] = operands else { return Err(wrong("it takes two operands")) };
        if !rest.is_empty() {
            return Err(unknown("an offset, or a comparison with a depth"));
        }
        let to = self.channels(names, to, (ty, count))?;
        let place = self.place_of(names, place, (geometry, at))?;
        Ok(Kind::Memory(Box::new(move |lanes| {
            each_lane(lanes, (geometry, ty), &place, &to, |lanes, lane, bound, at| {
                let load = |address, size| lanes.channel(lane, address, size);
                sample::gather(bound, geometry, (at, channel), load)
            })
        })))
    }

    /// `txq` and `suq`.
    pub(super) fn query(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let is_surface = op.name == "suq";
        let has_level = op.has("level");
        let question = op.one_of(QUESTIONS).ok_or_else(|| unknown("this question"))?;
        if op.ty()? != Type::B(4) {
            return Err(wrong("its answer is of type .b32"));
        }
        let [to, object, rest @ ..] = operands else { return Err(wrong("it takes two operands")) };
        if rest.len() != usize::from(has_level) {
            return Err(wrong("only .level takes a level"));
        }
        let to = self.to(names, to, Type::B(4))?;
        let [Token::Sign('['), inner @ .., Token::Sign(']')] = object else {
            return Err(wrong("a texture or surface is expected in brackets"));
        };
        let object = self.object(names, inner)?;
        Ok(Kind::Memory(Box::new(move |lanes| {
            let mut found = [0u32; WARP];
            for lane in lanes_of(lanes.mask) {
                let bound = lanes.bound(lane, lanes.one(object, lane))?;
                if bound.sampler.is_none() != is_surface {
                    return Err(
                        lanes.fails(lane, format_args!("asks a texture as a surface, or the reverse"))
                    );
                }
                found[lane] = question(bound);
            }
            lanes.set(to, &found);
            Ok(())
        })))
    }
}

/// The geometry of a read, and the type and the number of its results.
fn reads(op: &mut Opcode<'_>) -> Result<(Geometry, Type, usize), Refusal> {
    let geometry = op.one_of(GEOMETRIES).ok_or_else(|| unknown("this geometry"))?;
    let count = op.one_of(&[("v2", 2), ("v4", 4)]).ok_or_else(|| wrong("it reads a vector"))?;
    Ok((geometry, op.ty()?, count))
}

/// Reads for each lane, and sets the results after all lanes have been read.
fn each_lane(
    lanes: &mut Lanes<'_>,
    (geometry, ty): (Geometry, Type),
    place: &Place,
    to: &[Reg],
    read: impl Fn(&mut Lanes<'_>, usize, &Bound, (u32, At)) -> Result<[u32; 4], super::super::run::Fault>,
) -> Result<(), super::super::run::Fault> {
    let mut found = [[0u32; WARP]; 4];
    for lane in lanes_of(lanes.mask) {
        let bound = lanes.bound(lane, lanes.one(place.object, lane))?;
        if bound.sampler.is_none() || !geometry.fits(&bound.grid) {
            return Err(lanes.fails(
                lane,
                format_args!("reads as {geometry:?} what is a surface, or has other dimensions"),
            ));
        }
        let at = place.at(lanes, lane);
        let values = read(lanes, lane, bound, at)?;
        found.iter_mut().zip(values).for_each(|(to, value)| to[lane] = value);
    }
    let half = |bits: u32| F16::round(f32::from_bits(bits).into(), Rounding::Nearest);
    for (at, to) in to.iter().enumerate() {
        match ty {
            Type::F16 => lanes.set(*to, &found[at].map(half)),
            Type::F16x2 => {
                let pair = |lane: usize| join(half(found[2 * at][lane]), half(found[2 * at + 1][lane]));
                lanes.set(*to, &std::array::from_fn::<u32, WARP, _>(pair));
            }
            _ => lanes.set(*to, &found[at]),
        }
    }
    Ok(())
}

type Question = fn(&Bound) -> u32;

/// The queries that the compiler of an H200 accepts for handles in registers. The height of a one-dimensional texture
/// of an array is 1, and that of others 0; layers count as the dimension after the others, and so do the faces of a
/// surface.
const QUESTIONS: &[(&str, Question)] = &[
    ("width", |it| it.grid.size[0] as u32),
    ("height", |it| match (it.grid.dimensions, it.grid.is_layered) {
        (1, true) => it.grid.layers() as u32,
        (1, false) if it.grid.is_linear || it.sampler.is_none() => 0,
        _ => it.grid.size[1] as u32,
    }),
    ("depth", |it| match (it.grid.dimensions, it.grid.is_layered) {
        (3, _) => it.grid.size[2] as u32,
        (2, _) if it.grid.is_cube && it.sampler.is_none() => it.grid.size[2] as u32,
        (2, true) => it.grid.layers() as u32,
        _ => 0,
    }),
];
