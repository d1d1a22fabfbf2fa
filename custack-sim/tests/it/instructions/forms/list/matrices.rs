//! Products of matrices that a warp has in its registers or in memory, exactly: elements of integers are of any value, those
//! of floats so small and so short that no sum is rounded.

use super::super::exact::{BF16, F16, F32, F64, Format, Mode, Number};
use super::super::form::List;
use super::super::share::matrix_examples;
use super::fold::Folding;

/// Words that a lane has for all forms of a kernel, made of its operand.
pub(in crate::instructions::forms) const RAW: usize = 24;
const BY: u64 = 0xd1b5_4a32_d192_ed03;
const STEP: u64 = 0x2545_f491_4f6c_dd1d;

/// Lines that make the words of a lane.
pub(in crate::instructions::forms) fn raw_words() -> String {
    let mut lines = format!(".reg .b32 %raw<{RAW}>; .reg .b64 %made;\n");
    for at in 0..RAW as u64 {
        let add = STEP.wrapping_mul(at + 1) >> 1;
        lines += &format!(
            "mad.lo.u64 %made, %from0, {BY:#x}, {add:#x}; shr.u64 %made, %made, 32; cvt.u32.u64 %raw{at}, %made;\n"
        );
    }
    lines
}

/// The tiles of the warps in memory.
pub(in crate::instructions::forms) const TILES: &str = ".global .align 128 .b8 global_tiles[1572864];\n\
    .shared .align 128 .b8 shared_tiles[32768];\n";

fn raw(operand: u64, at: usize) -> u32 {
    (operand.wrapping_mul(BY).wrapping_add(STEP.wrapping_mul(at as u64 + 1) >> 1) >> 32) as u32
}

/// The type of the elements of a matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Element {
    pub(super) name: &'static str,
    pub(super) bits: usize,
    /// What remains of a word that is made, and what is set in it: of 64 bits the upper word.
    mask: u32,
    set: u32,
    /// Of 64 bits the lower word is any, too.
    is_any: bool,
}

const ELEMENTS: [Element; 14] = [
    element("f16", 16, 0x8f00_8f00, 0x3000_3000),
    element("bf16", 16, 0x81e0_81e0, 0x3e00_3e00),
    element("tf32", 32, 0x81e0_0000, 0x3e00_0000),
    element("f32", 32, 0x81e0_0000, 0x3e00_0000),
    element("f64", 64, 0x803c_0000, 0x3fc0_0000),
    element("e4m3", 8, 0x9e9e_9e9e, 0x2020_2020),
    element("e5m2", 8, 0x8f8f_8f8f, 0x3030_3030),
    element("s8", 8, !0, 0),
    element("u8", 8, !0, 0),
    element("s4", 4, !0, 0),
    element("u4", 4, !0, 0),
    element("b1", 1, !0, 0),
    element("s32", 32, 0x8000_ffff, 0),
    element("none", 0, 0, 0),
];

const fn element(name: &'static str, bits: usize, mask: u32, set: u32) -> Element {
    Element { name, bits, mask, set, is_any: false }
}

impl Element {
    pub(super) fn of(name: &str) -> Option<Element> {
        ELEMENTS.into_iter().find(|it| it.name == name)
    }

    /// Of a product whose result is an `f16`: ones and halves.
    pub(super) fn short(self) -> Element {
        let (mask, set) = match self.name {
            "f16" => (0x8400_8400, 0x3800_3800),
            "f32" => (0x8080_0000, 0x3f00_0000),
            "e4m3" => (0x8888_8888, 0x3030_3030),
            _ => (0x8484_8484, 0x3838_3838),
        };
        Element { mask, set, ..self }
    }

    /// As a product has them: any floats, or so short that no sum is rounded.
    pub(super) fn chosen(self, any: bool, is_short: bool) -> Element {
        match (any, is_short) {
            (true, _) => self.any(),
            (_, true) => self.short(),
            _ => self,
        }
    }

    /// How many a register has, and how many bytes that is.
    pub(super) fn register(self) -> (usize, usize) {
        ((32 / self.bits).max(1), self.bits.max(32) / 8)
    }

    /// Floats of many magnitudes and with all their bits.
    pub(super) fn any(self) -> Element {
        let (mask, set) = match self.name {
            "f16" => (0xbfff_bfff, 0),
            "bf16" => (0x83ff_83ff, 0x3c00_3c00),
            "tf32" => (0x83ff_e000, 0x3c00_0000),
            "f32" => (0x83ff_ffff, 0x3c00_0000),
            "f64" => (0x807f_ffff, 0x3f80_0000),
            _ => (0xbfbf_bfbf, 0),
        };
        Element { mask, set, is_any: true, ..self }
    }

