//! The best sizes of blocks and clusters, and the shared memory available for them.

use super::{BlockSize, Function, FunctionAttribute, LaunchConfig};
use crate::device::DeviceAttribute;
use crate::error::{CudaError, CudaResult};

/// The block size with the highest occupancy, as [`max_potential_block_size`](Function::max_potential_block_size) finds
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct BestBlock {
    /// The number of threads in a block.
    pub block_size: u32,
    /// The smallest number of blocks that fills the device.
    pub min_grid_size: u32,
}

impl Function<'_> {
    /// The block size, in threads, with which most threads run at once on a multiprocessor; the larger of two equally
    /// good ones. `shared_bytes` returns the dynamic shared memory, in bytes, of a block with this many threads.
    /// `limit` is the maximum block size, 0 for the kernel's own.
    ///
    /// custack searches by itself: it asks the driver how many blocks of each size run at once.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](CudaError::InvalidValue) if no block fits;
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    ///
    /// ```
    /// # let _context = custack::quick_init()?;
    /// # let ptx = b".version 7.0 .target sm_70 .address_size 64 .visible .entry nothing() { ret; }";
    /// # let module = custack::module::Module::load_from_bytes(ptx)?;
    /// let kernel = module.get_function(c"nothing")?;
    /// let best = kernel.max_potential_block_size(|threads| threads as usize * 4, 0)?;
    /// assert_eq!(best.block_size % 32, 0);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuOccupancyMaxPotentialBlockSize", "cuOccupancyMaxActiveBlocksPerMultiprocessor"))]
    #[inline]
    pub fn max_potential_block_size(
        &self,
        shared_bytes: impl Fn(u32) -> usize,
        limit: u32,
    ) -> CudaResult<BestBlock> {
        let device = self.context().device()?;
        let of_device = |attribute| device.get_attribute(attribute).map(i32::unsigned_abs);
        let (warp, processors) =
            (of_device(DeviceAttribute::WarpSize)?.max(1), of_device(DeviceAttribute::MultiprocessorCount)?);
        let full = of_device(DeviceAttribute::MaxThreadsPerMultiprocessor)?;
        let most = self.get_attribute(FunctionAttribute::MaxThreadsPerBlock)?.unsigned_abs();
        let most = if limit == 0 { most } else { most.min(limit) };
        let mut best = (0, BestBlock { block_size: 0, min_grid_size: 0 });
        let mut aligned = most.next_multiple_of(warp);
        while aligned > 0 {
            let block_size = aligned.min(most);
            let blocks = self.max_active_blocks_per_multiprocessor(block_size, shared_bytes(block_size))?;
            let threads = blocks * block_size;
            if threads > best.0 {
                best = (threads, BestBlock { block_size, min_grid_size: blocks * processors });
            }
            if threads >= full {
                break;
            }
            aligned -= warp;
        }
        if best.0 == 0 {
            let kernel = self.label();
            return Err(CudaError::InvalidValue
                .note(format_args!("to find a block size for {kernel}, of which no block fits")));
        }
        Ok(best.1)
    }

    /// The largest dynamic shared memory of a block, in bytes, with which this many blocks of this size run at once on
    /// each multiprocessor (CUDA 10.2 and later).
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](CudaError::InvalidValue) if that many blocks or threads do not run at once;
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    #[doc(alias = "cuOccupancyAvailableDynamicSMemPerBlock")]
    #[inline]
    pub fn available_dynamic_shared_bytes<B: Into<BlockSize>>(
        &self,
        blocks: u32,
        block_size: B,
    ) -> CudaResult<usize> {
        let BlockSize { x, y, z } = block_size.into();
        let threads = super::occupancy::threads([x, y, z]);
        let count = i32::try_from(blocks).unwrap_or(i32::MAX);
        let bytes = self.with_current(|driver, function| {
            driver.occupancy_available_dynamic_smem_per_block(function, count, threads)
        });
        bytes.inspect_err(|error| {
            error.note_before(format_args!(
                "to find the shared memory for {blocks} blocks of {x} x {y} x {z} threads of {}",
                self.label()
            ));
        })
    }

    /// How many clusters of such a launch run at once on the device (CUDA 11.8 and later); 0 for a launch without a
    /// [cluster size](LaunchConfig::cluster).
    ///
    /// # Errors
    ///
    /// [`InvalidClusterSize`](CudaError::InvalidClusterSize) for a cluster that is too large;
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    #[doc(alias = "cuOccupancyMaxActiveClusters")]
    #[inline]
    pub fn max_active_clusters(&self, config: &LaunchConfig) -> CudaResult<u32> {
        let shape = config.shape();
        let clusters =
            self.with_current(|driver, function| driver.occupancy_max_active_clusters(function, shape));
        clusters.map(i32::unsigned_abs).inspect_err(|error| {
            error.note_before(format_args!("to count the clusters of {}", self.label()));
        })
    }

    /// The largest cluster that such a launch can have, in blocks (CUDA 11.8 and later).
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed); an error of the driver for invalid sizes.
    #[doc(alias = "cuOccupancyMaxPotentialClusterSize")]
    #[inline]
    pub fn max_potential_cluster_size(&self, config: &LaunchConfig) -> CudaResult<u32> {
        let shape = config.shape();
        let size = self
            .with_current(|driver, function| driver.occupancy_max_potential_cluster_size(function, shape));
        size.map(i32::unsigned_abs).inspect_err(|error| {
            error.note_before(format_args!("to find the largest cluster of {}", self.label()));
        })
    }
}
