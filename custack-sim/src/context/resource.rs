//! Multiprocessors as a resource: the sets of them, and how an H200 splits one.

use crate::device::{SM_COUNT, SM_PARTITION};
use crate::machine::*;
use custack_sys::ffi::{CU_DEV_RESOURCE_TYPE_SM, CUdevResource, CUdevice};

/// Multiprocessors by their numbers, one bit for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Multiprocessors([u64; 3]);

impl Multiprocessors {
    fn all() -> Multiprocessors {
        let mut all = Multiprocessors::default();
        (0..SM_COUNT).for_each(|number| all.add(number));
        all
    }

    fn add(&mut self, number: u32) {
        self.0[number as usize / 64] |= 1 << (number % 64);
    }

    fn numbers(self) -> impl Iterator<Item = u32> {
        (0..SM_COUNT).filter(move |number| self.0[*number as usize / 64] >> (number % 64) & 1 != 0)
    }

    pub(crate) fn count(self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// The number of the one on which the block with this index runs.
    pub(crate) fn of_block(self, index: u64) -> u32 {
        let at = index % u64::from(self.count().max(1));
        self.numbers().nth(at as usize).unwrap_or(0)
    }

    /// The multiprocessors of both. An H200 counts those that are in both twice, up to the number that the device has.
    fn united(self, other: Multiprocessors) -> Multiprocessors {
        let mut union = Multiprocessors([0, 1, 2].map(|at| self.0[at] | other.0[at]));
        let missing = (self.count() + other.count()).min(SM_COUNT) - union.count();
        let mut others = Multiprocessors([0, 1, 2].map(|at| Self::all().0[at] & !union.0[at]));
        others.take(missing).numbers().for_each(|number| union.add(number));
        union
    }

    /// The first ones are taken out.
    fn take(&mut self, count: u32) -> Multiprocessors {
        let mut taken = Multiprocessors::default();
        self.numbers().take(count as usize).for_each(|number| taken.add(number));
        *self = Multiprocessors([0, 1, 2].map(|at| self.0[at] & !taken.0[at]));
        taken
    }
}

/// What a resource is: this decides how it may be split, and what it is told to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Of a device, or of a context, which may be split.
    Whole,
    /// Of a green context that was made from groups that ignore how multiprocessors are scheduled together.
    Fine,
    /// A group of a split.
    Group,
    /// A group without the usual alignment.
    FineGroup,
    /// What a split has left over.
    Rest,
}

const KINDS: [Kind; 5] = [Kind::Whole, Kind::Fine, Kind::Group, Kind::FineGroup, Kind::Rest];

/// A resource of multiprocessors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    device: usize,
    kind: Kind,
    pub(super) set: Multiprocessors,
}

/// Several parts that were put together for a green context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Description {
    pub(super) device: usize,
    pub(super) part: Part,
}

/// Far from all other handles.
const FIRST_DESCRIPTION: usize = 0x5349_4F00_0000;
const DESCRIPTION_STEP: usize = 0x40;

const FINE_PARTITION: [u32; 2] = [2, 2];
const IGNORE_COSCHEDULING: u32 = 1;
const MAX_CLUSTER_SIZE: u32 = 2;
/// The number of groups of its smallest partition that an H200 makes, although there is room for one more.
const SMALLEST_GROUPS: u32 = 15;

/// What marks the bytes that are the driver's own.
const MARK: &[u8; 4] = b"SIM.";

impl Part {
    pub(crate) fn of_device(device: usize) -> Part {
        Part { device, kind: Kind::Whole, set: Multiprocessors::all() }
    }

    /// The size of the smallest partition, and its alignment: 0 for what cannot be split.
    fn partition(self) -> [u32; 2] {
        match self.kind {
            Kind::Whole => SM_PARTITION,
            Kind::Fine => FINE_PARTITION,
            Kind::Group | Kind::FineGroup | Kind::Rest => [0, 0],
        }
    }

    /// As the program gets it.
    pub(crate) fn told(self) -> CUdevResource {
        let mut internal = [0; 92];
        internal[..4].copy_from_slice(MARK);
        internal[4] = self.device as u8;
        internal[5] = KINDS.iter().position(|kind| *kind == self.kind).unwrap_or(0) as u8;
        for (to, word) in internal[8..32].chunks_exact_mut(8).zip(self.set.0) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        let [least, alignment] = self.partition();
        let sm = [self.set.count(), least, alignment];
        CUdevResource { kind: CU_DEV_RESOURCE_TYPE_SM, internal, sm, reserved: [0; 9] }
    }

    /// As the program got it, unless it has changed something.
    fn read(resource: &CUdevResource) -> Option<Part> {
        let bytes = &resource.internal;
        let mut set = Multiprocessors::default();
        for (word, from) in set.0.iter_mut().zip(bytes[8..32].chunks_exact(8)) {
            *word = from.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        }
        let part = Part { device: bytes[4].into(), kind: *KINDS.get(usize::from(bytes[5]))?, set };
        (bytes.starts_with(MARK) && set.count() == resource.sm[0]).then_some(part)
    }
}

