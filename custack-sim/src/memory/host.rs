//! Memory of the program, which copies read and write.

// Reads and writes it through the pointers that the program passes.
#![allow(unsafe_code)]

use super::block::NoRoom;
use std::mem::MaybeUninit;

/// Host memory that the program named in a call: an address and a length.
#[derive(Clone, Copy)]
pub(crate) struct HostMemory {
    address: usize,
    size: usize,
}

/// Whether the process has memory at all of these addresses, which it can read, and write if that is asked for.
#[cfg(target_os = "linux")]
pub(super) fn is_there(start: usize, end: usize, writable: bool) -> bool {
    // Without this file the program is believed.
    let Ok(maps) = std::fs::read("/proc/self/maps") else { return true };
    let access_needed = if writable { "rw" } else { "r" };
    let mut at = start;
    for line in maps.split(|byte| *byte == b'\n') {
        let line = String::from_utf8_lossy(line);
        let mut fields = line.split([' ', '-']);
        let mut number = || usize::from_str_radix(fields.next()?, 16).ok();
        let (Some(from), Some(to)) = (number(), number()) else { continue };
        if from <= at && at < to && fields.next().is_some_and(|access| access.starts_with(access_needed)) {
            at = to;
        }
    }
    at >= end
}

/// The program is believed.
/// Whether the process has mapped memory at this address.
#[cfg(target_os = "linux")]
pub(super) fn is_mapped(address: usize) -> bool {
    is_there(address, address + 1, false)
}

/// Other systems do not tell, and are not known to map memory among the device's addresses.
#[cfg(not(target_os = "linux"))]
pub(super) fn is_mapped(_: usize) -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_there(_: usize, _: usize, _: bool) -> bool {
    true
}

impl HostMemory {
    /// # Safety
    ///
    /// Until the call, or the work that it enqueues, is done, these bytes are valid for reads (and for writes, if they
    /// are a destination), as CUDA requires.
    pub(crate) unsafe fn new(address: usize, size: usize) -> HostMemory {
        HostMemory { address, size }
    }

    /// From the beginning of this to the end of that. Nothing guarantees what is between them.
    pub(crate) fn through(self, last: HostMemory) -> HostMemory {
        HostMemory { address: self.address, size: last.address + last.size - self.address }
    }

    pub(crate) fn none() -> HostMemory {
        HostMemory { address: 0, size: 0 }
    }

    pub(crate) fn address(self) -> usize {
        self.address
    }

    /// The `size` bytes from `at` on; bytes past the end are left out.
    pub(crate) fn part(self, at: usize, size: usize) -> HostMemory {
        let at = at.min(self.size);
        HostMemory { address: self.address + at, size: size.min(self.size - at) }
    }

    /// What is given the bytes writes to none of them by another way.
    pub(super) fn with<R>(self, f: impl FnOnce(&[u8]) -> R) -> R {
        // SAFETY: as `new` requires.
        f(unsafe { std::slice::from_raw_parts(self.address as *const u8, self.size) })
    }

    /// What is given the bytes uses none of them by another way.
    pub(super) fn with_mut<R>(self, f: impl FnOnce(&mut [MaybeUninit<u8>]) -> R) -> R {
        // SAFETY: as `new` requires.
        f(unsafe { std::slice::from_raw_parts_mut(self.address as *mut MaybeUninit<u8>, self.size) })
    }

    pub(crate) fn read(self) -> Result<Vec<u8>, NoRoom> {
        let mut read = Vec::new();
        read.try_reserve_exact(self.size).map_err(|_| NoRoom)?;
        self.with(|bytes| read.extend_from_slice(bytes));
        Ok(read)
    }

    pub(crate) fn write(self, bytes: &[u8]) {
        let size = self.size.min(bytes.len());
        // SAFETY: as `new` requires; the bytes are the simulator's own vector, which cannot overlap them.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.address as *mut u8, size) }
    }
}
