//! Green contexts: contexts of some of a device's multiprocessors.
//!
//! A green context is its device's primary context with other streams: memory, modules and events that are made in it
//! are the primary context's, and so are limits, flags and errors. Its own are its number, its default streams, the
//! streams that are made in it, and its life. The driver keeps what is behind the handle of a destroyed one.

use super::Ctx;
use super::resource::{Multiprocessors, Part};
use crate::machine::*;
use crate::stream::Stream;
use custack_sys::ffi::{CU_GREEN_CTX_DEFAULT_STREAM, CUdevice};

/// What a green context is beside what each context is.
#[derive(Clone, Copy)]
pub(crate) struct Green {
    primary: Handle,
    part: Part,
}

impl Machine {
    /// The context that has the memory of this one: the primary one for a green one.
    pub(crate) fn base(&self, handle: Handle) -> Handle {
        self.green(handle).map_or(handle, |green| green.primary)
    }

    fn green(&self, handle: Handle) -> Option<Green> {
        self.peek(handle)?.green
    }

    pub(crate) fn is_green(&self, handle: Handle) -> bool {
        self.green(handle).is_some()
    }

    /// The multiprocessors of a stream, if it does not have all.
    pub(crate) fn part_of(&self, stream: &Stream) -> Option<Multiprocessors> {
        self.green(stream.green).map(|green| green.part.set)
    }

    pub(super) fn create_green(
        &mut self,
        has_out: bool,
        description: usize,
        device: CUdevice,
        flags: u32,
    ) -> Answer<Handle> {
        self.ready()?;
        if !has_out {
            return self.refuse(INVALID_VALUE, "the pointer for the green context is NULL");
        }
        self.device(device)?;
        if flags != CU_GREEN_CTX_DEFAULT_STREAM {
            return self.refuse(
                INVALID_VALUE,
                format_args!("a green context has the flag {CU_GREEN_CTX_DEFAULT_STREAM}, not {flags}"),
            );
        }
        let described = self.described(description, device)?;
        let primary = self.hold_primary(described.device);
        let id = self.next_id();
        let green = Some(Green { primary, part: described.part });
        Ok(self.add(Ctx { green, ..Ctx::new(id, described.device, 0, false) }))
    }

    /// The green context of this handle; refused unless it is alive.
    pub(super) fn living_green(&mut self, handle: Handle, function: &str) -> Answer<Green> {
        self.ready()?;
        if handle == 0 {
            return self.refuse(INVALID_CONTEXT, format_args!("{function} of NULL"));
        }
        self.follow(handle, function)?;
        let Some(green) = self.green(handle) else {
            return self.misuse(INVALID_CONTEXT, format_args!("{function} of a context that is not green"));
        };
        self.living(handle).map(|_| green)
    }

    /// Destroys it. It stays on the stacks, also on top of this thread's.
    pub(super) fn destroy_green(&mut self, handle: Handle) -> Answer<()> {
        self.living_green(handle, "cuGreenCtxDestroy")?;
        let context = self.living(handle)?;
        context.alive = false;
        let device = context.device;
        self.end_work(handle);
        self.let_go_of_primary(device);
        self.free_if_unused(handle);
        Ok(())
    }

    pub(super) fn context_of_green(&mut self, handle: Handle) -> Answer<Handle> {
        self.living_green(handle, "cuCtxFromGreenCtx").map(|_| handle)
    }

    pub(super) fn resource_of_green(&mut self, handle: Handle, kind: u32) -> Answer<Part> {
        self.ready()?;
        self.known_kind(kind)?;
        self.living_green(handle, "cuGreenCtxGetDevResource").map(|green| green.part)
    }

    /// The kind of the resource is looked at before the context.
    pub(super) fn resource_of_context(&mut self, handle: Handle, kind: u32) -> Answer<Part> {
        self.ready()?;
        self.known_kind(kind)?;
        if handle == 0 {
            return self.refuse(INVALID_CONTEXT, "the resources of NULL");
        }
        let device = self.living(handle)?.device;
        Ok(self.green(handle).map_or(Part::of_device(device), |green| green.part))
    }

    /// NULL stands for the current context, if it is a green one.
    pub(super) fn id_of_green(&mut self, handle: Handle) -> Answer<u64> {
        let handle = self.given_or_current(handle)?;
        self.living(handle)?;
        if !self.is_green(handle) {
            return self.refuse(INVALID_CONTEXT, "the context is not a green one");
        }
        self.id(handle)
    }

    pub(crate) fn create_stream_of_green(
        &mut self,
        has_out: bool,
        green: Handle,
        flags: u32,
        priority: i32,
    ) -> Answer<usize> {
        self.ready()?;
        if !has_out {
            return self.refuse(INVALID_VALUE, "the pointer for the stream is NULL");
        }
        if green == 0 {
            return self.refuse(INVALID_CONTEXT, "cuGreenCtxStreamCreate of NULL");
        }
        if flags != 1 {
            return self.refuse(
                INVALID_VALUE,
                format_args!("streams of green contexts are non-blocking, not {flags}"),
            );
        }
        self.living_green(green, "cuGreenCtxStreamCreate")?;
        self.healthy(green)?;
        self.add_stream(green, flags, priority)
    }

    pub(super) fn record_green(&mut self, green: Handle, event: usize) -> Answer<()> {
        self.living_green(green, "cuGreenCtxRecordEvent")?;
        self.record_context(green, event)
    }

    pub(super) fn wait_in_green(&mut self, green: Handle, event: usize) -> Answer<()> {
        self.living_green(green, "cuGreenCtxWaitEvent")?;
        self.wait_in_context(green, event)
    }
}
