//! What the driver's compiler may be asked for, and what it tells.

use crate::driver::{Jit, Told, numbered};
use crate::error::{CudaError, CudaResult};
use std::error::Error;
use std::fmt;
use std::time::Duration;

const MAX_REGISTERS: u32 = 0;
const THREADS_PER_BLOCK: u32 = 1;
const OPTIMIZATION_LEVEL: u32 = 7;
const TARGET: u32 = 9;
const FALLBACK_STRATEGY: u32 = 10;
const GENERATE_DEBUG_INFO: u32 = 11;
const LOG_VERBOSE: u32 = 12;
const GENERATE_LINE_INFO: u32 = 13;
const CACHE_MODE: u32 = 14;
const POSITION_INDEPENDENT_CODE: u32 = 30;
const MIN_CTA_PER_SM: u32 = 31;
const MAX_THREADS_PER_BLOCK: u32 = 32;
const OVERRIDE_DIRECTIVE_VALUES: u32 = 33;

/// Room for each log, unless another is asked for.
const LOG_BYTES: usize = 16 << 10;
/// The number that says how much room there is has 32 bits, and there are two logs.
const MOST_LOG_BYTES: usize = 1 << 30;

numbered! {
    /// Which code is taken of an image that has none for the very device.
    #[non_exhaustive]
    pub enum Fallback {
        /// The PTX, which is compiled.
        PreferPtx = 0,
        /// Machine code for a device that is compatible.
        PreferBinary = 1,
    }
}

numbered! {
    /// Which caches loads from global memory go through, where the code does not say.
    #[non_exhaustive]
    pub enum CacheMode {
        /// The compiler's default.
        Default = 0,
        /// The L2 cache alone.
        L2 = 1,
        /// The L1 and the L2 cache.
        L1AndL2 = 2,
    }
}

/// What the driver's compiler is asked for when it loads PTX, or links. Nothing is asked for that is not set.
///
/// ```
/// use custack::module::{JitOptions, Module};
///
/// let _context = custack::quick_init()?;
/// let ptx = b".version 7.0 .target sm_70 .address_size 64 .visible .entry nothing() { ret; }";
/// let options = JitOptions::new().max_registers(32).optimization_level(3).verbose(true);
/// let (module, log) = Module::load_with_options(ptx, &options)?;
/// println!("compiled in {:?}: {}", log.wall_time, log.info);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JitOptions {
    /// By the driver's numbers, each once.
    options: Vec<(u32, u32)>,
    log_bytes: usize,
}

impl Default for JitOptions {
    fn default() -> JitOptions {
        JitOptions { options: Vec::new(), log_bytes: LOG_BYTES }
    }
}

impl JitOptions {
    /// Asks for nothing.
    pub fn new() -> JitOptions {
        JitOptions::default()
    }

    fn with(mut self, option: u32, value: u32) -> JitOptions {
        self.options.retain(|(known, _)| *known != option);
        self.options.push((option, value));
        self
    }

    /// The most registers that a thread may have.
    pub fn max_registers(self, registers: u32) -> JitOptions {
        self.with(MAX_REGISTERS, registers)
    }

    /// Compiles so that a block can have at least so many threads; [`JitLog::threads_per_block`] tells for how many it did.
    /// Not together with a [target](Self::target).
    pub fn threads_per_block(self, threads: u32) -> JitOptions {
        self.with(THREADS_PER_BLOCK, threads)
    }

    /// From 0, not at all, to 4, which is what is done unless asked.
    pub fn optimization_level(self, level: u32) -> JitOptions {
        self.with(OPTIMIZATION_LEVEL, level)
    }

    /// Compiles for this compute capability, ten times the major version and the minor, such as 90; unless asked, for the
    /// device of the context.
    pub fn target(self, compute_capability: u32) -> JitOptions {
        self.with(TARGET, compute_capability)
    }

    /// Which code is taken of an image that has none for the very device.
    pub fn fallback(self, fallback: Fallback) -> JitOptions {
        self.with(FALLBACK_STRATEGY, fallback as u32)
    }

