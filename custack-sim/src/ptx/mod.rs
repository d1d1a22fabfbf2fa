//! Kernels: a parser and an interpreter for PTX, built around a table of instructions.
//!
//! [`tokens`] splits the text, [`read`] makes a [`program`] of its kernels, functions and variables, [`scope`] finds the
//! names and the instructions of a function, [`code`] turns each instruction into a closure once, when the module is loaded,
//! and [`run`] executes them. It is not a compiler, and does not model time: only the result is guaranteed.
//!
//! A kernel with an instruction or a modifier that is not modelled is refused with `CUDA_ERROR_NOT_SUPPORTED` when the
//! program asks for the kernel. What the NVIDIA driver's compiler would refuse makes loading fail.

mod arith;
mod code;
mod declared;
mod directives;
mod inst;
mod link;
mod listed;
mod program;
mod read;
mod reader;
mod registers;
mod run;
mod sample;
mod scope;
mod syntax;
mod target;
mod tokens;
mod types;
mod unreached;

pub(super) use link::{INVALID_SOURCE, Links};
pub(super) use program::{Entry, Program};
pub(super) use read::read;
pub(super) use registers::{MostRegisters, threads_with};
pub(super) use run::{Launch, limit_steps};

use super::machine::NOT_SUPPORTED;
use custack_sys::ffi::CUresult;
use std::fmt;

pub(super) const INVALID_IMAGE: CUresult = 200;
pub(super) const INVALID_PTX: CUresult = 218;

/// Why a text was refused: the status, the line if it is known, and a sentence for the log.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: CUresult,
    pub(super) line: Option<u32>,
    pub(super) why: String,
}

/// The state space of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Space {
    Param,
    Global,
    Shared,
    /// The shared memory of all blocks of the cluster.
    Cluster,
    Local,
    Generic,
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Space::Param => "parameter",
            Space::Global => "global",
            Space::Shared | Space::Cluster => "shared",
            Space::Local => "local",
            Space::Generic => "generic",
        })
    }
}

impl Refusal {
    /// Whether the text is merely not modelled here: another driver may accept it.
    fn is_unknown(&self) -> bool {
        self.status == NOT_SUPPORTED
    }

    /// Adds the line, unless a more precise one is known.
    fn at(self, line: u32) -> Refusal {
        Refusal { line: self.line.or(Some(line)), ..self }
    }

    fn within(self, what: impl fmt::Display) -> Refusal {
        Refusal { why: format!("{what}: {}", self.why), ..self }
    }

    /// The refusal as the compiler in the NVIDIA driver words it, for a program that asks for the error log.
    pub(super) fn compiler_log(&self) -> String {
        let line = self.line.map_or_else(String::new, |line| format!("application ptx input, line {line}; "));
        let text = &self.why;
        format!("ptxas {line}error   : {text}\nptxas fatal   : Ptx assembly aborted due to errors")
    }
}

impl Refusal {
    /// The refusal as the linker in the NVIDIA driver words it.
    pub(super) fn linker_log(&self) -> String {
        format!("error   : {}", self.why)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.why),
            None => f.write_str(&self.why),
        }
    }
}

fn wrong(why: impl Into<String>) -> Refusal {
    Refusal { status: INVALID_PTX, line: None, why: why.into() }
}

fn unknown(what: impl fmt::Display) -> Refusal {
    let why = format!("the simulated driver does not know {what}");
    Refusal { status: NOT_SUPPORTED, line: None, why }
}
