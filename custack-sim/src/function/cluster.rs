//! Clusters: which a launch may have, and how many run at once.

use super::Settings;
use super::launch::Asked;
use crate::machine::*;
use custack_sys::ffi::CUresult;

pub(crate) const INVALID_CLUSTER_SIZE: CUresult = 912;
/// Blocks of a cluster that each device of the compute capability can have, and that this one can.
pub(super) const PORTABLE: u32 = 8;
pub(crate) const MOST: u32 = 16;
/// The numbers of multiprocessors in the parts of the device; a cluster is in one part. They reproduce an H200's
/// results.
const PARTS: [u32; 12] = [16, 16, 16, 16, 16, 18, 18, 8, 2, 2, 2, 2];
/// The maximum number of blocks of clusters that run at once on a multiprocessor.
const MOST_OF_PROCESSOR: u32 = 8;

/// How many blocks a cluster has.
pub(crate) fn blocks(cluster: [u32; 3]) -> u32 {
    cluster.iter().fold(1u32, |all, size| all.saturating_mul(*size))
}

/// Whether a grid consists of such clusters.
pub(crate) fn divides(cluster: [u32; 3], grid: [u32; 3]) -> bool {
    cluster.iter().zip(grid).all(|(part, whole)| *part > 0 && whole % part == 0)
}

/// How many blocks the largest cluster has that the kernel may have.
pub(super) fn most_blocks(settings: &Settings) -> u32 {
    let most = if settings.non_portable { MOST } else { PORTABLE };
    settings.most_blocks_of_cluster.map_or(most, |own| most.min(own))
}

impl Machine {
    /// How many clusters of a launch run at once.
    pub(super) fn max_active_clusters(&mut self, asked: &Asked) -> Answer<i32> {
        let Some(cluster) = asked.cluster else { return self.not_empty(asked).map(|()| 0) };
        self.has_blocks(asked)?;
        let settings = self.function(asked.function)?.settings;
        if !divides(cluster, asked.grid) || blocks(cluster) > most_blocks(&settings) {
            return self.refuse(INVALID_CLUSTER_SIZE, format_args!("clusters of {cluster:?}"));
        }
        self.not_empty(asked)?;
        self.active_clusters(asked, blocks(cluster))
    }

    fn has_blocks(&mut self, asked: &Asked) -> Answer<()> {
        if asked.grid.contains(&0) {
            return self.refuse(INVALID_VALUE, "a grid of no blocks");
        }
        Ok(())
    }

    pub(super) fn not_empty(&mut self, asked: &Asked) -> Answer<()> {
        self.has_blocks(asked)?;
        if asked.block.contains(&0) {
            return self.refuse(INVALID_VALUE, "a block of no threads");
        }
        Ok(())
    }

    /// How many blocks the largest cluster has that such a launch can have.
    pub(super) fn max_potential_cluster_size(&mut self, asked: &Asked) -> Answer<i32> {
        self.has_blocks(asked)?;
        let mut size = most_blocks(&self.function(asked.function)?.settings);
        let fits = |cluster| divides(cluster, asked.grid) && (1..=size).contains(&blocks(cluster));
        if asked.cluster.is_some_and(|cluster| !fits(cluster)) {
            return self.refuse(INVALID_CLUSTER_SIZE, "the clusters of the configuration cannot be");
        }
        self.not_empty(asked)?;
        while size > 0 && self.active_clusters(asked, size)? == 0 {
            size -= 1;
        }
        Ok(size as i32)
    }

    fn active_clusters(&mut self, asked: &Asked, blocks: u32) -> Answer<i32> {
        let threads = asked.block.iter().fold(1u64, |all, size| all.saturating_mul((*size).into()));
        let threads = i32::try_from(threads).unwrap_or(i32::MAX);
        let each = u32::try_from(self.blocks_at_once(asked.function, threads, asked.shared)?).unwrap_or(0);
        let each = each.min(MOST_OF_PROCESSOR);
        let room = |processors: u32| if asked.packed() { processors * each } else { processors };
        let large_enough = PARTS.iter().filter(|processors| room(**processors) >= blocks);
        Ok(large_enough.map(|processors| processors * each / blocks).sum::<u32>() as i32)
    }
}
