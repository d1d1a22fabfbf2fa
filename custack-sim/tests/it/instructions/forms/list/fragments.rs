//! `wmma`, from memory and to memory: what a fragment has where, no manual says.

use super::super::form::List;
use super::fold::Folding;
use super::matrices::{Element, Product, shape, types};

/// Of a tile in memory.
#[derive(Clone, Copy)]
struct Tile {
    rows: usize,
    columns: usize,
    element: Element,
    by_rows: bool,
    /// Where it is in the memory of a warp.
    at: usize,
}

impl Tile {
    /// How many words, or elements if they are greater, each lane writes or reads.
    fn count(self) -> usize {
        (self.rows * self.columns * self.element.bits / self.element.bits.max(32)).div_ceil(32)
    }

    fn stride(self) -> usize {
        if self.by_rows { self.columns } else { self.rows }
    }

    /// The index of an element in memory.
    fn index(self, row: usize, column: usize) -> usize {
        if self.by_rows { row * self.columns + column } else { column * self.rows + row }
    }

    /// The row and the column of what is there in memory.
    fn place(self, index: usize) -> (usize, usize) {
        let (first, second) = (index / self.stride(), index % self.stride());
        if self.by_rows { (first, second) } else { (second, first) }
    }

    /// How many registers a fragment has.
    fn registers(self, is_factor: bool) -> usize {
        match (self.element.name, is_factor) {
            ("f16", true) => 8,
            _ => self.rows * self.columns * self.element.bits / self.element.bits.max(32) / 32,
        }
    }
}

/// The types D, A, B, and C of an instruction; those that its name does not have are chosen.
fn whole(opcode: &str, [_, _, k]: [usize; 3]) -> [&'static str; 4] {
    let types: Vec<&'static str> = types(opcode).iter().map(|it| it.name).collect();
    match (&types[..], opcode.split('.').nth(2)) {
        (&[d, a, b, c], _) => [d, a, b, c],
        (&[d, c], _) => [d, "f16", "f16", c],
        (&[one], Some("a" | "b")) => match one {
            "f16" | "bf16" | "tf32" => ["f32", one, one, "f32"],
            "f64" => ["f64"; 4],
            _ => ["s32", one, one, "s32"],
        },
        (&["f64"], _) => ["f64"; 4],
        (&["s32"], _) => {
            let factor = match k {
                32 => "s4",
                128 => "b1",
                _ => "s8",
            };
            ["s32", factor, factor, "s32"]
        }
        (&["f32"], _) if k == 8 => ["f32", "tf32", "tf32", "f32"],
        (&[one], _) => [one, "f16", "f16", one],
        _ => panic!("{opcode} has other types"),
    }
}

