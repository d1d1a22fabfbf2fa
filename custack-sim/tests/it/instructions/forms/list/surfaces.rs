//! Reads and writes of surfaces. A thread that writes has bytes of its own, which another kernel reads.

use super::super::form::{List, Truth};
use super::super::object::{ArrayFormat, FILL, FILLED, Object, Shape};
use super::super::operands::Kind;
use super::super::share::surface_examples;
use super::fold::{Folding, folded};
use super::places::{Opcode, size};
use super::texels::stored;

pub(super) const FORMATS: [ArrayFormat; 8] = [
    ArrayFormat::Float,
    ArrayFormat::UnsignedInt8,
    ArrayFormat::SignedInt16,
    ArrayFormat::Half,
    ArrayFormat::UnsignedInt32,
    ArrayFormat::SignedInt8,
    ArrayFormat::UnsignedInt16,
    ArrayFormat::SignedInt32,
];
const CHANNELS: [usize; 3] = [1, 2, 4];

/// All `suld`, `sust` and `sured`, each of a surface of the next format.
pub(super) fn list(list: &mut List) {
    for (at, name) in surface_examples().iter().enumerate() {
        let format = FORMATS[at % FORMATS.len()];
        let channels = CHANNELS[at / FORMATS.len() % CHANNELS.len()];
        let access = Access::of(name, at, (format, channels));
        match name.split('.').next().unwrap() {
            "suld" => load(list, name, access),
            "sust" => store(list, name, access),
            _ => reduce(list, name, access),
        }
    }
}

/// What is accessed, and how.
#[derive(Clone, Copy)]
struct Access {
    object: Object,
    geometry: &'static str,
    /// Bytes of a value, and how many values.
    size: usize,
    count: usize,
    is_formatted: bool,
    is_trap: bool,
    is_clamp: bool,
}

const GEOMETRIES: [(&str, Shape); 5] = [
    ("1d", Shape::One),
    ("2d", Shape::Two),
    ("3d", Shape::Three),
    ("a1d", Shape::OneLayered),
    ("a2d", Shape::TwoLayered),
];

/// Bytes of the surfaces' rows that are read, and how many rows and slices those have that are written.
const ROW: usize = 40;
const ROWS: usize = 64;
/// How many threads write.
const MOST: usize = 512;
/// How many blocks at most there are of those that change the same bytes together.
const BLOCKS: usize = 64;

impl Access {
    fn of(name: &str, seed: usize, (format, channels): (ArrayFormat, usize)) -> Access {
        let opcode = Opcode::new(name);
        let (geometry, shape) = *GEOMETRIES.iter().find(|it| opcode.has(it.0)).unwrap();
        let object = Object {
            shape,
            format,
            channels,
            size: [1; 3],
            texture: None,
            seed: seed as u64,
            is_tame: false,
            is_gathered: false,
        };
        Access {
            object,
            geometry,
            size: size(opcode.ty()),
            count: opcode.count(),
            is_formatted: opcode.has("p"),
            is_trap: opcode.has("trap"),
            is_clamp: opcode.has("clamp"),
        }
    }

    /// Whether it has these: rows, slices or layers.
    fn has(&self) -> [bool; 2] {
        let shape = self.object.shape;
        [
            matches!(shape, Shape::Two | Shape::Three | Shape::TwoLayered),
            matches!(shape, Shape::Three | Shape::OneLayered | Shape::TwoLayered),
        ]
    }

    /// Bytes that are accessed.
    fn bytes(&self) -> usize {
        if self.is_formatted { self.object.element() } else { self.size * self.count }
    }

