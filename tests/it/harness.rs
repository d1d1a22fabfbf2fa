//! The base of every test: a fresh thread with an empty stack, on an instrumented driver.

// Plays other code in the process, which calls the driver's table directly.
#![allow(unsafe_code)]

use custack::context::{Context, ContextFlags, ContextStack, wait_until_retired};
use custack::device::Device;
use custack::driver::ffi::CUcontext;
use custack::driver::{self, Driver, Table, instrument};
use custack::error::CudaError;
use custack::sim;
use std::cell::{Cell, RefCell};
use std::io::Write;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// On a GPU the tests of a process run one after the other.
static GPU: Mutex<()> = Mutex::new(());

/// Set in a process that runs one test alone.
const ALONE: &str = "CUSTACK_TEST_ALONE";

thread_local! {
    /// Told, in a test of [`within`], when the test has begun.
    static BEGUN: RefCell<Option<Sender<Told>>> = const { RefCell::new(None) };
    /// Whether this test has run in a process of its own.
    static HAS_RUN: Cell<bool> = const { Cell::new(false) };
    /// The name of the test for which [`within`] made this thread.
    static NAME: RefCell<Option<String>> = const { RefCell::new(None) };
    /// Whether this is the thread of a test that has begun.
    static IN_TEST: Cell<bool> = const { Cell::new(false) };
}

/// What a test tells the thread that waits for it.
enum Told {
    Begun,
    Done,
}

/// Runs a test on a fresh thread; afterwards the thread's stack must be empty, and no call may have been a misuse.
///
/// On a GPU it runs alone. Destroying a context waits there for the work of all contexts, and meanwhile the driver neither
/// allocates nor frees for anyone; so a test that holds work back while it allocates would hang beside one that destroys.
#[track_caller]
pub(crate) fn run(test: impl FnOnce() + Send) {
    let _alone = one_on_a_gpu();
    begun();
    on_fresh_thread(test);
}

fn begun() {
    BEGUN.with_borrow(|begun| begun.iter().for_each(|begun| drop(begun.send(Told::Begun))));
}

