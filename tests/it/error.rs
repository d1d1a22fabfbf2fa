//! Errors: RustaCUDA's names and numbers, and texts that help.

use crate::harness::run;
use custack::context::{CurrentContext, ResourceLimit};
use custack::device::Device;
use custack::error::{CudaError, DriverError};

#[test]
fn rustacudas_variants_have_rustacudas_numbers() {
    use CudaError::*;
    let numbers = [
        (InvalidValue, 1),
        (OutOfMemory, 2),
        (NotInitialized, 3),
        (Deinitialized, 4),
        (ProfilerDisabled, 5),
        (ProfilerNotInitialized, 6),
        (ProfilerAlreadyStarted, 7),
        (ProfilerAlreadyStopped, 8),
        (NoDevice, 100),
        (InvalidDevice, 101),
        (InvalidImage, 200),
        (InvalidContext, 201),
        (ContextAlreadyCurrent, 202),
        (MapFailed, 205),
        (UnmapFailed, 206),
        (ArrayIsMapped, 207),
        (AlreadyMapped, 208),
        (NoBinaryForGpu, 209),
        (AlreadyAcquired, 210),
        (NotMapped, 211),
        (NotMappedAsArray, 212),
        (NotMappedAsPointer, 213),
        (EccUncorrectable, 214),
        (UnsupportedLimit, 215),
        (ContextAlreadyInUse, 216),
        (PeerAccessUnsupported, 217),
        (InvalidPtx, 218),
        (InvalidGraphicsContext, 219),
        (NvlinkUncorrectable, 220),
        (InvalidSouce, 300),
        (FileNotFound, 301),
        (SharedObjectSymbolNotFound, 302),
        (SharedObjectInitFailed, 303),
        (OperatingSystemError, 304),
        (InvalidHandle, 400),
        (NotFound, 500),
        (NotReady, 600),
        (IllegalAddress, 700),
        (LaunchOutOfResources, 701),
        (LaunchTimeout, 702),
        (LaunchIncompatibleTexturing, 703),
        (PeerAccessAlreadyEnabled, 704),
        (PeerAccessNotEnabled, 705),
        (PrimaryContextActive, 708),
        (ContextIsDestroyed, 709),
        (AssertError, 710),
        (TooManyPeers, 711),
        (HostMemoryAlreadyRegistered, 712),
        (HostMemoryNotRegistered, 713),
        (HardwareStackError, 714),
        (IllegalInstruction, 715),
        (MisalignedAddress, 716),
        (InvalidAddressSpace, 717),
        (InvalidProgramCounter, 718),
        (LaunchFailed, 719),
        (NotPermitted, 800),
        (NotSupported, 801),
        (UnknownError, 999),
        (InvalidMemoryAllocation, 100_100),
    ];
    for (error, code) in numbers {
        assert_eq!(error.code(), code, "{error:?}");
        if code < 1000 {
            assert_eq!(CudaError::from_code(code), Some(error));
        }
    }
}

#[test]
fn every_code_survives_the_conversion_to_an_error_and_back() {
    assert_eq!(CudaError::from_code(0), None);
    for code in 1..2000 {
        assert_eq!(CudaError::from_code(code).unwrap().code(), code);
    }
    assert_eq!(CudaError::from_code(u32::MAX), Some(CudaError::Unrecognized(u32::MAX)));
}

#[test]
fn codes_newer_than_rustacuda_have_names_and_unknown_ones_keep_their_number() {
    assert_eq!(CudaError::from_code(34), Some(CudaError::StubLibrary));
    assert_eq!(CudaError::from_code(222), Some(CudaError::UnsupportedPtxVersion));
    assert_eq!(CudaError::from_code(900), Some(CudaError::StreamCaptureUnsupported));
    assert_eq!(CudaError::from_code(4711), Some(CudaError::Unrecognized(4711)));
    assert!(CudaError::Unrecognized(4711).to_string().contains("4711"));
}

#[test]
fn texts_name_the_symbol_and_the_number_without_quotes() {
    run(|| {
        for code in 1..1000 {
            let error = CudaError::from_code(code).unwrap();
            let text = error.to_string();
            assert!(text.contains(&code.to_string()) && !text.contains('"'), "{text}");
            assert!(text.starts_with(char::is_lowercase) || text.starts_with("PTX"), "{text}");
        }
    });
}

