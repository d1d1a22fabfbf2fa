//! Arrays.

// Calls through C function pointers; see `ask!` for what makes them sound, and `Held` for the handles.
#![allow(unsafe_code)]

use crate::driver::calls::{ask, made};
use crate::driver::ffi::{CUDA_ARRAY3D_DESCRIPTOR, CUDA_MEMCPY3D, CUarray};
use crate::driver::{Driver, Held, Order};
use crate::error::CudaResult;
use std::ptr;

impl Driver {
    #[inline]
    pub(crate) fn array_create(&self, descriptor: &CUDA_ARRAY3D_DESCRIPTOR) -> CudaResult<CUarray> {
        let mut array = ptr::null_mut();
        made!(self, ask!(self.cuArray3DCreate_v2(&mut array, descriptor)), array, array_destroy)
    }

    #[inline]
    pub(crate) fn array_get_descriptor(
        &self,
        array: Held<'_, CUarray>,
    ) -> CudaResult<CUDA_ARRAY3D_DESCRIPTOR> {
        let mut descriptor = CUDA_ARRAY3D_DESCRIPTOR::default();
        ask!(self.cuArray3DGetDescriptor_v2(&mut descriptor, array.raw()))?;
        Ok(descriptor)
    }

    /// # Safety
    ///
    /// Both sides are valid for what is copied until the copy is done.
    #[inline]
    pub(crate) unsafe fn copy_slices(&self, copy: &CUDA_MEMCPY3D, order: Order<'_>) -> CudaResult<()> {
        match order {
            None => ask!(self.cuMemcpy3D_v2(copy)),
            Some(stream) => ask!(self.cuMemcpy3DAsync_v2(copy, stream.raw())),
        }
    }

    #[inline]
    pub(crate) fn array_destroy(&self, array: Held<'_, CUarray>) -> CudaResult<()> {
        ask!(self.cuArrayDestroy(array.raw()))
    }
}
