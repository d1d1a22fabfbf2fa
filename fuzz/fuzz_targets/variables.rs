//! The variables that custack, its simulated driver and `custack-run` read. The driver reads them once, so that each input has
//! a process of its own.

#![no_main]

use custack::device::LocalRank;
use libfuzzer_sys::fuzz_target;
use std::os::unix::ffi::OsStringExt as _;
use std::process::{Command, exit};
use std::{env, ffi::OsString};

#[path = "../../libcuda/src/bin/custack-run/fault.rs"]
mod fault;

const CHILD: &str = "CUSTACK_FUZZ_CHILD";
const OF_THE_DRIVER: [&str; 4] = ["CUSTACK_SIM_DEVICES", "CUDA_VISIBLE_DEVICES", "CUSTACK_FAIL", "CUSTACK_DRIVER"];

fn start() {
    if env::var_os(CHILD).is_some() {
        let _ = custack::quick_init();
        exit(0);
    }
}

fuzz_target!(init: start(), |text: &[u8]| {
    let values: Vec<_> = text.split(|byte| *byte == b'\n').map(|value| OsString::from_vec(value.to_vec())).collect();
    let _ = LocalRank::from_variables(|name| values.get(name.len() % 5).cloned());
    values.iter().for_each(|value| drop(fault::fault(&value.to_string_lossy())));
    if text.contains(&0) {
        return;
    }
    let mut child = Command::new(env::current_exe().unwrap());
    child.env(CHILD, "1").envs(OF_THE_DRIVER.into_iter().zip(&values));
    assert!(child.output().unwrap().status.success(), "{values:?}");
});