    /// The registers of the coordinates, in the order of the instruction.
    fn place(&self) -> &'static str {
        match self.object.shape {
            Shape::One => "{%f0}",
            Shape::Two => "{%f0, %f1}",
            Shape::Three => "{%f0, %f1, %f2, %f2}",
            Shape::OneLayered => "{%f2, %f0}",
            _ => "{%f2, %f0, %f1, %f1}",
        }
    }

    /// The registers of the values, by their size and from this one on.
    fn values(&self) -> String {
        let letter = match self.size {
            1 | 2 => "%g",
            4 => "%u",
            _ => "%e",
        };
        let all: Vec<String> = (0..self.count).map(|at| format!("{letter}{at}")).collect();
        if self.count == 1 { all[0].clone() } else { format!("{{{}}}", all.join(", ")) }
    }
}

/// Where an access begins: a byte of a row, a row, and a slice; `None` if it is nowhere.
fn found(access: &Access, [x, y, z]: [i64; 3], size: [usize; 3]) -> Option<[usize; 3]> {
    let (bytes, width) = (access.bytes() as i64, size[0] as i64);
    // The number of a layer has 16 bits.
    let z = if access.object.is_layered() { z & 0xffff } else { z };
    let all = [(x, width - bytes), (y, size[1] as i64 - 1), (z, size[2] as i64 - 1)];
    let is_inside = all.iter().all(|(at, last)| (0..=*last).contains(at));
    if access.is_clamp && !is_inside {
        // The last place in a row is a multiple of what is accessed.
        let ends = [(x, (width / bytes - 1) * bytes), all[1], all[2]];
        return Some(ends.map(|(at, last)| at.clamp(0, last) as usize));
    }
    is_inside.then(|| all.map(|it| it.0 as usize))
}

/// At coordinates that are operands.
fn load(list: &mut List, name: &str, mut access: Access) {
    let element = access.object.element();
    let row = if element == 16 { 48 } else { ROW };
    let [has_rows, has_slices] = access.has();
    access.object.size = [row / element, if has_rows { 5 } else { 1 }, if has_slices { 3 } else { 1 }];
    let sizes = [row, access.object.size[1], access.object.size[2]];
    let (bytes, count) = (access.bytes(), access.count);
    let mut folding = Folding::new();
    let letters = ["$a", "$b", "$c"];
    for (at, letter) in letters.into_iter().enumerate() {
        let whole = if at == 0 { row / bytes } else { sizes[at] };
        let unit = if at == 0 { bytes } else { 1 };
        folding.line(&match access.is_trap {
            true => format!("rem.u32 %f{at}, {letter}, {whole}; mul.lo.u32 %f{at}, %f{at}, {unit};"),
            false => format!("mul.lo.u32 %f{at}, {letter}, {unit};"),
        });
    }
    let (values, place) = (access.values(), access.place());
    folding.line(&format!("{name} {values}, [%object, {place}];"));
    let register = if access.size < 4 { "%g" } else { values.trim_start_matches('{').get(..2).unwrap() };
    for at in 0..count {
        folding.add(&format!("{register}{at}"), access.size.max(2));
    }
    let form = list.on_memory(name, &[Kind::Index; 3], folding.end(), move |of| {
        let coordinate = |at: usize| {
            let (given, unit) = (of[at] as u32, if at == 0 { bytes as u32 } else { 1 });
            let whole = if at == 0 { (row / bytes) as u32 } else { sizes[at] as u32 };
            let given = if access.is_trap { given % whole * unit } else { given.wrapping_mul(unit) };
            if at == 2 && access.object.is_layered() { i64::from(given) } else { i64::from(given as i32) }
        };
        let [has_rows, has_slices] = access.has();
        let at = [
            coordinate(0),
            if has_rows { coordinate(1) } else { 0 },
            if has_slices { coordinate(2) } else { 0 },
        ];
        let value = |number: usize| match found(&access, at, sizes) {
            Some([x, y, z]) => {
                let first = (z * sizes[1] + y) * row + x + number * access.size;
                (0..access.size).rev().fold(0, |all, at| all << 8 | u64::from(access.object.byte(first + at)))
            }
            None => 0,
        };
        folded(&(0..count).map(value).collect::<Vec<_>>())
    });
    form.object = Some(access.object);
}

