//! Errors: RustaCUDA's names and numbers, and texts that help.

use crate::harness::{run, said};
use custack::context::{CurrentContext, ResourceLimit};
use custack::device::Device;
use custack::error::{CudaError, DriverError, Failure};
use std::error::Error;

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
fn a_failure_says_what_was_asked_and_travels() {
    fn travels<T: std::error::Error + Clone + Eq + Send + Sync + 'static>() {}
    travels::<Failure>();
    run(|| {
        let worker = std::thread::spawn(|| Ok::<_, Failure>(Device::get_device(99)?));
        let failure = worker.join().unwrap().unwrap_err();
        assert!(failure.asked().unwrap().starts_with("to get device 99; there are"), "{failure}");
        assert!(failure.to_string().starts_with("failed to get device 99; there are"), "{failure}");
        assert!(
            failure.to_string().ends_with(&format!(
                " (CUDA_ERROR_INVALID_DEVICE, 101: {})",
                plain(CudaError::InvalidDevice)
            )),
            "{failure}"
        );
        assert_eq!(format!("{failure:?}"), failure.to_string());
        assert_eq!(failure.error(), CudaError::InvalidDevice);
        let boxed: Box<dyn Error + Send + Sync> = failure.into();
        assert_eq!(boxed.source().unwrap().downcast_ref(), Some(&CudaError::InvalidDevice));
        assert_eq!(CudaError::InvalidDevice.failure().asked(), None, "this thread has had no such error");
        assert_eq!(CudaError::OutOfMemory.failure().to_string(), CudaError::OutOfMemory.to_string());
    });
}

#[test]
fn an_error_shows_no_failures_text() {
    run(|| {
        let meaning = CudaError::InvalidDevice.to_string();
        let error = Device::get_device(99).unwrap_err();
        let boxed: Box<dyn Error> = error.into();
        Device::get_device(77).unwrap_err();
        assert_eq!((error.to_string(), boxed.to_string()), (meaning.clone(), meaning));
        assert!(boxed.source().is_none());
    });
}

#[test]
fn failures_that_are_made_at_once_have_their_own_texts_and_one_that_is_made_late_claims_none() {
    run(|| {
        let get = |ordinal| Device::get_device(ordinal).map_err(Failure::from).unwrap_err();
        let (one, other, limit) = (get(97), CurrentContext::synchronize().unwrap_err(), get(98));
        assert!(one.to_string().contains("device 97") && limit.to_string().contains("device 98"));
        // Of another error there was one failure, so it is that.
        assert_eq!(other.failure().asked(), Some("to call cuCtxSynchronize"));
        let kept = Device::get_device(99).unwrap_err();
        let last = Device::get_device(100).unwrap_err();
        for error in [kept, last, kept] {
            let failure = error.failure();
            assert_eq!(failure.asked(), None, "it may be that of the other");
            let text = failure.to_string();
            let (meaning, of_last) = text.split_once("; the last of several such failures: ").unwrap();
            assert_eq!(meaning, error.to_string());
            assert!(of_last.starts_with("to get device 100; there are"), "{of_last}");
        }
        assert!(one.to_string().contains("device 97"), "what a failure says stays");
    });
}

#[cfg(feature = "future")]
#[test]
fn a_future_hands_over_what_was_asked() {
    if !crate::harness::is_simulated() {
        return crate::harness::skip(
            "a_future_hands_over_what_was_asked",
            "the error would stay with the process",
        );
    }
    use custack::driver::instrument::{When, fail};
    run(|| {
        let _ctx = crate::harness::pushed();
        let stream = crate::future::stream();
        fail(Some("cuEventQuery"), 1, 999, When::Before);
        let error = stream.completion().unwrap().wait().unwrap_err();
        assert_eq!(error.failure().asked(), Some("to await work"), "one failure, of which it is noted once");
    });
}

