//! Reads of textures of every shape, format, filter and mode of addresses.

use super::super::form::List;
use super::super::object::{AddressMode, ArrayFormat, Object, Sampler, Shape};
use super::super::operands::Kind;
use super::fold::{Folding, folded};
use super::texels::{Place, bound, read, shortened};

/// How a shape is written, what it has, and how many coordinates a read takes beside the layer.
const SHAPES: [(&str, &str, Shape, [usize; 3], usize); 9] = [
    ("1d", "1d", Shape::One, [13, 1, 1], 1),
    ("2d", "2d", Shape::Two, [6, 5, 1], 2),
    ("2d", "rows", Shape::Rows, [7, 5, 1], 2),
    ("3d", "3d", Shape::Three, [5, 4, 3], 3),
    ("a1d", "a1d", Shape::OneLayered, [9, 1, 4], 1),
    ("a2d", "a2d", Shape::TwoLayered, [5, 4, 3], 2),
    ("cube", "cube", Shape::Cube, [4, 4, 6], 3),
    ("acube", "acube", Shape::CubeLayered, [4, 4, 12], 3),
    ("1d", "memory", Shape::Buffer, [20, 1, 1], 1),
];

/// Elements, and whether they are read as integers.
const ELEMENTS: [(&str, ArrayFormat, bool); 12] = [
    ("f32", ArrayFormat::Float, true),
    ("u8 as f32", ArrayFormat::UnsignedInt8, false),
    ("s16", ArrayFormat::SignedInt16, true),
    ("f16", ArrayFormat::Half, true),
    ("u32", ArrayFormat::UnsignedInt32, true),
    ("s8 as f32", ArrayFormat::SignedInt8, false),
    ("u16", ArrayFormat::UnsignedInt16, true),
    ("s32", ArrayFormat::SignedInt32, true),
    ("u8", ArrayFormat::UnsignedInt8, true),
    ("s16 as f32", ArrayFormat::SignedInt16, false),
    ("s8", ArrayFormat::SignedInt8, true),
    ("u16 as f32", ArrayFormat::UnsignedInt16, false),
];

use AddressMode::{Border, Clamp, Mirror, Wrap};

/// Modes of addresses, and whether coordinates are normalised.
const MODES: [(&str, [AddressMode; 3], bool); 9] = [
    ("wrap", [Wrap; 3], true),
    ("clamp", [Clamp; 3], true),
    ("mirror", [Mirror; 3], true),
    ("border", [Border; 3], true),
    ("wrap, mirror and border", [Wrap, Mirror, Border], true),
    ("mirror, border and clamp", [Mirror, Border, Clamp], true),
    ("clamp of elements", [Clamp; 3], false),
    ("border of elements", [Border; 3], false),
    ("border and clamp of elements", [Border, Clamp, Border], false),
];

/// All `tex`, `tld4` and `txq`.
pub(super) fn list(list: &mut List) {
    let mut seed = 0;
    let mut next = || {
        seed += 1;
        seed
    };
    for shape in 0..SHAPES.len() {
        for element in 0..ELEMENTS.len() {
            for mode in 0..MODES.len() {
                for linear in [false, true] {
                    if let Some(sampled) = Sampled::new(shape, element, mode, linear, next()) {
                        sampled.each(list);
                    }
                }
            }
        }
    }
    questions(list);
}

/// A texture, and how it is read.
#[derive(Clone)]
struct Sampled {
    object: Object,
    geometry: &'static str,
    coordinates: usize,
    name: String,
    seed: usize,
}

impl Sampled {
    /// `None` for what no texture has.
    fn new(shape: usize, element: usize, mode: usize, linear: bool, seed: usize) -> Option<Sampled> {
        let (geometry, source, shape, size, coordinates) = SHAPES[shape];
        let (element, format, as_integer) = ELEMENTS[element];
        let (mode_name, modes, normalized) = MODES[mode];
        let is_float = matches!(format, ArrayFormat::Float | ArrayFormat::Half);
        let is_cube = matches!(shape, Shape::Cube | Shape::CubeLayered);
        if linear && as_integer && !is_float
            || is_cube && !(normalized && mode < 2)
            || shape == Shape::Buffer && (linear || normalized || modes != [Clamp; 3])
        {
            return None;
        }
        let texture = Sampler {
            address_modes: modes,
            is_linear: linear,
            as_integer,
            is_normalized: normalized,
            border_color: if shape == Shape::Buffer { [0.0; 4] } else { [0.3, -0.7, 1.6, 0.1] },
        };
        let channels = [1, 4, 2][seed % 3];
        let object = Object {
            shape,
            format,
            channels,
            size,
            texture: Some(texture),
            seed: seed as u64,
            is_tame: linear,
            is_gathered: false,
        };
        let filter = if linear { "linear" } else { "nearest" };
        let name = format!("of {source} {element}, {filter}, {mode_name}, {channels} channels");
        Some(Sampled { object, geometry, coordinates, name, seed })
    }

