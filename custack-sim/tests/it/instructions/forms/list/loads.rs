//! Loads and stores of every space, type and order: from memory into registers as wide as the type and wider, and back.

use super::super::form::List;
use super::super::operands::Kind;
use super::super::share::memory_examples;
use super::fold::{Folding, folded};
use super::places::{Opcode, Space, TABLE, of_table, size};

/// Bytes of the registers into which a type is loaded, or from which it is stored.
fn widths(ty: &str) -> Vec<usize> {
    match (size(ty), ty.starts_with('f')) {
        (size, true) => vec![size],
        (16, _) => vec![16],
        (size, _) => [2, 4, 8].into_iter().filter(|width| *width >= size).collect(),
    }
}

fn letter(width: usize) -> &'static str {
    match width {
        2 => "g",
        4 => "u",
        8 => "e",
        _ => "v",
    }
}

fn vector(width: usize, count: usize) -> String {
    let all: Vec<String> = (0..count).map(|at| format!("%{}{at}", letter(width))).collect();
    if count == 1 { all[0].clone() } else { format!("{{{}}}", all.join(", ")) }
}

/// An element of 16 bytes of memory, as it is in a register of this width.
fn element(bytes: u128, at: usize, size: usize, width: usize, signed: bool) -> Vec<u64> {
    let spare = 128 - 8 * size as u32;
    let cut = bytes >> (8 * size * at) << spare;
    let value = if signed { (cut as i128 >> spare) as u128 } else { cut >> spare };
    if width == 16 {
        return vec![value as u64, (value >> 64) as u64];
    }
    vec![value as u64 & (u64::MAX >> (64 - 8 * width))]
}

/// All `ld` and `ldu`, and all `st`.
pub(super) fn list(list: &mut List) {
    for name in memory_examples(0) {
        let opcode = Opcode::new(&name);
        if opcode.has("st") { store(list, &name, &opcode) } else { load(list, &name, &opcode) }
    }
}

fn load(list: &mut List, name: &str, opcode: &Opcode<'_>) {
    let (ty, count, space) = (opcode.ty(), opcode.count(), opcode.space());
    let only_read = opcode.any(&["nc", "ldu"]).is_some() || space == Space::Constant;
    let mut folding = Folding::new();
    let mut address = "[%s]";
    match space {
        Space::Parameter => address = "[given]",
        _ if only_read => {
            let table = if space == Space::Constant { "const_table" } else { "global_table" };
            folding.line(&format!(
                "and.b64 %s, $a, {}; shl.b64 %s, %s, 4; mov.u64 %z, {table}; add.u64 %s, %s, %z;",
                TABLE / 2 - 1
            ));
            if space == Space::GenericGlobal || space == Space::Generic {
                folding.line("cvta.global.u64 %s, %s;");
            }
        }
        _ => {
            space.address(&mut folding);
            folding.line(&format!("st{}.v2.b64 [%s], {{$a, $b}};", space.dot()));
        }
    }
    let policy = if name.contains("cache_hint") {
        folding.line("createpolicy.fractional.L2::evict_last.b64 %e11;");
        ", %e11"
    } else {
        ""
    };
    let widths = widths(ty);
    for &width in &widths {
        folding.line(&format!("{} {}, {address}{policy};", name, vector(width, count)));
        (0..count).for_each(|at| folding.add(&format!("%{}{at}", letter(width)), width));
    }
    let (size, signed, is_parameter) = (size(ty), ty.starts_with('s'), space == Space::Parameter);
    list.on_memory(name, &[Kind::I64, Kind::I64], folding.end(), move |of| {
        let at = of[0] as usize % (TABLE / 2) * 2;
        let [low, high] = match (is_parameter, only_read) {
            (true, _) => [of_table(0), of_table(1)],
            (_, true) => [of_table(at), of_table(at + 1)],
            _ => [of[0], of[1]],
        };
        let bytes = u128::from(low) | u128::from(high) << 64;
        let each = |width: &usize| -> Vec<u64> {
            (0..count).flat_map(|at| element(bytes, at, size, *width, signed)).collect()
        };
        folded(&widths.iter().flat_map(each).collect::<Vec<u64>>())
    });
}

fn store(list: &mut List, name: &str, opcode: &Opcode<'_>) {
    let (ty, count, space) = (opcode.ty(), opcode.count(), opcode.space());
    let (size, widths) = (size(ty), widths(ty));
    let mut folding = Folding::new();
    space.address(&mut folding);
    let policy = if name.contains("cache_hint") {
        folding.line("createpolicy.fractional.L2::evict_last.b64 %e11;");
        ", %e11"
    } else {
        ""
    };
    for &width in &widths {
        folding.line(&format!("st{}.v2.b64 [%s], {{$a, $b}};", space.dot()));
        for at in 0..count {
            // What a wider register has above the value is no zero.
            let (word, shift) = (["$c", "$e"][at * size / 8], 8 * (at * size % 8));
            let to = format!("%{}{at}", letter(width));
            folding.line(&match width {
                16 => format!("mov.b128 {to}, {{$c, $e}};"),
                8 => format!("shr.u64 {to}, {word}, {shift};"),
                4 => format!("shr.u64 %z, {word}, {shift}; cvt.u32.u64 {to}, %z;"),
                _ => format!("shr.u64 %z, {word}, {shift}; cvt.u16.u64 {to}, %z;"),
            });
        }
        folding.line(&format!("{name} [%s], {}{policy};", vector(width, count)));
        folding.line(&format!("ld{}.v2.b64 {{%x, %y8}}, [%s];", space.dot()));
        folding.line("mov.b64 %e10, %y8;");
        folding.add("%x", 8);
        folding.add("%e10", 8);
    }
    let (times, whole) = (widths.len(), 8 * size * count);
    list.on_memory(name, &[Kind::I64; 4], folding.end(), move |of| {
        let [old, new] =
            [[of[0], of[1]], [of[2], of[3]]].map(|it| u128::from(it[0]) | u128::from(it[1]) << 64);
        let mask = u128::MAX >> (128 - whole);
        let left = old & !mask | new & mask;
        folded(&[left as u64, (left >> 64) as u64].repeat(times))
    });
}
