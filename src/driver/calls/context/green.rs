//! The calls of green contexts, and of the resources that they are made from, with Rust types.

// Calls through C function pointers; see `ask!` for what makes them sound, and `Held` for the handles.
#![allow(unsafe_code)]

use crate::driver::calls::{ask, made};
use crate::driver::ffi::*;
use crate::driver::{Driver, Held, Live};
use crate::error::CudaResult;
use std::ptr;

/// Where a call writes a resource.
const NOTHING: CUdevResource = CUdevResource { kind: 0, internal: [0; 92], sm: [0; 3], reserved: [0; 9] };
const NON_BLOCKING: u32 = 1;

impl Driver {
    #[inline]
    pub(crate) fn device_get_dev_resource(&self, device: CUdevice) -> CudaResult<CUdevResource> {
        let mut resource = NOTHING;
        ask!(self.cuDeviceGetDevResource(device, &mut resource, CU_DEV_RESOURCE_TYPE_SM))?;
        Ok(resource)
    }

    #[inline]
    pub(crate) fn ctx_get_dev_resource(&self, context: Live<'_>) -> CudaResult<CUdevResource> {
        let mut resource = NOTHING;
        ask!(self.cuCtxGetDevResource(context.raw(), &mut resource, CU_DEV_RESOURCE_TYPE_SM))?;
        Ok(resource)
    }

    /// Of the device's, how the work queues are chosen.
    #[inline]
    pub(crate) fn device_get_workqueue_config(&self, device: CUdevice) -> CudaResult<CUdevResource> {
        let mut resource = NOTHING;
        ask!(self.cuDeviceGetDevResource(device, &mut resource, CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG))?;
        Ok(resource)
    }

    /// Of the context's, how the work queues are chosen.
    #[inline]
    pub(crate) fn ctx_get_workqueue_config(&self, context: Live<'_>) -> CudaResult<CUdevResource> {
        let mut resource = NOTHING;
        ask!(self.cuCtxGetDevResource(context.raw(), &mut resource, CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG))?;
        Ok(resource)
    }

    #[inline]
    pub(crate) fn stream_get_dev_resource(&self, stream: Held<'_, CUstream>) -> CudaResult<CUdevResource> {
        let mut resource = NOTHING;
        ask!(self.cuStreamGetDevResource(stream.raw(), &mut resource, CU_DEV_RESOURCE_TYPE_SM))?;
        Ok(resource)
    }

    #[inline]
    pub(crate) fn green_ctx_get_dev_resource(
        &self,
        green: Held<'_, CUgreenCtx>,
    ) -> CudaResult<CUdevResource> {
        let mut resource = NOTHING;
        ask!(self.cuGreenCtxGetDevResource(green.raw(), &mut resource, CU_DEV_RESOURCE_TYPE_SM))?;
        Ok(resource)
    }

    /// Splits into at most `room` groups; what is left over is a resource of no kind if there is nothing.
    #[inline]
    pub(crate) fn dev_sm_resource_split_by_count(
        &self,
        input: &CUdevResource,
        room: u32,
        flags: u32,
        least: u32,
    ) -> CudaResult<(Vec<CUdevResource>, CUdevResource)> {
        let (mut groups, mut count, mut rest) = (vec![NOTHING; room as usize], room, NOTHING);
        let to = groups.as_mut_ptr();
        ask!(self.cuDevSmResourceSplitByCount(to, &mut count, input, &mut rest, flags, least))?;
        groups.truncate(count as usize);
        Ok((groups, rest))
    }

    /// The caller gives at least one resource: the driver crashes where there is none.
    #[inline]
    pub(crate) fn dev_resource_generate_desc(
        &self,
        resources: &mut [CUdevResource],
    ) -> CudaResult<CUdevResourceDesc> {
        let (mut description, count) = (ptr::null_mut(), u32::try_from(resources.len()).unwrap_or(u32::MAX));
        ask!(self.cuDevResourceGenerateDesc(&mut description, resources.as_mut_ptr(), count))?;
        Ok(description)
    }

    /// Returns the handle even with an error: a driver that fails after it has made the context has written it.
    #[inline]
    pub(crate) fn green_ctx_create(
        &self,
        description: Held<'_, CUdevResourceDesc>,
        device: CUdevice,
    ) -> (CudaResult<()>, CUgreenCtx) {
        let mut green = ptr::null_mut();
        let flags = CU_GREEN_CTX_DEFAULT_STREAM;
        (ask!(self.cuGreenCtxCreate(&mut green, description.raw(), device, flags)), green)
    }

    #[inline]
    pub(crate) fn ctx_from_green_ctx(&self, green: Held<'_, CUgreenCtx>) -> CudaResult<CUcontext> {
        let mut context = ptr::null_mut();
        ask!(self.cuCtxFromGreenCtx(&mut context, green.raw()))?;
        Ok(context)
    }

    #[inline]
    pub(crate) fn green_ctx_get_id(&self, green: Held<'_, CUgreenCtx>) -> CudaResult<u64> {
        let mut id = 0;
        ask!(self.cuGreenCtxGetId(green.raw(), &mut id))?;
        Ok(id)
    }

    #[inline]
    pub(crate) fn green_ctx_stream_create(
        &self,
        green: Held<'_, CUgreenCtx>,
        priority: i32,
    ) -> CudaResult<CUstream> {
        let mut stream = ptr::null_mut();
        made!(
            self,
            ask!(self.cuGreenCtxStreamCreate(&mut stream, green.raw(), NON_BLOCKING, priority)),
            stream,
            stream_destroy
        )
    }

    #[inline]
    pub(crate) fn green_ctx_record_event(
        &self,
        green: Held<'_, CUgreenCtx>,
        event: Held<'_, CUevent>,
    ) -> CudaResult<()> {
        ask!(self.cuGreenCtxRecordEvent(green.raw(), event.raw()))
    }

    #[inline]
    pub(crate) fn green_ctx_wait_event(
        &self,
        green: Held<'_, CUgreenCtx>,
        event: Held<'_, CUevent>,
    ) -> CudaResult<()> {
        ask!(self.cuGreenCtxWaitEvent(green.raw(), event.raw()))
    }

    /// The green context of a stream, or null.
    #[inline]
    pub(crate) fn stream_get_green_ctx(&self, stream: Held<'_, CUstream>) -> CudaResult<CUgreenCtx> {
        let (mut context, mut green) = (ptr::null_mut(), ptr::null_mut());
        ask!(self.cuStreamGetCtx_v2(stream.raw(), &mut context, &mut green))?;
        Ok(green)
    }
}
