//! The calls of green contexts, streams and events, as they are played.

use super::language::{Call, Ctx, Evt, GREEN, Stm};
use super::play::{Handles, LOW, Name, Out, UNTOUCHED, context, id, out_parameter, written};
use super::state::State;
use custack_sys::Table;
use custack_sys::ffi::{CUcontext, CUdevResource, CUdevResourceDesc, CUevent, CUgreenCtx, CUstream};
use std::ptr::null_mut;

/// How many kinds of descriptions there are: NULL, two groups, their rest, the whole device, the groups together, one with
/// the rest, and a group that ignores how multiprocessors are scheduled.
pub(super) const PARTS: u32 = 8;

const NOTHING: CUdevResource = CUdevResource { kind: 0, internal: [0; 92], sm: [0; 3], reserved: [0; 9] };
const MOST_GROUPS: usize = 64;
const NOT_READY: u32 = 600;

impl Handles {
    fn green(&self, green: Ctx) -> CUgreenCtx {
        match green {
            Ctx::Slot(slot) if slot >= GREEN => self.greens[slot - GREEN] as CUgreenCtx,
            _ => null_mut(),
        }
    }

    fn stream(&self, stream: Stm) -> CUstream {
        match stream {
            Stm::Default(number) => std::ptr::without_provenance_mut(number),
            Stm::Slot(slot) => self.streams[slot] as CUstream,
        }
    }

    pub(super) fn event(&self, event: Evt) -> CUevent {
        event.0.map_or(null_mut(), |slot| self.events[slot] as CUevent)
    }

    /// The name of a green context.
    fn green_name(&self, raw: u64) -> Out {
        let at = self.greens.iter().position(|green| *green == raw as usize);
        Out::Context(match at {
            _ if raw == 0 => Name::Null,
            Some(at) => Name::Slot(GREEN + at),
            None => Name::Unknown,
        })
    }
}

/// The resources of a part of the first device.
fn parts(table: &Table, part: u32) -> Vec<CUdevResource> {
    let (mut whole, mut rest, mut fine) = (NOTHING, NOTHING, NOTHING);
    let (mut groups, mut two, mut one) = ([NOTHING; 2], 2, 1);
    // SAFETY: pointers to locals that are large enough.
    let made = unsafe {
        [
            (table.cuDeviceGetDevResource)(0, &mut whole, 1),
            (table.cuDevSmResourceSplitByCount)(groups.as_mut_ptr(), &mut two, &whole, &mut rest, 0, 16),
            (table.cuDevSmResourceSplitByCount)(&mut fine, &mut one, &whole, null_mut(), 1, 2),
        ]
    };
    assert_eq!(made, [0; 3], "a device has parts");
    match part {
        1 => vec![groups[0]],
        2 => vec![groups[1]],
        3 => vec![rest],
        4 => vec![whole],
        5 => groups.to_vec(),
        6 => vec![groups[0], rest],
        _ => vec![fine],
    }
}

fn describe(table: &Table, part: u32) -> (u32, CUdevResourceDesc) {
    let (mut resources, mut description) = (parts(table, part), null_mut());
    let count = resources.len() as u32;
    // SAFETY: pointers to locals.
    let status =
        unsafe { (table.cuDevResourceGenerateDesc)(&mut description, resources.as_mut_ptr(), count) };
    (status, description)
}

fn told(resource: &CUdevResource) -> Vec<Out> {
    let numbers = [resource.kind, resource.sm[0], resource.sm[1], resource.sm[2]];
    numbers.map(|number| Out::Number(number.into())).to_vec()
}

fn resource(here: bool, ask: impl FnOnce(*mut CUdevResource) -> u32) -> (u32, Vec<Out>) {
    let mut resource = NOTHING;
    let status = ask(if here { &raw mut resource } else { null_mut() });
    (status, told(&resource))
}

