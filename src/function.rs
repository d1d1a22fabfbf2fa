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

// A launch hands pointers to the kernel's parameters to the driver.
#![allow(unsafe_code)]

use crate::context::{CacheConfig, SharedMemoryConfig};
use crate::driver::ffi::CUfunction;
use crate::driver::{Driver, Held, Shape};
use crate::error::{CudaError, CudaResult};
use crate::module::Module;
use crate::stream::Stream;
use std::ffi::CStr;
use std::os::raw::c_void;

macro_rules! size {
    ($name:ident, $what:literal) => {
        #[doc = $what]
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            /// In the first dimension, whose neighbours are nearest.
            pub x: u32,
            /// In the second.
            pub y: u32,
            /// In the third.
            pub z: u32,
        }

        impl $name {
            /// In one dimension.
            #[inline]
            pub fn x(x: u32) -> $name {
                $name { x, y: 1, z: 1 }
            }

            /// In two dimensions.
            #[inline]
            pub fn xy(x: u32, y: u32) -> $name {
                $name { x, y, z: 1 }
            }

            /// In three dimensions.
            #[inline]
            pub fn xyz(x: u32, y: u32, z: u32) -> $name {
                $name { x, y, z }
            }
        }

        impl From<u32> for $name {
            fn from(x: u32) -> $name {
                $name::x(x)
            }
        }

        impl From<(u32, u32)> for $name {
            fn from((x, y): (u32, u32)) -> $name {
                $name::xy(x, y)
            }
        }

        impl From<(u32, u32, u32)> for $name {
            fn from((x, y, z): (u32, u32, u32)) -> $name {
                $name::xyz(x, y, z)
            }
        }

        impl<'a> From<&'a $name> for $name {
            fn from(other: &$name) -> $name {
                other.clone()
            }
        }
    };
}
size!(GridSize, "How many blocks a grid has.");
size!(BlockSize, "How many threads a block has.");

/// What can be asked of a kernel.
#[repr(u32)]
#[derive(Debug, Copy, Clone, PartialEq, Eq, Hash)]
pub enum FunctionAttribute {
    /// The most threads of a block.
    MaxThreadsPerBlock = 0,
    /// Static shared memory of a block, in bytes.
    SharedMemorySizeBytes = 1,
    /// Constant memory, in bytes.
    ConstSizeBytes = 2,
    /// Local memory of a thread, in bytes.
    LocalSizeBytes = 3,
    /// Registers of a thread.
    NumRegisters = 4,
    /// The PTX version: ten times the major, and the minor.
    PtxVersion = 5,
    /// The version of the machine code: ten times the major, and the minor.
    BinaryVersion = 6,
    /// Whether all caching was asked for when it was compiled.
    CacheModeCa = 7,
    #[doc(hidden)]
    __Nonexhaustive = 8,
}

/// What can be asked of a kernel and set (CUDA 9.0 and later), beside [`FunctionAttribute`].
#[repr(u32)]
#[derive(Debug, Copy, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SettableAttribute {
    /// The most dynamic shared memory that a launch may ask for, in bytes.
    MaxDynamicSharedSizeBytes = 8,
    /// How much of the common memory should be shared memory, in percent; -1 for no preference.
    PreferredSharedMemoryCarveout = 9,
    /// Whether a launch must say the size of its clusters; only to ask for (CUDA 11.8 and later, as all below).
    ClusterSizeMustBeSet = 10,
    /// The required width of a cluster, in blocks; 0 for none.
    RequiredClusterWidth = 11,
    /// The required height.
    RequiredClusterHeight = 12,
    /// The required depth.
    RequiredClusterDepth = 13,
    /// Whether a cluster may be larger than all devices of the compute capability allow.
    NonPortableClusterSizeAllowed = 14,
    /// How the blocks of a cluster are spread: 0 for the default, 1 spread, 2 balanced.
    ClusterSchedulingPolicyPreference = 15,
}

