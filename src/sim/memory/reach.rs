//! Which contexts' memory the kernels of a context reach: that of its own device, and that of peers which it was given.

use crate::sim::machine::Handle;
use std::collections::{BTreeMap, BTreeSet};

/// What the machine knows of it, kept where launches look.
#[derive(Default)]
pub(in crate::sim) struct Reach {
    /// The device of each context.
    devices: BTreeMap<Handle, usize>,
    /// A context that was given access, and the peer whose memory it is.
    peers: BTreeSet<(Handle, Handle)>,
}

impl Reach {
    /// A context is made; one that had the handle before is gone.
    pub(in crate::sim) fn made(&mut self, context: Handle, device: usize) {
        self.devices.insert(context, device);
    }

    pub(in crate::sim) fn give(&mut self, context: Handle, peer: Handle) {
        self.peers.insert((context, peer));
    }

    pub(in crate::sim) fn take(&mut self, context: Handle, peer: Handle) {
        self.peers.remove(&(context, peer));
    }

    /// A context is destroyed, and with it what it was given.
    pub(in crate::sim) fn take_all(&mut self, context: Handle) {
        self.peers.retain(|(of, _)| *of != context);
    }

    /// The contexts, and their devices, whose memory this one's kernels do not reach.
    pub(super) fn closed_to(&self, context: Handle) -> BTreeMap<Handle, usize> {
        let Some(own) = self.devices.get(&context) else { return BTreeMap::new() };
        let is_closed =
            |(other, device): &(&Handle, &usize)| *device != own && !self.peers.contains(&(context, **other));
        self.devices.iter().filter(is_closed).map(|(other, device)| (*other, *device)).collect()
    }
}
