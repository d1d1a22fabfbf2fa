//! The C face, third part: streams, events, memory, modules and launches.

// C functions that read and write through the pointers they are given.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc, clippy::too_many_arguments)]

use super::abi::{call, face, give, give_first, put};
use super::abi_contexts::wait_for_current_work;
use super::copies::{self, End};
use super::machine::*;
use super::memory::{self, HostMemory, Kind};
use super::modules::Asked;
use super::work::as_host_function;
use crate::driver::ffi::*;
use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_uint, c_ulonglong, c_void};

const OUT_OF_MEMORY: CUresult = 2;

/// Waits, with nothing locked, for what the model says there is to wait for; then asks it again.
fn wait_then(
    what: impl FnOnce(&mut Machine) -> Answer<Box<dyn FnOnce()>>,
    then: impl FnOnce(&mut Machine) -> Answer<()>,
) -> CUresult {
    let mut wait: Option<Box<dyn FnOnce()>> = None;
    let status = call(|m| what(m).map(|found| wait = Some(found)));
    if let Some(wait) = wait {
        wait();
        return call(then);
    }
    status
}

/// A name that the program passed.
///
/// # Safety
///
/// `name` is NULL or a C string.
unsafe fn name(machine: &mut Machine, name: *const c_char) -> Answer<String> {
    if name.is_null() {
        return machine.refuse(INVALID_VALUE, "a name is needed, and got NULL");
    }
    // SAFETY: not NULL, and the caller vouches for the rest.
    Ok(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
}

/// The values of a kernel's parameters, at their places.
///
/// # Safety
///
/// `parameters` has a pointer for each parameter, to as many bytes as it has.
unsafe fn gather(machine: &mut Machine, function: usize, parameters: *mut *mut c_void) -> Answer<Vec<u8>> {
    let places = machine.parameters(function)?;
    let mut values = vec![0; places.iter().map(|(offset, size)| offset + size).max().unwrap_or(0)];
    if !places.is_empty() && parameters.is_null() {
        return machine.refuse(INVALID_VALUE, "the kernel has parameters, and got none");
    }
    for (at, (offset, size)) in places.into_iter().enumerate() {
        // SAFETY: the caller vouches for the pointers.
        let value = unsafe { std::slice::from_raw_parts((*parameters.add(at)).cast::<u8>(), size) };
        values[offset..offset + size].copy_from_slice(value);
    }
    Ok(values)
}

/// Numbers that stand for pointers, so that they can go to the stream's thread.
#[derive(Clone, Copy)]
struct Callback {
    function: CUstreamCallback,
    stream: usize,
    data: usize,
}

/// # Safety
///
/// As `cuMemAlloc`'s: `out` is NULL or may be written.
unsafe fn allocate(out: *mut CUdeviceptr, size: usize, kind: Kind, flags: u32) -> CUresult {
    // SAFETY: the caller vouches for it.
    unsafe {
        give(out, |m| {
            let context = m.healthy_current()?;
            let flags_fit = if kind == Kind::Managed { (1..=2).contains(&flags) } else { flags == 0 };
            if out.is_null() || size == 0 || !flags_fit {
                return m
                    .refuse(INVALID_VALUE, format_args!("{size} bytes of memory, with flags {flags:#x}"));
            }
            match memory::lock().allocate(kind, context, size) {
                Some(address) => Ok(address),
                None => m.refuse(OUT_OF_MEMORY, format_args!("there are no {size} bytes left")),
            }
        })
    }
}

fn free(address: u64, kinds: &[Kind]) -> CUresult {
    // The driver frees when the work before is done.
    wait_for_current_work();
    call(|m| {
        let owner = memory::lock().owner(address, kinds);
        let Some(owner) = owner else {
            m.healthy_current()?;
            let kinds = if kinds.contains(&Kind::Locked) { "page-locked memory" } else { "memory" };
            return m.refuse(INVALID_VALUE, format_args!("no {kinds} begins at {address:#x}"));
        };
        m.healthy(owner)?;
        memory::lock().free(address);
        Ok(())
    })
}

const DEVICE: &[Kind] = &[Kind::Device, Kind::Managed];

face! {
    fn cuStreamCreate(stream: *mut CUstream, flags: c_uint) { cuStreamCreateWithPriority(stream, flags, 0) }
    fn cuStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int) {
        give(stream, |m| m.create_stream(!stream.is_null(), flags, priority).map(|handle| handle as CUstream))
    }
    fn cuStreamDestroy_v2(stream: CUstream) { call(|m| m.destroy_stream(stream.addr())) }
    fn cuStreamQuery(stream: CUstream) { call(|m| m.query_stream(stream.addr())) }
    fn cuStreamSynchronize(stream: CUstream) {
        wait_then(
            |m| {
                let found = m.stream_of(stream.addr())?;
                let before = m.comes_after(stream.addr(), &found);
                Ok(Box::new(move || {
                    before.iter().for_each(|moment| moment.wait());
                    found.queue.wait();
                }))
            },
            |m| m.stream_of(stream.addr()).map(|_| ()),
        )
    }
    fn cuStreamGetFlags(stream: CUstream, flags: *mut c_uint) { give(flags, |m| m.stream_of(stream.addr()).map(|s| s.flags)) }
    fn cuStreamGetPriority(stream: CUstream, priority: *mut c_int) {
        give(priority, |m| m.stream_of(stream.addr()).map(|s| s.priority))
    }
    fn cuStreamGetId(stream: CUstream, id: *mut c_ulonglong) { give(id, |m| m.stream_of(stream.addr()).map(|s| s.id)) }
    fn cuStreamGetCtx(stream: CUstream, context: *mut CUcontext) {
        give(context, |m| m.stream_of(stream.addr()).map(|s| s.context as CUcontext))
    }
    fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint) {
        call(|m| m.wait_event(stream.addr(), event.addr(), flags))
    }
    fn cuStreamAddCallback(stream: CUstream, callback: CUstreamCallback, user_data: *mut c_void, flags: c_uint) {
        call(|m| {
            let found = m.stream_of(stream.addr())?;
            if callback.is_none() || flags != 0 {
                return m.refuse(INVALID_VALUE, "a callback is a function, and takes no flags");
            }
            let before = m.comes_after(stream.addr(), &found);
            let callback = Callback { function: callback, stream: stream.addr(), data: user_data.addr() };
            let context = found.context;
            found.queue.push(Box::new(move || {
                before.iter().for_each(|moment| moment.wait());
                let status = lock().error_of(context);
                let Callback { function: Some(function), stream, data } = callback else { return };
                // SAFETY: the program's function, with what it asked to be called with.
                as_host_function(|| unsafe { function(stream as CUstream, status, data as *mut c_void) });
            }));
            Ok(())
        })
    }
    fn cuLaunchHostFunc(stream: CUstream, function: CUhostFn, user_data: *mut c_void) {
        call(|m| {
            let found = m.stream_of(stream.addr())?;
            let Some(function) = function else {
                return m.refuse(INVALID_VALUE, "a host function is needed, and got NULL");
            };
            let data = user_data.addr();
            m.enqueue(stream.addr(), &found, move || {
                // SAFETY: the program's function, with what it asked to be called with.
                as_host_function(|| unsafe { function(data as *mut c_void) });
                Ok(())
            })
        })
    }

    fn cuThreadExchangeStreamCaptureMode(mode: *mut c_uint) {
        call(|m| {
            m.ready()?;
            if mode.is_null() {
                return m.misuse(INVALID_VALUE, "cuThreadExchangeStreamCaptureMode of NULL");
            }
            mode.write(m.exchange_capture_mode(mode.read()));
            Ok(())
        })
    }

    fn cuEventCreate(event: *mut CUevent, flags: c_uint) {
        give(event, |m| m.create_event(!event.is_null(), flags).map(|handle| handle as CUevent))
    }
    fn cuEventDestroy_v2(event: CUevent) { call(|m| m.destroy_event(event.addr())) }
    fn cuEventRecord(event: CUevent, stream: CUstream) { call(|m| m.record_event(event.addr(), stream.addr())) }
    fn cuEventQuery(event: CUevent) { call(|m| m.query_event(event.addr())) }
    fn cuEventSynchronize(event: CUevent) {
        wait_then(
            |m| {
                let moment = m.moment_of(event.addr())?;
                Ok(Box::new(move || moment.iter().for_each(|moment| moment.wait())))
            },
            |m| m.event_of(event.addr()).map(|_| ()),
        )
    }
    fn cuEventElapsedTime(millis: *mut f32, start: CUevent, end: CUevent) {
        give_first(millis, |m| m.elapsed(start.addr(), end.addr()))
    }

    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        call(|m| {
            m.healthy_current()?;
            let used = memory::lock().used();
            put(free, super::device::TOTAL_MEMORY - used);
            put(total, super::device::TOTAL_MEMORY);
            Ok(())
        })
    }
    fn cuMemAlloc_v2(address: *mut CUdeviceptr, size: usize) { allocate(address, size, Kind::Device, 0) }
    fn cuMemFree_v2(address: CUdeviceptr) {
        if address == 0 {
            return call(|m| m.healthy_current().map(|_| ()));
        }
        free(address, DEVICE)
    }
    fn cuMemAllocManaged(address: *mut CUdeviceptr, size: usize, flags: c_uint) {
        allocate(address, size, Kind::Managed, flags)
    }
    fn cuMemAllocHost_v2(memory: *mut *mut c_void, size: usize) {
        allocate(memory.cast::<CUdeviceptr>(), size, Kind::Locked, 0)
    }
    fn cuMemFreeHost(memory: *mut c_void) { free(memory.addr() as u64, &[Kind::Locked]) }
    fn cuMemcpyHtoD_v2(to: CUdeviceptr, from: *const c_void, size: usize) {
        copies::copy(End::Device(to), End::Host(HostMemory::new(from.addr(), size)), size, None)
    }
    fn cuMemcpyDtoH_v2(to: *mut c_void, from: CUdeviceptr, size: usize) {
        copies::copy(End::Host(HostMemory::new(to.addr(), size)), End::Device(from), size, None)
    }
    fn cuMemcpyDtoD_v2(to: CUdeviceptr, from: CUdeviceptr, size: usize) {
        copies::copy(End::Device(to), End::Device(from), size, None)
    }
    fn cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, size: usize, stream: CUstream) {
        copies::copy(End::Device(to), End::Host(HostMemory::new(from.addr(), size)), size, Some(stream.addr()))
    }
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, size: usize, stream: CUstream) {
        copies::copy(End::Host(HostMemory::new(to.addr(), size)), End::Device(from), size, Some(stream.addr()))
    }
    fn cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, size: usize, stream: CUstream) {
        copies::copy(End::Device(to), End::Device(from), size, Some(stream.addr()))
    }
    fn cuMemsetD8_v2(to: CUdeviceptr, byte: u8, size: usize) { copies::fill(to, byte, size, None) }
    fn cuMemsetD8Async(to: CUdeviceptr, byte: u8, size: usize, stream: CUstream) {
        copies::fill(to, byte, size, Some(stream.addr()))
    }
    fn cuArray3DCreate_v2(array: *mut CUarray, descriptor: *const CUDA_ARRAY3D_DESCRIPTOR) {
        give(array, |m| {
            if descriptor.is_null() {
                return m.refuse(INVALID_VALUE, "an array needs a descriptor, and got NULL");
            }
            m.create_array(!array.is_null(), descriptor.read()).map(|handle| handle as CUarray)
        })
    }
    fn cuArray3DGetDescriptor_v2(descriptor: *mut CUDA_ARRAY3D_DESCRIPTOR, array: CUarray) {
        give_first(descriptor, |m| m.array(array.addr()).map(|array| array.descriptor))
    }
    fn cuArrayDestroy(array: CUarray) { call(|m| m.destroy_array(array.addr())) }

    fn cuModuleLoad(module: *mut CUmodule, file: *const c_char) {
        give_first(module, |m| {
            let file = name(m, file)?;
            m.load_file(&file).map(|handle| handle as CUmodule)
        })
    }
    fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void) {
        give_first(module, |m| {
            if image.is_null() {
                return m.refuse(INVALID_VALUE, "the image is NULL");
            }
            // Machine code tells its own length, and is not read; a text ends with its NUL.
            m.load_module(CStr::from_ptr(image.cast()).to_bytes()).map(|handle| handle as CUmodule)
        })
    }
    fn cuModuleUnload(module: CUmodule) {
        wait_for_current_work();
        call(|m| m.unload_module(module.addr()))
    }
    fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, wanted: *const c_char) {
        give_first(function, |m| {
            let wanted = name(m, wanted)?;
            m.function_named(module.addr(), &wanted).map(|handle| handle as CUfunction)
        })
    }
    fn cuModuleGetGlobal_v2(address: *mut CUdeviceptr, size: *mut usize, module: CUmodule, wanted: *const c_char) {
        call(|m| {
            let wanted = name(m, wanted)?;
            let found = m.variable_named(module.addr(), &wanted)?;
            put(address, found.0);
            put(size, found.1);
            Ok(())
        })
    }
    fn cuFuncGetAttribute(value: *mut c_int, attribute: c_uint, function: CUfunction) {
        give_first(value, |m| m.function_attribute(function.addr(), attribute))
    }
    fn cuFuncSetAttribute(function: CUfunction, attribute: c_uint, value: c_int) {
        call(|m| m.set_function_attribute(function.addr(), attribute, value))
    }
    fn cuFuncSetCacheConfig(function: CUfunction, config: c_uint) { call(|m| m.set_function_cache(function.addr(), config)) }
    fn cuFuncSetSharedMemConfig(function: CUfunction, config: c_uint) {
        call(|m| m.set_function_banks(function.addr(), config))
    }
    fn cuLaunchKernel(function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CUstream, parameters: *mut *mut c_void, extra: *mut *mut c_void) {
        call(|m| {
            if !extra.is_null() {
                return m.refuse(NOT_SUPPORTED, "the simulated driver takes parameters one by one");
            }
            let parameters = gather(m, function.addr(), parameters)?;
            let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
            let (function, shared, stream) = (function.addr(), shared as usize, stream.addr());
            m.launch(&Asked { function, grid, block, shared, stream, cooperative: false }, parameters)
        })
    }
    fn cuLaunchCooperativeKernel(function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CUstream, parameters: *mut *mut c_void) {
        call(|m| {
            let parameters = gather(m, function.addr(), parameters)?;
            let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
            let (function, shared, stream) = (function.addr(), shared as usize, stream.addr());
            m.launch(&Asked { function, grid, block, shared, stream, cooperative: true }, parameters)
        })
    }
}
