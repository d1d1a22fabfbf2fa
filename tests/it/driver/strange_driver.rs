//! A driver that lacks functions which this crate knows and returns values which it does not; and a driver that finds
//! no device.
//!
//! The libraries are compiled here from the few lines below; without a compiler the tests are skipped.

use crate::driver::process::child;
use crate::harness::skip;
use custack::context::{Context, ContextFlags, CurrentContext};
use custack::device::Device;
use custack::error::CudaError;
use std::path::PathBuf;
use std::process::Command;

/// Has little more than the functions that every driver has: no `_v2` of the UUID, no ids, no setter for flags. Returns
/// a cache configuration and an error that no header has.
pub(crate) const SOURCE: &str = r#"
#![allow(non_snake_case)]
use std::cell::RefCell;
thread_local! { static STACK: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) }; }
fn top() -> usize { STACK.with_borrow(|stack| stack.last().copied().unwrap_or(0)) }
#[no_mangle] pub unsafe extern "C" fn cuInit(_: u32) -> u32 { 0 }
#[no_mangle] pub unsafe extern "C" fn cuDriverGetVersion(v: *mut i32) -> u32 { *v = 10010; 0 }
#[no_mangle] pub unsafe extern "C" fn cuDeviceGet(d: *mut i32, ordinal: i32) -> u32 { *d = ordinal; 0 }
#[no_mangle] pub unsafe extern "C" fn cuDeviceGetCount(n: *mut i32) -> u32 { *n = 1; 0 }
#[no_mangle] pub unsafe extern "C" fn cuDeviceGetUuid(u: *mut [u8; 16], _: i32) -> u32 { *u = [7; 16]; 0 }
#[no_mangle] pub unsafe extern "C" fn cuCtxCreate_v2(c: *mut usize, _: u32, _: i32) -> u32 {
    *c = 0x1000;
    STACK.with_borrow_mut(|stack| stack.push(0x1000));
    0
}
#[no_mangle] pub unsafe extern "C" fn cuCtxDestroy_v2(_: usize) -> u32 {
    STACK.with_borrow_mut(|stack| stack.pop());
    0
}
#[no_mangle] pub unsafe extern "C" fn cuCtxPushCurrent_v2(c: usize) -> u32 {
    STACK.with_borrow_mut(|stack| stack.push(c));
    0
}
#[no_mangle] pub unsafe extern "C" fn cuCtxPopCurrent_v2(c: *mut usize) -> u32 {
    match STACK.with_borrow_mut(|stack| stack.pop()) { Some(top) => { *c = top; 0 } None => 201 }
}
#[no_mangle] pub unsafe extern "C" fn cuCtxSetCurrent(_: usize) -> u32 { 4711 }
#[no_mangle] pub unsafe extern "C" fn cuCtxGetCurrent(c: *mut usize) -> u32 { *c = top(); 0 }
#[no_mangle] pub unsafe extern "C" fn cuCtxGetCacheConfig(c: *mut u32) -> u32 { *c = 77; 0 }
#[no_mangle] pub unsafe extern "C" fn cuCtxGetSharedMemConfig(c: *mut u32) -> u32 { *c = 78; 0 }
#[no_mangle] pub unsafe extern "C" fn cuCtxGetFlags(f: *mut u32) -> u32 { *f = 0x80000008; 0 }
#[no_mangle] pub unsafe extern "C" fn cuCtxGetStreamPriorityRange(l: *mut i32, g: *mut i32) -> u32 { *l = 0; *g = -2; 0 }
"#;

/// A driver on a machine without a GPU: it loads, but every call fails.
const NO_DEVICE: &str = r#"
#![allow(non_snake_case)]
#[no_mangle] pub unsafe extern "C" fn cuInit(_: u32) -> u32 { 100 }
#[no_mangle] pub unsafe extern "C" fn cuDeviceGet(_: *mut i32, _: i32) -> u32 { 3 }
#[no_mangle] pub unsafe extern "C" fn cuDeviceGetCount(_: *mut i32) -> u32 { 3 }
#[no_mangle] pub unsafe extern "C" fn cuCtxCreate_v2(_: *mut usize, _: u32, _: i32) -> u32 { 3 }
#[no_mangle] pub unsafe extern "C" fn cuCtxDestroy_v2(_: usize) -> u32 { 3 }
#[no_mangle] pub unsafe extern "C" fn cuCtxPushCurrent_v2(_: usize) -> u32 { 3 }
#[no_mangle] pub unsafe extern "C" fn cuCtxPopCurrent_v2(_: *mut usize) -> u32 { 3 }
#[no_mangle] pub unsafe extern "C" fn cuCtxSetCurrent(_: usize) -> u32 { 3 }
#[no_mangle] pub unsafe extern "C" fn cuCtxGetCurrent(_: *mut usize) -> u32 { 3 }
"#;

