//! The driver fails at every call that streams, events, memory and modules make: nothing is lost, and the stack stays.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

mod borrowed;
mod captures;
mod code;
mod futures;
mod graphs;
mod in_a_row;
mod memory;
mod streams;

use crate::claims::faults::{is_noted_if_returned, sweep_briefly};
use crate::harness::{current, drain, is_simulated, parked, pushed, run_alone};
use crate::module::KERNELS;
use custack::context::{ContextStack, CurrentContext, UnownedContext};
use custack::driver::instrument::{self, When};
use custack::error::{CudaError, CudaResult};
use custack::event::EventFlags;
use custack::memory::array::{ArrayDescriptor, ArrayFormat, ArrayObject};
use custack::memory::{DeviceBuffer, RegisterFlags};
use custack::module::JitOptions;
use custack::sim;
use custack::stream::{CaptureMode, Stream, StreamFlags, ThreadCaptureMode};
use custack::texture::{Texture, TextureDescriptor};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Code with few calls to sweep over.
const SMALL: &str = ".version 7.0 .target sm_70 .address_size 64 .visible .const .u32 answer = 42;
    .visible .global .attribute(.managed) .align 4 .u32 shared = 7;
    .visible .entry takes(.param .u32 one) { ret; }";

type Operation = fn() -> CudaResult<()>;

fn stream() -> CudaResult<Stream> {
    Stream::new(StreamFlags::NON_BLOCKING, None)
}

/// Objects and allocations of the simulated driver.
fn left() -> (usize, usize) {
    if is_simulated() { (sim::objects(), sim::allocations()) } else { (0, 0) }
}

