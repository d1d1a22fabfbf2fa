//! Lets a program link where no libcuda is installed.
//!
//! `cuda-driver-sys`, which the feature `rustacuda` brings, asks the linker for `-lcuda`, but custack calls none of its
//! functions: it opens the driver at run time. So where the linker would find no libcuda, an empty archive of that name
//! satisfies the request, and the program depends on no library. Where libcuda is installed nothing is added: a program
//! that links another crate's calls to libcuda must get the real library.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CUDA_LIBRARY_PATH");
    println!("cargo::rerun-if-env-changed=LIBRARY_PATH");

    let windows = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "windows");
    let asked_for = env::var_os("CARGO_FEATURE_RUSTACUDA").is_some();
    if windows || !asked_for || folders().iter().any(|folder| has_libcuda(folder)) {
        return Ok(());
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join("libcuda.a"), "!<arch>\n")?;
    println!("cargo::rustc-link-search=native={}", out.display());
    Ok(())
}

fn has_libcuda(folder: &Path) -> bool {
    folder.join("libcuda.so").exists() || folder.join("libcuda.a").exists()
}

/// The linker's default folders, and those that `cuda-driver-sys` adds.
fn folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        ["/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64", "/lib", "/lib64"]
            .iter()
            .map(PathBuf::from)
            .collect();
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    folders.push(PathBuf::from(format!("/usr/lib/{arch}-linux-gnu")));
    folders.push(PathBuf::from(format!("/lib/{arch}-linux-gnu")));
    folders.extend(env::var_os("LIBRARY_PATH").iter().flat_map(env::split_paths));

    let mut toolkits = vec![PathBuf::from("/opt/cuda"), PathBuf::from("/usr/local/cuda")];
    toolkits.extend(env::var_os("CUDA_LIBRARY_PATH").iter().flat_map(env::split_paths));
    let local = fs::read_dir("/usr/local").into_iter().flatten().flatten().map(|entry| entry.path());
    toolkits.extend(
        local.filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("cuda-"))),
    );
    for toolkit in toolkits {
        for below in ["lib64", "lib64/stubs", "targets/x86_64-linux/lib", "targets/x86_64-linux/lib/stubs"] {
            folders.push(toolkit.join(below));
        }
    }
    folders
}
