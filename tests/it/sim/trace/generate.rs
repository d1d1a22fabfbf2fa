//! Generates traces from seeds.
//!
//! What crashes a real driver is left out: a handle that the driver has freed (of a created context that is destroyed
//! and on no stack any more), `cuCtxSetFlags` while the current context is destroyed, and wild pointers. A limit that
//! would take most of the device's memory (a stack of more than 2 KiB per thread) is left out as well, because the
//! answer then depends on what else is on the device. Everything else may happen.

use super::language::{Call, Ctx, PRIMARY, SLOTS, Step, Trace};
use super::play::Outcome;
use super::random::Random;

/// What the generator tracks to avoid crashes: which contexts live, and which stacks hold them.
struct State {
    alive: [bool; SLOTS],
    usage: [u32; SLOTS],
    stacks: Vec<Vec<usize>>,
    retained: bool,
    retains: u32,
    active: bool,
    /// Contexts made so far; making one takes a real driver some time.
    made: usize,
}

impl State {
    fn new(threads: usize) -> State {
        State {
            alive: [false; SLOTS],
            usage: [0; SLOTS],
            stacks: vec![Vec::new(); threads],
            retained: false,
            retains: 0,
            active: false,
            made: 0,
        }
    }

    fn is_alive(&self, slot: usize) -> bool {
        if slot == PRIMARY { self.active } else { self.alive[slot] }
    }

    fn is_alive_top(&self, thread: usize, slot: usize) -> bool {
        self.is_alive(slot) && self.stacks[thread].last() == Some(&slot)
    }

    fn is_held(&self, slot: usize) -> bool {
        self.stacks.iter().flatten().any(|held| *held == slot)
    }

    /// Whether a driver can be given this context in this call.
    fn allows(&self, Step { thread, call }: Step) -> bool {
        let current = self.stacks[thread].last();
        let good = |context| match context {
            Ctx::Null => true,
            Ctx::Slot(slot) => self.is_alive(slot) || self.is_held(slot),
        };
        match call {
            Call::cuCtxPushCurrent_v2 { context } | Call::cuCtxSetCurrent { context } => {
                // The driver keeps the memory behind a primary context's handle.
                good(context) || context == Ctx::Slot(PRIMARY) && self.retained
            }
            Call::cuCtxDestroy_v2 { context }
            | Call::cuCtxGetDevice_v2 { context, .. }
            | Call::cuCtxGetId { context, .. }
            | Call::cuCtxSynchronize_v2 { context }
            | Call::cuCtxGetApiVersion { context, .. }
            | Call::cuCtxRecordEvent { context }
            | Call::cuCtxWaitEvent { context }
            | Call::cuCtxDetach { context }
            | Call::cuCtxGetDevResource { context, .. } => good(context),
            Call::cuCtxEnablePeerAccess { peer, .. } | Call::cuCtxDisablePeerAccess { peer } => good(peer),
            Call::cuCtxSetFlags { .. } => current.is_none_or(|slot| self.is_alive(*slot)),
            Call::cuCtxCreate_v2 { out, .. }
            | Call::cuCtxCreate_v3 { out, .. }
            | Call::cuCtxCreate_v4 { out, .. } => match out {
                Ctx::Null => true,
                Ctx::Slot(slot) => slot != PRIMARY && !self.alive[slot] && !self.is_held(slot),
            },
            _ => true,
        }
    }

    /// Whether the call ends a context's life.
    fn ends(&self, Step { thread, call }: Step) -> bool {
        match call {
            Call::cuCtxDestroy_v2 { context: Ctx::Slot(slot) } => slot != PRIMARY && self.alive[slot],
            Call::cuCtxDetach { context: Ctx::Slot(slot) } if slot != PRIMARY => {
                self.usage[slot] == 1 && self.is_alive_top(thread, slot)
            }
            Call::cuDevicePrimaryCtxRelease_v2 { device: 0 } => self.retains == 1 && self.active,
            Call::cuDevicePrimaryCtxReset_v2 { device: 0 } => self.active,
            _ => false,
        }
    }

