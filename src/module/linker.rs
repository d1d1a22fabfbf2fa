//! Linking device code.

// Owns a handle of the driver.
#![allow(unsafe_code)]

use super::{JitError, JitLog, JitOptions, image};
use crate::context::{Resource, UnownedContext, must_retire};
use crate::driver::ffi::CUlinkState;
use crate::driver::{Driver, Held, Jit, numbered};
use crate::error::{CudaError, CudaResult};
use std::borrow::Cow;
use std::ffi::{CStr, CString};
use std::mem;
use std::path::Path;

numbered! {
    /// The kind of an input of a [`Linker`].
    #[non_exhaustive]
    pub enum LinkInput {
        /// Machine code for a device.
        Cubin = 0,
        /// PTX.
        Ptx = 1,
        /// A fatbin.
        Fatbin = 2,
        /// A host object file that contains device code; see [`add_unchecked`](Linker::add_unchecked).
        Object = 3,
        /// An archive of such object files; see [`add_unchecked`](Linker::add_unchecked).
        Library = 4,
    }
}

/// Links device code into one image, in the context that was current when the linker was made.
///
/// ```
/// use custack::module::{JitOptions, LinkInput, Linker, Module};
///
/// const HEAD: &str = ".version 7.0 .target sm_70 .address_size 64";
/// let _context = custack::quick_init()?;
/// let mut linker = Linker::new(&JitOptions::new())?;
/// let variable = format!("{HEAD} .visible .global .u32 seven = 7;");
/// linker.add(LinkInput::Ptx, variable.as_bytes(), c"variable")?;
/// let kernel = format!("{HEAD} .extern .global .u32 seven; .visible .entry reads() {{ ret; }}");
/// linker.add(LinkInput::Ptx, kernel.as_bytes(), c"kernel")?;
/// let (image, _log) = linker.complete()?;
/// let module = Module::load_from_bytes(&image)?;
/// module.get_function(c"reads")?;
/// module.get_global::<u32>(c"seven")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Linker {
    inner: Resource<CUlinkState>,
    /// The driver writes into it until the linker is destroyed.
    jit: Option<Jit>,
}

impl UnownedContext {
    /// Like [`Linker::new`], in this context, whatever is current.
    ///
    /// # Errors
    ///
    /// Those of [`Linker::new`]; [`ContextIsDestroyed`](CudaError::ContextIsDestroyed), without a driver call.
    ///
    /// ```
    /// use custack::context::ContextStack;
    /// use custack::module::JitOptions;
    ///
    /// let context = custack::quick_init()?;
    /// ContextStack::pop()?;
    /// let linker = context.create_linker(&JitOptions::new())?;
    /// assert_eq!(linker.context(), &context.get_unowned());
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuLinkCreate", "cuLinkCreate_v2"))]
    #[inline]
    pub fn create_linker(&self, options: &JitOptions) -> CudaResult<Linker> {
        let _current = self.enter_for_custack()?;
        Linker::new(options)
    }
}

impl Linker {
    /// A linker in the current context.
    ///
    /// # Errors
    ///
    /// [`InvalidContext`](CudaError::InvalidContext) if no context is current;
    /// [`InvalidValue`](CudaError::InvalidValue) for an option or a value that the driver does not know.
    #[doc(alias("cuLinkCreate", "cuLinkCreate_v2"))]
    #[inline]
    pub fn new(options: &JitOptions) -> CudaResult<Linker> {
        let mut jit = options.to_driver()?;
        // SAFETY: the options are in buffers of their own, which live until the linker is destroyed: see `drop`.
        let make = |driver: &Driver| unsafe { driver.link_create(&mut jit) };
        let inner = Resource::make(make, Driver::link_destroy)?;
        Ok(Linker { inner, jit: Some(jit) })
    }

    /// The linker's context.
    #[inline]
    pub fn context(&self) -> &UnownedContext {
        self.inner.context()
    }

    /// Adds code, which is checked as [`Module::load_from_bytes`](super::Module::load_from_bytes) checks it. PTX may end with
    /// a NUL, but need not. The name is used in messages.
    ///
    /// # Errors
    ///
    /// [`InvalidImage`](CudaError::InvalidImage) for data that is not of this kind, and, before the driver is called,
    /// for machine code that custack does not know, which objects and libraries of the host always are: see
    /// [`add_unchecked`](Self::add_unchecked); [`InvalidPtx`](CudaError::InvalidPtx) for PTX that does not compile;
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    #[doc(alias("cuLinkAddData", "cuLinkAddData_v2"))]
    #[inline]
    pub fn add(&mut self, kind: LinkInput, data: &[u8], name: &CStr) -> CudaResult<()> {
        let about = |error: &CudaError| {
            error.note_before(format_args!("to link {name:?}"));
        };
        let data = code(kind, data).inspect_err(about)?;
        // SAFETY: checked.
        unsafe { self.pass(kind, &data, name) }.inspect_err(about)
    }

