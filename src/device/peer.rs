//! Access between two devices, and the properties of the link between them.

use super::Device;
use crate::driver::{Numbered, driver, numbered};
use crate::error::CudaResult;

numbered! {
    /// A property of the link between two devices, for [`Device::peer_attribute`].
    #[non_exhaustive]
    pub enum PeerAttribute {
        /// `CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK`: the rank of the link among all; lower is faster.
        PerformanceRank = 1,
        /// `CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED`: 1 if one device can access the other's memory.
        AccessSupported = 2,
        /// `CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED`: 1 if all atomic operations work over the link.
        NativeAtomicSupported = 3,
        /// `CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED`: 1 if arrays can be accessed over the link.
        CudaArrayAccessSupported = 4,
        /// `CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED`: 1 if only some atomic operations work.
        OnlyPartialNativeAtomicSupported = 5,
    }
}

impl Device {
    /// Whether contexts on this device can be given access to memory of contexts on the other (see
    /// [`enable_peer_access`](crate::context::UnownedContext::enable_peer_access)). A device is not a peer of itself.
    ///
    /// # Errors
    ///
    /// See [`Device`].
    ///
    /// ```
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let device = Device::get_device(0)?;
    /// assert!(!device.can_access_peer(device)?);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuDeviceCanAccessPeer")]
    #[inline]
    pub fn can_access_peer(self, peer: Device) -> CudaResult<bool> {
        driver()?.device_can_access_peer(self.as_raw(), peer.as_raw())
    }

    /// One property of the link from this device to another.
    ///
    /// # Errors
    ///
    /// [`InvalidDevice`](crate::error::CudaError::InvalidDevice) if both are the same device.
    ///
    /// ```
    /// use custack::device::{Device, PeerAttribute};
    /// use custack::error::CudaError;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let device = Device::get_device(0)?;
    /// let rank = device.peer_attribute(PeerAttribute::PerformanceRank, device);
    /// assert_eq!(rank, Err(CudaError::InvalidDevice));
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuDeviceGetP2PAttribute")]
    #[inline]
    pub fn peer_attribute(self, attribute: PeerAttribute, peer: Device) -> CudaResult<i32> {
        let (here, there) = (self.as_raw(), peer.as_raw());
        driver()?.device_get_p2p_attribute(attribute.number()?, here, there).map_err(|error| {
            error.note_instead(format_args!("to get {attribute:?} between devices {here} and {there}"))
        })
    }
}
