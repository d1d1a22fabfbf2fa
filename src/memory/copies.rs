//! The traits for copies, and their implementation.

// Passes addresses to the driver; see the `SAFETY` lines.
#![allow(unsafe_code)]

use super::allocation::Allocation;
use super::given_away;
use crate::context::{
    UnownedContext, ask_until_over, refuse_by_default, refuse_in_context, refuse_unsafe, relax,
};
use crate::driver::{Driver, Fill, Held, Order};
use crate::error::{CudaError, CudaResult};
use crate::sealed::Sealed;
use crate::stream::{Shared, Stream};
use std::marker::PhantomData;
use std::mem;
use std::ptr;
use std::sync::Arc;

/// Copies that are done when the call returns, for every stream: between the host and the device,
/// and on the device.
///
/// A copy comes after the present work of the default stream, and so of the streams that are not
/// [`NON_BLOCKING`](crate::stream::StreamFlags::NON_BLOCKING). Memory in the order of a stream is
/// copied in that order instead, after the present work of the stream.
pub trait CopyDestination<O: ?Sized>: Sealed {
    /// Copies from `source`, which has the same number of values.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed), or any error of the driver.
    ///
    /// # Panics
    ///
    /// If the numbers of values differ.
    #[doc(alias("cuMemcpyHtoD", "cuMemcpyDtoD", "cuMemcpyPeer"))]
    fn copy_from(&mut self, source: &O) -> CudaResult<()>;

    /// Copies to `dest`, which has the same number of values.
    ///
    /// # Errors
    ///
    /// Those of [`copy_from`](Self::copy_from).
    ///
    /// # Panics
    ///
    /// If the numbers of values differ.
    #[doc(alias("cuMemcpyDtoH", "cuMemcpyDtoD"))]
    fn copy_to(&self, dest: &mut O) -> CudaResult<()>;
}

/// Copies in a stream, while the program continues.
pub trait AsyncCopyDestination<O: ?Sized>: Sealed {
    /// Submits a copy from `source` to the stream.
    ///
    /// # Errors
    ///
    /// Those of [`CopyDestination::copy_from`]; [`InvalidHandle`](CudaError::InvalidHandle) if the stream belongs to
    /// another context.
    ///
    /// # Panics
    ///
    /// If the numbers of values differ.
    ///
    /// # Safety
    ///
    /// Neither side is freed, and the source not written and the destination not used, until the copy is done. Memory
    /// in the order of the same stream, or [used in](super::DeviceBuffer::also_used_in) it, may be dropped at once.
    #[doc(alias("cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoDAsync", "cuMemcpyDtoDAsync_v2"))]
    #[doc(alias("cuMemcpyPeerAsync"))]
    unsafe fn async_copy_from(&mut self, source: &O, stream: &Stream) -> CudaResult<()>;

    /// Submits a copy to `dest` to the stream.
    ///
    /// # Errors
    ///
    /// Like [`async_copy_from`](Self::async_copy_from).
    ///
    /// # Panics
    ///
    /// If the numbers of values differ.
    ///
    /// # Safety
    ///
    /// Like [`async_copy_from`](Self::async_copy_from).
    #[doc(alias("cuMemcpyDtoHAsync", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync", "cuMemcpyDtoDAsync_v2"))]
    unsafe fn async_copy_to(&self, dest: &mut O, stream: &Stream) -> CudaResult<()>;

    /// Makes the stream wait for the streams in whose order the memory on both sides is.
    #[doc(hidden)]
    fn order_before(&self, other: &O, stream: &Stream) -> CudaResult<()>;
}

/// Waits for what was issued without a stream, whatever fails and however often.
///
/// The driver returns before the device has filled memory, copied on the device, or copied from
/// memory that is not page-locked. Streams that do not wait for the default stream would find the
/// old values, and memory could be freed while it is read. A call that failed may have begun its
/// work, unless a capture forbade it. Work in a stream is not waited for.
pub(crate) fn finish(issued: CudaResult<()>, driver: &Driver, order: Order<'_>) -> CudaResult<()> {
    if order.is_some() || issued.is_err_and(CudaError::is_of_capture) {
        return issued;
    }
    // The work breaks no capture, so neither may this.
    let _relaxed = relax(driver);
    // A capture may have begun while the call was blocked in the driver. So each question is refused
    // while there is one, and is published for itself.
    let (current, what) = (UnownedContext::none(), "wait for work without a stream");
    let the_stream = || {
        let _call = refuse_by_default(&current, what)?;
        // SAFETY: null is the default stream of the context, which is current.
        driver.stream_synchronize(unsafe { Held::new(ptr::null_mut()) })
    };
    let the_context = || {
        let _call = refuse_in_context(&current, what)?;
        driver.ctx_synchronize()
    };
    let waited = the_stream().or_else(|error| {
        let asked = ask_until_over(&[&the_stream, &the_context], None);
        if error.is_of_capture() && asked.is_ok() { asked } else { Err(error) }
    });
    issued.and(waited)
}

