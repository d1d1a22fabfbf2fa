//! The calls of the execution chapter with Rust types: attributes of functions, and launches.

// Calls through C function pointers; see `ask!` for what makes them sound, and `Held` for the handles.
#![allow(unsafe_code)]

use super::{ask, ask_briefly};
use crate::driver::ffi::*;
use crate::driver::last_kernel::{self, KernelName};
use crate::driver::{Driver, Held};
use crate::error::{CudaError, CudaResult, keep_note};
use std::ffi::{CStr, CString};
use std::ops::Range;
use std::os::raw::{c_char, c_void};
use std::ptr;

/// The launch parameters of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
    pub(crate) cooperative: bool,
    /// Options that few launches need.
    pub(crate) more: More,
}

/// The options of a launch besides its sizes; by default none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct More {
    pub(crate) cluster: Option<[u32; 3]>,
    pub(crate) scheduling: Option<u32>,
    pub(crate) priority: Option<i32>,
    pub(crate) programmatic: bool,
    pub(crate) carveout: Option<u32>,
}

const MOST_ATTRIBUTES: usize = 6;

impl Shape {
    #[inline]
    pub(crate) fn plain(grid: [u32; 3], block: [u32; 3], shared: u32) -> Shape {
        Shape { grid, block, shared, cooperative: false, more: More::default() }
    }

    /// The attributes for a launch, and how many they are.
    pub(super) fn attributes(&self) -> ([CUlaunchAttribute; MOST_ATTRIBUTES], usize) {
        let none = CUlaunchAttribute { id: 0, pad: [0; 4], value: [0; 16] };
        let (mut attributes, mut count) = ([none; MOST_ATTRIBUTES], 0);
        let mut add = |id, value: Option<[u32; 3]>| {
            if let Some(value) = value {
                attributes[count].id = id;
                attributes[count].value[..3].copy_from_slice(&value);
                count += 1;
            }
        };
        let (cooperative, more) = (self.cooperative.then_some([1, 0, 0]), self.more);
        add(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, cooperative);
        add(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, more.cluster);
        let scheduling = more.scheduling.map(|policy| [policy, 0, 0]);
        add(CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, scheduling);
        add(CU_LAUNCH_ATTRIBUTE_PRIORITY, more.priority.map(|priority| [priority as u32, 0, 0]));
        let programmatic = more.programmatic.then_some([1, 0, 0]);
        add(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, programmatic);
        let carveout = more.carveout.map(|percent| [percent, 0, 0]);
        add(CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, carveout);
        (attributes, count)
    }

    /// Calls `f` with the driver's form of this.
    fn config<R>(&self, stream: CUstream, f: impl FnOnce(&CUlaunchConfig) -> R) -> R {
        let (mut attributes, count) = self.attributes();
        let Shape { grid: [gx, gy, gz], block: [bx, by, bz], shared, .. } = *self;
        f(&CUlaunchConfig {
            gridDimX: gx,
            gridDimY: gy,
            gridDimZ: gz,
            blockDimX: bx,
            blockDimY: by,
            blockDimZ: bz,
            sharedMemBytes: shared,
            hStream: stream,
            attrs: attributes.as_mut_ptr(),
            numAttrs: count as u32,
        })
    }
}

impl Driver {
    #[inline]
    pub(crate) fn func_get_attribute(
        &self,
        function: Held<'_, CUfunction>,
        attribute: u32,
    ) -> CudaResult<i32> {
        let mut value = 0;
        ask!(self.cuFuncGetAttribute(&mut value, attribute, function.raw()))?;
        Ok(value)
    }

    #[inline]
    pub(crate) fn func_set_attribute(
        &self,
        function: Held<'_, CUfunction>,
        attribute: u32,
        value: i32,
    ) -> CudaResult<()> {
        ask!(self.cuFuncSetAttribute(function.raw(), attribute, value))
    }

    #[inline]
    pub(crate) fn func_set_cache_config(
        &self,
        function: Held<'_, CUfunction>,
        config: u32,
    ) -> CudaResult<()> {
        ask!(self.cuFuncSetCacheConfig(function.raw(), config))
    }

    #[inline]
    pub(crate) fn func_set_shared_mem_config(
        &self,
        function: Held<'_, CUfunction>,
        config: u32,
    ) -> CudaResult<()> {
        ask!(self.cuFuncSetSharedMemConfig(function.raw(), config))
    }

    /// The size of each parameter of a kernel, in bytes; `None` if the driver does not tell, like one that is too old.
    /// Whatever it answers leaves no note.
    #[inline]
    pub(crate) fn func_get_param_sizes(&self, function: Held<'_, CUfunction>) -> Option<Box<[usize]>> {
        let mut sizes = Vec::new();
        loop {
            let (mut offset, mut size) = (0, usize::MAX);
            let index = sizes.len();
            match ask_briefly!(self.cuFuncGetParamInfo(function.raw(), index, &mut offset, &mut size)) {
                Ok(()) => sizes.push(size),
                // The driver has no other way to say how many there are; it has written nothing then.
                Err(failed) if failed.is(CudaError::InvalidValue) && size == usize::MAX => {
                    return Some(sizes.into());
                }
                Err(_) => return None,
            }
        }
    }

    /// The byte range of each parameter of a kernel; `None` if the driver is too old to say.
    #[inline]
    pub(crate) fn func_get_parameters(
        &self,
        function: Held<'_, CUfunction>,
    ) -> CudaResult<Option<Vec<Range<usize>>>> {
        parameters(|index, offset, size| ask!(self.cuFuncGetParamInfo(function.raw(), index, offset, size)))
    }

