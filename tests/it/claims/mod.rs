//! Claims about custack as a whole: soundness, faults, threads, costs, and what programs of other crates rely on.

mod attack;
mod bad_input;
pub(crate) mod cost;
mod debug_texts;
mod faults;
mod faults_equal;
mod faults_green;
mod faults_in_a_row;
mod faults_work;
mod foreign;
mod foreign_kinds;
mod lifetimes;
mod lives;
mod names;
mod numbers;
mod outside;
mod parity;
mod programs;
mod programs_work;
mod rustacuda;
mod rustacuda_names;
pub(crate) mod spent;
mod threads;
mod traits;
