//! Libraries: device code that belongs to no context, and its kernels.
//!
//! A library is loaded once, without a context, and its kernels run in every context of every device (CUDA 12.0 and
//! later). The driver loads the code into a context when it is first used there, and unloads it with the context.
//!
//! ```
//! use custack::device::Device;
//! use custack::launch;
//! use custack::library::Library;
//! use custack::memory::{CopyDestination, DeviceBuffer};
//! use custack::module::JitOptions;
//! use custack::prelude::*;
//!
//! custack::init(CudaFlags::empty())?;
//! let ptx = b".version 7.0 .target sm_70 .address_size 64
//!     .visible .entry seven(.param .u64 to) {
//!         .reg .b64 %rd<3>;
//!         ld.param.u64 %rd1, [to];
//!         cvta.to.global.u64 %rd2, %rd1;
//!         st.global.u32 [%rd2], 7;
//!         ret;
//!     }";
//! let seven = Library::load(ptx, &JitOptions::new())?.kernel(c"seven")?;
//! for _ in 0..2 {
//!     let context = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
//!     let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
//!     let mut number = DeviceBuffer::from_slice(&[0u32])?;
//!     let function = seven.function_in(&context)?;
//!     // SAFETY: the kernel takes one address, and writes one number there.
//!     unsafe { launch!(function<<<1, 1, 0, stream>>>(number.as_device_ptr())) }?;
//!     stream.synchronize()?;
//!     let mut back = [0];
//!     number.copy_to(&mut back)?;
//!     assert_eq!(back, [7]);
//! }
//! # Ok::<(), custack::error::CudaError>(())
//! ```
//!
//! # A library, or a module
//!
//! Load a library for code that runs in several contexts or on several devices, that is kept in statics, or whose kernels are
//! passed around: nothing borrows it, and it outlives every context. Load a [`Module`](crate::module::Module) for code of one
//! context, on drivers before CUDA 12.0, and where the code must be on the device when loading returns, compiled with options
//! whose [log](crate::module::JitLog) is read at once; a function then costs no search for its context.
//!
//! # When code is unloaded
//!
//! The code stays loaded until its last user is dropped: the [`Library`] and its clones, every [`Kernel`], and every
//! function and variable of them. Unloading waits for running kernels, in every context. Functions and variables belong
//! to one context; once it is destroyed, they return [`ContextIsDestroyed`](CudaError::ContextIsDestroyed), and the
//! kernel can still be used in others.

// Vouches for the handles that it holds; see the `SAFETY` lines.
#![allow(unsafe_code)]

mod kernel;
mod loaded;
mod variable;

pub use kernel::Kernel;
pub use variable::ManagedVariable;

use crate::driver::driver;
use crate::driver::ffi::CUlibrary;
use crate::error::{CudaError, CudaResult, DropResult};
use crate::module::{JitError, JitLog, JitOptions, checked, padded};
use loaded::Loaded;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Device code that belongs to no context; see the [module](self). Clones share the code.
#[derive(Clone)]
pub struct Library {
    loaded: Arc<Loaded>,
}

impl Library {
    /// Loads PTX, a cubin or a fatbin from bytes. PTX may end with a NUL, but need not. No context is needed.
    ///
    /// If the code does not compile, loading may succeed, and the first use of a kernel or a variable returns the
    /// error; the error log of [`load_with_log`](Self::load_with_log) may have it already.
    ///
    /// # Errors
    ///
    /// [`InvalidImage`](CudaError::InvalidImage), before the driver is called, for an image that is neither text nor
    /// machine code, and for machine code that custack does not know (see
    /// [`load_unchecked`](Self::load_unchecked)); [`InvalidValue`](CudaError::InvalidValue) for
    /// an option that the driver does not know; [`CallRequiresNewerDriver`](CudaError::CallRequiresNewerDriver) before
    /// CUDA 12.0.
    #[doc(alias("cuLibraryLoadData", "load_library"))]
    #[inline]
    pub fn load(image: &[u8], options: &JitOptions) -> CudaResult<Library> {
        let loaded = Library::load_with_log(image, options).map_err(|refused| refused.error)?;
        Ok(loaded.0)
    }

