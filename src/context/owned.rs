//! [`Context`]: the owner of a context that this crate created.

use super::destroy::{destroy, destroy_quietly};
use super::flags::ContextFlags;
use super::handle::{ContextHandle, UnownedContext};
use crate::device::Device;
use crate::driver::ffi::CUcontext;
use crate::driver::{CudaApiVersion, Driver, driver};
use crate::error::{CudaError, CudaResult, DropResult, keep_note};
use crate::init::{CudaFlags, init};
use crate::liveness::registry;
use crate::sealed::Sealed;
use crate::shadow_stack::{self, How};
use std::fmt;
use std::mem;
use std::ops::Deref;
use std::panic::Location;

/// The owner of a context; dropping it destroys the context.
///
/// That holds whichever threads have the context current: they get
/// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed) from then on, as every [handle](UnownedContext) does. On the
/// thread that drops it, no destroyed context stays current unless a guard holds it: this one, and any destroyed
/// before, are popped from the top of the stack. [`Context::drop`] says when the driver destroys the context.
///
/// An owner may be sent to other threads and shared between them. It derefs to the handle, which has the methods.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "dropping the owner destroys the context: bind it, as in `let _context = ...`"]
pub struct Context {
    handle: UnownedContext,
}

impl Context {
    /// Creates a context on the device and makes it current on the calling thread, on top of what was current.
    ///
    /// Every call makes a new context, never the device's [primary](super::PrimaryContext) one. That takes about 0.2 s
    /// and 0.5 GiB of device memory, so most programs want one for each device.
    ///
    /// # Errors
    ///
    /// * [`InvalidValue`](CudaError::InvalidValue): more than one scheduling flag (refused before the driver is
    ///   called), or a flag that the driver does not know.
    /// * [`OutOfMemory`](CudaError::OutOfMemory): the device does not have the memory.
    /// * [`UnknownError`](CudaError::UnknownError): the device's compute mode forbids contexts.
    ///
    /// ```
    /// use custack::context::{Context, ContextFlags};
    /// use custack::device::Device;
    ///
    /// custack::init(custack::CudaFlags::empty())?;
    /// let device = Device::get_device(0)?;
    /// let ctx = Context::create_and_push(ContextFlags::MAP_HOST | ContextFlags::SCHED_AUTO, device)?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuCtxCreate", "cuCtxCreate_v2"))]
    #[track_caller]
    pub fn create_and_push(flags: ContextFlags, device: Device) -> CudaResult<Context> {
        create(flags, device, |driver, flags| driver.ctx_create(flags, device.as_raw()))
    }

    /// Like [`create_and_push`](Self::create_and_push), but limits the context's kernels to a number of
    /// multiprocessors. Needs a device that [supports](Device::supports_exec_affinity) it, which requires NVIDIA's
    /// multi-process service, and CUDA 11.4.
    ///
    /// # Errors
    ///
    /// Those of [`create_and_push`](Self::create_and_push), and
    /// [`UnsupportedExecAffinity`](CudaError::UnsupportedExecAffinity).
    #[doc(alias("cuCtxCreate_v3", "cuCtxCreate_v4"))]
    #[track_caller]
    pub fn create_and_push_with_sm_count(
        flags: ContextFlags,
        device: Device,
        sm_count: u32,
    ) -> CudaResult<Context> {
        create(flags, device, |driver, flags| {
            driver.ctx_create_with_affinity(sm_count, flags, device.as_raw())
        })
    }

    /// The version of the interface that the context was made with; not the driver's version.
    ///
    /// # Errors
    ///
    /// Any error of the driver.
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// assert!(ctx.get_api_version()?.major() >= 3);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuCtxGetApiVersion")]
    pub fn get_api_version(&self) -> CudaResult<CudaApiVersion> {
        self.handle.get_api_version()
    }

    /// A handle that does not own the context, to give to other threads.
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// let unowned = ctx.get_unowned();
    /// assert!(unowned.is_alive());
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[inline]
    pub fn get_unowned(&self) -> UnownedContext {
        self.handle.clone()
    }

    /// The device that the context was made on.
    ///
    /// # Errors
    ///
    /// For a context taken over with [`from_raw`](Self::from_raw), any error of the driver; otherwise none.
    pub fn device(&self) -> CudaResult<Device> {
        self.handle.device()
    }

