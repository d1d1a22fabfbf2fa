//! Modules: device code and its variables.
//!
//! ```
//! use custack::memory::CopyDestination;
//! use custack::module::Module;
//!
//! let _context = custack::quick_init()?;
//! let module = Module::load_from_bytes(b".version 7.0 .target sm_70 .address_size 64 .visible .const .u32 answer = 42;")?;
//! let answer = module.get_global::<u32>(c"answer")?;
//! let mut value = 0;
//! answer.copy_to(&mut value)?;
//! assert_eq!(value, 42);
//! # Ok::<(), custack::error::CudaError>(())
//! ```

// Makes and destroys what it owns, and copies to and from the module's variables.
#![allow(unsafe_code)]

mod image;
mod jit;
mod kernels;
#[cfg(feature = "library")]
mod linker;
mod load;
mod patterns;

pub(crate) use image::{checked, padded};
pub use jit::{CacheMode, Fallback, JitError, JitLog, JitOptions};
pub(crate) use kernels::Known;
#[cfg(feature = "library")]
pub use linker::{LinkInput, Linker};
pub use load::LoadingMode;

use crate::context::{Resource, UnownedContext, refuse_by_default};
use crate::driver::Driver;
use crate::driver::ffi::CUmodule;
use crate::error::{CudaError, CudaResult, DropResult};
use crate::memory::{CopyDestination, DeviceCopy, DevicePointer, finish};
use crate::sealed::Sealed;
use kernels::Kernels;
use std::ffi::CStr;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::mem;
use std::path::PathBuf;
use std::sync::Arc;

/// Loaded device code; see the [module](self).
///
/// It belongs to the context that was current when it was loaded, and works on any thread, whatever is current there.
#[repr(C)]
pub struct Module {
    inner: Resource<CUmodule>,
    kernels: Kernels,
}

impl Module {
    /// Loads PTX, a cubin or a fatbin from a file, into the current context.
    ///
    /// custack reads the file and checks it as [`load_from_bytes`](Self::load_from_bytes) checks bytes.
    ///
    /// # Errors
    ///
    /// [`FileNotFound`](CudaError::FileNotFound), also for a file that cannot be read, with the reason; those of
    /// [`load_from_bytes`](Self::load_from_bytes).
    #[doc(alias("cuModuleLoad", "cuModuleLoadData", "cuModuleLoadDataEx"))]
    #[inline]
    pub fn load_from_file(filename: &CStr) -> CudaResult<Module> {
        let bytes = read(filename)?;
        image::checked(&bytes).and_then(|image| Module::load(&image)).inspect_err(|error| {
            error.note_before(format_args!("to load {}", filename.to_string_lossy()));
        })
    }

    /// Loads PTX from a text, into the current context.
    ///
    /// # Errors
    ///
    /// Those of [`load_from_bytes`](Self::load_from_bytes); [`InvalidImage`](CudaError::InvalidImage) for a text that
    /// begins like machine code, because machine code would be cut off at its first zero.
    #[doc(alias("cuModuleLoadData", "cuModuleLoadDataEx"))]
    #[inline]
    pub fn load_from_string(image: &CStr) -> CudaResult<Module> {
        Module::load(&image::checked_text(image.to_bytes())?)
    }

    /// Loads PTX, a cubin or a fatbin from bytes, into the current context. PTX may end with a NUL, but need not.
    ///
    /// # Errors
    ///
    /// [`InvalidImage`](CudaError::InvalidImage) for anything that is not an image and, before the driver is called,
    /// for machine code in which something is not as compilers write it or not known to custack (see
    /// [`load_unchecked`](Self::load_unchecked)), and for the wrapper of a fatbin, which contains a pointer;
    /// [`InvalidPtx`](CudaError::InvalidPtx) for PTX that does not compile;
    /// [`NoBinaryForGpu`](CudaError::NoBinaryForGpu) for another device's machine code;
    /// [`InvalidContext`](CudaError::InvalidContext) if no context is current.
    #[doc(alias("cuModuleLoadData", "cuModuleLoadDataEx"))]
    #[inline]
    pub fn load_from_bytes(image: &[u8]) -> CudaResult<Module> {
        Module::load(&image::checked(image)?)
    }

    /// Loads a checked image.
    #[inline]
    fn load(image: &[u8]) -> CudaResult<Module> {
        Resource::make(loading(image), Driver::module_unload).map(Module::of)
    }

    #[inline]
    fn of(inner: Resource<CUmodule>) -> Module {
        Module { inner, kernels: Kernels::default() }
    }

