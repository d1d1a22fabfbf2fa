//! Damages images: each number is an image, always the same one.

use std::path::{Path, PathBuf};

/// Numbers that follow from the one that it begins with.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d);
        random.below(2);
        random
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }

    pub(super) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// What is damaged: the images of these tests, and those of the folder that `CUSTACK_IMAGES` names.
pub(super) fn bases() -> Vec<(String, Vec<u8>)> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/module/images");
    let more = std::env::var_os("CUSTACK_IMAGES").map(PathBuf::from);
    let files = [own].into_iter().chain(more).filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    let mut files: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let image = |file: PathBuf| {
        let is = file.extension().is_some_and(|it| it == "cubin" || it == "fatbin");
        is.then(|| (file.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(&file).unwrap()))
    };
    files.into_iter().filter_map(image).collect()
}

/// The number that is stored in `size` bytes at a place; zeros are beyond the end.
fn at(image: &[u8], place: usize, size: usize) -> usize {
    let byte = |at: usize| image.get(place.wrapping_add(at)).map_or(0, |byte| usize::from(*byte));
    (0..size.min(8)).rev().fold(0, |value, at| value << 8 | byte(at))
}

/// Such a number as a place, which is damaged itself perhaps: no sum of some of them is too large.
fn place_at(image: &[u8], place: usize, size: usize) -> usize {
    at(image, place, size) & 0xffff_ffff
}

/// A field, and where fields of its kind are.
struct Field {
    place: usize,
    size: usize,
    /// The distance to the next one of its kind, and how many there are around it.
    stride: usize,
}

/// Offsets and sizes of the fields of a section's header, a symbol, a relocation, a segment's header, and of a file's.
const SECTION: &[(usize, usize)] =
    &[(0, 4), (4, 4), (8, 8), (16, 8), (24, 8), (32, 8), (40, 4), (44, 4), (48, 8), (56, 8)];
const SYMBOL: &[(usize, usize)] = &[(0, 4), (4, 1), (5, 1), (6, 2), (8, 8), (16, 8)];
const RELOCATION: &[(usize, usize)] = &[(0, 8), (8, 4), (12, 4), (16, 8)];
const SEGMENT: &[(usize, usize)] = &[(0, 4), (4, 4), (8, 8), (16, 8), (24, 8), (32, 8), (40, 8), (48, 8)];
const HEADER: &[(usize, usize)] = &[
    (7, 1),
    (8, 1),
    (16, 2),
    (18, 2),
    (20, 4),
    (24, 8),
    (32, 8),
    (40, 8),
    (48, 4),
    (54, 2),
    (56, 2),
    (58, 2),
    (60, 2),
    (62, 2),
];
const ENTRY: &[(usize, usize)] = &[
    (0, 2),
    (2, 2),
    (4, 4),
    (8, 8),
    (16, 4),
    (20, 4),
    (24, 2),
    (26, 2),
    (28, 4),
    (32, 4),
    (36, 4),
    (40, 8),
    (48, 8),
    (56, 8),
];

/// A field of the ELF file that begins at a place.
fn field_of_elf(image: &[u8], begin: usize, random: &mut Random) -> Field {
    let (sections, count) = (begin + place_at(image, begin + 0x28, 8), place_at(image, begin + 0x3c, 2));
    let header = |index: usize| sections + 64 * index;
    let one = header(random.below(count));
    let (kind, offset, size) =
        (place_at(image, one + 4, 4), begin + place_at(image, one + 24, 8), place_at(image, one + 32, 8));
    let within = |fields: &[(usize, usize)], stride: usize, random: &mut Random| {
        let (own, bytes) = random.of(fields);
        Field { place: offset + stride * random.below(size / stride) + own, size: bytes, stride }
    };
    match random.below(16) {
        0 => {
            let (place, size) = random.of(HEADER);
            Field { place: begin + place, size, stride: 0 }
        }
        1 => {
            let (own, size) = random.of(SEGMENT);
            let segments = begin + place_at(image, begin + 0x20, 8);
            Field {
                place: segments + 56 * random.below(place_at(image, begin + 0x38, 2)) + own,
                size,
                stride: 56,
            }
        }
        2..=5 => {
            let (own, size) = random.of(SECTION);
            Field { place: one + own, size, stride: 64 }
        }
        // Most sections are none of these: their words are damaged.
        _ if kind == 2 => within(SYMBOL, 24, random),
        _ if kind == 4 => within(RELOCATION, 24, random),
        _ if kind == 9 => within(&RELOCATION[..3], 16, random),
        _ => {
            let bytes = random.of(&[1, 2, 4, 4, 8]);
            Field { place: offset + random.below(size) / bytes * bytes, size: bytes, stride: bytes }
        }
    }
}

