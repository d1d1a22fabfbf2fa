//! `custack-run`: what it hands to the program, what it refuses to begin, and what it leaves behind.

use super::{custack_run, folder};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An empty folder of this name.
fn empty(name: &str) -> PathBuf {
    let empty = folder().join(name);
    let _ = fs::remove_dir_all(&empty);
    fs::create_dir_all(&empty).unwrap();
    empty
}

/// The command with the library, and with links to it in this folder.
fn command(temporary: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_custack-run"));
    command.arg("--library").arg(folder().join("libcuda.so.1")).env("TMPDIR", temporary);
    command
}

/// The folders that runs have left here, without the numbers by which they differ if others have taken a name.
fn left(temporary: &Path) -> Vec<PathBuf> {
    let mut left: Vec<_> = fs::read_dir(temporary).unwrap().map(|entry| entry.unwrap().path()).collect();
    left.sort();
    left
}

#[test]
fn a_program_gets_the_signals_that_the_command_is_sent() {
    let temporary = empty("signals");
    // Not those that a shell ignores for what it begins in the background, and `nohup`: these tests may be begun so.
    for (signal, status) in [("TERM", 10), ("USR1", 11), ("USR2", 12)] {
        let script = "trap 'exit 10' TERM; trap 'exit 11' USR1; trap 'exit 12' USR2; echo ready $$; \
                      while :; do sleep 0.02; done";
        let mut run = command(&temporary).args(["sh", "-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(run.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, format!("ready {}\n", run.id()), "the program has the process of the command");
        let sent = Command::new("kill").args([format!("-{signal}"), run.id().to_string()]).status();
        assert!(sent.unwrap().success());
        assert_eq!(run.wait().unwrap().code(), Some(status), "{signal}");
    }
}

#[test]
fn a_program_that_a_signal_ends_ends_so_for_who_waits_for_it() {
    for signal in [6, 9, 15] {
        let output = custack_run(&["sh", "-c", &format!("kill -{signal} $$")]);
        assert_eq!(output.status.signal(), Some(signal));
    }
}

#[test]
fn runs_at_once_share_one_folder_with_the_library_and_mend_it() {
    let temporary = empty("shared");
    let library = folder().join("libcuda.so.1");
    let at_once = || {
        let found =
            r#"first=${LD_LIBRARY_PATH%%:*}; cmp "$first/libcuda.so.1" "$0" && cmp "$first/libcuda.so" "$0""#;
        let begin = |_| command(&temporary).args(["sh", "-c", found]).arg(&library).spawn().unwrap();
        let runs: Vec<_> = (0..16).map(begin).collect();
        runs.into_iter().for_each(|mut run| assert!(run.wait().unwrap().success()));
        assert_eq!(left(&temporary).len(), 1, "{:?}", left(&temporary));
        left(&temporary).remove(0)
    };
    let made = at_once();
    let of_it = left(&made);
    assert_eq!(of_it, [made.join("libcuda.so"), made.join("libcuda.so.1")]);
    // Whatever is left there, as by a run that was stopped half-way.
    fs::remove_file(made.join("libcuda.so")).unwrap();
    fs::remove_file(made.join("libcuda.so.1")).unwrap();
    symlink("/nowhere", made.join("libcuda.so.1")).unwrap();
    assert_eq!(at_once(), made);
    assert_eq!(left(&made), of_it);
}

#[test]
fn a_folder_that_somebody_else_may_have_made_is_not_used() {
    let temporary = empty("others");
    let run = || {
        let output = command(&temporary).args(["sh", "-c", "echo ${LD_LIBRARY_PATH%%:*}"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
    };
    let first = run();
    fs::remove_dir_all(&first).unwrap();
    // A file; a link to a folder; a folder that others may write to.
    fs::write(&first, "").unwrap();
    let second = run();
    assert_ne!(second, first);
    fs::rename(&second, temporary.join("elsewhere")).unwrap();
    symlink("elsewhere", &second).unwrap();
    let third = run();
    assert!(third != second && third != first);
    fs::set_permissions(&third, fs::Permissions::from_mode(0o777)).unwrap();
    let fourth = run();
    assert!(![&first, &second, &third].contains(&&fourth));
    assert_eq!(run(), fourth);
}

#[test]
fn what_cannot_be_done_is_said_and_the_program_does_not_begin() {
    let temporary = empty("refused");
    let file = |name: &str| temporary.join(name).to_str().unwrap().to_owned();
    let (missing, same) = (file("no/such"), file("same"));
    let place = temporary.to_str().unwrap();
    for (options, says) in [
        (&["--fail", "cuMemAlloc_v2"][..], "is not FUNCTION:N:CODE"),
        (&["--fail", "cuMemAlloc_v2:1:2:3"], "is not FUNCTION:N:CODE"),
        (&["--fail", "cuMemAlocc:1:2"], "cuMemAlocc is not a driver function"),
        (&["--fail", "cuMemAlocc:1:2"], "the nearest is cuMemAlloc_v2"),
        (&["--fail", "cuctxsynchronise:1:2"], "the nearest is cuCtxSynchronize"),
        (&["--fail", "cuInit:0:2"], "is not a number from 1 on"),
        (&["--fail", "cuInit:-1:2"], "is not a number from 1 on"),
        (&["--fail", "cuInit:1:0"], "0 is no error"),
        (&["--fail", "cuInit:1:12345"], "is not the number of an error"),
        (&["--fail", "cuInit:1:two"], "is not the number of an error"),
        (&["--devices", "65"], "--devices 65: \"65\" is not a number of devices from 0 to 64"),
        (&["--devices", "-1"], "from 0 to 64"),
        (&["--devices="], "from 0 to 64"),
        (&["--report", &missing], &missing),
        (&["--report", place], place),
        (&["--report", ""], "--report"),
        (&["--trace", &missing], &missing),
        (&["--trace", place], place),
        (&["--report", &same, "--trace", &same], "the same file"),
    ] {
        let begun = file("begun");
        let output = command(&temporary).args(options).args(["touch", &begun]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(127), "{options:?}: {said}");
        assert!(said.starts_with("custack-run: ") && said.contains(says), "{options:?}: {said}");
        assert!(!Path::new(&begun).exists(), "{options:?}");
    }
    assert_eq!(left(&temporary), [] as [PathBuf; 0]);
}

/// Prints what a program opens as the library: the file that `cat` has, with the library loaded before it.
const OPENED: &str = "LD_PRELOAD=libcuda.so.1 cat /proc/self/maps";

/// Whether a program with these variables gets the library; it says why not otherwise, and does not begin.
fn gets_it(variables: &[(&str, &str)], within: &Path) -> Result<(), String> {
    let begun = within.join("begun");
    let _ = fs::remove_file(&begun);
    let mut command = command(Path::new("/tmp"));
    command.args(["sh", "-c", &format!("touch {}; unset LD_PRELOAD; {OPENED}", begun.display())]);
    let output = command.current_dir(within).envs(variables.iter().copied()).output().unwrap();
    let (said, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() {
        let library = folder().join("libcuda.so.1").canonicalize().unwrap();
        assert!(said.contains(library.to_str().unwrap()), "{variables:?}: {said} {error}");
        return Ok(());
    }
    assert_eq!(output.status.code(), Some(127), "{variables:?}: {error}");
    assert!(error.contains("custack-run: ") && !begun.exists(), "{variables:?}: {error}");
    Err(error.into_owned())
}

#[test]
fn a_program_gets_this_library_whatever_folders_are_called_or_does_not_begin() {
    let top = empty("called");
    for (name, is_found) in [
        ("plain", true),
        ("with a space", true),
        ("comma,quote'percent%", true),
        ("ünïcode", true),
        ("back\\slash", true),
        ("co:lon", false),
        ("semi;colon", false),
        ("$ORIGIN", false),
        ("${LIB}", false),
    ] {
        let temporary = top.join(name);
        fs::create_dir(&temporary).unwrap();
        let found = gets_it(&[("TMPDIR", temporary.to_str().unwrap())], &top);
        assert_eq!(found.is_ok(), is_found, "{name}: {found:?}");
        // Relative to the folder in which the command begins.
        let found = gets_it(&[("TMPDIR", name)], &top);
        assert_eq!(found.is_ok(), is_found, "{name}: {found:?}");
    }
    gets_it(&[("TMPDIR", ".")], &top).unwrap();
    gets_it(&[("TMPDIR", "")], &top).unwrap();
    assert!(gets_it(&[("TMPDIR", "no/such")], &top).unwrap_err().contains("TMPDIR"));
}

#[test]
fn a_program_gets_this_library_whatever_other_libraries_are_named() {
    let top = empty("other");
    let other = top.join("libcuda.so.1");
    fs::copy(folder().join("libcuda.so.1"), &other).unwrap();
    let (path, other) = (top.to_str().unwrap(), other.to_str().unwrap());
    for others in [path, ":", "", ":a;b:", "$ORIGIN", &format!(";{path}"), &format!("/nowhere:{path}:")] {
        gets_it(&[("LD_LIBRARY_PATH", others)], &top).unwrap();
    }
    // What is loaded before everything else is the library of this name.
    for preloaded in [other, &format!("/nowhere.so {other}"), &format!("/nowhere.so:{other}")] {
        assert!(gets_it(&[("LD_PRELOAD", preloaded)], &top).unwrap_err().contains(other), "{preloaded}");
    }
    gets_it(&[("LD_PRELOAD", "/nowhere/at/all.so")], &top).unwrap();
    // A file that is none, and nothing that can be read.
    for wrong in ["none", "folder"] {
        let file = top.join(wrong);
        if wrong == "none" {
            fs::write(&file, "no library").unwrap()
        } else {
            fs::create_dir(&file).unwrap()
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_custack-run"));
        let output = command.env("TMPDIR", &top).arg("--library").arg(&file).arg("true").output().unwrap();
        assert_eq!(output.status.code(), Some(127), "{wrong}");
    }
}

#[test]
fn variables_that_name_another_library_do_not_reach_the_program() {
    let temporary = empty("named elsewhere");
    let mut command = command(&temporary);
    for variable in ["CUSTACK_LIBCUDA", "NUMBA_CUDA_DRIVER", "TRITON_LIBCUDA_PATH"] {
        command.env(variable, "/another/libcuda.so.1");
    }
    let output = command.env("CUSTACK_DRIVER", "sim").args(["env"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("CUSTACK_DRIVER=cuda\n"), "{said}");
    assert!(!said.contains("/another/"), "{said}");
}

#[test]
fn a_function_is_named_as_the_header_does_or_as_its_symbol() {
    let temporary = empty("named");
    for (asked, told, is_said) in [
        ("cuMemAlloc:3:2", "cuMemAlloc_v2:3:2", true),
        ("cuMemAlloc_v2:3:2", "cuMemAlloc_v2:3:2", false),
        ("cuCtxCreate:1:2", "cuCtxCreate_v4:1:2", true),
        ("cuCtxCreate_v3:1:2", "cuCtxCreate_v3:1:2", false),
        ("cuEventElapsedTime:1:2", "cuEventElapsedTime:1:2", false),
        ("cuMemcpyHtoDAsync:1:700", "cuMemcpyHtoDAsync_v2:1:700", true),
        ("cuStreamSynchronize_ptsz:1:2", "cuStreamSynchronize:1:2", true),
    ] {
        let output =
            command(&temporary).args(["--fail", asked, "sh", "-c", "echo $CUSTACK_FAIL"]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), told);
        assert_eq!(!output.stderr.is_empty(), is_said, "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn files_are_looked_at_and_not_changed_before_the_program_is() {
    let temporary = empty("files");
    let file = |name: &str| temporary.join(name).to_str().unwrap().to_owned();
    let (report, trace) = (file("report"), file("trace"));
    fs::write(&report, "old").unwrap();
    fs::write(&trace, "old").unwrap();
    let run = |options: &[&str]| command(&temporary).args(options).output().unwrap().status.success();
    assert!(!run(&["--trace", &trace, "--report", &report, "--devices", "x", "true"]));
    assert_eq!(fs::read_to_string(&report).unwrap(), "old");
    // What another run has left would be taken for what this one has.
    assert!(run(&["--trace", &trace, "--report", &report, "true"]));
    assert_eq!([&trace, &report].map(|file| Path::new(file).exists()), [false; 2]);
    // What is no file of its own is written to.
    assert!(run(&["--trace", "/dev/stderr", "--report", "/dev/null", "true"]));
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
    assert!(run(&["--trace", &file("new"), "--trace", "/dev/null", "true"]));
    assert!(!Path::new(&file("new")).exists() && Path::new("/dev/null").exists());
}
