//! What the command line asks for, and whether it can be done.

use crate::USAGE;
use crate::fault::fault;
use custack_sim::MOST_DEVICES;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// What the command line asks for.
#[derive(Default)]
pub(crate) struct Asked {
    /// Variables for the program.
    pub(crate) variables: Vec<(&'static str, OsString)>,
    pub(crate) library: Option<PathBuf>,
    pub(crate) program: Vec<OsString>,
    report: Option<PathBuf>,
    trace: Option<PathBuf>,
}

/// A file in the present folder, also for a program that goes to another one.
fn absolute(file: &OsStr) -> Result<PathBuf, String> {
    std::path::absolute(file).map_err(|error| format!("{}: {error}", file.to_string_lossy()))
}

fn devices(count: &OsStr) -> Result<(), String> {
    let fits =
        count.to_str().and_then(|text| text.parse().ok()).is_some_and(|count: usize| count <= MOST_DEVICES);
    if fits { Ok(()) } else { Err(format!("{count:?} is not a number of devices from 0 to {MOST_DEVICES}")) }
}

/// Sees that a file can be written. One that is there is removed: a process of the program writes its own only where none
/// is, as it must not overwrite that of another one. What is no regular file, such as `/dev/stdout`, is written to.
fn clear(file: &Path) -> Result<(), io::Error> {
    match fs::symlink_metadata(file) {
        Ok(found) if found.is_file() => fs::remove_file(file)?,
        Ok(found) if found.is_dir() => return Err(io::Error::other("it is a folder")),
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    File::create_new(file)?;
    fs::remove_file(file)
}

impl Asked {
    pub(crate) fn of(mut arguments: impl Iterator<Item = OsString>) -> Result<Asked, String> {
        let mut asked = Asked::default();
        while let Some(argument) = arguments.next() {
            let option = argument.to_string_lossy().into_owned();
            if !option.starts_with('-') {
                asked.program.push(argument);
            }
            if option == "--" || !asked.program.is_empty() {
                break;
            }
            if ["--help", "-h"].contains(&&*option) {
                return Err(USAGE.to_owned());
            }
            // `--option=value` is `--option value`.
            let (name, given) = match option.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(OsString::from(value))),
                None => (option, None),
            };
            if !["--devices", "--report", "--trace", "--fail", "--library"].contains(&&*name) {
                return Err(format!("{name} is no option\n\n{USAGE}"));
            }
            let value =
                given.or_else(|| arguments.next()).ok_or(format!("{name} needs a value\n\n{USAGE}"))?;
            let asked_for = format!("{name} {}", value.to_string_lossy());
            asked.option(&name, value).map_err(|why| format!("{asked_for}: {why}"))?;
        }
        asked.program.extend(arguments);
        if asked.program.is_empty() {
            return Err(format!("no program is named\n\n{USAGE}"));
        }
        asked.check_files()?;
        Ok(asked)
    }

    fn option(&mut self, name: &str, value: OsString) -> Result<(), String> {
        match name {
            "--devices" => {
                devices(&value)?;
                self.variables.push(("CUSTACK_SIM_DEVICES", value));
            }
            "--fail" => {
                let (fault, said) = fault(&value.to_string_lossy())?;
                if let Some(said) = said {
                    eprintln!("custack-run: --fail {}: {said}", value.to_string_lossy());
                }
                self.variables.push(("CUSTACK_FAIL", fault.into()));
            }
            "--report" => self.report = Some(absolute(&value)?),
            "--trace" => self.trace = Some(absolute(&value)?),
            _ => self.library = Some(absolute(&value)?),
        }
        Ok(())
    }

    /// After all else, so that a command that is wrong removes no report.
    fn check_files(&mut self) -> Result<(), String> {
        if self.report.is_some() && self.report == self.trace {
            return Err("--report and --trace name the same file".to_owned());
        }
        for (option, variable, file) in [
            ("--trace", "CUSTACK_TRACE", self.trace.take()),
            ("--report", "CUSTACK_REPORT", self.report.take()),
        ] {
            if let Some(file) = file {
                clear(&file).map_err(|error| {
                    format!("{option} {}: this file cannot be written: {error}", file.display())
                })?;
                self.variables.push((variable, file.into()));
            }
        }
        Ok(())
    }
}
