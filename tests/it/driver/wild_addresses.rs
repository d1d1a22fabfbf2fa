//! A driver that answers with addresses of any bits: each reaches the driver again as it was, or is refused and given
//! back.
//!
//! The driver is compiled here; without a compiler the test is skipped.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "the driver only notes its arguments")]

use crate::driver::process::child;
use crate::driver::strange_driver::{SOURCE, library};
use crate::harness::skip;
use custack::context::{Context, CurrentContext};
use custack::error::{CudaError, CudaResult};
use custack::library::Library;
use custack::memory::*;
use custack::module::{JitOptions, Module};
use custack::prelude::*;

/// Each address that it gives out is that of the environment. The free and the total memory that it tells are the
/// address that was used last, and the one that was given back last.
const ADDRESSES: &str = r#"
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
static USED: AtomicU64 = AtomicU64::new(0);
static FREED: AtomicU64 = AtomicU64::new(0);
fn address() -> u64 { std::env::var("CUSTACK_TEST_ADDRESS").unwrap().parse().unwrap() }
macro_rules! functions { ($($($name:ident)* = |$arg:ident: $ty:ty| $body:expr;)*) => { $($(
    #[no_mangle] pub unsafe extern "C" fn $name($arg: $ty) -> u32 { $body; 0 }
)*)* } }
functions! {
    cuMemAlloc_v2 cuMemAllocManaged cuMemAllocHost_v2 cuMemHostAlloc cuMemAllocAsync cuMemAllocFromPoolAsync
        cuMemPoolImportPointer cuIpcOpenMemHandle_v2 cuMemHostGetDevicePointer_v2 = |at: *mut u64| *at = address();
    cuMemFree_v2 cuMemFreeHost cuMemFreeAsync cuIpcCloseMemHandle = |at: u64| FREED.store(at, SeqCst);
    cuMemcpyHtoD_v2 cuMemsetD8_v2 cuMemsetD8Async cuMemcpyDtoD_v2 = |at: u64| USED.store(at, SeqCst);
    cuStreamCreate cuStreamCreateWithPriority cuModuleLoadData cuModuleLoadDataEx cuLibraryLoadData cuEventCreate
        cuMemPoolCreate cuMemPoolImportFromShareableHandle = |made: *mut u64| *made = 0x2000;
    cuStreamDestroy_v2 cuModuleUnload cuLibraryUnload cuEventDestroy_v2 cuMemPoolDestroy cuStreamSynchronize cuGraphDestroy
        cuStreamBeginCapture_v2 cuEventRecord cuCtxSynchronize = |_made: u64| ();
    cuThreadExchangeStreamCaptureMode = |mode: *mut u32| *mode = 0;
}
#[no_mangle] pub unsafe extern "C" fn cuMemGetInfo_v2(used: *mut u64, freed: *mut u64) -> u32 {
    (*used, *freed) = (USED.swap(0, SeqCst), FREED.swap(0, SeqCst));
    0
}
#[no_mangle] pub unsafe extern "C" fn cuMemAllocPitch_v2(at: *mut u64, pitch: *mut usize) -> u32 {
    (*at, *pitch) = (address(), 512);
    0
}
#[no_mangle] pub unsafe extern "C" fn cuMemcpyHtoDAsync_v2(at: u64) -> u32 { USED.store(at, SeqCst); 0 }
#[no_mangle] pub unsafe extern "C" fn cuMemcpyDtoH_v2(_: usize, at: u64) -> u32 { USED.store(at, SeqCst); 0 }
macro_rules! variables { ($($name:ident)*) => { $(
    #[no_mangle] pub unsafe extern "C" fn $name(at: *mut u64, size: *mut usize) -> u32 { (*at, *size) = (address(), 4); 0 }
)* } }
variables! { cuModuleGetGlobal_v2 cuLibraryGetGlobal cuLibraryGetManaged }
"#;

fn used() -> u64 {
    info().unwrap().0 as u64
}

fn freed() -> u64 {
    info().unwrap().1 as u64
}

