//! [`Program`]: what is compiled, and how.

use super::image::{Compiled, Image, OutputKind};
use super::library::Nvrtc;
use super::{NvrtcError, cache, whole};
use crate::device::{Device, DeviceAttribute};
use crate::error::CudaResult;
use std::ffi::CString;
use std::path::Path;

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
    #[inline]
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
    #[inline]
    pub fn name(mut self, name: impl Into<String>) -> Program {
        self.name = name.into();
        self
    }

    /// Adds a header, which the program includes by this name.
    #[inline]
    pub fn header(mut self, name: impl Into<String>, text: impl Into<String>) -> Program {
        self.headers.push((name.into(), text.into()));
        self
    }

    /// Adds an option of the compiler, such as `--use_fast_math`. A value goes behind an equals sign, or into another option.
    #[inline]
    pub fn option(mut self, option: impl Into<String>) -> Program {
        self.options.push(option.into());
        self
    }

    /// Asks for the name in the image of a kernel or variable, such as `twice<float>` or `&lengths`. Templates are
    /// instantiated for these expressions.
    #[doc(alias = "nvrtcAddNameExpression")]
    #[inline]
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
    #[inline]
    pub fn for_device(mut self, device: Device) -> CudaResult<Program> {
        let major = device.get_attribute(DeviceAttribute::ComputeCapabilityMajor)?;
        let minor = device.get_attribute(DeviceAttribute::ComputeCapabilityMinor)?;
        self.device = Some(major.unsigned_abs() * 10 + minor.unsigned_abs());
        Ok(self)
    }

    /// All options, with the one for the device.
    #[inline]
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
    #[inline]
    pub fn compile(&self, kind: OutputKind) -> Result<Compiled, NvrtcError> {
        self.compile_by(Nvrtc::get()?, kind)
    }

    /// Compiles on a thread of its own, for its stack.
    #[inline]
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

    #[inline]
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
    /// A program that may read files or contain the time is compiled each time, because these may have changed:
    ///
    /// * one that includes other headers than those that were added to it;
    /// * one that has `__TIME__`, `__DATE__` or `__TIMESTAMP__`, in its options, too;
    /// * one in which these could hide: it continues a line with a backslash, or pastes names together (`##`);
    /// * one with an option of which custack does not know that it names no file.
    ///
    /// Who can write to the folder decides what the program loads, so it should not be one that everybody can write to.
    ///
    /// # Errors
    ///
    /// Like [`compile`](Self::compile).
    #[inline]
    pub fn compile_cached(&self, kind: OutputKind, folder: impl AsRef<Path>) -> Result<Compiled, NvrtcError> {
        let nvrtc = Nvrtc::get()?;
        if !whole::is_whole(&self.source, &self.headers, &self.options, &self.expressions) {
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
#[inline]
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

#[inline]
fn c_string(text: &str, what: &'static str) -> Result<CString, NvrtcError> {
    CString::new(text).map_err(|_| NvrtcError::ContainsZero { what })
}
