//! Contexts that are destroyed while they are current somewhere.

use super::{api_version, dead_current, flags, id, limit};
use crate::harness::{current, drain, other, run, table};
use crate::run_alone;
use custack_sys::ffi::{CUcontext, CUexecAffinityParam, CUgreenCtx, CUstream};
use std::os::raw::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

#[test]
fn a_destroyed_context_that_lies_below_comes_back_to_the_top() {
    run(|| {
        let a = other::create();
        let b = other::create();
        other::destroy(a);
        assert_eq!(current(), b);
        assert_eq!(other::pop(), Ok(b));
        assert_eq!(current(), a);
        assert_eq!(drain(), [a]);
        other::destroy(b);
    });
}

#[test]
fn destroying_what_is_current_here_pops_it_once() {
    run(|| {
        let a = other::create();
        let b = other::create();
        other::destroy(b);
        assert_eq!(current(), a);
        other::push(a);
        other::push(a);
        other::destroy(a);
        assert_eq!(api_version(null_mut()).0, 709);
        assert_eq!(drain(), [a, a]);
    });
}

#[test]
fn on_a_destroyed_current_context_device_and_flags_succeed() {
    run(|| {
        dead_current();
        let mut device = 7777;
        assert_eq!((call!(cuCtxGetDevice(&mut device)), device), (0, 0));
        assert_eq!(flags(), (0, 0));
        drain();
    });
}

#[test]
fn on_a_destroyed_current_context_the_rest_is_709() {
    run(|| {
        let a = dead_current();
        let (mut n, mut affinity) = (0, CUexecAffinityParam::default());
        let mut out = null_mut();
        assert_eq!(limit(0), (709, 7777));
        assert_eq!(limit(99), (709, 7777));
        assert_eq!(api_version(null_mut()), (709, 7777));
        assert_eq!(api_version(a), (201, 7777), "by its name the answer is another");
        assert_eq!(id(null_mut()), (709, 7777));
        assert_eq!(id(a), (709, 7777));
        assert_eq!(call!(cuCtxSynchronize()), 709);
        assert_eq!(call!(cuCtxSynchronize_v2(a)), 709);
        assert_eq!(call!(cuCtxSetLimit(0, 2048)), 709);
        assert_eq!(call!(cuCtxSetLimit(99, 2048)), 709);
        assert_eq!(call!(cuCtxGetCacheConfig(&mut n)), 709);
        assert_eq!(call!(cuCtxGetCacheConfig(null_mut())), 709);
        assert_eq!(call!(cuCtxSetCacheConfig(1)), 709);
        assert_eq!(call!(cuCtxSetCacheConfig(9)), 709);
        assert_eq!(call!(cuCtxGetSharedMemConfig(&mut n)), 709);
        assert_eq!(call!(cuCtxSetSharedMemConfig(1)), 709);
        assert_eq!(call!(cuCtxGetStreamPriorityRange(null_mut(), null_mut())), 709);
        assert_eq!(call!(cuCtxResetPersistingL2Cache()), 709);
        assert_eq!(call!(cuCtxGetExecAffinity(&mut affinity, 0)), 709);
        assert_eq!(call!(cuCtxGetExecAffinity(&mut affinity, 7)), 709);
        assert_eq!(call!(cuCtxAttach(&mut out, 0)), 709);
        assert_eq!(call!(cuCtxDetach(a)), 709);
        assert_eq!(call!(cuCtxRecordEvent(a, null_mut())), 709);
        assert_eq!(call!(cuCtxWaitEvent(a, null_mut())), 709);
        assert_eq!(call!(cuCtxEnablePeerAccess(a, 0)), 709);
        assert_eq!(call!(cuCtxEnablePeerAccess(null_mut(), 0)), 709);
        assert_eq!(call!(cuCtxDisablePeerAccess(a)), 709);
        assert_eq!(call!(cuCtxDestroy_v2(a)), 709);
        // Some functions check their pointer first, here too.
        assert_eq!(call!(cuCtxGetApiVersion(a, null_mut())), 1);
        assert_eq!(call!(cuCtxGetFlags(null_mut())), 1);
        drain();
    });
}

#[test]
fn a_destroyed_handle_that_a_stack_holds_can_be_pushed_and_set() {
    run(|| {
        let a = dead_current();
        other::push(a);
        other::set(a);
        assert_eq!(api_version(null_mut()).0, 709);
        assert_eq!(drain(), [a, a]);
    });
}

