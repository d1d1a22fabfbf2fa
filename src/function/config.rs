//! [`LaunchConfig`]: how a kernel is launched, as a value.

use super::{BlockSize, GridSize};
use crate::driver::{More, Shape, numbered};
use crate::error::{CudaError, CudaResult};

numbered! {
    /// How the blocks of a cluster are distributed over the multiprocessors.
    #[non_exhaustive]
    pub enum ClusterScheduling {
        /// The driver's default.
        Default = 0,
        /// Over as many multiprocessors as possible.
        Spread = 1,
        /// With equal load on the multiprocessors.
        LoadBalancing = 2,
    }
}

/// How a kernel is launched: the sizes, and options that few launches need.
///
/// ```
/// use custack::function::LaunchConfig;
/// use custack::launch;
/// # use custack::{module::Module, stream::{Stream, StreamFlags}};
/// # let _context = custack::quick_init()?;
/// # let ptx = b".version 7.0 .target sm_70 .address_size 64 .visible .entry nothing() { ret; }";
/// # let module = Module::load_from_bytes(ptx)?;
/// # let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
///
/// let config = LaunchConfig::new((8, 2), 128).shared_bytes(1024).priority(-1);
/// // SAFETY: the kernel takes nothing and does nothing.
/// unsafe { launch!(module.nothing<<<config, stream>>>()) }?;
/// # stream.synchronize()?;
/// # Ok::<(), custack::error::CudaError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LaunchConfig {
    shape: Shape,
}

impl LaunchConfig {
    /// A grid of blocks of threads, without options.
    #[inline]
    pub fn new(grid: impl Into<GridSize>, block: impl Into<BlockSize>) -> LaunchConfig {
        let (grid, block) = (grid.into(), block.into());
        let shape = Shape::plain([grid.x, grid.y, grid.z], [block.x, block.y, block.z], 0);
        LaunchConfig { shape }
    }

    fn with(self, more: More) -> LaunchConfig {
        LaunchConfig { shape: Shape { more, ..self.shape } }
    }

    /// Sets the dynamic shared memory of a block, in bytes.
    #[inline]
    pub fn shared_bytes(self, bytes: u32) -> LaunchConfig {
        LaunchConfig { shape: Shape { shared: bytes, ..self.shape } }
    }

    /// Whether the launch is cooperative: all blocks run at once, so they may wait for each other (CUDA 9.0 and later).
    #[inline]
    pub fn cooperative(self, wanted: bool) -> LaunchConfig {
        LaunchConfig { shape: Shape { cooperative: wanted, ..self.shape } }
    }

    /// Sets the number of blocks in a cluster, which run at once and can access each other's shared memory (CUDA 11.8
    /// and later, compute capability 9.0 and later). The grid must be a multiple of it in each dimension. Every such
    /// device supports up to 8 blocks; more need
    /// [`NonPortableClusterSizeAllowed`](super::SettableAttribute::NonPortableClusterSizeAllowed).
    #[inline]
    pub fn cluster(self, blocks: impl Into<GridSize>) -> LaunchConfig {
        let GridSize { x, y, z } = blocks.into();
        self.with(More { cluster: Some([x, y, z]), ..self.shape.more })
    }

    /// Sets how the blocks of a cluster are distributed.
    #[inline]
    pub fn cluster_scheduling(self, how: ClusterScheduling) -> LaunchConfig {
        self.with(More { scheduling: Some(how as u32), ..self.shape.more })
    }

    /// Sets the priority of this launch, instead of the stream's: lower numbers come first (CUDA 11.8 and later). The
    /// range is [`get_stream_priority_range`](crate::context::CurrentContext::get_stream_priority_range).
    #[inline]
    pub fn priority(self, priority: i32) -> LaunchConfig {
        self.with(More { priority: Some(priority), ..self.shape.more })
    }

    /// Whether the kernel may start before the previous kernel in its stream has ended, namely when all blocks of that
    /// kernel have executed `griddepcontrol.launch_dependents` or ended. The kernel itself waits for the previous one's
    /// writes by `griddepcontrol.wait` (CUDA 11.8 and later, compute capability 9.0 and later).
    #[inline]
    pub fn programmatic_serialization(self, wanted: bool) -> LaunchConfig {
        self.with(More { programmatic: wanted, ..self.shape.more })
    }

    /// Sets how much of the on-chip memory should be shared memory in this launch, in percent (CUDA 12.3 and later).
    #[inline]
    pub fn preferred_carveout(self, percent: u32) -> LaunchConfig {
        self.with(More { carveout: Some(percent), ..self.shape.more })
    }

    /// The number of blocks.
    #[inline]
    pub fn grid(&self) -> GridSize {
        let [x, y, z] = self.shape.grid;
        GridSize { x, y, z }
    }

    /// The number of threads in a block.
    #[inline]
    pub fn block(&self) -> BlockSize {
        let [x, y, z] = self.shape.block;
        BlockSize { x, y, z }
    }

    #[inline]
    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }
}

/// Refuses sizes that no device supports, before the driver is called.
///
/// # Errors
///
/// [`InvalidClusterSize`](CudaError::InvalidClusterSize), as the driver has it.
#[inline]
pub(crate) fn refuse_impossible(shape: &Shape) -> CudaResult<()> {
    match shape.more.cluster {
        // All zeros mean that no size is set.
        Some(cluster) if cluster != [0; 3] && !divides(cluster, shape.grid) => {
            Err(impossible(cluster, shape.grid))
        }
        _ => Ok(()),
    }
}

fn divides(cluster: [u32; 3], grid: [u32; 3]) -> bool {
    cluster.into_iter().zip(grid).all(|(part, whole)| part > 0 && whole % part == 0)
}

#[cold]
fn impossible([x, y, z]: [u32; 3], [gx, gy, gz]: [u32; 3]) -> CudaError {
    CudaError::InvalidClusterSize.note(format_args!(
        "to launch {gx} x {gy} x {gz} blocks in clusters of {x} x {y} x {z}, which do not divide them"
    ))
}
