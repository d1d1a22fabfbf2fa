//! What operations cost in driver calls: the contract that makes scopes cheap.

// Implements the global allocator.
#![allow(unsafe_code)]

use crate::context::unowned::operations;
use crate::harness::{drain, other, parked, pushed, run, run_alone, table};
use custack::context::{Context, ContextStack, CurrentContext};
use custack::driver::instrument::{self, When, during};
use custack::error::{CudaError, CudaResult};
use custack::memory::DeviceBuffer;
use custack::stream::{Stream, StreamFlags};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

#[test]
fn a_scope_that_must_switch_costs_a_push_and_a_pop() {
    run(|| {
        let (a, _b) = (parked(), pushed());
        let (_, calls) = during(|| a.scoped(|_| Ok(())));
        assert_eq!(calls.to_string(), "cuCtxPushCurrent_v2, cuCtxPopCurrent_v2");
    });
}

#[test]
fn a_scope_from_an_empty_stack_costs_the_same() {
    run(|| {
        let ctx = parked();
        let (_, calls) = during(|| ctx.scoped(|_| Ok(())));
        assert_eq!(calls.to_string(), "cuCtxPushCurrent_v2, cuCtxPopCurrent_v2");
    });
}

#[test]
fn a_scope_whose_context_is_current_costs_two_looks() {
    run(|| {
        let ctx = pushed();
        let (_, calls) = during(|| ctx.scoped(|_| Ok(())));
        assert_eq!(calls.to_string(), "cuCtxGetCurrent x2", "at its beginning and at its end");
        let (guard, calls) = during(|| ctx.enter().unwrap());
        assert_eq!(calls.to_string(), "cuCtxGetCurrent");
        let (_, calls) = during(|| drop(guard));
        assert_eq!(calls.to_string(), "cuCtxGetCurrent");
    });
}

#[test]
fn a_method_in_which_no_program_code_runs_costs_one_look() {
    run(|| {
        let ctx = pushed();
        let (_, calls) = during(|| ctx.synchronize());
        assert_eq!(calls.to_string(), "cuCtxGetCurrent, cuCtxSynchronize");
        let (buffer, own) = during(|| DeviceBuffer::from_slice(&[1u8]).unwrap());
        let (there, calls) = during(|| ctx.device_buffer(&[1u8]).unwrap());
        assert_eq!(calls.total(), own.total() + 1, "{calls}, and in the current context {own}");
        drop(there);
        let (_, calls) = during(|| drop(buffer));
        assert_eq!(calls.of("cuCtxGetCurrent"), 1, "{calls}");
    });
}

#[test]
fn bind_costs_one_look_where_its_context_is_current_and_a_set_where_not() {
    run(|| {
        let (a, b) = (parked(), parked());
        let (bound, calls) = during(|| a.bind());
        assert_eq!((bound, calls.to_string().as_str()), (Ok(()), "cuCtxSetCurrent, cuCtxGetCurrent"));
        let (bound, calls) = during(|| a.bind());
        assert_eq!((bound, calls.to_string().as_str()), (Ok(()), "cuCtxGetCurrent"));
        let (bound, calls) = during(|| b.bind());
        assert_eq!((bound, calls.to_string().as_str()), (Ok(()), "cuCtxSetCurrent, cuCtxGetCurrent"));
        other::set(a.as_raw());
        let (bound, calls) = during(|| a.bind());
        assert_eq!(
            (bound, calls.to_string().as_str()),
            (Ok(()), "cuCtxGetCurrent"),
            "whoever made it current"
        );
        let dead = parked().get_unowned();
        let (bound, calls) = during(|| dead.bind());
        assert_eq!((bound, calls.total()), (Err(CudaError::ContextIsDestroyed), 0));
        assert_eq!(drain(), [a.as_raw()]);
    });
}

#[test]
fn nested_scopes_of_one_context_push_once() {
    run(|| {
        let ctx = parked();
        let (_, calls) = during(|| ctx.scoped(|_| ctx.scoped(|_| ctx.scoped(|_| Ok(())))));
        assert_eq!(calls.to_string(), "cuCtxPushCurrent_v2, cuCtxPopCurrent_v2, cuCtxGetCurrent x4");
    });
}

#[test]
fn a_refused_call_costs_nothing() {
    run(|| {
        let handle = parked().get_unowned();
        let (result, calls) = during(|| handle.scoped(|_| Ok(())));
        assert_eq!((result, calls.total()), (Err(CudaError::ContextIsDestroyed), 0));
        let ctx = pushed();
        let guard = ctx.enter().unwrap();
        let (result, calls) = during(ContextStack::pop);
        assert_eq!((result.unwrap_err(), calls.total()), (CudaError::HeldByGuard, 0));
        drop(guard);
    });
}

