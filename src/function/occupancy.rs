//! How many blocks of a kernel run at once.

use super::{BlockSize, Function};
use crate::error::{CudaError, CudaResult};

impl Function<'_> {
    /// How many blocks of this size run at once on each multiprocessor, with this much dynamic shared memory each, in
    /// bytes; 0 if none fits. Multiplied by the number of multiprocessors it is the largest grid of a cooperative
    /// launch.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](CudaError::InvalidValue) for a block without threads;
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    ///
    /// ```
    /// # let _context = custack::quick_init()?;
    /// # let ptx = b".version 7.0 .target sm_70 .address_size 64 .visible .entry nothing() { ret; }";
    /// # let module = custack::module::Module::load_from_bytes(ptx)?;
    /// let kernel = module.get_function(c"nothing")?;
    /// assert!(kernel.max_active_blocks_per_multiprocessor(1024, 0)? >= 1);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuOccupancyMaxActiveBlocksPerMultiprocessor")]
    #[inline]
    pub fn max_active_blocks_per_multiprocessor<B: Into<BlockSize>>(
        &self,
        block_size: B,
        dynamic_shared_bytes: usize,
    ) -> CudaResult<u32> {
        let BlockSize { x, y, z } = block_size.into();
        let threads = threads([x, y, z]);
        let blocks = self.with_current(|driver, function| {
            driver.occupancy_max_active_blocks_per_multiprocessor(function, threads, dynamic_shared_bytes)
        });
        blocks.map(i32::unsigned_abs).map_err(|error| match error {
            CudaError::InvalidValue => error
                .note_before(format_args!("to count blocks of {x} x {y} x {z} threads of {}", self.label())),
            _ => error,
        })
    }
}

/// The number of threads, limited to the driver's `int`.
#[inline]
pub(super) fn threads(block: [u32; 3]) -> i32 {
    let threads = block.iter().fold(1u64, |all, size| all.saturating_mul((*size).into()));
    i32::try_from(threads).unwrap_or(i32::MAX)
}
