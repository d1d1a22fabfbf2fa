//! Modules: device code, and the variables that come with it.
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

use crate::context::{Resource, UnownedContext};
use crate::driver::Driver;
use crate::driver::ffi::CUmodule;
use crate::error::{CudaError, CudaResult, DropResult};
use crate::memory::{CopyDestination, DeviceCopy, DevicePointer};
use crate::private::Sealed;
use std::ffi::CStr;
use std::fmt;
use std::marker::PhantomData;
use std::mem;

/// Device code that is loaded; see the [module](self).
///
/// It belongs to the context that was current when it was loaded, and works on any thread, whatever is current there.
#[repr(C)]
#[derive(Debug)]
pub struct Module {
    inner: Resource<CUmodule>,
}

impl Module {
    /// Loads PTX, a cubin or a fatbin from a file, into the current context.
    ///
    /// # Errors
    ///
    /// [`FileNotFound`](CudaError::FileNotFound); those of [`load_from_bytes`](Self::load_from_bytes).
    #[doc(alias = "cuModuleLoad")]
    pub fn load_from_file(filename: &CStr) -> CudaResult<Module> {
        let make = |driver: &Driver| driver.module_load(filename);
        Ok(Module { inner: Resource::make(make, Driver::module_unload)? })
    }

    /// Loads PTX from a text, into the current context.
    ///
    /// # Errors
    ///
    /// Those of [`load_from_bytes`](Self::load_from_bytes).
    #[doc(alias = "cuModuleLoadData")]
    pub fn load_from_string(image: &CStr) -> CudaResult<Module> {
        // SAFETY: a text with its NUL.
        let make = |driver: &Driver| unsafe { driver.module_load_data(image.as_ptr().cast()) };
        Ok(Module { inner: Resource::make(make, Driver::module_unload)? })
    }

    /// Loads PTX from bytes, with a final NUL or without, into the current context.
    ///
    /// # Errors
    ///
    /// [`InvalidImage`](CudaError::InvalidImage) for what is no image, and, before the driver is asked, for machine code
    /// that is shorter than it says; [`InvalidPtx`](CudaError::InvalidPtx) for PTX that does not compile;
    /// [`NoBinaryForGpu`](CudaError::NoBinaryForGpu) for another device's machine code;
    /// [`InvalidContext`](CudaError::InvalidContext) if no context is current.
    #[doc(alias = "cuModuleLoadData")]
    pub fn load_from_bytes(image: &[u8]) -> CudaResult<Module> {
        let machine_code = image.starts_with(b"\x7fELF") || image.starts_with(&[0x50, 0xed, 0x55, 0xba]);
        if machine_code && !is_whole(image) {
            let length = image.len();
            return Err(CudaError::InvalidImage
                .note(format_args!("to load {length} bytes of machine code, which say that they are more")));
        }
        let mut text = image.to_vec();
        if !machine_code {
            text.truncate(image.iter().position(|byte| *byte == 0).unwrap_or(image.len()));
        }
        text.push(0);
        // SAFETY: a text with its NUL, or machine code that is all there.
        let make = |driver: &Driver| unsafe { driver.module_load_data(text.as_ptr().cast()) };
        Ok(Module { inner: Resource::make(make, Driver::module_unload)? })
    }

