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

/// Later than any death.
pub(crate) const NEVER: u64 = u64::MAX;

/// As [`Entry::since`] of an ended entry: it stays, and when it comes to the top, the driver is
/// asked whether it is current.
pub(crate) const LOOK: u64 = NEVER - 1;

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) context: Handle,
    pub(crate) how: How,
    pub(crate) location: &'static Location<'static>,
    /// How many living guards hold it. While there are any, it is not popped.
    pub(crate) guards: u32,
    /// Its scope has ended: it is popped once no guard holds it and no entry lies above it.
    pub(crate) ended: bool,
    /// How many contexts had died when its first guard was made; [`NEVER`] without guards. A context that died later
    /// died within the scope.
    pub(crate) since: u64,
    /// Counts from 1 and grows upwards; guards find their entries by it.
    pub(crate) serial: u64,
}

impl Entry {
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
