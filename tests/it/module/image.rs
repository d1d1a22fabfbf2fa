//! What reaches the driver as an image, and what is refused before.
//!
//! `images/` has what NVIDIA's `ptxas` (12.9 and, with `-c`, 13.5) and `fatbinary` (13.5) made of `kernel.ptx` there.

use crate::harness::{pushed, run, times};
use custack::driver::instrument::{self, When};
use custack::error::CudaError;
use custack::module::Module;
use std::ffi::{CStr, CString};

const LINKED: &[u8] = include_bytes!("images/linked.cubin");
const RELOCATABLE: &[u8] = include_bytes!("images/relocatable.cubin");
const SEVERAL: &[u8] = include_bytes!("images/several.fatbin");
const COMPRESSED: &[u8] = include_bytes!("images/compressed.fatbin");
const TOGETHER: &[u8] = include_bytes!("images/together.fatbin");
const WHOLE: [&[u8]; 4] = [LINKED, RELOCATABLE, SEVERAL, COMPRESSED];

/// Whether the driver is asked to load this. It is not let: it fails before it looks.
#[track_caller]
fn reaches(load: impl FnOnce() -> Result<Module, CudaError>) -> bool {
    instrument::fail(Some("cuModuleLoadDataEx"), 1, 999, When::Before);
    let (result, calls) = instrument::during(load);
    let reached = !instrument::disarm();
    let error = result.unwrap_err();
    if reached {
        assert_eq!(error, CudaError::UnknownError);
    } else {
        assert_eq!((error, calls.total()), (CudaError::InvalidImage, 0), "{calls}");
        assert!(crate::harness::said(error).contains("to load "), "{error}");
    }
    reached
}

fn passes(image: &[u8]) -> bool {
    reaches(|| Module::load_from_bytes(image))
}

/// The number that is stored in `size` bytes at a place.
fn at(image: &[u8], place: usize, size: usize) -> usize {
    image[place..place + size].iter().rev().fold(0, |value, byte| value << 8 | usize::from(*byte))
}

fn changed(image: &[u8], place: usize, bytes: &[u8]) -> Vec<u8> {
    let mut image = image.to_vec();
    image[place..place + bytes.len()].copy_from_slice(bytes);
    image
}

#[test]
fn what_the_compilers_write_reaches_the_driver() {
    run(|| {
        let _ctx = pushed();
        for (index, image) in WHOLE.into_iter().enumerate() {
            assert!(passes(image), "{index}");
            assert!(passes(&[image, b"and more"].concat()), "{index}");
        }
    });
}

#[test]
fn no_part_of_an_image_is_an_image() {
    run(|| {
        let _ctx = pushed();
        for image in WHOLE {
            // The first four bytes say what it is; less is a text for all that is known.
            for length in 4..image.len() {
                assert!(!passes(&image[..length]), "{length} of {}", image.len());
            }
        }
    });
}

#[test]
fn a_wrapper_of_a_fatbin_is_refused_and_says_why() {
    run(|| {
        let _ctx = pushed();
        let mut wrapper = vec![0xb1, 0x43, 0x62, 0x46, 1, 0, 0, 0];
        wrapper.extend_from_slice(&0x1000u64.to_le_bytes());
        wrapper.extend_from_slice(&[0; 8]);
        assert!(!passes(&wrapper) && !passes(&wrapper[..4]));
        let error = Module::load_from_bytes(&wrapper).unwrap_err();
        assert!(crate::harness::said(error).contains("an image of 24 bytes: a fatbin's wrapper"), "{error}");
        let text = CString::new(&wrapper[..5]).unwrap();
        assert!(!reaches(|| Module::load_from_string(&text)));
    });
}

#[test]
fn a_text_is_no_machine_code() {
    run(|| {
        let _ctx = pushed();
        for begin in
            [&b"\x7fELF"[..], b"\x7fELF\x02\x01\x01", &[0x50, 0xed, 0x55, 0xba], &[0x50, 0xed, 0x55, 0xba, 1]]
        {
            let text = CString::new(begin).unwrap();
            assert!(!reaches(|| Module::load_from_string(&text)), "{begin:?}");
        }
        // Without a zero byte each number is larger than any file, but that is not what is wrong with it.
        let text = CString::new([b"\x7fELF\x02\x01".to_vec(), vec![1; 5000]].concat()).unwrap();
        let error = Module::load_from_string(&text).unwrap_err();
        assert!(crate::harness::said(error).contains("begins as machine code"), "{error}");
        for garbage in [&[0x7f, b'T', b'i'][..], &[0xff], &[0xb1, 0x43, 0x62], &[1, 2, 3]] {
            assert!(!passes(garbage), "{garbage:?}");
        }
        for text in [&b""[..], b"\0", b"x", b" ", b"\n//", b".version", b"\0\x7fELF", b"text\0\x7fELF"] {
            assert!(passes(text), "{text:?}");
        }
        assert!(reaches(|| Module::load_from_string(c"")));
    });
}

