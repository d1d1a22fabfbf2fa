//! Access from one context to the memory of another, on another device.

use super::handle::{ContextHandle, UnownedContext};
use super::relaxed::refuse_unsafe;
use crate::driver::driver;
use crate::error::{CudaError, CudaResult, keep_note};

impl UnownedContext {
    /// Lets kernels and copies of this context access the memory of the peer, in this direction only.
    ///
    /// # Errors
    ///
    /// * [`PeerAccessUnsupported`](CudaError::PeerAccessUnsupported): the two devices do not support it, or are the
    ///   same.
    /// * [`PeerAccessAlreadyEnabled`](CudaError::PeerAccessAlreadyEnabled).
    /// * [`TooManyPeers`](CudaError::TooManyPeers).
    /// * [`ContextIsDestroyed`](CudaError::ContextIsDestroyed): either context.
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags};
    /// # use custack::device::Device;
    /// # use custack::error::CudaError;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// assert_eq!(ctx.enable_peer_access(&ctx), Err(CudaError::PeerAccessUnsupported));
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuCtxEnablePeerAccess")]
    #[inline]
    pub fn enable_peer_access<C: ContextHandle>(&self, peer: &C) -> CudaResult<()> {
        let peer = peer.as_unowned();
        peer.usable()?;
        let driver = driver()?;
        let _current = self.enter_for_custack()?;
        driver.ctx_enable_peer_access(peer.lease()?.live()).map_err(|error| self.peer_failed(error, peer))
    }

    /// Undoes [`enable_peer_access`](Self::enable_peer_access).
    ///
    /// # Errors
    ///
    /// [`PeerAccessNotEnabled`](CudaError::PeerAccessNotEnabled); [`ContextIsDestroyed`](CudaError::ContextIsDestroyed)
    /// for either context.
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags};
    /// # use custack::device::Device;
    /// # use custack::error::CudaError;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// assert_eq!(ctx.disable_peer_access(&ctx), Err(CudaError::PeerAccessNotEnabled));
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuCtxDisablePeerAccess")]
    #[inline]
    pub fn disable_peer_access<C: ContextHandle>(&self, peer: &C) -> CudaResult<()> {
        let peer = peer.as_unowned();
        peer.usable()?;
        refuse_unsafe("take access back from a peer")?;
        let driver = driver()?;
        let _current = self.enter_for_custack()?;
        driver.ctx_disable_peer_access(peer.lease()?.live()).map_err(|error| self.peer_failed(error, peer))
    }

    /// Enables access between all of these contexts, in both directions, wherever the device of the one reaches that of
    /// the other; returns in how many directions there is access now. Access that was enabled before counts, and stays.
    ///
    /// Copies between devices need no access, and are faster with it.
    ///
    /// # Errors
    ///
    /// Those of [`enable_peer_access`](Self::enable_peer_access), but not `PeerAccessUnsupported` or
    /// `PeerAccessAlreadyEnabled`; what the call has enabled it takes back.
    ///
    /// ```
    /// # use custack::context::{PrimaryContext, UnownedContext};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let contexts = PrimaryContext::retain_all()?;
    /// let count = UnownedContext::enable_peer_access_among(&contexts)?;
    /// println!("{count} of {} directions", contexts.len() * (contexts.len() - 1));
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuCtxEnablePeerAccess", "cuDeviceCanAccessPeer"))]
    #[inline]
    pub fn enable_peer_access_among<C: ContextHandle>(contexts: &[C]) -> CudaResult<usize> {
        let mut enabled = Vec::new();
        let mut count = 0;
        for (from, to) in pairs(contexts) {
            match from.enable_if_it_reaches(to) {
                Ok(true) => enabled.push((from, to)),
                Ok(false) => continue,
                Err(CudaError::PeerAccessAlreadyEnabled) => {}
                Err(error) => {
                    let _note = keep_note();
                    for (from, to) in enabled {
                        // What the caller has to know is the first error.
                        let _ = from.disable_peer_access(to);
                    }
                    return Err(error);
                }
            }
            count += 1;
        }
        Ok(count)
    }

    #[inline]
    fn enable_if_it_reaches(&self, peer: &UnownedContext) -> CudaResult<bool> {
        let reaches = self.device()?.can_access_peer(peer.device()?)?;
        if reaches {
            self.enable_peer_access(peer)?;
        }
        Ok(reaches)
    }

    #[inline]
    fn peer_failed(&self, error: CudaError, peer: &UnownedContext) -> CudaError {
        error.note_instead(format_args!("to change access from {self} to {peer}"))
    }
}

/// Every pair of two of them, in both orders.
fn pairs<C: ContextHandle>(contexts: &[C]) -> impl Iterator<Item = (&UnownedContext, &UnownedContext)> {
    let others = move |at: usize| (0..contexts.len()).filter(move |other| *other != at);
    (0..contexts.len()).flat_map(move |at| {
        others(at).map(move |other| (contexts[at].as_unowned(), contexts[other].as_unowned()))
    })
}
