//! The installed driver's table.
//!
//! The library is opened at run time and never closed: the driver has threads and thread-local state of its own, and
//! unloading code that may still run on them crashes.

// Looks C functions up by name; their signatures are those of the CUDA manual.
#![allow(unsafe_code)]

use super::table::{FUNCTIONS, Table, for_each_function, stub};
use crate::error::{Attempt, DriverError};
use libloading::Library;
use std::ffi::OsStr;
use std::os::raw::c_void;
use std::ptr::NonNull;

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
pub(super) fn load() -> Result<(Table, String), DriverError> {
    load_any(NAMES)
}

pub(super) fn load_any<N: AsRef<OsStr>>(names: &[N]) -> Result<(Table, String), DriverError> {
    let mut tried = Vec::new();
    for name in names {
        let name = name.as_ref();
        let library = name.to_string_lossy();
        match open(name) {
            Ok(opened) => return fill(opened, &library),
            Err(reason) => tried.push(Attempt { library: library.into_owned(), reason: reason.to_string() }),
        }
    }
    Err(DriverError::LibraryNotFound { tried })
}

fn open(name: &OsStr) -> Result<&'static Library, libloading::Error> {
    // SAFETY: loading a library runs its initialisers. By the platform's convention, a file of this name on the
    // loader's path is the driver; anyone who can put another file there controls the process anyway.
    let library = unsafe { Library::new(name) }?;
    Ok(Box::leak(Box::new(library)))
}

fn fill(library: &'static Library, name: &str) -> Result<(Table, String), DriverError> {
    for symbol in REQUIRED {
        if find(library, symbol).is_none() {
            return Err(DriverError::MissingSymbol {
                library: name.to_owned(),
                symbol: (*symbol).to_owned(),
            });
        }
    }
    let table = native_table(library);
    Ok((table, file_of(table.cuInit as usize).unwrap_or_else(|| name.to_owned())))
}

macro_rules! stubs {
    ($($since:literal fn $name:ident($($arg:ident: $ty:ty),*);)*) => {
        /// The table of a driver that has no function.
        const STUBS: Table = Table {$($name: stub::$name),*};
    };
}
for_each_function!(stubs);

const _: () = assert!(size_of::<Table>() == FUNCTIONS.len() * size_of::<NonNull<c_void>>());

// A loop over the names rather than code for each field, which made the crate's build longer.
fn native_table(library: &'static Library) -> Table {
    let mut table = STUBS;
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
