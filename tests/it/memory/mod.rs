//! Memory of all kinds.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

mod allocation;
#[cfg(feature = "graph")]
mod any_address;
mod array;
#[cfg(all(feature = "graph", feature = "pool", feature = "texture"))]
mod beside_captures;
#[cfg(all(feature = "graph", feature = "pool"))]
mod captured;
mod copies;
mod device_buffer;
mod fill;
#[cfg(all(
    feature = "future",
    feature = "graph",
    feature = "green",
    feature = "nvrtc",
    feature = "processes",
    feature = "texture"
))]
pub(crate) mod interprocess;
mod malloc;
mod managed;
#[cfg(all(
    feature = "future",
    feature = "graph",
    feature = "green",
    feature = "nvrtc",
    feature = "processes",
    feature = "texture"
))]
pub(crate) mod mapping;
#[cfg(feature = "texture")]
mod pitched;
mod pointers;
#[cfg(all(feature = "pool", feature = "texture"))]
mod pool;
mod registered;
#[cfg(all(
    feature = "future",
    feature = "graph",
    feature = "green",
    feature = "nvrtc",
    feature = "processes",
    feature = "texture"
))]
pub(crate) mod shared_pools;
#[cfg(feature = "pool")]
mod stream_ordered;
pub(crate) mod unified;
#[cfg(all(feature = "graph", feature = "green", feature = "texture"))]
mod without_stream;

use crate::harness::{pushed, run};
use custack::context::UnownedContext;
use custack::memory::array::ArrayObject;
use custack::memory::*;
use custack::stream::Stream;

#[test]
fn values_without_a_size_have_no_memory() {
    run(|| {
        let _ctx = pushed();
        let mut boxed = DeviceBox::new(&()).unwrap();
        assert!(boxed.as_device_ptr().is_null());
        boxed.copy_to(&mut ()).unwrap();
        let buffer = DeviceBuffer::from_slice(&[(); 7]).unwrap();
        assert_eq!((buffer.len(), buffer[2..5].len()), (7, 3));
        let unified = UnifiedBox::new(()).unwrap();
        assert_eq!(*unified, ());
        assert_eq!(UnifiedBuffer::from_slice(&[(); 3]).unwrap().len(), 3);
        assert!(LockedBuffer::from_slice(&[] as &[u32]).unwrap().is_empty());
        assert!(DeviceBuffer::from_slice(&[] as &[u32]).unwrap().is_empty());
        assert!(DeviceBuffer::drop(buffer).is_ok() && UnifiedBox::drop(unified).is_ok());
    });
}

#[test]
fn what_may_go_to_other_threads_and_be_shared() {
    static_assertions::assert_impl_all!(DeviceBuffer<u32>: Send, Sync);
    static_assertions::assert_impl_all!(DeviceBox<u32>: Send, Sync);
    static_assertions::assert_impl_all!(DeviceSlice<u32>: Send, Sync);
    static_assertions::assert_impl_all!(UnifiedBuffer<u32>: Send, Sync);
    static_assertions::assert_impl_all!(UnifiedBox<u32>: Send, Sync);
    static_assertions::assert_impl_all!(LockedBuffer<u32>: Send, Sync);
    static_assertions::assert_impl_all!(ArrayObject: Send, Sync);
    static_assertions::assert_impl_all!(Stream: Send, Sync);
    static_assertions::assert_impl_all!(custack::event::Event: Send, Sync);
    static_assertions::assert_impl_all!(custack::module::Module: Send, Sync);
    static_assertions::assert_impl_all!(custack::function::Function<'static>: Send, Sync);
    static_assertions::assert_impl_all!(UnownedContext: Send, Sync);
}

#[test]
fn what_owns_or_borrows_something_has_no_copy_on_the_device() {
    static_assertions::assert_not_impl_any!(Box<u32>: DeviceCopy);
    static_assertions::assert_not_impl_any!(Vec<u8>: DeviceCopy);
    static_assertions::assert_not_impl_any!(String: DeviceCopy);
    static_assertions::assert_not_impl_any!(&'static u32: DeviceCopy);
    static_assertions::assert_not_impl_any!(std::sync::Arc<u32>: DeviceCopy);
}

/// The result of a call of the table, for closures that return one.
fn done(status: u32) -> custack::error::CudaResult<()> {
    if status == 0 { Ok(()) } else { Err(custack::error::CudaError::UnknownError) }
}
