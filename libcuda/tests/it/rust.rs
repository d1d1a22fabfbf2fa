//! Programs that use other crates for CUDA. Each is a package of its own, so that custack's own tree has none of theirs.

use super::{custack_run, folder, kept, part, skip, within};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program of a package in `tests/clients`, or why there is none.
fn built(name: &str) -> Result<PathBuf, String> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name);
    let target = kept().join(name);
    let cargo = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO"));
        command.args(arguments).current_dir(&package).env("CARGO_TARGET_DIR", &target);
        // `-lcuda` is this library.
        command.env("LIBRARY_PATH", folder());
        command
    };
    let build = ["build", "--quiet", "--locked", "--offline"];
    if within(300, &mut cargo(&build)).is_err() {
        within(60, &mut cargo(&["fetch", "--quiet", "--locked"]))?;
        within(300, &mut cargo(&build)).unwrap_or_else(|why| panic!("{name} does not build: {why}"));
    }
    Ok(target.join("debug").join(format!("{name}-client")))
}

/// What the report says of a package's program, which must have computed what it says.
fn report_of(test: &str, name: &str) -> Option<String> {
    let program = match built(name) {
        Ok(program) => program,
        Err(why) => {
            skip(test, &format!("the packages of {name} cannot be had: {why}"));
            return None;
        }
    };
    let report = folder().join(format!("{name}.report"));
    let output = custack_run(&["--report", report.to_str().unwrap(), "--", program.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said, "0: 1000 sums are right\n1: 1000 sums are right\n");
    let report = std::fs::read_to_string(report).unwrap();
    for nothing in ["Not modelled", "Misused, which would have crashed the NVIDIA driver", "Left"] {
        assert_eq!(part(&report, nothing), " none", "{report}");
    }
    Some(report)
}

#[test]
fn a_program_that_uses_rustacuda_pushes_contexts_and_launches_kernels() {
    let test = "a_program_that_uses_rustacuda_pushes_contexts_and_launches_kernels";
    let Some(report) = report_of(test, "rustacuda") else { return };
    assert_eq!(part(&report, "Contexts left on the stacks of threads"), " none", "{report}");
    let calls = part(&report, "Calls");
    assert!(calls.contains(" 4 cuLaunchKernel\n") || calls.ends_with(" 4 cuLaunchKernel"), "{report}");
    // Its last pop, of each thread.
    assert!(part(&report, "Refused").contains(" 2 cuCtxPopCurrent_v2, INVALID_CONTEXT (201)"), "{report}");
}

#[test]
fn a_program_that_uses_cudarc_binds_contexts_and_launches_kernels() {
    let test = "a_program_that_uses_cudarc_binds_contexts_and_launches_kernels";
    let Some(report) = report_of(test, "cudarc") else { return };
    assert_eq!(part(&report, "Refused"), " none", "{report}");
    assert!(part(&report, "Calls").contains(" 6 cuLaunchKernel"), "{report}");
    // It binds contexts, and unbinds none.
    let left = part(&report, "Contexts left on the stacks of threads");
    assert_eq!(left.matches("a thread ended with 0x").count(), 3, "{report}");
}
