//! Contexts: their creation, destruction, and properties.

pub(super) mod abi;
mod error;
mod green;
mod limits;
mod peer;
mod primary;
mod resource;
mod stack;

use green::Green;
pub(super) use primary::Primary;
pub(super) use resource::{Description, Multiprocessors, Part};

use super::machine::*;
use super::memory;
use super::stream::{Attributes, Queue, Stream};
use custack_sys::ffi::{CUdevice, CUresult};
use limits::Limits;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(super) struct Ctx {
    pub(super) id: u64,
    pub(super) device: usize,
    pub(super) primary: bool,
    green: Option<Green>,
    pub(super) alive: bool,
    pub(super) flags: u32,
    limits: Limits,
    pub(super) cache_config: u32,
    /// Incremented by `cuCtxAttach`, decremented by `cuCtxDetach`.
    pub(super) usage: u32,
    /// How many entries of all stacks are this context.
    pub(super) holds: usize,
    pub(super) peers: BTreeSet<Handle>,
    /// The queue of the default stream.
    pub(super) default_stream: Arc<Queue>,
    /// The default stream's number, from when it was first asked for, and its attributes.
    pub(super) default_id: Option<u64>,
    pub(super) default_attributes: Attributes,
    /// The default streams of threads, by the machine's numbers of them.
    pub(super) per_thread: BTreeMap<usize, Stream>,
    /// A failed kernel's status and a description of the failure; all work of the context returns the status from then
    /// on.
    pub(super) error: Option<(CUresult, String)>,
}

pub(super) const SCHEDULES: u32 = 0x07;
pub(super) const MAP_HOST: u32 = 0x08;
const COREDUMP_ENABLE: u32 = 0x20;
pub(super) const USER_COREDUMP_ENABLE: u32 = 0x40;
const COREDUMPS: u32 = COREDUMP_ENABLE | USER_COREDUMP_ENABLE;
pub(super) const SYNC_MEMOPS: u32 = 0x80;
/// The flags that can be changed after creation.
pub(super) const CHANGEABLE: u32 = 0x97;

const API_VERSION: u32 = 3020;
pub(super) const LEAST_PRIORITY: i32 = 0;
pub(super) const GREATEST_PRIORITY: i32 = -5;
/// Shared memory always has four-byte banks.
const FOUR_BYTE_BANKS: u32 = 1;

/// The flags of a context created with these: both core dump flags read back as one.
fn creation_flags(flags: u32) -> u32 {
    let dumps = if flags & COREDUMPS == 0 { 0 } else { COREDUMP_ENABLE };
    flags & !COREDUMPS | dumps
}

impl Ctx {
    pub(super) fn new(id: u64, device: usize, flags: u32, primary: bool) -> Ctx {
        Ctx {
            id,
            device,
            primary,
            green: None,
            alive: true,
            flags,
            limits: Limits::default(),
            cache_config: 0,
            usage: 1,
            holds: 0,
            peers: BTreeSet::new(),
            default_stream: Arc::default(),
            default_id: None,
            default_attributes: Attributes::new(LEAST_PRIORITY),
            per_thread: BTreeMap::new(),
            error: None,
        }
    }

    /// Whether the program created it, and may destroy it: not a primary one or a green one.
    pub(super) fn is_created(&self) -> bool {
        !self.primary && !self.is_green()
    }

    pub(super) fn is_green(&self) -> bool {
        self.green.is_some()
    }
}

impl Machine {
    /// Refuses more than one scheduling flag, and unknown bits.
    pub(super) fn check_flags(&mut self, flags: u32) -> Answer<()> {
        if (flags & SCHEDULES).count_ones() > 1 {
            return self
                .refuse(INVALID_VALUE, format_args!("flags {flags:#x} have more than one scheduling flag"));
        }
        if flags > 0xff {
            return self.refuse(INVALID_VALUE, format_args!("flags {flags:#x} have a bit that is no flag"));
        }
        Ok(())
    }

    /// Checks the device first, then the pointer for the handle, then the flags.
    pub(super) fn create(&mut self, has_out: bool, flags: u32, device: CUdevice) -> Answer<Handle> {
        self.ready()?;
        let device = self.device(device)?;
        if !has_out {
            return self.refuse(INVALID_VALUE, "the pointer for the context's handle is NULL");
        }
        self.check_flags(flags)?;
        let id = self.next_id();
        let handle = self.add(Ctx::new(id, device, creation_flags(flags), false));
        self.put_on_stack(handle);
        Ok(handle)
    }

    /// Refuses every affinity: the simulated device has none.
    pub(super) fn create_with(
        &mut self,
        has_out: bool,
        affinities: i32,
        given: bool,
        flags: u32,
        device: CUdevice,
    ) -> Answer<Handle> {
        self.ready()?;
        self.device(device)?;
        if !has_out || affinities > 0 && !given {
            return self
                .refuse(INVALID_VALUE, "the pointer for the context's handle or for its affinities is NULL");
        }
        if affinities > 0 {
            return self
                .refuse(UNSUPPORTED_EXEC_AFFINITY, "the simulated device has no execution affinity to give");
        }
        self.create(has_out, flags, device)
    }

    /// Checks for a graphics queue before the flags.
    pub(super) fn create_with_queue(&mut self, device: CUdevice) -> Answer<Handle> {
        self.ready()?;
        self.device(device)?;
        self.refuse(NOT_SUPPORTED, "the simulated device has no graphics queue to share")
    }

