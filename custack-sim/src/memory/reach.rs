//! Which contexts' memory the work of a context reaches: that of its own device, and that of peers which it was given.

use super::pool::{NO_ACCESS, Place};
use super::{Kind, Memory};
use crate::machine::Handle;
use std::collections::{BTreeMap, BTreeSet};

/// What the machine knows of it, kept where launches look.
#[derive(Default)]
pub(crate) struct Reach {
    /// The device of each context.
    devices: BTreeMap<Handle, usize>,
    /// A context that was given access, and the peer whose memory it is.
    peers: BTreeSet<(Handle, Handle)>,
}

impl Reach {
    /// A context is made.
    pub(crate) fn made(&mut self, context: Handle, device: usize) {
        self.devices.insert(context, device);
    }

    /// The handle of a context is freed.
    pub(crate) fn gone(&mut self, context: Handle) {
        self.devices.remove(&context);
    }

    pub(crate) fn give(&mut self, context: Handle, peer: Handle) {
        self.peers.insert((context, peer));
    }

    pub(crate) fn take(&mut self, context: Handle, peer: Handle) {
        self.peers.remove(&(context, peer));
    }

    /// A context is destroyed, and with it what it was given.
    pub(crate) fn take_all(&mut self, context: Handle) {
        self.peers.retain(|(of, _)| *of != context);
    }

    /// Whether it reaches the memory of another one.
    fn is_open(&self, context: Handle, other: Handle) -> bool {
        self.devices.get(&context) == self.devices.get(&other) || self.peers.contains(&(context, other))
    }

    /// The contexts, and their devices, whose memory this one's kernels do not reach.
    pub(super) fn closed_to(&self, context: Handle) -> BTreeMap<Handle, usize> {
        let Some(own) = self.devices.get(&context) else { return BTreeMap::new() };
        let is_closed =
            |(other, device): &(&Handle, &usize)| *device != own && !self.peers.contains(&(context, **other));
        self.devices.iter().filter(is_closed).map(|(other, device)| (*other, *device)).collect()
    }
}

impl Memory {
    /// Refuses a fill or a copy by a context of memory of another device. What was allocated by itself is copied from
    /// everywhere, and filled only with access to its context; memory of a pool is neither filled nor copied without.
    pub(super) fn check_reach(&self, address: u64, context: Handle, fills: bool) -> Result<(), String> {
        let (Some(own), Some((_, found))) = (self.reach.devices.get(&context), self.held.at(address)) else {
            return Ok(());
        };
        let is_closed = match found.kind {
            Kind::Device | Kind::Variable => fills && !self.reach.is_open(context, found.context),
            Kind::Pool => self.pool_at(address).is_some_and(|pool| {
                let of_device = matches!(pool.made.own_place(), Some(Place::Device(_)));
                of_device && pool.access_of(Place::Device(*own)) == NO_ACCESS
            }),
            _ => false,
        };
        if is_closed {
            Err(format!("device {own} has no access to the memory at {address:#x}"))
        } else {
            Ok(())
        }
    }
}
