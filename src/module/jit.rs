//! The options of the driver's compiler, and its logs.

use crate::driver::{Jit, Told, numbered};
use crate::error::{CudaError, CudaResult, Failure};
use std::error::Error;
use std::fmt;
use std::ops::RangeInclusive;
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

/// What numbers an option may have.
const POSSIBLE: &[(u32, RangeInclusive<u32>, &str)] = &[
    (THREADS_PER_BLOCK, 1..=1024, "threads of a block"),
    (OPTIMIZATION_LEVEL, 0..=4, "as the level of optimisation"),
    (MIN_CTA_PER_SM, 1..=64, "blocks on a multiprocessor"),
    (MAX_THREADS_PER_BLOCK, 1..=1024, "threads of a block"),
];

/// The default size of each log.
const LOG_BYTES: usize = 16 << 10;
/// The driver takes the size as 32 bits, and there are two logs.
const MOST_LOG_BYTES: usize = 1 << 30;

numbered! {
    /// Which code is used if an image has none for exactly this device.
    #[non_exhaustive]
    pub enum Fallback {
        /// PTX, which is compiled.
        PreferPtx = 0,
        /// Machine code for a compatible device.
        PreferBinary = 1,
    }
}

numbered! {
    /// The caches that loads from global memory use, unless the code says.
    #[non_exhaustive]
    pub enum CacheMode {
        /// The compiler's default.
        Default = 0,
        /// Only the L2 cache.
        L2 = 1,
        /// The L1 and L2 caches.
        L1AndL2 = 2,
    }
}

/// Options of the driver's compiler, for loading PTX and for linking. Only those that are set are passed to the driver.
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
    /// By the driver's numbers; each occurs once.
    options: Vec<(u32, u32)>,
    log_bytes: usize,
}

impl Default for JitOptions {
    #[inline]
    fn default() -> JitOptions {
        JitOptions { options: Vec::new(), log_bytes: LOG_BYTES }
    }
}

impl JitOptions {
    /// No options.
    #[inline]
    pub fn new() -> JitOptions {
        JitOptions::default()
    }

    #[inline]
    fn with(mut self, option: u32, value: u32) -> JitOptions {
        self.options.retain(|(known, _)| *known != option);
        self.options.push((option, value));
        self
    }

    /// What is off is not passed to the driver, as it is off by default: one compiled with debug information, and with other
    /// things said to be off, and crashed.
    #[inline]
    fn switch(mut self, option: u32, wanted: bool) -> JitOptions {
        self.options.retain(|(known, _)| *known != option);
        if wanted { self.with(option, 1) } else { self }
    }

    /// Sets the maximum number of registers of a thread.
    #[inline]
    pub fn max_registers(self, registers: u32) -> JitOptions {
        self.with(MAX_REGISTERS, registers)
    }

    /// Compiles so that a block can have at least this many threads, from 1 to 1024.
    /// [`JitLog::threads_per_block`] says for how many it did. Cannot be combined with a [target](Self::target).
    #[inline]
    pub fn threads_per_block(self, threads: u32) -> JitOptions {
        self.with(THREADS_PER_BLOCK, threads)
    }

    /// Sets the level of optimisation, from 0 (none) to 4 (the default).
    #[inline]
    pub fn optimization_level(self, level: u32) -> JitOptions {
        self.with(OPTIMIZATION_LEVEL, level)
    }

    /// Compiles for this compute capability (ten times the major version plus the minor, such as 90). The default is
    /// that of the context's device.
    #[inline]
    pub fn target(self, compute_capability: u32) -> JitOptions {
        self.with(TARGET, compute_capability)
    }

    /// Which code is used if an image has none for exactly this device.
    #[inline]
    pub fn fallback(self, fallback: Fallback) -> JitOptions {
        self.with(FALLBACK_STRATEGY, fallback as u32)
    }

    /// Whether the machine code has debug information.
    #[inline]
    pub fn debug_info(self, wanted: bool) -> JitOptions {
        self.switch(GENERATE_DEBUG_INFO, wanted)
    }

    /// Whether the machine code has line numbers.
    #[inline]
    pub fn line_info(self, wanted: bool) -> JitOptions {
        self.switch(GENERATE_LINE_INFO, wanted)
    }

