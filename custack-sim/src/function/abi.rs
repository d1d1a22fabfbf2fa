//! The C ABI of the execution chapter: attributes of functions, and launches.

// C functions that read and write through the pointers that they get.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc, clippy::too_many_arguments)]

mod occupancy;
mod parameters;

pub(crate) use occupancy::*;
pub(crate) use parameters::gather;

use super::cluster::INVALID_CLUSTER_SIZE;
use super::launch::{Asked, LAST_DEFAULT_STREAM};
use crate::abi::{c_abi, call, give, give_first, put};
use crate::machine::*;
use crate::memory;
use crate::stream::Moment;
use custack_sys::ffi::*;
use std::collections::BTreeMap;
use std::os::raw::{c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

/// Launches; where launches block, the call waits for the kernel, and returns its error.
fn launch(stream: CUstream, launch: impl FnOnce(&mut Machine) -> Answer<()>) -> CUresult {
    let mut kernel = None;
    let status = call(|m| {
        launch(m)?;
        if m.launches_block && !m.capturing(stream.addr())? {
            kernel = Some(Moment::behind(&m.stream_of(stream.addr())?.queue));
        }
        Ok(())
    });
    let Some(kernel) = kernel else { return status };
    kernel.wait();
    memory::lock().after_wait();
    call(|m| m.stream_of(stream.addr()).map(|_| ()))
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
            if function.is_null() || offset.is_null() {
                return m.refuse(INVALID_VALUE, "the function or the pointer for the offset is NULL");
            }
            let found = m.parameter(function.addr(), index)?;
            // The answer to whoever counts the parameters; nothing for the log.
            let Some((at, bytes)) = found else { return Err(INVALID_VALUE) };
            put(offset, at);
            put(size, bytes);
            Ok(())
        })
    }
    fn cuLaunchKernel(function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CUstream, parameters: *mut *mut c_void, extra: *mut *mut c_void) {
        launch(stream, |m| {
            let function = m.function_to_launch(function.addr(), stream.addr())?;
            let parameters = gather(m, function, parameters, extra)?;
            let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
            let (shared, stream) = (shared as usize, stream.addr());
            m.launch(&Asked { function, grid, block, shared, cooperative: false, cluster: None, scheduling: 0, kept: BTreeMap::new() }, stream, parameters)
        })
    }
    fn cuLaunchCooperativeKernel(function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CUstream, parameters: *mut *mut c_void) {
        launch(stream, |m| {
            let function = m.function_to_launch(function.addr(), stream.addr())?;
            let parameters = gather(m, function, parameters, null_mut())?;
            let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
            let (shared, stream) = (shared as usize, stream.addr());
            m.launch(&Asked { function, grid, block, shared, cooperative: true, cluster: None, scheduling: 0, kept: BTreeMap::new() }, stream, parameters)
        })
    }
    fn cuLaunchKernelEx(config: *const CUlaunchConfig, function: CUfunction, parameters: *mut *mut c_void, extra: *mut *mut c_void) {
        let stream = if config.is_null() { null_mut() } else { (*config).hStream };
        launch(stream, |m| {
            let stream = stream.addr();
            let function = if config.is_null() { function } else { m.function_to_launch(function.addr(), stream)? as CUfunction };
            not_broken(m, config)?;
            if function.is_null() && !config.is_null() {
                return m.refuse(INVALID_HANDLE, "the function is NULL");
            }
            if !config.is_null() {
                m.is_of_stream_to_launch(function.addr(), stream)?;
            }
            let mut asked = asked(m, function, config, true)?;
            m.check_block(stream, asked.block)?;
            asked.function = function.addr();
            let parameters = gather(m, asked.function, parameters, extra)?;
            m.launch(&asked, stream, parameters)
        })
    }
    fn cuFuncGetName(name: *mut *const c_char, function: CUfunction) {
        call(|m| {
            if function.is_null() {
                return m.refuse(INVALID_VALUE, "the function is NULL");
            }
            if name.is_null() {
                return m.refuse(INVALID_VALUE, "the pointer for the result is NULL");
            }
            let found = m.function_name(function.addr())?;
            name.write(found.as_ptr());
            Ok(())
        })
    }
    fn cuFuncGetModule(module: *mut CUmodule, function: CUfunction) {
        call(|m| {
            if function.is_null() || module.is_null() {
                return m.refuse(INVALID_VALUE, "the function or the pointer for the result is NULL");
            }
            module.write(m.module_of(function.addr())? as CUmodule);
            Ok(())
        })
    }
    fn cuFuncIsLoaded(state: *mut c_uint, function: CUfunction) {
        give_first(state, |m| m.is_loaded(function.addr()).map(c_uint::from))
    }
    fn cuFuncLoad(function: CUfunction) { call(|m| m.load_function(function.addr())) }
    fn cuOccupancyAvailableDynamicSMemPerBlock(bytes: *mut usize, function: CUfunction, blocks: c_int, block_size: c_int) {
        give(bytes, |m| {
            m.healthy_current()?;
            if blocks <= 0 {
                return m.refuse(INVALID_VALUE, format_args!("{blocks} blocks at once"));
            }
            let function = m.of_kernel(function.addr())?;
            let answer = m.available_shared(function, blocks, block_size)?;
            if bytes.is_null() {
                return m.misuse(INVALID_VALUE, "the pointer for the bytes is NULL");
            }
            Ok(answer)
        })
    }
    fn cuOccupancyMaxActiveClusters(clusters: *mut c_int, function: CUfunction, config: *const CUlaunchConfig) {
        give_first(clusters, |m| {
            if function.is_null() {
                return m.refuse(INVALID_VALUE, "the function is NULL");
            }
            let asked = asked_of_clusters(m, function, config)?;
            m.max_active_clusters(&asked)
        })
    }
    fn cuOccupancyMaxPotentialClusterSize(size: *mut c_int, function: CUfunction, config: *const CUlaunchConfig) {
        give_first(size, |m| {
            if function.is_null() {
                return m.refuse(INVALID_VALUE, "the function is NULL");
            }
            let asked = asked_of_clusters(m, function, config)?;
            m.max_potential_cluster_size(&asked)
        })
    }
}

