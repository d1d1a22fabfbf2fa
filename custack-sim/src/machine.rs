//! The machine: devices, contexts, threads, and one lock around them all.

use super::context::{Ctx, Description};
use super::device::Dev;
use super::graph::Graphs;
use super::memory;
use super::module::CompilerLog;
pub(super) use super::objects::{Object, Objects};
use super::stream::{Captures, Queue};
use custack_sys::ffi::CUresult;
use custack_sys::thread_end::AtEnd;
use lazy_static::lazy_static;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The model's result: a value, or the status of a refusal.
pub(super) type Answer<T> = Result<T, CUresult>;

pub(super) const INVALID_VALUE: CUresult = 1;
pub(super) const OUT_OF_MEMORY: CUresult = 2;
pub(super) const NOT_INITIALIZED: CUresult = 3;
pub(super) const NO_DEVICE: CUresult = 100;
pub(super) const INVALID_DEVICE: CUresult = 101;
pub(super) const INVALID_CONTEXT: CUresult = 201;
pub(super) const UNSUPPORTED_LIMIT: CUresult = 215;
pub(super) const PEER_ACCESS_UNSUPPORTED: CUresult = 217;
pub(super) const UNSUPPORTED_EXEC_AFFINITY: CUresult = 224;
pub(super) const INVALID_HANDLE: CUresult = 400;
pub(super) const OUT_OF_RESOURCES: CUresult = 701;
pub(super) const PEER_ACCESS_ALREADY_ENABLED: CUresult = 704;
pub(super) const PEER_ACCESS_NOT_ENABLED: CUresult = 705;
pub(super) const CONTEXT_IS_DESTROYED: CUresult = 709;
pub(super) const HOST_MEMORY_ALREADY_REGISTERED: CUresult = 712;
pub(super) const HOST_MEMORY_NOT_REGISTERED: CUresult = 713;
pub(super) const NOT_PERMITTED: CUresult = 800;
pub(super) const NOT_SUPPORTED: CUresult = 801;
/// What custack answers for a function that the driver lacks.
pub(super) const CALL_REQUIRES_NEWER_DRIVER: CUresult = 36;
pub(super) const INVALID_RESOURCE_TYPE: CUresult = 914;
pub(super) const INVALID_RESOURCE: CUresult = 915;
pub(super) const UNKNOWN: CUresult = 999;

/// A context handle, as the program sees it.
pub(super) type Handle = usize;

/// Handles are far from any mapped address, spell "SIM" in a debugger, and are never null.
const FIRST_HANDLE: Handle = 0x5349_4d00_0000;
const HANDLE_STEP: usize = 0x200;
/// The handle of a green context says which device it is of, in multiples of this.
const DEVICE_STEP: usize = 4;

const LOG_LENGTH: usize = 64;
/// The most devices that the simulated machine can have.
pub const MOST_DEVICES: usize = 64;

pub(super) struct Machine {
    pub(super) initialised: bool,
    pub(super) devices: Vec<Dev>,
    /// Whether the environment hides some of the machine's devices.
    pub(super) hides: bool,
    /// Whether a launch waits for its kernel, as `CUDA_LAUNCH_BLOCKING` says when the driver is initialised.
    pub(super) launches_block: bool,
    /// The links between devices that are not as all are: their ranks, or that there is none.
    pub(super) links: BTreeMap<(usize, usize), Option<i32>>,
    contexts: BTreeMap<Handle, Box<Ctx>>,
    /// How many contexts have had a handle of their own.
    made: usize,
    /// Handles to be reused.
    freed: Vec<Handle>,
    pub(super) reuse_handles: bool,
    /// What is behind the handles of destroyed green contexts, by device.
    gone_greens: BTreeMap<usize, Box<Ctx>>,
    next_id: u64,
    threads: Vec<Thread>,
    idle_threads: Vec<usize>,
    pub(super) misuses: u64,
    pub(super) objects: Objects,
    pub(super) graphs: Graphs,
    pub(super) captures: Captures,
    /// What green contexts can be made from. The driver has no call that frees one.
    pub(super) descriptions: Vec<Description>,
    /// The work of destroyed streams, which continues.
    pub(super) leftovers: Vec<(Handle, Arc<Queue>)>,
    /// Stacks of threads that have ended, the first ones.
    left: Vec<Vec<Handle>>,
}

#[derive(Default)]
pub(super) struct Thread {
    pub(super) stack: Vec<Handle>,
    /// Which calls a stream capture forbids on this thread; 0 is the mode in which any thread's capture does.
    pub(super) capture_mode: u32,
    pub(super) log: VecDeque<String>,
    /// The last refusal, until somebody asks for its reason.
    refusal: Option<(CUresult, String)>,
    pub(super) compiler_log: CompilerLog,
    /// How many registers the threads of what is compiled now have at most.
    pub(super) most_registers: Option<super::ptx::MostRegisters>,
    pub(super) tells_lines: bool,
}

