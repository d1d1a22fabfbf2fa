//! UUIDs, instances, and which devices a process sees.

use crate::driver::process::{child, child_succeeds};
use crate::driver::strange_driver::library;
use crate::harness::{run, skip};
use custack::device::Device;
use custack::error::CudaError;

#[test]
fn a_uuid_leads_back_to_the_device_also_by_its_beginning() {
    run(|| {
        for device in Device::devices().unwrap() {
            let device = device.unwrap();
            let text = device.uuid_text().unwrap();
            assert_eq!(text.len(), 40, "{text}");
            let digits: String = text[4..].split('-').collect();
            let bytes: String = device.uuid().unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(digits, bytes);
            let lengths: Vec<_> = text[4..].split('-').map(str::len).collect();
            assert_eq!(lengths, [8, 4, 4, 4, 12]);
            assert_eq!(Device::by_uuid(&text), Ok(device));
            assert_eq!(Device::by_uuid(&text.to_uppercase()), Ok(device));
            assert_eq!(Device::by_uuid(&text[..35]), Ok(device));
        }
    });
}

#[test]
fn a_uuid_that_no_device_has_or_several_is_refused_by_name() {
    run(|| {
        let error = Device::by_uuid("GPU-ffffffff-dead-beef").unwrap_err();
        assert_eq!(error, CudaError::InvalidDevice);
        assert!(crate::harness::said(error).contains("\"GPU-ffffffff-dead-beef\""), "{error}");
        let whole = Device::get_device(0).unwrap().uuid_text().unwrap();
        for text in ["", "0", "GPU", "gpu", &whole[4..], "MIG", "\u{e9}\u{e9}\u{e9}"] {
            let error = Device::by_uuid(text).unwrap_err();
            assert_eq!(error, CudaError::InvalidValue, "{text}");
            assert!(crate::harness::said(error).contains("neither GPU- nor MIG-"), "{error}");
        }
        assert_eq!(Device::by_uuid(&format!("{whole}0")), Err(CudaError::InvalidDevice));
        if Device::num_devices().unwrap() > 1 && whole.starts_with("GPU-") {
            let error = Device::by_uuid("GPU-").unwrap_err();
            assert_eq!(error, CudaError::InvalidValue);
            assert!(crate::harness::said(error).contains("several begin so"), "{error}");
        }
    });
}

/// A driver that finds one instance of a partitioned GPU.
const INSTANCE: &str = r#"
#![allow(non_snake_case)]
#[no_mangle] pub unsafe extern "C" fn cuInit(_: u32) -> u32 { 0 }
#[no_mangle] pub unsafe extern "C" fn cuDriverGetVersion(v: *mut i32) -> u32 { *v = 13000; 0 }
#[no_mangle] pub unsafe extern "C" fn cuDeviceGet(d: *mut i32, ordinal: i32) -> u32 { *d = ordinal; 0 }
#[no_mangle] pub unsafe extern "C" fn cuDeviceGetCount(n: *mut i32) -> u32 { *n = 1; 0 }
#[no_mangle] pub unsafe extern "C" fn cuDeviceGetUuid(u: *mut [u8; 16], _: i32) -> u32 { *u = [7; 16]; 0 }
#[no_mangle] pub unsafe extern "C" fn cuDeviceGetUuid_v2(u: *mut [u8; 16], _: i32) -> u32 { *u = [8; 16]; 0 }
#[no_mangle] pub unsafe extern "C" fn cuDeviceGetName(n: *mut [u8; 23], _: i32, _: i32) -> u32 {
    *n = *b"NVIDIA H200 MIG 1g.18gb";
    0
}
#[no_mangle] pub unsafe extern "C" fn cuCtxCreate_v2(_: *mut usize, _: u32, _: i32) -> u32 { 3 }
#[no_mangle] pub unsafe extern "C" fn cuCtxDestroy_v2(_: usize) -> u32 { 3 }
#[no_mangle] pub unsafe extern "C" fn cuCtxPushCurrent_v2(_: usize) -> u32 { 3 }
#[no_mangle] pub unsafe extern "C" fn cuCtxPopCurrent_v2(_: *mut usize) -> u32 { 3 }
#[no_mangle] pub unsafe extern "C" fn cuCtxSetCurrent(_: usize) -> u32 { 3 }
#[no_mangle] pub unsafe extern "C" fn cuCtxGetCurrent(_: *mut usize) -> u32 { 3 }
"#;

/// The body of the child process.
pub(crate) fn instance() {
    custack::init(custack::CudaFlags::empty()).unwrap();
    let device = Device::get_device(0).unwrap();
    assert_eq!(device.mig_profile().unwrap().as_deref(), Some("1g.18gb"));
    assert_eq!(device.uuid_text().unwrap(), "MIG-08080808-0808-0808-0808-080808080808");
    assert_eq!(Device::by_uuid("MIG-0808"), Ok(device));
    assert_eq!(Device::by_uuid("GPU-0808"), Err(CudaError::InvalidDevice));
}

