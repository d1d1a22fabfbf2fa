//! Memory knows its context or its stream by a number. There are so many, and what would have none is refused before anything
//! is made; a number is free again when what had it is gone.

// Allocates memory that is never read.
#![allow(unsafe_code)]

use crate::harness::{device, is_simulated, parked, run_alone, said, skip};
use custack::context::{GreenContext, PrimaryContext};
use custack::device::Device;
use custack::driver::instrument;
use custack::error::CudaError;
use custack::memory::{CopyDestination, DeviceBox, DeviceBuffer, LockedBuffer, UnifiedBuffer};
use custack::sim;
use custack::stream::{Stream, StreamFlags};

/// More than all of them.
const MANY: usize = 33_000;

#[test]
fn memory_of_a_context_without_a_number_is_refused_and_all_else_of_it_works() {
    if !is_simulated() {
        return skip("contexts without a number", "a GPU has not enough memory for so many");
    }
    run_alone(|| {
        sim::reuse_handles(true);
        let other = PrimaryContext::retain(Device::get_device(1).unwrap()).unwrap();
        // Each of these has a number, too, and the simulated driver makes and destroys them sooner.
        let part = device().sm_resource().unwrap();
        let mut all: Vec<_> = (0..MANY).map(|_| GreenContext::new(&part).unwrap()).collect();
        let last = parked();
        let allocations = sim::allocations();
        let refused = |make: &dyn Fn() -> Result<(), CudaError>| {
            let (result, calls) = instrument::during(|| last.scoped(|_| make()));
            assert_eq!(result, Err(CudaError::NotSupported));
            assert!(!calls.to_string().contains("Alloc"), "{calls}");
            let text = said(result.unwrap_err());
            assert!(text.contains("32767 contexts"), "{text}");
        };
        refused(&|| DeviceBuffer::from_slice(&[1u32]).map(drop));
        refused(&|| DeviceBox::new(&1u32).map(drop));
        assert_eq!(sim::allocations(), allocations);

        last.scoped(|_| LockedBuffer::from_slice(&[1u32]).map(drop)).unwrap();
        last.scoped(|_| UnifiedBuffer::from_slice(&[1u32]).map(drop)).unwrap();
        let stream = last.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        let ordered = DeviceBuffer::from_slice_in(&[1u32, 2, 3], &stream).unwrap();
        let mut back = [0; 3];
        other.scoped(|_| ordered.copy_to(&mut back)).unwrap();
        assert_eq!(back, [1, 2, 3]);
        drop((ordered, stream));

        // As soon as one with a number is gone, the next context has that.
        drop(all.swap_remove(0));
        let next = parked();
        let mut buffer = next.device_buffer(&[4u32, 5, 6]).unwrap();
        other.scoped(|_| buffer.copy_to(&mut back)).unwrap();
        assert_eq!(back, [4, 5, 6]);
        assert_eq!(last.device_buffer(&[1u32]).map(drop), Err(CudaError::NotSupported));
        drop(next);
        assert_eq!(buffer.copy_from(&[7, 8, 9]), Err(CudaError::ContextIsDestroyed));
        drop((buffer, last, all));
        // Those without one serve last.
        let few: Vec<_> = (0..100).map(|_| parked()).collect();
        few.iter().for_each(|context| drop(context.device_buffer(&[1u32]).unwrap()));
        sim::reuse_handles(false);
    });
}

#[test]
fn memory_in_the_order_of_a_stream_without_a_number_is_refused_until_one_is_free() {
    if !is_simulated() {
        return skip("streams without a number", "a GPU takes minutes to make so many");
    }
    run_alone(|| {
        let context = PrimaryContext::retain(device()).unwrap();
        let stream = || context.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        let within = |stream: &Stream| DeviceBuffer::from_slice_in(&[1u32, 2], stream);
        // The number stays with the stream even if there is not so much memory.
        // SAFETY: never read.
        let too_much = |stream: &Stream| unsafe { DeviceBuffer::<u8>::uninitialized_in(1 << 46, stream) };
        let first = stream();
        let of_first = within(&first).unwrap();
        let mut all = vec![(first, Some(of_first))];
        let (last, error) = loop {
            let stream = stream();
            match too_much(&stream).map(drop) {
                Err(CudaError::OutOfMemory) => all.push((stream, None)),
                other => break (stream, other.unwrap_err()),
            }
            assert!(all.len() < MANY, "there is no end of numbers");
        };
        assert_eq!((error, all.len()), (CudaError::NotSupported, 1 << 15));
        assert!(said(error).contains("32768 streams"), "{}", said(error));
        let allocations = sim::allocations();
        assert_eq!(within(&last).map(drop), Err(CudaError::NotSupported));
        assert_eq!(sim::allocations(), allocations, "refused before anything is made");
        // The first and the last of them are right about their memory.
        let mut back = [0; 2];
        for (stream, _) in [&all[0], &all[all.len() - 1]] {
            within(stream).unwrap().copy_to(&mut back).unwrap();
            assert_eq!(back, [1, 2]);
        }
        // Its memory keeps the stream, and its number.
        let (gone, kept) = all.swap_remove(0);
        drop(gone);
        assert_eq!(within(&last).map(drop), Err(CudaError::NotSupported));
        drop(kept);
        within(&last).unwrap().copy_to(&mut back).unwrap();
        assert_eq!(back, [1, 2]);
    });
}
