//! A device's multiprocessors as a resource that can be split.

mod workqueue;

pub use workqueue::{WorkqueueConfig, WorkqueueScope};

use super::Device;
use crate::driver::driver;
use crate::driver::ffi::{CU_DEV_RESOURCE_TYPE_SM, CUdevResource};
use crate::error::{CudaError, CudaResult};
use bitflags::bitflags;
use std::fmt;

bitflags! {
    /// How multiprocessors are split.
    pub struct SmSplitFlags: u32 {
        /// Groups of multiprocessors that are scheduled together.
        const DEFAULT = 0x00;
        /// Smaller groups (of 2 on an H200, where the smallest one else has 8) whose multiprocessors need not be
        /// scheduled together: large clusters may not run in them.
        const IGNORE_SM_COSCHEDULING = 0x01;
        /// Groups in which the largest clusters can run that the device has, where possible. It excludes
        /// `IGNORE_SM_COSCHEDULING`.
        const MAX_POTENTIAL_CLUSTER_SIZE = 0x02;
    }
}

/// Multiprocessors of a device: all of them, or a part, from which a
/// [`GreenContext`](crate::context::GreenContext) is made.
///
/// It is a description, not a reservation: nothing is taken from the device by having one, parts may overlap, and a
/// copy is as good as the original.
///
/// ```
/// use custack::device::Device;
/// use custack::error::CudaError;
///
/// custack::init(custack::CudaFlags::empty())?;
/// let all = match Device::get_device(0)?.sm_resource() {
///     Err(CudaError::CallRequiresNewerDriver) => return Ok(()), // before CUDA 12.4
///     all => all?,
/// };
/// let split = all.split(2, all.min_partition())?;
/// for part in split.groups.iter().chain(&split.rest) {
///     println!("{} of {} multiprocessors", part.count(), all.count());
/// }
/// # Ok::<(), CudaError>(())
/// ```
#[derive(Clone, Copy)]
pub struct SmResource {
    raw: CUdevResource,
    device: Device,
}

/// What [`SmResource::split`] gives.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SmSplit {
    /// The groups, all of one size, that have no multiprocessor in common.
    pub groups: Vec<SmResource>,
    /// The multiprocessors in no group, if there are any. They need not be of one size with the groups, or aligned.
    pub rest: Option<SmResource>,
}

impl SmResource {
    /// A resource that the driver has written.
    #[inline]
    pub(crate) fn of(raw: CUdevResource, device: Device) -> SmResource {
        SmResource { raw, device }
    }

    /// How many multiprocessors there are.
    #[doc(alias = "smCount")]
    #[inline]
    pub fn count(&self) -> u32 {
        self.raw.sm[0]
    }

    /// How many multiprocessors the smallest group of a [split](Self::split) has; 0 if this is a part that a split gave,
    /// which cannot be split again before a green context is made from it. Drivers before CUDA 13.0 may say 0.
    #[doc(alias = "minSmPartitionSize")]
    #[inline]
    pub fn min_partition(&self) -> u32 {
        self.raw.sm[1]
    }

    /// The number of which the size of a group is a multiple; 0 as in [`min_partition`](Self::min_partition).
    #[doc(alias = "smCoscheduledAlignment")]
    #[inline]
    pub fn alignment(&self) -> u32 {
        self.raw.sm[2]
    }

    /// The device whose multiprocessors they are.
    #[inline]
    pub fn device(&self) -> Device {
        self.device
    }

    /// Splits into groups of at least `least` multiprocessors, at most `groups` of them, and the rest. Nothing changes
    /// here: splitting again gives the same parts.
    ///
    /// The driver rounds `least` up to the [smallest group](Self::min_partition) and then to a multiple of the
    /// [alignment](Self::alignment), but not beyond all multiprocessors that there are. There are as many groups as have
    /// room, or fewer, if the device cannot schedule them: an H200, with 132 multiprocessors, makes 15 groups of 8 and
    /// leaves 12, and 8 groups of 16 and leaves 4.
    ///
    /// # Errors
    ///
    /// [`InvalidResourceConfiguration`](crate::error::CudaError::InvalidResourceConfiguration) if `least` is more than
    /// there are, or if this is a part of an earlier split;
    /// [`InvalidValue`](crate::error::CudaError::InvalidValue) for no groups;
    /// [`CallRequiresNewerDriver`](crate::error::CudaError::CallRequiresNewerDriver) before CUDA 12.4.
    #[doc(alias = "cuDevSmResourceSplitByCount")]
    #[inline]
    pub fn split(&self, groups: u32, least: u32) -> CudaResult<SmSplit> {
        self.split_with(SmSplitFlags::DEFAULT, groups, least)
    }

    /// Like [`split`](Self::split), with flags.
    ///
    /// # Errors
    ///
    /// Those of [`split`](Self::split); [`InvalidValue`](crate::error::CudaError::InvalidValue) for flags that exclude
    /// each other.
    ///
    /// ```
    /// # use custack::device::{Device, SmSplitFlags};
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let all = Device::get_device(0)?.sm_resource()?;
    /// let small = all.split_with(SmSplitFlags::IGNORE_SM_COSCHEDULING, 1, 1)?;
    /// assert!(small.groups[0].count() <= all.min_partition());
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuDevSmResourceSplitByCount")]
    #[inline]
    pub fn split_with(&self, flags: SmSplitFlags, groups: u32, least: u32) -> CudaResult<SmSplit> {
        // There cannot be more groups than multiprocessors, and the driver is given room for all.
        let room = groups.min(self.count());
        let split = driver()?.dev_sm_resource_split_by_count(&self.raw, room, flags.bits(), least);
        let (groups, rest) = split.map_err(|error| match error {
            CudaError::CallRequiresNewerDriver => error,
            _ => error.note_before(format_args!("to split {self:?} into groups of at least {least}")),
        })?;
        let part = |raw| SmResource { raw, ..*self };
        let rest = (rest.kind == CU_DEV_RESOURCE_TYPE_SM).then_some(part(rest));
        Ok(SmSplit { groups: groups.into_iter().map(part).collect(), rest })
    }

    /// The driver's description.
    #[inline]
    pub fn as_raw(&self) -> CUdevResource {
        self.raw
    }
}

impl fmt::Debug for SmResource {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmResource")
            .field("count", &self.count())
            .field("min_partition", &self.min_partition())
            .field("alignment", &self.alignment())
            .field("device", &self.device.as_raw())
            .finish()
    }
}

impl Device {
    /// All multiprocessors of the device (CUDA 12.4 and later).
    ///
    /// # Errors
    ///
    /// [`CallRequiresNewerDriver`](crate::error::CudaError::CallRequiresNewerDriver) on an older driver.
    ///
    /// ```
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let all = Device::get_device(0)?.sm_resource()?;
    /// assert!(all.count() > 0);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuDeviceGetDevResource")]
    #[inline]
    pub fn sm_resource(self) -> CudaResult<SmResource> {
        let raw = driver()?.device_get_dev_resource(self.as_raw())?;
        Ok(SmResource::of(raw, self))
    }
}
