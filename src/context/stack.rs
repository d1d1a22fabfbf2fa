//! [`ContextStack`]: the calling thread's stack of contexts.

use super::handle::{ContextHandle, UnownedContext};
use super::stack_ops;
use crate::driver::driver;
use crate::error::CudaResult;
use crate::shadow_stack::{self, Entry, How, Lines};
use std::fmt;
use std::panic::Location;
use std::ptr;

/// The calling thread's stack of contexts; the top one is current.
///
/// Pushing and popping by hand is for programs that keep the stack balanced themselves. Prefer
/// [`scoped`](UnownedContext::scoped) and [`enter`](UnownedContext::enter), which cannot leave it unbalanced.
#[derive(Debug)]
pub struct ContextStack;

impl ContextStack {
    /// Pops the top context off the calling thread's stack and returns a handle to it; the one below becomes current.
    ///
    /// # Errors
    ///
    /// * [`InvalidContext`](crate::error::CudaError::InvalidContext): the stack is empty.
    /// * [`HeldByGuard`](crate::error::CudaError::HeldByGuard): a living guard holds the top entry.
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags, ContextStack};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// let popped = ContextStack::pop()?;
    /// assert_eq!(popped, ctx.get_unowned());
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuCtxPopCurrent", "cuCtxPopCurrent_v2"))]
    #[inline]
    pub fn pop() -> CudaResult<UnownedContext> {
        stack_ops::pop().map(UnownedContext::from)
    }

    /// Pushes the context on the calling thread's stack; the same context may be pushed many times.
    ///
    /// # Errors
    ///
    /// * [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed): without a driver call.
    /// * [`InvalidValue`](crate::error::CudaError::InvalidValue): a null handle.
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags, ContextStack};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// ContextStack::push(&ctx)?;
    /// assert_eq!(ContextStack::depth(), 2);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuCtxPushCurrent", "cuCtxPushCurrent_v2"))]
    #[track_caller]
    #[inline]
    pub fn push<C: ContextHandle>(ctx: &C) -> CudaResult<()> {
        stack_ops::push(ctx.as_unowned().handle())
    }

    /// How many entries custack has recorded for the calling thread's stack.
    ///
    /// The driver has no such query; contexts that other code pushed are not counted.
    #[inline]
    pub fn depth() -> usize {
        shadow_stack::depth()
    }

    /// The calling thread's stack as custack recorded it, and what the driver says is current.
    ///
    /// # Errors
    ///
    /// Any error of the driver when it is asked which context is current.
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags, ContextStack};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// println!("{}", ContextStack::snapshot()?);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuCtxGetCurrent")]
    #[inline]
    pub fn snapshot() -> CudaResult<Snapshot> {
        let current = stack_ops::current(driver()?)?.into();
        let entries = shadow_stack::entries().into_iter().map(Noted::from).collect();
        Ok(Snapshot { entries, current })
    }
}

/// A thread's stack at one moment, from [`ContextStack::snapshot`]; `Display` prints one entry per line.
#[derive(Debug, Clone)]
pub struct Snapshot {
    entries: Vec<Noted>,
    current: UnownedContext,
}

/// An entry of the shadow stack, with its context as a public handle.
#[derive(Debug, Clone)]
struct Noted {
    context: UnownedContext,
    entry: Entry,
}

impl From<Entry> for Noted {
    #[inline]
    fn from(entry: Entry) -> Noted {
        Noted { context: entry.context.into(), entry }
    }
}

/// One entry of a [`Snapshot`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct SnapshotEntry<'a> {
    /// The context.
    pub context: &'a UnownedContext,
    /// How it came onto the stack.
    pub how: How,
    /// The location in the source where it was pushed.
    pub location: &'static Location<'static>,
    /// How many living guards hold it.
    pub guards: u32,
}

impl Snapshot {
    /// The entries, the top first.
    #[inline]
    pub fn entries(&self) -> impl ExactSizeIterator<Item = SnapshotEntry<'_>> {
        self.entries.iter().rev().map(|noted| SnapshotEntry {
            context: &noted.context,
            how: noted.entry.how,
            location: noted.entry.location,
            guards: noted.entry.guards,
        })
    }

    /// What the driver says is current.
    #[inline]
    pub fn current(&self) -> &UnownedContext {
        &self.current
    }

    /// Whether the top entry is what the driver says is current. If not, other code has changed the stack.
    ///
    /// A primary context that was released and retained again has the same driver handle as before, and agrees.
    #[inline]
    pub fn agrees(&self) -> bool {
        match self.entries.last() {
            Some(top) => ptr::eq(top.context.as_raw(), self.current.as_raw()),
            None => self.current.is_null(),
        }
    }
}

impl fmt::Display for Snapshot {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("without a name");
        if self.entries.is_empty() {
            write!(f, "the context stack of thread {name} is empty")?;
        } else {
            let entries: Vec<_> = self.entries.iter().map(|noted| noted.entry.clone()).collect();
            write!(f, "the context stack of thread {name}, top first:\n{}", Lines(&entries))?;
        }
        if self.agrees() {
            return Ok(());
        }
        write!(f, "\n  but current is {}: other code has changed the stack", self.current)
    }
}
