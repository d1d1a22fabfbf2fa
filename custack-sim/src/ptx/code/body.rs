//! The code of a kernel.

use super::super::inst::Inst;
use super::super::run::{Counts, Fault, Range, Reg, WARP};
use super::Special;
use std::collections::HashMap;
use std::fmt;

/// The code of a kernel, and the memory and other resources that it needs.
#[derive(Default)]
pub(crate) struct Body {
    pub(in super::super) code: Vec<Inst>,
    /// The line of each instruction, and the index in `opcodes` of the opcode in the text.
    pub(super) written: Vec<(u32, u32)>,
    opcodes: Vec<String>,
    pub(in super::super) counts: Counts,
    /// Registers that no instruction sets: they hold constants, addresses and special registers.
    pub(in super::super) fixed: Vec<(Reg, Fixed)>,
    /// Registers of this kind that hold a coordinate of the block.
    pub(in super::super) of_block: Vec<(Reg, u8)>,
    /// Other registers of this kind whose value differs between blocks.
    pub(in super::super) of_place: Vec<(Reg, Special)>,
    /// The functions that it calls.
    pub(in super::super) functions: Vec<Function>,
    /// Their indices, by their numbers in the program.
    pub(in super::super) by_number: HashMap<u64, u32>,
    pub(in super::super) entry: u32,
    /// The size of static shared memory; the dynamic shared memory of a launch follows it.
    pub(crate) shared: usize,
    /// The size of the kernel's own frame in local memory.
    pub(crate) local: usize,
    /// Whether it allocates from the device's heap.
    pub(in super::super) has_heap: bool,
    /// Whether it asks for the memory by which the blocks of a cooperative launch synchronise.
    pub(in super::super) has_workspace: bool,
    /// Whether it uses the shared memory that the system reserves.
    pub(in super::super) has_reserved: bool,
}

/// The value of a register that no instruction sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in super::super) enum Fixed {
    Bits(u128),
    /// The address of a variable of the module, plus a number of bytes.
    Variable(usize, i64),
    /// The address of an offset in the block's shared memory.
    Shared(u64),
    /// The address of a function.
    Function(u64),
    Special(Special),
}

/// A function that a kernel calls.
#[derive(Debug)]
pub(in super::super) struct Function {
    /// Its number in the program.
    pub(in super::super) number: u64,
    /// Its first instruction, or why it has no code.
    pub(in super::super) at: Result<u32, String>,
    /// The size of its frame in local memory.
    pub(in super::super) local: usize,
    pub(in super::super) range: Range,
    /// Whether it may be called again before a call of it has returned.
    pub(in super::super) is_recursive: bool,
}

impl Function {
    pub(super) fn new(number: u64) -> Function {
        let at = Err("a function without code".to_owned());
        Function { number, at, local: 0, range: Range::default(), is_recursive: false }
    }
}

impl Body {
    /// The index of an opcode in `opcodes`, where it is added if it is new.
    pub(super) fn opcode(&mut self, opcode: &str) -> u32 {
        // Most opcodes occur again soon after.
        if let Some(at) = self.opcodes.iter().rposition(|known| known == opcode) {
            return at as u32;
        }
        self.opcodes.push(opcode.to_owned());
        self.opcodes.len() as u32 - 1
    }

    /// The numbers of the functions that it calls.
    pub(in super::super) fn called(&self) -> impl Iterator<Item = u64> {
        self.functions.iter().map(|function| function.number)
    }

    /// A number that is the same for all instructions with the same opcode and modifiers.
    pub(in super::super) fn opcode_at(&self, at: u32) -> u32 {
        self.written.get(at as usize).map_or(0, |(_, opcode)| *opcode)
    }

    /// The line and the opcode of an instruction in the text.
    pub(in super::super) fn written_at(&self, at: u32) -> (u32, &str) {
        let (line, opcode) = self.written.get(at as usize).copied().unwrap_or_default();
        (line, self.opcodes.get(opcode as usize).map_or("", String::as_str))
    }

    /// Adds to a fault the instruction at which it occurred.
    pub(in super::super) fn locate(&self, at: u32, fault: Fault) -> Fault {
        let (line, opcode) = self.written_at(at);
        fault.within(format_args!("line {line}, {opcode}: "))
    }

    /// The host memory for the threads of a warp, in bytes.
    pub(in super::super) fn bytes_of_warp(&self) -> u64 {
        self.counts.all() * 8 * WARP as u64 + (self.local * WARP) as u64
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("instructions", &self.code.len()).finish_non_exhaustive()
    }
}
