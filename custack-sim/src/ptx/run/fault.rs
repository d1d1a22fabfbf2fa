//! Why a kernel fails.

use super::super::Space;
use crate::machine::OUT_OF_MEMORY;
use crate::memory::NO_ROOM;
use custack_sys::ffi::CUresult;

pub(super) const ILLEGAL_ADDRESS: CUresult = 700;
pub(super) const LAUNCH_TIMEOUT: CUresult = 702;
pub(super) const ASSERT: CUresult = 710;
pub(super) const ILLEGAL_INSTRUCTION: CUresult = 715;
pub(super) const MISALIGNED_ADDRESS: CUresult = 716;
pub(super) const INVALID_PROGRAM_COUNTER: CUresult = 718;
pub(in super::super) const LAUNCH_FAILED: CUresult = 719;

/// For shared addresses from here on the device reports an illegal instruction instead of an illegal address.
const SHARED_END: u64 = 1 << 24;

/// The status that the context keeps, and a sentence.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) status: CUresult,
    pub(crate) why: String,
}

impl Fault {
    pub(in super::super) fn new(status: CUresult, why: impl Into<String>) -> Fault {
        Fault { status, why: why.into() }
    }

    pub(in super::super) fn within(self, what: std::fmt::Arguments<'_>) -> Fault {
        Fault { why: format!("{what}{}", self.why), ..self }
    }
}

/// The kind of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// A thread, as the text of a fault names it.
pub(super) struct Thread {
    pub(super) tid: [u32; 3],
    pub(super) ctaid: [u32; 3],
}

impl Thread {
    pub(super) fn misaligned(&self, address: u64, size: usize) -> Fault {
        let Thread { tid, ctaid } = self;
        let why = format!(
            "thread {tid:?} of block {ctaid:?} uses {size} bytes at {address:#x}, which is not aligned"
        );
        Fault::new(MISALIGNED_ADDRESS, why)
    }

    pub(super) fn illegal(&self, access: Access, why: &str) -> Fault {
        let Thread { tid, ctaid } = self;
        let does = if access == Access::Read { "reads" } else { "writes" };
        Fault::new(ILLEGAL_ADDRESS, format!("thread {tid:?} of block {ctaid:?} {does} {why}"))
    }

    /// A write to memory that the host cannot provide. A GPU has no such fault: it has what it has allocated.
    pub(super) fn no_room(&self) -> Fault {
        let Thread { tid, ctaid } = self;
        Fault::new(OUT_OF_MEMORY, format!("thread {tid:?} of block {ctaid:?} writes, and {NO_ROOM}"))
    }

    /// An access outside of shared, local or parameter memory of this length.
    pub(super) fn beyond(
        &self,
        access: Access,
        space: Space,
        address: u64,
        size: usize,
        length: usize,
    ) -> Fault {
        let why = format!("{size} bytes at {address:#x} of {length} bytes of {space} memory");
        let fault = self.illegal(access, &why);
        // Far beyond shared memory the device reports the instruction as illegal.
        let far = space == Space::Shared && address >= SHARED_END;
        Fault { status: if far { ILLEGAL_INSTRUCTION } else { fault.status }, ..fault }
    }
}
