//! Whether each instruction computes right.
//!
//! * `forms` has every form of the instructions that compute, and what an H200 answered;
//! * `kernels` has kernels as compilers write them, and what an H200 computed with them;
//! * `arithmetic` has the interpreter's arithmetic by itself, against references that compute in other ways;
//! * the files here have what depends on more than operands.

mod arithmetic;
mod forms;
mod joined;
pub(crate) mod kernels;
mod matrices;
mod mbarriers;
mod newer;
mod speed;
mod warps;
