//! The video instructions that have two or four results.

use super::super::form::List;
use super::super::operands::Kind;
use super::integers::{Int, S32, U32};
use super::video::{COMPARISONS, Operation};

/// A form of one of these instructions.
#[derive(Clone, Copy)]
struct Lanes {
    /// 2 or 4.
    count: usize,
    types: [Int; 3],
    sat: bool,
    add: bool,
    /// A bit for each result, or nothing where it is not written.
    mask: Option<u32>,
    /// Which parts of both operands are taken, as digits from the highest on, or nothing where they are not written.
    selected: Option<[&'static str; 2]>,
    f: fn(i128, i128) -> i128,
}

impl Lanes {
    fn bits(self) -> u32 {
        32 / self.count as u32
    }

    /// The parts that are taken, the lowest first, as numbers.
    fn parts(self, of: &[u64], which: usize) -> Vec<i128> {
        let both = of[1] << 32 | of[0];
        let ty = Int { bits: self.bits(), ..self.types[1 + which] };
        let usual = match (self.count, which) {
            (2, 0) => "10",
            (2, _) => "32",
            (_, 0) => "3210",
            _ => "7654",
        };
        let digits = self.selected.map_or(usual, |it| it[which]);
        digits.bytes().rev().map(|digit| ty.value(both >> (u32::from(digit - b'0') * self.bits()))).collect()
    }

    fn answer(self, of: &[u64]) -> u64 {
        let (bits, to) = (self.bits(), Int { bits: self.bits(), ..self.types[0] });
        let [a, b] = [0, 1].map(|which| self.parts(of, which));
        let mut result = of[2];
        for lane in 0..self.count {
            if self.mask.is_some_and(|mask| mask >> lane & 1 == 0) {
                continue;
            }
            let value = (self.f)(a[lane], b[lane]);
            let value = if self.sat { to.value(to.clamp(value)) } else { value };
            if self.add {
                result = U32.cut(i128::from(result) + value);
            } else {
                let by = lane as u32 * bits;
                result = result & !((U32.cut(-1) >> (32 - bits)) << by) | to.cut(value) << by;
            }
        }
        result
    }

    fn push(self, list: &mut List, opcode: String) {
        let letter = if self.count == 2 { "h" } else { "b" };
        let opcode = if self.add { format!("{opcode}.add") } else { opcode };
        let mask = self.mask.map_or(String::new(), |mask| {
            let digits = (0..self.count).filter(|lane| mask >> lane & 1 == 1).map(|lane| lane.to_string());
            format!(".{letter}{}", digits.rev().collect::<String>())
        });
        let [a, b] =
            self.selected.map_or([String::new(), String::new()], |it| it.map(|it| format!(".{letter}{it}")));
        let name = format!("{opcode} d{mask}, a{a}, b{b}, c");
        let code = format!(
            "mov.b32 %w0, $a; mov.b32 %w1, $b; mov.b32 %w2, 0; {opcode} %w2{mask}, %w0{a}, %w1{b}, $c; mov.b32 $d, %w2;"
        );
        list.coded(name, &[Kind::I32; 3], 4, code, move |of| self.answer(of));
    }
}

const OPERATIONS: [Operation; 6] = [
    ("vadd", |a, b| a + b),
    ("vsub", |a, b| a - b),
    ("vavrg", |a, b| (a + b + i128::from(a + b >= 0)) >> 1),
    ("vabsdiff", |a, b| (a - b).abs()),
    ("vmin", std::cmp::min),
    ("vmax", std::cmp::max),
];

/// Selections that take parts of both operands, by a running number.
fn variant(count: usize, at: usize) -> (Option<u32>, Option<[&'static str; 2]>) {
    let masks = if count == 2 { [1, 2, 3, 1, 2] } else { [1, 10, 15, 6, 8] };
    let selections = if count == 2 {
        [["10", "32"], ["01", "23"], ["30", "12"], ["33", "00"]]
    } else {
        [["3210", "7654"], ["0123", "4567"], ["7250", "1634"], ["4444", "0370"]]
    };
    match at % 3 {
        0 => (None, None),
        1 => (Some(masks[at / 3 % 5]), Some(selections[at / 3 % 4])),
        _ => (Some(masks[at / 3 % 5]), None),
    }
}

fn types() -> impl Iterator<Item = [Int; 3]> {
    let type_of = |bit: u32| if bit & 1 == 0 { U32 } else { S32 };
    (0..8).map(move |bits| [type_of(bits >> 2), type_of(bits >> 1), type_of(bits)])
}

pub(super) fn list(list: &mut List) {
    for count in [2, 4] {
        let mut at = 0;
        for types in types() {
            for (op, f) in OPERATIONS {
                for (sat, add) in [(false, false), (true, false), (false, true)] {
                    for _ in 0..3 {
                        let (mask, selected) = variant(count, at);
                        let [to, a, b] = types.map(|ty| ty.name);
                        let opcode = format!("{op}{count}.{to}.{a}.{b}{}", if sat { ".sat" } else { "" });
                        Lanes { count, types, sat, add, mask, selected, f }.push(list, opcode);
                        at += 1;
                    }
                }
                at += 3;
            }
        }
        for types in types().filter(|types| types[0] == U32) {
            for (operator, f) in COMPARISONS {
                for add in [false, true] {
                    for _ in 0..3 {
                        let (mask, selected) = variant(count, at);
                        let [_, a, b] = types.map(|ty| ty.name);
                        let opcode = format!("vset{count}.{a}.{b}.{operator}");
                        Lanes { count, types, sat: false, add, mask, selected, f }.push(list, opcode);
                        at += 1;
                    }
                }
                at += 3;
            }
        }
    }
}
