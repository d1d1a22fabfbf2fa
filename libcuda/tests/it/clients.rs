//! Programs in C, compiled by the system's compiler and linked as with NVIDIA's library.

use super::{custack_run, folder, part, skip, within};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

/// The program that a file of this folder becomes, unless there is no compiler.
pub(super) fn compiled(name: &str) -> Option<PathBuf> {
    static ONE_AT_A_TIME: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut done = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/{name}.c"));
    let program = folder().join(name);
    if done.contains(name) {
        return Some(program);
    }
    let mut compiler = Command::new("cc");
    compiler.arg("-Wall").arg("-Werror").arg("-g").arg("-rdynamic").arg(&source).arg("-o").arg(&program);
    compiler.arg("-L").arg(folder()).args(["-lcuda", "-lpthread"]);
    let status = compiler.status().ok()?;
    assert!(status.success(), "{name}.c does not compile");
    done.insert(name.to_owned());
    Some(program)
}

/// What a program does with the library.
pub(super) fn run(program: &PathBuf) -> Output {
    Command::new(program).env("LD_LIBRARY_PATH", folder()).output().unwrap()
}

#[test]
fn a_c_program_with_two_threads_launches_a_kernel() {
    let Some(program) = compiled("client") else {
        return skip("a_c_program_with_two_threads_launches_a_kernel", "there is no C compiler");
    };
    let output = run(&program);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said, "0: 1000 sums are right\n1: 1000 sums are right\nthe child of a fork was told 3\n");
}

#[test]
fn a_c_program_launches_as_programs_for_cuda_3_did() {
    let name = "a_c_program_launches_as_programs_for_cuda_3_did";
    let Some(program) = compiled("launches") else { return skip(name, "there is no C compiler") };
    let output = run(&program);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(
        said,
        "one thread: 1 1 3 7\none block: 2 2 4 8\ntwo blocks: 3 3 5 8\nin a stream: 3.5 3.5 5.5 8\n"
    );
}

#[test]
fn a_c_program_makes_graphs_and_captures_as_programs_for_cuda_10_to_12_did() {
    let name = "a_c_program_makes_graphs_and_captures_as_programs_for_cuda_10_to_12_did";
    let Some(program) = compiled("graphs") else { return skip(name, "there is no C compiler") };
    let output = run(&program);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(
        said,
        "a node: 8\nits executable: 9\na kernel: 10\na capture: 11\ngoes on: 1\nof the thread: 1\nlinked: 1\n"
    );
}

