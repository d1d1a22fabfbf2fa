//! Kernels of libraries.

// Vouches for the handle that it holds; see the `SAFETY` lines.
#![allow(unsafe_code)]

use super::Library;
use super::loaded::Loaded;
use crate::context::UnownedContext;
use crate::driver::ffi::{CUfunction, CUkernel};
use crate::driver::{Driver, Held, KernelName, read, write};
use crate::error::CudaResult;
use std::ffi::{CStr, CString};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock, RwLock};

/// A kernel of a [`Library`], which it keeps loaded. Clones are the same kernel.
#[derive(Clone)]
pub struct Kernel {
    found: Arc<Found>,
}

struct Found {
    raw: CUkernel,
    name: CString,
    label: KernelName,
    library: Library,
    /// The functions in the contexts that it was used in.
    functions: RwLock<Vec<InContext>>,
    parameters: OnceLock<Option<Box<[usize]>>>,
}

#[derive(Debug)]
struct InContext {
    context: UnownedContext,
    function: CUfunction,
}

// SAFETY: the driver's functions may be called on any thread, with the handles of any thread.
unsafe impl Send for Found {}
// SAFETY: as above, and on several threads at once.
unsafe impl Sync for Found {}

impl Library {
    /// A kernel of the library.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::error::CudaError::NotFound); the errors of compiling, if the driver compiles the code only
    /// now.
    #[doc(alias = "cuLibraryGetKernel")]
    #[inline]
    pub fn kernel(&self, name: &CStr) -> CudaResult<Kernel> {
        let raw = self.loaded.first_use(|driver, library| driver.library_get_kernel(library, name));
        let raw = raw.inspect_err(|error| {
            error.note_before(format_args!("to find the kernel {name:?}"));
        })?;
        Ok(Kernel::of(raw, name.to_owned(), self))
    }

    /// All kernels of the library, in no particular order (CUDA 12.4 and later).
    ///
    /// # Errors
    ///
    /// [`CallRequiresNewerDriver`](crate::error::CudaError::CallRequiresNewerDriver); the errors of compiling, if the
    /// driver compiles the code only now.
    #[doc(alias("cuLibraryEnumerateKernels", "cuKernelGetName"))]
    #[inline]
    pub fn kernels(&self) -> CudaResult<Vec<Kernel>> {
        self.loaded.with(|driver, library| {
            let count = driver.library_get_kernel_count(library)?;
            let found = driver.library_enumerate_kernels(library, count)?;
            let named = found.into_iter().map(|raw| {
                // SAFETY: a kernel lives as long as its library, which is borrowed.
                let name = driver.kernel_get_name(unsafe { Held::new(raw) })?;
                Ok(Kernel::of(raw, name, self))
            });
            named.collect()
        })
    }
}

impl Kernel {
    #[inline]
    fn of(raw: CUkernel, name: CString, library: &Library) -> Kernel {
        let (library, label) = (library.clone(), KernelName::new(&name));
        let (functions, parameters) = (RwLock::default(), OnceLock::new());
        Kernel { found: Arc::new(Found { raw, name, label, library, functions, parameters }) }
    }

    /// Its name.
    #[doc(alias = "cuKernelGetName")]
    #[inline]
    pub fn name(&self) -> &CStr {
        &self.found.name
    }

    /// Its name in errors.
    #[inline]
    pub(crate) fn known_name(&self) -> KernelName {
        self.found.label
    }

    /// Its library.
    #[doc(alias = "cuKernelGetLibrary")]
    #[inline]
    pub fn library(&self) -> &Library {
        &self.found.library
    }

    /// The driver's handle, valid as long as the code is loaded.
    #[inline]
    pub fn as_raw(&self) -> CUkernel {
        self.found.raw
    }

    #[inline]
    pub(crate) fn loaded(&self) -> &Arc<Loaded> {
        &self.found.library.loaded
    }

    #[inline]
    pub(crate) fn with<R>(
        &self,
        f: impl FnOnce(&Driver, Held<'_, CUkernel>) -> CudaResult<R>,
    ) -> CudaResult<R> {
        // SAFETY: a kernel lives as long as its library, which this keeps.
        self.loaded().with(|driver, _| f(driver, unsafe { Held::new(self.found.raw) }))
    }

    /// The byte range of each parameter in the parameter buffer; `None` if the driver is too old to say (before CUDA
    /// 12.4). A context must be current.
    ///
    /// # Errors
    ///
    /// [`InvalidContext`](crate::error::CudaError::InvalidContext) if no context is current.
    #[doc(alias = "cuKernelGetParamInfo")]
    #[inline]
    pub fn parameters(&self) -> CudaResult<Option<Vec<Range<usize>>>> {
        self.with(|driver, kernel| driver.kernel_get_parameters(kernel))
    }

    /// The sizes of its parameters, in bytes, if they are known, which is so once it has a function in some context.
    #[inline]
    pub(crate) fn known_parameters(&self) -> Option<&[usize]> {
        self.found.parameters.get()?.as_deref()
    }

    /// Its function in this context, which the driver is asked for once.
    #[inline]
    pub(crate) fn raw_function_in(&self, context: &UnownedContext) -> CudaResult<CUfunction> {
        context.usable()?;
        if let Some(function) = self.kept(context) {
            return Ok(function);
        }
        let asked = context.inside(|driver| {
            let function = self.with(Driver::kernel_get_function)?;
            if self.found.parameters.get().is_none() {
                // SAFETY: a function lives as long as its library and its context, which are held.
                let sizes = driver.func_get_param_sizes(unsafe { Held::new(function) });
                let _ = self.found.parameters.set(sizes);
            }
            Ok(function)
        });
        let function = asked.inspect_err(|error| {
            error.note_before(format_args!("to use the kernel {:?} in {context}", self.name()));
        })?;
        self.keep(context, function);
        Ok(function)
    }

    #[inline]
    fn kept(&self, context: &UnownedContext) -> Option<CUfunction> {
        let functions = read(&self.found.functions);
        functions.iter().find(|known| known.context == *context).map(|known| known.function)
    }

    /// Also removes the functions of destroyed contexts.
    #[inline]
    fn keep(&self, context: &UnownedContext, function: CUfunction) {
        let mut functions = write(&self.found.functions);
        functions.retain(|known| known.context.is_alive() && known.context != *context);
        functions.push(InContext { context: context.clone(), function });
    }
}

impl fmt::Debug for Kernel {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel")
            .field("name", &self.found.name)
            .field("library", &self.found.library)
            .finish()
    }
}
