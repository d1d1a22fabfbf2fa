//! The live comparison: new traces on the NVIDIA driver and on the simulated one, in several processes.
//!
//! A process that the driver ends is reported with the step at which it did, and the next one goes on behind that trace.

use super::super::shrink::shrink;
use super::generate::generate;
use super::language::{Step, Trace};
use super::play::Player;
use super::{asked, corpus, divergence, length, simulated, watchdog};
use crate::harness::{is_simulated, table};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How a process ends in whose contexts nothing works any more.
const BROKEN: i32 = 3;

/// What was compared.
#[derive(Default, Clone, Copy)]
struct Counts {
    traces: u64,
    calls: u64,
    divergences: u64,
    crashes: u64,
}

impl Counts {
    fn add(&mut self, other: Counts) {
        self.traces += other.traces;
        self.calls += other.calls;
        self.divergences += other.divergences;
        self.crashes += other.crashes;
    }
}

/// Compares the NVIDIA driver with the simulated one on traces from new seeds.
#[test]
#[ignore = "started by hand on a machine with a GPU; see tests/README.md"]
fn compare() {
    let first = asked("CUSTACK_WORK_SEED", 1000);
    let count = asked("CUSTACK_WORK_COUNT", 100_000);
    let until = Instant::now() + Duration::from_secs(asked("CUSTACK_WORK_SECONDS", 300));
    let lanes: Vec<_> = (0..asked("CUSTACK_WORK_PROCESSES", 8))
        .map(|lane| std::thread::spawn(move || compare_lane(first + 100_000 * lane, count, until)))
        .collect();
    let processes = lanes.len();
    let mut total = Counts::default();
    lanes.into_iter().for_each(|lane| total.add(lane.join().unwrap()));
    let Counts { traces, calls, divergences, crashes } = total;
    println!(
        "compared in all: {processes} processes, {traces} traces, {calls} calls, {divergences} divergences, {crashes} crashes"
    );
    assert_eq!((divergences, crashes), (0, 0));
}

/// Starts processes one after the other until all traces were compared.
fn compare_lane(first: u64, count: u64, until: Instant) -> Counts {
    let (mut total, mut next) = (Counts::default(), first);
    while next < first + count && Instant::now() < until {
        let log = std::env::temp_dir().join(format!("custack-work-{first}.log"));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "trace::work::live::compare_batch"])
            .env("CUSTACK_WORK_SEED", next.to_string())
            .env("CUSTACK_WORK_COUNT", (first + count - next).to_string())
            .env(
                "CUSTACK_WORK_SECONDS",
                until.saturating_duration_since(Instant::now()).as_secs().to_string(),
            )
            .env("CUSTACK_WORK_LOG", &log)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().expect("its output is piped")).lines();
        for line in lines.map_while(Result::ok) {
            match line.strip_prefix("done ") {
                Some(done) => {
                    let number: Vec<u64> = done.split(' ').map(|word| word.parse().unwrap()).collect();
                    let [seed, calls, divergences] = number[..] else { panic!("{line}") };
                    next = seed + 1;
                    total.add(Counts { traces: 1, calls, divergences, crashes: 0 });
                }
                None if line.starts_with("test ") || line.starts_with("running ") => {}
                None => println!("{line}"),
            }
        }
        let status = child.wait().unwrap();
        if status.success() || status.code() == Some(101) {
            break;
        }
        if status.code() == Some(BROKEN) {
            continue;
        }
        let steps = fs::read_to_string(&log).unwrap_or_default();
        println!("seed {next}: {status} at:\n{}", steps.lines().last().unwrap_or("the beginning"));
        total.crashes += 1;
        next += 1;
    }
    total
}

