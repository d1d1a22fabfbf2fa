//! CUDA devices: enumeration and properties.
//!
//! A [`Device`] is a number, not a resource: it costs nothing to copy and is not released. To run anything on one,
//! create a [`Context`](crate::context::Context) on it.
//!
//! ```
//! use custack::device::{Device, DeviceAttribute};
//!
//! custack::init(custack::CudaFlags::empty())?;
//! for device in Device::devices()? {
//!     let device = device?;
//!     let multiprocessors = device.get_attribute(DeviceAttribute::MultiprocessorCount)?;
//!     println!("{}: {multiprocessors} multiprocessors", device.name()?);
//! }
//! # Ok::<(), custack::error::CudaError>(())
//! ```
//!
//! Where a launcher starts one process for each device, [`Device::for_this_process`] is the one to use.
//! [Another page](processes) has the launchers, and what works after a fork, under MPS and under MIG.

mod attribute;
mod identity;
mod peer;
#[cfg(feature = "processes")]
mod process;
#[cfg(feature = "green")]
mod resource;

pub use attribute::DeviceAttribute;
pub use peer::PeerAttribute;
#[cfg(feature = "processes")]
pub use process::{Launcher, Link, LocalRank, LocalRankError, ProcessDevice, Topology, processes};
#[cfg(feature = "green")]
pub use resource::{SmResource, SmSplit, SmSplitFlags, WorkqueueConfig, WorkqueueScope};

use crate::driver::ffi::CUdevice;
use crate::driver::{Numbered, driver};
use crate::error::{CudaError, CudaResult};
use std::ffi::CString;
use std::fmt;
use std::ops::Range;

/// A CUDA device, by its ordinal.
///
/// Every method may return [`NotInitialized`](CudaError::NotInitialized) before [`init`](crate::init), and
/// [`NoDriver`](CudaError::NoDriver) if no driver could be loaded.
#[derive(Debug, Clone, Copy, Hash, Eq, PartialEq)]
pub struct Device {
    device: CUdevice,
}

impl Device {
    /// How many devices the driver finds.
    ///
    /// # Errors
    ///
    /// See [`Device`].
    ///
    /// ```
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// assert!(Device::num_devices()? > 0);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuDeviceGetCount")]
    #[inline]
    pub fn num_devices() -> CudaResult<u32> {
        let count = driver()?.device_get_count()?;
        u32::try_from(count)
            .map_err(|_| CudaError::UnexpectedValue { function: "cuDeviceGetCount", value: count.into() })
    }

    /// The device with this ordinal, from 0.
    ///
    /// # Errors
    ///
    /// [`InvalidDevice`](CudaError::InvalidDevice) for an ordinal that is not below
    /// [`num_devices`](Self::num_devices).
    ///
    /// ```
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let device = Device::get_device(0)?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuDeviceGet")]
    #[inline]
    pub fn get_device(ordinal: u32) -> CudaResult<Device> {
        let driver = driver()?;
        // An ordinal above `i32::MAX` reaches the driver as a negative one, which gets the same error.
        let number = i32::try_from(ordinal).unwrap_or(-1);
        match driver.device_get(number) {
            Ok(device) => Ok(Device { device }),
            Err(error @ CudaError::InvalidDevice) => {
                let count = driver.device_get_count().unwrap_or(0);
                Err(error.note_instead(format_args!(
                    "to get device {ordinal}; there are {count}, numbered from 0"
                )))
            }
            Err(error) => Err(error),
        }
    }

    /// All devices, in the order of their ordinals: those that `CUDA_VISIBLE_DEVICES` lets this process see.
    ///
    /// # Errors
    ///
    /// See [`Device`].
    ///
    /// ```
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// for device in Device::devices()? {
    ///     println!("{}", device?.name()?);
    /// }
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[inline]
    pub fn devices() -> CudaResult<Devices> {
        Ok(Devices { range: 0..Device::num_devices()? })
    }

    /// The memory of the device in bytes.
    ///
    /// # Errors
    ///
    /// See [`Device`].
    ///
    /// ```
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// println!("{} MiB", Device::get_device(0)?.total_memory()? >> 20);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuDeviceTotalMem")]
    #[inline]
    pub fn total_memory(self) -> CudaResult<usize> {
        driver()?.device_total_mem(self.device)
    }

    /// The name of the device, such as `NVIDIA H200`.
    ///
    /// # Errors
    ///
    /// See [`Device`].
    ///
    /// ```
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// assert!(!Device::get_device(0)?.name()?.is_empty());
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuDeviceGetName")]
    #[inline]
    pub fn name(self) -> CudaResult<String> {
        driver()?.device_get_name(self.device)
    }

    /// The 16 bytes that distinguish this device from every other; for an instance of a partitioned device, the
    /// instance's own if the driver supports that.
    ///
    /// # Errors
    ///
    /// See [`Device`].
    ///
    /// ```
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let uuid: [u8; 16] = Device::get_device(0)?.uuid()?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuDeviceGetUuid", "cuDeviceGetUuid_v2"))]
    #[inline]
    pub fn uuid(self) -> CudaResult<[u8; 16]> {
        driver()?.device_get_uuid(self.device)
    }

    /// The locally unique identifier that Windows gives the device, and the mask of its node.
    ///
    /// # Errors
    ///
    /// [`NotSupported`](CudaError::NotSupported) on other systems.
    ///
    /// ```
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let luid = Device::get_device(0)?.luid();
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuDeviceGetLuid")]
    #[inline]
    pub fn luid(self) -> CudaResult<([u8; 8], u32)> {
        driver()?.device_get_luid(self.device)
    }

