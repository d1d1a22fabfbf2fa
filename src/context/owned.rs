//! [`Context`]: the owner of a context that this crate created.

use super::destroy::{destroy, destroy_quietly};
use super::flags::ContextFlags;
use super::handle::{ContextHandle, UnownedContext};
use crate::device::Device;
use crate::driver::ffi::CUcontext;
use crate::driver::{CudaApiVersion, Driver, driver};
use crate::error::{CudaError, CudaResult, DropResult};
use crate::init::{CudaFlags, init};
use crate::liveness::registry;
use crate::sealed::Sealed;
use crate::shadow_stack::{self, How};
use std::fmt;
use std::mem;
use std::ops::Deref;
use std::panic::Location;

/// The owner of a context: when it is dropped the context is destroyed.
///
/// That holds whatever threads have the context current. They get
/// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed) from then on, as every [handle](UnownedContext) does. On the
/// thread that drops it, no destroyed context stays current unless a guard stands on it: it and others before it are
/// taken off the top of the stack. When the driver destroys it is said at [`Context::drop`].
///
/// An owner may be sent to other threads and shared between them. It derefs to the handle, which has the methods.
#[derive(Debug, PartialEq, Eq)]
pub struct Context {
    handle: UnownedContext,
}

impl Context {
    /// Creates a context on the device and makes it current on the calling thread, on top of what was current.
    ///
    /// Every call makes a new context, never the device's [primary](super::PrimaryContext) one. It takes some
    /// 0.2 s and 0.5 GiB of the device's memory: one for each device is what most programs want.
    ///
    /// # Errors
    ///
    /// * [`InvalidValue`](CudaError::InvalidValue): more than one scheduling flag (refused before the driver is
    ///   called), or a flag that the driver does not know.
    /// * [`OutOfMemory`](CudaError::OutOfMemory): the device has no room for it.
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

    /// As [`create_and_push`](Self::create_and_push), with the context's kernels limited to a number of
    /// multiprocessors; needs a device that [supports](Device::supports_exec_affinity) it, which takes NVIDIA's
    /// multi-process service, and CUDA 11.4.
    ///
    /// # Errors
    ///
    /// Those of [`create_and_push`](Self::create_and_push);
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
    /// What the driver answers.
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
    /// Of a context taken over with [`from_raw`](Self::from_raw), what the driver answers; else none.
    pub fn device(&self) -> CudaResult<Device> {
        self.handle.device()
    }

    /// Destroys the context, and gives the error and the owner back if that fails.
    ///
    /// A context that is gone already is no failure. For every handle the context is destroyed from here on. The driver
    /// follows at once, unless something of it is in use:
    ///
    /// * While memory of it is allocated, of whatever kind, the driver keeps it, because a destroyed context gives its
    ///   addresses to others. It is destroyed with the last of that memory.
    /// * While another thread is in a call on it that may take long, such as [`synchronize`](UnownedContext::synchronize),
    ///   it is destroyed soon after that call has returned. This function does not wait for other threads.
    /// * On a thread that is ending it is destroyed soon after, by a thread of custack's own.
    ///
    /// [`wait_until_retired`](super::wait_until_retired) waits for the last two.
    ///
    /// # Errors
    ///
    /// What the driver answers, with the owner. If the owner [is alive](UnownedContext::is_alive) nothing was done, and
    /// everything is as it was. If it is not, the driver was asked to destroy the context and returned an error, that of
    /// earlier work as a rule: the owner that comes back is that of a destroyed context, and dropping it does nothing.
    /// [`NotPermitted`](CudaError::NotPermitted) in a host function.
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

    /// Gives the context away: it is not destroyed, and whoever has the raw handle owns it.
    ///
    /// Handles made before stay good. The stack is not touched.
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// let raw = ctx.into_raw();
    /// // SAFETY: nobody else has got it.
    /// let ctx = unsafe { Context::from_raw(raw) }?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    pub fn into_raw(self) -> CUcontext {
        let raw = self.handle.as_raw();
        mem::forget(self);
        raw
    }

    /// Takes ownership of a context made elsewhere, or given away with [`into_raw`](Self::into_raw).
    ///
    /// # Errors
    ///
    /// [`InvalidContext`](CudaError::InvalidContext) for a null handle.
    ///
    /// # Safety
    ///
    /// `raw` is null, or the handle of a context of the running driver, made by one of its creating functions and
    /// alive; nothing else will destroy it.
    #[allow(unsafe_code, reason = "only the caller can vouch for a raw handle")]
    pub unsafe fn from_raw(raw: CUcontext) -> CudaResult<Context> {
        if raw.is_null() {
            return Err(CudaError::InvalidContext.note(format_args!("to own a null handle")));
        }
        // SAFETY: the caller vouches for it.
        let handle = unsafe { UnownedContext::from_raw(raw) };
        Ok(Context { handle })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
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
    /// As its handle.
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

/// Initialises the driver and creates a context on the first device; what small programs start with.
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
        // With an error: the driver made it all the same, and it goes here, off the stack too.
        return result.map(|()| context);
    }
    result.map_err(|error| {
        error.note(format_args!("to create a context on device {} with {flags:?}", device.as_raw()))
    })?;
    Err(CudaError::InvalidContext.note(format_args!("to create a context; the driver gave no handle")))
}
