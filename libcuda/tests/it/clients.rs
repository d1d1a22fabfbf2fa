//! Programs in C, compiled by the system's compiler and linked as with NVIDIA's library.

use super::{folder, skip};
use std::path::PathBuf;
use std::process::{Command, Output};

/// The program that a file of this folder becomes, unless there is no compiler.
fn compiled(name: &str) -> Option<PathBuf> {
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/{name}.c"));
    let program = folder().join(name);
    let mut compiler = Command::new("cc");
    compiler.arg("-Wall").arg("-Werror").arg("-g").arg("-rdynamic").arg(&source).arg("-o").arg(&program);
    compiler.arg("-L").arg(folder()).args(["-lcuda", "-lpthread"]);
    let status = compiler.status().ok()?;
    assert!(status.success(), "{name}.c does not compile");
    Some(program)
}

/// What a program does with the library.
fn run(program: &PathBuf) -> Output {
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
