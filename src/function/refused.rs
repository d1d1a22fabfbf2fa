//! Why a launch is refused: which argument is outside what, in a sentence.

use super::Function;
use crate::device::DeviceAttribute;
use crate::driver::ffi::CUfunction;
use crate::driver::{Driver, Held, Shape};
use crate::error::{CudaError, CudaResult};
use std::fmt;

/// A kernel's attributes, by the driver's numbers.
const MAX_THREADS_PER_BLOCK: u32 = 0;
const SHARED_SIZE_BYTES: u32 = 1;
const MAX_DYNAMIC_SHARED_SIZE_BYTES: u32 = 8;

impl Function<'_> {
    /// Refuses a launch with other arguments than the kernel has parameters, where the driver tells what they are.
    #[inline]
    pub(super) fn refuse_other_arguments(
        &self,
        sizes: impl ExactSizeIterator<Item = usize> + Clone,
    ) -> CudaResult<()> {
        match self.parameters {
            Some(wanted) if !sizes.clone().eq(wanted.iter().copied()) => {
                Err(self.other_arguments(wanted, sizes))
            }
            _ => Ok(()),
        }
    }

    #[cold]
    fn other_arguments(&self, wanted: &[usize], sizes: impl ExactSizeIterator<Item = usize>) -> CudaError {
        let kernel = self.name;
        if sizes.len() != wanted.len() {
            let (given, takes) = (sizes.len(), wanted.len());
            return CudaError::InvalidValue
                .note(format_args!("to launch {kernel} with {given} arguments; it takes {takes}"));
        }
        let differs = sizes.zip(wanted).enumerate().find(|(_, (size, wanted))| size != *wanted);
        let (at, (size, wanted)) = differs.unwrap_or((0, (0, &0)));
        CudaError::InvalidValue.note(format_args!(
            "to launch {kernel} with {size} bytes for its parameter {at} (numbered from 0), which has {wanted}"
        ))
    }

    /// As [`refuse_other_arguments`](Self::refuse_other_arguments), where only their number is known.
    #[inline]
    pub(crate) fn refuse_another_count(&self, given: usize) -> CudaResult<()> {
        match self.parameters {
            Some(wanted) if wanted.len() != given => {
                Err(self.other_arguments(wanted, std::iter::repeat_n(0, given)))
            }
            _ => Ok(()),
        }
    }

    /// The error of a launch that the driver refused, with what is wrong about it if that can be found.
    #[cold]
    pub(super) fn refused(
        &self,
        driver: &Driver,
        function: Held<'_, CUfunction>,
        shape: Shape,
        error: CudaError,
    ) -> CudaError {
        let kernel = self.name;
        let wrong = match error {
            CudaError::InvalidValue | CudaError::LaunchOutOfResources => outside(driver, function, shape),
            CudaError::CooperativeLaunchTooLarge => too_many_at_once(driver, function, shape),
            _ => Ok(None),
        };
        // What was asked only to find the reason leaves no note.
        match wrong {
            Ok(Some(wrong)) => error.note(format_args!("to launch {kernel}: {wrong}")),
            _ => error.note_before(format_args!("to launch {kernel} with {}", Sizes(shape))),
        }
    }
}

struct Sizes(Shape);

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape { grid: [gx, gy, gz], block: [bx, by, bz], shared, .. } = self.0;
        write!(
            f,
            "{gx} x {gy} x {gz} blocks of {bx} x {by} x {bz} threads and {shared} bytes of dynamic shared memory"
        )
    }
}

fn threads(block: [u32; 3]) -> u64 {
    block.iter().fold(1, |all: u64, size| all.saturating_mul((*size).into()))
}

/// The first size that is none, or larger than the device or the kernel allows.
fn outside(driver: &Driver, function: Held<'_, CUfunction>, shape: Shape) -> CudaResult<Option<String>> {
    let device = driver.ctx_get_device()?;
    let most = |attribute: DeviceAttribute| driver.device_get_attribute(attribute as u32, device);
    let dimensions = [
        (
            "grid",
            shape.grid,
            [DeviceAttribute::MaxGridDimX, DeviceAttribute::MaxGridDimY, DeviceAttribute::MaxGridDimZ],
        ),
        (
            "block",
            shape.block,
            [DeviceAttribute::MaxBlockDimX, DeviceAttribute::MaxBlockDimY, DeviceAttribute::MaxBlockDimZ],
        ),
    ];
    for (what, sizes, limits) in dimensions {
        for ((size, limit), axis) in sizes.into_iter().zip(limits).zip(["x", "y", "z"]) {
            let limit = most(limit)?;
            if size == 0 || i64::from(size) > limit.into() {
                return Ok(Some(format!("{what}.{axis} is {size}, and may be 1 to {limit}")));
            }
        }
    }
    let of_kernel = |attribute| driver.func_get_attribute(function, attribute);
    let (block, limit) = (threads(shape.block), of_kernel(MAX_THREADS_PER_BLOCK)?);
    if block > limit as u64 {
        return Ok(Some(format!("a block has {block} threads, and may have {limit} of this kernel")));
    }
    let (fixed, limit) = (of_kernel(SHARED_SIZE_BYTES)?, of_kernel(MAX_DYNAMIC_SHARED_SIZE_BYTES)?);
    if i64::from(shape.shared) > limit.into() {
        return Ok(Some(format!(
            "{} bytes of dynamic shared memory, and there may be {limit} beside the {fixed} of the kernel \
             (`SettableAttribute::MaxDynamicSharedSizeBytes` can allow more)",
            shape.shared
        )));
    }
    Ok(None)
}

/// How many blocks of a cooperative launch run at once.
fn too_many_at_once(
    driver: &Driver,
    function: Held<'_, CUfunction>,
    shape: Shape,
) -> CudaResult<Option<String>> {
    let device = driver.ctx_get_device()?;
    let block = i32::try_from(threads(shape.block)).unwrap_or(i32::MAX);
    let each =
        driver.occupancy_max_active_blocks_per_multiprocessor(function, block, shape.shared as usize)?;
    let processors = driver.device_get_attribute(DeviceAttribute::MultiprocessorCount as u32, device)?;
    let (blocks, most) = (threads(shape.grid), i64::from(each) * i64::from(processors));
    Ok(Some(format!("{blocks} blocks, of which {most} run at once on this device")))
}
