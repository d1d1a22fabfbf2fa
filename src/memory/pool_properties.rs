//! What pools of memory are like, and what they tell.

/// What a pool is like, for [`MemoryPool::new`](super::MemoryPool::new).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PoolProperties {
    /// Bytes that the pool reserves at most, rounded up as the driver likes; 0 leaves it to the driver.
    pub max_size: usize,
}

impl PoolProperties {
    /// No limit but the device's.
    pub fn new() -> PoolProperties {
        PoolProperties::default()
    }

    /// At most so many bytes, rounded up as the driver likes (since CUDA 12.2; an older driver refuses it).
    #[must_use]
    pub fn max_size(self, bytes: usize) -> PoolProperties {
        PoolProperties { max_size: bytes }
    }
}

/// Bytes that a pool has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PoolUsage {
    /// That the program uses now: allocated, and not freed by a call.
    pub used: u64,
    /// The most that it has used at once, since [`MemoryPool::reset_peaks`](super::MemoryPool::reset_peaks).
    pub used_peak: u64,
    /// That the pool has of the device's memory now.
    pub reserved: u64,
    /// The most that it has had at once, since [`MemoryPool::reset_peaks`](super::MemoryPool::reset_peaks).
    pub reserved_peak: u64,
}

/// Which memory that was freed in one stream a pool may give to another one, before the host has seen that the free is
/// done. All are on unless switched off; memory freed in a stream is given to that stream again in any case.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PoolReuse {
    /// `CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES`: what was freed before an event that the other stream waits for.
    FollowEventDependencies = 1,
    /// `CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC`: what happens to be free already.
    Opportunistic = 2,
    /// `CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES`: anything, and the driver makes the other stream wait for it.
    InternalDependencies = 3,
}

/// What a device may do with a pool's memory.
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