    /// Destroys the context; if that fails, returns the error and the owner.
    ///
    /// It is not an error if the context is destroyed already. From here on the context is destroyed for every handle.
    /// The driver destroys it at once, and waits for that until the device has done all work of the process, also that of
    /// other contexts. There are three exceptions:
    ///
    /// * While memory of any kind is allocated in it, the driver keeps it, because the addresses of a destroyed context
    ///   are reused by others. Freeing the last of that memory destroys it.
    /// * While another thread is in a call on it that may take long, such as
    ///   [`synchronize`](UnownedContext::synchronize), it is destroyed soon after that call has returned. This function
    ///   does not wait for other threads.
    /// * On a thread that is ending, custack's own thread destroys it soon after.
    ///
    /// [`wait_until_retired`](super::wait_until_retired) waits for the last, and for the second after that call.
    ///
    /// # Errors
    ///
    /// Any error of the driver, with the owner. If the owner [is alive](UnownedContext::is_alive), nothing was done.
    /// Otherwise the driver was asked to destroy the context and returned an error, usually that of earlier work;
    /// dropping the returned owner does nothing. [`NotPermitted`](CudaError::NotPermitted) in a host function.
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// match Context::drop(ctx) {
    ///     Ok(()) => println!("destroyed"),
    ///     Err((error, ctx)) => println!("could not destroy {ctx:?}: {error}"),
    /// }
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuCtxDestroy", "cuCtxDestroy_v2"))]
    pub fn drop(ctx: Context) -> DropResult<Context> {
        match destroy(*ctx.handle.handle()) {
            Ok(()) => {
                mem::forget(ctx);
                Ok(())
            }
            Err(error) => Err((error, ctx)),
        }
    }

    /// Gives up ownership: the context is not destroyed, and whoever has the raw handle owns it.
    ///
    /// Existing handles stay valid. The stack does not change.
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// let raw = ctx.into_raw();
    /// // SAFETY: nothing else owns it.
    /// let ctx = unsafe { Context::from_raw(raw) }?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    pub fn into_raw(self) -> CUcontext {
        let raw = self.handle.as_raw();
        mem::forget(self);
        raw
    }

    /// Takes ownership of a context made elsewhere, or given up with [`into_raw`](Self::into_raw).
    ///
    /// # Errors
    ///
    /// [`InvalidContext`](CudaError::InvalidContext) for a null handle.
    ///
    /// # Safety
    ///
    /// `raw` is null, or the handle of a living context that one of the running driver's creation functions made, and
    /// nothing else will destroy it.
    #[allow(unsafe_code, reason = "only the caller can vouch for a raw handle")]
    pub unsafe fn from_raw(raw: CUcontext) -> CudaResult<Context> {
        if raw.is_null() {
            return Err(CudaError::InvalidContext.note(format_args!("to own a null handle")));
        }
        // SAFETY: as the caller guarantees.
        let handle = unsafe { UnownedContext::from_raw(raw) };
        Ok(Context { handle })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let _note = keep_note();
        destroy_quietly(*self.handle.handle());
    }
}

impl Deref for Context {
    type Target = UnownedContext;

    #[inline]
    fn deref(&self) -> &UnownedContext {
        &self.handle
    }
}

impl fmt::Display for Context {
    /// Like its handle.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.fmt(f)
    }
}

impl Sealed for Context {}

impl ContextHandle for Context {
    fn get_inner(&self) -> CUcontext {
        self.handle.as_raw()
    }

    #[inline]
    fn as_unowned(&self) -> &UnownedContext {
        &self.handle
    }
}

/// Initialises the driver and creates a context on the first device, for small programs.
///
/// # Errors
///
/// Those of [`init`](crate::init), [`Device::get_device`] and [`Context::create_and_push`].
///
/// ```
/// let _context = custack::quick_init()?;
/// # Ok::<(), custack::error::CudaError>(())
/// ```
#[track_caller]
pub fn quick_init() -> CudaResult<Context> {
    init(CudaFlags::empty())?;
    let device = Device::get_device(0)?;
    Context::create_and_push(ContextFlags::MAP_HOST | ContextFlags::SCHED_AUTO, device)
}

#[track_caller]
fn create(
    flags: ContextFlags,
    device: Device,
    call: impl FnOnce(&Driver, u32) -> (CudaResult<()>, CUcontext),
) -> CudaResult<Context> {
    flags.refuse_two_schedules()?;
    let driver = driver()?;
    let (result, raw) = call(driver, flags.bits());
    if result.is_ok() || !raw.is_null() {
        let handle = registry::created(raw, device.as_raw());
        shadow_stack::push(&handle, How::Created, Location::caller(), 0);
        let context = Context { handle: handle.into() };
        // The call failed, but the driver has made the context; it is destroyed here, which also pops it.
        return result.map(|()| context);
    }
    result.map_err(|error| {
        error.note_instead(format_args!("to create a context on device {} with {flags:?}", device.as_raw()))
    })?;
    Err(CudaError::InvalidContext.note(format_args!("to create a context; the driver gave no handle")))
}
