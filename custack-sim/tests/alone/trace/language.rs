//! The language of traces: which thread calls which function, with which arguments by name.
//!
//! One step is one line, `t0 cuCtxCreate_v2 out=c1 flags=0x8 device=0`. Contexts are named: `c0` to `c3` are the
//! program's, `p` is the primary one, `g0` to `g2` are green ones, `null` is none. `out=null` passes NULL as the
//! out-parameter. Streams are `s0` to `s3`, and by their numbers the default ones; events are `e0` and `e1`.

use std::fmt;

/// The names of contexts: four slots, each for one context at a time, the primary one, and slots for green ones.
pub(super) const SLOTS: usize = 4;
pub(super) const PRIMARY: usize = SLOTS;
pub(super) const GREEN: usize = PRIMARY + 1;
pub(super) const GREENS: usize = 3;
pub(super) const ALL: usize = GREEN + GREENS;
pub(super) const STREAMS: usize = 4;
pub(super) const EVENTS: usize = 2;

/// A context by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Ctx {
    Null,
    Slot(usize),
}

/// A stream: a slot, or a default stream by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Stm {
    Default(usize),
    Slot(usize),
}

/// An event by name; `None` is NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Evt(pub(super) Option<usize>);

macro_rules! calls {
    ($($name:ident { $($arg:ident: $ty:ident),* })*) => {
        /// A driver call. `out` says whether there is an out-parameter; for that of a context, it names the slot.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(non_camel_case_types)]
        pub(super) enum Call {
            $($name { $($arg: $ty),* },)*
        }

        impl Call {
            pub(super) fn function(&self) -> &'static str {
                match self {
                    $(Call::$name { .. } => stringify!($name),)*
                }
            }

            fn parse(words: &[&str]) -> Option<Call> {
                match *words.first()? {
                    $(stringify!($name) => Some(Call::$name {
                        $($arg: words.iter().find_map(|word| {
                            word.strip_prefix(concat!(stringify!($arg), "="))
                        }).and_then($ty::read)?,)*
                    }),)*
                    _ => None,
                }
            }
        }

        impl fmt::Display for Call {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.function())?;
                match self {
                    $(Call::$name { $($arg),* } => {
                        $(write!(f, concat!(" ", stringify!($arg), "={}"), Word::word($arg))?;)*
                    })*
                }
                Ok(())
            }
        }
    };
}

calls! {
    cuCtxCreate_v2 { out: Ctx, flags: u32, device: i32 }
    cuCtxCreate_v3 { out: Ctx, affinities: i32, flags: u32, device: i32 }
    cuCtxCreate_v4 { out: Ctx, affinities: i32, flags: u32, device: i32 }
    cuCtxDestroy_v2 { context: Ctx }
    cuCtxPushCurrent_v2 { context: Ctx }
    cuCtxPopCurrent_v2 { out: bool }
    cuCtxSetCurrent { context: Ctx }
    cuCtxGetCurrent { out: bool }
    cuCtxGetDevice { out: bool }
    cuCtxGetDevice_v2 { out: bool, context: Ctx }
    cuCtxGetFlags { out: bool }
    cuCtxSetFlags { flags: u32 }
    cuCtxGetId { context: Ctx, out: bool }
    cuCtxSynchronize { }
    cuCtxSynchronize_v2 { context: Ctx }
    cuCtxGetLimit { out: bool, limit: u32 }
    cuCtxSetLimit { limit: u32, value: u64 }
    cuCtxGetCacheConfig { out: bool }
    cuCtxSetCacheConfig { config: u32 }
    cuCtxGetSharedMemConfig { out: bool }
    cuCtxSetSharedMemConfig { config: u32 }
    cuCtxGetApiVersion { context: Ctx, out: bool }
    cuCtxGetStreamPriorityRange { least: bool, greatest: bool }
    cuCtxResetPersistingL2Cache { }
    cuCtxGetExecAffinity { out: bool, kind: u32 }
    cuCtxRecordEvent { context: Ctx, event: Evt }
    cuCtxWaitEvent { context: Ctx, event: Evt }
    cuCtxAttach { out: bool, flags: u32 }
    cuCtxDetach { context: Ctx }
    cuCtxEnablePeerAccess { peer: Ctx, flags: u32 }
    cuCtxDisablePeerAccess { peer: Ctx }
    cuCtxFromGreenCtx { out: bool, green: Ctx }
    cuCtxGetDevResource { context: Ctx, out: bool, kind: u32 }
    cuDevicePrimaryCtxRetain { out: bool, device: i32 }
    cuDevicePrimaryCtxRelease_v2 { device: i32 }
    cuDevicePrimaryCtxSetFlags_v2 { device: i32, flags: u32 }
    cuDevicePrimaryCtxGetState { device: i32, flags: bool, active: bool }
    cuDevicePrimaryCtxReset_v2 { device: i32 }
    cuDeviceGetDevResource { out: bool, kind: u32, device: i32 }
    cuDevSmResourceSplitByCount { of: u32, room: u32, flags: u32, least: u32 }
    cuDevResourceGenerateDesc { part: u32 }
    cuGreenCtxCreate { out: Ctx, part: u32, device: i32, flags: u32 }
    cuGreenCtxDestroy { green: Ctx }
    cuGreenCtxGetDevResource { green: Ctx, out: bool, kind: u32 }
    cuGreenCtxStreamCreate { out: Stm, green: Ctx, flags: u32, priority: i32 }
    cuGreenCtxRecordEvent { green: Ctx, event: Evt }
    cuGreenCtxWaitEvent { green: Ctx, event: Evt }
    cuGreenCtxGetId { green: Ctx, out: bool }
    cuStreamCreate { out: Stm, flags: u32 }
    cuStreamDestroy_v2 { stream: Stm }
    cuStreamQuery { stream: Stm }
    cuStreamSynchronize { stream: Stm }
    cuStreamGetPriority { stream: Stm }
    cuStreamGetCtx { stream: Stm }
    cuStreamGetCtx_v2 { stream: Stm }
    cuStreamGetGreenCtx { stream: Stm }
    cuStreamWaitEvent { stream: Stm, event: Evt }
    cuEventCreate { out: Evt }
    cuEventDestroy_v2 { event: Evt }
    cuEventRecord { event: Evt, stream: Stm }
    cuEventSynchronize { event: Evt }
}