    fn end(&mut self, thread: usize, slot: usize) {
        self.alive[slot] = false;
        if self.stacks[thread].last() == Some(&slot) {
            self.stacks[thread].pop();
        }
    }

    /// The effect of the call if it succeeds. The status is the driver's if the call was played, else the expected one.
    fn apply(&mut self, Step { thread, call }: Step, status: Option<u32>) {
        let succeeded = |expected: bool| status.map_or(expected, |status| status == 0);
        let good_flags = |flags: u32| (flags & 7).count_ones() < 2 && flags < 0x100;
        match call {
            Call::cuCtxCreate_v2 { out: Ctx::Slot(slot), flags, device } => {
                self.create(thread, slot, succeeded(device == 0 && good_flags(flags)));
            }
            Call::cuCtxCreate_v3 { out: Ctx::Slot(slot), affinities, flags, device }
            | Call::cuCtxCreate_v4 { out: Ctx::Slot(slot), affinities, flags, device } => {
                self.create(thread, slot, succeeded(device == 0 && affinities <= 0 && good_flags(flags)));
            }
            Call::cuCtxDestroy_v2 { context: Ctx::Slot(slot) }
                if slot != PRIMARY && succeeded(self.alive[slot]) =>
            {
                self.end(thread, slot);
            }
            Call::cuCtxPushCurrent_v2 { context: Ctx::Slot(slot) } => self.stacks[thread].push(slot),
            Call::cuCtxPopCurrent_v2 { .. } | Call::cuCtxSetCurrent { context: Ctx::Null } => {
                self.stacks[thread].pop();
            }
            Call::cuCtxSetCurrent { context: Ctx::Slot(slot) } => {
                self.stacks[thread].pop();
                self.stacks[thread].push(slot);
            }
            Call::cuCtxAttach { out: true, flags: 0 } => {
                if let Some(slot) =
                    self.stacks[thread].last().filter(|slot| **slot < SLOTS && self.alive[**slot])
                {
                    self.usage[*slot] += 1;
                }
            }
            Call::cuCtxDetach { context: Ctx::Slot(slot) }
                if slot != PRIMARY && self.is_alive_top(thread, slot) =>
            {
                self.usage[slot] -= 1;
                if self.usage[slot] == 0 {
                    self.end(thread, slot);
                }
            }
            Call::cuDevicePrimaryCtxRetain { out: true, device: 0 } => {
                self.made += usize::from(!self.active);
                self.retains += 1;
                (self.retained, self.active) = (true, true);
            }
            Call::cuDevicePrimaryCtxRelease_v2 { device: 0 } if self.retains > 0 => {
                self.retains -= 1;
                self.active &= self.retains > 0;
            }
            Call::cuDevicePrimaryCtxReset_v2 { device: 0 } => self.active = false,
            _ => {}
        }
    }

    fn create(&mut self, thread: usize, slot: usize, succeeded: bool) {
        if succeeded {
            self.alive[slot] = true;
            self.usage[slot] = 1;
            self.made += 1;
            self.stacks[thread].push(slot);
        }
    }
}

/// Whether no step of the trace would crash a driver.
pub(super) fn is_safe(trace: &Trace) -> bool {
    let mut state = State::new(trace.threads());
    trace.steps.iter().all(|step| {
        let allowed = state.allows(*step);
        state.apply(*step, None);
        allowed
    })
}

/// Which slots' contexts are alive after the trace was played.
pub(super) fn alive_after(trace: &Trace, outcomes: &[Outcome]) -> [bool; SLOTS] {
    let mut state = State::new(trace.threads());
    for (step, outcome) in trace.steps.iter().zip(outcomes) {
        state.apply(*step, Some(outcome.status));
    }
    state.alive
}

