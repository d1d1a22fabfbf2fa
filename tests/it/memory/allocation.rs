//! How long memory lives: beside its context, freed by hand, given away.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::harness::{current, device, pushed, run, run_alone};
use custack::context::{Context, PrimaryContext, wait_until_retired};
use custack::driver::instrument;
use custack::error::CudaError;
use custack::memory::array::{ArrayFormat, ArrayObject};
use custack::memory::*;
use custack::stream::{Stream, StreamFlags};

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
        instrument::fail(Some("cuMemFree_v2"), 1, 719, When::Before);
        let (error, buffer) = DeviceBuffer::drop(buffer).unwrap_err();
        assert_eq!(error, CudaError::LaunchFailed);
        let frees = instrument::calls().of("cuMemFree_v2");
        assert!(buffer.is_empty(), "it may be freed");
        assert!(DeviceBuffer::drop(buffer).is_ok());
        assert_eq!(instrument::calls().of("cuMemFree_v2"), frees, "and is not freed again");
        let locked = LockedBuffer::from_slice(&[1u8]).unwrap();
        instrument::fail(Some("cuMemFreeHost"), 1, 719, When::After);
        let (_, locked) = LockedBuffer::drop(locked).unwrap_err();
        assert!(locked.is_empty());
        instrument::fail(Some("cuMemsetD8_v2"), 1, 719, When::Before);
        let frees = instrument::calls().of("cuMemFree_v2");
        assert!(unsafe { DeviceBuffer::<u8>::zeroed(4) }.is_err());
        assert_eq!(instrument::calls().of("cuMemFree_v2"), frees + 1);
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
fn the_stream_that_memory_kept_is_destroyed_before_the_share_that_kept_its_context() {
    run_alone(|| {
        let device = device();
        let other_code = PrimaryContext::retain(device).unwrap().into_raw();
        for by_hand in [false, true] {
            let primary = PrimaryContext::retain(device).unwrap();
            let stream = primary.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
            let buffer = primary.scoped(|_| DeviceBuffer::from_slice_in(&[1u32; 16], &stream)).unwrap();
            drop((stream, primary));
            let ((), calls) = instrument::during_on_all_threads(|| {
                if by_hand {
                    DeviceBuffer::drop(buffer).map_err(|(error, _)| error).unwrap()
                } else {
                    drop(buffer)
                }
                wait_until_retired().unwrap();
            });
            assert_eq!(calls.of("cuStreamDestroy_v2"), 1, "by hand: {by_hand}");
            assert_eq!(calls.of("cuDevicePrimaryCtxRelease_v2"), 1);
        }
        // SAFETY: from `into_raw`.
        drop(unsafe { PrimaryContext::from_raw(other_code, device) }.unwrap());
    });
}
