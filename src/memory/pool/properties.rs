//! Properties, statistics and settings of memory pools.

/// The properties of a pool, for [`MemoryPool::new`](super::MemoryPool::new).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PoolProperties {
    /// The most bytes that the pool reserves, which the driver rounds up; less than 2<sup>50</sup>, and 0 for no limit.
    pub max_size: usize,
    /// Whether other processes may open it.
    pub shareable: bool,
}

impl PoolProperties {
    /// A pool without a limit of its own.
    #[inline]
    pub fn new() -> PoolProperties {
        PoolProperties::default()
    }

    /// Limits the pool to this many bytes, which the driver rounds up to what it reserves at a
    /// time, 32 MiB on an H200 (CUDA 12.2 and later; an older driver refuses it).
    #[must_use]
    #[inline]
    pub fn max_size(self, bytes: usize) -> PoolProperties {
        PoolProperties { max_size: bytes, ..self }
    }

    /// A pool that other processes may open. Graphs do not allocate from it.
    #[must_use]
    #[inline]
    pub fn shareable(self) -> PoolProperties {
        PoolProperties { shareable: true, ..self }
    }
}

/// The memory of a pool, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PoolUsage {
    /// What is allocated now, and not freed by a call.
    pub used: u64,
    /// The maximum of `used` since [`MemoryPool::reset_peaks`](super::MemoryPool::reset_peaks).
    pub used_peak: u64,
    /// What the pool holds of the device's memory now.
    pub reserved: u64,
    /// The maximum of `reserved` since [`MemoryPool::reset_peaks`](super::MemoryPool::reset_peaks).
    pub reserved_peak: u64,
}

/// Which memory freed in one stream a pool may give to another stream before the host knows that the free is done. All
/// are on by default; memory is always reused within the stream that freed it.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PoolReuse {
    /// `CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES`: memory freed before an event that the other stream waits for.
    FollowEventDependencies = 1,
    /// `CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC`: memory whose free happens to be done already.
    Opportunistic = 2,
    /// `CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES`: any memory; the driver makes the other stream wait for the
    /// free.
    InternalDependencies = 3,
}

/// How a device may access the memory of a pool.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PoolAccess {
    /// Nothing.
    None = 0,
    /// Read it.
    Read = 1,
    /// Read and write it.
    ReadWrite = 3,
}
