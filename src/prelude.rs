//! The names that most programs use: `use custack::prelude::*;`.
//!
//! They are RustaCUDA's prelude, name for name, so that a program that moves over finds what it imported before and no
//! name that collides with its own. [`launch!`](crate::launch), [`Event`](crate::event::Event),
//! [`LockedBuffer`](crate::memory::LockedBuffer) and the rest are imported from their modules.
//!
//! ```
//! use custack::prelude::*;
//!
//! custack::init(CudaFlags::empty())?;
//! let _context = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
//! let there = DeviceBuffer::from_slice(&[1, 2, 3])?;
//! let mut here = [0; 3];
//! there.copy_to(&mut here)?;
//! assert_eq!(here, [1, 2, 3]);
//! # Ok::<(), custack::error::CudaError>(())
//! ```

pub use crate::CudaFlags;
pub use crate::context::{Context, ContextFlags};
pub use crate::device::Device;
pub use crate::memory::{CopyDestination, DeviceBuffer, UnifiedBuffer};
pub use crate::module::Module;
pub use crate::stream::{Stream, StreamFlags};
