//! [`LaunchConfig`]: how a kernel is launched, as a value.

use super::{BlockSize, GridSize};
use crate::driver::{More, Shape, numbered};
use crate::error::{CudaError, CudaResult};

numbered! {
    /// How the blocks of a cluster are spread over the multiprocessors.
    #[non_exhaustive]
    pub enum ClusterScheduling {
        /// As the driver likes.
        Default = 0,
        /// As far as possible.
        Spread = 1,
        /// So that all multiprocessors have as much.
        LoadBalancing = 2,
    }
}

/// How a kernel is launched: sizes, and what only some launches ask for.
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
    /// So many blocks of so many threads, and nothing else.
    pub fn new(grid: impl Into<GridSize>, block: impl Into<BlockSize>) -> LaunchConfig {
        let (grid, block) = (grid.into(), block.into());
        let shape = Shape::plain([grid.x, grid.y, grid.z], [block.x, block.y, block.z], 0);
        LaunchConfig { shape }
    }

    fn with(self, more: More) -> LaunchConfig {
        LaunchConfig { shape: Shape { more, ..self.shape } }
    }

    /// So many bytes of dynamic shared memory for each block.
    pub fn shared_bytes(self, bytes: u32) -> LaunchConfig {
        LaunchConfig { shape: Shape { shared: bytes, ..self.shape } }
    }

    /// Whether all blocks run at once, and so may wait for each other (CUDA 9.0 and later).
    pub fn cooperative(self, wanted: bool) -> LaunchConfig {
        LaunchConfig { shape: Shape { cooperative: wanted, ..self.shape } }
    }

    /// So many blocks to a cluster, which run at once and reach each other's shared memory (CUDA 11.8 and later, compute
    /// capability 9.0 and later). The grid is a multiple of it in each dimension. Up to 8 blocks every such device can run;
    /// more need [`NonPortableClusterSizeAllowed`](super::SettableAttribute::NonPortableClusterSizeAllowed).
    pub fn cluster(self, blocks: impl Into<GridSize>) -> LaunchConfig {
        let GridSize { x, y, z } = blocks.into();
        self.with(More { cluster: Some([x, y, z]), ..self.shape.more })
    }

    /// How the blocks of a cluster are spread.
    pub fn cluster_scheduling(self, how: ClusterScheduling) -> LaunchConfig {
        self.with(More { scheduling: Some(how as u32), ..self.shape.more })
    }

    /// The priority of this launch, rather than the stream's: lower numbers come first (CUDA 11.8 and later). It is in
    /// [`get_stream_priority_range`](crate::context::CurrentContext::get_stream_priority_range).
    pub fn priority(self, priority: i32) -> LaunchConfig {
        self.with(More { priority: Some(priority), ..self.shape.more })
    }

    /// Whether the kernel may begin before the one before it in its stream has ended: when all of its blocks have executed
    /// `griddepcontrol.launch_dependents`, or ended. It waits for the other's writes by `griddepcontrol.wait` itself
    /// (CUDA 11.8 and later, compute capability 9.0 and later).
    pub fn programmatic_serialization(self, wanted: bool) -> LaunchConfig {
        self.with(More { programmatic: wanted, ..self.shape.more })
    }

    /// How much of the common memory should be shared memory in this launch, in percent (CUDA 12.3 and later).
    pub fn preferred_carveout(self, percent: u32) -> LaunchConfig {
        self.with(More { carveout: Some(percent), ..self.shape.more })
    }

    /// How many blocks.
    pub fn grid(&self) -> GridSize {
        let [x, y, z] = self.shape.grid;
        GridSize { x, y, z }
    }

    /// How many threads to a block.
    pub fn block(&self) -> BlockSize {
        let [x, y, z] = self.shape.block;
        BlockSize { x, y, z }
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }
}

/// Refuses what no device can do, before the driver is asked.
///
/// # Errors
///
/// [`InvalidClusterSize`](CudaError::InvalidClusterSize), as the driver has it.
#[inline]
pub(super) fn refuse_impossible(shape: &Shape) -> CudaResult<()> {
    match shape.more.cluster {
        // Nothing at all is as no size.
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
