//! Copies and fills, immediate or when a stream reaches them.

use super::block::{LITTLE, NoRoom, check_room};
use super::storage::Storage;
use super::turn::waiting;
use super::{HostMemory, lock};
use crate::graph::{Copy, Fill, Operation};
use crate::machine::{Answer, Handle, INVALID_VALUE, Machine, OUT_OF_MEMORY};
use crate::stream::Moment;
use custack_sys::ffi::CUresult;
use std::sync::Arc;

/// One end of a copy.
#[derive(Clone, Copy)]
pub(crate) enum End {
    Device(u64),
    Host(HostMemory),
}

pub(super) type Done = Result<(), (CUresult, String)>;

/// What is said where the host has no room for what is written.
pub(crate) const NO_ROOM: &str = "the host has no room for the contents of what is allocated";

impl From<NoRoom> for (CUresult, String) {
    fn from(_: NoRoom) -> (CUresult, String) {
        (OUT_OF_MEMORY, NO_ROOM.to_owned())
    }
}

/// Memory freed between the call and the work is the program's fault, as on the device.
fn lost(why: String) -> (CUresult, String) {
    (700, why)
}

fn storage_of(address: u64, size: usize) -> Result<(Arc<Storage>, usize), (CUresult, String)> {
    lock().storage_of(address, size).map_err(lost)
}

fn read(from: End, size: usize) -> Result<Vec<u8>, (CUresult, String)> {
    match from {
        End::Host(memory) => Ok(memory.part(0, size).read()?),
        End::Device(address) => {
            let (storage, at) = storage_of(address, size)?;
            let mut bytes = Vec::new();
            bytes.try_reserve_exact(size).map_err(|_| NoRoom)?;
            bytes.resize(size, 0);
            storage.read(at, &mut bytes);
            Ok(bytes)
        }
    }
}

fn write(to: End, bytes: &[u8]) -> Done {
    match to {
        End::Host(memory) => memory.write(bytes),
        End::Device(address) => {
            let (storage, at) = storage_of(address, bytes.len())?;
            storage.write(at, bytes)?;
        }
    }
    Ok(())
}

/// Copies, without a lock meanwhile.
pub(crate) fn transfer(to: End, from: End, size: usize) -> Done {
    let apart = to.address().abs_diff(from.address()) >= size as u64;
    match (to, from) {
        (End::Device(to), End::Host(from)) if apart => {
            let (storage, at) = storage_of(to, size)?;
            from.part(0, size).with(|bytes| storage.write(at, bytes))?;
        }
        (End::Host(to), End::Device(from)) if apart => {
            let (storage, at) = storage_of(from, size)?;
            to.part(0, size).with_mut(|bytes| storage.read_into(at, bytes));
        }
        (End::Device(to), End::Device(from)) if apart => {
            let (from, from_at) = storage_of(from, size)?;
            let (to, to_at) = storage_of(to, size)?;
            from.copy_to(from_at, (&to, to_at), size)?;
        }
        // Memory that overlaps is read before it is written.
        _ => write(to, &read(from, size)?)?,
    }
    Ok(())
}

/// Fills `size` bytes of device memory with a pattern.
pub(crate) fn fill_bytes(to: u64, pattern: &[u8], size: usize) -> Done {
    let (storage, at) = storage_of(to, size)?;
    Ok(storage.fill(at, pattern, size)?)
}

