//! The calls of the memory chapter with Rust's types. Addresses are numbers here; the modules above vouch for them.

// Calls through C function pointers; see `ask!` for what makes them sound, and `Held` for the handles.
#![allow(unsafe_code)]

mod array;
mod pool;

use super::ask;
use crate::driver::ffi::*;
use crate::driver::{Driver, Held, Live};
use crate::error::{CudaError, CudaResult, keep_note};
use std::os::raw::c_void;
use std::ptr;

/// The stream of a copy; without one the copy is done when the call returns.
pub(crate) type Order<'a> = Option<Held<'a, CUstream>>;

/// What memory is filled with, as wide as its elements are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fill {
    D8(u8),
    D16(u16),
    D32(u32),
}

/// The address that a function of the driver wrote for `size` bytes, if it succeeded, and if memory can be there: not at
/// null, and not beyond the last address. Else `undo` gives back what a driver that wrote an address may have made.
#[inline]
pub(in crate::driver::calls) fn placed(
    function: &'static str,
    asked: CudaResult<()>,
    (address, size): (u64, usize),
    undo: impl FnOnce() -> CudaResult<()>,
) -> CudaResult<u64> {
    let is_possible = address != 0 && address.checked_add(size as u64).is_some();
    if asked.is_ok() && is_possible {
        return Ok(address);
    }
    if address != 0 {
        let _note = keep_note();
        let _ = undo();
    }
    asked?;
    let value = address as i64;
    Err(CudaError::UnexpectedValue { function, value }
        .note(format_args!("to call {function}: the driver says that {size} bytes are at {address:#x}")))
}

impl Driver {
    #[inline]
    pub(crate) fn mem_get_info(&self) -> CudaResult<(usize, usize)> {
        let (mut free, mut total) = (0, 0);
        ask!(self.cuMemGetInfo_v2(&mut free, &mut total))?;
        Ok((free, total))
    }

    #[inline]
    pub(crate) fn mem_alloc(&self, size: usize) -> CudaResult<u64> {
        let mut address = 0;
        let asked = ask!(self.cuMemAlloc_v2(&mut address, size));
        // SAFETY: just allocated, and given to nothing else.
        placed("cuMemAlloc_v2", asked, (address, size), || unsafe { self.mem_free(address) })
    }

    pub(crate) fn ipc_get_mem_handle(&self, address: u64) -> CudaResult<CUipcMemHandle> {
        let mut handle = CUipcMemHandle { reserved: [0; 64] };
        ask!(self.cuIpcGetMemHandle(&mut handle, address))?;
        Ok(handle)
    }

    pub(crate) fn ipc_open_mem_handle(&self, handle: CUipcMemHandle, size: usize) -> CudaResult<u64> {
        const LAZY_ENABLE_PEER_ACCESS: u32 = 1;
        let mut address = 0;
        let asked = ask!(self.cuIpcOpenMemHandle_v2(&mut address, handle, LAZY_ENABLE_PEER_ACCESS));
        // SAFETY: just opened, and given to nothing else.
        let close = || unsafe { self.ipc_close_mem_handle(address) };
        placed("cuIpcOpenMemHandle_v2", asked, (address, size), close)
    }

    /// # Safety
    ///
    /// Nothing uses the memory afterwards.
    pub(crate) unsafe fn ipc_close_mem_handle(&self, address: u64) -> CudaResult<()> {
        ask!(self.cuIpcCloseMemHandle(address))
    }

    #[inline]
    pub(crate) fn mem_alloc_managed(&self, size: usize) -> CudaResult<u64> {
        const GLOBAL: u32 = 1;
        let mut address = 0;
        let asked = ask!(self.cuMemAllocManaged(&mut address, size, GLOBAL));
        // SAFETY: just allocated, and given to nothing else.
        placed("cuMemAllocManaged", asked, (address, size), || unsafe { self.mem_free(address) })
    }

    /// The address on the host.
    #[inline]
    pub(crate) fn mem_alloc_host(&self, size: usize) -> CudaResult<u64> {
        let mut memory = ptr::null_mut();
        let asked = ask!(self.cuMemAllocHost_v2(&mut memory, size));
        // SAFETY: just allocated, and given to nothing else.
        placed("cuMemAllocHost_v2", asked, (memory as u64, size), || unsafe { self.mem_free_host(memory) })
    }

    /// # Safety
    ///
    /// Nothing uses the memory afterwards.
    #[inline]
    pub(crate) unsafe fn mem_free(&self, address: u64) -> CudaResult<()> {
        ask!(self.cuMemFree_v2(address))
    }

