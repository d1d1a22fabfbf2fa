//! The handle of a graph or of an executable, which is destroyed on drop.

// Vouches for the handle that it holds; see the `SAFETY` lines.
#![allow(unsafe_code)]

use crate::context::{Pin, UnownedContext, must_retire, unbroken};
use crate::driver::{Driver, Held, driver, driver_to_drop};
use crate::error::{CudaError, CudaResult, keep_note};
use crate::liveness::retire;
use crate::report;
use crate::stream::Stream;
use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop};

/// A handle and the contexts of its nodes, which are kept at the driver: without them it would crash.
pub(super) struct Owned<H: Copy + 'static> {
    raw: H,
    /// The contexts of the nodes; the first is that of copies, fills and allocations.
    pins: Vec<Pin>,
    launched_in: Option<Box<LaunchedIn>>,
    kind: Kind<H>,
    /// Destroying failed, and may have taken effect.
    spent: bool,
    not_sync: PhantomData<Cell<()>>,
}

/// The other contexts in which an executable was launched. They may be gone for the program, but not for the driver.
#[derive(Default)]
struct LaunchedIn(Vec<Pin>);

/// What is destroyed, as reports name it, and how.
#[derive(Clone, Copy)]
pub(super) struct Kind<H: 'static> {
    pub(super) name: &'static str,
    pub(super) destroy: fn(&Driver, Held<'_, H>) -> CudaResult<()>,
}

// SAFETY: the driver's functions may be called on any thread; that it is not `Sync` ensures one thread at a time.
unsafe impl<H: Copy> Send for Owned<H> {}