/// A part of device memory: its address, the number of values, and its context.
pub(super) struct DeviceSpan<T> {
    pub(super) address: u64,
    pub(super) count: usize,
    /// Null for memory that custack did not allocate.
    pub(super) context: UnownedContext,
    /// The stream in whose order the memory is.
    home: Option<Arc<Shared>>,
    /// Freeing it failed and may have taken effect.
    spent: bool,
    values: PhantomData<T>,
}

impl<T> DeviceSpan<T> {
    /// The value of a box.
    pub(super) fn of(memory: &Allocation) -> DeviceSpan<T> {
        let spent = memory.is_spent() && mem::size_of::<T>() > 0;
        let home = memory.home().map(|home| Arc::clone(home.stream()));
        DeviceSpan { spent, home, ..DeviceSpan::new(memory.address(), 1, memory.context().clone()) }
    }

    /// `count` values in memory of this context. If the context is null, it is looked up among the memory that was
    /// given away.
    pub(super) fn new(address: u64, count: usize, context: UnownedContext) -> DeviceSpan<T> {
        let context = if context.is_null() { given_away::context_at(address) } else { context };
        DeviceSpan { address, count, context, home: None, spent: false, values: PhantomData }
    }

    /// `count` values in memory in the order of this stream.
    pub(super) fn in_order(address: u64, count: usize, home: Arc<Shared>) -> DeviceSpan<T> {
        let context = home.context().clone();
        DeviceSpan { address, count, context, home: Some(home), spent: false, values: PhantomData }
    }

    fn bytes(&self) -> usize {
        self.count * mem::size_of::<T>()
    }

    pub(super) fn usable(&self) -> CudaResult<()> {
        if self.spent {
            return Err(CudaError::InvalidHandle
                .note(format_args!("to use memory that could not be freed, and may be freed all the same")));
        }
        if self.context.is_null() { Ok(()) } else { self.context.usable() }
    }

