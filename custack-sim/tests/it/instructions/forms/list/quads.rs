//! `mma.m8n8k4` of halves: four products, each of eight lanes.

use super::super::form::List;
use super::fold::Folding;
use super::matrices::{Element, Elements, Product, types};
use super::sums::Whole;

/// How many matrices there are side by side, and their side.
const SIDES: usize = 8;
const DEPTH: usize = 4;

/// Which product a lane takes part in, and where it is in it: of either half, and of four lanes.
fn quad(lane: usize) -> (usize, usize, usize) {
    (lane / 4 % 4, lane / 16 * 4, lane % 4)
}

/// Where the manual has an element of a factor, whose rows, or columns, are lanes.
fn place_of_factor(lane: usize, at: usize, is_by_lanes: bool) -> (usize, usize) {
    let (_, half, member) = quad(lane);
    if is_by_lanes { (member + half, at) } else { (at + half, member) }
}

/// Where the manual has an element of C.
fn place_of_c(lane: usize, at: usize, is_short: bool) -> (usize, usize) {
    let (_, half, member) = quad(lane);
    if is_short {
        return (member + half, at);
    }
    ((lane & 1) + (at & 2) + half, (at & 4) + (lane & 2) + (at & 1))
}

/// The four products are one below the other; a column of B is one of all of them, so each has columns of its own.
pub(super) fn mma(list: &mut List, name: &str, opcode: &str, any: bool) {
    let types = types(opcode);
    let has_short =
        types.iter().any(|it| it.name == "f16") && [types[0], types[3]].iter().any(|it| it.name == "f16");
    let [d, a, b, c] = [0, 1, 2, 3].map(|at: usize| types[at].chosen(any, has_short));
    let layouts: Vec<bool> =
        opcode.split('.').filter(|it| ["row", "col"].contains(it)).map(|it| it == "row").collect();
    let mut folding = Folding::new();
    let count = |element: Element| 8 * element.bits / 32;
    let registers = |letter: &str, count: usize| -> Vec<String> {
        (0..count).map(|at| format!("%{letter}x{at}")).collect()
    };
    let mut lists = vec![registers("d", count(d))];
    let mut at = 0;
    for (letter, element, count) in [("a", a, 2), ("b", b, 2), ("c", c, count(c))] {
        let all = registers(letter, count);
        for (number, register) in all.iter().enumerate() {
            element.make(&mut folding, register, at, number);
            at += 1;
        }
        lists.push(all);
    }
    let declared: String = lists.iter().map(|all| format!(".reg .b32 {}; ", all.join(", "))).collect();
    folding.0 = folding.0.replacen("mov.u64 %acc, 0;", &format!("{declared} mov.u64 %acc, 0;"), 1);
    let written: Vec<String> = lists.iter().map(|all| format!("{{{}}}", all.join(", "))).collect();
    folding.line(&format!("{opcode} {};", written.join(", ")));
    folding.results(&lists[0], 4, any);
    let product = Product { m: 4 * SIDES, n: 4 * SIDES, k: DEPTH, d, sat: false, xor: false, down: false };
    let factors = move |of: &[u64]| -> [Elements; 3] {
        let mut left = vec![vec![0.0; DEPTH]; 4 * SIDES];
        let mut right = vec![vec![0.0; 4 * SIDES]; DEPTH];
        let mut third = vec![vec![0.0; 4 * SIDES]; 4 * SIDES];
        for (lane, operand) in of.iter().enumerate() {
            let first = SIDES * quad(lane).0;
            for at in 0..DEPTH {
                let part = |element: Element, register: usize| {
                    let word = element.word(*operand, register + at / 2, at / 2);
                    element.value(word >> (16 * (at % 2)) & 0xffff)
                };
                let (row, column) = place_of_factor(lane, at, layouts[0]);
                left[first + row][column] = part(a, 0);
                let (column, row) = place_of_factor(lane, at, !layouts[1]);
                right[row][first + column] = part(b, 2);
            }
            for at in 0..8 {
                let per = 32 / c.bits;
                let word = c.word(*operand, 4 + at / per, at / per) >> (c.bits * (at % per));
                let (row, column) = place_of_c(lane, at, c.bits == 16);
                third[first + row][first + column] = c.value(word & (u64::MAX >> (64 - c.bits)));
            }
        }
        [left, right, third]
    };
    let places = move |lane: usize, register: usize| -> Vec<(usize, usize)> {
        let (per, first) = (32 / d.bits, SIDES * quad(lane).0);
        let place = |it| place_of_c(lane, register * per + it, d.bits == 16);
        (0..per).map(place).map(|(row, column)| (first + row, first + column)).collect()
    };
    super::sums::add(list, name, folding.end(), any, Whole { product, count: count(d), factors, places });
}