#[test]
fn files_are_looked_at_as_bytes_are() {
    run(|| {
        let _ctx = pushed();
        let folder = std::env::temp_dir().join(format!("custack-images-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let load = |image: &[u8]| {
            let file = folder.join("image");
            std::fs::write(&file, image).unwrap();
            let name = CString::new(file.to_str().unwrap()).unwrap();
            reaches(|| Module::load_from_file(&name))
        };
        for image in WHOLE {
            assert!(load(image) && !load(&image[..image.len() - 1]));
        }
        assert!(load(b"") && load(b".version") && !load(&[0xb1, 0x43, 0x62, 0x46]));
        let no_file = |name: &CStr| {
            let (result, calls) = instrument::during(|| Module::load_from_file(name));
            assert_eq!((result.as_ref().unwrap_err(), calls.total()), (&CudaError::FileNotFound, 0));
            crate::harness::said(result.unwrap_err())
        };
        let name = CString::new(folder.to_str().unwrap()).unwrap();
        let error = no_file(&name);
        assert!(error.contains("to read ") && error.contains("custack-images"), "{error}");
        let error = no_file(c"/nowhere/at.all");
        assert!(error.contains("to read /nowhere/at.all: "), "{error}");
        no_file(c"");
        std::fs::remove_dir_all(&folder).unwrap();
    });
}

#[test]
fn each_part_of_an_elf_file_lies_in_it() {
    run(|| {
        let _ctx = pushed();
        let end = LINKED.len() as u64;
        let (programs, sections) = (at(LINKED, 0x20, 8), at(LINKED, 0x28, 8));
        assert!(at(LINKED, 0x38, 2) > 0 && at(LINKED, 0x3c, 2) > 4);
        for (what, place, bytes) in [
            ("32 bits", 4, &[1u8][..]),
            ("the highest byte first", 5, &[2]),
            ("program headers", 0x20, &end.to_le_bytes()),
            ("program headers", 0x20, &u64::MAX.to_le_bytes()),
            ("section headers", 0x28, &(end - 63).to_le_bytes()),
            ("section headers", 0x28, &(u64::MAX - 62).to_le_bytes()),
            ("larger program headers", 0x36, &57u16.to_le_bytes()),
            ("more program headers", 0x38, &0xfffeu16.to_le_bytes()),
            ("far more program headers", 0x38, &0xffffu16.to_le_bytes()),
            ("smaller section headers", 0x3a, &0u16.to_le_bytes()),
            ("more section headers", 0x3c, &0xfffeu16.to_le_bytes()),
            ("names beyond the sections", 0x3e, &0x7fffu16.to_le_bytes()),
            ("a segment", programs + 8, &end.to_le_bytes()),
            ("a segment", programs + 0x20, &u64::MAX.to_le_bytes()),
            ("a section", sections + 64 + 0x18, &end.to_le_bytes()),
            ("a section", sections + 64 + 0x20, &u64::MAX.to_le_bytes()),
        ] {
            assert!(!passes(&changed(LINKED, place, bytes)), "{what}: {bytes:?}");
        }
        // No compiler writes the number of sections into the first section's header.
        let count = at(LINKED, 0x3c, 2) as u64;
        let elsewhere = changed(LINKED, 0x3c, &[0, 0]);
        assert!(!passes(&changed(&elsewhere, sections + 0x20, &count.to_le_bytes())));
    });
}

#[test]
fn each_part_of_a_fatbin_lies_in_it() {
    run(|| {
        let _ctx = pushed();
        let entry = 16;
        let text = entry + at(SEVERAL, entry + 4, 4) + at(SEVERAL, entry + 8, 8);
        let payload = text + at(SEVERAL, text + 4, 4);
        assert_eq!((at(SEVERAL, entry, 2), at(SEVERAL, text, 2)), (2, 1));
        assert!(SEVERAL[payload..].starts_with(b".version"));
        for (what, place, bytes) in [
            ("header", 6, &15u16.to_le_bytes()[..]),
            ("header", 6, &0xffffu16.to_le_bytes()),
            ("size", 8, &(SEVERAL.len() as u64).to_le_bytes()),
            ("size", 8, &u64::MAX.to_le_bytes()),
            ("a cut entry", 8, &63u64.to_le_bytes()),
            ("an entry's header", entry + 4, &63u32.to_le_bytes()),
            ("an entry's header", entry + 4, &u32::MAX.to_le_bytes()),
            ("an entry's payload", entry + 8, &u64::MAX.to_le_bytes()),
            ("an entry's payload", text + 8, &(SEVERAL.len() as u64).to_le_bytes()),
            ("an entry's compressed payload", entry + 0x10, &u32::MAX.to_le_bytes()),
            ("an entry's options", text + 0x14, &97u32.to_le_bytes()),
            ("an entry's name", entry + 0x20, &81u32.to_le_bytes()),
            ("an entry's name", entry + 0x24, &u32::MAX.to_le_bytes()),
            ("an ELF file in it", entry + 80 + 0x28, &u64::MAX.to_le_bytes()),
        ] {
            assert!(!passes(&changed(SEVERAL, place, bytes)), "{what}: {bytes:?}");
        }
        let endless = changed(SEVERAL, payload, &vec![b' '; SEVERAL.len() - payload]);
        assert!(!passes(&endless), "a text without an end");
        assert!(passes(&changed(SEVERAL, 8, &[0; 8])), "no entries");
    });
}

#[test]
fn no_small_fatbin_becomes_a_huge_one() {
    run(|| {
        let _ctx = pushed();
        // Entries that were compressed together, and each of which would be all that is unpacked.
        let first = 16 + at(TOGETHER, 16 + 4, 4) + at(TOGETHER, 16 + 8, 8);
        assert_eq!(at(TOGETHER, first, 2), 256);
        let (length, own) = (at(TOGETHER, first + 0x38, 8) as u64, first + 72);
        assert!(passes(TOGETHER) && at(TOGETHER, own + 8, 8) * 3 == length as usize);
        assert!(!passes(&changed(TOGETHER, own + 8, &length.to_le_bytes())));
        // One that would be no more than what a fatbin may have in all, if it were the only one.
        let entry = changed(&COMPRESSED[16..], 0x38, &(256u64 << 20).to_le_bytes());
        let said = |image: &[u8]| {
            let mut image = image.to_vec();
            let size = image.len() as u64 - 16;
            image[8..16].copy_from_slice(&size.to_le_bytes());
            crate::harness::said(Module::load_from_bytes(&image).unwrap_err())
        };
        let (alone, second) = ([&COMPRESSED[..16], &entry].concat(), [COMPRESSED, &entry].concat());
        assert!(said(&alone).contains("its entry 0: it cannot be unpacked"), "{}", said(&alone));
        assert!(said(&second).contains("that something has 268435456 bytes"), "{}", said(&second));
    });
}

/// What must be in an image: where, and how many bytes; nothing if it is refused whatever there is.
type Places = Option<Vec<(u128, u128)>>;

/// Reads as many bytes as there are, and zeros beyond; what is beyond is refused anyway.
fn get(image: &[u8], place: u128, size: u128) -> u128 {
    (0..size).rev().fold(0, |value, byte| {
        let place = usize::try_from(place + byte).unwrap_or(usize::MAX);
        value << 8 | u128::from(image.get(place).copied().unwrap_or(0))
    })
}

fn places_of_elf(image: &[u8]) -> Places {
    let get = |place, size| get(image, place, size);
    let (programs, sections) = (get(0x20, 8), get(0x28, 8));
    let mut places = vec![(0, 64)];
    if [get(4, 1), get(5, 1)] != [2, 1] {
        return None;
    }
    let (program_count, mut section_count, mut names) = (get(0x38, 2), get(0x3c, 2), get(0x3e, 2));
    if program_count == 0xffff {
        return None;
    }
    if names == 0xffff || (section_count == 0 && sections != 0) {
        places.push((sections, 64));
    }
    if section_count == 0 && sections != 0 {
        section_count = get(sections + 32, 8);
    }
    names = if names == 0xffff { get(sections + 40, 4).max(names) } else { names };
    let sizes = (program_count > 0 && get(0x36, 2) != 56) || (section_count > 0 && get(0x3a, 2) != 64);
    if sizes || (names > 0 && names >= section_count) {
        return None;
    }
    let bytes = image.len() as u128;
    for (count, table, each) in [(program_count, programs, 56), (section_count, sections, 64)] {
        if count > 0 {
            places.push((table, count * each));
        }
        if count > 0 && table + count * each > bytes {
            return Some(places);
        }
    }
    let segments = (0..program_count).map(|at| programs + at * 56);
    places.extend(segments.map(|at| (get(at + 8, 8), get(at + 32, 8))).filter(|place| place.1 > 0));
    let headers = (0..section_count).map(|at| sections + at * 64);
    let in_file =
        headers.filter(|at| ![0, 8, 0x7000_0007, 0x7000_000a, 0x7000_0015].contains(&get(at + 4, 4)));
    places.extend(in_file.map(|at| (get(at + 24, 8), get(at + 32, 8))).filter(|place| place.1 > 0));
    Some(places)
}

fn places_of_fatbin(image: &[u8]) -> Places {
    let get = |place, size| get(image, place, size);
    let (header, size) = (get(6, 2), get(8, 8));
    let mut places = vec![(0, 16), (header, size)];
    if header < 16 {
        return None;
    }
    let (mut at, end) = (header, header + size);
    while at < end {
        let (own, payload) = (get(at + 4, 4), get(at + 8, 8));
        let beyond = at + 64 > end || own < 64 || at + own + payload > end || end > image.len() as u128;
        let name = get(at + 32, 4) + get(at + 36, 4);
        if beyond || get(at + 16, 4) > payload || get(at + 20, 4) > own || name > own {
            return None;
        }
        let bytes = &image[(at + own) as usize..(at + own + payload) as usize];
        if bytes.starts_with(b"\x7fELF") && !all_within(bytes, places_of_elf(bytes)) {
            return None;
        }
        let flags = get(at + 40, 8);
        let plain = flags & 0x1000 == 0 && flags & 0x2000 == 0 && flags & 0x8000 == 0;
        if get(at, 2) == 1 && plain && !bytes.contains(&0) {
            return None;
        }
        places.push((at, own + payload));
        at += own + payload;
    }
    Some(places)
}

fn all_within(image: &[u8], places: Places) -> bool {
    places.is_some_and(|places| places.iter().all(|(at, size)| at + size <= image.len() as u128))
}

/// Whether all parts of an image are there, by lists of places and numbers that cannot overflow.
fn oracle(image: &[u8]) -> bool {
    match image {
        [0x7f, b'E', b'L', b'F', ..] => all_within(image, places_of_elf(image)),
        [0x50, 0xed, 0x55, 0xba, ..] => all_within(image, places_of_fatbin(image)),
        [0xb1, 0x43, 0x62, 0x46, ..] => false,
        // An empty text, and what a text may begin with.
        [] | [0 | b'\t' | b'\n' | 0x0c | b'\r' | b' '..=b'~', ..] => true,
        _ => false,
    }
}

#[test]
fn changed_images_that_reach_the_driver_have_all_their_parts() {
    let mut seed = 1u64;
    let mut random = move |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below.max(1)
    };
    run(move || {
        let _ctx = pushed();
        for whole in WHOLE {
            let headers = if whole.starts_with(b"\x7fELF") {
                [0, at(whole, 0x20, 8), at(whole, 0x28, 8)]
            } else {
                [0, 16, 16 + at(whole, 20, 4) + at(whole, 24, 8)]
            };
            let mut verdicts = [0u32; 2];
            for _ in 0..times(600, 6000) {
                let mut image = whole.to_vec();
                for _ in 0..=random(2) {
                    let place = match random(4) {
                        0 => random(image.len()),
                        1 => random(64),
                        which => headers[which - 1] + random(image.len() - headers[which - 1]) % 700,
                    };
                    let size = [1, 2, 4, 8][random(4)];
                    let place = place / size * size;
                    let value = match random(8) {
                        0 => 0,
                        1 => u64::MAX,
                        2 => 1 << random(64),
                        3 => image.len() as u64 - random(200) as u64,
                        4 => image.len() as u64 + random(200) as u64,
                        5 => random(200) as u64,
                        6 => u64::MAX - random(200) as u64,
                        _ => at(whole, place.min(whole.len() - 8), 8) as u64 ^ 1 << random(24),
                    };
                    for (to, byte) in image.iter_mut().skip(place).zip(value.to_le_bytes()).take(size) {
                        *to = byte;
                    }
                }
                if random(10) == 0 {
                    image.truncate(random(whole.len()));
                }
                let passes = passes(&image);
                assert!(oracle(&image) || !passes, "{image:?}");
                verdicts[usize::from(passes)] += 1;
            }
            assert!(verdicts.iter().all(|count| *count > times(20, 200)), "{verdicts:?}");
        }
    });
}
