//! Memory: on the device, managed for both sides, page-locked on the host, and in arrays.
//!
//! | | location | used by |
//! |---|---|---|
//! | [`DeviceBox`], [`DeviceBuffer`] | on the device | kernels; the host copies |
//! | [`PitchedBuffer`] | on the device, in rows | kernels; the host copies |
//! | [`UnifiedBox`], [`UnifiedBuffer`] | migrates | both, in turn |
//! | [`LockedBuffer`] | on the host, page-locked | the host; copies to and from it are asynchronous and fast |
//! | [`IpcBuffer`] | on the device, made by another process | kernels of both processes |
//! | [`RegisteredSlice`] | the program's own, page-locked in place | as well |
//! | [`ArrayObject`](array::ArrayObject) | on the device | textures and surfaces |
//!
//! Memory belongs to the context that was current when it was allocated, and can be freed on any thread, whatever is
//! current there. It keeps its context at the driver until it is freed, because the driver reuses the addresses of a
//! destroyed context. If the context's owner is dropped first, copies return
//! [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed), and the host's references stay valid.
//!
//! Memory on the device can be of 32,767 contexts, and in the order of 32,768 streams, at the same time. What is beyond is
//! refused with [`NotSupported`](crate::error::CudaError::NotSupported).
//!
//! # At once, or in the order of a stream
//!
//! [`DeviceBuffer::uninitialized`] and the constructors built on it allocate memory that all streams can use at once.
//! That is slow when the driver has to map new pages, and freeing waits for the work of the context; it is for memory
//! that lives long. Short-lived memory is allocated in the order of a stream ([`DeviceBuffer::uninitialized_in`],
//! [`from_slice_in`](DeviceBuffer::from_slice_in)): allocating and freeing are two calls that wait for nothing. It
//! comes from a [`MemoryPool`], which reuses memory within a stream at once. Another stream may use it after
//! [`also_used_in`](DeviceBuffer::also_used_in), or take it over ([`move_to`](DeviceBuffer::move_to)). The stream is
//! destroyed after the last of such memory, whatever is dropped first.
//!
//! ```
//! use custack::memory::{CopyDestination, DeviceBuffer};
//!
//! let _context = custack::quick_init()?;
//! let mut buffer = DeviceBuffer::from_slice(&[1u32, 2, 3, 4])?;
//! buffer[1..3].copy_from(&[20, 30])?;
//! let mut back = [0u32; 4];
//! buffer.copy_to(&mut back)?;
//! assert_eq!(back, [1, 20, 30, 4]);
//! # Ok::<(), custack::error::CudaError>(())
//! ```

pub mod array;

mod allocation;
mod copies;
mod device_box;
mod device_buffer;
mod device_chunks;
mod device_slice;
mod fill;
mod given_away;
#[cfg(feature = "processes")]
mod interprocess;
mod locked;
mod malloc;
mod of_context;
mod ordered;
mod others;
#[cfg(feature = "texture")]
mod pitched;
#[cfg(feature = "pool")]
mod pool;
mod registered;
mod scope;
mod unified;
mod unified_buffer;

pub(crate) use copies::finish;
pub use copies::{AsyncCopyDestination, CopyDestination};
pub use device_box::DeviceBox;
pub use device_buffer::DeviceBuffer;
pub use device_chunks::{DeviceChunks, DeviceChunksMut};
pub use device_slice::DeviceSlice;
pub use fill::FillValue;
#[cfg(feature = "processes")]
pub use interprocess::{IpcBuffer, IpcMemHandle};
pub use locked::{LockedBuffer, LockedFlags};
pub use malloc::{
    cuda_free, cuda_free_locked, cuda_free_unified, cuda_malloc, cuda_malloc_locked, cuda_malloc_unified,
    info,
};
pub use ordered::StreamOrder;
#[cfg(feature = "texture")]
pub use pitched::PitchedBuffer;
#[cfg(feature = "pool")]
pub use pool::{MemoryPool, PoolAccess, PoolProperties, PoolReuse, PoolUsage};
pub use registered::{RegisterFlags, RegisteredSlice};
pub use rustacuda_core::{DeviceCopy, DevicePointer, UnifiedPointer};
pub use unified::UnifiedBox;
pub use unified_buffer::UnifiedBuffer;
