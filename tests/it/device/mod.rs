//! `Device`.

pub(crate) mod identity;
#[cfg(all(feature = "processes", feature = "tracing"))]
mod local_rank;
#[cfg(feature = "processes")]
pub(crate) mod peers;
mod ranks;

use crate::harness::{is_simulated, run, start};
use custack::device::{Device, DeviceAttribute};
use custack::error::CudaError;
use std::collections::HashSet;

#[test]
fn devices_are_numbered_from_0() {
    run(|| {
        let count = Device::num_devices().unwrap();
        let devices: Vec<_> = Device::devices().unwrap().map(Result::unwrap).collect();
        assert_eq!(devices.len(), count as usize);
        assert_eq!(Device::devices().unwrap().len(), count as usize);
        for (ordinal, device) in devices.iter().enumerate() {
            assert_eq!(*device, Device::get_device(ordinal as u32).unwrap());
            assert_eq!(device.as_raw(), ordinal as i32);
        }
        assert_eq!(devices.iter().collect::<HashSet<_>>().len(), devices.len());
        let backwards: Vec<_> = Device::devices().unwrap().rev().map(Result::unwrap).collect();
        assert!(backwards.iter().eq(devices.iter().rev()));
        let last = Device::devices().unwrap().nth(devices.len() - 1);
        assert_eq!(last.unwrap().ok(), devices.last().copied());
        assert!(Device::devices().unwrap().nth(devices.len()).is_none());
    });
}

#[test]
fn an_ordinal_beyond_the_devices_is_refused_by_number() {
    run(|| {
        let count = Device::num_devices().unwrap();
        for ordinal in [count, 99, 65_535, i32::MAX as u32, u32::MAX] {
            let error = Device::get_device(ordinal).unwrap_err();
            assert_eq!(error, CudaError::InvalidDevice);
            assert!(
                crate::harness::said(error).contains(&format!("device {ordinal}; there are {count}")),
                "{error}"
            );
        }
    });
}

#[test]
fn a_device_has_a_name_memory_and_a_uuid() {
    run(|| {
        let mut uuids = HashSet::new();
        for device in Device::devices().unwrap() {
            let device = device.unwrap();
            let name = device.name().unwrap();
            assert!(!name.is_empty() && !name.contains('\0'), "{name:?}");
            assert!(device.total_memory().unwrap() > 1 << 30);
            assert!(uuids.insert(device.uuid().unwrap()), "each its own");
        }
        assert!(!uuids.contains(&[0; 16]));
    });
}

#[test]
fn the_simulated_device_says_that_it_is_simulated() {
    run(|| {
        let name = Device::get_device(0).unwrap().name().unwrap();
        assert_eq!(name.contains("Simulated"), is_simulated(), "{name}");
    });
}

#[test]
fn every_attribute_of_cuda_13_is_answered() {
    run(|| {
        let device = Device::get_device(0).unwrap();
        let newest = start().version().unwrap().major() >= 13;
        for attribute in DeviceAttribute::ALL {
            let value = device.get_attribute(*attribute);
            assert!(
                value.is_ok() || !newest && value == Err(CudaError::InvalidValue),
                "{attribute:?}: {value:?}"
            );
        }
        assert_eq!(DeviceAttribute::ALL.len(), 147);
    });
}

#[test]
fn attributes_have_the_drivers_numbers_in_order() {
    for (at, attribute) in DeviceAttribute::ALL.iter().enumerate() {
        assert_eq!(*attribute as usize, at + 1);
    }
    assert_eq!(DeviceAttribute::MaxThreadsPerBlock as u32, 1);
    assert_eq!(DeviceAttribute::ComputeCapabilityMajor as u32, 75);
    assert_eq!(DeviceAttribute::HandleTypeWin32KmtHandleSupported as u32, 105);
    assert_eq!(DeviceAttribute::ClusterLaunch as u32, 120);
}

#[test]
fn attributes_are_those_of_an_h200() {
    run(|| {
        let device = Device::get_device(0).unwrap();
        let value = |attribute| device.get_attribute(attribute).unwrap();
        assert_eq!(value(DeviceAttribute::MaxThreadsPerBlock), 1024);
        assert_eq!(value(DeviceAttribute::WarpSize), 32);
        assert_eq!(value(DeviceAttribute::MultiprocessorCount), 132);
        assert_eq!(value(DeviceAttribute::MaxSharedMemoryPerBlockOptin), 232_448);
        assert_eq!(value(DeviceAttribute::NumaId), -1);
        assert_eq!(device.compute_capability().unwrap(), (9, 0));
    });
}

#[test]
fn the_hidden_last_attribute_is_refused() {
    run(|| {
        let device = Device::get_device(0).unwrap();
        let error = device.get_attribute(DeviceAttribute::__NonExhaustive).unwrap_err();
        assert_eq!(error, CudaError::InvalidValue);
    });
}

#[test]
fn a_pci_address_leads_back_to_the_device() {
    run(|| {
        for device in Device::devices().unwrap() {
            let device = device.unwrap();
            let address = device.pci_bus_id().unwrap();
            assert_eq!(Device::by_pci_bus_id(&address), Ok(device));
            assert_eq!(Device::by_pci_bus_id(&address[5..]), Ok(device), "without the domain");
            assert_eq!(Device::by_pci_bus_id(&address[..10]), Ok(device), "without the function");
            assert_eq!(Device::by_pci_bus_id(&address.to_uppercase()), Ok(device));
        }
    });
}

#[test]
fn wrong_pci_addresses_are_refused_by_name() {
    run(|| {
        assert_eq!(Device::by_pci_bus_id("0000:ff:1f.0"), Err(CudaError::InvalidDevice));
        for text in ["nonsense", "", "0000\0:00:06.0"] {
            let error = Device::by_pci_bus_id(text).unwrap_err();
            assert_eq!(error, CudaError::InvalidValue);
            assert!(crate::harness::said(error).contains(&format!("{text:?}")), "{error}");
        }
    });
}

#[test]
fn queries_that_only_some_devices_support_return_an_answer() {
    run(|| {
        let device = Device::get_device(0).unwrap();
        assert_eq!(device.luid(), Err(CudaError::NotSupported), "only on Windows");
        assert!(!device.supports_exec_affinity().unwrap());
        let (used, reserved) = device.graph_memory().unwrap();
        assert!(used <= reserved, "{used} of {reserved}");
        device.trim_graph_memory().unwrap();
    });
}
