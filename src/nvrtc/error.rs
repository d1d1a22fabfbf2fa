//! What can go wrong when a program is compiled.

use crate::error::Attempt;
use std::fmt;

/// Why a program could not be compiled.
///
/// `Debug` prints the same text as `Display`, because a `main` that returns an error prints it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NvrtcError {
    /// The compiler's library was not found, or could not be loaded.
    NotFound {
        /// Every name that was tried, in order.
        tried: Vec<Attempt>,
    },
    /// The library was loaded, and is no NVRTC or too old: it lacks a function.
    Missing {
        /// The library.
        library: String,
        /// The function that it lacks.
        function: &'static str,
    },
    /// The program has errors.
    Compilation {
        /// What the compiler wrote: file, line and reason of each error.
        log: String,
    },
    /// The compiler does not take an option.
    InvalidOption {
        /// The options that were given.
        options: Vec<String>,
        /// What the compiler wrote.
        log: String,
    },
    /// A name expression that was asked for names nothing in the program.
    InvalidName {
        /// The name expression.
        expression: String,
        /// What the compiler wrote.
        log: String,
    },
    /// A text that the compiler reads as a C string contains a zero byte.
    ContainsZero {
        /// What the text is: the source, a header, an option.
        what: &'static str,
    },
    /// The compiler knows no architecture that the device could run.
    UnknownDevice {
        /// The device's compute capability, as in `sm_90`.
        device: u32,
        /// Those that the compiler knows.
        known: Vec<u32>,
    },
    /// This kind of image was not made, because of the options.
    NoImage {
        /// The kind of image, and what it needs.
        what: &'static str,
    },
    /// Any other result of the compiler.
    Other {
        /// The function that returned it.
        function: &'static str,
        /// Its number, an `nvrtcResult`.
        result: u32,
        /// What the compiler wrote.
        log: String,
    },
}

impl fmt::Display for NvrtcError {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NvrtcError::NotFound { tried } => {
                write!(f, "NVRTC, which compiles CUDA C++, was not found: ")?;
                for (at, Attempt { library, reason }) in tried.iter().enumerate() {
                    let separator = if at == 0 { "" } else { "; " };
                    write!(f, "{separator}{library} ({reason})")?;
                }
                write!(
                    f,
                    ". Install the CUDA toolkit, or NVIDIA's Python package by `pip install nvidia-cuda-nvrtc-cu12`, and \
                     name its nvidia/cuda_nvrtc/lib/libnvrtc.so.12 in CUSTACK_LIBNVRTC. It must not be newer than the \
                     driver that loads what it compiles"
                )
            }
            NvrtcError::Missing { library, function } => {
                write!(f, "{library} is no NVRTC, or too old: it has no {function}")
            }
            NvrtcError::Compilation { log } => write!(f, "the program does not compile:\n{}", log.trim_end()),
            NvrtcError::InvalidOption { options, log } => {
                write!(f, "an option of {options:?} is invalid: {}", log.trim_end())
            }
            NvrtcError::InvalidName { expression, log } => {
                write!(
                    f,
                    "the name expression {expression:?} names no kernel, and no variable by its address (`&name`): {}",
                    log.trim_end()
                )
            }
            NvrtcError::ContainsZero { what } => write!(f, "{what} contains a zero byte"),
            NvrtcError::UnknownDevice { device, known } => {
                write!(f, "the device is of sm_{device}, and this NVRTC compiles for {known:?}")
            }
            NvrtcError::NoImage { what } => write!(f, "there is no {what}"),
            NvrtcError::Other { function, result, log } => {
                write!(f, "{function} returned {result}: {}", log.trim_end())
            }
        }
    }
}

impl fmt::Debug for NvrtcError {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for NvrtcError {}

impl NvrtcError {
    /// The error of a program that does not compile. Name expressions are compiled as a file of their own.
    #[inline]
    pub(super) fn of_compilation(log: String) -> NvrtcError {
        const NAMES: &str = "__nv_name_map(";
        const NAME: &str = "#pragma nv_mangled_name ";
        let only_names = log.contains(NAMES)
            && log.lines().filter(|line| line.contains("): error: ")).all(|line| line.starts_with(NAMES));
        match log.lines().find_map(|line| line.trim_start().strip_prefix(NAME)) {
            Some(expression) if only_names => {
                NvrtcError::InvalidName { expression: expression.trim().to_owned(), log }
            }
            _ => NvrtcError::Compilation { log },
        }
    }
}
