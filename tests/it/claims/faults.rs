//! Every driver call fails once: the error comes back unchanged, nothing changes, and the next attempt succeeds.

use crate::context::unowned::operations;
use crate::harness::{current, device, drain, other, parked, pushed, run, run_alone, times};
use custack::context::{
    CacheConfig, Context, ContextFlags, ContextStack, CurrentContext, PrimaryContext, ResourceLimit,
    SharedMemoryConfig, UnownedContext, wait_until_retired,
};
use custack::device::{Device, DeviceAttribute};
use custack::driver::FUNCTIONS;
use custack::driver::instrument::{self, When};
use custack::error::{CudaError, CudaResult};
use custack::memory::DeviceBuffer;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

const CODES: [u32; 7] = [1, 2, 201, 709, 719, 999, 4711];

/// Runs `operation` once for each of its driver calls, each code and each moment, with that call failing; calls `check`
/// after each run with the result, the injected error, and a text that begins with the name of the failing function.
pub(crate) fn sweep<R>(operation: impl FnMut() -> R, check: impl FnMut(R, CudaError, &str)) -> u64 {
    sweep_by(1, operation, check)
}

/// Like [`sweep`]; in a short run each call fails with one of the codes, and each code is tried at some call.
pub(crate) fn sweep_briefly<R>(operation: impl FnMut() -> R, check: impl FnMut(R, CudaError, &str)) -> u64 {
    sweep_by(times(CODES.len(), 1), operation, check)
}

fn sweep_by<R>(
    step: usize,
    mut operation: impl FnMut() -> R,
    mut check: impl FnMut(R, CudaError, &str),
) -> u64 {
    let (clean, calls) = instrument::during(&mut operation);
    drop(clean);
    let of = |function| (1..=calls.of(function)).map(move |nth| (function, nth));
    let mut runs = 0;
    for (function, nth) in FUNCTIONS.iter().flat_map(|function| of(*function)) {
        for &code in CODES.iter().skip(runs as usize % step).step_by(step) {
            for when in [When::Before, When::After] {
                // One that this thread has never had, so that its note is of this failure.
                let code = if code == 4711 { next_code() } else { code };
                instrument::fail(Some(function), nth, code, when);
                let result = operation();
                let name = format!("{function}, call {nth} of {}: {code} {when:?}", calls.of(function));
                assert!(!instrument::disarm(), "{name}: the fault did not happen");
                check(result, CudaError::from_code(code).unwrap(), &name);
                runs += 1;
            }
        }
    }
    runs
}

/// A code that no driver knows, another one each time.
fn next_code() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(4711);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// What is returned is noted once, with what was asked; what is not returned leaves no note.
#[track_caller]
pub(crate) fn is_noted_if_returned<T>(result: &CudaResult<T>, error: CudaError, name: &str) {
    if matches!(error, CudaError::Unrecognized(_)) {
        let failure = error.failure();
        let returned = result.as_ref().err() == Some(&error);
        assert_eq!(failure.asked().is_some(), returned, "{name}: {failure}");
        assert!(returned || failure.to_string() == error.to_string(), "{name}: {failure}");
    }
}

#[test]
fn what_custack_tries_again_is_one_failure_with_the_text_of_what_was_asked() {
    run(|| {
        let (ctx, _base) = (parked(), pushed());
        for (name, operation) in
            operations().into_iter().filter(|(name, _)| !["push", "set_current"].contains(name))
        {
            for (nth, times) in (1..=3).flat_map(|nth| (1..=4).map(move |times| (nth, times))) {
                for when in [When::Before, When::After] {
                    let code = next_code();
                    instrument::fail_times(None, nth, times, code, when);
                    let result = operation(&ctx);
                    instrument::disarm();
                    let name = format!("{name}, {times} from call {nth} on, {when:?}");
                    is_noted_if_returned(&result, CudaError::Unrecognized(code), &name);
                }
            }
        }
        drain();
    });
}

/// An operation on a handle fails with the injected error, or succeeds if the fault hit only the restoration.
fn sweep_operations(ctx: &UnownedContext, stack: &[&Context]) {
    // Two operations consist of two public calls; they have tests of their own.
    for (name, operation) in
        operations().into_iter().filter(|(name, _)| !["push", "set_current"].contains(name))
    {
        sweep(
            || operation(ctx),
            |result: CudaResult<()>, error, fault| {
                assert!(result == Ok(()) || result == Err(error), "{name}, {fault}: {result:?}");
                is_noted_if_returned(&result, error, &format!("{name}, {fault}"));
                let top = stack.last().map(|ctx| ctx.as_raw());
                assert_eq!(current(), top.unwrap_or(std::ptr::null_mut()), "{name}, {fault}");
                assert_eq!(ContextStack::depth(), stack.len(), "{name}, {fault}");
                assert_eq!(operation(ctx), Ok(()), "{name} again after {fault}");
            },
        );
    }
    let left: Vec<_> = stack.iter().rev().map(|ctx| ctx.as_raw()).collect();
    assert_eq!(drain(), left, "exactly these entries");
}

