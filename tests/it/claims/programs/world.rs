//! What a program has made, visible to all threads; what was dropped leaves its slot empty.

use super::act::{Kind, Thing, pick};
use custack::context::{Context, PrimaryContext, UnownedContext};
use custack::error::CudaResult;
use custack::event::Event;
use custack::memory::{CopyDestination, DeviceBox, DeviceBuffer, LockedBuffer, UnifiedBuffer};
use custack::stream::Stream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

#[derive(Default)]
pub(super) struct World {
    /// How many created contexts may be alive at once.
    pub(super) most: usize,
    /// Where streams are sent that another thread waits for.
    pub(super) waiter: Option<Sender<Arc<Stream>>>,
    /// Never freed, so that guards may borrow them.
    pub(super) handles: Vec<&'static UnownedContext>,
    /// One for each handle.
    pub(super) owners: Vec<Owner>,
    pub(super) buffers: Vec<Option<Buffer>>,
    pub(super) streams: Vec<Option<Arc<Stream>>>,
    pub(super) events: Vec<Option<Event>>,
    /// Callbacks that no thread has waited for yet, and their results.
    pub(super) called: Vec<Receiver<Option<String>>>,
}

pub(super) enum Owner {
    Created(Option<Context>),
    Primary(Vec<PrimaryContext>),
}

/// Something that was taken out of the world.
pub(super) enum Gone {
    Nothing,
    Context(Context),
    Primary(PrimaryContext),
    Buffer(Buffer),
    Stream(Arc<Stream>),
    Event(Event),
}

pub(super) enum Buffer {
    Device(DeviceBuffer<u32>),
    Bytes(DeviceBuffer<u8>),
    One(DeviceBox<u32>),
    Unified(UnifiedBuffer<u32>),
    Locked(LockedBuffer<u32>),
}

/// The contents of a buffer that was written with this seed.
pub(super) fn values(kind: Kind, len: usize, seed: u32) -> Vec<u32> {
    let len = if kind == Kind::One { 1 } else { len };
    let mask = if kind == Kind::Bytes { 0xff } else { u32::MAX };
    (0..len as u32).map(|at| seed.wrapping_add(at * 7) & mask).collect()
}

fn bytes(values: &[u32]) -> Vec<u8> {
    values.iter().map(|value| *value as u8).collect()
}

/// The previous contents of a destination, which a failed copy must not change.
const UNTOUCHED: u32 = 0xa5a5_a5a5;

impl Buffer {
    pub(super) fn new(kind: Kind, values: &[u32]) -> CudaResult<Buffer> {
        Ok(match kind {
            Kind::Device => Buffer::Device(DeviceBuffer::from_slice(values)?),
            Kind::Bytes => Buffer::Bytes(DeviceBuffer::from_slice(&bytes(values))?),
            Kind::One => Buffer::One(DeviceBox::new(&values[0])?),
            Kind::Unified => Buffer::Unified(UnifiedBuffer::from_slice(values)?),
            Kind::Locked => Buffer::Locked(LockedBuffer::from_slice(values)?),
        })
    }

    pub(super) fn write(&mut self, seed: u32) -> CudaResult<()> {
        match self {
            Buffer::Device(buffer) => {
                let values = values(Kind::Device, buffer.len(), seed);
                buffer.copy_from(&values[..])
            }
            Buffer::Bytes(buffer) => {
                let values = values(Kind::Bytes, buffer.len(), seed);
                buffer.copy_from(&bytes(&values)[..])
            }
            Buffer::One(one) => one.copy_from(&seed),
            Buffer::Unified(buffer) => {
                let values = values(Kind::Unified, buffer.len(), seed);
                buffer.copy_from_slice(&values);
                Ok(())
            }
            Buffer::Locked(buffer) => {
                let values = values(Kind::Locked, buffer.len(), seed);
                buffer.copy_from_slice(&values);
                Ok(())
            }
        }
    }

    pub(super) fn read(&self) -> CudaResult<Vec<u32>> {
        let untouched = |found: &[u32]| found.iter().all(|it| *it & 0xff == UNTOUCHED & 0xff);
        let (result, found) = match self {
            Buffer::Device(buffer) => {
                let mut found = vec![UNTOUCHED; buffer.len()];
                (buffer.copy_to(&mut found[..]), found)
            }
            Buffer::Bytes(buffer) => {
                let mut found = vec![UNTOUCHED as u8; buffer.len()];
                (buffer.copy_to(&mut found[..]), found.into_iter().map(u32::from).collect())
            }
            Buffer::One(one) => {
                let mut found = UNTOUCHED;
                (one.copy_to(&mut found), vec![found])
            }
            Buffer::Unified(buffer) => (Ok(()), buffer.to_vec()),
            Buffer::Locked(buffer) => (Ok(()), buffer.to_vec()),
        };
        assert!(result.is_ok() || untouched(&found), "a copy that failed has written");
        result.map(|()| found)
    }
}

impl World {
    pub(super) fn index_of(&self, context: &UnownedContext) -> Option<usize> {
        self.handles.iter().rposition(|handle| *handle == context)
    }

    pub(super) fn add(&mut self, context: UnownedContext, owner: Owner) {
        self.handles.push(Box::leak(Box::new(context)));
        self.owners.push(owner);
    }

    pub(super) fn created_and_owned(&self) -> usize {
        self.owners.iter().filter(|owner| matches!(owner, Owner::Created(Some(_)))).count()
    }

    pub(super) fn take(&mut self, thing: Thing, n: usize) -> Gone {
        match thing {
            Thing::Owner => self.take_owner(pick(n, self.owners.len())),
            Thing::Buffer => {
                let at = pick(n, self.buffers.len());
                at.and_then(|at| self.buffers[at].take()).map_or(Gone::Nothing, Gone::Buffer)
            }
            Thing::Stream => {
                let at = pick(n, self.streams.len());
                at.and_then(|at| self.streams[at].take()).map_or(Gone::Nothing, Gone::Stream)
            }
            Thing::Event => {
                let at = pick(n, self.events.len());
                at.and_then(|at| self.events[at].take()).map_or(Gone::Nothing, Gone::Event)
            }
        }
    }

    pub(super) fn take_owner(&mut self, at: Option<usize>) -> Gone {
        match at.map(|at| &mut self.owners[at]) {
            None => Gone::Nothing,
            Some(Owner::Created(owner)) => owner.take().map_or(Gone::Nothing, Gone::Context),
            Some(Owner::Primary(shares)) => shares.pop().map_or(Gone::Nothing, Gone::Primary),
        }
    }
}