    pub(super) fn destroy(&mut self, handle: Handle) -> Answer<()> {
        if handle == 0 {
            return self.refuse(INVALID_VALUE, "cuCtxDestroy of NULL");
        }
        self.ready()?;
        let context = self.follow(handle, "cuCtxDestroy")?;
        let (created, alive) = (context.is_created(), context.alive);
        if !created {
            return self.refuse(
                INVALID_CONTEXT,
                "a primary context is released, and a green one destroyed as one, not as a context",
            );
        }
        if !alive {
            return self
                .refuse(CONTEXT_IS_DESTROYED, format_args!("the context {handle:#x} is destroyed already"));
        }
        self.end(handle);
        Ok(())
    }

    /// The device of a created context that is not destroyed.
    pub(super) fn device_of_created(&self, handle: Handle) -> Option<usize> {
        self.peek(handle)
            .filter(|context| context.alive && context.is_created())
            .map(|context| context.device)
    }

    /// Ends a created context: pops it from this thread's top, and leaves it on other stacks and below.
    fn end(&mut self, handle: Handle) {
        if let Some(context) = self.get(handle) {
            context.alive = false;
            context.peers.clear();
            memory::lock().reach.take_all(handle);
        }
        self.end_work(handle);
        if self.stack().last() == Some(&handle) {
            self.stack().pop();
            self.let_go(handle);
        }
        self.free_if_unused(handle);
    }

    /// The device, of a destroyed context too.
    pub(super) fn context_device(&mut self, handle: Handle) -> Answer<CUdevice> {
        let handle = self.given_or_current(handle)?;
        Ok(self.follow(handle, "cuCtxGetDevice")?.device as CUdevice)
    }

    /// The flags; 0 if the context is destroyed. Those of a green context are the primary one's, also after it.
    pub(super) fn flags(&mut self) -> Answer<u32> {
        let handle = self.current_handle()?;
        self.follow(handle, "cuCtxGetFlags")?;
        let base = self.base(handle);
        Ok(self.peek(base).filter(|context| context.alive).map_or(0, |context| context.flags))
    }

    pub(super) fn set_flags(&mut self, flags: u32) -> Answer<()> {
        let handle = self.current_handle()?;
        self.follow(handle, "cuCtxSetFlags")?;
        let base = self.base(handle);
        if !self.peek(base).is_some_and(|context| context.alive) {
            return self.misuse(CONTEXT_IS_DESTROYED, "cuCtxSetFlags while the current context is destroyed");
        }
        self.check_flags(flags)?;
        let context = self.living(base)?;
        context.flags = context.flags & !CHANGEABLE | flags & CHANGEABLE;
        Ok(())
    }

    pub(super) fn id(&mut self, handle: Handle) -> Answer<u64> {
        let handle = self.given_or_current(handle)?;
        Ok(self.living(handle)?.id)
    }

    /// For a destroyed context the status depends on whether it is current or given as an argument.
    pub(super) fn api_version(&mut self, handle: Handle, has_out: bool) -> Answer<u32> {
        let named = handle != 0;
        let handle = self.given_or_current(handle)?;
        if !named {
            self.living(handle)?;
        }
        if !has_out {
            return self.refuse(INVALID_VALUE, "the pointer for the version is NULL");
        }
        if self.follow(handle, "cuCtxGetApiVersion")?.alive {
            return Ok(API_VERSION);
        }
        self.refuse(INVALID_CONTEXT, format_args!("the context {handle:#x} is destroyed"))
    }

    /// Called after the context's work was waited for.
    pub(super) fn synchronize(&mut self, handle: Handle) -> Answer<()> {
        let handle = self.given_or_current(handle)?;
        self.healthy(handle).map(|_| ())
    }

    pub(super) fn set_cache_config(&mut self, config: u32) -> Answer<()> {
        self.current()?;
        if config > 3 {
            return self.refuse(INVALID_VALUE, format_args!("{config} is not a cache configuration"));
        }
        self.current()?.cache_config = config;
        Ok(())
    }

    pub(super) fn shared_mem_config(&mut self) -> Answer<u32> {
        self.current().map(|_| FOUR_BYTE_BANKS)
    }

    pub(super) fn set_shared_mem_config(&mut self, config: u32) -> Answer<()> {
        self.current()?;
        if config > 2 {
            return self.refuse(INVALID_VALUE, format_args!("{config} is not a shared-memory configuration"));
        }
        Ok(())
    }

    pub(super) fn stream_priority_range(&mut self) -> Answer<(i32, i32)> {
        self.current().map(|_| (LEAST_PRIORITY, GREATEST_PRIORITY))
    }

    pub(super) fn attach(&mut self, has_out: bool, flags: u32) -> Answer<Handle> {
        let handle = self.current_handle()?;
        self.living(handle)?;
        if !has_out || flags != 0 {
            return self
                .refuse(INVALID_VALUE, "cuCtxAttach needs a pointer for the handle and takes no flags");
        }
        self.living(handle)?.usage += 1;
        Ok(handle)
    }

    /// Accepts the current context only. The last detach destroys a created context; a primary one has its own count.
    pub(super) fn detach(&mut self, handle: Handle) -> Answer<()> {
        self.current()?;
        if self.top()? != handle {
            return self.refuse(INVALID_CONTEXT, "cuCtxDetach takes the current context only");
        }
        if self.is_green(handle) {
            return self.refuse(INVALID_CONTEXT, "cuCtxDetach of a green context");
        }
        let context = self.living(handle)?;
        context.usage = context.usage.saturating_sub(1);
        if context.usage == 0 && context.is_created() {
            self.end(handle);
        }
        Ok(())
    }

    /// The context is destroyed, and everything that it made.
    pub(super) fn end_work(&mut self, context: Handle) {
        self.uncapture_all(context);
        memory::lock().free_all(context);
        self.objects.orphan(context);
    }
}