pub(super) fn wmma(list: &mut List, name: &str, opcode: &str, has_stride: bool, any: bool) {
    let [m, n, k] = shape(opcode);
    let names = whole(opcode, [m, n, k]);
    let is_short = names[0] == "f16";
    let [d, a, b, c] = names.map(|it| Element::of(it).unwrap());
    let [d, a, b, c] = [d, a, b, c].map(|it| it.chosen(any, is_short));
    let mut parts = opcode.split('.');
    let what = (parts.nth(1).unwrap(), parts.next().unwrap());
    let layouts: Vec<&str> = opcode.split('.').filter(|it| ["row", "col"].contains(it)).collect();
    let chosen = match what {
        ("load", "a") => [layouts[0], "col", "row"],
        ("load", "b") => ["row", layouts[0], "row"],
        ("mma", _) => [layouts[0], layouts[1], "row"],
        _ => ["row", "col", layouts[0]],
    };
    let tile = |rows, columns, element, layout: usize, at| Tile {
        rows,
        columns,
        element,
        by_rows: chosen[layout] == "row",
        at,
    };
    let [ta, tb, tc] = [tile(m, k, a, 0, 0), tile(k, n, b, 1, 1024), tile(m, n, c, 2, 2048)];
    let td = tile(m, n, d, 2, 3072);

    let space = opcode.split('.').find(|it| ["global", "shared", "shared::cta"].contains(it));
    let dot = match (space, what.0) {
        (Some(space), _) => format!(".{space}"),
        (None, "mma") => ".global".to_owned(),
        _ => String::new(),
    };
    let mut folding = Folding::new();
    folding.line("shr.u32 %f1, %i, 5;");
    folding.line(if dot.contains("shared") {
        "and.b32 %f1, %f1, 7; mul.wide.u32 %s, %f1, 4096; mov.u64 %z, shared_tiles; add.u64 %s, %s, %z;"
    } else {
        "mul.wide.u32 %s, %f1, 4096; mov.u64 %z, global_tiles; add.u64 %s, %s, %z;"
    });
    if dot.is_empty() {
        folding.line("cvta.global.u64 %s, %s;");
    }
    folding.line("bar.warp.sync 0xffffffff;");
    let mut at = 0;
    for tile in [ta, tb, tc] {
        let size = tile.element.bits.max(32) / 8;
        folding.line(&format!("mov.u32 %f1, %laneid; mul.wide.u32 %x, %f1, {size}; add.u64 %x, %x, %s;"));
        for number in 0..tile.count() {
            let register = if size == 8 { "%y8" } else { "%f2" };
            tile.element.make(&mut folding, register, at, number);
            let offset = tile.at + 32 * size * number;
            folding.line(&format!("st{dot}.b{} [%x+{offset}], {register};", 8 * size));
            at += 1;
        }
    }
    folding.line("bar.warp.sync 0xffffffff;");
    let wide = d.bits == 64;
    let registers = |letter: &str, count: usize| {
        let all: Vec<String> = (0..count).map(|at| format!("%w{letter}{at}")).collect();
        all.join(", ")
    };
    let mut declared = String::new();
    let shape = format!("m{m}n{n}k{k}");
    for (letter, tile, layout) in [("a", ta, 0), ("b", tb, 1), ("c", tc, 2)] {
        let all = registers(letter, tile.registers(letter != "c"));
        declared += &format!(".reg .b{} {all}; ", if wide { 64 } else { 32 });
        let own = what == ("load", letter);
        let stride = if own && !has_stride { String::new() } else { format!(", {}", tile.stride()) };
        let ty = tile.element.name;
        let load = format!("wmma.load.{letter}.sync.aligned.{}.{shape}{dot}.{ty}", chosen[layout]);
        assert!(!own || load == opcode, "{load} instead of {opcode}");
        folding.line(&format!("{load} {{{all}}}, [%s+{}]{stride};", tile.at));
    }
    let all = registers("d", td.registers(false));
    declared += &format!(".reg .b{} {all}; ", if wide { 64 } else { 32 });
    let written = if names[1] == "f16" { format!("{}.{}", names[0], names[3]) } else { names.join(".") };
    let op = if names[1] == "b1" { ".xor.popc" } else { "" };
    let mma = format!("wmma.mma{op}.sync.aligned.{}.{}.{shape}.{written}", chosen[0], chosen[1]);
    let mma = if what.0 == "mma" || opcode.contains("popc") { opcode } else { &mma };
    folding.line(&format!(
        "{mma} {{{all}}}, {{{}}}, {{{}}}, {{{}}};",
        registers("a", ta.registers(true)),
        registers("b", tb.registers(true)),
        registers("c", tc.registers(false))
    ));
    let (sat, xor, down) = (mma.contains("satfinite"), mma.contains("xor"), mma.contains(".rm."));
    let product = Product { m, n, k, d, sat, xor, down };
    let store = format!("wmma.store.d.sync.aligned.{}.{shape}{dot}.{}", chosen[2], names[0]);
    assert!(what.0 != "store" || store == opcode, "{store} instead of {opcode}");
    let stride = if what.0 == "store" && !has_stride { String::new() } else { format!(", {}", td.stride()) };
    folding.line(&format!("{store} [%s+{}], {{{all}}}{stride}; bar.warp.sync 0xffffffff;", td.at));
    let size = d.bits.max(32) / 8;
    folding.line(&format!("mov.u32 %f1, %laneid; mul.wide.u32 %x, %f1, {size}; add.u64 %x, %x, %s;"));
    let results: Vec<String> =
        (0..td.count()).map(|at| format!("{}{at}", if size == 8 { "%e" } else { "%f" })).collect();
    for (number, register) in results.iter().enumerate() {
        folding.line(&format!("ld{dot}.b{} {register}, [%x+{}];", 8 * size, td.at + 32 * size * number));
    }
    folding.results(&results, size, any);
    folding.0 = folding.0.replacen("mov.u64 %acc, 0;", &format!("{declared} mov.u64 %acc, 0;"), 1);
    let factors = move |of: &[u64]| {
        let mut at = 0;
        [ta, tb, tc].map(|tile| {
            let element = tile.element;
            let mut words = vec![];
            for number in 0..tile.count() {
                words.extend(of.iter().map(|operand| element.word(*operand, at, number)));
                at += 1;
            }
            let (per, _) = element.register();
            let value = |row, column| {
                let index = tile.index(row, column);
                let bits = words[index / per] >> (index % per * element.bits);
                element.value(bits & (u64::MAX >> (64 - element.bits)))
            };
            (0..tile.rows).map(|row| (0..tile.columns).map(|column| value(row, column)).collect()).collect()
        })
    };
    let per = d.register().0;
    let places = move |lane: usize, number: usize| -> Vec<(usize, usize)> {
        let first = (32 * number + lane) * per;
        (first..first + per).map(|index| td.place(index)).collect()
    };
    super::sums::add(
        list,
        name,
        folding.end(),
        any,
        super::sums::Whole { product, count: td.count(), factors, places },
    );
}