impl End {
    /// The host's addresses are none of the device's, unless they are of the same memory.
    fn address(self) -> u64 {
        match self {
            End::Device(address) => address,
            End::Host(memory) => memory.address() as u64,
        }
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

    /// Refuses memory of another device that work of the context does not reach.
    fn check_reach(&mut self, end: End, context: Handle, fills: bool) -> Answer<()> {
        let End::Device(address) = end else { return Ok(()) };
        let reached = lock().check_reach(address, context, fills);
        reached.or_else(|why| self.refuse(INVALID_VALUE, why))
    }

    /// Work in a stream needs no context to be current; other work does, and that of the default stream.
    pub(super) fn place_of(&mut self, stream: Option<usize>) -> Answer<()> {
        if stream.unwrap_or(0) == 0 { self.healthy_current().map(|_| ()) } else { Ok(()) }
    }

    /// Whether these bytes of the device's are in one allocation; `None` is more than there can be.
    pub(super) fn check_span(&mut self, from: u64, size: Option<usize>) -> Answer<()> {
        self.check_end(End::Device(from), size.unwrap_or(usize::MAX))
    }

    /// Refuses to write pieces of this size for whose contents the host has no room. So the call fails that asks for much,
    /// and not its context, once the stream is there.
    fn check_room(&mut self, parts: impl Iterator<Item = (u64, Option<End>)>, size: usize) -> Answer<()> {
        let storage = |address| lock().storage_of(address, size).ok();
        let missing = |(to, from): (u64, Option<End>)| {
            let Some((to, at)) = storage(to) else { return 0 };
            let from = match from {
                Some(End::Device(from)) => storage(from),
                _ => None,
            };
            to.missing(at, size, from.as_ref().map(|(from, at)| (&**from, *at)))
        };
        let got = check_room(parts.map(missing).sum());
        self.with_room(got)
    }

    /// Refuses what the host has no room for.
    pub(super) fn with_room<T>(&mut self, got: Result<T, NoRoom>) -> Answer<T> {
        got.or_else(|_| self.refuse(OUT_OF_MEMORY, NO_ROOM))
    }
}

impl End {
    /// Whether a call without a stream waits for its work on this.
    fn is_awaited(self) -> bool {
        match self {
            End::Host(_) => true,
            End::Device(address) => lock().is_awaited(address),
        }
    }
}

/// Copies. Without a stream it is work of the legacy stream, and done when the call returns if the
/// host can use one side. After an asynchronous call the program may reuse its memory unless it is
/// page-locked: as on the device, such a copy is staged.
pub(super) fn copy(to: End, from: End, size: usize, stream: Option<usize>) -> CUresult {
    waiting(|m| {
        m.place_of(stream)?;
        m.copy_parts(vec![(to, from)], size, stream, false)
    })
}

/// As [`copy`] in a stream. The node of a captured copy keeps that only the addresses say where they are.
pub(super) fn copy_unified(to: End, from: End, size: usize, stream: usize) -> CUresult {
    waiting(|m| {
        m.place_of(Some(stream))?;
        let found = m.stream_of(stream)?;
        if m.capturing(stream)? && size > 0 {
            let copy = Copy::of_rows(found.context, &[(to, from)], size).unified();
            return m.record_copy(stream, copy);
        }
        m.copy_parts(vec![(to, from)], size, Some(stream), false)
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
        stream.map_or(Ok(()), |stream| m.no_node(stream))?;
        for context in [to_context, from_context] {
            // As addresses are unified the driver needs no context, and takes NULL.
            if context != 0 {
                m.follow(context, "cuMemcpyPeer")?;
                m.healthy(context)?;
            }
        }
        m.copy_parts(vec![(End::Device(to), End::Device(from))], size, stream, true)
    })
}

/// Fills `count` elements with the pattern, in the order of the stream. Without one it is work of
/// the legacy stream, and done when the call returns if the host can use the memory.
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
    /// Adds a copy to what the stream captures, whose context says nothing about where the copy is made.
    pub(super) fn record_copy(&mut self, stream: usize, copy: Copy) -> Answer<Option<Arc<Moment>>> {
        self.check_copy(&copy)?;
        self.record(stream, Operation::Copy(copy.at_home())).map(|()| None)
    }

    /// Copies pieces of this size each. A copy between contexts needs no access to their memory.
    pub(super) fn copy_parts(
        &mut self,
        parts: Vec<(End, End)>,
        size: usize,
        stream: Option<usize>,
        between_contexts: bool,
    ) -> Answer<Option<Arc<Moment>>> {
        let found = self.stream_of(stream.unwrap_or(0))?;
        let captured = stream.filter(|stream| self.member(*stream).is_some());
        self.capturing(stream.unwrap_or(0))?;
        if size == 0 || parts.is_empty() {
            return Ok(None);
        }
        if let Some(stream) = captured {
            return self.record_copy(stream, Copy::of_rows(found.context, &parts, size));
        }
        for (to, from) in &parts {
            self.check_end(*to, size)?;
            self.check_end(*from, size)?;
            for end in [*to, *from].into_iter().filter(|_| !between_contexts) {
                self.check_reach(end, found.context, false)?;
            }
        }
        let asked = size.saturating_mul(parts.len());
        if asked > LITTLE {
            let to_device = |(to, from): &(End, End)| match to {
                End::Device(to) => Some((*to, Some(*from))),
                End::Host(_) => None,
            };
            self.check_room(parts.iter().filter_map(to_device), size)?;
        }
        let pageable = |end: &End| match end {
            End::Host(memory) => !lock().is_locked(memory.address()),
            End::Device(_) => false,
        };
        let waits = match stream {
            None => parts.iter().any(|(to, from)| to.is_awaited() || from.is_awaited()),
            Some(_) => parts.iter().any(|(to, _)| pageable(to)),
        };
        let is_staged = !waits && parts.iter().any(|(_, from)| pageable(from));
        let all = move |parts: &[(End, End)]| {
            parts.iter().map(|(_, from)| read(*from, size)).collect::<Result<Vec<_>, _>>()
        };
        let staged = match is_staged.then(|| all(&parts)).transpose() {
            Ok(staged) => staged,
            Err((status, why)) => return self.refuse(status, why),
        };
        let others = stream.is_none().then(|| self.before_in_others(found.context, parts[0]));
        let before = others.unwrap_or_default();
        self.do_or_enqueue((stream, &found), before, (asked, waits), move || match staged {
            Some(bytes) => parts.iter().zip(bytes).try_for_each(|((to, _), bytes)| write(*to, &bytes)),
            None => parts.iter().try_for_each(|(to, from)| transfer(*to, *from, size)),
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
            self.check_reach(End::Device(*to), found.context, true)?;
        }
        let asked = size.saturating_mul(parts.len());
        if asked > LITTLE && pattern.iter().any(|byte| *byte != 0) {
            self.check_room(parts.iter().map(|to| (*to, None)), size)?;
        }
        let pattern = pattern.to_vec();
        let waits = stream.is_none() && parts.iter().any(|to| End::Device(*to).is_awaited());
        self.do_or_enqueue((stream, &found), Vec::new(), (asked, waits), move || {
            parts.iter().try_for_each(|to| fill_bytes(*to, &pattern, size))
        })
    }
}
