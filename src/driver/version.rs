//! The versions of the driver and of a context's interface.

use crate::error::CudaResult;
use std::fmt;

/// A CUDA version, such as 13.0.
#[derive(Debug, Hash, Eq, PartialEq, Ord, PartialOrd, Copy, Clone)]
pub struct CudaApiVersion {
    version: i32,
}

impl CudaApiVersion {
    /// The newest version that the driver supports; works before [`init`](crate::init).
    ///
    /// # Errors
    ///
    /// [`NoDriver`](crate::error::CudaError::NoDriver) if none could be loaded.
    ///
    /// ```
    /// let version = custack::CudaApiVersion::get()?;
    /// assert!(version.major() >= 10);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuDriverGetVersion")]
    pub fn get() -> CudaResult<CudaApiVersion> {
        super::driver()?.version()
    }

    /// The major version: 13 for 13.0.
    pub fn major(self) -> i32 {
        self.version / 1000
    }

    /// The minor version: 0 for 13.0.
    pub fn minor(self) -> i32 {
        (self.version % 1000) / 10
    }

    pub(crate) fn from_raw(version: i32) -> CudaApiVersion {
        CudaApiVersion { version }
    }
}

impl fmt::Display for CudaApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major(), self.minor())
    }
}