    /// The registers of the coordinates.
    fn place(&self) -> &'static str {
        match self.geometry {
            "1d" => "{$a}",
            "2d" => "{$a, $b}",
            "3d" | "cube" => "{$a, $b, $c, $c}",
            "a1d" => "{$b, $a}",
            "a2d" => "{$c, $a, $b, $b}",
            _ => "{$e, $a, $b, $c}",
        }
    }

    fn is_of_floats(&self) -> bool {
        let texture = self.object.texture.unwrap();
        matches!(self.object.format, ArrayFormat::Float | ArrayFormat::Half) || !texture.as_integer
    }

    /// Whether a device's filter is only known within a bound.
    fn is_bounded(&self) -> bool {
        let texture = self.object.texture.unwrap();
        let format = self.object.format;
        texture.is_linear
            && (self.object.shape == Shape::Three
                || matches!(format, ArrayFormat::Float | ArrayFormat::Half | ArrayFormat::SignedInt8))
    }

    /// One channel of a filtered read.
    fn near(&self, list: &mut List, ty: &'static str) {
        let opcode = format!("tex.{}.v4.{ty}.f32", self.geometry);
        let mut folding = Folding::new();
        folding.line(&format!("{opcode} {{%u0, %u1, %u2, %u3}}, [%object, {}];", self.place()));
        let channel = self.seed % self.object.channels;
        folding.add(&format!("%u{channel}"), 4);
        let sampled = self.clone();
        let near = move |of: &[u64], _: Option<u64>, answer: u64| {
            let wanted = f64::from(f32::from_bits(sampled.found(of, "f32", None)[channel]));
            let (found, bound) = (f64::from(f32::from_bits(answer as u32)), sampled.bound(of, channel));
            let is_near = (found - wanted).abs() <= bound;
            if is_near {
                Ok(())
            } else {
                Err(format!("{found:e} instead of {wanted:e}, further than {bound:e}"))
            }
        };
        let name = format!("{opcode} {}", self.name);
        list.near_on_memory(&name, &self.kinds("f32"), folding.end(), near).object = Some(self.object);
    }

    fn bound(&self, of: &[u64], channel: usize) -> f64 {
        let mut at = [0.0; 3];
        at.iter_mut().zip(&of[..self.coordinates]).for_each(|(to, from)| *to = f32::from_bits(*from as u32));
        let layer = if self.object.is_layered() { of[self.coordinates] as u32 } else { 0 };
        bound(&self.object, layer, at, channel)
    }

    /// The forms of this texture: by floats, by integers, with levels, and gathered.
    fn each(&self, list: &mut List) {
        let plain = if self.is_of_floats() { "f32" } else { ["u32", "s32"][self.seed % 2] };
        let is_line = self.object.shape == Shape::Buffer;
        let is_cube = self.geometry.ends_with("cube");
        if self.is_bounded() {
            self.near(list, plain);
        } else if !is_line {
            self.read(list, "", ("v4", plain), "f32", "");
        }
        let texture = self.object.texture.unwrap();
        let (is_linear, normalized) = (texture.is_linear, texture.is_normalized);
        if !is_cube && (is_line || self.seed % 7 < 2 || is_linear && self.seed % 7 == 3) {
            self.read(list, "", ("v4", plain), "s32", "");
        }
        if self.is_of_floats() && self.seed % 5 == 0 && !self.is_bounded() {
            let by = if is_line { "s32" } else { "f32" };
            self.read(list, "", ("v2", "f16x2"), by, "");
            self.read(list, "", ("v4", "f16"), by, "");
        }
        if self.seed % 4 == 1 && !is_line && !self.is_bounded() && self.object.shape != Shape::Rows {
            let count = match self.geometry {
                "1d" | "a1d" => 1,
                "2d" | "a2d" => 2,
                _ => 4,
            };
            let gradient = |value: &str| format!("{{{}}}", vec![value; count].join(", "));
            let gradients = format!(", {}, {}", gradient("%f1"), gradient("%f2"));
            self.read(list, ".level", ("v4", plain), "f32", ", %f1");
            self.read(list, ".base", ("v4", plain), "f32", "");
            self.read(list, ".grad", ("v4", plain), "f32", &gradients);
        }
        let can_gather = matches!(self.object.shape, Shape::Two | Shape::TwoLayered) || is_cube;
        if can_gather && normalized | (self.seed % 2 == 0) {
            let channel = self.seed / 3 % 4;
            self.gather(list, channel, plain);
        }
    }

    fn kinds(&self, by: &str) -> Vec<Kind> {
        let kind = if by == "f32" { Kind::Coordinate } else { Kind::Index };
        let mut kinds = vec![kind; self.coordinates];
        if self.object.is_layered() {
            kinds.push(Kind::Index);
        }
        kinds
    }

    /// What the operands of a thread are.
    fn found(&self, of: &[u64], by: &str, gathered: Option<usize>) -> [u32; 4] {
        let mut bits = [0u32; 3];
        bits.iter_mut().zip(&of[..self.coordinates]).for_each(|(to, from)| *to = *from as u32);
        let layer = if self.object.is_layered() { of[self.coordinates] as u32 } else { 0 };
        let place = match by {
            "f32" => Place::Floats(bits.map(f32::from_bits)),
            _ => Place::Integers(bits.map(|bits| bits as i32)),
        };
        read(&self.object, layer, place, gathered)
    }

    fn read(
        &self,
        list: &mut List,
        how: &str,
        (vector, ty): (&str, &'static str),
        by: &'static str,
        more: &str,
    ) {
        let opcode = format!("tex{how}.{}.{vector}.{ty}.{by}", self.geometry);
        let mut folding = Folding::new();
        let level = ["0f00000000", "0f3F000000", "0f40400000", "0fBF800000"][self.seed / 4 % 4];
        folding.line(&format!("mov.f32 %f1, {level}; mov.f32 %f2, 0f3E800000;"));
        let (to, registers, size) = match ty {
            "f16x2" => ("{%u0, %u1}", vec!["%u0", "%u1"], 4),
            "f16" => ("{%g0, %g1, %g2, %g3}", vec!["%g0", "%g1", "%g2", "%g3"], 2),
            _ => ("{%u0, %u1, %u2, %u3}", vec!["%u0", "%u1", "%u2", "%u3"], 4),
        };
        folding.line(&format!("{opcode} {to}, [%object, {}]{more};", self.place()));
        registers.iter().for_each(|register| folding.add(register, size));
        let sampled = self.clone();
        let form =
            list.on_memory(&format!("{opcode} {}", self.name), &self.kinds(by), folding.end(), move |of| {
                let found = sampled.found(of, by, None);
                let half = |at: usize| shortened(found[at]);
                match ty {
                    "f16x2" => folded(&[half(0) | half(1) << 16, half(2) | half(3) << 16]),
                    "f16" => folded(&[half(0), half(1), half(2), half(3)]),
                    _ => folded(&found.map(u64::from)),
                }
            });
        form.object = Some(self.object);
    }

    fn gather(&self, list: &mut List, channel: usize, ty: &'static str) {
        let opcode = format!("tld4.{}.{}.v4.{ty}.f32", ["r", "g", "b", "a"][channel], self.geometry);
        let mut folding = Folding::new();
        folding.line(&format!("{opcode} {{%u0, %u1, %u2, %u3}}, [%object, {}];", self.place()));
        (0..4).for_each(|at| folding.add(&format!("%u{at}"), 4));
        // Which NaNs a device passes on is not known.
        let gathered = Object { is_gathered: true, is_tame: true, ..self.object };
        let sampled = Sampled { object: gathered, ..self.clone() };
        let form = list.on_memory(
            &format!("{opcode} {}", self.name),
            &self.kinds("f32"),
            folding.end(),
            move |of| folded(&sampled.found(of, "f32", Some(channel)).map(u64::from)),
        );
        form.object = Some(gathered);
    }
}

