//! A layer over either driver that counts calls and, on request, makes one fail: for writing tests of a program.
//!
//! On the simulated driver the layer is always there; on the NVIDIA driver after [`enable`], called before the
//! first use. Faults belong to the thread that makes the calls, and so do the counts of [`calls`] and [`during`]: tests
//! that use them may run side by side. [`calls_of_all_threads`] and [`during_on_all_threads`] count every thread of the
//! process, for a program that leaves its driver calls to workers.

// The layer consists of C functions that call C functions.
#![allow(unsafe_code)]

mod made;
mod report;
mod trace;
mod wait;
pub(crate) mod watch;

use custack_sys::ffi::*;
use custack_sys::{FUNCTIONS, Table, for_each_function, fork};
use std::cell::Cell;
use std::fmt;
use std::os::raw::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
pub use wait::wait_in;
pub(crate) use watch::Simulator;

/// What a driver answers that cannot be used, as in the child of a fork.
const NOT_INITIALIZED: CUresult = 3;

const COUNT: usize = FUNCTIONS.len();

static INNER: OnceLock<Table> = OnceLock::new();
static ENABLED: AtomicBool = AtomicBool::new(false);

/// What some of the threads have done. With one of them for all, each call would wait for a cache line that every other
/// call writes. So threads take turns at having one of several: what a thread adds stays when it has ended, and a
/// thread more costs no memory.
#[repr(align(128))]
struct Shard {
    made: [AtomicU64; COUNT],
    succeeded: [AtomicU64; COUNT],
}

static SHARDS: [Shard; 64] = [const {
    Shard { made: [const { AtomicU64::new(0) }; COUNT], succeeded: [const { AtomicU64::new(0) }; COUNT] }
}; 64];

// Has no destructor, so that calls made while the thread ends are counted too.
thread_local! {
    static CALLS: [Cell<u64>; COUNT] = const { [const { Cell::new(0) }; COUNT] };
    static SHARD: Cell<Option<&'static Shard>> = const { Cell::new(None) };
    static FAULT: Cell<Option<Fault>> = const { Cell::new(None) };
}

/// The shard that this thread adds to.
fn shard() -> &'static Shard {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    SHARD.get().unwrap_or_else(|| {
        let shard = &SHARDS[NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS.len()];
        SHARD.set(Some(shard));
        shard
    })
}

/// A count over all shards. What another thread did before it told this one to look is in it.
fn sum(count: impl Fn(&Shard) -> &AtomicU64) -> u64 {
    SHARDS.iter().map(|shard| count(shard).load(Ordering::Acquire)).sum()
}

/// Enables the layer over the NVIDIA driver too; has no effect once a driver runs.
pub fn enable() {
    ENABLED.store(true, Ordering::Relaxed);
}

pub(super) fn is_enabled() -> bool {
    ENABLED.load(Ordering::Relaxed)
}

/// How many calls of each driver function were made: by this thread ([`calls`], [`during`]), or by all
/// ([`calls_of_all_threads`], [`during_on_all_threads`]).
///
/// A call counts when it is made, whether it succeeds or not.
#[derive(Clone, PartialEq, Eq)]
pub struct Calls([u64; COUNT]);

impl Calls {
    /// The calls of the function with this C name, such as `cuCtxPushCurrent_v2`; 0 if it was never called.
    ///
    /// # Panics
    ///
    /// If there is no such driver function: a test that counts by a misspelt name would otherwise always pass.
    #[track_caller]
    pub fn of(&self, function: &str) -> u64 {
        self.0[index(function)]
    }

    /// All calls.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Those that came after the earlier count.
    fn since(&self, before: &Calls) -> Calls {
        Calls(std::array::from_fn(|at| self.0[at] - before.0[at]))
    }
}

impl fmt::Display for Calls {
    /// The names in the order of the table, separated by commas, with ` xN` after those called more than once.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for (name, count) in FUNCTIONS.iter().zip(self.0).filter(|(_, count)| *count > 0) {
            write!(f, "{comma}{name}")?;
            if count > 1 {
                write!(f, " x{count}")?;
            }
            comma = ", ";
        }
        Ok(())
    }
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Calls({self})")
    }
}

/// The calls that this thread has made so far.
pub fn calls() -> Calls {
    CALLS.with(|calls| Calls(std::array::from_fn(|at| calls[at].get())))
}

/// Runs the closure, and returns which calls it made on this thread.
pub fn during<R>(f: impl FnOnce() -> R) -> (R, Calls) {
    let before = calls();
    let result = f();
    (result, calls().since(&before))
}

/// The calls that all threads have made so far, those that have ended and custack's own included.
pub fn calls_of_all_threads() -> Calls {
    Calls(std::array::from_fn(|at| sum(|shard| &shard.made[at])))
}

/// Runs the closure, and tells which calls were made meanwhile, on whatever thread.
///
/// All calls that workers made are in it if the closure has waited for the workers. So are those of other tests that
/// run at the same time: a test that claims an exact number wants a process of its own, as each file under `tests/`
/// has, or `--test-threads=1`.
pub fn during_on_all_threads<R>(f: impl FnOnce() -> R) -> (R, Calls) {
    let before = calls_of_all_threads();
    let result = f();
    (result, calls_of_all_threads().since(&before))
}

/// How often the function with this C name has succeeded, on any thread.
///
/// # Panics
///
/// If there is no such driver function.
#[track_caller]
pub fn succeeded(function: &str) -> u64 {
    let at = index(function);
    sum(|shard| &shard.succeeded[at])
}

#[track_caller]
fn index(function: &str) -> usize {
    let found = FUNCTIONS.iter().position(|name| *name == function);
    found.unwrap_or_else(|| {
        panic!("{function} is not a driver function; `custack::driver::FUNCTIONS` has their names")
    })
}

