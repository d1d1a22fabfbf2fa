//! NVRTC's library: its C functions, opened at run time.

// The C boundary: functions that are looked up by name, with the signatures of NVRTC's manual.
#![allow(unsafe_code)]

use super::error::NvrtcError;
use crate::error::Attempt;
use libloading::Library;
use std::ffi::{CStr, CString, OsString, c_char, c_int};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::{mem, ptr};

/// The versions that are tried, newest first.
#[cfg(windows)]
const NAMES: &[&str] = &["nvrtc64_130_0.dll", "nvrtc64_120_0.dll", "nvrtc64_112_0.dll"];
#[cfg(not(windows))]
const NAMES: &[&str] = &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"];

/// Where a toolkit is, and where its libraries are in it; on Windows, since CUDA 13, in the last.
const TOOLKITS: &[&str] = &["CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX"];
const FOLDERS: &[&str] = &["lib64", "lib", "bin", "bin/x64"];

const SUCCESS: u32 = 0;
const INVALID_OPTION: u32 = 5;
const COMPILATION: u32 = 6;
const NAME_NOT_VALID: u32 = 10;

type Handle = *mut std::ffi::c_void;
type Size = unsafe extern "C" fn(Handle, *mut usize) -> u32;
type Bytes = unsafe extern "C" fn(Handle, *mut c_char) -> u32;

macro_rules! functions {
    ($($name:ident($($argument:ty),*) = $symbol:literal;)*) => {
        /// NVRTC's functions. The library is never closed.
        pub(super) struct Nvrtc {
            library: &'static Library,
            path: String,
            build: OnceLock<String>,
            $($name: unsafe extern "C" fn($($argument),*) -> u32,)*
        }

        impl Nvrtc {
            #[inline]
            fn of(library: &'static Library, path: &str) -> Result<Nvrtc, NvrtcError> {
                $(
                    // SAFETY: NVRTC's manual gives this signature for the symbol.
                    let $name = *unsafe { library.get(concat!($symbol, "\0").as_bytes()) }
                        .map_err(|_| NvrtcError::Missing { library: path.to_owned(), function: $symbol })?;
                )*
                Ok(Nvrtc { library, path: path.to_owned(), build: OnceLock::new(), $($name,)* })
            }
        }
    };
}

functions! {
    version(*mut c_int, *mut c_int) = "nvrtcVersion";
    create_program(
        *mut Handle, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char
    ) = "nvrtcCreateProgram";
    destroy_program(*mut Handle) = "nvrtcDestroyProgram";
    compile_program(Handle, c_int, *const *const c_char) = "nvrtcCompileProgram";
    get_log_size(Handle, *mut usize) = "nvrtcGetProgramLogSize";
    get_log(Handle, *mut c_char) = "nvrtcGetProgramLog";
    add_name_expression(Handle, *const c_char) = "nvrtcAddNameExpression";
    get_lowered_name(Handle, *const c_char, *mut *const c_char) = "nvrtcGetLoweredName";
}