    /// A variable of the module.
    ///
    /// # Errors
    ///
    /// [`NotFound`](CudaError::NotFound); [`InvalidValue`](CudaError::InvalidValue) if its size is not that of `T`,
    /// where RustaCUDA panics.
    #[doc(alias("cuModuleGetGlobal", "cuModuleGetGlobal_v2"))]
    #[inline]
    pub fn get_global<'a, T: DeviceCopy>(&'a self, name: &CStr) -> CudaResult<Symbol<'a, T>> {
        let found = self.inner.with(|driver, module| driver.module_get_global(module, name));
        let (address, size) = found.inspect_err(|error| {
            error.note_before(format_args!("to find the variable {name:?}"));
        })?;
        Symbol::of((address, size), self.context().clone(), name, None)
    }

    /// The module's context.
    #[inline]
    pub fn context(&self) -> &UnownedContext {
        self.inner.context()
    }

    /// The driver's handle.
    #[inline]
    pub fn as_raw(&self) -> CUmodule {
        self.inner.raw()
    }

    /// Gives up ownership: the module is not unloaded, and whoever has the handle owns it.
    #[inline]
    pub fn into_raw(self) -> CUmodule {
        self.inner.into_raw()
    }

    /// Takes ownership of a module of the current context.
    ///
    /// # Errors
    ///
    /// [`InvalidContext`](CudaError::InvalidContext) if no context is current.
    ///
    /// # Safety
    ///
    /// The handle is that of a module of the current context, and nothing else will unload it.
    #[inline]
    pub unsafe fn from_raw(raw: CUmodule) -> CudaResult<Module> {
        let context = UnownedContext::of_this_thread()?;
        // SAFETY: as the caller guarantees.
        Ok(Module::of(unsafe { Resource::new(raw, context, Driver::module_unload) }))
    }

    /// Unloads the module; if that fails, returns the error and the module.
    ///
    /// # Errors
    ///
    /// Any error of the driver.
    #[doc(alias("cuModuleUnload", "unload_module"))]
    #[inline]
    pub fn drop(module: Module) -> DropResult<Module> {
        module.inner.drop().map_err(|(error, inner)| (error, Module::of(inner)))
    }

    #[inline]
    pub(crate) fn inner(&self) -> &Resource<CUmodule> {
        &self.inner
    }

    #[inline]
    pub(crate) fn kernels(&self) -> &Kernels {
        &self.kernels
    }
}

/// Loads an image that `image::checked` returned.
#[inline]
fn loading(image: &[u8]) -> impl FnOnce(&Driver) -> CudaResult<CUmodule> + '_ {
    // SAFETY: a text with its NUL, or machine code in which each number was checked.
    |driver: &Driver| unsafe { driver.module_load_data(image.as_ptr().cast()) }
}

impl UnownedContext {
    /// Loads PTX, a cubin or a fatbin into this context, whatever is current.
    ///
    /// # Errors
    ///
    /// Those of [`Module::load_from_bytes`]; [`ContextIsDestroyed`](CudaError::ContextIsDestroyed), without a driver
    /// call.
    ///
    /// ```
    /// use custack::context::{ContextStack, CurrentContext};
    ///
    /// let context = custack::quick_init()?;
    /// ContextStack::pop()?;
    /// let ptx = b".version 7.0 .target sm_70 .address_size 64 .visible .const .u32 answer = 42;";
    /// let module = context.load_module(ptx)?;
    /// assert_eq!(module.context(), &context.get_unowned());
    /// assert!(CurrentContext::get_current()?.is_null());
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuModuleLoadData")]
    #[inline]
    pub fn load_module(&self, image: &[u8]) -> CudaResult<Module> {
        let image = image::checked(image)?;
        Resource::make_in(self, loading(&image), Driver::module_unload).map(Module::of)
    }

    /// Like [`load_module`](Self::load_module), from a file.
    ///
    /// # Errors
    ///
    /// Those of [`Module::load_from_file`]; [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    #[doc(alias("cuModuleLoad", "cuModuleLoadData"))]
    #[inline]
    pub fn load_module_from_file(&self, filename: &CStr) -> CudaResult<Module> {
        self.load_module(&read(filename)?)
    }
}

#[inline]
fn read(filename: &CStr) -> CudaResult<Vec<u8>> {
    path(filename).and_then(std::fs::read).map_err(|reason| {
        CudaError::FileNotFound.note(format_args!("to read {}: {reason}", filename.to_string_lossy()))
    })
}

