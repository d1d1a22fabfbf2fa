//! The loaded code that libraries, kernels, functions and variables share.

// Vouches for the handle that it holds; see the `SAFETY` lines.
#![allow(unsafe_code)]

use crate::context::{is_gone, must_retire, relax};
use crate::driver::ffi::CUlibrary;
use crate::driver::{Driver, Held, Jit, driver};
use crate::error::{CudaError, CudaResult, keep_note};
use crate::liveness::retire;
use crate::module::Kept;
use crate::report;

/// Loaded code, which is unloaded on drop.
#[derive(Debug)]
pub(crate) struct Loaded {
    raw: CUlibrary,
    /// The driver has the addresses of these buffers, and does not say how long it writes there.
    jit: Box<Jit>,
    /// The compiler's error message.
    complaint: Option<String>,
    /// Unloading failed, and may have taken effect.
    spent: bool,
}

// SAFETY: the driver's functions may be called on any thread, with the handles of any thread.
unsafe impl Send for Loaded {}
// SAFETY: as above, and on several threads at once.
unsafe impl Sync for Loaded {}

impl Kept for Loaded {}

impl Loaded {
    /// # Safety
    ///
    /// The handle is valid, nothing else unloads the library, and `jit` has the options that it was loaded with.
    #[inline]
    pub(super) unsafe fn new(raw: CUlibrary, jit: Jit) -> Loaded {
        Loaded { raw, complaint: jit.complaint(), jit: Box::new(jit), spent: false }
    }

    #[inline]
    pub(super) fn raw(&self) -> CUlibrary {
        self.raw
    }

    /// Calls `f` with the handle. A call that needs a context makes it current.
    #[inline]
    pub(super) fn with<R>(
        &self,
        f: impl FnOnce(&Driver, Held<'_, CUlibrary>) -> CudaResult<R>,
    ) -> CudaResult<R> {
        let driver = driver()?;
        if self.spent {
            return Err(CudaError::InvalidHandle
                .note(format_args!("to use a library that could not be unloaded, and may be all the same")));
        }
        // SAFETY: this value owns the handle, and is borrowed.
        f(driver, unsafe { Held::new(self.raw) })
    }

    /// Like [`with`](Self::with); an error of compiling, which the driver returns at the first use, gets the compiler's
    /// message.
    #[inline]
    pub(super) fn first_use<R>(
        &self,
        f: impl FnOnce(&Driver, Held<'_, CUlibrary>) -> CudaResult<R>,
    ) -> CudaResult<R> {
        self.with(f).map_err(|error| match error {
            CudaError::InvalidPtx | CudaError::UnsupportedPtxVersion | CudaError::NotSupported => {
                match &self.complaint {
                    Some(text) => error.note_instead(format_args!("to compile the library: {text}")),
                    None => error,
                }
            }
            _ => error,
        })
    }

    /// Unloads the code; on failure returns the error and the value. The value is then spent, because the call may have
    /// done its work, except where the driver refuses every call.
    #[inline]
    pub(super) fn unload(mut self) -> Result<(), (CudaError, Loaded)> {
        match self.unload_now() {
            Ok(()) => {
                self.spent = true;
                Ok(())
            }
            Err(error) => {
                self.spent = error != CudaError::NotPermitted;
                Err((error, self))
            }
        }
    }

    #[inline]
    fn unload_now(&self) -> CudaResult<()> {
        if self.spent {
            return Ok(());
        }
        let driver = driver()?;
        // Unloading breaks a capture, unless this thread is in the relaxed mode. A driver too old for that mode has no
        // libraries either.
        let _relaxed = relax(driver);
        // SAFETY: this value owns the handle.
        match driver.library_unload(unsafe { Held::new(self.raw) }) {
            Err(error) if !is_gone(error) => Err(error),
            _ => Ok(()),
        }
    }

    #[inline]
    fn report(error: CudaError) {
        report::warn(format_args!("a library could not be unloaded: {error:?}"));
    }
}

impl Drop for Loaded {
    #[inline]
    fn drop(&mut self) {
        if self.spent {
            return;
        }
        let _note = keep_note();
        match if must_retire() { Err(CudaError::NotPermitted) } else { self.unload_now() } {
            Ok(()) => {}
            Err(CudaError::NotPermitted) => {
                let jit = std::mem::take(&mut self.jit);
                let other = Loaded { raw: self.raw, jit, complaint: None, spent: false };
                retire(move || {
                    if let Err((error, other)) = other.unload() {
                        Loaded::report(error);
                        std::mem::forget(other);
                    }
                });
            }
            Err(error) => Loaded::report(error),
        }
    }
}
