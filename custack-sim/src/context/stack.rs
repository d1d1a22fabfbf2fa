//! The stack of contexts of each thread.

use super::Ctx;
use crate::machine::*;

impl Machine {
    pub(super) fn put_on_stack(&mut self, handle: Handle) {
        self.hold(handle);
        self.stack().push(handle);
    }

    pub(crate) fn push(&mut self, handle: Handle) -> Answer<()> {
        self.ready()?;
        if handle == 0 {
            return self.refuse(INVALID_VALUE, "cuCtxPushCurrent of NULL");
        }
        self.follow(handle, "cuCtxPushCurrent")?;
        self.keeps_green(handle)?;
        self.put_on_stack(handle);
        Ok(())
    }

    /// The driver makes a destroyed green context current again, and frees it for the second time when it is no longer.
    fn keeps_green(&mut self, handle: Handle) -> Answer<()> {
        if self.is_green(handle) && !self.get(handle).is_some_and(|context| context.alive) {
            return self.misuse(CONTEXT_IS_DESTROYED, "a destroyed green context is made current");
        }
        Ok(())
    }

    pub(crate) fn pop(&mut self) -> Answer<Handle> {
        self.ready()?;
        match self.stack().pop() {
            Some(handle) => {
                self.let_go(handle);
                Ok(handle)
            }
            None => self.refuse(INVALID_CONTEXT, "cuCtxPopCurrent: this thread's stack is empty"),
        }
    }

    /// Replaces the top, or makes the first entry; NULL pops the top.
    pub(crate) fn set(&mut self, handle: Handle) -> Answer<()> {
        self.ready()?;
        if handle != 0 {
            self.follow(handle, "cuCtxSetCurrent")?;
            self.keeps_green(handle)?;
            // Counted before the old one is released: they may be the same context.
            self.hold(handle);
        }
        if let Some(old) = self.stack().pop() {
            self.let_go(old);
        }
        if handle != 0 {
            self.stack().push(handle);
        }
        Ok(())
    }

    /// The top of this thread's stack, or 0.
    pub(crate) fn top(&mut self) -> Answer<Handle> {
        self.ready()?;
        Ok(self.stack().last().copied().unwrap_or(0))
    }

    /// The top of this thread's stack, alive or not; refused if the stack is empty.
    pub(crate) fn current_handle(&mut self) -> Answer<Handle> {
        match self.top()? {
            0 => self.refuse(INVALID_CONTEXT, "no context is current on this thread"),
            handle => Ok(handle),
        }
    }

    /// The current context; refused unless it is alive. While a green one is current, the primary one, with which it
    /// shares its settings.
    pub(crate) fn current(&mut self) -> Answer<&mut Ctx> {
        let handle = self.current_handle()?;
        self.living(handle)?;
        let base = self.base(handle);
        self.living(base)
    }

    /// The context of this handle; refused unless it is alive.
    pub(crate) fn living(&mut self, handle: Handle) -> Answer<&mut Ctx> {
        if !self.follow(handle, "a driver call")?.alive {
            return self.refuse(CONTEXT_IS_DESTROYED, format_args!("the context {handle:#x} is destroyed"));
        }
        self.get(handle).ok_or(INVALID_CONTEXT)
    }

    /// The context given as an argument, or the current one for NULL.
    pub(crate) fn given_or_current(&mut self, handle: Handle) -> Answer<Handle> {
        self.ready()?;
        if handle == 0 { self.current_handle() } else { Ok(handle) }
    }
}
