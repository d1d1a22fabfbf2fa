//! Whether a program gets the library, found out by a process that opens it as the program will.
//!
//! What the loader opens as `libcuda.so.1` depends on more than the folder that comes first: on characters in the names of
//! folders, on libraries that are loaded before, on what kind of file the library is. It goes on to another folder without a
//! word. So its rules are not repeated here: the loader is asked.

use std::ffi::{OsStr, c_char, c_int, c_void};
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs, io};

/// The first argument of the process that tries; the second is the library.
pub(crate) const PROBE: &str = "--probe-library";
const NAME: &std::ffi::CStr = c"libcuda.so.1";
/// All symbols at once (`RTLD_NOW`).
const NOW: c_int = 2;

/// Says why a program with this path for libraries would get another library, or none.
pub(crate) fn check(library: &Path, path: &OsStr) -> Result<(), String> {
    let itself = env::current_exe().map_err(|error| error.to_string())?;
    let library = library.canonicalize().map_err(|error| format!("{}: {error}", library.display()))?;
    let mut command = Command::new(itself);
    command.arg(PROBE).arg(&library).env("LD_LIBRARY_PATH", path).stdin(Stdio::null());
    let tried = command.output().map_err(|error| format!("the library cannot be tried: {error}"))?;
    if tried.status.success() {
        return Ok(());
    }
    let preloaded = env::var_os("LD_PRELOAD").unwrap_or_default();
    Err(format!(
        "the program would not get the library: with LD_LIBRARY_PATH={path:?} and LD_PRELOAD={preloaded:?}, {} is not what \
         is opened as {NAME:?}. A folder in TMPDIR must not have any of the characters : ; $ in its name. {}",
        library.display(),
        String::from_utf8_lossy(&tried.stderr).trim_end()
    ))
}

/// Opens what a program would, and says whether that is the library.
pub(crate) fn is_opened(library: &OsStr) -> io::Result<bool> {
    unsafe extern "C" {
        fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    }
    // SAFETY: the name is a C string. What the library does when it is opened it would do in the program.
    if unsafe { dlopen(NAME.as_ptr(), NOW) }.is_null() {
        return Ok(false);
    }
    // The last part of a line is the path of the file.
    let maps = fs::read("/proc/self/maps")?;
    Ok(maps.split(|byte| *byte == b'\n').any(|line| {
        let path = line.iter().position(|byte| *byte == b'/').map(|at| &line[at..]);
        path == Some(library.as_encoded_bytes())
    }))
}
