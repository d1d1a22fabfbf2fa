//! The compiler's log, and the options that it knows.

use crate::machine::*;
use crate::ptx::{MostRegisters, Program, Refusal};
use std::fmt::Write;

/// What the compiler said about a program.
#[derive(Debug, Clone, Default)]
pub(crate) struct CompilerLog {
    /// What it says if it is asked to say much.
    pub(crate) info: String,
    pub(crate) error: String,
}

impl CompilerLog {
    /// In the words of the NVIDIA driver's compiler; the numbers of registers are invented.
    pub(crate) fn of(program: &Program) -> CompilerLog {
        let bytes: usize = program.variables.iter().filter(|it| !it.constant).map(|it| it.size).sum();
        let mut info = format!("ptxas info    : {bytes} bytes gmem");
        for entry in program.entries.iter() {
            let name = &entry.name;
            let shared = entry.body.shared;
            let _ = write!(
                info,
                "\nptxas info    : Compiling entry function '{name}' for 'sm_90a'\
                 \nptxas info    : Function properties for {name}\
                 \nptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\
                 \nptxas info    : Used 16 registers, used 0 barriers, {shared} bytes smem"
            );
        }
        CompilerLog { info, error: String::new() }
    }

    pub(crate) fn refused(refusal: &Refusal) -> CompilerLog {
        CompilerLog { info: String::new(), error: refusal.compiler_log() }
    }
}

const MAX_REGISTERS: u32 = 0;
const THREADS_PER_BLOCK: u32 = 1;
/// The numbers of a log's buffer and of its size, which go together.
const LOGS: [(u32, u32); 2] = [(3, 4), (5, 6)];
const OPTIMIZATION_LEVEL: u32 = 7;
const TARGET: u32 = 9;
/// Debug information, and line numbers.
const LINES: [u32; 2] = [11, 13];
const OVERRIDE_DIRECTIVES: u32 = 33;
/// The newest option that the driver for CUDA 13.0 knows.
const LAST: u32 = 34;

impl Machine {
    /// What is compiled next on this thread has at most as many registers as the options say, and
    /// debug information or lines if they ask for these.
    pub(crate) fn compile_with(&mut self, options: &[(u32, usize)]) {
        let find = |wanted| options.iter().find(|(option, _)| *option == wanted).map(|it| it.1 as u32);
        let overrides = find(OVERRIDE_DIRECTIVES).is_some_and(|it| it != 0);
        self.thread().most_registers = find(MAX_REGISTERS).map(|most| MostRegisters { most, overrides });
        self.thread().tells_lines = LINES.iter().any(|option| find(*option).is_some_and(|it| it != 0));
    }

    pub(crate) fn check_options(&mut self, options: &[(u32, usize)]) -> Answer<()> {
        let find = |wanted| options.iter().find(|(option, _)| *option == wanted).map(|it| it.1);
        for (buffer, size) in LOGS {
            let lonely = find(buffer).is_some() != find(size).is_some();
            if lonely || find(buffer) == Some(0) && find(size) != Some(0) {
                return self.refuse(INVALID_VALUE, "a log has a buffer and its size");
            }
        }
        for (option, value) in options {
            let value = *value as u32;
            let known = match *option {
                MAX_REGISTERS => value > 0,
                THREADS_PER_BLOCK if value == 0 => {
                    return self.misuse(INVALID_VALUE, "the compiler divides by a block of no threads");
                }
                OPTIMIZATION_LEVEL => value <= 5,
                TARGET => (50..=121).contains(&(value & 0xffff)),
                option => option <= LAST,
            };
            if !known {
                let why = format!("{option} is no option of the compiler, or cannot be {value}");
                return self.refuse(INVALID_VALUE, why);
            }
        }
        Ok(())
    }
}
