//! Generates traces from seeds.
//!
//! What crashes a real driver is left out: a handle that the driver has freed (of a created context that is destroyed
//! and on no stack any more), `cuCtxSetFlags` while the current context is destroyed, and wild pointers. A limit that
//! would take most of the device's memory (a stack of more than 2 KiB per thread) is left out as well, because the
//! answer then depends on what else is on the device. Of green contexts are left out: descriptions that were not made,
//! and of no resources; `cuCtxAttach` and `cuCtxDetach`; the end of the primary context while a destroyed green one is on
//! a stack; releases of the primary context beyond those of the program, while a green one has it; and handles of
//! destroyed ones, unless they are on a stack or nothing was made since, streams of green
//! contexts whose primary context is gone, and events and streams of destroyed contexts. Everything else may happen.

use super::language::{
    ALL, Call, Ctx, EVENTS, Evt, GREEN, GREENS, PRIMARY, SLOTS, STREAMS, Step, Stm, Trace,
};
use super::made::PARTS;
use super::random::Random;
use super::state::State;

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
        let call = if random.once_in(3) { call_of_green(&mut random) } else { call(&mut random) };
        let step = Step { thread: random.below(threads), call };
        state.forget_what_is_gone();
        let makes = matches!(
            step.call,
            Call::cuCtxCreate_v2 { .. }
                | Call::cuCtxCreate_v3 { .. }
                | Call::cuCtxCreate_v4 { .. }
                | Call::cuDevicePrimaryCtxRetain { .. }
        ) || matches!(step.call, Call::cuGreenCtxCreate { .. }) && !state.is_alive(PRIMARY);
        let makes_green = matches!(step.call, Call::cuGreenCtxCreate { .. });
        let too_many = makes && state.made >= most_made || makes_green && state.greens_made >= 10 * most_made;
        let ends = state.ends(step);
        let too_soon = ends && ended * length > steps.len() * most_made;
        if state.allows(step) && !too_many && !too_soon {
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
    if random.once_in(16) { Ctx::Null } else { Ctx::Slot(random.below(ALL)) }
}

fn green(random: &mut Random) -> Ctx {
    if random.once_in(16) { Ctx::Null } else { Ctx::Slot(GREEN + random.below(GREENS)) }
}

fn stream(random: &mut Random) -> Stm {
    if random.once_in(4) { Stm::Default(random.below(3)) } else { Stm::Slot(random.below(STREAMS)) }
}

fn stream_slot(random: &mut Random) -> Stm {
    Stm::Slot(random.below(STREAMS))
}

fn event(random: &mut Random) -> Evt {
    Evt((!random.once_in(6)).then(|| random.below(EVENTS)))
}

fn kind(random: &mut Random) -> u32 {
    random.pick(&[1, 1, 1, 0, 2, 3, 1000, 10_000, u32::MAX])
}

/// A call on green contexts, and on what is made in contexts.
fn call_of_green(random: &mut Random) -> Call {
    match random.below(40) {
        0..=3 => Call::cuGreenCtxCreate {
            out: green(random),
            part: random.below(PARTS as usize) as u32,
            device: device(random),
            flags: random.pick(&[1, 1, 1, 1, 1, 1, 0, 2, 3]),
        },
        4..=5 => Call::cuGreenCtxDestroy { green: green(random) },
        6..=7 => Call::cuCtxFromGreenCtx { out: here(random), green: green(random) },
        8..=9 => {
            Call::cuGreenCtxGetDevResource { green: green(random), out: here(random), kind: kind(random) }
        }
        10 => Call::cuGreenCtxGetId { green: green(random), out: here(random) },
        11..=12 => Call::cuGreenCtxRecordEvent { green: green(random), event: event(random) },
        13..=14 => Call::cuGreenCtxWaitEvent { green: green(random), event: event(random) },
        15..=17 => Call::cuGreenCtxStreamCreate {
            out: stream_slot(random),
            green: green(random),
            flags: random.pick(&[1, 1, 1, 1, 0, 2, 3]),
            priority: random.pick(&[0, -1, -3, -5, -6, -100, 1, 100]),
        },
        18..=19 => Call::cuStreamCreate { out: stream_slot(random), flags: random.pick(&[1, 1, 0, 2]) },
        20..=21 => Call::cuStreamDestroy_v2 { stream: stream(random) },
        22 => Call::cuStreamQuery { stream: stream(random) },
        23 => Call::cuStreamSynchronize { stream: stream(random) },
        24 => Call::cuStreamGetPriority { stream: stream(random) },
        25..=26 => Call::cuStreamGetCtx { stream: stream(random) },
        27..=28 => Call::cuStreamGetCtx_v2 { stream: stream(random) },
        29..=30 => Call::cuStreamGetGreenCtx { stream: stream(random) },
        31 => Call::cuStreamWaitEvent { stream: stream(random), event: event(random) },
        32 => Call::cuEventCreate { out: event(random) },
        33 => Call::cuEventDestroy_v2 { event: event(random) },
        34..=35 => Call::cuEventRecord { event: event(random), stream: stream(random) },
        36 => Call::cuEventSynchronize { event: event(random) },
        37 => Call::cuDeviceGetDevResource { out: here(random), kind: kind(random), device: device(random) },
        38 => Call::cuDevResourceGenerateDesc { part: 1 + random.below(PARTS as usize - 1) as u32 },
        _ => Call::cuDevSmResourceSplitByCount {
            of: 1 + random.below(PARTS as usize - 1 + GREENS) as u32,
            room: random.pick(&[0, 1, 2, 3, 16, 64]),
            flags: random.pick(&[0, 0, 0, 1, 2, 3, 4, 7]),
            least: if random.once_in(4) {
                random.below(140) as u32
            } else {
                random.pick(&[0, 1, 2, 8, 9, 16, 132, 133])
            },
        },
    }
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
        76 => Call::cuCtxRecordEvent { context: context(random), event: event(random) },
        77 => Call::cuCtxWaitEvent { context: context(random), event: event(random) },
        78..=79 => Call::cuCtxAttach { out: here(random), flags: random.pick(&[0, 0, 0, 1]) },
        80..=82 => Call::cuCtxDetach { context: context(random) },
        83 => Call::cuCtxEnablePeerAccess { peer: context(random), flags: random.pick(&[0, 0, 1]) },
        84 => Call::cuCtxDisablePeerAccess { peer: context(random) },
        85 => Call::cuCtxFromGreenCtx { out: here(random), green: green(random) },
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
