//! Runs a program with the simulated driver in the place of NVIDIA's.

mod asked;
mod fault;
mod folder;
mod probe;

use asked::Asked;
use std::convert::Infallible;
use std::env;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

pub(crate) const USAGE: &str = "\
custack-run [--devices N] [--report FILE] [--trace FILE] [--fail FUNCTION:N:CODE] [--] PROGRAM [ARGUMENT...]

Runs PROGRAM with custack's simulated CUDA driver as its libcuda.so.1. The program takes the place of this command: it has
its process, gets its signals, and ends as it ends. The exit status is 127 if it cannot be started, or not as was asked.

  --devices N             the number of devices, 0 to 64 (default 1)
  --report FILE           when the program ends: what it called, what was refused and why, what it left behind
  --trace FILE            a timeline of all calls and of the streams' work, for https://ui.perfetto.dev
  --fail FUNCTION:N:CODE  the N-th call of FUNCTION fails with the error CODE, such as cuMemAlloc_v2:3:2
  --library FILE          the library, if it does not lie beside this program as libcustack_libcuda.so

A program that calls no driver function writes no report. Neither does one that ends by a signal, by abort or by _exit, or
that becomes another program by exec: the report is written by what C calls at the exit.";

/// Variables by which custack, numba and Triton open another library than the one that the loader finds.
const OTHER_LIBRARIES: [&str; 3] = ["CUSTACK_LIBCUDA", "NUMBA_CUDA_DRIVER", "TRITON_LIBCUDA_PATH"];

/// Becomes the program; returns only if that fails.
///
/// A program that it started and waited for would need every signal passed on, stops and job control too, and would have to
/// end itself by the signal that ended the program. A process that has become the program has all that from the system.
fn become_program(asked: &Asked) -> Result<Infallible, String> {
    let beside = || Some(env::current_exe().ok()?.parent()?.join("libcustack_libcuda.so"));
    let library = asked.library.clone().or_else(beside).filter(|library| library.exists());
    let library = library.ok_or(
        "the library is not there; `cargo build -p custack-libcuda` makes it, and --library names it",
    )?;
    let folder = folder::folder_of(&library).map_err(|error| {
        format!("no folder for the library, which TMPDIR can have made elsewhere: {error}")
    })?;
    let others = env::var_os("LD_LIBRARY_PATH").filter(|path| !path.is_empty());
    let path = env::join_paths([folder].into_iter().chain(others.iter().flat_map(env::split_paths)));
    let path = path.map_err(|error| error.to_string())?;
    probe::check(&library, &path)?;
    let mut command = Command::new(&asked.program[0]);
    command.args(&asked.program[1..]).env("LD_LIBRARY_PATH", path).envs(asked.variables.iter().cloned());
    // A program that uses custack itself uses this library, too.
    command.env("CUSTACK_DRIVER", "cuda");
    OTHER_LIBRARIES.iter().for_each(|variable| {
        command.env_remove(variable);
    });
    Err(format!("{}: {}", asked.program[0].to_string_lossy(), command.exec()))
}

fn main() -> ExitCode {
    if let [_, probe, library] = &env::args_os().collect::<Vec<_>>()[..] {
        if probe == probe::PROBE {
            return ExitCode::from(u8::from(!probe::is_opened(library).unwrap_or(false)));
        }
    }
    match Asked::of(env::args_os().skip(1)).and_then(|asked| become_program(&asked)) {
        Ok(never) => match never {},
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
