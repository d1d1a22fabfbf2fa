//! Input from outside as text or numbers: names, addresses, variables, codes. None of it may do more than cause an
//! error.

use crate::harness::{is_simulated, pushed, run, skip, times};
use crate::module::KERNELS;
use custack::device::Device;
use custack::driver::Choice;
use custack::error::{CudaError, DriverError};
use custack::module::Module;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

fn for_many<S: Strategy>(strategy: S, test: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let config = Config { cases: times(400, 4000), failure_persistence: None, ..Config::default() };
    TestRunner::new(config).run(&strategy, test).unwrap();
}

#[test]
fn any_text_as_a_pci_address_is_a_device_or_an_error() {
    run(|| {
        let like_one = "[0-9a-fA-F:. xg\\x00-]{0,24}";
        for_many(prop_oneof![like_one.boxed(), any::<String>().boxed()], |text| {
            match Device::by_pci_bus_id(&text) {
                Ok(device) => prop_assert!(device.pci_bus_id().is_ok()),
                Err(error) => prop_assert!(
                    matches!(error, CudaError::InvalidValue | CudaError::InvalidDevice),
                    "{text:?}: {error:?}"
                ),
            }
            Ok(())
        });
    });
}

#[test]
fn any_text_as_a_choice_is_one_of_three_or_named() {
    for_many(any::<String>(), |text| {
        match text.parse::<Choice>() {
            Ok(_) => prop_assert!(["cuda", "sim", "auto"].contains(&text.to_ascii_lowercase().as_str())),
            Err(error) => {
                prop_assert!(error.to_string().contains(&text));
                prop_assert_eq!(error, DriverError::UnknownChoice { value: text });
            }
        }
        Ok(())
    });
}

#[test]
fn any_number_as_a_code_keeps_its_number() {
    for_many(any::<u32>(), |code| {
        match CudaError::from_code(code) {
            None => prop_assert_eq!(code, 0),
            Some(error) => {
                prop_assert_eq!(error.code(), code);
                prop_assert!(error.to_string().contains(&code.to_string()));
            }
        }
        Ok(())
    });
}

#[test]
fn any_ordinal_is_a_device_or_named() {
    run(|| {
        let count = Device::num_devices().unwrap();
        for_many(any::<u32>(), |ordinal| {
            match Device::get_device(ordinal) {
                Ok(_) => prop_assert!(ordinal < count),
                Err(error) => {
                    let name = format!("device {ordinal}");
                    prop_assert!(crate::harness::said(error).contains(&name), "{error}");
                }
            }
            Ok(())
        });
    });
}

#[test]
#[cfg(unix)]
fn any_bytes_as_the_choice_of_a_driver_are_an_error_or_a_driver() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    // Each takes a process of its own, so there are few.
    for bytes in [&b" "[..], b"\xff\xfe", b"sim\xff", b"auto\n", &[b'x'; 5000]] {
        let (status, text) =
            crate::driver::process::child_with("say why", "CUSTACK_DRIVER", OsStr::from_bytes(bytes));
        assert!(status.success() && text.contains("expected `cuda`, `sim` or `auto`"), "{bytes:?}: {text}");
    }
}

#[test]
fn any_bytes_as_an_image_are_a_module_or_an_error() {
    if !is_simulated() {
        return skip(
            "any_bytes_as_an_image_are_a_module_or_an_error",
            "a GPU's compiler is not what is tested",
        );
    }
    run(|| {
        let _ctx = pushed();
        for_many(any::<Vec<u8>>(), |bytes| {
            let error = Module::load_from_bytes(&bytes).unwrap_err();
            prop_assert!(matches!(error, CudaError::InvalidImage | CudaError::NoBinaryForGpu), "{:?}", error);
            Ok(())
        });
    });
}

#[test]
fn any_change_to_a_module_gives_a_module_or_an_error() {
    if !is_simulated() {
        return skip(
            "any_change_to_a_module_gives_a_module_or_an_error",
            "a GPU's compiler is not what is tested",
        );
    }
    run(|| {
        let _ctx = pushed();
        let words: Vec<&str> = KERNELS.split_inclusive([' ', ',', '\n', '[', ']', ';']).collect();
        let change = (0..words.len(), 0..words.len(), 0..4u8, any::<i64>());
        for_many(change, |(at, other, kind, number)| {
            let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            match kind {
                0 => drop(words.remove(at)),
                1 => words.swap(at, other),
                2 => words[at] = words[other].clone(),
                _ => words[at] = format!("{number} "),
            }
            match Module::load_from_bytes(words.concat().as_bytes()) {
                Ok(module) => prop_assert!(module.get_function(c"nothing").is_err()),
                Err(error) => prop_assert!(
                    matches!(
                        error,
                        CudaError::InvalidImage
                            | CudaError::InvalidPtx
                            | CudaError::NotSupported
                            | CudaError::UnsupportedPtxVersion
                            | CudaError::OutOfMemory
                    ),
                    "{:?}",
                    error
                ),
            }
            Ok(())
        });
    });
}
