//! Plays a trace on a table, with real threads that take turns, and records each call's answer.

use super::language::{ALL, Call, Ctx, EVENTS, GREENS, PRIMARY, STREAMS, Step, Trace, slot_name};
use super::made;
use super::state;
use custack_sys::Table;
use custack_sys::ffi::{CUcontext, CUctxCreateParams, CUdevResource, CUexecAffinityParam};
use std::fmt;
use std::ptr::null_mut;
use std::sync::mpsc::{Receiver, Sender, channel};

/// The answer to a step: the status, what was written to each out-parameter, and what is current on its thread
/// afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) status: u32,
    pub(super) outs: Vec<Out>,
    pub(super) current: Name,
}

/// One value that the driver wrote, or left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Out {
    Untouched,
    Number(u64),
    Context(Name),
}

/// A handle by its slot; handle values differ from driver to driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    Null,
    Slot(usize),
    Unknown,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Null => f.write_str("null"),
            Name::Slot(slot) => f.write_str(&slot_name(*slot)),
            Name::Unknown => f.write_str("?"),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        for out in &self.outs {
            match out {
                Out::Untouched => f.write_str(" -")?,
                Out::Number(number) => write!(f, " {number}")?,
                Out::Context(name) => write!(f, " {name}")?,
            }
        }
        write!(f, " | {}", self.current)
    }
}

/// The initial contents of an out-parameter: a pattern that a driver is unlikely to write.
pub(super) const UNTOUCHED: u64 = 0x5a5a_5a5a_5a5a_5a5a;

/// The handles of the slots, as numbers, so that they can be sent between threads.
#[derive(Clone, Default)]
pub(super) struct Handles {
    pub(super) slots: [usize; ALL],
    /// The green contexts as such, whose contexts are in the slots.
    pub(super) greens: [usize; GREENS],
    pub(super) streams: [usize; STREAMS],
    pub(super) events: [usize; EVENTS],
    /// The driver's ids in the order in which they were first seen.
    ids: Vec<u64>,
}

impl Handles {
    pub(super) fn raw(&self, context: Ctx) -> CUcontext {
        match context {
            Ctx::Null => null_mut(),
            Ctx::Slot(slot) => self.slots[slot] as CUcontext,
        }
    }

    fn name(&self, raw: usize) -> Name {
        if raw == 0 {
            return Name::Null;
        }
        self.slots.iter().position(|slot| *slot == raw).map_or(Name::Unknown, Name::Slot)
    }
}

/// A thread's orders go one way, its answers the other.
type Actor = (Sender<(Call, Handles)>, Receiver<(Outcome, Handles)>);

/// Plays the trace from an empty state, and leaves one: afterwards every stack is drained (as further steps of the
/// outcome), every context destroyed, and the primary one released.
pub(super) fn play(trace: &Trace, table: &Table) -> Vec<Outcome> {
    let threads = trace.threads();
    let mut handles = Handles::default();
    let mut outcomes = Vec::with_capacity(trace.steps.len() + 2 * threads);
    std::thread::scope(|scope| {
        let actors: Vec<_> = (0..threads)
            .map(|_| {
                let (to, orders) = channel();
                let (done, from) = channel();
                scope.spawn(move || act(table, &orders, &done));
                (to, from)
            })
            .collect();
        let turn = |thread: usize, call: Call, handles: &mut Handles| {
            let (to, from): &Actor = &actors[thread];
            to.send((call, std::mem::take(handles))).expect("the thread takes its turn");
            let (outcome, back) = from.recv().expect("the thread answers");
            *handles = back;
            outcome
        };
        for Step { thread, call } in &trace.steps {
            outcomes.push(turn(*thread, *call, &mut handles));
        }
        for thread in 0..threads {
            loop {
                let outcome = turn(thread, Call::cuCtxPopCurrent_v2 { out: true }, &mut handles);
                let empty = outcome.status != 0;
                outcomes.push(outcome);
                if empty {
                    break;
                }
            }
        }
        clean_up(table, trace, &outcomes, &handles);
    });
    outcomes
}