fn split(table: &Table, handles: &Handles, of: u32, room: u32, flags: u32, least: u32) -> (u32, Vec<Out>) {
    let input = if of < PARTS {
        parts(table, of)[0]
    } else {
        let mut resource = NOTHING;
        let green = handles.greens[(of - PARTS) as usize] as CUgreenCtx;
        // SAFETY: the green context is alive.
        assert_eq!(unsafe { (table.cuGreenCtxGetDevResource)(green, &mut resource, 1) }, 0);
        resource
    };
    let (mut groups, mut count, mut rest) = ([NOTHING; MOST_GROUPS], room, NOTHING);
    // SAFETY: there is room for as many groups as are asked for.
    let status = unsafe {
        (table.cuDevSmResourceSplitByCount)(groups.as_mut_ptr(), &mut count, &input, &mut rest, flags, least)
    };
    let mut outs = vec![Out::Number(count.into())];
    for at in [0, (count.max(1) as usize - 1).min(MOST_GROUPS - 1)] {
        outs.extend(told(&groups[at]));
    }
    outs.extend(told(&rest));
    (status, outs)
}

pub(super) fn perform(table: &Table, call: Call, handles: &mut Handles) -> (u32, Vec<Out>) {
    // SAFETY: as in `play::perform`: what is not safe for the driver is left out of traces.
    unsafe {
        match call {
            Call::cuDeviceGetDevResource { out, kind, device } => {
                resource(out, |to| (table.cuDeviceGetDevResource)(device, to, kind))
            }
            Call::cuDevSmResourceSplitByCount { of, room, flags, least } => {
                split(table, handles, of, room, flags, least)
            }
            Call::cuDevResourceGenerateDesc { part } => (describe(table, part).0, vec![]),
            Call::cuGreenCtxCreate { out, part, device, flags } => {
                create(table, handles, (out, part, device, flags))
            }
            Call::cuGreenCtxDestroy { green } => ((table.cuGreenCtxDestroy)(handles.green(green)), vec![]),
            Call::cuCtxFromGreenCtx { out, green } => {
                let mut a = UNTOUCHED;
                let to = out_parameter(out, &mut a);
                ((table.cuCtxFromGreenCtx)(to, handles.green(green)), vec![context(out, a, handles)])
            }
            Call::cuGreenCtxGetDevResource { green, out, kind } => {
                let green = handles.green(green);
                resource(out, |to| (table.cuGreenCtxGetDevResource)(green, to, kind))
            }
            Call::cuGreenCtxGetId { green, out } => {
                let mut a = UNTOUCHED;
                let to = out_parameter(out, &mut a);
                let status = (table.cuGreenCtxGetId)(handles.green(green), to);
                (status, vec![id(out, a, handles)])
            }
            Call::cuGreenCtxRecordEvent { green, event } => {
                ((table.cuGreenCtxRecordEvent)(handles.green(green), handles.event(event)), vec![])
            }
            Call::cuGreenCtxWaitEvent { green, event } => {
                ((table.cuGreenCtxWaitEvent)(handles.green(green), handles.event(event)), vec![])
            }
            _ => work(table, call, handles),
        }
    }
}

/// A new green context gets its slot, with the context that it is.
fn create(
    table: &Table,
    handles: &mut Handles,
    (out, part, device, flags): (Ctx, u32, i32, u32),
) -> (u32, Vec<Out>) {
    let description = if part == 0 { null_mut() } else { describe(table, part).1 };
    let mut green: CUgreenCtx = null_mut();
    let to = if out == Ctx::Null { null_mut() } else { &raw mut green };
    // SAFETY: the description was just made, and the pointers are NULL or to locals.
    let status = unsafe { (table.cuGreenCtxCreate)(to, description, device, flags) };
    if let (0, Ctx::Slot(slot)) = (status, out) {
        let mut made: CUcontext = null_mut();
        // SAFETY: just made.
        assert_eq!(unsafe { (table.cuCtxFromGreenCtx)(&mut made, green) }, 0);
        // The driver may use a handle again: it belongs to the new slot now.
        for other in handles.slots.iter_mut().filter(|other| **other == made.addr()) {
            *other = 0;
        }
        for other in handles.greens.iter_mut().filter(|other| **other == green.addr()) {
            *other = 0;
        }
        (handles.slots[slot], handles.greens[slot - GREEN]) = (made.addr(), green.addr());
    }
    (status, vec![])
}

