//! CUDA C++ compiled at run time.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

mod cached;

use crate::harness::{device, pushed, run, skip, times};
use custack::driver::instrument;
use custack::error::CudaError;
use custack::launch;
use custack::library::Library;
use custack::memory::{CopyDestination, DeviceBuffer};
use custack::module::JitOptions;
use custack::nvrtc::{self, Image, NvrtcError, OutputKind, Program};
use custack::stream::{Stream, StreamFlags};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

const TWICE: &str = "
template <typename T> __global__ void twice(T *x, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) x[i] = x[i] + x[i];
}";

/// Whether NVRTC is installed. If not, a long run fetches NVIDIA's Python package once, where there is Python and a network.
pub(crate) fn is_here(test: &str) -> bool {
    crate::harness::start();
    static HERE: OnceLock<Result<(), String>> = OnceLock::new();
    let here = HERE.get_or_init(|| {
        if nvrtc::version().is_ok() {
            return Ok(());
        }
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nvrtc");
        let library = folder.join("nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
        if !library.exists() && times(true, false) {
            return Err("and only a long run fetches it (CUSTACK_TESTS=deep)".to_owned());
        }
        if !library.exists() {
            let mut pip = Command::new("python3");
            pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--retries=0", "--timeout=10"]);
            let installed = pip.arg("--target").arg(&folder).arg("nvidia-cuda-nvrtc-cu12==12.9.86").output();
            let installed = installed.map_err(|error| format!("and python3 does not start: {error}"))?;
            if !installed.status.success() {
                return Err(format!("and cannot be fetched: {}", String::from_utf8_lossy(&installed.stderr)));
            }
        }
        unsafe { nvrtc::load(library) }.map_err(|error| error.to_string())
    });
    if let Err(why) = here {
        skip(test, &format!("NVRTC is not installed, {why}"));
    }
    here.is_ok()
}

pub(crate) fn twice() -> Program {
    Program::new(TWICE).for_device(device()).unwrap().name_expression("twice<float>")
}

#[test]
fn a_program_is_compiled_loaded_and_run() {
    if !is_here("a_program_is_compiled_loaded_and_run") {
        return;
    }
    run(|| {
        let ctx = pushed();
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
        let program = twice().name_expression("twice<unsigned>");
        let compiled = program.compile(OutputKind::Ptx).unwrap();
        let name = compiled.lowered_name("twice<float>").unwrap();
        assert_ne!(Some(name), compiled.lowered_name("twice<unsigned>"));
        assert_eq!(compiled.lowered_name("twice<double>"), None);
        assert!(matches!(compiled.image(), Image::Ptx(_)));
        let module = ctx.load_nvrtc_module(&compiled).unwrap();
        let (with_log, _) = ctx.load_nvrtc_module_with_options(&compiled, &JitOptions::default()).unwrap();
        let library = Library::load_nvrtc(&compiled, &JitOptions::default()).unwrap();
        let kernel = library.kernel(name).unwrap();
        let mut there = DeviceBuffer::from_slice(&[1.5f32; 100]).unwrap();
        let functions = [
            module.get_function(name).unwrap(),
            with_log.get_function(name).unwrap(),
            kernel.function_in(&ctx).unwrap(),
        ];
        for function in &functions {
            let x = there.as_device_ptr();
            unsafe { launch!(function<<<1, 128, 0, stream>>>(x, 100u32)) }.unwrap();
        }
        stream.synchronize().unwrap();
        let mut back = [0.0; 100];
        there.copy_to(&mut back).unwrap();
        assert_eq!(back, [12.0; 100]);
    });
}

#[test]
fn headers_are_included_by_their_names() {
    if !is_here("headers_are_included_by_their_names") {
        return;
    }
    let program = Program::new("#include \"by.h\"\n__global__ void add(int *x) { *x += BY; }");
    let missing = program.clone().compile(OutputKind::Ptx).unwrap_err();
    assert!(matches!(&missing, NvrtcError::Compilation { log } if log.contains("by.h")), "{missing}");
    let compiled = program.header("by.h", "#define BY 17").compile(OutputKind::Ptx).unwrap();
    assert!(String::from_utf8_lossy(compiled.image().as_bytes()).contains("17"));
}

#[test]
fn errors_say_where_in_the_program_they_are() {
    if !is_here("errors_say_where_in_the_program_they_are") {
        return;
    }
    let wrong = Program::new("__global__ void wrong() {\n    undeclared = 1;\n}").name("wrong.cu");
    let error = wrong.compile(OutputKind::Ptx).unwrap_err().to_string();
    assert!(error.contains("wrong.cu(2): error: identifier \"undeclared\" is undefined"), "{error}");
    let warned = Program::new("__global__ void warned() { int unused; }").compile(OutputKind::Ptx).unwrap();
    assert!(warned.log().contains("was declared but never referenced"), "{}", warned.log());
}

#[test]
fn bad_input_is_refused_by_name() {
    if !is_here("bad_input_is_refused_by_name") {
        return;
    }
    let program = || Program::new(TWICE);
    let kinds = [
        (program().option("--no-such-option"), "--no-such-option"),
        (program().name_expression("thrice<float>"), "the name expression \"thrice<float>\" names no kernel"),
        (program().option("a\0b"), "an option contains a zero byte"),
        (program().header("a\0b", ""), "the name of a header contains a zero byte"),
        (program().header("b", "\0"), "a header contains a zero byte"),
        (program().name("\0"), "the name contains a zero byte"),
        (program().name_expression("\0"), "a name expression contains a zero byte"),
        (Program::new("\0"), "the source contains a zero byte"),
    ];
    for (program, text) in kinds {
        let error = program.compile(OutputKind::Ptx).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[test]
fn each_kind_of_image_is_made_with_its_options_and_the_driver_loads_two_of_them() {
    if !is_here("each_kind_of_image_is_made_with_its_options_and_the_driver_loads_two_of_them") {
        return;
    }
    run(|| {
        let ctx = pushed();
        let plain = || Program::new("__global__ void empty() {}").option("--gpu-architecture=compute_90");
        let machine = Program::new("__global__ void empty() {}").option("--gpu-architecture=sm_90");
        assert!(machine.compile(OutputKind::Cubin).unwrap().image().as_bytes().starts_with(b"\x7fELF"));
        let linkable = plain().option("-dlto").compile(OutputKind::LtoIr).unwrap();
        let optix = plain().option("--optix-ir").compile(OutputKind::OptixIr).unwrap();
        for compiled in [linkable, optix] {
            assert!(!compiled.image().as_bytes().is_empty());
            let (refused, calls) = instrument::during(|| ctx.load_nvrtc_module(&compiled).map(drop));
            assert_eq!((refused, calls.total()), (Err(CudaError::InvalidValue), 0), "{calls}");
            let refused = Library::load_nvrtc(&compiled, &JitOptions::default()).map(drop);
            assert_eq!(refused, Err(CudaError::InvalidValue));
        }
        for (kind, option) in [
            (OutputKind::Cubin, "--gpu-architecture=sm_"),
            (OutputKind::LtoIr, "-dlto"),
            (OutputKind::OptixIr, "--optix-ir"),
        ] {
            let error = plain().compile(kind).unwrap_err();
            assert!(matches!(error, NvrtcError::NoImage { .. }), "{error:?}");
            assert!(error.to_string().contains(option), "{error}");
        }
    });
}

#[test]
fn an_image_that_the_options_do_not_give_is_an_error() {
    if !is_here("an_image_that_the_options_do_not_give_is_an_error") {
        return;
    }
    let error = twice().option("-dlto").compile(OutputKind::Ptx).unwrap_err();
    assert_eq!(error, NvrtcError::NoImage { what: "PTX; with the option -dlto there is LTO IR only" });
}

#[test]
fn deeply_nested_programs_do_not_end_the_process() {
    if !is_here("deeply_nested_programs_do_not_end_the_process") {
        return;
    }
    let nested =
        format!("__global__ void k(int *x) {{ *x = {}1{}; }}", "(".repeat(20_000), ")".repeat(20_000));
    let small = std::thread::Builder::new().stack_size(128 << 10);
    let compiled = small.spawn(move || Program::new(nested).compile(OutputKind::Ptx).is_ok()).unwrap();
    assert!(compiled.join().unwrap());
}

#[test]
fn an_error_from_main_is_readable() {
    let error = NvrtcError::Compilation { log: "a.cu(1): error: x\n".to_owned() };
    assert_eq!(format!("{error:?}"), "the program does not compile:\na.cu(1): error: x");
    let unknown = NvrtcError::UnknownDevice { device: 70, known: vec![75, 80] };
    assert_eq!(unknown.to_string(), "the device is of sm_70, and this NVRTC compiles for [75, 80]");
}

#[test]
fn threads_compile_at_once() {
    if !is_here("threads_compile_at_once") {
        return;
    }
    std::thread::scope(|scope| {
        for number in 0..4 {
            scope.spawn(move || {
                let source = format!("__global__ void add(int *x) {{ *x += {}; }}", 1000 + number);
                let compiled = Program::new(source).compile(OutputKind::Ptx).unwrap();
                let text = String::from_utf8_lossy(compiled.image().as_bytes()).into_owned();
                assert!(text.contains(&(1000 + number).to_string()), "{text}");
            });
        }
    });
}

#[test]
fn a_library_that_is_missing_or_another_is_named() {
    let error = unsafe { nvrtc::load("/no/such/libnvrtc.so") }.unwrap_err();
    assert!(matches!(&error, NvrtcError::NotFound { tried } if tried.len() == 1));
    let text = error.to_string();
    assert!(text.contains("/no/such/libnvrtc.so (") && text.contains("CUSTACK_LIBNVRTC"), "{text}");
    if cfg!(target_os = "linux") {
        let error = unsafe { nvrtc::load("libm.so.6") }.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("libm.so.6 is no NVRTC, or too old: it has no nvrtcVersion"), "{text}");
    }
}

#[test]
fn the_compiler_tells_its_version_and_where_it_is() {
    if !is_here("the_compiler_tells_its_version_and_where_it_is") {
        return;
    }
    assert!(nvrtc::version().unwrap() >= (11, 2));
    assert!(nvrtc::library().unwrap().contains("nvrtc"));
    assert!(nvrtc::architectures().unwrap().contains(&90));
}
