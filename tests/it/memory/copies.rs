//! Copies, at once and in streams.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::harness::{current, is_simulated, parked, pushed, run};
use custack::driver::instrument;
use custack::error::CudaError;
use custack::memory::*;
use custack::sim;
use custack::stream::{Stream, StreamFlags};

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

/// The NVIDIA driver returns from a copy of so much pageable memory before the device has all of it.
#[test]
fn a_copy_from_the_host_is_done_for_every_stream_when_it_returns() {
    run(|| {
        let _ctx = pushed();
        let mut stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
        let mut back = LockedBuffer::new(&0u32, 1).unwrap();
        for words in [4, 1 << 14, 1 << 18] {
            let mut buffer = DeviceBuffer::from_slice(&vec![0u32; words]).unwrap();
            for round in 1..40 {
                let values = vec![round; words];
                let (copied, calls) = instrument::during(|| buffer.copy_from(&values[..]));
                copied.unwrap();
                let waits = calls.of("cuStreamSynchronize");
                assert_eq!((calls.of("cuMemcpyHtoD_v2"), waits), (1, 1), "{calls}");
                stream.sync_scope(|scope| scope.copy_to(&buffer[words - 1..], &mut back[..])).unwrap();
                assert_eq!(back[0], round, "the last of {words} values");
            }
        }
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
