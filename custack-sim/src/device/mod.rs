//! Devices: an H200's attributes and other properties.

pub(super) mod abi;
mod visible;

use super::context::Primary;
use super::machine::*;
use super::memory;
use custack_sys::ffi::CUdevice;
use std::collections::BTreeSet;

/// What an H200 with driver 580 returned, from attribute 1.
#[rustfmt::skip]
const ATTRIBUTES: [i32; 147] = [
    1024, 1024, 1024, 64, 2_147_483_647, 65_535, 65_535, 49_152, 65_536, 32, 2_147_483_647, 65_536,
    1_980_000, 512, 1, 132, 0, 0, 1, 0, 131_072, 131_072, 65_536, 16_384, 16_384, 16_384, 32_768, 32_768,
    2048, 512, 1, 1, 0, 6, 0, 3_201_000, 6016, 62_914_560, 2048, 3, 1, 32_768, 2048, 1, 32_768, 32_768,
    8192, 8192, 32_768, 0, 32, 32_768, 32_768, 2046, 32_768, 131_072, 65_536, 16_384, 16_384, 16_384,
    32_768, 2048, 32_768, 32_768, 2048, 32_768, 32_768, 2046, 268_435_456, 131_072, 65_000, 2_097_120,
    32_768, 32_768, 9, 0, 32_768, 1, 1, 1, 233_472, 65_536, 1, 0, 0, 0, 2, 0, 1, 1, 1, 0, 0, 0, 1, 1,
    232_448, 0, 1, 0, 0, 1, 1, 0, 0, 32, 1, 39_321_600, 134_217_728, 1, 1024, 1, 1, 1, 1, 1, 1, 100, 9, 1,
    1, 1, 1, 1, 1, 4, 1, 1, 1, 0, -1, 0, 0, 0, 0, 0, 0, 0, 590_680_286, 415_174_878, 1, 1, 0, 1, 1, 0, 0,
];

pub(super) const NAME: &str = "Simulated NVIDIA H200";
pub(super) const TOTAL_MEMORY: usize = 150_109_880_320;
pub(super) const SM_COUNT: u32 = 132;
/// The bytes of a block unless it requests more.
pub(super) const SHARED_PER_BLOCK: usize = 49_152;
/// The size of the smallest partition of multiprocessors, and its alignment.
pub(super) const SM_PARTITION: [u32; 2] = [8, 8];

const MAX_THREADS_PER_BLOCK: u32 = 1;
const PCI_DEVICE_ID: u32 = 34;
const CONCURRENT_MANAGED_ACCESS: u32 = 89;
const MULTI_GPU_BOARD_GROUP_ID: u32 = 85;
const ATOMIC_OPERATIONS: u32 = 13;
const FIRST_PCI_DEVICE: usize = 6;
const GRAPH_MEM_ATTRIBUTES: u32 = 4;

pub(super) struct Dev {
    /// Which of the machine's devices it is, whatever ordinal the process sees it under.
    number: usize,
    pub(super) primary: Primary,
    notifications: BTreeSet<usize>,
    notified: usize,
}

impl Dev {
    pub(super) fn new(number: usize) -> Dev {
        Dev { number, primary: Primary::default(), notifications: BTreeSet::new(), notified: 0 }
    }
}

/// An invented UUID, whose first two digits say which device it is.
fn uuid_of(number: usize) -> [u8; 16] {
    let mut uuid = *b"0custack sim GPU";
    uuid[0] = number as u8;
    uuid
}

impl Machine {
    pub(super) fn device(&mut self, device: CUdevice) -> Answer<usize> {
        match usize::try_from(device) {
            Ok(index) if index < self.devices.len() => Ok(index),
            _ => {
                let count = self.devices.len();
                self.refuse(INVALID_DEVICE, format_args!("device {device} of {count}, counted from 0"))
            }
        }
    }

    /// Checks a query of a device that writes its result through a pointer.
    pub(super) fn ask_device(&mut self, has_out: bool, device: CUdevice) -> Answer<usize> {
        self.ready()?;
        if !has_out {
            return self.refuse(INVALID_VALUE, "the pointer for the result is NULL");
        }
        self.device(device)
    }

    pub(super) fn attribute(&mut self, attribute: u32, device: CUdevice) -> Answer<i32> {
        self.ready()?;
        let device = self.device(device)?;
        let number = self.devices[device].number;
        let index = attribute.wrapping_sub(MAX_THREADS_PER_BLOCK) as usize;
        match ATTRIBUTES.get(index) {
            Some(_) if attribute == PCI_DEVICE_ID => Ok((FIRST_PCI_DEVICE + number) as i32),
            Some(_) if attribute == MULTI_GPU_BOARD_GROUP_ID => Ok(number as i32),
            Some(_) if attribute == CONCURRENT_MANAGED_ACCESS => Ok((!memory::lock().apart.wanted).into()),
            Some(value) => Ok(*value),
            None => self.refuse(INVALID_VALUE, format_args!("{attribute} is not a device attribute")),
        }
    }

    pub(super) fn uuid(&mut self, has_out: bool, device: CUdevice) -> Answer<[u8; 16]> {
        let device = self.ask_device(has_out, device)?;
        Ok(uuid_of(self.devices[device].number))
    }

    pub(super) fn pci_bus_id(&mut self, device: CUdevice) -> Answer<String> {
        self.ready()?;
        let device = self.device(device)?;
        Ok(format!("0000:00:{:02x}.0", FIRST_PCI_DEVICE + self.devices[device].number))
    }

