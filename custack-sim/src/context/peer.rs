//! Access to the memory of contexts on other devices.

use crate::machine::*;
use crate::memory;

impl Machine {
    pub(crate) fn enable_peer(&mut self, peer: Handle, flags: u32) -> Answer<()> {
        let device = self.current()?.device;
        if peer != 0 && flags != 0 {
            return self.refuse(INVALID_VALUE, "cuCtxEnablePeerAccess takes no flags");
        }
        let other = self.peer(peer)?;
        if other == device {
            return self.refuse(PEER_ACCESS_UNSUPPORTED, "a device is not a peer of itself");
        }
        if self.link_rank(device, other).is_none() {
            let why = format_args!("device {device} does not reach device {other}").to_string();
            return self.refuse(PEER_ACCESS_UNSUPPORTED, why);
        }
        if !self.current()?.peers.insert(peer) {
            return self.refuse(PEER_ACCESS_ALREADY_ENABLED, "access to this peer is enabled already");
        }
        let own = self.current_handle()?;
        memory::lock().reach.give(own, peer);
        Ok(())
    }

    pub(crate) fn disable_peer(&mut self, peer: Handle) -> Answer<()> {
        self.current()?;
        self.peer(peer)?;
        if !self.current()?.peers.remove(&peer) {
            return self.refuse(PEER_ACCESS_NOT_ENABLED, "access to this peer is not enabled");
        }
        let own = self.current_handle()?;
        memory::lock().reach.take(own, peer);
        Ok(())
    }

    /// The device of the peer.
    fn peer(&mut self, peer: Handle) -> Answer<usize> {
        if peer == 0 {
            return self.refuse(INVALID_CONTEXT, "the peer is NULL");
        }
        Ok(self.living(peer)?.device)
    }
}
