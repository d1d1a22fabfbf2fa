//! One entry of the stack, as this thread made it.

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

/// Later than any destroying.
pub(crate) const NEVER: u64 = u64::MAX;

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) context: Handle,
    pub(crate) how: How,
    pub(crate) location: &'static Location<'static>,
    /// How many living guards stand on it. It may not be taken off before they are gone.
    pub(crate) guards: u32,
    /// The scope that it belongs to has ended: it goes when no guard stands on it and nothing lies above it.
    pub(crate) ended: bool,
    /// How many contexts had been destroyed when the first of its guards stood on it; [`NEVER`] without guards. What was
    /// destroyed later was destroyed within the scope.
    pub(crate) since: u64,
    /// From 1, and growing upwards. A guard finds its entry by it.
    pub(crate) serial: u64,
}

impl Entry {
    /// Whether it is of a destroyed context. What other code made current stays, if custack cannot know that it is
    /// destroyed: a primary context of which custack has no share any more may live on by a share of other code's.
    pub(crate) fn is_tombstone(&self) -> bool {
        let of_other_code = self.how == How::Found && self.context.origin() != Origin::Created;
        !of_other_code && !self.context.is_alive()
    }
}

/// A stack, one entry a line, the top first.
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
