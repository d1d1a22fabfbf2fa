//! Streams 0, 1 and 2, their attributes, and events with flags and for other processes.

use super::dead_current;
use crate::harness::{current, drain, other, run, within};
use crate::run_alone;
use custack_sim::instrument::calls_of_all_threads;
use custack_sys::ffi::*;
use std::os::raw::c_void;
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn default_streams() -> [CUstream; 3] {
    [0, 1, 2].map(without_provenance_mut)
}

fn stream(flags: u32) -> CUstream {
    let mut raw = null_mut();
    assert_eq!(call!(cuStreamCreate(&mut raw, flags)), 0);
    raw
}

fn event(flags: u32) -> CUevent {
    let mut raw = null_mut();
    assert_eq!(call!(cuEventCreate(&mut raw, flags)), 0);
    raw
}

/// What every question about a stream answers, which is one thing.
fn answers(stream: CUstream) -> u32 {
    let (mut flags, mut priority, mut id, mut context, mut device) = (0, 0, 0, null_mut(), 0);
    let answers = [
        call!(cuStreamQuery(stream)),
        call!(cuStreamSynchronize(stream)),
        call!(cuStreamGetFlags(stream, &mut flags)),
        call!(cuStreamGetPriority(stream, &mut priority)),
        call!(cuStreamGetId(stream, &mut id)),
        call!(cuStreamGetCtx(stream, &mut context)),
        call!(cuStreamGetDevice(stream, &mut device)),
    ];
    assert_eq!(answers, [answers[0]; 7], "{stream:p}");
    assert!(answers[0] != 0 || (flags, priority) == (0, 0) && id != 0 && context == current());
    answers[0]
}

#[test]
fn streams_0_1_and_2_are_of_the_current_context() {
    run(|| {
        let destroyed = |stream| call!(cuStreamDestroy_v2(stream));
        assert_eq!(default_streams().map(answers), [201; 3]);
        assert_eq!(default_streams().map(destroyed), [400, 201, 201]);
        let dead = dead_current();
        assert_eq!(default_streams().map(answers), [709; 3]);
        assert_eq!(drain(), [dead]);
        let a = other::create();
        let of_a = event(0);
        assert_eq!(default_streams().map(answers), [0; 3]);
        assert_eq!(default_streams().map(destroyed), [400; 3]);
        let recorded =
            |stream| (call!(cuEventRecord(of_a, stream)), call!(cuEventRecordWithFlags(of_a, stream, 0)));
        assert_eq!(default_streams().map(recorded), [(0, 0); 3]);
        let b = other::create();
        assert_eq!(default_streams().map(recorded), [(400, 400); 3]);
        let waited = |stream| call!(cuStreamWaitEvent(stream, of_a, 0));
        assert_eq!(default_streams().map(waited), [0; 3]);
        assert_eq!(drain(), [b, a]);
        other::destroy(b);
        other::destroy(a);
    });
}

#[test]
fn the_numbers_of_default_streams_are_their_contexts_and_threads() {
    run(|| {
        let id = |stream| {
            let mut id = 0;
            assert_eq!(call!(cuStreamGetId(stream, &mut id)), 0);
            id
        };
        let a = other::create();
        let [null, legacy, mine] = default_streams().map(id);
        assert!(null == legacy && legacy != mine);
        assert_eq!(default_streams().map(id), [null, legacy, mine]);
        let handle = a.expose_provenance();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                other::push(std::ptr::with_exposed_provenance_mut(handle));
                let [theirs, _, own] = default_streams().map(id);
                assert!(theirs == null && own != mine);
            });
        });
        let b = other::create();
        let [other_null, _, other_mine] = default_streams().map(id);
        assert!(other_null != null && other_mine != mine);
        assert_eq!(drain(), [b, a]);
        other::destroy(b);
        other::destroy(a);
    });
}

static OPEN: AtomicBool = AtomicBool::new(false);

