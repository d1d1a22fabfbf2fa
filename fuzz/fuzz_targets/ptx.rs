//! Texts, through the simulated driver's loader.

#![no_main]

use custack::module::Module;
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: std::mem::forget(custack::quick_init().unwrap()), |text: &[u8]| {
    drop(Module::load_from_bytes(&[b".version 8.0 .target sm_90 .address_size 64\n", text].concat()));
});