/// The path with these bytes on systems where paths are bytes; else with this text.
#[inline]
fn path(name: &CStr) -> io::Result<PathBuf> {
    #[cfg(unix)]
    return Ok(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name.to_bytes()).into());
    #[cfg(not(unix))]
    name.to_str().map(PathBuf::from).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}

/// What keeps a variable's code loaded.
pub(crate) trait Kept: fmt::Debug + Send + Sync {}

/// A variable of a module, which it borrows, or of a [library](crate::library) in one context.
///
/// It can be read as a type for which every pattern of bytes is valid, because the device may write any: numbers,
/// device pointers, arrays and tuples of them, and structs of them with `#[derive(DeviceCopy)]`. For a type that
/// contains a `bool`, `char`, `NonZero` or enum, [`copy_to`](CopyDestination::copy_to) does not compile, unlike in
/// RustaCUDA; read its number, and convert that. It can be written as any type.
///
/// ```compile_fail,E0080
/// # use custack::{memory::CopyDestination, module::Module};
/// # let module = Module::load_from_bytes(b"").unwrap();
/// let mut ready = false;
/// module.get_global::<bool>(c"ready").unwrap().copy_to(&mut ready).unwrap();
/// ```
#[derive(Debug)]
pub struct Symbol<'a, T: DeviceCopy> {
    ptr: DevicePointer<T>,
    context: UnownedContext,
    /// What keeps the code loaded, if the variable does not borrow a module.
    #[allow(dead_code, reason = "it only lives")]
    kept: Option<Arc<dyn Kept + 'a>>,
    value: PhantomData<(&'a Module, T)>,
}

impl<'a, T: DeviceCopy> Symbol<'a, T> {
    /// A variable at this address, of this size and in this context.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](CudaError::InvalidValue) if its size is not that of `T`.
    #[inline]
    pub(crate) fn of(
        (address, size): (u64, usize),
        context: UnownedContext,
        name: &CStr,
        kept: Option<Arc<dyn Kept + 'a>>,
    ) -> CudaResult<Symbol<'a, T>> {
        let wanted = mem::size_of::<T>();
        if size != wanted {
            return Err(CudaError::InvalidValue
                .note(format_args!("to use the variable {name:?} of {size} bytes as one of {wanted}")));
        }
        // SAFETY: a device address.
        let ptr = unsafe { DevicePointer::wrap(address as *mut T) };
        Ok(Symbol { ptr, context, kept, value: PhantomData })
    }

    /// The variable's context.
    #[inline]
    pub fn context(&self) -> &UnownedContext {
        &self.context
    }
}

// SAFETY: a device address, and a module that any thread may use.
unsafe impl<T: DeviceCopy + Send> Send for Symbol<'_, T> {}
// SAFETY: as above.
unsafe impl<T: DeviceCopy + Sync> Sync for Symbol<'_, T> {}

impl<T: DeviceCopy> fmt::Pointer for Symbol<'_, T> {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Pointer::fmt(&self.ptr, f)
    }
}

impl<T: DeviceCopy> Sealed for Symbol<'_, T> {}

impl<T: DeviceCopy> CopyDestination<T> for Symbol<'_, T> {
    #[inline]
    fn copy_from(&mut self, source: &T) -> CudaResult<()> {
        let (to, size) = (self.ptr.as_raw() as u64, mem::size_of::<T>());
        let from = std::ptr::from_ref(source).cast();
        let _call = refuse_by_default(&self.context, "copy without a stream")?;
        self.context.inside(|driver| {
            // SAFETY: the variable has the size of the value, as `of` checked.
            finish(unsafe { driver.copy_to_device(to, from, size, None) }, driver, None)
        })
    }

    #[inline]
    fn copy_to(&self, dest: &mut T) -> CudaResult<()> {
        const {
            assert!(
                patterns::every_pattern_is_a_value::<T>(),
                "a device variable may have bytes that are not a value of this type: read it as a number"
            );
        }
        let (from, size) = (self.ptr.as_raw() as u64, mem::size_of::<T>());
        let to = std::ptr::from_mut(dest).cast();
        let _call = refuse_by_default(&self.context, "copy without a stream")?;
        // SAFETY: as above, and all bytes are valid, as the assertion says.
        self.context.inside(|driver| unsafe { driver.copy_to_host(to, from, size, None) })
    }
}

impl fmt::Debug for Module {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Module").field("raw", &self.as_raw()).field("context", self.context()).finish()
    }
}
