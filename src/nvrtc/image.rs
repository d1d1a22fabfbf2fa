//! What a program is compiled to: an [`Image`], with the compiler's log.

#[cfg(doc)]
use super::Program;
use super::library::Getters;
use std::ffi::{CStr, CString};

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
    pub(super) const fn getters(self) -> Getters {
        match self {
            OutputKind::Ptx => ["nvrtcGetPTXSize", "nvrtcGetPTX"],
            OutputKind::Cubin => ["nvrtcGetCUBINSize", "nvrtcGetCUBIN"],
            OutputKind::LtoIr => ["nvrtcGetLTOIRSize", "nvrtcGetLTOIR"],
            OutputKind::OptixIr => ["nvrtcGetOptiXIRSize", "nvrtcGetOptiXIR"],
        }
    }

    pub(super) const fn needs(self) -> &'static str {
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
    #[inline]
    pub(super) fn new(kind: OutputKind, mut bytes: Vec<u8>) -> Image {
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
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Image::Ptx(text) => text.as_bytes(),
            Image::Cubin(bytes) | Image::LtoIr(bytes) | Image::OptixIr(bytes) => bytes,
        }
    }

    /// What kind it is.
    #[must_use]
    #[inline]
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
    pub(super) image: Image,
    pub(super) log: String,
    pub(super) lowered: Vec<(String, CString)>,
}

impl Compiled {
    /// The compiled program.
    #[must_use]
    #[inline]
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// What the compiler wrote: warnings, mostly nothing.
    #[must_use]
    #[inline]
    pub fn log(&self) -> &str {
        &self.log
    }

    /// The name in the image of what a [name expression](Program::name_expression) names; `None` if that was not asked for.
    #[doc(alias = "nvrtcGetLoweredName")]
    #[must_use]
    #[inline]
    pub fn lowered_name(&self, expression: &str) -> Option<&CStr> {
        self.lowered.iter().find(|(of, _)| of == expression).map(|(_, name)| &**name)
    }
}
