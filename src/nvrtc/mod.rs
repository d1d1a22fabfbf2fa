//! CUDA C++ compiled at run time, by NVRTC (feature `nvrtc`).
//!
//! A [`Program`] is a text with its headers, options and name expressions. It is compiled to an [`Image`],
//! which is loaded as a [module](UnownedContext::load_nvrtc_module) or a [library](Library::load_nvrtc):
//!
//! ```
//! use custack::nvrtc::{OutputKind, Program};
//! use custack::prelude::*;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let context = custack::quick_init()?;
//! let program = Program::new("template<typename T> __global__ void twice(T *x) { x[threadIdx.x] *= 2; }")
//!     .for_device(Device::get_device(0)?)?
//!     .name_expression("twice<float>");
//! let compiled = match program.compile(OutputKind::Ptx) {
//!     Ok(compiled) => compiled,
//!     Err(error) => { // NVRTC is not here, and the error says how to get it
//!         println!("{error}");
//!         return Ok(());
//!     }
//! };
//! let module = context.load_nvrtc_module(&compiled)?;
//! let twice = module.get_function(compiled.lowered_name("twice<float>").unwrap())?;
//! # let _ = twice;
//! # Ok(())
//! # }
//! ```
//!
//! The library is opened when the first program is compiled; nothing of the toolkit is needed to build. The variable
//! `CUSTACK_LIBNVRTC` names it. Else the system's loader is asked for versions 13, 12 and 11.2, and any; then the same files
//! are looked for in the toolkits of `CUDA_HOME`, `CUDA_PATH`, `CONDA_PREFIX` and `/usr/local/cuda`. The library
//! `libnvrtc-builtins`, which it opens itself when it compiles, is opened before from the same folder, if it is there.
//!
//! It needs no GPU. NVIDIA publishes it as Python packages: after `pip install nvidia-cuda-nvrtc-cu12` it is
//! `nvidia/cuda_nvrtc/lib/libnvrtc.so.12` among the site packages. A driver loads no PTX of a newer CUDA than its own, and the
//! simulated driver, which is one of CUDA 13.0, none of a later version; older ones all load.
//!
//! Compiling takes tens of milliseconds to seconds; asynchronous code calls it where it may block. A program from others can
//! stall or crash the compiler: compile it in another process.
//!
//! PTX runs on the simulated driver too, as far as it knows the instructions.
//!
#![doc = include_str!("names.md")]
// `load` takes a file on the caller's word.
#![allow(unsafe_code)]

mod cache;
mod error;
mod image;
mod library;
mod load;
mod program;
mod whole;

pub use error::NvrtcError;
pub use image::{Compiled, Image, OutputKind};
pub use program::Program;

#[cfg(doc)]
use crate::context::UnownedContext;
#[cfg(doc)]
use crate::library::Library;
use library::Nvrtc;
use std::path::Path;

/// The version of NVRTC.
///
/// # Errors
///
/// [`NotFound`](NvrtcError::NotFound) if it is not installed.
#[doc(alias = "nvrtcVersion")]
#[inline]
pub fn version() -> Result<(u32, u32), NvrtcError> {
    Nvrtc::get()?.version()
}

/// The name or path by which NVRTC was loaded.
///
/// # Errors
///
/// [`NotFound`](NvrtcError::NotFound) if it is not installed.
#[inline]
pub fn library() -> Result<&'static str, NvrtcError> {
    Nvrtc::get().map(Nvrtc::path)
}

/// The architectures that NVRTC compiles for, as in `sm_90`; none if it is too old to say (before CUDA 11.2).
///
/// # Errors
///
/// [`NotFound`](NvrtcError::NotFound) if it is not installed.
#[doc(alias("nvrtcGetSupportedArchs", "nvrtcGetNumSupportedArchs"))]
#[inline]
pub fn architectures() -> Result<Vec<u32>, NvrtcError> {
    Nvrtc::get().map(Nvrtc::architectures)
}

/// Loads NVRTC from this file, for all programs that are compiled from now on.
///
/// # Errors
///
/// [`NotFound`](NvrtcError::NotFound), with the reason, if it cannot be loaded or is another library.
///
/// # Safety
///
/// The file is NVRTC: loading a library runs its code, and its functions are called with NVRTC's signatures.
#[inline]
pub unsafe fn load(path: impl AsRef<Path>) -> Result<(), NvrtcError> {
    // SAFETY: as the caller guarantees.
    unsafe { Nvrtc::load(path.as_ref()) }
}
