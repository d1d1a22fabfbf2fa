//! How the lanes of a warp access textures and surfaces.

use super::super::Space;
use super::fault::{Fault, ILLEGAL_ADDRESS, LAUNCH_FAILED};
use super::lanes::Lanes;
use crate::texture::Bound;

impl<'a> Lanes<'a> {
    /// The texture or surface of a lane's handle.
    pub(in super::super) fn bound(&self, lane: usize, handle: u64) -> Result<&'a Bound, Fault> {
        self.view.bound(handle, self.context).ok_or_else(|| {
            self.fails(lane, format_args!("uses {handle:#x}, which is no texture or surface of its context"))
        })
    }

    /// The fault of a lane that misuses a texture or a surface.
    #[cold]
    pub(in super::super) fn fails(&self, lane: usize, does: std::fmt::Arguments<'_>) -> Fault {
        let thread = self.thread(lane);
        let (tid, ctaid) = (thread.tid, thread.ctaid);
        Fault::new(LAUNCH_FAILED, format!("thread {tid:?} of block {ctaid:?} {does}"))
    }

    /// The fault of a lane that accesses an element outside of a surface.
    #[cold]
    pub(in super::super) fn is_beyond(&self, lane: usize, does: std::fmt::Arguments<'_>) -> Fault {
        Fault { status: ILLEGAL_ADDRESS, ..self.fails(lane, does) }
    }

    /// Reads one channel of an element.
    pub(in super::super) fn channel(&mut self, lane: usize, address: u64, size: usize) -> Result<u32, Fault> {
        Ok(self.load_one(lane, Space::Global, address, size)? as u32)
    }
}
