//! Pools: device memory that is allocated and freed in the order of streams.
//!
//! A pool has *chunks* of the device's memory, cut into *pieces*. Calls are checked when they are made, and work when a
//! stream reaches it. So a piece is *used* from the call that allocates it to the call that frees it, and *there* from
//! when its stream reaches the allocation to when it reaches the free.

use super::allocation::next_number;
use super::order::Freed;
use crate::machine::Handle;
use crate::shared::{Name, Part, Shared};
use crate::stream::Moment;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Pools take the device's memory in multiples of this.
pub(super) const CHUNK: u64 = 32 << 20;
/// Pieces are multiples of this.
pub(super) const PIECE: u64 = 512;

pub(super) const NO_ACCESS: u32 = 0;
pub(super) const READ_WRITE: u32 = 3;

pub(super) enum State {
    Used {
        asked: usize,
        context: Handle,
        number: u64,
    },
    /// Free, once all these frees are done.
    Free(Vec<Freed>),
}

pub(super) struct Piece {
    pub(super) size: u64,
    pub(super) state: State,
}

/// Where a pool's memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Device(usize),
    Host,
    /// The host's memory that belongs to its only NUMA node.
    Node,
    /// Managed memory that is at home nowhere.
    Anywhere,
}

/// What a pool was made as.
#[derive(Debug, Clone, Copy)]
pub(super) struct Made {
    pub(super) place: Place,
    pub(super) managed: bool,
    /// Other processes may have its memory.
    pub(super) shared: bool,
    pub(super) most: u64,
}

impl Made {
    /// The place that always has access to the memory.
    pub(super) fn own_place(&self) -> Option<Place> {
        (!self.managed).then_some(self.place)
    }

    /// Whether a capture may allocate from it.
    pub(super) fn is_for_graphs(&self) -> bool {
        matches!(self.place, Place::Device(_)) && !self.shared
    }

    /// Whether it has managed memory that was asked for without a place.
    pub(super) fn is_nowhere(&self) -> bool {
        matches!(self.place, Place::Anywhere)
    }
}

pub(super) struct Pool {
    pub(super) made: Made,
    /// The three kinds of reuse of memory that another stream has freed: after an event, once the free is done, or
    /// behind an inserted wait.
    pub(super) reuse: [i32; 3],
    pub(super) threshold: u64,
    pub(super) used: u64,
    pub(super) used_high: u64,
    pub(super) reserved: u64,
    pub(super) reserved_high: u64,
    /// What was granted, and to whom.
    access: Vec<(Place, u32)>,
    /// The lengths, by where they begin.
    chunks: BTreeMap<u64, u64>,
    pub(super) pieces: BTreeMap<u64, Piece>,
    /// The program has destroyed it; it is removed with the last of its memory.
    pub(super) destroyed: bool,
    /// What descriptors of it are of, once there were any.
    pub(super) exported: Option<Shared>,
    /// Which pool it is, if it was opened by a descriptor. It has the memory that is opened in it, and gives out no other.
    pub(super) opened: Option<Name>,
    /// What is open in it, by address.
    pub(super) open: BTreeMap<u64, Part>,
}

impl Pool {
    pub(super) fn new(made: Made) -> Pool {
        Pool {
            made,
            reuse: [1; 3],
            threshold: 0,
            used: 0,
            used_high: 0,
            reserved: 0,
            reserved_high: 0,
            access: Vec::new(),
            chunks: BTreeMap::new(),
            pieces: BTreeMap::new(),
            destroyed: false,
            exported: None,
            opened: None,
            open: BTreeMap::new(),
        }
    }

    pub(super) fn access_of(&self, place: Place) -> u32 {
        let granted = self.access.iter().find(|(to, _)| *to == place).map(|(_, flags)| *flags);
        let own = match self.made.own_place() {
            Some(Place::Node) => place == Place::Host,
            own => own == Some(place),
        };
        granted.unwrap_or(if own { READ_WRITE } else { NO_ACCESS })
    }

    /// Whether the work of a stream may touch the memory: pools of the host grant this to devices one by one, and an H200
    /// reaches those of a NUMA node without.
    pub(super) fn is_reached(&self) -> bool {
        let to_device = |(to, flags): &(Place, u32)| matches!(to, Place::Device(_)) && *flags != NO_ACCESS;
        self.made.managed || self.made.place != Place::Host || self.access.iter().any(to_device)
    }

    pub(super) fn grant(&mut self, place: Place, flags: u32) {
        self.access.retain(|(to, _)| *to != place);
        self.access.push((place, flags));
    }

