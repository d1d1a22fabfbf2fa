//! The C functions that say what is at an address.

// C functions that read and write through the pointers that they get.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use crate::abi::{c_abi, call, put};
use crate::machine::*;
use crate::memory::pointer::Value;
use custack_sys::ffi::*;
use std::os::raw::{c_uint, c_void};

/// # Safety
///
/// `to` is valid for a write of what the attribute is.
unsafe fn write(to: *mut c_void, value: Value) {
    // SAFETY: as the caller guarantees.
    unsafe {
        match value {
            Value::Word(value) => to.cast::<u32>().write(value),
            Value::Wide(value) => to.cast::<u64>().write(value),
        }
    }
}

c_abi! {
    fn cuPointerGetAttribute(data: *mut c_void, attribute: c_uint, address: CUdeviceptr) {
        call(|m| {
            m.ready()?;
            if data.is_null() {
                return m.refuse(INVALID_VALUE, "the pointer for the attribute is NULL");
            }
            let value = m.pointer_attribute(address, attribute)?;
            write(data, value);
            Ok(())
        })
    }
    fn cuPointerGetAttributes(count: c_uint, attributes: *mut c_uint, data: *mut *mut c_void, address: CUdeviceptr) {
        call(|m| {
            m.ready()?;
            if count == 0 || attributes.is_null() || data.is_null() {
                return m.refuse(INVALID_VALUE, format_args!("{count} attributes of a pointer, or NULL"));
            }
            let (attributes, data) = (
                std::slice::from_raw_parts(attributes, count as usize),
                std::slice::from_raw_parts(data, count as usize),
            );
            if data.iter().any(|to| to.is_null()) {
                return m.refuse(INVALID_VALUE, "a pointer for an attribute is NULL");
            }
            // Those before one that is refused are there already, as the device's driver has it.
            for (attribute, to) in attributes.iter().zip(data) {
                let value = m.one_of_pointer_attributes(address, *attribute)?;
                write(*to, value);
            }
            Ok(())
        })
    }
    fn cuPointerSetAttribute(value: *const c_void, attribute: c_uint, address: CUdeviceptr) {
        call(|m| {
            m.ready()?;
            if value.is_null() {
                return m.refuse(INVALID_VALUE, "the attribute needs a value, and got NULL");
            }
            m.set_pointer_attribute(address, attribute, value.cast::<c_uint>().read())
        })
    }
    fn cuMemGetAddressRange_v2(start: *mut CUdeviceptr, size: *mut usize, address: CUdeviceptr) {
        call(|m| {
            let found = m.address_range(address);
            // While no context is current, it says of any address that nothing is there.
            if let Ok(range) | Err((INVALID_CONTEXT, range)) = found.map_err(|status| (status, (0, 0))) {
                put(start, range.0);
                put(size, range.1);
            }
            found.map(|_| ())
        })
    }
}
