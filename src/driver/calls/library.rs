//! The calls of the library chapter with Rust's types.

// Calls through C function pointers; see `ask!` for what makes them sound, and `Held` for the handles.
#![allow(unsafe_code)]

use super::function::{parameters, text_at};
use super::memory::placed;
use super::module::{Jit, complained};
use super::{ask, made};
use crate::driver::ffi::*;
use crate::driver::{Driver, Held};
use crate::error::CudaResult;
use std::ffi::{CStr, CString, c_void};
use std::ops::Range;
use std::ptr;

impl Driver {
    /// # Safety
    ///
    /// The image is a text with a final NUL, or machine code that is as its compiler wrote it. The options stay where they
    /// are as long as the library exists.
    #[inline]
    pub(crate) unsafe fn library_load_data(
        &self,
        image: *const c_void,
        jit: &mut Jit,
    ) -> CudaResult<CUlibrary> {
        let mut library = ptr::null_mut();
        let (count, options, values) = (jit.count(), jit.options(), jit.values());
        let none = ptr::null_mut();
        let loaded = ask!(self.cuLibraryLoadData(
            &mut library,
            image,
            options,
            values,
            count,
            none,
            ptr::null_mut(),
            0
        ));
        made!(self, loaded, library, library_unload)
            .map_err(|error| complained("cuLibraryLoadData", error, jit))
    }

    #[inline]
    pub(crate) fn library_unload(&self, library: Held<'_, CUlibrary>) -> CudaResult<()> {
        ask!(self.cuLibraryUnload(library.raw()))
    }

    #[inline]
    pub(crate) fn library_get_kernel(
        &self,
        library: Held<'_, CUlibrary>,
        name: &CStr,
    ) -> CudaResult<CUkernel> {
        let mut kernel = ptr::null_mut();
        ask!(self.cuLibraryGetKernel(&mut kernel, library.raw(), name.as_ptr()))?;
        Ok(kernel)
    }

    #[inline]
    pub(crate) fn library_get_kernel_count(&self, library: Held<'_, CUlibrary>) -> CudaResult<u32> {
        let mut count = 0;
        ask!(self.cuLibraryGetKernelCount(&mut count, library.raw()))?;
        Ok(count)
    }

    /// As many of the library's kernels as asked for, or as there are.
    #[inline]
    pub(crate) fn library_enumerate_kernels(
        &self,
        library: Held<'_, CUlibrary>,
        count: u32,
    ) -> CudaResult<Vec<CUkernel>> {
        let mut kernels = vec![ptr::null_mut(); count as usize];
        ask!(self.cuLibraryEnumerateKernels(kernels.as_mut_ptr(), count, library.raw()))?;
        kernels.retain(|kernel| !kernel.is_null());
        Ok(kernels)
    }

    /// The library's module in the current context.
    #[inline]
    pub(crate) fn library_get_module(&self, library: Held<'_, CUlibrary>) -> CudaResult<CUmodule> {
        let mut module = ptr::null_mut();
        ask!(self.cuLibraryGetModule(&mut module, library.raw()))?;
        Ok(module)
    }

    /// The address and size of a variable in the current context.
    #[inline]
    pub(crate) fn library_get_global(
        &self,
        library: Held<'_, CUlibrary>,
        name: &CStr,
    ) -> CudaResult<(u64, usize)> {
        let (mut address, mut size) = (0, 0);
        let asked = ask!(self.cuLibraryGetGlobal(&mut address, &mut size, library.raw(), name.as_ptr()));
        placed("cuLibraryGetGlobal", asked, (address, size), || Ok(())).map(|address| (address, size))
    }

    #[inline]
    pub(crate) fn library_get_managed(
        &self,
        library: Held<'_, CUlibrary>,
        name: &CStr,
    ) -> CudaResult<(u64, usize)> {
        let (mut address, mut size) = (0, 0);
        let asked = ask!(self.cuLibraryGetManaged(&mut address, &mut size, library.raw(), name.as_ptr()));
        placed("cuLibraryGetManaged", asked, (address, size), || Ok(())).map(|address| (address, size))
    }

    /// The kernel's function in the current context.
    #[inline]
    pub(crate) fn kernel_get_function(&self, kernel: Held<'_, CUkernel>) -> CudaResult<CUfunction> {
        let mut function = ptr::null_mut();
        ask!(self.cuKernelGetFunction(&mut function, kernel.raw()))?;
        Ok(function)
    }

    #[inline]
    pub(crate) fn kernel_get_attribute(
        &self,
        kernel: Held<'_, CUkernel>,
        attribute: u32,
        device: CUdevice,
    ) -> CudaResult<i32> {
        let mut value = 0;
        ask!(self.cuKernelGetAttribute(&mut value, attribute, kernel.raw(), device))?;
        Ok(value)
    }

    #[inline]
    pub(crate) fn kernel_set_attribute(
        &self,
        kernel: Held<'_, CUkernel>,
        attribute: u32,
        value: i32,
        device: CUdevice,
    ) -> CudaResult<()> {
        ask!(self.cuKernelSetAttribute(attribute, value, kernel.raw(), device))
    }

    #[inline]
    pub(crate) fn kernel_set_cache_config(
        &self,
        kernel: Held<'_, CUkernel>,
        config: u32,
        device: CUdevice,
    ) -> CudaResult<()> {
        ask!(self.cuKernelSetCacheConfig(kernel.raw(), config, device))
    }

    #[inline]
    pub(crate) fn kernel_get_name(&self, kernel: Held<'_, CUkernel>) -> CudaResult<CString> {
        let mut name = ptr::null();
        ask!(self.cuKernelGetName(&mut name, kernel.raw()))?;
        // SAFETY: the driver wrote where the name is, which is the library's.
        Ok(unsafe { text_at(name) })
    }

    /// The byte range of each parameter of a kernel; `None` if the driver is too old to say.
    #[inline]
    pub(crate) fn kernel_get_parameters(
        &self,
        kernel: Held<'_, CUkernel>,
    ) -> CudaResult<Option<Vec<Range<usize>>>> {
        parameters(|index, offset, size| ask!(self.cuKernelGetParamInfo(kernel.raw(), index, offset, size)))
    }
}
