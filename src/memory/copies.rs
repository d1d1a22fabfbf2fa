//! The traits for copies, and their implementation.

// Passes addresses to the driver; see the `SAFETY` lines.
#![allow(unsafe_code)]

use super::allocation::Allocation;
use super::given_away;
use crate::context::in_call::enter_legacy_stream;
use crate::context::{UnownedContext, refuse_by_default, refuse_in_context, refuse_unsafe, relax};
use crate::driver::{Driver, Fill, Held, Order};
use crate::error::{CudaError, CudaResult};
use crate::sealed::Sealed;
use crate::stream::{Shared, Stream};
use std::marker::PhantomData;
use std::mem;
use std::ptr;
use std::sync::Arc;

/// Copies between the host and the device that are done when the call returns, for every stream.
///
/// A copy from device memory to device memory of the same context may continue after the call has returned. Later work
/// of the context without a stream, or in a stream that is not
/// [`NON_BLOCKING`](crate::stream::StreamFlags::NON_BLOCKING), waits for it, and so does freeing either side.
///
/// Memory in the order of a stream is copied in that order, after the present work of the stream. The call waits for
/// the copy, even between two pieces of device memory.
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

/// Waits for a copy from the host's memory without a stream. From memory that is not page-locked the driver returns
/// before the device has the values, and streams that do not wait for the default stream would still find the old ones.
pub(crate) fn wait_for_copy(driver: &Driver) -> CudaResult<()> {
    // Without looking at an error, because the copy has begun.
    let _call = enter_legacy_stream(&UnownedContext::none());
    // The copy breaks no capture, so neither may this.
    let _relaxed = relax(driver);
    // SAFETY: null is the default stream of the context, which is current.
    driver.stream_synchronize(unsafe { Held::new(ptr::null_mut()) })
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

    /// Runs `f` in the context of the memory, or in the stream's, unless there is nothing to copy.
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

    /// Calls `f` with this stream; without one with the home of the memory, and then waits; else with no stream.
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
            let uncaptured = home.uncaptured(what)?;
            let done = home.with(|driver, stream| f(driver, Some(stream)));
            drop(uncaptured);
            // Also if the call failed, because it may have taken the work.
            return done.and(home.wait_for_own_work());
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
            unsafe { driver.copy_to_device(self.address, from.as_ptr().cast(), self.bytes(), order) }?;
            if order.is_none() { wait_for_copy(driver) } else { Ok(()) }
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
        let is_mixed = stream.is_none() && (self.home.is_some() || from.home.is_some());
        if is_mixed && self.count == from.count && self.bytes() > 0 {
            self.usable()?;
            from.wait_unless_in_order_of(&self)?;
        }
        let is_foreign = from.context != self.context;
        let _breaks = match stream {
            // The driver captures no copy between contexts.
            Some(stream)
                if is_foreign && self.bytes() > 0 && !from.context.is_null() && !self.context.is_null() =>
            {
                Some(stream.inner().enter_breaking("copy between two contexts")?)
            }
            _ => None,
        };
        self.copy(from.count, stream, |driver, order| {
            // A free in the order of a stream does not wait for work outside of streams.
            let waits = order.is_none() && (is_foreign || from.home.is_some());
            let what = "copy between two contexts";
            let _call = if waits { Some(refuse_in_context(&self.context, what)?) } else { None };
            // SAFETY: both sides have the same number of bytes; the caller guarantees how long they live.
            unsafe { self.copy_here(driver, &from, order) }?;
            // Freeing memory waits for the work of its own context only: the source might be freed, and its pages
            // unmapped, while this context still reads it.
            if waits { driver.ctx_synchronize() } else { Ok(()) }
        })
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
        match (&self.home, &other.home) {
            (Some(home), Some(other)) if Arc::ptr_eq(home, other) => Ok(()),
            (Some(home), _) => {
                refuse_unsafe("copy and wait for it")?;
                drop(home.enter_breaking("copy and wait for it")?);
                home.wait_for_own_work()
            }
            // An earlier copy to it without a stream may not be done yet.
            (None, _) => {
                refuse_unsafe("copy and wait for it")?;
                let _call = refuse_by_default(&self.context, "wait for the default stream")?;
                self.context.inside(wait_for_copy)
            }
        }
    }

    /// # Safety
    ///
    /// Like [`Driver::copy_on_device`].
    unsafe fn copy_here(&self, driver: &Driver, from: &DeviceSpan<T>, order: Order<'_>) -> CudaResult<()> {
        let (to, at, size) = (self.address, from.address, self.bytes());
        if from.context == self.context || from.context.is_null() || self.context.is_null() {
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
            unsafe { driver.fill(self.address, value, self.count, order) }
        })
    }
}
