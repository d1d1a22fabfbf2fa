//! The error of a context in which a kernel failed: from then on all work of the context returns it.

use super::Ctx;
use crate::machine::*;
use custack_sys::ffi::CUresult;

impl Machine {
    /// The context's error, or 0.
    pub(crate) fn error_of(&mut self, context: Handle) -> CUresult {
        let base = self.base(context);
        match (self.peek(context), self.peek(base)) {
            (Some(own), Some(base)) if own.alive => base.error.as_ref().map_or(0, |(status, _)| *status),
            _ => CONTEXT_IS_DESTROYED,
        }
    }

    /// A context that is alive and has no error.
    pub(crate) fn healthy(&mut self, handle: Handle) -> Answer<&mut Ctx> {
        if !self.get(handle).is_some_and(|context| context.alive) {
            return self.refuse(CONTEXT_IS_DESTROYED, "the context of this handle is destroyed");
        }
        let base = self.base(handle);
        if let Some((status, why)) = self.get(base).and_then(|context| context.error.clone()) {
            return self.refuse(status, format_args!("the context is in error: {why}"));
        }
        self.get(handle).ok_or(INVALID_CONTEXT)
    }

    /// Work of the context has failed: it is in this error from now on, unless it was in one before.
    pub(crate) fn put_in_error(&mut self, context: Handle, error: (CUresult, String)) {
        let base = self.base(context);
        if let Some(context) = self.get(base) {
            context.error.get_or_insert(error);
        }
    }

    /// The context that has what is made now: the primary one while a green one is current.
    pub(crate) fn healthy_current(&mut self) -> Answer<Handle> {
        self.healthy_top().map(|handle| self.base(handle))
    }

    /// The current context itself.
    pub(crate) fn healthy_top(&mut self) -> Answer<Handle> {
        let handle = self.current_handle()?;
        self.living(handle)?;
        self.healthy(handle).map(|_| handle)
    }
}
