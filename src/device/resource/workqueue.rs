//! How the work queues of a device's contexts are chosen.

use crate::device::Device;
use crate::driver::driver;
use crate::driver::ffi::CUdevResource;
use crate::error::{CudaError, CudaResult};
use std::fmt;

/// How the driver chooses the work queues of a context, through which the work of streams reaches the device (CUDA 13.1 and
/// later). Work of two streams that share a queue may wait for each other, though nothing orders it.
#[derive(Clone, Copy)]
pub struct WorkqueueConfig {
    raw: CUdevResource,
    device: Device,
}

/// With whom a context shares its work queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WorkqueueScope {
    /// With all contexts of the device, which is what the driver does by itself.
    DeviceContexts,
    /// With no other green context of this scope, where there are enough queues.
    GreenContextBalanced,
    /// Something that a newer driver knows, by its number.
    Other(u32),
}

impl WorkqueueConfig {
    /// What the driver has written. An older driver does not know the kind, which is said as it is of functions.
    #[inline]
    pub(crate) fn of(raw: CudaResult<CUdevResource>, device: Device) -> CudaResult<WorkqueueConfig> {
        match raw {
            Ok(raw) => Ok(WorkqueueConfig { raw, device }),
            Err(error @ CudaError::InvalidResourceType) => {
                Err(error.note_instead(format_args!("to ask for work queues, which came with CUDA 13.1")))
            }
            Err(error) => Err(error),
        }
    }

    /// How many pieces of work in the order of streams are expected to run at once, at the most.
    #[doc(alias = "wqConcurrencyLimit")]
    #[inline]
    pub fn concurrency_limit(&self) -> u32 {
        self.raw.sm[1]
    }

    /// With whom the queues are shared.
    #[doc(alias = "sharingScope")]
    #[inline]
    pub fn scope(&self) -> WorkqueueScope {
        match self.raw.sm[2] {
            0 => WorkqueueScope::DeviceContexts,
            1 => WorkqueueScope::GreenContextBalanced,
            other => WorkqueueScope::Other(other),
        }
    }

    /// The device.
    #[inline]
    pub fn device(&self) -> Device {
        self.device
    }

    /// The driver's description.
    #[inline]
    pub fn as_raw(&self) -> CUdevResource {
        self.raw
    }
}

impl fmt::Debug for WorkqueueConfig {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("WorkqueueConfig");
        text.field("concurrency_limit", &self.concurrency_limit()).field("scope", &self.scope());
        text.field("device", &self.device).finish()
    }
}

impl Device {
    /// How the work queues of the device's contexts are chosen (CUDA 13.1 and later).
    ///
    /// # Errors
    ///
    /// [`InvalidResourceType`](CudaError::InvalidResourceType) before CUDA 13.1, and
    /// [`CallRequiresNewerDriver`](CudaError::CallRequiresNewerDriver) before CUDA 12.4.
    ///
    /// ```
    /// use custack::device::Device;
    /// use custack::error::CudaError;
    ///
    /// custack::init(custack::CudaFlags::empty())?;
    /// match Device::get_device(0)?.workqueue_config() {
    ///     Err(CudaError::InvalidResourceType) => println!("the driver is older than CUDA 13.1"),
    ///     config => println!("{} at once", config?.concurrency_limit()),
    /// }
    /// # Ok::<(), CudaError>(())
    /// ```
    #[doc(alias("cuDeviceGetDevResource", "CUdevWorkqueueConfigResource"))]
    #[inline]
    pub fn workqueue_config(self) -> CudaResult<WorkqueueConfig> {
        WorkqueueConfig::of(driver()?.device_get_workqueue_config(self.as_raw()), self)
    }
}