/// How an argument is written and read.
trait Word: Sized {
    fn word(&self) -> String;
    fn read(text: &str) -> Option<Self>;
}

impl Word for Ctx {
    fn word(&self) -> String {
        match self {
            Ctx::Null => "null".to_owned(),
            Ctx::Slot(slot) => slot_name(*slot),
        }
    }

    fn read(text: &str) -> Option<Ctx> {
        match text {
            "null" => Some(Ctx::Null),
            name => (0..ALL).find(|slot| slot_name(*slot) == name).map(Ctx::Slot),
        }
    }
}

/// The name of the context in a slot.
pub(super) fn slot_name(slot: usize) -> String {
    match slot {
        PRIMARY => "p".to_owned(),
        GREEN.. => format!("g{}", slot - GREEN),
        _ => format!("c{slot}"),
    }
}

impl Word for Stm {
    fn word(&self) -> String {
        match self {
            Stm::Default(number) => number.to_string(),
            Stm::Slot(slot) => format!("s{slot}"),
        }
    }

    fn read(text: &str) -> Option<Stm> {
        match text.strip_prefix('s') {
            Some(slot) => slot.parse().ok().filter(|slot| *slot < STREAMS).map(Stm::Slot),
            None => text.parse().ok().filter(|number| *number < 3).map(Stm::Default),
        }
    }
}

impl Word for Evt {
    fn word(&self) -> String {
        self.0.map_or("null".to_owned(), |slot| format!("e{slot}"))
    }

    fn read(text: &str) -> Option<Evt> {
        match text {
            "null" => Some(Evt(None)),
            name => {
                let slot = name.strip_prefix('e')?.parse().ok().filter(|slot| *slot < EVENTS)?;
                Some(Evt(Some(slot)))
            }
        }
    }
}

/// Whether an out-parameter is given.
impl Word for bool {
    fn word(&self) -> String {
        if *self { "here" } else { "null" }.to_owned()
    }

    fn read(text: &str) -> Option<bool> {
        match text {
            "here" => Some(true),
            "null" => Some(false),
            _ => None,
        }
    }
}

macro_rules! numbers {
    ($($ty:ident)*) => {$(
        impl Word for $ty {
            fn word(&self) -> String {
                self.to_string()
            }

            fn read(text: &str) -> Option<$ty> {
                text.parse().ok()
            }
        }
    )*};
}
numbers!(u32 i32 u64);

/// One thread calls one function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Step {
    pub(super) thread: usize,
    pub(super) call: Call,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{} {}", self.thread, self.call)
    }
}

impl Step {
    pub(super) fn parse(line: &str) -> Option<Step> {
        let words: Vec<_> = line.split_whitespace().collect();
        let thread = words.first()?.strip_prefix('t')?.parse().ok()?;
        Some(Step { thread, call: Call::parse(&words[1..])? })
    }
}

/// Steps in their total order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trace {
    pub(super) steps: Vec<Step>,
}

impl Trace {
    pub(super) fn parse(text: &str) -> Option<Trace> {
        let steps = text.lines().map(Step::parse).collect::<Option<_>>()?;
        Some(Trace { steps })
    }

    pub(super) fn threads(&self) -> usize {
        self.steps.iter().map(|step| step.thread + 1).max().unwrap_or(1)
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}
