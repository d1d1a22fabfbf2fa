//! The simulated driver: a table of driver functions like the NVIDIA driver's, for programs and tests on a machine without
//! a GPU.
//!
//! It behaves as an NVIDIA H200 with driver 580 (CUDA 13.0) was observed to behave. The page of the crate
//! [`custack_sim`] says what is modelled, and what is not and why. A program selects it with `CUSTACK_DRIVER=sim` or
//! with [`choose`](crate::driver::choose). The functions here change the simulated machine, and look into it.
//!
//! # Several devices, and the links between them
//!
//! ```
//! use custack::device::Device;
//! use custack::driver::{self, Choice};
//! use custack::sim;
//!
//! driver::choose(Choice::Sim).unwrap();
//! assert!(sim::set_devices(2) && sim::set_link(0, 1, None));
//! custack::init(custack::CudaFlags::empty())?;
//! assert_eq!(Device::num_devices()?, 2);
//! let (first, second) = (Device::get_device(0)?, Device::get_device(1)?);
//! assert!(!first.can_access_peer(second)? && second.can_access_peer(first)?);
//! # Ok::<(), custack::error::CudaError>(())
//! ```
//!
//! # A device on which the host cannot use managed memory beside a kernel
//!
//! ```
//! use custack::device::{Device, DeviceAttribute};
//! use custack::driver::{self, Choice};
//! use custack::error::CudaError;
//! use custack::memory::UnifiedBox;
//! use custack::sim;
//!
//! driver::choose(Choice::Sim).unwrap();
//! sim::set_concurrent_managed_access(false);
//! let _context = custack::quick_init()?;
//! let attribute = Device::get_device(0)?.get_attribute(DeviceAttribute::ConcurrentManagedAccess)?;
//! assert_eq!((attribute, UnifiedBox::new(1).err()), (0, Some(CudaError::NotSupported)));
//! # Ok::<(), CudaError>(())
//! ```
//!
//! # Addresses that are used again, as on a GPU
//!
//! ```
//! use custack::driver::{self, Choice};
//! use custack::memory::DeviceBuffer;
//! use custack::sim;
//!
//! driver::choose(Choice::Sim).unwrap();
//! sim::reuse_addresses(true);
//! let address = || {
//!     let _context = custack::quick_init()?;
//!     Ok(DeviceBuffer::from_slice(&[1u32, 2, 3])?.as_device_ptr().as_raw() as u64)
//! };
//! assert_eq!(address()?, address()?);
//! # Ok::<(), custack::error::CudaError>(())
//! ```
//!
//! # What was wrong with a call that was refused
//!
//! ```
//! use custack::context::CurrentContext;
//! use custack::driver::{self, Choice};
//! use custack::sim;
//!
//! driver::choose(Choice::Sim).unwrap();
//! custack::init(custack::CudaFlags::empty())?;
//! assert!(CurrentContext::synchronize().is_err());
//! assert!(sim::log().pop().unwrap().contains("no context is current"));
//! # Ok::<(), custack::error::CudaError>(())
//! ```

pub use custack_sim::{
    MOST_DEVICES, allocations, contexts_alive, depth, instructions, limit_kernels, log, misuses, objects,
    primary_retains, reuse_addresses, reuse_handles, set_concurrent_managed_access, set_devices, set_link,
    table,
};