/// One process of [`compare`].
#[test]
#[ignore = "started by `compare`"]
fn compare_batch() {
    assert!(!is_simulated(), "set CUSTACK_DRIVER=cuda on a machine with a GPU");
    let (first, count) = (asked("CUSTACK_WORK_SEED", 1), asked("CUSTACK_WORK_COUNT", 900));
    let until = Instant::now() + Duration::from_secs(asked("CUSTACK_WORK_SECONDS", 300));
    let log = std::env::var_os("CUSTACK_WORK_LOG").map(PathBuf::from);
    let (real, simulated) = (table(), simulated());
    let (on_real, on_sim) = (Player::new(real), Player::new(&simulated));
    let alive = watchdog();
    for seed in first..first + count {
        if Instant::now() > until {
            break;
        }
        alive.store(0, Ordering::SeqCst);
        let trace = generate(seed, length(seed));
        let mut log = log.as_ref().map(|path| File::create(path).unwrap());
        let of_real = on_real.play(&trace, None, |step: Option<&Step>, outcome| {
            if let (Some(log), None) = (&mut log, outcome) {
                writeln!(log, "{}", step.map_or("the end".to_owned(), Step::to_string)).unwrap();
            }
        });
        let of_sim = on_sim.play(&trace, Some(&of_real), |_, _| {});
        let calls: u64 = of_real.iter().map(|outcome| compared(outcome)).sum();
        let differs = divergence(&of_real, &of_sim);
        if let Some(at) = differs {
            let (step, real, sim) = (trace.steps.get(at), of_real.get(at), of_sim.get(at));
            println!("seed {seed} differs at step {at}: {step:?}\n  real {real:?}\n  sim  {sim:?}");
            if asked("CUSTACK_WORK_SHRINK", 0) == 1 {
                print_shrunk(seed, &trace.steps[..trace.steps.len().min(at + 1)], &on_real, &on_sim, until);
            }
        }
        println!("done {seed} {calls} {}", u64::from(differs.is_some()));
        if [&of_real, &of_sim].into_iter().flatten().any(|outcome| outcome.contains("BROKEN")) {
            // A context in error would be compared from here on, and nothing else.
            std::process::exit(BROKEN);
        }
    }
    on_real.end();
    on_sim.end();
}

fn print_shrunk(seed: u64, steps: &[Step], on_real: &Player, on_sim: &Player, until: Instant) {
    let steps = shrink(steps, |steps| {
        let trace = Trace { steps: steps.to_vec() };
        let of_real = on_real.play(&trace, None, |_, _| {});
        let of_sim = on_sim.play(&trace, Some(&of_real), |_, _| {});
        Instant::now() < until && divergence(&of_real, &of_sim).is_some()
    });
    let trace = Trace { steps };
    let outcomes = on_real.play(&trace, None, |_, _| {});
    println!("{}", corpus::write(&format!("seed {seed}, short"), &trace, &outcomes));
}

/// How many calls' answers an outcome has: the step's own, what is current, and what the stream says of its capture.
fn compared(outcome: &str) -> u64 {
    match outcome {
        outcome if outcome.starts_with("left out") => 0,
        outcome if outcome.contains(" k") => 3,
        _ => 2,
    }
}

/// Plays the traces in which a comparison has found differences (its output is the file `CUSTACK_WORK_POINTS`) on the
/// simulated driver, and says which of them are still there: how often for which function and answers, with the seeds of
/// a few. `CUSTACK_WORK_ONLY` is a seed whose trace is shown.
#[test]
#[ignore = "started by hand, on what `compare` has printed"]
fn replay_differences() {
    let path = std::env::var("CUSTACK_WORK_POINTS").expect("CUSTACK_WORK_POINTS names a file");
    let only = asked("CUSTACK_WORK_ONLY", 0);
    let text = fs::read_to_string(path).unwrap();
    let table = simulated();
    let player = Player::new(&table);
    let mut groups: std::collections::BTreeMap<String, Vec<u64>> = std::collections::BTreeMap::new();
    let (mut points, mut differing) = (0, 0);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some((seed, rest)) =
            line.strip_prefix("seed ").and_then(|line| line.split_once(" differs at step "))
        else {
            continue;
        };
        let (seed, at): (u64, usize) =
            (seed.parse().unwrap(), rest.split(':').next().unwrap().parse().unwrap());
        let real =
            lines.next().and_then(|line| line.trim().strip_prefix("real Some(\"")?.strip_suffix("\")"));
        let Some(real) = real.map(|real| real.replace("\\\"", "\"")) else { continue };
        if only != 0 && only != seed {
            continue;
        }
        let trace = generate(seed, length(seed));
        let outcomes = player.play(&trace, None, |_, _| {});
        points += 1;
        let simulated = outcomes.get(at).map_or("nothing", String::as_str);
        if only != 0 {
            for (step, outcome) in trace.steps.iter().zip(&outcomes).take(at + 1) {
                println!("{step} -> {outcome}");
            }
            println!("recorded {real}");
        }
        if simulated == real || simulated.starts_with("left out") {
            continue;
        }
        differing += 1;
        let first = |outcome: &str| outcome.split(' ').next().unwrap_or_default().to_owned();
        let name = trace.steps.get(at).map_or("end", |step| step.function().name);
        let group = format!("{name}: recorded {}, now {}", first(&real), first(simulated));
        groups.entry(group).or_default().push(seed);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, seeds)| std::cmp::Reverse(seeds.len()));
    for (group, seeds) in groups {
        println!("{:5} {group}, such as {:?}", seeds.len(), &seeds[..seeds.len().min(4)]);
    }
    println!("{differing} of {points} differ still");
    player.end();
}
