//! Tests that need a process of their own: the selection of a driver, and what crashes on purpose.
//!
//! A test here starts this binary again with one scenario of `in_a_process_of_its_own`, and reads its output.

// One scenario takes a system call away.
#![allow(unsafe_code)]

use crate::harness::{OnReport, is_simulated, run, skip};
use custack::context::{
    Context, ContextFlags, ContextStack, CurrentContext, PrimaryContext, wait_until_retired,
};
use custack::device::Device;
use custack::driver::instrument::{self, When};
use custack::driver::{self, Choice};
use custack::error::{CudaError, DriverError};
use custack::memory::{DeviceBuffer, DevicePointer};
use custack::sim;
use custack::stream::{Stream, StreamFlags};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// Runs a scenario with these environment variables; returns its exit status and output.
pub(crate) fn child(scenario: &str, variables: &[(&str, &str)]) -> (ExitStatus, String) {
    let mut command = command(scenario);
    if variables.contains(&("CUSTACK_DRIVER", "sim")) {
        // What hides GPUs would hide simulated devices too.
        command.env_remove("CUDA_VISIBLE_DEVICES");
    }
    run_child(command.envs(variables.iter().copied()))
}

/// Like [`child`], with one variable that need not be text.
pub(crate) fn child_with(scenario: &str, variable: &str, value: &OsStr) -> (ExitStatus, String) {
    run_child(command(scenario).env(variable, value))
}

/// Like [`child`], with this as its standard input.
#[cfg(unix)]
pub(crate) fn child_with_input(
    scenario: &str,
    input: std::os::fd::OwnedFd,
    variables: &[(&str, &str)],
) -> (ExitStatus, String) {
    run_child(command(scenario).stdin(std::process::Stdio::from(input)).envs(variables.iter().copied()))
}

pub(crate) fn command(scenario: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--ignored",
            "--exact",
            "driver::process::in_a_process_of_its_own",
            "--nocapture",
            "--test-threads=1",
        ])
        .env("CUSTACK_TEST_SCENARIO", scenario)
        .env_remove("CUSTACK_LIBCUDA");
    command
}

pub(crate) fn run_child(command: &mut Command) -> (ExitStatus, String) {
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (output.status, text.concat())
}

#[track_caller]
pub(crate) fn child_succeeds(scenario: &str, variables: &[(&str, &str)]) -> String {
    let (status, text) = child(scenario, variables);
    assert!(status.success() && text.contains("scenario done"), "{scenario}: {text}");
    text
}

