//! Launches.

// A launch passes pointers to the kernel's parameters to the driver.
#![allow(unsafe_code)]

use super::config::refuse_impossible;
use super::{Argument, BlockSize, Function, GridSize, LaunchConfig};
use crate::context::captures;
use crate::driver::{Held, Shape};
use crate::error::{CudaError, CudaResult};
use crate::stream::Stream;
use std::borrow::Borrow;
use std::os::raw::c_void;
use std::ptr;

/// Up to this many arguments are passed without an allocation.
const FEW: usize = 16;

impl Stream {
    /// Launches a kernel with pointers to its arguments; [`launch!`](crate::launch) takes values instead.
    ///
    /// # Errors
    ///
    /// [`InvalidHandle`](CudaError::InvalidHandle) if kernel and stream are of different contexts;
    /// [`InvalidValue`](CudaError::InvalidValue) for a size that the device does not allow, and for a wrong number of
    /// arguments, if the driver says what the parameters are (CUDA 12.4 and later).
    ///
    /// # Safety
    ///
    /// `args` has one pointer for each parameter of the kernel, to a value of its type, and the kernel's accesses to
    /// memory are valid and free of data races. If the stream is capturing, that holds at every launch of the graph,
    /// and the module stays loaded as long as the graph, or anything made from it, exists.
    #[doc(hidden)]
    #[doc(alias = "cuLaunchKernel")]
    #[inline]
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
        // SAFETY: as the caller guarantees.
        unsafe { self.launch_counted(func, shape, args) }
    }

    /// Launches a kernel, as [`launch!`](crate::launch) does.
    ///
    /// # Errors
    ///
    /// Those of a launch.
    ///
    /// # Safety
    ///
    /// The arguments have the types of the kernel's parameters, and the kernel's accesses to memory are valid and free
    /// of data races.
    #[doc(hidden)]
    #[inline]
    pub unsafe fn launch_with<G, B>(
        &self,
        func: &Function<'_>,
        grid_size: G,
        block_size: B,
        shared_mem_bytes: u32,
        args: &[Argument],
    ) -> CudaResult<()>
    where
        G: Into<GridSize>,
        B: Into<BlockSize>,
    {
        let shape = shape(&grid_size.into(), &block_size.into(), shared_mem_bytes);
        // SAFETY: as the caller guarantees.
        unsafe { self.launch_arguments(func, shape, args) }
    }

    /// # Safety
    ///
    /// Like [`launch_with`](Self::launch_with).
    #[inline]
    unsafe fn launch_arguments(
        &self,
        func: &Function<'_>,
        shape: Shape,
        args: &[Argument],
    ) -> CudaResult<()> {
        func.refuse_other_arguments(args)?;
        let mut few = [ptr::null_mut(); FEW];
        let many: Vec<_>;
        let pointers = if let Some(few) = few.get_mut(..args.len()) {
            few.iter_mut().zip(args).for_each(|(to, argument)| *to = argument.pointer);
            &*few
        } else {
            many = args.iter().map(|argument| argument.pointer).collect();
            &many[..]
        };
        // SAFETY: as the caller guarantees.
        unsafe { self.launch_as(func, shape, pointers) }
    }

    /// Launches a kernel as the configuration says, with pointers to its arguments; [`launch!`](crate::launch) takes
    /// values instead.
    ///
    /// # Errors
    ///
    /// [`InvalidClusterSize`](CudaError::InvalidClusterSize), before the driver is called, for a cluster that does not
    /// divide the grid, or is larger than the kernel and the device allow;
    /// [`CooperativeLaunchTooLarge`](CudaError::CooperativeLaunchTooLarge) if not all blocks of a cooperative launch
    /// can run at once; those of a launch. [`CallRequiresNewerDriver`](CudaError::CallRequiresNewerDriver) for options
    /// that an older driver does not know.
    ///
    /// # Safety
    ///
    /// `args` has a pointer for each of the kernel's parameters, to a value of its type, and the kernel's effects are
    /// sound.
    #[doc(alias("cuLaunchKernelEx", "cuLaunchCooperativeKernel"))]
    #[inline]
    pub unsafe fn launch_configured(
        &self,
        func: &Function<'_>,
        config: &LaunchConfig,
        args: &[*mut c_void],
    ) -> CudaResult<()> {
        // SAFETY: as the caller guarantees.
        unsafe { self.launch_counted(func, config.shape(), args) }
    }

    /// The implementation of [`launch!`](crate::launch) with a configuration.
    ///
    /// # Errors
    ///
    /// Those of [`launch_configured`](Self::launch_configured).
    ///
    /// # Safety
    ///
    /// The arguments have the types of the kernel's parameters, and the kernel's accesses to memory are valid and free
    /// of data races.
    #[doc(hidden)]
    #[inline]
    pub unsafe fn launch_configured_with(
        &self,
        func: &Function<'_>,
        config: impl Borrow<LaunchConfig>,
        args: &[Argument],
    ) -> CudaResult<()> {
        // SAFETY: as the caller guarantees.
        unsafe { self.launch_arguments(func, config.borrow().shape(), args) }
    }

    /// Launches a kernel whose blocks all run at once and may wait for each other (CUDA 9.0 and later).
    ///
    /// # Errors
    ///
    /// [`CooperativeLaunchTooLarge`](CudaError::CooperativeLaunchTooLarge) if the device cannot run all blocks at once;
    /// those of a launch.
    ///
    /// # Safety
    ///
    /// `args` has one pointer for each parameter of the kernel, to a value of its type, and the kernel's accesses to
    /// memory are valid and free of data races. If the stream is capturing, that holds at every launch of the graph,
    /// and the module stays loaded as long as the graph, or anything made from it, exists.
    #[doc(alias = "cuLaunchCooperativeKernel")]
    #[inline]
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
        // SAFETY: as the caller guarantees.
        unsafe { self.launch_counted(func, Shape { cooperative: true, ..shape }, args) }
    }

    /// # Safety
    ///
    /// As for [`launch`](Self::launch).
    #[inline]
    unsafe fn launch_counted(
        &self,
        func: &Function<'_>,
        shape: Shape,
        args: &[*mut c_void],
    ) -> CudaResult<()> {
        func.refuse_another_count(args.len())?;
        // SAFETY: as the caller guarantees.
        unsafe { self.launch_as(func, shape, args) }
    }

    /// # Safety
    ///
    /// As for [`launch`](Self::launch); the number of arguments is that of the kernel's parameters.
    #[inline]
    unsafe fn launch_as(&self, func: &Function<'_>, shape: Shape, args: &[*mut c_void]) -> CudaResult<()> {
        refuse_impossible(&shape)?;
        if captures::any() {
            self.refuse_empty(func, &shape)?;
        }
        if !func.context().shares_with(self.context()) {
            let (kernel, here) = (func.context(), self.context());
            return Err(CudaError::InvalidHandle
                .note(format_args!("to launch {} of {kernel} in a stream of {here}", func.label())));
        }
        let _call;
        if self.is_legacy() {
            _call = self.refuse_by_default("launch a kernel in a legacy stream")?;
        }
        let launched = self.inner().with_current(|driver, stream| {
            // SAFETY: the function's module is borrowed or its library kept, and its context is the stream's, which is
            // held.
            let function = unsafe { Held::new(func.inner) };
            // SAFETY: as the caller guarantees.
            let launched = unsafe { driver.launch_kernel(function, func.label(), shape, stream, args) };
            launched.map_err(|error| func.refused("to launch", driver, function, shape, error))
        });
        launched.map_err(|error| func.not_launched(error))
    }
}

