//! Traces of work: streams, events, captures, graphs, memory in the order of streams, pools, modules, libraries, launches.
//!
//! [`functions`] is the table from which the rest works: a line per function, with its arguments. [`generate`] makes
//! traces from seeds, [`play`] plays one with real threads that take turns, [`marshal`] passes arguments to the driver and
//! reads what it wrote, and [`world`] keeps track of what lives. Two created contexts and the primary one are made once per
//! process. A driver's state is as each trace finds it: the player lets go of everything afterwards and resets the pools.
//!
//! # What is left out
//!
//! What crashed an H200's driver, or would:
//!
//! * handles of destroyed objects, of nodes whose graph is gone, of graphs whose capture was invalidated, of functions whose
//!   module was unloaded: their slots become NULL;
//! * a NULL value of `cuThreadExchangeStreamCaptureMode`, `cuMemPoolSetAttribute` and `cuStreamGetAttribute`;
//! * adding a kernel node, or setting its parameters, while no context is current;
//! * destroying a pool while memory of it lives: a later allocation or free of another pool crashes;
//! * a graph as its own child, a child graph as a child, destroying a child graph by itself;
//! * destroying a node of a graph that a capture extends, an event that a node records or waits for, a module or library
//!   whose kernel is in a graph, memory that a graph uses, before the end;
//! * making an executable for launches from the device after a fill of NULL was captured;
//! * launching what frees memory that another graph has allocated: such a launch did not return;
//! * launching an executable made or updated after a graph got an operation on a value at NULL, or in memory that a trace
//!   allocates: such a launch is refused (1), part of its work is done all the same, after a while, and freeing what it
//!   was to allocate crashes;
//! * releasing a user object more often than it is held;
//! * operations of a batch and the attribute of a kernel node of NULL, nodes for external semaphores;
//! * flags of 0 where managed memory is attached to a stream (`cuStreamAttachMemAsync`), whichever stream that is;
//! * linkers: about one trace of three hundred crashed at a later call, of a linker or the compiler, and one of eight
//!   thousand where no linker refused anything. Where none got anything, `cuLinkDestroy` crashed in four traces of 130,000,
//!   and the compiler in one. The recorded traces have linkers; new ones have NULL for a linker, and for the place of one;
//! * an option of the compiler for blocks of no threads, and NULL for the mode of loading or for the available memory;
//! * lists shorter than the count beside them, kernels without their arguments.
//!
//! What leaves the H200 in a state that is not modelled: launching an executable while an event that some graph waits for
//! was last recorded in a capture, which lets the stream of the launch take part in the capture.
//!
//! What differs and is not modelled: what an allocation of a graph frees that comes before another one of the graph, since
//! both may have one address; what a launch writes whose graph has a cooperative kernel that is disabled, which was seen
//! once to change memory, and not as the kernel would.
//!
//! What was answered once or twice and has no rule yet: advice about managed memory of a pool (801), the part of a
//! multiprocessor's memory that a kernel prefers (`cuKernelSetAttribute` 9) after its function was taken; and, among the
//! traces, the update of an executable whose node was refused parameters of another type (910).
//!
//! What graphs use and have reserved is told relative to what it was before the trace. After the last step the player
//! waits longer for user objects, which a thread of the driver's lets go at its leisure.
//!
//! The nodes of an executable that is made while a stream captures into its graph are in another order than after the
//! capture, if one was added by hand meanwhile: an update of it is left out. On a GPU nothing waits for what comes
//! before a fill that is disabled: the player waits a little after launches, once a node is disabled.
//!
//! What is not the same twice, or outlives the trace: adding to a linker while no context is current, work that is pending (the player waits for a stream after each step
//! that names it, and for an event that a context records), times, the order of branches that write one place (all fills
//! write one value, kernels add, copies copy one pattern), attributes of the default streams, memory of a graph outside
//! it, and what is current when a kernel faults.
//!
//! Streams wait for values only where these are already: at what every trace finds and none changes. Not reached: arrays,
//! other devices, IPC handles, pools of other processes, files of modules, what a DOT file says, conditional nodes, green
//! contexts.

mod corpus;
mod functions;
mod generate;
mod language;
mod live;
mod marshal;
mod play;
mod world;

use super::{asked, divergence, simulated};
use crate::harness::{is_simulated, table};
use crate::run_alone;
use generate::generate;
use language::{Step, Trace};
use play::Player;
use std::io::Write;
use std::time::{Duration, Instant};