#[test]
fn a_program_that_has_functions_for_graphics_starts_and_is_told_that_they_are_missing() {
    let name = "a_program_that_has_functions_for_graphics_starts_and_is_told_that_they_are_missing";
    let Some(program) = compiled("graphics") else { return skip(name, "there is no C compiler") };
    let output =
        Command::new(program).env("LD_LIBRARY_PATH", folder()).env("LD_BIND_NOW", "1").output().unwrap();
    let (said, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{why}");
    assert_eq!(said, "0\n801 801\n801 801\n7 1\n");
    assert!(why.contains("cuGLGetDevices_v2 was called, which the simulated driver does not model"), "{why}");
}

#[test]
fn copies_and_fills_of_the_threads_default_stream_wait_for_that_stream_alone() {
    let name = "copies_and_fills_of_the_threads_default_stream_wait_for_that_stream_alone";
    let Some(program) = compiled("default_streams") else { return skip(name, "there is no C compiler") };
    let output = run(&program);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(
        said,
        "legacy, beside a stream: waits\nthe thread's, beside a stream: does not wait, 7\n\
         to the device, behind its own: waits\nof any kind, behind its own: waits\n\
         within the device: does not wait, 600\nthen: 9\nof host memory: waits, 5\n\
         beside a capture: 1\nin its own capture: 2\ninstantiated: 0, 1\n"
    );
}

#[test]
fn memory_that_a_stream_frees_when_its_context_ends_is_allocated_anew() {
    let name = "memory_that_a_stream_frees_when_its_context_ends_is_allocated_anew";
    let Some(program) = compiled("ends") else { return skip(name, "there is no C compiler") };
    let mut command = Command::new(program);
    within(60, command.env("LD_LIBRARY_PATH", folder())).unwrap();
}

#[test]
fn a_c_program_that_misuses_the_driver_gets_a_status_and_a_sentence() {
    let Some(program) = compiled("misuse") else {
        return skip(
            "a_c_program_that_misuses_the_driver_gets_a_status_and_a_sentence",
            "there is no C compiler",
        );
    };
    let output = run(&program);
    let (said, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{why}");
    assert_eq!(said, "a freed context: 201\nbehind an allocation: 1\na freed pointer: 1\n");
}

#[test]
fn a_report_says_what_was_called_refused_misused_and_left_and_where_it_was_made() {
    let name = "a_report_says_what_was_called_refused_misused_and_left_and_where_it_was_made";
    let Some(program) = compiled("misuse") else { return skip(name, "there is no C compiler") };
    let output = custack_run(&["--report", "misuse.report", program.to_str().unwrap()]);
    assert!(output.status.success());
    let report = std::fs::read_to_string(folder().join("misuse.report")).unwrap();
    assert!(part(&report, "Calls").contains("2 cuMemcpyDtoH_v2"), "{report}");
    assert_eq!(part(&report, "Not modelled"), " none");
    let refused = part(&report, "Refused");
    assert!(refused.contains("1 cuCtxPushCurrent_v2, INVALID_CONTEXT (201): "), "{report}");
    assert!(refused.contains("128 bytes at 0 of an allocation of 64 bytes"), "{report}");
    let misused = part(&report, "Misused, which would have crashed the NVIDIA driver");
    assert!(misused.contains("cuCtxPushCurrent_v2") && misused.contains("was freed"), "{report}");
    let left = part(&report, "Left");
    assert!(left.contains("made by cuCtxCreate_v2 in leaves_a_context"), "{report}");
    assert!(left.contains("misuse.c:16") && left.contains("called by main"), "{report}");
    assert_eq!(left.trim().lines().count(), 1, "{report}");
    assert!(
        part(&report, "Contexts left on the stacks of threads").contains("a thread ended with 0x"),
        "{report}"
    );
}

#[test]
fn a_report_says_of_whatever_must_be_given_back_that_it_was_not() {
    let name = "a_report_says_of_whatever_must_be_given_back_that_it_was_not";
    let Some(program) = compiled("left") else { return skip(name, "there is no C compiler") };
    let output = custack_run(&["--report", "left.report", program.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = std::fs::read_to_string(folder().join("left.report")).unwrap();
    let left = part(&report, "Left").trim();
    let mut kinds: Vec<&str> = left.lines().filter_map(|it| it.trim().split(" 0x").next()).collect();
    kinds.sort_unstable();
    let expected = [
        "array",
        "context",
        "mapping",
        "physical memory",
        "registered memory",
        "reserved addresses",
        "user object",
    ];
    assert_eq!(kinds, expected, "{report}");
}

#[test]
fn calls_are_told_that_are_made_while_a_thread_or_the_process_ends() {
    let name = "calls_are_told_that_are_made_while_a_thread_or_the_process_ends";
    let Some(program) = compiled("late") else { return skip(name, "there is no C compiler") };
    let asked = ["--report=late.report", "--trace=late.json", "--fail=cuMemAlloc:9:2"];
    let output = custack_run(&[asked[0], asked[1], asked[2], program.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "at a thread's end: 0 0\nits first call: 0\nat the end: 0\n");
    let report = std::fs::read_to_string(folder().join("late.report")).unwrap();
    // The last is made after the report was written, because its handler was there before the driver.
    assert!(part(&report, "Calls").contains("2 cuMemFree_v2"), "{report}");
}

/// Two processes that have nothing but the environment in common.
#[test]
fn each_process_has_a_report_and_a_timeline_of_its_own() {
    let name = "each_process_has_a_report_and_a_timeline_of_its_own";
    let Some(program) = compiled("late") else { return skip(name, "there is no C compiler") };
    let own = folder().join("two");
    let _ = std::fs::remove_dir_all(&own);
    std::fs::create_dir(&own).unwrap();
    let run = || {
        let mut command = Command::new(&program);
        command.env("LD_LIBRARY_PATH", folder()).env("CUSTACK_REPORT", own.join("report"));
        command.env("CUSTACK_TRACE", own.join("trace")).output().unwrap()
    };
    let (one, two) = (run(), run());
    assert_eq!((one.status.code(), two.status.code()), (Some(3), Some(3)));
    let files: Vec<_> = std::fs::read_dir(&own).unwrap().map(|it| it.unwrap().path()).collect();
    assert_eq!(files.len(), 4, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let is_whole = if text.starts_with('[') { text.ends_with("}\n]\n") } else { text.contains("Calls:") };
        assert!(is_whole, "{}: {text}", file.display());
    }
    let mut command = Command::new(&program);
    command.env("LD_LIBRARY_PATH", folder()).env("CUSTACK_REPORT", "/dev/stderr");
    let output = command.output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("cuMemAlloc_v2"));
}

#[test]
fn a_timeline_has_each_call_by_thread_and_what_the_streams_did() {
    let name = "a_timeline_has_each_call_by_thread_and_what_the_streams_did";
    let Some(program) = compiled("client") else { return skip(name, "there is no C compiler") };
    let output =
        custack_run(&["--trace=client.json", "--report=client.report", "--", program.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let trace = std::fs::read_to_string(folder().join("client.json")).unwrap();
    assert!(trace.starts_with("[{") && trace.ends_with("}\n]\n"), "{trace}");
    let events: Vec<&str> = trace.trim_matches(['[', ']', '\n']).split(",\n").collect();
    assert!(events.iter().all(|it| it.starts_with('{') && it.ends_with('}')), "{trace}");
    let of = |name: &str| events.iter().filter(|it| it.contains(&format!("\"name\":\"{name}\""))).count();
    assert_eq!(
        (of("cuLaunchKernel"), of("cuMemcpyHtoD_v2"), of("cuCtxPushCurrent_v2")),
        (2, 4, 2),
        "{trace}"
    );
    // The kernels, in a stream of each context.
    assert_eq!(of("sum"), 2, "{trace}");
    assert_eq!(trace.matches("\"kernel\":\"sum\"").count(), 2, "{trace}");
    for row in ["thread 1", "thread 2", "thread 3", "stream 0", "stream 1"] {
        assert_eq!(trace.matches(&format!("\"name\":\"{row}\"")).count(), 1, "{row}: {trace}");
    }
    let report = std::fs::read_to_string(folder().join("client.report")).unwrap();
    assert_eq!((part(&report, "Left"), part(&report, "Refused")), (" none", " none"), "{report}");
}

#[test]
fn a_call_that_is_to_fail_fails_and_the_program_ends_as_it_does() {
    let name = "a_call_that_is_to_fail_fails_and_the_program_ends_as_it_does";
    let Some(program) = compiled("client") else { return skip(name, "there is no C compiler") };
    let program = program.to_str().unwrap();
    let output = custack_run(&["--fail", "cuMemAlloc_v2:3:2", program]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0: 1000 sums are right\n");
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(why.contains("cuMemAlloc_v2(&a, sizeof x): CUDA_ERROR_OUT_OF_MEMORY"), "{why}");
}

#[test]
fn custack_run_ends_as_its_program_does_and_says_what_it_cannot_do() {
    for (arguments, code, says) in [
        (&["sh", "-c", "exit 7"][..], 7, ""),
        (&["--devices", "3", "sh", "-c", "test $CUSTACK_SIM_DEVICES = 3"], 0, ""),
        (&["no-such-program"], 127, "no-such-program"),
        (&["--nothing", "sh"], 127, "--nothing is no option"),
        (&["--report"], 127, "--report needs a value"),
        (&[], 127, "no program is named"),
    ] {
        let output = custack_run(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(says), "{arguments:?}: {said}");
    }
    let help = custack_run(&["--help"]);
    assert!(
        help.status.success() && String::from_utf8_lossy(&help.stdout).contains("custack-run [--devices N]")
    );
}