/// A kernel of a module, which it borrows.
#[derive(Debug)]
pub struct Function<'a> {
    inner: CUfunction,
    module: &'a Module,
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
    /// [`NotFound`](CudaError::NotFound).
    #[doc(alias = "cuModuleGetFunction")]
    pub fn get_function<'a>(&'a self, name: &CStr) -> CudaResult<Function<'a>> {
        let found = self.inner().with(|driver, module| driver.module_get_function(module, name));
        let inner = found.inspect_err(|error| {
            let _ = error.note(format_args!("to find the kernel {name:?}"));
        })?;
        Ok(Function { inner, module: self })
    }
}

impl Function<'_> {
    #[inline]
    fn with<R>(&self, f: impl FnOnce(&Driver, Held<'_, CUfunction>) -> CudaResult<R>) -> CudaResult<R> {
        // SAFETY: a function lives as long as its module, which is borrowed and alive in the call.
        self.module.inner().with(|driver, _| f(driver, unsafe { Held::new(self.inner) }))
    }

    /// What the kernel is like.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](CudaError::InvalidValue) for an attribute without a name.
    #[doc(alias = "cuFuncGetAttribute")]
    pub fn get_attribute(&self, attr: FunctionAttribute) -> CudaResult<i32> {
        if attr == FunctionAttribute::__Nonexhaustive {
            return Err(CudaError::InvalidValue.note(format_args!("{attr:?} is no attribute of a function")));
        }
        self.with(|driver, function| driver.func_get_attribute(function, attr as u32))
    }

    /// What a launch of the kernel may ask for.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    #[doc(alias = "cuFuncGetAttribute")]
    pub fn get(&self, attr: SettableAttribute) -> CudaResult<i32> {
        self.with(|driver, function| driver.func_get_attribute(function, attr as u32))
    }

    /// Sets what a launch of the kernel may ask for.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](CudaError::InvalidValue) for a value that the device cannot have.
    #[doc(alias = "cuFuncSetAttribute")]
    pub fn set(&mut self, attr: SettableAttribute, value: i32) -> CudaResult<()> {
        self.with(|driver, function| driver.func_set_attribute(function, attr as u32, value))
    }

    /// Sets how the kernel prefers to divide L1 cache and shared memory.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](CudaError::InvalidValue) for a value without a name.
    #[doc(alias = "cuFuncSetCacheConfig")]
    pub fn set_cache_config(&mut self, config: CacheConfig) -> CudaResult<()> {
        config.refuse_unnamed()?;
        self.with(|driver, function| driver.func_set_cache_config(function, config as u32))
    }

    /// Sets how wide the banks of the kernel's shared memory are, where the device can change it.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](CudaError::InvalidValue) for a value without a name.
    #[doc(alias = "cuFuncSetSharedMemConfig")]
    pub fn set_shared_memory_config(&mut self, cfg: SharedMemoryConfig) -> CudaResult<()> {
        cfg.refuse_unnamed()?;
        self.with(|driver, function| driver.func_set_shared_mem_config(function, cfg as u32))
    }

    /// The driver's handle, good as long as the module.
    pub fn as_raw(&self) -> CUfunction {
        self.inner
    }
}

impl Stream {
    /// What [`launch!`](crate::launch) does.
    ///
    /// # Errors
    ///
    /// [`InvalidHandle`](CudaError::InvalidHandle) if kernel and stream are of different contexts;
    /// [`InvalidValue`](CudaError::InvalidValue) for a size that the device cannot have.
    ///
    /// # Safety
    ///
    /// There is a pointer for each of the kernel's parameters, to a value of its type; and what the kernel does with
    /// them is right.
    #[doc(hidden)]
    #[doc(alias = "cuLaunchKernel")]
    pub unsafe fn launch<G, B>(
        &self,
        func: &Function<'_>,
        grid_size: G,
        block_size: B,
        shared_mem_bytes: u32,
        args: &[*mut c_void],
    ) -> CudaResult<()>
    where
        G: Into<GridSize>,
        B: Into<BlockSize>,
    {
        let shape = shape(&grid_size.into(), &block_size.into(), shared_mem_bytes);
        // SAFETY: the caller's promise.
        unsafe { self.launch_as(func, shape, args) }
    }

