//! Copies in a stream, of memory that is borrowed until the stream is there.

// Has copies made whose ends are borrowed long enough.
#![allow(unsafe_code)]

use super::copies::AsyncCopyDestination;
use crate::error::CudaResult;
use crate::stream::SyncScope;

impl<'scope> SyncScope<'scope, '_> {
    /// Gives the stream a copy to the device, from host memory or other memory of the device.
    ///
    /// # Errors
    ///
    /// Like [`AsyncCopyDestination::async_copy_from`].
    ///
    /// # Panics
    ///
    /// If the numbers of values differ.
    #[doc(alias("cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync_v2"))]
    pub fn copy_from<O: ?Sized, D>(&'scope self, to: &'scope mut D, from: &'scope O) -> CudaResult<()>
    where
        D: AsyncCopyDestination<O> + ?Sized,
    {
        self.lend(|stream| {
            to.order_before(from, stream)?;
            // SAFETY: both are borrowed until the scope ends, the destination for nobody else, and the stream is there
            // then; it comes after the streams that the memory is in the order of.
            unsafe { to.async_copy_from(from, stream) }
        })
    }

    /// Gives the stream a copy from the device, to host memory or other memory of the device.
    ///
    /// # Errors
    ///
    /// Like [`AsyncCopyDestination::async_copy_to`].
    ///
    /// # Panics
    ///
    /// If the numbers of values differ.
    #[doc(alias("cuMemcpyDtoHAsync", "cuMemcpyDtoHAsync_v2"))]
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
