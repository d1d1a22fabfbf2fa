//! Liveness: which contexts may be given to the driver, and for how long.
//!
//! The driver dereferences the handles it gets without checking them, so the handle of a destroyed context crashes the
//! process; and asking the driver about it would be that crash. So custack keeps track itself.
//!
//! # Records, ids and handles
//!
//! Each context has a *record*, which serves another context once the driver has destroyed the first, and an *id*, a
//! number that is never used again. A [`Handle`] is the two together: plain data that anyone may copy and keep. It is
//! alive while the record says that this id is alive, which is one load and one comparison ([`life`]). The [`registry`]
//! maps a raw handle that the driver returns to the context it stands for now, because the driver reuses raw handles.
//!
//! # Three ways to keep a context
//!
//! Between the check and the call, another thread may destroy the context. What prevents that depends on how long the
//! call takes:
//!
//! | | protects | a destroyer |
//! |---|---|---|
//! | [`hazard`] | a short call on the context's handle: push, set, id | waits, some nanoseconds |
//! | [`lease`] | a call that may block, or that uses a stream, an event, a module or memory | does not wait; the context is retired when the call returns |
//! | [`pin`] | memory, as long as it is allocated | does not wait; freeing the last memory destroys the context |
//!
//! Each thread publishes its hazards and leases in cells of its own ([`participant`]), so threads that use one context
//! write to no shared memory, and publishing costs a few instructions: the destroyer pays for the memory fence that
//! correctness needs ([`fence`](crate::fence)). Pins are counted.
//!
//! # Destroying
//!
//! The owner ends the life first: from then on every handle is dead, for good. If no lease and no pin is out, it claims
//! the context, waits for hazards, and calls the driver ([`destroy`]). Otherwise whoever gives back the last lease or
//! pin claims it. No destructor waits for another thread's blocking call.
//!
//! A function that a stream was asked to call, and never will because its context is in error, is dropped when the
//! context is destroyed ([`promised`]).
//!
//! A green context is a context with a record of its own, which pins its device's primary context ([`green`]).
//!
//! What cannot be destroyed at once (in a host function, on a thread that is ending, or while another call uses it) is
//! [retired](mod@retire): custack's own thread destroys it soon after.
//!
//! The proof that a user and a destroyer never meet is in [`participant`] and [`life`]. A model checker runs these two
//! files and the queue (`tests/it/liveness.rs`): two threads in every order of their steps, three with at most three
//! interruptions.
//!
//! # Calls
//!
//! The driver crashes if a thread ends a capture while another begins a call on one of its streams or events. So threads
//! publish the stream and the event of each call, beside the lease, then check that no capture of them is being ended; a
//! thread that ends one says so, then waits until they are withdrawn (`src/context/in_call.rs`).
//!
//! What is allocated and freed in the order of a stream must not become part of a capture, so a thread that does so
//! publishes the stream twice, then checks that it is not capturing; a thread that begins a capture lists it, then waits
//! until the stream is withdrawn. A call that would break a capture of its stream is published with a mark
//! ([`BREAKS`], or [`WAITS`]) and checks likewise; it may be blocked in the driver, and then is waited for only shortly.
//! A launch of a graph has a mark of its own ([`OF_GRAPH`]): it uses the graph's events, and does not
//! name them.

mod destroy;
pub(crate) mod green;
mod hazard;
mod lease;
mod life;
mod participant;
mod pin;
pub(crate) mod promised;
mod queue;
mod record;
pub(crate) mod registry;
mod retire;
mod thread;
mod time_left;

/// The primitives of the files that are compiled twice; the model checker substitutes its own.
mod sync {
    pub(super) use crate::fence::publish;
    pub(super) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
    pub(super) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

    pub(super) fn pause(looks: u32) {
        if looks < 100 { std::hint::spin_loop() } else { std::thread::yield_now() }
    }
}

pub(crate) use destroy::{Claimed, Hold};
pub(crate) use hazard::{BREAKS, OF_GRAPH, WAITS};
pub(crate) use hazard::{
    Call, wait_for_calls, wait_for_looks, wait_for_uncaptured, wait_for_waits, wait_shortly_while,
};
pub(crate) use lease::{Lease, LeaseOn};
pub use record::Origin;
pub(crate) use record::{Handle, MOST_NUMBERED, NUMBERS, deaths};
pub(crate) use retire::Expected;
pub(crate) use retire::{retire, wait};
pub(crate) use thread::{is_ending, this_thread};
