//! The video instructions that have one result, by the algorithms of the PTX manual.

use super::super::form::List;
use super::super::operands::Kind;
use super::integers::{Int, S32, U32};

/// An instruction or a modifier, and what it computes.
pub(super) type Operation = (&'static str, fn(i128, i128) -> i128);

/// A selected part: how it is written, its first bit, and how many bits there are.
type Part = (&'static str, u32, u32);

const WORD: Part = ("", 0, 32);
const PARTS: [Part; 7] =
    [WORD, (".b0", 0, 8), (".h1", 16, 16), (".b3", 24, 8), (".h0", 0, 16), (".b2", 16, 8), (".b1", 8, 8)];

/// The part of an operand, as a number.
fn part(ty: Int, (_, first, bits): Part, word: u64) -> i128 {
    Int { bits, ..ty }.value(word >> first)
}

/// The types of the result and of the operands, in all combinations.
fn types() -> impl Iterator<Item = [Int; 3]> {
    let type_of = |bit: u32| if bit & 1 == 0 { U32 } else { S32 };
    (0..8).map(move |bits| [type_of(bits >> 2), type_of(bits >> 1), type_of(bits)])
}

/// What is done with the result and a third operand.
#[derive(Clone, Copy)]
enum Second {
    Nothing,
    Combined(&'static str),
    /// The result becomes a part of it.
    Merged(Part),
}

/// A form of one of these instructions.
#[derive(Clone, Copy)]
struct Video {
    /// The result's type and those of the operands.
    types: [Int; 3],
    parts: [Part; 2],
    sat: bool,
    second: Second,
    f: fn(i128, i128) -> i128,
}

impl Video {
    fn answer(self, of: &[u64]) -> u64 {
        let [to, a, b] = self.types;
        let value = (self.f)(part(a, self.parts[0], of[0]), part(b, self.parts[1], of[1]));
        let bits = if let Second::Merged(part) = self.second { part.2 } else { 32 };
        let value = if self.sat { i128::from(Int { bits, ..to }.clamp(value)) } else { value };
        let word = U32.cut(value);
        let (value, third) = (to.value(word), to.value(of.get(2).copied().unwrap_or(0)));
        match self.second {
            Second::Nothing => word,
            Second::Combined("add") => to.cut(value + third),
            Second::Combined("min") => to.cut(value.min(third)),
            Second::Combined(_) => to.cut(value.max(third)),
            Second::Merged((_, first, bits)) => {
                let mask = (U32.cut(-1) >> (32 - bits)) << first;
                of[2] & !mask | word << first & mask
            }
        }
    }

    fn push(self, list: &mut List, opcode: String) {
        let [a, b] = self.parts.map(|part| part.0);
        let (to, third, count) = match self.second {
            Second::Nothing => ("", "", 2),
            Second::Combined(_) => ("", ", $c", 3),
            Second::Merged(part) => (part.0, ", $c", 3),
        };
        let opcode = match self.second {
            Second::Combined(second) => format!("{opcode}.{second}"),
            _ => opcode,
        };
        let name = format!("{opcode} d{to}, a{a}, b{b}{third}").replace('$', "");
        let code = format!(
            "mov.b32 %w0, $a; mov.b32 %w1, $b; mov.b32 %w2, 0; {opcode} %w2{to}, %w0{a}, %w1{b}{third}; mov.b32 $d, %w2;"
        );
        list.coded(name, &vec![Kind::I32; count], 4, code, move |of| self.answer(of));
    }
}

/// Each second operation in turn, and what is selected.
fn variants(at: usize) -> [(Second, [Part; 2]); 5] {
    let part = |more: usize| PARTS[(at + more) % PARTS.len()];
    let narrow = PARTS[1 + at % (PARTS.len() - 1)];
    let combined = ["add", "min", "max"];
    [
        (Second::Nothing, [WORD; 2]),
        (Second::Nothing, [part(1), part(3)]),
        (Second::Combined(combined[at % 3]), [part(2), part(5)]),
        (Second::Combined(combined[(at + 1) % 3]), [WORD, part(4)]),
        (Second::Merged(narrow), [part(6), part(0)]),
    ]
}

pub(super) fn list(list: &mut List) {
    let operations: [Operation; 5] = [
        ("vadd", |a, b| a + b),
        ("vsub", |a, b| a - b),
        ("vabsdiff", |a, b| (a - b).abs()),
        ("vmin", std::cmp::min),
        ("vmax", std::cmp::max),
    ];
    let mut at = 0;
    for (op, f) in operations {
        for types in types() {
            for sat in [false, true] {
                for (second, parts) in variants(at) {
                    let [to, a, b] = types.map(|ty| ty.name);
                    let opcode = format!("{op}.{to}.{a}.{b}{}", if sat { ".sat" } else { "" });
                    Video { types, parts, sat, second, f }.push(list, opcode);
                }
                at += 1;
            }
        }
    }
    shifts(list);
    comparisons(list);
    products(list);
}

fn shifts(list: &mut List) {
    type Shift = (&'static str, &'static str, fn(i128, i128) -> i128);
    let shifts: [Shift; 4] = [
        ("vshl", "clamp", |a, b| a << b.min(32)),
        ("vshl", "wrap", |a, b| a << (b & 31)),
        ("vshr", "clamp", |a, b| a >> b.min(32)),
        ("vshr", "wrap", |a, b| a >> (b & 31)),
    ];
    let mut at = 0;
    for (op, mode, f) in shifts {
        for types in types().filter(|types| types[2] == U32) {
            for sat in [false, true] {
                for (second, parts) in variants(at) {
                    let [to, a, b] = types.map(|ty| ty.name);
                    let opcode = format!("{op}.{to}.{a}.{b}{}.{mode}", if sat { ".sat" } else { "" });
                    Video { types, parts, sat, second, f }.push(list, opcode);
                }
                at += 1;
            }
        }
    }
}

pub(super) const COMPARISONS: [Operation; 6] = [
    ("eq", |a, b| i128::from(a == b)),
    ("ne", |a, b| i128::from(a != b)),
    ("lt", |a, b| i128::from(a < b)),
    ("le", |a, b| i128::from(a <= b)),
    ("gt", |a, b| i128::from(a > b)),
    ("ge", |a, b| i128::from(a >= b)),
];

fn comparisons(list: &mut List) {
    let mut at = 0;
    for (operator, f) in COMPARISONS {
        for types in types().filter(|types| types[0] == U32) {
            for (second, parts) in variants(at) {
                let [_, a, b] = types.map(|ty| ty.name);
                Video { types, parts, sat: false, second, f }.push(list, format!("vset.{a}.{b}.{operator}"));
            }
            at += 1;
        }
    }
}

/// What `vmad` does with its operands' signs, and how far it shifts the sum.
#[derive(Clone, Copy)]
struct Mad {
    types: [Int; 3],
    parts: [Part; 2],
    minus: [bool; 3],
    po: bool,
    sat: bool,
    scale: u32,
}

impl Mad {
    fn answer(self, of: &[u64]) -> u64 {
        let [_, a, b] = self.types;
        let product = part(a, self.parts[0], of[0]) * part(b, self.parts[1], of[1]);
        let minus_product = self.minus[0] != self.minus[1];
        let signed = a.signed || b.signed || minus_product || self.minus[2];
        let ty = if signed { S32 } else { U32 };
        let (product, third, least) = match (self.po, minus_product, self.minus[2]) {
            (true, ..) => (product, of[2], 1),
            (_, true, _) => (!product, of[2], 1),
            (_, _, true) => (product, !of[2], 1),
            _ => (product, of[2], 0),
        };
        let result = (product + ty.value(third) + least) >> self.scale;
        if self.sat { ty.clamp(result) } else { ty.cut(result) }
    }
}

fn products(list: &mut List) {
    let mut at = 0;
    for types in types() {
        for sat in [false, true] {
            for scale in [0, 7, 15] {
                for (po, minus) in [
                    (true, [false; 3]),
                    (false, [false; 3]),
                    (false, [true, false, false]),
                    (false, [false, true, false]),
                    (false, [false, false, true]),
                ] {
                    let parts = [PARTS[at % 7], PARTS[at / 7 % 7]];
                    // What has a minus has a sign.
                    let is_right =
                        types[0].signed == (types[1].signed || types[2].signed || minus.contains(&true));
                    at += 1;
                    if is_right {
                        product(list, Mad { types, parts, minus, po, sat, scale });
                    }
                }
            }
        }
    }
}

fn product(list: &mut List, mad: Mad) {
    let [to, a, b] = mad.types.map(|ty| ty.name);
    let more = [(mad.po, ".po"), (mad.sat, ".sat"), (mad.scale == 7, ".shr7"), (mad.scale == 15, ".shr15")];
    let more: String = more.iter().filter(|it| it.0).map(|it| it.1).collect();
    let sign = mad.minus.map(|minus| if minus { "-" } else { "" });
    let [first, second] = mad.parts.map(|part| part.0);
    let opcode = format!("vmad.{to}.{a}.{b}{more}");
    let operands = format!("{}%w0{first}, {}%w1{second}, {}$c", sign[0], sign[1], sign[2]);
    let code = format!("mov.b32 %w0, $a; mov.b32 %w1, $b; {opcode} $d, {operands};");
    let name = format!("{opcode} of {}a{first}, {}b{second}, {}c", sign[0], sign[1], sign[2]);
    list.coded(name, &[Kind::I32; 3], 4, code, move |of| mad.answer(of));
}

/// Whether an H200 computes forms of this kind in another way than the manual says: the simulated driver refuses them.
pub(in super::super) fn differs(name: &str) -> bool {
    const SCALAR: [&str; 9] = ["vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vset", "vmad"];

    let (opcode, operands) = name.split_once(' ').unwrap_or((name, ""));
    let parts: Vec<&str> = opcode.split('.').collect();
    let has = |part: &str| parts[1..].contains(&part);
    let (op, is_unsigned, is_merged) = (parts[0], parts.get(1) == Some(&"u32"), operands.starts_with("d."));
    if op == "vmad" {
        return has("sat") || has("shr15") || is_unsigned;
    }
    let saturates = is_merged || op == "vshl" || is_unsigned && ["vadd", "vsub", "vabsdiff"].contains(&op);
    SCALAR.contains(&op) && (has("min") || has("max") || has("sat") && saturates || op == "vset" && is_merged)
}
