//! Compiled programs in files: the key, and what compiling gave, each with its length.

use super::{Compiled, Image, OutputKind};
use crate::module::checked;
use std::ffi::CString;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// In bytes: many times what a large program has.
const LARGEST: u64 = 1 << 30;

/// What the files of a folder have together at the most, in bytes.
const MOST: u64 = 1 << 28;

/// An unfinished file this old is one whose writer has ended.
const LONG_AGO: Duration = Duration::from_secs(3600);

const FORMAT: &[u8] = b"custack nvrtc 1\n";

/// A name for the key. Two keys may have one name, so the file has the key too.
#[inline]
pub(super) fn file_name(key: &str) -> String {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    format!("{:016x}.custack", hasher.finish())
}

/// What the file has for this key; `None` if there is nothing, or what is there is another key's or damaged.
#[inline]
pub(super) fn read(file: &Path, key: &str) -> Option<Compiled> {
    let about = fs::metadata(file).ok()?;
    // Reading another kind of file may wait for ever.
    if !about.is_file() || about.len() > LARGEST {
        return None;
    }
    let bytes = fs::read(file).ok()?;
    // The files that were used longest ago are removed first. One that cannot be written to counts from its making.
    let _ = fs::File::options().append(true).open(file).and_then(|file| file.set_modified(SystemTime::now()));
    let mut rest = bytes.strip_prefix(FORMAT)?;
    let sum = next(&mut rest)?;
    if sum != check(rest) || next(&mut rest)? != key.as_bytes() {
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
    // Whoever can write to the folder may have written it, not the compiler. What the check does not know is compiled anew.
    // A text is checked, too: the driver takes it for machine code if it begins so.
    if matches!(kind, OutputKind::Ptx | OutputKind::Cubin) && checked(image.as_bytes()).is_err() {
        return None;
    }
    let log = String::from_utf8(next(&mut rest)?.to_vec()).ok()?;
    let mut lowered = Vec::new();
    while !rest.is_empty() {
        let expression = String::from_utf8(next(&mut rest)?.to_vec()).ok()?;
        lowered.push((expression, CString::new(next(&mut rest)?).ok()?));
    }
    Some(Compiled { image, log, lowered })
}

/// Writes it to another file first, so that no reader finds half of it.
#[inline]
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
    if let Some(folder) = file.parent() {
        remove_the_oldest(folder, file);
    }
}

/// Removes what was used longest ago, until the rest is small enough, and what was never finished. What cannot be removed
/// stays: others may use the folder.
#[inline]
fn remove_the_oldest(folder: &Path, newest: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut files = Vec::new();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let Some(is_finished) = is_ours(&path) else { continue };
        let Ok(about) = fs::symlink_metadata(&path) else { continue };
        let used = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        if is_finished {
            files.push((used, about.len(), path));
        } else if used.elapsed().is_ok_and(|age| age > LONG_AGO) {
            let _ = fs::remove_file(path);
        }
    }
    files.sort_by_key(|(used, _, _)| *used);
    let mut size: u64 = files.iter().map(|(_, length, _)| length).sum();
    for (_, length, path) in files.iter().filter(|(_, _, path)| path != newest) {
        if size <= MOST {
            break;
        }
        if fs::remove_file(path).is_ok() {
            size -= length;
        }
    }
}

/// Whether the file's name is one of this cache's, and if so, whether the file is finished.
#[inline]
fn is_ours(path: &Path) -> Option<bool> {
    let (stem, ending) = path.file_name()?.to_str()?.split_once('.')?;
    if stem.len() != 16 || !stem.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match ending.split_once('-') {
        None => (ending == "custack").then_some(true),
        Some((process, number)) => (is_number(process) && is_number(number)).then_some(false),
    }
}

#[inline]
fn put(to: &mut Vec<u8>, part: &[u8]) {
    to.extend((part.len() as u64).to_le_bytes());
    to.extend(part);
}

#[inline]
fn next<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk::<8>()?;
    let (part, after) = after.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    *rest = after;
    Some(part)
}

/// A sum over the bytes (FNV-1a), which finds a damaged file.
#[inline]
fn check(bytes: &[u8]) -> [u8; 8] {
    let sum = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    sum.to_le_bytes()
}
