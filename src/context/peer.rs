//! Access from one context to the memory of another, on another device.

use super::handle::{ContextHandle, UnownedContext};
use super::relaxed::refuse_unsafe;
use crate::driver::driver;
use crate::error::{CudaError, CudaResult};

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
        let _current = self.enter()?;
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
        let _current = self.enter()?;
        driver.ctx_disable_peer_access(peer.lease()?.live()).map_err(|error| self.peer_failed(error, peer))
    }

    fn peer_failed(&self, error: CudaError, peer: &UnownedContext) -> CudaError {
        error.note(format_args!("to change access from {self} to {peer}"))
    }
}
