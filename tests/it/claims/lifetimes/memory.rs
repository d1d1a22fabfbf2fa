//! Memory that outlives its context, and the reuse of its addresses.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::harness::{drain, parked, pushed, run, run_alone, within};
use custack::driver::instrument::{self};
use custack::error::CudaError;
use custack::memory::{CopyDestination, DeviceBox, DeviceBuffer, LockedBuffer, UnifiedBox, UnifiedBuffer};
use custack::sim;

#[test]
fn a_stale_slice_never_reaches_another_contexts_memory() {
    run_alone(|| {
        sim::reuse_addresses(true);
        sim::reuse_handles(true);
        let (one, two) = (parked(), parked());
        let mut a = one.scoped(|_| DeviceBuffer::from_slice(&[1u8; 4])).unwrap();
        let part = &mut a[..];
        drop(one);
        let b = two.scoped(|_| DeviceBuffer::from_slice(&[2u8; 4])).unwrap();
        assert_ne!(part.as_ptr(), b.as_ptr(), "an address of a living buffer is not given out again");
        assert_eq!(part.copy_from(&[9; 4]), Err(CudaError::ContextIsDestroyed));
        assert_eq!(part.copy_to(&mut [0; 4]), Err(CudaError::ContextIsDestroyed));
        let mut back = [0; 4];
        b.copy_to(&mut back).unwrap();
        assert_eq!(back, [2; 4]);
        drop((a, b, two));
        sim::reuse_addresses(false);
        sim::reuse_handles(false);
    });
}

#[test]
fn a_dead_buffer_does_not_shadow_a_living_one() {
    run_alone(|| {
        sim::reuse_addresses(true);
        let (one, two) = (parked(), parked());
        let small = one.scoped(|_| DeviceBuffer::from_slice(&[1u8; 512])).unwrap();
        drop(one);
        let values: Vec<u8> = (0..1 << 20).map(|at| (at / 512) as u8).collect();
        let big = two.scoped(|_| DeviceBuffer::from_slice(&values)).unwrap();
        let mut back = [0; 512];
        for at in [0, 512, 1 << 19, (1 << 20) - 512] {
            big[at..at + 512].copy_to(&mut back).unwrap();
            assert_eq!(back, values[at..at + 512]);
        }
        drop(small);
        sim::reuse_addresses(false);
    });
}

#[test]
fn memory_keeps_its_context_at_the_driver_until_the_last_of_it_is_freed() {
    run_alone(|| {
        let ctx = parked();
        let alive = instrument::contexts_alive();
        let (buffer, boxed) =
            ctx.scoped(|_| Ok((DeviceBuffer::from_slice(&[1u32, 2])?, DeviceBox::new(&3u32)?))).unwrap();
        drop(ctx);
        assert_eq!(instrument::contexts_alive(), alive);
        assert_eq!(buffer.copy_to(&mut [0; 2]), Err(CudaError::ContextIsDestroyed));
        drop(buffer);
        assert_eq!(instrument::contexts_alive(), alive);
        drop(boxed);
        assert_eq!(instrument::contexts_alive(), alive - 1);
    });
}

#[test]
fn values_that_the_driver_cannot_align_are_refused() {
    #[derive(Clone, Copy)]
    #[repr(align(4096))]
    struct Page(#[allow(dead_code, reason = "what fills it")] u8);
    unsafe impl custack::memory::DeviceCopy for Page {}
    run(|| {
        let _ctx = pushed();
        let (mut boxes, mut buffers) = (Vec::new(), Vec::new());
        for at in 0..8 {
            match UnifiedBox::new(Page(at)) {
                Ok(page) => {
                    assert!(std::ptr::from_ref(&*page).is_aligned() && page.0 == at);
                    boxes.push(page);
                }
                Err(error) => assert_eq!(error, CudaError::InvalidValue),
            }
            match LockedBuffer::new(&Page(at), 2) {
                Ok(pages) => {
                    assert!(pages.as_ptr().is_aligned() && pages[1].0 == at);
                    buffers.push(pages);
                }
                Err(error) => assert_eq!(error, CudaError::InvalidValue),
            }
            match UnifiedBuffer::new(&Page(at), 2) {
                Ok(pages) => assert!(pages.as_ptr().is_aligned()),
                Err(error) => assert_eq!(error, CudaError::InvalidValue),
            }
        }
        drop((boxes, buffers));
        drain();
    });
}

#[test]
fn any_number_of_zero_sized_values_is_made_at_once() {
    run(|| {
        let _ctx = pushed();
        within(20, || {
            assert_eq!(UnifiedBuffer::new(&(), usize::MAX).unwrap().len(), usize::MAX);
            assert_eq!(LockedBuffer::new(&(), usize::MAX).unwrap().len(), usize::MAX);
        });
        drain();
    });
}

#[test]
fn a_copy_between_two_contexts_is_done_before_its_source_can_be_freed() {
    run_alone(|| {
        let (one, two) = (parked(), parked());
        for _ in 0..20 {
            let from = one.scoped(|_| DeviceBuffer::from_slice(&vec![7u8; 1 << 20])).unwrap();
            let mut to = two.scoped(|_| DeviceBuffer::from_slice(&vec![0u8; 1 << 20])).unwrap();
            let (result, calls) = instrument::during(|| to.copy_from(&from));
            drop(from);
            assert_eq!((result, calls.of("cuStreamSynchronize")), (Ok(()), 1));
            let mut back = vec![0; 1 << 20];
            to.copy_to(&mut back).unwrap();
            assert!(back.iter().all(|byte| *byte == 7));
        }
    });
}
