//! The library as programs see it: its symbols, programs in C, Python and Rust that use it, and calls at random.

mod calls;
mod clients;
mod command;
mod memory;
mod python;
mod rust;
mod symbols;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A folder with the library as `libcuda.so.1` and, for the linker, as `libcuda.so`.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let profile = deps.parent().unwrap();
        let mut build = Command::new(env!("CARGO"));
        build
            .args(["build", "--quiet", "--package", "custack-libcuda"])
            .current_dir(env!("CARGO_MANIFEST_DIR"));
        build.arg("--target-dir").arg(profile.parent().unwrap());
        if profile.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().unwrap().success(), "the library does not build");
        let folder = profile.join("libcuda-tests");
        std::fs::create_dir_all(&folder).unwrap();
        // Renamed and not copied into place: a process that another run of the tests has begun may be reading it.
        let copy = folder.join(format!("libcuda.so.{}", std::process::id()));
        std::fs::copy(profile.join("libcustack_libcuda.so"), &copy).unwrap();
        std::fs::rename(copy, folder.join("libcuda.so.1")).unwrap();
        if let Err(error) = std::os::unix::fs::symlink("libcuda.so.1", folder.join("libcuda.so")) {
            assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists, "{error}");
        }
        folder
    })
}

/// Where what the clients need is kept from one run of the tests to the next, whatever their profile.
fn kept() -> PathBuf {
    folder().parent().and_then(Path::parent).unwrap().join("libcuda-clients")
}

/// `custack-run` with these arguments.
fn custack_run(arguments: &[&str]) -> Output {
    let library = folder().join("libcuda.so.1");
    let mut command = Command::new(env!("CARGO_BIN_EXE_custack-run"));
    command.arg("--library").arg(library).args(arguments).current_dir(folder());
    // What the command leaves there goes with the build.
    command.env("TMPDIR", folder()).output().unwrap()
}

/// A part of a report, which has a heading.
fn part<'a>(report: &'a str, heading: &str) -> &'a str {
    let begin = report.find(&format!("\n{heading}:")).unwrap_or_else(|| panic!("{heading}: {report}"));
    let rest = &report[begin + heading.len() + 2..];
    rest.split("\n\n").next().unwrap().trim_end()
}

/// Runs a command that may take this number of seconds, and returns what it said if it failed.
fn within(seconds: u32, command: &mut Command) -> Result<(), String> {
    let mut bounded = Command::new("timeout");
    bounded.arg("--kill-after=5").arg(seconds.to_string()).arg(command.get_program());
    bounded.args(command.get_args());
    for (name, value) in command.get_envs().filter_map(|(name, value)| Some((name, value?))) {
        bounded.env(name, value);
    }
    if let Some(folder) = command.get_current_dir() {
        bounded.current_dir(folder);
    }
    let output = bounded.output().map_err(|error| format!("there is no `timeout`: {error}"))?;
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    match output.status.code() {
        Some(0) => Ok(()),
        Some(124) => Err(format!("it took more than {seconds} seconds")),
        _ => Err(said),
    }
}

/// Says loudly that a test did not run, even if output is captured, and counts it.
fn skip(test: &str, why: &str) {
    static SKIPPED: AtomicUsize = AtomicUsize::new(0);
    let count = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
    let _ = writeln!(std::io::stderr(), "SKIPPED ({count} so far): {test} did not run: {why}");
}