#[test]
fn every_operation_survives_a_fault_at_every_call_from_an_empty_stack() {
    run(|| sweep_operations(&parked(), &[]));
}

#[test]
fn every_operation_survives_a_fault_at_every_call_over_another_context() {
    run(|| {
        let (ctx, base) = (parked(), pushed());
        sweep_operations(&ctx, &[&base]);
    });
}

#[test]
fn every_operation_survives_a_fault_at_every_call_on_the_current_context() {
    run(|| {
        let (base, ctx) = (pushed(), pushed());
        sweep_operations(&ctx, &[&base, &ctx]);
    });
}

#[test]
fn the_error_of_the_operations_own_call_always_comes_back() {
    run(|| {
        let ctx = pushed();
        for code in CODES {
            instrument::fail(Some("cuCtxSynchronize"), 1, code, When::Before);
            assert_eq!(ctx.synchronize(), Err(CudaError::from_code(code).unwrap()));
            instrument::fail(Some("cuCtxGetCurrent"), 1, code, When::Before);
            assert_eq!(ctx.enter().err(), CudaError::from_code(code));
            instrument::fail(Some("cuCtxGetCurrent"), 1, code, When::Before);
            assert_eq!(CurrentContext::get_current().err(), CudaError::from_code(code));
        }
        drain();
    });
}

#[test]
fn push_and_pop_are_undone_if_they_fail() {
    run(|| {
        let (a, b) = (pushed(), parked());
        for code in CODES {
            for when in [When::Before, When::After] {
                let error = CudaError::from_code(code);
                instrument::fail(Some("cuCtxPushCurrent_v2"), 1, code, when);
                assert_eq!(ContextStack::push(&b).err(), error, "{when:?}");
                assert_eq!((current(), ContextStack::depth()), (a.as_raw(), 1), "{code} {when:?}");
                ContextStack::push(&b).unwrap();
                instrument::fail(Some("cuCtxPopCurrent_v2"), 1, code, when);
                assert_eq!(ContextStack::pop().err(), error, "{when:?}");
                assert_eq!((current(), ContextStack::depth()), (b.as_raw(), 2), "{code} {when:?}");
                assert_eq!(ContextStack::pop().unwrap(), b.get_unowned());
            }
        }
        assert_eq!(drain(), [a.as_raw()]);
    });
}

#[test]
fn set_current_is_undone_if_it_fails() {
    run(|| {
        let none = CurrentContext::get_current().unwrap();
        let (a, b) = (parked(), parked());
        for code in CODES {
            for when in [When::Before, When::After] {
                let fail = || instrument::fail(Some("cuCtxSetCurrent"), 1, code, when);
                let error = CudaError::from_code(code);
                fail();
                assert_eq!(CurrentContext::set_current(&a).err(), error, "from an empty stack");
                assert!(current().is_null());
                CurrentContext::set_current(&a).unwrap();
                fail();
                assert_eq!(CurrentContext::set_current(&b).err(), error, "over another");
                assert_eq!((current(), ContextStack::depth()), (a.as_raw(), 1));
                fail();
                assert_eq!(CurrentContext::set_current(&none).err(), error, "unbinding");
                assert_eq!((current(), ContextStack::depth()), (a.as_raw(), 1));
                CurrentContext::set_current(&none).unwrap();
                assert!(current().is_null());
            }
        }
    });
}

#[test]
fn creating_leaves_nothing_if_it_fails() {
    run_alone(|| {
        let base = pushed();
        let device = device();
        sweep(
            || Context::create_and_push(ContextFlags::SCHED_AUTO, device),
            |result, error, fault| {
                assert_eq!(result.err(), Some(error), "{fault}");
                assert_eq!((current(), ContextStack::depth()), (base.as_raw(), 1), "{fault}");
            },
        );
        assert_eq!(drain(), [base.as_raw()]);
    });
}