    /// Like [`load`](Self::load), but also returns the compiler's logs, even if loading succeeds and the code does not
    /// compile.
    ///
    /// # Errors
    ///
    /// Those of [`load`](Self::load).
    #[doc(alias("cuLibraryLoadData", "load_library_with_options"))]
    #[inline]
    pub fn load_with_log(image: &[u8], options: &JitOptions) -> Result<(Library, JitLog), JitError> {
        // SAFETY: checked.
        unsafe { Library::load_padded(&checked(image)?, options) }
    }

    /// Like [`load_with_log`](Self::load_with_log), without a check of the image, as
    /// [`Module::load_unchecked`](crate::module::Module::load_unchecked).
    ///
    /// # Errors
    ///
    /// Those of the driver, with the compiler's logs.
    ///
    /// # Safety
    ///
    /// The image is what a compiler of NVIDIA's wrote, whole and unchanged, or PTX.
    #[doc(alias = "cuLibraryLoadData")]
    #[inline]
    pub unsafe fn load_unchecked(image: &[u8], options: &JitOptions) -> Result<(Library, JitLog), JitError> {
        // SAFETY: as the caller guarantees.
        unsafe { Library::load_padded(&padded(image), options) }
    }

    /// # Safety
    ///
    /// The image is checked or vouched for, and has zeros after it.
    #[inline]
    unsafe fn load_padded(image: &[u8], options: &JitOptions) -> Result<(Library, JitLog), JitError> {
        let (driver, mut jit) = (driver()?, options.to_driver()?);
        // SAFETY: as the caller guarantees. The options are kept as long as the library.
        match unsafe { driver.library_load_data(image.as_ptr().cast(), &mut jit) } {
            Ok(raw) => {
                let log = JitLog::of(jit.told());
                // SAFETY: just loaded, and given to nothing else.
                Ok((Library { loaded: Arc::new(unsafe { Loaded::new(raw, jit) }) }, log))
            }
            Err(error) => Err(JitError::new(error, JitLog::of(jit.told()))),
        }
    }

    /// Loads PTX, a cubin or a fatbin from a file, which custack reads itself.
    ///
    /// # Errors
    ///
    /// [`FileNotFound`](CudaError::FileNotFound), also for a file that cannot be read, with the reason; those of
    /// [`load`](Self::load).
    #[doc(alias("cuLibraryLoadFromFile", "cuLibraryLoadData", "load_library_from_file"))]
    #[inline]
    pub fn load_file(path: impl AsRef<Path>, options: &JitOptions) -> CudaResult<Library> {
        let path = path.as_ref();
        let image = std::fs::read(path).map_err(|reason| {
            CudaError::FileNotFound.note(format_args!("to read {}: {reason}", path.display()))
        })?;
        Library::load(&image, options)
    }

    /// The number of kernels in the code (CUDA 12.4 and later).
    ///
    /// # Errors
    ///
    /// [`CallRequiresNewerDriver`](CudaError::CallRequiresNewerDriver).
    #[doc(alias = "cuLibraryGetKernelCount")]
    #[inline]
    pub fn kernel_count(&self) -> CudaResult<u32> {
        self.loaded.with(|driver, library| driver.library_get_kernel_count(library))
    }

    /// The driver's handle, valid as long as the code is loaded.
    #[inline]
    pub fn as_raw(&self) -> CUlibrary {
        self.loaded.raw()
    }

    /// Unloads the code if nothing else uses it; if that fails, returns the error and the library. Otherwise its last
    /// user unloads it when it is dropped.
    ///
    /// # Errors
    ///
    /// Any error of the driver. The returned library refuses every call, because the driver may have unloaded it all
    /// the same; only after [`NotPermitted`](CudaError::NotPermitted) is it unchanged.
    #[doc(alias = "cuLibraryUnload")]
    #[inline]
    pub fn drop(library: Library) -> DropResult<Library> {
        let Some(loaded) = Arc::into_inner(library.loaded) else { return Ok(()) };
        loaded.unload().map_err(|(error, loaded)| (error, Library { loaded: Arc::new(loaded) }))
    }
}

impl fmt::Debug for Library {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library").field("raw", &self.as_raw()).finish()
    }
}
