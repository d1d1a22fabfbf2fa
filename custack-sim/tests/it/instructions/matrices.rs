//! Instructions on matrices that a warp has in its registers, against plain products of matrices.

use super::warps::{compute, refused};
use crate::harness::run;

/// How elements are written into memory: their size in bits, and the bits of a small integer.
struct Form {
    name: &'static str,
    bits: usize,
    encode: fn(i32) -> u64,
}

fn half(value: i32) -> u64 {
    // Exact for what has few bits.
    if value == 0 {
        return 0;
    }
    let bits = (value as f32).to_bits();
    u64::from((bits >> 16 & 0x8000) | ((bits >> 23 & 0xff) - 112) << 10 | (bits >> 13 & 0x3ff))
}

fn form(name: &'static str) -> Form {
    let (bits, encode): (usize, fn(i32) -> u64) = match name {
        "f16" => (16, half),
        "bf16" => (16, |value| u64::from((value as f32).to_bits() >> 16)),
        "tf32" | "f32" => (32, |value| (value as f32).to_bits().into()),
        "f64" => (64, |value| f64::from(value).to_bits()),
        "s8" => (8, |value| value as u8 as u64),
        "u8" => (8, |value| value.unsigned_abs().into()),
        "s4" => (4, |value| (value & 15) as u64),
        "u4" => (4, |value| u64::from(value.unsigned_abs() & 15)),
        "b1" => (1, |value| (value & 1) as u64),
        _ => (32, |value| value as u32 as u64),
    };
    Form { name, bits, encode }
}

impl Form {
    /// What an element is for the arithmetic, where its type has not all small integers.
    fn value(&self, value: i32) -> i32 {
        match self.name {
            "u8" | "u4" => value.abs(),
            "b1" => value & 1,
            _ => value,
        }
    }

    fn registers(&self) -> (&'static str, &'static str) {
        if self.bits == 64 { ("%d", "b64") } else { ("%r", "b32") }
    }
}

/// A matrix of small integers, the same in every run.
fn matrix(rows: usize, columns: usize, seed: usize) -> Vec<Vec<i32>> {
    let element =
        |row: usize, column: usize| ((row * 7 + column * 5 + row * column * 3 + seed) % 11) as i32 - 5;
    (0..rows).map(|row| (0..columns).map(|column| element(row, column)).collect()).collect()
}

/// The bytes of a matrix, by rows or by columns, whose beginnings are `stride` elements apart.
fn bytes(of: &[Vec<i32>], form: &Form, by_rows: bool, stride: usize) -> Vec<u8> {
    let lines = if by_rows { of.len() } else { of[0].len() };
    let mut bytes = vec![0u8; (lines * stride * form.bits).div_ceil(8)];
    for (row, elements) in of.iter().enumerate() {
        for (column, element) in elements.iter().enumerate() {
            let (line, at) = if by_rows { (row, column) } else { (column, row) };
            let (bit, value) = ((line * stride + at) * form.bits, (form.encode)(*element));
            for part in 0..form.bits {
                bytes[(bit + part) / 8] |= ((value >> part & 1) as u8) << ((bit + part) % 8);
            }
        }
    }
    bytes
}

fn product(a: &[Vec<i32>], b: &[Vec<i32>], c: &[Vec<i32>], with: impl Fn(i32, i32) -> i32) -> Vec<Vec<i32>> {
    let sum = |row: usize, column: usize| (0..b.len()).map(|k| with(a[row][k], b[k][column])).sum::<i32>();
    let line = |row: usize| (0..b[0].len()).map(|column| c[row][column] + sum(row, column)).collect();
    (0..a.len()).map(line).collect()
}

fn names(prefix: &str, form: &Form, count: usize) -> String {
    let (letter, _) = form.registers();
    let all: Vec<_> = (0..count).map(|at| format!("{letter}{prefix}{at}")).collect();
    format!("{{{}}}", all.join(", "))
}