#[test]
#[ignore = "started by the other tests of this file, each time in a process of its own"]
fn in_a_process_of_its_own() {
    match std::env::var("CUSTACK_TEST_SCENARIO").as_deref() {
        #[cfg(feature = "texture")]
        Ok("a trap beyond a surface") => crate::texture::surface::traps(),
        Ok("say why") => say_why(),
        Ok("which driver") => println!("driver: {}", driver::current().unwrap()),
        Ok("not initialised") => not_initialised(),
        Ok("choose twice") => choose_twice(),
        Ok("devices") => println!("devices: {:?}", Device::num_devices().err().or(count_devices().err())),
        Ok("owner gone") => owner_gone(),
        Ok("no device") => no_device(),
        #[cfg(feature = "processes")]
        Ok("links") => crate::device::peers::cut_links(),
        #[cfg(feature = "processes")]
        Ok("kernel at a peer") => crate::device::peers::kernel_at_a_peer(),
        Ok("visible") => crate::device::identity::print_devices(),
        Ok("instance") => crate::device::identity::instance(),
        Ok("no thread starts") => no_thread_starts(),
        Ok("fork") => crate::driver::fork::scenario(),
        #[cfg(all(feature = "future", feature = "graph", feature = "library"))]
        Ok("fork while threads are busy") => crate::driver::fork_busy::scenario(),
        #[cfg(all(feature = "future", feature = "graph", feature = "library"))]
        Ok("fork within") => crate::driver::fork_busy::within(),
        Ok("fork before the first use") => crate::driver::fork::before_the_first_use(),
        Ok("no concurrent access") => crate::memory::unified::without_concurrent_access(),
        Ok("access beside a kernel") => crate::memory::unified::access_beside_a_kernel(),
        #[cfg(all(
            feature = "future",
            feature = "graph",
            feature = "green",
            feature = "nvrtc",
            feature = "processes",
            feature = "texture"
        ))]
        Ok("spent") => crate::claims::spent::scenario(),
        #[cfg(all(feature = "library", feature = "pool", feature = "processes", feature = "texture"))]
        Ok("wild addresses") => crate::driver::wild_addresses::scenario(),
        Ok("strange driver") => crate::driver::strange_driver::scenario(),
        Ok("failing kernel") => crate::function::launch::failing_kernel(),
        Ok("host functions in error") => crate::stream::host_function::in_error(),
        #[cfg(all(
            feature = "graph",
            feature = "green",
            feature = "library",
            feature = "pool",
            feature = "texture",
            feature = "tracing"
        ))]
        Ok("a capture in error") => crate::stream::capture::lost::in_error(),
        #[cfg(feature = "future")]
        Ok("completion in a report") => crate::future::edges::in_a_report(),
        #[cfg(feature = "future")]
        Ok("completion in error") => crate::future::lost::in_error(),
        #[cfg(feature = "future")]
        Ok("one context in error") => crate::future::contexts::one_in_error(),
        Ok("scope in error") => crate::stream::scope::in_error(),
        #[cfg(all(
            feature = "future",
            feature = "graph",
            feature = "green",
            feature = "nvrtc",
            feature = "processes",
            feature = "texture"
        ))]
        Ok("event of another process") => crate::event::interprocess::open(),
        #[cfg(all(
            feature = "future",
            feature = "graph",
            feature = "green",
            feature = "nvrtc",
            feature = "processes",
            feature = "texture"
        ))]
        Ok("memory of another process") => crate::memory::interprocess::open(),
        #[cfg(all(
            feature = "future",
            feature = "graph",
            feature = "green",
            feature = "nvrtc",
            feature = "processes",
            feature = "texture"
        ))]
        Ok("sizes beyond all addresses") => crate::memory::mapping::sizes_beyond_all_addresses(),
        #[cfg(unix)]
        #[cfg(all(
            feature = "future",
            feature = "graph",
            feature = "green",
            feature = "nvrtc",
            feature = "processes",
            feature = "texture"
        ))]
        Ok("pool of another process") => crate::memory::shared_pools::open(),
        Ok("sandboxed") => sandboxed(),
        Ok("fixed after a failure") => fixed_after_a_failure(),
        Ok("waits in a report") => waits_in_a_report(),
        Ok("what is tried") => what_is_tried(),
        Ok("all threads") => all_threads(),
        other => panic!("no such scenario: {other:?}"),
    }
    println!("scenario done");
}

fn count_devices() -> Result<u32, CudaError> {
    custack::init(custack::CudaFlags::empty())?;
    let count = Device::num_devices()?;
    println!("count: {count}");
    Ok(count)
}

/// Prints the error of a program's first call, as `main` and a log would.
fn say_why() {
    let error = custack::init(custack::CudaFlags::empty()).unwrap_err();
    println!("debug: {error:?}\ndisplay: {error}\ncode: {}", error.code());
    assert!(matches!(error, CudaError::NoDriver(_)));
    assert_eq!(custack::quick_init().err(), Some(error), "the same again, not another");
    assert!(driver::current().is_err());
}

fn not_initialised() {
    let expected = Some(CudaError::NotInitialized);
    assert_eq!(Device::num_devices().err(), expected);
    assert_eq!(Device::get_device(0).err(), expected);
    assert_eq!(CurrentContext::get_current().err(), expected);
    assert_eq!(CurrentContext::synchronize().err(), expected);
    assert_eq!(ContextStack::pop().err(), expected);
    assert!(custack::CudaApiVersion::get().is_ok());
    assert!(driver::current().unwrap().version().is_ok());
    custack::init(custack::CudaFlags::empty()).unwrap();
    assert!(Device::num_devices().is_ok());
}

