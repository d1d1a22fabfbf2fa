//! Launches.

// A launch hands pointers to the kernel's parameters to the driver.
#![allow(unsafe_code)]

use super::{BlockSize, Function, GridSize};
use crate::driver::{Held, Shape};
use crate::error::{CudaError, CudaResult};
use crate::stream::Stream;
use std::os::raw::c_void;

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
/// [`Function`](crate::function::Function) in place of `module.kernel`.
///
/// Grid and block are numbers, pairs, triples, or [`GridSize`](crate::function::GridSize) and [`BlockSize`](crate::function::BlockSize). The kernel runs while the program goes
/// on; `stream.synchronize()` waits for it. The result is a [`CudaResult`](crate::error::CudaResult). The call is unsafe: the kernel's parameters
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