#[test]
fn rustacudas_calls_cost_one_driver_call_each() {
    run(|| {
        let ctx = parked();
        let (_, calls) = during(|| ContextStack::push(&ctx).unwrap());
        assert_eq!(calls.to_string(), "cuCtxPushCurrent_v2");
        let (_, calls) = during(|| CurrentContext::get_current().unwrap());
        assert_eq!(calls.to_string(), "cuCtxGetCurrent");
        let (_, calls) = during(|| CurrentContext::set_current(&ctx).unwrap());
        assert_eq!(calls.to_string(), "cuCtxSetCurrent");
        let (_, calls) = during(|| CurrentContext::synchronize().unwrap());
        assert_eq!(calls.to_string(), "cuCtxSynchronize");
        let (_, calls) = during(|| ContextStack::pop().unwrap());
        assert_eq!(calls.to_string(), "cuCtxPopCurrent_v2");
    });
}

#[test]
fn every_method_costs_its_own_call_and_one_more_when_the_context_is_current() {
    run(|| {
        let ctx = pushed();
        // These make more than one call each.
        let composed = ["push", "set_current", "bind", "enter", "scoped"];
        for (name, operation) in operations() {
            let (result, calls) = during(|| operation(&ctx));
            assert_eq!(result, Ok(()), "{name}");
            if !composed.contains(&name) {
                assert!(calls.total() <= 2, "{name}: {calls}");
            }
        }
    });
}

#[test]
fn every_method_costs_its_own_call_a_push_and_a_pop_when_it_is_not() {
    run(|| {
        let ctx = parked();
        // Each on a thread of its own: the second scope of a thread asks whether other code made its context current.
        for (name, operation) in operations() {
            let result =
                std::thread::scope(|scope| scope.spawn(|| during(|| operation(&ctx))).join().unwrap());
            assert_eq!(result.0, Ok(()), "{name}");
            let most = if name == "bind" { 4 } else { 3 };
            assert!(result.1.total() <= most, "{name}: {}", result.1);
        }
    });
}

#[test]
fn handles_are_made_cloned_and_dropped_without_a_call() {
    run(|| {
        let ctx = parked();
        let (_, calls) = during(|| {
            let handle = ctx.get_unowned();
            assert!(handle.clone() == handle && handle.is_alive());
            handle.device().unwrap()
        });
        assert_eq!(calls.total(), 0);
    });
}

/// The system allocator, counting what each thread requests and, for [`counting_bytes`], what all threads have.
struct Counting;

static COUNTS_BYTES: AtomicBool = AtomicBool::new(false);
static BYTES: AtomicI64 = AtomicI64::new(0);

fn count_bytes(more: usize, less: usize) {
    if COUNTS_BYTES.load(Ordering::Relaxed) {
        BYTES.fetch_add(more as i64 - less as i64, Ordering::Relaxed);
    }
}

/// Runs the test, which may ask how many bytes of the process are in use, more or less than now.
pub(super) fn counting_bytes(test: impl FnOnce(&dyn Fn() -> i64)) {
    COUNTS_BYTES.store(true, Ordering::SeqCst);
    test(&|| BYTES.load(Ordering::SeqCst));
    COUNTS_BYTES.store(false, Ordering::SeqCst);
}

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// How often this thread asks for memory meanwhile.
pub(crate) fn allocations<R>(f: impl FnOnce() -> R) -> (R, u64) {
    let before = ALLOCATIONS.get();
    let result = f();
    (result, ALLOCATIONS.get() - before)
}

// SAFETY: every call is forwarded unchanged to the system allocator; the counter has no destructor and does not
// allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        count_bytes(layout.size(), 0);
        // SAFETY: as the caller guarantees.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count_bytes(0, layout.size());
        // SAFETY: as the caller guarantees.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        count_bytes(size, layout.size());
        // SAFETY: as the caller guarantees.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn nest(depth: usize, outer: &Context, inner: &Context) -> CudaResult<()> {
    if depth == 0 { Ok(()) } else { outer.scoped(|_| nest(depth - 1, inner, outer)) }
}

#[test]
fn scopes_allocate_only_when_a_thread_goes_deeper_than_before() {
    run(|| {
        let (a, b) = (parked(), parked());
        let count = |depth| allocations(|| nest(depth, &a, &b).unwrap()).1;
        // The simulated driver's stacks are vectors too, so the first time may allocate at any depth.
        for depth in [1, 10, 100, 1000] {
            let first = count(depth);
            assert!(first <= 16, "{first} allocations at depth {depth}");
            assert_eq!((count(depth), count(depth), count(1)), (0, 0, 0), "at depth {depth}");
        }
    });
}

