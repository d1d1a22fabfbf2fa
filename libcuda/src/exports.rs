//! The exported functions. The build script writes them, from custack's list and from `symbols.tsv`.

#![allow(non_snake_case, reason = "they have the names of C")]

use super::Symbol;
use super::address::{cuGetProcAddress, cuGetProcAddress_v2};
use super::driver::{call, cuLaunchKernelEx_ptsz, in_stream_of_thread, missing, per_thread};
use super::errors::{cuGetErrorName, cuGetErrorString, cuGetExportTable};
use super::kernel_nodes::*;
use super::launch::*;
use super::old::*;
use custack_sys::ffi::*;
use std::os::raw::{c_char, c_int, c_uint, c_ulonglong, c_void};

include!(concat!(env!("OUT_DIR"), "/exports.rs"));
