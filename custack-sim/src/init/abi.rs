//! The C ABI of the initialisation and version chapters.

// C functions that read and write through the pointers that they get.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::DRIVER_VERSION;
use crate::abi::{c_abi, call, give_first};
use custack_sys::ffi::CUresult;
use std::os::raw::{c_int, c_uint};

c_abi! {
    fn cuInit(flags: c_uint) { call(|m| m.init(flags)) }
    fn cuDriverGetVersion(version: *mut c_int) { give_first(version, |_| Ok(DRIVER_VERSION)) }
}