#[test]
fn an_error_is_small_and_a_std_error() {
    fn is_error<T: std::error::Error + Copy + Eq + Send + Sync + 'static>() {}
    is_error::<CudaError>();
    assert!(size_of::<CudaError>() <= 32);
    let boxed: Box<dyn std::error::Error> = CudaError::InvalidDevice.into();
    assert!(boxed.to_string().contains("CUDA_ERROR_INVALID_DEVICE"));
}

#[test]
fn an_error_says_what_was_asked() {
    run(|| {
        let error = Device::get_device(99).unwrap_err();
        assert_eq!(error, CudaError::InvalidDevice);
        assert!(error.detail().unwrap().contains("device 99"));
        assert!(error.to_string().contains("device 99"), "{error}");
        assert!(CudaError::OutOfMemory.detail().is_none(), "a note is about one error");
    });
}

#[test]
fn a_note_stays_on_its_thread_and_yields_to_the_next() {
    run(|| {
        let error = Device::get_device(99).unwrap_err();
        std::thread::spawn(move || {
            assert_eq!(error.detail(), None);
            assert!(!error.to_string().contains("99"));
        })
        .join()
        .unwrap();
        CurrentContext::synchronize().unwrap_err();
        assert_eq!(error.detail(), None);
    });
}

#[test]
fn an_error_of_the_driver_names_the_call() {
    run(|| {
        let error = CurrentContext::synchronize().unwrap_err();
        assert_eq!(error, CudaError::InvalidContext);
        assert!(error.to_string().contains("cuCtxSynchronize"), "{error}");
    });
}

#[test]
fn a_failed_limit_names_the_limit_and_the_value() {
    run(|| {
        let ctx = crate::harness::parked();
        let error = ctx.set_limit(ResourceLimit::MaxL2FetchGranularity, 129).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("MaxL2FetchGranularity") && text.contains("129"), "{text}");
    });
}

#[test]
fn a_build_without_the_simulated_driver_says_which_feature_it_lacks() {
    assert!(DriverError::SimulatorNotBuilt.to_string().contains("feature `sim`"));
}

#[test]
fn what_a_failing_main_prints_is_the_sentence() {
    run(|| {
        let error = Device::get_device(99).unwrap_err();
        assert_eq!(format!("{error:?}"), error.to_string());
        assert!(format!("{error:?}").contains("to get device 99; there are"), "{error:?}");
        assert_eq!(
            CudaError::InvalidImage.to_string(),
            "the driver cannot read the module image (CUDA_ERROR_INVALID_IMAGE, 200)"
        );
    });
}

/// What the error means, without its symbol and number, as a thread says that has no note of it.
fn plain(error: CudaError) -> String {
    let text = std::thread::spawn(move || error.to_string()).join().unwrap();
    text.split(" (CUDA_ERROR_").next().unwrap().to_owned()
}

#[test]
fn an_error_of_custack_alone_says_the_operation_first_too() {
    run(|| {
        let _owner = crate::harness::pushed();
        let current = CurrentContext::get_current().unwrap();
        let _guard = current.enter().unwrap();
        let text = custack::context::ContextStack::pop().unwrap_err().to_string();
        assert!(text.starts_with("this thread failed to pop context "), "{text}");
        assert!(text.ends_with(" (a living guard holds the entry of the context stack)"), "{text}");
    });
}

