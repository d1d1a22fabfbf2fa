//! Memory of all kinds.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::harness::{current, is_simulated, parked, pushed, run, run_alone};
use custack::context::{Context, PrimaryContext, UnownedContext};
use custack::error::CudaError;
use custack::memory::array::{ArrayDescriptor, ArrayFormat, ArrayObject, ArrayObjectFlags};
use custack::memory::*;
use custack::sim;
use custack::stream::{Stream, StreamFlags};

#[test]
fn values_go_there_and_come_back() {
    run(|| {
        let _ctx = pushed();
        let start = [1u64, 2, 3, 4, 5, 6];
        let mut buffer = DeviceBuffer::from_slice(&start).unwrap();
        let mut end = [0u64; 6];
        buffer.copy_to(&mut end).unwrap();
        assert_eq!(end, start);
        buffer[1..3].copy_from(&[20, 30]).unwrap();
        let mut part = [0; 2];
        buffer[2..=3].copy_to(&mut part).unwrap();
        assert_eq!(part, [30, 4]);
        let mut other = DeviceBuffer::from_slice(&[0u64; 6]).unwrap();
        other.copy_from(&buffer).unwrap();
        let (left, right) = other.split_at_mut(3);
        left.copy_from(&*right).unwrap();
        other.copy_to(&mut end).unwrap();
        assert_eq!(end, [4, 5, 6, 4, 5, 6]);
        let mut value = DeviceBox::new(&7u32).unwrap();
        let mut copy = DeviceBox::new(&0u32).unwrap();
        copy.copy_from(&value).unwrap();
        value.copy_from(&9).unwrap();
        let mut back = [0, 0];
        copy.copy_to(&mut back[0]).unwrap();
        value.copy_to(&mut back[1]).unwrap();
        assert_eq!(back, [7, 9]);
    });
}

#[test]
fn memory_can_be_zero_from_the_start() {
    run(|| {
        let _ctx = pushed();
        let buffer = unsafe { DeviceBuffer::<u32>::zeroed(100) }.unwrap();
        let mut back = [1u32; 100];
        buffer.copy_to(&mut back).unwrap();
        assert_eq!(back, [0; 100]);
        let value = unsafe { DeviceBox::<u64>::zeroed() }.unwrap();
        let mut back = 1;
        value.copy_to(&mut back).unwrap();
        assert_eq!(back, 0);
    });
}

#[test]
fn chunks_are_as_those_of_a_host_slice() {
    run(|| {
        let _ctx = pushed();
        let numbers: Vec<u32> = (0..23).collect();
        let mut buffer = DeviceBuffer::from_slice(&numbers).unwrap();
        for size in [1, 2, 5, 22, 23, 24] {
            let read = |part: &DeviceSlice<u32>| {
                let mut values = vec![0; part.len()];
                part.copy_to(&mut values).unwrap();
                values
            };
            let forward: Vec<_> = buffer.chunks(size).map(read).collect();
            assert_eq!(forward, numbers.chunks(size).map(<[u32]>::to_vec).collect::<Vec<_>>(), "{size}");
            let backward: Vec<_> = buffer.chunks(size).rev().map(read).collect();
            assert_eq!(
                backward,
                numbers.chunks(size).rev().map(<[u32]>::to_vec).collect::<Vec<_>>(),
                "{size}"
            );
            assert_eq!(buffer.chunks(size).len(), numbers.chunks(size).len());
            assert_eq!(buffer.chunks_mut(size).len(), numbers.chunks(size).len());
        }
        for part in buffer.chunks_mut(10) {
            let ones = vec![1; part.len()];
            part.copy_from(&ones[..]).unwrap();
        }
        buffer.chunks_mut(10).next_back().unwrap().copy_from(&[2; 3]).unwrap();
        let mut back = [0; 23];
        buffer.copy_to(&mut back).unwrap();
        assert_eq!((back.iter().filter(|one| **one == 1).count(), back[20..].to_vec()), (20, vec![2; 3]));
    });
}

