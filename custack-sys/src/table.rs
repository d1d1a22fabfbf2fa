//! Every driver function, declared once: its symbol, its signature, and the CUDA version that introduced it.
//!
//! Everything else is generated from this list: the [`Table`], the stubs for symbols that an older driver lacks, the
//! native table (by looking each name up), the simulated one (from the functions of the same names), and the instrument
//! layer. A function added only here does not compile: the simulated driver has to define it.

/// Passes the whole list to the macro named in the parentheses.
#[macro_export]
macro_rules! for_each_function {
    ($then:ident) => {
        $then! {
            // Initialisation and version
            2000 fn cuInit(flags: c_uint);
            2020 fn cuDriverGetVersion(version: *mut c_int);

            // Devices
            2000 fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
            2000 fn cuDeviceGetCount(count: *mut c_int);
            2000 fn cuDeviceGetName(name: *mut c_char, len: c_int, device: CUdevice);
            9020 fn cuDeviceGetUuid(uuid: *mut CUuuid, device: CUdevice);
            11040 fn cuDeviceGetUuid_v2(uuid: *mut CUuuid, device: CUdevice);
            10000 fn cuDeviceGetLuid(luid: *mut c_char, node_mask: *mut c_uint, device: CUdevice);
            3020 fn cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice);
            11010 fn cuDeviceGetTexture1DLinearMaxWidth(elements: *mut usize, format: c_uint, channels: c_uint, device: CUdevice);
            2000 fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: CUdevice);
            13000 fn cuDeviceGetHostAtomicCapabilities(capabilities: *mut c_uint, operations: *const c_uint, count: c_uint, device: CUdevice);
            10020 fn cuDeviceGetNvSciSyncAttributes(list: *mut c_void, device: CUdevice, flags: c_int);
            11020 fn cuDeviceSetMemPool(device: CUdevice, pool: CUmemoryPool);
            11020 fn cuDeviceGetMemPool(pool: *mut CUmemoryPool, device: CUdevice);
            11020 fn cuDeviceGetDefaultMemPool(pool: *mut CUmemoryPool, device: CUdevice);
            11040 fn cuDeviceGetExecAffinitySupport(supported: *mut c_int, kind: c_uint, device: CUdevice);
            11030 fn cuFlushGPUDirectRDMAWrites(target: c_uint, scope: c_uint);
            2000 fn cuDeviceGetProperties(properties: *mut CUdevprop, device: CUdevice);
            2000 fn cuDeviceComputeCapability(major: *mut c_int, minor: *mut c_int, device: CUdevice);
            4010 fn cuDeviceGetByPCIBusId(device: *mut CUdevice, bus_id: *const c_char);
            4010 fn cuDeviceGetPCIBusId(bus_id: *mut c_char, len: c_int, device: CUdevice);
            12040 fn cuDeviceRegisterAsyncNotification(device: CUdevice, function: CUasyncCallback, user_data: *mut c_void, callback: *mut CUasyncCallbackHandle);
            12040 fn cuDeviceUnregisterAsyncNotification(device: CUdevice, callback: CUasyncCallbackHandle);
            11040 fn cuDeviceGraphMemTrim(device: CUdevice);
            11040 fn cuDeviceGetGraphMemAttribute(device: CUdevice, attribute: c_uint, value: *mut c_void);
            11040 fn cuDeviceSetGraphMemAttribute(device: CUdevice, attribute: c_uint, value: *mut c_void);
            4000 fn cuDeviceCanAccessPeer(can: *mut c_int, device: CUdevice, peer: CUdevice);
            8000 fn cuDeviceGetP2PAttribute(value: *mut c_int, attribute: c_uint, device: CUdevice, peer: CUdevice);
            13000 fn cuDeviceGetP2PAtomicCapabilities(capabilities: *mut c_uint, operations: *const c_uint, count: c_uint, device: CUdevice, peer: CUdevice);
            12040 fn cuDeviceGetDevResource(device: CUdevice, resource: *mut CUdevResource, kind: c_uint);

            // Primary contexts
            7000 fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
            11000 fn cuDevicePrimaryCtxRelease_v2(device: CUdevice);
            11000 fn cuDevicePrimaryCtxSetFlags_v2(device: CUdevice, flags: c_uint);
            7000 fn cuDevicePrimaryCtxGetState(device: CUdevice, flags: *mut c_uint, active: *mut c_int);
            11000 fn cuDevicePrimaryCtxReset_v2(device: CUdevice);

            // Contexts
            3020 fn cuCtxCreate_v2(context: *mut CUcontext, flags: c_uint, device: CUdevice);
            11040 fn cuCtxCreate_v3(context: *mut CUcontext, affinities: *mut CUexecAffinityParam, count: c_int, flags: c_uint, device: CUdevice);
            12050 fn cuCtxCreate_v4(context: *mut CUcontext, params: *mut CUctxCreateParams, flags: c_uint, device: CUdevice);
            4000 fn cuCtxDestroy_v2(context: CUcontext);
            4000 fn cuCtxPushCurrent_v2(context: CUcontext);
            4000 fn cuCtxPopCurrent_v2(context: *mut CUcontext);
            4000 fn cuCtxSetCurrent(context: CUcontext);
            4000 fn cuCtxGetCurrent(context: *mut CUcontext);
            2000 fn cuCtxGetDevice(device: *mut CUdevice);
            13000 fn cuCtxGetDevice_v2(device: *mut CUdevice, context: CUcontext);
            7000 fn cuCtxGetFlags(flags: *mut c_uint);
            12010 fn cuCtxSetFlags(flags: c_uint);
            12000 fn cuCtxGetId(context: CUcontext, id: *mut c_ulonglong);
            2000 fn cuCtxSynchronize();
            13000 fn cuCtxSynchronize_v2(context: CUcontext);
            3010 fn cuCtxGetLimit(value: *mut usize, limit: c_uint);
            3010 fn cuCtxSetLimit(limit: c_uint, value: usize);
            3020 fn cuCtxGetCacheConfig(config: *mut c_uint);
            3020 fn cuCtxSetCacheConfig(config: c_uint);
            4020 fn cuCtxGetSharedMemConfig(config: *mut c_uint);
            4020 fn cuCtxSetSharedMemConfig(config: c_uint);
            3020 fn cuCtxGetApiVersion(context: CUcontext, version: *mut c_uint);
            5050 fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int);
            11000 fn cuCtxResetPersistingL2Cache();
            11040 fn cuCtxGetExecAffinity(affinity: *mut CUexecAffinityParam, kind: c_uint);
            12050 fn cuCtxRecordEvent(context: CUcontext, event: CUevent);
            12050 fn cuCtxWaitEvent(context: CUcontext, event: CUevent);
            2000 fn cuCtxAttach(context: *mut CUcontext, flags: c_uint);
            2000 fn cuCtxDetach(context: CUcontext);
            4000 fn cuCtxEnablePeerAccess(peer: CUcontext, flags: c_uint);
            4000 fn cuCtxDisablePeerAccess(peer: CUcontext);
            12040 fn cuCtxFromGreenCtx(context: *mut CUcontext, green: CUgreenCtx);
            12040 fn cuCtxGetDevResource(context: CUcontext, resource: *mut CUdevResource, kind: c_uint);

            // Green contexts
            12040 fn cuDevSmResourceSplitByCount(groups: *mut CUdevResource, count: *mut c_uint, input: *const CUdevResource, rest: *mut CUdevResource, flags: c_uint, least: c_uint);
            13010 fn cuDevSmResourceSplit(groups: *mut CUdevResource, count: c_uint, input: *const CUdevResource, rest: *mut CUdevResource, flags: c_uint, parameters: *mut CU_DEV_SM_RESOURCE_GROUP_PARAMS);
            12040 fn cuDevResourceGenerateDesc(description: *mut CUdevResourceDesc, resources: *mut CUdevResource, count: c_uint);
            12040 fn cuGreenCtxCreate(green: *mut CUgreenCtx, description: CUdevResourceDesc, device: CUdevice, flags: c_uint);
            12040 fn cuGreenCtxDestroy(green: CUgreenCtx);
            12040 fn cuGreenCtxGetDevResource(green: CUgreenCtx, resource: *mut CUdevResource, kind: c_uint);
            12050 fn cuGreenCtxStreamCreate(stream: *mut CUstream, green: CUgreenCtx, flags: c_uint, priority: c_int);
            12040 fn cuGreenCtxRecordEvent(green: CUgreenCtx, event: CUevent);
            12040 fn cuGreenCtxWaitEvent(green: CUgreenCtx, event: CUevent);
            12090 fn cuGreenCtxGetId(green: CUgreenCtx, id: *mut c_ulonglong);

            // Profiling
            4000 fn cuProfilerStart();
            4000 fn cuProfilerStop();

            // Streams
            2000 fn cuStreamCreate(stream: *mut CUstream, flags: c_uint);
            5050 fn cuStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int);
            4000 fn cuStreamDestroy_v2(stream: CUstream);
            2000 fn cuStreamQuery(stream: CUstream);
            2000 fn cuStreamSynchronize(stream: CUstream);
            5050 fn cuStreamGetFlags(stream: CUstream, flags: *mut c_uint);
            5050 fn cuStreamGetPriority(stream: CUstream, priority: *mut c_int);
            12000 fn cuStreamGetId(stream: CUstream, id: *mut c_ulonglong);
            9020 fn cuStreamGetCtx(stream: CUstream, context: *mut CUcontext);
            12050 fn cuStreamGetCtx_v2(stream: CUstream, context: *mut CUcontext, green: *mut CUgreenCtx);
            12040 fn cuStreamGetGreenCtx(stream: CUstream, green: *mut CUgreenCtx);
            13010 fn cuStreamGetDevResource(stream: CUstream, resource: *mut CUdevResource, kind: c_uint);
            12080 fn cuStreamGetDevice(stream: CUstream, device: *mut CUdevice);
            11000 fn cuStreamCopyAttributes(to: CUstream, from: CUstream);
            11000 fn cuStreamGetAttribute(stream: CUstream, attribute: c_uint, value: *mut c_void);
            11000 fn cuStreamSetAttribute(stream: CUstream, attribute: c_uint, value: *const c_void);
            3020 fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
            5000 fn cuStreamAddCallback(stream: CUstream, callback: CUstreamCallback, user_data: *mut c_void, flags: c_uint);
            10000 fn cuLaunchHostFunc(stream: CUstream, function: CUhostFn, user_data: *mut c_void);
            10010 fn cuStreamBeginCapture_v2(stream: CUstream, mode: c_uint);
            12030 fn cuStreamBeginCaptureToGraph(stream: CUstream, graph: CUgraph, after: *const CUgraphNode, edges: *const CUgraphEdgeData, count: usize, mode: c_uint);
            10000 fn cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph);
            10000 fn cuStreamIsCapturing(stream: CUstream, status: *mut c_uint);
            11030 fn cuStreamGetCaptureInfo_v2(stream: CUstream, status: *mut c_uint, id: *mut c_ulonglong, graph: *mut CUgraph, after: *mut *const CUgraphNode, count: *mut usize);
            12030 fn cuStreamGetCaptureInfo_v3(stream: CUstream, status: *mut c_uint, id: *mut c_ulonglong, graph: *mut CUgraph, after: *mut *const CUgraphNode, edges: *mut *const CUgraphEdgeData, count: *mut usize);
            11030 fn cuStreamUpdateCaptureDependencies(stream: CUstream, after: *mut CUgraphNode, count: usize, flags: c_uint);
            12030 fn cuStreamUpdateCaptureDependencies_v2(stream: CUstream, after: *mut CUgraphNode, edges: *const CUgraphEdgeData, count: usize, flags: c_uint);
            10010 fn cuThreadExchangeStreamCaptureMode(mode: *mut c_uint);

            11070 fn cuStreamWaitValue32_v2(stream: CUstream, address: CUdeviceptr, value: c_uint, flags: c_uint);
            11070 fn cuStreamWaitValue64_v2(stream: CUstream, address: CUdeviceptr, value: c_ulonglong, flags: c_uint);
            11070 fn cuStreamWriteValue32_v2(stream: CUstream, address: CUdeviceptr, value: c_uint, flags: c_uint);
            11070 fn cuStreamWriteValue64_v2(stream: CUstream, address: CUdeviceptr, value: c_ulonglong, flags: c_uint);
            11070 fn cuStreamBatchMemOp_v2(stream: CUstream, count: c_uint, operations: *mut c_void, flags: c_uint);

            // Events
            2000 fn cuEventCreate(event: *mut CUevent, flags: c_uint);
            4000 fn cuEventDestroy_v2(event: CUevent);
            2000 fn cuEventRecord(event: CUevent, stream: CUstream);
            11010 fn cuEventRecordWithFlags(event: CUevent, stream: CUstream, flags: c_uint);
            4010 fn cuIpcGetEventHandle(handle: *mut CUipcEventHandle, event: CUevent);
            4010 fn cuIpcOpenEventHandle(event: *mut CUevent, handle: CUipcEventHandle);
            2000 fn cuEventQuery(event: CUevent);
            2000 fn cuEventSynchronize(event: CUevent);
            12080 fn cuEventElapsedTime_v2(millis: *mut f32, start: CUevent, end: CUevent);
            2000 fn cuEventElapsedTime(millis: *mut f32, start: CUevent, end: CUevent);

            // Memory
            3020 fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
            3020 fn cuMemAlloc_v2(address: *mut CUdeviceptr, size: usize);
            3020 fn cuMemAllocPitch_v2(address: *mut CUdeviceptr, pitch: *mut usize, width: usize, height: usize, element: c_uint);
            3020 fn cuMemFree_v2(address: CUdeviceptr);
            6000 fn cuMemAllocManaged(address: *mut CUdeviceptr, size: usize, flags: c_uint);
            3020 fn cuMemAllocHost_v2(memory: *mut *mut c_void, size: usize);
            2000 fn cuMemFreeHost(memory: *mut c_void);
            2020 fn cuMemHostAlloc(memory: *mut *mut c_void, size: usize, flags: c_uint);
            3020 fn cuMemHostGetDevicePointer_v2(address: *mut CUdeviceptr, memory: *mut c_void, flags: c_uint);
            2030 fn cuMemHostGetFlags(flags: *mut c_uint, memory: *mut c_void);
            6050 fn cuMemHostRegister_v2(memory: *mut c_void, size: usize, flags: c_uint);
            4000 fn cuMemHostUnregister(memory: *mut c_void);
            3020 fn cuMemcpyHtoD_v2(to: CUdeviceptr, from: *const c_void, size: usize);
            3020 fn cuMemcpyDtoH_v2(to: *mut c_void, from: CUdeviceptr, size: usize);
            3020 fn cuMemcpyDtoD_v2(to: CUdeviceptr, from: CUdeviceptr, size: usize);
            3020 fn cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, size: usize, stream: CUstream);
            3020 fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, size: usize, stream: CUstream);
            3020 fn cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, size: usize, stream: CUstream);
            4000 fn cuMemcpyPeer(to: CUdeviceptr, to_context: CUcontext, from: CUdeviceptr, from_context: CUcontext, size: usize);
            4000 fn cuMemcpyPeerAsync(to: CUdeviceptr, to_context: CUcontext, from: CUdeviceptr, from_context: CUcontext, size: usize, stream: CUstream);
            3020 fn cuMemcpy2D_v2(copy: *const CUDA_MEMCPY2D);
            3020 fn cuMemcpy2DUnaligned_v2(copy: *const CUDA_MEMCPY2D);
            3020 fn cuMemcpy2DAsync_v2(copy: *const CUDA_MEMCPY2D, stream: CUstream);
            3020 fn cuMemcpy3D_v2(copy: *const CUDA_MEMCPY3D);
            3020 fn cuMemcpy3DAsync_v2(copy: *const CUDA_MEMCPY3D, stream: CUstream);
            3020 fn cuMemsetD8_v2(to: CUdeviceptr, byte: u8, size: usize);
            3020 fn cuMemsetD16_v2(to: CUdeviceptr, value: u16, count: usize);
            3020 fn cuMemsetD32_v2(to: CUdeviceptr, value: c_uint, count: usize);
            3020 fn cuMemsetD8Async(to: CUdeviceptr, byte: u8, size: usize, stream: CUstream);
            3020 fn cuMemsetD16Async(to: CUdeviceptr, value: u16, count: usize, stream: CUstream);
            3020 fn cuMemsetD32Async(to: CUdeviceptr, value: c_uint, count: usize, stream: CUstream);
            3020 fn cuMemsetD2D8_v2(to: CUdeviceptr, pitch: usize, byte: u8, width: usize, height: usize);
            3020 fn cuMemsetD2D16_v2(to: CUdeviceptr, pitch: usize, value: u16, width: usize, height: usize);
            3020 fn cuMemsetD2D32_v2(to: CUdeviceptr, pitch: usize, value: c_uint, width: usize, height: usize);
            3020 fn cuMemsetD2D8Async(to: CUdeviceptr, pitch: usize, byte: u8, width: usize, height: usize, stream: CUstream);
            3020 fn cuMemsetD2D16Async(to: CUdeviceptr, pitch: usize, value: u16, width: usize, height: usize, stream: CUstream);
            3020 fn cuMemsetD2D32Async(to: CUdeviceptr, pitch: usize, value: c_uint, width: usize, height: usize, stream: CUstream);
            11020 fn cuMemAllocAsync(address: *mut CUdeviceptr, size: usize, stream: CUstream);
            11020 fn cuMemAllocFromPoolAsync(address: *mut CUdeviceptr, size: usize, pool: CUmemoryPool, stream: CUstream);
            11020 fn cuMemFreeAsync(address: CUdeviceptr, stream: CUstream);
            13000 fn cuMemGetDefaultMemPool(pool: *mut CUmemoryPool, location: *mut CUmemLocation, kind: c_uint);
            13000 fn cuMemGetMemPool(pool: *mut CUmemoryPool, location: *mut CUmemLocation, kind: c_uint);
            13000 fn cuMemSetMemPool(location: *mut CUmemLocation, kind: c_uint, pool: CUmemoryPool);
            11020 fn cuMemPoolCreate(pool: *mut CUmemoryPool, properties: *const CUmemPoolProps);
            11020 fn cuMemPoolDestroy(pool: CUmemoryPool);
            11020 fn cuMemPoolSetAttribute(pool: CUmemoryPool, attribute: c_uint, value: *mut c_void);
            11020 fn cuMemPoolGetAttribute(pool: CUmemoryPool, attribute: c_uint, value: *mut c_void);
            11020 fn cuMemPoolTrimTo(pool: CUmemoryPool, bytes: usize);
            11020 fn cuMemPoolSetAccess(pool: CUmemoryPool, access: *const CUmemAccessDesc, count: usize);
            11020 fn cuMemPoolGetAccess(flags: *mut c_uint, pool: CUmemoryPool, location: *mut CUmemLocation);
            11020 fn cuMemPoolExportToShareableHandle(shared: *mut c_void, pool: CUmemoryPool, kind: c_uint, flags: c_ulonglong);
            11020 fn cuMemPoolImportFromShareableHandle(pool: *mut CUmemoryPool, shared: *mut c_void, kind: c_uint, flags: c_ulonglong);
            11020 fn cuMemPoolExportPointer(data: *mut CUmemPoolPtrExportData, address: CUdeviceptr);
            11020 fn cuMemPoolImportPointer(address: *mut CUdeviceptr, pool: CUmemoryPool, data: *mut CUmemPoolPtrExportData);
            4000 fn cuMemcpy(to: CUdeviceptr, from: CUdeviceptr, size: usize);
            4000 fn cuMemcpyAsync(to: CUdeviceptr, from: CUdeviceptr, size: usize, stream: CUstream);
            3020 fn cuMemcpyHtoA_v2(to: CUarray, at: usize, from: *const c_void, size: usize);
            3020 fn cuMemcpyAtoH_v2(to: *mut c_void, from: CUarray, at: usize, size: usize);
            3020 fn cuMemcpyDtoA_v2(to: CUarray, at: usize, from: CUdeviceptr, size: usize);
            3020 fn cuMemcpyAtoD_v2(to: CUdeviceptr, from: CUarray, at: usize, size: usize);
            3020 fn cuMemcpyAtoA_v2(to: CUarray, to_at: usize, from: CUarray, from_at: usize, size: usize);
            3020 fn cuMemcpyHtoAAsync_v2(to: CUarray, at: usize, from: *const c_void, size: usize, stream: CUstream);
            3020 fn cuMemcpyAtoHAsync_v2(to: *mut c_void, from: CUarray, at: usize, size: usize, stream: CUstream);
            8000 fn cuMemPrefetchAsync(address: CUdeviceptr, size: usize, device: CUdevice, stream: CUstream);
            12020 fn cuMemPrefetchAsync_v2(address: CUdeviceptr, size: usize, location: CUmemLocation, flags: c_uint, stream: CUstream);
            8000 fn cuMemAdvise(address: CUdeviceptr, size: usize, advice: c_uint, device: CUdevice);
            12020 fn cuMemAdvise_v2(address: CUdeviceptr, size: usize, advice: c_uint, location: CUmemLocation);
            8000 fn cuMemRangeGetAttribute(data: *mut c_void, room: usize, attribute: c_uint, address: CUdeviceptr, size: usize);
            8000 fn cuMemRangeGetAttributes(data: *mut *mut c_void, rooms: *mut usize, attributes: *mut c_uint, count: usize, address: CUdeviceptr, size: usize);
            6000 fn cuStreamAttachMemAsync(stream: CUstream, address: CUdeviceptr, size: usize, flags: c_uint);
            10020 fn cuMemAddressReserve(address: *mut CUdeviceptr, size: usize, alignment: usize, hint: CUdeviceptr, flags: c_ulonglong);
            10020 fn cuMemAddressFree(address: CUdeviceptr, size: usize);
            10020 fn cuMemCreate(handle: *mut c_ulonglong, size: usize, properties: *const CUmemAllocationProp, flags: c_ulonglong);
            10020 fn cuMemRelease(handle: c_ulonglong);
            10020 fn cuMemMap(address: CUdeviceptr, size: usize, offset: usize, handle: c_ulonglong, flags: c_ulonglong);
            10020 fn cuMemUnmap(address: CUdeviceptr, size: usize);
            10020 fn cuMemSetAccess(address: CUdeviceptr, size: usize, access: *const CUmemAccessDesc, count: usize);
            10020 fn cuMemGetAccess(flags: *mut c_ulonglong, location: *const CUmemLocation, address: CUdeviceptr);
            10020 fn cuMemGetAllocationGranularity(size: *mut usize, properties: *const CUmemAllocationProp, option: c_uint);
            10020 fn cuMemGetAllocationPropertiesFromHandle(properties: *mut CUmemAllocationProp, handle: c_ulonglong);
            11000 fn cuMemRetainAllocationHandle(handle: *mut c_ulonglong, address: *mut c_void);
            4010 fn cuIpcGetMemHandle(handle: *mut CUipcMemHandle, address: CUdeviceptr);
            11000 fn cuIpcOpenMemHandle_v2(address: *mut CUdeviceptr, handle: CUipcMemHandle, flags: c_uint);
            4010 fn cuIpcCloseMemHandle(address: CUdeviceptr);
            10020 fn cuMemExportToShareableHandle(shared: *mut c_void, handle: c_ulonglong, kind: c_uint, flags: c_ulonglong);
            10020 fn cuMemImportFromShareableHandle(handle: *mut c_ulonglong, shared: *mut c_void, kind: c_uint);
            4000 fn cuPointerGetAttribute(data: *mut c_void, attribute: c_uint, address: CUdeviceptr);
            7000 fn cuPointerGetAttributes(count: c_uint, attributes: *mut c_uint, data: *mut *mut c_void, address: CUdeviceptr);
            6000 fn cuPointerSetAttribute(value: *const c_void, attribute: c_uint, address: CUdeviceptr);
            3020 fn cuMemGetAddressRange_v2(start: *mut CUdeviceptr, size: *mut usize, address: CUdeviceptr);
            3020 fn cuArrayCreate_v2(array: *mut CUarray, descriptor: *const CUDA_ARRAY_DESCRIPTOR);
            3020 fn cuArrayGetDescriptor_v2(descriptor: *mut CUDA_ARRAY_DESCRIPTOR, array: CUarray);
            3020 fn cuArray3DCreate_v2(array: *mut CUarray, descriptor: *const CUDA_ARRAY3D_DESCRIPTOR);
            3020 fn cuArray3DGetDescriptor_v2(descriptor: *mut CUDA_ARRAY3D_DESCRIPTOR, array: CUarray);
            2000 fn cuArrayDestroy(array: CUarray);

            // Textures and surfaces
            5000 fn cuTexObjectCreate(texture: *mut CUtexObject, resource: *const CUDA_RESOURCE_DESC, descriptor: *const CUDA_TEXTURE_DESC, view: *const CUDA_RESOURCE_VIEW_DESC);
            5000 fn cuTexObjectDestroy(texture: CUtexObject);
            5000 fn cuTexObjectGetResourceDesc(resource: *mut CUDA_RESOURCE_DESC, texture: CUtexObject);
            5000 fn cuTexObjectGetTextureDesc(descriptor: *mut CUDA_TEXTURE_DESC, texture: CUtexObject);
            5000 fn cuTexObjectGetResourceViewDesc(view: *mut CUDA_RESOURCE_VIEW_DESC, texture: CUtexObject);
            5000 fn cuSurfObjectCreate(surface: *mut CUsurfObject, resource: *const CUDA_RESOURCE_DESC);
            5000 fn cuSurfObjectDestroy(surface: CUsurfObject);
            5000 fn cuSurfObjectGetResourceDesc(resource: *mut CUDA_RESOURCE_DESC, surface: CUsurfObject);

            // Modules and functions
            2000 fn cuModuleLoad(module: *mut CUmodule, file: *const c_char);
            2000 fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void);
            2010 fn cuModuleLoadDataEx(module: *mut CUmodule, image: *const c_void, count: c_uint, options: *mut c_uint, values: *mut *mut c_void);
            2000 fn cuModuleLoadFatBinary(module: *mut CUmodule, image: *const c_void);
            2000 fn cuModuleUnload(module: CUmodule);
            2000 fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
            3020 fn cuModuleGetGlobal_v2(address: *mut CUdeviceptr, size: *mut usize, module: CUmodule, name: *const c_char);
            2000 fn cuModuleGetTexRef(texture: *mut CUtexref, module: CUmodule, name: *const c_char);
            3000 fn cuModuleGetSurfRef(surface: *mut CUsurfref, module: CUmodule, name: *const c_char);
            2020 fn cuFuncGetAttribute(value: *mut c_int, attribute: c_uint, function: CUfunction);
            9000 fn cuFuncSetAttribute(function: CUfunction, attribute: c_uint, value: c_int);
            12040 fn cuFuncGetParamInfo(function: CUfunction, index: usize, offset: *mut usize, size: *mut usize);
            3000 fn cuFuncSetCacheConfig(function: CUfunction, config: c_uint);
            4020 fn cuFuncSetSharedMemConfig(function: CUfunction, config: c_uint);
            4000 fn cuLaunchKernel(function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CUstream, parameters: *mut *mut c_void, extra: *mut *mut c_void);
            6050 fn cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, function: CUfunction, block_size: c_int, shared: usize);
            7000 fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks: *mut c_int, function: CUfunction, block_size: c_int, shared: usize, flags: c_uint);
            6050 fn cuOccupancyMaxPotentialBlockSize(grid: *mut c_int, block: *mut c_int, function: CUfunction, size: CUoccupancyB2DSize, shared: usize, limit: c_int);
            7000 fn cuOccupancyMaxPotentialBlockSizeWithFlags(grid: *mut c_int, block: *mut c_int, function: CUfunction, size: CUoccupancyB2DSize, shared: usize, limit: c_int, flags: c_uint);
            9000 fn cuLaunchCooperativeKernel(function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CUstream, parameters: *mut *mut c_void);
            11060 fn cuLaunchKernelEx(config: *const CUlaunchConfig, function: CUfunction, parameters: *mut *mut c_void, extra: *mut *mut c_void);
            12030 fn cuFuncGetName(name: *mut *const c_char, function: CUfunction);
            11000 fn cuFuncGetModule(module: *mut CUmodule, function: CUfunction);
            12040 fn cuFuncIsLoaded(state: *mut c_uint, function: CUfunction);
            12040 fn cuFuncLoad(function: CUfunction);
            10020 fn cuOccupancyAvailableDynamicSMemPerBlock(bytes: *mut usize, function: CUfunction, blocks: c_int, block_size: c_int);
            11070 fn cuOccupancyMaxActiveClusters(clusters: *mut c_int, function: CUfunction, config: *const CUlaunchConfig);
            11070 fn cuOccupancyMaxPotentialClusterSize(size: *mut c_int, function: CUfunction, config: *const CUlaunchConfig);
            11070 fn cuModuleGetLoadingMode(mode: *mut c_uint);
            12040 fn cuModuleGetFunctionCount(count: *mut c_uint, module: CUmodule);
            12040 fn cuModuleEnumerateFunctions(functions: *mut CUfunction, count: c_uint, module: CUmodule);

            // Linking
            6050 fn cuLinkCreate_v2(count: c_uint, options: *mut c_uint, values: *mut *mut c_void, state: *mut CUlinkState);
            6050 fn cuLinkAddData_v2(state: CUlinkState, kind: c_uint, data: *mut c_void, size: usize, name: *const c_char, count: c_uint, options: *mut c_uint, values: *mut *mut c_void);
            6050 fn cuLinkAddFile_v2(state: CUlinkState, kind: c_uint, path: *const c_char, count: c_uint, options: *mut c_uint, values: *mut *mut c_void);
            5050 fn cuLinkComplete(state: CUlinkState, cubin: *mut *mut c_void, size: *mut usize);
            5050 fn cuLinkDestroy(state: CUlinkState);

            // Libraries and kernels
            12000 fn cuLibraryLoadData(library: *mut CUlibrary, code: *const c_void, jit_options: *mut c_uint, jit_values: *mut *mut c_void, jit_count: c_uint, options: *mut c_uint, values: *mut *mut c_void, count: c_uint);
            12000 fn cuLibraryLoadFromFile(library: *mut CUlibrary, file: *const c_char, jit_options: *mut c_uint, jit_values: *mut *mut c_void, jit_count: c_uint, options: *mut c_uint, values: *mut *mut c_void, count: c_uint);
            12000 fn cuLibraryUnload(library: CUlibrary);
            12000 fn cuLibraryGetKernel(kernel: *mut CUkernel, library: CUlibrary, name: *const c_char);
            12040 fn cuLibraryGetKernelCount(count: *mut c_uint, library: CUlibrary);
            12040 fn cuLibraryEnumerateKernels(kernels: *mut CUkernel, count: c_uint, library: CUlibrary);
            12000 fn cuLibraryGetModule(module: *mut CUmodule, library: CUlibrary);
            12000 fn cuLibraryGetGlobal(address: *mut CUdeviceptr, size: *mut usize, library: CUlibrary, name: *const c_char);
            12000 fn cuLibraryGetManaged(address: *mut CUdeviceptr, size: *mut usize, library: CUlibrary, name: *const c_char);
            12000 fn cuLibraryGetUnifiedFunction(function: *mut *mut c_void, library: CUlibrary, name: *const c_char);
            12000 fn cuKernelGetFunction(function: *mut CUfunction, kernel: CUkernel);
            12050 fn cuKernelGetLibrary(library: *mut CUlibrary, kernel: CUkernel);
            12000 fn cuKernelGetAttribute(value: *mut c_int, attribute: c_uint, kernel: CUkernel, device: CUdevice);
            12000 fn cuKernelSetAttribute(attribute: c_uint, value: c_int, kernel: CUkernel, device: CUdevice);
            12000 fn cuKernelSetCacheConfig(kernel: CUkernel, config: c_uint, device: CUdevice);
            12030 fn cuKernelGetName(name: *mut *const c_char, kernel: CUkernel);
            12040 fn cuKernelGetParamInfo(kernel: CUkernel, index: usize, offset: *mut usize, size: *mut usize);

            // Graphs
            10000 fn cuGraphCreate(graph: *mut CUgraph, flags: c_uint);
            10000 fn cuGraphDestroy(graph: CUgraph);
            10000 fn cuGraphClone(clone: *mut CUgraph, graph: CUgraph);
            10000 fn cuGraphNodeFindInClone(node: *mut CUgraphNode, original: CUgraphNode, clone: CUgraph);
            10000 fn cuGraphNodeGetType(node: CUgraphNode, kind: *mut c_uint);
            10000 fn cuGraphGetNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize);
            10000 fn cuGraphGetRootNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize);
            10000 fn cuGraphGetEdges(graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode, count: *mut usize);
            12030 fn cuGraphGetEdges_v2(graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode, edges: *mut CUgraphEdgeData, count: *mut usize);
            10000 fn cuGraphNodeGetDependencies(node: CUgraphNode, nodes: *mut CUgraphNode, count: *mut usize);
            12030 fn cuGraphNodeGetDependencies_v2(node: CUgraphNode, nodes: *mut CUgraphNode, edges: *mut CUgraphEdgeData, count: *mut usize);
            10000 fn cuGraphNodeGetDependentNodes(node: CUgraphNode, nodes: *mut CUgraphNode, count: *mut usize);
            12030 fn cuGraphNodeGetDependentNodes_v2(node: CUgraphNode, nodes: *mut CUgraphNode, edges: *mut CUgraphEdgeData, count: *mut usize);
            10000 fn cuGraphAddDependencies(graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, count: usize);
            12030 fn cuGraphAddDependencies_v2(graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, edges: *const CUgraphEdgeData, count: usize);
            10000 fn cuGraphRemoveDependencies(graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, count: usize);
            12030 fn cuGraphRemoveDependencies_v2(graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, edges: *const CUgraphEdgeData, count: usize);
            10000 fn cuGraphDestroyNode(node: CUgraphNode);
            10000 fn cuGraphAddEmptyNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize);
            12000 fn cuGraphAddKernelNode_v2(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, params: *const CUDA_KERNEL_NODE_PARAMS);
            12000 fn cuGraphKernelNodeGetParams_v2(node: CUgraphNode, params: *mut CUDA_KERNEL_NODE_PARAMS);
            12000 fn cuGraphKernelNodeSetParams_v2(node: CUgraphNode, params: *const CUDA_KERNEL_NODE_PARAMS);
            11000 fn cuGraphKernelNodeCopyAttributes(to: CUgraphNode, from: CUgraphNode);
            11000 fn cuGraphKernelNodeGetAttribute(node: CUgraphNode, attribute: c_uint, value: *mut c_void);
            11000 fn cuGraphKernelNodeSetAttribute(node: CUgraphNode, attribute: c_uint, value: *const c_void);
            12030 fn cuGraphAddNode_v2(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, edges: *const CUgraphEdgeData, count: usize, params: *mut CUgraphNodeParams);
            12020 fn cuGraphNodeSetParams(node: CUgraphNode, params: *mut CUgraphNodeParams);
            12020 fn cuGraphExecNodeSetParams(executable: CUgraphExec, node: CUgraphNode, params: *mut CUgraphNodeParams);
            10000 fn cuGraphAddMemcpyNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, params: *const CUDA_MEMCPY3D, context: CUcontext);
            10000 fn cuGraphMemcpyNodeGetParams(node: CUgraphNode, params: *mut CUDA_MEMCPY3D);
            10000 fn cuGraphMemcpyNodeSetParams(node: CUgraphNode, params: *const CUDA_MEMCPY3D);
            10000 fn cuGraphAddMemsetNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, params: *const CUDA_MEMSET_NODE_PARAMS, context: CUcontext);
            10000 fn cuGraphMemsetNodeGetParams(node: CUgraphNode, params: *mut CUDA_MEMSET_NODE_PARAMS);
            10000 fn cuGraphMemsetNodeSetParams(node: CUgraphNode, params: *const CUDA_MEMSET_NODE_PARAMS);
            10000 fn cuGraphAddHostNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, params: *const CUDA_HOST_NODE_PARAMS);
            10000 fn cuGraphHostNodeGetParams(node: CUgraphNode, params: *mut CUDA_HOST_NODE_PARAMS);
            10000 fn cuGraphHostNodeSetParams(node: CUgraphNode, params: *const CUDA_HOST_NODE_PARAMS);
            10000 fn cuGraphAddChildGraphNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, child: CUgraph);
            10000 fn cuGraphChildGraphNodeGetGraph(node: CUgraphNode, child: *mut CUgraph);
            11010 fn cuGraphAddEventRecordNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, event: CUevent);
            11010 fn cuGraphEventRecordNodeGetEvent(node: CUgraphNode, event: *mut CUevent);
            11010 fn cuGraphEventRecordNodeSetEvent(node: CUgraphNode, event: CUevent);
            11010 fn cuGraphAddEventWaitNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, event: CUevent);
            11010 fn cuGraphEventWaitNodeGetEvent(node: CUgraphNode, event: *mut CUevent);
            11010 fn cuGraphEventWaitNodeSetEvent(node: CUgraphNode, event: CUevent);
            11040 fn cuGraphAddMemAllocNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, params: *mut CUDA_MEM_ALLOC_NODE_PARAMS);
            11040 fn cuGraphMemAllocNodeGetParams(node: CUgraphNode, params: *mut CUDA_MEM_ALLOC_NODE_PARAMS);
            11040 fn cuGraphAddMemFreeNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, address: CUdeviceptr);
            11040 fn cuGraphMemFreeNodeGetParams(node: CUgraphNode, address: *mut CUdeviceptr);
            11040 fn cuGraphInstantiateWithFlags(executable: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong);
            12000 fn cuGraphInstantiateWithParams(executable: *mut CUgraphExec, graph: CUgraph, params: *mut CUDA_GRAPH_INSTANTIATE_PARAMS);
            12000 fn cuGraphExecGetFlags(executable: CUgraphExec, flags: *mut c_ulonglong);
            12000 fn cuGraphExecKernelNodeSetParams_v2(executable: CUgraphExec, node: CUgraphNode, params: *const CUDA_KERNEL_NODE_PARAMS);
            10020 fn cuGraphExecMemcpyNodeSetParams(executable: CUgraphExec, node: CUgraphNode, params: *const CUDA_MEMCPY3D, context: CUcontext);
            10020 fn cuGraphExecMemsetNodeSetParams(executable: CUgraphExec, node: CUgraphNode, params: *const CUDA_MEMSET_NODE_PARAMS, context: CUcontext);
            10020 fn cuGraphExecHostNodeSetParams(executable: CUgraphExec, node: CUgraphNode, params: *const CUDA_HOST_NODE_PARAMS);
            11010 fn cuGraphExecChildGraphNodeSetParams(executable: CUgraphExec, node: CUgraphNode, child: CUgraph);
            11010 fn cuGraphExecEventRecordNodeSetEvent(executable: CUgraphExec, node: CUgraphNode, event: CUevent);
            11010 fn cuGraphExecEventWaitNodeSetEvent(executable: CUgraphExec, node: CUgraphNode, event: CUevent);
            11060 fn cuGraphNodeSetEnabled(executable: CUgraphExec, node: CUgraphNode, enabled: c_uint);
            11060 fn cuGraphNodeGetEnabled(executable: CUgraphExec, node: CUgraphNode, enabled: *mut c_uint);
            12000 fn cuGraphExecUpdate_v2(executable: CUgraphExec, graph: CUgraph, info: *mut CUgraphExecUpdateResultInfo);
            11010 fn cuGraphUpload(executable: CUgraphExec, stream: CUstream);
            10000 fn cuGraphLaunch(executable: CUgraphExec, stream: CUstream);
            10000 fn cuGraphExecDestroy(executable: CUgraphExec);
            11030 fn cuGraphDebugDotPrint(graph: CUgraph, path: *const c_char, flags: c_uint);
            11030 fn cuUserObjectCreate(object: *mut CUuserObject, data: *mut c_void, destroy: CUhostFn, count: c_uint, flags: c_uint);
            11030 fn cuUserObjectRetain(object: CUuserObject, count: c_uint);
            11030 fn cuUserObjectRelease(object: CUuserObject, count: c_uint);
            11030 fn cuGraphRetainUserObject(graph: CUgraph, object: CUuserObject, count: c_uint, flags: c_uint);
            11030 fn cuGraphReleaseUserObject(graph: CUgraph, object: CUuserObject, count: c_uint);
        }
    };
}
mod define;

pub use define::{ARGUMENTS, FUNCTIONS, SINCE, Table};