/// A trace of `length` steps.
pub(super) fn generate(seed: u64, length: usize) -> Trace {
    let mut random = Random::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let threads = 1 + random.below(4);
    let mut state = State::new(threads);
    let mut steps = Vec::with_capacity(length);
    // Making a context takes a real driver 0.2 s, so a long trace makes a few and uses them often; their ends are
    // spread over its length.
    let most_made = 4 + length / 4000;
    let mut ended = 0;
    while steps.len() < length {
        let step = Step { thread: random.below(threads), call: call(&mut random) };
        let makes = matches!(
            step.call,
            Call::cuCtxCreate_v2 { .. }
                | Call::cuCtxCreate_v3 { .. }
                | Call::cuCtxCreate_v4 { .. }
                | Call::cuDevicePrimaryCtxRetain { .. }
        );
        let ends = state.ends(step);
        let too_soon = ends && ended * length > steps.len() * most_made;
        if state.allows(step) && !(makes && state.made >= most_made) && !too_soon {
            ended += usize::from(ends);
            state.apply(step, None);
            steps.push(step);
        }
    }
    Trace { steps }
}

const FLAGS: [u32; 24] = [
    0,
    0,
    0,
    1,
    2,
    4,
    3,
    5,
    6,
    7,
    8,
    9,
    0x10,
    0x18,
    0x20,
    0x28,
    0x40,
    0x60,
    0x80,
    0x8c,
    0xfc,
    0xff,
    0x100,
    0x8000_0000,
];

fn flags(random: &mut Random) -> u32 {
    if random.once_in(4) { random.below(0x140) as u32 } else { random.pick(&FLAGS) }
}

fn slot(random: &mut Random) -> Ctx {
    if random.once_in(12) { Ctx::Null } else { Ctx::Slot(random.below(SLOTS)) }
}

fn context(random: &mut Random) -> Ctx {
    if random.once_in(16) { Ctx::Null } else { Ctx::Slot(random.below(SLOTS + 1)) }
}

fn device(random: &mut Random) -> i32 {
    if random.once_in(12) { random.pick(&[99, -1, i32::MAX, i32::MIN]) } else { 0 }
}

fn here(random: &mut Random) -> bool {
    !random.once_in(10)
}

fn limit(random: &mut Random) -> u32 {
    if random.once_in(12) { random.pick(&[10, 11, 99, u32::MAX]) } else { random.below(10) as u32 }
}

/// Values around the edges of this limit, and random ones.
fn limit_value(random: &mut Random, limit: u32) -> u64 {
    let top = u64::MAX;
    let edges: &[u64] = match limit {
        0 => &[
            0,
            1,
            15,
            16,
            17,
            31,
            1000,
            1023,
            1024,
            1025,
            2047,
            2048,
            523_713,
            524_288,
            1 << 20,
            1 << 40,
            top,
        ],
        1 => &[
            0,
            524_287,
            524_288,
            524_289,
            8_650_752,
            8_650_753,
            (1 << 31) - 1,
            1 << 31,
            (1 << 31) + 1,
            1 << 62,
            top - 255,
            top - 254,
            top,
        ],
        2 => &[0, 4_194_303, 4_194_304, 4_194_305, 8_388_609, 1 << 30, top - 65_535, top - 65_534, top],
        4 => &[0, 31, 32, 33, 2047, 2048, 2049, 100_000],
        5 => &[0, 1, 31, 64, 127, 128, 129, 1 << 32, top],
        6 => &[0, 1, 3_932_159, 3_932_160, 3_932_161, 39_321_600, 39_321_601, 1 << 40, top],
        _ => &[0, 1, 100, top],
    };
    if random.once_in(3) {
        return match limit {
            0 => random.next() % 2049,
            1 | 2 => random.next() % (1 << 30),
            4 => random.next() % 65_537,
            5 => random.next() % 200,
            6 => random.next() % 40_000_000,
            _ => random.next(),
        };
    }
    random.pick(edges)
}