#[test]
fn slices_that_are_none_panic_as_host_slices_do() {
    run(|| {
        let _ctx = pushed();
        let buffer = DeviceBuffer::from_slice(&[1u8, 2, 3]).unwrap();
        let panics = |f: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_err();
        assert!(panics(&|| assert_ne!(format!("{:?}", buffer[2..5].len()), "never")));
        #[allow(clippy::reversed_empty_ranges)]
        let backwards = || assert_ne!(buffer[2..1].len(), 99);
        assert!(panics(&backwards));
        assert!(panics(&|| assert_ne!(format!("{:?}", buffer.chunks(0).len()), "never")));
        assert!(panics(&|| assert_ne!(format!("{:?}", buffer.split_at(4).0.len()), "never")));
        assert!(panics(&|| assert_ne!(format!("{:?}", buffer.copy_to(&mut [0u8; 2])), "never")));
        assert!(!panics(&|| assert_ne!(format!("{:?}", buffer[3..].is_empty()), "never")));
    });
}

#[test]
fn debug_never_reads_device_memory() {
    run(|| {
        let _ctx = pushed();
        let buffer = DeviceBuffer::from_slice(&[1u64, 2]).unwrap();
        assert!(format!("{buffer:?} {:?}", &buffer[0..2]).contains("len: 2"));
        let value = DeviceBox::new(&1u32).unwrap();
        assert!(format!("{value:?} {value:p}").contains("0x"));
    });
}

#[test]
fn nothing_and_too_much_are_not_allocated() {
    run(|| {
        assert_eq!(DeviceBuffer::from_slice(&[1u8]).unwrap_err(), CudaError::InvalidContext);
        let _ctx = pushed();
        for count in [0, usize::MAX, usize::MAX / 8 + 1, isize::MAX as usize / 8 + 1] {
            assert_eq!(unsafe { cuda_malloc::<u64>(count) }.unwrap_err(), CudaError::InvalidMemoryAllocation);
        }
        assert_eq!(unsafe { cuda_malloc_unified::<()>(5) }.unwrap_err(), CudaError::InvalidMemoryAllocation);
        assert_eq!(unsafe { cuda_malloc_locked::<u8>(0) }.unwrap_err(), CudaError::InvalidMemoryAllocation);
        assert_eq!(unsafe { cuda_malloc::<u8>(1 << 46) }.unwrap_err(), CudaError::OutOfMemory);
        assert_eq!(
            unsafe { cuda_free(DevicePointer::<u8>::null()) },
            Err(CudaError::InvalidMemoryAllocation)
        );
        assert_eq!(
            unsafe { cuda_free_unified(UnifiedPointer::<u8>::null()) },
            Err(CudaError::InvalidMemoryAllocation)
        );
        assert_eq!(
            unsafe { cuda_free_locked(std::ptr::null_mut::<u8>()) },
            Err(CudaError::InvalidMemoryAllocation)
        );
        let (free, total) = info().unwrap();
        assert!(free <= total && total > 1 << 30);
    });
}

#[test]
fn values_without_a_size_have_no_memory() {
    run(|| {
        let _ctx = pushed();
        let mut boxed = DeviceBox::new(&()).unwrap();
        assert!(boxed.as_device_ptr().is_null());
        boxed.copy_to(&mut ()).unwrap();
        let buffer = DeviceBuffer::from_slice(&[(); 7]).unwrap();
        assert_eq!((buffer.len(), buffer[2..5].len()), (7, 3));
        let unified = UnifiedBox::new(()).unwrap();
        assert_eq!(*unified, ());
        assert_eq!(UnifiedBuffer::from_slice(&[(); 3]).unwrap().len(), 3);
        assert!(LockedBuffer::from_slice(&[] as &[u32]).unwrap().is_empty());
        assert!(DeviceBuffer::from_slice(&[] as &[u32]).unwrap().is_empty());
        assert!(DeviceBuffer::drop(buffer).is_ok() && UnifiedBox::drop(unified).is_ok());
    });
}

#[test]
fn memory_works_on_any_thread_with_anything_current() {
    run(|| {
        let (a, b) = (parked(), pushed());
        let mut buffer = a.scoped(|_| DeviceBuffer::from_slice(&[1u32, 2])).unwrap();
        assert_eq!(buffer.context(), &a.get_unowned());
        buffer.copy_from(&[3, 4]).unwrap();
        assert_eq!(current(), b.as_raw());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut back = [0; 2];
                buffer.copy_to(&mut back).unwrap();
                assert_eq!(back, [3, 4]);
                drop(buffer);
                assert!(current().is_null());
            });
        });
    });
}

