//! One device for each process.

use super::LocalRank;
use crate::device::Device;
use crate::error::{CudaError, CudaResult};
use crate::report;
use std::fmt;

/// The device that this process is to use, and why; [`Device::for_this_process`] makes it.
///
/// ```
/// use custack::device::{LocalRank, ProcessDevice};
///
/// custack::init(custack::CudaFlags::empty())?;
/// // The program knows from its communicator that it is the sixth of eight processes on this machine.
/// let chosen = ProcessDevice::for_rank(LocalRank::new(5, Some(8)))?;
/// assert_eq!(chosen.device().as_raw() as u32, 5 % chosen.count());
/// println!("{chosen}");
/// # Ok::<(), custack::error::CudaError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessDevice {
    device: Device,
    count: u32,
    rank: LocalRank,
}

impl Device {
    /// The device of this process, where a launcher has started one process for each device of a machine: the one whose
    /// ordinal is the launcher's local rank. With more processes than devices it begins again at device 0. Without a
    /// launcher it is device 0.
    ///
    /// The variables of Open MPI, MPICH, Intel MPI, Slurm, torchrun and flux are known, and `CUSTACK_LOCAL_RANK` comes
    /// before them all: [`LocalRank`] has their names and their order. custack depends on none of these programs.
    ///
    /// A launcher that shows each process a device of its own, by `CUDA_VISIBLE_DEVICES` or a container, goes together
    /// with this: the process has one device then, and takes it.
    ///
    /// What was taken and why is the text of the result, and is reported through `tracing` (target `custack`, level
    /// `DEBUG`).
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](CudaError::InvalidValue) if the variable does not hold a number, with a text that names it and
    /// what it holds ([`LocalRank::from_environment`] returns the same as a value);
    /// [`NoDevice`](CudaError::NoDevice) if there is none; and see [`Device`].
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags};
    /// use custack::device::Device;
    ///
    /// custack::init(custack::CudaFlags::empty())?;
    /// let chosen = Device::for_this_process()?;
    /// println!("{chosen}");
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, chosen.device())?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[inline]
    pub fn for_this_process() -> CudaResult<ProcessDevice> {
        let rank = LocalRank::from_environment().map_err(|error| error.refusal())?;
        ProcessDevice::for_rank(rank)
    }
}

impl ProcessDevice {
    /// The device of the process with this local rank: as [`Device::for_this_process`], with a rank that the program
    /// has.
    ///
    /// # Errors
    ///
    /// [`NoDevice`](CudaError::NoDevice) if there is none; and see [`Device`].
    #[inline]
    pub fn for_rank(rank: LocalRank) -> CudaResult<ProcessDevice> {
        let count = Device::num_devices()?;
        let Some(ordinal) = rank.rank().checked_rem(count) else {
            return Err(CudaError::NoDevice.note(format_args!("to choose a device for {rank}")));
        };
        let chosen = ProcessDevice { device: Device::get_device(ordinal)?, count, rank };
        report::debug(format_args!("{chosen}"));
        Ok(chosen)
    }

    /// The device.
    #[inline]
    pub fn device(&self) -> Device {
        self.device
    }

    /// How many devices this process sees.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The local rank that decided.
    #[inline]
    pub fn rank(&self) -> &LocalRank {
        &self.rank
    }
}

impl From<ProcessDevice> for Device {
    #[inline]
    fn from(chosen: ProcessDevice) -> Device {
        chosen.device
    }
}

/// A sentence: what was taken and why.
impl fmt::Display for ProcessDevice {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ProcessDevice { device, count, rank } = self;
        write!(f, "this process takes device {} of {count}, because it is {rank}", device.as_raw())?;
        if rank.rank() >= *count {
            write!(
                f,
                "; there are fewer devices than processes, and {} modulo {count} is taken",
                rank.rank()
            )?;
        }
        Ok(())
    }
}
