//! The language of traces: which thread calls which function, with which arguments by name.
//!
//! One step is one line, `t0 cuCtxCreate_v2 out=c1 flags=0x8 device=0`. Contexts are named: `c0` to `c3` are the
//! program's, `p` is the primary one, `null` is none. `out=null` passes NULL as the out-parameter.

use std::fmt;

/// The names of contexts: four slots, each for one context at a time, and the primary one.
pub(super) const SLOTS: usize = 4;
pub(super) const PRIMARY: usize = SLOTS;

/// A context by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Ctx {
    Null,
    Slot(usize),
}

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
    cuCtxRecordEvent { context: Ctx }
    cuCtxWaitEvent { context: Ctx }
    cuCtxAttach { out: bool, flags: u32 }
    cuCtxDetach { context: Ctx }
    cuCtxEnablePeerAccess { peer: Ctx, flags: u32 }
    cuCtxDisablePeerAccess { peer: Ctx }
    cuCtxFromGreenCtx { }
    cuCtxGetDevResource { context: Ctx, out: bool, kind: u32 }
    cuDevicePrimaryCtxRetain { out: bool, device: i32 }
    cuDevicePrimaryCtxRelease_v2 { device: i32 }
    cuDevicePrimaryCtxSetFlags_v2 { device: i32, flags: u32 }
    cuDevicePrimaryCtxGetState { device: i32, flags: bool, active: bool }
    cuDevicePrimaryCtxReset_v2 { device: i32 }
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
            Ctx::Slot(PRIMARY) => "p".to_owned(),
            Ctx::Slot(slot) => format!("c{slot}"),
        }
    }

    fn read(text: &str) -> Option<Ctx> {
        match text {
            "null" => Some(Ctx::Null),
            "p" => Some(Ctx::Slot(PRIMARY)),
            slot => slot.strip_prefix('c')?.parse().ok().filter(|slot| *slot < SLOTS).map(Ctx::Slot),
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