/// Whether no more than this is left within ten seconds: what a launch uses goes some time after the launch is over.
/// Fewer are left if what an earlier launch used was counted before and has gone since.
fn comes_to_rest(before: (usize, usize)) -> bool {
    let begun = Instant::now();
    loop {
        let now = left();
        if now.0 <= before.0 && now.1 <= before.1 {
            return true;
        }
        if begun.elapsed().as_secs() >= 10 {
            eprintln!("{now:?} objects and allocations are left, {before:?} were before");
            return false;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Waits until what is left no longer changes.
fn at_rest() -> (usize, usize) {
    loop {
        let before = left();
        std::thread::sleep(Duration::from_millis(20));
        if left() == before {
            return before;
        }
    }
}

/// Functions that end something.
const ENDS: [&str; 5] = ["Destroy", "Free", "Unload", "Release", "Unregister"];

/// Other functions whose error an operation need not return: they restore something, are tried once more, are called by
/// destructors before they end something, or ask for what only makes a later check possible.
const UNSEEN: [&str; 11] = [
    "cuCtxPopCurrent_v2",
    "cuThreadExchangeStreamCaptureMode",
    "cuStreamEndCapture",
    "cuEventRecord,",
    "cuStreamWaitEvent",
    "cuStreamSynchronize",
    "cuStreamIsCapturing",
    "cuCtxGetCurrent",
    "cuEventQuery",
    "cuFuncGetParamInfo",
    "cuKernelGetParamInfo",
];

fn ends_something(fault: &str) -> bool {
    let function = fault.split(',').next().unwrap_or_default();
    ENDS.iter().any(|end| function.contains(end))
}

fn may_be_unseen(fault: &str) -> bool {
    ends_something(fault) || UNSEEN.iter().any(|function| fault.starts_with(function))
}

/// Sweeps the operations. `pause` is how long what they leave behind may take to go.
fn nothing_is_lost(operations: &[(&str, Operation)], pause: Duration) {
    let (_below, ctx) = (parked(), pushed());
    for (name, operation) in operations {
        operation().unwrap();
        let before = Cell::new(at_rest());
        sweep_briefly(operation, |result, error, fault| {
            let returned = result == Err(error) || (result == Ok(()) && may_be_unseen(fault));
            assert!(returned, "{name}, {fault}: {result:?}");
            if result.is_err() {
                is_noted_if_returned(&result, error, &format!("{name}, {fault}"));
            }
            assert_eq!((current(), ContextStack::depth()), (ctx.as_raw(), 1), "{name}, {fault}");
            let mode = ThreadCaptureMode::exchange(CaptureMode::Relaxed).unwrap().previous();
            assert_eq!(mode, Some(CaptureMode::Global), "{name}, {fault}");
            // A driver that says "gone" is believed; a destructor whose own call fails reports, and its context takes
            // along what it could not destroy.
            let said_gone = matches!(error, CudaError::InvalidContext | CudaError::ContextIsDestroyed);
            let not_ended = fault.contains("Before") && (ends_something(fault) || result == Ok(()));
            let may_lose = said_gone || not_ended;
            if may_lose {
                std::thread::sleep(pause);
                before.set(left());
            } else {
                assert!(comes_to_rest(before.get()), "{name}, {fault}: {result:?}");
            }
            assert_eq!(operation(), Ok(()), "{name} again after {fault}");
            assert!(comes_to_rest(before.get()), "{name} again after {fault}");
        });
    }
    drain();
}

#[test]
fn nothing_is_lost_in_streams_where_the_driver_fails() {
    run_alone(|| nothing_is_lost(streams::OPERATIONS, Duration::ZERO));
}

#[test]
fn no_memory_is_lost_where_the_driver_fails() {
    run_alone(|| nothing_is_lost(memory::OPERATIONS, Duration::ZERO));
}

#[test]
fn no_code_is_lost_where_the_driver_fails() {
    run_alone(|| nothing_is_lost(code::OPERATIONS, Duration::ZERO));
}

#[test]
fn nothing_is_lost_in_captures_where_the_driver_fails() {
    run_alone(|| nothing_is_lost(captures::OPERATIONS, Duration::from_millis(5)));
}

#[test]
fn nothing_is_lost_in_graphs_where_the_driver_fails() {
    run_alone(|| nothing_is_lost(graphs::OPERATIONS, Duration::from_millis(5)));
}

#[test]
fn nothing_is_lost_in_futures_where_the_driver_fails() {
    run_alone(|| nothing_is_lost(futures::OPERATIONS, Duration::from_millis(5)));
}

type Making = fn(&UnownedContext) -> CudaResult<()>;

/// What can be made in a context that need not be current.
const MADE: [(&str, Making); 17] = [
    ("a stream", |ctx| ctx.create_stream(StreamFlags::NON_BLOCKING, None).map(|_| ())),
    ("an event", |ctx| ctx.create_event(EventFlags::DEFAULT).map(|_| ())),
    ("a graph", |ctx| ctx.create_graph().map(|_| ())),
    ("a module", |ctx| ctx.load_module(KERNELS.as_bytes()).map(|_| ())),
    ("a device buffer", |ctx| ctx.device_buffer(&[1u8]).map(|_| ())),
    ("an uninitialised one", |ctx| unsafe { ctx.device_buffer_uninitialized::<u32>(4) }.map(|_| ())),
    ("a device box", |ctx| ctx.device_box(&1u8).map(|_| ())),
    ("a unified buffer", |ctx| ctx.unified_buffer(&[1u8]).map(|_| ())),
    ("a unified box", |ctx| ctx.unified_box(1u8).map(|_| ())),
    ("a locked buffer", |ctx| ctx.locked_buffer(&1u8, 3).map(|_| ())),
    ("rows", |ctx| ctx.pitched_buffer(&[1u8, 2], 1).map(|_| ())),
    ("an array of a descriptor", |ctx| {
        let descriptor = ArrayDescriptor::from_dims_format([4, 4, 0], ArrayFormat::Float);
        ctx.create_array(&descriptor).map(|_| ())
    }),
    ("registered memory", |ctx| {
        let mut values = [0u8; 64];
        ctx.registered(&mut values, RegisterFlags::empty(), |values| {
            assert_eq!(CurrentContext::get_current()?, *ctx);
            values.as_device_ptr().map(|_| ())
        })
    }),
    ("a linker", |ctx| ctx.create_linker(&JitOptions::new()).map(|_| ())),
    ("how much memory", |ctx| ctx.memory_info().map(|_| ())),
    ("a texture", |ctx| {
        let array = ctx.scoped(|_| ArrayObject::new_1d(4, ArrayFormat::Float, 1))?;
        Texture::new(array, &TextureDescriptor::new()).map(|_| ())
    }),
    ("an array", |ctx| ctx.scoped(|_| ArrayObject::new_1d(4, ArrayFormat::Float, 1).map(|_| ()))),
];

#[test]
fn what_is_made_in_a_context_leaves_the_stack_as_it_was_whatever_fails() {
    run_alone(|| {
        let (ctx, base) = (parked(), pushed());
        for (name, make) in MADE {
            make(&ctx).unwrap();
            let before = Cell::new(left());
            sweep_briefly(
                || make(&ctx),
                |result, error, fault| {
                    assert!(result == Ok(()) || result == Err(error), "{name}, {fault}: {result:?}");
                    assert_eq!((current(), ContextStack::depth()), (base.as_raw(), 1), "{name}, {fault}");
                    // As in the test above.
                    let said_gone =
                        matches!(error, CudaError::InvalidContext | CudaError::ContextIsDestroyed);
                    let not_done = fault.contains("Before") && result == Ok(());
                    if !said_gone && !not_done {
                        assert_eq!(left(), before.get(), "{name}, {fault}: {result:?}");
                    }
                    before.set(left());
                    assert_eq!(make(&ctx), Ok(()), "{name} again after {fault}");
                    assert_eq!(left(), before.get(), "{name} again after {fault}");
                },
            );
        }
        let handle = ctx.get_unowned();
        drop(ctx);
        for (name, make) in MADE {
            let (refused, calls) = instrument::during(|| make(&handle));
            assert_eq!((refused, calls.total()), (Err(CudaError::ContextIsDestroyed), 0), "{name}");
        }
        drain();
    });
}

#[test]
fn the_last_memory_destroys_its_context_also_where_a_call_fails() {
    run_alone(|| {
        for nth in 1..=8 {
            let ctx = pushed();
            let buffer = DeviceBuffer::from_slice(&[1u32]).unwrap();
            drop(ctx);
            let before = instrument::contexts_alive();
            instrument::fail(None, nth, 1, When::Before);
            drop(buffer);
            instrument::disarm();
            assert_eq!(instrument::contexts_alive(), before - 1, "at call {nth}");
        }
    });
}
