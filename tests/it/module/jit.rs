//! Loading with options, what the compiler tells, and what a module lists.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::KERNELS;
use crate::harness::{is_simulated, parked, pushed, run, skip};
use custack::context::CurrentContext;
use custack::driver::instrument;
use custack::error::CudaError;
use custack::function::FunctionAttribute;
use custack::library::Library;
use custack::module::{CacheMode, Fallback, JitError, JitOptions, LinkInput, Linker, LoadingMode, Module};
use std::collections::BTreeSet;

/// A kernel that no other test has, so that the driver has no machine code of it in its cache.
fn fresh(body: &str) -> String {
    format!(
        ".version 7.0 .target sm_70 .address_size 64\n.visible .entry made_{}_{:?}() {{\n{body}\nret;\n}}\n",
        std::process::id(),
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos()
    )
}

#[test]
fn a_text_of_any_length_has_debug_information_and_lines() {
    run(|| {
        let _ctx = pushed();
        for length in 0..16 {
            for options in [JitOptions::new().debug_info(true), JitOptions::new().line_info(true)] {
                let text = fresh("") + &" ".repeat(length);
                Module::load_with_options(text.as_bytes(), &options).unwrap();
                Library::load(text.as_bytes(), &options).unwrap().kernel_count().unwrap();
                let mut linker = Linker::new(&options).unwrap();
                linker.add(LinkInput::Ptx, text.as_bytes(), c"text").unwrap();
                linker.complete().unwrap();
            }
        }
    });
}

#[test]
fn options_are_given_by_value_and_the_log_comes_back() {
    run(|| {
        let _ctx = pushed();
        let options = JitOptions::new()
            .max_registers(32)
            .optimization_level(3)
            .line_info(true)
            .cache_mode(CacheMode::Default)
            .fallback(Fallback::PreferPtx);
        let (module, log) = Module::load_with_options(KERNELS.as_bytes(), &options).unwrap();
        let registers = module.get_function(c"saxpy").unwrap().get_attribute(FunctionAttribute::NumRegisters);
        assert!(registers.unwrap() <= 32);
        assert_eq!((log.threads_per_block, log.target, &*log.error), (None, None, ""));
        let options = JitOptions::new().threads_per_block(128);
        let (_module, log) = Module::load_with_options(KERNELS.as_bytes(), &options).unwrap();
        assert_eq!(log.threads_per_block, Some(128));
        let (_module, log) =
            Module::load_with_options(fresh("").as_bytes(), &JitOptions::new().verbose(true)).unwrap();
        assert!(log.info.contains("Compiling entry function 'made_"), "{log:?}");
        assert!(!log.wall_time.is_zero(), "{log:?}");
        let (_module, log) = Module::load_with_options(fresh("").as_bytes(), &JitOptions::new()).unwrap();
        assert_eq!((&*log.info, &*log.error), ("", ""));
        let small = JitOptions::new().verbose(true).log_bytes(16);
        let (_module, log) = Module::load_with_options(fresh("").as_bytes(), &small).unwrap();
        assert_eq!(log.info, "ptxas info    :");
    });
}

#[test]
fn a_target_is_read_back() {
    run(|| {
        let ctx = pushed();
        let major = |attribute| ctx.get_unowned().device().unwrap().get_attribute(attribute).unwrap();
        let target = 10 * major(custack::device::DeviceAttribute::ComputeCapabilityMajor)
            + major(custack::device::DeviceAttribute::ComputeCapabilityMinor);
        let options = JitOptions::new().target(target.unsigned_abs());
        let (_module, log) = Module::load_with_options(KERNELS.as_bytes(), &options).unwrap();
        assert_eq!(log.target, Some(target.unsigned_abs()));
    });
}

#[test]
fn what_does_not_compile_has_its_whole_log_in_the_error() {
    run(|| {
        let _ctx = pushed();
        let wrong = fresh("mov.u32 %r1, 2;\nbra nowhere;");
        let refused: JitError = Module::load_with_options(wrong.as_bytes(), &JitOptions::new()).unwrap_err();
        assert_eq!(refused.error, CudaError::InvalidPtx);
        assert!(
            refused.log.error.contains("line 3") && refused.to_string().contains("line 3"),
            "{refused:?}"
        );
        let source = std::error::Error::source(&refused).unwrap().to_string();
        assert_eq!(source, refused.to_string());
        let garbage = Module::load_with_options(b"hello", &JitOptions::new()).unwrap_err();
        assert_eq!(garbage.error, CudaError::InvalidImage);
        let refused = Module::load_with_options(&[1, 2, 3], &JitOptions::new()).unwrap_err();
        assert_eq!((refused.error, refused.log.error), (CudaError::InvalidImage, String::new()));
    });
}