impl Stream {
    /// Refuses a launch of nothing in a capture, which would break it.
    #[cold]
    fn refuse_empty(&self, func: &Function<'_>, shape: &Shape) -> CudaResult<()> {
        let sizes = [("grid", shape.grid), ("block", shape.block)];
        let Some((what, _)) = sizes.into_iter().find(|(_, size)| size.contains(&0)) else { return Ok(()) };
        match captures::of_stream(self.key()) {
            Some(which) => Err(CudaError::InvalidValue
                .note(format_args!("to launch {} with a {what} of nothing: {which}", func.label()))),
            None => Ok(()),
        }
    }
}

fn shape(grid: &GridSize, block: &BlockSize, shared: u32) -> Shape {
    Shape::plain([grid.x, grid.y, grid.z], [block.x, block.y, block.z], shared)
}

/// Launches a kernel: `launch!(module.kernel<<<grid, block, shared_bytes, stream>>>(arguments...))`, or with a
/// [`Function`](crate::function::Function) in place of `module.kernel`, and with a
/// [`LaunchConfig`](crate::function::LaunchConfig) in place of the three sizes:
/// `launch!(function<<<config, stream>>>(arguments...))`.
///
/// Grid and block are numbers, pairs, triples, or [`GridSize`](crate::function::GridSize) and
/// [`BlockSize`](crate::function::BlockSize). The launch is asynchronous; `stream.synchronize()` waits for the kernel.
/// The result is a [`CudaResult`](crate::error::CudaResult): too few, too many and wrong-sized arguments are
/// [`InvalidValue`](crate::error::CudaError::InvalidValue), if the driver says what the parameters are (CUDA 12.4 and
/// later). The call is unsafe: the arguments must have the types of the kernel's parameters, of which only the size is
/// checked, and the kernel's accesses to memory must be valid and free of data races. An integer that is wider than its
/// parameter is passed if its value fits. Arguments are values that can be copied to the device (`DeviceCopy`); a buffer
/// is passed as its `as_device_ptr()`.
///
/// The module, the function and the stream are names: bind a field first (`let stream = &self.stream;`).
#[macro_export]
macro_rules! launch {
    ($function:ident <<<$config:expr, $stream:ident>>>( $( $arg:expr),* $(,)? )) => {
        {
            #[allow(unused_imports)]
            use $crate::function::{OfAny as _, OfInteger as _};
            $stream.launch_configured_with(&$function, $config,
                &[ $( (&$crate::function::Passed::new(&$arg)).argument() ),* ])
        }
    };
    ($module:ident . $function:ident <<< $($rest:tt)*) => {
        {
            let name = ::std::ffi::CString::new(::std::stringify!($function)).unwrap();
            match $module.get_function(&name) {
                ::std::result::Result::Ok(f) => $crate::launch!(f <<< $($rest)*),
                ::std::result::Result::Err(e) => ::std::result::Result::Err(e),
            }
        }
    };
    ($function:ident <<<$grid:expr, $block:expr, $shared:expr, $stream:ident>>>( $( $arg:expr),* $(,)? )) => {
        {
            #[allow(unused_imports)]
            use $crate::function::{OfAny as _, OfInteger as _};
            $stream.launch_with(&$function, $grid, $block, $shared,
                &[ $( (&$crate::function::Passed::new(&$arg)).argument() ),* ])
        }
    };
}