#[test]
fn device_memory_that_outlives_its_context_is_inert() {
    run(|| {
        let ctx = pushed();
        let mut buffer = DeviceBuffer::from_slice(&[1u32, 2]).unwrap();
        let mut value = DeviceBox::new(&1u32).unwrap();
        drop(ctx);
        assert_eq!(buffer.copy_from(&[1, 2]), Err(CudaError::ContextIsDestroyed));
        assert_eq!(buffer[0..1].copy_to(&mut [0]), Err(CudaError::ContextIsDestroyed));
        assert_eq!(value.copy_from(&1), Err(CudaError::ContextIsDestroyed));
        let _other = pushed();
        let mut fresh = DeviceBuffer::from_slice(&[9u32, 9]).unwrap();
        assert_eq!(fresh.copy_from(&buffer), Err(CudaError::ContextIsDestroyed));
        assert!(DeviceBuffer::drop(buffer).is_ok() && DeviceBox::drop(value).is_ok());
        let mut back = [0; 2];
        fresh.copy_to(&mut back).unwrap();
        assert_eq!(back, [9, 9]);
    });
}

#[test]
fn host_memory_keeps_its_context_from_being_destroyed() {
    run_alone(|| {
        let ctx = pushed();
        let handle = ctx.get_unowned();
        let mut unified = UnifiedBuffer::from_slice(&[1u32, 2, 3]).unwrap();
        let mut boxed = UnifiedBox::new(5u64).unwrap();
        let mut locked = LockedBuffer::new(&7u8, 4).unwrap();
        let alive = custack::driver::instrument::contexts_alive();
        assert!(Context::drop(ctx).is_ok());
        assert!(current().is_null());
        assert_eq!(handle.synchronize(), Err(CudaError::ContextIsDestroyed));
        assert_eq!(custack::driver::instrument::contexts_alive(), alive);
        unified[1] = 20;
        *boxed += 1;
        locked[3] = 8;
        assert_eq!((&unified[..], *boxed, &locked[..]), (&[1, 20, 3][..], 6, &[7, 7, 7, 8][..]));
        drop(unified);
        assert!(UnifiedBox::drop(boxed).is_ok());
        assert_eq!(custack::driver::instrument::contexts_alive(), alive);
        drop(locked);
        assert_eq!(custack::driver::instrument::contexts_alive(), alive - 1);
    });
}

#[test]
fn host_memory_keeps_a_primary_context_too() {
    run_alone(|| {
        let primary = PrimaryContext::retain(crate::harness::device()).unwrap();
        let mut locked = primary.scoped(|_| LockedBuffer::new(&1u32, 10)).unwrap();
        drop(primary);
        locked[9] = 3;
        assert_eq!(locked.iter().sum::<u32>(), 12);
        let again = PrimaryContext::retain(crate::harness::device()).unwrap();
        again.synchronize().unwrap();
        drop(locked);
        again.synchronize().unwrap();
    });
}

#[test]
fn freed_by_hand_or_given_away_it_is_freed_once() {
    run(|| {
        let _ctx = pushed();
        let pointer = DeviceBox::into_device(DeviceBox::new(&5u32).unwrap());
        let again = unsafe { DeviceBox::from_device(pointer) };
        let mut back = 0;
        again.copy_to(&mut back).unwrap();
        assert_eq!(back, 5);
        drop(again);
        let pointer = UnifiedBox::into_unified(UnifiedBox::new(6u32).unwrap());
        assert_eq!(*unsafe { UnifiedBox::from_unified(pointer) }, 6);
        let pointer = unsafe { cuda_malloc::<u16>(10) }.unwrap();
        drop(unsafe { DeviceBuffer::from_raw_parts(pointer, 10) });
        let locked = unsafe { cuda_malloc_locked::<u16>(10) }.unwrap();
        unsafe { locked.write_bytes(1, 10) };
        assert_eq!(unsafe { LockedBuffer::from_raw_parts(locked, 10) }.as_slice(), [0x0101; 10]);
        let locked = unsafe { cuda_malloc_locked::<u16>(10) }.unwrap();
        assert_eq!(unsafe { cuda_free_locked(locked) }, Ok(()));
        assert!(DeviceBuffer::drop(DeviceBuffer::from_slice(&[1]).unwrap()).is_ok());
    });
}