    /// The bits of a register; of `s32` every second one is near to the greatest number.
    pub(super) fn word(self, operand: u64, at: usize, number: usize) -> u64 {
        let raw = raw(operand, at);
        let word = raw & self.mask | self.set | self.near(number);
        let low = if self.is_any { raw.into() } else { 0 };
        if self.bits == 64 { u64::from(word) << 32 | low } else { word.into() }
    }

    fn near(self, number: usize) -> u32 {
        if self.name == "s32" && number % 2 == 1 { 0x7fff_0000 } else { 0 }
    }

    /// Lines that leave the register in `to`.
    pub(super) fn make(self, folding: &mut Folding, to: &str, at: usize, number: usize) {
        let (mask, set) = (self.mask, self.set | self.near(number));
        let word = if self.bits == 64 { "%f0" } else { to };
        folding.line(&format!("and.b32 {word}, %raw{at}, {mask:#x}; or.b32 {word}, {word}, {set:#x};"));
        if self.bits == 64 {
            let low = if self.is_any { format!("%raw{at}") } else { "0".to_owned() };
            folding.line(&format!("mov.b64 {to}, {{{low}, {word}}};"));
        }
    }

    pub(super) fn format(self) -> Option<Format> {
        Some(match self.name {
            "f16" => F16,
            "bf16" => BF16,
            "tf32" | "f32" => F32,
            "f64" => F64,
            "e4m3" => Format(4, 3),
            "e5m2" => Format(5, 2),
            _ => return None,
        })
    }

    pub(super) fn value(self, bits: u64) -> f64 {
        let spare = 64 - self.bits as u32;
        match self.format() {
            Some(format) => match format.decode(bits) {
                Number::Finite(negative, mantissa, exponent) => {
                    let size = mantissa as f64 * 2f64.powi(exponent);
                    if negative { -size } else { size }
                }
                _ => panic!("no operand is infinite"),
            },
            None if self.name.starts_with('s') => ((bits << spare) as i64 >> spare) as f64,
            None => bits as f64,
        }
    }

    pub(super) fn encode(self, value: f64, sat: bool) -> u64 {
        match self.format() {
            Some(F64) => value.to_bits(),
            Some(format) => format.round(F64.decode(value.to_bits()), Mode::Nearest),
            None if sat => (value as i64).clamp(i32::MIN.into(), i32::MAX.into()) as u64 & 0xffff_ffff,
            None => value as i64 as u64 & 0xffff_ffff,
        }
    }
}

/// What is multiplied: D = A * B + C.
#[derive(Clone, Copy)]
pub(super) struct Product {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) d: Element,
    pub(super) sat: bool,
    pub(super) xor: bool,
    /// Sums are rounded downwards, so that those of nothing are -0.
    pub(super) down: bool,
}

pub(super) type Elements = Vec<Vec<f64>>;

impl Product {
    pub(super) fn of(&self, a: &Elements, b: &Elements, c: &Elements) -> Vec<Vec<u64>> {
        let pair = |x: f64, y: f64| if self.xor { f64::from(u8::from(x != y)) } else { x * y };
        let sum = |row: usize, column: usize| {
            let sum = c[row][column] + (0..self.k).map(|k| pair(a[row][k], b[k][column])).sum::<f64>();
            if self.down && sum == 0.0 { -0.0 } else { sum }
        };
        let bits = |row, column| self.d.encode(sum(row, column), self.sat);
        (0..self.m).map(|row| (0..self.n).map(|column| bits(row, column)).collect()).collect()
    }
}

impl Product {
    /// What an element is without any rounding but that of `f64`.
    pub(super) fn sum(&self, [a, b, c]: &[Elements; 3], row: usize, column: usize) -> f64 {
        c[row][column] + (0..self.k).map(|k| a[row][k] * b[k][column]).sum::<f64>()
    }

    /// The greatest magnitude of its terms.
    pub(super) fn most(&self, [a, b, c]: &[Elements; 3], row: usize, column: usize) -> f64 {
        (0..self.k).map(|k| (a[row][k] * b[k][column]).abs()).fold(c[row][column].abs(), f64::max)
    }
}

pub(super) fn shape(name: &str) -> [usize; 3] {
    let part =
        name.split('.').find(|it| it.starts_with('m') && it.contains('n') && it.contains('k')).unwrap();
    let numbers: Vec<usize> = part.split(['m', 'n', 'k']).filter_map(|it| it.parse().ok()).collect();
    numbers.try_into().unwrap()
}

pub(super) fn types(name: &str) -> Vec<Element> {
    name.split('.').filter_map(Element::of).collect()
}

/// All `mma` and `wmma`.
pub(super) fn list(list: &mut List) {
    for (name, code) in matrix_examples() {
        let opcode = code.split(' ').next().unwrap();
        if opcode.starts_with("wmma") {
            super::fragments::wmma(list, &name, opcode, code.ends_with("%r9;"), false);
        } else if opcode.starts_with("mma") && opcode.contains("m8n8k4") && opcode.contains("f16") {
            super::quads::mma(list, &name, opcode, false);
        } else if opcode.starts_with("mma") {
            mma(list, &name, opcode, false);
        }
    }
}

