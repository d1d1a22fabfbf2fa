//! Programs in Python, with packages that are installed once into an environment below Cargo's target folder.
//!
//! `CUSTACK_PYTHON` names an interpreter that has the packages, and is used as it is.

use super::{custack_run, folder, kept, part, skip, within};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The packages of cuda.core and numba. There is no nvJitLink among them: numba would have it make machine code.
const PACKAGES: &[&str] = &[
    "cuda-bindings==13.5.0",
    "cuda-core==1.2.2",
    "numba==0.68.1",
    "numba-cuda==0.30.4",
    "numpy==2.4.6",
    "nvidia-cuda-nvrtc==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-nvvm==13.0.88",
];

/// Those of PyCUDA, which is there as source only: what its build needs.
const FOR_PYCUDA: &[&str] = &[
    "numpy==2.4.6",
    "nvidia-cuda-profiler-api==13.0.85",
    "nvidia-cuda-runtime==13.0.96",
    "setuptools==84.2.1",
    "wheel==0.48.0",
];
const PYCUDA: &str = "pycuda==2026.1";

/// The interpreter of a new environment with these packages, which has passed a last step.
fn environment(
    name: &str,
    packages: &[&str],
    last: fn(&Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    let folder = kept().join(name);
    let (python, done) = (folder.join("bin/python"), folder.join("installed"));
    let contents = packages.join("\n");
    if std::fs::read_to_string(&done).is_ok_and(|installed| installed == contents) {
        return Ok(python);
    }
    let _ = std::fs::remove_dir_all(&folder);
    within(60, Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    within(240, pip(&python).args(["--retries", "1", "--only-binary", ":all:"]).args(packages))?;
    last(&folder)?;
    std::fs::write(done, contents).map_err(|error| error.to_string())?;
    Ok(python)
}

fn pip(python: &Path) -> Command {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    pip
}

/// Builds PyCUDA without what needs more of CUDA, and without an optimizer, which would take a minute more.
fn build_pycuda(environment: &Path) -> Result<(), String> {
    let python = environment.join("bin/python");
    let command = |program: &Path, arguments: &[&str], folder: &Path| {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder).env("CFLAGS", "-O0 -g0 -w");
        command
    };
    let script = "import glob, os, sys; print(glob.glob(sys.prefix + '/lib/python*/site-packages/nvidia/cu13/include')[0])";
    let asked = Command::new(&python).args(["-c", script]).output().map_err(|error| error.to_string())?;
    let headers = String::from_utf8_lossy(&asked.stdout).trim().to_owned();
    let download = [
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-binary=:all:",
        PYCUDA,
    ];
    within(60, &mut command(&python, &download, environment))?;
    let archive = format!("{}.tar.gz", PYCUDA.replace("==", "-"));
    within(60, &mut command(&python, &["-m", "tarfile", "-e", &archive, "source"], environment))?;
    let source = environment.join("source").join(PYCUDA.replace("==", "-"));
    let (headers, library) =
        (format!("--cuda-inc-dir={headers}"), format!("--cudadrv-lib-dir={}", folder().display()));
    let configure = ["configure.py", "--no-cuda-enable-curand", &headers, &library];
    within(60, &mut command(&python, &configure, &source))?;
    within(
        600,
        pip(&python).args(["--no-build-isolation", "."]).env("CFLAGS", "-O0 -g0 -w").current_dir(&source),
    )
}

/// An interpreter that has a package, or why there is none.
fn python(package: &str) -> Result<PathBuf, String> {
    static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    static PYCUDA: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    if let Some(python) = std::env::var_os("CUSTACK_PYTHON") {
        return Ok(PathBuf::from(python));
    }
    let made = match package {
        "pycuda" => PYCUDA.get_or_init(|| environment("pycuda", FOR_PYCUDA, build_pycuda)),
        _ => PYTHON.get_or_init(|| environment("python", PACKAGES, |_| Ok(()))),
    };
    made.clone()
}

/// What the report says of a program, which must have computed what it says.
fn report_of(test: &str, package: &str) -> Option<String> {
    let python = match python(package) {
        Ok(python) => python,
        Err(why) => {
            skip(test, &format!("{package} cannot be had: {why}"));
            return None;
        }
    };
    let python = python.to_str().unwrap();
    let found = custack_run(&["--", python, "-c", &format!("import {package}")]);
    if !found.status.success() {
        let why = String::from_utf8_lossy(&found.stderr).into_owned();
        skip(test, &format!("{python} has no {package}: {}", why.lines().last().unwrap_or_default()));
        return None;
    }
    let name = package.replace('.', "_");
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/clients/with_{name}.py"));
    let report = folder().join(format!("{name}.report"));
    let (report_file, trace) = (report.to_str().unwrap(), report.with_extension("json"));
    let options = ["--report", report_file, "--trace", trace.to_str().unwrap()];
    // `-B`: nothing is written beside the programs.
    let output = custack_run(&[&options[..], &["--", python, "-B", program.to_str().unwrap()]].concat());
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said, "0: 1000 sums are right\n1: 1000 sums are right\n");
    let report = std::fs::read_to_string(report).unwrap();
    for nothing in ["Not modelled", "Refused", "Misused, which would have crashed the NVIDIA driver"] {
        assert_eq!(part(&report, nothing), " none", "{report}");
    }
    // The packages keep their modules until the process ends, and nothing else.
    let left = part(&report, "Left");
    assert!(left == " none" || left.trim().lines().all(|it| it.trim().starts_with("library ")), "{report}");
    Some(report)
}

#[test]
fn a_program_that_uses_cuda_core_has_contexts_and_launches_kernels() {
    let test = "a_program_that_uses_cuda_core_has_contexts_and_launches_kernels";
    let Some(report) = report_of(test, "cuda.core") else { return };
    assert!(part(&report, "Calls").contains(" 2 cuLaunchKernelEx"), "{report}");
    // It launches a library's kernel, which has a name too.
    let trace = std::fs::read_to_string(folder().join("cuda_core.json")).unwrap();
    assert_eq!(trace.matches("\"kernel\":\"sum\"").count(), 2, "{trace}");
    assert_eq!(trace.matches("{\"name\":\"sum\"").count(), 2, "{trace}");
    assert_eq!(part(&report, "Contexts left on the stacks of threads"), " none", "{report}");
}

#[test]
fn a_program_that_uses_pycuda_pushes_contexts_and_launches_kernels() {
    let test = "a_program_that_uses_pycuda_pushes_contexts_and_launches_kernels";
    let Some(report) = report_of(test, "pycuda") else { return };
    assert!(part(&report, "Calls").contains(" 2 cuLaunchKernel"), "{report}");
    assert_eq!(part(&report, "Contexts left on the stacks of threads"), " none", "{report}");
}

#[test]
fn a_program_that_uses_numba_launches_kernels_that_were_compiled_from_python() {
    let test = "a_program_that_uses_numba_launches_kernels_that_were_compiled_from_python";
    let Some(report) = report_of(test, "numba") else { return };
    assert!(part(&report, "Calls").contains(" 2 cuLaunchKernel"), "{report}");
    // numba leaves the primary context current on every thread.
    let left = part(&report, "Contexts left on the stacks of threads");
    assert_eq!(left.matches("a thread ended with 0x").count(), 2, "{report}");
}