/// The functions that get an image of some kind, by its size.
pub(super) type Getters = [&'static str; 2];

/// The library, which stays; no lock, because the child of a fork would wait for ever for one that its parent held.
static LOADED: AtomicPtr<Nvrtc> = AtomicPtr::new(ptr::null_mut());

impl Nvrtc {
    /// The library: the one that was loaded before, or the first that is found.
    #[inline]
    pub(super) fn get() -> Result<&'static Nvrtc, NvrtcError> {
        // SAFETY: null, or a value that was leaked, and is shared between threads as it is `Sync`.
        let known = |at: *mut Nvrtc| unsafe { at.as_ref() };
        if let Some(nvrtc) = known(LOADED.load(Ordering::Acquire)) {
            return Ok(nvrtc);
        }
        let found = Self::first(candidates())?;
        let at = ptr::from_ref(found).cast_mut();
        // Another thread may have been here first.
        let before = LOADED.compare_exchange(ptr::null_mut(), at, Ordering::AcqRel, Ordering::Acquire);
        Ok(before.err().and_then(known).unwrap_or(found))
    }

    /// Loads this file, for all later programs.
    ///
    /// # Safety
    ///
    /// The file is NVRTC.
    #[inline]
    pub(super) unsafe fn load(path: &Path) -> Result<(), NvrtcError> {
        let nvrtc = Self::first(vec![path.as_os_str().to_owned()])?;
        LOADED.store(ptr::from_ref(nvrtc).cast_mut(), Ordering::Release);
        Ok(())
    }

    #[inline]
    fn first(names: Vec<OsString>) -> Result<&'static Nvrtc, NvrtcError> {
        let mut tried = Vec::new();
        for name in names {
            let text = name.to_string_lossy().into_owned();
            // SAFETY: loading a library runs its initialisers. By convention a file of this name is NVRTC, or the
            // environment says so, or the caller of `load` does.
            let opened = unsafe { Library::new(&name) }.map_err(|error| error.to_string());
            let usable = opened.and_then(|library| {
                // Never closed, because code of it may run on other threads.
                Nvrtc::of(Box::leak(Box::new(library)), &text).map_err(|error| error.to_string())
            });
            match usable {
                Ok(nvrtc) => {
                    nvrtc.open_builtins(Path::new(&name));
                    return Ok(Box::leak(Box::new(nvrtc)));
                }
                Err(reason) => tried.push(Attempt { library: text, reason }),
            }
        }
        Err(NvrtcError::NotFound { tried })
    }

    /// Opens the library that NVRTC itself asks the system's loader for, by its name alone, when it compiles. NVIDIA's Python
    /// packages of CUDA 13 do not say that it is in the same folder.
    #[inline]
    fn open_builtins(&self, nvrtc: &Path) {
        let folder = nvrtc.parent().filter(|folder| !folder.as_os_str().is_empty());
        let (Some(folder), Ok((major, minor))) = (folder, self.version()) else { return };
        let builtins = folder.join(format!("libnvrtc-builtins.so.{major}.{minor}"));
        // SAFETY: as for NVRTC, to which it belongs.
        if let Ok(library) = unsafe { Library::new(builtins) } {
            // Never closed, as NVRTC is not.
            mem::forget(library);
        }
    }

    /// What tells this build of the compiler from others: the comment that it writes above all PTX. Asked for once.
    #[inline]
    pub(super) fn build(&'static self) -> &'static str {
        if let Some(build) = self.build.get() {
            return build;
        }
        let empty = self.create(c"", c"empty.cu", &[]).and_then(|program| {
            program.compile(&[])?;
            program.image(["nvrtcGetPTXSize", "nvrtcGetPTX"])
        });
        let text = String::from_utf8_lossy(&empty.unwrap_or_default()).into_owned();
        self.build.get_or_init(|| text.lines().filter(|line| line.starts_with("//")).collect())
    }

    #[inline]
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    #[inline]
    pub(super) fn version(&self) -> Result<(u32, u32), NvrtcError> {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: writes to two locals.
        succeeded("nvrtcVersion", unsafe { (self.version)(&mut major, &mut minor) })?;
        Ok((major.unsigned_abs(), minor.unsigned_abs()))
    }

    /// The architectures that it compiles for, as in `sm_90`; none if it is older than CUDA 11.2.
    #[inline]
    pub(super) fn architectures(&self) -> Vec<u32> {
        let (mut count, mut all) = (0, Vec::new());
        // SAFETY: as in `of`.
        let count_of = unsafe {
            self.library.get::<unsafe extern "C" fn(*mut c_int) -> u32>(b"nvrtcGetNumSupportedArchs\0")
        };
        // SAFETY: as in `of`.
        let list = unsafe {
            self.library.get::<unsafe extern "C" fn(*mut c_int) -> u32>(b"nvrtcGetSupportedArchs\0")
        };
        let (Ok(count_of), Ok(list)) = (count_of, list) else { return all };
        // SAFETY: writes to a local.
        if unsafe { count_of(&mut count) } != SUCCESS {
            return all;
        }
        let mut numbers = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: the list has room for as many as there are.
        if unsafe { list(numbers.as_mut_ptr()) } == SUCCESS {
            all = numbers.into_iter().map(c_int::unsigned_abs).collect();
        }
        all
    }

    #[inline]
    pub(super) fn create(
        &'static self,
        source: &CStr,
        name: &CStr,
        headers: &[(CString, CString)],
    ) -> Result<Handled, NvrtcError> {
        let names: Vec<_> = headers.iter().map(|(name, _)| name.as_ptr()).collect();
        let texts: Vec<_> = headers.iter().map(|(_, text)| text.as_ptr()).collect();
        let count = c_int::try_from(headers.len()).unwrap_or(c_int::MAX);
        let mut raw = ptr::null_mut();
        // SAFETY: writes to a local; the texts are C strings, of which the program keeps copies, and the lists have
        // `count` of them.
        let created = unsafe {
            (self.create_program)(
                &mut raw,
                source.as_ptr(),
                name.as_ptr(),
                count,
                texts.as_ptr(),
                names.as_ptr(),
            )
        };
        succeeded("nvrtcCreateProgram", created)?;
        Ok(Handled { nvrtc: self, raw })
    }
}

#[inline]
fn candidates() -> Vec<OsString> {
    if let Some(named) = std::env::var_os("CUSTACK_LIBNVRTC").filter(|name| !name.is_empty()) {
        return vec![named];
    }
    let mut all: Vec<OsString> = NAMES.iter().map(OsString::from).collect();
    let named = TOOLKITS.iter().filter_map(std::env::var_os);
    let toolkits: Vec<_> = named.chain(["/usr/local/cuda".into()]).filter(|path| !path.is_empty()).collect();
    for toolkit in toolkits {
        for folder in FOLDERS.iter().map(|folder| Path::new(&toolkit).join(folder)) {
            all.extend(
                NAMES.iter().map(|name| folder.join(name)).filter(|path| path.exists()).map(Into::into),
            );
        }
    }
    all
}