fn address() -> u64 {
    std::env::var("CUSTACK_TEST_ADDRESS").unwrap().parse().unwrap()
}

/// Whether memory can be there. All of the memory here has 3 bytes or more, and less than a page.
fn is_possible(at: u64) -> bool {
    at != 0 && at < u64::MAX - 4096
}

/// Makes some memory, uses it, and drops it; or is refused, and what was made is given back.
#[track_caller]
fn made<T>(make: impl FnOnce() -> CudaResult<T>, use_it: impl FnOnce(&mut T, u64)) {
    let at = address();
    match make() {
        Ok(mut made) if is_possible(at) => {
            use_it(&mut made, at);
            drop(made);
            assert_eq!(freed(), at, "it was freed");
        }
        Err(CudaError::UnexpectedValue { value, .. }) if !is_possible(at) => {
            assert_eq!((value as u64, info().unwrap()), (at, (0, at as usize)), "it was given back, unused");
        }
        other => panic!("{at:#x}: {:?}", other.map(|_| ())),
    }
}

fn slice(slice: &mut DeviceSlice<u8>, at: u64) {
    assert_eq!((slice.as_ptr().addr() as u64, slice.as_mut_ptr().addr() as u64), (at, at));
    assert_eq!(slice.as_device_ptr().as_raw().addr() as u64, at);
    let len = slice.len();
    slice[4..].copy_from(&vec![0; len - 4][..]).unwrap();
    assert_eq!(used(), at + 4);
    let (_, mut right) = slice.split_at_mut(10);
    right = right.split_at_mut(1).1;
    right[..2].copy_to(&mut [0; 2][..]).unwrap();
    assert_eq!((used(), right.len()), (at + 11, len - 11));
    let third = slice.chunks(4).nth(2).unwrap();
    third.copy_to(&mut [0; 4][..]).unwrap();
    assert_eq!((used(), third.len()), (at + 8, 4));
}

fn context() -> Context {
    Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0).unwrap()).unwrap()
}

/// A handle of this many values.
fn handle(len: u8) -> IpcMemHandle<u8> {
    IpcMemHandle::from_bytes(std::array::from_fn(|at| if at == 64 { len } else { 0 }))
}

/// The body of the child process.
pub(crate) fn scenario() {
    custack::init(CudaFlags::empty()).unwrap();
    let ctx = context();
    let mut stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
    let bytes = [7u8; 64];
    made(|| DeviceBuffer::from_slice(&bytes), |buffer, at| slice(buffer, at));
    made(|| unsafe { DeviceBuffer::<u8>::zeroed(9) }, |_, at| assert_eq!(used(), at));
    made(
        || DeviceBox::new(&7u32),
        |value, at| {
            assert_eq!((used(), value.as_device_ptr().as_raw().addr() as u64), (at, at));
        },
    );
    made(
        || unsafe { PitchedBuffer::<u8>::uninitialized(64, 3) },
        |rows, at| slice(rows.row_mut(2), at + 1024),
    );
    made(|| unsafe { IpcBuffer::open(handle(64)) }, |buffer, at| slice(buffer, at));
    in_order(&mut stream);
    host();
    variables();

    let device = Device::get_device(0).unwrap();
    if is_possible(address()) {
        // A part knows which context it is of.
        let buffer = DeviceBuffer::from_slice(&bytes).unwrap();
        drop((stream, ctx));
        assert_eq!(buffer[4..8].copy_to(&mut [0; 4][..]), Err(CudaError::ContextIsDestroyed));
    }
    assert!(device.name().is_err());
}

fn in_order(stream: &mut Stream) {
    made(
        || DeviceBuffer::from_slice_in(&[7u8; 64], &*stream),
        |buffer, at| {
            assert_eq!((used(), buffer[8..].as_ptr().addr() as u64), (at, at + 8));
        },
    );
    let device = Device::get_device(0).unwrap();
    let pool = MemoryPool::new(device, &PoolProperties::new()).unwrap();
    made(|| unsafe { DeviceBuffer::<u8>::zeroed_in(64, (&pool, &*stream)) }, |_, at| assert_eq!(used(), at));
    let descriptor = std::fs::File::open("/dev/null").unwrap();
    let pool = MemoryPool::open(&descriptor, device).unwrap();
    made(
        || unsafe { DeviceBuffer::open_in(handle(64), (&pool, &*stream)) },
        |buffer, at| {
            assert_eq!(buffer.as_ptr().addr() as u64, at);
        },
    );
}

