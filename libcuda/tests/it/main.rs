//! The library as programs see it: its symbols, C programs that are linked with it, and calls at random.

mod calls;
mod clients;
mod symbols;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

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
        let library = folder.join("libcuda.so.1");
        let _ = std::fs::remove_file(&library);
        std::fs::copy(profile.join("libcustack_libcuda.so"), &library).unwrap();
        let _ = std::fs::remove_file(folder.join("libcuda.so"));
        std::os::unix::fs::symlink("libcuda.so.1", folder.join("libcuda.so")).unwrap();
        folder
    })
}

/// Says loudly that a test did not run.
fn skip(test: &str, why: &str) {
    eprintln!("SKIPPED {test}: {why}");
}