    /// Whether [`JitLog::info`] lists the resources of each kernel.
    #[inline]
    pub fn verbose(self, wanted: bool) -> JitOptions {
        self.switch(LOG_VERBOSE, wanted)
    }

    /// Sets the caches that loads use.
    #[inline]
    pub fn cache_mode(self, mode: CacheMode) -> JitOptions {
        self.with(CACHE_MODE, mode as u32)
    }

    /// Whether the code is position-independent (CUDA 11.7 and later).
    #[inline]
    pub fn position_independent_code(self, wanted: bool) -> JitOptions {
        self.switch(POSITION_INDEPENDENT_CODE, wanted)
    }

    /// Compiles so that at least this many blocks, from 1 to 64, can run at once on a multiprocessor
    /// (CUDA 12.0 and later). It has an effect only together with
    /// [`max_threads_per_block`](Self::max_threads_per_block).
    #[inline]
    pub fn min_blocks_per_multiprocessor(self, blocks: u32) -> JitOptions {
        self.with(MIN_CTA_PER_SM, blocks)
    }

    /// Sets the maximum number of threads of a block, from 1 to 1024 (CUDA 12.0 and later).
    #[inline]
    pub fn max_threads_per_block(self, threads: u32) -> JitOptions {
        self.with(MAX_THREADS_PER_BLOCK, threads)
    }

    /// Whether these options override directives of the PTX such as `.maxntid` (CUDA 12.0 and later).
    #[inline]
    pub fn override_directives(self, wanted: bool) -> JitOptions {
        self.switch(OVERRIDE_DIRECTIVE_VALUES, wanted)
    }

    /// Sets the size of each of the two logs, in bytes; what does not fit is cut off. The default is 16 KiB.
    #[inline]
    pub fn log_bytes(self, bytes: usize) -> JitOptions {
        JitOptions { log_bytes: bytes, ..self }
    }

    /// The driver's form. Refuses what no device has: by some numbers the driver divides, after it has multiplied them.
    #[inline]
    pub(crate) fn to_driver(&self) -> CudaResult<Jit> {
        for (option, value) in &self.options {
            let Some((_, possible, what)) = POSSIBLE.iter().find(|it| it.0 == *option) else { continue };
            if !possible.contains(value) {
                return Err(CudaError::InvalidValue.note(format_args!(
                    "to compile for {value} {what}, not {} to {}",
                    possible.start(),
                    possible.end()
                )));
            }
        }
        Ok(Jit::new(&self.options, self.log_bytes.clamp(1, MOST_LOG_BYTES)))
    }
}

/// The output of the driver's compiler.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct JitLog {
    /// The resources of each kernel, if the option [verbose](JitOptions::verbose) was set and the code was compiled.
    pub info: String,
    /// The errors.
    pub error: String,
    /// How long compiling and linking took; zero if the driver's cache had the machine code.
    pub wall_time: Duration,
    /// The number of threads of a block that it compiled for, if the [option](JitOptions::threads_per_block) was set.
    pub threads_per_block: Option<u32>,
    /// The compute capability that it compiled for, if the [option](JitOptions::target) was set.
    pub target: Option<u32>,
}

impl JitLog {
    #[inline]
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

/// The error of compiling or linking, and the compiler's output. `.map_err(|refused| refused.error)?` returns the error
/// alone.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct JitError {
    /// The error.
    pub error: CudaError,
    /// The compiler's output; empty if the driver was not called.
    pub log: JitLog,
    /// Its text contains the compiler's message.
    failure: Box<Failure>,
}

impl JitError {
    #[inline]
    pub(crate) fn new(error: CudaError, log: JitLog) -> JitError {
        JitError { error, log, failure: Box::new(error.failure()) }
    }
}

impl From<CudaError> for JitError {
    #[inline]
    fn from(error: CudaError) -> JitError {
        JitError::new(error, JitLog::default())
    }
}

impl fmt::Display for JitError {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.failure, f)
    }
}

/// The text of `Display`, for a `main` that returns the error, and all that the compiler said.
impl fmt::Debug for JitError {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.failure, f)?;
        let said = self.log.error.trim_end();
        if said.is_empty() { Ok(()) } else { write!(f, "\n{said}") }
    }
}

impl Error for JitError {
    #[inline]
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.failure)
    }
}