/// Multiplies with `wmma`, from and to memory in these layouts, and compares with a plain product.
fn check(shape: [usize; 3], types: [&'static str; 4], layouts: [&str; 3], space: &str, op: &str) {
    let [m, n, k] = shape;
    let [d, a, b, c] = types.map(form);
    let by_rows = layouts.map(|layout| layout == "row");
    let matrices = [matrix(m, k, 1), matrix(k, n, 2), matrix(m, n, 3)];
    let lines = |rows: usize, columns: usize, by_rows: bool| if by_rows { columns } else { rows };
    let spare = if a.bits == 1 { 128 } else { 32 };
    let strides =
        [lines(m, k, by_rows[0]) + spare, lines(k, n, by_rows[1]) + spare, lines(m, n, by_rows[2]) + 8];
    let mut input = bytes(&matrices[0], &a, by_rows[0], strides[0]);
    let at_b = input.len();
    input.extend(bytes(&matrices[1], &b, by_rows[1], strides[1]));
    let at_c = input.len();
    input.extend(bytes(&matrices[2], &c, by_rows[2], strides[2]));
    let count = |elements: usize, form: &Form, third: bool| {
        if form.name == "f16" && !third { 8 } else { (elements * form.bits / 32 / 32).max(1) }
    };
    let doubles = d.bits == 64;
    let third = if doubles { 2 } else { count(m * n, &c, true) };
    let result = if doubles { 2 } else { count(m * n, &d, true) };
    let first = if doubles { 1 } else { count(m * k, &a, false) };
    let second = if doubles { 1 } else { count(k * n, &b, false) };
    let (fa, fb) = (names("a", &a, first), names("b", &b, second));
    let (fc, fd) = (names("c", &c, third), names("d", &d, result));
    let shape = format!("m{m}n{n}k{k}");
    let written = if a.name == "f16" { format!("{}.{}", d.name, c.name) } else { types.join(".") };
    // What the products are computed of, in global memory or in shared memory.
    let copy: String = (0..input.len().div_ceil(16))
        .map(|at| {
            let at = 16 * at;
            format!("ld.global.v4.b32 {{%t0, %t1, %t2, %t3}}, [%from+{at}]; st.shared.v4.b32 [tile+{at}], {{%t0, %t1, %t2, %t3}};\n")
        })
        .collect();
    input.resize(input.len().next_multiple_of(16), 0);
    let size = input.len();
    let (copy, base) = match space {
        "global" | "" => (String::new(), "mov.u64 %base, %from;".to_owned()),
        _ => (copy, "mov.u64 %base, tile;".to_owned()),
    };
    let dot = if space.is_empty() { String::new() } else { format!(".{space}") };
    let [la, lb, lc] = layouts;
    let [sa, sb, sc] = strides;
    let (na, nb, nc, nd) = (a.name, b.name, c.name, d.name);
    let body = format!(
        ".shared .align 128 .b8 tile[{size}]; .reg .b64 %base; .reg .b32 %t<4>; .reg .b32 %stride;
        .reg .b32 %ra<9>, %rb<9>, %rc<9>, %rd<9>; .reg .b64 %da<9>, %db<9>, %dc<9>, %dd<9>;
        {copy} bar.sync 0; {base}
        mov.u32 %stride, {sa};
        wmma.load.a.sync.aligned.{la}.{shape}{dot}.{na} {fa}, [%base], %stride;
        wmma.load.b.sync.aligned.{lb}.{shape}{dot}.{nb} {fb}, [%base+{at_b}], {sb};
        wmma.load.c.sync.aligned.{lc}.{shape}{dot}.{nc} {fc}, [%base+{at_c}], {sc};
        wmma.mma{op}.sync.aligned.{la}.{lb}.{shape}.{written} {fd}, {fa}, {fb}, {fc};
        wmma.store.d.sync.aligned.{lc}.{shape}.global.{nd} [%to], {fd}, {sc};"
    );
    let with: fn(i32, i32) -> i32 = match op {
        ".xor.popc" => |a, b| a ^ b,
        _ => |a, b| a * b,
    };
    let plain = |of: &[Vec<i32>], form: &Form| -> Vec<Vec<i32>> {
        of.iter().map(|line| line.iter().map(|value| form.value(*value)).collect()).collect()
    };
    let sums = product(&plain(&matrices[0], &a), &plain(&matrices[1], &b), &matrices[2], with);
    let expected = bytes(&sums, &d, by_rows[2], sc);
    let found = compute(&body, 32, &input, expected.len());
    assert!(found == expected, "{shape} {types:?} {layouts:?} {space}: {found:?}, not {expected:?}");
}

#[test]
fn wmma_multiplies_every_type_in_every_shape_and_layout() {
    run(|| {
        for shape in [[16, 16, 16], [32, 8, 16], [8, 32, 16]] {
            for layouts in
                [["row", "row", "row"], ["col", "row", "col"], ["row", "col", "row"], ["col", "col", "col"]]
            {
                check(shape, ["f32", "f16", "f16", "f32"], layouts, "global", "");
                check(shape, ["f32", "bf16", "bf16", "f32"], layouts, "shared", "");
                check(shape, ["s32", "s8", "s8", "s32"], layouts, "global", "");
            }
            check(shape, ["f16", "f16", "f16", "f16"], ["row", "col", "row"], "shared", "");
            check(shape, ["f16", "f16", "f16", "f32"], ["row", "col", "row"], "shared::cta", "");
            check(shape, ["s32", "u8", "u8", "s32"], ["row", "col", "row"], "", "");
        }
        for layouts in [["row", "col", "row"], ["col", "row", "col"]] {
            check([16, 16, 8], ["f32", "tf32", "tf32", "f32"], layouts, "global", "");
            check([8, 8, 4], ["f64", "f64", "f64", "f64"], layouts, "shared", "");
        }
        check([8, 8, 32], ["s32", "s4", "s4", "s32"], ["row", "col", "row"], "global", "");
        check([8, 8, 32], ["s32", "u4", "u4", "s32"], ["row", "col", "col"], "shared", "");
        check([8, 8, 128], ["s32", "b1", "b1", "s32"], ["row", "col", "row"], "global", ".xor.popc");
        check([8, 8, 128], ["s32", "b1", "b1", "s32"], ["row", "col", "row"], "shared", ".and.popc");
    });
}

/// Where the manual has the elements of C: the row and the column of register `at`.
fn place_of_c(lane: usize, at: usize) -> (usize, usize) {
    (lane / 4 + if at < 2 { 0 } else { 8 }, lane % 4 * 2 + at % 2)
}

#[test]
fn mma_multiplies_what_ldmatrix_loads() {
    run(|| {
        let (a, b) = (matrix(16, 16, 4), matrix(16, 8, 5));
        let zero = vec![vec![0; 8]; 16];
        let sums = product(&a, &b, &zero, |a, b| a * b);
        for (name, transposed) in [("f16", false), ("f16", true), ("bf16", false)] {
            let form = form(name);
            let mut input = bytes(&a, &form, true, 16);
            // By columns, B needs no transposition.
            input.extend(bytes(&b, &form, transposed, if transposed { 8 } else { 16 }));
            let copy: String = (0..input.len() / 16)
                .map(|at| {
                    let at = 16 * at;
                    format!("ld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%from+{at}]; st.shared.v4.b32 [tile+{at}], {{%r0, %r1, %r2, %r3}};")
                })
                .collect();
            let (row, trans) = if transposed { (16, ".trans") } else { (32, "") };
            let second = if transposed { 128 } else { 16 };
            let body = format!(
                ".shared .align 16 .b8 tile[{}]; .reg .b32 %r<30>; .reg .b32 %at; .reg .b64 %place;
                {copy} bar.sync 0;
                and.b32 %r10, %lane, 15; mul.lo.u32 %r10, %r10, 32; shr.u32 %r11, %lane, 4; mad.lo.u32 %at, %r11, 16, %r10;
                mov.u32 %r12, tile; add.u32 %at, %at, %r12;
                ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r0, %r1, %r2, %r3}}, [%at];
                and.b32 %r10, %lane, 7; mul.lo.u32 %r10, %r10, {row}; shr.u32 %r11, %lane, 3; and.b32 %r11, %r11, 1;
                mad.lo.u32 %at, %r11, {second}, %r10; add.u32 %at, %at, %r12;
                ldmatrix.sync.aligned.m8n8.x2{trans}.shared.b16 {{%r4, %r5}}, [%at+512];
                mma.sync.aligned.m16n8k16.row.col.f32.{name}.{name}.f32 {{%r20, %r21, %r22, %r23}}, {{%r0, %r1, %r2, %r3}},
                    {{%r4, %r5}}, {{0f00000000, 0f00000000, 0f00000000, 0f00000000}};
                mad.wide.u32 %place, %lane, 16, %to; st.global.v4.b32 [%place], {{%r20, %r21, %r22, %r23}};",
                input.len()
            );
            let found = compute(&body, 32, &input, 512);
            for (index, word) in found.chunks(4).enumerate() {
                let (row, column) = place_of_c(index / 4, index % 4);
                let value = f32::from_le_bytes(word.try_into().unwrap());
                assert_eq!(value, sums[row][column] as f32, "{name} {row} {column}");
            }
        }
    });
}