#[test]
fn a_trace_is_written_and_read_back() {
    for seed in 0..200 {
        let trace = generate(seed, 40);
        assert_eq!(Trace::parse(&trace.to_string()), Some(trace));
    }
}

#[test]
fn a_seed_gives_the_same_trace_each_time() {
    assert_eq!(generate(7, 100), generate(7, 100));
    assert_ne!(generate(7, 100), generate(8, 100));
}

#[test]
fn the_generator_reaches_every_function_of_the_table() {
    let mut unreached: Vec<_> = functions::FUNCTIONS.iter().map(|function| function.name).collect();
    for seed in 0..200 {
        let trace = generate(seed, 100);
        unreached.retain(|name| !trace.steps.iter().any(|step| step.function().name == *name));
    }
    assert_eq!(unreached, Vec::<&str>::new());
}

#[test]
fn generated_traces_repeat_on_the_simulated_driver() {
    run_alone(|| {
        let table = simulated();
        let player = Player::new(&table);
        for seed in 0..asked("CUSTACK_WORK_COUNT", 60) {
            let trace = generate(seed, 40);
            let first = player.play(&trace, None, |_, _| {});
            let again = player.play(&trace, None, |_, _| {});
            // User objects are let go elsewhere, and only the second run waits for as many as the first has seen.
            let without = |outcomes: &[String]| -> Vec<String> {
                outcomes.iter().map(|it| it.split(" drops ").next().unwrap_or_default().to_owned()).collect()
            };
            if let Some(at) = divergence(&without(&first), &without(&again)) {
                panic!("seed {seed}, {:?}: {:?}, {:?}", trace.steps.get(at), first.get(at), again.get(at));
            }
        }
        player.end();
    });
}

/// Plays recorded traces, the files of the folder `CUSTACK_WORK_FILES`, on the simulated driver, and says where it first
/// answers otherwise in each: how often for which function and answers, the most frequent first, each with a few
/// examples. `CUSTACK_WORK_ONLY` plays the traces whose name or first difference has that word in it, and shows them.
#[test]
#[ignore = "started by hand, on what `record` has written"]
fn replay() {
    let folder = std::env::var("CUSTACK_WORK_FILES").expect("CUSTACK_WORK_FILES names a folder");
    let only = std::env::var("CUSTACK_WORK_ONLY").ok();
    let table = simulated();
    let player = Player::new(&table);
    let mut groups: std::collections::BTreeMap<String, Vec<String>> = std::collections::BTreeMap::new();
    let (mut traces, mut steps, mut differing, mut unfit) = (0, 0, 0, 0);
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let alive = watchdog();
    for path in paths.iter().filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("out")) {
        for recorded in corpus::read(&std::fs::read_to_string(path).unwrap()) {
            if !recorded.whole {
                unfit += 1;
                continue;
            }
            alive.store(0, std::sync::atomic::Ordering::SeqCst);
            *PLAYED.lock().unwrap() = format!("{}\n{}", recorded.name, recorded.trace);
            let outcomes = player.play(&recorded.trace, Some(&recorded.outcomes), |_, _| {});
            traces += 1;
            let at = divergence(&outcomes, &recorded.outcomes);
            steps += at.unwrap_or(outcomes.len());
            let Some(at) = at else { continue };
            differing += 1;
            let function = recorded.trace.steps.get(at).map_or("end", |step| step.function().name);
            let first = |outcome: Option<&String>| {
                let outcome = outcome.map_or("", String::as_str);
                if outcome.starts_with("left") {
                    outcome.to_owned()
                } else {
                    outcome.split(' ').next().unwrap().to_owned()
                }
            };
            let (was, is) = (first(recorded.outcomes.get(at)), first(outcomes.get(at)));
            let group = if was == is {
                format!("{function}: {was} with other values")
            } else {
                format!("{function}: recorded {was}, now {is}")
            };
            let shown = format!(
                "{} of {}:\n{}",
                recorded.name,
                path.display(),
                corpus::around(&recorded, &outcomes, at)
            );
            if only
                .as_ref()
                .is_some_and(|only| group.contains(only.as_str()) || recorded.name.contains(only.as_str()))
            {
                println!("{shown}");
            }
            groups.entry(group).or_default().push(shown);
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, examples)| std::cmp::Reverse(examples.len()));
    for (group, examples) in &groups {
        let shortest = examples.iter().min_by_key(|text| text.lines().count()).unwrap();
        println!("{:5} {group}\n        the shortest: {}", examples.len(), shortest.lines().next().unwrap());
    }
    println!("{traces} traces, {differing} differ; {steps} steps until they did; {unfit} not compared");
    player.end();
}

