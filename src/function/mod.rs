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

// The handle of a function is good as long as its module, which each call vouches for.
#![allow(unsafe_code)]

mod argument;
mod attribute;
mod launch;
mod occupancy;
mod refused;
mod size;

#[doc(hidden)]
pub use argument::{Argument, OfAny, OfInteger, Passed};
pub use attribute::{FunctionAttribute, SettableAttribute};
pub use size::{BlockSize, GridSize};

use crate::context::{CacheConfig, SharedMemoryConfig, UnownedContext};
use crate::driver::ffi::{CUfunction, CUmodule};
use crate::driver::{Driver, Held, KernelName, Numbered};
use crate::error::CudaResult;
use crate::module::Module;
use std::ffi::CStr;

/// A kernel of a module, which it borrows.
#[derive(Debug)]
pub struct Function<'a> {
    inner: CUfunction,
    module: &'a Module,
    name: KernelName,
    /// The sizes of its parameters, where the driver tells them.
    parameters: Option<&'a [usize]>,
}

// SAFETY: the driver's functions may be called on any thread.
unsafe impl Send for Function<'_> {}
// SAFETY: as above; on several at once, too.
unsafe impl Sync for Function<'_> {}

impl Module {
    /// A kernel of the module.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::error::CudaError::NotFound).
    #[doc(alias("cuModuleGetFunction", "cuFuncGetParamInfo"))]
    pub fn get_function<'a>(&'a self, name: &CStr) -> CudaResult<Function<'a>> {
        let find = |driver: &Driver, module: Held<'_, CUmodule>| {
            let inner = driver.module_get_function(module, name)?;
            // SAFETY: a function lives as long as its module.
            let function = unsafe { Held::new(inner) };
            let parameters = self.parameters().of(inner, || driver.func_get_param_sizes(function));
            Ok(Function { inner, module: self, name: KernelName::new(name), parameters })
        };
        self.inner().with(find).inspect_err(|error| {
            error.note_before(format_args!("to find the kernel {name:?}"));
        })
    }
}

impl Function<'_> {
    #[inline]
    fn with<R>(&self, f: impl FnOnce(&Driver, Held<'_, CUfunction>) -> CudaResult<R>) -> CudaResult<R> {
        // SAFETY: a function lives as long as its module, which is borrowed and alive in the call.
        self.module.inner().with(|driver, _| f(driver, unsafe { Held::new(self.inner) }))
    }

    /// The context that the kernel's module is of.
    pub(crate) fn context(&self) -> &UnownedContext {
        self.module.context()
    }

    /// Sets how the kernel prefers to divide L1 cache and shared memory.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](crate::error::CudaError::InvalidValue) for a value without a name.
    #[doc(alias = "cuFuncSetCacheConfig")]
    pub fn set_cache_config(&mut self, config: CacheConfig) -> CudaResult<()> {
        let number = config.number()?;
        self.with(|driver, function| driver.func_set_cache_config(function, number))
    }

    /// Sets how wide the banks of the kernel's shared memory are, where the device can change it.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](crate::error::CudaError::InvalidValue) for a value without a name.
    #[doc(alias = "cuFuncSetSharedMemConfig")]
    pub fn set_shared_memory_config(&mut self, cfg: SharedMemoryConfig) -> CudaResult<()> {
        let number = cfg.number()?;
        self.with(|driver, function| driver.func_set_shared_mem_config(function, number))
    }

    /// The driver's handle, good as long as the module.
    pub fn as_raw(&self) -> CUfunction {
        self.inner
    }
}
