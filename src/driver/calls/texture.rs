//! The calls of the chapters on texture and surface objects with Rust types.

// Calls through C function pointers; see `ask!` for what makes them sound, and `Held` for the handles.
#![allow(unsafe_code)]

use super::ask;
use crate::driver::ffi::*;
use crate::driver::{Driver, Held};
use crate::error::{CudaResult, keep_note};
use std::ptr;

impl Driver {
    /// # Safety
    ///
    /// The resource is there.
    #[inline]
    pub(crate) unsafe fn texture_create(
        &self,
        resource: &CUDA_RESOURCE_DESC,
        descriptor: &CUDA_TEXTURE_DESC,
    ) -> CudaResult<CUtexObject> {
        let mut texture = 0;
        ask!(self.cuTexObjectCreate(&mut texture, resource, descriptor, ptr::null())).inspect_err(|_| {
            if texture != 0 {
                let _note = keep_note();
                // SAFETY: just made in the current context, and given to nothing else.
                let _ = self.texture_destroy(unsafe { Held::new(texture) });
            }
        })?;
        Ok(texture)
    }

    #[inline]
    pub(crate) fn texture_destroy(&self, texture: Held<'_, CUtexObject>) -> CudaResult<()> {
        ask!(self.cuTexObjectDestroy(texture.raw()))
    }

    #[inline]
    pub(crate) fn texture_resource(&self, texture: Held<'_, CUtexObject>) -> CudaResult<CUDA_RESOURCE_DESC> {
        let mut resource = CUDA_RESOURCE_DESC::default();
        ask!(self.cuTexObjectGetResourceDesc(&mut resource, texture.raw()))?;
        Ok(resource)
    }

    #[inline]
    pub(crate) fn texture_descriptor(&self, texture: Held<'_, CUtexObject>) -> CudaResult<CUDA_TEXTURE_DESC> {
        let mut descriptor = CUDA_TEXTURE_DESC::default();
        ask!(self.cuTexObjectGetTextureDesc(&mut descriptor, texture.raw()))?;
        Ok(descriptor)
    }

    /// # Safety
    ///
    /// The resource is there.
    #[inline]
    pub(crate) unsafe fn surface_create(&self, resource: &CUDA_RESOURCE_DESC) -> CudaResult<CUsurfObject> {
        let mut surface = 0;
        ask!(self.cuSurfObjectCreate(&mut surface, resource)).inspect_err(|_| {
            if surface != 0 {
                let _note = keep_note();
                // SAFETY: just made in the current context, and given to nothing else.
                let _ = self.surface_destroy(unsafe { Held::new(surface) });
            }
        })?;
        Ok(surface)
    }

    #[inline]
    pub(crate) fn surface_destroy(&self, surface: Held<'_, CUsurfObject>) -> CudaResult<()> {
        ask!(self.cuSurfObjectDestroy(surface.raw()))
    }

    #[inline]
    pub(crate) fn surface_resource(&self, surface: Held<'_, CUsurfObject>) -> CudaResult<CUDA_RESOURCE_DESC> {
        let mut resource = CUDA_RESOURCE_DESC::default();
        ask!(self.cuSurfObjectGetResourceDesc(&mut resource, surface.raw()))?;
        Ok(resource)
    }
}