lazy_static! {
    static ref MACHINE: Mutex<Machine> = Mutex::new(Machine::new());
}

pub(super) fn lock() -> MutexGuard<'static, Machine> {
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

// The number of the machine's thread. It has no destructor, so that it can be read while the thread ends; [`end_this_thread`]
// releases it.
thread_local! {
    static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Has the calling thread's stack released when the thread ends: after its thread-locals, or among them where the system
/// does not tell of the end.
fn notice_end() {
    static END: AtEnd = AtEnd::new(end_this_thread);
    struct AmongThreadLocals;
    impl Drop for AmongThreadLocals {
        fn drop(&mut self) {
            end_this_thread();
        }
    }
    thread_local! {
        static SENTINEL: AmongThreadLocals = const { AmongThreadLocals };
    }
    if !END.watch() {
        // A thread whose sentinel is destroyed already keeps its stack for good.
        let _ = SENTINEL.try_with(|_| ());
    }
}

/// The calling thread ends: the machine releases its stack.
fn end_this_thread() {
    if let Some(number) = NUMBER.take() {
        lock().end_thread(number);
    }
}

impl Machine {
    fn new() -> Machine {
        let asked = std::env::var("CUSTACK_SIM_DEVICES").ok().and_then(|text| text.parse().ok());
        let mut machine = Machine {
            initialised: false,
            devices: Vec::new(),
            hides: false,
            launches_block: false,
            links: BTreeMap::new(),
            contexts: BTreeMap::new(),
            made: 0,
            freed: Vec::new(),
            reuse_handles: false,
            gone_greens: BTreeMap::new(),
            next_id: 1,
            threads: Vec::new(),
            idle_threads: Vec::new(),
            misuses: 0,
            objects: Objects::default(),
            graphs: Graphs::default(),
            captures: Captures::default(),
            descriptions: Vec::new(),
            leftovers: Vec::new(),
            left: Vec::new(),
        };
        if !asked.is_some_and(|count| machine.set_devices(count)) {
            machine.set_devices(1);
        }
        machine
    }

    pub(super) fn set_devices(&mut self, count: usize) -> bool {
        if count > MOST_DEVICES || self.hides || (self.initialised && count < self.devices.len()) {
            return false;
        }
        self.devices.truncate(count);
        let there = self.devices.len();
        self.devices.extend((there..count).map(Dev::new));
        true
    }

    /// The calling thread.
    pub(super) fn thread(&mut self) -> &mut Thread {
        let number = self.this_thread();
        &mut self.threads[number]
    }

    /// The machine's number of the calling thread, which a later thread may have after it.
    pub(super) fn this_thread(&mut self) -> usize {
        NUMBER.get().unwrap_or_else(|| self.begin_thread())
    }

    pub(super) fn stack(&mut self) -> &mut Vec<Handle> {
        &mut self.thread().stack
    }

    /// Sets this thread's mode, and returns the previous one. The driver accepts and keeps any number.
    pub(super) fn exchange_capture_mode(&mut self, mode: u32) -> u32 {
        std::mem::replace(&mut self.thread().capture_mode, mode)
    }

    fn begin_thread(&mut self) -> usize {
        let number = self.idle_threads.pop().unwrap_or_else(|| {
            self.threads.push(Thread::default());
            self.threads.len() - 1
        });
        NUMBER.set(Some(number));
        notice_end();
        number
    }

    fn end_thread(&mut self, number: usize) {
        let thread = std::mem::take(&mut self.threads[number]);
        if !thread.stack.is_empty() && self.left.len() < LOG_LENGTH {
            self.left.push(thread.stack.clone());
        }
        for handle in thread.stack {
            self.let_go(handle);
        }
        self.idle_threads.push(number);
    }

    /// Refuses a call: with the status, and a sentence in this thread's log.
    pub(super) fn refuse<T>(&mut self, status: CUresult, why: impl fmt::Display) -> Answer<T> {
        let thread = self.thread();
        if thread.log.len() == LOG_LENGTH {
            thread.log.pop_front();
        }
        let why = why.to_string();
        thread.log.push_back(why.clone());
        thread.refusal = Some((status, why));
        Err(status)
    }

    /// Why this thread's last refused call was refused, if it was with this status; told once.
    pub(super) fn why_refused(&mut self, status: CUresult) -> Option<String> {
        let refusal = self.threads[NUMBER.get()?].refusal.take();
        refusal.filter(|(of, _)| *of == status).map(|(_, why)| why)
    }

    /// The same, not told.
    pub(super) fn last_refusal(&self, status: CUresult) -> Option<String> {
        let refusal = self.threads[NUMBER.get()?].refusal.as_ref();
        refusal.filter(|(of, _)| *of == status).map(|(_, why)| why.clone())
    }

    /// The stacks that threads have left when they ended, and those that others have now.
    pub(super) fn stacks_left(&self) -> Vec<Vec<Handle>> {
        let now = self.threads.iter().map(|thread| thread.stack.clone());
        self.left.iter().cloned().chain(now).filter(|stack| !stack.is_empty()).collect()
    }

    /// A new call of this thread begins.
    pub(super) fn forget_refusal(&mut self) {
        if let Some(number) = NUMBER.get() {
            self.threads[number].refusal = None;
        }
    }

    /// Refuses a call that would have crashed the NVIDIA driver, with a message on standard error.
    pub(super) fn misuse<T>(&mut self, status: CUresult, why: impl fmt::Display) -> Answer<T> {
        self.misuses += 1;
        eprintln!("custack's simulated driver: {why}. The NVIDIA driver would have crashed here.");
        self.refuse(status, why)
    }

    pub(super) fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// Allocates a handle for a context.
    pub(super) fn add(&mut self, context: Ctx) -> Handle {
        let reused = if self.reuse_handles && context.is_created() { self.freed.pop() } else { None };
        let handle = reused.unwrap_or_else(|| {
            let of_green = if context.is_green() { DEVICE_STEP * (context.device + 1) } else { 0 };
            self.made += 1;
            FIRST_HANDLE + (self.made - 1) * HANDLE_STEP + of_green
        });
        memory::lock().reach.made(handle, context.device);
        self.contexts.insert(handle, Box::new(context));
        handle
    }

    /// The context of a handle that the driver has not freed.
    pub(super) fn get(&mut self, handle: Handle) -> Option<&mut Ctx> {
        let gone = self.gone_green(handle);
        let known = self.contexts.get_mut(&handle).or_else(|| self.gone_greens.get_mut(&gone?));
        known.map(|context| &mut **context)
    }

    /// Like [`get`](Self::get), to look at.
    pub(super) fn peek(&self, handle: Handle) -> Option<&Ctx> {
        let gone = || self.gone_greens.get(&self.gone_green(handle)?);
        self.contexts.get(&handle).or_else(gone).map(|context| &**context)
    }

    /// What the handle says about the device; `None` if no context has had it.
    fn offset(&self, handle: Handle) -> Option<usize> {
        let offset = handle.checked_sub(FIRST_HANDLE)?;
        (offset / HANDLE_STEP < self.made).then_some(offset % HANDLE_STEP)
    }

    /// The device of a green context that had this handle. If it is gone, all that can be asked is answered by what any other
    /// that is gone would answer.
    fn gone_green(&self, handle: Handle) -> Option<usize> {
        let offset = self.offset(handle).filter(|offset| offset % DEVICE_STEP == 0)?;
        (offset / DEVICE_STEP).checked_sub(1)
    }

    /// The context of a handle; a wild handle is a misuse.
    pub(super) fn follow(&mut self, handle: Handle, function: &str) -> Answer<&mut Ctx> {
        if self.get(handle).is_none() {
            let what = match self.offset(handle) {
                Some(0) => "was freed: its context is destroyed, and on no thread's stack",
                _ => "was not given out by the simulated driver",
            };
            return self.misuse(INVALID_CONTEXT, format_args!("{function}: the handle {handle:#x} {what}"));
        }
        self.get(handle).ok_or(INVALID_CONTEXT)
    }

    /// A stack holds the handle once more.
    pub(super) fn hold(&mut self, handle: Handle) {
        if let Some(context) = self.get(handle) {
            context.holds += 1;
        }
    }

    /// A stack holds the handle once less.
    pub(super) fn let_go(&mut self, handle: Handle) {
        if let Some(context) = self.get(handle) {
            context.holds = context.holds.saturating_sub(1);
        }
        self.free_if_unused(handle);
    }

    /// The driver frees a destroyed context when no stack holds it any more; it keeps a primary context for the next
    /// retain, and what it tells of green contexts for good.
    pub(super) fn free_if_unused(&mut self, handle: Handle) {
        let unused = |context: &Ctx| !context.alive && !context.primary && context.holds == 0;
        if !self.contexts.get(&handle).is_some_and(|context| unused(context)) {
            return;
        }
        memory::lock().reach.gone(handle);
        let Some(context) = self.contexts.remove(&handle) else { return };
        if context.is_green() {
            self.gone_greens.insert(context.device, context);
        } else if self.reuse_handles {
            self.freed.push(handle);
        }
    }

    /// The contexts that may have work to be waited for.
    pub(super) fn contexts_with_work(&self) -> Vec<Handle> {
        let alive = self.contexts.iter().filter(|(_, context)| context.alive);
        alive.map(|(handle, _)| *handle).collect()
    }

    pub(super) fn contexts(&self) -> impl Iterator<Item = &Ctx> {
        self.contexts.values().map(|context| &**context)
    }

    pub(super) fn contexts_alive(&self) -> usize {
        self.contexts().filter(|context| context.alive).count()
    }
}