    /// Launches a kernel whose blocks all run at once and may wait for each other (CUDA 9.0 and later).
    ///
    /// # Errors
    ///
    /// [`CooperativeLaunchTooLarge`](CudaError::CooperativeLaunchTooLarge) if the device has no room for all blocks at
    /// once; those of a launch.
    ///
    /// # Safety
    ///
    /// There is a pointer for each of the kernel's parameters, to a value of its type; and what the kernel does with
    /// them is right.
    #[doc(alias = "cuLaunchCooperativeKernel")]
    pub unsafe fn launch_cooperative<G, B>(
        &self,
        func: &Function<'_>,
        grid_size: G,
        block_size: B,
        shared_mem_bytes: u32,
        args: &[*mut c_void],
    ) -> CudaResult<()>
    where
        G: Into<GridSize>,
        B: Into<BlockSize>,
    {
        let shape = shape(&grid_size.into(), &block_size.into(), shared_mem_bytes);
        // SAFETY: the caller's promise.
        unsafe { self.launch_as(func, Shape { cooperative: true, ..shape }, args) }
    }

    /// # Safety
    ///
    /// As [`launch`](Self::launch).
    #[inline]
    unsafe fn launch_as(&self, func: &Function<'_>, shape: Shape, args: &[*mut c_void]) -> CudaResult<()> {
        if func.module.context() != self.context() {
            let (kernel, here) = (func.module.context(), self.context());
            return Err(CudaError::InvalidHandle
                .note(format_args!("to launch a kernel of {kernel} in a stream of {here}")));
        }
        self.inner().with_current(|driver, stream| {
            // SAFETY: the function's module is borrowed, and its context is the stream's, which is held; the rest is the
            // caller's promise.
            unsafe { driver.launch_kernel(Held::new(func.inner), shape, stream, args) }
        })
    }
}

fn shape(grid: &GridSize, block: &BlockSize, shared: u32) -> Shape {
    Shape { grid: [grid.x, grid.y, grid.z], block: [block.x, block.y, block.z], shared, cooperative: false }
}

/// Launches a kernel: `launch!(module.kernel<<<grid, block, shared_bytes, stream>>>(arguments...))`, or with a
/// [`Function`] in place of `module.kernel`.
///
/// Grid and block are numbers, pairs, triples, or [`GridSize`] and [`BlockSize`]. The kernel runs while the program goes
/// on; `stream.synchronize()` waits for it. The result is a [`CudaResult`]. The call is unsafe: the kernel's parameters
/// must have the arguments' types, which nothing checks, and what it does with them must be right. Arguments are values
/// that can be copied to the device (`DeviceCopy`).
#[macro_export]
macro_rules! launch {
    ($module:ident . $function:ident <<<$grid:expr, $block:expr, $shared:expr, $stream:ident>>>( $( $arg:expr),* $(,)? )) => {
        {
            let name = ::std::ffi::CString::new(::std::stringify!($function)).unwrap();
            let function = $module.get_function(&name);
            match function {
                ::std::result::Result::Ok(f) => {
                    $crate::launch!(f<<<$grid, $block, $shared, $stream>>>( $($arg),* ))
                }
                ::std::result::Result::Err(e) => ::std::result::Result::Err(e),
            }
        }
    };
    ($function:ident <<<$grid:expr, $block:expr, $shared:expr, $stream:ident>>>( $( $arg:expr),* $(,)? )) => {
        {
            fn assert_impl_devicecopy<T: $crate::memory::DeviceCopy>(_val: T) {}
            if false {
                $(
                    assert_impl_devicecopy($arg);
                )*
            };

            $stream.launch(&$function, $grid, $block, $shared,
                &[
                    $(
                        &$arg as *const _ as *mut ::std::ffi::c_void,
                    )*
                ]
            )
        }
    };
}
