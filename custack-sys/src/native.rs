//! The installed driver's table.
//!
//! The library is opened at run time and never closed: the driver has threads and thread-local state of its own, and
//! unloading code that may still run on them crashes.

// Looks C functions up by name; their signatures are those of the CUDA manual.
#![allow(unsafe_code)]

use crate::table::{FUNCTIONS, Table};
use libloading::Library;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::raw::c_void;
use std::ptr::NonNull;

/// Why no driver could be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadError {
    /// No library could be loaded: every name that was tried, in order.
    NotFound(Vec<Attempt>),
    /// The library was loaded, but is not a CUDA driver: it lacks a function that every driver has.
    MissingSymbol {
        /// The library.
        library: String,
        /// The function that it lacks.
        symbol: &'static str,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::NotFound(tried) => write!(f, "no CUDA driver was found: {}", Tried(tried)),
            LoadError::MissingSymbol { library, symbol } => {
                write!(f, "{library} is not a CUDA driver: it has no {symbol}")
            }
        }
    }
}

impl std::error::Error for LoadError {}

/// One library that was tried, and why it could not be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The name given to the loader.
    pub library: String,
    /// The loader's reason.
    pub reason: String,
}

/// Displays what was tried, in order.
pub struct Tried<'a>(pub &'a [Attempt]);

impl fmt::Display for Tried<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, attempt) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}tried {} ({})", attempt.library, attempt.reason)?;
        }
        Ok(())
    }
}

/// The value of an environment variable. An empty one, as left by shell scripts and CI files, means unset.
pub fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The file names of the driver, in the order in which they are tried.
#[cfg(windows)]
const NAMES: &[&str] = &["nvcuda.dll"];
#[cfg(not(windows))]
const NAMES: &[&str] = &["libcuda.so.1", "libcuda.so"];

/// A library without these is not a CUDA driver of any version.
const REQUIRED: &[&str] = &[
    "cuInit",
    "cuDeviceGet",
    "cuDeviceGetCount",
    "cuCtxCreate_v2",
    "cuCtxDestroy_v2",
    "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2",
    "cuCtxSetCurrent",
    "cuCtxGetCurrent",
];

/// Opens the driver and fills a table; also returns where the library was found.
///
/// # Errors
///
/// [`LoadError`]: what was tried, or what the library lacks.
pub fn load() -> Result<(Table, String), LoadError> {
    load_any(NAMES)
}

/// Like [`load`], from the first of these libraries that can be opened.
///
/// # Errors
///
/// As [`load`].
pub fn load_any<N: AsRef<OsStr>>(names: &[N]) -> Result<(Table, String), LoadError> {
    let mut tried = Vec::new();
    for name in names {
        let name = name.as_ref();
        let library = name.to_string_lossy();
        match open(name) {
            Ok(opened) => return fill(opened, &library),
            Err(reason) => tried.push(Attempt { library: library.into_owned(), reason: reason.to_string() }),
        }
    }
    Err(LoadError::NotFound(tried))
}

fn open(name: &OsStr) -> Result<&'static Library, libloading::Error> {
    // SAFETY: loading a library runs its initialisers. By the platform's convention, a file of this name on the
    // loader's path is the driver; anyone who can put another file there controls the process anyway.
    let library = unsafe { Library::new(name) }?;
    Ok(Box::leak(Box::new(library)))
}

fn fill(library: &'static Library, name: &str) -> Result<(Table, String), LoadError> {
    for &symbol in REQUIRED {
        if find(library, symbol).is_none() {
            return Err(LoadError::MissingSymbol { library: name.to_owned(), symbol });
        }
    }
    let table = native_table(library);
    Ok((table, file_of(table.cuInit as usize).unwrap_or_else(|| name.to_owned())))
}

const _: () = assert!(size_of::<Table>() == FUNCTIONS.len() * size_of::<NonNull<c_void>>());

// A loop over the names rather than code for each field, which made the crate's build longer.
fn native_table(library: &'static Library) -> Table {
    let mut table = Table::EMPTY;
    let fields = (&raw mut table).cast::<NonNull<c_void>>();
    for (at, symbol) in FUNCTIONS.iter().enumerate() {
        if let Some(found) = find(library, symbol) {
            // SAFETY: the table is function pointers in the order of the names and nothing else, by `repr(C)` and the
            // assertion above. The CUDA manual gives the field's signature for the symbol, and the library is never
            // closed, so the pointer stays valid.
            unsafe { fields.add(at).write(found) };
        }
    }
    table
}

/// The address of a symbol.
fn find(library: &Library, symbol: &str) -> Option<NonNull<c_void>> {
    // SAFETY: the symbol is looked up as an address; nothing is read through it.
    unsafe { library.get::<*mut c_void>(symbol.as_bytes()) }.ok().and_then(|found| NonNull::new(*found))
}

/// The file that contains the code at this address.
#[cfg(target_os = "linux")]
fn file_of(address: usize) -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let (low, high) = line.split(' ').next()?.split_once('-')?;
        let here = usize::from_str_radix(low, 16).ok()?..usize::from_str_radix(high, 16).ok()?;
        let path = &line[line.find('/')?..];
        here.contains(&address).then(|| path.to_owned())
    })
}

#[cfg(not(target_os = "linux"))]
fn file_of(_address: usize) -> Option<String> {
    None
}
