//! Shrinks a trace under which a driver crashes, for which each try is a process of its own.

use super::generate::generate;
use super::language::{Step, Trace};
use super::play::play;
use super::{asked, shrink, state};
use crate::harness::{is_simulated, table};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Names the file with the trace that a process plays.
const FILE: &str = "CUSTACK_TRACE_FILE";

/// Whether a process that plays these steps ends by a signal.
fn crashes(steps: &[Step], path: &std::path::Path) -> bool {
    std::fs::write(path, Trace { steps: steps.to_vec() }.to_string()).unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "trace::crashes::play_steps"])
        .env(FILE, path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    status.code().is_none()
}

/// Prints the shortest trace found under which the driver crashes as it did under that of `CUSTACK_TRACE_SEED`.
#[test]
#[ignore = "started by hand on a machine with a GPU; see tests/README.md"]
fn shrink_a_crash() {
    assert!(!is_simulated(), "set CUSTACK_DRIVER=cuda on a machine with a GPU");
    let seed = asked("CUSTACK_TRACE_SEED", 1);
    let path = std::env::temp_dir().join(format!("custack-crash-{seed}-{}", std::process::id()));
    let until = Instant::now() + Duration::from_secs(asked("CUSTACK_TRACE_SECONDS", 300));
    let trace = generate(seed, asked("CUSTACK_TRACE_LENGTH", 10_000) as usize);
    if crashes(&trace.steps, &path) {
        let steps = shrink::shrink(&trace.steps, |steps| {
            let safe = state::is_safe(&Trace { steps: steps.to_vec() });
            Instant::now() < until && safe && crashes(steps, &path)
        });
        println!("seed {seed} crashes with {} steps:\n{}", steps.len(), Trace { steps });
    } else {
        println!("seed {seed}: no crash");
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
#[ignore = "started by `shrink_a_crash`"]
fn play_steps() {
    let path = std::env::var(FILE).expect("the file with the trace");
    let trace = Trace::parse(&std::fs::read_to_string(path).unwrap()).expect("a trace");
    play(&trace, table());
}
