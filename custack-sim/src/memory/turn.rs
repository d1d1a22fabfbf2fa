//! When copies and fills are done: at once, or when the stream gets to them, and whether the caller
//! waits.

use super::copies::{Done, End};
use super::lock;
use crate::abi::call;
use crate::machine::{Answer, Handle, INVALID_CONTEXT, Machine};
use crate::stream::{Moment, Stream};
use custack_sys::ffi::{CUDA_SUCCESS, CUresult};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What is copied at once by the thread that asks, which has the machine's lock; more is done by
/// that of the stream.
const MOST_AT_ONCE: usize = 1 << 22;

/// Runs `start` and waits, without a lock, if it says so; afterwards the context may be in error.
pub(super) fn waiting(start: impl FnOnce(&mut Machine) -> Answer<Option<Arc<Moment>>>) -> CUresult {
    let mut wait = None;
    let status = call(|m| start(m).map(|found| wait = found));
    match wait {
        Some(moment) if status == CUDA_SUCCESS => {
            moment.wait();
            call(|m| match m.healthy_current() {
                Ok(_) | Err(INVALID_CONTEXT) => Ok(()),
                Err(status) => Err(status),
            })
        }
        _ => status,
    }
}

impl Machine {
    /// Does the work of this many bytes when the stream reaches it, or without one the legacy
    /// stream. Returns what to wait for, if the caller waits. What is not in a stream, or waited
    /// for, is done here if these bytes are few, and nothing comes before it.
    pub(super) fn do_or_enqueue(
        &mut self,
        (stream, found): (Option<usize>, &Stream),
        before: Vec<Arc<Moment>>,
        (size, waits): (usize, bool),
        work: impl FnOnce() -> Done + Send + 'static,
    ) -> Answer<Option<Arc<Moment>>> {
        let handle = stream.unwrap_or(0);
        let may_be_here = (stream.is_none() || waits) && size <= MOST_AT_ONCE && before.is_empty();
        if may_be_here && found.queue.is_idle() && self.comes_after(handle, found).is_empty() {
            return match work() {
                Ok(()) => Ok(None),
                Err((status, why)) => self.refuse(status, why),
            };
        }
        self.enqueue(handle, found, move || {
            before.iter().for_each(|moment| moment.wait());
            work()
        })?;
        if !waits {
            return Ok(None);
        }
        Ok(Some(Moment::behind(&found.queue)))
    }

    /// What a copy without a stream comes after in the contexts of its two sides, besides the
    /// current one: what is in their legacy streams, and in those that wait for these.
    pub(super) fn before_in_others(&mut self, current: Handle, (to, from): (End, End)) -> Vec<Arc<Moment>> {
        let context = |end| match end {
            End::Device(address) => lock().context_of(address),
            End::Host(_) => 0,
        };
        let others = BTreeSet::from([context(to), context(from)]);
        let others = others.into_iter().filter(|other| ![0, current].contains(other));
        let mut queues = Vec::new();
        for other in others {
            queues.extend(self.peek(other).map(|context| Arc::clone(&context.default_stream)));
            queues.extend(self.blocking_queues(other));
        }
        queues.iter().filter(|queue| !queue.is_idle()).map(Moment::behind).collect()
    }
}
