//! Memory of the program's own that is page-locked in place, and flags of page-locked memory.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::harness::{current, parked, pushed, run, run_alone};
use crate::stream::stream;
use custack::driver::instrument::{self, When, during};
use custack::error::CudaError;
use custack::memory::*;

#[test]
fn a_slice_is_page_locked_as_long_as_the_scope_lasts() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let mut values = vec![1u32; 5000];
        let source = DeviceBuffer::from_slice_in(&vec![7u32; 5000], &stream).unwrap();
        let ((), calls) = during(|| {
            RegisteredSlice::scoped(&mut values, RegisterFlags::empty(), |values| {
                assert_eq!(values[4999], 1);
                let again = RegisteredSlice::scoped(&mut values[10..20], RegisterFlags::empty(), |_| Ok(()));
                assert_eq!(again, Err(CudaError::HostMemoryAlreadyRegistered));
                unsafe { source.async_copy_to(&mut **values, &stream) }?;
                stream.synchronize()
            })
            .unwrap();
        });
        assert_eq!((calls.of("cuMemHostRegister_v2"), calls.of("cuMemHostUnregister")), (2, 1), "{calls}");
        assert_eq!(values, vec![7; 5000]);
        RegisteredSlice::scoped(&mut values, RegisterFlags::PORTABLE, |_| Ok(())).unwrap();
    });
}

#[test]
fn a_panic_in_the_scope_unlocks_the_slice() {
    run(|| {
        let _ctx = pushed();
        let mut values = [0u8; 64];
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = RegisteredSlice::scoped(&mut values, RegisterFlags::empty(), |_| -> Result<(), _> {
                panic!("in the scope")
            });
        }));
        assert!(panicked.is_err());
        RegisteredSlice::scoped(&mut values, RegisterFlags::empty(), |_| Ok(())).unwrap();
        let failed = RegisteredSlice::scoped(&mut values, RegisterFlags::empty(), |_| {
            Err::<(), _>(CudaError::NotFound)
        });
        assert_eq!(failed, Err(CudaError::NotFound));
        RegisteredSlice::scoped(&mut values, RegisterFlags::empty(), |_| Ok(())).unwrap();
    });
}

#[test]
fn a_guard_unlocks_on_any_thread_and_may_outlive_the_contexts_owner() {
    run_alone(|| {
        let ctx = pushed();
        let mut values = [1u64; 8];
        let guard = unsafe { RegisteredSlice::new(&mut values, RegisterFlags::DEVICE_MAP) }.unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                assert_eq!(guard[7], 1);
                drop(guard);
                assert!(current().is_null());
            });
        });
        let mut guard = unsafe { RegisteredSlice::new(&mut values, RegisterFlags::empty()) }.unwrap();
        assert!(!guard.as_device_ptr().unwrap().is_null());
        drop(ctx);
        guard[0] = 5;
        assert_eq!(guard.as_device_ptr().unwrap_err(), CudaError::ContextIsDestroyed);
        assert!(RegisteredSlice::drop(guard).is_ok());
        assert_eq!(values[0], 5);
    });
}

#[test]
fn nothing_is_registered_for_nothing_or_without_a_context() {
    run(|| {
        let none = RegisteredSlice::scoped(&mut [0u8; 4], RegisterFlags::empty(), |_| Ok(()));
        assert_eq!(none, Err(CudaError::InvalidContext));
        let _ctx = pushed();
        let ((), calls) = during(|| {
            RegisteredSlice::scoped(&mut [] as &mut [u8], RegisterFlags::empty(), |_| Ok(())).unwrap();
        });
        assert_eq!(calls.total(), 0);
        let stream = stream();
        let (sender, result) = std::sync::mpsc::channel();
        stream
            .add_callback(Box::new(move |_| {
                let refused = RegisteredSlice::scoped(&mut [0u8; 4], RegisterFlags::empty(), |_| Ok(()));
                sender.send(refused).unwrap();
            }))
            .unwrap();
        assert_eq!(result.recv().unwrap(), Err(CudaError::NotPermitted));
    });
}

#[test]
fn memory_that_the_driver_has_made_is_refused_and_stays_what_it_is() {
    run(|| {
        let _ctx = pushed();
        let mut locked = LockedBuffer::from_slice(&[1u8; 8192]).unwrap();
        let mut unified = UnifiedBuffer::from_slice(&[1u8; 8192]).unwrap();
        for part in [0..8192, 0..1, 100..5000] {
            let scoped =
                RegisteredSlice::scoped(&mut locked[part.clone()], RegisterFlags::empty(), |_| Ok(()));
            assert_eq!(scoped, Err(CudaError::InvalidValue), "{part:?}");
            // What a driver says of this is not known; but it says something.
            let _ = RegisteredSlice::scoped(&mut unified[part], RegisterFlags::empty(), |_| Ok(()));
        }
        assert_eq!((LockedBuffer::drop(locked).is_ok(), unified[8191]), (true, 1));
    });
}

#[test]
fn a_slice_whose_registering_is_refused_is_not_registered() {
    run_alone(|| {
        let _ctx = pushed();
        let mut values = [0u8; 64];
        for (status, when) in
            [1, 2, 801, 999].into_iter().flat_map(|it| [(it, When::Before), (it, When::After)])
        {
            instrument::fail(Some("cuMemHostRegister_v2"), 1, status, when);
            let failed = RegisteredSlice::scoped(&mut values, RegisterFlags::empty(), |_| Ok(()));
            assert!(!instrument::disarm() && failed.is_err(), "{status}, {when:?}");
            RegisteredSlice::scoped(&mut values, RegisterFlags::empty(), |_| Ok(())).unwrap();
        }
    });
}

#[test]
fn page_locked_memory_has_the_flags_it_was_made_with() {
    run(|| {
        let (ctx, _above) = (parked(), pushed());
        let flags = LockedFlags::PORTABLE | LockedFlags::WRITE_COMBINED;
        let make = || unsafe { LockedBuffer::<u32>::uninitialized_with(10, flags) };
        let mut buffer = ctx.scoped(|_| make()).unwrap();
        assert!(buffer.flags().unwrap().contains(flags));
        assert!(!buffer.as_device_ptr().unwrap().is_null());
        buffer.fill(7);
        assert_eq!(buffer[..], [7; 10]);
        let odd = unsafe { LockedFlags::from_bits_unchecked(0x80) };
        let refused = unsafe { LockedBuffer::<u32>::uninitialized_with(10, odd) };
        assert_eq!(refused.unwrap_err(), CudaError::InvalidValue);
        let nothing = unsafe { LockedBuffer::<()>::uninitialized_with(10, flags) }.unwrap();
        assert_eq!(nothing.flags(), Ok(LockedFlags::empty()));
    });
}
