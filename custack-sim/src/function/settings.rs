//! What can be asked of a kernel and set, of a function and of a library's kernel on each device.

use super::{MOST_SHARED, MOST_THREADS, SHARED_PER_PROCESSOR};
use crate::device::SHARED_PER_BLOCK;
use crate::ptx::{Entry, Program, threads_with};

/// The sizes of shared memory that a multiprocessor can split off its cache, in kilobytes.
const SPLITS: [usize; 9] = [8, 16, 32, 64, 100, 132, 164, 196, 228];
const PREFER_CACHE: u32 = 2;
const PREFER_EQUAL: u32 = 3;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// The most dynamic shared memory that a launch may ask for.
    pub(crate) dynamic_limit: usize,
    /// Static shared memory, which the dynamic one lies beside.
    fixed: usize,
    carveout: i32,
    must_have_cluster: bool,
    /// The size that each cluster has, if it is said.
    pub(crate) cluster: [i32; 3],
    cluster_is_fixed: bool,
    pub(crate) non_portable: bool,
    scheduling: i32,
    pub(crate) cache_config: u32,
    /// The most blocks of a cluster, if the kernel says it.
    pub(crate) most_blocks_of_cluster: Option<u32>,
}

impl Settings {
    pub(crate) fn of(entry: &Entry) -> Settings {
        let directives = &entry.directives;
        Settings {
            dynamic_limit: SHARED_PER_BLOCK.saturating_sub(entry.body.shared),
            fixed: entry.body.shared,
            carveout: -1,
            must_have_cluster: directives.explicit_cluster,
            cluster: directives.cluster.map_or([0; 3], |cluster| cluster.map(|size| size as i32)),
            cluster_is_fixed: directives.cluster.is_some(),
            non_portable: false,
            scheduling: 0,
            cache_config: 0,
            most_blocks_of_cluster: directives.most_blocks_of_cluster,
        }
    }

    pub(crate) fn most_threads(entry: &Entry) -> u64 {
        entry.directives.most_threads.unwrap_or(MOST_THREADS).min(MOST_THREADS)
    }

    /// Whether a launch must say how large a cluster is.
    pub(crate) fn must_have_cluster(&self) -> bool {
        self.must_have_cluster && self.cluster == [0; 3]
    }

    /// The most threads that a block of a kernel has, by what it says and by its registers.
    pub(super) fn most_threads_at_once(program: &Program, entry: usize) -> u64 {
        let by_registers = threads_with(program.registers(entry)).into();
        Settings::most_threads(&program.entries[entry]).min(by_registers)
    }

    /// What the interpreter can tell; the number of registers is an estimate of what a compiler needs.
    pub(crate) fn attribute(&self, program: &Program, entry: usize, attribute: u32) -> Option<i32> {
        let constants = || program.variables.iter().filter(|it| it.constant).map(|it| it.size).sum::<usize>();
        let number = entry;
        let entry = &program.entries[entry];
        Some(match attribute {
            0 => Settings::most_threads_at_once(program, number) as i32,
            1 => entry.body.shared as i32,
            2 => constants() as i32,
            3 => entry.body.local as i32,
            4 => program.registers(number) as i32,
            5 => program.version as i32,
            6 => 90,
            7 => 0,
            8 => self.dynamic_limit as i32,
            9 => self.carveout,
            10 => self.must_have_cluster.into(),
            11..=13 => self.cluster[attribute as usize - 11],
            14 => self.non_portable.into(),
            15 => self.scheduling,
            _ => return None,
        })
    }

    /// How much shared memory a multiprocessor has for blocks of so much each: of the sizes that the device can split
    /// off its cache, the smallest that is as large as the kernel prefers and has room for a block.
    pub(super) fn shared_per_processor(&self, each: usize) -> usize {
        let preferred = match (self.carveout, self.cache_config) {
            (percent @ 0.., _) => percent as usize,
            (_, PREFER_CACHE) => 0,
            (_, PREFER_EQUAL) => 50,
            _ => 100,
        };
        let wanted = each.max(SHARED_PER_PROCESSOR * preferred / 100);
        let sizes = SPLITS.iter().map(|size| size << 10);
        sizes.filter(|size| *size >= wanted).min().unwrap_or(SHARED_PER_PROCESSOR)
    }

    /// Sets an attribute, if it can be set to this.
    pub(crate) fn set(&mut self, attribute: u32, value: i32) -> bool {
        match attribute {
            8 if value >= 0 && value as usize + self.fixed <= MOST_SHARED => {
                self.dynamic_limit = value as usize
            }
            9 if (-1..=100).contains(&value) => self.carveout = value,
            11..=13 if !self.cluster_is_fixed && value >= 0 => self.cluster[attribute as usize - 11] = value,
            14 => self.non_portable = value != 0,
            15 if (0..=2).contains(&value) => self.scheduling = value,
            _ => return false,
        }
        true
    }
}