    /// # Safety
    ///
    /// Nothing uses the memory afterwards.
    #[inline]
    pub(crate) unsafe fn mem_free_host(&self, memory: *mut c_void) -> CudaResult<()> {
        ask!(self.cuMemFreeHost(memory))
    }

    /// # Safety
    ///
    /// The address is valid for writes of `count` elements until the fill is done.
    #[inline]
    pub(crate) unsafe fn fill(&self, to: u64, value: Fill, count: usize, order: Order<'_>) -> CudaResult<()> {
        match (value, order) {
            (Fill::D8(value), None) => ask!(self.cuMemsetD8_v2(to, value, count)),
            (Fill::D16(value), None) => ask!(self.cuMemsetD16_v2(to, value, count)),
            (Fill::D32(value), None) => ask!(self.cuMemsetD32_v2(to, value, count)),
            (Fill::D8(value), Some(stream)) => ask!(self.cuMemsetD8Async(to, value, count, stream.raw())),
            (Fill::D16(value), Some(stream)) => ask!(self.cuMemsetD16Async(to, value, count, stream.raw())),
            (Fill::D32(value), Some(stream)) => ask!(self.cuMemsetD32Async(to, value, count, stream.raw())),
        }
    }

    /// Fills the first `width` elements of each of `height` rows, which are `pitch` bytes apart.
    ///
    /// # Safety
    ///
    /// The rows are valid for writes until the fill is done.
    #[inline]
    pub(crate) unsafe fn fill_rows(
        &self,
        (to, pitch): (u64, usize),
        value: Fill,
        (width, height): (usize, usize),
        order: Order<'_>,
    ) -> CudaResult<()> {
        match (value, order) {
            (Fill::D8(value), None) => ask!(self.cuMemsetD2D8_v2(to, pitch, value, width, height)),
            (Fill::D16(value), None) => ask!(self.cuMemsetD2D16_v2(to, pitch, value, width, height)),
            (Fill::D32(value), None) => ask!(self.cuMemsetD2D32_v2(to, pitch, value, width, height)),
            (Fill::D8(value), Some(stream)) => {
                ask!(self.cuMemsetD2D8Async(to, pitch, value, width, height, stream.raw()))
            }
            (Fill::D16(value), Some(stream)) => {
                ask!(self.cuMemsetD2D16Async(to, pitch, value, width, height, stream.raw()))
            }
            (Fill::D32(value), Some(stream)) => {
                ask!(self.cuMemsetD2D32Async(to, pitch, value, width, height, stream.raw()))
            }
        }
    }

    /// # Safety
    ///
    /// Until the copy is done, the device address is valid for writes, and the host address for reads, of `size` bytes.
    #[inline]
    pub(crate) unsafe fn copy_to_device(
        &self,
        to: u64,
        from: *const c_void,
        size: usize,
        order: Order<'_>,
    ) -> CudaResult<()> {
        match order {
            None => ask!(self.cuMemcpyHtoD_v2(to, from, size)),
            Some(stream) => ask!(self.cuMemcpyHtoDAsync_v2(to, from, size, stream.raw())),
        }
    }

    /// # Safety
    ///
    /// Until the copy is done, the host address is valid for writes of `size` bytes, and the device memory is
    /// initialised and valid for the type that the host reads.
    #[inline]
    pub(crate) unsafe fn copy_to_host(
        &self,
        to: *mut c_void,
        from: u64,
        size: usize,
        order: Order<'_>,
    ) -> CudaResult<()> {
        match order {
            None => ask!(self.cuMemcpyDtoH_v2(to, from, size)),
            Some(stream) => ask!(self.cuMemcpyDtoHAsync_v2(to, from, size, stream.raw())),
        }
    }

    /// # Safety
    ///
    /// Until the copy is done, the addresses are valid for writes and for reads of `size` bytes.
    #[inline]
    pub(crate) unsafe fn copy_on_device(
        &self,
        to: u64,
        from: u64,
        size: usize,
        order: Order<'_>,
    ) -> CudaResult<()> {
        match order {
            None => ask!(self.cuMemcpyDtoD_v2(to, from, size)),
            Some(stream) => ask!(self.cuMemcpyDtoDAsync_v2(to, from, size, stream.raw())),
        }
    }

