//! The copying traits, and the copies behind them.

// Addresses go to the driver; see the `SAFETY` lines.
#![allow(unsafe_code)]

use super::allocation::Allocation;
use super::given_away;
use crate::context::{UnownedContext, refuse_by_default, refuse_in_current};
use crate::driver::{Driver, Order};
use crate::error::{CudaError, CudaResult};
use crate::sealed::Sealed;
use crate::stream::Stream;
use std::marker::PhantomData;
use std::mem;

/// Copying between the host and the device, done when the call returns.
///
/// A copy from device memory to device memory of the same context may go on after the call has returned. What the
/// context does later without a stream, or in a stream that is not
/// [`NON_BLOCKING`](crate::stream::StreamFlags::NON_BLOCKING), comes after it, and so does freeing either side.
pub trait CopyDestination<O: ?Sized>: Sealed {
    /// Copies from `source`, which has as many values.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed); what the driver answers.
    ///
    /// # Panics
    ///
    /// If the numbers of values differ.
    #[doc(alias("cuMemcpyHtoD", "cuMemcpyDtoD"))]
    fn copy_from(&mut self, source: &O) -> CudaResult<()>;

    /// Copies to `dest`, which has as many values.
    ///
    /// # Errors
    ///
    /// As [`copy_from`](Self::copy_from).
    ///
    /// # Panics
    ///
    /// If the numbers of values differ.
    #[doc(alias("cuMemcpyDtoH", "cuMemcpyDtoD"))]
    fn copy_to(&self, dest: &mut O) -> CudaResult<()>;
}

/// Copying in a stream, while the program goes on.
pub trait AsyncCopyDestination<O: ?Sized>: Sealed {
    /// Gives the stream a copy from `source`.
    ///
    /// # Errors
    ///
    /// As [`CopyDestination::copy_from`]; [`InvalidHandle`](CudaError::InvalidHandle) if the stream is of another
    /// context.
    ///
    /// # Panics
    ///
    /// If the numbers of values differ.
    ///
    /// # Safety
    ///
    /// Neither side is freed, and the source not written and the destination not used, until the stream is there.
    #[doc(alias("cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoDAsync", "cuMemcpyDtoDAsync_v2"))]
    unsafe fn async_copy_from(&mut self, source: &O, stream: &Stream) -> CudaResult<()>;

    /// Gives the stream a copy to `dest`.
    ///
    /// # Errors
    ///
    /// As [`async_copy_from`](Self::async_copy_from).
    ///
    /// # Panics
    ///
    /// If the numbers of values differ.
    ///
    /// # Safety
    ///
    /// As [`async_copy_from`](Self::async_copy_from).
    #[doc(alias("cuMemcpyDtoHAsync", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync", "cuMemcpyDtoDAsync_v2"))]
    unsafe fn async_copy_to(&self, dest: &mut O, stream: &Stream) -> CudaResult<()>;
}

/// Some device memory: where it is, how many values, and the context that it is of.
pub(super) struct DeviceSpan<T> {
    pub(super) address: u64,
    pub(super) count: usize,
    /// Null for memory that custack does not know.
    pub(super) context: UnownedContext,
    /// Freeing it failed, and may have taken effect.
    spent: bool,
    values: PhantomData<T>,
}

impl<T> DeviceSpan<T> {
    /// The one value of a box.
    pub(super) fn of(memory: &Allocation) -> DeviceSpan<T> {
        let spent = memory.is_spent() && mem::size_of::<T>() > 0;
        DeviceSpan { spent, ..DeviceSpan::new(memory.address(), 1, memory.context().clone()) }
    }

    /// `count` values in memory of this context. A null one is looked for among what was given away.
    pub(super) fn new(address: u64, count: usize, context: UnownedContext) -> DeviceSpan<T> {
        let context = if context.is_null() { given_away::context_at(address) } else { context };
        DeviceSpan { address, count, context, spent: false, values: PhantomData }
    }

    fn bytes(&self) -> usize {
        self.count * mem::size_of::<T>()
    }

    fn usable(&self) -> CudaResult<()> {
        if self.spent {
            return Err(CudaError::InvalidHandle
                .note(format_args!("to use memory that could not be freed, and may be freed all the same")));
        }
        if self.context.is_null() { Ok(()) } else { self.context.usable() }
    }

    /// Does `f` in the context of the memory, or in the stream's, unless there is nothing to copy.
    fn copy(
        &self,
        other: usize,
        stream: Option<&Stream>,
        f: impl FnOnce(&Driver, Order<'_>) -> CudaResult<()>,
    ) -> CudaResult<()> {
        assert!(
            self.count == other,
            "destination and source slices have different lengths: {} and {other}",
            self.count
        );
        if self.bytes() == 0 {
            return Ok(());
        }
        self.usable()?;
        let Some(stream) = stream else {
            refuse_by_default(&self.context, "copy without a stream")?;
            return self.context.inside(|driver| f(driver, None));
        };
        if !self.context.is_null() && self.context != *stream.context() {
            let (memory, stream) = (&self.context, stream.context());
            return Err(CudaError::InvalidHandle
                .note(format_args!("to copy memory of {memory} in a stream of {stream}")));
        }
        stream.refuse_by_default("copy in a legacy stream")?;
        stream.inner().with_current(|driver, stream| f(driver, Some(stream)))
    }

    /// # Safety
    ///
    /// Without a stream none: the lengths are compared, and the memory is the program's own. With one, what
    /// [`AsyncCopyDestination`] asks.
    pub(super) unsafe fn write(self, from: &[T], stream: Option<&Stream>) -> CudaResult<()> {
        self.copy(from.len(), stream, |driver, order| {
            // SAFETY: as many bytes on both sides; how long they stay is the caller's promise.
            unsafe { driver.copy_to_device(self.address, from.as_ptr().cast(), self.bytes(), order) }
        })
    }

    /// # Safety
    ///
    /// As [`write`](Self::write); and what is there is initialised and valid for `T`.
    pub(super) unsafe fn read(self, to: &mut [T], stream: Option<&Stream>) -> CudaResult<()> {
        self.copy(to.len(), stream, |driver, order| {
            // SAFETY: as many bytes on both sides; how long they stay is the caller's promise.
            unsafe { driver.copy_to_host(to.as_mut_ptr().cast(), self.address, self.bytes(), order) }
        })
    }

    /// # Safety
    ///
    /// As [`write`](Self::write).
    pub(super) unsafe fn write_from_device(
        self,
        from: DeviceSpan<T>,
        stream: Option<&Stream>,
    ) -> CudaResult<()> {
        if from.bytes() > 0 {
            from.usable()?;
        }
        self.copy(from.count, stream, |driver, order| {
            let waits = order.is_none() && from.context != self.context;
            if waits {
                refuse_in_current("copy between two contexts")?;
            }
            // SAFETY: as many bytes on both sides; how long they stay is the caller's promise.
            unsafe { driver.copy_on_device(self.address, from.address, self.bytes(), order) }?;
            // Freeing memory waits for the work of its own context, and for no other's: the source might be freed, and
            // its pages unmapped, while this context yet reads it.
            if waits { driver.ctx_synchronize() } else { Ok(()) }
        })
    }
}
