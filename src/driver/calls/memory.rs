//! The calls of the memory chapter with Rust's types. Addresses are numbers here; the modules above vouch for them.

// Calls through C function pointers; see `ask!` for what makes them sound, and `Held` for the handles.
#![allow(unsafe_code)]

use super::{ask, made};
use crate::driver::ffi::*;
use crate::driver::{Driver, Held};
use crate::error::CudaResult;
use std::os::raw::c_void;
use std::ptr;

/// The stream of a copy; without one it is done when the call returns.
pub(crate) type Order<'a> = Option<Held<'a, CUstream>>;

impl Driver {
    pub(crate) fn mem_get_info(&self) -> CudaResult<(usize, usize)> {
        let (mut free, mut total) = (0, 0);
        ask!(self.cuMemGetInfo_v2(&mut free, &mut total))?;
        Ok((free, total))
    }

    pub(crate) fn mem_alloc(&self, size: usize) -> CudaResult<u64> {
        let mut address = 0;
        ask!(self.cuMemAlloc_v2(&mut address, size)).inspect_err(|_| self.undo_alloc(address))?;
        Ok(address)
    }

    pub(crate) fn mem_alloc_managed(&self, size: usize) -> CudaResult<u64> {
        const GLOBAL: u32 = 1;
        let mut address = 0;
        ask!(self.cuMemAllocManaged(&mut address, size, GLOBAL)).inspect_err(|_| self.undo_alloc(address))?;
        Ok(address)
    }

    /// A driver that fails after it has allocated has written the address.
    fn undo_alloc(&self, address: u64) {
        if address != 0 {
            // SAFETY: allocated a moment ago, and given to no one.
            let _ = unsafe { self.mem_free(address) };
        }
    }

    pub(crate) fn mem_alloc_host(&self, size: usize) -> CudaResult<*mut c_void> {
        let mut memory = ptr::null_mut();
        ask!(self.cuMemAllocHost_v2(&mut memory, size)).inspect_err(|_| {
            if !memory.is_null() {
                // SAFETY: allocated a moment ago, and given to no one.
                let _ = unsafe { self.mem_free_host(memory) };
            }
        })?;
        Ok(memory)
    }

    /// # Safety
    ///
    /// Nothing uses the memory afterwards.
    pub(crate) unsafe fn mem_free(&self, address: u64) -> CudaResult<()> {
        ask!(self.cuMemFree_v2(address))
    }

    /// # Safety
    ///
    /// Nothing uses the memory afterwards.
    pub(crate) unsafe fn mem_free_host(&self, memory: *mut c_void) -> CudaResult<()> {
        ask!(self.cuMemFreeHost(memory))
    }

    /// # Safety
    ///
    /// The address is the caller's to write, for so many bytes.
    pub(crate) unsafe fn memset(&self, to: u64, byte: u8, size: usize) -> CudaResult<()> {
        ask!(self.cuMemsetD8_v2(to, byte, size))
    }

    /// # Safety
    ///
    /// The device's address is the caller's to write, and the host's readable for so many bytes, until the copy is done.
    pub(crate) unsafe fn copy_to_device(
        &self,
        to: u64,
        from: *const c_void,
        size: usize,
        order: Order<'_>,
    ) -> CudaResult<()> {
        match order {
            None => ask!(self.cuMemcpyHtoD_v2(to, from, size)),
            Some(stream) => ask!(self.cuMemcpyHtoDAsync_v2(to, from, size, stream.raw())),
        }
    }

    /// # Safety
    ///
    /// The host's address is writable for so many bytes until the copy is done, and what the device has at its own is
    /// initialised and valid for the type that the host reads it as.
    pub(crate) unsafe fn copy_to_host(
        &self,
        to: *mut c_void,
        from: u64,
        size: usize,
        order: Order<'_>,
    ) -> CudaResult<()> {
        match order {
            None => ask!(self.cuMemcpyDtoH_v2(to, from, size)),
            Some(stream) => ask!(self.cuMemcpyDtoHAsync_v2(to, from, size, stream.raw())),
        }
    }

    /// # Safety
    ///
    /// The addresses are the caller's to write and to read, for so many bytes, until the copy is done.
    pub(crate) unsafe fn copy_on_device(
        &self,
        to: u64,
        from: u64,
        size: usize,
        order: Order<'_>,
    ) -> CudaResult<()> {
        match order {
            None => ask!(self.cuMemcpyDtoD_v2(to, from, size)),
            Some(stream) => ask!(self.cuMemcpyDtoDAsync_v2(to, from, size, stream.raw())),
        }
    }

    pub(crate) fn array_create(&self, descriptor: &CUDA_ARRAY3D_DESCRIPTOR) -> CudaResult<CUarray> {
        let mut array = ptr::null_mut();
        made!(self, ask!(self.cuArray3DCreate_v2(&mut array, descriptor)), array, array_destroy)
    }

    pub(crate) fn array_get_descriptor(
        &self,
        array: Held<'_, CUarray>,
    ) -> CudaResult<CUDA_ARRAY3D_DESCRIPTOR> {
        let mut descriptor = CUDA_ARRAY3D_DESCRIPTOR::default();
        ask!(self.cuArray3DGetDescriptor_v2(&mut descriptor, array.raw()))?;
        Ok(descriptor)
    }

    pub(crate) fn array_destroy(&self, array: Held<'_, CUarray>) -> CudaResult<()> {
        ask!(self.cuArrayDestroy(array.raw()))
    }
}
