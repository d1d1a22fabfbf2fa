//! The calls of the context chapters (contexts, primary contexts, peer access) with Rust types.

// Calls through C function pointers; see `ask!` for what makes them sound.
#![allow(unsafe_code)]

mod green;

use super::{ask, ask_briefly};
use crate::driver::ffi::*;
use crate::driver::{Driver, Failed, Held, Live};
use crate::error::CudaResult;
use std::ptr;

impl Driver {
    /// Returns the handle even with an error: a driver that fails after it has made the context has written it.
    #[inline]
    pub(crate) fn ctx_create(&self, flags: u32, device: CUdevice) -> (CudaResult<()>, CUcontext) {
        let mut context = ptr::null_mut();
        (ask!(self.cuCtxCreate_v2(&mut context, flags, device)), context)
    }

    #[inline]
    pub(crate) fn ctx_create_with_affinity(
        &self,
        sm_count: u32,
        flags: u32,
        device: CUdevice,
    ) -> (CudaResult<()>, CUcontext) {
        let mut context = ptr::null_mut();
        let mut affinity = CUexecAffinityParam { kind: CU_EXEC_AFFINITY_TYPE_SM_COUNT, sm_count };
        (ask!(self.cuCtxCreate_v3(&mut context, &mut affinity, 1, flags, device)), context)
    }

    #[inline]
    pub(crate) fn ctx_destroy(&self, context: Live<'_>) -> CudaResult<()> {
        ask!(self.cuCtxDestroy_v2(context.raw()))
    }

    #[inline]
    pub(crate) fn try_push(&self, context: Live<'_>) -> Result<(), Failed> {
        ask_briefly!(self.cuCtxPushCurrent_v2(context.raw()))
    }

    #[inline]
    pub(crate) fn try_pop(&self) -> Result<CUcontext, Failed> {
        let mut context = ptr::null_mut();
        ask_briefly!(self.cuCtxPopCurrent_v2(&mut context))?;
        Ok(context)
    }

    #[inline]
    pub(crate) fn try_set(&self, context: Live<'_>) -> Result<(), Failed> {
        ask_briefly!(self.cuCtxSetCurrent(context.raw()))
    }

    #[inline]
    pub(crate) fn try_get(&self) -> Result<CUcontext, Failed> {
        let mut context = ptr::null_mut();
        ask_briefly!(self.cuCtxGetCurrent(&mut context))?;
        Ok(context)
    }

    #[inline]
    pub(crate) fn ctx_push_current(&self, context: Live<'_>) -> CudaResult<()> {
        self.try_push(context).map_err(|failed| failed.of("cuCtxPushCurrent_v2"))
    }

    #[inline]
    pub(crate) fn ctx_pop_current(&self) -> CudaResult<CUcontext> {
        self.try_pop().map_err(|failed| failed.of("cuCtxPopCurrent_v2"))
    }

    #[inline]
    pub(crate) fn ctx_set_current(&self, context: Live<'_>) -> CudaResult<()> {
        self.try_set(context).map_err(|failed| failed.of("cuCtxSetCurrent"))
    }

    #[inline]
    pub(crate) fn ctx_get_current(&self) -> CudaResult<CUcontext> {
        self.try_get().map_err(|failed| failed.of("cuCtxGetCurrent"))
    }

    /// `cuCtxSetCurrent(NULL)`: pops the top entry, or does nothing on an empty stack.
    #[inline]
    pub(crate) fn ctx_unset_current(&self) -> CudaResult<()> {
        ask!(self.cuCtxSetCurrent(ptr::null_mut()))
    }

    #[inline]
    pub(crate) fn ctx_get_device(&self) -> CudaResult<CUdevice> {
        let mut device = 0;
        ask!(self.cuCtxGetDevice(&mut device))?;
        Ok(device)
    }

    #[inline]
    pub(crate) fn ctx_get_flags(&self) -> CudaResult<u32> {
        let mut flags = 0;
        ask!(self.cuCtxGetFlags(&mut flags))?;
        Ok(flags)
    }

    /// Takes the current context as a [`Live`] because this call, unlike others, crashes on a destroyed context.
    #[inline]
    pub(crate) fn ctx_set_flags(&self, _current: Live<'_>, flags: u32) -> CudaResult<()> {
        ask!(self.cuCtxSetFlags(flags))
    }

    #[inline]
    pub(crate) fn ctx_get_id(&self, context: Live<'_>) -> CudaResult<u64> {
        let mut id = 0;
        ask!(self.cuCtxGetId(context.raw(), &mut id))?;
        Ok(id)
    }

    #[inline]
    pub(crate) fn ctx_synchronize(&self) -> CudaResult<()> {
        ask!(self.cuCtxSynchronize())
    }

    #[inline]
    pub(crate) fn ctx_get_limit(&self, limit: u32) -> CudaResult<usize> {
        let mut value = 0;
        ask!(self.cuCtxGetLimit(&mut value, limit))?;
        Ok(value)
    }

    #[inline]
    pub(crate) fn ctx_set_limit(&self, limit: u32, value: usize) -> CudaResult<()> {
        ask!(self.cuCtxSetLimit(limit, value))
    }

