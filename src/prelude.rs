//! The names that most programs use, as in RustaCUDA: `use custack::prelude::*;`.

pub use crate::CudaFlags;
pub use crate::context::{Context, ContextFlags};
pub use crate::device::Device;
pub use crate::memory::{CopyDestination, DeviceBuffer, UnifiedBuffer};
pub use crate::module::Module;
pub use crate::stream::{Stream, StreamFlags};