#[inline]
fn succeeded(function: &'static str, result: u32) -> Result<(), NvrtcError> {
    if result == SUCCESS { Ok(()) } else { Err(NvrtcError::Other { function, result, log: String::new() }) }
}

/// A program in the library, for one thread at a time.
pub(super) struct Handled {
    nvrtc: &'static Nvrtc,
    raw: Handle,
}

impl Handled {
    #[inline]
    pub(super) fn add_name_expression(&self, expression: &CStr) -> Result<(), NvrtcError> {
        // SAFETY: the program is alive, and keeps a copy of the text.
        let added = unsafe { (self.nvrtc.add_name_expression)(self.raw, expression.as_ptr()) };
        succeeded("nvrtcAddNameExpression", added)
    }

    /// Compiles the program; returns what the compiler wrote.
    #[inline]
    pub(super) fn compile(&self, options: &[CString]) -> Result<String, NvrtcError> {
        let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        let count = c_int::try_from(pointers.len()).unwrap_or(c_int::MAX);
        // SAFETY: the program is alive, and the list has `count` C strings.
        let result = unsafe { (self.nvrtc.compile_program)(self.raw, count, pointers.as_ptr()) };
        let log = self.log();
        let text = |option: &CString| option.to_string_lossy().into_owned();
        match result {
            SUCCESS => Ok(log),
            COMPILATION => Err(NvrtcError::of_compilation(log)),
            INVALID_OPTION => {
                Err(NvrtcError::InvalidOption { options: options.iter().map(text).collect(), log })
            }
            result => Err(NvrtcError::Other { function: "nvrtcCompileProgram", result, log }),
        }
    }

    #[inline]
    fn log(&self) -> String {
        let log = self.bytes(self.nvrtc.get_log_size, self.nvrtc.get_log, "nvrtcGetProgramLog");
        let log = log.unwrap_or_default();
        String::from_utf8_lossy(log.strip_suffix(&[0]).unwrap_or(&log)).into_owned()
    }

    #[inline]
    pub(super) fn lowered_name(&self, expression: &CStr, log: &str) -> Result<CString, NvrtcError> {
        let mut name = ptr::null();
        // SAFETY: the program is alive; writes to a local.
        let result = unsafe { (self.nvrtc.get_lowered_name)(self.raw, expression.as_ptr(), &mut name) };
        if result == NAME_NOT_VALID {
            let expression = expression.to_string_lossy().into_owned();
            return Err(NvrtcError::InvalidName { expression, log: log.to_owned() });
        }
        succeeded("nvrtcGetLoweredName", result)?;
        // SAFETY: a C string that lives as long as the program.
        Ok(unsafe { CStr::from_ptr(name) }.to_owned())
    }

    /// An image of the program, by the functions that give its size and its bytes.
    #[inline]
    pub(super) fn image(&self, [size, bytes]: Getters) -> Result<Vec<u8>, NvrtcError> {
        let missing = |function| NvrtcError::Missing { library: self.nvrtc.path.clone(), function };
        // SAFETY: NVRTC's manual gives all functions that get a size this signature.
        let get_size =
            unsafe { self.nvrtc.library.get::<Size>(size.as_bytes()) }.map_err(|_| missing(size))?;
        // SAFETY: likewise for those that get bytes.
        let get = unsafe { self.nvrtc.library.get::<Bytes>(bytes.as_bytes()) }.map_err(|_| missing(bytes))?;
        self.bytes(*get_size, *get, bytes)
    }

    #[inline]
    fn bytes(&self, get_size: Size, get: Bytes, function: &'static str) -> Result<Vec<u8>, NvrtcError> {
        let mut size = 0;
        // SAFETY: the program is alive; writes to a local.
        succeeded(function, unsafe { get_size(self.raw, &mut size) })?;
        let mut bytes = Vec::new();
        let other = |log: String| NvrtcError::Other { function, result: SUCCESS, log };
        bytes.try_reserve_exact(size).map_err(|error| other(format!("{size} bytes: {error}")))?;
        bytes.resize(size, 0u8);
        if size > 0 {
            // SAFETY: the buffer has the size that the library has just asked for.
            succeeded(function, unsafe { get(self.raw, bytes.as_mut_ptr().cast()) })?;
        }
        Ok(bytes)
    }
}

impl Drop for Handled {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the program is alive, and not used afterwards.
        let _ = unsafe { (self.nvrtc.destroy_program)(&mut self.raw) };
    }
}
