//! Which devices reach each other's memory.

use crate::device::{Device, PeerAttribute};
use crate::error::CudaResult;
use std::fmt;

/// The link from one device to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Link {
    /// Whether contexts on the one can be given access to memory of contexts on the other
    /// ([`enable_peer_access`](crate::context::UnownedContext::enable_peer_access)). Copies work without; they take the
    /// way through the host's memory.
    pub reaches: bool,
    /// The rank of the link among all of the machine; lower is faster.
    pub performance_rank: i32,
    /// Whether all atomic operations work over the link.
    pub native_atomics: bool,
    /// Whether arrays can be accessed over the link.
    pub arrays: bool,
}

/// The links between all devices that this process sees; [`Device::topology`] asks for them.
///
/// `Display` writes a table with the performance rank of each link, and `none` where there is no access; `*` marks links
/// without native atomics.
///
/// ```
/// use custack::device::Device;
///
/// custack::init(custack::CudaFlags::empty())?;
/// let topology = Device::topology()?;
/// println!("{topology}");
/// for (from, to, link) in topology.links() {
///     assert_eq!(link.reaches, from.can_access_peer(to)?);
/// }
/// # Ok::<(), custack::error::CudaError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    devices: Vec<Device>,
    /// A row for each device, with a column for each; `None` on the diagonal.
    links: Vec<Vec<Option<Link>>>,
}

impl Device {
    /// Asks for the link of every pair of devices, in both directions.
    ///
    /// # Errors
    ///
    /// See [`Device`].
    #[doc(alias("cuDeviceGetP2PAttribute", "cuDeviceCanAccessPeer"))]
    #[inline]
    pub fn topology() -> CudaResult<Topology> {
        let devices = Device::devices()?.collect::<CudaResult<Vec<_>>>()?;
        let row = |from: &Device| {
            let link = |to: &Device| if from == to { Ok(None) } else { from.link_to(*to).map(Some) };
            devices.iter().map(link).collect()
        };
        let links = devices.iter().map(row).collect::<CudaResult<_>>()?;
        Ok(Topology { devices, links })
    }

    /// The link from this device to another.
    ///
    /// # Errors
    ///
    /// [`InvalidDevice`](crate::error::CudaError::InvalidDevice) if both are the same device.
    ///
    /// ```
    /// use custack::device::Device;
    ///
    /// custack::init(custack::CudaFlags::empty())?;
    /// let device = Device::get_device(0)?;
    /// assert!(device.link_to(device).is_err());
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuDeviceGetP2PAttribute")]
    #[inline]
    pub fn link_to(self, to: Device) -> CudaResult<Link> {
        let ask = |attribute| self.peer_attribute(attribute, to);
        Ok(Link {
            reaches: ask(PeerAttribute::AccessSupported)? != 0,
            performance_rank: ask(PeerAttribute::PerformanceRank)?,
            native_atomics: ask(PeerAttribute::NativeAtomicSupported)? != 0,
            arrays: ask(PeerAttribute::CudaArrayAccessSupported)? != 0,
        })
    }
}

impl Topology {
    /// The devices, in the order of their ordinals.
    #[inline]
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// The link from one device to another; `None` if they are the same, or one of them is not here.
    #[inline]
    pub fn link(&self, from: Device, to: Device) -> Option<Link> {
        let at = |device| self.devices.iter().position(|known| *known == device);
        self.links[at(from)?][at(to)?]
    }

    /// Every link, with the device that it is from and the one that it goes to.
    #[inline]
    pub fn links(&self) -> impl Iterator<Item = (Device, Device, Link)> {
        self.devices.iter().zip(&self.links).flat_map(move |(from, row)| {
            let link = |(to, link): (&Device, &Option<Link>)| Some((*from, *to, (*link)?));
            self.devices.iter().zip(row).filter_map(link)
        })
    }

    /// Whether every device reaches every other one. It is true for one device alone.
    #[inline]
    pub fn is_complete(&self) -> bool {
        self.links().all(|(_, _, link)| link.reaches)
    }
}

impl fmt::Display for Topology {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from \\ to")?;
        for to in &self.devices {
            write!(f, " {:>6}", to.as_raw())?;
        }
        for (from, row) in self.devices.iter().zip(&self.links) {
            write!(f, "\n{:>9}", from.as_raw())?;
            for link in row {
                let cell = match link {
                    None => "-".to_owned(),
                    Some(Link { reaches: false, .. }) => "none".to_owned(),
                    Some(link) => {
                        format!("{}{}", link.performance_rank, if link.native_atomics { "" } else { "*" })
                    }
                };
                write!(f, " {cell:>6}")?;
            }
        }
        Ok(())
    }
}
