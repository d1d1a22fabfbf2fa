//! Copies and fills, at once or when a stream gets to them.

use super::{HostMemory, lock};
use crate::driver::ffi::{CUDA_SUCCESS, CUresult};
use crate::sim::abi::call;
use crate::sim::graph::{Copy, Fill, Operation};
use crate::sim::machine::{Answer, INVALID_VALUE, Machine};
use crate::sim::stream::{Moment, Stream};
use std::sync::Arc;

/// One end of a copy.
#[derive(Clone, Copy)]
pub(in crate::sim) enum End {
    Device(u64),
    Host(HostMemory),
}

type Done = Result<(), (CUresult, String)>;

/// What went away between the call and the work is the program's fault, as on the device.
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

    /// Does the work at once if nothing comes before it, else when the stream gets there; gives what to wait for.
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

/// Does what `start` does, and waits with nothing locked if it says so; then the context may be in error.
fn waiting(start: impl FnOnce(&mut Machine) -> Answer<Option<Arc<Moment>>>) -> CUresult {
    let mut wait = None;
    let status = call(|m| start(m).map(|found| wait = found));
    match wait {
        Some(moment) if status == CUDA_SUCCESS => {
            moment.wait();
            call(|m| m.healthy_current().map(|_| ()))
        }
        _ => status,
    }
}

/// Copies; with no stream, before it returns. The program's memory may be used again when an asynchronous call has
/// returned, unless it is page-locked: as on the device, such a copy is staged.
pub(super) fn copy(to: End, from: End, size: usize, stream: Option<usize>) -> CUresult {
    waiting(|m| {
        m.healthy_current()?;
        let found = m.stream_of(stream.unwrap_or(0))?;
        let captured = m.capturing(stream.unwrap_or(0))?;
        if size == 0 {
            return Ok(None);
        }
        if let Some(stream) = stream {
            if captured {
                let copy =
                    Copy { context: found.context, from: from.into(), to: to.into(), extent: [size, 1, 1] };
                m.check_copy(&copy)?;
                return m.record(stream, Operation::Copy(copy)).map(|()| None);
            }
        }
        m.check_end(to, size)?;
        m.check_end(from, size)?;
        let pageable = |end: End| match end {
            End::Host(memory) => !lock().is_locked(memory.address()),
            End::Device(_) => false,
        };
        let at_once = stream.is_none() || pageable(to);
        let staged = if pageable(from) && !at_once { Some(read(from, size)) } else { None };
        m.do_or_enqueue(stream.unwrap_or(0), &found, at_once, move || {
            let bytes = staged.unwrap_or_else(|| read(from, size))?;
            write(to, &bytes)
        })
    })
}

pub(super) fn fill(to: u64, byte: u8, size: usize, stream: Option<usize>) -> CUresult {
    waiting(|m| {
        m.healthy_current()?;
        let found = m.stream_of(stream.unwrap_or(0))?;
        let captured = m.capturing(stream.unwrap_or(0))?;
        if size == 0 {
            return Ok(None);
        }
        if let Some(stream) = stream {
            if captured {
                // Where it is is not looked at before the graph is launched.
                let (value, context) = (byte.into(), found.context);
                let fill = Fill { context, to, pitch: 0, value, element: 1, width: size, height: 1 };
                return m.record(stream, Operation::Fill(fill)).map(|()| None);
            }
        }
        m.check_end(End::Device(to), size)?;
        m.do_or_enqueue(stream.unwrap_or(0), &found, stream.is_none(), move || {
            lock().fill(to, byte, size).map_err(lost)
        })
    })
}