fn act(table: &Table, orders: &Receiver<(Call, Handles)>, done: &Sender<(Outcome, Handles)>) {
    for (call, mut handles) in orders {
        let (status, outs) = perform(table, call, &mut handles);
        let mut current = null_mut();
        // SAFETY: writes to a local.
        let asked = unsafe { (table.cuCtxGetCurrent)(&mut current) };
        assert_eq!(asked, 0, "what is current can always be asked");
        let outcome = Outcome { status, outs, current: handles.name(current.addr()) };
        if done.send((outcome, handles)).is_err() {
            return;
        }
    }
}

/// Destroys the contexts that are left, and releases the rest of the primary one's count.
fn clean_up(table: &Table, trace: &Trace, outcomes: &[Outcome], handles: &Handles) {
    let state = state::after(trace, outcomes);
    made::clean_up(table, &state, handles);
    for slot in state.contexts_alive() {
        // SAFETY: the slot's context is alive, according to the generator.
        assert_eq!(unsafe { (table.cuCtxDestroy_v2)(handles.slots[slot] as CUcontext) }, 0, "{trace}");
    }
    // SAFETY: no pointers; releases until nothing is left.
    unsafe {
        while (table.cuDevicePrimaryCtxRelease_v2)(0) == 0 {}
        (table.cuDevicePrimaryCtxSetFlags_v2)(0, 0);
    }
}

/// A 64-bit buffer for an out-parameter of type `T`.
pub(super) fn out_parameter<T>(here: bool, value: &mut u64) -> *mut T {
    *value = UNTOUCHED;
    if here { (&raw mut *value).cast() } else { null_mut() }
}

pub(super) fn written(here: bool, value: u64, mask: u64) -> Out {
    if !here || value == UNTOUCHED { Out::Untouched } else { Out::Number(value & mask) }
}

pub(super) const LOW: u64 = 0xffff_ffff;

