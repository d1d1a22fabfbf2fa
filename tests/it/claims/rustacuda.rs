//! RustaCUDA's documented patterns and small idioms, as programs use them.

use crate::harness::{current, drain, run};
use custack::context::{
    CacheConfig, Context, ContextFlags, ContextHandle, ContextStack, CurrentContext, ResourceLimit,
    SharedMemoryConfig, StreamPriorityRange, UnownedContext,
};
use custack::device::{Device, DeviceAttribute};
use custack::error::{CudaError, CudaResult, DropResult};
use custack::{CudaApiVersion, CudaFlags};
use std::error::Error;

#[test]
fn one_device_one_thread() {
    run(|| {
        fn program() -> Result<(), Box<dyn Error>> {
            custack::init(CudaFlags::empty())?;
            let device = Device::get_device(0)?;
            let context =
                Context::create_and_push(ContextFlags::MAP_HOST | ContextFlags::SCHED_AUTO, device)?;
            CurrentContext::synchronize()?;
            drop(context);
            Ok(())
        }
        program().unwrap();
        assert!(current().is_null());
    });
}

#[test]
fn one_device_several_threads() {
    run(|| {
        let device = Device::get_device(0).unwrap();
        let context =
            Context::create_and_push(ContextFlags::MAP_HOST | ContextFlags::SCHED_AUTO, device).unwrap();
        let mut join_handles = vec![];
        for _ in 0..4 {
            let unowned = context.get_unowned();
            let join_handle = std::thread::spawn(move || {
                CurrentContext::set_current(&unowned).unwrap();
                CurrentContext::synchronize().unwrap();
            });
            join_handles.push(join_handle);
        }
        for handle in join_handles {
            handle.join().unwrap();
        }
        drop(context);
    });
}

#[test]
fn one_context_for_each_device() {
    run(|| {
        let mut contexts = vec![];
        for device in Device::devices().unwrap() {
            let device = device.unwrap();
            let ctx =
                Context::create_and_push(ContextFlags::MAP_HOST | ContextFlags::SCHED_AUTO, device).unwrap();
            ContextStack::pop().unwrap();
            contexts.push(ctx);
        }
        CurrentContext::set_current(&contexts[0]).unwrap();
        assert_eq!(CurrentContext::get_device().unwrap(), Device::get_device(0).unwrap());
        assert_eq!(drain().len(), 1);
    });
}

#[test]
fn every_signature_is_rustacudas() {
    let _: fn(CudaFlags) -> CudaResult<()> = custack::init;
    let _: fn() -> CudaResult<Context> = custack::quick_init;
    let _: fn() -> CudaResult<CudaApiVersion> = CudaApiVersion::get;
    let _: fn(CudaApiVersion) -> i32 = CudaApiVersion::major;
    let _: fn(CudaApiVersion) -> i32 = CudaApiVersion::minor;
    let _: fn(ContextFlags, Device) -> CudaResult<Context> = Context::create_and_push;
    let _: fn(&Context) -> CudaResult<CudaApiVersion> = Context::get_api_version;
    let _: fn(&Context) -> UnownedContext = Context::get_unowned;
    let _: fn(Context) -> DropResult<Context> = Context::drop;
    let _: fn(&UnownedContext) -> CudaResult<CudaApiVersion> = UnownedContext::get_api_version;
    let _: fn() -> CudaResult<UnownedContext> = ContextStack::pop;
    let _: fn(&Context) -> CudaResult<()> = ContextStack::push::<Context>;
    let _: fn(&UnownedContext) -> CudaResult<()> = ContextStack::push::<UnownedContext>;
    let _: fn() -> CudaResult<CacheConfig> = CurrentContext::get_cache_config;
    let _: fn() -> CudaResult<Device> = CurrentContext::get_device;
    let _: fn() -> CudaResult<ContextFlags> = CurrentContext::get_flags;
    let _: fn(ResourceLimit) -> CudaResult<usize> = CurrentContext::get_resource_limit;
    let _: fn() -> CudaResult<SharedMemoryConfig> = CurrentContext::get_shared_memory_config;
    let _: fn() -> CudaResult<StreamPriorityRange> = CurrentContext::get_stream_priority_range;
    let _: fn(CacheConfig) -> CudaResult<()> = CurrentContext::set_cache_config;
    let _: fn(ResourceLimit, usize) -> CudaResult<()> = CurrentContext::set_resource_limit;
    let _: fn(SharedMemoryConfig) -> CudaResult<()> = CurrentContext::set_shared_memory_config;
    let _: fn() -> CudaResult<UnownedContext> = CurrentContext::get_current;
    let _: fn(&Context) -> CudaResult<()> = CurrentContext::set_current::<Context>;
    let _: fn() -> CudaResult<()> = CurrentContext::synchronize;
    let _: fn() -> CudaResult<u32> = Device::num_devices;
    let _: fn(u32) -> CudaResult<Device> = Device::get_device;
    let _: fn() -> CudaResult<custack::device::Devices> = Device::devices;
    let _: fn(Device) -> CudaResult<usize> = Device::total_memory;
    let _: fn(Device) -> CudaResult<String> = Device::name;
    let _: fn(Device) -> CudaResult<[u8; 16]> = Device::uuid;
    let _: fn(Device, DeviceAttribute) -> CudaResult<i32> = Device::get_attribute;
}

#[test]
fn the_statics_are_reached_by_path_where_a_guard_is_in_scope_too() {
    run(|| {
        let ctx = crate::harness::parked();
        let current = ctx.enter().unwrap();
        CurrentContext::synchronize().unwrap();
        current.synchronize().unwrap();
        assert_eq!(CurrentContext::get_current().unwrap().get_inner(), current.get_inner());
        drop(current);
    });
}

#[test]
fn the_prelude_has_the_usual_names() {
    use custack::prelude::*;
    run(|| {
        custack::init(CudaFlags::empty()).unwrap();
        let device = Device::get_device(0).unwrap();
        let _context = Context::create_and_push(ContextFlags::SCHED_AUTO, device).unwrap();
    });
}

#[test]
fn errors_compare_match_and_box_as_before() {
    run(|| {
        let result = Device::get_device(99);
        match result {
            Err(CudaError::InvalidDevice) => {}
            other => panic!("{other:?}"),
        }
        assert!(
            format!("{:?}", CudaError::InvalidSouce).contains("CUDA_ERROR_INVALID_SOURCE"),
            "where RustaCUDA has the name"
        );
        let boxed: Box<dyn Error + Send + Sync> = Box::new(CudaError::UnknownError);
        assert!(boxed.downcast_ref::<CudaError>().is_some());
    });
}

#[test]
fn versions_compare() {
    run(|| {
        let version = CudaApiVersion::get().unwrap();
        assert!(version >= version && version.major() * 1000 + version.minor() * 10 >= 10_000);
    });
}
