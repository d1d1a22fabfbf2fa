//! What the program advises about managed memory, page by page. The host's memory and the device's are one here, so advice is
//! kept and told, and changes nothing else.

use super::allocation::Kind;
use super::block::NoRoom;
use super::{Memory, lock};
use crate::machine::*;
use std::collections::{BTreeMap, BTreeSet};

/// The advice that says at which place memory is preferred.
const PREFERRED: u32 = 3;
const ACCESSED: u32 = 5;
const NOT_ACCESSED: u32 = 6;
const PAGE: u64 = 4096;
/// Kinds of locations.
const NOWHERE: u32 = 0;
const ON_DEVICE: u32 = 1;
const ON_HOST: u32 = 2;
const ON_NODE: u32 = 3;
const ON_THIS_NODE: u32 = 4;
/// Devices that are none: the processor's, and nothing's.
const OF_HOST: i32 = -1;
const NONE: i32 = -2;

/// Where memory is, or should be: the kind, and the number of a device or a node of the host's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Location {
    kind: u32,
    id: i32,
}

impl Location {
    pub(super) fn new(kind: u32, id: i32) -> Location {
        Location { kind, id: if kind == ON_HOST { OF_HOST } else { id } }
    }

    /// As calls name it that know devices, and the host as -1.
    pub(super) fn of_device(device: i32) -> Location {
        if device == OF_HOST { Location::new(ON_HOST, OF_HOST) } else { Location::new(ON_DEVICE, device) }
    }

    fn device(self) -> i32 {
        if self.kind == ON_DEVICE { self.id } else { OF_HOST }
    }
}

/// What is said of a page.
#[derive(Clone, Default, PartialEq, Eq)]
struct Advice {
    read_mostly: bool,
    preferred: Option<Location>,
    accessed_by: BTreeSet<i32>,
    prefetched: Option<Location>,
}

/// The pages of an allocation: each has what the last page at or before it that is here has.
type Pages = BTreeMap<u64, Advice>;

/// By the number of the allocation.
#[derive(Default)]
pub(super) struct Managed(BTreeMap<u64, Pages>);

impl Managed {
    pub(super) fn forget(&mut self, number: u64) {
        self.0.remove(&number);
    }

    fn change(&mut self, (number, from, to): Range, f: impl Fn(&mut Advice)) {
        let pages = self.0.entry(number).or_insert_with(|| BTreeMap::from([(0, Advice::default())]));
        for at in [from, to] {
            let advice = pages.range(..=at).next_back().map(|(_, advice)| advice.clone()).unwrap_or_default();
            pages.insert(at, advice);
        }
        pages.range_mut(from..to).for_each(|(_, advice)| f(advice));
    }

    fn of(&self, (number, from, to): Range) -> Vec<Advice> {
        let Some(pages) = self.0.get(&number) else { return vec![Advice::default()] };
        let first = pages.range(..=from).next_back();
        first.into_iter().chain(pages.range(from + 1..to)).map(|(_, advice)| advice.clone()).collect()
    }
}

/// The number of an allocation, its first page and the one after its last.
type Range = (u64, u64, u64);