/// Like [`run`], for a test that counts what is alive in the whole process; afterwards no context may be left.
///
/// On the simulated driver the test has a process of its own: this binary, started anew for it alone.
#[track_caller]
pub(crate) fn run_alone(test: impl FnOnce() + Send) {
    let others = is_simulated() && std::env::var_os(ALONE).is_none();
    if let Some(name) = name().filter(|_| others) {
        begun();
        // What the test runs alone later has run there, too.
        if !HAS_RUN.replace(true) {
            run_in_own_process(&name);
        }
        return;
    }
    let _alone = one_on_a_gpu();
    begun();
    start();
    settle();
    let before = (instrument::contexts_alive(), instrument::primary_retains());
    on_fresh_thread(test);
    // Fewer are left if what a launch of an earlier test used has been released only now. What a graph keeps goes some time
    // after its last launch.
    let begun = Instant::now();
    loop {
        wait_until_retired().unwrap();
        let after = (instrument::contexts_alive(), instrument::primary_retains());
        if after.0 <= before.0 && after.1 <= before.1 {
            return;
        }
        let left_over = format_args!("contexts, retains left over: {after:?}, and {before:?} before");
        assert!(begun.elapsed().as_secs() < 5, "{left_over}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn one_on_a_gpu() -> Option<MutexGuard<'static, ()>> {
    (!is_simulated()).then(|| GPU.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The name of the present test. `None` where it runs on the main thread, one after the other.
fn name() -> Option<String> {
    let own = || std::thread::current().name().filter(|name| name.contains("::")).map(str::to_owned);
    NAME.with_borrow(Clone::clone).or_else(own)
}

#[track_caller]
fn run_in_own_process(name: &str) {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", name, "--include-ignored", "--nocapture"]).env(ALONE, "1");
    let output = child.output().unwrap();
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    said[1].lines().filter(|line| line.starts_with("SKIPPED")).for_each(say);
    assert!(output.status.success() && said[0].contains("1 passed"), "{name}: {}{}", said[0], said[1]);
}

/// How often to try: a few times, or with `CUSTACK_TESTS=deep` as often as it was found to need.
pub(crate) fn times<N>(few: N, deep: N) -> N {
    if std::env::var_os("CUSTACK_TESTS").is_some_and(|value| value == "deep") { deep } else { few }
}

/// Waits until nothing that earlier tests used goes any more: a launch lets go of what it used some time after it is
/// done, on a thread of the driver, and no call tells when it has.
pub(crate) fn settle() {
    let left = || (sim::objects(), sim::allocations(), instrument::contexts_alive());
    let (mut last, mut looks) = (left(), 0);
    while looks < 10 {
        wait_until_retired().unwrap();
        std::thread::sleep(Duration::from_millis(1));
        let now = left();
        looks = if now == last { looks + 1 } else { 0 };
        last = now;
    }
}

#[track_caller]
fn on_fresh_thread(test: impl FnOnce() + Send) {
    start();
    let misuses = sim::misuses();
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
    assert_eq!(sim::misuses(), misuses, "a call would have crashed the NVIDIA driver");
    assert_eq!(instrument::calls_with_a_lock(), [""; 0], "calls were made with a lock of custack's");
}

/// The driver, initialised; the simulated one with two devices.
pub(crate) fn start() -> &'static Driver {
    static START: Once = Once::new();
    START.call_once(|| {
        instrument::enable();
        let driver = driver::current().unwrap();
        if driver.is_simulated() {
            assert!(sim::set_devices(2));
        }
        custack::init(custack::CudaFlags::empty()).unwrap();
        say(&format!("running on {driver}, {}", Device::get_device(0).unwrap().name().unwrap()));
    });
    driver::current().unwrap()
}

pub(crate) fn is_simulated() -> bool {
    start().is_simulated()
}

/// Fails the test if it takes longer, because a hanging test would hang all. Until it begins, it may wait for others.
#[track_caller]
pub(crate) fn within(seconds: u64, test: impl FnOnce() + Send + 'static) {
    let (tell, told) = channel();
    let thread = std::thread::Builder::new().name("test".to_owned());
    let name = name();
    let thread = thread.spawn(move || {
        NAME.set(name);
        BEGUN.set(Some(tell.clone()));
        test();
        let _ = tell.send(Told::Done);
    });
    let mut limit = if is_simulated() || IN_TEST.get() { seconds } else { 600 };
    loop {
        match told.recv_timeout(Duration::from_secs(limit)) {
            Ok(Told::Begun) => limit = seconds,
            Ok(Told::Done) | Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => panic!("the test hangs: {limit} seconds have passed"),
        }
    }
    thread.unwrap().join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
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

pub(crate) fn device() -> Device {
    start();
    Device::get_device(0).unwrap()
}

/// A new context, on top of this thread's stack.
#[track_caller]
pub(crate) fn pushed() -> Context {
    Context::create_and_push(ContextFlags::SCHED_AUTO, device()).unwrap()
}

/// A new context, on no stack.
pub(crate) fn parked() -> Context {
    let ctx = pushed();
    assert_eq!(ContextStack::pop().unwrap(), ctx.get_unowned());
    ctx
}

pub(crate) fn table() -> &'static Table {
    start().table()
}

/// What is current, according to the driver itself.
pub(crate) fn current() -> CUcontext {
    let mut raw = ptr::null_mut();
    // SAFETY: writes to a local.
    assert_eq!(unsafe { (table().cuCtxGetCurrent)(&mut raw) }, 0);
    raw
}

/// Pops everything off this thread's stack, behind custack's back; the top comes first.
pub(crate) fn drain() -> Vec<CUcontext> {
    std::iter::from_fn(|| other::pop().ok()).collect()
}

/// A subscriber that calls this function for each of custack's reports.
pub(crate) struct OnReport<F>(pub(crate) F);

impl<F: Fn(&Event<'_>) + 'static> Subscriber for OnReport<F> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "custack"
    }
    fn event(&self, event: &Event<'_>) {
        (self.0)(event);
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// What other code in the process does, without custack's knowledge.
pub(crate) mod other {
    use super::*;

    fn status(status: u32) -> Result<(), u32> {
        if status == 0 { Ok(()) } else { Err(status) }
    }

    pub(crate) fn push(context: CUcontext) {
        // SAFETY: the tests push contexts that are alive or held by a stack.
        status(unsafe { (table().cuCtxPushCurrent_v2)(context) }).unwrap();
    }

    pub(crate) fn pop() -> Result<CUcontext, u32> {
        let mut raw = ptr::null_mut();
        // SAFETY: writes to a local.
        status(unsafe { (table().cuCtxPopCurrent_v2)(&mut raw) })?;
        Ok(raw)
    }

    pub(crate) fn set(context: CUcontext) {
        // SAFETY: as for `push`.
        status(unsafe { (table().cuCtxSetCurrent)(context) }).unwrap();
    }

    /// Creates a context and leaves it current.
    pub(crate) fn create() -> CUcontext {
        let mut raw = ptr::null_mut();
        // SAFETY: writes to a local.
        status(unsafe { (table().cuCtxCreate_v2)(&mut raw, 0, 0) }).unwrap();
        raw
    }

    /// A new context that is on no stack.
    pub(crate) fn parked() -> CUcontext {
        let raw = create();
        assert_eq!(pop(), Ok(raw));
        raw
    }

    /// Takes a share of the first device's primary context.
    pub(crate) fn retain_primary() -> CUcontext {
        let mut raw = ptr::null_mut();
        // SAFETY: writes to a local.
        status(unsafe { (table().cuDevicePrimaryCtxRetain)(&mut raw, 0) }).unwrap();
        raw
    }

    /// Releases a share of the first device's primary context.
    pub(crate) fn release_primary() {
        // SAFETY: the tests release what a failed release has left.
        status(unsafe { (table().cuDevicePrimaryCtxRelease_v2)(0) }).unwrap();
    }

    /// Destroys the first device's primary context, whoever has shares of it.
    pub(crate) fn reset_primary() {
        // SAFETY: the tests use nothing afterwards that was made in it.
        status(unsafe { (table().cuDevicePrimaryCtxReset_v2)(0) }).unwrap();
    }

    pub(crate) fn destroy(context: CUcontext) {
        // SAFETY: the tests destroy what they created, once.
        status(unsafe { (table().cuCtxDestroy_v2)(context) }).unwrap();
    }
}

/// The text of the failure that this thread had last with this error.
pub(crate) fn said(error: CudaError) -> String {
    error.failure().to_string()
}

/// Waits until the value has this number of owners: a driver may release what a launch used some time after the
/// launch.
#[track_caller]
pub(crate) fn owned_by<T: ?Sized>(value: &std::sync::Arc<T>, owners: usize) {
    let begun = std::time::Instant::now();
    while std::sync::Arc::strong_count(value) != owners {
        let now = std::sync::Arc::strong_count(value);
        assert!(begun.elapsed().as_secs() < 10, "{now} have it, and not {owners}");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
