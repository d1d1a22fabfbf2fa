//! Instructions in the form in which they are executed.

use super::run::{Fault, Lanes, Reg, WARP};
use std::fmt;

/// Computes in the lanes that execute it.
pub(super) type Compute = Box<dyn Fn(&mut Lanes<'_>) + Send + Sync>;
/// The same for an instruction that may fault.
pub(super) type Attempt = Box<dyn Fn(&mut Lanes<'_>) -> Result<(), Fault> + Send + Sync>;

pub(super) enum Kind {
    Lanes(Compute),
    Memory(Attempt),
    /// An access by which threads may wait for each other: volatile, ordered or atomic.
    Volatile(Attempt),
    Branch(u32),
    /// A jump to one of these instructions, chosen by the number in the register.
    BranchTo(Reg, Vec<u32>),
    Call(Call),
    Return,
    Exit,
    Trap,
    /// Stops until a debugger continues the kernel. There is no debugger, so it is a fault.
    Breakpoint,
    Barrier(Barrier),
    /// Waits for the lanes that the register names; those may wait at any other instruction of this kind.
    Converge(Reg),
    /// Computes with the values of other lanes as soon as all lanes that the register names have arrived here.
    Joint(Reg, Attempt),
    /// The same, where the lanes may be at different instructions with the same opcode and modifiers.
    Exchange(Reg, Exchange),
    /// Sleeps for the number of nanoseconds in the register, while other warps go on.
    Sleep(Reg),
    /// Takes memory from the stack of each lane, or frees it.
    Stack(Stack),
    Nothing,
}

pub(super) enum Stack {
    /// Says how far it is in use.
    Save(Reg),
    /// It is in use as far as the register says.
    Restore(Reg),
    /// So many bytes, whose address is a multiple.
    Allocate { to: Reg, size: Reg, align: u32 },
}

/// An instruction in two steps: each lane gives a value, and then each lane computes a result from the values of the
/// lanes that take part.
pub(super) struct Exchange {
    pub(super) give: Box<dyn Fn(&Lanes<'_>) -> Given + Send + Sync>,
    pub(super) take: Take,
}

/// Computes a lane's result from the given values; the mask says which lanes gave one.
pub(super) type Take = Box<dyn Fn(&mut Lanes<'_>, &Given, u32) + Send + Sync>;

pub(super) type Given = [u64; WARP];

/// A barrier of the block: its number, and for how many threads it is (all of the block if `None`).
pub(super) struct Barrier {
    pub(super) number: Reg,
    pub(super) count: Option<Reg>,
    /// Whether it counts as an arrival. Only `barrier.cluster.wait` does not: its arrival was an instruction of its
    /// own.
    pub(super) arrives: bool,
    pub(super) waits: bool,
    /// It is for all threads of the cluster.
    pub(super) is_of_cluster: bool,
    pub(super) reduce: Option<Reduce>,
}

/// A reduction of the threads' predicates by a barrier.
pub(super) struct Reduce {
    pub(super) of: Reg,
    pub(super) is_negated: bool,
    pub(super) to: Reg,
    pub(super) how: How,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Count,
    All,
    Any,
}

pub(super) struct Call {
    pub(super) target: Target,
    /// For each argument: its offset in the caller's frame, its offset in the callee's frame, and its size in bytes.
    pub(super) passed: Vec<(usize, usize, usize)>,
    /// The same for the results; the offset in the caller's frame comes first.
    pub(super) returned: Vec<(usize, usize, usize)>,
    /// The distance from the caller's frame to the callee's, in bytes.
    pub(super) frame: usize,
}

pub(super) enum Target {
    /// A function, by its number in the kernel's code.
    Function(u32),
    /// A function whose address is in the register.
    Pointer(Reg),
    Builtin(Builtin),
}

/// Functions that the device provides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Builtin {
    Printf,
    Malloc,
    Free,
    Assert,
}

pub(super) struct Inst {
    /// Executes only in lanes in which this predicate has this value.
    pub(super) guard: Option<(u32, bool)>,
    pub(super) kind: Kind,
}

impl fmt::Debug for Inst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inst").field("guard", &self.guard).finish_non_exhaustive()
    }
}