/// The products of floats, with sums that are rounded.
pub(super) fn sums(list: &mut List) {
    for (_, code) in matrix_examples() {
        let opcode = code.split(' ').next().unwrap();
        let is_float = types(opcode).iter().all(|it| it.format().is_some());
        // Of `wmma` the layouts in memory do not matter.
        let is_one = opcode.starts_with("wmma.mma") && opcode.contains(".row.col.");
        let name = format!("{opcode} of any floats");
        if !is_float {
        } else if is_one {
            super::fragments::wmma(list, &name, opcode, true, true);
        } else if opcode.starts_with("mma") && opcode.contains("m8n8k4") && opcode.contains("f16") {
            super::quads::mma(list, &name, opcode, true);
        } else if opcode.starts_with("mma") {
            mma(list, &name, opcode, true);
        }
    }
}

/// Where the manual has the elements of C.
fn place_of_c(lane: usize, at: usize) -> (usize, usize) {
    (lane / 4 + if at < 2 { 0 } else { 8 }, lane % 4 * 2 + at % 2)
}

fn mma(list: &mut List, name: &str, opcode: &str, any: bool) {
    let ([m, n, k], types) = (shape(opcode), types(opcode));
    let is_short = types[0].name == "f16";
    let [d, a, b, c] = [0, 1, 2, 3].map(|at: usize| types[at].chosen(any, is_short));
    let xor = opcode.contains("xor");
    let (sat, down) = (opcode.contains("satfinite"), opcode.contains(".rm."));
    let product = Product { m, n, k, d, sat, xor, down };
    let (per, size) = a.register();
    let (per_c, size_c) = c.register();
    let counts = [m * k / 32 / per, k * n / 32 / per, m * n / 32 / per_c];
    let mut folding = Folding::new();
    let register =
        |letter: &str, size: usize, at: usize| format!("%{letter}{}x{at}", if size == 8 { "d" } else { "r" });
    let registers = |letter: &str, size: usize, count: usize| -> Vec<String> {
        (0..count).map(|at| register(letter, size, at)).collect()
    };
    let mut at = 0;
    let mut lists = vec![registers("d", size_c, counts[2])];
    for (letter, element, count, size) in
        [("a", a, counts[0], size), ("b", b, counts[1], size), ("c", c, counts[2], size_c)]
    {
        let all = registers(letter, size, count);
        for (number, register) in all.iter().enumerate() {
            element.make(&mut folding, register, at, number);
            at += 1;
        }
        lists.push(all);
    }
    let declared = lists.iter().enumerate().map(|(at, all)| {
        format!(".reg .b{} {};", 8 * if at == 1 || at == 2 { size } else { size_c }, all.join(", "))
    });
    let declared: String = declared.collect();
    folding.0 = folding.0.replacen("mov.u64 %acc, 0;", &format!("{declared} mov.u64 %acc, 0;"), 1);
    let lists: Vec<String> = lists.iter().map(|all| format!("{{{}}}", all.join(", "))).collect();
    folding.line(&format!("{opcode} {};", lists.join(", ")));
    let results: Vec<String> = (0..counts[2]).map(|at| register("d", size_c, at)).collect();
    folding.results(&results, size_c, any);
    let tiles = m / 8;
    let factors = move |of: &[u64]| {
        let part = |element: Element, word: u64, part: usize| {
            element.value(word >> (element.bits * part) & (u64::MAX >> (64 - element.bits)))
        };
        let mut left = vec![vec![0.0; k]; m];
        let mut right = vec![vec![0.0; n]; k];
        let mut third = vec![vec![0.0; n]; m];
        for (lane, operand) in of.iter().enumerate() {
            for at in 0..counts[0] {
                let word = a.word(*operand, at, at);
                for it in 0..per {
                    left[lane / 4 + 8 * (at % tiles)][(at / tiles * 4 + lane % 4) * per + it] =
                        part(a, word, it);
                }
            }
            for at in 0..counts[1] {
                let word = b.word(*operand, counts[0] + at, at);
                (0..per).for_each(|it| right[(at * 4 + lane % 4) * per + it][lane / 4] = part(b, word, it));
            }
            for at in 0..counts[2] {
                let word = c.word(*operand, counts[0] + counts[1] + at, at);
                for it in 0..per_c {
                    let (row, column) = place_of_c(lane, at * per_c + it);
                    third[row][column] = part(c, word, it);
                }
            }
        }
        [left, right, third]
    };
    let places = move |lane: usize, at: usize| -> Vec<(usize, usize)> {
        (0..per_c).map(|it| place_of_c(lane, at * per_c + it)).collect()
    };
    super::sums::add(
        list,
        name,
        folding.end(),
        any,
        super::sums::Whole { product, count: counts[2], factors, places },
    );
}
