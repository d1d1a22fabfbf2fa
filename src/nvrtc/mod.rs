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
//! are looked for in the toolkits of `CUDA_HOME`, `CUDA_PATH`, `CONDA_PREFIX` and `/usr/local/cuda`. It needs no GPU, and
//! NVIDIA publishes it as the Python package `nvidia-cuda-nvrtc`.
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
mod library;
mod load;
mod whole;

pub use error::NvrtcError;

#[cfg(doc)]
use crate::context::UnownedContext;
use crate::device::{Device, DeviceAttribute};
use crate::error::CudaResult;
#[cfg(doc)]
use crate::library::Library;
use library::{Getters, Nvrtc};
use std::ffi::{CStr, CString};
use std::path::Path;

/// What a program is compiled to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OutputKind {
    /// Text for the driver's compiler, for a device of the architecture or a later one.
    Ptx,
    /// Machine code, for devices of one architecture. Needs [`for_device`](Program::for_device), or the option
    /// `--gpu-architecture=sm_...`.
    Cubin,
    /// Input of nvJitLink, which is not part of custack, to optimise several programs together. Needs the option `-dlto`.
    LtoIr,
    /// Input of OptiX. Needs the option `--optix-ir`.
    OptixIr,
}

impl OutputKind {
    const fn getters(self) -> Getters {
        match self {
            OutputKind::Ptx => ["nvrtcGetPTXSize", "nvrtcGetPTX"],
            OutputKind::Cubin => ["nvrtcGetCUBINSize", "nvrtcGetCUBIN"],
            OutputKind::LtoIr => ["nvrtcGetLTOIRSize", "nvrtcGetLTOIR"],
            OutputKind::OptixIr => ["nvrtcGetOptiXIRSize", "nvrtcGetOptiXIR"],
        }
    }

    const fn needs(self) -> &'static str {
        match self {
            OutputKind::Ptx => "PTX; with the option -dlto there is LTO IR only",
            OutputKind::Cubin => {
                "cubin; it needs the option --gpu-architecture=sm_..., and not compute_... or -dlto"
            }
            OutputKind::LtoIr => "LTO IR; it needs the option -dlto",
            OutputKind::OptixIr => "OptiX IR; it needs the option --optix-ir",
        }
    }
}

/// A compiled program.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Image {
    /// PTX, a text.
    Ptx(CString),
    /// Machine code.
    Cubin(Vec<u8>),
    /// Input of nvJitLink.
    LtoIr(Vec<u8>),
    /// Input of OptiX.
    OptixIr(Vec<u8>),
}

impl Image {
    fn new(kind: OutputKind, mut bytes: Vec<u8>) -> Image {
        match kind {
            OutputKind::Ptx => {
                bytes.truncate(bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()));
                Image::Ptx(CString::new(bytes).unwrap_or_default())
            }
            OutputKind::Cubin => Image::Cubin(bytes),
            OutputKind::LtoIr => Image::LtoIr(bytes),
            OutputKind::OptixIr => Image::OptixIr(bytes),
        }
    }

    /// Its bytes; those of PTX without the zero at the end.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Image::Ptx(text) => text.as_bytes(),
            Image::Cubin(bytes) | Image::LtoIr(bytes) | Image::OptixIr(bytes) => bytes,
        }
    }

    /// What kind it is.
    #[must_use]
    pub fn kind(&self) -> OutputKind {
        match self {
            Image::Ptx(_) => OutputKind::Ptx,
            Image::Cubin(_) => OutputKind::Cubin,
            Image::LtoIr(_) => OutputKind::LtoIr,
            Image::OptixIr(_) => OutputKind::OptixIr,
        }
    }
}

/// What compiling a program gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiled {
    image: Image,
    log: String,
    lowered: Vec<(String, CString)>,
}

impl Compiled {
    /// The compiled program.
    #[must_use]
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// What the compiler wrote: warnings, mostly nothing.
    #[must_use]
    pub fn log(&self) -> &str {
        &self.log
    }

    /// The name in the image of what a [name expression](Program::name_expression) names; `None` if that was not asked for.
    #[doc(alias = "nvrtcGetLoweredName")]
    #[must_use]
    pub fn lowered_name(&self, expression: &str) -> Option<&CStr> {
        self.lowered.iter().find(|(of, _)| of == expression).map(|(_, name)| &**name)
    }
}

/// A program to be compiled: a text, its headers, options, and the name expressions by which kernels are found later.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "it is compiled by `compile`"]
pub struct Program {
    source: String,
    name: String,
    headers: Vec<(String, String)>,
    expressions: Vec<String>,
    options: Vec<String>,
    /// The compute capability of the device to compile for, as in `sm_90`.
    device: Option<u32>,
}