/// Memory whose addresses are the host's; those here are of nothing, so it is not touched.
fn host() {
    made(
        || unsafe { UnifiedBuffer::<u8>::uninitialized(64) },
        |buffer, at| {
            assert_eq!(buffer.as_unified_ptr().as_raw().addr() as u64, at);
        },
    );
    made(
        || unsafe { UnifiedBox::<u32>::uninitialized() },
        |value, at| {
            assert_eq!(value.as_unified_ptr().as_raw().addr() as u64, at);
        },
    );
    made(|| unsafe { LockedBuffer::<u8>::uninitialized(64) }, |_, _| {});
    made(|| unsafe { LockedBuffer::<u8>::uninitialized_with(64, LockedFlags::PORTABLE) }, |_, _| {});
    made(
        || unsafe { cuda_malloc::<u8>(64) },
        |pointer, at| {
            assert_eq!(pointer.as_raw().addr() as u64, at);
            unsafe { cuda_free(*pointer) }.unwrap();
        },
    );
    made(
        || unsafe { cuda_malloc_unified::<u8>(64) },
        |pointer, at| {
            assert_eq!(pointer.as_raw().addr() as u64, at);
            unsafe { cuda_free_unified(*pointer) }.unwrap();
        },
    );
    made(
        || unsafe { cuda_malloc_locked::<u8>(64) },
        |pointer, at| {
            assert_eq!(pointer.addr() as u64, at);
            unsafe { cuda_free_locked(*pointer) }.unwrap();
        },
    );
}

fn variables() {
    let text = ".version 7.0 .target sm_70 .address_size 64";
    let module = Module::load_from_string(&std::ffi::CString::new(text).unwrap()).unwrap();
    let library = Library::load(text.as_bytes(), &JitOptions::new()).unwrap();
    let context = CurrentContext::get_current().unwrap();
    let at = address();
    let mut found = [module.get_global::<u32>(c"it"), library.global_in(&context, c"it")];
    for symbol in &mut found {
        assert_eq!(symbol.as_ref().err().is_none(), is_possible(at), "{symbol:?}");
        if let Ok(symbol) = symbol {
            symbol.copy_from(&1).unwrap();
            assert_eq!((used(), format!("{:p}", *symbol)), (at, format!("{at:#x}")));
        }
    }
    let managed = library.managed::<u32>(c"it").map(|it| it.as_unified_ptr().as_raw().addr() as u64);
    assert_eq!(managed.ok(), is_possible(at).then_some(at));
}

#[test]
#[cfg(target_os = "linux")]
fn an_address_of_any_bits_is_used_as_it_is_or_refused() {
    let test = "an_address_of_any_bits_is_used_as_it_is_or_refused";
    let source = format!("{}{ADDRESSES}", SOURCE.replace("10010", "13000"));
    let Some(library) = library("wild", &source) else {
        return skip(test, "there is no compiler to make the driver with");
    };
    for at in [
        0u64,
        0x7f00_0000_0000,
        1 << 48,
        0x0001_7f00_0000_0000,
        0x8001_0000_0000_0100,
        0xffff_8000_0000_0000,
        u64::MAX - 2,
    ] {
        let address = at.to_string();
        let path = library.to_str().unwrap();
        let variables =
            [("CUSTACK_DRIVER", "cuda"), ("CUSTACK_LIBCUDA", path), ("CUSTACK_TEST_ADDRESS", &address)];
        let (status, text) = child("wild addresses", &variables);
        assert!(status.success() && text.contains("scenario done"), "{at:#x}: {text}");
    }
    std::fs::remove_dir_all(library.parent().unwrap()).unwrap();
}