#[test]
fn what_could_not_be_freed_comes_back_empty() {
    use custack::driver::instrument::{self, When};
    run(|| {
        let _ctx = pushed();
        let buffer = DeviceBuffer::from_slice(&[1u32, 2]).unwrap();
        assert!(instrument::fail(Some("cuMemFree_v2"), 1, 719, When::Before));
        let (error, buffer) = DeviceBuffer::drop(buffer).unwrap_err();
        assert_eq!(error, CudaError::LaunchFailed);
        let frees = instrument::calls().of("cuMemFree_v2");
        assert!(buffer.is_empty(), "it may be freed");
        assert!(DeviceBuffer::drop(buffer).is_ok());
        assert_eq!(instrument::calls().of("cuMemFree_v2"), frees, "and is not freed again");
        let locked = LockedBuffer::from_slice(&[1u8]).unwrap();
        assert!(instrument::fail(Some("cuMemFreeHost"), 1, 719, When::After));
        let (_, locked) = LockedBuffer::drop(locked).unwrap_err();
        assert!(locked.is_empty());
        assert!(instrument::fail(Some("cuMemsetD8_v2"), 1, 719, When::Before));
        let frees = instrument::calls().of("cuMemFree_v2");
        assert!(unsafe { DeviceBuffer::<u8>::zeroed(4) }.is_err());
        assert_eq!(instrument::calls().of("cuMemFree_v2"), frees + 1);
    });
}

#[test]
fn copies_in_a_stream_come_in_its_order() {
    run(|| {
        let _ctx = pushed();
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
        let from = LockedBuffer::from_slice(&[1u32, 2, 3, 4]).unwrap();
        let mut to = LockedBuffer::new(&0u32, 4).unwrap();
        unsafe {
            let mut a = DeviceBuffer::from_slice_async(&from, &stream).unwrap();
            let mut b = DeviceBuffer::<u32>::uninitialized(4).unwrap();
            b.async_copy_from(&a, &stream).unwrap();
            a[0..1].async_copy_from(&[9], &stream).unwrap();
            b[2..4].async_copy_to(&mut to[0..2], &stream).unwrap();
            a[0..2].async_copy_to(&mut to[2..4], &stream).unwrap();
            stream.synchronize().unwrap();
        }
        assert_eq!(&to[..], [3, 4, 9, 2]);
        let (one, mut two) = (DeviceBox::new(&1u32).unwrap(), DeviceBox::new(&2u32).unwrap());
        unsafe { one.async_copy_to(&mut two, &stream) }.unwrap();
        stream.synchronize().unwrap();
        let mut back = 0;
        two.copy_to(&mut back).unwrap();
        assert_eq!(back, 1);
    });
}

#[test]
fn copies_in_a_stream_of_another_context_are_refused() {
    run(|| {
        let (a, _b) = (parked(), pushed());
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
        let mut buffer = a.scoped(|_| DeviceBuffer::from_slice(&[1u32])).unwrap();
        assert_eq!(unsafe { buffer.async_copy_from(&[2], &stream) }, Err(CudaError::InvalidHandle));
    });
}

#[test]
fn the_driver_refuses_memory_that_is_not_allocated() {
    run(|| {
        let _ctx = pushed();
        let mut buffer = DeviceBuffer::from_slice(&[1u8; 512]).unwrap();
        // Past the end by far more than what is allocated beside it.
        let past = unsafe { DeviceSlice::from_raw_parts(buffer.as_device_ptr(), 1 << 28) };
        assert_eq!(past.copy_to(&mut vec![0u8; 1 << 28][..]), Err(CudaError::InvalidValue));
        let wild = unsafe { DeviceSlice::<u8>::from_raw_parts(DevicePointer::wrap(0x10_0000 as *mut u8), 4) };
        assert_eq!(wild.copy_to(&mut [0; 4]), Err(CudaError::InvalidValue));
        let pointer = unsafe { cuda_malloc::<u8>(512) }.unwrap();
        assert_eq!(unsafe { cuda_free(pointer) }, Ok(()));
        assert_eq!(unsafe { cuda_free(pointer) }, Err(CudaError::InvalidValue));
        if is_simulated() {
            assert!(sim::log().iter().any(|line| line.contains("nothing is allocated")), "{:?}", sim::log());
        }
    });
}

