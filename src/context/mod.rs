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
//!   handle is a wild pointer. On the thread that destroys it, it leaves the top of the stack, unless a guard stands
//!   there: then its entry stays until the guard is gone, and every call on it answers that it is destroyed.
//! * Destroying waits for nobody. While memory of a context is allocated, or another thread is in a call on it that may
//!   take long, the owner's drop returns at once and the driver destroys the context later ([`Context::drop`]).
//! * Other code in the process (the CUDA runtime, a library) may move the stack too. custack's own mirror of it is
//!   never believed without the driver's word; when a scope ends, what was current before is made current again. A
//!   context that other code has made current is found to be so and stayed in, from the second scope on, or in a thread
//!   that has long been without, within 256.
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

// The handle, the stack, and the guard of a scope.
mod current;
mod handle;
mod restore;
mod stack;
mod stack_ops;

// What can be asked of a context.
mod cache;
mod flags;
mod limits;
mod peer;

// Who owns one, and what is made in one.
mod destroy;
mod owned;
mod primary;
mod resource;

pub use crate::liveness::Origin;
pub use crate::shadow_stack::How;
pub use cache::{CacheConfig, SharedMemoryConfig};
pub use current::CurrentContext;
pub(crate) use destroy::Pin;
pub use destroy::wait_until_retired;
pub use flags::ContextFlags;
pub use handle::{ContextHandle, UnownedContext};
pub use limits::{ResourceLimit, StreamPriorityRange};
pub use owned::{Context, quick_init};
pub use primary::{PrimaryContext, PrimaryState};
pub(crate) use resource::{Resource, is_gone, must_retire};
pub use stack::{ContextStack, Snapshot, SnapshotEntry};
