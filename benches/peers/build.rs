//! RustaCUDA's calls are linked against libcuda. Where it is not installed, `stub/libcuda.rs` replaces it for the linker; the
//! stub has the real library's run-time name, so that the program runs on the real driver.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=stub/libcuda.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let library = out.join("libcuda.so.1");
    let status = Command::new(env::var_os("RUSTC").expect("cargo sets RUSTC"))
        .args(["--edition", "2024", "--crate-type", "cdylib", "-C", "opt-level=3", "-C", "panic=abort"])
        .args(["-C", "link-arg=-Wl,-soname,libcuda.so.1", "stub/libcuda.rs", "-o"])
        .arg(&library)
        .status();
    assert!(status.is_ok_and(|status| status.success()), "the stub library does not build");
    fs::copy(&library, out.join("libcuda.so")).expect("the stub library can be copied");
    println!("cargo::rustc-link-arg-bin=peers={}", library.display());
}
