//! Compiled programs in files: the key, and what compiling gave, each with its length.

use super::{Compiled, Image, OutputKind};
use std::ffi::CString;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// In bytes: many times what a large program has.
const LARGEST: u64 = 1 << 30;

const FORMAT: &[u8] = b"custack nvrtc 1\n";

/// A name for the key. Two keys may have one name, so the file has the key too.
pub(super) fn file_name(key: &str) -> String {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    format!("{:016x}.custack", hasher.finish())
}

/// What the file has for this key; `None` if there is nothing, or what is there is another key's or damaged.
pub(super) fn read(file: &Path, key: &str) -> Option<Compiled> {
    let about = fs::metadata(file).ok()?;
    // Reading another kind of file may wait for ever.
    if !about.is_file() || about.len() > LARGEST {
        return None;
    }
    let bytes = fs::read(file).ok()?;
    let mut rest = bytes.strip_prefix(FORMAT)?;
    let checked = next(&mut rest)?;
    if checked != check(rest) || next(&mut rest)? != key.as_bytes() {
        return None;
    }
    let kind = match next(&mut rest)? {
        b"Ptx" => OutputKind::Ptx,
        b"Cubin" => OutputKind::Cubin,
        b"LtoIr" => OutputKind::LtoIr,
        b"OptixIr" => OutputKind::OptixIr,
        _ => return None,
    };
    let image = Image::new(kind, next(&mut rest)?.to_vec());
    let log = String::from_utf8(next(&mut rest)?.to_vec()).ok()?;
    let mut lowered = Vec::new();
    while !rest.is_empty() {
        let expression = String::from_utf8(next(&mut rest)?.to_vec()).ok()?;
        lowered.push((expression, CString::new(next(&mut rest)?).ok()?));
    }
    Some(Compiled { image, log, lowered })
}

/// Writes it to another file first, so that no reader finds half of it.
pub(super) fn write(file: &Path, key: &str, compiled: &Compiled) {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let mut body = Vec::new();
    let kind = format!("{:?}", compiled.image.kind());
    let parts = [key.as_bytes(), kind.as_bytes(), compiled.image.as_bytes(), compiled.log.as_bytes()];
    let lowered = compiled.lowered.iter().flat_map(|(of, name)| [of.as_bytes(), name.as_bytes()]);
    parts.into_iter().chain(lowered).for_each(|part| put(&mut body, part));
    let mut bytes = FORMAT.to_vec();
    put(&mut bytes, &check(&body));
    bytes.extend(body);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let unfinished = file.with_extension(format!("{}-{number}", std::process::id()));
    if let Some(folder) = file.parent() {
        // What fails here fails at writing the file too, which is no error: the program is compiled.
        let _ = fs::create_dir_all(folder);
    }
    if fs::write(&unfinished, bytes).and_then(|()| fs::rename(&unfinished, file)).is_err() {
        let _ = fs::remove_file(&unfinished);
    }
}

fn put(to: &mut Vec<u8>, part: &[u8]) {
    to.extend((part.len() as u64).to_le_bytes());
    to.extend(part);
}

fn next<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk::<8>()?;
    let (part, after) = after.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    *rest = after;
    Some(part)
}

/// A sum over the bytes (FNV-1a), which finds a damaged file.
fn check(bytes: &[u8]) -> [u8; 8] {
    let sum = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    sum.to_le_bytes()
}
