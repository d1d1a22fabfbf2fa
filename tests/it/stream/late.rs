//! Work that functions of a scope submit while the scope waits already.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::stream;
use crate::harness::{pushed, run, within};
use custack::driver::instrument::{self, When};
use custack::error::{CudaError, CudaResult};
use custack::memory::{AsyncCopyDestination, CopyDestination, DeviceBuffer, DeviceSlice, LockedBuffer};
use custack::stream::SyncScope;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// What comes late. The memory of the program is page-locked: other memory makes the thread wait
/// that submits a copy.
struct Late<'scope> {
    there: &'scope DeviceSlice<u32>,
    back: &'scope mut [u32],
    count: &'scope AtomicUsize,
}

/// On another thread, because a host function may make no calls of the driver.
fn elsewhere(work: impl FnOnce() + Send) {
    std::thread::scope(|threads| threads.spawn(work).join().unwrap());
}

fn slowly(count: &AtomicUsize) {
    std::thread::sleep(Duration::from_millis(5));
    count.fetch_add(1, Ordering::SeqCst);
}

/// A slow function, and a copy behind it.
fn copied<'scope, 'env>(scope: &'scope SyncScope<'scope, 'env>, late: Late<'scope>) -> CudaResult<()> {
    let count = late.count;
    scope.launch_host_func(|| slowly(count))?;
    scope.copy_to(late.there, late.back)
}

/// A function that submits more when the scope waits for it.
fn more<'scope, 'env>(
    scope: &'scope SyncScope<'scope, 'env>,
    late: Late<'scope>,
    submit: impl FnOnce(&'scope SyncScope<'scope, 'env>, Late<'scope>) -> CudaResult<()> + Send + 'scope,
) -> CudaResult<()> {
    scope.launch_host_func(move || {
        slowly(late.count);
        elsewhere(move || submit(scope, late).unwrap());
    })
}

/// Submits work when the value is dropped.
struct Dropped<'scope, 'env>(&'scope SyncScope<'scope, 'env>, Option<Late<'scope>>);

impl Drop for Dropped<'_, '_> {
    fn drop(&mut self) {
        let late = self.1.take().unwrap();
        elsewhere(|| copied(self.0, late).unwrap());
    }
}

type Way = for<'scope, 'env> fn(&'scope SyncScope<'scope, 'env>, Late<'scope>) -> CudaResult<()>;

/// How something comes late, and how many functions are called then.
const WAYS: [(&str, Way, usize); 6] = [
    ("a copy of a function", |scope, late| more(scope, late, copied), 2),
    ("a copy of a function of a function", |scope, late| more(scope, late, |s, l| more(s, l, copied)), 3),
    (
        "a copy in the stream itself",
        |scope, late| {
            more(scope, late, |scope, late| {
                let count = late.count;
                scope.launch_host_func(|| slowly(count))?;
                unsafe { late.there.async_copy_to(late.back, scope.stream()) }
            })
        },
        2,
    ),
    (
        "a copy of a value that a function drops",
        |scope, late| {
            let count = late.count;
            let dropped = Dropped(scope, Some(late));
            scope.launch_host_func(move || {
                let _dropped = dropped;
                slowly(count);
            })
        },
        2,
    ),
    (
        "a copy of a value that a refused function drops",
        |scope, late| {
            more(scope, late, |scope, late| {
                let dropped = Dropped(scope, Some(late));
                instrument::fail(Some("cuLaunchHostFunc"), 1, 719, When::Before);
                let refused = scope.launch_host_func(move || drop(dropped));
                assert_eq!(refused, Err(CudaError::LaunchFailed));
                Ok(())
            })
        },
        2,
    ),
    (
        "a copy after a function that panics",
        |scope, late| {
            more(scope, late, |scope, late| {
                scope.launch_host_func(|| panic!("on purpose, in a late function of a scope"))?;
                copied(scope, late)
            })
        },
        2,
    ),
];

#[test]
fn what_a_function_submits_while_its_scope_waits_is_done_when_the_scope_returns() {
    within(60, || {
        run(|| {
            let ctx = pushed();
            let (mut stream, there) = (stream(), ctx.device_buffer(&[7u32, 8, 9]).unwrap());
            for (name, submit, calls) in WAYS {
                let (mut back, count) = (LockedBuffer::new(&0u32, 3).unwrap(), AtomicUsize::new(0));
                let answer = stream.sync_scope(|scope| {
                    submit(scope, Late { there: &there[..], back: &mut back, count: &count })
                });
                assert_eq!(
                    (answer, &back[..], count.into_inner()),
                    (Ok(()), &[7, 8, 9][..], calls),
                    "{name}"
                );
                assert_eq!(stream.is_done(), Ok(true), "{name}");
            }
        });
    });
}

#[test]
fn late_work_is_done_also_if_the_closure_panics_or_the_driver_fails_to_wait() {
    within(60, || {
        run(|| {
            let ctx = pushed();
            let (mut stream, there) = (stream(), ctx.device_buffer(&[7u32, 8, 9]).unwrap());
            for times in [0, 1, 3, 9] {
                let (mut back, count) = (LockedBuffer::new(&0u32, 3).unwrap(), AtomicUsize::new(0));
                let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    stream.sync_scope(|scope| -> CudaResult<()> {
                        let late = Late { there: &there[..], back: &mut back, count: &count };
                        more(scope, late, copied)?;
                        instrument::fail_times(None, 2, times, 999, When::Before);
                        std::panic::resume_unwind(Box::new("on purpose"));
                    })
                }));
                instrument::disarm();
                assert!(panicked.is_err());
                assert_eq!(
                    (&back[..], count.into_inner()),
                    (&[7, 8, 9][..], 2),
                    "after {times} failed calls"
                );
            }
        });
    });
}

#[test]
fn memory_of_a_late_copy_is_not_written_through_another_buffer_at_the_same_address() {
    within(60, || {
        run(|| {
            let (_ctx, mut stream, home) = (pushed(), stream(), stream());
            let mut written = DeviceBuffer::from_slice_in(&[0u32; 64], &home).unwrap();
            let (sevens, count) = (LockedBuffer::new(&7u32, 64).unwrap(), AtomicUsize::new(0));
            stream
                .sync_scope(|scope| {
                    let (written, sevens, count) = (&mut written[..], &sevens[..], &count);
                    scope.launch_host_func(move || {
                        slowly(count);
                        elsewhere(move || {
                            scope.launch_host_func(move || slowly(count)).unwrap();
                            scope.copy_from(written, sevens).unwrap();
                        });
                    })
                })
                .unwrap();
            drop(written);
            let other = DeviceBuffer::from_slice_in(&[1u32; 64], &home).unwrap();
            stream.synchronize().unwrap();
            let mut now = [0u32; 64];
            other.copy_to(&mut now).unwrap();
            assert_eq!((now, count.into_inner()), ([1; 64], 2));
        });
    });
}