    /// One property of the device, in the attribute's unit.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](CudaError::InvalidValue) for an attribute that the driver does not know.
    ///
    /// ```
    /// use custack::device::{Device, DeviceAttribute};
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let threads = Device::get_device(0)?.get_attribute(DeviceAttribute::MaxThreadsPerBlock)?;
    /// assert!(threads >= 512);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuDeviceGetAttribute")]
    #[inline]
    pub fn get_attribute(self, attr: DeviceAttribute) -> CudaResult<i32> {
        let number = attr.number()?;
        driver()?.device_get_attribute(number, self.device).map_err(|error| {
            error.note_instead(format_args!("to get attribute {attr:?} of device {}", self.device))
        })
    }

    /// The compute capability, as major and minor number.
    ///
    /// # Errors
    ///
    /// See [`Device`].
    ///
    /// ```
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let (major, minor) = Device::get_device(0)?.compute_capability()?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuDeviceComputeCapability")]
    #[inline]
    pub fn compute_capability(self) -> CudaResult<(i32, i32)> {
        // Uses the attributes: the function of this name is deprecated.
        let major = self.get_attribute(DeviceAttribute::ComputeCapabilityMajor)?;
        Ok((major, self.get_attribute(DeviceAttribute::ComputeCapabilityMinor)?))
    }

    /// The device at this PCI address, written as `domain:bus:device.function`, `domain:bus:device` or
    /// `bus:device.function`.
    ///
    /// # Errors
    ///
    /// [`InvalidDevice`](CudaError::InvalidDevice) if there is no device at this address,
    /// [`InvalidValue`](CudaError::InvalidValue) if the text is not an address.
    ///
    /// ```
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let device = Device::get_device(0)?;
    /// assert_eq!(Device::by_pci_bus_id(&device.pci_bus_id()?)?, device);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuDeviceGetByPCIBusId")]
    #[inline]
    pub fn by_pci_bus_id(address: &str) -> CudaResult<Device> {
        let noted = |error, note: fn(CudaError, fmt::Arguments<'_>) -> CudaError| {
            note(error, format_args!("to find a device at PCI address {address:?}"))
        };
        let text = CString::new(address).map_err(|_| noted(CudaError::InvalidValue, CudaError::note))?;
        let device = driver()?.device_get_by_pci_bus_id(&text);
        let device = device.map_err(|error| noted(error, CudaError::note_instead))?;
        Ok(Device { device })
    }

    /// The PCI address of the device, as `domain:bus:device.function`.
    ///
    /// # Errors
    ///
    /// See [`Device`].
    ///
    /// ```
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// println!("{}", Device::get_device(0)?.pci_bus_id()?);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuDeviceGetPCIBusId")]
    #[inline]
    pub fn pci_bus_id(self) -> CudaResult<String> {
        driver()?.device_get_pci_bus_id(self.device)
    }

    /// Whether a context on this device may be limited to a number of multiprocessors (see
    /// [`Context::create_and_push_with_sm_count`](crate::context::Context::create_and_push_with_sm_count)).
    ///
    /// # Errors
    ///
    /// See [`Device`].
    ///
    /// ```
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// println!("{}", Device::get_device(0)?.supports_exec_affinity()?);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuDeviceGetExecAffinitySupport")]
    #[inline]
    pub fn supports_exec_affinity(self) -> CudaResult<bool> {
        driver()?.device_get_exec_affinity_support(self.device)
    }

    /// The device memory held by graphs, in bytes: the part used now, and the part reserved now.
    ///
    /// # Errors
    ///
    /// See [`Device`].
    ///
    /// ```
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let (used, reserved) = Device::get_device(0)?.graph_memory()?;
    /// assert!(used <= reserved);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuDeviceGetGraphMemAttribute")]
    #[inline]
    pub fn graph_memory(self) -> CudaResult<(u64, u64)> {
        let driver = driver()?;
        let used = driver.device_get_graph_mem_attribute(0, self.device)?;
        Ok((used, driver.device_get_graph_mem_attribute(2, self.device)?))
    }

    /// Releases memory that graphs hold but do not use.
    ///
    /// # Errors
    ///
    /// See [`Device`].
    ///
    /// ```
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// Device::get_device(0)?.trim_graph_memory()?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuDeviceGraphMemTrim")]
    #[inline]
    pub fn trim_graph_memory(self) -> CudaResult<()> {
        driver()?.device_graph_mem_trim(self.device)
    }

    /// The driver's number for the device.
    #[inline]
    pub fn as_raw(self) -> CUdevice {
        self.device
    }

    #[inline]
    pub(crate) fn from_raw(device: CUdevice) -> Device {
        Device { device }
    }
}

/// The iterator over all devices that [`Device::devices`] makes.
#[derive(Debug, Clone)]
pub struct Devices {
    range: Range<u32>,
}

impl Iterator for Devices {
    type Item = CudaResult<Device>;

    #[inline]
    fn next(&mut self) -> Option<CudaResult<Device>> {
        self.range.next().map(Device::get_device)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }

    #[inline]
    fn nth(&mut self, skipped: usize) -> Option<CudaResult<Device>> {
        self.range.nth(skipped).map(Device::get_device)
    }
}

impl DoubleEndedIterator for Devices {
    #[inline]
    fn next_back(&mut self) -> Option<CudaResult<Device>> {
        self.range.next_back().map(Device::get_device)
    }
}

impl ExactSizeIterator for Devices {}