fn call(random: &mut Random) -> Call {
    match random.below(100) {
        0..=1 => Call::cuCtxCreate_v2 { out: slot(random), flags: flags(random), device: device(random) },
        2 => {
            let affinities = random.pick(&[0, 0, 1, -1]);
            Call::cuCtxCreate_v3 {
                out: slot(random),
                affinities,
                flags: flags(random),
                device: device(random),
            }
        }
        3 => {
            let affinities = random.pick(&[0, 0, 1, -1]);
            Call::cuCtxCreate_v4 {
                out: slot(random),
                affinities,
                flags: flags(random),
                device: device(random),
            }
        }
        4..=5 => Call::cuCtxDestroy_v2 { context: context(random) },
        6..=17 => Call::cuCtxPushCurrent_v2 { context: context(random) },
        18..=27 => Call::cuCtxPopCurrent_v2 { out: here(random) },
        28..=36 => Call::cuCtxSetCurrent { context: context(random) },
        37 => Call::cuCtxGetCurrent { out: true },
        38..=39 => Call::cuCtxGetDevice { out: here(random) },
        40..=41 => Call::cuCtxGetDevice_v2 { out: here(random), context: context(random) },
        42..=44 => Call::cuCtxGetFlags { out: here(random) },
        45..=47 => Call::cuCtxSetFlags { flags: flags(random) },
        48..=50 => Call::cuCtxGetId { context: context(random), out: here(random) },
        51 => Call::cuCtxSynchronize {},
        52 => Call::cuCtxSynchronize_v2 { context: context(random) },
        53..=57 => Call::cuCtxGetLimit { out: here(random), limit: limit(random) },
        58..=63 => {
            let limit = limit(random);
            Call::cuCtxSetLimit { limit, value: limit_value(random, limit) }
        }
        64..=65 => Call::cuCtxGetCacheConfig { out: here(random) },
        66..=67 => Call::cuCtxSetCacheConfig { config: random.pick(&[0, 1, 2, 3, 4, 77, u32::MAX]) },
        68 => Call::cuCtxGetSharedMemConfig { out: here(random) },
        69 => Call::cuCtxSetSharedMemConfig { config: random.pick(&[0, 1, 2, 3, 77, u32::MAX]) },
        70..=72 => Call::cuCtxGetApiVersion { context: context(random), out: here(random) },
        73 => Call::cuCtxGetStreamPriorityRange { least: here(random), greatest: here(random) },
        74 => Call::cuCtxResetPersistingL2Cache {},
        75 => Call::cuCtxGetExecAffinity { out: here(random), kind: random.pick(&[0, 0, 1, 7]) },
        76 => Call::cuCtxRecordEvent { context: context(random) },
        77 => Call::cuCtxWaitEvent { context: context(random) },
        78..=79 => Call::cuCtxAttach { out: here(random), flags: random.pick(&[0, 0, 0, 1]) },
        80..=82 => Call::cuCtxDetach { context: context(random) },
        83 => Call::cuCtxEnablePeerAccess { peer: context(random), flags: random.pick(&[0, 0, 1]) },
        84 => Call::cuCtxDisablePeerAccess { peer: context(random) },
        85 => Call::cuCtxFromGreenCtx {},
        86 => Call::cuCtxGetDevResource {
            context: context(random),
            out: here(random),
            kind: random.pick(&[1, 1, 0, 9]),
        },
        87..=89 => Call::cuDevicePrimaryCtxRetain { out: here(random), device: device(random) },
        90..=92 => Call::cuDevicePrimaryCtxRelease_v2 { device: device(random) },
        93..=95 => Call::cuDevicePrimaryCtxSetFlags_v2 { device: device(random), flags: flags(random) },
        96..=98 => Call::cuDevicePrimaryCtxGetState {
            device: device(random),
            flags: here(random),
            active: here(random),
        },
        _ => Call::cuDevicePrimaryCtxReset_v2 { device: device(random) },
    }
}
