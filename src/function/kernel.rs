//! Kernels of libraries as functions, and their attributes on a device.

use super::{Function, FunctionAttribute, OfLibrary, SettableAttribute, Source};
use crate::context::{CacheConfig, ContextHandle};
use crate::device::Device;
use crate::driver::{KernelName, Numbered};
use crate::error::CudaResult;
use crate::library::Kernel;
use std::any::Any;

impl OfLibrary for Kernel {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn parameter_sizes(&self) -> Option<&[usize]> {
        self.known_parameters()
    }

    fn label(&self) -> KernelName {
        self.known_name()
    }
}

impl Function<'_> {
    /// The kernel of a library that it belongs to; `None` for a function of a module.
    #[inline]
    pub fn kernel(&self) -> Option<&Kernel> {
        match &self.source {
            Source::Module { .. } => None,
            Source::Kernel { kernel, .. } => kernel.as_any().downcast_ref(),
        }
    }
}

impl Kernel {
    /// The kernel's function in this context, for launches there. The driver is asked once for each context.
    ///
    /// The function keeps the library loaded, as a clone of the kernel does. Threads that launch often should keep it.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed), or
    /// [`InvalidContext`](crate::error::CudaError::InvalidContext) for a null handle;
    /// [`NoBinaryForGpu`](crate::error::CudaError::NoBinaryForGpu) if the library has no code for the context's device.
    ///
    /// ```
    /// # use custack::{launch, library::Library, module::JitOptions, stream::{Stream, StreamFlags}};
    /// # let context = custack::quick_init()?;
    /// # let ptx = b".version 7.0 .target sm_70 .address_size 64 .visible .entry nothing() { ret; }";
    /// let kernel = Library::load(ptx, &JitOptions::new())?.kernel(c"nothing")?;
    /// let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    /// let function = kernel.function_in(&context)?;
    /// // SAFETY: the kernel takes nothing and does nothing.
    /// unsafe { launch!(function<<<1, 32, 0, stream>>>()) }?;
    /// stream.synchronize()?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuKernelGetFunction")]
    #[inline]
    pub fn function_in(&self, context: &impl ContextHandle) -> CudaResult<Function<'static>> {
        let context = context.as_unowned();
        let inner = self.raw_function_in(context)?;
        let source = Source::Kernel { kernel: Box::new(self.clone()), context: context.clone() };
        Ok(Function { inner, source })
    }

    /// An attribute of the kernel on a device. No context is needed.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](crate::error::CudaError::InvalidValue) for an attribute without a name.
    #[doc(alias = "cuKernelGetAttribute")]
    #[inline]
    pub fn get_attribute_on(&self, device: Device, attr: FunctionAttribute) -> CudaResult<i32> {
        let number = attr.number()?;
        self.with(|driver, kernel| driver.kernel_get_attribute(kernel, number, device.as_raw()))
    }

    /// A settable attribute of the kernel on a device. No context is needed.
    ///
    /// # Errors
    ///
    /// Any error of the driver.
    #[doc(alias = "cuKernelGetAttribute")]
    #[inline]
    pub fn get_on(&self, device: Device, attr: SettableAttribute) -> CudaResult<i32> {
        self.with(|driver, kernel| driver.kernel_get_attribute(kernel, attr as u32, device.as_raw()))
    }

    /// Sets an attribute of the kernel on a device, for functions whose own [`set`](Function::set) has set no value.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](crate::error::CudaError::InvalidValue) for a value that the device does not allow.
    #[doc(alias = "cuKernelSetAttribute")]
    #[inline]
    pub fn set_on(&self, device: Device, attr: SettableAttribute, value: i32) -> CudaResult<()> {
        self.with(|driver, kernel| driver.kernel_set_attribute(kernel, attr as u32, value, device.as_raw()))
    }

    /// Sets how the kernel prefers to divide L1 cache and shared memory on a device.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](crate::error::CudaError::InvalidValue) for a value without a name.
    #[doc(alias = "cuKernelSetCacheConfig")]
    #[inline]
    pub fn set_cache_config_on(&self, device: Device, config: CacheConfig) -> CudaResult<()> {
        let number = config.number()?;
        self.with(|driver, kernel| driver.kernel_set_cache_config(kernel, number, device.as_raw()))
    }
}