#[test]
fn a_buffer_in_stream_order_costs_two_calls_and_nothing_on_the_heap() {
    // The more memory other tests have in the device's pool, the more the simulated driver allocates.
    run_alone(|| {
        let _ctx = pushed();
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
        let custack = || {
            // SAFETY: never read.
            drop(unsafe { DeviceBuffer::<u8>::uninitialized_in(4096, &stream) }.unwrap());
        };
        let raw = || {
            let (table, mut address) = (table(), 0);
            // SAFETY: writes to a local; the stream is alive, and the address is freed once.
            unsafe {
                assert_eq!((table.cuMemAllocAsync)(&mut address, 4096, stream.as_raw()), 0);
                assert_eq!((table.cuMemFreeAsync)(address, stream.as_raw()), 0);
            }
        };
        // The simulated driver allocates by itself, and not always as much.
        let least = |f: &dyn Fn()| (0..100).map(|_| allocations(f).1).min();
        custack();
        assert!(least(&custack) <= least(&raw));
        assert_eq!(during(custack).1.to_string(), "cuMemAllocAsync, cuMemFreeAsync");
    });
}

#[test]
fn a_deep_stack_costs_a_push_and_a_pop_for_each_scope() {
    run(|| {
        let (a, b) = (parked(), parked());
        let (result, calls) = during(|| nest(1000, &a, &b));
        assert_eq!(result, Ok(()));
        assert_eq!(calls.to_string(), "cuCtxPushCurrent_v2 x1000, cuCtxPopCurrent_v2 x1000");
        assert_eq!(ContextStack::depth(), 0);
    });
}

#[test]
#[should_panic(expected = "cuCtxPushCurent is not a driver function")]
fn counting_by_a_misspelt_name_does_not_pass() {
    during(|| ()).1.of("cuCtxPushCurent");
}

#[test]
#[should_panic(expected = "cuCtxPopCurrent is not a driver function")]
fn a_fault_of_a_misspelt_name_is_an_error_when_it_is_armed() {
    instrument::fail(Some("cuCtxPopCurrent"), 1, 719, When::Before);
}

#[test]
fn a_misspelt_name_leaves_the_armed_fault_as_it_is() {
    instrument::fail(None, 1000, 719, When::Before);
    let misspelt = std::panic::catch_unwind(|| instrument::fail_times(Some(""), 1, 2, 1, When::After));
    assert!(misspelt.is_err());
    assert!(instrument::disarm());
    assert!(!instrument::disarm());
}

#[test]
fn what_a_context_makes_costs_no_more_than_in_a_scope() {
    use crate::module::KERNELS;
    use custack::event::{Event, EventFlags};
    use custack::memory::{DeviceBuffer, LockedBuffer};
    use custack::module::Module;
    use custack::stream::{Stream, StreamFlags};

    run(|| {
        let (ctx, _other) = (parked(), pushed());
        let ctx = ctx.get_unowned();
        let (event, stream) = (EventFlags::DEFAULT, StreamFlags::DEFAULT);
        type Made<'a> = &'a dyn Fn() -> bool;
        let pairs: [(&str, Made<'_>, Made<'_>); 5] = [
            ("stream", &|| ctx.create_stream(stream, None).is_ok(), &|| {
                ctx.scoped(|_| Stream::new(stream, None)).is_ok()
            }),
            ("event", &|| ctx.create_event(event).is_ok(), &|| ctx.scoped(|_| Event::new(event)).is_ok()),
            ("module", &|| ctx.load_module(KERNELS.as_bytes()).is_ok(), &|| {
                ctx.scoped(|_| Module::load_from_bytes(KERNELS.as_bytes())).is_ok()
            }),
            ("buffer", &|| ctx.device_buffer(&[1u8]).is_ok(), &|| {
                ctx.scoped(|_| DeviceBuffer::from_slice(&[1u8])).is_ok()
            }),
            ("page-locked", &|| ctx.locked_buffer(&1u8, 2).is_ok(), &|| {
                ctx.scoped(|_| LockedBuffer::new(&1u8, 2)).is_ok()
            }),
        ];
        for (name, made, scoped) in pairs {
            let ((a, ours), (b, theirs)) = (during(made), during(scoped));
            assert!(a && b && ours.total() <= theirs.total(), "{name}: {ours}; in a scope: {theirs}");
        }
    });
}
