//! A report about all calls of a process, written when it ends.

use super::made::Alive;
use super::watch::Simulator;
use super::{FUNCTIONS, calls_of_all_threads};
use custack_sys::ERRORS;
use custack_sys::ffi::CUresult;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many different refusals are told.
const MOST_REFUSALS: usize = 1000;

pub(super) struct Report {
    path: PathBuf,
    simulator: Option<Simulator>,
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    /// By function, status and sentence: how often.
    refused: BTreeMap<(&'static str, CUresult, String), u64>,
    /// How many calls NVIDIA's driver would have crashed in, and what was wrong with them.
    misused: BTreeMap<(&'static str, String), u64>,
    missing: BTreeSet<&'static str>,
    alive: Alive,
    misuses: u64,
}

/// Opens a file for what is told of this process. Another process of the same program may have its own there: then this
/// one's number is added to the name. What is no file of its own, such as `/dev/stderr` or a named pipe, is written to.
pub(super) fn create(path: &Path) -> io::Result<File> {
    let is_other = fs::symlink_metadata(path).is_ok_and(|it| !it.is_file());
    if is_other {
        return File::options().append(true).open(path);
    }
    let numbered = || format!("{}.{}", path.display(), std::process::id());
    File::create_new(path).or_else(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => File::create_new(numbered()),
        _ => Err(error),
    })
}

impl Report {
    pub(super) fn new(path: &Path, simulator: Option<Simulator>) -> Report {
        Report { path: path.to_owned(), simulator, found: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn call(&self, index: usize, arguments: &[u64], status: CUresult, is_fault: bool) {
        if status == 0 {
            return self.lock().alive.call(index, arguments);
        }
        let function = FUNCTIONS[index];
        let mut sentence = self.simulator.and_then(|it| (it.why)(status)).unwrap_or_default();
        let misuses = self.simulator.map_or(0, |it| (it.misuses)());
        if is_fault {
            "as was asked for".clone_into(&mut sentence);
        }
        let mut found = self.lock();
        if found.refused.len() < MOST_REFUSALS {
            *found.refused.entry((function, status, sentence.clone())).or_default() += 1;
        }
        if misuses > found.misuses {
            found.misuses = misuses;
            *found.misused.entry((function, sentence)).or_default() += 1;
        }
    }

    pub(super) fn missing(&self, function: &'static str) {
        self.lock().missing.insert(function);
    }

    pub(super) fn write(&self) {
        let text = self.text();
        let written = create(&self.path).and_then(|mut file| file.write_all(text.as_bytes()));
        if let Err(error) = written {
            eprintln!("custack: the report cannot be written to {}: {error}", self.path.display());
        }
    }

    fn text(&self) -> String {
        let found = self.lock();
        let program: Vec<String> = std::env::args_os().map(|it| it.to_string_lossy().into_owned()).collect();
        let driver = if self.simulator.is_some() { "simulated" } else { "NVIDIA" };
        let mut text =
            format!("{} (process {}), on the {driver} driver\n", program.join(" "), std::process::id());
        let mut part = |heading: &str, lines: Vec<String>| {
            let _ = writeln!(text, "\n{heading}: {}", if lines.is_empty() { "none" } else { "" }.trim_end());
            for line in lines {
                let _ = writeln!(text, "  {line}");
            }
        };
        let calls = calls_of_all_threads();
        let called = FUNCTIONS.iter().map(|name| (calls.of(name), name)).filter(|it| it.0 > 0);
        part("Calls", called.map(|(count, name)| format!("{count:>8} {name}")).collect());
        part("Not modelled", found.missing.iter().map(|name| (*name).to_owned()).collect());
        let sentence = |why: &str| if why.is_empty() { String::new() } else { format!(": {why}") };
        let refused = found.refused.iter().map(|((name, status, why), count)| {
            let error = ERRORS.iter().find(|it| it.0 == *status).map_or("?", |it| it.1);
            format!("{count:>8} {name}, {error} ({status}){}", sentence(why))
        });
        part("Refused", refused.collect());
        let misused =
            found.misused.iter().map(|((name, why), count)| format!("{count:>8} {name}{}", sentence(why)));
        part("Misused, which would have crashed the NVIDIA driver", misused.collect());
        let left = found.alive.all().map(|(kind, handle, made)| {
            let place = if made.place.is_empty() { String::new() } else { format!(" in {}", made.place) };
            format!("{kind} {handle:#x}, made by {}{place}", made.function)
        });
        part("Left", left.collect());
        let stacks = self.simulator.map_or(Vec::new(), |it| (it.stacks)());
        let handles =
            |stack: Vec<usize>| stack.iter().map(|it| format!("{it:#x}")).collect::<Vec<_>>().join(", ");
        let stacks = stacks.into_iter().map(|stack| format!("a thread ended with {}", handles(stack)));
        part("Contexts left on the stacks of threads", stacks.collect());
        text
    }
}