/// What a split gives.
pub(super) struct Split {
    pub(super) groups: Vec<Part>,
    /// How many groups are made, or could be if there is no room for any.
    pub(super) count: u32,
    pub(super) rest: Option<Part>,
}

impl Machine {
    /// All multiprocessors of a device.
    pub(crate) fn multiprocessors(&mut self, kind: u32, device: usize) -> Answer<Part> {
        self.known_kind(kind)?;
        Ok(Part::of_device(device))
    }

    pub(super) fn known_kind(&mut self, kind: u32) -> Answer<()> {
        if kind != CU_DEV_RESOURCE_TYPE_SM {
            return self
                .refuse(INVALID_RESOURCE_TYPE, format_args!("{kind} is not a known kind of resource"));
        }
        Ok(())
    }

    fn read_part(&mut self, resource: &CUdevResource) -> Answer<Part> {
        self.known_kind(resource.kind)?;
        match Part::read(resource) {
            Some(part) if part.device < self.devices.len() => Ok(part),
            _ => self.refuse(INVALID_RESOURCE, "the resource is not as the driver gave it"),
        }
    }

    /// Splits a resource into groups of one size, as many as there is room for. Without room only
    /// their number is told.
    pub(super) fn split(
        &mut self,
        room: Option<u32>,
        input: &CUdevResource,
        flags: u32,
        least: u32,
    ) -> Answer<Split> {
        self.ready()?;
        if room == Some(0) {
            return self.refuse(INVALID_VALUE, "there is no room for a group");
        }
        let Part { device, kind, mut set } = self.read_part(input)?;
        if !matches!(kind, Kind::Whole | Kind::Fine) {
            return self.refuse(
                INVALID_RESOURCE,
                "a part is not split again before a green context is made from it",
            );
        }
        if flags & IGNORE_COSCHEDULING != 0 && flags & MAX_CLUSTER_SIZE != 0 {
            return self.refuse(INVALID_VALUE, "the two ways to split exclude each other");
        }
        if least > set.count() {
            let why = format!("groups of {least} multiprocessors, where there are {}", set.count());
            return self.refuse(INVALID_RESOURCE, why);
        }
        let fine = flags & IGNORE_COSCHEDULING != 0 || kind == Kind::Fine;
        let step = if fine { FINE_PARTITION[0] } else { SM_PARTITION[0] };
        let size = least.max(1).next_multiple_of(step).min(set.count());
        let smallest = !fine && size == SM_PARTITION[0] && set.count() == SM_COUNT;
        let possible = if smallest { SMALLEST_GROUPS } else { set.count() / size };
        let kind = if fine { Kind::FineGroup } else { Kind::Group };
        let count = possible.min(room.unwrap_or(possible));
        let made = if room.is_some() { count } else { 0 };
        let groups = (0..made).map(|_| Part { device, kind, set: set.take(size) }).collect();
        let rest = (set.count() > 0).then_some(Part { device, kind: Kind::Rest, set });
        Ok(Split { groups, count, rest })
    }

    /// Puts parts together for a green context. They may overlap.
    pub(super) fn describe(&mut self, resources: &[CUdevResource]) -> Answer<usize> {
        self.ready()?;
        if resources.is_empty() {
            return self.misuse(INVALID_VALUE, "cuDevResourceGenerateDesc of no resources");
        }
        let parts = resources.iter().map(|it| self.read_part(it)).collect::<Answer<Vec<Part>>>()?;
        let device = parts[0].device;
        if parts.iter().any(|part| part.device != device) {
            return self.refuse(INVALID_RESOURCE, "the resources are of several devices");
        }
        let set = parts.iter().fold(Multiprocessors::default(), |all, part| all.united(part.set));
        let fine = parts.iter().any(|part| !matches!(part.kind, Kind::Whole | Kind::Group));
        let kind = if fine { Kind::Fine } else { Kind::Whole };
        let description = Description { device, part: Part { device, kind, set } };
        let known = self.descriptions.iter().position(|known| *known == description);
        let at = known.unwrap_or_else(|| {
            self.descriptions.push(description);
            self.descriptions.len() - 1
        });
        Ok(FIRST_DESCRIPTION + (at + 1) * DESCRIPTION_STEP)
    }

    /// NULL stands for the whole device.
    pub(super) fn described(&mut self, description: usize, device: CUdevice) -> Answer<Description> {
        let of = self.device(device)?;
        if description == 0 {
            return Ok(Description { device: of, part: Part::of_device(of) });
        }
        let offset = description.wrapping_sub(FIRST_DESCRIPTION);
        let at = (offset % DESCRIPTION_STEP == 0).then_some((offset / DESCRIPTION_STEP).wrapping_sub(1));
        match at.and_then(|at| self.descriptions.get(at)).copied() {
            Some(found) if found.device == of => Ok(found),
            Some(found) => {
                let why = format!("the resources are of device {}, not {of}", found.device);
                self.refuse(INVALID_DEVICE, why)
            }
            None => self.misuse(INVALID_VALUE, "cuGreenCtxCreate of what is not a description"),
        }
    }
}
