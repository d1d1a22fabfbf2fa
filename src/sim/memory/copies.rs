//! Copies and fills, immediate or when a stream reaches them.

use super::{HostMemory, lock};
use crate::driver::ffi::{CUDA_SUCCESS, CUresult};
use crate::sim::abi::call;
use crate::sim::graph::{Copy, Fill, Operation};
use crate::sim::machine::{Answer, INVALID_CONTEXT, INVALID_VALUE, Machine};
use crate::sim::stream::{Moment, Stream};
use std::sync::Arc;

/// One end of a copy.
#[derive(Clone, Copy)]
pub(in crate::sim) enum End {
    Device(u64),
    Host(HostMemory),
}

type Done = Result<(), (CUresult, String)>;

/// Memory freed between the call and the work is the program's fault, as on the device.
fn lost(why: String) -> (CUresult, String) {
    (700, why)
}

pub(in crate::sim) fn read(from: End, size: usize) -> Result<Vec<u8>, (CUresult, String)> {
    match from {
        End::Host(memory) => Ok(memory.read()),
        End::Device(address) => {
            let mut bytes = vec![0; size];
            lock().read(address, &mut bytes).map_err(lost)?;
            Ok(bytes)
        }
    }
}

pub(in crate::sim) fn write(to: End, bytes: &[u8]) -> Done {
    match to {
        End::Host(memory) => {
            memory.write(bytes);
            Ok(())
        }
        End::Device(address) => lock().write(address, bytes).map_err(lost),
    }
}

impl Machine {
    fn check_end(&mut self, end: End, size: usize) -> Answer<()> {
        let wrong = match end {
            End::Host(memory) if memory.address() == 0 => Err("the host memory is NULL".to_owned()),
            End::Host(_) => Ok(()),
            End::Device(address) => lock().check(address, size),
        };
        match wrong {
            Ok(()) => Ok(()),
            Err(why) => self.refuse(INVALID_VALUE, why),
        }
    }

    /// Work in a stream needs no context to be current; other work does, and that of the default stream.
    pub(super) fn place_of(&mut self, stream: Option<usize>) -> Answer<()> {
        if stream.unwrap_or(0) == 0 { self.healthy_current().map(|_| ()) } else { Ok(()) }
    }

    /// Whether these bytes of the device's are in one allocation; `None` is more than there can be.
    pub(super) fn check_span(&mut self, from: u64, size: Option<usize>) -> Answer<()> {
        self.check_end(End::Device(from), size.unwrap_or(usize::MAX))
    }

    /// Does the work at once if nothing comes before it, else when the stream reaches it; returns what to wait for.
    fn do_or_enqueue(
        &mut self,
        stream: usize,
        found: &Stream,
        at_once: bool,
        work: impl FnOnce() -> Done + Send + 'static,
    ) -> Answer<Option<Arc<Moment>>> {
        let nothing_before = found.queue.is_idle() && self.comes_after(stream, found).is_empty();
        if at_once && nothing_before {
            return match work() {
                Ok(()) => Ok(None),
                Err((status, why)) => self.refuse(status, why),
            };
        }
        self.enqueue(stream, found, work)?;
        let moment = Arc::new(Moment::default());
        let comes = Arc::clone(&moment);
        found.queue.push(Box::new(move || comes.comes()));
        Ok(at_once.then_some(moment))
    }
}

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

/// Copies; without a stream, before it returns. After an asynchronous call the program may reuse its memory unless it
/// is page-locked: as on the device, such a copy is staged.
pub(super) fn copy(to: End, from: End, size: usize, stream: Option<usize>) -> CUresult {
    waiting(|m| {
        m.place_of(stream)?;
        m.copy_parts(vec![(to, from)], size, stream)
    })
}

