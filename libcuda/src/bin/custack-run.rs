//! Runs a program with the simulated driver in the place of NVIDIA's.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

const USAGE: &str = "\
custack-run [--devices N] [--report FILE] [--trace FILE] [--fail FUNCTION:N:CODE] [--] PROGRAM [ARGUMENT...]

Runs PROGRAM with custack's simulated CUDA driver as its libcuda.so.1, and exits as it did.

  --devices N             so many devices; one if it is not said
  --report FILE           when the program ends: what it called, what was refused and why, what it left behind
  --trace FILE            a timeline of all calls and of the streams' work, for https://ui.perfetto.dev
  --fail FUNCTION:N:CODE  the N-th call of FUNCTION fails with the error CODE, such as cuMemAlloc_v2:3:2
  --library FILE          the library, if it does not lie beside this program as libcustack_libcuda.so";

/// What the command line asks for.
#[derive(Default)]
struct Asked {
    /// Variables for the program.
    variables: Vec<(&'static str, OsString)>,
    library: Option<PathBuf>,
    program: Vec<OsString>,
}

/// A file in the present folder, also for a program that goes to another one.
fn absolute(file: &OsString) -> Result<OsString, String> {
    std::path::absolute(file)
        .map(OsString::from)
        .map_err(|error| format!("{}: {error}", file.to_string_lossy()))
}

fn asked(mut arguments: impl Iterator<Item = OsString>) -> Result<Asked, String> {
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
        let mut value =
            || given.clone().or_else(|| arguments.next()).ok_or(format!("{name} needs a value\n\n{USAGE}"));
        match name.as_str() {
            "--devices" => asked.variables.push(("CUSTACK_SIM_DEVICES", value()?)),
            "--report" => asked.variables.push(("CUSTACK_REPORT", absolute(&value()?)?)),
            "--trace" => asked.variables.push(("CUSTACK_TRACE", absolute(&value()?)?)),
            "--fail" => asked.variables.push(("CUSTACK_FAIL", value()?)),
            "--library" => asked.library = Some(PathBuf::from(absolute(&value()?)?)),
            _ => return Err(format!("{name} is no option\n\n{USAGE}")),
        }
    }
    asked.program.extend(arguments);
    if asked.program.is_empty() { Err(format!("no program is named\n\n{USAGE}")) } else { Ok(asked) }
}

/// A folder in which the library has the names by which programs open it; it is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(library: &Path) -> io::Result<Folder> {
        let folder = Folder(env::temp_dir().join(format!("custack-run-{}", std::process::id())));
        fs::create_dir(&folder.0)?;
        for name in ["libcuda.so.1", "libcuda.so"] {
            symlink(library, folder.0.join(name))?;
        }
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that stays there harms nobody.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn run(asked: &Asked) -> Result<ExitStatus, String> {
    let beside = || Some(env::current_exe().ok()?.parent()?.join("libcustack_libcuda.so"));
    let library = asked.library.clone().or_else(beside).filter(|library| library.exists());
    let library = library.ok_or(
        "the library is not there; `cargo build -p custack-libcuda` makes it, and --library names it",
    )?;
    let folder = Folder::new(&library).map_err(|error| format!("no folder for the library: {error}"))?;
    let others = env::var_os("LD_LIBRARY_PATH").filter(|path| !path.is_empty());
    let path =
        env::join_paths([folder.0.clone()].into_iter().chain(others.iter().flat_map(env::split_paths)));
    let path = path.map_err(|error| error.to_string())?;
    // A report is written where none is, as processes of the program must not overwrite each other's.
    for (_, file) in asked.variables.iter().filter(|it| it.0 == "CUSTACK_REPORT") {
        let _ = fs::remove_file(file);
    }
    let mut command = Command::new(&asked.program[0]);
    command.args(&asked.program[1..]).env("LD_LIBRARY_PATH", path).envs(asked.variables.iter().cloned());
    // A program that uses custack itself uses this library, too.
    command.env("CUSTACK_DRIVER", "cuda");
    command.status().map_err(|error| format!("{}: {error}", asked.program[0].to_string_lossy()))
}

fn main() -> ExitCode {
    match asked(env::args_os().skip(1)).and_then(|asked| run(&asked)) {
        // As shells have it for programs that a signal has ended.
        Ok(status) => {
            let code = status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(1);
            ExitCode::from(u8::try_from(code).unwrap_or(1))
        }
        Err(why) if why == USAGE => {
            println!("{why}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("custack-run: {why}");
            ExitCode::from(127)
        }
    }
}