#[test]
fn every_note_completes_the_sentence_and_repeats_nothing() {
    run(|| {
        let dead = crate::harness::parked().get_unowned();
        let errors = [
            dead.synchronize().unwrap_err(),
            Device::get_device(99).unwrap_err(),
            CurrentContext::synchronize().unwrap_err(),
            custack::module::Module::load_from_bytes(&[1]).unwrap_err(),
        ];
        // Each is the last of its kind on this thread, but only the last has its note still.
        assert_eq!(errors.iter().filter(|error| error.detail().is_some()).count(), 1);
        for ask in [
            &|| dead.synchronize() as custack::error::CudaResult<()>,
            &|| CurrentContext::synchronize(),
            &|| Device::get_device(99).map(drop),
        ] as [&dyn Fn() -> custack::error::CudaResult<()>; 3]
        {
            let error = ask().unwrap_err();
            let text = error.to_string();
            let asked = text.strip_prefix("this thread failed to ").unwrap();
            let (asked, meaning) = asked.split_once(" (CUDA_ERROR_").unwrap();
            assert!(!asked.contains("answered") && !asked.contains("destroyed"), "{text}");
            assert!(meaning.ends_with(&format!(", {}: {})", error.code(), plain(error))), "{text}");
        }
    });
}

#[test]
fn the_simulated_driver_says_in_the_error_why_it_refused() {
    if !crate::harness::is_simulated() {
        return crate::harness::skip(
            "the_simulated_driver_says_in_the_error_why_it_refused",
            "the driver is real",
        );
    }
    run(|| {
        let error = CurrentContext::synchronize().unwrap_err();
        assert!(
            error.to_string().starts_with("this thread failed to call cuCtxSynchronize ("),
            "it is in the text already: {error}"
        );
        let ctx = crate::harness::pushed();
        let module = custack::module::Module::load_from_bytes(crate::module::KERNELS.as_bytes()).unwrap();
        let kernel = module.get_function(c"sum").unwrap();
        let attribute = custack::function::SettableAttribute::MaxDynamicSharedSizeBytes;
        assert!(kernel.max_active_blocks_per_multiprocessor(0, 0).is_err());
        let mut kernel = kernel;
        let error = kernel.set(attribute, 1 << 30).unwrap_err();
        let text = "to set MaxDynamicSharedSizeBytes of `sum` to 1073741824: attribute 8 of a function cannot be 1073741824";
        assert!(error.to_string().contains(&format!("failed {text} (CUDA_ERROR_")), "{error}");
        // A failure that is injected has no reason, and gets none of an earlier call.
        custack::driver::instrument::fail(
            Some("cuCtxGetCacheConfig"),
            1,
            1,
            custack::driver::instrument::When::Before,
        );
        let error = ctx.cache_config().unwrap_err();
        assert!(error.to_string().contains("failed to call cuCtxGetCacheConfig ("), "{error}");
    });
}

#[test]
fn destructors_leave_the_note_as_it_is() {
    use custack::driver::instrument::{When, fail};
    use custack::graph::{Graph, InstantiateFlags};
    use custack::library::Library;
    use custack::memory::DeviceBuffer;
    use custack::module::JitOptions;
    use custack::stream::{Stream, StreamFlags};
    run(|| {
        let ctx = crate::harness::pushed();
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
        let buffer = DeviceBuffer::from_slice(&[1u8]).unwrap();
        let (a, b) = (crate::harness::parked(), crate::harness::parked());
        let mut graph = Graph::new(&ctx).unwrap();
        let executable = graph.instantiate(InstantiateFlags::empty()).unwrap();
        let library = Library::load(crate::module::KERNELS.as_bytes(), &JitOptions::new()).unwrap();
        let error = Device::get_device(99).unwrap_err();
        let noted = error.to_string();
        fail(Some("cuStreamDestroy_v2"), 1, 101, When::Before);
        drop(stream);
        fail(Some("cuMemFree_v2"), 1, 719, When::Before);
        drop(buffer);
        for (function, thing) in [
            ("cuGraphExecDestroy", Box::new(executable) as Box<dyn std::any::Any>),
            ("cuGraphDestroy", Box::new(graph)),
            ("cuLibraryUnload", Box::new(library)),
        ] {
            fail(Some(function), 1, 719, When::Before);
            drop(thing);
            assert_eq!(error.to_string(), noted, "{function}");
        }
        fail(Some("cuCtxPopCurrent_v2"), 1, 101, When::After);
        drop(a.enter().unwrap());
        fail(Some("cuCtxDestroy_v2"), 1, 101, When::After);
        drop(b);
        assert_eq!(error.to_string(), noted);
        drop((a, ctx));
        crate::harness::drain();
    });
}