    /// The first piece that is large enough and may be given to this stream, and what the stream has to wait for first.
    pub(super) fn find(&self, size: u64, may: impl Fn(&[Freed]) -> bool) -> Option<(u64, Vec<Arc<Moment>>)> {
        self.pieces.iter().find_map(|(at, piece)| match &piece.state {
            State::Free(freed) if piece.size >= size && may(freed) => {
                Some((*at, freed.iter().map(|freed| Arc::clone(&freed.moment)).collect()))
            }
            _ => None,
        })
    }

    /// Gives the first bytes of a free piece out.
    pub(super) fn give(&mut self, at: u64, size: u64, asked: usize, context: Handle) {
        let Some(piece) = self.pieces.remove(&at) else { return };
        if let (State::Free(freed), true) = (piece.state, piece.size > size) {
            let rest = Piece { size: piece.size - size, state: State::Free(freed) };
            self.pieces.insert(at + size, rest);
        }
        self.pieces.insert(at, Piece { size, state: State::Used { asked, context, number: next_number() } });
        self.used += asked as u64;
        self.used_high = self.used_high.max(self.used);
    }

    /// Adds a chunk, all of which is free.
    pub(super) fn add(&mut self, at: u64, size: u64) {
        self.reserved += size;
        self.reserved_high = self.reserved_high.max(self.reserved);
        self.chunks.insert(at, size);
        self.pieces.insert(at, Piece { size, state: State::Free(Vec::new()) });
    }

    /// Takes a piece back, which is free once this has come. What is freed in no order stays counted as used.
    pub(super) fn take(&mut self, at: u64, freed: Option<Freed>) {
        let Some(piece) = self.pieces.get_mut(&at) else { return };
        let in_order = freed.is_some();
        let freed = State::Free(freed.into_iter().collect());
        if let (State::Used { asked, .. }, true) = (std::mem::replace(&mut piece.state, freed), in_order) {
            self.used -= asked as u64;
        }
        self.join_next(at);
        if let Some((before, _)) = self.pieces.range(..at).next_back() {
            self.join_next(*before);
        }
    }

    /// Makes one of a piece and the next one, if both are free for all, or were freed by one stream.
    fn join_next(&mut self, at: u64) {
        let mut pieces = self.pieces.range_mut(at..);
        let (Some((_, piece)), Some((next, behind))) = (pieces.next(), pieces.next()) else { return };
        let (State::Free(earlier), State::Free(later)) = (&mut piece.state, &mut behind.state) else {
            return;
        };
        if self.chunks.contains_key(next) || !of_one(earlier, later) {
            return;
        }
        let next = *next;
        earlier.append(later);
        piece.size += behind.size;
        self.pieces.remove(&next);
    }

    /// Makes one of neighbours that are free for all, or were freed by one stream.
    fn join(&mut self) {
        let mut joined: BTreeMap<u64, Piece> = BTreeMap::new();
        for (at, piece) in std::mem::take(&mut self.pieces) {
            let last = joined.last_entry().filter(|_| !self.chunks.contains_key(&at));
            match (last, piece) {
                (Some(mut last), Piece { size, state: State::Free(mut freed) }) => {
                    let before = last.get_mut();
                    match &mut before.state {
                        State::Free(earlier) if of_one(earlier, &freed) => {
                            before.size += size;
                            earlier.append(&mut freed);
                        }
                        _ => drop(joined.insert(at, Piece { size, state: State::Free(freed) })),
                    }
                }
                (_, piece) => drop(joined.insert(at, piece)),
            }
        }
        self.pieces = joined;
    }

    /// The program has waited for something: memory whose frees are done is now free for all streams.
    pub(super) fn settle(&mut self) {
        let mut changed = false;
        for piece in self.pieces.values_mut() {
            if let State::Free(freed) = &mut piece.state {
                let before = freed.len();
                freed.retain(|freed| freed.moment.time().is_none());
                changed |= freed.len() != before;
            }
        }
        if changed {
            self.join();
        }
    }

    /// Chunks that are free for all, the last ones first, as long as more than this is reserved.
    pub(super) fn release(&mut self, keep: u64) -> Vec<(u64, u64)> {
        let unused = |(at, size): (&u64, &u64)| {
            let piece = self.pieces.get(at)?;
            let free = matches!(&piece.state, State::Free(freed) if freed.is_empty());
            (free && piece.size == *size).then_some((*at, *size))
        };
        let unused: Vec<_> = self.chunks.iter().rev().filter_map(unused).collect();
        let mut gone = Vec::new();
        for (at, size) in unused {
            if self.reserved <= keep {
                break;
            }
            self.reserved -= size;
            self.chunks.remove(&at);
            self.pieces.remove(&at);
            gone.push((at, size));
        }
        gone
    }
}

fn of_one(a: &[Freed], b: &[Freed]) -> bool {
    let mut streams = a.iter().chain(b).map(|freed| freed.stream);
    let first = streams.next();
    a.is_empty() == b.is_empty() && streams.all(|stream| Some(stream) == first)
}
