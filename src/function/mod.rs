//! Kernels, and launching them.
//!
//! ```
//! use custack::launch;
//! use custack::memory::{CopyDestination, DeviceBuffer};
//! use custack::module::Module;
//! use custack::stream::{Stream, StreamFlags};
//!
//! let _context = custack::quick_init()?;
//! let module = Module::load_from_bytes(
//!     b".version 7.0 .target sm_70 .address_size 64
//!       .visible .entry seven(.param .u64 to) {
//!           .reg .b64 %rd<3>;
//!           ld.param.u64 %rd1, [to];
//!           cvta.to.global.u64 %rd2, %rd1;
//!           st.global.u32 [%rd2], 7;
//!           ret;
//!       }",
//! )?;
//! let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
//! let mut number = DeviceBuffer::from_slice(&[0u32])?;
//! // SAFETY: the kernel takes one address, and writes one number there.
//! unsafe { launch!(module.seven<<<1, 1, 0, stream>>>(number.as_device_ptr())) }?;
//! stream.synchronize()?;
//!
//! let mut back = [0];
//! number.copy_to(&mut back)?;
//! assert_eq!(back, [7]);
//! # Ok::<(), custack::error::CudaError>(())
//! ```

// The handle of a function is valid as long as its module, which each call vouches for.
#![allow(unsafe_code)]

mod argument;
mod attribute;
mod config;
#[cfg(feature = "library")]
mod kernel;
mod launch;
mod occupancy;
mod potential;
mod refused;
mod size;

#[doc(hidden)]
pub use argument::{Argument, OfAny, OfInteger, Passed};
pub use attribute::{FunctionAttribute, SettableAttribute};
pub(crate) use config::refuse_impossible;
pub use config::{ClusterScheduling, LaunchConfig};
pub use potential::BestBlock;
pub use size::{BlockSize, GridSize};

use crate::context::{CacheConfig, SharedMemoryConfig, UnownedContext};
use crate::driver::ffi::{CUfunction, CUmodule};
use crate::driver::{Driver, Held, KernelName, Numbered};
use crate::error::CudaResult;
use crate::module::{Known, Module};
use std::any::Any;
use std::ffi::{CStr, CString};
use std::fmt;
use std::ops::Range;

/// A kernel of a [module](Module), which it borrows, or of a [library](crate::library) in one context, which it keeps
/// loaded.
///
/// It cannot outlive its module:
///
/// ```compile_fail,E0505
/// # let module = custack::module::Module::load_from_bytes(b"").unwrap();
/// let kernel = module.get_function(c"kernel").unwrap();
/// drop(module);
/// kernel.as_raw();
/// ```
pub struct Function<'a> {
    inner: CUfunction,
    source: Source<'a>,
}

/// What a function belongs to, and cannot outlive.
enum Source<'a> {
    /// A module, and what is known of the kernel.
    Module { module: &'a Module, known: &'a Known },
    /// A kernel of a library, in this context.
    Kernel { kernel: Box<dyn OfLibrary>, context: UnownedContext },
}

/// A kernel of a library, of which this room knows no more.
pub(crate) trait OfLibrary: Send + Sync {
    /// The kernel itself.
    fn as_any(&self) -> &dyn Any;

    /// The sizes of its parameters, in bytes, if the driver says them.
    fn parameter_sizes(&self) -> Option<&[usize]>;

    /// Its name in errors.
    fn label(&self) -> KernelName;
}

// SAFETY: the driver's functions may be called on any thread.
unsafe impl Send for Function<'_> {}
// SAFETY: as above; also concurrently.
unsafe impl Sync for Function<'_> {}

