//! Events that processes of this machine share.

use super::{DISABLE_TIMING, Event, INTERPROCESS};
use crate::machine::*;
use crate::shared::{Bytes, Name, Record};
use crate::stream::Moment;
use custack_sys::ffi::CUresult;
use std::sync::Arc;

const MAP_FAILED: CUresult = 205;
const KIND: [u8; 8] = *b"SIMEVENT";

/// What an event has in common with that of other processes.
#[derive(Clone)]
pub(super) struct Common {
    record: Arc<Record>,
    /// Which of its records this process has made last.
    own: u64,
    /// Whether another process has made it.
    is_opened: bool,
}

impl Common {
    /// The moment of the last record, if another process has made it.
    pub(super) fn elsewhere(&self) -> Option<Arc<Moment>> {
        let last = self.record.last();
        (last != self.own).then(|| Arc::new(Moment::elsewhere(Arc::clone(&self.record), last)))
    }

    /// The moment of a record that this process makes now.
    pub(super) fn here(&mut self) -> Moment {
        self.own = self.record.next();
        Moment::for_others(Arc::clone(&self.record), self.own)
    }
}

/// What events with this flag have; `None` if the system has no memory that processes share.
pub(super) fn common(flags: u32) -> Option<Common> {
    let record = (flags & INTERPROCESS != 0).then(Record::new)?.ok()?;
    Some(Common { record: Arc::new(record), own: 0, is_opened: false })
}

impl Machine {
    pub(super) fn ipc_event_handle(&mut self, event: usize) -> Answer<Bytes> {
        self.healthy_current()?;
        if event == 0 {
            return self.refuse(INVALID_VALUE, "the event is NULL");
        }
        let found = self.event_of(event)?;
        if found.flags & INTERPROCESS == 0 || found.common.as_ref().is_some_and(|common| common.is_opened) {
            return self.refuse(INVALID_HANDLE, "the event is not for other processes, or is of another one");
        }
        let name = found.common.and_then(|common| common.record.name().ok());
        match name {
            Some(name) => Ok(name.to_bytes(KIND)),
            None => self.refuse(NOT_SUPPORTED, "this system has no memory that processes share"),
        }
    }

    pub(super) fn open_ipc_event(&mut self, bytes: Bytes) -> Answer<usize> {
        let context = self.healthy_current()?;
        let Some(name) = Name::from_bytes(KIND, &bytes) else {
            return self.refuse(MAP_FAILED, "not the handle of an event");
        };
        if name.is_own() {
            return self.refuse(INVALID_CONTEXT, "the event is of this very process");
        }
        let record = match Record::open(&name) {
            Ok(record) => Arc::new(record),
            Err(why) => {
                let why = format!("process {} does not have the event: {why}", name.process);
                return self.refuse(MAP_FAILED, why);
            }
        };
        let common = Some(Common { record, own: 0, is_opened: true });
        let flags = INTERPROCESS | DISABLE_TIMING;
        Ok(self.objects.add(Object::Event(Event { context, flags, moment: None, captured: None, common })))
    }
}