    /// Adds code that is not checked: the driver gets the very bytes.
    ///
    /// # Errors
    ///
    /// [`InvalidImage`](CudaError::InvalidImage) for data that is not of this kind;
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    ///
    /// # Safety
    ///
    /// The data is what a compiler of NVIDIA's wrote, whole and unchanged, or PTX with a NUL at its end. The driver crashes
    /// otherwise, or hangs.
    #[doc(alias("cuLinkAddData", "cuLinkAddData_v2"))]
    #[inline]
    pub unsafe fn add_unchecked(&mut self, kind: LinkInput, data: &[u8], name: &CStr) -> CudaResult<()> {
        // SAFETY: as the caller guarantees.
        unsafe { self.pass(kind, data, name) }.inspect_err(|error| {
            error.note_before(format_args!("to link {name:?}"));
        })
    }

    /// # Safety
    ///
    /// The data is checked or vouched for; a text ends with a NUL.
    #[inline]
    unsafe fn pass(&mut self, kind: LinkInput, data: &[u8], name: &CStr) -> CudaResult<()> {
        let jit = self.jit.as_ref();
        self.inner.with_current(|driver: &Driver, state: Held<'_, CUlinkState>| match jit {
            // SAFETY: as the caller guarantees.
            Some(jit) => unsafe { driver.link_add_data(state, kind as u32, data, name, jit) },
            None => Err(spent()),
        })
    }

    /// Adds the code of a file, which custack reads and checks as [`add`](Self::add) does. The path is the name in messages.
    ///
    /// # Errors
    ///
    /// [`FileNotFound`](CudaError::FileNotFound), also for a file that cannot be read, with the reason;
    /// [`InvalidValue`](CudaError::InvalidValue) for a path with a NUL in it; those of [`add`](Self::add).
    #[doc(alias("cuLinkAddFile", "cuLinkAddFile_v2", "cuLinkAddData"))]
    #[inline]
    pub fn add_file(&mut self, kind: LinkInput, path: impl AsRef<Path>) -> CudaResult<()> {
        let path = path.as_ref();
        let name = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|_| {
            CudaError::InvalidValue.note(format_args!("to link {}, which has a NUL in it", path.display()))
        })?;
        let data = std::fs::read(path).map_err(|reason| {
            CudaError::FileNotFound.note(format_args!("to read {}: {reason}", path.display()))
        })?;
        self.add(kind, &data, &name)
    }

    /// Links what was added; returns the image, for [`Module::load_from_bytes`](super::Module::load_from_bytes) or a
    /// [`Library`](crate::library::Library), and the linker's logs.
    ///
    /// # Errors
    ///
    /// An error of the driver, with the linker's logs, for names that are defined twice or nowhere;
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    #[doc(alias = "cuLinkComplete")]
    #[inline]
    pub fn complete(self) -> Result<(Vec<u8>, JitLog), JitError> {
        let Some(jit) = self.jit.as_ref() else { return Err(spent().into()) };
        let image = self.inner.with_current(|driver, state| driver.link_complete(state, jit));
        let log = JitLog::of(jit.told());
        match image {
            Ok(image) => Ok((image, log)),
            Err(error) => Err(JitError::new(error, log)),
        }
    }
}

/// The data, if it can be passed to the driver as code of this kind.
#[inline]
fn code(kind: LinkInput, data: &[u8]) -> CudaResult<Cow<'_, [u8]>> {
    let begins = |with: &[u8]| data.starts_with(with);
    match kind {
        LinkInput::Ptx => {
            let text = data.split(|byte| *byte == 0).next().unwrap_or_default();
            let mut checked = image::checked_text(text)?;
            let end = checked.iter().position(|byte| *byte == 0).unwrap_or(checked.len());
            checked.truncate(end + 1);
            Ok(checked.into())
        }
        LinkInput::Cubin if begins(image::ELF) => image::kept(data),
        LinkInput::Fatbin if begins(image::ELF) || begins(image::FATBIN) => image::kept(data),
        LinkInput::Object | LinkInput::Library => Err(CudaError::InvalidImage.note(format_args!(
            "to link {} bytes of the kind {kind:?}, which custack cannot check: `add_unchecked` links them",
            data.len()
        ))),
        _ => Err(CudaError::InvalidImage
            .note(format_args!("to take {} bytes for code of the kind {kind:?}", data.len()))),
    }
}

#[cold]
fn spent() -> CudaError {
    CudaError::InvalidHandle
        .note(format_args!("to use a linker that could not be destroyed, and may be destroyed all the same"))
}

impl Drop for Linker {
    #[doc(alias = "cuLinkDestroy")]
    #[inline]
    fn drop(&mut self) {
        // If another thread destroys the linker later, the buffers live until then.
        if must_retire() {
            mem::forget(self.jit.take());
        }
    }
}