    /// # Safety
    ///
    /// Like [`copy_on_device`](Self::copy_on_device); each address is of its context.
    #[inline]
    pub(crate) unsafe fn copy_peer(
        &self,
        (to, to_context): (u64, Live<'_>),
        (from, from_context): (u64, Live<'_>),
        size: usize,
        order: Order<'_>,
    ) -> CudaResult<()> {
        let (to_context, from_context) = (to_context.raw(), from_context.raw());
        match order {
            None => ask!(self.cuMemcpyPeer(to, to_context, from, from_context, size)),
            Some(stream) => {
                ask!(self.cuMemcpyPeerAsync(to, to_context, from, from_context, size, stream.raw()))
            }
        }
    }

    /// Copies rows. Between two pieces of device memory, and without a stream, their distances may be any.
    ///
    /// # Safety
    ///
    /// The rows are valid for reads and for writes until the copy is done.
    #[inline]
    pub(crate) unsafe fn copy_rows(&self, copy: &CUDA_MEMCPY2D, order: Order<'_>) -> CudaResult<()> {
        let on_device = copy.srcMemoryType == 2 && copy.dstMemoryType == 2;
        match order {
            None if on_device => ask!(self.cuMemcpy2DUnaligned_v2(copy)),
            None => ask!(self.cuMemcpy2D_v2(copy)),
            Some(stream) => ask!(self.cuMemcpy2DAsync_v2(copy, stream.raw())),
        }
    }

    /// The address, and the driver's distance from row to row.
    #[inline]
    pub(crate) fn mem_alloc_pitch(
        &self,
        width: usize,
        height: usize,
        element: u32,
    ) -> CudaResult<(u64, usize)> {
        let (mut address, mut pitch) = (0, 0);
        let asked = ask!(self.cuMemAllocPitch_v2(&mut address, &mut pitch, width, height, element));
        // Rows do not overlap, whatever the driver says.
        let size = if pitch < width { usize::MAX } else { pitch.saturating_mul(height) };
        // SAFETY: just allocated, and given to nothing else.
        let free = || unsafe { self.mem_free(address) };
        placed("cuMemAllocPitch_v2", asked, (address, size), free).map(|address| (address, pitch))
    }

    /// The address on the host.
    #[inline]
    pub(crate) fn mem_host_alloc(&self, size: usize, flags: u32) -> CudaResult<u64> {
        let mut memory = ptr::null_mut();
        let asked = ask!(self.cuMemHostAlloc(&mut memory, size, flags));
        // SAFETY: just allocated, and given to nothing else.
        placed("cuMemHostAlloc", asked, (memory as u64, size), || unsafe { self.mem_free_host(memory) })
    }

    /// # Safety
    ///
    /// The memory is the program's until it is unregistered.
    #[inline]
    pub(crate) unsafe fn mem_host_register(
        &self,
        memory: *mut c_void,
        size: usize,
        flags: u32,
    ) -> CudaResult<()> {
        ask!(self.cuMemHostRegister_v2(memory, size, flags))
    }

    #[inline]
    pub(crate) fn mem_host_unregister(&self, memory: *mut c_void) -> CudaResult<()> {
        ask!(self.cuMemHostUnregister(memory))
    }

    #[inline]
    pub(crate) fn mem_host_get_device_pointer(&self, memory: *mut c_void) -> CudaResult<u64> {
        let mut address = 0;
        let asked = ask!(self.cuMemHostGetDevicePointer_v2(&mut address, memory, 0));
        placed("cuMemHostGetDevicePointer_v2", asked, (address, 1), || Ok(()))
    }

    #[inline]
    pub(crate) fn mem_host_get_flags(&self, memory: *mut c_void) -> CudaResult<u32> {
        let mut flags = 0;
        ask!(self.cuMemHostGetFlags(&mut flags, memory))?;
        Ok(flags)
    }

    /// Memory in the order of a stream, from this pool or from the current one of the stream's device.
    #[inline]
    pub(crate) fn mem_alloc_async(
        &self,
        size: usize,
        pool: Option<Held<'_, CUmemoryPool>>,
        stream: Held<'_, CUstream>,
    ) -> CudaResult<u64> {
        let mut address = 0;
        let asked = match pool {
            None => ask!(self.cuMemAllocAsync(&mut address, size, stream.raw())),
            Some(pool) => ask!(self.cuMemAllocFromPoolAsync(&mut address, size, pool.raw(), stream.raw())),
        };
        // SAFETY: just allocated, and given to nothing else.
        placed("cuMemAllocAsync", asked, (address, size), || unsafe { self.mem_free_async(address, stream) })
    }

    /// # Safety
    ///
    /// Nothing uses the memory after the present work of the stream.
    #[inline]
    pub(crate) unsafe fn mem_free_async(&self, address: u64, stream: Held<'_, CUstream>) -> CudaResult<()> {
        ask!(self.cuMemFreeAsync(address, stream.raw()))
    }
}