    #[inline]
    pub(crate) fn ctx_get_cache_config(&self) -> CudaResult<u32> {
        let mut config = 0;
        ask!(self.cuCtxGetCacheConfig(&mut config))?;
        Ok(config)
    }

    #[inline]
    pub(crate) fn ctx_set_cache_config(&self, config: u32) -> CudaResult<()> {
        ask!(self.cuCtxSetCacheConfig(config))
    }

    #[inline]
    pub(crate) fn ctx_get_shared_mem_config(&self) -> CudaResult<u32> {
        let mut config = 0;
        ask!(self.cuCtxGetSharedMemConfig(&mut config))?;
        Ok(config)
    }

    #[inline]
    pub(crate) fn ctx_set_shared_mem_config(&self, config: u32) -> CudaResult<()> {
        ask!(self.cuCtxSetSharedMemConfig(config))
    }

    #[inline]
    pub(crate) fn ctx_get_api_version(&self, context: Live<'_>) -> CudaResult<u32> {
        let mut version = 0;
        ask!(self.cuCtxGetApiVersion(context.raw(), &mut version))?;
        Ok(version)
    }

    /// `cuCtxGetApiVersion(NULL)`: that of the current context; safe on a destroyed one, where it returns 709.
    #[inline]
    pub(crate) fn ctx_get_current_api_version(&self) -> CudaResult<u32> {
        let mut version = 0;
        ask!(self.cuCtxGetApiVersion(ptr::null_mut(), &mut version))?;
        Ok(version)
    }

    #[inline]
    pub(crate) fn ctx_get_stream_priority_range(&self) -> CudaResult<(i32, i32)> {
        let (mut least, mut greatest) = (0, 0);
        ask!(self.cuCtxGetStreamPriorityRange(&mut least, &mut greatest))?;
        Ok((least, greatest))
    }

    #[inline]
    pub(crate) fn ctx_reset_persisting_l2_cache(&self) -> CudaResult<()> {
        ask!(self.cuCtxResetPersistingL2Cache())
    }

    #[inline]
    pub(crate) fn ctx_get_exec_affinity(&self) -> CudaResult<u32> {
        let mut affinity = CUexecAffinityParam::default();
        ask!(self.cuCtxGetExecAffinity(&mut affinity, CU_EXEC_AFFINITY_TYPE_SM_COUNT))?;
        Ok(affinity.sm_count)
    }

    /// Here, as green contexts are destroyed where all contexts are.
    #[inline]
    pub(crate) fn green_ctx_destroy(&self, green: Held<'_, CUgreenCtx>) -> CudaResult<()> {
        ask!(self.cuGreenCtxDestroy(green.raw()))
    }

    #[inline]
    pub(crate) fn ctx_record_event(&self, context: Live<'_>, event: Held<'_, CUevent>) -> CudaResult<()> {
        ask!(self.cuCtxRecordEvent(context.raw(), event.raw()))
    }

    #[inline]
    pub(crate) fn ctx_wait_event(&self, context: Live<'_>, event: Held<'_, CUevent>) -> CudaResult<()> {
        ask!(self.cuCtxWaitEvent(context.raw(), event.raw()))
    }

    /// Waits for all work of a context that need not be current.
    #[inline]
    pub(crate) fn ctx_synchronize_named(&self, context: Live<'_>) -> CudaResult<()> {
        ask!(self.cuCtxSynchronize_v2(context.raw()))
    }

    #[inline]
    pub(crate) fn ctx_enable_peer_access(&self, peer: Live<'_>) -> CudaResult<()> {
        ask!(self.cuCtxEnablePeerAccess(peer.raw(), 0))
    }

    #[inline]
    pub(crate) fn ctx_disable_peer_access(&self, peer: Live<'_>) -> CudaResult<()> {
        ask!(self.cuCtxDisablePeerAccess(peer.raw()))
    }

    /// Returns the handle even with an error, like [`ctx_create`](Self::ctx_create).
    #[inline]
    pub(crate) fn primary_ctx_retain(&self, device: CUdevice) -> (CudaResult<()>, CUcontext) {
        let mut context = ptr::null_mut();
        (ask!(self.cuDevicePrimaryCtxRetain(&mut context, device)), context)
    }

    #[inline]
    pub(crate) fn primary_ctx_release(&self, device: CUdevice) -> CudaResult<()> {
        ask!(self.cuDevicePrimaryCtxRelease_v2(device))
    }

    #[inline]
    pub(crate) fn primary_ctx_set_flags(&self, device: CUdevice, flags: u32) -> CudaResult<()> {
        ask!(self.cuDevicePrimaryCtxSetFlags_v2(device, flags))
    }

    #[inline]
    pub(crate) fn primary_ctx_get_state(&self, device: CUdevice) -> CudaResult<(u32, bool)> {
        let (mut flags, mut active) = (0, 0);
        ask!(self.cuDevicePrimaryCtxGetState(device, &mut flags, &mut active))?;
        Ok((flags, active != 0))
    }

    #[inline]
    pub(crate) fn primary_ctx_reset(&self, device: CUdevice) -> CudaResult<()> {
        ask!(self.cuDevicePrimaryCtxReset_v2(device))
    }
}