/// Chooses traces for the corpus from the files of the folder `CUSTACK_WORK_FILES`: what was recorded on a real driver
/// and is answered likewise by the simulated one, each of which shows what no earlier one does. The others are counted.
#[test]
#[ignore = "started by hand, on what `record` has written"]
fn choose() {
    let folder = std::env::var("CUSTACK_WORK_FILES").expect("CUSTACK_WORK_FILES names a folder");
    let path = std::env::var("CUSTACK_WORK_FILE").expect("CUSTACK_WORK_FILE names the file to write");
    let table = simulated();
    let player = Player::new(&table);
    let mut seen = std::collections::HashSet::new();
    let (mut text, mut chosen, mut differing) = (String::new(), 0, 0);
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths.iter().filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("out")) {
        for recorded in corpus::read(&std::fs::read_to_string(path).unwrap()) {
            let outcomes = player.play(&recorded.trace, Some(&recorded.outcomes), |_, _| {});
            if !recorded.whole || divergence(&outcomes, &recorded.outcomes).is_some() {
                differing += 1;
                continue;
            }
            let mut new = false;
            for (step, outcome) in recorded.trace.steps.iter().zip(&outcomes) {
                let status = outcome.split(' ').next().unwrap_or_default().to_owned();
                let capture = outcome.split(" k").nth(1).map(|text| text.chars().take(4).collect::<String>());
                new |= !outcome.starts_with("left") && seen.insert((step.function().name, status, capture));
            }
            if new {
                text.push_str(&corpus::write(&recorded.name, &recorded.trace, &outcomes));
                chosen += 1;
            }
        }
    }
    std::fs::write(path, text).unwrap();
    println!("{chosen} chosen, {differing} differ or were not repeated");
    player.end();
}

#[test]
fn the_simulated_driver_answers_what_the_h200_answered_to_work() {
    replays_the_corpus(std::process::Command::new(std::env::current_exe().unwrap()));
}

/// Such a process maps its memory among the simulated addresses of device memory.
#[cfg(target_os = "linux")]
#[test]
fn a_process_whose_stack_has_no_limit_gets_the_same_answers() {
    let shell = || std::process::Command::new("sh");
    if !shell().args(["-c", "ulimit -s unlimited"]).status().is_ok_and(|status| status.success()) {
        let why = "this process may not take the limit away";
        return crate::harness::skip("a_process_whose_stack_has_no_limit_gets_the_same_answers", why);
    }
    let mut command = shell();
    command.args(["-c", "ulimit -s unlimited && exec \"$0\" \"$@\""]).arg(std::env::current_exe().unwrap());
    replays_the_corpus(command);
}

/// In a process of its own: other tests leave memory in the device's pool, and its peaks are compared.
fn replays_the_corpus(mut command: std::process::Command) {
    let output = command
        .args(["--ignored", "--exact", "--nocapture", "trace::work::replay_corpus"])
        .env("CUSTACK_DRIVER", "sim")
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}

/// The process of [`the_simulated_driver_answers_what_the_h200_answered_to_work`].
#[test]
#[ignore = "started by the test that it is the process of"]
fn replay_corpus() {
    run_alone(|| {
        let table = simulated();
        let player = Player::new(&table);
        let (mut traces, mut steps) = (0, 0);
        let mut differing = Vec::new();
        for recorded in [H200, SHORT].into_iter().flat_map(corpus::read) {
            let outcomes = player.play(&recorded.trace, Some(&recorded.outcomes), |_, _| {});
            if let Some(at) = divergence(&outcomes, &recorded.outcomes) {
                differing.push(format!("{}:\n{}", recorded.name, corpus::around(&recorded, &outcomes, at)));
            }
            traces += 1;
            steps += outcomes.len();
        }
        player.end();
        assert!(differing.is_empty(), "{} of {traces} traces:\n{}", differing.len(), differing.join("\n"));
        assert!(traces >= 200, "{traces} traces, {steps} steps");
    });
}

/// What an H200 answered.
const H200: &str = include_str!("h200.txt");

/// What an H200 answered where the simulated driver once answered otherwise, shrunk to the steps that matter.
/// Those that are put together have the steps and answers of several traces, and an end that no H200 was asked for.
const SHORT: &str = include_str!("short.txt");

/// What is being played, for the one who finds that it hangs.
static PLAYED: std::sync::Mutex<String> = std::sync::Mutex::new(String::new());

fn length(seed: u64) -> usize {
    [8, 15, 25, 40][seed as usize % 4]
}

