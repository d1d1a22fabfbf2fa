//! The copying traits, and the copies behind them.

// Addresses go to the driver; see the `SAFETY` lines.
#![allow(unsafe_code)]

use super::allocations;
use crate::context::{Resource, UnownedContext};
use crate::driver::ffi::CUstream;
use crate::driver::{Driver, Order};
use crate::error::{CudaError, CudaResult};
use crate::private::Sealed;
use crate::stream::Stream;
use std::mem;

/// Copying between the host and the device, done when the call returns.
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

/// Values on the device: their address, and how many.
pub(super) struct There<T> {
    pub(super) address: *const T,
    pub(super) count: usize,
}

impl<T> Clone for There<T> {
    fn clone(&self) -> There<T> {
        *self
    }
}

impl<T> Copy for There<T> {}

/// Where slices of memory whose context is gone point to: nothing is ever allocated there.
pub(super) const GONE: usize = 0x1_0000;

impl<T> There<T> {
    fn bytes(self) -> usize {
        self.count * mem::size_of::<T>()
    }

    fn context(self) -> CudaResult<UnownedContext> {
        if self.address.addr() == GONE {
            return Err(CudaError::ContextIsDestroyed.note(format_args!("the memory's context")));
        }
        Ok(allocations::context_at(self.address.addr() as u64))
    }

    /// Does `f` in the context of the memory, or in the stream's, unless there is nothing to copy.
    fn copy(
        self,
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
        let context = self.context()?;
        let Some(stream) = stream else {
            return context.inside(|driver| f(driver, None));
        };
        if !context.is_null() && context != *stream.context() {
            let there = stream.context();
            return Err(CudaError::InvalidHandle
                .note(format_args!("to copy memory of {context} in a stream of {there}")));
        }
        let resource: &Resource<CUstream> = stream.inner();
        resource.with(|driver, stream| f(driver, Some(stream)))
    }

    /// # Safety
    ///
    /// Without a stream none: the lengths are compared, and the memory is the program's own. With one, what
    /// [`AsyncCopyDestination`] asks.
    pub(super) unsafe fn take(self, from: &[T], stream: Option<&Stream>) -> CudaResult<()> {
        self.copy(from.len(), stream, |driver, order| {
            // SAFETY: as many bytes on both sides; how long they stay is the caller's promise.
            unsafe { driver.copy_to_device(self.address as u64, from.as_ptr().cast(), self.bytes(), order) }
        })
    }

    /// # Safety
    ///
    /// As [`take`](Self::take); and what is there may be had as a `T`.
    pub(super) unsafe fn give(self, to: &mut [T], stream: Option<&Stream>) -> CudaResult<()> {
        self.copy(to.len(), stream, |driver, order| {
            // SAFETY: as many bytes on both sides; how long they stay is the caller's promise.
            unsafe { driver.copy_to_host(to.as_mut_ptr().cast(), self.address as u64, self.bytes(), order) }
        })
    }

    /// # Safety
    ///
    /// As [`take`](Self::take).
    pub(super) unsafe fn take_there(self, from: There<T>, stream: Option<&Stream>) -> CudaResult<()> {
        if from.bytes() > 0 {
            from.context()?.usable_or_none()?;
        }
        self.copy(from.count, stream, |driver, order| {
            let (to, from) = (self.address as u64, from.address as u64);
            // SAFETY: as many bytes on both sides; how long they stay is the caller's promise.
            unsafe { driver.copy_on_device(to, from, self.bytes(), order) }
        })
    }
}
