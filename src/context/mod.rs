//! CUDA contexts, and the stack of them that each thread has.
//!
//! A context is to a device what a process is to a computer: memory, modules and streams belong to one, and pointers of
//! one mean nothing in another. Most driver calls work on the context that is *current* on the calling thread: the top
//! of a stack that the driver keeps for each thread. One context can be current on many threads.
//!
//! # The stack discipline, on one page
//!
//! * [`Context`] owns a context and destroys it when dropped. [`UnownedContext`] is a handle to it, and
//!   [`PrimaryContext`] a share in the context that the driver provides for each device.
//! * [`ctx.scoped(|current| ...)`](UnownedContext::scoped) makes a context current while a closure runs, and
//!   [`ctx.enter()`](UnownedContext::enter) while a guard lives. After the last guard the stack is what it was, also
//!   after a panic, and in whatever order the guards were dropped.
//! * [`GreenContext`] owns a green context, on some of a device's multiprocessors. It is entered by its owner alone, because
//!   one thread at a time may have it current.
//! * The methods of a context ([`synchronize`](UnownedContext::synchronize), [`limit`](UnownedContext::limit), ...)
//!   enter it themselves and leave the caller's stack as it was.
//! * [`ContextStack::push`], [`ContextStack::pop`] and [`CurrentContext::set_current`] do exactly what the driver's
//!   functions do, except that they never remove an entry that a living guard holds: that is
//!   [`HeldByGuard`](crate::error::CudaError::HeldByGuard).
//! * A handle knows whether its context is alive. Once the context is destroyed, every call with the handle returns
//!   [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed) without calling the driver, which would
//!   dereference a wild pointer. The thread that destroys a context loses it from the top of its stack, unless a guard
//!   holds it there: then its entry stays until the guard is dropped, and every call on it returns that error.
//! * Destroying never waits for a call of another thread that may block. While memory of a context is allocated, or
//!   another thread is in a call on it that may take long, the owner's drop returns at once and the driver destroys the
//!   context later ([`Context::drop`]).
//! * Other code in the process (the CUDA runtime, a library) may change the stack too. custack never
//!   trusts its mirror of the stack without checking it against the driver. When a scope ends, the
//!   stack is made what it was before, whether the scope had to switch or not. There is one exception.
//!   A context that other code created may be destroyed once it is not on the stack any more: it is
//!   not made current again, which is reported.
//! * If other code has made a context current, a scope notices that and does not switch: from the
//!   thread's second scope on, or, on a thread that has long been without such a context, within 256
//!   scopes.
//! * When a thread ends with contexts on its stack, a report says which ones, and where in the source they were pushed.
//!
//! ```
//! use custack::context::{Context, ContextFlags, ContextStack, CurrentContext};
//! use custack::device::Device;
//!
//! custack::init(custack::CudaFlags::empty())?;
//! let a = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
//! let b = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
//!
//! a.scoped(|current| {
//!     assert!(current.is_current()?);
//!     b.synchronize() // enters b, and leaves it
//! })?;
//! assert_eq!(CurrentContext::get_current()?, b.get_unowned());
//! assert_eq!(ContextStack::depth(), 2);
//! # Ok::<(), custack::error::CudaError>(())
//! ```
#![doc = include_str!("functions.md")]
#![doc = include_str!("names.md")]

// The handle, the stack, and the guard of a scope.
mod current;
mod handle;
mod restore;
mod stack;
mod stack_ops;

// Queries and settings of a context.
mod cache;
mod flags;
mod limits;
mod peer;

// The owners of contexts, the resources made in them, and how both are used.
mod access;
pub(crate) mod captures;
mod destroy;
#[cfg(feature = "green")]
mod green;
pub(crate) mod in_call;
pub(crate) mod key;
mod over;
mod owned;
mod primary;
mod relaxed;
mod resource;
mod same;

pub use crate::liveness::Origin;
pub use crate::shadow_stack::How;
pub use cache::{CacheConfig, SharedMemoryConfig};
pub use current::CurrentContext;
pub(crate) use destroy::Pin;
pub use destroy::wait_until_retired;
pub use flags::ContextFlags;
#[cfg(feature = "green")]
pub use green::{CurrentGreenContext, GreenContext};
pub use handle::{ContextHandle, UnownedContext};
pub use limits::{ResourceLimit, StreamPriorityRange};
pub(crate) use over::ask_until_over;
pub(crate) use over::is_lost;
pub use owned::{Context, quick_init};
pub use primary::{PrimaryContext, PrimaryState};
pub(crate) use relaxed::{
    refuse_by_default, refuse_in_context, refuse_in_legacy, refuse_of_context, refuse_unsafe, relax,
    restore_mode, unbroken,
};
pub(crate) use resource::{Resource, is_gone, must_retire};
pub use stack::{ContextStack, Snapshot, SnapshotEntry};
