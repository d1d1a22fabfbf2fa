//! Launches, and what kernels do wrong.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{module, read, stream};
use crate::harness::{current, is_simulated, parked, pushed, run, run_alone};
use custack::context::{Context, ContextFlags};
use custack::error::CudaError;
use custack::launch;
use custack::memory::{CopyDestination, DeviceBuffer};
use custack::stream::{Stream, StreamFlags};
use std::ffi::CString;

#[test]
fn launches_that_cannot_be_are_refused() {
    run(|| {
        let (_a, other) = (pushed(), parked());
        let (module, stream) = (module(), stream());
        let there = other.scoped(|_| Stream::new(StreamFlags::NON_BLOCKING, None)).unwrap();
        let mut to = DeviceBuffer::from_slice(&[0u32]).unwrap();
        let pointer = to.as_device_ptr();
        type Size = (u32, u32, u32);
        let sizes: [(Size, Size); 5] = [
            ((0, 1, 1), (1, 1, 1)),
            ((1, 1, 1), (0, 1, 1)),
            ((1, 1, 1), (1025, 1, 1)),
            ((1, 1, 1), (32, 32, 2)),
            ((1, 70_000, 1), (1, 1, 1)),
        ];
        for (grid, block) in sizes {
            let result = unsafe { launch!(module.misaligned<<<grid, block, 0, stream>>>(pointer)) };
            assert_eq!(result, Err(CudaError::InvalidValue), "{grid:?} {block:?}");
        }
        let result = unsafe { launch!(module.misaligned<<<1, 1, 50_000, stream>>>(pointer)) };
        assert_eq!(result, Err(CudaError::InvalidValue));
        let result = unsafe { launch!(module.misaligned<<<1, 1, 0, there>>>(pointer)) };
        assert_eq!(result, Err(CudaError::InvalidHandle));
        let result = unsafe { launch!(module.nothing<<<1, 1, 0, stream>>>(pointer)) };
        assert_eq!(result, Err(CudaError::NotFound));
        stream.synchronize().unwrap();
    });
}

#[test]
fn a_launch_works_whatever_is_current() {
    run(|| {
        let (a, b) = (parked(), pushed());
        let (module, stream, mut number) =
            a.scoped(|_| Ok((module(), stream(), DeviceBuffer::from_slice(&[27u32])?))).unwrap();
        let pointer = number.as_device_ptr();
        unsafe { launch!(module.collatz<<<1, 1, 0, stream>>>(pointer, 1u32)) }.unwrap();
        stream.synchronize().unwrap();
        assert_eq!((read(&number), current()), (vec![111], b.as_raw()));
    });
}

#[test]
fn cooperative_launches_run_all_at_once_or_not_at_all() {
    run(|| {
        let _ctx = pushed();
        let (module, stream) = (module(), stream());
        let trap = module.get_function(c"count_up").unwrap();
        let mut one = 1u32;
        let args = [std::ptr::from_mut(&mut one).cast()];
        unsafe { stream.launch_cooperative(&trap, 4, 32, 0, &args) }.unwrap();
        stream.synchronize().unwrap();
        let result = unsafe { stream.launch_cooperative(&trap, 1_000_000, 32, 0, &args) };
        assert_eq!(result, Err(CudaError::CooperativeLaunchTooLarge));
    });
}

/// The kernel, how far it goes, and what an H200 answered. Shared memory ends for good at 16 MiB.
const FAILING: [(&str, u64, CudaError); 7] = [
    ("reads_far", 1 << 40, CudaError::IllegalAddress),
    ("shared_far", 1 << 20, CudaError::IllegalAddress),
    ("shared_far", 1 << 24, CudaError::IllegalInstruction),
    ("shared_far", (1 << 32) - 4, CudaError::IllegalInstruction),
    ("out_of_bounds", 1 << 40, CudaError::IllegalAddress),
    ("misaligned", 1 << 40, CudaError::MisalignedAddress),
    ("trapped", 1 << 40, CudaError::LaunchFailed),
];

/// A kernel that fails puts its context into the error for good; other contexts go on.
fn fails(kernel: &str, far: u64, status: CudaError) {
    run_alone(|| {
        let ctx = pushed();
        let (module, stream) = (module(), stream());
        let mut to = DeviceBuffer::from_slice(&[0u32; 4]).unwrap();
        let function = module.get_function(&CString::new(kernel).unwrap()).unwrap();
        let pointer = to.as_device_ptr();
        unsafe { launch!(function<<<1, 1, 0, stream>>>(pointer, far)) }.unwrap();
        assert_eq!(stream.synchronize(), Err(status), "{kernel}");
        assert_eq!(stream.synchronize(), Err(status));
        assert_eq!(ctx.synchronize(), Err(status));
        assert_eq!(to.copy_from(&[1; 4]), Err(status));
        assert_eq!(DeviceBuffer::from_slice(&[1u8]).unwrap_err(), status);
        assert_eq!(Stream::new(StreamFlags::DEFAULT, None).unwrap_err(), status);
        let other = Stream::drop(stream);
        assert_eq!(other.unwrap_err().0, status);
        drop((to, module));
        drop(ctx);
        // On a GPU the error takes the process with it; the simulated driver leaves it at the context.
        let next = Context::create_and_push(ContextFlags::SCHED_AUTO, crate::harness::device());
        match next {
            Ok(next) if is_simulated() => {
                next.synchronize().unwrap();
                assert_eq!(read(&DeviceBuffer::from_slice(&[5u8]).unwrap()), [5]);
            }
            other => assert_eq!(other.unwrap_err(), status),
        }
    });
}

#[test]
fn kernels_that_fail_leave_their_context_in_error() {
    // On a GPU such an error takes the process with it: a process of its own.
    for number in 0..FAILING.len() {
        crate::driver::process::child_succeeds(
            "failing kernel",
            &[("CUSTACK_TEST_KERNEL", &number.to_string())],
        );
    }
}

/// What the test above runs in a process of its own.
pub(crate) fn failing_kernel() {
    let number: usize = std::env::var("CUSTACK_TEST_KERNEL").unwrap().parse().unwrap();
    let (kernel, far, status) = FAILING[number];
    fails(kernel, far, status);
}
