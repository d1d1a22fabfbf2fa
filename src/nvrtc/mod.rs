//! CUDA C++ compiled at run time, by NVRTC (feature `nvrtc`).
//!
//! A [`Program`] is a text with its headers, options and the names that are wanted of it. It is compiled to an [`Image`],
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
//! `CUSTACK_LIBNVRTC` names it; else the newest of the versions 13, 12 and 11.2 is taken that the system's loader finds, or
//! that is in the toolkit of `CUDA_HOME`, `CUDA_PATH`, `CONDA_PREFIX` or `/usr/local/cuda`. It needs no GPU, and NVIDIA
//! publishes it as the Python package `nvidia-cuda-nvrtc`.
//!
//! PTX runs on the simulated driver too, as far as it knows the instructions.
//!
#![doc = include_str!("names.md")]

mod cache;
mod error;
mod library;
mod load;

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
    /// Machine code. Needs the option `--gpu-architecture=sm_...`, of just these devices.
    Cubin,
    /// Input of the linker for optimising several programs together. Needs the option `-dlto`.
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
            OutputKind::Cubin => "cubin; it needs the option --gpu-architecture=sm_..., and not compute_...",
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
    /// Input of the linker.
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

/// A program to be compiled: a text, its headers, options, and the names that are wanted of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "it is compiled by `compile`"]
pub struct Program {
    source: String,
    name: String,
    headers: Vec<(String, String)>,
    expressions: Vec<String>,
    options: Vec<String>,
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

    /// Adds an option of the compiler, such as `--use_fast_math`.
    pub fn option(mut self, option: impl Into<String>) -> Program {
        self.options.push(option.into());
        self
    }

    /// Asks for the name in the image of a kernel or variable, such as `twice<float>` or `&lengths`. Templates are made
    /// for what is asked for.
    #[doc(alias = "nvrtcAddNameExpression")]
    pub fn name_expression(mut self, expression: impl Into<String>) -> Program {
        self.expressions.push(expression.into());
        self
    }

    /// Compiles for the architecture of the device; for a newer device than the compiler knows, for the newest that it
    /// does, as PTX. Nothing is added if there is no compiler, which is an error of [`compile`](Self::compile).
    ///
    /// # Errors
    ///
    /// Those of [`Device::get_attribute`].
    #[doc(alias("nvrtcGetSupportedArchs", "nvrtcGetNumSupportedArchs"))]
    pub fn for_device(self, device: Device) -> CudaResult<Program> {
        let major = device.get_attribute(DeviceAttribute::ComputeCapabilityMajor)?;
        let minor = device.get_attribute(DeviceAttribute::ComputeCapabilityMinor)?;
        let own = major.unsigned_abs() * 10 + minor.unsigned_abs();
        let Ok(nvrtc) = Nvrtc::get() else { return Ok(self) };
        let known = nvrtc.architectures();
        Ok(match known.iter().max().filter(|newest| !known.contains(&own) && **newest < own) {
            Some(newest) => self.option(format!("--gpu-architecture=compute_{newest}")),
            None => self.option(format!("--gpu-architecture=sm_{own}")),
        })
    }

    /// Compiles the program.
    ///
    /// # Errors
    ///
    /// [`NotFound`](NvrtcError::NotFound) if NVRTC is not installed; [`Compilation`](NvrtcError::Compilation), with the
    /// compiler's messages, for a program with errors; and the others of [`NvrtcError`].
    #[doc(alias("nvrtcCompileProgram", "nvrtcGetPTX", "nvrtcGetCUBIN", "nvrtcGetLTOIR", "nvrtcGetOptiXIR"))]
    pub fn compile(&self, kind: OutputKind) -> Result<Compiled, NvrtcError> {
        let headers: Result<Vec<_>, _> = self
            .headers
            .iter()
            .map(|(name, text)| Ok((c_string(name, "the name of a header")?, c_string(text, "a header")?)))
            .collect();
        let options: Result<Vec<_>, _> =
            self.options.iter().map(|option| c_string(option, "an option")).collect();
        let (headers, options) = (headers?, options?);
        let (source, name) = (c_string(&self.source, "the source")?, c_string(&self.name, "the name")?);
        let program = Nvrtc::get()?.create(&source, &name, &headers)?;
        let expressions: Result<Vec<_>, _> =
            self.expressions.iter().map(|text| c_string(text, "a name expression")).collect();
        let expressions = expressions?;
        expressions.iter().try_for_each(|expression| program.add_name_expression(expression))?;
        let log = program.compile(&options)?;
        let lowered: Result<Vec<_>, _> =
            expressions.iter().map(|expression| program.lowered_name(expression, &log)).collect();
        let lowered = self.expressions.iter().cloned().zip(lowered?).collect();
        match program.image(kind.getters()) {
            Ok(bytes) if !bytes.is_empty() => Ok(Compiled { image: Image::new(kind, bytes), log, lowered }),
            Ok(_) | Err(NvrtcError::Other { .. }) => Err(NvrtcError::NoImage { what: kind.needs() }),
            Err(error) => Err(error),
        }
    }

    /// Like [`compile`](Self::compile), unless the folder has what an earlier call gave for the same program, options, kind
    /// and version of NVRTC. The folder is made if need be, and may be shared by threads and processes. What cannot be read
    /// there or written is compiled.
    ///
    /// A program that includes files, rather than the headers that were added to it, is compiled each time, because the
    /// files may have changed.
    ///
    /// # Errors
    ///
    /// Like [`compile`](Self::compile).
    pub fn compile_cached(&self, kind: OutputKind, folder: impl AsRef<Path>) -> Result<Compiled, NvrtcError> {
        if !self.is_whole() {
            return self.compile(kind);
        }
        let key = self.key(kind, Nvrtc::get()?.version()?);
        let file = folder.as_ref().join(cache::file_name(&key));
        if let Some(found) = cache::read(&file, &key) {
            return Ok(found);
        }
        let compiled = self.compile(kind)?;
        cache::write(&file, &key, &compiled);
        Ok(compiled)
    }

    /// Whether everything that it includes was added to it.
    fn is_whole(&self) -> bool {
        let reads = |option: &String| {
            let reads_a_file = ["-I", "--include-path", "--pre-include", "-include", "--use-pch", "--pch"];
            reads_a_file.iter().any(|name| option.trim_start().starts_with(name))
        };
        let texts = self.headers.iter().map(|(_, text)| text).chain([&self.source]);
        let mut included = texts.flat_map(|text| text.lines()).filter_map(|line| {
            let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?;
            Some(rest.trim().trim_start_matches(['"', '<']).split(['"', '>']).next().unwrap_or(""))
        });
        let is_given = |name: &str| self.headers.iter().any(|(given, _)| given == name);
        !self.options.iter().any(reads)
            // A line may go on after a backslash, and a macro may say what is included.
            && !self.source.contains("\\\n")
            && included.all(is_given)
    }

    /// All that the result depends on.
    fn key(&self, kind: OutputKind, version: (u32, u32)) -> String {
        format!("{version:?} {kind:?} {self:?}")
    }
}

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

/// Loads NVRTC from this file, for all programs that are compiled from now on.
///
/// # Errors
///
/// [`NotFound`](NvrtcError::NotFound) if it cannot be loaded; [`Missing`](NvrtcError::Missing) if it is another library.
pub fn load(path: impl AsRef<Path>) -> Result<(), NvrtcError> {
    Nvrtc::load(path.as_ref())
}