/// The calls of streams and events.
fn work(table: &Table, call: Call, handles: &mut Handles) -> (u32, Vec<Out>) {
    let (mut a, mut b) = (UNTOUCHED, UNTOUCHED);
    let mut made = 0usize;
    // SAFETY: as above.
    unsafe {
        let status = match call {
            Call::cuGreenCtxStreamCreate { green, flags, priority, .. } => {
                (table.cuGreenCtxStreamCreate)((&raw mut made).cast(), handles.green(green), flags, priority)
            }
            Call::cuStreamCreate { flags, .. } => (table.cuStreamCreate)((&raw mut made).cast(), flags),
            Call::cuStreamDestroy_v2 { stream } => (table.cuStreamDestroy_v2)(handles.stream(stream)),
            // Whether an event has been recorded yet depends on the time that the driver takes.
            Call::cuStreamQuery { stream } => match (table.cuStreamQuery)(handles.stream(stream)) {
                NOT_READY => 0,
                status => status,
            },
            Call::cuStreamSynchronize { stream } => (table.cuStreamSynchronize)(handles.stream(stream)),
            Call::cuStreamGetPriority { stream } => {
                let status = (table.cuStreamGetPriority)(handles.stream(stream), out_parameter(true, &mut a));
                return (status, vec![written(true, a, LOW)]);
            }
            Call::cuStreamGetCtx { stream } => {
                let status = (table.cuStreamGetCtx)(handles.stream(stream), out_parameter(true, &mut a));
                return (status, vec![context(true, a, handles)]);
            }
            Call::cuStreamGetCtx_v2 { stream } => {
                let (of, green) = (out_parameter(true, &mut a), out_parameter(true, &mut b));
                let status = (table.cuStreamGetCtx_v2)(handles.stream(stream), of, green);
                let green = if b == UNTOUCHED { Out::Untouched } else { handles.green_name(b) };
                return (status, vec![context(true, a, handles), green]);
            }
            Call::cuStreamGetGreenCtx { stream } => {
                let status = (table.cuStreamGetGreenCtx)(handles.stream(stream), out_parameter(true, &mut a));
                let green = if a == UNTOUCHED { Out::Untouched } else { handles.green_name(a) };
                return (status, vec![green]);
            }
            Call::cuStreamWaitEvent { stream, event } => {
                (table.cuStreamWaitEvent)(handles.stream(stream), handles.event(event), 0)
            }
            Call::cuEventCreate { .. } => (table.cuEventCreate)((&raw mut made).cast(), 0),
            Call::cuEventDestroy_v2 { event } => (table.cuEventDestroy_v2)(handles.event(event)),
            Call::cuEventRecord { event, stream } => {
                (table.cuEventRecord)(handles.event(event), handles.stream(stream))
            }
            Call::cuEventSynchronize { event } => (table.cuEventSynchronize)(handles.event(event)),
            _ => unreachable!("{call} is played elsewhere"),
        };
        match (status, call) {
            (
                0,
                Call::cuGreenCtxStreamCreate { out: Stm::Slot(at), .. }
                | Call::cuStreamCreate { out: Stm::Slot(at), .. },
            ) => handles.streams[at] = made,
            (0, Call::cuEventCreate { out: Evt(Some(at)) }) => handles.events[at] = made,
            _ => {}
        }
        (status, vec![])
    }
}

/// Destroys the streams and events that are left, and then the green contexts.
pub(super) fn clean_up(table: &Table, state: &State, handles: &Handles) {
    let (streams, events) = state.usable();
    // SAFETY: their contexts are alive, and so are the green contexts, according to the generator.
    unsafe {
        for at in streams {
            assert_eq!((table.cuStreamDestroy_v2)(handles.streams[at] as CUstream), 0);
        }
        for at in events {
            assert_eq!((table.cuEventDestroy_v2)(handles.events[at] as CUevent), 0);
        }
        for at in state.greens_alive() {
            assert_eq!((table.cuGreenCtxDestroy)(handles.greens[at] as CUgreenCtx), 0);
        }
    }
}