impl<H: Copy + 'static> Owned<H> {
    /// Takes over a handle that nothing else uses or destroys.
    #[inline]
    pub(super) fn new(raw: H, pins: Vec<Pin>, kind: Kind<H>) -> Owned<H> {
        Owned { raw, pins, launched_in: None, kind, spent: false, not_sync: PhantomData }
    }

    #[inline]
    pub(super) fn raw(&self) -> H {
        self.raw
    }

    /// Gives the handle away.
    #[inline]
    pub(super) fn into_raw(self) -> H {
        let raw = self.raw;
        drop(self.give_up());
        raw
    }

    /// Gives the handle to whoever has it, too, and returns what keeps the contexts of its nodes.
    #[inline]
    pub(super) fn give_up(self) -> Vec<Pin> {
        let mut given = ManuallyDrop::new(self);
        drop(given.launched_in.take());
        mem::take(&mut given.pins)
    }

    #[inline]
    pub(super) fn context(&self) -> &UnownedContext {
        self.pins.first().map_or(UnownedContext::NONE, Pin::context)
    }

    #[inline]
    pub(super) fn contexts(&self) -> impl Iterator<Item = &UnownedContext> {
        self.pins.iter().map(Pin::context)
    }

    /// Calls `f` with the handle. The contexts of the nodes must be alive, and are kept at the driver.
    #[inline]
    pub(super) fn with<R>(&self, f: impl FnOnce(&Driver, Held<'_, H>) -> CudaResult<R>) -> CudaResult<R> {
        let driver = driver()?;
        f(driver, self.held()?)
    }

    /// Like [`with`](Self::with), with the first context current: without one the driver crashes on some nodes.
    #[inline]
    pub(super) fn inside<R>(&self, f: impl FnOnce(&Driver, Held<'_, H>) -> CudaResult<R>) -> CudaResult<R> {
        let held = self.held()?;
        self.context().inside(|driver| f(driver, held))
    }

    /// The handle, for the driver.
    #[inline]
    pub(super) fn held(&self) -> CudaResult<Held<'_, H>> {
        self.usable()?;
        // SAFETY: this value owns the handle, is borrowed, and keeps the contexts of the nodes at the driver.
        Ok(unsafe { Held::new(self.raw) })
    }

    #[inline]
    pub(super) fn usable(&self) -> CudaResult<()> {
        if self.spent {
            return Err(self.refusal());
        }
        self.pins.iter().try_for_each(|pin| pin.context().usable())
    }

    #[cold]
    fn refusal(&self) -> CudaError {
        let name = self.kind.name;
        CudaError::InvalidHandle.note(format_args!(
            "to use {name} that could not be destroyed, and may be destroyed all the same"
        ))
    }

    /// Pins on the same contexts, for something made from this.
    #[inline]
    pub(super) fn more_pins(&self) -> CudaResult<Vec<Pin>> {
        self.usable()?;
        self.pins.iter().map(Pin::another).collect()
    }

    /// Also keeps this context at the driver.
    #[inline]
    pub(super) fn pin(&mut self, context: &UnownedContext) -> CudaResult<()> {
        if self.contexts().any(|pinned| pinned == context) {
            return context.usable();
        }
        self.pins.push(context.pin()?);
        Ok(())
    }

    /// Keeps only the first contexts, after a call that failed before the graph had nodes of the others.
    #[inline]
    pub(super) fn unpin_after(&mut self, count: usize) {
        let _note = keep_note();
        self.pins.truncate(count);
    }

    /// Also keeps these contexts at the driver.
    #[inline]
    pub(super) fn add_pins(&mut self, pins: impl IntoIterator<Item = Pin>) {
        for pin in pins {
            if !self.contexts().any(|pinned| pinned == pin.context()) {
                self.pins.push(pin);
            }
        }
    }

    /// The contexts of the nodes. None is ever removed, and new ones come last.
    #[inline]
    pub(super) fn pins(&self) -> &[Pin] {
        &self.pins
    }

    /// Whether a node is of another context than the stream, which does not wait for the stream's work when it is
    /// destroyed.
    #[inline]
    pub(super) fn reaches_beyond(&self, stream: &Stream) -> bool {
        self.contexts().any(|context| context != stream.context())
    }

    /// Keeps the context of the stream at the driver: on an H200 destroying an executable crashed after a context was
    /// gone in which it had been launched. Simple programs do that without a crash, so it may not be the whole cause.
    #[inline]
    pub(super) fn launched_in(&mut self, stream: &Stream) -> CudaResult<()> {
        if self.keeps(stream.context()) { Ok(()) } else { self.also_in(stream) }
    }

    #[inline]
    fn keeps(&self, context: &UnownedContext) -> bool {
        let launched_in = self.launched_in.iter().flat_map(|others| &others.0);
        self.pins.iter().chain(launched_in).any(|pin| pin.context() == context)
    }

    #[cold]
    fn also_in(&mut self, stream: &Stream) -> CudaResult<()> {
        let context = stream.present_context()?;
        if !self.keeps(&context) {
            let pin = context.pin()?;
            self.launched_in.get_or_insert_default().0.push(pin);
        }
        Ok(())
    }

    /// The handle may no longer be given to the driver.
    #[inline]
    pub(super) fn spend(&mut self) {
        self.spent = true;
    }

    /// Destroys it by hand. Unless the driver refused the call, it is spent afterwards, because a call that failed may
    /// have done its work.
    #[inline]
    pub(super) fn destroy(&mut self) -> CudaResult<()> {
        if self.spent {
            return Ok(());
        }
        let destroyed = driver_to_drop().and_then(|driver| {
            // SAFETY: as in `held`; the pins keep the contexts at the driver even if their owners are gone.
            unbroken(driver, || (self.kind.destroy)(driver, unsafe { Held::new(self.raw) }))
        });
        self.spent = destroyed != Err(CudaError::NotPermitted);
        destroyed.or_else(|error| if error == CudaError::Deinitialized { Ok(()) } else { Err(error) })
    }

    /// The last attempt of a destructor.
    #[inline]
    fn destroy_at_last(mut self) {
        if let Err(error) = self.destroy() {
            // Otherwise dropping it would retire it again, and for ever if the driver goes on refusing.
            self.spent = true;
            self.report(error);
        }
    }

    #[inline]
    fn report(&self, error: CudaError) {
        report::warn(format_args!("{} could not be destroyed: {error:?}", self.kind.name));
    }
}

impl<H: Copy + 'static> Drop for Owned<H> {
    #[inline]
    fn drop(&mut self) {
        if self.spent {
            return;
        }
        let _note = keep_note();
        match if must_retire() { Err(CudaError::NotPermitted) } else { self.destroy() } {
            Ok(()) => {}
            Err(CudaError::NotPermitted) => {
                let mut other = Owned::new(self.raw, mem::take(&mut self.pins), self.kind);
                other.launched_in = self.launched_in.take();
                retire(move || other.destroy_at_last());
            }
            Err(error) => self.report(error),
        }
    }
}
