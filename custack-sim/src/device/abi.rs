//! The C ABI of the device chapter.

// C functions that read and write through the pointers that they get.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::{NAME, TOTAL_MEMORY};
use crate::abi::{c_abi, call, give, give_first, put, put_text};
use crate::context::Part;
use crate::machine::*;
use crate::memory;
use custack_sys::ffi::*;
use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_uint, c_void};

c_abi! {
    fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int) {
        give(device, |m| m.ask_device(!device.is_null(), ordinal).map(|index| index as CUdevice))
    }
    fn cuDeviceGetCount(count: *mut c_int) {
        give(count, |m| m.ready().map(|()| m.devices.len() as c_int))
    }
    fn cuDeviceGetName(name: *mut c_char, len: c_int, device: CUdevice) {
        call(|m| {
            m.ready()?;
            m.device(device)?;
            if name.is_null() || len < 1 {
                return m.misuse(INVALID_VALUE, "cuDeviceGetName without a buffer for the name");
            }
            put_text(name, len as usize, NAME);
            Ok(())
        })
    }
    fn cuDeviceGetUuid(uuid: *mut CUuuid, device: CUdevice) {
        give(uuid, |m| m.uuid(!uuid.is_null(), device).map(|bytes| CUuuid { bytes: bytes.map(|b| b as c_char) }))
    }
    fn cuDeviceGetUuid_v2(uuid: *mut CUuuid, device: CUdevice) { cuDeviceGetUuid(uuid, device) }
    fn cuDeviceGetLuid(luid: *mut c_char, node_mask: *mut c_uint, device: CUdevice) {
        call(|m| {
            m.ask_device(!luid.is_null() && !node_mask.is_null(), device)?;
            m.refuse(NOT_SUPPORTED, "locally unique identifiers exist on Windows only")
        })
    }
    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice) {
        give(bytes, |m| m.ask_device(!bytes.is_null(), device).map(|_| TOTAL_MEMORY))
    }
    fn cuDeviceGetTexture1DLinearMaxWidth(elements: *mut usize, format: c_uint, channels: c_uint, device: CUdevice) {
        give(elements, |m| m.texture_width(format, channels, device))
    }
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: CUdevice) {
        give_first(value, |m| m.attribute(attribute, device))
    }
    fn cuDeviceGetHostAtomicCapabilities(capabilities: *mut c_uint, operations: *const c_uint, count: c_uint, device: CUdevice) {
        call(|m| {
            if capabilities.is_null() || operations.is_null() || count == 0 {
                return m.refuse(INVALID_VALUE, "the operations or the pointer for the capabilities are missing");
            }
            m.ready()?;
            m.device(device)?;
            let operations = std::slice::from_raw_parts(operations, count as usize);
            m.atomics(operations)?;
            capabilities.write_bytes(0, operations.len());
            Ok(())
        })
    }
    fn cuDeviceGetNvSciSyncAttributes(_list: *mut c_void, device: CUdevice, _flags: c_int) {
        call(|m| {
            m.ready()?;
            m.device(device)?;
            m.refuse(INVALID_HANDLE, "the simulated device has no NvSciSync")
        })
    }
    fn cuDeviceSetMemPool(device: CUdevice, pool: CUmemoryPool) {
        call(|m| {
            m.ready()?;
            let device = m.device(device).map_err(|_| INVALID_VALUE)?;
            if !memory::lock().set_current_pool(device, pool.addr()) {
                return m.refuse(INVALID_VALUE, "not a memory pool of this device");
            }
            Ok(())
        })
    }
    fn cuDeviceGetMemPool(pool: *mut CUmemoryPool, device: CUdevice) {
        give(pool, |m| {
            m.ready()?;
            let device = m.device(device).map_err(|_| INVALID_VALUE)?;
            Ok(memory::lock().current_pool(device) as CUmemoryPool)
        })
    }
    fn cuDeviceGetDefaultMemPool(pool: *mut CUmemoryPool, device: CUdevice) {
        give(pool, |m| {
            m.ready()?;
            m.device(device).map(|index| memory::default_pool(index) as CUmemoryPool)
        })
    }
    fn cuDeviceGetExecAffinitySupport(supported: *mut c_int, _kind: c_uint, device: CUdevice) {
        give(supported, |m| m.ask_device(!supported.is_null(), device).map(|_| 0))
    }
    fn cuFlushGPUDirectRDMAWrites(target: c_uint, scope: c_uint) { call(|m| m.flush(target, scope)) }
    fn cuDeviceGetProperties(properties: *mut CUdevprop, device: CUdevice) {
        give(properties, |m| {
            m.ask_device(!properties.is_null(), device)?;
            let mut ask = |attribute| m.attribute(attribute, device);
            Ok(CUdevprop {
                maxThreadsPerBlock: ask(1)?,
                maxThreadsDim: [ask(2)?, ask(3)?, ask(4)?],
                maxGridSize: [ask(5)?, ask(6)?, ask(7)?],
                sharedMemPerBlock: ask(8)?,
                totalConstantMemory: ask(9)?,
                SIMDWidth: ask(10)?,
                memPitch: ask(11)?,
                regsPerBlock: ask(12)?,
                clockRate: ask(13)?,
                textureAlign: ask(14)?,
            })
        })
    }
    fn cuDeviceComputeCapability(major: *mut c_int, minor: *mut c_int, device: CUdevice) {
        call(|m| {
            m.ask_device(!major.is_null() && !minor.is_null(), device)?;
            put(major, m.attribute(75, device)?);
            put(minor, m.attribute(76, device)?);
            Ok(())
        })
    }
    fn cuDeviceGetByPCIBusId(device: *mut CUdevice, bus_id: *const c_char) {
        give(device, |m| {
            m.ready()?;
            if device.is_null() || bus_id.is_null() {
                return m.refuse(INVALID_VALUE, "the PCI address or the pointer for the device is NULL");
            }
            m.by_pci_bus_id(&CStr::from_ptr(bus_id).to_string_lossy())
        })
    }
    fn cuDeviceGetPCIBusId(bus_id: *mut c_char, len: c_int, device: CUdevice) {
        call(|m| {
            let text = m.pci_bus_id(device)?;
            if bus_id.is_null() || len < 1 {
                return m.refuse(INVALID_VALUE, "the buffer for the PCI address is NULL or empty");
            }
            put_text(bus_id, len as usize, &text);
            if len as usize > text.len() { Ok(()) } else { m.refuse(INVALID_VALUE, "a PCI address needs 13 bytes") }
        })
    }
    fn cuDeviceRegisterAsyncNotification(device: CUdevice, function: CUasyncCallback, _user_data: *mut c_void, callback: *mut CUasyncCallbackHandle) {
        give(callback, |m| {
            let given = function.is_some() && !callback.is_null();
            m.register_notification(given, device).map(|number| number as CUasyncCallbackHandle)
        })
    }
    fn cuDeviceUnregisterAsyncNotification(device: CUdevice, callback: CUasyncCallbackHandle) {
        call(|m| m.unregister_notification(callback.addr(), device))
    }
    fn cuDeviceGraphMemTrim(device: CUdevice) { call(|m| m.trim_graph_memory(device)) }
    fn cuDeviceGetGraphMemAttribute(device: CUdevice, attribute: c_uint, value: *mut c_void) {
        give(value.cast::<u64>(), |m| m.graph_memory(attribute, device))
    }
    fn cuDeviceSetGraphMemAttribute(device: CUdevice, attribute: c_uint, value: *mut c_void) {
        call(|m| {
            if value.is_null() {
                return m.refuse(INVALID_VALUE, "the value is NULL");
            }
            m.set_graph_memory(attribute, value.cast::<u64>().read(), device)
        })
    }
    fn cuDeviceCanAccessPeer(can: *mut c_int, device: CUdevice, peer: CUdevice) {
        give(can, |m| {
            let here = m.ask_device(!can.is_null(), device)?;
            let there = m.device(peer)?;
            Ok(c_int::from(there != here && m.link_rank(here, there).is_some()))
        })
    }
    fn cuDeviceGetP2PAttribute(value: *mut c_int, attribute: c_uint, device: CUdevice, peer: CUdevice) {
        give(value, |m| m.link_attribute(attribute, device, peer))
    }
    fn cuDeviceGetP2PAtomicCapabilities(capabilities: *mut c_uint, operations: *const c_uint, count: c_uint, device: CUdevice, peer: CUdevice) {
        call(|m| {
            m.link(device, peer)?;
            if capabilities.is_null() || operations.is_null() || count == 0 {
                return m.refuse(INVALID_VALUE, "the operations or the pointer for the capabilities are missing");
            }
            let operations = std::slice::from_raw_parts(operations, count as usize);
            m.atomics(operations)?;
            capabilities.write_bytes(0, operations.len());
            Ok(())
        })
    }
    fn cuDeviceGetDevResource(device: CUdevice, resource: *mut CUdevResource, kind: c_uint) {
        give(resource, |m| {
            m.ready()?;
            let device = m.device(device)?;
            if resource.is_null() {
                return m.refuse(INVALID_VALUE, "the pointer for the resource is NULL");
            }
            m.multiprocessors(kind, device).map(Part::told)
        })
    }
}
