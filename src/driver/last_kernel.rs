//! The last kernel that a thread launched, because a driver that reports a fault does not say in which kernel it was.

use super::ffi::CUresult;
use std::cell::Cell;
use std::ffi::CStr;
use std::fmt;

const LENGTH: usize = 62;

/// The name of a kernel, stored without an allocation; what does not fit is cut off.
#[derive(Clone, Copy)]
pub(crate) struct KernelName {
    length: u8,
    cut: bool,
    bytes: [u8; LENGTH],
}

impl KernelName {
    #[inline]
    pub(crate) fn new(name: &CStr) -> KernelName {
        let name = name.to_bytes();
        let length = name.len().min(LENGTH);
        let cut = length < name.len();
        let mut bytes = [0; LENGTH];
        bytes[..length].copy_from_slice(&name[..length]);
        KernelName { length: length as u8, cut, bytes }
    }
}

impl fmt::Display for KernelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = String::from_utf8_lossy(&self.bytes[..self.length.into()]);
        write!(f, "`{name}{}`", if self.cut { "..." } else { "" })
    }
}

impl fmt::Debug for KernelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

thread_local! {
    static LAST: Cell<Option<KernelName>> = const { Cell::new(None) };
}

/// Remembers the kernel that this thread launches.
#[inline]
pub(in crate::driver) fn launched(kernel: KernelName) {
    LAST.set(Some(kernel));
}

/// The last kernel of this thread, if the error is that of a kernel.
pub(super) fn blamed_for(status: CUresult) -> Option<KernelName> {
    const FAULTS: [CUresult; 8] = [700, 702, 710, 714, 715, 716, 717, 718];
    const LAUNCH_FAILED: CUresult = 719;
    if FAULTS.contains(&status) || status == LAUNCH_FAILED { LAST.get() } else { None }
}
