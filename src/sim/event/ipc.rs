//! Events for other processes, of which there is none here.

use super::INTERPROCESS;
use crate::driver::ffi::CUresult;
use crate::sim::machine::*;
use std::os::raw::c_char;

const MAP_FAILED: CUresult = 205;

/// The first bytes of a handle of this machine; the event follows.
const MARK: [u8; 8] = *b"SIMEVENT";

impl Machine {
    pub(super) fn ipc_event_handle(&mut self, event: usize) -> Answer<[c_char; 64]> {
        self.healthy_current()?;
        if event == 0 {
            return self.refuse(INVALID_VALUE, "the event is NULL");
        }
        let found = self.event_of(event)?;
        if found.flags & INTERPROCESS == 0 {
            return self.refuse(INVALID_HANDLE, "the event is not for other processes");
        }
        let mut bytes = [0; 64];
        for (to, from) in bytes.iter_mut().zip(MARK.into_iter().chain(event.to_ne_bytes())) {
            *to = from as c_char;
        }
        Ok(bytes)
    }

    /// Nothing can be opened here: a process cannot open its own handles.
    pub(super) fn open_ipc_event(&mut self, bytes: [c_char; 64]) -> Answer<usize> {
        self.healthy_current()?;
        if MARK.iter().zip(bytes).all(|(mark, byte)| *mark == byte as u8) {
            return self.refuse(INVALID_CONTEXT, "the event is of this very process");
        }
        self.refuse(MAP_FAILED, "no process that the simulated driver knows has this event")
    }
}