/// A field of a fatbin: of its header, of an entry's, or of a cubin that is not compressed.
fn field_of_fatbin(image: &[u8], random: &mut Random) -> Field {
    let (mut entries, mut place) = (Vec::new(), 16);
    while place + 64 <= image.len() && entries.len() < 16 {
        entries.push(place);
        place += (place_at(image, place + 4, 4) + place_at(image, place + 8, 8)).max(64);
    }
    let entry = if entries.is_empty() { 0 } else { random.of(&entries) };
    let code = entry + place_at(image, entry + 4, 4);
    match random.below(4) {
        0 if random.below(4) == 0 => {
            Field { place: random.of(&[4, 6, 8]), size: random.of(&[2, 8]), stride: 0 }
        }
        0 | 1 => {
            let (own, size) = random.of(ENTRY);
            Field { place: entry + own, size, stride: 0 }
        }
        2 if image.get(code..).is_some_and(|code| code.starts_with(b"\x7fELF")) => {
            field_of_elf(image, code, random)
        }
        _ => Field {
            place: code + random.below(place_at(image, entry + 8, 8)),
            size: random.of(&[1, 4]),
            stride: 0,
        },
    }
}

/// A value for a field: one around an edge, one that another field of its kind has, or another bit.
fn value(image: &[u8], field: &Field, random: &mut Random) -> u64 {
    let old = at(image, field.place, field.size) as u64;
    match random.below(12) {
        0 => 0,
        1 => u64::MAX >> random.below(64),
        2 => 1 << random.below(64),
        3 => random.below(40) as u64,
        4 => image.len() as u64 + random.below(200) as u64 - 100,
        5 => old.wrapping_add(random.below(9) as u64).wrapping_sub(4),
        6 => old.wrapping_add(random.of(&[8, 16, 64, 128])),
        7 => old.wrapping_sub(random.of(&[8, 16, 64, 128])),
        8 | 9 if field.stride > 0 => {
            let other =
                field.place.wrapping_add(field.stride * random.below(40)).wrapping_sub(field.stride * 20);
            at(image, other, field.size) as u64
        }
        10 => (random.below(1 << 31) as u64) << random.below(32),
        _ => old ^ 1 << random.below(8 * field.size),
    }
}

/// An image as it is after these changes.
pub(super) type Changes = Vec<(usize, Vec<u8>)>;

/// The image of a number: which base, what is changed, and how long it is.
pub(super) fn damaged(bases: &[(String, Vec<u8>)], number: u64) -> (usize, Changes, usize) {
    let mut random = Random::new(number);
    let which = random.below(bases.len());
    let mut image = bases[which].1.clone();
    let (mut changes, whole) = (Vec::new(), image.len());
    let several = if random.below(4) == 0 { 1 + random.below(4) } else { 1 };
    for _ in 0..several {
        let field = match random.below(16) {
            0 => Field { place: random.below(whole), size: random.of(&[1, 2, 4, 8]), stride: 0 },
            _ if image.starts_with(b"\x7fELF") => field_of_elf(&image, 0, &mut random),
            _ => field_of_fatbin(&image, &mut random),
        };
        let new = value(&image, &field, &mut random).to_le_bytes()[..field.size].to_vec();
        // The first bytes say what kind of image it is.
        if field.place >= 4 && field.place.saturating_add(field.size) <= whole {
            image[field.place..field.place + field.size].copy_from_slice(&new);
            changes.push((field.place, new));
        }
    }
    let length = if random.below(24) == 0 { 4 + random.below(whole - 4) } else { whole };
    (which, changes, length)
}

pub(super) fn changed(base: &[u8], changes: &Changes, length: usize) -> Vec<u8> {
    let mut image = base.to_vec();
    for (place, bytes) in changes {
        image[*place..*place + bytes.len()].copy_from_slice(bytes);
    }
    image.truncate(length);
    image
}
