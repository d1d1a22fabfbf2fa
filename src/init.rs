//! Initialising the driver.

use crate::driver::driver;
use crate::error::CudaResult;
use bitflags::bitflags;

bitflags! {
    /// Flags for [`init`]; the driver defines none so far.
    pub struct CudaFlags: u32 {
        #[doc(hidden)]
        const _ZERO = 0;
    }
}

/// Initialises the driver. Every other call needs this; it may be called any number of times.
///
/// The first call loads the driver (see [`driver`](crate::driver)).
///
/// # Errors
///
/// * [`NoDriver`](crate::error::CudaError::NoDriver): no driver could be loaded; the error says what was tried.
/// * [`NoDevice`](crate::error::CudaError::NoDevice): the driver finds no device.
/// * [`InvalidValue`](crate::error::CudaError::InvalidValue): a flag is set; the driver defines none.
///
/// ```
/// custack::init(custack::CudaFlags::empty())?;
/// # Ok::<(), custack::error::CudaError>(())
/// ```
#[doc(alias = "cuInit")]
#[inline]
pub fn init(flags: CudaFlags) -> CudaResult<()> {
    driver()?.init(flags.bits())
}