impl Program {
    /// A program of this text, without headers and options.
    #[doc(alias = "nvrtcCreateProgram")]
    pub fn new(source: impl Into<String>) -> Program {
        Program {
            source: source.into(),
            name: "program.cu".to_owned(),
            headers: Vec::new(),
            expressions: Vec::new(),
            options: Vec::new(),
            device: None,
        }
    }

    /// The file name in the compiler's messages; `program.cu` at first.
    pub fn name(mut self, name: impl Into<String>) -> Program {
        self.name = name.into();
        self
    }

    /// Adds a header, which the program includes by this name.
    pub fn header(mut self, name: impl Into<String>, text: impl Into<String>) -> Program {
        self.headers.push((name.into(), text.into()));
        self
    }

    /// Adds an option of the compiler, such as `--use_fast_math`. A value goes behind an equals sign, or into another option.
    pub fn option(mut self, option: impl Into<String>) -> Program {
        self.options.push(option.into());
        self
    }

    /// Asks for the name in the image of a kernel or variable, such as `twice<float>` or `&lengths`. Templates are
    /// instantiated for these expressions.
    #[doc(alias = "nvrtcAddNameExpression")]
    pub fn name_expression(mut self, expression: impl Into<String>) -> Program {
        self.expressions.push(expression.into());
        self
    }

    /// Compiles for the architecture of the device, as in `sm_90`; for a device that the compiler does not know, for the
    /// newest older architecture, which there is PTX for, and no cubin. Without this, NVRTC chooses: 12.9 takes
    /// `compute_52`.
    ///
    /// # Errors
    ///
    /// Those of [`Device::get_attribute`].
    #[doc(alias("nvrtcGetSupportedArchs", "nvrtcGetNumSupportedArchs"))]
    pub fn for_device(mut self, device: Device) -> CudaResult<Program> {
        let major = device.get_attribute(DeviceAttribute::ComputeCapabilityMajor)?;
        let minor = device.get_attribute(DeviceAttribute::ComputeCapabilityMinor)?;
        self.device = Some(major.unsigned_abs() * 10 + minor.unsigned_abs());
        Ok(self)
    }

    /// All options, with the one for the device.
    fn options(&self, nvrtc: &Nvrtc) -> Result<Vec<CString>, NvrtcError> {
        let device = self.device.map(|own| architecture(own, nvrtc.architectures())).transpose()?;
        device.iter().chain(&self.options).map(|option| c_string(option, "an option")).collect()
    }

    /// Compiles the program.
    ///
    /// # Errors
    ///
    /// [`NotFound`](NvrtcError::NotFound) if NVRTC is not installed; [`Compilation`](NvrtcError::Compilation), with the
    /// compiler's messages, for a program with errors; and the others of [`NvrtcError`].
    #[doc(alias("nvrtcCompileProgram", "nvrtcGetPTX", "nvrtcGetCUBIN", "nvrtcGetLTOIR", "nvrtcGetOptiXIR"))]
    pub fn compile(&self, kind: OutputKind) -> Result<Compiled, NvrtcError> {
        self.compile_by(Nvrtc::get()?, kind)
    }

