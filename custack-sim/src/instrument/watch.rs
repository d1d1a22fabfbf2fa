//! What the environment asks for of every call of the process: a timeline, a report, and a fault.
//!
//! All three work on either driver, in any program that uses custack with the feature `sim`, and in any program at all with
//! the library that exports the simulated driver.

use super::report::Report;
use super::trace::Trace;
use super::{FUNCTIONS, INNER, Index};
use crate::start::StartError;
use custack_sys::ffi::{CUfunction, CUkernel, CUresult};
use custack_sys::variable;
use std::cell::RefCell;
use std::ffi::CStr;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A call that fails, on whatever thread it is made.
struct Fault {
    function: usize,
    calls_left: AtomicU64,
    status: CUresult,
}

/// What only the simulated driver knows.
#[derive(Clone, Copy)]
pub(crate) struct Simulator {
    /// Why it has refused this thread's last call, if with this status.
    pub(crate) why: fn(CUresult) -> Option<String>,
    /// How many calls would have crashed the NVIDIA driver.
    pub(crate) misuses: fn() -> u64,
    /// The contexts that threads had on their stacks when they ended.
    pub(crate) stacks: fn() -> Vec<Vec<usize>>,
}

struct Watch {
    trace: Option<Trace>,
    report: Option<Report>,
    fault: Option<Fault>,
}

static WATCH: OnceLock<Watch> = OnceLock::new();

/// A call, and the kernel that it launches.
type Present = (usize, Option<String>);

thread_local! {
    /// The call that this thread makes. Without a destructor, so that a thread that ends, or a process, can still make
    /// calls.
    static PRESENT: ManuallyDrop<RefCell<Option<Present>>> = const { ManuallyDrop::new(RefCell::new(None)) };
}

/// Reads `CUSTACK_TRACE`, `CUSTACK_REPORT` and `CUSTACK_FAIL`; returns whether any of them asks for something.
///
/// A file that cannot be written is reported on standard error, and the program goes on. A fault that cannot be injected
/// is an error: a test that asks for it would otherwise always pass.
pub(crate) fn from_environment(simulator: Option<Simulator>) -> Result<bool, StartError> {
    let fault = match variable("CUSTACK_FAIL").map(|value| value.to_string_lossy().into_owned()) {
        Some(value) => Some(fault(&value).map_err(|why| StartError::UnknownFault { value, why })?),
        None => None,
    };
    let said = |name: &str, why: &dyn std::fmt::Display| eprintln!("custack: {name}: {why}");
    let trace = variable("CUSTACK_TRACE").and_then(|path| {
        Trace::create(Path::new(&path)).inspect_err(|error| said("CUSTACK_TRACE", error)).ok()
    });
    let report = variable("CUSTACK_REPORT").map(|path| Report::new(Path::new(&path), simulator));
    if trace.is_none() && report.is_none() && fault.is_none() {
        return Ok(false);
    }
    if WATCH.set(Watch { trace, report, fault }).is_ok() {
        at_exit();
    }
    Ok(true)
}

/// `FUNCTION:N:CODE`
fn fault(text: &str) -> Result<Fault, String> {
    let [function, nth, status] = text.split(':').collect::<Vec<_>>()[..] else {
        return Err("expected FUNCTION:N:CODE, such as cuMemAlloc_v2:3:2".to_owned());
    };
    // By the name in the manual too, without the version: the newest one is meant.
    let is_it = |name: &str| name == function || name.rsplit_once("_v").is_some_and(|(it, _)| it == function);
    let at = FUNCTIONS.iter().rposition(|name| is_it(name));
    let function = at.ok_or_else(|| format!("{function} is not a driver function"))?;
    let nth: u64 = nth
        .parse()
        .ok()
        .filter(|nth| *nth > 0)
        .ok_or_else(|| format!("{nth:?} is not a number from 1 on"))?;
    let status = status.parse().map_err(|_| format!("{status:?} is not the number of an error"))?;
    Ok(Fault { function, calls_left: AtomicU64::new(nth), status })
}

impl Fault {
    /// The status with which a call of the function is to fail, if this is the one.
    fn of(&self, function: usize) -> Option<CUresult> {
        let is_it = function == self.function && self.calls_left.fetch_sub(1, Ordering::Relaxed) == 1;
        is_it.then_some(self.status)
    }
}

/// Makes a call, and tells of it.
pub(super) fn call(index: usize, arguments: &[u64], make: impl FnOnce() -> CUresult) -> CUresult {
    let Some(watch) = WATCH.get() else { return make() };
    PRESENT.with(|present| *present.borrow_mut() = Some((index, kernel(index, arguments))));
    let begun = Instant::now();
    let fault = watch.fault.as_ref().and_then(|fault| fault.of(index));
    let status = fault.unwrap_or_else(make);
    let ended = Instant::now();
    let kernel = PRESENT.with(|present| present.borrow_mut().take()).and_then(|present| present.1);
    if let Some(trace) = &watch.trace {
        trace.call(FUNCTIONS[index], kernel.as_deref(), status, begun, ended);
    }
    if let Some(report) = &watch.report {
        report.call(index, arguments, status, fault.is_some());
    }
    status
}

/// A function was called that the driver does not model.
pub(super) fn missing(function: &'static str) {
    if let Some(report) = WATCH.get().and_then(|watch| watch.report.as_ref()) {
        report.missing(function);
    }
}

/// The name of the kernel that a call launches.
fn kernel(index: usize, arguments: &[u64]) -> Option<String> {
    let function = match index {
        _ if index == Index::cuLaunchKernel as usize
            || index == Index::cuLaunchCooperativeKernel as usize =>
        {
            arguments[0]
        }
        _ if index == Index::cuLaunchKernelEx as usize => arguments[1],
        _ => return None,
    };
    let inner = INNER.get()?;
    let handle = std::ptr::without_provenance_mut::<()>(function as usize);
    let mut name = std::ptr::null();
    // SAFETY: the handle is the one that the program is about to launch, a function's or a kernel's; the name is the
    // driver's as long as the module or the library.
    unsafe {
        let status = match (inner.cuFuncGetName)(&mut name, handle as CUfunction) {
            0 => 0,
            _ => (inner.cuKernelGetName)(&mut name, handle as CUkernel),
        };
        (status == 0 && !name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
    }
}

/// What the work is called that the present call of this thread gives to a stream.
pub(crate) fn name_of_work() -> Option<String> {
    let name = |present: &Present| present.1.clone().unwrap_or_else(|| FUNCTIONS[present.0].to_owned());
    PRESENT.with(|present| present.borrow().as_ref().map(name))
}

/// A stream of the simulated driver has done work.
pub(crate) fn work_done(name: &str, queue: usize, begun: Instant, ended: Instant) {
    if let Some(trace) = WATCH.get().and_then(|watch| watch.trace.as_ref()) {
        trace.work(name, queue, begun, ended);
    }
}

/// Has the files finished when the process ends.
fn at_exit() {
    unsafe extern "C" {
        fn atexit(function: extern "C" fn()) -> std::os::raw::c_int;
    }
    extern "C" fn finish() {
        if custack_sys::fork::is_child() {
            return;
        }
        if let Some(watch) = WATCH.get() {
            if let Some(report) = &watch.report {
                report.write();
            }
            if let Some(trace) = &watch.trace {
                trace.finish();
            }
        }
    }
    // SAFETY: the function lives as long as the code that registers it, and takes only locks of this module.
    unsafe { atexit(finish) };
}
