//! What the driver knows of an address.

use super::allocation::Kind;
use super::mapped::{Place, Properties};
use super::pool::{self, Made, NO_ACCESS, READ_WRITE, State};
use super::pools::is_default;
use super::{Memory, lock};
use crate::machine::*;
use crate::module::NOT_FOUND;

const SYNC_MEMOPS: u32 = 6;
const P2P_TOKENS: u32 = 5;
const DEVICE_POINTER: u32 = 3;
const LAST_ATTRIBUTE: u32 = 21;
/// The types of memory.
const HOST: u32 = 1;
const DEVICE: u32 = 2;
/// Devices that are none: the processor's, and nothing's.
const OF_HOST: i32 = -1;
const NONE: i32 = -2;

/// Memory that the driver knows, by an address in it.
#[derive(Clone, Copy)]
pub(crate) struct Pointed {
    pub(super) start: u64,
    pub(super) size: usize,
    pub(super) kind: Kind,
    /// 0 for what is of none.
    pub(super) context: Handle,
    pub(super) number: u64,
    /// The pool that has it.
    pool: Option<(usize, Made)>,
    /// What was allocated of the device at once: where it begins, its length and number.
    block: (u64, usize, u64),
    synchronizes: bool,
    /// What the program has reserved there, and the properties of what it has mapped.
    mapped: Option<(Place, Properties)>,
}

impl Pointed {
    pub(super) fn is_managed(&self) -> bool {
        let of_pool = self.pool.is_some_and(|(_, made)| made.managed);
        of_pool || matches!(self.kind, Kind::Managed | Kind::ManagedVariable)
    }

    /// Whether the memory itself is the host's.
    fn is_hosts(&self) -> bool {
        // Managed memory of a pool that the host has from the beginning is the device's, as an H200 says.
        let is_hosts = |place| matches!(place, pool::Place::Host | pool::Place::Node);
        let of_pool =
            self.pool.is_some_and(|(pool, made)| is_hosts(made.place) && !(made.managed && is_default(pool)));
        of_pool || matches!(self.kind, Kind::Locked | Kind::Registered)
    }
}

/// The value of an attribute, as wide as the driver writes it.
#[derive(Clone, Copy)]
pub(super) enum Value {
    Word(u32),
    Wide(u64),
}

impl Memory {
    /// Whether a call without a stream waits for its work on what has this address: on what the
    /// host can use, and where the program has asked for that.
    pub(super) fn is_awaited(&self, address: u64) -> bool {
        let found = self.pointed(address);
        found.is_some_and(|it| it.is_managed() || it.is_hosts() || it.synchronizes)
    }

    /// What has this address, if it is in use, and the program can know the address.
    pub(crate) fn pointed(&self, address: u64) -> Option<Pointed> {
        if let Some(place) = self.mapped.place(address) {
            return self.pointed_in(&place);
        }
        let (start, found) = self.held.at(address).filter(|(_, it)| it.kind != Kind::Array)?;
        let block = (start, found.size, found.number);
        let context = if found.kind == Kind::Graph { 0 } else { found.context };
        let (size, number, kind) = (found.size, found.number, found.kind);
        let whole = Pointed {
            start,
            size,
            kind,
            context,
            number,
            pool: None,
            block,
            synchronizes: false,
            mapped: None,
        };
        if kind != Kind::Pool {
            return Some(Pointed { synchronizes: self.synchronizing.contains(&number), ..whole });
        }
        let (start, piece, pool, made) = self.piece_at(address)?;
        match piece.state {
            State::Used { asked, number, .. } if address - start < asked as u64 => {
                Some(Pointed { start, size: asked, number, pool: Some((pool, made)), ..whole })
            }
            _ => None,
        }
    }
}

impl Memory {
    /// What the program has mapped at a place that it has reserved.
    fn pointed_in(&self, place: &Place) -> Option<Pointed> {
        let ((start, size, _), (made, number)) = place.mapping.zip(self.mapped_at(place))?;
        Some(Pointed {
            start,
            size,
            kind: Kind::Mapped,
            context: 0,
            number,
            pool: None,
            block: (start, size, number),
            synchronizes: false,
            mapped: Some((*place, made)),
        })
    }
}

impl Machine {
    /// One attribute of an address. What is at no known address has none.
    pub(super) fn pointer_attribute(&mut self, address: u64, attribute: u32) -> Answer<Value> {
        self.ready()?;
        self.known_attribute(attribute)?;
        if attribute == P2P_TOKENS {
            return self.refuse(NOT_SUPPORTED, "tokens of memory for other devices of the host");
        }
        let found = lock().pointed(address);
        let Some(found) = found else {
            return match self.reserved_attribute(address, attribute) {
                Some(value) => Ok(value),
                None => {
                    self.refuse(INVALID_VALUE, format_args!("{address:#x} is in no memory of the driver's"))
                }
            };
        };
        if attribute == DEVICE_POINTER {
            self.current_handle()?;
        }
        match self.value_of(&found, address, attribute) {
            Some(value) => Ok(value),
            None => self.refuse(INVALID_VALUE, format_args!("{address:#x} has no attribute {attribute}")),
        }
    }

    /// One of several attributes, which is nothing for an address that is not known.
    pub(super) fn one_of_pointer_attributes(&mut self, address: u64, attribute: u32) -> Answer<Value> {
        self.ready()?;
        self.known_attribute(attribute)?;
        if attribute == P2P_TOKENS {
            return self.refuse(INVALID_VALUE, "tokens are not asked for together with others");
        }
        let found = lock().pointed(address);
        let known = found.and_then(|found| self.value_of(&found, address, attribute));
        let reserved = || self.reserved_attribute(address, attribute);
        Ok(known.or_else(reserved).unwrap_or_else(|| nothing(attribute)))
    }