#[test]
fn arrays_are_what_was_asked_for() {
    run(|| {
        assert_eq!(ArrayObject::new_1d(8, ArrayFormat::Float, 1).unwrap_err(), CudaError::InvalidContext);
        let ctx = pushed();
        let arrays = [
            (ArrayObject::new([8, 4, 2], ArrayFormat::Float, 1), [8, 4, 2], ArrayObjectFlags::empty()),
            (ArrayObject::new_1d(8, ArrayFormat::SignedInt16, 2), [8, 0, 0], ArrayObjectFlags::empty()),
            (ArrayObject::new_2d([8, 4], ArrayFormat::UnsignedInt8, 4), [8, 4, 0], ArrayObjectFlags::empty()),
            (ArrayObject::new_layered([8, 4], 3, ArrayFormat::Half, 1), [8, 4, 3], ArrayObjectFlags::LAYERED),
            (ArrayObject::new_layered_1d(8, 3, ArrayFormat::Float, 1), [8, 0, 3], ArrayObjectFlags::LAYERED),
            (ArrayObject::new_cubemap(8, ArrayFormat::Float, 1), [8, 8, 6], ArrayObjectFlags::CUBEMAP),
            (
                ArrayObject::new_layered_cubemap(8, 2, ArrayFormat::Float, 1),
                [8, 8, 12],
                ArrayObjectFlags::CUBEMAP | ArrayObjectFlags::LAYERED,
            ),
        ];
        for (array, dims, flags) in arrays {
            let array = array.unwrap();
            let descriptor = array.descriptor().unwrap();
            assert_eq!((descriptor.dims(), descriptor.flags()), (dims, flags));
            assert!(format!("{array:?}").contains("dims"));
            assert_eq!(array.context(), &ctx.get_unowned());
            assert!(ArrayObject::drop(array).is_ok());
        }
        let array = ArrayObject::new_1d(8, ArrayFormat::Float, 1).unwrap();
        drop(ctx);
        assert_eq!(array.descriptor().unwrap_err(), CudaError::ContextIsDestroyed);
    });
}

#[test]
fn descriptors_that_are_none_are_refused_before_the_driver_is_asked() {
    use custack::driver::instrument::during;
    run(|| {
        let _ctx = pushed();
        let cases = [
            ([0, 0, 0], 1, ArrayObjectFlags::empty()),
            ([8, 0, 3], 1, ArrayObjectFlags::empty()),
            ([8, 4, 6], 1, ArrayObjectFlags::CUBEMAP),
            ([8, 8, 5], 1, ArrayObjectFlags::CUBEMAP),
            ([8, 8, 7], 1, ArrayObjectFlags::CUBEMAP | ArrayObjectFlags::LAYERED),
            ([8, 0, 0], 3, ArrayObjectFlags::empty()),
        ];
        for (dims, channels, flags) in cases {
            let descriptor = ArrayDescriptor::new(dims, ArrayFormat::Float, channels, flags);
            let (result, calls) = during(|| ArrayObject::from_descriptor(&descriptor));
            assert_eq!((result.unwrap_err(), calls.total()), (CudaError::InvalidValue, 0), "{descriptor:?}");
        }
        let mut descriptor = ArrayDescriptor::from_dims_format([1, 0, 0], ArrayFormat::Half);
        descriptor.set_width(4);
        descriptor.set_height(5);
        descriptor.set_depth(6);
        descriptor.set_format(ArrayFormat::Float);
        descriptor.set_num_channels(2);
        descriptor.set_flags(ArrayObjectFlags::SURFACE_LDST);
        assert_eq!((descriptor.width(), descriptor.height(), descriptor.depth()), (4, 5, 6));
        assert_eq!((descriptor.format(), descriptor.num_channels()), (ArrayFormat::Float, 2));
        descriptor.set_dims([7, 7, 0]);
        ArrayObject::from_descriptor(&descriptor).unwrap();
        for format in [ArrayFormat::UnsignedInt8, ArrayFormat::SignedInt32, ArrayFormat::Half] {
            assert_eq!(ArrayFormat::from_raw(format.to_raw()), format);
        }
    });
}

