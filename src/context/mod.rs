//! CUDA contexts, and the stack of them that each thread has.
//!
//! A context is to a device what a process is to a computer: memory, modules and streams belong to one, and pointers
//! of one mean nothing in another. Most driver calls work on the context that is *current* on the calling thread:
//! the top of a stack that the driver keeps for each thread. One context can be current on many threads.
//!
//! # The stack discipline, on one page
//!
//! * [`Context`] owns a context and destroys it when dropped. [`UnownedContext`] is a handle to it for everybody
//!   else, [`PrimaryContext`] a share in the context that a device has for everybody.
//! * [`ctx.scoped(|current| ...)`](UnownedContext::scoped) makes a context current for the length of a closure, and
//!   [`ctx.enter()`](UnownedContext::enter) for the life of a guard. After the last guard the stack is what it was,
//!   after a panic too, and in whatever order the guards went.
//! * The methods of a context ([`synchronize`](UnownedContext::synchronize), [`limit`](UnownedContext::limit), ...)
//!   enter it by themselves and leave the caller's stack as it was.
//! * [`ContextStack::push`], [`ContextStack::pop`] and [`CurrentContext::set_current`] do what the driver's functions
//!   do, to the letter, except that they never take a scope's context from under a living guard: that is
//!   [`HeldByGuard`](crate::error::CudaError::HeldByGuard).
//! * A handle knows whether its context lives. Once it is destroyed, every call with the handle answers
//!   [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed) without asking the driver, for which a dead
//!   handle is a wild pointer.
//! * Other code in the process (the CUDA runtime, a library) may move the stack too. custack's own book of it is
//!   never believed without the driver's word; when a scope ends, what was current before is made current again.
//! * When a thread ends with contexts on its stack, a report says which, and where in the source they came from.
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
//!
//! # What is not wrapped
//!
//! `cuCtxAttach` and `cuCtxDetach`, which the manual has long deprecated; `cuCtxRecordEvent` and `cuCtxWaitEvent`, as
//! [streams](crate::event) do that; `cuCtxFromGreenCtx` and `cuCtxGetDevResource`, which belong with green contexts. All
//! are in the [table](crate::driver::Table).

// The handles, from the bottom up.
mod barrier;
mod book;
mod known;
mod liveness;
mod model;
mod moves;
mod protocol;
mod unowned;

/// What [`protocol`] is made of; a model checker has its own.
mod sync {
    pub(super) use super::barrier::{announce, everyone_sees};
    pub(super) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

    pub(super) fn pause(looks: u32) {
        if looks < 100 { std::hint::spin_loop() } else { std::thread::yield_now() }
    }
}

// The stack and what is on top of it.
mod current;
mod stack;

// What can be asked of a context.
mod cache;
mod flags;
mod limits;
mod peer;

// What is made in one.
mod resource;

// Who owns one.
mod destroy;
mod owned;
mod pins;
mod primary;

pub use cache::{CacheConfig, SharedMemoryConfig};
pub use current::CurrentContext;
pub(crate) use destroy::Pin;
pub use flags::ContextFlags;
pub use limits::{ResourceLimit, StreamPriorityRange};
pub use model::How;
pub use owned::{Context, quick_init};
pub use primary::{PrimaryContext, PrimaryState};
pub(crate) use resource::{Resource, dispose, is_gone};
pub use stack::{ContextStack, Snapshot, SnapshotEntry};
pub use unowned::{ContextHandle, Origin, UnownedContext};