/// Copies between contexts, each address being of its own.
pub(super) fn copy_peer(
    (to, to_context): (u64, usize),
    (from, from_context): (u64, usize),
    size: usize,
    stream: Option<usize>,
) -> CUresult {
    waiting(|m| {
        m.place_of(stream)?;
        for context in [to_context, from_context] {
            // As addresses are unified the driver needs no context, and takes NULL.
            if context != 0 {
                m.follow(context, "cuMemcpyPeer")?;
                m.healthy(context)?;
            }
        }
        m.copy_parts(vec![(End::Device(to), End::Device(from))], size, stream)
    })
}

/// Fills so many elements with this pattern each; with no stream, before it returns.
pub(super) fn fill(to: u64, pattern: &[u8], count: usize, stream: Option<usize>) -> CUresult {
    let size = count.saturating_mul(pattern.len());
    waiting(|m| {
        m.place_of(stream)?;
        if count > 0 && to % pattern.len() as u64 != 0 {
            return m.refuse(
                INVALID_VALUE,
                format_args!("to fill elements of {} bytes at {to:#x}", pattern.len()),
            );
        }
        m.fill_parts((vec![to], 0), pattern, size, stream)
    })
}

impl Machine {
    /// Copies pieces of this size each.
    pub(super) fn copy_parts(
        &mut self,
        parts: Vec<(End, End)>,
        size: usize,
        stream: Option<usize>,
    ) -> Answer<Option<Arc<Moment>>> {
        let found = self.stream_of(stream.unwrap_or(0))?;
        let captured = stream.filter(|stream| self.member(*stream).is_some());
        self.capturing(stream.unwrap_or(0))?;
        if size == 0 || parts.is_empty() {
            return Ok(None);
        }
        if let Some(stream) = captured {
            let copy = Copy::of_rows(found.context, &parts, size);
            self.check_copy(&copy)?;
            return self.record(stream, Operation::Copy(copy)).map(|()| None);
        }
        for (to, from) in &parts {
            self.check_end(*to, size)?;
            self.check_end(*from, size)?;
        }
        let pageable = |end: &End| match end {
            End::Host(memory) => !lock().is_locked(memory.address()),
            End::Device(_) => false,
        };
        let at_once = stream.is_none() || parts.iter().any(|(to, _)| pageable(to));
        let is_staged = !at_once && parts.iter().any(|(_, from)| pageable(from));
        let all = move |parts: &[(End, End)]| {
            parts.iter().map(|(_, from)| read(*from, size)).collect::<Result<Vec<_>, _>>()
        };
        let staged = is_staged.then(|| all(&parts));
        self.do_or_enqueue(stream.unwrap_or(0), &found, at_once, move || {
            let bytes = staged.unwrap_or_else(|| all(&parts))?;
            parts.iter().zip(bytes).try_for_each(|((to, _), bytes)| write(*to, &bytes))
        })
    }

    /// Fills pieces of this size each, this far apart.
    pub(super) fn fill_parts(
        &mut self,
        (parts, pitch): (Vec<u64>, usize),
        pattern: &[u8],
        size: usize,
        stream: Option<usize>,
    ) -> Answer<Option<Arc<Moment>>> {
        let found = self.stream_of(stream.unwrap_or(0))?;
        let captured = stream.filter(|stream| self.member(*stream).is_some());
        self.capturing(stream.unwrap_or(0))?;
        if size == 0 {
            return Ok(None);
        }
        if let Some(stream) = captured {
            // Where it is is not looked at before the graph is launched.
            let fill = Fill::of_rows(found.context, (&parts, pitch), pattern, size);
            return self.record(stream, Operation::Fill(fill)).map(|()| None);
        }
        for to in &parts {
            self.check_end(End::Device(*to), size)?;
        }
        let pattern = pattern.to_vec();
        self.do_or_enqueue(stream.unwrap_or(0), &found, stream.is_none(), move || {
            parts.iter().try_for_each(|to| lock().fill(*to, &pattern, size).map_err(lost))
        })
    }
}
