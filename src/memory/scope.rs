//! Copies in a stream, of memory that is borrowed until they are done.

// Submits copies of memory that is borrowed long enough.
#![allow(unsafe_code)]

use super::copies::AsyncCopyDestination;
use crate::error::CudaResult;
use crate::stream::SyncScope;

impl<'scope> SyncScope<'scope, '_> {
    /// Submits a copy to the device, from host or device memory, to the stream.
    ///
    /// # Errors
    ///
    /// Like [`AsyncCopyDestination::async_copy_from`].
    ///
    /// # Panics
    ///
    /// If the numbers of values differ.
    #[doc(alias("cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync_v2"))]
    #[inline]
    pub fn copy_from<O: ?Sized, D>(&'scope self, to: &'scope mut D, from: &'scope O) -> CudaResult<()>
    where
        D: AsyncCopyDestination<O> + ?Sized,
    {
        self.lend(|stream| {
            to.order_before(from, stream)?;
            // SAFETY: both are borrowed until the scope ends, the destination exclusively, and the copy is done then;
            // the stream waits for the streams in whose order the memory is.
            unsafe { to.async_copy_from(from, stream) }
        })
    }

    /// Submits a copy from the device, to host or device memory, to the stream.
    ///
    /// # Errors
    ///
    /// Like [`AsyncCopyDestination::async_copy_to`].
    ///
    /// # Panics
    ///
    /// If the numbers of values differ.
    #[doc(alias("cuMemcpyDtoHAsync", "cuMemcpyDtoHAsync_v2"))]
    #[inline]
    pub fn copy_to<O: ?Sized, D>(&'scope self, from: &'scope D, to: &'scope mut O) -> CudaResult<()>
    where
        D: AsyncCopyDestination<O> + ?Sized,
    {
        self.lend(|stream| {
            from.order_before(to, stream)?;
            // SAFETY: as above.
            unsafe { from.async_copy_to(to, stream) }
        })
    }
}
