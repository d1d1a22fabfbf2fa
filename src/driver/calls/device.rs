//! The calls of the device chapter with Rust types.

// Calls through C function pointers; see `ask!` for what makes them sound.
#![allow(unsafe_code)]

use super::ask;
use crate::driver::ffi::*;
use crate::driver::{Driver, Held};
use crate::error::{CudaError, CudaResult};
use std::ffi::CStr;
use std::os::raw::{c_char, c_int};
use std::ptr;

impl Driver {
    #[inline]
    pub(crate) fn device_get(&self, ordinal: c_int) -> CudaResult<CUdevice> {
        let mut device = 0;
        ask!(self.cuDeviceGet(&mut device, ordinal))?;
        Ok(device)
    }

    #[inline]
    pub(crate) fn device_get_count(&self) -> CudaResult<c_int> {
        let mut count = 0;
        ask!(self.cuDeviceGetCount(&mut count))?;
        Ok(count)
    }

    #[inline]
    pub(crate) fn device_get_name(&self, device: CUdevice) -> CudaResult<String> {
        let mut name = [0u8; 256];
        ask!(self.cuDeviceGetName(name.as_mut_ptr().cast::<c_char>(), 256, device))?;
        Ok(text(&name))
    }

    /// Calls `_v2`, which distinguishes the instances of a partitioned device, or the first version where `_v2` is
    /// missing.
    #[inline]
    pub(crate) fn device_get_uuid(&self, device: CUdevice) -> CudaResult<[u8; 16]> {
        let mut uuid = CUuuid { bytes: [0; 16] };
        match ask!(self.cuDeviceGetUuid_v2(&mut uuid, device)) {
            Err(CudaError::CallRequiresNewerDriver) => ask!(self.cuDeviceGetUuid(&mut uuid, device))?,
            answer => answer?,
        }
        Ok(uuid.bytes.map(|byte| byte as u8))
    }

    #[inline]
    pub(crate) fn device_get_luid(&self, device: CUdevice) -> CudaResult<([u8; 8], u32)> {
        let mut luid = [0u8; 8];
        let mut node_mask = 0;
        ask!(self.cuDeviceGetLuid(luid.as_mut_ptr().cast::<c_char>(), &mut node_mask, device))?;
        Ok((luid, node_mask))
    }

    #[inline]
    pub(crate) fn device_total_mem(&self, device: CUdevice) -> CudaResult<usize> {
        let mut bytes = 0;
        ask!(self.cuDeviceTotalMem_v2(&mut bytes, device))?;
        Ok(bytes)
    }

    #[inline]
    pub(crate) fn device_get_attribute(&self, attribute: u32, device: CUdevice) -> CudaResult<i32> {
        let mut value = 0;
        ask!(self.cuDeviceGetAttribute(&mut value, attribute, device))?;
        Ok(value)
    }

    #[inline]
    pub(crate) fn device_get_exec_affinity_support(&self, device: CUdevice) -> CudaResult<bool> {
        let mut supported = 0;
        ask!(self.cuDeviceGetExecAffinitySupport(&mut supported, CU_EXEC_AFFINITY_TYPE_SM_COUNT, device))?;
        Ok(supported != 0)
    }

    #[inline]
    pub(crate) fn device_get_by_pci_bus_id(&self, bus_id: &CStr) -> CudaResult<CUdevice> {
        let mut device = 0;
        ask!(self.cuDeviceGetByPCIBusId(&mut device, bus_id.as_ptr()))?;
        Ok(device)
    }

    #[inline]
    pub(crate) fn device_get_pci_bus_id(&self, device: CUdevice) -> CudaResult<String> {
        let mut bus_id = [0u8; 32];
        ask!(self.cuDeviceGetPCIBusId(bus_id.as_mut_ptr().cast::<c_char>(), 32, device))?;
        Ok(text(&bus_id))
    }

    #[inline]
    pub(crate) fn device_can_access_peer(&self, device: CUdevice, peer: CUdevice) -> CudaResult<bool> {
        let mut can = 0;
        ask!(self.cuDeviceCanAccessPeer(&mut can, device, peer))?;
        Ok(can != 0)
    }

    #[inline]
    pub(crate) fn device_get_p2p_attribute(
        &self,
        attribute: u32,
        device: CUdevice,
        peer: CUdevice,
    ) -> CudaResult<i32> {
        let mut value = 0;
        ask!(self.cuDeviceGetP2PAttribute(&mut value, attribute, device, peer))?;
        Ok(value)
    }

    #[inline]
    pub(crate) fn device_get_default_mem_pool(&self, device: CUdevice) -> CudaResult<CUmemoryPool> {
        let mut pool = ptr::null_mut();
        ask!(self.cuDeviceGetDefaultMemPool(&mut pool, device))?;
        Ok(pool)
    }

    #[inline]
    pub(crate) fn device_get_mem_pool(&self, device: CUdevice) -> CudaResult<CUmemoryPool> {
        let mut pool = ptr::null_mut();
        ask!(self.cuDeviceGetMemPool(&mut pool, device))?;
        Ok(pool)
    }

    #[inline]
    pub(crate) fn device_set_mem_pool(
        &self,
        device: CUdevice,
        pool: Held<'_, CUmemoryPool>,
    ) -> CudaResult<()> {
        ask!(self.cuDeviceSetMemPool(device, pool.raw()))
    }

    #[inline]
    pub(crate) fn device_graph_mem_trim(&self, device: CUdevice) -> CudaResult<()> {
        ask!(self.cuDeviceGraphMemTrim(device))
    }

    #[inline]
    pub(crate) fn device_get_graph_mem_attribute(&self, attribute: u32, device: CUdevice) -> CudaResult<u64> {
        let mut value = 0u64;
        ask!(self.cuDeviceGetGraphMemAttribute(device, attribute, (&raw mut value).cast()))?;
        Ok(value)
    }
}

/// The text up to the first NUL. Bytes that are not UTF-8 are replaced, because names are only displayed.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