/// A thread's bytes: how many, and where the first one is.
struct Own {
    bytes: usize,
    at: [usize; 3],
}

/// The sizes of a surface that all threads write, its rows in bytes.
fn sizes(shape: Shape) -> [usize; 3] {
    match shape {
        Shape::One => [32 * MOST, 1, 1],
        Shape::Two => [64, MOST, 1],
        Shape::OneLayered => [64 * MOST / ROWS, 1, ROWS],
        _ => [64, ROWS, MOST / ROWS],
    }
}

fn owned(shape: Shape, i: usize) -> Own {
    match shape {
        Shape::One => Own { bytes: 32, at: [32 * i, 0, 0] },
        Shape::Two => Own { bytes: 64, at: [0, i, 0] },
        Shape::OneLayered => Own { bytes: 64, at: [64 * (i / ROWS), 0, i % ROWS] },
        _ => Own { bytes: 64, at: [0, i % ROWS, i / ROWS] },
    }
}

/// Lines that leave a thread's own place in the registers of the coordinates.
fn own_place(shape: Shape) -> &'static str {
    match shape {
        Shape::One => "mul.lo.u32 %f0, %i, 32;",
        Shape::Two => "mov.u32 %f0, 0; mov.u32 %f1, %i;",
        Shape::OneLayered => "and.b32 %f2, %i, 63; shr.u32 %f0, %i, 6; mul.lo.u32 %f0, %f0, 64;",
        _ => "mov.u32 %f0, 0; and.b32 %f1, %i, 63; shr.u32 %f2, %i, 6;",
    }
}

/// Lines that fold a thread's own bytes.
fn read_own(access: &Access) -> String {
    let mut folding = Folding::new();
    folding.line(own_place(access.object.shape));
    let own = owned(access.object.shape, 0).bytes;
    for _ in 0..own / 16 {
        let place = access.place();
        folding.line(&format!(
            "suld.b.{}.v4.b32.trap {{%u0, %u1, %u2, %u3}}, [%object, {place}]; add.u32 %f0, %f0, 16;",
            access.geometry
        ));
        (0..4).for_each(|at| folding.add(&format!("%u{at}"), 4));
    }
    folding.end()
}

/// The same of what the bytes are.
fn folded_bytes(bytes: &[u8]) -> u64 {
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
    folded(&bytes.chunks(4).map(word).collect::<Vec<_>>())
}

/// The surface, with elements of so many bytes.
fn with_sizes(object: Object, sizes: [usize; 3]) -> Object {
    Object { size: [sizes[0] / object.element(), sizes[1], sizes[2]], ..object }
}

/// The bytes that a thread has before.
fn before(object: &Object, sizes: [usize; 3], own: &Own) -> Vec<u8> {
    let first = (own.at[2] * sizes[1] + own.at[1]) * sizes[0] + own.at[0];
    (first..first + own.bytes).map(|at| object.byte(at)).collect()
}