impl Module {
    /// Returns a kernel of the module by name.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::error::CudaError::NotFound).
    #[doc(alias("cuModuleGetFunction", "cuFuncGetParamInfo"))]
    #[inline]
    pub fn get_function<'a>(&'a self, name: &CStr) -> CudaResult<Function<'a>> {
        let find = |driver: &Driver, module: Held<'_, CUmodule>| {
            let inner = driver.module_get_function(module, name)?;
            // SAFETY: a function lives as long as its module.
            let function = unsafe { Held::new(inner) };
            let known = self.kernels().find(inner, || KernelName::new(name));
            known.parameters(|| driver.func_get_param_sizes(function));
            Ok(Function { inner, source: Source::Module { module: self, known } })
        };
        match self.inner().with(find) {
            Ok(function) => Ok(function),
            Err(error) => Err(error.note_before(format_args!("to find the kernel {name:?}"))),
        }
    }
}

impl Module {
    /// All kernels of the module, in no particular order (CUDA 12.4 and later).
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed);
    /// [`CallRequiresNewerDriver`](crate::error::CudaError::CallRequiresNewerDriver).
    ///
    /// ```
    /// # let _context = custack::quick_init()?;
    /// # let ptx = b".version 7.0 .target sm_70 .address_size 64
    /// #     .visible .entry a() { ret; } .visible .entry b() { ret; }";
    /// let module = custack::module::Module::load_from_bytes(ptx)?;
    /// for kernel in module.functions()? {
    ///     println!("{:?} of {}", kernel.name()?, module.function_count()?);
    /// }
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuModuleEnumerateFunctions", "cuFuncGetName"))]
    #[inline]
    pub fn functions(&self) -> CudaResult<Vec<Function<'_>>> {
        self.inner().with(|driver, module| {
            let count = driver.module_get_function_count(module)?;
            let found = driver.module_enumerate_functions(module, count)?;
            let described = found.into_iter().map(|inner| {
                // SAFETY: a function lives as long as its module.
                let function = unsafe { Held::new(inner) };
                let name = driver.func_get_name(function)?;
                let known = self.kernels().find(inner, || KernelName::new(&name));
                known.parameters(|| driver.func_get_param_sizes(function));
                Ok(Function { inner, source: Source::Module { module: self, known } })
            });
            described.collect()
        })
    }
}