fn choose_twice() {
    driver::choose(Choice::Sim).unwrap();
    driver::choose(Choice::Sim).unwrap();
    driver::choose(Choice::Auto).unwrap();
    let error = driver::choose(Choice::Cuda).unwrap_err();
    assert!(matches!(error, DriverError::AlreadyRunning { .. }));
    println!("{error}");
}

fn fixed_after_a_failure() {
    assert!(matches!(driver::current(), Err(DriverError::LibraryNotFound { .. })));
    assert!(driver::choose(Choice::Sim).unwrap().is_simulated());
    assert_eq!(custack::init(custack::CudaFlags::empty()), Ok(()));
}

/// The instrument layer counts the calls of the driver that is selected in the end.
fn no_device() {
    instrument::enable();
    let driver = driver::current().unwrap();
    let (result, calls) = instrument::during(|| custack::init(custack::CudaFlags::empty()));
    println!("{driver}: {result:?} by {calls}");
    if driver.is_simulated() {
        let ctx = custack::quick_init().unwrap();
        assert_eq!((instrument::contexts_alive(), sim::contexts_alive()), (1, 1));
        drop(ctx);
        assert_eq!((instrument::contexts_alive(), sim::contexts_alive()), (0, 0));
    }
}

/// A safe program that would crash if handles were raw pointers.
fn owner_gone() {
    custack::init(custack::CudaFlags::empty()).unwrap();
    let device = Device::get_device(0).unwrap();
    let use_it = |handle: &custack::context::UnownedContext| {
        let gone = Some(CudaError::ContextIsDestroyed);
        assert_eq!(ContextStack::push(handle).err(), gone);
        assert_eq!(CurrentContext::set_current(handle).err(), gone);
        assert_eq!(handle.enter().err(), gone);
        assert_eq!(handle.synchronize().err(), gone);
        assert_eq!(handle.get_api_version().err(), gone);
        assert_eq!(handle.flags().err(), gone);
        assert_eq!(handle.set_flags(ContextFlags::SCHED_AUTO).err(), gone);
        assert!(CurrentContext::get_current().unwrap().is_null());
        assert_eq!(ContextStack::pop().err(), Some(CudaError::InvalidContext));
    };
    for _ in 0..3 {
        let owner = Context::create_and_push(ContextFlags::SCHED_AUTO, device).unwrap();
        let handle = owner.get_unowned();
        drop(owner);
        use_it(&handle);
        std::thread::spawn(move || use_it(&handle)).join().unwrap();

        let primary = PrimaryContext::retain(device).unwrap();
        let handle = primary.get_unowned();
        drop(primary);
        use_it(&handle);
        std::thread::spawn(move || use_it(&handle)).join().unwrap();
    }
    println!("every call was refused");
}

#[test]
fn a_handle_whose_owner_is_gone_returns_an_error_and_does_not_crash() {
    run(|| {
        let name = if is_simulated() { "sim" } else { "cuda" };
        let text = child_succeeds("owner gone", &[("CUSTACK_DRIVER", name)]);
        assert!(text.contains("every call was refused"), "{text}");
    });
}

#[test]
fn a_missing_library_says_what_was_tried_and_what_to_do() {
    let text =
        child_succeeds("say why", &[("CUSTACK_DRIVER", "cuda"), ("CUSTACK_LIBCUDA", "/no/such/libcuda.so")]);
    for part in ["/no/such/libcuda.so", "Install the NVIDIA driver", "CUSTACK_DRIVER=sim", "code: 100201"] {
        assert!(text.contains(part), "{part} is missing in: {text}");
    }
    // Once from `main`, once from a log.
    assert_eq!(text.matches("Install the NVIDIA driver").count(), 2, "{text}");
}

