//! The primary context of each device.

use super::limits::Limits;
use super::{CHANGEABLE, Ctx, MAP_HOST, SYNC_MEMOPS, USER_COREDUMP_ENABLE};
use crate::machine::*;
use crate::memory;
use custack_sys::ffi::CUdevice;

#[derive(Default)]
pub(crate) struct Primary {
    /// The same handle each time it is retained; 0 before the first retain.
    handle: Handle,
    /// The shares that are left: each retain is one, and each green context. Nothing stops a program that releases
    /// more than it has retained from giving up those of green contexts.
    shares: u32,
    active: bool,
    /// How many green contexts there are.
    greens: u32,
    /// The flags that `cuDevicePrimaryCtxGetState` returns, which differ from the context's.
    flags: u32,
}

impl Machine {
    pub(crate) fn retain_primary(&mut self, has_out: bool, device: CUdevice) -> Answer<Handle> {
        self.ready()?;
        let device = self.device(device)?;
        if !has_out {
            return self.refuse(INVALID_VALUE, "the pointer for the handle is NULL");
        }
        if !self.devices[device].primary.active {
            self.activate(device);
        }
        let primary = &mut self.devices[device].primary;
        primary.shares += 1;
        Ok(primary.handle)
    }

    fn activate(&mut self, device: usize) {
        let id = self.next_id();
        let Primary { handle, flags, .. } = self.devices[device].primary;
        // `USER_COREDUMP_ENABLE` is not reported; created contexts report either core dump flag as one.
        let flags = MAP_HOST | flags & !USER_COREDUMP_ENABLE;
        let handle = match self.get(handle) {
            Some(context) => {
                *context = Ctx { holds: context.holds, ..Ctx::new(id, device, flags, true) };
                context.limits = Limits::default();
                handle
            }
            None => self.add(Ctx::new(id, device, flags, true)),
        };
        let primary = &mut self.devices[device].primary;
        primary.handle = handle;
        primary.active = true;
    }

    fn deactivate(&mut self, device: usize) {
        let primary = &mut self.devices[device].primary;
        primary.active = false;
        primary.flags = 0;
        let handle = primary.handle;
        if let Some(context) = self.get(handle) {
            context.alive = false;
        }
        memory::lock().reach.take_all(handle);
        self.end_work(handle);
    }

    pub(crate) fn release_primary(&mut self, device: CUdevice) -> Answer<()> {
        self.ready()?;
        let device = self.device(device)?;
        let primary = &mut self.devices[device].primary;
        if primary.shares == 0 {
            let why = "the primary context is released more often than it was retained";
            return self.refuse(INVALID_CONTEXT, why);
        }
        primary.shares -= 1;
        if primary.shares == 0 && primary.greens > 0 {
            return self
                .refuse(NOT_PERMITTED, "the primary context is released that only green contexts keep");
        }
        if primary.shares == 0 {
            self.deactivate(device);
        }
        Ok(())
    }

    /// The device, if a reset would end its primary context.
    pub(super) fn resettable(&self, device: CUdevice) -> Option<usize> {
        let index = usize::try_from(device).ok()?;
        let primary = &self.devices.get(index)?.primary;
        (primary.active && primary.greens == 0).then_some(index)
    }

    /// The device, if the next release ends its primary context.
    pub(super) fn with_one_share(&self, device: CUdevice) -> Option<usize> {
        self.resettable(device).filter(|device| self.devices[*device].primary.shares == 1)
    }

    /// The device of a green context, if the end of that ends the primary context.
    pub(super) fn with_last_green(&self, green: Handle) -> Option<usize> {
        let context = self.peek(green).filter(|context| context.alive && self.is_green(green))?;
        Some(context.device).filter(|device| self.devices[*device].primary.shares == 1)
    }

    /// A green context is made, which keeps the primary one.
    pub(super) fn hold_primary(&mut self, device: usize) -> Handle {
        if !self.devices[device].primary.active {
            self.activate(device);
        }
        let primary = &mut self.devices[device].primary;
        primary.shares += 1;
        primary.greens += 1;
        primary.handle
    }

    pub(super) fn let_go_of_primary(&mut self, device: usize) {
        let primary = &mut self.devices[device].primary;
        primary.greens = primary.greens.saturating_sub(1);
        if primary.shares > 0 {
            primary.shares -= 1;
            if primary.shares == 0 {
                self.deactivate(device);
            }
        }
    }

    /// Destroys it, whoever has retained it; the retains stay counted. Green contexts forbid it.
    pub(crate) fn reset_primary(&mut self, device: CUdevice) -> Answer<()> {
        self.ready()?;
        let device = self.device(device)?;
        if self.devices[device].primary.greens > 0 {
            return self.refuse(NOT_PERMITTED, "the primary context has green contexts");
        }
        self.deactivate(device);
        Ok(())
    }

    pub(crate) fn primary_state(&mut self, has_outs: bool, device: CUdevice) -> Answer<(u32, bool)> {
        if !has_outs {
            return self.refuse(INVALID_VALUE, "the pointer for the flags or for the activity is NULL");
        }
        self.ready()?;
        let device = self.device(device)?;
        let Primary { handle, active, flags, .. } = self.devices[device].primary;
        // One flag is reported as the context has it now.
        let now = self.get(handle).filter(|_| active).map_or(0, |context| context.flags & SYNC_MEMOPS);
        Ok((flags | now, active))
    }

    pub(crate) fn set_primary_flags(&mut self, device: CUdevice, flags: u32) -> Answer<()> {
        self.ready()?;
        let device = self.device(device)?;
        self.check_flags(flags)?;
        if flags & MAP_HOST != 0 {
            return self
                .refuse(INVALID_VALUE, "a primary context always maps host memory, so the flag is refused");
        }
        self.devices[device].primary.flags = flags;
        let Primary { handle, active, .. } = self.devices[device].primary;
        if let Some(context) = self.get(handle).filter(|_| active) {
            context.flags = context.flags & !CHANGEABLE | flags & CHANGEABLE;
        }
        Ok(())
    }

    /// The shares that the program has.
    pub(crate) fn primary_retains(&self, device: usize) -> u32 {
        self.devices
            .get(device)
            .map_or(0, |device| device.primary.shares.saturating_sub(device.primary.greens))
    }
}