#[test]
#[cfg(target_os = "linux")]
fn an_instance_of_a_partitioned_gpu_is_named_as_such() {
    let Some(library) = library("instance", INSTANCE) else {
        return skip(
            "an_instance_of_a_partitioned_gpu_is_named_as_such",
            "there is no compiler to make the driver with",
        );
    };
    child_succeeds("instance", &[("CUSTACK_DRIVER", "cuda"), ("CUSTACK_LIBCUDA", library.to_str().unwrap())]);
    std::fs::remove_dir_all(library.parent().unwrap()).unwrap();
}

#[test]
fn a_whole_device_has_no_profile() {
    run(|| {
        let device = Device::get_device(0).unwrap();
        let text = device.uuid_text().unwrap();
        assert_eq!(device.mig_profile().unwrap().is_none(), text.starts_with("GPU-"));
    });
}

/// The body of the child process: which devices it sees.
pub(crate) fn print_devices() {
    match custack::init(custack::CudaFlags::empty()) {
        Ok(()) => {}
        Err(error) => return println!("seen: {error:?}"),
    }
    let devices = Device::devices().unwrap().map(Result::unwrap);
    // The simulated machine's own number of a device is in its address.
    let seen: Vec<_> = devices
        .map(|device| {
            assert_eq!(Device::by_uuid(&device.uuid_text().unwrap()), Ok(device));
            assert_eq!(Device::by_pci_bus_id(&device.pci_bus_id().unwrap()), Ok(device));
            device.pci_bus_id().unwrap()[8..10].to_owned()
        })
        .collect();
    println!("seen: {}", seen.join(" "));
    assert!(!custack::sim::set_devices(5), "what is hidden stays so");
}

#[test]
fn the_environment_chooses_among_simulated_devices_and_orders_them() {
    let uuid = |number: u8| format!("GPU-{number:02x}637573-7461-636b-2073-696d20475055");
    let cases = [
        ("2,1".to_owned(), "08 07"),
        ("0,2,-1,1".to_owned(), "06 08"),
        (" 3 , 0".to_owned(), "09 06"),
        ("3,4,0".to_owned(), "09"),
        ("1,x,0".to_owned(), "07"),
        ("3,4,3".to_owned(), "09"),
        ("2;1".to_owned(), "08"),
        ("0x1".to_owned(), "06"),
        ("1 0,3.5,2abc,0-".to_owned(), "07 09 08 06"),
        (uuid(3), "09"),
        (format!("GPU-02,{}", uuid(0)), "08 06"),
        ("GPU-02637573-74,GPU-ff,GPU-00".to_owned(), "08"),
    ];
    for (list, seen) in cases {
        let variables =
            [("CUSTACK_DRIVER", "sim"), ("CUSTACK_SIM_DEVICES", "4"), ("CUDA_VISIBLE_DEVICES", &list)];
        let text = child_succeeds("visible", &variables);
        assert!(text.contains(&format!("seen: {seen}\n")), "{list}: {text}");
    }
}

#[test]
fn a_process_that_sees_no_device_is_told_so() {
    for list in ["", "-1", "4", "none", "GPU-", "GPU-0", "MIG-00637573", "x1", ";1"] {
        let variables =
            [("CUSTACK_DRIVER", "sim"), ("CUSTACK_SIM_DEVICES", "4"), ("CUDA_VISIBLE_DEVICES", list)];
        let (_, text) = child("visible", &variables);
        assert!(text.contains("seen: ") && text.contains("CUDA_ERROR_NO_DEVICE, 100"), "{list}: {text}");
        assert!(text.contains("scenario done"), "{list}: {text}");
    }
}

#[test]
fn a_device_that_the_environment_names_twice_is_an_invalid_one() {
    let uuid = "GPU-02637573";
    for list in ["0,0", "1,0,1", "1,1x", "3,2,1,0,3", &format!("{uuid},GPU-00,{uuid}-7461")] {
        let variables =
            [("CUSTACK_DRIVER", "sim"), ("CUSTACK_SIM_DEVICES", "4"), ("CUDA_VISIBLE_DEVICES", list)];
        let (_, text) = child("visible", &variables);
        assert!(text.contains("seen: ") && text.contains("CUDA_ERROR_INVALID_DEVICE, 101"), "{list}: {text}");
        assert!(text.contains("scenario done"), "{list}: {text}");
    }
}

#[test]
fn gpus_that_are_hidden_leave_a_simulated_machine_of_no_given_size_as_it_is() {
    // Empty counts as not given, whatever these tests run with.
    let variables = [("CUSTACK_DRIVER", "sim"), ("CUSTACK_SIM_DEVICES", ""), ("CUDA_VISIBLE_DEVICES", "-1")];
    let text = child_succeeds("devices", &variables);
    assert!(text.contains("count: 1\n"), "{text}");
}