    /// Whether the machine code has what a debugger needs.
    pub fn debug_info(self, wanted: bool) -> JitOptions {
        self.with(GENERATE_DEBUG_INFO, wanted.into())
    }

    /// Whether the machine code has the lines that it comes from.
    pub fn line_info(self, wanted: bool) -> JitOptions {
        self.with(GENERATE_LINE_INFO, wanted.into())
    }

    /// Whether [`JitLog::info`] tells what each kernel uses.
    pub fn verbose(self, wanted: bool) -> JitOptions {
        self.with(LOG_VERBOSE, wanted.into())
    }

    /// Which caches loads go through.
    pub fn cache_mode(self, mode: CacheMode) -> JitOptions {
        self.with(CACHE_MODE, mode as u32)
    }

    /// Whether the code works at any address (CUDA 11.7 and later).
    pub fn position_independent_code(self, wanted: bool) -> JitOptions {
        self.with(POSITION_INDEPENDENT_CODE, wanted.into())
    }

    /// Compiles so that at least so many blocks run at once on a multiprocessor (CUDA 12.0 and later). It has an effect
    /// together with [`max_threads_per_block`](Self::max_threads_per_block).
    pub fn min_blocks_per_multiprocessor(self, blocks: u32) -> JitOptions {
        self.with(MIN_CTA_PER_SM, blocks)
    }

    /// The most threads that a block will have (CUDA 12.0 and later).
    pub fn max_threads_per_block(self, threads: u32) -> JitOptions {
        self.with(MAX_THREADS_PER_BLOCK, threads)
    }

    /// Whether these options count more than what the PTX says, such as `.maxntid` (CUDA 12.0 and later).
    pub fn override_directives(self, wanted: bool) -> JitOptions {
        self.with(OVERRIDE_DIRECTIVE_VALUES, wanted.into())
    }

    /// How many bytes there are for each of the two logs; what does not fit is cut off. 16 KiB unless asked.
    pub fn log_bytes(self, bytes: usize) -> JitOptions {
        JitOptions { log_bytes: bytes, ..self }
    }

    /// The driver's form of it. A block of no threads ends the process in the driver, which divides by it.
    pub(crate) fn to_driver(&self) -> CudaResult<Jit> {
        if self.options.contains(&(THREADS_PER_BLOCK, 0)) {
            return Err(CudaError::InvalidValue.note(format_args!("to compile for blocks of no threads")));
        }
        Ok(Jit::new(&self.options, self.log_bytes.clamp(1, MOST_LOG_BYTES)))
    }
}

/// What the driver's compiler told.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct JitLog {
    /// What each kernel uses, if it was asked to be [verbose](JitOptions::verbose) and compiled.
    pub info: String,
    /// What was wrong.
    pub error: String,
    /// How long compiling and linking took; nothing if the driver had the machine code in its cache.
    pub wall_time: Duration,
    /// For how many threads of a block it compiled, if a [number](JitOptions::threads_per_block) was asked for.
    pub threads_per_block: Option<u32>,
    /// For which compute capability it compiled, if [one](JitOptions::target) was asked for.
    pub target: Option<u32>,
}

impl JitLog {
    pub(crate) fn of(told: Told) -> JitLog {
        let option = |wanted| told.options.iter().find(|(option, _)| *option == wanted).map(|it| it.1);
        let seconds = f64::from(told.milliseconds) / 1000.0;
        JitLog {
            threads_per_block: option(THREADS_PER_BLOCK),
            target: option(TARGET),
            wall_time: Duration::try_from_secs_f64(seconds).unwrap_or_default(),
            info: told.info,
            error: told.error,
        }
    }
}

/// The error of compiling or linking, and all that the compiler told. Where only the error is wanted:
/// `.map_err(|refused| refused.error)?`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct JitError {
    /// The error; its sentence has what the compiler says is wrong.
    pub error: CudaError,
    /// All that the compiler told; nothing if the driver was not asked.
    pub log: JitLog,
}

impl From<CudaError> for JitError {
    fn from(error: CudaError) -> JitError {
        JitError { error, log: JitLog::default() }
    }
}

impl fmt::Display for JitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl Error for JitError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}
