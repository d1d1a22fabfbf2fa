//! One entry of the shadow stack.

use crate::liveness::{Handle, Origin};
use std::fmt;
use std::panic::Location;

/// How an entry came onto the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum How {
    /// By creating the context.
    Created,
    /// By [`ContextStack::push`](crate::context::ContextStack::push).
    Pushed,
    /// By [`CurrentContext::set_current`](crate::context::CurrentContext::set_current).
    Set,
    /// By [`enter`](crate::context::UnownedContext::enter) or [`scoped`](crate::context::UnownedContext::scoped).
    Entered,
    /// By other code: custack found it current when it was to enter the context.
    Found,
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            How::Created => "created",
            How::Pushed => "pushed",
            How::Set => "set",
            How::Entered => "entered",
            How::Found => "made current by other code, and found",
        })
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) context: Handle,
    pub(crate) how: How,
    pub(crate) location: &'static Location<'static>,
    /// How many living guards hold it. While there are any, it is not popped.
    pub(crate) guards: u32,
    /// All entries from this serial number up to this entry have ended: the scopes that they are of are over. 0 if this one
    /// has not. It is popped once no guard holds it and no entry lies above it.
    pub(super) ended_from: u64,
    /// How many contexts had died when it was last looked at, because a scope began above it; and whether its own context was
    /// dead then. Such a context did not die within the scope.
    pub(super) looked_at: u64,
    pub(super) was_dead: bool,
    /// Its last guard was dropped while entries were above it, within which other code may have
    /// changed the stack. So the driver is asked when it comes to the top, unless it has ended.
    pub(crate) look: bool,
    /// Its thread has the green context since this entry was made. It has it until this entry is removed, because later entries of
    /// the same context are above this one.
    pub(super) takes: bool,
    /// Counts from 1 and grows upwards; guards find their entries by it.
    pub(crate) serial: u64,
}

impl Entry {
    pub(crate) fn has_ended(&self) -> bool {
        self.ended_from != 0
    }

    pub(crate) fn has_to_be_looked_at(&self) -> bool {
        self.look && !self.has_ended()
    }

    /// The same entry, which stays, after it was looked at.
    pub(crate) fn into_looked_at(mut self) -> Entry {
        self.look = false;
        self
    }

    /// The same entry, whose scope is over and which no guard holds.
    pub(crate) fn into_ended(mut self) -> Entry {
        if !self.has_ended() {
            self.ended_from = self.serial;
        }
        self.guards = 0;
        self
    }

    /// Whether its context died after the last scope began above it.
    pub(crate) fn died_within(&self) -> bool {
        self.is_tombstone() && !self.was_dead
    }

    /// Removed for good: the thread has the green context no longer.
    pub(crate) fn let_go(&self) {
        if self.takes {
            self.context.let_go();
        }
    }

    /// Whether its context is destroyed. A found entry of a primary context of which custack has no share is never a
    /// tombstone: a share of other code may keep that context alive.
    pub(crate) fn is_tombstone(&self) -> bool {
        let of_other_code = self.how == How::Found && self.context.origin() != Origin::Created;
        !of_other_code && !self.context.is_alive()
    }
}

/// A stack, one entry per line, the top first.
pub(crate) struct Lines<'a>(pub(crate) &'a [Entry]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, entry) in self.0.iter().enumerate().rev() {
            write!(f, "  {depth}: {}, {} at {}", entry.context, entry.how, entry.location)?;
            if entry.guards > 0 {
                write!(f, ", held by {}", if entry.guards == 1 { "a guard" } else { "guards" })?;
            }
            if depth > 0 {
                writeln!(f)?;
            }
        }
        Ok(())
    }
}
