//! Atomic operations of every space, order and type: what they return, and what they leave.

use super::super::exact::{BF16, F16, F32, F64, Format, Mode, Number, sum};
use super::super::form::List;
use super::super::operands::Kind;
use super::super::share::memory_examples;
use super::fold::{Folding, folded};
use super::places::{Opcode, Space, size};
use std::collections::HashSet;

/// All `atom` and `red`.
pub(super) fn list(list: &mut List) {
    let mut seen = HashSet::new();
    for name in memory_examples(1) {
        let opcode = Opcode::new(&name);
        match (opcode.count(), opcode.ty()) {
            (1, "b128") => wide(list, &name, &opcode),
            (1, _) => {
                scalar(list, &name, &opcode);
                together(list, &name, &opcode);
                if seen.insert(kind_of(&opcode)) {
                    super::crowds::of_a_block(list, &name, &opcode);
                }
            }
            _ => vector(list, &name, &opcode),
        }
    }
}

/// The operation, its type and space, and whether it returns.
fn kind_of(opcode: &Opcode<'_>) -> (&'static str, String, &'static str, bool, bool) {
    let (ty, space) = (opcode.ty().to_owned(), opcode.space());
    (operation(opcode), ty, space.dot(), space == Space::Generic, opcode.has("atom"))
}

const OPERATIONS: [&str; 10] = ["add", "min", "max", "and", "or", "xor", "inc", "dec", "exch", "cas"];

pub(super) fn operation(opcode: &Opcode<'_>) -> &'static str {
    OPERATIONS.into_iter().find(|operation| opcode.has(operation)).unwrap()
}

pub(super) fn float(ty: &str) -> Option<Format> {
    Some(match ty {
        "f16" | "f16x2" => F16,
        "bf16" | "bf16x2" => BF16,
        "f32" => F32,
        "f64" => F64,
        _ => return None,
    })
}

/// The new value of memory with this old one.
pub(super) fn new(operation: &str, ty: &str, old: u64, a: u64, b: u64, is_global: bool) -> u64 {
    if let Some(low) = ty.strip_suffix("x2") {
        let half = |by: u32| new(operation, low, old >> by & 0xffff, a >> by & 0xffff, 0, is_global);
        return half(0) | half(16) << 16;
    }
    if let (Some(format), "add" | "min" | "max") = (float(ty), operation) {
        return of_floats(operation, format, old, a, is_global);
    }
    let bits = 8 * size(ty) as u32;
    let mask = u64::MAX >> (64 - bits);
    let signed = |value: u64| (value << (64 - bits)) as i64 >> (64 - bits);
    match operation {
        "add" => old.wrapping_add(a) & mask,
        "min" if ty.starts_with('s') => signed(old).min(signed(a)) as u64 & mask,
        "max" if ty.starts_with('s') => signed(old).max(signed(a)) as u64 & mask,
        "min" => old.min(a),
        "max" => old.max(a),
        "and" => old & a,
        "or" => old | a,
        "xor" => old ^ a,
        "inc" => {
            if old >= a {
                0
            } else {
                old + 1
            }
        }
        "dec" => {
            if old == 0 || old > a {
                a
            } else {
                old - 1
            }
        }
        "exch" => a,
        _ => {
            if old == a {
                b
            } else {
                old
            }
        }
    }
}

/// A sum in memory: global memory flushes subnormal numbers of `f32`, and takes a NaN of `f64` as it is, first that of the
/// operand.
fn sum_in(is_global: bool, format: Format, old: u64, a: u64) -> u64 {
    let flush = |bits: u64| if is_global && format == F32 { format.flush(bits) } else { bits };
    let nan = [a, old].into_iter().find(|bits| format.is_nan(*bits));
    match (sum(format.decode(flush(old)), format.decode(flush(a)), Mode::Nearest), nan) {
        (Number::Nan, Some(nan)) if is_global && format == F64 => nan,
        (Number::Nan, _) => format.nan(&[old, a]),
        (number, _) => flush(format.round(number, Mode::Nearest)),
    }
}

fn of_floats(operation: &str, format: Format, old: u64, a: u64, is_global: bool) -> u64 {
    if operation == "add" {
        return sum_in(is_global, format, old, a);
    }
    match (format.is_nan(old), format.is_nan(a)) {
        (true, true) => return format.nan(&[old, a]),
        (true, false) => return a,
        (false, true) => return old,
        _ => {}
    }
    // As integers of sign and magnitude, in which -0 is below +0.
    let key =
        |bits: u64| if bits & format.sign() != 0 { -1 - (bits & !format.sign()) as i64 } else { bits as i64 };
    let greater = key(old) >= key(a);
    if (operation == "max") == greater { old } else { a }
}

fn kind(ty: &str) -> Kind {
    match ty {
        "f16" => Kind::F16,
        "bf16" => Kind::Bf16,
        "f16x2" => Kind::F16x2,
        "bf16x2" => Kind::Bf16x2,
        "f32" => Kind::F32,
        "f64" => Kind::F64,
        _ => match size(ty) {
            2 => Kind::I16,
            4 => Kind::I32,
            _ => Kind::I64,
        },
    }
}

fn policy(name: &str, folding: &mut Folding) -> &'static str {
    if !name.contains("cache_hint") {
        return "";
    }
    folding.line("createpolicy.fractional.L2::evict_last.b64 %e11;");
    ", %e11"
}