/// Destroys a context in the situation that `prepare` makes, with a fault at every call.
fn destroying(prepare: impl Fn() -> Context) {
    let base = pushed();
    let (_, calls) = instrument::during(|| drop(prepare()));
    for nth in 1..=calls.total() {
        for code in CODES {
            for when in [When::Before, When::After] {
                let ctx = prepare();
                let handle = ctx.get_unowned();
                instrument::fail(None, nth, code, when);
                let name = format!("call {nth}: {code} {when:?}");
                match Context::drop(ctx) {
                    Ok(()) => {}
                    Err((error, ctx)) => {
                        assert_eq!(Some(error), CudaError::from_code(code), "{name}");
                        if ctx.is_alive() {
                            assert_eq!(ctx.synchronize(), Ok(()), "{name}: alive, and good");
                        }
                        assert!(Context::drop(ctx).is_ok(), "{name}: the second try");
                    }
                }
                instrument::disarm();
                assert!(!handle.is_alive(), "{name}");
                assert_eq!((current(), ContextStack::depth()), (base.as_raw(), 1), "{name}");
            }
        }
    }
    assert_eq!(drain(), [base.as_raw()]);
}

#[test]
fn destroying_a_context_on_no_stack_survives_a_fault_at_every_call() {
    run_alone(|| destroying(parked));
}

#[test]
fn destroying_the_current_context_survives_a_fault_at_every_call() {
    run_alone(|| destroying(pushed));
}

#[test]
fn a_context_pushed_twice_stays_so_if_destroying_it_fails() {
    run_alone(|| {
        for code in CODES {
            let ctx = pushed();
            ContextStack::push(&ctx).unwrap();
            instrument::fail(Some("cuCtxPushCurrent_v2"), 1, code, When::Before);
            let (error, ctx) = Context::drop(ctx).unwrap_err();
            assert_eq!(Some(error), CudaError::from_code(code));
            assert_eq!((ctx.synchronize(), ContextStack::depth()), (Ok(()), 2));
            assert_eq!(drain(), [ctx.as_raw(), ctx.as_raw()]);
            while ContextStack::depth() > 0 {
                assert!(ContextStack::pop().is_err(), "popped behind custack's back");
            }
        }
    });
}

#[test]
fn dropping_with_a_fault_at_every_call_never_panics_and_never_crashes() {
    run_alone(|| {
        let (_, calls) = instrument::during(|| drop(pushed()));
        for nth in 1..=calls.total() {
            for code in CODES {
                let ctx = pushed();
                let handle = ctx.get_unowned();
                instrument::fail(None, nth, code, When::Before);
                drop(ctx);
                instrument::disarm();
                // Another thread retries what could not be done at once.
                assert!(!handle.is_alive());
                wait_until_retired().unwrap();
                assert_eq!((current().is_null(), ContextStack::depth()), (true, 0), "call {nth}: {code}");
            }
        }
    });
}

#[test]
fn retaining_and_releasing_survive_a_fault_at_every_call() {
    run_alone(|| {
        let device = device();
        for code in CODES {
            for when in [When::Before, When::After] {
                let name = format!("{code} {when:?}");
                instrument::fail(Some("cuDevicePrimaryCtxRetain"), 1, code, when);
                assert_eq!(PrimaryContext::retain(device).err(), CudaError::from_code(code), "{name}");
                let primary = PrimaryContext::retain(device).unwrap();
                instrument::fail(Some("cuDevicePrimaryCtxRelease_v2"), 1, code, when);
                if let Err((error, primary)) = PrimaryContext::drop(primary) {
                    assert_eq!(Some(error), CudaError::from_code(code), "{name}");
                    assert!(!primary.is_alive(), "{name}: it may be gone, so it is spent");
                    assert!(PrimaryContext::drop(primary).is_ok(), "{name}");
                }
                if when == When::Before {
                    other::release_primary();
                }
                assert!(!PrimaryContext::state(device).unwrap().active, "{name}: released once");
            }
        }
    });
}

