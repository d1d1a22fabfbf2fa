//! How an exported function reaches the simulated driver.

use custack_sim::instrument;
use custack_sys::Table;
use custack_sys::ffi::{CU_STREAM_PER_THREAD, CUdeviceptr, CUfunction, CUlaunchConfig, CUresult, CUstream};
use custack_sys::fork::Starting;
use std::any::TypeId;
use std::collections::BTreeSet;
use std::os::raw::{c_uint, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

/// What a driver answers that cannot be started.
const NOT_INITIALIZED: CUresult = 3;
/// What a function answers that is not modelled.
const NOT_SUPPORTED: CUresult = 801;

fn table() -> Option<&'static Table> {
    static TABLE: OnceLock<Option<Table>> = OnceLock::new();
    let start = || {
        let starting = Starting::begin();
        let table = custack_sim::start().inspect_err(|error| eprintln!("custack: {error}")).ok()?;
        starting.done();
        Some(table)
    };
    TABLE.get_or_init(start).as_ref()
}

/// Calls a function of the simulated driver's table.
pub(crate) fn call(f: impl FnOnce(&Table) -> CUresult) -> CUresult {
    table().map_or(NOT_INITIALIZED, f)
}

/// What a function answers that is not modelled; its name is said once.
pub(crate) fn missing(function: &'static str) -> CUresult {
    static SAID: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    if SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(function) {
        instrument::missing(function);
        eprintln!("custack: {function} was called, which the simulated driver does not model");
    }
    NOT_SUPPORTED
}

/// An argument of a function with a default stream for each thread: that stream, if it is the null stream.
pub(crate) fn per_thread<T: Copy + 'static>(argument: T) -> T {
    if TypeId::of::<T>() != TypeId::of::<CUstream>() {
        return argument;
    }
    // SAFETY: both are the same type.
    unsafe {
        let stream: CUstream = std::mem::transmute_copy(&argument);
        std::mem::transmute_copy(&if stream.is_null() { CU_STREAM_PER_THREAD } else { stream })
    }
}

/// Calls with the default stream of the thread, for a function that has none, and waits for it: always, or if one of
/// these addresses is of host memory. An H200 refuses such a function while that stream captures, and ends the capture.
pub(crate) fn in_stream_of_thread(
    waits_for_host: Option<&[CUdeviceptr]>,
    f: impl FnOnce(&Table, CUstream) -> CUresult,
) -> CUresult {
    const HOST: c_uint = 1;
    const MEMORY_TYPE: c_uint = 2;
    let stream = CU_STREAM_PER_THREAD;
    call(|table| {
        let mut capture = 0;
        // SAFETY: the stream is there in every context, and the value is here.
        let asked = unsafe { (table.cuStreamIsCapturing)(stream, &mut capture) };
        if asked == 0 && capture != 0 {
            // SAFETY: as above.
            return unsafe { (table.cuStreamSynchronize)(stream) };
        }
        let is_hosts = |address: &CUdeviceptr| {
            let mut kind: c_uint = 0;
            // SAFETY: the value is here, and any address may be asked about.
            let status =
                unsafe { (table.cuPointerGetAttribute)((&raw mut kind).cast(), MEMORY_TYPE, *address) };
            status != 0 || kind == HOST
        };
        let waits = waits_for_host.is_none_or(|of| of.iter().any(is_hosts));
        match f(table, stream) {
            // SAFETY: as above.
            0 if waits => unsafe { (table.cuStreamSynchronize)(stream) },
            status => status,
        }
    })
}

/// `cuLaunchKernelEx`, whose stream is in what its first argument points to.
///
/// # Safety
///
/// As CUDA's manual says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernelEx_ptsz(
    config: *const CUlaunchConfig,
    function: CUfunction,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CUresult {
    // SAFETY: a pointer that is not null points to a configuration, as the caller promises.
    let own = unsafe { config.as_ref() }
        .map(|config| CUlaunchConfig { hStream: per_thread(config.hStream), ..*config });
    let config = own.as_ref().map_or(config, std::ptr::from_ref);
    // SAFETY: the arguments are the caller's own, but for the stream.
    call(|table| unsafe { (table.cuLaunchKernelEx)(config, function, parameters, extra) })
}