#[test]
fn a_context_destroyed_by_another_thread_stays_current_here() {
    run(|| {
        let a = other::create();
        let raw = a.addr();
        std::thread::spawn(move || other::destroy(raw as CUcontext)).join().unwrap();
        assert_eq!(current(), a);
        assert_eq!(call!(cuCtxSynchronize()), 709);
        assert_eq!(drain(), [a]);
    });
}

#[test]
fn threads_that_synchronise_while_the_context_is_destroyed_get_709() {
    run(|| {
        let a = other::parked();
        let raw = a.addr();
        let (ready, all_ready) = channel();
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let ready = ready.clone();
                std::thread::spawn(move || {
                    other::push(raw as CUcontext);
                    ready.send(()).unwrap();
                    let last =
                        std::iter::repeat_with(|| call!(cuCtxSynchronize())).find(|status| *status != 0);
                    assert_eq!(last, Some(709));
                    drain();
                })
            })
            .collect();
        for _ in 0..4 {
            all_ready.recv().unwrap();
        }
        other::destroy(a);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// The green context that a thread destroys.
static GREEN: AtomicUsize = AtomicUsize::new(0);

/// Work that has begun and does not end before this is dropped.
struct Held(Option<Sender<()>>, CUstream);

unsafe extern "C" fn waits(receiver: *mut c_void) {
    // SAFETY: it is that of `held`, for which the host function is called once.
    let receiver = unsafe { Box::from_raw(receiver.cast::<Receiver<()>>()) };
    assert!(receiver.recv().is_err());
}

/// In a stream of the current context.
fn held() -> Held {
    let (mut stream, (go, wait)) = (null_mut(), channel());
    let receiver = Box::into_raw(Box::new(wait)).cast();
    // SAFETY: the stream is written to a local, and the function gets what it takes.
    unsafe {
        assert_eq!((table().cuStreamCreate)(&mut stream, 1), 0);
        assert_eq!((table().cuLaunchHostFunc)(stream, Some(waits), receiver), 0);
    }
    Held(Some(go), stream)
}

impl Held {
    fn end(mut self) {
        self.0.take();
        // SAFETY: it was made by `held`, of a context that is alive.
        assert_eq!(unsafe { (table().cuStreamSynchronize)(self.1) }, 0);
    }
}

#[test]
fn a_context_is_destroyed_when_the_device_does_nothing_for_any_context_of_the_process() {
    run_alone(|| {
        let (working, gone) = (other::parked(), other::parked() as usize);
        other::push(working);
        let work = held();
        std::thread::scope(|scope| {
            let destroyed = scope.spawn(move || other::destroy(gone as CUcontext));
            std::thread::sleep(Duration::from_millis(50));
            assert!(!destroyed.is_finished(), "it waits for the work of another context");
            work.end();
            destroyed.join().unwrap();
        });
        other::destroy(working);
    });
}

/// Has the threads end a context while another one of the device works, and looks whether all of them return before that
/// has done its work.
fn all_wait_for_the_device(ends: &[fn()]) {
    let working = other::create();
    let work = held();
    std::thread::scope(|scope| {
        let threads: Vec<_> = ends.iter().map(|end| scope.spawn(*end)).collect();
        std::thread::sleep(Duration::from_millis(50));
        let all = threads.iter().all(|thread| thread.is_finished());
        work.end();
        assert!(!all, "the last one waits for the work of another context");
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    other::destroy(working);
}

fn retain_primary() {
    let mut primary = null_mut();
    assert_eq!(call!(cuDevicePrimaryCtxRetain(&mut primary, 0)), 0);
}

#[test]
fn a_primary_context_ends_when_the_device_does_nothing_for_any_context_of_the_process() {
    run_alone(|| {
        retain_primary();
        all_wait_for_the_device(&[other::release_primary]);
    });
}

#[test]
fn the_last_of_two_that_release_a_primary_context_at_once_waits_for_the_device() {
    run_alone(|| {
        for _ in 0..4 {
            retain_primary();
            retain_primary();
            all_wait_for_the_device(&[other::release_primary, other::release_primary]);
        }
    });
}

#[test]
fn a_green_context_that_is_the_last_to_keep_the_primary_one_is_destroyed_when_the_device_does_nothing() {
    run_alone(|| {
        retain_primary();
        let green = super::green::green(8).0.addr();
        other::release_primary();
        GREEN.store(green, Ordering::Relaxed);
        all_wait_for_the_device(&[|| super::green::destroy(GREEN.load(Ordering::Relaxed) as CUgreenCtx)]);
    });
}