/// Questions about the sizes of textures and surfaces.
fn questions(list: &mut List) {
    for (at, (_, source, shape, size, _)) in SHAPES.into_iter().enumerate() {
        for (question, opcode) in
            ["width", "height", "depth"].into_iter().flat_map(|it| [(it, "txq"), (it, "suq")])
        {
            let is_surface = opcode == "suq";
            if is_surface && matches!(shape, Shape::Rows | Shape::Buffer) {
                continue;
            }
            // Layers are the dimension behind the others.
            let answer = match (question, shape) {
                ("width", _) => size[0],
                ("height", Shape::OneLayered) => size[2],
                ("height", Shape::Buffer) => 0,
                ("height", Shape::One) if is_surface => 0,
                // For a surface faces are layers.
                ("depth", Shape::Cube | Shape::CubeLayered) if is_surface => size[2],
                ("height", _) => size[1],
                (_, Shape::Three | Shape::TwoLayered) => size[2],
                (_, Shape::CubeLayered) => size[2] / 6,
                _ => 0,
            } as u64;
            let texture = Sampler { is_normalized: shape != Shape::Buffer, ..Sampler::PLAIN };
            let object = Object {
                shape,
                format: ArrayFormat::Float,
                channels: 1,
                size,
                texture: (!is_surface).then_some(texture),
                seed: at as u64,
                is_tame: true,
                is_gathered: false,
            };
            let mut folding = Folding::new();
            folding.line(&format!("{opcode}.{question}.b32 %u0, [%object];"));
            folding.add("%u0", 4);
            let name = format!("{opcode}.{question}.b32 of {source}");
            let form = list.on_memory(&name, &[Kind::Index], folding.end(), move |_| answer);
            (form.object, form.most) = (Some(object), 32);
        }
    }
}
