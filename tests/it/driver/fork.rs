//! A process that was forked after the driver was started.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::driver::process::child_succeeds;
use custack::context::{Context, ContextFlags, CurrentContext, UnownedContext, wait_until_retired};
use custack::device::Device;
use custack::driver;
use custack::error::CudaError;
use custack::memory::{CopyDestination, DeviceBuffer};
use custack::stream::{Stream, StreamFlags};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[cfg(unix)]
unsafe extern "C" {
    pub(crate) fn fork() -> i32;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    fn kill(process: i32, signal: i32) -> i32;
}

/// Waits until the child has ended as it should.
#[cfg(unix)]
pub(crate) fn wait_for(process: i32) {
    let (begun, mut status) = (Instant::now(), 0);
    while unsafe { waitpid(process, &mut status, 1) } == 0 {
        if begun.elapsed() > Duration::from_secs(20) {
            unsafe { kill(process, 9) };
            panic!("the child hangs");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(status, 40 << 8);
}

/// What the child does with what its parent has made; it ends as any program does.
fn in_the_child(ctx: Context, stream: Stream, mut buffer: DeviceBuffer<u32>) {
    let refused = |error: CudaError| {
        assert_eq!(error, CudaError::NotInitialized, "{error}");
        assert!(
            crate::harness::said(error).contains("this process was forked after the driver was started"),
            "{error}"
        );
    };
    refused(custack::init(custack::CudaFlags::empty()).unwrap_err());
    refused(Device::num_devices().unwrap_err());
    refused(Device::get_device(0).unwrap_err());
    refused(ctx.synchronize().unwrap_err());
    refused(ctx.scoped(|_| Ok(())).unwrap_err());
    refused(ctx.get_unowned().memory_info().unwrap_err());
    refused(CurrentContext::synchronize().unwrap_err());
    refused(CurrentContext::get_current().map(drop).unwrap_err());
    refused(stream.synchronize().unwrap_err());
    refused(stream.is_done().map(drop).unwrap_err());
    refused(buffer.copy_from(&[1, 2, 3][..]).unwrap_err());
    refused(DeviceBuffer::from_slice(&[1]).map(drop).unwrap_err());
    refused(wait_until_retired().unwrap_err());
    // What it makes of a handle is a context of its own, and takes no place of the parent's.
    assert_ne!(unsafe { UnownedContext::from_raw(ctx.as_raw()) }, ctx.get_unowned());
    assert_eq!(buffer.context(), &ctx.get_unowned());
    let mut count = 7;
    assert_eq!(unsafe { (driver::current().unwrap().table().cuInit)(0) }, 3);
    assert_eq!(unsafe { (driver::current().unwrap().table().cuDeviceGetCount)(&mut count) }, 3);
    assert_eq!(count, 7);
    drop(buffer);
    drop(stream);
    drop(ctx);
    std::thread::spawn(|| assert!(CurrentContext::synchronize().is_err())).join().unwrap();
}

#[cfg(unix)]
pub(crate) fn scenario() {
    custack::init(custack::CudaFlags::empty()).unwrap();
    let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0).unwrap()).unwrap();
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
    let buffer = DeviceBuffer::from_slice(&[1u32, 2, 3]).unwrap();
    let handle = ctx.get_unowned();
    static GOES_ON: AtomicBool = AtomicBool::new(true);
    // They hold locks and publish uses when the process is copied.
    let busy: Vec<_> = (0..4)
        .map(|_| {
            let handle = handle.clone();
            std::thread::spawn(move || {
                while GOES_ON.load(Ordering::Relaxed) {
                    handle.scoped(|_| Stream::new(StreamFlags::NON_BLOCKING, None)).unwrap();
                    handle.synchronize().unwrap();
                }
            })
        })
        .collect();
    std::thread::sleep(Duration::from_millis(50));
    let mut objects = Some((ctx, stream, buffer));
    for _ in 0..5 {
        let process = unsafe { fork() };
        if process == 0 {
            let (ctx, stream, buffer) = objects.take().unwrap();
            let done =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| in_the_child(ctx, stream, buffer)));
            std::process::exit(if done.is_ok() { 40 } else { 41 });
        }
        wait_for(process);
    }
    GOES_ON.store(false, Ordering::Relaxed);
    busy.into_iter().for_each(|thread| thread.join().unwrap());
    let (ctx, stream, buffer) = objects.unwrap();
    let mut host = [0; 3];
    buffer.copy_to(&mut host[..]).unwrap();
    assert_eq!(host, [1, 2, 3]);
    drop((buffer, stream));
    drop(ctx);
}

#[cfg(not(unix))]
pub(crate) fn scenario() {}

/// Computes something where the driver was not used before.
fn uses_the_driver() {
    let _context = custack::quick_init().unwrap();
    let buffer = DeviceBuffer::from_slice(&[4u32, 5, 6]).unwrap();
    let mut host = [0; 3];
    buffer.copy_to(&mut host[..]).unwrap();
    assert_eq!(host, [4, 5, 6]);
}

/// Both processes use the driver after the fork, and the child first.
#[cfg(unix)]
pub(crate) fn before_the_first_use() {
    let process = unsafe { fork() };
    if process == 0 {
        let done = std::panic::catch_unwind(uses_the_driver);
        std::process::exit(if done.is_ok() { 40 } else { 41 });
    }
    let mut status = 0;
    assert_eq!(unsafe { waitpid(process, &mut status, 0) }, process);
    assert_eq!(status, 40 << 8);
    uses_the_driver();
    // Another program may be started at any time.
    let name = std::env::current_exe().unwrap();
    let other = std::process::Command::new(name).arg("--list").output().unwrap();
    assert!(other.status.success());
    uses_the_driver();
}

#[cfg(not(unix))]
pub(crate) fn before_the_first_use() {}

#[test]
fn after_a_fork_the_child_is_told_that_no_driver_works_there_and_the_parent_goes_on() {
    child_succeeds("fork", &[]);
}

#[test]
fn a_process_that_is_forked_before_the_first_use_starts_its_own_driver() {
    child_succeeds("fork before the first use", &[]);
}
