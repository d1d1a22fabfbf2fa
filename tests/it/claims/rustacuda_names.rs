//! Every name of RustaCUDA 0.1.3 beyond contexts and devices, with its signature or its number; the errors are in `error.rs`.

#![allow(unsafe_code)]
#![allow(clippy::type_complexity, reason = "the types are those of RustaCUDA, in full")]

use cuda_driver_sys::{CUDA_ARRAY3D_DESCRIPTOR, CUarray_format};
use custack::context::{CacheConfig, SharedMemoryConfig};
use custack::device::DeviceAttribute;
use custack::error::{CudaResult, DropResult};
use custack::event::*;
use custack::function::*;
use custack::memory::array::*;
use custack::memory::*;
use custack::module::*;
use custack::stream::*;
use std::ffi::{CStr, c_uint, c_void};

#[test]
fn every_signature_of_event_is_rustacudas() {
    let _: fn(EventFlags) -> CudaResult<Event> = Event::new;
    let _: fn(&Event, &Stream) -> CudaResult<()> = Event::record;
    let _: fn(&Event) -> CudaResult<EventStatus> = Event::query;
    let _: fn(&Event) -> CudaResult<()> = Event::synchronize;
    let _: fn(&Event, &Event) -> CudaResult<f32> = Event::elapsed_time_f32;
    let _: fn(Event) -> DropResult<Event> = Event::drop;
}