    pub(super) fn by_pci_bus_id(&mut self, address: &str) -> Answer<CUdevice> {
        self.ready()?;
        let Some((domain, bus, device)) = parse_pci(address) else {
            return self.refuse(INVALID_VALUE, format_args!("{address:?} is not a PCI address"));
        };
        let number = device.checked_sub(FIRST_PCI_DEVICE);
        let found = self.devices.iter().position(|known| Some(known.number) == number);
        match found {
            Some(index) if domain == 0 && bus == 0 => Ok(index as CUdevice),
            _ => self.refuse(INVALID_DEVICE, format_args!("no device is at PCI address {address:?}")),
        }
    }

    /// The width of a one-dimensional linear texture: at most 2^30 elements, and at most 4 GiB.
    pub(super) fn texture_width(&mut self, format: u32, channels: u32, device: CUdevice) -> Answer<usize> {
        self.ready()?;
        let bytes: u32 = match format {
            0x01 | 0x08 => 1,
            0x02 | 0x09 | 0x10 => 2,
            0x03 | 0x0a | 0x20 => 4,
            _ => return self.refuse(INVALID_VALUE, format_args!("{format:#x} is not an array format")),
        };
        if ![1, 2, 4].contains(&channels) {
            return self.refuse(
                INVALID_VALUE,
                format_args!("an array element has 1, 2 or 4 channels, not {channels}"),
            );
        }
        self.device(device)?;
        Ok((1 << 30).min((1 << 32) / (bytes * channels) as usize))
    }

    /// Checks the operations, although the device supports none of them on host memory.
    pub(super) fn atomics(&mut self, operations: &[u32]) -> Answer<()> {
        match operations.iter().find(|operation| **operation >= ATOMIC_OPERATIONS) {
            Some(operation) => {
                self.refuse(INVALID_VALUE, format_args!("{operation} is not an atomic operation"))
            }
            None => Ok(()),
        }
    }

    /// Checks that the two devices exist and differ.
    pub(super) fn link(&mut self, device: CUdevice, peer: CUdevice) -> Answer<(usize, usize)> {
        self.ready()?;
        let (here, there) = (self.device(device)?, self.device(peer)?);
        if here == there {
            return self.refuse(INVALID_DEVICE, "a device has no link to itself");
        }
        Ok((here, there))
    }

    /// The rank of the link between two devices that differ; `None` where a test has cut it.
    pub(super) fn link_rank(&self, here: usize, there: usize) -> Option<i32> {
        self.links.get(&(here, there)).copied().unwrap_or(Some(0))
    }

    pub(super) fn link_attribute(&mut self, attribute: u32, device: CUdevice, peer: CUdevice) -> Answer<i32> {
        let (here, there) = self.link(device, peer)?;
        let rank = self.link_rank(here, there);
        match attribute {
            1 => Ok(rank.unwrap_or(0)),
            2..=4 => Ok(i32::from(rank.is_some())),
            5 => Ok(0),
            _ => self.refuse(INVALID_VALUE, format_args!("{attribute} is not an attribute of a link")),
        }
    }

    /// There is nothing to flush, but the arguments are checked: the current context, for its owner or for all.
    pub(super) fn flush(&mut self, target: u32, scope: u32) -> Answer<()> {
        self.current()?;
        if target != 0 || ![100, 200].contains(&scope) {
            return self
                .refuse(INVALID_VALUE, format_args!("{target} and {scope} are not a target and a scope"));
        }
        Ok(())
    }

    /// What graphs have of the device's memory: used, and reserved, each now and at most.
    pub(super) fn graph_memory(&mut self, attribute: u32, device: CUdevice) -> Answer<u64> {
        self.ready()?;
        self.device(device)?;
        if attribute >= GRAPH_MEM_ATTRIBUTES {
            return self
                .refuse(INVALID_VALUE, format_args!("{attribute} is not an attribute of graph memory"));
        }
        Ok(memory::lock().count_of_graphs(attribute))
    }

    pub(super) fn trim_graph_memory(&mut self, device: CUdevice) -> Answer<()> {
        self.graph_memory(0, device)?;
        memory::lock().trim_of_graphs();
        Ok(())
    }

    /// Only the two high-water marks can be reset to 0.
    pub(super) fn set_graph_memory(&mut self, attribute: u32, value: u64, device: CUdevice) -> Answer<()> {
        self.graph_memory(attribute, device)?;
        if attribute % 2 == 0 || value != 0 {
            return self.refuse(
                INVALID_VALUE,
                "only the high-water marks of graph memory can be set, and only to 0",
            );
        }
        memory::lock().forget_most_of_graphs(attribute);
        Ok(())
    }

    pub(super) fn register_notification(&mut self, given: bool, device: CUdevice) -> Answer<usize> {
        self.ready()?;
        if !given {
            return self
                .refuse(INVALID_VALUE, "a notification needs a function and a pointer for its handle");
        }
        let index = self.device(device)?;
        let device = &mut self.devices[index];
        device.notified += 1;
        device.notifications.insert(device.notified);
        Ok(device.notified)
    }

    pub(super) fn unregister_notification(&mut self, callback: usize, device: CUdevice) -> Answer<()> {
        self.ready()?;
        let index = self.device(device)?;
        if self.devices[index].notifications.remove(&callback) {
            return Ok(());
        }
        self.misuse(
            INVALID_HANDLE,
            "cuDeviceUnregisterAsyncNotification of a callback that is not registered",
        )
    }
}

/// Parses `domain:bus:device.function`, in hexadecimal; domain and function may be missing.
fn parse_pci(address: &str) -> Option<(usize, usize, usize)> {
    let number = |text: &str| usize::from_str_radix(text, 16).ok();
    let whole = address.split_once('.').map_or(address, |(whole, _function)| whole);
    let parts: Vec<usize> = whole.split(':').map(number).collect::<Option<_>>()?;
    match parts[..] {
        [domain, bus, device] => Some((domain, bus, device)),
        [bus, device] => Some((0, bus, device)),
        _ => None,
    }
}
