//! Instructions, as they are executed.

use super::run::{Fault, Lanes, Reg, WARP};
use std::fmt;

/// Computes in the lanes that execute it.
pub(super) type Compute = Box<dyn Fn(&mut Lanes<'_>) + Send + Sync>;
/// The same, where it may fail.
pub(super) type Attempt = Box<dyn Fn(&mut Lanes<'_>) -> Result<(), Fault> + Send + Sync>;

pub(super) enum Kind {
    Lanes(Compute),
    Memory(Attempt),
    /// An access by which threads may wait for each other: volatile, ordered or atomic.
    Volatile(Attempt),
    Branch(u32),
    /// To one of these, by the number in the register.
    BranchTo(Reg, Vec<u32>),
    Call(Call),
    Return,
    Exit,
    Trap,
    /// Stops until a debugger goes on, which there is none of.
    Breakpoint,
    Barrier(Barrier),
    /// Waits for the lanes that the register names, whatever instruction of this kind they wait at.
    Converge(Reg),
    /// Computes with the values of other lanes, when those that the register names are there.
    Joint(Reg, Attempt),
    /// The same, where lanes may be at several instructions that are written with the same opcode.
    Exchange(Reg, Exchange),
    /// Waits for so many nanoseconds, as long as others go on.
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

/// What each lane gives, and what each makes of what those gave that are here.
pub(super) struct Exchange {
    pub(super) give: Box<dyn Fn(&Lanes<'_>) -> Given + Send + Sync>,
    pub(super) take: Take,
}

/// What a lane makes of what was given, and of which lanes are here.
pub(super) type Take = Box<dyn Fn(&mut Lanes<'_>, &Given, u32) + Send + Sync>;

pub(super) type Given = [u64; WARP];

/// A barrier of the block, with its number and how many threads it is for (or all).
pub(super) struct Barrier {
    pub(super) number: Reg,
    pub(super) count: Option<Reg>,
    /// Only of a cluster: one that waits where others have arrived.
    pub(super) arrives: bool,
    pub(super) waits: bool,
    /// It is for all threads of the cluster.
    pub(super) is_of_cluster: bool,
    pub(super) reduce: Option<Reduce>,
}

/// What a barrier finds out about a predicate of its threads.
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
    /// Where the caller has what it passes, where the callee finds it in its frame, and how many bytes it is.
    pub(super) passed: Vec<(usize, usize, usize)>,
    /// The same for what is returned: the caller's place comes first.
    pub(super) returned: Vec<(usize, usize, usize)>,
    /// The callee's frame begins so many bytes after the caller's.
    pub(super) frame: usize,
}

pub(super) enum Target {
    /// The number of a function of the kernel's code.
    Function(u32),
    /// The register has a function's address.
    Pointer(Reg),
    Builtin(Builtin),
}

/// Functions that the device has.
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
