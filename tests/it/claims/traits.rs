//! What may cross threads and what may not, checked at compile time.

use custack::context::{
    CacheConfig, Context, ContextFlags, ContextHandle, ContextStack, CurrentContext, PrimaryContext,
    ResourceLimit, SharedMemoryConfig, Snapshot, StreamPriorityRange, UnownedContext,
};
use custack::device::{Device, DeviceAttribute, Devices};
use custack::driver::{Driver, Table};
use custack::error::{CudaError, DriverError};
use custack::memory::array::ArrayObject;
use custack::texture::{Surface, SurfaceHandle, Texture, TextureDescriptor, TextureHandle};
use custack::{CudaApiVersion, CudaFlags};
use static_assertions::{assert_impl_all, assert_not_impl_any};
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::panic::{RefUnwindSafe, UnwindSafe};

// Owners and handles may go to any thread.
assert_impl_all!(Context: Send, Sync, Debug, Eq, ContextHandle, UnwindSafe, RefUnwindSafe);
assert_impl_all!(UnownedContext: Send, Sync, Clone, Debug, Display, Eq, Hash, ContextHandle, UnwindSafe, RefUnwindSafe);
assert_impl_all!(PrimaryContext: Send, Sync, Clone, Debug, Eq, ContextHandle);

// An owner cannot be copied; a guard belongs to its thread and its handle.
assert_not_impl_any!(Context: Clone, Copy);
assert_not_impl_any!(UnownedContext: Copy);
assert_not_impl_any!(CurrentContext<'static>: Send, Sync, Clone, Copy);
assert_impl_all!(CurrentContext<'static>: Debug, ContextHandle);

// The rest is plain data.
assert_impl_all!(ContextFlags: Send, Sync, Copy, Ord, Hash, Debug);
assert_impl_all!(CudaFlags: Send, Sync, Copy, Ord, Hash, Debug);
assert_impl_all!(ResourceLimit: Send, Sync, Copy, Eq, Hash, Debug);
assert_impl_all!(CacheConfig: Send, Sync, Copy, Eq, Hash, Debug);
assert_impl_all!(SharedMemoryConfig: Send, Sync, Copy, Eq, Hash, Debug);
assert_impl_all!(StreamPriorityRange: Send, Sync, Clone, Eq, Hash, Debug);
assert_impl_all!(CudaApiVersion: Send, Sync, Copy, Ord, Hash, Debug);
assert_impl_all!(Device: Send, Sync, Copy, Eq, Hash, Debug);
assert_impl_all!(DeviceAttribute: Send, Sync, Copy, Eq, Hash, Debug);
assert_impl_all!(Devices: Send, Sync, Clone, Debug, ExactSizeIterator);
assert_impl_all!(CudaError: Send, Sync, Copy, Eq, Debug, std::error::Error);
assert_impl_all!(ArrayObject: Send, Sync, Debug);
assert_impl_all!(Texture<ArrayObject>: Send, Sync, Debug);
assert_impl_all!(Surface<ArrayObject>: Send, Sync, Debug);
assert_impl_all!(TextureDescriptor: Send, Sync, Copy, PartialEq, Debug, Default);
assert_impl_all!(TextureHandle<'static>: Send, Sync, Copy, Eq, Debug);
assert_impl_all!(SurfaceHandle<'static>: Send, Sync, Copy, Eq, Debug);
assert_impl_all!(DriverError: Send, Sync, Clone, Eq, Debug, std::error::Error);
assert_impl_all!(ContextStack: Send, Sync, Debug);
assert_impl_all!(Snapshot: Send, Clone, Debug, Display);
assert_impl_all!(Driver: Send, Sync, Debug, Display);
assert_impl_all!(Table: Send, Sync, Copy);

#[test]
fn handles_are_a_few_words() {
    assert!(size_of::<UnownedContext>() <= 4 * size_of::<usize>());
    assert_eq!(size_of::<Context>(), size_of::<UnownedContext>());
}