#[test]
fn options_that_cannot_be_are_refused_before_the_driver_divides_by_them() {
    run(|| {
        let _ctx = pushed();
        let load = |options: &JitOptions| Module::load_with_options(KERNELS.as_bytes(), options).map(|_| ());
        let new = JitOptions::new;
        let impossible = [0, 1025, 65536, 1 << 31, u32::MAX].into_iter().flat_map(|threads| {
            [new().threads_per_block(threads), new().max_threads_per_block(threads).override_directives(true)]
        });
        let others = [
            new().min_blocks_per_multiprocessor(0),
            new().min_blocks_per_multiprocessor(65),
            new().optimization_level(5),
        ];
        for options in impossible.chain(others) {
            let (refused, calls) = instrument::during(|| load(&options));
            let refused = refused.unwrap_err();
            assert_eq!((refused.error, calls.total()), (CudaError::InvalidValue, 0), "{options:?}");
            assert!(refused.to_string().contains("to compile for "), "{refused}");
            let linker = Linker::new(&options).map(|_| ());
            let library = Library::load(KERNELS.as_bytes(), &options).map(|_| ());
            assert_eq!((linker, library), (Err(CudaError::InvalidValue), Err(CudaError::InvalidValue)));
        }
        let refused = load(&new().max_registers(0)).unwrap_err();
        assert_eq!(refused.error, CudaError::InvalidValue);
        // The last of two counts.
        load(&new().max_registers(0).max_registers(64)).unwrap();
        load(&new().max_threads_per_block(0).max_threads_per_block(1024).override_directives(true)).unwrap();
        assert_eq!(new().debug_info(true).debug_info(false).verbose(false), new());
    });
}

#[test]
fn what_is_vouched_for_is_loaded_unchecked() {
    run(|| {
        let _ctx = pushed();
        let (module, log) =
            unsafe { Module::load_unchecked(KERNELS.as_bytes(), &JitOptions::new()) }.unwrap();
        assert!(module.get_function(c"saxpy").is_ok() && log.error.is_empty());
        let library = unsafe { Library::load_unchecked(KERNELS.as_bytes(), &JitOptions::new()) }.unwrap().0;
        assert!(library.kernel(c"saxpy").is_ok());
        // It is the driver that says what is no image.
        let (unknown, calls) =
            instrument::during(|| unsafe { Module::load_unchecked(b"no image", &JitOptions::new()) });
        assert_eq!(unknown.unwrap_err().error, CudaError::InvalidImage);
        assert_eq!(calls.of("cuModuleLoadDataEx"), 1);
    });
}

#[test]
fn a_module_is_loaded_with_options_into_a_context_that_is_not_current() {
    run(|| {
        let context = parked();
        let (module, _log) =
            context.load_module_with_options(KERNELS.as_bytes(), &JitOptions::new()).unwrap();
        assert_eq!(module.context(), &context.get_unowned());
        assert!(CurrentContext::get_current().unwrap().is_null());
        let handle = context.get_unowned();
        drop(context);
        let gone = handle.load_module_with_options(KERNELS.as_bytes(), &JitOptions::new()).unwrap_err();
        assert_eq!(gone.error, CudaError::ContextIsDestroyed);
    });
}

#[test]
fn a_module_lists_its_kernels() {
    run(|| {
        let _ctx = pushed();
        let module = super::module();
        let functions = module.functions().unwrap();
        assert_eq!(module.function_count(), Ok(functions.len() as u32));
        let names: BTreeSet<_> = functions.iter().map(|function| function.name().unwrap()).collect();
        assert!(names.len() == functions.len() && names.contains(c"saxpy") && names.contains(c"reduce"));
        let saxpy = module.get_function(c"saxpy").unwrap();
        assert_eq!(saxpy.parameters(), Ok(Some(vec![0..4, 8..16, 16..24, 24..28])));
        assert_eq!(saxpy.as_raw_module(), Ok(module.as_raw()));
        assert!(saxpy.kernel().is_none());
        saxpy.load().unwrap();
        assert_eq!(saxpy.is_loaded(), Ok(true));
    });
}

#[test]
fn the_driver_tells_when_it_loads() {
    run(|| {
        let mode = LoadingMode::of_driver().unwrap();
        if is_simulated() {
            assert_eq!(mode, LoadingMode::Lazy);
        } else {
            skip("the_driver_tells_when_it_loads", "the environment decides on a GPU; the call was made");
        }
    });
}
