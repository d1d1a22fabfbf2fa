//! Memory that a call borrows is not used after it, however often the driver fails in a row, and
//! whatever call that is.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::stream;
use crate::harness::{pushed, run, table, within};
use custack::driver::FUNCTIONS;
use custack::driver::instrument::{self, Calls, When};
use custack::error::{CudaError, CudaResult};
use custack::memory::{CopyDestination, DeviceBuffer, LockedBuffer};
use custack::stream::Stream;
use std::time::Duration;

/// Gets a stream that is busy, memory in its order, and page-locked memory of the program.
type Borrowing = fn(&mut Stream, &mut DeviceBuffer<u32>, &mut [u32]) -> CudaResult<()>;

const LEN: usize = 4;

const BORROWING: &[(&str, Borrowing)] = &[
    ("a copy to the host", |_, there, here| there.copy_to(here)),
    ("a copy of a part", |_, there, here| there[1..].copy_to(&mut here[1..])),
    ("a copy from the host", |_, there, here| there.copy_from(&*here)),
    ("a new buffer", |stream, _, here| DeviceBuffer::from_slice_in(here, &*stream).map(drop)),
    ("a scope that copies to the host", |stream, there, here| {
        stream.sync_scope(|scope| scope.copy_to(&there[..], here))
    }),
    ("a scope that copies from the host", |stream, there, here| {
        stream.sync_scope(|scope| scope.copy_from(&mut there[..], &*here))
    }),
    ("a scope with a function", |stream, _, here| {
        stream.sync_scope(|scope| scope.launch_host_func(|| here[0] = 8))
    }),
    ("a scope with a function that submits more", |stream, there, here| {
        stream.sync_scope(|scope| {
            let (there, here) = (&there[..], here);
            scope.launch_host_func(move || {
                std::thread::scope(|threads| drop(threads.spawn(move || scope.copy_to(there, here))));
            })
        })
    }),
];

/// What the memory of the program has after the call.
const AFTER: u32 = 9;

/// Calls it while the stream is busy, and has this fault happen. Returns the result and which calls
/// were made; or why it is wrong, if the memory was used afterwards.
fn check(borrows: Borrowing, fault: impl FnOnce()) -> Result<(CudaResult<()>, Calls), String> {
    let mut stream = stream().unwrap();
    let mut there = DeviceBuffer::from_slice_in(&[7u32; LEN], &stream).unwrap();
    let mut here = LockedBuffer::new(&1u32, LEN).unwrap();
    stream.launch_host_func(|| std::thread::sleep(Duration::from_micros(300))).unwrap();
    fault();
    let (result, calls) = instrument::during(|| borrows(&mut stream, &mut there, &mut here));
    instrument::disarm();
    here.fill(AFTER);
    stream.synchronize().unwrap();
    let mut has = [0; LEN];
    there.copy_to(&mut has).unwrap();
    if here[..] != [AFTER; LEN] || has.contains(&AFTER) {
        return Err(format!("{result:?}: the program has {:?}, the device {has:?}", &here[..]));
    }
    Ok((result, calls))
}

/// Numbers of failing calls in a row.
const TIMES: [u64; 5] = [1, 2, 3, 5, 9];

#[test]
fn borrowed_memory_is_not_used_after_the_call_however_often_the_driver_fails() {
    within(300, || {
        run(|| {
            let _ctx = pushed();
            for (name, borrows) in BORROWING {
                let (clean, calls) = check(*borrows, || ()).unwrap();
                assert_eq!(clean, Ok(()), "{name}");
                // Of one function from its first call on, or of all from one on.
                let one = FUNCTIONS.iter().filter(|function| calls.of(function) > 0);
                let all = (1..=8).map(|nth| (None, nth));
                for (function, nth) in one.map(|function| (Some(*function), 1)).chain(all) {
                    for (code, when) in [(700, When::Before), (999, When::Before), (201, When::After)] {
                        for times in TIMES {
                            let fault = || instrument::fail_times(function, nth, times, code, when);
                            let what = format!(
                                "{name}: {times} times {code} {when:?} from call {nth} of {function:?} on"
                            );
                            let (result, _) =
                                check(*borrows, fault).unwrap_or_else(|why| panic!("{what}: {why}"));
                            let error = CudaError::from_code(code).unwrap();
                            assert!(result == Ok(()) || result == Err(error), "{what}: {result:?}");
                        }
                    }
                }
            }
        });
    });
}

#[test]
fn a_driver_that_fails_for_long_is_asked_on_until_the_work_is_over() {
    within(60, || {
        run(|| {
            let _ctx = pushed();
            for (name, borrows) in BORROWING {
                let fault = || instrument::fail_times(None, 4, 80, 999, When::Before);
                let (result, _) = check(*borrows, fault).unwrap_or_else(|why| panic!("{name}: {why}"));
                assert!(matches!(result, Ok(()) | Err(CudaError::UnknownError)), "{name}: {result:?}");
            }
        });
    });
}

#[test]
fn a_copy_in_a_stream_that_other_code_captures_ends_with_an_error() {
    within(60, || {
        run(|| {
            let _ctx = pushed();
            let stream = stream().unwrap();
            let there = DeviceBuffer::from_slice_in(&[7u32; LEN], &stream).unwrap();
            let mut here = LockedBuffer::new(&1u32, LEN).unwrap();
            assert_eq!(unsafe { (table().cuStreamBeginCapture_v2)(stream.as_raw(), 2) }, 0);
            // This thread would never come to end the capture.
            let refused = there.copy_to(&mut here[..]);
            assert_eq!(refused, Err(CudaError::StreamCaptureUnsupported));
            let mut graph = std::ptr::null_mut();
            assert_eq!(unsafe { (table().cuStreamEndCapture)(stream.as_raw(), &mut graph) }, 901);
            assert_eq!((there.copy_to(&mut here[..]), &here[..]), (Ok(()), &[7; LEN][..]));
        });
    });
}
