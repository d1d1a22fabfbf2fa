//! Kernels: a reader and an interpreter for scalar PTX, read as a table of instructions.
//!
//! [`tokens`] cuts the text, [`read`] finds the entries and the variables, [`decode`] turns each instruction into an
//! [`Op`](decode::Op) once, when the module is loaded, and [`run`] steps through them, a block at a time and within it
//! a thread at a time from one barrier to the next. [`values`] has the arithmetic. It is no compiler, and no model of
//! time: what it promises is the result.
//!
//! An instruction that is not in the table makes loading fail with `CUDA_ERROR_NOT_SUPPORTED`, and the log names it.

mod decode;
mod instructions;
mod read;
mod run;
mod tokens;
mod values;

pub(super) use read::{Program, read};
pub(super) use run::Launch;

use read::Entry;

use super::machine::NOT_SUPPORTED;
use crate::driver::ffi::CUresult;

pub(super) const INVALID_IMAGE: CUresult = 200;
pub(super) const INVALID_PTX: CUresult = 218;

/// Why a text is no program: the status, and a sentence for the log.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: CUresult,
    pub(super) why: String,
}

fn wrong(why: impl Into<String>) -> Refusal {
    Refusal { status: INVALID_PTX, why: why.into() }
}

fn unknown(why: impl Into<String>) -> Refusal {
    Refusal { status: NOT_SUPPORTED, why: why.into() }
}