/// The library of this name, made from this text in a folder of its own. None without a compiler.
pub(crate) fn library(name: &str, text: &str) -> Option<PathBuf> {
    let folder = std::env::temp_dir().join(format!("custack-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).ok()?;
    let source = folder.join(format!("{name}.rs"));
    std::fs::write(&source, text).ok()?;
    let library = folder.join(format!("lib{name}.so"));
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let built = Command::new(compiler)
        .args(["--edition", "2021", "--crate-type", "cdylib", "-C", "panic=abort", "-o"])
        .args([&library, &source])
        .output();
    built.is_ok_and(|output| output.status.success()).then_some(library)
}

/// The body of the child process.
pub(crate) fn scenario() {
    custack::init(custack::CudaFlags::empty()).unwrap();
    let version = custack::CudaApiVersion::get().unwrap();
    assert_eq!((version.major(), version.minor()), (10, 1));
    let device = Device::get_device(0).unwrap();
    assert_eq!(device.uuid(), Ok([7; 16]), "by the older function");
    assert_eq!(device.name(), Err(CudaError::CallRequiresNewerDriver));

    let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, device).unwrap();
    for error in [
        ctx.driver_id().err(),
        ctx.set_flags(ContextFlags::SCHED_SPIN).err(),
        ctx.reset_persisting_l2_cache().err(),
        ctx.sm_count().err(),
        ctx.synchronize().err(),
    ] {
        assert_eq!(error, Some(CudaError::CallRequiresNewerDriver));
    }

    let strange = CudaError::UnexpectedValue { function: "cuCtxGetCacheConfig", value: 77 };
    assert_eq!(ctx.cache_config(), Err(strange));
    assert!(strange.to_string().contains("cuCtxGetCacheConfig returned 77"), "{strange}");
    let strange = CudaError::UnexpectedValue { function: "cuCtxGetSharedMemConfig", value: 78 };
    assert_eq!(CurrentContext::get_shared_memory_config(), Err(strange));
    assert_eq!(ctx.flags().unwrap().bits(), 0x8000_0008, "unknown bits are kept");
    assert_eq!(ctx.stream_priority_range().unwrap().greatest, -2);

    assert_eq!(CurrentContext::set_current(&ctx), Err(CudaError::Unrecognized(4711)));
    assert_eq!(ctx.scoped(|_| Ok(5)), Ok(5));
    drop(ctx);
    assert!(CurrentContext::get_current().unwrap().is_null());
}

#[test]
#[cfg(target_os = "linux")]
fn an_older_driver_with_unknown_answers_gives_errors_that_say_so() {
    let test = "an_older_driver_with_unknown_answers_gives_errors_that_say_so";
    let Some(library) = library("strange", SOURCE) else {
        return skip(test, "there is no compiler to make the driver with");
    };
    let variables = [("CUSTACK_DRIVER", "cuda"), ("CUSTACK_LIBCUDA", library.to_str().unwrap())];
    let (status, text) = child("strange driver", &variables);
    assert!(status.success() && text.contains("scenario done"), "{text}");
    std::fs::remove_dir_all(library.parent().unwrap()).unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn a_driver_without_a_device_gives_way_to_the_simulated_one_that_counts() {
    let test = "a_driver_without_a_device_gives_way_to_the_simulated_one_that_counts";
    let Some(library) = library("nodevice", NO_DEVICE) else {
        return skip(test, "there is no compiler to make the driver with");
    };
    for (choice, expected) in [
        ("auto", "the simulated driver, CUDA 13.0: Ok(()) by cuInit"),
        (
            "cuda",
            "libnodevice.so: Err(the driver finds no CUDA device (CUDA_ERROR_NO_DEVICE, 100); this thread's last such \
             failure: to call cuInit) by cuInit",
        ),
    ] {
        let variables = [("CUSTACK_DRIVER", choice), ("CUSTACK_LIBCUDA", library.to_str().unwrap())];
        let (status, text) = child("no device", &variables);
        assert!(status.success() && text.contains(expected), "{choice}: {text}");
    }
    std::fs::remove_dir_all(library.parent().unwrap()).unwrap();
}
