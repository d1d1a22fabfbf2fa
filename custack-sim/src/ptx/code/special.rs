//! Special registers: `%tid`, `%clock` and others, which instructions read.

use super::super::types::Class;
use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The size of the shared memory that the system reserves in each block, in bytes.
pub(in super::super) const RESERVED: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in super::super) enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    Laneid,
    Warpid,
    Nwarpid,
    Smid,
    Nsmid,
    Gridid,
    LanemaskEq,
    LanemaskLe,
    LanemaskLt,
    LanemaskGe,
    LanemaskGt,
    Clusterid(u8),
    Nclusterid(u8),
    ClusterCtaid(u8),
    ClusterNctaid(u8),
    ClusterCtarank,
    ClusterNctarank,
    IsExplicitCluster,
    Envreg(u8),
    DynamicShared,
    TotalShared,
    /// The size of all shared memory, with what the system reserves.
    AggregateShared,
    /// The address of an offset in the shared memory that the system reserves, which follows all other shared memory.
    Reserved(u16),
    Zero,
    /// Zero, of 64 bits.
    WideZero,
}

impl Special {
    /// Whether its value differs between blocks although it is not a coordinate.
    pub(super) fn is_of_place(self) -> bool {
        matches!(self, Special::Smid | Special::Clusterid(_))
    }

    pub(super) fn class(self) -> Class {
        match self {
            Special::Gridid | Special::WideZero => Class::B64,
            Special::IsExplicitCluster => Class::Pred,
            _ => Class::B32,
        }
    }

    pub(super) fn named(name: &str) -> Option<Special> {
        let name = name.strip_prefix('%')?;
        if let Some((base, axis)) = name.split_once('.') {
            return Special::coordinate(base, axis);
        }
        if let Some(number) = name.strip_prefix("envreg").and_then(|number| number.parse().ok()) {
            return Some(Special::Envreg(number)).filter(|_| number < 32);
        }
        // Performance counters, which do not count here.
        if let Some(counter) = name.strip_prefix("pm") {
            let (number, zero) = match counter.strip_suffix("_64") {
                Some(number) => (number, Special::WideZero),
                None => (counter, Special::Zero),
            };
            return number.parse().ok().filter(|number: &u8| *number < 8).map(|_| zero);
        }
        Some(match name {
            "laneid" => Special::Laneid,
            "warpid" => Special::Warpid,
            "nwarpid" => Special::Nwarpid,
            "smid" => Special::Smid,
            "nsmid" => Special::Nsmid,
            "current_graph_exec" => Special::WideZero,
            "gridid" => Special::Gridid,
            "lanemask_eq" => Special::LanemaskEq,
            "lanemask_le" => Special::LanemaskLe,
            "lanemask_lt" => Special::LanemaskLt,
            "lanemask_ge" => Special::LanemaskGe,
            "lanemask_gt" => Special::LanemaskGt,
            "dynamic_smem_size" => Special::DynamicShared,
            "total_smem_size" => Special::TotalShared,
            "aggr_smem_size" => Special::AggregateShared,
            "reserved_smem_offset_begin" | "reserved_smem_offset_0" => Special::Reserved(0),
            "reserved_smem_offset_1" => Special::Reserved(RESERVED as u16 / 2),
            "reserved_smem_offset_end" => Special::Reserved(RESERVED as u16),
            "cluster_ctarank" => Special::ClusterCtarank,
            "cluster_nctarank" => Special::ClusterNctarank,
            "is_explicit_cluster" => Special::IsExplicitCluster,
            _ => return None,
        })
    }

    /// An element of a special register with three dimensions, whose fourth element is 0.
    fn coordinate(base: &str, axis: &str) -> Option<Special> {
        let axis = match axis {
            "x" | "r" => 0,
            "y" | "g" => 1,
            "z" | "b" => 2,
            "w" | "a" => 3,
            _ => return None,
        };
        let special = match base {
            "tid" => Special::Tid(axis),
            "ntid" => Special::Ntid(axis),
            "ctaid" => Special::Ctaid(axis),
            "nctaid" => Special::Nctaid(axis),
            "clusterid" => Special::Clusterid(axis),
            "nclusterid" => Special::Nclusterid(axis),
            "cluster_ctaid" => Special::ClusterCtaid(axis),
            "cluster_nctaid" => Special::ClusterNctaid(axis),
            _ => return None,
        };
        Some(if axis == 3 { Special::Zero } else { special })
    }
}

/// Special registers whose values change while a kernel runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    Low,
    High,
    All,
    Nanoseconds,
    NanosecondsLow,
    NanosecondsHigh,
}

impl Clock {
    pub(super) fn named(name: &str) -> Option<Clock> {
        Some(match name {
            "%clock" => Clock::Low,
            "%clock_hi" => Clock::High,
            "%clock64" => Clock::All,
            "%globaltimer" => Clock::Nanoseconds,
            "%globaltimer_lo" => Clock::NanosecondsLow,
            "%globaltimer_hi" => Clock::NanosecondsHigh,
            _ => return None,
        })
    }

    pub(super) fn class(self) -> Class {
        if matches!(self, Clock::All | Clock::Nanoseconds) { Class::B64 } else { Class::B32 }
    }

    /// The present value, for clocks with a tick of one nanosecond.
    pub(super) fn now(self) -> u64 {
        let now = nanoseconds();
        match self {
            Clock::Low | Clock::NanosecondsLow => now & 0xffff_ffff,
            Clock::High | Clock::NanosecondsHigh => now >> 32,
            Clock::All | Clock::Nanoseconds => now,
        }
    }
}

/// Nanoseconds that never go back: the host's time is read once, and a monotonic clock continues from there.
fn nanoseconds() -> u64 {
    static BEGUN: OnceLock<(Instant, u64)> = OnceLock::new();
    let (begun, first) = BEGUN.get_or_init(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        (Instant::now(), since.map_or(0, |since| since.as_nanos() as u64))
    });
    first.wrapping_add(begun.elapsed().as_nanos() as u64)
}
