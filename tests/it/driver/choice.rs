//! The table, the selection of a driver, and the instrument layer.

// The table is called directly.
#![allow(unsafe_code)]

use crate::harness::{parked, pushed, run, start, table};
use custack::driver::instrument::{self, When};
use custack::driver::{Choice, FUNCTIONS, SINCE};
use custack::error::{CudaError, DriverError};
use custack::sim;
use std::collections::BTreeSet;

#[test]
fn the_driver_has_a_name_a_version_and_a_path() {
    let driver = start();
    let text = driver.to_string();
    assert!(text.contains(if driver.is_simulated() { "simulated" } else { "NVIDIA" }), "{text}");
    assert!(text.contains(&driver.version().unwrap().to_string()), "{text}");
    assert!(!driver.library().is_empty());
    assert!(format!("{driver:?}").contains("library"));
}

#[test]
fn the_version_is_at_least_10() {
    run(|| {
        let version = custack::CudaApiVersion::get().unwrap();
        assert!(version.major() >= 10 && (0..10).contains(&version.minor()), "{version}");
        assert_eq!(version, start().version().unwrap());
    });
}

#[test]
fn choices_are_read_from_text() {
    assert_eq!("cuda".parse(), Ok(Choice::Cuda));
    assert_eq!("sim".parse(), Ok(Choice::Sim));
    assert_eq!("auto".parse(), Ok(Choice::Auto));
    assert_eq!("SIM".parse(), Ok(Choice::Sim), "in capitals too");
    for text in ["", "nonsense", " sim"] {
        assert_eq!(text.parse::<Choice>(), Err(DriverError::UnknownChoice { value: text.to_owned() }));
    }
}

#[test]
fn the_table_has_each_function_once_with_its_version() {
    let names: BTreeSet<_> = FUNCTIONS.iter().collect();
    assert_eq!((names.len(), SINCE.len()), (FUNCTIONS.len(), FUNCTIONS.len()));
    assert!(SINCE.iter().all(|since| (2000..=13_010).contains(since)));
}

#[test]
fn the_table_has_every_context_and_device_function_of_cuda_13_0() {
    let manual = "cuInit cuDriverGetVersion cuDeviceGet cuDeviceGetCount cuDeviceGetName cuDeviceGetUuid_v2 \
        cuDeviceGetLuid cuDeviceTotalMem_v2 cuDeviceGetTexture1DLinearMaxWidth cuDeviceGetAttribute \
        cuDeviceGetHostAtomicCapabilities cuDeviceGetNvSciSyncAttributes cuDeviceSetMemPool cuDeviceGetMemPool \
        cuDeviceGetDefaultMemPool cuDeviceGetExecAffinitySupport cuFlushGPUDirectRDMAWrites cuDeviceGetProperties \
        cuDeviceComputeCapability cuDevicePrimaryCtxRetain cuDevicePrimaryCtxRelease_v2 \
        cuDevicePrimaryCtxSetFlags_v2 cuDevicePrimaryCtxGetState cuDevicePrimaryCtxReset_v2 cuCtxCreate_v4 \
        cuCtxDestroy_v2 cuCtxPushCurrent_v2 cuCtxPopCurrent_v2 cuCtxSetCurrent cuCtxGetCurrent cuCtxGetDevice \
        cuCtxGetDevice_v2 cuCtxGetFlags cuCtxSetFlags cuCtxGetId cuCtxSynchronize cuCtxSynchronize_v2 \
        cuCtxSetLimit cuCtxGetLimit cuCtxGetCacheConfig cuCtxSetCacheConfig cuCtxGetApiVersion \
        cuCtxGetStreamPriorityRange cuCtxResetPersistingL2Cache cuCtxGetExecAffinity cuCtxRecordEvent \
        cuCtxWaitEvent cuCtxAttach cuCtxDetach cuCtxGetSharedMemConfig cuCtxSetSharedMemConfig \
        cuDeviceRegisterAsyncNotification cuDeviceUnregisterAsyncNotification cuDeviceGetByPCIBusId \
        cuDeviceGetPCIBusId cuDeviceGraphMemTrim cuDeviceGetGraphMemAttribute cuDeviceSetGraphMemAttribute \
        cuDeviceCanAccessPeer cuCtxEnablePeerAccess cuCtxDisablePeerAccess cuDeviceGetP2PAttribute \
        cuDeviceGetP2PAtomicCapabilities cuCtxFromGreenCtx cuDeviceGetDevResource cuCtxGetDevResource \
        cuGreenCtxGetDevResource cuDevSmResourceSplitByCount cuDevResourceGenerateDesc cuGreenCtxCreate \
        cuGreenCtxDestroy cuGreenCtxRecordEvent cuGreenCtxWaitEvent cuStreamGetGreenCtx cuGreenCtxStreamCreate \
        cuGreenCtxGetId cuStreamGetCtx_v2";
    for name in manual.split_whitespace() {
        assert!(FUNCTIONS.contains(&name), "{name}");
    }
}

#[test]
fn both_tables_work_side_by_side() {
    let simulated = sim::table();
    let mut version = 0;
    // SAFETY: writes to a local.
    assert_eq!(unsafe { (simulated.cuDriverGetVersion)(&mut version) }, 0);
    assert_eq!(version, 13_000);
}

#[test]
fn calls_are_counted_by_name_and_thread() {
    run(|| {
        let ctx = parked();
        let (_, calls) = instrument::during(|| {
            std::thread::scope(|scope| scope.spawn(|| ctx.synchronize()).join().unwrap()).unwrap();
            ctx.synchronize()
        });
        assert_eq!(calls.to_string(), "cuCtxPushCurrent_v2, cuCtxPopCurrent_v2, cuCtxSynchronize");
        assert_eq!((calls.total(), calls.of("cuCtxSynchronize"), calls.of("cuCtxDestroy_v2")), (3, 1, 0));
        assert!(instrument::calls().total() > 3);
    });
}

#[test]
fn an_armed_fault_happens_once_at_its_call() {
    run(|| {
        let _ctx = pushed();
        instrument::fail(Some("cuCtxSynchronize"), 2, 719, When::Before);
        // SAFETY: no arguments.
        let sync = || unsafe { (table().cuCtxSynchronize)() };
        assert_eq!([sync(), sync(), sync()], [0, 719, 0]);
        assert!(!instrument::disarm());
        instrument::fail(None, 100, 1, When::After);
        assert!(instrument::disarm());
    });
}

#[test]
fn a_function_that_the_driver_lacks_is_an_error_that_says_so() {
    assert_eq!(CudaError::from_code(36), Some(CudaError::CallRequiresNewerDriver));
    assert!(CudaError::CallRequiresNewerDriver.to_string().contains("too old"));
}
