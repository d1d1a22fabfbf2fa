//! Liveness: who may give a context's handle to the driver, and for how long.
//!
//! The driver follows the handles it gets without looking, so one of a destroyed context ends the process; and it
//! cannot be asked, because the asking is the crash. So custack answers from what it knows itself.
//!
//! # What is known
//!
//! Each context has a *record*, which serves another when the driver has destroyed it, and an *id*, a number that is never
//! used again. A [`Handle`] is the two together, plain data that anybody may copy and keep: it is good while the record
//! says that this id is alive, which is one load and one comparison ([`life`]). The [`registry`] leads from the value that
//! the driver answers to the handle that it stands for now, because the driver gives the same value to a later context.
//!
//! # Three ways to keep a context
//!
//! Between looking and calling, another thread may destroy the context. What prevents it depends on how long the call
//! takes:
//!
//! | | for | who destroys meanwhile |
//! |---|---|---|
//! | [`hazard`] | a short call on the context's handle: push, set, id | waits, some nanoseconds |
//! | [`lease`] | a call that may block, or uses a stream, an event, a module, memory | leaves; the context is retired when the call is done |
//! | [`pin`] | memory, as long as it is allocated | leaves; who frees the last memory destroys |
//!
//! Hazards and leases are published by each thread in cells of its own ([`participant`]), so that threads that use one
//! context write nothing in common, and cost a few instructions: the destroyer pays for the memory fence that the
//! argument needs ([`fence`](crate::fence)). Pins are counted.
//!
//! # Destroying
//!
//! The owner ends the life first: from then on every handle is dead, and stays so. If no lease and no pin is out, the
//! context is claimed, hazards are waited for, and the driver is called ([`destroy`]). Otherwise whoever gives back the
//! last lease or pin claims it. No destructor waits for another thread's blocking call.
//!
//! What cannot be destroyed on the spot, in a host function, while a thread ends, or because a call was using it,
//! [`retire`](mod@retire) has destroyed by a thread of its own soon after.
//!
//! The argument that a user and a destroyer never meet is in [`participant`] and [`life`]. A model checker runs these two
//! files and that of the queue (`tests/it/liveness.rs`): two threads in every order of their steps, and three in those
//! with at most three interruptions.

mod destroy;
mod hazard;
mod lease;
mod life;
mod participant;
mod pin;
mod queue;
mod record;
pub(crate) mod registry;
mod retire;
mod thread;

/// What the files that are compiled twice are made of; a model checker has its own.
mod sync {
    pub(super) use crate::fence::publish;
    pub(super) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
    pub(super) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

    pub(super) fn pause(looks: u32) {
        if looks < 100 { std::hint::spin_loop() } else { std::thread::yield_now() }
    }
}

pub(crate) use destroy::{Ending, Hold};
pub(crate) use lease::Of;
pub use record::Origin;
pub(crate) use record::{Handle, deaths};
pub(crate) use retire::{retire, wait};
pub(crate) use thread::is_ending;