#[test]
fn a_scope_returns_the_error_of_its_closure_with_its_text_whatever_its_end_meets() {
    use custack::driver::instrument::{When, fail_times};
    run(|| {
        let ctx = crate::harness::parked();
        let failed = ctx.scoped(|_| {
            let error = Device::get_device(99).unwrap_err();
            // What the scope's end does fails, and so does what a destructor in it does.
            fail_times(None, 1, 3, 101, When::Before);
            Err::<(), _>(error)
        });
        custack::driver::instrument::disarm();
        let failure = failed.unwrap_err().failure();
        assert!(failure.asked().unwrap().starts_with("to get device 99"), "{failure}");
        crate::harness::drain();
    });
}

#[test]
fn an_error_of_the_driver_names_the_call() {
    run(|| {
        let error = CurrentContext::synchronize().unwrap_err();
        assert_eq!(error, CudaError::InvalidContext);
        assert!(said(error).contains("cuCtxSynchronize"), "{error:?}");
    });
}

#[test]
fn a_failed_limit_names_the_limit_and_the_value() {
    run(|| {
        let ctx = crate::harness::parked();
        let error = ctx.set_limit(ResourceLimit::MaxL2FetchGranularity, 129).unwrap_err();
        let text = said(error);
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
        let said = format!("{error}; this thread's last such failure: to get device 99; there are");
        assert!(format!("{error:?}").starts_with(&said), "{error:?}");
        assert_eq!(
            CudaError::InvalidImage.to_string(),
            "the driver cannot read the module image (CUDA_ERROR_INVALID_IMAGE, 200)"
        );
    });
}

/// What the error means, without its symbol and number.
fn plain(error: CudaError) -> String {
    error.to_string().split(" (CUDA_ERROR_").next().unwrap().to_owned()
}

#[test]
fn an_error_of_custack_alone_says_the_operation_first_too() {
    run(|| {
        let _owner = crate::harness::pushed();
        let current = CurrentContext::get_current().unwrap();
        let _guard = current.enter().unwrap();
        let text = said(custack::context::ContextStack::pop().unwrap_err());
        assert!(text.starts_with("failed to pop context "), "{text}");
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
        for error in errors {
            let text = said(error);
            let asked = text.strip_prefix("failed to ").expect("each is the only one of its kind");
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
            said(error).starts_with("failed to call cuCtxSynchronize ("),
            "it is in the text already: {error:?}"
        );
        let ctx = crate::harness::pushed();
        let module = custack::module::Module::load_from_bytes(crate::module::KERNELS.as_bytes()).unwrap();
        let kernel = module.get_function(c"sum").unwrap();
        let attribute = custack::function::SettableAttribute::MaxDynamicSharedSizeBytes;
        assert!(kernel.max_active_blocks_per_multiprocessor(0, 0).is_err());
        let mut kernel = kernel;
        let error = kernel.set(attribute, 1 << 30).unwrap_err();
        let text = "to set MaxDynamicSharedSizeBytes of `sum` to 1073741824: attribute 8 of a function cannot be 1073741824";
        assert!(said(error).contains(text), "{error:?}");
        // A failure that is injected has no reason, and gets none of an earlier call.
        custack::driver::instrument::fail(
            Some("cuCtxGetCacheConfig"),
            1,
            1,
            custack::driver::instrument::When::Before,
        );
        let error = ctx.cache_config().unwrap_err();
        assert!(said(error).ends_with("to call cuCtxGetCacheConfig"), "{error:?}");
    });
}

#[cfg(all(feature = "graph", feature = "library"))]
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
        let noted = said(error);
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
            assert_eq!(said(error), noted, "{function}");
        }
        fail(Some("cuCtxPopCurrent_v2"), 1, 101, When::After);
        drop(a.enter().unwrap());
        fail(Some("cuCtxDestroy_v2"), 1, 101, When::After);
        drop(b);
        assert_eq!(said(error), noted);
        drop((a, ctx));
        crate::harness::drain();
    });
}
