//! Why a launch is refused: a sentence that names the argument and its limit.

use super::{Argument, Function};
use crate::device::DeviceAttribute;
use crate::driver::ffi::CUfunction;
use crate::driver::{Driver, Held, More, Shape};
use crate::error::{CudaError, CudaResult, keep_note};
use std::fmt;

/// A kernel's attributes, by the driver's numbers.
const MAX_THREADS_PER_BLOCK: u32 = 0;
const SHARED_SIZE_BYTES: u32 = 1;
const MAX_DYNAMIC_SHARED_SIZE_BYTES: u32 = 8;
const CLUSTER_SIZE_MUST_BE_SET: u32 = 10;
const REQUIRED_CLUSTER_WIDTH: u32 = 11;

impl Function<'_> {
    /// Refuses arguments that do not match the kernel's parameters, if the driver says what those are.
    #[inline]
    pub(super) fn refuse_other_arguments(&self, arguments: &[Argument]) -> CudaResult<()> {
        self.refuse_another_count(arguments.len())?;
        let Some(wanted) = self.parameter_sizes() else { return Ok(()) };
        match arguments.iter().zip(wanted).position(|(argument, size)| !argument.fits(*size)) {
            Some(at) => Err(self.does_not_fit(at, arguments[at], wanted[at])),
            None => Ok(()),
        }
    }

    /// Refuses a number of arguments that is not that of the kernel's parameters.
    #[inline]
    pub(crate) fn refuse_another_count(&self, given: usize) -> CudaResult<()> {
        match self.parameter_sizes() {
            Some(wanted) if wanted.len() != given => Err(self.another_count(given, wanted.len())),
            _ => Ok(()),
        }
    }

    #[cold]
    fn another_count(&self, given: usize, takes: usize) -> CudaError {
        let plural = if given == 1 { "" } else { "s" };
        CudaError::InvalidValue
            .note(format_args!("to launch {} with {given} argument{plural}; it takes {takes}", self.label()))
    }

    #[cold]
    fn does_not_fit(&self, at: usize, argument: Argument, size: usize) -> CudaError {
        CudaError::InvalidValue.note(format_args!(
            "to launch {} with {argument} for its parameter {at} (counted from 0), which has {size} bytes",
            self.label()
        ))
    }

    /// The error of a launch that cannot begin, with the kernel, unless it names the launch already.
    #[cold]
    pub(super) fn not_launched(&self, error: CudaError) -> CudaError {
        match error.last_asked() {
            Some(asked) if asked.starts_with("to launch ") => error,
            _ => error.note_before(format_args!("to launch {}", self.label())),
        }
    }

    /// The error of a launch that the driver refused, or of a node for one, with the reason if it can be found. `asked` is
    /// "to launch" or the like.
    #[cold]
    pub(crate) fn refused(
        &self,
        asked: &str,
        driver: &Driver,
        function: Held<'_, CUfunction>,
        shape: Shape,
        error: CudaError,
    ) -> CudaError {
        let kernel = self.label();
        // Queries made only to find the reason leave no note.
        let kept = keep_note();
        let wrong = match error {
            CudaError::InvalidValue | CudaError::LaunchOutOfResources => outside(driver, function, shape),
            CudaError::CooperativeLaunchTooLarge => too_many_at_once(driver, function, shape),
            CudaError::InvalidClusterSize => cluster(driver, function, shape),
            _ => None,
        };
        drop(kept);
        match wrong {
            Some(wrong) => error.note_instead(format_args!("{asked} {kernel}: {wrong}")),
            None => error.note_before(format_args!("{asked} {kernel} with {}", Sizes(shape))),
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

/// The first size that is 0, or larger than the device or the kernel allows. A limit that cannot be queried is skipped.
fn outside(driver: &Driver, function: Held<'_, CUfunction>, shape: Shape) -> Option<String> {
    use DeviceAttribute::*;
    let device = driver.ctx_get_device().ok()?;
    let most = |attribute: DeviceAttribute| driver.device_get_attribute(attribute as u32, device).ok();
    let dimensions = [
        ("grid", shape.grid, [MaxGridDimX, MaxGridDimY, MaxGridDimZ]),
        ("block", shape.block, [MaxBlockDimX, MaxBlockDimY, MaxBlockDimZ]),
    ];
    for (what, sizes, limits) in dimensions {
        for ((size, limit), axis) in sizes.into_iter().zip(limits).zip(["x", "y", "z"]) {
            if let Some(limit) = most(limit).filter(|limit| size == 0 || i64::from(size) > (*limit).into()) {
                return Some(format!("{what}.{axis} is {size}, and may be 1 to {limit}"));
            }
        }
    }
    let of_kernel = |attribute| driver.func_get_attribute(function, attribute).ok();
    let block = threads(shape.block);
    if let Some(limit) = of_kernel(MAX_THREADS_PER_BLOCK).filter(|limit| block > *limit as u64) {
        return Some(format!("a block has {block} threads; this kernel takes at most {limit}"));
    }
    let (fixed, limit) = (of_kernel(SHARED_SIZE_BYTES)?, of_kernel(MAX_DYNAMIC_SHARED_SIZE_BYTES)?);
    if i64::from(shape.shared) <= limit.into() {
        return None;
    }
    let most = most(MaxSharedMemoryPerBlockOptin).map_or(i64::MAX, |most| i64::from(most) - i64::from(fixed));
    let advice = match i64::from(shape.shared) <= most {
        true => "; `SettableAttribute::MaxDynamicSharedSizeBytes` can allow it".to_owned(),
        false => format!("; the device has no more than {most} for it"),
    };
    Some(format!(
        "{} bytes of dynamic shared memory; this kernel takes at most {limit}{advice}",
        shape.shared
    ))
}

/// How many blocks of a cooperative launch run at once.
fn too_many_at_once(driver: &Driver, function: Held<'_, CUfunction>, shape: Shape) -> Option<String> {
    let device = driver.ctx_get_device().ok()?;
    let block = i32::try_from(threads(shape.block)).unwrap_or(i32::MAX);
    let shared = shape.shared as usize;
    let each = driver.occupancy_max_active_blocks_per_multiprocessor(function, block, shared).ok()?;
    let processors = driver.device_get_attribute(DeviceAttribute::MultiprocessorCount as u32, device).ok()?;
    let (blocks, most) = (threads(shape.grid), i64::from(each) * i64::from(processors));
    Some(format!("{blocks} blocks, of which {most} run at once on this device"))
}

/// Why the clusters of a launch are refused.
fn cluster(driver: &Driver, function: Held<'_, CUfunction>, shape: Shape) -> Option<String> {
    let of_kernel = |attribute| driver.func_get_attribute(function, attribute).ok();
    let [ox, oy, oz] = [
        of_kernel(REQUIRED_CLUSTER_WIDTH)?,
        of_kernel(REQUIRED_CLUSTER_WIDTH + 1)?,
        of_kernel(REQUIRED_CLUSTER_WIDTH + 2)?,
    ];
    let has_own = [ox, oy, oz] != [0; 3];
    let given = shape.more.cluster.filter(|cluster| *cluster != [0; 3]);
    let Some(given) = given else {
        if has_own {
            let [gx, gy, gz] = shape.grid;
            return Some(format!("clusters of {ox} x {oy} x {oz} do not divide {gx} x {gy} x {gz} blocks"));
        }
        let must = of_kernel(CLUSTER_SIZE_MUST_BE_SET)? != 0;
        return must.then(|| {
            "the kernel needs a size of clusters, and the launch says no size of its clusters".to_owned()
        });
    };
    let [x, y, z] = given;
    if has_own && given != [ox, oy, oz].map(i32::unsigned_abs) {
        return Some(format!("clusters of {x} x {y} x {z}, and the kernel's are {ox} x {oy} x {oz}"));
    }
    let plain = Shape { more: More::default(), ..shape };
    let most = driver.occupancy_max_potential_cluster_size(function, plain).ok()?;
    let blocks = threads(given);
    (blocks > most as u64).then(|| format!("a cluster has {blocks} blocks; this kernel takes at most {most}"))
}