/// Contexts created and not destroyed, on any thread; green ones too.
pub fn contexts_alive() -> i64 {
    // The ends first: of what is made and ends meanwhile, nothing is counted as ended only.
    let destroyed = ["cuCtxDestroy_v2", "cuGreenCtxDestroy"].map(succeeded).iter().sum::<u64>();
    let create = ["cuCtxCreate_v2", "cuCtxCreate_v3", "cuCtxCreate_v4", "cuGreenCtxCreate"];
    create.map(succeeded).iter().sum::<u64>() as i64 - destroyed as i64
}

/// Primary contexts retained and not released, on any thread.
pub fn primary_retains() -> i64 {
    let released = succeeded("cuDevicePrimaryCtxRelease_v2");
    succeeded("cuDevicePrimaryCtxRetain") as i64 - released as i64
}

/// When a failing call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum When {
    /// Instead of doing its work.
    Before,
    /// After it has done its work, like a call that also returns errors of earlier, asynchronous work.
    After,
}

/// A call that is to fail.
#[derive(Debug, Clone, Copy)]
struct Fault {
    function: Option<usize>,
    calls_left: u64,
    times: u64,
    status: CUresult,
    when: When,
}

/// Makes this thread's `nth` call (from 1) of the function fail with `status`; `None` counts calls of any function.
/// It replaces a fault that is still armed.
///
/// # Panics
///
/// If there is no driver function of that name: a test that injects a fault by a misspelt name would otherwise always pass.
#[track_caller]
pub fn fail(function: Option<&str>, nth: u64, status: CUresult, when: When) {
    fail_times(function, nth, 1, status, when);
}

/// Like [`fail`], for that call and the following ones, `times` in all.
///
/// # Panics
///
/// If there is no driver function of that name.
#[track_caller]
pub fn fail_times(function: Option<&str>, nth: u64, times: u64, status: CUresult, when: When) {
    let fault = Fault { function: function.map(index), calls_left: nth.max(1), times, status, when };
    FAULT.set((times > 0).then_some(fault));
}

/// Disarms a fault; returns true if it was still armed, false if it has happened.
pub fn disarm() -> bool {
    FAULT.take().is_some()
}

/// Counts the call, and returns the fault if this call must fail.
fn count(index: usize) -> Option<(CUresult, When)> {
    CALLS.with(|calls| calls[index].set(calls[index].get() + 1));
    shard().made[index].fetch_add(1, Ordering::Release);
    let mut fault = FAULT.get()?;
    if fault.function.is_some_and(|function| function != index) {
        return None;
    }
    if fault.calls_left > 1 {
        fault.calls_left -= 1;
        FAULT.set(Some(fault));
        return None;
    }
    fault.times = fault.times.saturating_sub(1);
    FAULT.set((fault.times > 0).then_some(fault));
    Some((fault.status, fault.when))
}

/// The calls that threads have made while they had a lock of custack's: none, or custack has a bug.
#[doc(hidden)]
pub fn calls_with_a_lock() -> Vec<&'static str> {
    WITH_A_LOCK.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

static WITH_A_LOCK: Mutex<Vec<&str>> = Mutex::new(Vec::new());

fn look_at_locks(index: usize) {
    if fork::locks() > 0 {
        let mut calls = WITH_A_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        if !calls.contains(&FUNCTIONS[index]) {
            calls.push(FUNCTIONS[index]);
        }
    }
}

/// An argument as a number, if it is one, a handle or a pointer: 0 for a structure.
fn word<T: Copy>(value: T) -> u64 {
    let mut word = [0; 8];
    if size_of::<T>() <= word.len() {
        // SAFETY: the value's bytes are copied to an array that has room for them. No C type of these sizes has padding.
        unsafe {
            std::ptr::copy_nonoverlapping((&raw const value).cast(), word.as_mut_ptr(), size_of::<T>())
        };
    }
    u64::from_ne_bytes(word)
}

/// A function was called that the driver does not model; the report lists it.
#[doc(hidden)]
pub fn missing(function: &'static str) {
    watch::missing(function);
}

fn observe(index: usize, arguments: &[u64], call: impl FnOnce() -> CUresult) -> CUresult {
    if fork::is_child() {
        return NOT_INITIALIZED;
    }
    look_at_locks(index);
    wait::here(index);
    let fault = count(index);
    if let Some((status, When::Before)) = fault {
        return status;
    }
    let status = watch::call(index, arguments, call);
    if status == CUDA_SUCCESS {
        shard().succeeded[index].fetch_add(1, Ordering::Release);
    }
    fault.map_or(status, |(status, _)| status)
}

macro_rules! layer {
    ($($since:literal fn $name:ident($($arg:ident: $ty:ty),*);)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Index { $($name),* }

        #[allow(non_snake_case)]
        mod layer {
            use super::*;
            $(
                pub(super) unsafe extern "C" fn $name($($arg: $ty),*) -> CUresult {
                    observe(Index::$name as usize, &[$(word($arg)),*], || match INNER.get() {
                        // SAFETY: the arguments are the caller's own, passed on unchanged.
                        Some(inner) => unsafe { (inner.$name)($($arg),*) },
                        None => NOT_INITIALIZED,
                    })
                }
            )*
        }

        /// The table itself, or one whose functions count the call and then make it.
        pub(super) fn layered(inner: Table, enabled: bool) -> Table {
            if !enabled {
                return inner;
            }
            INNER.get_or_init(|| inner);
            let mut table = Table::EMPTY;
            $(table.$name = layer::$name;)*
            table
        }
    };
}
for_each_function!(layer);