/// What all of these have; `None` if they differ.
fn common<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Option<T> {
    let mut values = values.into_iter();
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

impl Memory {
    /// The pages of managed memory that have these bytes.
    fn managed_pages(&self, address: u64, size: usize) -> Option<Range> {
        let found = self.pointed(address).filter(|it| it.is_managed())?;
        let end = address.checked_add(size as u64)?;
        let fits = size > 0 && end <= found.start + found.size as u64;
        fits.then_some((found.number, address / PAGE, end.div_ceil(PAGE)))
    }
}

impl Machine {
    fn managed(&mut self, address: u64, size: usize) -> Answer<Range> {
        let found = lock().managed_pages(address, size);
        match found {
            Some(found) => Ok(found),
            None => self.refuse(
                INVALID_VALUE,
                format_args!("{size} bytes at {address:#x}, which are not all of one managed allocation"),
            ),
        }
    }

    /// A place where managed memory may be. The host has one node, which is node 0.
    fn may_be_at(&mut self, location: Location) -> Answer<()> {
        match location {
            Location { kind: ON_DEVICE, id } => self.device(id).map(|_| ()),
            Location { kind: ON_HOST | ON_THIS_NODE, .. } | Location { kind: ON_NODE, id: 0 } => Ok(()),
            Location { kind, id } => {
                self.refuse(INVALID_VALUE, format_args!("a location of type {kind}, number {id}"))
            }
        }
    }

    /// What the older function looks at before it asks whether the memory is managed.
    pub(super) fn may_prefetch(
        &mut self,
        (address, size): (u64, usize),
        to: Location,
        stream: usize,
    ) -> Answer<()> {
        self.stream_of(stream)?;
        self.no_node(stream)?;
        self.has_bytes(address, size)?;
        self.may_be_at(to)
    }

    /// What the older function looks at before the memory: the place that it is preferred at or accessed from.
    pub(super) fn may_advise(
        &mut self,
        (address, size): (u64, usize),
        what: u32,
        at: Location,
    ) -> Answer<()> {
        self.healthy_current()?;
        self.may_wait()?;
        self.has_bytes(address, size)?;
        if matches!(what, PREFERRED | ACCESSED | NOT_ACCESSED) { self.may_be_at(at) } else { Ok(()) }
    }

    /// There is memory of some kind at the address, and some bytes of it are meant.
    fn has_bytes(&mut self, address: u64, size: usize) -> Answer<()> {
        if lock().pointed(address).is_none() {
            return self.refuse(INVALID_VALUE, format_args!("there is no memory at {address:#x}"));
        }
        if size == 0 { self.refuse(INVALID_VALUE, "no bytes of managed memory") } else { Ok(()) }
    }

    /// In the order of the stream, in which nothing has to be moved here.
    pub(super) fn prefetch(
        &mut self,
        (address, size): (u64, usize),
        location: Location,
        flags: u32,
        stream: usize,
    ) -> Answer<()> {
        let found = self.stream_of(stream)?;
        self.no_node(stream)?;
        if flags != 0 {
            return self.refuse(INVALID_VALUE, format_args!("{flags:#x} are no flags of a prefetch"));
        }
        let range = self.managed(address, size)?;
        self.may_be_at(location)?;
        lock().managed.change(range, |advice| advice.prefetched = Some(location));
        self.enqueue(stream, &found, || Ok(()))
    }

    pub(super) fn advise(
        &mut self,
        (address, size): (u64, usize),
        what: u32,
        location: Location,
    ) -> Answer<()> {
        self.healthy_current()?;
        self.may_wait()?;
        if !(1..=6).contains(&what) {
            return self.refuse(INVALID_VALUE, format_args!("{what} is no advice"));
        }
        let range = self.managed(address, size)?;
        if !(ON_DEVICE..=ON_THIS_NODE).contains(&location.kind) {
            return self
                .refuse(INVALID_VALUE, format_args!("advice for a location of type {}", location.kind));
        }
        match what {
            PREFERRED => self.may_be_at(location)?,
            ACCESSED | NOT_ACCESSED if location.kind > ON_HOST => {
                return self.refuse(INVALID_VALUE, "memory is accessed by a device, or by the host");
            }
            ACCESSED | NOT_ACCESSED => self.may_be_at(location)?,
            _ => {}
        }
        lock().managed.change(range, |advice| match what {
            1 | 2 => advice.read_mostly = what == 1,
            PREFERRED => advice.preferred = Some(location),
            4 => advice.preferred = None,
            ACCESSED => drop(advice.accessed_by.insert(location.device())),
            _ => drop(advice.accessed_by.remove(&location.device())),
        });
        Ok(())
    }

    /// The values of an attribute of these bytes, as many as fit into `room` bytes.
    pub(super) fn range_attribute(
        &mut self,
        (address, size): (u64, usize),
        attribute: u32,
        room: usize,
    ) -> Answer<Vec<i32>> {
        self.ready()?;
        let fits = if attribute == 3 { room > 0 && room % 4 == 0 } else { room == 4 };
        if !(1..=8).contains(&attribute) || !fits {
            let why = format!("attribute {attribute} of managed memory, in {room} bytes");
            return self.refuse(INVALID_VALUE, why);
        }
        let range = self.managed(address, size)?;
        let advice = lock().managed.of(range);
        let location = match attribute {
            2 | 5 | 6 => common(advice.iter().map(|it| it.preferred)).flatten(),
            _ => common(advice.iter().map(|it| it.prefetched)).flatten(),
        };
        Ok(match attribute {
            1 => vec![i32::from(advice.iter().all(|it| it.read_mostly))],
            3 => {
                let mut by: Vec<i32> = advice[0].accessed_by.iter().copied().collect();
                by.retain(|device| advice.iter().all(|it| it.accessed_by.contains(device)));
                let got = by.try_reserve_exact((room / 4).saturating_sub(by.len()));
                self.with_room(got.map_err(|_| NoRoom))?;
                by.resize(room / 4, NONE);
                by
            }
            2 | 4 => vec![location.map_or(NONE, Location::device)],
            5 | 7 => vec![location.map_or(NOWHERE, |it| it.kind) as i32],
            _ => vec![location.map_or(NONE, |it| it.id)],
        })
    }

    /// Says which streams may use managed memory. A device that accesses it beside the host, as this one, heeds nothing of it.
    pub(super) fn attach_memory(
        &mut self,
        stream: usize,
        address: u64,
        size: usize,
        flags: u32,
    ) -> Answer<()> {
        let found = self.stream_of(stream)?;
        self.no_node(stream)?;
        self.may_wait()?;
        let (known, alone) = ([1, 2, 4].contains(&flags), flags == 4 && stream == 0);
        let memory = lock().pointed(address).filter(|it| it.is_managed() && it.kind != Kind::Pool);
        let whole = memory.is_some_and(|it| address == it.start && (size == 0 || size == it.size));
        let why = format!("{size} bytes at {address:#x} for a stream, with flags {flags:#x}");
        if flags == 0 && whole {
            return self.misuse(INVALID_VALUE, why);
        }
        if !known || alone || !whole {
            return self.refuse(INVALID_VALUE, why);
        }
        self.enqueue(stream, &found, || Ok(()))
    }
}
