//! The device of one process of several, and how devices are connected.

mod local_rank;
mod of_process;
mod topology;

pub use local_rank::{Launcher, LocalRank, LocalRankError};
pub use of_process::ProcessDevice;
pub use topology::{Link, Topology};

#[doc = include_str!("processes.md")]
pub mod processes {}