    /// What is told of addresses that are reserved, and have no memory.
    fn reserved_attribute(&self, address: u64, attribute: u32) -> Option<Value> {
        let place = lock().mapped.place(address)?;
        Some(match attribute {
            11 => Value::Wide(place.start),
            12 => Value::Wide(place.size as u64),
            13 => Value::Word(0),
            _ => return None,
        })
    }

    fn known_attribute(&mut self, attribute: u32) -> Answer<()> {
        if (1..=LAST_ATTRIBUTE).contains(&attribute) {
            return Ok(());
        }
        self.refuse(INVALID_VALUE, format_args!("{attribute} is no attribute of a pointer"))
    }

    /// `None` for an address that the host or the device has not.
    fn value_of(&mut self, found: &Pointed, address: u64, attribute: u32) -> Option<Value> {
        use Value::{Wide, Word};
        let of_host = found.is_hosts();
        let hosts = found.kind.is_hosts() || of_host || found.is_managed();
        Some(match attribute {
            1 => Wide(found.context as u64),
            2 => Word(if of_host { HOST } else { DEVICE }),
            DEVICE_POINTER => Wide(address),
            4 if hosts => Wide(address),
            4 => return None,
            SYNC_MEMOPS => Word(u32::from(found.synchronizes)),
            7 => Wide(found.number),
            8 => Word(u32::from(found.is_managed())),
            9 => Word(self.device_of(found) as u32),
            10 => Word(u32::from(matches!(found.kind, Kind::Device | Kind::Variable))),
            11 => Wide(found.mapped.map_or(found.start, |(place, _)| place.start)),
            12 => Wide(found.mapped.map_or(found.size, |(place, _)| place.size) as u64),
            13 => Word(1),
            14 if found.kind.is_mapped() => Wide(found.mapped.map_or(0, |(_, made)| made.handles).into()),
            14 => Wide(u64::from(found.pool.is_some_and(|(_, made)| made.shared))),
            15 => Word(u32::from(found.kind == Kind::Device)),
            16 => Word(self.access_to(found)),
            17 => Wide(found.pool.map_or(0, |(pool, _)| pool as u64)),
            18 => Wide(found.block.1 as u64),
            19 => Wide(found.block.0),
            20 => Wide(found.block.2),
            _ => Word(0),
        })
    }

    fn device_of(&self, found: &Pointed) -> i32 {
        match found.pool {
            Some((_, Made { place: pool::Place::Device(device), .. })) => device as i32,
            Some((pool, _)) if !is_default(pool) => OF_HOST,
            // What comes from a pool that is there from the beginning is the device's in whose context it was allocated.
            Some(_) => self.peek(found.context).map_or(0, |context| context.device as i32),
            None if found.kind.is_mapped() => found.mapped.map_or(NONE, |(_, made)| made.location.id),
            None => self.peek(found.context).map_or(0, |context| context.device as i32),
        }
    }

    /// The access that the device of the current context has.
    fn access_to(&mut self, found: &Pointed) -> u32 {
        let current = self.stack().last().copied().unwrap_or(0);
        let Some(device) = self.peek(current).map(|context| context.device) else { return NO_ACCESS };
        let own = self.device_of(found) == device as i32;
        match found.pool {
            Some((pool, _)) => {
                lock().pool(pool).map_or(NO_ACCESS, |pool| pool.access_of(pool::Place::Device(device)))
            }
            None if found.kind.is_mapped() => {
                let may = lock().mapped.may_use(found.start, device as i32);
                if may == Some(true) { READ_WRITE } else { NO_ACCESS }
            }
            None if own || found.kind.is_hosts() => READ_WRITE,
            None => NO_ACCESS,
        }
    }

    /// Only whether synchronous work on memory always synchronizes is set.
    pub(super) fn set_pointer_attribute(&mut self, address: u64, attribute: u32, value: u32) -> Answer<()> {
        self.ready()?;
        if attribute != SYNC_MEMOPS {
            return self.refuse(INVALID_VALUE, format_args!("attribute {attribute} of a pointer is not set"));
        }
        let found = lock().pointed(address);
        let Some(found) = found else {
            return self.refuse(INVALID_VALUE, format_args!("{address:#x} is in no memory of the driver's"));
        };
        if found.pool.is_some() || matches!(found.kind, Kind::Graph | Kind::Mapped) {
            return self.refuse(NOT_SUPPORTED, "only memory that was allocated by itself synchronizes");
        }
        let mut memory = lock();
        if value == 0 {
            memory.synchronizing.remove(&found.number);
        } else {
            memory.synchronizing.insert(found.number);
        }
        Ok(())
    }

    /// Where the allocation begins that has this address, and how long it is.
    pub(super) fn address_range(&mut self, address: u64) -> Answer<(u64, usize)> {
        self.healthy_current()?;
        let found = lock().pointed(address);
        match found {
            Some(found) => Ok((found.start, found.size)),
            None => self.refuse(NOT_FOUND, format_args!("{address:#x} is in no memory of the driver's")),
        }
    }
}

/// What is written for an attribute that an address has not.
fn nothing(attribute: u32) -> Value {
    match attribute {
        9 => Value::Word(NONE as u32),
        2 | SYNC_MEMOPS | 8 | 10 | 13 | 15 | 16 | 21 => Value::Word(0),
        _ => Value::Wide(0),
    }
}
