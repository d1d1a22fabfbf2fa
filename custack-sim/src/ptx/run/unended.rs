//! Reports where the threads are of a kernel that has executed as many instructions as it may.

use super::block::Env;
use super::cluster::Cluster;
use super::fault::{Fault, LAUNCH_TIMEOUT};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The number of clusters that are described; the others are counted.
const TOLD: usize = 4;

#[derive(Default)]
pub(super) struct Unended {
    is_over: AtomicBool,
    /// For the first clusters of each worker, the cluster's number and where its threads are; and how many more
    /// clusters there are.
    found: Mutex<(Vec<(u64, String)>, usize)>,
}

impl Unended {
    /// Notes that the kernel has executed as many instructions as it may.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Notes where the threads of a worker's clusters are, if the kernel has reached its limit.
    pub(super) fn tell(&self, waiting: &VecDeque<Box<Cluster>>, env: &Env<'_>) {
        if !self.is_over.load(Ordering::Relaxed) {
            return;
        }
        let mut clusters: Vec<&Cluster> = waiting.iter().map(|cluster| &**cluster).collect();
        clusters.sort_by_key(|cluster| cluster.index);
        let told = clusters.iter().take(TOLD).map(|cluster| (cluster.index, cluster.positions(env)));
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.0.extend(told);
        found.1 += clusters.len().saturating_sub(TOLD);
    }

    pub(super) fn fault(self, limit: u64) -> Option<Fault> {
        if !self.is_over.into_inner() {
            return None;
        }
        let (mut found, mut more) = self.found.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.sort();
        more += found.len().saturating_sub(TOLD);
        found.truncate(TOLD);
        let threads = found.into_iter().map(|(_, threads)| threads).collect::<Vec<_>>().join("; ");
        let others = match more {
            0 => String::new(),
            more => format!("; and {more} more that have begun"),
        };
        let why = format!("it does not end after {limit} instructions: {threads}{others}");
        Some(Fault::new(LAUNCH_TIMEOUT, why))
    }
}