    #[inline]
    pub(crate) fn func_get_name(&self, function: Held<'_, CUfunction>) -> CudaResult<CString> {
        let mut name = ptr::null();
        ask!(self.cuFuncGetName(&mut name, function.raw()))?;
        // SAFETY: the driver wrote where the name is, which is the module's.
        Ok(unsafe { text_at(name) })
    }

    #[inline]
    pub(crate) fn func_get_module(&self, function: Held<'_, CUfunction>) -> CudaResult<CUmodule> {
        let mut module = ptr::null_mut();
        ask!(self.cuFuncGetModule(&mut module, function.raw()))?;
        Ok(module)
    }

    #[inline]
    pub(crate) fn func_is_loaded(&self, function: Held<'_, CUfunction>) -> CudaResult<bool> {
        let mut state = 0;
        ask!(self.cuFuncIsLoaded(&mut state, function.raw()))?;
        Ok(state != 0)
    }

    #[inline]
    pub(crate) fn func_load(&self, function: Held<'_, CUfunction>) -> CudaResult<()> {
        ask!(self.cuFuncLoad(function.raw()))
    }

    #[inline]
    pub(crate) fn occupancy_available_dynamic_smem_per_block(
        &self,
        function: Held<'_, CUfunction>,
        blocks: i32,
        block_size: i32,
    ) -> CudaResult<usize> {
        let mut bytes = 0;
        ask!(self.cuOccupancyAvailableDynamicSMemPerBlock(&mut bytes, function.raw(), blocks, block_size))?;
        Ok(bytes)
    }

    #[inline]
    pub(crate) fn occupancy_max_active_clusters(
        &self,
        function: Held<'_, CUfunction>,
        shape: Shape,
    ) -> CudaResult<i32> {
        let mut clusters = 0;
        shape.config(ptr::null_mut(), |config| {
            ask!(self.cuOccupancyMaxActiveClusters(&mut clusters, function.raw(), config))
        })?;
        Ok(clusters)
    }

    #[inline]
    pub(crate) fn occupancy_max_potential_cluster_size(
        &self,
        function: Held<'_, CUfunction>,
        shape: Shape,
    ) -> CudaResult<i32> {
        let mut size = 0;
        shape.config(ptr::null_mut(), |config| {
            ask!(self.cuOccupancyMaxPotentialClusterSize(&mut size, function.raw(), config))
        })?;
        Ok(size)
    }

    #[inline]
    pub(crate) fn occupancy_max_active_blocks_per_multiprocessor(
        &self,
        function: Held<'_, CUfunction>,
        block_size: i32,
        shared: usize,
    ) -> CudaResult<i32> {
        let mut blocks = 0;
        ask!(self.cuOccupancyMaxActiveBlocksPerMultiprocessor(
            &mut blocks,
            function.raw(),
            block_size,
            shared
        ))?;
        Ok(blocks)
    }

    /// # Safety
    ///
    /// `parameters` has a pointer for each of the kernel's parameters, to a value of its type, and the kernel's effects
    /// are sound.
    #[inline]
    pub(crate) unsafe fn launch_kernel(
        &self,
        function: Held<'_, CUfunction>,
        name: KernelName,
        shape: Shape,
        stream: Held<'_, CUstream>,
        parameters: &[*mut c_void],
    ) -> CudaResult<()> {
        let Shape { grid: [gx, gy, gz], block: [bx, by, bz], shared, cooperative, more } = shape;
        let (function, stream) = (function.raw(), stream.raw());
        let parameters = parameters.as_ptr().cast_mut();
        if more != More::default() {
            shape.config(stream, |config| {
                ask!(self.cuLaunchKernelEx(config, function, parameters, ptr::null_mut()))
            })?;
        } else if cooperative {
            ask!(
                self.cuLaunchCooperativeKernel(function, gx, gy, gz, bx, by, bz, shared, stream, parameters)
            )?;
        } else {
            let extra = ptr::null_mut();
            ask!(self.cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra))?;
        }
        last_kernel::launched(name);
        Ok(())
    }
}

/// Asks for one parameter after the other; `None` if the driver is too old to say.
pub(super) fn parameters(
    ask: impl Fn(usize, *mut usize, *mut usize) -> CudaResult<()>,
) -> CudaResult<Option<Vec<Range<usize>>>> {
    let mut found = Vec::new();
    loop {
        let (mut offset, mut size) = (0, 0);
        let answer = {
            let _note = keep_note();
            ask(found.len(), &mut offset, &mut size)
        };
        match answer {
            Ok(()) => found.push(offset..offset + size),
            // The driver has no other way to say how many there are.
            Err(CudaError::InvalidValue) => return Ok(Some(found)),
            Err(CudaError::CallRequiresNewerDriver) => return Ok(None),
            Err(error) => return Err(error.note(format_args!("to ask for the parameters of a kernel"))),
        }
    }
}

/// A copy of a text of the driver's; an empty one for null.
///
/// # Safety
///
/// The pointer is null, or leads to a text with a final NUL.
pub(super) unsafe fn text_at(text: *const c_char) -> CString {
    if text.is_null() {
        return CString::default();
    }
    // SAFETY: not null, and the caller vouches for the rest.
    unsafe { CStr::from_ptr(text) }.to_owned()
}
