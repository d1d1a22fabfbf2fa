//! The base of every test: a fresh thread with an empty stack, on an instrumented driver.
//!
//! `CUSTACK_DRIVER` is `cuda`, `sim` or `auto`, which is the NVIDIA driver where there is one. `CUSTACK_TESTS=deep` has the tests
//! try all that they can; otherwise they try each kind of thing once.

use crate::ONE_AT_A_TIME;
use custack_sim::instrument;
use custack_sys::Table;
use custack_sys::ffi::CUcontext;
use std::cell::{Cell, RefCell};
use std::ffi::CStr;
use std::io::Write;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

thread_local! {
    /// Told, in a test of [`within`], when the test has begun.
    static BEGUN: RefCell<Option<Sender<Told>>> = const { RefCell::new(None) };
    /// Whether this is the thread of a test that has begun.
    static IN_TEST: Cell<bool> = const { Cell::new(false) };
}

/// What a test tells the thread that waits for it.
enum Told {
    Begun,
    Done,
}

/// The driver that the tests run on.
struct Driver {
    table: Table,
    is_simulated: bool,
}

/// Calls a function of the table.
macro_rules! call {
    ($name:ident($($arg:expr),* $(,)?)) => {
        // SAFETY: pointers to locals, and handles that are alive or held by a stack.
        unsafe { (crate::harness::table().$name)($($arg),*) }
    };
}

/// Runs a test on a fresh thread; afterwards the thread's stack must be empty, and no call may have been a misuse.
///
/// On a GPU it runs alone. Destroying a context waits there for the work of all contexts, and meanwhile the driver neither
/// allocates nor frees for anyone; so a test that holds work back while it allocates would hang beside one that destroys.
#[track_caller]
pub(crate) fn run(test: impl FnOnce() + Send) {
    let _turn = turn();
    begun();
    on_fresh_thread(test);
}

/// The turn of a test, where only one may run.
pub(crate) fn turn() -> Option<MutexGuard<'static, ()>> {
    static TURN: Mutex<()> = Mutex::new(());
    (ONE_AT_A_TIME || !is_simulated()).then(|| TURN.lock().unwrap_or_else(PoisonError::into_inner))
}

pub(crate) fn begun() {
    BEGUN.with_borrow(|begun| begun.iter().for_each(|begun| drop(begun.send(Told::Begun))));
}

#[track_caller]
pub(crate) fn on_fresh_thread(test: impl FnOnce() + Send) {
    driver();
    let misuses = custack_sim::misuses();
    let result = std::thread::scope(|scope| {
        let body = || {
            IN_TEST.set(true);
            test();
            assert_eq!(drain(), [], "left on the driver's stack");
        };
        // NVIDIA's driver calls itself for each graph within a graph.
        let thread = std::thread::Builder::new().name("test".to_owned()).stack_size(64 << 20);
        thread.spawn_scoped(scope, body).unwrap().join()
    });
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
    assert_eq!(custack_sim::misuses(), misuses, "a call would have crashed the NVIDIA driver");
}

/// The driver, initialised; the simulated one with two devices.
fn driver() -> &'static Driver {
    static DRIVER: LazyLock<Driver> = LazyLock::new(|| {
        instrument::enable();
        let driver = chosen();
        if driver.is_simulated {
            assert!(custack_sim::set_devices(2));
        }
        let (mut version, mut name) = (0, [0; 80]);
        // SAFETY: they write to locals.
        unsafe {
            assert_eq!((driver.table.cuInit)(0), 0);
            assert_eq!((driver.table.cuDriverGetVersion)(&mut version), 0);
            assert_eq!((driver.table.cuDeviceGetName)(name.as_mut_ptr(), 80, 0), 0);
        }
        // SAFETY: the driver ends the name with a zero.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy();
        let which = if driver.is_simulated { "simulated" } else { "NVIDIA" };
        say(&format!("running on the {which} driver, {version}: {name}"));
        driver
    });
    &DRIVER
}

