//! Operations on modules, libraries and their kernels.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{Operation, SMALL, stream};
use crate::module::KERNELS;
use custack::context::{CacheConfig, CurrentContext, SharedMemoryConfig};
use custack::device::Device;
use custack::function::{FunctionAttribute, LaunchConfig, SettableAttribute};
use custack::launch;
use custack::library::Library;
use custack::memory::{CopyDestination, DeviceBuffer};
use custack::module::{JitOptions, LinkInput, Linker, Module};
use std::os::raw::c_void;

const CARVEOUT: SettableAttribute = SettableAttribute::PreferredSharedMemoryCarveout;

pub(super) const OPERATIONS: &[(&str, Operation)] = &[
    ("a module", || {
        let module = Module::load_from_bytes(KERNELS.as_bytes())?;
        let stream = stream()?;
        let mut answer = 0u32;
        module.get_global::<u32>(c"answer")?.copy_to(&mut answer)?;
        let mut number = DeviceBuffer::from_slice(&[27u32])?;
        let pointer = number.as_device_ptr();
        unsafe { launch!(module.collatz<<<1, 1, 0, stream>>>(pointer, 1u32)) }?;
        stream.synchronize()
    }),
    ("a module with options", || {
        let options = JitOptions::new().max_registers(64);
        let module = Module::load_with_options(SMALL.as_bytes(), &options);
        let module = module.map_err(|refused| refused.error)?.0;
        let functions = module.functions()?;
        functions[0].parameters().map(|_| ())
    }),
    ("a linker", || {
        let mut linker = Linker::new(&JitOptions::new())?;
        linker.add(LinkInput::Ptx, SMALL.as_bytes(), c"kernels")?;
        linker.complete().map(|_| ()).map_err(|refused| refused.error)
    }),
    ("a library", || {
        let library = Library::load(SMALL.as_bytes(), &JitOptions::new())?;
        let (context, stream) = (CurrentContext::get_current()?, stream()?);
        let kernels = library.kernels()?;
        assert_eq!(kernels.len(), library.kernel_count()? as usize);
        let function = library.kernel(c"takes")?.function_in(&context)?;
        unsafe { launch!(function<<<1, 1, 0, stream>>>(1u32)) }?;
        let mut answer = 0u32;
        library.global_in::<u32>(&context, c"answer")?.copy_to(&mut answer)?;
        stream.synchronize()
    }),
    ("a launch with a configuration", || {
        let module = Module::load_from_bytes(SMALL.as_bytes())?;
        let (function, stream) = (module.get_function(c"takes")?, stream()?);
        let best = function.max_potential_block_size(|_| 0, 0)?;
        function.available_dynamic_shared_bytes(1, best.block_size)?;
        let config = LaunchConfig::new(2, 32).priority(-1);
        unsafe { launch!(function<<<config, stream>>>(1u32)) }?;
        stream.synchronize()
    }),
    ("the attributes of a function", || {
        let module = Module::load_from_bytes(SMALL.as_bytes())?;
        assert_eq!(module.function_count()?, 1);
        let mut function = module.get_function(c"takes")?;
        function.get_attribute(FunctionAttribute::NumRegisters)?;
        function.set(CARVEOUT, 50)?;
        assert_eq!(function.get(CARVEOUT)?, 50);
        function.set_cache_config(CacheConfig::PreferL1)?;
        function.set_shared_memory_config(SharedMemoryConfig::FourByteBankSize)
    }),
    ("questions about a function", || {
        let module = Module::load_from_bytes(SMALL.as_bytes())?;
        let function = module.get_function(c"takes")?;
        assert_eq!(function.name()?.as_c_str(), c"takes");
        function.load()?;
        assert!(function.is_loaded()?);
        assert_eq!(function.as_raw_module()?, module.as_raw());
        // A driver that answers 1 says that there is no such parameter, so their number is not compared.
        function.parameters().map(drop)
    }),
    ("questions about occupancy", || {
        let module = Module::load_from_bytes(SMALL.as_bytes())?;
        let function = module.get_function(c"takes")?;
        function.max_active_blocks_per_multiprocessor(32, 0)?;
        function.max_active_clusters(&LaunchConfig::new(8, 32).cluster(2))?;
        function.max_potential_cluster_size(&LaunchConfig::new(8, 32)).map(drop)
    }),
    ("a cooperative launch", || {
        let module = Module::load_from_bytes(SMALL.as_bytes())?;
        let (function, stream, one) = (module.get_function(c"takes")?, stream()?, 1u32);
        let args = [(&raw const one).cast_mut().cast::<c_void>()];
        unsafe { stream.launch_cooperative(&function, 1, 32, 0, &args) }?;
        stream.synchronize()
    }),
    ("a library with a log", || {
        let loaded = Library::load_with_log(SMALL.as_bytes(), &JitOptions::new().max_registers(64));
        let (library, log) = loaded.map_err(|refused| refused.error)?;
        assert_eq!(log.error, "");
        Library::drop(library).map_err(|(error, _)| error)
    }),
    ("a library from a file", || {
        let path = std::env::temp_dir().join(format!("custack-faults-{}.ptx", std::process::id()));
        std::fs::write(&path, SMALL).unwrap();
        let loaded = Library::load_file(&path, &JitOptions::new());
        std::fs::remove_file(&path).unwrap();
        loaded.map(drop)
    }),
    ("the variables and modules of a library", || {
        let library = Library::load(SMALL.as_bytes(), &JitOptions::new())?;
        let shared = library.managed::<u32>(c"shared")?;
        assert!(!shared.as_unified_ptr().is_null());
        library.as_raw_module_in(&CurrentContext::get_current()?).map(|module| assert!(!module.is_null()))
    }),
    ("a kernel of a library on a device", || {
        let device = Device::get_device(0)?;
        let kernel = Library::load(SMALL.as_bytes(), &JitOptions::new())?.kernel(c"takes")?;
        kernel.parameters()?;
        kernel.get_attribute_on(device, FunctionAttribute::NumRegisters)?;
        kernel.set_on(device, CARVEOUT, 50)?;
        assert_eq!(kernel.get_on(device, CARVEOUT)?, 50);
        kernel.set_cache_config_on(device, CacheConfig::PreferL1)
    }),
];