#[allow(clippy::too_many_lines, reason = "one arm for each function of the language")]
fn perform(table: &Table, call: Call, handles: &mut Handles) -> (u32, Vec<Out>) {
    let mut a = UNTOUCHED;
    let mut b = UNTOUCHED;
    // SAFETY: pointers are NULL or to locals that are large enough; contexts are NULL, alive, or held by a stack, which
    // the generator ensures.
    unsafe {
        match call {
            Call::cuCtxCreate_v2 { out, flags, device } => {
                let status = (table.cuCtxCreate_v2)(out_parameter(out != Ctx::Null, &mut a), flags, device);
                (status, created(out, status, a, handles))
            }
            Call::cuCtxCreate_v3 { out, affinities, flags, device } => {
                let mut params = CUexecAffinityParam { kind: 0, sm_count: 16 };
                let to = out_parameter(out != Ctx::Null, &mut a);
                let status = (table.cuCtxCreate_v3)(to, &mut params, affinities, flags, device);
                (status, created(out, status, a, handles))
            }
            Call::cuCtxCreate_v4 { out, affinities, flags, device } => {
                let mut affinity = CUexecAffinityParam { kind: 0, sm_count: 16 };
                let mut params = CUctxCreateParams {
                    exec_affinity_params: if affinities > 0 { &mut affinity } else { null_mut() },
                    num_exec_affinity_params: affinities,
                    cig_params: null_mut(),
                };
                let params = if affinities < 0 { null_mut() } else { &raw mut params };
                let status =
                    (table.cuCtxCreate_v4)(out_parameter(out != Ctx::Null, &mut a), params, flags, device);
                (status, created(out, status, a, handles))
            }
            Call::cuCtxDestroy_v2 { context } => ((table.cuCtxDestroy_v2)(handles.raw(context)), vec![]),
            Call::cuCtxPushCurrent_v2 { context } => {
                ((table.cuCtxPushCurrent_v2)(handles.raw(context)), vec![])
            }
            Call::cuCtxPopCurrent_v2 { out } => {
                let status = (table.cuCtxPopCurrent_v2)(out_parameter(out, &mut a));
                (status, vec![context(out, a, handles)])
            }
            Call::cuCtxSetCurrent { context } => ((table.cuCtxSetCurrent)(handles.raw(context)), vec![]),
            Call::cuCtxGetCurrent { out } => {
                let status = (table.cuCtxGetCurrent)(out_parameter(out, &mut a));
                (status, vec![context(out, a, handles)])
            }
            Call::cuCtxGetDevice { out } => {
                let status = (table.cuCtxGetDevice)(out_parameter(out, &mut a));
                (status, vec![written(out, a, LOW)])
            }
            Call::cuCtxGetDevice_v2 { out, context } => {
                let status = (table.cuCtxGetDevice_v2)(out_parameter(out, &mut a), handles.raw(context));
                (status, vec![written(out, a, LOW)])
            }
            Call::cuCtxGetFlags { out } => {
                let status = (table.cuCtxGetFlags)(out_parameter(out, &mut a));
                (status, vec![written(out, a, LOW)])
            }
            Call::cuCtxSetFlags { flags } => ((table.cuCtxSetFlags)(flags), vec![]),
            Call::cuCtxGetId { context, out } => {
                let status = (table.cuCtxGetId)(handles.raw(context), out_parameter(out, &mut a));
                (status, vec![id(out, a, handles)])
            }
            Call::cuCtxSynchronize {} => ((table.cuCtxSynchronize)(), vec![]),
            Call::cuCtxSynchronize_v2 { context } => {
                ((table.cuCtxSynchronize_v2)(handles.raw(context)), vec![])
            }
            Call::cuCtxGetLimit { out, limit } => {
                let status = (table.cuCtxGetLimit)(out_parameter(out, &mut a), limit);
                (status, vec![written(out, a, u64::MAX)])
            }
            Call::cuCtxSetLimit { limit, value } => ((table.cuCtxSetLimit)(limit, value as usize), vec![]),
            Call::cuCtxGetCacheConfig { out } => {
                let status = (table.cuCtxGetCacheConfig)(out_parameter(out, &mut a));
                (status, vec![written(out, a, LOW)])
            }
            Call::cuCtxSetCacheConfig { config } => ((table.cuCtxSetCacheConfig)(config), vec![]),
            Call::cuCtxGetSharedMemConfig { out } => {
                let status = (table.cuCtxGetSharedMemConfig)(out_parameter(out, &mut a));
                (status, vec![written(out, a, LOW)])
            }
            Call::cuCtxSetSharedMemConfig { config } => ((table.cuCtxSetSharedMemConfig)(config), vec![]),
            Call::cuCtxGetApiVersion { context, out } => {
                let status = (table.cuCtxGetApiVersion)(handles.raw(context), out_parameter(out, &mut a));
                (status, vec![written(out, a, LOW)])
            }
            Call::cuCtxGetStreamPriorityRange { least, greatest } => {
                let status = (table.cuCtxGetStreamPriorityRange)(
                    out_parameter(least, &mut a),
                    out_parameter(greatest, &mut b),
                );
                (status, vec![written(least, a, LOW), written(greatest, b, LOW)])
            }
            Call::cuCtxResetPersistingL2Cache {} => ((table.cuCtxResetPersistingL2Cache)(), vec![]),
            Call::cuCtxGetExecAffinity { out, kind } => {
                let mut affinity = CUexecAffinityParam { kind: 7777, sm_count: 7777 };
                let to = if out { &raw mut affinity } else { null_mut() };
                let status = (table.cuCtxGetExecAffinity)(to, kind);
                // The contents that a refused call leaves in the structure are ignored.
                let count = if status == 0 { u64::from(affinity.sm_count) } else { UNTOUCHED };
                (status, vec![written(out, count, u64::MAX)])
            }
            Call::cuCtxRecordEvent { context, event } => {
                ((table.cuCtxRecordEvent)(handles.raw(context), handles.event(event)), vec![])
            }
            Call::cuCtxWaitEvent { context, event } => {
                ((table.cuCtxWaitEvent)(handles.raw(context), handles.event(event)), vec![])
            }
            Call::cuCtxAttach { out, flags } => {
                let status = (table.cuCtxAttach)(out_parameter(out, &mut a), flags);
                (status, vec![context(out, a, handles)])
            }
            Call::cuCtxDetach { context } => ((table.cuCtxDetach)(handles.raw(context)), vec![]),
            Call::cuCtxEnablePeerAccess { peer, flags } => {
                ((table.cuCtxEnablePeerAccess)(handles.raw(peer), flags), vec![])
            }
            Call::cuCtxDisablePeerAccess { peer } => {
                ((table.cuCtxDisablePeerAccess)(handles.raw(peer)), vec![])
            }
            Call::cuCtxGetDevResource { context, out, kind } => {
                let mut resource: CUdevResource = std::mem::zeroed();
                let to = if out { &raw mut resource } else { null_mut() };
                let status = (table.cuCtxGetDevResource)(handles.raw(context), to, kind);
                (status, resource.sm.map(|number| Out::Number(number.into())).to_vec())
            }
            Call::cuDevicePrimaryCtxRetain { out, device } => {
                let status = (table.cuDevicePrimaryCtxRetain)(out_parameter(out, &mut a), device);
                if status == 0 && out {
                    handles.slots[PRIMARY] = a as usize;
                }
                (status, vec![context(out, a, handles)])
            }
            Call::cuDevicePrimaryCtxRelease_v2 { device } => {
                ((table.cuDevicePrimaryCtxRelease_v2)(device), vec![])
            }
            Call::cuDevicePrimaryCtxSetFlags_v2 { device, flags } => {
                ((table.cuDevicePrimaryCtxSetFlags_v2)(device, flags), vec![])
            }
            Call::cuDevicePrimaryCtxGetState { device, flags, active } => {
                let (to, is) = (out_parameter(flags, &mut a), out_parameter(active, &mut b));
                let status = (table.cuDevicePrimaryCtxGetState)(device, to, is);
                (status, vec![written(flags, a, LOW), written(active, b, LOW)])
            }
            Call::cuDevicePrimaryCtxReset_v2 { device } => {
                ((table.cuDevicePrimaryCtxReset_v2)(device), vec![])
            }
            _ => made::perform(table, call, handles),
        }
    }
}

/// A new context gets its slot.
fn created(out: Ctx, status: u32, raw: u64, handles: &mut Handles) -> Vec<Out> {
    if let (0, Ctx::Slot(slot)) = (status, out) {
        // The driver may reuse a freed handle: it belongs to the new slot now.
        for other in handles.slots.iter_mut().filter(|other| **other == raw as usize) {
            *other = 0;
        }
        handles.slots[slot] = raw as usize;
    }
    vec![context(out != Ctx::Null, raw, handles)]
}

pub(super) fn context(here: bool, raw: u64, handles: &Handles) -> Out {
    if !here || raw == UNTOUCHED { Out::Untouched } else { Out::Context(handles.name(raw as usize)) }
}

/// Ids differ from driver to driver; the order in which they are first seen does not.
pub(super) fn id(here: bool, value: u64, handles: &mut Handles) -> Out {
    if !here || value == UNTOUCHED {
        return Out::Untouched;
    }
    let at = handles.ids.iter().position(|id| *id == value).unwrap_or_else(|| {
        handles.ids.push(value);
        handles.ids.len() - 1
    });
    Out::Number(at as u64)
}