/// Into the thread's own bytes, or beyond the surface: in the mode `clamp` only the first thread and the last, as those
/// bytes at the edge are their own.
fn store(list: &mut List, name: &str, access: Access) {
    let (shape, bytes) = (access.object.shape, access.bytes());
    let (sizes, own) = (sizes(shape), owned(shape, 0).bytes);
    let is_row = matches!(shape, Shape::Two | Shape::Three | Shape::TwoLayered);
    // Formatted coordinates count elements.
    let unit = if access.is_formatted { bytes } else { 1 };
    let (step, mask, end) = (bytes / unit, own / bytes - 1, sizes[0] / unit);
    let is_zero = !access.is_trap && !access.is_clamp;
    let mut folding = Folding::new();
    folding.line(own_place(shape));
    folding.line(&format!(
        "div.u32 %f0, %f0, {unit}; and.b32 %f3, $a, {mask}; mad.lo.u32 %f3, %f3, {step}, %f0; mul.lo.u32 %f4, $a, {step}; \
         and.b32 %f5, $a, 7; add.u32 %f6, %f5, 1; mul.lo.u32 %f6, %f6, {step}; neg.s32 %f6, %f6; \
         mad.lo.u32 %f5, %f5, {step}, {end}; setp.lt.s32 %k, $a, 0;"
    ));
    // Behind the own place come those that any number makes, and those before and behind all.
    folding.line(match (is_row && !access.is_trap, is_zero) {
        (true, _) => "mov.u32 %f0, %f4;",
        (_, true) => "selp.b32 %f0, %f6, %f3, %k; setp.gt.s32 %k, $a, 16; selp.b32 %f0, %f5, %f0, %k;",
        _ => "mov.u32 %f0, %f3;",
    });
    if !access.is_trap {
        let [_, rows, slices] = sizes;
        let (first, last) = match shape {
            Shape::One => {
                ("selp.b32 %f0, %f6, %f0, %k;".to_owned(), "selp.b32 %f0, %f5, %f0, %k;".to_owned())
            }
            Shape::Two => {
                ("selp.b32 %f1, -3, %f1, %k;".to_owned(), format!("selp.b32 %f1, {}, %f1, %k;", rows + 5))
            }
            Shape::Three => (
                "selp.b32 %f1, -1, %f1, %k; selp.b32 %f2, -7, %f2, %k;".to_owned(),
                format!("selp.b32 %f1, {}, %f1, %k; selp.b32 %f2, {}, %f2, %k;", rows + 1, slices + 9),
            ),
            _ => (String::new(), format!("selp.b32 %f2, {}, %f2, %k;", slices + 9)),
        };
        let end = MOST - 1;
        folding.line(&format!("setp.eq.u32 %k, %i, 0; {first} setp.eq.u32 %k, %i, {end}; {last}"));
    }
    folding.line("mov.b64 {%u0, %u1}, $b; mov.b64 {%u2, %u3}, $c; mov.b64 %e0, $b; mov.b64 %e1, $c;");
    folding.line("mov.b64 {%g0, %g1, %g2, %g3}, $b;");
    folding.line(&format!("{name} [%object, {}], {};", access.place(), access.values()));
    let object = with_sizes(access.object, sizes);
    let kinds = [Kind::Index, Kind::I64, Kind::I64];
    let form = list.on_memory(name, &kinds, folding.end(), move |of| {
        let i = *of.last().unwrap() as usize;
        let own = owned(shape, i);
        let mut now = before(&object, sizes, &own);
        let a = of[0] as u32 as i32;
        let (few, bytes) = (i64::from(a & 7), bytes as i64);
        let inside = own.at[0] as i64 + i64::from(a & mask as i32) * bytes;
        let (less, more) = (-(few + 1) * bytes, sizes[0] as i64 + few * bytes);
        let mut at = [inside, own.at[1] as i64, own.at[2] as i64];
        if !access.is_trap && is_row {
            at[0] = i64::from(a.wrapping_mul(step as i32)) * unit as i64;
        } else if is_zero {
            at[0] = match a {
                17.. => more,
                0.. => inside,
                _ => less,
            };
        }
        let [_, rows, slices] = sizes.map(|size| size as i64);
        match (shape, i) {
            _ if access.is_trap => {}
            (Shape::One, 0) => at[0] = less,
            (Shape::Two, 0) => at[1] = -3,
            (Shape::Three, 0) => (at[1], at[2]) = (-1, -7),
            (_, 0) => {}
            (Shape::One, i) if i == MOST - 1 => at[0] = more,
            (Shape::Two, i) if i == MOST - 1 => at[1] = rows + 5,
            (Shape::Three, i) if i == MOST - 1 => (at[1], at[2]) = (rows + 1, slices + 9),
            (_, i) if i == MOST - 1 => at[2] = slices + 9,
            _ => {}
        }
        if let Some([x, ..]) = found(&access, at, sizes) {
            now[x - own.at[0]..][..access.bytes()].copy_from_slice(&written(&access, [of[1], of[2]]));
        }
        folded_bytes(&now)
    });
    (form.object, form.group, form.most, form.after) = (Some(object), MOST, MOST, Some(read_own(&access)));
}