    /// Runs `f` as [`in_stream`](Self::in_stream) does, unless there is nothing to copy.
    fn copy(
        &self,
        other: usize,
        stream: Option<&Stream>,
        f: impl FnOnce(&Driver, Order<'_>) -> CudaResult<()>,
    ) -> CudaResult<()> {
        let count = self.count;
        assert!(
            count == other,
            "the numbers of values differ: {count} in the device's memory, {other} on the other side"
        );
        if self.bytes() == 0 {
            return Ok(());
        }
        self.in_stream(stream, f)
    }

    /// Calls `f` with this stream; without one with the home of the memory, and then waits; else
    /// with no stream. Then `f` [waits](finish), unless the driver does.
    pub(super) fn in_stream(
        &self,
        stream: Option<&Stream>,
        f: impl FnOnce(&Driver, Order<'_>) -> CudaResult<()>,
    ) -> CudaResult<()> {
        self.usable()?;
        let Some(stream) = stream else {
            let Some(home) = &self.home else {
                let _call = refuse_by_default(&self.context, "copy without a stream")?;
                return self.context.inside(|driver| f(driver, None));
            };
            let what = "copy and wait for it";
            refuse_unsafe(what)?;
            // The owner of the context may be dropped before the wait.
            let pin = home.context().pin()?;
            let uncaptured = home.uncaptured(what)?;
            let mut asked = false;
            let done = home.with(|driver, stream| {
                asked = true;
                f(driver, Some(stream))
            });
            drop(uncaptured);
            if !asked || done == Err(CudaError::NotPermitted) {
                return done;
            }
            // Also if the call failed, because it may have taken the work.
            return done.and(home.wait_until_over(&pin));
        };
        if !self.context.is_null() && !self.context.shares_with(stream.context()) {
            let (memory, stream) = (&self.context, stream.context());
            return Err(CudaError::InvalidHandle
                .note(format_args!("to copy memory of {memory} in a stream of {stream}")));
        }
        let _call;
        if stream.is_legacy() {
            _call = stream.refuse_by_default("copy in a legacy stream")?;
        }
        // The driver needs no context to be current for work in a stream.
        stream.inner().with(|driver, stream| f(driver, Some(stream)))
    }

    /// # Safety
    ///
    /// Without a stream there is no condition: the lengths are compared, and the memory is borrowed. With a stream, the
    /// conditions of [`AsyncCopyDestination`].
    pub(super) unsafe fn write(self, from: &[T], stream: Option<&Stream>) -> CudaResult<()> {
        self.copy(from.len(), stream, |driver, order| {
            // SAFETY: both sides have the same number of bytes; the caller guarantees how long they live.
            let issued =
                unsafe { driver.copy_to_device(self.address, from.as_ptr().cast(), self.bytes(), order) };
            finish(issued, driver, order)
        })
    }

    /// # Safety
    ///
    /// As for [`write`](Self::write), and the memory is initialised and valid for `T`.
    pub(super) unsafe fn read(self, to: &mut [T], stream: Option<&Stream>) -> CudaResult<()> {
        self.copy(to.len(), stream, |driver, order| {
            // SAFETY: both sides have the same number of bytes; the caller guarantees how long they live.
            unsafe { driver.copy_to_host(to.as_mut_ptr().cast(), self.address, self.bytes(), order) }
        })
    }

    /// # Safety
    ///
    /// As for [`write`](Self::write).
    pub(super) unsafe fn write_from_device(
        self,
        from: DeviceSpan<T>,
        stream: Option<&Stream>,
    ) -> CudaResult<()> {
        if from.bytes() > 0 {
            from.usable()?;
        }
        let is_mixed = stream.is_none() && from.home.is_some();
        if is_mixed && self.count == from.count && self.bytes() > 0 {
            self.usable()?;
            from.wait_unless_in_order_of(&self)?;
        }
        let is_foreign = self.is_foreign_to(&from) && self.bytes() > 0;
        let what = "copy between two contexts";
        let _breaks = match stream {
            // The driver captures no copy between contexts.
            Some(stream) if is_foreign => Some(stream.inner().enter_breaking(what)?),
            // It comes after the work of both.
            None if is_foreign && self.home.is_none() => Some(refuse_by_default(&from.context, what)?),
            _ => None,
        };
        self.copy(from.count, stream, |driver, order| {
            // SAFETY: both sides have the same number of bytes; the caller guarantees how long they live.
            finish(unsafe { self.copy_here(driver, &from, order) }, driver, order)
        })
    }

    /// Whether the two are of contexts that are known, and differ.
    fn is_foreign_to(&self, other: &DeviceSpan<T>) -> bool {
        let (own, other) = (&self.context, &other.context);
        own != other && !own.is_null() && !other.is_null()
    }

    /// Makes the stream wait for the home of the memory, if that is another stream.
    pub(super) fn order_before(&self, stream: &Stream) -> CudaResult<()> {
        match &self.home {
            Some(home) if !Arc::ptr_eq(home, stream.inner()) => {
                let what = "use memory of another stream";
                let _uncaptured = (home.uncaptured(what)?, stream.inner().uncaptured(what)?);
                home.before(stream.inner())
            }
            _ => Ok(()),
        }
    }

    /// Waits for the home of this memory, unless the other memory has the same home.
    fn wait_unless_in_order_of(&self, other: &DeviceSpan<T>) -> CudaResult<()> {
        let Some(home) = &self.home else { return Ok(()) };
        if other.home.as_ref().is_some_and(|other| Arc::ptr_eq(home, other)) {
            return Ok(());
        }
        let what = "copy and wait for it";
        refuse_unsafe(what)?;
        drop(home.enter_breaking(what)?);
        home.wait_until_over(&home.context().pin()?)
    }

    /// # Safety
    ///
    /// Like [`Driver::copy_on_device`].
    unsafe fn copy_here(&self, driver: &Driver, from: &DeviceSpan<T>, order: Order<'_>) -> CudaResult<()> {
        let (to, at, size) = (self.address, from.address, self.bytes());
        if !self.is_foreign_to(from) {
            // SAFETY: as the caller guarantees.
            return unsafe { driver.copy_on_device(to, at, size, order) };
        }
        let (source, own) = (from.context.lease()?, self.context.lease()?);
        // SAFETY: as the caller guarantees; each address is of its context.
        unsafe { driver.copy_peer((to, own.live()), (at, source.live()), size, order) }
    }

    /// # Safety
    ///
    /// Like [`write`](Self::write); the values have the width of the fill's elements.
    pub(super) unsafe fn fill(self, value: Fill, stream: Option<&Stream>) -> CudaResult<()> {
        if self.count == 0 {
            return Ok(());
        }
        self.in_stream(stream, |driver, order| {
            // SAFETY: the memory has this many elements; the caller guarantees how long it lives.
            finish(unsafe { driver.fill(self.address, value, self.count, order) }, driver, order)
        })
    }
}
