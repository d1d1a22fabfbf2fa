//! A stub of libcuda for the linker, where no driver is installed: RustaCUDA links against one.
//!
//! It has all functions that RustaCUDA mentions, and those that the other libraries call. The functions that change the
//! stack work, so that the benchmark can be tried, and its instructions counted, on a machine without a GPU (put the
//! folder of this library on `LD_LIBRARY_PATH`); its times mean nothing there.

#![allow(non_snake_case, clippy::missing_safety_doc)]

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

const DEPTH: usize = 2048;

thread_local! {
    static STACK: [Cell<usize>; DEPTH] = const { [const { Cell::new(0) }; DEPTH] };
    static TOP: Cell<usize> = const { Cell::new(0) };
}

fn push(context: usize) -> u32 {
    let top = TOP.get() + 1;
    STACK.with(|stack| stack[top].set(context));
    TOP.set(top);
    0
}

fn current() -> usize {
    STACK.with(|stack| stack[TOP.get()].get())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxCreate_v2(context: *mut usize, _flags: u32, _device: i32) -> u32 {
    static NEXT: AtomicUsize = AtomicUsize::new(0x1000);
    unsafe { *context = NEXT.fetch_add(0x100, Ordering::Relaxed) };
    push(unsafe { *context })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxCreate_v4(context: *mut usize, _: usize, flags: u32, device: i32) -> u32 {
    unsafe { cuCtxCreate_v2(context, flags, device) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxPushCurrent_v2(context: usize) -> u32 {
    push(context)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxPopCurrent_v2(context: *mut usize) -> u32 {
    let top = TOP.get();
    if top == 0 {
        return 201;
    }
    unsafe { *context = current() };
    TOP.set(top - 1);
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxSetCurrent(context: usize) -> u32 {
    TOP.set(TOP.get().saturating_sub(1));
    if context == 0 { 0 } else { push(context) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCurrent(context: *mut usize) -> u32 {
    unsafe { *context = current() };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetStreamPriorityRange(least: *mut i32, greatest: *mut i32) -> u32 {
    unsafe {
        *least = 0;
        *greatest = -5;
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut i32) -> u32 {
    unsafe { *count = 1 };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(address: *mut usize, size: usize) -> u32 {
    static NEXT: AtomicUsize = AtomicUsize::new(0x1000_0000);
    unsafe { *address = NEXT.fetch_add(size, Ordering::Relaxed) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocAsync(address: *mut usize, size: usize, _stream: usize) -> u32 {
    unsafe { cuMemAlloc_v2(address, size) }
}

/// The host writes to it, so it is there; it is never freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocHost_v2(memory: *mut *mut u8, size: usize) -> u32 {
    unsafe { *memory = Box::leak(vec![0; size].into_boxed_slice()).as_mut_ptr() };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostAlloc(memory: *mut *mut u8, size: usize, _flags: u32) -> u32 {
    unsafe { cuMemAllocHost_v2(memory, size) }
}

/// A handle that is not null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoad(module: *mut usize, _name: usize) -> u32 {
    unsafe { *module = 0x2000 };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadData(module: *mut usize, _image: usize) -> u32 {
    unsafe { cuModuleLoad(module, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadDataEx(module: *mut usize, _image: usize, _: u32, _: usize, _: usize) -> u32 {
    unsafe { cuModuleLoad(module, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(function: *mut usize, _module: usize, _name: usize) -> u32 {
    unsafe { *function = 0x3000 };
    0
}

/// A handle that is not a default stream's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreateWithPriority(stream: *mut usize, _flags: u32, _priority: i32) -> u32 {
    unsafe { *stream = 0x4000 };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreate(stream: *mut usize, flags: u32) -> u32 {
    unsafe { cuStreamCreateWithPriority(stream, flags, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(event: *mut usize, _flags: u32) -> u32 {
    unsafe { *event = 0x5000 };
    0
}

/// All work is done at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamAddCallback(
    stream: usize,
    callback: unsafe extern "C" fn(usize, u32, usize),
    data: usize,
    _flags: u32,
) -> u32 {
    unsafe { callback(stream, 0, data) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchHostFunc(_stream: usize, function: unsafe extern "C" fn(usize), data: usize) -> u32 {
    unsafe { function(data) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamIsCapturing(_stream: usize, status: *mut u32) -> u32 {
    unsafe { *status = 0 };
    0
}

/// Every kernel takes a `u64` and a `u32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncGetParamInfo(_: usize, index: usize, offset: *mut usize, size: *mut usize) -> u32 {
    let Some(known) = [(0, 8), (8, 4)].get(index) else { return 1 };
    unsafe { (*offset, *size) = *known };
    0
}

macro_rules! nothing {
    ($($name:ident)*) => {
        $(
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name() -> u32 {
                0
            }
        )*
    };
}

nothing! {
    cuArray3DCreate_v2 cuArray3DGetDescriptor_v2 cuArrayDestroy cuCtxDestroy_v2 cuCtxGetApiVersion
    cuCtxGetCacheConfig cuCtxGetDevice cuCtxGetFlags cuCtxGetLimit cuCtxGetSharedMemConfig cuCtxSetCacheConfig
    cuCtxSetLimit cuCtxSetSharedMemConfig cuCtxSynchronize cuDeviceGet cuDeviceGetAttribute cuDeviceGetName
    cuDeviceGetUuid cuDeviceTotalMem_v2 cuDriverGetVersion cuEventDestroy_v2 cuEventElapsedTime
    cuEventQuery cuEventRecord cuEventSynchronize cuFuncGetAttribute cuFuncSetCacheConfig cuFuncSetSharedMemConfig
    cuGetErrorString cuInit cuLaunchKernel cuMemAllocManaged cuMemAllocPitch cuMemFreeHost cuMemFree_v2 cuMemFreeAsync
    cuMemcpyDtoDAsync_v2 cuMemcpyDtoD_v2 cuMemcpyDtoHAsync_v2 cuMemcpyDtoH_v2 cuMemcpyHtoDAsync_v2 cuMemcpyHtoD_v2
    cuGraphDestroy cuGraphExecDestroy cuGraphGetNodes cuGraphInstantiateWithFlags cuGraphLaunch
    cuMemsetD8Async cuMemsetD8_v2 cuModuleGetGlobal_v2 cuStreamBeginCapture_v2 cuStreamEndCapture
    cuThreadExchangeStreamCaptureMode
    cuModuleUnload cuStreamDestroy_v2 cuStreamGetFlags
    cuStreamGetPriority cuStreamSynchronize cuStreamWaitEvent cuDevicePrimaryCtxRetain
    cuDevicePrimaryCtxRelease_v2
}
