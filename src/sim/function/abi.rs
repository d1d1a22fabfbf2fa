//! The C ABI of the execution chapter: attributes of functions, and launches.

// C functions that read and write through the pointers they are given.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc, clippy::too_many_arguments)]

use super::launch::Asked;
use crate::driver::ffi::*;
use crate::sim::abi::{c_abi, call, give_first, put};
use crate::sim::graph::Parameters;
use crate::sim::machine::*;
use std::os::raw::{c_int, c_uint, c_void};

/// The values of a kernel's parameters, at their offsets.
///
/// # Safety
///
/// `parameters` has a pointer for each parameter, to as many bytes as it has.
pub(in crate::sim) unsafe fn gather(
    machine: &mut Machine,
    function: usize,
    parameters: *mut *mut c_void,
) -> Answer<Parameters> {
    let layout = machine.parameters(function)?;
    let mut values = vec![0; layout.iter().map(|(offset, size)| offset + size).max().unwrap_or(0)];
    if !layout.is_empty() && parameters.is_null() {
        return machine.refuse(INVALID_VALUE, "the kernel has parameters, and got none");
    }
    for (at, (offset, size)) in layout.iter().copied().enumerate() {
        // SAFETY: the caller guarantees the pointers.
        let value = unsafe { std::slice::from_raw_parts((*parameters.add(at)).cast::<u8>(), size) };
        values[offset..offset + size].copy_from_slice(value);
    }
    Ok(Parameters::new(values, &layout.iter().map(|(offset, _)| *offset).collect::<Vec<_>>()))
}

c_abi! {
    fn cuFuncGetAttribute(value: *mut c_int, attribute: c_uint, function: CUfunction) {
        give_first(value, |m| m.function_attribute(function.addr(), attribute))
    }
    fn cuFuncSetAttribute(function: CUfunction, attribute: c_uint, value: c_int) {
        call(|m| m.set_function_attribute(function.addr(), attribute, value))
    }
    fn cuFuncSetCacheConfig(function: CUfunction, config: c_uint) { call(|m| m.set_function_cache(function.addr(), config)) }
    fn cuFuncSetSharedMemConfig(function: CUfunction, config: c_uint) {
        call(|m| m.set_function_banks(function.addr(), config))
    }
    fn cuFuncGetParamInfo(function: CUfunction, index: usize, offset: *mut usize, size: *mut usize) {
        call(|m| {
            let found = m.parameters(function.addr())?.get(index).copied();
            // The answer to whoever counts the parameters; nothing for the log.
            let Some((at, bytes)) = found else { return Err(INVALID_VALUE) };
            if offset.is_null() {
                return m.refuse(INVALID_VALUE, "the offset needs a pointer, and got NULL");
            }
            put(offset, at);
            put(size, bytes);
            Ok(())
        })
    }
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, function: CUfunction, block_size: c_int, shared: usize) {
        give_first(blocks, |m| m.occupancy(function.addr(), block_size, shared))
    }
    fn cuLaunchKernel(function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CUstream, parameters: *mut *mut c_void, extra: *mut *mut c_void) {
        call(|m| {
            if !extra.is_null() {
                return m.refuse(NOT_SUPPORTED, "the simulated driver takes parameters one by one");
            }
            let parameters = gather(m, function.addr(), parameters)?;
            let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
            let (function, shared) = (function.addr(), shared as usize);
            m.launch(&Asked { function, grid, block, shared, cooperative: false }, stream.addr(), parameters)
        })
    }
    fn cuLaunchCooperativeKernel(function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CUstream, parameters: *mut *mut c_void) {
        call(|m| {
            let parameters = gather(m, function.addr(), parameters)?;
            let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
            let (function, shared) = (function.addr(), shared as usize);
            m.launch(&Asked { function, grid, block, shared, cooperative: true }, stream.addr(), parameters)
        })
    }
}