extern "C" fn wait_until_open(_: *mut c_void) {
    while !OPEN.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn the_legacy_stream_orders_with_all_but_the_non_blocking_and_no_other_do() {
    within(60, || run(default_streams_order));
}

fn default_streams_order() {
    let a = other::create();
    let [null, legacy, mine] = default_streams();
    let (blocking, free, mark) = (stream(0), stream(1), event(2));
    let all = [null, legacy, mine, blocking, free];
    let is_legacy = |stream| [null, legacy].contains(&stream);
    for (busy, then) in all.iter().flat_map(|busy| all.map(|then| (*busy, then))) {
        if busy == then {
            continue;
        }
        OPEN.store(false, Ordering::SeqCst);
        assert_eq!(call!(cuLaunchHostFunc(busy, Some(wait_until_open), null_mut())), 0);
        let orders = (is_legacy(busy) && then != free) || (is_legacy(then) && busy != free);
        // Streams that have nothing are done, though their next work will wait; the legacy one counts others'.
        let asked = call!(cuStreamQuery(then));
        assert_eq!(asked, if is_legacy(then) && orders { 600 } else { 0 }, "{busy:p}, then {then:p}");
        assert_eq!(call!(cuEventRecord(mark, then)), 0);
        // What is not ordered behind it comes, however busy this machine is; waiting for it would hang if it were.
        let reached = if orders {
            std::thread::sleep(Duration::from_millis(3));
            call!(cuEventQuery(mark))
        } else {
            call!(cuEventSynchronize(mark))
        };
        OPEN.store(true, Ordering::SeqCst);
        assert_eq!(reached, if orders { 600 } else { 0 }, "{busy:p}, then {then:p}");
        assert_eq!(call!(cuCtxSynchronize()), 0);
    }
    drain();
    other::destroy(a);
}

#[test]
fn external_events_are_for_captures() {
    run(|| {
        let a = other::create();
        let (stream, event) = (stream(0), event(0));
        let answers = [0, 1, 2, 3].map(|flags| {
            (
                call!(cuEventRecordWithFlags(event, stream, flags)),
                call!(cuStreamWaitEvent(stream, event, flags)),
            )
        });
        assert_eq!(answers, [(0, 0), (401, 401), (1, 1), (1, 1)]);
        assert_eq!(call!(cuEventRecordWithFlags(null_mut(), stream, 0)), 400);
        let [_, legacy, mine] = default_streams();
        assert_eq!([legacy, mine].map(|stream| call!(cuEventRecordWithFlags(event, stream, 1))), [401; 2]);
        // An event of another context is looked at last, and only for a plain record.
        let b = other::create();
        let foreign = [0, 1, 2].map(|flags| call!(cuEventRecordWithFlags(event, null_mut(), flags)));
        assert_eq!(foreign, [400, 401, 1]);
        assert_eq!(call!(cuEventElapsedTime(null_mut(), event, event)), 400);
        drain();
        other::destroy(b);
        other::destroy(a);
    });
}

#[test]
fn attributes_of_streams_are_clamped_and_copied_within_a_context() {
    run(|| {
        let a = other::create();
        let (from, to) = (stream(0), stream(1));
        let get = |stream, attribute| {
            let mut value = [7u64; 8];
            let status = call!(cuStreamGetAttribute(stream, attribute, value.as_mut_ptr().cast()));
            (status, value[0] as u32 as i32)
        };
        let set = |stream, attribute, value: i32| {
            let value = [u64::from(value as u32), 0, 0, 0, 0, 0, 0, 0];
            call!(cuStreamSetAttribute(stream, attribute, value.as_ptr().cast()))
        };
        for stream in [from, null_mut()] {
            assert_eq!([3, 8, 99].map(|attribute| get(stream, attribute)), [(0, -1), (0, 0), (1, 7)]);
        }
        assert_eq!([0, 1, 2, 3, 4, 5].map(|policy| set(from, 3, policy)), [1, 0, 0, 0, 0, 1]);
        let clamped = [-7, -4, 2].map(|priority| (set(from, 8, priority), get(from, 8)));
        assert_eq!(clamped, [(0, (0, -5)), (0, (0, -4)), (0, (0, 0))]);
        assert_eq!((set(from, 99, 1), call!(cuStreamCopyAttributes(to, from)), get(to, 3)), (1, 0, (0, 4)));
        assert_eq!(call!(cuStreamCopyAttributes(to, to)), 0);
        let b = other::create();
        assert_eq!(call!(cuStreamCopyAttributes(stream(1), from)), 1, "of another context");
        assert_eq!(drain(), [b, a]);
        assert_eq!((call!(cuStreamCopyAttributes(to, from)), get(from, 3).0), (0, 0), "with nothing current");
        other::destroy(b);
        other::destroy(a);
    });
}

#[test]
fn an_event_for_other_processes_is_not_opened_in_its_own() {
    run(|| {
        let a = other::create();
        let (plain, shared) = (event(2), event(6));
        assert_eq!(call!(cuEventCreate(&mut null_mut(), 5)), 1);
        let mut handle = CUipcEventHandle { reserved: [0; 64] };
        let get = |handle: &mut CUipcEventHandle, event| call!(cuIpcGetEventHandle(handle, event));
        assert_eq!([plain, null_mut(), shared].map(|event| get(&mut handle, event)), [400, 1, 0]);
        let mut again = CUipcEventHandle { reserved: [0; 64] };
        assert_eq!((get(&mut again, shared), again), (0, handle));
        let open = |handle| call!(cuIpcOpenEventHandle(&mut null_mut(), handle));
        let made_up = [0, 0x5a].map(|byte| CUipcEventHandle { reserved: [byte; 64] });
        assert_eq!((open(handle), made_up.map(open)), (201, [205; 2]));
        assert_eq!(drain(), [a]);
        assert_eq!((get(&mut again, shared), open(handle)), (201, 201), "with nothing current");
        other::destroy(a);
    });
}

/// A host function that returns when the flag is set, or after some seconds.
unsafe extern "C" fn held(flag: *mut c_void) {
    // SAFETY: the tests below wait for the function before the flag goes.
    let (flag, begun) = (unsafe { &*flag.cast::<AtomicBool>() }, Instant::now());
    while !flag.load(Ordering::SeqCst) && begun.elapsed().as_secs() < 10 {
        std::thread::sleep(Duration::from_micros(100));
    }
}

#[test]
fn a_wait_for_a_stream_covers_what_was_submitted_before_it_and_not_what_comes_meanwhile() {
    within(60, || {
        run_alone(|| {
            let a = other::create();
            let stream = stream(1);
            let flags = [const { AtomicBool::new(false) }; 2];
            let hold = |flag: &AtomicBool| {
                let flag = std::ptr::from_ref(flag).cast_mut().cast();
                assert_eq!(call!(cuLaunchHostFunc(stream, Some(held), flag)), 0);
            };
            let waits = || calls_of_all_threads().of("cuStreamSynchronize");
            let (before, address) = (waits(), stream.expose_provenance());
            hold(&flags[0]);
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| {
                    let stream = std::ptr::with_exposed_provenance_mut(address);
                    [call!(cuStreamSynchronize(stream)), call!(cuStreamQuery(stream))]
                });
                while waits() == before {
                    std::thread::yield_now();
                }
                std::thread::sleep(Duration::from_millis(20));
                hold(&flags[1]);
                flags[0].store(true, Ordering::SeqCst);
                assert_eq!(waiting.join().unwrap(), [0, 600]);
            });
            flags[1].store(true, Ordering::SeqCst);
            assert_eq!([call!(cuStreamSynchronize(stream)), call!(cuStreamQuery(stream))], [0, 0]);
            assert_eq!(drain(), [a]);
            other::destroy(a);
        });
    });
}
