//! Managed memory of a machine whose host may not access it while a kernel runs: the program has a mapping of its own,
//! whose pages are taken away meanwhile, so that an access is a fault. On systems other than Linux it is not.

// Takes pages away, and gives them back.
#![allow(unsafe_code)]

use super::allocation::{Allocation, Kind};
use super::storage::Storage;
use super::{Memory, lock};
use crate::machine::Handle;
use crate::shared::{Content, Shared};
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct Apart {
    /// Whether the host is kept from managed memory that is allocated from now on.
    pub(crate) wanted: bool,
    /// Kernels.
    running: usize,
    /// What the program has, by address.
    views: BTreeMap<u64, Shared>,
}

impl Apart {
    pub(super) fn forget(&mut self, address: u64) {
        self.views.remove(&address);
    }

    fn each(&self, allowed: bool) {
        self.views.values().for_each(|view| allow(view, allowed));
    }
}

impl Memory {
    /// Managed memory that the host cannot access while a kernel runs; `None` if there is no such memory here.
    pub(super) fn allocate_apart(&mut self, context: Handle, size: usize) -> Option<u64> {
        let shared = Shared::new(Content::Memory, size).ok()?;
        let view = shared.again().ok()?;
        let address = view.start() as u64;
        allow(&view, self.apart.running == 0);
        self.apart.views.insert(address, view);
        self.held.insert(address, Allocation::shared(Kind::Managed, context, Storage::of_processes(shared)));
        Some(address)
    }
}

/// A kernel that runs.
pub(crate) struct KernelRuns(());

impl KernelRuns {
    pub(crate) fn begin() -> KernelRuns {
        let apart = &mut lock().apart;
        apart.running += 1;
        apart.each(false);
        KernelRuns(())
    }
}

impl Drop for KernelRuns {
    fn drop(&mut self) {
        let apart = &mut lock().apart;
        apart.running -= 1;
        apart.each(apart.running == 0);
    }
}

#[cfg(target_os = "linux")]
fn allow(view: &Shared, allowed: bool) {
    use std::ffi::c_void;
    use std::os::raw::c_int;
    unsafe extern "C" {
        fn mprotect(address: *mut c_void, length: usize, protection: c_int) -> c_int;
    }
    const READ_WRITE: c_int = 1 | 2;
    let (start, size) = (std::ptr::with_exposed_provenance_mut(view.start()), view.size());
    // SAFETY: the pages of the mapping, which only the program uses, as the driver allows it.
    unsafe { mprotect(start, size, if allowed { READ_WRITE } else { 0 }) };
}

#[cfg(not(target_os = "linux"))]
fn allow(_view: &Shared, _allowed: bool) {}