/// The bytes that a store writes, of so many words.
fn written(access: &Access, words: [u64; 2]) -> Vec<u8> {
    let all: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    if !access.is_formatted {
        if access.size == 1 {
            // Each register has 16 bits.
            return all.chunks(2).take(access.count).map(|it| it[0]).collect();
        }
        return all[..access.bytes()].to_vec();
    }
    let word = |at: usize| u32::from_le_bytes(all[4 * at..][..4].try_into().unwrap());
    let channel = |at: usize| stored(access.object.format, if at < access.count { word(at) } else { 0 });
    let size = access.object.channel_size();
    (0..access.object.channels).flat_map(|at| channel(at).to_le_bytes().into_iter().take(size)).collect()
}

/// All threads of a block in a row of their own, each in one of four places.
fn reduce(list: &mut List, name: &str, access: Access) {
    let opcode = Opcode::new(name);
    let (ty, geometry, size) = (opcode.ty().to_owned(), access.geometry, access.size);
    let operation = ["add", "min", "max", "and", "or"].into_iter().find(|it| opcode.has(it)).unwrap();
    let format = if ty.starts_with('s') { ArrayFormat::SignedInt32 } else { ArrayFormat::UnsignedInt32 };
    let object = Object { format, channels: size / 4, seed: FILLED, ..access.object };
    let access = Access { object, ..access };
    // Blocks have different rows, or places in one row.
    let (sizes, at) = match access.has() {
        [true, false] => ([32, BLOCKS, 1], "mov.u32 %f1, %f3;"),
        [true, true] => ([32, 8, BLOCKS / 8], "and.b32 %f1, %f3, 7; shr.u32 %f2, %f3, 3;"),
        _ => ([32 * BLOCKS, 1, 1], "mul.lo.u32 %f0, %f3, 32;"),
    };
    let place = |folding: &mut Folding, unit: usize| {
        folding.line("mov.u32 %f3, %ctaid.x; mov.u32 %f0, 0; and.b32 %f4, %t, 3;");
        folding.line(at);
        folding.line(&format!("mad.lo.u32 %f0, %f4, {size}, %f0; div.u32 %f0, %f0, {unit};"));
    };
    let (mut folding, mut after) = (Folding::new(), Folding::new());
    place(&mut folding, if access.is_formatted { size } else { 1 });
    folding.line("mov.b64 %e1, $a; cvt.u32.u64 %u1, $a;");
    let register = if size == 4 { "%u" } else { "%e" };
    folding.line(&format!("{name} [%object, {}], {register}1;", access.place()));
    place(&mut after, 1);
    let (bits, coordinates) = (8 * size, access.place());
    after.line(&format!("suld.b.{geometry}.b{bits}.trap {register}0, [%object, {coordinates}];"));
    after.add(&format!("{register}0"), size);
    let truth = Truth::Groups(Box::new(move |of| {
        let mask = u64::MAX >> (64 - 8 * size);
        let signed = |value: u64| (value << (64 - 8 * size)) as i64;
        let start = u64::from(FILL) << 32 | u64::from(FILL);
        let mut cells = [start & mask; 4];
        for (at, value) in of.iter().enumerate() {
            let (old, value) = (cells[at % 4], value & mask);
            let is_less = if ty.starts_with('s') { signed(old) < signed(value) } else { old < value };
            cells[at % 4] = match operation {
                "add" => old.wrapping_add(value) & mask,
                "and" => old & value,
                "or" => old | value,
                _ if is_less == (operation == "min") => old,
                _ => value,
            };
        }
        (0..of.len()).map(|at| cells[at % 4]).collect()
    }));
    let form = list.of_groups(256, name, folding.end(), truth);
    (form.object, form.after) = (Some(with_sizes(access.object, sizes)), Some(after.end()));
}