fn chosen() -> Driver {
    let simulated = || Driver { table: custack_sim::start().unwrap(), is_simulated: true };
    let real = |table: Table| Driver {
        table: custack_sim::instrumented(table, false).unwrap(),
        is_simulated: false,
    };
    match &*std::env::var("CUSTACK_DRIVER").unwrap_or_default().to_lowercase() {
        "sim" => simulated(),
        "cuda" => real(custack_sys::load().unwrap().0),
        "auto" | "" => match custack_sys::load() {
            // A driver that finds no device is none. SAFETY: it takes a number.
            Ok((table, _)) if unsafe { (table.cuInit)(0) } == 0 => real(table),
            _ => simulated(),
        },
        other => panic!("CUSTACK_DRIVER={other}: expected `cuda`, `sim` or `auto`"),
    }
}

pub(crate) fn is_simulated() -> bool {
    driver().is_simulated
}

pub(crate) fn table() -> &'static Table {
    &driver().table
}

/// Whether the tests try all that they can, for which `CUSTACK_TESTS=deep` asks. On a GPU they do.
pub(crate) fn deep() -> bool {
    !is_simulated() || std::env::var("CUSTACK_TESTS").is_ok_and(|asked| asked == "deep")
}

/// Fails the test if it takes longer, because a hanging test would hang all. Until it begins, it may wait for others.
#[track_caller]
pub(crate) fn within(seconds: u64, test: impl FnOnce() + Send + 'static) {
    let (tell, told) = channel();
    let thread = std::thread::Builder::new().name("test".to_owned());
    let thread = thread.spawn(move || {
        BEGUN.set(Some(tell.clone()));
        test();
        let _ = tell.send(Told::Done);
    });
    let waits = (ONE_AT_A_TIME || !is_simulated()) && !IN_TEST.get();
    let mut limit = if waits { 600 } else { seconds };
    loop {
        match told.recv_timeout(Duration::from_secs(limit)) {
            Ok(Told::Begun) => limit = seconds,
            Ok(Told::Done) | Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => panic!("the test hangs: {limit} seconds have passed"),
        }
    }
    thread.unwrap().join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// Runs a test that is about the simulated driver only.
#[track_caller]
pub(crate) fn run_simulated(name: &str, test: impl FnOnce() + Send) {
    if is_simulated() { run(test) } else { skip(name, "it is about the simulated driver") }
}

/// Prints that a test did not run, even if output is captured, and counts it.
pub(crate) fn skip(test: &str, why: &str) {
    static SKIPPED: AtomicUsize = AtomicUsize::new(0);
    let count = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
    say(&format!("SKIPPED ({count} so far): {test} did not run: {why}"));
}

fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// What is current, according to the driver itself.
pub(crate) fn current() -> CUcontext {
    let mut raw = null_mut();
    assert_eq!(call!(cuCtxGetCurrent(&mut raw)), 0);
    raw
}

/// Pops everything off this thread's stack; the top comes first.
pub(crate) fn drain() -> Vec<CUcontext> {
    std::iter::from_fn(|| other::pop().ok()).collect()
}

/// Calls that must succeed, with raw contexts.
pub(crate) mod other {
    use super::*;

    pub(crate) fn push(context: CUcontext) {
        assert_eq!(call!(cuCtxPushCurrent_v2(context)), 0);
    }

    pub(crate) fn pop() -> Result<CUcontext, u32> {
        let mut raw = null_mut();
        match call!(cuCtxPopCurrent_v2(&mut raw)) {
            0 => Ok(raw),
            status => Err(status),
        }
    }

    pub(crate) fn set(context: CUcontext) {
        assert_eq!(call!(cuCtxSetCurrent(context)), 0);
    }

    /// Creates a context and leaves it current.
    pub(crate) fn create() -> CUcontext {
        let mut raw = null_mut();
        assert_eq!(call!(cuCtxCreate_v2(&mut raw, 0, 0)), 0);
        raw
    }

    /// A new context that is on no stack.
    pub(crate) fn parked() -> CUcontext {
        let raw = create();
        assert_eq!(pop(), Ok(raw));
        raw
    }

    /// Releases a share of the first device's primary context.
    pub(crate) fn release_primary() {
        assert_eq!(call!(cuDevicePrimaryCtxRelease_v2(0)), 0);
    }

    pub(crate) fn destroy(context: CUcontext) {
        assert_eq!(call!(cuCtxDestroy_v2(context)), 0);
    }
}