/// Prints each library that was opened in vain.
fn what_is_tried() {
    match driver::choose(Choice::Cuda) {
        Ok(driver) => println!("found: {driver}"),
        Err(DriverError::LibraryNotFound { tried }) => {
            let said = DriverError::LibraryNotFound { tried: tried.clone() }.to_string();
            for attempt in &tried {
                assert!(said.contains(&format!("tried {} ({})", attempt.library, attempt.reason)), "{said}");
            }
            println!("tried: {:?}", tried.iter().map(|attempt| &attempt.library).collect::<Vec<_>>());
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
#[cfg(target_os = "linux")]
fn every_library_that_was_tried_is_named_with_its_reason() {
    let text = child_succeeds("what is tried", &[]);
    if text.contains("found: ") {
        return skip("every_library_that_was_tried_is_named_with_its_reason", "there is a driver");
    }
    assert!(text.contains("tried: [\"libcuda.so.1\", \"libcuda.so\"]"), "{text}");
}

/// The binary of this example. None if it is not built, or older than its source: `cargo test` builds the examples, and
/// `cargo test --test it` does not.
pub(crate) fn example(name: &str) -> Option<PathBuf> {
    let binary = std::env::current_exe().unwrap();
    let built = binary.ancestors().nth(2).unwrap().join("examples");
    let built = built.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(format!("{name}.rs"));
    let changed = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    (changed(&built)? >= changed(&source)?).then_some(built)
}

/// Runs every example with these variables; gives its name, its end, and all that it printed. None if they are not built.
fn examples(variables: &[(&str, &str)]) -> Option<Vec<(String, ExitStatus, String)>> {
    let sources = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")).ok()?;
    let sources = sources.map(|entry| entry.unwrap().path());
    sources
        .filter(|source| source.extension() == Some("rs".as_ref()))
        .map(|source| {
            let name = source.file_stem().unwrap().to_str().unwrap().to_owned();
            let mut command = Command::new(example(&name)?);
            // What hides GPUs would hide simulated devices too.
            command.env_remove("CUDA_VISIBLE_DEVICES");
            let (status, text) = run_child(command.envs(variables.iter().copied()));
            Some((name, status, text))
        })
        .collect()
}

#[test]
fn every_example_returns_the_error_when_there_is_no_driver() {
    let missing = [("CUSTACK_DRIVER", "cuda"), ("CUSTACK_LIBCUDA", "/no/such/libcuda.so")];
    let Some(examples) = examples(&missing) else {
        return skip("every_example_returns_the_error_when_there_is_no_driver", "the examples are not built");
    };
    for (name, status, text) in &examples {
        assert_eq!(status.code(), Some(1), "{name}: {text}");
        assert!(text.contains("Error: ") && text.contains("tried /no/such/libcuda.so ("), "{name}: {text}");
        assert!(!text.contains("panicked"), "{name}: {text}");
    }
    assert!(examples.len() > 5);
}

#[test]
fn every_example_runs_on_the_simulated_driver_and_says_so_with_the_device() {
    let Some(examples) = examples(&[("CUSTACK_DRIVER", "sim"), ("CUSTACK_SIM_DEVICES", "2")]) else {
        return skip(
            "every_example_runs_on_the_simulated_driver_and_says_so_with_the_device",
            "the examples are not built",
        );
    };
    for (name, status, text) in &examples {
        let begins = text.contains("Running on the simulated driver, CUDA 13.0: Simulated NVIDIA H200");
        assert!(status.success() && begins, "{name}: {text}");
        assert!(!text.contains("wrong") && !text.contains("panicked"), "{name}: {text}");
    }
}

/// Counts exactly, as nothing else runs in this process.
fn all_threads() {
    instrument::enable();
    let ctx = custack::quick_init().unwrap();
    let worker = |fails: bool| {
        let handle = ctx.get_unowned();
        move || {
            if fails {
                instrument::fail(Some("cuCtxSynchronize"), 1, 700, When::Before);
            }
            let (result, calls) = instrument::during(|| handle.synchronize());
            assert_eq!((result.is_err(), calls.of("cuCtxSynchronize")), (fails, 1));
        }
    };
    let before = instrument::calls_of_all_threads();
    // More of them than the counts have places, some at once and some one after another.
    let work = || {
        (0..200).for_each(|number| std::thread::spawn(worker(number % 10 == 0)).join().unwrap());
        std::thread::scope(|scope| (0..100).for_each(|_| drop(scope.spawn(worker(false)))));
    };
    let ((_, here), everywhere) = instrument::during_on_all_threads(|| instrument::during(work));
    assert_eq!(here.total(), 0);
    assert_eq!(
        everywhere.to_string(),
        "cuCtxPushCurrent_v2 x300, cuCtxPopCurrent_v2 x300, cuCtxSynchronize x300"
    );
    assert_eq!(instrument::succeeded("cuCtxSynchronize"), 280, "a call that fails is made all the same");
    assert_eq!(instrument::calls_of_all_threads().total(), before.total() + everywhere.total());
    ctx.synchronize().unwrap();
    assert_eq!(instrument::calls_of_all_threads().of("cuCtxSynchronize"), 301, "this thread's too");
}

#[test]
fn calls_of_all_threads_are_counted_those_that_ended_included() {
    child_succeeds("all threads", &[]);
}

#[test]
#[cfg(target_os = "linux")]
fn the_error_for_a_library_that_is_not_a_driver_names_the_missing_symbol() {
    let text = child_succeeds("say why", &[("CUSTACK_DRIVER", "cuda"), ("CUSTACK_LIBCUDA", "libc.so.6")]);
    assert!(text.contains("libc.so.6 is not a CUDA driver: it has no cuInit"), "{text}");
}

#[test]
fn an_empty_choice_means_unset_and_case_does_not_matter() {
    let text = child_succeeds("which driver", &[("CUSTACK_DRIVER", "SIM")]);
    assert!(text.contains("simulated"), "{text}");
    let missing = ("CUSTACK_LIBCUDA", "/no/such/libcuda.so");
    let text = child_succeeds("say why", &[("CUSTACK_DRIVER", ""), missing]);
    assert!(text.contains("/no/such/libcuda.so"), "the NVIDIA driver is asked for: {text}");
}

#[test]
fn an_unknown_choice_is_refused_by_name() {
    let text = child_succeeds("say why", &[("CUSTACK_DRIVER", "nonsense")]);
    assert!(text.contains("CUSTACK_DRIVER=nonsense: expected `cuda`, `sim` or `auto`"), "{text}");
}

#[test]
fn auto_falls_back_to_the_simulated_driver() {
    let text = child_succeeds(
        "which driver",
        &[("CUSTACK_DRIVER", "auto"), ("CUSTACK_LIBCUDA", "/no/such/libcuda.so")],
    );
    assert!(text.contains("driver: the simulated driver, CUDA 13.0"), "{text}");
    // Where that fails too, its reason is said.
    let settings =
        [("CUSTACK_DRIVER", "auto"), ("CUSTACK_LIBCUDA", "/no/such"), ("CUSTACK_SIM_DEVICES", "x")];
    let text = child_succeeds("say why", &settings);
    assert!(text.contains("CUSTACK_SIM_DEVICES=x"), "{text}");
}

#[test]
fn a_failure_to_load_is_not_remembered() {
    let missing = [("CUSTACK_DRIVER", "cuda"), ("CUSTACK_LIBCUDA", "/no/such/libcuda.so")];
    child_succeeds("fixed after a failure", &missing);
}

#[test]
fn calls_before_init_are_refused_and_harmless() {
    child_succeeds("not initialised", &[]);
}

#[test]
fn a_second_choice_is_refused_unless_it_is_the_same() {
    let text = child_succeeds("choose twice", &[]);
    assert!(text.contains("the NVIDIA driver was chosen after the simulated driver had been used"), "{text}");
}

#[test]
fn the_simulated_machine_has_as_many_devices_as_it_is_told() {
    for asked in ["65", "many", "-1"] {
        let text = child_succeeds("devices", &[("CUSTACK_DRIVER", "sim"), ("CUSTACK_SIM_DEVICES", asked)]);
        let said = format!("CUSTACK_SIM_DEVICES={asked}: expected a number from 0 to 64");
        assert!(text.contains(&said), "{text}");
    }
    for (asked, count) in [("1", "1"), ("4", "4"), ("64", "64"), ("", "1")] {
        let text = child_succeeds("devices", &[("CUSTACK_DRIVER", "sim"), ("CUSTACK_SIM_DEVICES", asked)]);
        assert!(text.contains(&format!("count: {count}\n")), "{asked}: {text}");
    }
}

#[test]
fn a_fault_that_cannot_be_injected_is_an_error_of_the_first_call() {
    for (asked, why) in [
        ("cuMemAloc:1:2", "cuMemAloc is not a driver function"),
        ("cuMemAlloc_v2", "expected FUNCTION:N:CODE"),
        ("cuMemAlloc_v2:0:2", "\"0\" is not a number from 1 on"),
        ("cuMemAlloc_v2:1:two", "\"two\" is not the number of an error"),
    ] {
        let text = child_succeeds("devices", &[("CUSTACK_DRIVER", "sim"), ("CUSTACK_FAIL", asked)]);
        assert!(text.contains(&format!("CUSTACK_FAIL={asked}: {why}")), "{text}");
        assert!(!text.contains("count:"), "{text}");
    }
    let fail = [("CUSTACK_DRIVER", "sim"), ("CUSTACK_FAIL", "cuMemAlloc:1:2")];
    assert!(child_succeeds("devices", &fail).contains("count: 1\n"));
}

#[test]
fn a_machine_without_devices_says_so() {
    let text = child_succeeds("devices", &[("CUSTACK_DRIVER", "sim"), ("CUSTACK_SIM_DEVICES", "0")]);
    assert!(!text.contains("count:"), "{text}");
}

#[test]
fn the_nvidia_driver_names_its_library() {
    if is_simulated() {
        return skip("the_nvidia_driver_names_its_library", "no NVIDIA driver runs here");
    }
    let text = child_succeeds("which driver", &[("CUSTACK_DRIVER", "cuda")]);
    assert!(text.contains("the NVIDIA driver, CUDA ") && text.contains("libcuda.so"), "{text}");
}

/// The process loses a system call after its first use, as in a sandbox that is entered late.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn sandboxed() {
    use std::os::raw::{c_int, c_long, c_ulong, c_void};

    #[repr(C)]
    struct Filter {
        code: u16,
        jump_true: u8,
        jump_false: u8,
        k: u32,
    }
    #[repr(C)]
    struct Program {
        length: u16,
        filters: *const Filter,
    }
    unsafe extern "C" {
        fn prctl(option: c_int, ...) -> c_int;
        fn syscall(number: c_long, ...) -> c_long;
    }
    const MEMBARRIER: u32 = if cfg!(target_arch = "x86_64") { 324 } else { 283 };
    let [no_new_privileges, set_seccomp]: [c_int; 2] = [38, 22];

    custack::init(custack::CudaFlags::empty()).unwrap();
    let create = || {
        let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0).unwrap()).unwrap();
        ContextStack::pop().unwrap();
        ctx
    };
    drop(create());
    // Loads the number of the call; returns EPERM if it is this one, else allows it.
    let filters = [
        Filter { code: 0x20, jump_true: 0, jump_false: 0, k: 0 },
        Filter { code: 0x15, jump_true: 0, jump_false: 1, k: MEMBARRIER },
        Filter { code: 0x06, jump_true: 0, jump_false: 0, k: 0x0005_0001 },
        Filter { code: 0x06, jump_true: 0, jump_false: 0, k: 0x7fff_0000 },
    ];
    let program = Program { length: 4, filters: filters.as_ptr() };
    let zero: c_ulong = 0;
    // SAFETY: numbers, and a program that lives as long as the call.
    let filtered = unsafe {
        prctl(no_new_privileges, 1 as c_ulong, zero, zero, zero) == 0
            && prctl(set_seccomp, 2 as c_ulong, std::ptr::from_ref(&program).cast::<c_void>(), zero, zero)
                == 0
    };
    assert!(filtered, "the sandbox could not be made");
    // SAFETY: the call takes three numbers.
    assert_eq!(unsafe { syscall(MEMBARRIER as c_long, 0 as c_int, 0 as c_int, 0 as c_int) }, -1);
    for _ in 0..3 {
        let ctx = create();
        let handle = ctx.get_unowned();
        let entered = handle.clone();
        std::thread::spawn(move || entered.scoped(|current| current.synchronize())).join().unwrap().unwrap();
        drop(ctx);
        assert!(!handle.is_alive());
    }
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn sandboxed() {}

#[test]
fn destroying_works_after_a_sandbox_forbids_the_kernels_fence() {
    if !cfg!(target_os = "linux") {
        return skip("destroying_works_after_a_sandbox_forbids_the_kernels_fence", "it is about Linux");
    }
    child_succeeds("sandboxed", &[]);
}

#[cfg(feature = "tracing")]
#[test]
fn a_subscriber_may_wait_for_what_is_retired() {
    child_succeeds("waits in a report", &[("CUSTACK_DRIVER", "sim")]);
}

/// What is retired cannot be destroyed, and the subscriber that gets the report waits for it.
fn waits_in_a_report() {
    use std::sync::Mutex;
    static ANSWERS: Mutex<Vec<Result<(), CudaError>>> = Mutex::new(Vec::new());
    let waits = |_: &tracing::Event<'_>| ANSWERS.lock().unwrap().push(wait_until_retired());
    tracing::subscriber::set_global_default(OnReport(waits)).unwrap();
    crate::harness::within(20, || {
        let ctx = custack::quick_init().unwrap();
        // SAFETY: the memory does not exist; nothing uses it, and the simulated driver refuses to free it.
        let wild = unsafe { DeviceBuffer::<u8>::from_raw_parts(DevicePointer::wrap(256 as *mut u8), 1) };
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
        stream.add_callback(Box::new(move |_| drop(wild))).unwrap();
        stream.synchronize().unwrap();
        wait_until_retired().unwrap();
        drop((stream, ctx));
    });
    assert_eq!(*ANSWERS.lock().unwrap(), [Err(CudaError::NotPermitted)]);
}

#[test]
fn where_no_thread_starts_what_is_retired_is_not_waited_for_but_an_error() {
    if !cfg!(target_pointer_width = "64") {
        return skip("where_no_thread_starts", "a stack of any size may fit");
    }
    // No address space has room for such a stack.
    let stack = (1_u64 << 62).to_string();
    child_succeeds("no thread starts", &[("CUSTACK_DRIVER", "sim"), ("RUST_MIN_STACK", &stack)]);
}

fn no_thread_starts() {
    use std::sync::mpsc::channel;
    use std::thread::{Builder, sleep};
    let with_a_stack = || Builder::new().stack_size(1 << 20);
    with_a_stack()
        .spawn(|| {
            sleep(std::time::Duration::from_secs(20));
            std::process::exit(1);
        })
        .unwrap();
    let ctx = custack::quick_init().unwrap();
    let (handle, (tell, told), (go, goes)) = (ctx.get_unowned(), channel(), channel::<()>());
    let calls = move || {
        instrument::wait_in("cuCtxSynchronize", move || {
            tell.send(()).unwrap();
            let _ = goes.recv();
        });
        handle.synchronize()
    };
    let busy = with_a_stack().spawn(calls).unwrap();
    told.recv().unwrap();
    drop(ctx);
    drop(go);
    assert_eq!(busy.join().unwrap(), Ok(()));
    assert_eq!(wait_until_retired(), Err(CudaError::OperatingSystemError));
}
