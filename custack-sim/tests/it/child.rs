//! What needs a process of its own: this binary again, with one scenario of its test `in_a_process_of_its_own`.

use std::process::{Command, ExitStatus};

pub(crate) fn command(scenario: &str) -> Command {
    let mut command = again("in_a_process_of_its_own");
    command.env("CUSTACK_TEST_SCENARIO", scenario);
    command
}

/// This binary with one of its ignored tests.
pub(crate) fn again(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", test, "--nocapture", "--test-threads=1"]);
    command
}

/// Runs a scenario with these environment variables; returns its exit status and output.
pub(crate) fn child(scenario: &str, variables: &[(&str, &str)]) -> (ExitStatus, String) {
    let output = command(scenario).envs(variables.iter().copied()).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (output.status, text.concat())
}

#[track_caller]
pub(crate) fn child_succeeds(scenario: &str, variables: &[(&str, &str)]) -> String {
    let (status, text) = child(scenario, variables);
    assert!(status.success() && text.contains("scenario done"), "{scenario}: {text}");
    text
}

/// Runs the scenario that the process was started for.
pub(crate) fn play(scenarios: &[(&str, fn())]) {
    let asked = std::env::var("CUSTACK_TEST_SCENARIO").expect("other tests start it");
    let found = scenarios.iter().find(|(name, _)| *name == asked);
    found.unwrap_or_else(|| panic!("no such scenario: {asked}")).1();
    println!("scenario done");
}