/// Plays new traces on the driver that runs, in several processes, and writes each step and what it answered to
/// `CUSTACK_WORK_FILE` with the process's number. A process that crashes leaves the step without an answer, and the next
/// goes on behind it.
#[test]
#[ignore = "started by hand on a machine with a GPU"]
fn record() {
    let processes = asked("CUSTACK_WORK_PROCESSES", 4);
    let count = asked("CUSTACK_WORK_COUNT", 500);
    let first = asked("CUSTACK_WORK_SEED", 1000);
    let path = std::env::var("CUSTACK_WORK_FILE").expect("CUSTACK_WORK_FILE names the files to write");
    let until = Instant::now() + Duration::from_secs(asked("CUSTACK_WORK_SECONDS", 120));
    let threads: Vec<_> = (0..processes)
        .map(|process| {
            let path = format!("{path}.{process}");
            std::thread::spawn(move || record_process(first + 100_000 * process, count, &path, until))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

/// Starts processes until all traces were played.
fn record_process(first: u64, count: u64, path: &str, until: Instant) {
    let _ = std::fs::remove_file(path);
    let mut next = first;
    let mut crashes = 0;
    while next < first + count && Instant::now() < until && crashes < 150 {
        let left = until.saturating_duration_since(Instant::now()).as_secs();
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "trace::work::record_batch"])
            .env("CUSTACK_WORK_SEED", next.to_string())
            .env("CUSTACK_WORK_COUNT", (first + count - next).to_string())
            .env("CUSTACK_WORK_SECONDS", left.to_string())
            .env("CUSTACK_WORK_FILE", path)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status()
            .unwrap();
        if status.success() {
            return;
        }
        crashes += 1;
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let reached = text.lines().rev().find_map(|line| line.strip_prefix("# seed ")?.parse::<u64>().ok());
        println!("{path}: {status} at seed {reached:?}");
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        writeln!(file, "\n! process ended: {status}").unwrap();
        next = reached.map_or(next, |reached| reached + 1).max(next + u64::from(reached.is_none()));
    }
}

/// One process of [`record`].
#[test]
#[ignore = "started by `record`"]
fn record_batch() {
    let (first, count) = (asked("CUSTACK_WORK_SEED", 1), asked("CUSTACK_WORK_COUNT", 1));
    let path = std::env::var("CUSTACK_WORK_FILE").expect("CUSTACK_WORK_FILE names the file to write");
    let until = Instant::now() + Duration::from_secs(asked("CUSTACK_WORK_SECONDS", 120));
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
    let on_sim = is_simulated();
    let table = if on_sim { simulated() } else { *table() };
    let player = Player::new(&table);
    let alive = watchdog();
    for seed in first..first + count {
        if Instant::now() > until {
            writeln!(file, "! stopped by the clock").unwrap();
            break;
        }
        let trace = generate(seed, length(seed));
        writeln!(file, "# seed {seed}").unwrap();
        alive.store(0, std::sync::atomic::Ordering::SeqCst);
        let outcomes = player.play(&trace, None, |step: Option<&Step>, outcome| match outcome {
            None => write!(file, "{} ->", step.map_or("end".to_owned(), Step::to_string)).unwrap(),
            Some(outcome) => writeln!(file, " {outcome}").unwrap(),
        });
        if outcomes.iter().any(|outcome| outcome.contains("BROKEN")) {
            std::process::exit(3);
        }
        if asked("CUSTACK_WORK_TWICE", 0) == 1 {
            let again = player.play(&trace, Some(&outcomes), |_, _| {});
            for at in 0..outcomes.len() {
                if outcomes[at] != again[at] {
                    writeln!(file, "! step {at} again: {}", again[at]).unwrap();
                }
            }
            if again.iter().any(|outcome| outcome.contains("BROKEN")) {
                std::process::exit(4);
            }
        }
    }
    player.end();
}

/// Ends the process if a trace hangs.
fn watchdog() -> std::sync::Arc<std::sync::atomic::AtomicU64> {
    use std::sync::atomic::{AtomicU64, Ordering};
    let seconds = std::sync::Arc::new(AtomicU64::new(0));
    let ours = std::sync::Arc::clone(&seconds);
    std::thread::spawn(move || {
        while ours.fetch_add(1, Ordering::SeqCst) < 15 {
            std::thread::sleep(Duration::from_secs(1));
        }
        println!("it hangs: {}", PLAYED.lock().unwrap());
        std::process::exit(5);
    });
    seconds
}
