//! The simulated driver: its controls, and whether it answers as a real driver does.

mod arith;
mod clusters;
mod controls;
pub(crate) mod facts;
mod joined;
mod matrices;
mod mbarriers;
mod memory;
mod newer;
mod pool;
mod ptx;
mod ptx_forms;
mod ptx_size;
mod speed;
mod storage;
mod threads;
mod trace;
mod warps;
