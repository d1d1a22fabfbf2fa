//! When two values stand for one resource of the driver.

use super::key::Capturable;
use super::resource::{Resource, State};

impl<H: Capturable + PartialEq> Resource<H> {
    /// Whether both are the same resource, whoever owns it. The context is compared too, because the driver gives the
    /// raw handles of a destroyed context to later resources, and default streams have the same ones in every context.
    pub(crate) fn is_same(&self, other: &Resource<H>) -> bool {
        // The driver may have given the handle of a spent one to another resource.
        let usable = |state| match state {
            State::Good | State::Lent => Some(None),
            State::Implicit(thread) => Some(Some(thread)),
            State::Spent => None,
        };
        let (here, there) = (usable(self.state), usable(other.state));
        here.is_some() && here == there && self.raw == other.raw && self.context == other.context
    }
}
