//! Operations on memory of every kind.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{Operation, stream};
use custack::device::Device;
use custack::memory::array::{ArrayDescriptor, ArrayFormat, ArrayObject, ArrayObjectFlags};
use custack::memory::*;
use custack::texture::{Surface, Texture, TextureDescriptor};

pub(super) const OPERATIONS: &[(&str, Operation)] = &[
    ("a device buffer", || {
        let mut buffer = DeviceBuffer::from_slice(&[1u32, 2, 3])?;
        buffer[0..1].copy_from(&[4])?;
        buffer.copy_to(&mut [0; 3])
    }),
    ("the handle of a buffer for other processes", || {
        DeviceBuffer::from_slice(&[1u32, 2, 3])?.ipc_handle().map(|_| ())
    }),
    ("zeroed memory", || unsafe {
        DeviceBuffer::<u64>::zeroed(9).and(DeviceBox::<u8>::zeroed()).map(|_| ())
    }),
    ("memory in stream order", || {
        let (home, other) = (stream()?, stream()?);
        let mut buffer = unsafe { DeviceBuffer::<u32>::zeroed_in(9, &home) }?;
        buffer.also_used_in(&other)?;
        buffer.copy_from(&[7; 9])?;
        buffer.copy_to(&mut [0; 9])?;
        let mut copy = DeviceBuffer::from_slice_in(&[0; 9], &other)?;
        copy.copy_from(&buffer)?;
        copy.move_to(&home)?;
        DeviceBox::new_in(&1u32, &other)?.fill(2)
    }),
    ("a memory pool", || {
        let pool = MemoryPool::new(Device::get_device(0)?, &PoolProperties::new())?;
        pool.set_release_threshold(1 << 20)?;
        pool.set_reuse(PoolReuse::Opportunistic, false)?;
        let buffer = DeviceBuffer::from_slice_in(&[1u8], (&pool, &stream()?))?;
        pool.reset_peaks()?;
        drop(buffer);
        pool.trim_to(0)?;
        pool.grant(pool.device(), PoolAccess::ReadWrite)?;
        let _ = (
            pool.usage()?,
            pool.access(pool.device())?,
            pool.is_current()?,
            pool.reuses(PoolReuse::Opportunistic)?,
        );
        pool.make_current()
    }),
    #[cfg(unix)]
    ("a pool for other processes", || {
        let (device, stream) = (Device::get_device(0)?, stream()?);
        let pool = MemoryPool::new(device, &PoolProperties::new().shareable())?;
        let opened = MemoryPool::open(pool.descriptor()?, device)?;
        let buffer = DeviceBuffer::from_slice_in(&[1u8; 8], (&pool, &stream))?;
        stream.synchronize()?;
        drop(unsafe { DeviceBuffer::open_in(buffer.pool_handle()?, (&opened, &stream)) }?);
        stream.synchronize()
    }),
    ("fills", || {
        let (stream, mut buffer) = (stream()?, DeviceBuffer::from_slice(&[1u16, 2])?);
        buffer.fill(7)?;
        unsafe { buffer.async_fill(8, &stream) }?;
        stream.synchronize()
    }),
    ("rows", || {
        let mut rows = PitchedBuffer::from_slice(&[1u32; 6], 3)?;
        rows.fill(2)?;
        let zeros = unsafe { PitchedBuffer::<u32>::zeroed(3, 2) }?;
        rows.copy_part_from((1, 0), &zeros, (0, 0), (2, 2))?;
        rows.copy_to(&mut [0; 6])
    }),
    ("a registered slice", || {
        RegisteredSlice::scoped(&mut [0u64; 9], RegisterFlags::empty(), |slice| {
            slice.as_device_ptr().map(|_| ())
        })
    }),
    ("locked memory with flags", || unsafe {
        let mut buffer = LockedBuffer::<u8>::uninitialized_with(9, LockedFlags::PORTABLE)?;
        buffer.as_device_ptr().and(buffer.flags()).map(|_| ())
    }),
    ("a device box", || {
        let mut copy = DeviceBox::new(&1u64)?;
        copy.copy_from(&DeviceBox::new(&2)?)
    }),
    ("a unified buffer", || UnifiedBuffer::from_slice(&[1u8, 2]).map(|buffer| assert_eq!(buffer[1], 2))),
    ("a unified box", || UnifiedBox::new(7).map(|seven| assert_eq!(*seven, 7))),
    ("a locked buffer", || LockedBuffer::new(&1u8, 3).map(|buffer| assert_eq!(buffer.len(), 3))),
    ("an array", || ArrayObject::new_1d(4, ArrayFormat::Float, 1)?.descriptor().map(|_| ())),
    ("contents of an array", || {
        let array = ArrayObject::new_2d([2, 2], ArrayFormat::Float, 1)?;
        array.copy_from(&[1.0f32; 4])?;
        array.copy_to(&mut [0.0f32; 4])?;
        let stream = stream()?;
        unsafe { array.async_copy_from(&[2.0f32; 4], &stream) }?;
        stream.synchronize()
    }),
    ("a texture of an array", || {
        let array = ArrayObject::new_2d([2, 2], ArrayFormat::Float, 1)?;
        let texture = Texture::new(&array, &TextureDescriptor::new())?;
        texture.resource().and(texture.descriptor()).map(|_| ())
    }),
    ("textures of memory", || {
        let buffer = Texture::of_buffer(DeviceBuffer::from_slice(&[1u32; 4])?, &TextureDescriptor::new())?;
        let rows = PitchedBuffer::from_slice(&[1.0f32; 4], 2)?;
        Texture::of_rows(&rows, &TextureDescriptor::new())?;
        buffer.into_source().map(|_| ()).map_err(|(error, _)| error)
    }),
    ("a surface", || {
        let flags = ArrayObjectFlags::SURFACE_LDST;
        let written = ArrayDescriptor::new([4, 0, 0], ArrayFormat::Float, 1, flags);
        Surface::new(ArrayObject::from_descriptor(&written)?)?.resource().map(|_| ())
    }),
    ("memory that is freed in a stream", || {
        let (home, other) = (stream()?, stream()?);
        let buffer = unsafe { DeviceBuffer::<u32>::uninitialized_in(9, &home) }?;
        DeviceBuffer::free_in(buffer, &other).map_err(|(error, _)| error)?;
        let number = DeviceBox::new_in(&1u32, &home)?;
        DeviceBox::free_in(number, &other).map_err(|(error, _)| error)
    }),
    ("values that are copied without waiting", || {
        let (stream, values) = (stream()?, [1u32, 2, 3]);
        let ordered = unsafe { DeviceBuffer::from_slice_async_in(&values, &stream) };
        let plain = ordered.and_then(|_| unsafe { DeviceBuffer::from_slice_async(&values, &stream) });
        // The values are borrowed until the stream is done, whatever failed.
        let waited = stream.synchronize().or_else(|error| stream.synchronize().and(Err(error)));
        plain.and(waited)
    }),
    ("rows that are copied without waiting", || {
        let (stream, values, mut back) = (stream()?, [1u32; 6], [0u32; 6]);
        let mut rows = unsafe { PitchedBuffer::<u32>::uninitialized(3, 2) }?;
        let there = unsafe { rows.async_copy_from(&values, &stream) };
        let copied = there.and_then(|()| unsafe { rows.async_copy_to(&mut back, &stream) });
        let waited = stream.synchronize().or_else(|error| stream.synchronize().and(Err(error)));
        copied.and(waited)
    }),
    ("the release threshold of a pool", || {
        let pool = MemoryPool::new(Device::get_device(0)?, &PoolProperties::new())?;
        pool.set_release_threshold(1 << 20)?;
        pool.release_threshold().map(|bytes| assert_eq!(bytes, 1 << 20))
    }),
];