/// What a configuration asks for, whose stream is in no broken capture and of the function's context.
///
/// # Safety
///
/// As for [`asked`].
unsafe fn asked_of_clusters(
    m: &mut Machine,
    function: CUfunction,
    config: *const CUlaunchConfig,
) -> Answer<Asked> {
    // SAFETY: as the caller guarantees.
    unsafe {
        not_broken(m, config)?;
        let mut function = function.addr();
        if let Some(config) = config.as_ref() {
            // A default stream stands for what is current; no capture forbids to ask.
            let stream = config.hStream.addr();
            function =
                m.function_in_stream(function, if stream <= LAST_DEFAULT_STREAM { 0 } else { stream })?;
            m.is_of_stream(function, stream)?;
        }
        let mut asked = asked(m, function as CUfunction, config, false)?;
        asked.function = function;
        Ok(asked)
    }
}

/// Refuses a configuration whose stream is in a broken capture.
///
/// # Safety
///
/// `config` is NULL or may be read.
unsafe fn not_broken(machine: &mut Machine, config: *const CUlaunchConfig) -> Answer<()> {
    // SAFETY: as the caller guarantees.
    match unsafe { config.as_ref() } {
        Some(config) => machine.capturing(config.hStream.addr()).map(|_| ()),
        None => Ok(()),
    }
}

/// What a configuration asks for. A launch whose block cannot be is refused for that, and not for clusters of no blocks,
/// unless its stream captures.
///
/// # Safety
///
/// `config` is NULL, or has as many attributes as it says.
unsafe fn asked(
    machine: &mut Machine,
    function: CUfunction,
    config: *const CUlaunchConfig,
    to_launch: bool,
) -> Answer<Asked> {
    if config.is_null() {
        return machine.refuse(INVALID_VALUE, "the configuration is NULL");
    }
    // SAFETY: not NULL, and the caller guarantees the rest.
    let config = unsafe { config.read() };
    let mut asked = Asked {
        function: function.addr(),
        grid: [config.gridDimX, config.gridDimY, config.gridDimZ],
        block: [config.blockDimX, config.blockDimY, config.blockDimZ],
        shared: config.sharedMemBytes as usize,
        cooperative: false,
        cluster: None,
        scheduling: 0,
        kept: BTreeMap::new(),
    };
    if config.attrs.is_null() && config.numAttrs > 0 {
        return machine.refuse(INVALID_VALUE, "there are attributes, and the pointer for them is NULL");
    }
    let other_fault =
        to_launch && !Asked::is_block(asked.block) && !machine.capturing(config.hStream.addr())?;
    for at in 0..config.numAttrs as usize {
        // SAFETY: the caller guarantees as many.
        let attribute = unsafe { config.attrs.add(at).read() };
        let [x, y, z, ..] = attribute.value;
        if Asked::is_empty_cluster(attribute.id, [x, y, z]) && !other_fault {
            return machine.refuse(INVALID_CLUSTER_SIZE, "clusters of no blocks");
        }
        if !asked.add(attribute.id, [x, y, z]) {
            let why = format!("attribute {} of a launch cannot be {x}, or there is none", attribute.id);
            return machine.refuse(INVALID_VALUE, why);
        }
    }
    Ok(asked)
}
