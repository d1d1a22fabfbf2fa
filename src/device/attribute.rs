//! The attributes of a device: RustaCUDA's names first, then those that CUDA 11 to 13 added.

use crate::driver::{Numbered, numbered};

macro_rules! attributes {
    ($($name:ident = $number:literal, $symbol:literal;)*) => {
        numbered! {
            /// A property of a device, for [`Device::get_attribute`](super::Device::get_attribute).
            ///
            /// The CUDA manual describes each under the name given here. If the driver is too old for an attribute, the
            /// call returns [`InvalidValue`](crate::error::CudaError::InvalidValue).
            pub enum DeviceAttribute refuses(__NonExhaustive = u32::MAX) {
                $(#[doc = concat!("`CU_DEVICE_ATTRIBUTE_", $symbol, "` (", stringify!($number), ").")] $name = $number,)*
            }
        }
    };
}

impl DeviceAttribute {
    /// Every attribute, in the order of its number.
    pub const ALL: &'static [DeviceAttribute] = <DeviceAttribute as Numbered>::ALL;
}

attributes! {
    MaxThreadsPerBlock = 1, "MAX_THREADS_PER_BLOCK";
    MaxBlockDimX = 2, "MAX_BLOCK_DIM_X";
    MaxBlockDimY = 3, "MAX_BLOCK_DIM_Y";
    MaxBlockDimZ = 4, "MAX_BLOCK_DIM_Z";
    MaxGridDimX = 5, "MAX_GRID_DIM_X";
    MaxGridDimY = 6, "MAX_GRID_DIM_Y";
    MaxGridDimZ = 7, "MAX_GRID_DIM_Z";
    MaxSharedMemoryPerBlock = 8, "MAX_SHARED_MEMORY_PER_BLOCK";
    TotalConstantMemory = 9, "TOTAL_CONSTANT_MEMORY";
    WarpSize = 10, "WARP_SIZE";
    MaxPitch = 11, "MAX_PITCH";
    MaxRegistersPerBlock = 12, "MAX_REGISTERS_PER_BLOCK";
    ClockRate = 13, "CLOCK_RATE";
    TextureAlignment = 14, "TEXTURE_ALIGNMENT";
    GpuOverlap = 15, "GPU_OVERLAP";
    MultiprocessorCount = 16, "MULTIPROCESSOR_COUNT";
    KernelExecTimeout = 17, "KERNEL_EXEC_TIMEOUT";
    Integrated = 18, "INTEGRATED";
    CanMapHostMemory = 19, "CAN_MAP_HOST_MEMORY";
    ComputeMode = 20, "COMPUTE_MODE";
    MaximumTexture1DWidth = 21, "MAXIMUM_TEXTURE1D_WIDTH";
    MaximumTexture2DWidth = 22, "MAXIMUM_TEXTURE2D_WIDTH";
    MaximumTexture2DHeight = 23, "MAXIMUM_TEXTURE2D_HEIGHT";
    MaximumTexture3DWidth = 24, "MAXIMUM_TEXTURE3D_WIDTH";
    MaximumTexture3DHeight = 25, "MAXIMUM_TEXTURE3D_HEIGHT";
    MaximumTexture3DDepth = 26, "MAXIMUM_TEXTURE3D_DEPTH";
    MaximumTexture2DLayeredWidth = 27, "MAXIMUM_TEXTURE2D_LAYERED_WIDTH";
    MaximumTexture2DLayeredHeight = 28, "MAXIMUM_TEXTURE2D_LAYERED_HEIGHT";
    MaximumTexture2DLayeredLayers = 29, "MAXIMUM_TEXTURE2D_LAYERED_LAYERS";
    SurfaceAlignment = 30, "SURFACE_ALIGNMENT";
    ConcurrentKernels = 31, "CONCURRENT_KERNELS";
    EccEnabled = 32, "ECC_ENABLED";
    PciBusId = 33, "PCI_BUS_ID";
    PciDeviceId = 34, "PCI_DEVICE_ID";
    TccDriver = 35, "TCC_DRIVER";
    MemoryClockRate = 36, "MEMORY_CLOCK_RATE";
    GlobalMemoryBusWidth = 37, "GLOBAL_MEMORY_BUS_WIDTH";
    L2CacheSize = 38, "L2_CACHE_SIZE";
    MaxThreadsPerMultiprocessor = 39, "MAX_THREADS_PER_MULTIPROCESSOR";
    AsyncEngineCount = 40, "ASYNC_ENGINE_COUNT";
    UnifiedAddressing = 41, "UNIFIED_ADDRESSING";
    MaximumTexture1DLayeredWidth = 42, "MAXIMUM_TEXTURE1D_LAYERED_WIDTH";
    MaximumTexture1DLayeredLayers = 43, "MAXIMUM_TEXTURE1D_LAYERED_LAYERS";
    CanTex2DGather = 44, "CAN_TEX2D_GATHER";
    MaximumTexture2DGatherWidth = 45, "MAXIMUM_TEXTURE2D_GATHER_WIDTH";
    MaximumTexture2DGatherHeight = 46, "MAXIMUM_TEXTURE2D_GATHER_HEIGHT";
    MaximumTexture3DWidthAlternate = 47, "MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE";
    MaximumTexture3DHeightAlternate = 48, "MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE";
    MaximumTexture3DDepthAlternate = 49, "MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE";
    PciDomainId = 50, "PCI_DOMAIN_ID";
    TexturePitchAlignment = 51, "TEXTURE_PITCH_ALIGNMENT";
    MaximumTextureCubemapWidth = 52, "MAXIMUM_TEXTURECUBEMAP_WIDTH";
    MaximumTextureCubemapLayeredWidth = 53, "MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH";
    MaximumTextureCubemapLayeredLayers = 54, "MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS";
    MaximumSurface1DWidth = 55, "MAXIMUM_SURFACE1D_WIDTH";
    MaximumSurface2DWidth = 56, "MAXIMUM_SURFACE2D_WIDTH";
    MaximumSurface2DHeight = 57, "MAXIMUM_SURFACE2D_HEIGHT";
    MaximumSurface3DWidth = 58, "MAXIMUM_SURFACE3D_WIDTH";
    MaximumSurface3DHeight = 59, "MAXIMUM_SURFACE3D_HEIGHT";
    MaximumSurface3DDepth = 60, "MAXIMUM_SURFACE3D_DEPTH";
    MaximumSurface1DLayeredWidth = 61, "MAXIMUM_SURFACE1D_LAYERED_WIDTH";
    MaximumSurface1DLayeredLayers = 62, "MAXIMUM_SURFACE1D_LAYERED_LAYERS";
    MaximumSurface2DLayeredWidth = 63, "MAXIMUM_SURFACE2D_LAYERED_WIDTH";
    MaximumSurface2DLayeredHeight = 64, "MAXIMUM_SURFACE2D_LAYERED_HEIGHT";
    MaximumSurface2DLayeredLayers = 65, "MAXIMUM_SURFACE2D_LAYERED_LAYERS";
    MaximumSurfacecubemapWidth = 66, "MAXIMUM_SURFACECUBEMAP_WIDTH";
    MaximumSurfacecubemapLayeredWidth = 67, "MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH";
    MaximumSurfacecubemapLayeredLayers = 68, "MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS";
    MaximumTexture1DLinearWidth = 69, "MAXIMUM_TEXTURE1D_LINEAR_WIDTH";
    MaximumTexture2DLinearWidth = 70, "MAXIMUM_TEXTURE2D_LINEAR_WIDTH";
    MaximumTexture2DLinearHeight = 71, "MAXIMUM_TEXTURE2D_LINEAR_HEIGHT";
    MaximumTexture2DLinearPitch = 72, "MAXIMUM_TEXTURE2D_LINEAR_PITCH";
    MaximumTexture2DMipmappedWidth = 73, "MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH";
    MaximumTexture2DMipmappedHeight = 74, "MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT";
    ComputeCapabilityMajor = 75, "COMPUTE_CAPABILITY_MAJOR";
    ComputeCapabilityMinor = 76, "COMPUTE_CAPABILITY_MINOR";
    MaximumTexture1DMipmappedWidth = 77, "MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH";
    StreamPrioritiesSupported = 78, "STREAM_PRIORITIES_SUPPORTED";
    GlobalL1CacheSupported = 79, "GLOBAL_L1_CACHE_SUPPORTED";
    LocalL1CacheSupported = 80, "LOCAL_L1_CACHE_SUPPORTED";
    MaxSharedMemoryPerMultiprocessor = 81, "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR";
    MaxRegistersPerMultiprocessor = 82, "MAX_REGISTERS_PER_MULTIPROCESSOR";
    ManagedMemory = 83, "MANAGED_MEMORY";
    MultiGpuBoard = 84, "MULTI_GPU_BOARD";
    MultiGpuBoardGroupId = 85, "MULTI_GPU_BOARD_GROUP_ID";
    HostNativeAtomicSupported = 86, "HOST_NATIVE_ATOMIC_SUPPORTED";
    SingleToDoublePrecisionPerfRatio = 87, "SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO";
    PageableMemoryAccess = 88, "PAGEABLE_MEMORY_ACCESS";
    ConcurrentManagedAccess = 89, "CONCURRENT_MANAGED_ACCESS";
    ComputePreemptionSupported = 90, "COMPUTE_PREEMPTION_SUPPORTED";
    CanUseHostPointerForRegisteredMem = 91, "CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM";
    CanUseStreamMemOps = 92, "CAN_USE_STREAM_MEM_OPS_V1";
    CanUse64BitStreamMemOps = 93, "CAN_USE_64_BIT_STREAM_MEM_OPS_V1";
    CanUseStreamWaitValueNor = 94, "CAN_USE_STREAM_WAIT_VALUE_NOR_V1";
    CooperativeLaunch = 95, "COOPERATIVE_LAUNCH";
    CooperativeMultiDeviceLaunch = 96, "COOPERATIVE_MULTI_DEVICE_LAUNCH";
    MaxSharedMemoryPerBlockOptin = 97, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN";
    CanFlushRemoteWrites = 98, "CAN_FLUSH_REMOTE_WRITES";
    HostRegisterSupported = 99, "HOST_REGISTER_SUPPORTED";
    PageableMemoryAccessUsesHostPageTable = 100, "PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES";
    DirectManagedMemAccessFromhost = 101, "DIRECT_MANAGED_MEM_ACCESS_FROM_HOST";
    VirtualMemoryManagementSupported = 102, "VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED";
    HandleTypePosixFileDescriptorSupported = 103, "HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED";
    HandleTypeWin32HandleSupported = 104, "HANDLE_TYPE_WIN32_HANDLE_SUPPORTED";
    HandleTypeWin32KmtHandleSupported = 105, "HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED";
    MaxBlocksPerMultiprocessor = 106, "MAX_BLOCKS_PER_MULTIPROCESSOR";
    GenericCompressionSupported = 107, "GENERIC_COMPRESSION_SUPPORTED";
    MaxPersistingL2CacheSize = 108, "MAX_PERSISTING_L2_CACHE_SIZE";
    MaxAccessPolicyWindowSize = 109, "MAX_ACCESS_POLICY_WINDOW_SIZE";
    GpuDirectRdmaWithCudaVmmSupported = 110, "GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED";
    ReservedSharedMemoryPerBlock = 111, "RESERVED_SHARED_MEMORY_PER_BLOCK";
    SparseCudaArraySupported = 112, "SPARSE_CUDA_ARRAY_SUPPORTED";
    ReadOnlyHostRegisterSupported = 113, "READ_ONLY_HOST_REGISTER_SUPPORTED";
    TimelineSemaphoreInteropSupported = 114, "TIMELINE_SEMAPHORE_INTEROP_SUPPORTED";
    MemoryPoolsSupported = 115, "MEMORY_POOLS_SUPPORTED";
    GpuDirectRdmaSupported = 116, "GPU_DIRECT_RDMA_SUPPORTED";
    GpuDirectRdmaFlushWritesOptions = 117, "GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS";
    GpuDirectRdmaWritesOrdering = 118, "GPU_DIRECT_RDMA_WRITES_ORDERING";
    MempoolSupportedHandleTypes = 119, "MEMPOOL_SUPPORTED_HANDLE_TYPES";
    ClusterLaunch = 120, "CLUSTER_LAUNCH";
    DeferredMappingCudaArraySupported = 121, "DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED";
    CanUse64BitStreamMemOpsV2 = 122, "CAN_USE_64_BIT_STREAM_MEM_OPS";
    CanUseStreamWaitValueNorV2 = 123, "CAN_USE_STREAM_WAIT_VALUE_NOR";
    DmaBufSupported = 124, "DMA_BUF_SUPPORTED";
    IpcEventSupported = 125, "IPC_EVENT_SUPPORTED";
    MemSyncDomainCount = 126, "MEM_SYNC_DOMAIN_COUNT";
    TensorMapAccessSupported = 127, "TENSOR_MAP_ACCESS_SUPPORTED";
    HandleTypeFabricSupported = 128, "HANDLE_TYPE_FABRIC_SUPPORTED";
    UnifiedFunctionPointers = 129, "UNIFIED_FUNCTION_POINTERS";
    NumaConfig = 130, "NUMA_CONFIG";
    NumaId = 131, "NUMA_ID";
    MulticastSupported = 132, "MULTICAST_SUPPORTED";
    MpsEnabled = 133, "MPS_ENABLED";
    HostNumaId = 134, "HOST_NUMA_ID";
    D3D12CigSupported = 135, "D3D12_CIG_SUPPORTED";
    MemDecompressAlgorithmMask = 136, "MEM_DECOMPRESS_ALGORITHM_MASK";
    MemDecompressMaximumLength = 137, "MEM_DECOMPRESS_MAXIMUM_LENGTH";
    VulkanCigSupported = 138, "VULKAN_CIG_SUPPORTED";
    GpuPciDeviceId = 139, "GPU_PCI_DEVICE_ID";
    GpuPciSubsystemId = 140, "GPU_PCI_SUBSYSTEM_ID";
    HostNumaVirtualMemoryManagementSupported = 141, "HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED";
    HostNumaMemoryPoolsSupported = 142, "HOST_NUMA_MEMORY_POOLS_SUPPORTED";
    HostNumaMultinodeIpcSupported = 143, "HOST_NUMA_MULTINODE_IPC_SUPPORTED";
    HostMemoryPoolsSupported = 144, "HOST_MEMORY_POOLS_SUPPORTED";
    HostVirtualMemoryManagementSupported = 145, "HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED";
    HostAllocDmaBufSupported = 146, "HOST_ALLOC_DMA_BUF_SUPPORTED";
    OnlyPartialHostNativeAtomicSupported = 147, "ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED";
}
