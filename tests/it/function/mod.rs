//! Kernels.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

mod answers;
mod config;
pub(crate) mod launch;
#[cfg(feature = "library")]
mod occupancy;
mod raw;
mod registers;
mod results;
mod stack;

use crate::harness::{pushed, run};
use crate::module::KERNELS;
use custack::context::{CacheConfig, SharedMemoryConfig};
use custack::error::CudaError;
use custack::function::{Function, FunctionAttribute, SettableAttribute};
use custack::launch;
use custack::memory::{CopyDestination, DeviceBuffer, DeviceCopy};
use custack::module::Module;
use custack::stream::{Stream, StreamFlags};

pub(super) fn module() -> Module {
    Module::load_from_bytes(KERNELS.as_bytes()).unwrap()
}

pub(super) fn stream() -> Stream {
    Stream::new(StreamFlags::NON_BLOCKING, None).unwrap()
}

pub(super) fn read<T: DeviceCopy + Default + Clone>(buffer: &DeviceBuffer<T>) -> Vec<T> {
    let mut values = vec![T::default(); buffer.len()];
    buffer.copy_to(&mut values[..]).unwrap();
    values
}

#[test]
fn kernels_tell_what_they_are_like() {
    run(|| {
        let _ctx = pushed();
        let module = module();
        let mut reduce: Function<'_> = module.get_function(c"reduce").unwrap();
        assert_eq!(reduce.get_attribute(FunctionAttribute::SharedMemorySizeBytes), Ok(0));
        assert_eq!(reduce.get_attribute(FunctionAttribute::LocalSizeBytes), Ok(0));
        assert_eq!(reduce.get_attribute(FunctionAttribute::MaxThreadsPerBlock), Ok(1024));
        assert_eq!(reduce.get_attribute(FunctionAttribute::PtxVersion), Ok(70));
        assert_eq!(reduce.get_attribute(FunctionAttribute::BinaryVersion).map(|v| v > 50), Ok(true));
        assert!(reduce.get_attribute(FunctionAttribute::NumRegisters).unwrap() > 0);
        let unnamed = FunctionAttribute::__Nonexhaustive;
        assert_eq!(reduce.get_attribute(unnamed), Err(CudaError::InvalidValue));
        reduce.set_cache_config(CacheConfig::PreferL1).unwrap();
        reduce.set_shared_memory_config(SharedMemoryConfig::DefaultBankSize).unwrap();
        assert_eq!(reduce.set_cache_config(CacheConfig::__Nonexhaustive), Err(CudaError::InvalidValue));
        reduce.set(SettableAttribute::MaxDynamicSharedSizeBytes, 65_536).unwrap();
        assert_eq!(reduce.get(SettableAttribute::MaxDynamicSharedSizeBytes), Ok(65_536));
        assert_eq!(
            reduce.set(SettableAttribute::MaxDynamicSharedSizeBytes, 1 << 30),
            Err(CudaError::InvalidValue)
        );
        for attribute in [SettableAttribute::ClusterSizeMustBeSet, SettableAttribute::RequiredClusterWidth] {
            assert_eq!(reduce.get(attribute), Ok(0), "{attribute:?}");
        }
        let stream = stream();
        let mut numbers = DeviceBuffer::from_slice(&[3u32; 64]).unwrap();
        let mut to = DeviceBuffer::from_slice(&[0u32]).unwrap();
        let (pf, pt) = (numbers.as_device_ptr(), to.as_device_ptr());
        unsafe { launch!(reduce<<<1, 64, 60_000, stream>>>(pf, pt,)) }.unwrap();
        stream.synchronize().unwrap();
        assert_eq!(read(&to), [192]);
    });
}