    /// Compiles on a thread of its own, for its stack.
    fn compile_by(&self, nvrtc: &'static Nvrtc, kind: OutputKind) -> Result<Compiled, NvrtcError> {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("custack NVRTC".to_owned()).stack_size(STACK);
            let other = |log: String| NvrtcError::Other { function: "nvrtcCompileProgram", result: 0, log };
            let compiling = thread.spawn_scoped(scope, || self.compile_here(nvrtc, kind));
            let compiling =
                compiling.map_err(|error| other(format!("no thread could be started: {error}")))?;
            compiling.join().unwrap_or_else(|_| Err(other("its thread panicked".to_owned())))
        })
    }

    fn compile_here(&self, nvrtc: &'static Nvrtc, kind: OutputKind) -> Result<Compiled, NvrtcError> {
        let headers: Result<Vec<_>, _> = self
            .headers
            .iter()
            .map(|(name, text)| Ok((c_string(name, "the name of a header")?, c_string(text, "a header")?)))
            .collect();
        let options = self.options(nvrtc)?;
        let (source, name) = (c_string(&self.source, "the source")?, c_string(&self.name, "the name")?);
        let program = nvrtc.create(&source, &name, &headers?)?;
        let expressions: Result<Vec<_>, _> =
            self.expressions.iter().map(|text| c_string(text, "a name expression")).collect();
        let expressions = expressions?;
        expressions.iter().try_for_each(|expression| program.add_name_expression(expression))?;
        let log = program.compile(&options)?;
        let lowered: Result<Vec<_>, _> =
            expressions.iter().map(|expression| program.lowered_name(expression, &log)).collect();
        let lowered = self.expressions.iter().cloned().zip(lowered?).collect();
        match program.image(kind.getters()).map(|bytes| Image::new(kind, bytes)) {
            Ok(image) if !image.as_bytes().is_empty() => Ok(Compiled { image, log, lowered }),
            Ok(_) | Err(NvrtcError::Other { .. }) => Err(NvrtcError::NoImage { what: kind.needs() }),
            Err(error) => Err(error),
        }
    }

    /// Like [`compile`](Self::compile), unless the folder has what an earlier call gave for the same program, options, kind
    /// and build of NVRTC. The folder is created if need be; threads and processes may share it. If a file in it cannot be
    /// read or written, the program is compiled, and no error is returned. When a file is written, the files that were used
    /// longest ago are removed, until all of the folder's together have at most 256 MiB.
    ///
    /// A program that may read files is compiled each time, because they may have changed: one that includes other headers
    /// than those that were added to it, that continues a line with a backslash (where an include could hide), or whose
    /// options name files; also one that contains the time.
    ///
    /// Who can write to the folder decides what the program loads, so it should not be one that everybody can write to.
    ///
    /// # Errors
    ///
    /// Like [`compile`](Self::compile).
    pub fn compile_cached(&self, kind: OutputKind, folder: impl AsRef<Path>) -> Result<Compiled, NvrtcError> {
        let nvrtc = Nvrtc::get()?;
        if !whole::is_whole(&self.source, &self.headers, &self.options) {
            return self.compile_by(nvrtc, kind);
        }
        let key = format!("{:?} {} {kind:?} {self:?}", nvrtc.version()?, nvrtc.build());
        let file = folder.as_ref().join(cache::file_name(&key));
        let is_asked = |found: &Compiled| {
            let names = found.lowered.iter().map(|(expression, _)| expression);
            found.image.kind() == kind && names.eq(&self.expressions) && !found.image.as_bytes().is_empty()
        };
        if let Some(found) = cache::read(&file, &key).filter(is_asked) {
            return Ok(found);
        }
        let compiled = self.compile_by(nvrtc, kind)?;
        cache::write(&file, &key, &compiled);
        Ok(compiled)
    }
}

/// The option for a device of this compute capability, for a compiler that knows these; none are known if it is too old to
/// say.
fn architecture(own: u32, known: Vec<u32>) -> Result<String, NvrtcError> {
    if known.is_empty() || known.contains(&own) {
        return Ok(format!("--gpu-architecture=sm_{own}"));
    }
    match known.iter().filter(|older| **older < own).max() {
        Some(older) => Ok(format!("--gpu-architecture=compute_{older}")),
        None => Err(NvrtcError::UnknownDevice { device: own, known }),
    }
}

/// In bytes. The compiler recurses as deeply as a program is nested. Only what is used of it takes memory.
const STACK: usize = 256 << 20;

fn c_string(text: &str, what: &'static str) -> Result<CString, NvrtcError> {
    CString::new(text).map_err(|_| NvrtcError::ContainsZero { what })
}

/// The version of NVRTC.
///
/// # Errors
///
/// [`NotFound`](NvrtcError::NotFound) if it is not installed.
#[doc(alias = "nvrtcVersion")]
pub fn version() -> Result<(u32, u32), NvrtcError> {
    Nvrtc::get()?.version()
}

/// The name or path by which NVRTC was loaded.
///
/// # Errors
///
/// [`NotFound`](NvrtcError::NotFound) if it is not installed.
pub fn library() -> Result<&'static str, NvrtcError> {
    Nvrtc::get().map(Nvrtc::path)
}

/// The architectures that NVRTC compiles for, as in `sm_90`; none if it is too old to say (before CUDA 11.2).
///
/// # Errors
///
/// [`NotFound`](NvrtcError::NotFound) if it is not installed.
#[doc(alias("nvrtcGetSupportedArchs", "nvrtcGetNumSupportedArchs"))]
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
pub unsafe fn load(path: impl AsRef<Path>) -> Result<(), NvrtcError> {
    // SAFETY: as the caller guarantees.
    unsafe { Nvrtc::load(path.as_ref()) }
}