#[test]
fn every_signature_of_function_is_rustacudas() {
    let _: fn(u32) -> GridSize = GridSize::x;
    let _: fn(u32, u32) -> GridSize = GridSize::xy;
    let _: fn(u32, u32, u32) -> GridSize = GridSize::xyz;
    let _: fn(u32) -> BlockSize = BlockSize::x;
    let _: fn(u32, u32) -> BlockSize = BlockSize::xy;
    let _: fn(u32, u32, u32) -> BlockSize = BlockSize::xyz;
    let _: fn(&Function<'static>, FunctionAttribute) -> CudaResult<i32> = Function::get_attribute;
    let _: fn(&mut Function<'static>, CacheConfig) -> CudaResult<()> = Function::set_cache_config;
    let _: fn(&mut Function<'static>, SharedMemoryConfig) -> CudaResult<()> =
        Function::set_shared_memory_config;
}

#[test]
fn every_signature_of_memory_is_rustacudas() {
    let _: fn(&u32) -> CudaResult<DeviceBox<u32>> = DeviceBox::<u32>::new;
    let _: unsafe fn() -> CudaResult<DeviceBox<u32>> = DeviceBox::<u32>::uninitialized;
    let _: unsafe fn() -> CudaResult<DeviceBox<u32>> = DeviceBox::<u32>::zeroed;
    let _: unsafe fn(*mut u32) -> DeviceBox<u32> = DeviceBox::<u32>::from_raw;
    let _: unsafe fn(DevicePointer<u32>) -> DeviceBox<u32> = DeviceBox::<u32>::from_device;
    let _: fn(DeviceBox<u32>) -> DevicePointer<u32> = DeviceBox::<u32>::into_device;
    let _: fn(&mut DeviceBox<u32>) -> DevicePointer<u32> = DeviceBox::<u32>::as_device_ptr;
    let _: fn(DeviceBox<u32>) -> DropResult<DeviceBox<u32>> = DeviceBox::<u32>::drop;
    let _: unsafe fn(usize) -> CudaResult<DeviceBuffer<u32>> = DeviceBuffer::<u32>::uninitialized;
    let _: unsafe fn(usize) -> CudaResult<DeviceBuffer<u32>> = DeviceBuffer::<u32>::zeroed;
    let _: unsafe fn(DevicePointer<u32>, usize) -> DeviceBuffer<u32> = DeviceBuffer::<u32>::from_raw_parts;
    let _: fn(DeviceBuffer<u32>) -> DropResult<DeviceBuffer<u32>> = DeviceBuffer::<u32>::drop;
    let _: fn(&[u32]) -> CudaResult<DeviceBuffer<u32>> = DeviceBuffer::<u32>::from_slice;
    let _: unsafe fn(&[u32], &Stream) -> CudaResult<DeviceBuffer<u32>> =
        DeviceBuffer::<u32>::from_slice_async;
    let _: fn(&DeviceSlice<u32>) -> usize = DeviceSlice::<u32>::len;
    let _: fn(&DeviceSlice<u32>) -> bool = DeviceSlice::<u32>::is_empty;
    let _: fn(&DeviceSlice<u32>) -> *const u32 = DeviceSlice::<u32>::as_ptr;
    let _: fn(&mut DeviceSlice<u32>) -> *mut u32 = DeviceSlice::<u32>::as_mut_ptr;
    let _: fn(&DeviceSlice<u32>, usize) -> (&DeviceSlice<u32>, &DeviceSlice<u32>) =
        DeviceSlice::<u32>::split_at;
    let _: fn(&mut DeviceSlice<u32>, usize) -> (&mut DeviceSlice<u32>, &mut DeviceSlice<u32>) =
        DeviceSlice::<u32>::split_at_mut;
    let _: fn(&DeviceSlice<u32>, usize) -> DeviceChunks<'_, u32> = DeviceSlice::<u32>::chunks;
    let _: fn(&mut DeviceSlice<u32>, usize) -> DeviceChunksMut<'_, u32> = DeviceSlice::<u32>::chunks_mut;
    let _: fn(&mut DeviceSlice<u32>) -> DevicePointer<u32> = DeviceSlice::<u32>::as_device_ptr;
    let _: unsafe fn(DevicePointer<u32>, usize) -> &'static DeviceSlice<u32> =
        DeviceSlice::<u32>::from_raw_parts;
    let _: unsafe fn(DevicePointer<u32>, usize) -> &'static mut DeviceSlice<u32> =
        DeviceSlice::<u32>::from_raw_parts_mut;
    let _: fn(&u32, usize) -> CudaResult<LockedBuffer<u32>> = LockedBuffer::<u32>::new;
    let _: fn(&[u32]) -> CudaResult<LockedBuffer<u32>> = LockedBuffer::<u32>::from_slice;
    let _: unsafe fn(usize) -> CudaResult<LockedBuffer<u32>> = LockedBuffer::<u32>::uninitialized;
    let _: fn(&LockedBuffer<u32>) -> &[u32] = LockedBuffer::<u32>::as_slice;
    let _: fn(&mut LockedBuffer<u32>) -> &mut [u32] = LockedBuffer::<u32>::as_mut_slice;
    let _: unsafe fn(*mut u32, usize) -> LockedBuffer<u32> = LockedBuffer::<u32>::from_raw_parts;
    let _: fn(LockedBuffer<u32>) -> DropResult<LockedBuffer<u32>> = LockedBuffer::<u32>::drop;
    let _: unsafe fn(usize) -> CudaResult<DevicePointer<u32>> = cuda_malloc::<u32>;
    let _: unsafe fn(usize) -> CudaResult<UnifiedPointer<u32>> = cuda_malloc_unified::<u32>;
    let _: unsafe fn(DevicePointer<u32>) -> CudaResult<()> = cuda_free::<u32>;
    let _: unsafe fn(UnifiedPointer<u32>) -> CudaResult<()> = cuda_free_unified::<u32>;
    let _: unsafe fn(usize) -> CudaResult<*mut u32> = cuda_malloc_locked::<u32>;
    let _: unsafe fn(*mut u32) -> CudaResult<()> = cuda_free_locked::<u32>;
    let _: fn(u32) -> CudaResult<UnifiedBox<u32>> = UnifiedBox::<u32>::new;
    let _: unsafe fn() -> CudaResult<UnifiedBox<u32>> = UnifiedBox::<u32>::uninitialized;
    let _: unsafe fn(*mut u32) -> UnifiedBox<u32> = UnifiedBox::<u32>::from_raw;
    let _: unsafe fn(UnifiedPointer<u32>) -> UnifiedBox<u32> = UnifiedBox::<u32>::from_unified;
    let _: fn(UnifiedBox<u32>) -> UnifiedPointer<u32> = UnifiedBox::<u32>::into_unified;
    let _: fn(&mut UnifiedBox<u32>) -> UnifiedPointer<u32> = UnifiedBox::<u32>::as_unified_ptr;
    let _: fn(UnifiedBox<u32>) -> &'static mut u32 = UnifiedBox::<u32>::leak;
    let _: fn(UnifiedBox<u32>) -> DropResult<UnifiedBox<u32>> = UnifiedBox::<u32>::drop;
    let _: fn(&u32, usize) -> CudaResult<UnifiedBuffer<u32>> = UnifiedBuffer::<u32>::new;
    let _: fn(&[u32]) -> CudaResult<UnifiedBuffer<u32>> = UnifiedBuffer::<u32>::from_slice;
    let _: unsafe fn(usize) -> CudaResult<UnifiedBuffer<u32>> = UnifiedBuffer::<u32>::uninitialized;
    let _: fn(&UnifiedBuffer<u32>) -> &[u32] = UnifiedBuffer::<u32>::as_slice;
    let _: fn(&mut UnifiedBuffer<u32>) -> &mut [u32] = UnifiedBuffer::<u32>::as_mut_slice;
    let _: fn(&mut UnifiedBuffer<u32>) -> UnifiedPointer<u32> = UnifiedBuffer::<u32>::as_unified_ptr;
    let _: unsafe fn(UnifiedPointer<u32>, usize) -> UnifiedBuffer<u32> = UnifiedBuffer::<u32>::from_raw_parts;
    let _: fn(UnifiedBuffer<u32>) -> DropResult<UnifiedBuffer<u32>> = UnifiedBuffer::<u32>::drop;
}

#[test]
fn every_signature_of_memory_array_is_rustacudas() {
    let _: fn(CUarray_format) -> ArrayFormat = ArrayFormat::from_raw;
    let _: fn(ArrayFormat) -> CUarray_format = ArrayFormat::to_raw;
    let _: fn() -> ArrayObjectFlags = ArrayObjectFlags::new;
    let _: fn(CUDA_ARRAY3D_DESCRIPTOR) -> ArrayDescriptor = ArrayDescriptor::from_raw;
    let _: fn([usize; 3], ArrayFormat, c_uint, ArrayObjectFlags) -> ArrayDescriptor = ArrayDescriptor::new;
    let _: fn([usize; 3], ArrayFormat) -> ArrayDescriptor = ArrayDescriptor::from_dims_format;
    let _: fn(&ArrayDescriptor) -> [usize; 3] = ArrayDescriptor::dims;
    let _: fn(&mut ArrayDescriptor, [usize; 3]) = ArrayDescriptor::set_dims;
    let _: fn(&ArrayDescriptor) -> usize = ArrayDescriptor::width;
    let _: fn(&mut ArrayDescriptor, usize) = ArrayDescriptor::set_width;
    let _: fn(&ArrayDescriptor) -> usize = ArrayDescriptor::height;
    let _: fn(&mut ArrayDescriptor, usize) = ArrayDescriptor::set_height;
    let _: fn(&ArrayDescriptor) -> usize = ArrayDescriptor::depth;
    let _: fn(&mut ArrayDescriptor, usize) = ArrayDescriptor::set_depth;
    let _: fn(&ArrayDescriptor) -> ArrayFormat = ArrayDescriptor::format;
    let _: fn(&mut ArrayDescriptor, ArrayFormat) = ArrayDescriptor::set_format;
    let _: fn(&ArrayDescriptor) -> c_uint = ArrayDescriptor::num_channels;
    let _: fn(&mut ArrayDescriptor, c_uint) = ArrayDescriptor::set_num_channels;
    let _: fn(&ArrayDescriptor) -> ArrayObjectFlags = ArrayDescriptor::flags;
    let _: fn(&mut ArrayDescriptor, ArrayObjectFlags) = ArrayDescriptor::set_flags;
    let _: fn(&ArrayDescriptor) -> CudaResult<ArrayObject> = ArrayObject::from_descriptor;
    let _: fn([usize; 3], ArrayFormat, c_uint) -> CudaResult<ArrayObject> = ArrayObject::new;
    let _: fn(usize, ArrayFormat, c_uint) -> CudaResult<ArrayObject> = ArrayObject::new_1d;
    let _: fn([usize; 2], ArrayFormat, c_uint) -> CudaResult<ArrayObject> = ArrayObject::new_2d;
    let _: fn([usize; 2], usize, ArrayFormat, c_uint) -> CudaResult<ArrayObject> = ArrayObject::new_layered;
    let _: fn(usize, usize, ArrayFormat, c_uint) -> CudaResult<ArrayObject> = ArrayObject::new_layered_1d;
    let _: fn(usize, ArrayFormat, c_uint) -> CudaResult<ArrayObject> = ArrayObject::new_cubemap;
    let _: fn(usize, usize, ArrayFormat, c_uint) -> CudaResult<ArrayObject> =
        ArrayObject::new_layered_cubemap;
    let _: fn(&ArrayObject) -> CudaResult<ArrayDescriptor> = ArrayObject::descriptor;
    let _: fn(ArrayObject) -> DropResult<ArrayObject> = ArrayObject::drop;
}

#[test]
fn every_signature_of_module_is_rustacudas() {
    let _: fn(&CStr) -> CudaResult<Module> = Module::load_from_file;
    let _: fn(&CStr) -> CudaResult<Module> = Module::load_from_string;
    let _: for<'a> fn(&'a Module, &CStr) -> CudaResult<Symbol<'a, u32>> = Module::get_global::<u32>;
    let _: for<'a> fn(&'a Module, &CStr) -> CudaResult<Function<'a>> = Module::get_function;
    let _: fn(Module) -> DropResult<Module> = Module::drop;
}

#[test]
fn every_signature_of_stream_is_rustacudas() {
    let _: fn(StreamFlags, Option<i32>) -> CudaResult<Stream> = Stream::new;
    let _: fn(&Stream) -> CudaResult<StreamFlags> = Stream::get_flags;
    let _: fn(&Stream) -> CudaResult<i32> = Stream::get_priority;
    let _: fn(&Stream, Box<fn(CudaResult<()>)>) -> CudaResult<()> = Stream::add_callback;
    let _: fn(&Stream) -> CudaResult<()> = Stream::synchronize;
    let _: fn(&Stream, Event, StreamWaitEventFlags) -> CudaResult<()> = Stream::wait_event::<Event>;
    let _: unsafe fn(&Stream, &Function<'_>, u32, (u32, u32), u32, &[*mut c_void]) -> CudaResult<()> =
        Stream::launch::<u32, (u32, u32)>;
    let _: fn(Stream) -> DropResult<Stream> = Stream::drop;
}

#[test]
fn every_attribute_of_a_device_has_its_number() {
    use DeviceAttribute::*;
    let numbers = [
        (MaxThreadsPerBlock, 1),
        (MaxBlockDimX, 2),
        (MaxBlockDimY, 3),
        (MaxBlockDimZ, 4),
        (MaxGridDimX, 5),
        (MaxGridDimY, 6),
        (MaxGridDimZ, 7),
        (MaxSharedMemoryPerBlock, 8),
        (TotalConstantMemory, 9),
        (WarpSize, 10),
        (MaxPitch, 11),
        (MaxRegistersPerBlock, 12),
        (ClockRate, 13),
        (TextureAlignment, 14),
        (MultiprocessorCount, 16),
        (KernelExecTimeout, 17),
        (Integrated, 18),
        (CanMapHostMemory, 19),
        (ComputeMode, 20),
        (MaximumTexture1DWidth, 21),
        (MaximumTexture2DWidth, 22),
        (MaximumTexture2DHeight, 23),
        (MaximumTexture3DWidth, 24),
        (MaximumTexture3DHeight, 25),
        (MaximumTexture3DDepth, 26),
        (MaximumTexture2DLayeredWidth, 27),
        (MaximumTexture2DLayeredHeight, 28),
        (MaximumTexture2DLayeredLayers, 29),
        (SurfaceAlignment, 30),
        (ConcurrentKernels, 31),
        (EccEnabled, 32),
        (PciBusId, 33),
        (PciDeviceId, 34),
        (TccDriver, 35),
        (MemoryClockRate, 36),
        (GlobalMemoryBusWidth, 37),
        (L2CacheSize, 38),
        (MaxThreadsPerMultiprocessor, 39),
        (AsyncEngineCount, 40),
        (UnifiedAddressing, 41),
        (MaximumTexture1DLayeredWidth, 42),
        (MaximumTexture1DLayeredLayers, 43),
        (MaximumTexture2DGatherWidth, 45),
        (MaximumTexture2DGatherHeight, 46),
        (MaximumTexture3DWidthAlternate, 47),
        (MaximumTexture3DHeightAlternate, 48),
        (MaximumTexture3DDepthAlternate, 49),
        (PciDomainId, 50),
        (TexturePitchAlignment, 51),
        (MaximumTextureCubemapWidth, 52),
        (MaximumTextureCubemapLayeredWidth, 53),
        (MaximumTextureCubemapLayeredLayers, 54),
        (MaximumSurface1DWidth, 55),
        (MaximumSurface2DWidth, 56),
        (MaximumSurface2DHeight, 57),
        (MaximumSurface3DWidth, 58),
        (MaximumSurface3DHeight, 59),
        (MaximumSurface3DDepth, 60),
        (MaximumSurface1DLayeredWidth, 61),
        (MaximumSurface1DLayeredLayers, 62),
        (MaximumSurface2DLayeredWidth, 63),
        (MaximumSurface2DLayeredHeight, 64),
        (MaximumSurface2DLayeredLayers, 65),
        (MaximumSurfacecubemapWidth, 66),
        (MaximumSurfacecubemapLayeredWidth, 67),
        (MaximumSurfacecubemapLayeredLayers, 68),
        (MaximumTexture1DLinearWidth, 69),
        (MaximumTexture2DLinearWidth, 70),
        (MaximumTexture2DLinearHeight, 71),
        (MaximumTexture2DLinearPitch, 72),
        (MaximumTexture2DMipmappedWidth, 73),
        (MaximumTexture2DMipmappedHeight, 74),
        (ComputeCapabilityMajor, 75),
        (ComputeCapabilityMinor, 76),
        (MaximumTexture1DMipmappedWidth, 77),
        (StreamPrioritiesSupported, 78),
        (GlobalL1CacheSupported, 79),
        (LocalL1CacheSupported, 80),
        (MaxSharedMemoryPerMultiprocessor, 81),
        (MaxRegistersPerMultiprocessor, 82),
        (ManagedMemory, 83),
        (MultiGpuBoard, 84),
        (MultiGpuBoardGroupId, 85),
        (HostNativeAtomicSupported, 86),
        (SingleToDoublePrecisionPerfRatio, 87),
        (PageableMemoryAccess, 88),
        (ConcurrentManagedAccess, 89),
        (ComputePreemptionSupported, 90),
        (CanUseHostPointerForRegisteredMem, 91),
        (CanUseStreamMemOps, 92),
        (CanUse64BitStreamMemOps, 93),
        (CanUseStreamWaitValueNor, 94),
        (CooperativeLaunch, 95),
        (CooperativeMultiDeviceLaunch, 96),
        (MaxSharedMemoryPerBlockOptin, 97),
        (CanFlushRemoteWrites, 98),
        (HostRegisterSupported, 99),
        (PageableMemoryAccessUsesHostPageTable, 100),
        (DirectManagedMemAccessFromhost, 101),
        (VirtualMemoryManagementSupported, 102),
        (HandleTypePosixFileDescriptorSupported, 103),
        (HandleTypeWin32HandleSupported, 104),
        (HandleTypeWin32KmtHandleSupported, 105),
    ];
    for (name, number) in numbers {
        assert_eq!(name as u32, number, "{name:?}");
    }
}

#[test]
fn every_attribute_of_a_function_has_its_number() {
    use FunctionAttribute::*;
    let numbers = [
        (MaxThreadsPerBlock, 0),
        (SharedMemorySizeBytes, 1),
        (ConstSizeBytes, 2),
        (LocalSizeBytes, 3),
        (NumRegisters, 4),
        (PtxVersion, 5),
        (BinaryVersion, 6),
        (CacheModeCa, 7),
    ];
    for (name, number) in numbers {
        assert_eq!(name as u32, number, "{name:?}");
    }
}

#[test]
fn every_flag_has_its_bits() {
    assert_eq!(
        (EventFlags::DEFAULT
            | EventFlags::BLOCKING_SYNC
            | EventFlags::DISABLE_TIMING
            | EventFlags::INTERPROCESS)
            .bits(),
        7
    );
    assert_eq!((StreamFlags::DEFAULT.bits(), StreamFlags::NON_BLOCKING.bits()), (0, 1));
    assert_eq!(StreamWaitEventFlags::DEFAULT.bits(), 0);
    use ArrayObjectFlags as Flags;
    let flags = [Flags::LAYERED, Flags::SURFACE_LDST, Flags::CUBEMAP, Flags::TEXTURE_GATHER];
    assert_eq!(flags.map(|flag| flag.bits()), [1, 2, 4, 8]);
}

#[test]
fn every_plain_variant_is_there() {
    use ArrayFormat::*;
    let formats =
        [UnsignedInt8, UnsignedInt16, UnsignedInt32, SignedInt8, SignedInt16, SignedInt32, Half, Float];
    let raw = formats.map(|format| format.to_raw() as u32);
    assert_eq!(raw, [1, 2, 3, 8, 9, 10, 0x10, 0x20]);
    assert_ne!(EventStatus::Ready, EventStatus::NotReady);
}