    /// A variable of the module.
    ///
    /// # Errors
    ///
    /// [`NotFound`](CudaError::NotFound); [`InvalidValue`](CudaError::InvalidValue) if its size is not that of `T`,
    /// where RustaCUDA panics.
    #[doc(alias("cuModuleGetGlobal", "cuModuleGetGlobal_v2"))]
    pub fn get_global<'a, T: DeviceCopy>(&'a self, name: &CStr) -> CudaResult<Symbol<'a, T>> {
        let (address, size) = self.inner.with(|driver, module| driver.module_get_global(module, name))?;
        let wanted = mem::size_of::<T>();
        if size != wanted {
            return Err(CudaError::InvalidValue
                .note(format_args!("{name:?} has {size} bytes, and was asked for as {wanted}")));
        }
        // SAFETY: an address of the device's.
        let ptr = unsafe { DevicePointer::wrap(address as *mut T) };
        Ok(Symbol { ptr, module: self, value: PhantomData })
    }

    /// The context that the module is loaded in.
    pub fn context(&self) -> &UnownedContext {
        self.inner.context()
    }

    /// The driver's handle.
    pub fn as_raw(&self) -> CUmodule {
        self.inner.raw()
    }

    /// Gives the module away: it is not unloaded, and whoever has the handle owns it.
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
    /// The handle is a module's of the current context, and nothing else will unload it.
    pub unsafe fn from_raw(raw: CUmodule) -> CudaResult<Module> {
        let context = UnownedContext::of_this_thread()?;
        // SAFETY: the caller vouches for it.
        Ok(Module { inner: unsafe { Resource::new(raw, context, Driver::module_unload) } })
    }

    /// Unloads the module, and gives it back with the error if that fails.
    ///
    /// # Errors
    ///
    /// What the driver answers.
    #[doc(alias = "cuModuleUnload")]
    pub fn drop(module: Module) -> DropResult<Module> {
        module.inner.drop().map_err(|(error, inner)| (error, Module { inner }))
    }

    pub(crate) fn inner(&self) -> &Resource<CUmodule> {
        &self.inner
    }
}

/// Whether machine code is as long as its header says: the driver reads that far.
fn is_whole(image: &[u8]) -> bool {
    let number = |at: usize, size: usize| {
        let bytes = image.get(at..at + size)?;
        Some(bytes.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte)))
    };
    let end = if image.starts_with(b"\x7fELF") {
        // The table of sections stands last: where it is, how long an entry is, and how many.
        let place = number(0x28, 8).zip(number(0x3a, 2)).zip(number(0x3c, 2));
        place.and_then(|((start, each), count)| start.checked_add(each * count))
    } else {
        // The size of the header, and of what follows it.
        number(6, 2).zip(number(8, 8)).and_then(|(header, rest)| header.checked_add(rest))
    };
    end.is_some_and(|end| end <= image.len() as u64)
}

/// A variable of a module, which it borrows.
#[derive(Debug)]
pub struct Symbol<'a, T: DeviceCopy> {
    ptr: DevicePointer<T>,
    module: &'a Module,
    value: PhantomData<T>,
}

// SAFETY: an address on the device and a module that any thread may use.
unsafe impl<T: DeviceCopy + Send> Send for Symbol<'_, T> {}
// SAFETY: as above.
unsafe impl<T: DeviceCopy + Sync> Sync for Symbol<'_, T> {}

impl<T: DeviceCopy> fmt::Pointer for Symbol<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Pointer::fmt(&self.ptr, f)
    }
}

impl<T: DeviceCopy> Sealed for Symbol<'_, T> {}

impl<T: DeviceCopy> CopyDestination<T> for Symbol<'_, T> {
    fn copy_from(&mut self, source: &T) -> CudaResult<()> {
        let (to, size) = (self.ptr.as_raw() as u64, mem::size_of::<T>());
        let from = std::ptr::from_ref(source).cast();
        // SAFETY: the variable is as large as the value, which `get_global` has seen.
        self.module.inner.with(|driver, _| unsafe { driver.copy_to_device(to, from, size, None) })
    }

    fn copy_to(&self, dest: &mut T) -> CudaResult<()> {
        let (from, size) = (self.ptr.as_raw() as u64, mem::size_of::<T>());
        let to = std::ptr::from_mut(dest).cast();
        // SAFETY: as above, and any bits are a good value (`DeviceCopy`).
        self.module.inner.with(|driver, _| unsafe { driver.copy_to_host(to, from, size, None) })
    }
}