type Query = (&'static str, fn() -> CudaResult<()>);

/// Every other public operation: on the current context, on devices, on primary contexts, and on the stack.
fn queries() -> Vec<Query> {
    vec![
        ("init", || custack::init(custack::CudaFlags::empty())),
        ("version", || custack::CudaApiVersion::get().map(drop)),
        ("get_current", || CurrentContext::get_current().map(drop)),
        ("get_device", || CurrentContext::get_device().map(drop)),
        ("get_flags", || CurrentContext::get_flags().map(drop)),
        ("get_cache_config", || CurrentContext::get_cache_config().map(drop)),
        ("set_cache_config", || CurrentContext::set_cache_config(CacheConfig::PreferL1)),
        ("get_shared_memory_config", || CurrentContext::get_shared_memory_config().map(drop)),
        ("set_shared_memory_config", || {
            CurrentContext::set_shared_memory_config(SharedMemoryConfig::FourByteBankSize)
        }),
        ("get_resource_limit", || CurrentContext::get_resource_limit(ResourceLimit::StackSize).map(drop)),
        ("set_resource_limit", || CurrentContext::set_resource_limit(ResourceLimit::StackSize, 1024)),
        ("get_stream_priority_range", || CurrentContext::get_stream_priority_range().map(drop)),
        ("synchronize", CurrentContext::synchronize),
        ("snapshot", || ContextStack::snapshot().map(drop)),
        ("num_devices", || Device::num_devices().map(drop)),
        ("devices", || Device::devices().map(drop)),
        ("get_device", || Device::get_device(0).map(drop)),
        ("name", || first().name().map(drop)),
        ("uuid", || first().uuid().map(drop)),
        ("total_memory", || first().total_memory().map(drop)),
        ("get_attribute", || first().get_attribute(DeviceAttribute::WarpSize).map(drop)),
        ("compute_capability", || first().compute_capability().map(drop)),
        ("pci_bus_id", || first().pci_bus_id().map(drop)),
        ("supports_exec_affinity", || first().supports_exec_affinity().map(drop)),
        ("graph_memory", || first().graph_memory().map(drop)),
        ("trim_graph_memory", || first().trim_graph_memory()),
        ("can_access_peer", || first().can_access_peer(first()).map(drop)),
        ("primary state", || PrimaryContext::state(first()).map(drop)),
        ("primary flags", || PrimaryContext::set_primary_flags(first(), ContextFlags::SCHED_AUTO)),
    ]
}

thread_local! {
    static FIRST: Cell<Option<Device>> = const { Cell::new(None) };
}

/// The first device, queried once, so that only the operations' own calls are counted.
fn first() -> Device {
    FIRST.get().unwrap()
}

#[test]
fn every_query_returns_a_fault_at_every_call_unchanged() {
    run_alone(|| {
        FIRST.set(Some(device()));
        let ctx = pushed();
        let mut runs = 0;
        for (name, query) in queries() {
            runs += sweep(query, |result, error, fault| {
                assert_eq!(result, Err(error), "{name}, {fault}");
                assert_eq!((current(), ContextStack::depth()), (ctx.as_raw(), 1), "{name}, {fault}");
                assert_eq!(query(), Ok(()), "{name} again after {fault}");
            });
        }
        assert!(runs >= queries().len() as u64 * 14, "{runs} runs");
        assert_eq!(drain(), [ctx.as_raw()]);
    });
}

#[test]
fn a_panic_in_a_scope_with_a_failing_pop_does_not_abort() {
    run(|| {
        let ctx = parked();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _guard = ctx.enter().unwrap();
            instrument::fail(Some("cuCtxPopCurrent_v2"), 1, 719, When::Before);
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        assert!(current().is_null(), "the second try has popped it");
    });
}

#[test]
fn an_entry_that_could_not_be_popped_is_popped_with_the_next_guard() {
    run(|| {
        let (a, b) = (parked(), parked());
        let guard = a.enter().unwrap();
        instrument::fail_times(Some("cuCtxPopCurrent_v2"), 1, 3, 719, When::Before);
        drop(guard);
        assert!(!instrument::disarm(), "every attempt failed");
        assert_eq!((current(), ContextStack::depth()), (a.as_raw(), 1));
        b.scoped(|_| Ok(())).unwrap();
        assert_eq!((current().is_null(), ContextStack::depth()), (true, 0));
    });
}

#[test]
fn a_set_that_fails_over_a_destroyed_context_removes_that_context() {
    run(|| {
        for when in [When::Before, When::After] {
            let (other, ctx) = (parked(), pushed());
            let raw = ctx.as_raw();
            std::thread::spawn(move || drop(ctx)).join().unwrap();
            instrument::fail(Some("cuCtxSetCurrent"), 1, 999, when);
            assert_eq!(CurrentContext::set_current(&other), Err(CudaError::UnknownError));
            // A destroyed context that was replaced cannot come back.
            let left = if when == When::Before { vec![raw] } else { vec![] };
            assert_eq!(ContextStack::depth(), left.len(), "{when:?}");
            assert_eq!(drain(), left, "{when:?}");
            let _ = ContextStack::pop();
        }
    });
}

#[test]
fn dropping_an_owner_while_memory_keeps_its_context_keeps_a_held_entry_when_a_call_fails() {
    run(|| {
        for (nth, when) in (1..6).flat_map(|nth| [(nth, When::Before), (nth, When::After)]) {
            let ctx = parked();
            let handle = ctx.get_unowned();
            let guard = handle.enter().unwrap();
            let buffer = DeviceBuffer::from_slice(&[1u32]).unwrap();
            instrument::fail(None, nth, 999, when);
            drop(ctx);
            instrument::disarm();
            assert_eq!(ContextStack::depth(), 1, "call {nth}, {when:?}");
            assert_eq!(drain(), [handle.as_raw()], "call {nth}, {when:?}");
            drop((guard, buffer));
            assert_eq!(ContextStack::depth(), 0, "call {nth}, {when:?}");
        }
        wait_until_retired().unwrap();
    });
}