fn scalar(list: &mut List, name: &str, opcode: &Opcode<'_>) {
    let (ty, space, returns) = (opcode.ty().to_owned(), opcode.space(), opcode.has("atom"));
    let operation = operation(opcode);
    let size = size(&ty);
    let register = match size {
        2 => "%g",
        4 => "%u",
        _ => "%e",
    };
    let bits = 8 * size;
    let dot = space.dot();
    let mut folding = Folding::new();
    space.address(&mut folding);
    folding.line(&format!("st{dot}.b{bits} [%s], $a; mov.b{bits} {register}1, $b;"));
    let is_cas = operation == "cas";
    if is_cas {
        // It is what memory has of every other third operand.
        let (and, from) = if size == 8 {
            ("cvt.u32.u64 %f0, $c; and.b32 %f0, %f0, 1;", "b64")
        } else if size == 4 {
            ("and.b32 %f0, $c, 1;", "b32")
        } else {
            ("cvt.u32.u16 %f0, $c; and.b32 %f0, %f0, 1;", "b16")
        };
        folding.line(&format!(
            "{and} setp.eq.u32 %k, %f0, 1; selp.{from} {register}1, $a, $b, %k; mov.b{bits} {register}2, $c;"
        ));
    }
    let policy = policy(name, &mut folding);
    let second = if is_cas { format!(", {register}2") } else { String::new() };
    let first = if returns { format!("{register}0, ") } else { String::new() };
    folding.line(&format!("{name} {first}[%s], {register}1{second}{policy};"));
    if returns {
        folding.add(&format!("{register}0"), size);
    }
    folding.line(&format!("ld{dot}.b{bits} {register}3, [%s];"));
    folding.add(&format!("{register}3"), size);
    let kinds = vec![kind(&ty); if is_cas { 3 } else { 2 }];
    list.on_memory(name, &kinds, folding.end(), move |of| {
        let (old, other) = (of[0], if is_cas { of[2] } else { 0 });
        let is_global = space.is_global(*of.last().unwrap());
        let a = if is_cas && other & 1 == 1 { old } else { of[1] };
        let new = new(operation, &ty, old, a, other, is_global);
        if returns { folded(&[old, new]) } else { new }
    });
}

/// All lanes of a warp at one address, with integers, of which the order does not matter.
fn together(list: &mut List, name: &str, opcode: &Opcode<'_>) {
    let (ty, space, operation) = (opcode.ty().to_owned(), opcode.space(), operation(opcode));
    let commutes = ["add", "min", "max", "and", "or", "xor", "inc", "dec"].contains(&operation);
    if !commutes || float(&ty).is_some() || name.contains("cache_hint") {
        return;
    }
    let (size, dot, is_counter) = (size(&ty), space.dot(), ["inc", "dec"].contains(&operation));
    let (register, bits) = (if size == 4 { "%u" } else { "%e" }, 8 * size);
    let mut folding = Folding::new();
    space.group_address(&mut folding, 32);
    folding
        .line(&format!("bar.warp.sync 0xffffffff; st{dot}.b{bits} [%s], {START}; bar.warp.sync 0xffffffff;"));
    folding.line(&match (is_counter, size) {
        (true, _) => format!("mov.u32 %u1, {BOUND};"),
        (_, 4) => "cvt.u32.u64 %u1, $a;".to_owned(),
        _ => "mov.b64 %e1, $a;".to_owned(),
    });
    let first = if opcode.has("atom") { format!("{register}0, ") } else { String::new() };
    folding.line(&format!("{name} {first}[%s], {register}1; bar.warp.sync 0xffffffff;"));
    folding.line(&format!("ld{dot}.b{bits} {register}3, [%s];"));
    folding.add(&format!("{register}3"), size);
    list.of_warps(&format!("{name} of a warp"), folding.end(), move |of| {
        let mask = u64::MAX >> (64 - bits);
        let operand = |operand: &u64| if is_counter { BOUND } else { operand & mask };
        let last = of.iter().fold(START, |old, it| new(operation, &ty, old, operand(it), 0, false));
        vec![last; 32]
    });
}