impl Function<'_> {
    #[inline]
    fn with<R>(&self, f: impl FnOnce(&Driver, Held<'_, CUfunction>) -> CudaResult<R>) -> CudaResult<R> {
        let access = match &self.source {
            Source::Module { module, .. } => module.inner().access(),
            Source::Kernel { context, .. } => context.access(),
        }?;
        // SAFETY: a function lives as long as its module, or as its library and its context, which are kept or
        // borrowed, and alive in the call.
        f(access.driver, unsafe { Held::new(self.inner) })
    }

    /// Like [`with`](Self::with), with its context current: the driver's questions about occupancy are about the current one.
    #[inline]
    fn with_current<R>(
        &self,
        f: impl FnOnce(&Driver, Held<'_, CUfunction>) -> CudaResult<R>,
    ) -> CudaResult<R> {
        // SAFETY: as in `with`.
        let f = |driver: &Driver| f(driver, unsafe { Held::new(self.inner) });
        match &self.source {
            Source::Module { module, .. } => module.inner().with_current(|driver, _| f(driver)),
            Source::Kernel { context, .. } => context.inside(f),
        }
    }

    /// Its context.
    #[inline]
    pub fn context(&self) -> &UnownedContext {
        match &self.source {
            Source::Module { module, .. } => module.context(),
            Source::Kernel { context, .. } => context,
        }
    }

    /// The sizes of its parameters, in bytes, if the driver says them.
    #[inline]
    fn parameter_sizes(&self) -> Option<&[usize]> {
        match &self.source {
            Source::Module { known, .. } => known.known_parameters(),
            Source::Kernel { kernel, .. } => kernel.parameter_sizes(),
        }
    }

    /// Its name in errors.
    fn label(&self) -> KernelName {
        match &self.source {
            Source::Module { known, .. } => known.name,
            Source::Kernel { kernel, .. } => kernel.label(),
        }
    }

    /// Its name (CUDA 12.3 and later).
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed);
    /// [`CallRequiresNewerDriver`](crate::error::CudaError::CallRequiresNewerDriver).
    #[doc(alias = "cuFuncGetName")]
    #[inline]
    pub fn name(&self) -> CudaResult<CString> {
        self.with(Driver::func_get_name)
    }

    /// The byte range of each parameter in the parameter buffer; `None` if the driver is too old to say (before CUDA
    /// 12.4).
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed).
    ///
    /// ```
    /// # let _context = custack::quick_init()?;
    /// # let ptx = b".version 7.0 .target sm_70 .address_size 64
    /// #     .visible .entry k(.param .u32 a, .param .u64 b) { ret; }";
    /// # let module = custack::module::Module::load_from_bytes(ptx)?;
    /// // .visible .entry k(.param .u32 a, .param .u64 b)
    /// let kernel = module.get_function(c"k")?;
    /// if let Some(parameters) = kernel.parameters()? {
    ///     assert_eq!(parameters, [0..4, 8..16]);
    /// }
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuFuncGetParamInfo")]
    #[inline]
    pub fn parameters(&self) -> CudaResult<Option<Vec<Range<usize>>>> {
        self.with(Driver::func_get_parameters)
    }

    /// Whether its code is loaded on the device (CUDA 12.4 and later).
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed);
    /// [`CallRequiresNewerDriver`](crate::error::CudaError::CallRequiresNewerDriver).
    #[doc(alias = "cuFuncIsLoaded")]
    #[inline]
    pub fn is_loaded(&self) -> CudaResult<bool> {
        self.with(Driver::func_is_loaded)
    }

    /// Loads its code on the device, so that the first launch need not (CUDA 12.4 and later).
    ///
    /// In the driver's [lazy mode](crate::module::LoadingMode) the first launch loads the code, and may wait for all work of
    /// the context while it does. If that work waits for the launching thread, as a host function may, neither goes on.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed);
    /// [`CallRequiresNewerDriver`](crate::error::CudaError::CallRequiresNewerDriver).
    #[doc(alias = "cuFuncLoad")]
    #[inline]
    pub fn load(&self) -> CudaResult<()> {
        self.with(Driver::func_load)
    }

    /// The driver's handle of its module.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed);
    /// [`CallRequiresNewerDriver`](crate::error::CudaError::CallRequiresNewerDriver) before CUDA 11.0.
    #[doc(alias = "cuFuncGetModule")]
    #[inline]
    pub fn as_raw_module(&self) -> CudaResult<CUmodule> {
        self.with(Driver::func_get_module)
    }

    /// Sets how the kernel prefers to divide L1 cache and shared memory.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](crate::error::CudaError::InvalidValue) for a value without a name.
    #[doc(alias = "cuFuncSetCacheConfig")]
    #[inline]
    pub fn set_cache_config(&mut self, config: CacheConfig) -> CudaResult<()> {
        let number = config.number()?;
        self.with(|driver, function| driver.func_set_cache_config(function, number))
    }

    /// Sets the width of the banks of the kernel's shared memory, where the device can change it.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](crate::error::CudaError::InvalidValue) for a value without a name.
    #[doc(alias = "cuFuncSetSharedMemConfig")]
    #[inline]
    pub fn set_shared_memory_config(&mut self, cfg: SharedMemoryConfig) -> CudaResult<()> {
        let number = cfg.number()?;
        self.with(|driver, function| driver.func_set_shared_mem_config(function, number))
    }

    /// The driver's handle, valid as long as the module or library, and the context, live.
    #[inline]
    pub fn as_raw(&self) -> CUfunction {
        self.inner
    }
}

impl fmt::Debug for Function<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function")
            .field("name", &self.label())
            .field("parameters", &self.parameter_sizes())
            .field("context", self.context())
            .finish_non_exhaustive()
    }
}