#[test]
fn what_may_go_to_other_threads_and_be_shared() {
    static_assertions::assert_impl_all!(DeviceBuffer<u32>: Send, Sync);
    static_assertions::assert_impl_all!(DeviceBox<u32>: Send, Sync);
    static_assertions::assert_impl_all!(DeviceSlice<u32>: Send, Sync);
    static_assertions::assert_impl_all!(UnifiedBuffer<u32>: Send, Sync);
    static_assertions::assert_impl_all!(UnifiedBox<u32>: Send, Sync);
    static_assertions::assert_impl_all!(LockedBuffer<u32>: Send, Sync);
    static_assertions::assert_impl_all!(ArrayObject: Send, Sync);
    static_assertions::assert_impl_all!(Stream: Send, Sync);
    static_assertions::assert_impl_all!(custack::event::Event: Send, Sync);
    static_assertions::assert_impl_all!(custack::module::Module: Send, Sync);
    static_assertions::assert_impl_all!(custack::function::Function<'static>: Send, Sync);
    static_assertions::assert_impl_all!(UnownedContext: Send, Sync);
}

#[test]
fn the_address_is_the_first_thing_in_a_buffer() {
    run(|| {
        let _ctx = pushed();
        let mut buffer = DeviceBuffer::from_slice(&[1u32]).unwrap();
        let first = unsafe { std::ptr::from_ref(&buffer).cast::<u64>().read() };
        assert_eq!(first, buffer.as_device_ptr().as_raw() as u64);
    });
}

#[test]
fn every_owner_can_be_dropped_by_hand() {
    run(|| {
        let ctx = pushed();
        assert!(DeviceBox::drop(DeviceBox::new(&1u8).unwrap()).is_ok());
        assert!(DeviceBuffer::drop(DeviceBuffer::from_slice(&[1u8]).unwrap()).is_ok());
        assert!(UnifiedBox::drop(UnifiedBox::new(1u8).unwrap()).is_ok());
        assert!(UnifiedBuffer::drop(UnifiedBuffer::new(&1u8, 2).unwrap()).is_ok());
        assert!(LockedBuffer::drop(LockedBuffer::new(&1u8, 2).unwrap()).is_ok());
        assert!(ArrayObject::drop(ArrayObject::new_1d(1, ArrayFormat::Half, 1).unwrap()).is_ok());
        assert!(Stream::drop(Stream::new(StreamFlags::DEFAULT, None).unwrap()).is_ok());
        let calls = custack::driver::instrument::calls();
        assert_eq!(calls.of("cuArrayDestroy"), 1, "destroyed once");
        Context::drop(ctx).unwrap();
    });
}

#[test]
fn unified_values_behave_as_what_they_hold() {
    use std::collections::HashSet;
    run(|| {
        let _ctx = pushed();
        let (mut one, two) = (UnifiedBox::new(1u32).unwrap(), UnifiedBox::new(2u32).unwrap());
        assert!(one < two && one != two && one.cmp(&two).is_lt());
        assert_eq!(
            (format!("{one}"), format!("{one:p}")),
            ("1".to_owned(), format!("{:p}", one.as_unified_ptr()))
        );
        *one.as_mut() += 1;
        assert_eq!(one, two);
        assert_eq!((*one.as_ref(), *std::borrow::Borrow::<u32>::borrow(&two)), (2, 2));
        assert_eq!(HashSet::from([one, two]).len(), 1);
        let mut buffer = UnifiedBuffer::from_slice(&[3u8, 1, 2]).unwrap();
        buffer.sort_unstable();
        assert_eq!(buffer.as_slice(), [1, 2, 3]);
        assert_eq!(buffer.as_unified_ptr().as_raw(), buffer.as_slice().as_ptr());
        buffer.as_mut_slice()[0] = 9;
        assert_eq!(AsRef::<[u8]>::as_ref(&buffer), [9, 2, 3]);
        let leaked = UnifiedBox::leak(UnifiedBox::new(()).unwrap());
        assert_eq!(*leaked, ());
    });
}

#[test]
fn derived_types_go_to_the_device_and_back() {
    use custack::DeviceCopy;
    #[derive(Clone, Debug, PartialEq, DeviceCopy)]
    struct Pair {
        number: u32,
        part: f32,
    }
    run(|| {
        let _ctx = pushed();
        let pairs = [Pair { number: 1, part: 0.5 }, Pair { number: 2, part: 1.5 }];
        let buffer = DeviceBuffer::from_slice(&pairs).unwrap();
        let mut back = [Pair { number: 0, part: 0.0 }, Pair { number: 0, part: 0.0 }];
        buffer.copy_to(&mut back).unwrap();
        assert_eq!(back, pairs);
    });
}

#[test]
fn more_memory_than_a_laptop_has_can_be_allocated_and_is_used_where_it_is_touched() {
    run(|| {
        let _ctx = pushed();
        let (free, _) = info().unwrap();
        let count = free / 2;
        let mut large = unsafe { DeviceBuffer::<u8>::uninitialized(count) }.unwrap();
        large[count - 70_000..].copy_from(&vec![7; 70_000][..]).unwrap();
        let mut back = [0; 3];
        large[count - 3..].copy_to(&mut back).unwrap();
        assert_eq!(back, [7; 3]);
        assert_eq!(
            unsafe { DeviceBuffer::<u8>::uninitialized(count + count / 4) }.unwrap_err(),
            CudaError::OutOfMemory
        );
    });
}