/// What memory has before all lanes of a warp change it, and up to where they count.
const START: u64 = 5;
const BOUND: u64 = 20;

/// Of 128 bits, whose halves are two operands.
fn wide(list: &mut List, name: &str, opcode: &Opcode<'_>) {
    let (space, is_cas) = (opcode.space(), opcode.has("cas"));
    let dot = space.dot();
    let mut folding = Folding::new();
    space.address(&mut folding);
    folding.line(&format!("st{dot}.v2.b64 [%s], {{$a, $b}};"));
    let code = if is_cas {
        // Of every other third operand, what memory has.
        "cvt.u32.u64 %f0, $c; and.b32 %f0, %f0, 1; setp.eq.u32 %k, %f0, 1; selp.b64 %e0, $a, $c, %k; \
         selp.b64 %e1, $b, $e, %k; mov.b128 %v1, {%e0, %e1}; mov.b128 %v2, {$e, $c};"
    } else {
        "mov.b128 %v1, {$c, $e};"
    };
    folding.line(code);
    folding.line(&format!("{name} %v0, [%s], %v1{};", if is_cas { ", %v2" } else { "" }));
    folding.add("%v0", 16);
    folding.line(&format!("ld{dot}.v2.b64 {{%e0, %e1}}, [%s];"));
    folding.add("%e0", 8);
    folding.add("%e1", 8);
    list.on_memory(name, &[Kind::I64; 4], folding.end(), move |of| {
        let new = match is_cas {
            false => [of[2], of[3]],
            true if of[2] & 1 == 1 || of[..2] == of[2..4] => [of[3], of[2]],
            true => [of[0], of[1]],
        };
        folded(&[of[0], of[1], new[0], new[1]])
    });
}

/// Several values beside each other: four words of memory and of operands are rotations of the four operands.
fn vector(list: &mut List, name: &str, opcode: &Opcode<'_>) {
    let (ty, count, space, returns) =
        (opcode.ty().to_owned(), opcode.count(), opcode.space(), opcode.has("atom"));
    let operation = operation(opcode);
    let (size, words) = (size(&ty), size(&ty) * count / 4);
    let turn = if words == 4 { 1 } else { words };
    let given = ["$a", "$b", "$c", "$e"];
    let dot = space.dot();
    let mut folding = Folding::new();
    space.address(&mut folding);
    for at in 0..words {
        folding.line(&format!("st{dot}.b32 [%s+{}], {};", 4 * at, given[at]));
        let from = given[(at + turn) % 4];
        folding.line(&match size {
            2 => format!("mov.b32 {{%g{}, %g{}}}, {from};", 2 * at, 2 * at + 1),
            _ => format!("mov.b32 %u{at}, {from};"),
        });
    }
    let register = if size == 2 { "%g" } else { "%u" };
    let many = |from: usize| -> String {
        (from..from + count).map(|at| format!("{register}{at}")).collect::<Vec<_>>().join(", ")
    };
    let second = if size == 2 { 8 } else { 4 };
    let first = if returns { format!("{{{}}}, ", many(second)) } else { String::new() };
    folding.line(&format!("{name} {first}[%s], {{{}}};", many(0)));
    if returns {
        (0..count).for_each(|at| folding.add(&format!("{register}{}", second + at), size));
    }
    for at in 0..words {
        folding.line(&format!("ld{dot}.b32 %f{at}, [%s+{}];", 4 * at));
        folding.add(&format!("%f{at}"), 4);
    }
    let pair = match &ty[..] {
        "f16" => "f16x2".to_owned(),
        "bf16" => "bf16x2".to_owned(),
        other => other.to_owned(),
    };
    list.on_memory(name, &[kind(&pair); 4], folding.end(), move |of| {
        let mut all = Vec::new();
        if returns && size == 2 {
            of[..words].iter().for_each(|word| all.extend([word & 0xffff, word >> 16]));
        } else if returns {
            all.extend(&of[..words]);
        }
        all.extend((0..words).map(|at| new(operation, &pair, of[at], of[(at + turn) % 4], 0, true)));
        folded(&all)
    });
}