/// `mma` with registers that are filled as the manual says: a row of A or a column of B for four lanes, with `per`
/// elements side by side in a register.
#[test]
fn mma_has_the_shapes_of_every_type() {
    run(|| {
        let shapes: &[([usize; 2], [&'static str; 4], &str)] = &[
            ([16, 8], ["f32", "f16", "f16", "f32"], ""),
            ([16, 8], ["f32", "bf16", "bf16", "f32"], ""),
            ([16, 4], ["f32", "tf32", "tf32", "f32"], ""),
            ([16, 8], ["f32", "tf32", "tf32", "f32"], ""),
            ([8, 4], ["f64", "f64", "f64", "f64"], ""),
            ([16, 4], ["f64", "f64", "f64", "f64"], ""),
            ([16, 8], ["f64", "f64", "f64", "f64"], ".rn"),
            ([16, 16], ["f64", "f64", "f64", "f64"], ""),
            ([8, 16], ["s32", "s8", "u8", "s32"], ""),
            ([16, 16], ["s32", "u8", "s8", "s32"], ".satfinite"),
            ([16, 32], ["s32", "s8", "s8", "s32"], ""),
            ([8, 32], ["s32", "s4", "s4", "s32"], ""),
            ([16, 32], ["s32", "u4", "s4", "s32"], ""),
            ([16, 64], ["s32", "s4", "u4", "s32"], ".satfinite"),
            ([8, 128], ["s32", "b1", "b1", "s32"], ".xor.popc"),
            ([16, 128], ["s32", "b1", "b1", "s32"], ".and.popc"),
            ([16, 256], ["s32", "b1", "b1", "s32"], ".and.popc"),
        ];
        for &([m, k], types, end) in shapes {
            let [d, a, b, _] = types.map(form);
            let matrices = [matrix(m, k, 6), matrix(k, 8, 7), matrix(m, 8, 8)];
            let per = (32 / a.bits).max(1);
            let size = a.bits.max(32) / 8;
            let count_a = m * k / 32 / per;
            let (count_b, count_c) = (k * 8 / 32 / per, m * 8 / 32);
            let mut input = Vec::new();
            let mut add =
                |registers: usize, form: &Form, per: usize, at: &dyn Fn(usize, usize, usize) -> i32| {
                    for (lane, register) in (0..32).flat_map(|lane| (0..registers).map(move |it| (lane, it)))
                    {
                        let bits = (0..per).fold(0u64, |all, part| {
                            all | (form.encode)(at(lane, register, part)) << (form.bits * part)
                        });
                        input.extend(&bits.to_le_bytes()[..size]);
                    }
                };
            let tiles = m / 8;
            add(count_a, &a, per, &|lane, at, part| {
                matrices[0][lane / 4 + 8 * (at % tiles)][(at / tiles * 4 + lane % 4) * per + part]
            });
            add(count_b, &b, per, &|lane, at, part| matrices[1][(at * 4 + lane % 4) * per + part][lane / 4]);
            add(count_c, &d, 1, &|lane, at, _| {
                let (row, column) = place_of_c(lane, at);
                matrices[2][row][column]
            });
            let bits = 8 * size;
            let list = |prefix: &str, count: usize| {
                (0..count).map(|at| format!("%{prefix}{at}")).collect::<Vec<_>>()
            };
            let mut loads = String::new();
            let mut begin = 0;
            for (prefix, count) in [("a", count_a), ("b", count_b), ("c", count_c)] {
                loads += &format!("mad.wide.u32 %place, %lane, {}, %from; ", count * size);
                for (at, name) in list(prefix, count).iter().enumerate() {
                    loads += &format!("ld.global.b{bits} {name}, [%place+{}]; ", begin + at * size);
                }
                begin += 32 * count * size;
            }
            let braces = |prefix: &str, count: usize| format!("{{{}}}", list(prefix, count).join(", "));
            let mut stores = format!("mad.wide.u32 %place, %lane, {}, %to; ", count_c * size);
            for at in 0..count_c {
                stores += &format!("st.global.b{bits} [%place+{}], %d{at}; ", at * size);
            }
            let instruction = format!(
                "mma.sync.aligned.m{m}n8k{k}.row.col{}.{}{}",
                if end == ".rn" { end } else { "" },
                types.join("."),
                if end == ".rn" { "" } else { end }
            );
            let body = format!(
                ".reg .b{bits} %a<9>, %b<9>, %c<9>, %d<9>; .reg .b64 %place; {loads}
                {instruction} {}, {}, {}, {}; {stores}",
                braces("d", count_c),
                braces("a", count_a),
                braces("b", count_b),
                braces("c", count_c)
            );
            let plain = |of: &[Vec<i32>], form: &Form| -> Vec<Vec<i32>> {
                of.iter().map(|line| line.iter().map(|value| form.value(*value)).collect()).collect()
            };
            let with: fn(i32, i32) -> i32 = if end == ".xor.popc" { |a, b| a ^ b } else { |a, b| a * b };
            let sums = product(&plain(&matrices[0], &a), &plain(&matrices[1], &b), &matrices[2], with);
            let found = compute(&body, 32, &input, 32 * count_c * size);
            for (index, bytes) in found.chunks(size).enumerate() {
                let (row, column) = place_of_c(index / count_c, index % count_c);
                let expected = (d.encode)(sums[row][column]).to_le_bytes();
                assert_eq!(bytes, &expected[..size], "{instruction} {row} {column}");
            }
        }
    });
}

#[test]
fn matrices_of_halves_are_stored_and_turned() {
    run(|| {
        for (number, trans) in [("x1", ""), ("x2", ""), ("x4", ""), ("x4", ".trans")] {
            let count: usize = number[1..].parse().unwrap();
            let all: Vec<_> = (0..count).map(|at| format!("%r{at}")).collect();
            // Each half says its row and its column.
            let fill: String = all
                .iter()
                .enumerate()
                .map(|(at, name)| format!("add.u32 {name}, %word, {}; ", at * 0x0100_0100))
                .collect();
            let turn: String = match trans {
                "" => String::new(),
                _ => all
                    .iter()
                    .map(|name| format!("movmatrix.sync.aligned.m8n8.trans.b16 {name}, {name}; "))
                    .collect(),
            };
            let body = format!(
                ".shared .align 16 .b8 tile[512]; .reg .b32 %r<9>; .reg .b32 %word, %at, %low; .reg .b64 %place;
                shr.u32 %word, %lane, 2; shl.b32 %word, %word, 4; and.b32 %low, %lane, 3;
                mad.lo.u32 %low, %low, 2, %word; add.u32 %word, %low, 1; shl.b32 %word, %word, 16; or.b32 %word, %word, %low;
                {fill} {turn}
                mov.u32 %at, tile; mad.lo.u32 %at, %lane, 16, %at;
                stmatrix.sync.aligned.m8n8.{number}{trans}.shared.b16 [%at], {{{}}};
                bar.sync 0; ld.shared.v4.b32 {{%r0, %r1, %r2, %r3}}, [%at];
                mad.wide.u32 %place, %lane, 16, %to; st.global.v4.b32 [%place], {{%r0, %r1, %r2, %r3}};",
                all.join(", ")
            );
            let found = compute(&body, 32, &[], 512);
            for (index, bytes) in found.chunks(2).enumerate().take(64 * count) {
                let (matrix, row, column) = (index / 64, index / 8 % 8, index % 8);
                assert_eq!(bytes, &[(row * 16 + column) as u8, matrix as u8], "{number}{trans} {index}");
            }
        }
    });
}

#[test]
fn products_that_no_device_has_are_refused() {
    run(|| {
        for line in [
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32 {%r0,%r1,%r2,%r3},{%r0,%r1,%r2,%r3},{%r0,%r1},{%r0,%r1,%r2,%r3};",
            "mma.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%r0,%r1,%r2,%r3},{%r0,%r1,%r2,%r3},{%r0,%r1},{%r0,%r1,%r2,%r3};",
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r0,%r1,%r2},{%r0,%r1,%r2,%r3},{%r0,%r1},{%r0,%r1,%r2,%r3};",
            "mma.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r0,%r1,%r2,%r3},{%r0,%r1,%r2,%r3},{%r0,%r1},{%r0,%r1,%r2,%r3};",
            "wmma.load.a.sync.aligned.row.m16n16k8.global.f16 {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, [%to];",
            "wmma.load.b.sync.aligned.row.m8n8k32.global.s4 {%r0}, [%to];",
            "wmma.load.a.sync.aligned.m16n16k16.global.f16 {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, [%to];",
            "ldmatrix.sync.aligned.m8n8.x3.shared.b16 {%r0,%r1,%r2}, [%to];",
        ] {
            assert!(refused(&format!(".reg .b32 %r<9>; {line}")), "{line}");
        }
    });
}
