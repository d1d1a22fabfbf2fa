//! Pools of memory.

// Calls through C function pointers; see `ask!` for what makes them sound, and `Held` for the handles.
#![allow(unsafe_code)]

#[cfg(unix)]
use super::placed;
use crate::driver::calls::{ask, made};
use crate::driver::ffi::*;
use crate::driver::{Driver, Held};
use crate::error::CudaResult;
use std::os::raw::{c_char, c_int};
use std::ptr;

/// The type of a pool's allocations, and of its location: memory that stays where it is, on a device.
const PINNED: u32 = 1;
const ON_DEVICE: u32 = 1;
/// The type of handles that are descriptors of files.
const DESCRIPTOR: u32 = 1;

fn on_device(device: CUdevice) -> CUmemLocation {
    CUmemLocation { kind: ON_DEVICE, id: device }
}

impl Driver {
    #[inline]
    pub(crate) fn mem_pool_create(
        &self,
        device: CUdevice,
        max_size: usize,
        shareable: bool,
    ) -> CudaResult<CUmemoryPool> {
        let properties = CUmemPoolProps {
            allocType: PINNED,
            handleTypes: if shareable { DESCRIPTOR } else { 0 },
            location: on_device(device),
            win32SecurityAttributes: ptr::null_mut(),
            maxSize: max_size,
            usage: 0,
            gpuDirectRDMACapable: 0,
            reserved: [0; 53],
        };
        let mut pool = ptr::null_mut();
        made!(self, ask!(self.cuMemPoolCreate(&mut pool, &properties)), pool, mem_pool_destroy)
    }

    #[inline]
    pub(crate) fn mem_pool_destroy(&self, pool: Held<'_, CUmemoryPool>) -> CudaResult<()> {
        ask!(self.cuMemPoolDestroy(pool.raw()))
    }

    #[cfg(unix)]
    pub(crate) fn mem_pool_export(&self, pool: Held<'_, CUmemoryPool>) -> CudaResult<c_int> {
        let mut file: c_int = -1;
        let exported =
            ask!(self.cuMemPoolExportToShareableHandle((&raw mut file).cast(), pool.raw(), DESCRIPTOR, 0));
        exported.inspect_err(|_| {
            // A driver that fails after it has opened the file has written its number.
            if file >= 0 {
                // SAFETY: just opened, and given to nothing else.
                drop(unsafe { <std::os::fd::OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(file) });
            }
        })?;
        Ok(file)
    }

    #[cfg(unix)]
    pub(crate) fn mem_pool_import(&self, file: c_int) -> CudaResult<CUmemoryPool> {
        // The number itself goes as the pointer.
        let file = ptr::without_provenance_mut(file as usize);
        let mut pool = ptr::null_mut();
        let made = ask!(self.cuMemPoolImportFromShareableHandle(&mut pool, file, DESCRIPTOR, 0));
        made!(self, made, pool, mem_pool_destroy)
    }

    #[cfg(unix)]
    pub(crate) fn mem_pool_export_pointer(&self, address: u64) -> CudaResult<CUmemPoolPtrExportData> {
        let mut data = CUmemPoolPtrExportData { reserved: [0; 64] };
        ask!(self.cuMemPoolExportPointer(&mut data, address))?;
        Ok(data)
    }

    #[cfg(unix)]
    pub(crate) fn mem_pool_import_pointer(
        &self,
        pool: Held<'_, CUmemoryPool>,
        reserved: [c_char; 64],
        size: usize,
    ) -> CudaResult<u64> {
        let (mut address, mut data) = (0, CUmemPoolPtrExportData { reserved });
        let asked = ask!(self.cuMemPoolImportPointer(&mut address, pool.raw(), &mut data));
        // SAFETY: just opened, and given to nothing else.
        placed("cuMemPoolImportPointer", asked, (address, size), || unsafe { self.mem_free(address) })
    }

    /// An attribute that is a C `int`.
    #[inline]
    pub(crate) fn mem_pool_get_switch(
        &self,
        pool: Held<'_, CUmemoryPool>,
        attribute: u32,
    ) -> CudaResult<bool> {
        let mut value: c_int = 0;
        ask!(self.cuMemPoolGetAttribute(pool.raw(), attribute, (&raw mut value).cast()))?;
        Ok(value != 0)
    }

    #[inline]
    pub(crate) fn mem_pool_set_switch(
        &self,
        pool: Held<'_, CUmemoryPool>,
        attribute: u32,
        on: bool,
    ) -> CudaResult<()> {
        let mut value = c_int::from(on);
        ask!(self.cuMemPoolSetAttribute(pool.raw(), attribute, (&raw mut value).cast()))
    }

    /// An attribute that is a number of bytes.
    #[inline]
    pub(crate) fn mem_pool_get_bytes(&self, pool: Held<'_, CUmemoryPool>, attribute: u32) -> CudaResult<u64> {
        let mut value = 0u64;
        ask!(self.cuMemPoolGetAttribute(pool.raw(), attribute, (&raw mut value).cast()))?;
        Ok(value)
    }

    #[inline]
    pub(crate) fn mem_pool_set_bytes(
        &self,
        pool: Held<'_, CUmemoryPool>,
        attribute: u32,
        bytes: u64,
    ) -> CudaResult<()> {
        let mut value = bytes;
        ask!(self.cuMemPoolSetAttribute(pool.raw(), attribute, (&raw mut value).cast()))
    }

    #[inline]
    pub(crate) fn mem_pool_trim_to(&self, pool: Held<'_, CUmemoryPool>, bytes: usize) -> CudaResult<()> {
        ask!(self.cuMemPoolTrimTo(pool.raw(), bytes))
    }

    #[inline]
    pub(crate) fn mem_pool_set_access(
        &self,
        pool: Held<'_, CUmemoryPool>,
        device: CUdevice,
        flags: u32,
    ) -> CudaResult<()> {
        let access = CUmemAccessDesc { location: on_device(device), flags };
        ask!(self.cuMemPoolSetAccess(pool.raw(), &access, 1))
    }

    #[inline]
    pub(crate) fn mem_pool_get_access(
        &self,
        pool: Held<'_, CUmemoryPool>,
        device: CUdevice,
    ) -> CudaResult<u32> {
        let (mut flags, mut location) = (0, on_device(device));
        ask!(self.cuMemPoolGetAccess(&mut flags, pool.raw(), &mut location))?;
        Ok(flags)
    }
}
