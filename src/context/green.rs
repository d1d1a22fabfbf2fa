//! [`GreenContext`]: a context of some of a device's multiprocessors.

// Gives the driver the handles that it has just got from it.
#![allow(unsafe_code)]

mod current;

pub use current::CurrentGreenContext;

use super::destroy::{Pin, destroy_green, destroy_green_quietly};
use super::handle::UnownedContext;
use super::primary::PrimaryContext;
use crate::device::{Device, SmResource, WorkqueueConfig};
use crate::driver::ffi::{CUcontext, CUdevResource, CUgreenCtx};
use crate::driver::{Driver, Held, driver};
use crate::error::{CudaError, CudaResult, DropResult, keep_note};
use crate::liveness;
use std::fmt;
use std::mem;

/// The owner of a green context: a device's primary context, on some of its multiprocessors (CUDA 12.4 and later).
/// Dropping it destroys the green context.
///
/// Kernels in its [streams](Self::create_stream) run on its own multiprocessors, so two green contexts of different
/// parts of a device do not take them from each other. (The driver does not promise that they run at the same time.)
/// All else is the [primary](Self::primary) context's, of which it holds a share: memory, modules and events that are
/// made while it is current belong to the primary context and outlive it, and limits and flags are the same. So a
/// program normally makes those in the primary context, and streams in the green ones.
///
/// A green context is used by one thread at a time, as the driver demands: it may be sent to other threads, but not
/// shared, and it is [entered](Self::enter) by a guard that borrows it mutably. Its streams are like all others, on any
/// thread.
///
/// ```
/// use custack::context::GreenContext;
/// use custack::device::Device;
/// use custack::error::CudaError;
///
/// custack::init(custack::CudaFlags::empty())?;
/// let all = match Device::get_device(0)?.sm_resource() {
///     Err(CudaError::CallRequiresNewerDriver) => return Ok(()), // before CUDA 12.4
///     all => all?,
/// };
/// let split = all.split(2, all.count() / 4)?;
/// let greens = split.groups.iter().map(GreenContext::new).collect::<Result<Vec<_>, _>>()?;
/// let streams = greens.iter().map(|green| green.create_stream(None)).collect::<Result<Vec<_>, _>>()?;
/// for stream in &streams {
///     stream.launch_host_func(|| println!("in a part of the device"))?;
/// }
/// streams.iter().try_for_each(|stream| stream.synchronize())?;
/// # Ok::<(), CudaError>(())
/// ```
///
/// ```compile_fail,E0277
/// # use custack::context::GreenContext;
/// # use custack::device::Device;
/// # custack::init(custack::CudaFlags::empty()).unwrap();
/// let green = GreenContext::new(&Device::get_device(0).unwrap().sm_resource().unwrap()).unwrap();
/// std::thread::scope(|scope| {
///     scope.spawn(|| green.create_stream(None)); // two threads would have it
/// });
/// ```
///
/// ```compile_fail,E0499
/// # use custack::context::GreenContext;
/// # use custack::device::Device;
/// # custack::init(custack::CudaFlags::empty()).unwrap();
/// let mut green = GreenContext::new(&Device::get_device(0).unwrap().sm_resource().unwrap()).unwrap();
/// let (one, two) = (green.enter(), green.enter()); // it is entered once
/// drop((one, two));
/// ```
///
/// # Streams
///
/// A green context has its own default stream and those that are made in it or while it is current. It has no
/// per-thread default stream: while it is current, that is an [`InvalidHandle`](CudaError::InvalidHandle).
///
/// # The order of drops
///
/// Any. When the owner is dropped, the green context is destroyed for the program. The driver destroys it when the last
/// of its streams is dropped, because it would leak them, and the last graph that was captured in one; and it gives up
/// the share of the primary context after that. A thread on which a forgotten guard has left it current gets
/// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed) from then on, and so does whoever launches a graph that was
/// captured in it.
#[must_use = "dropping the owner destroys the green context: bind it, as in `let green = ...`"]
pub struct GreenContext {
    pub(super) handle: UnownedContext,
    primary: PrimaryContext,
    /// A pointer, so the owner is not shared between threads.
    raw: CUgreenCtx,
}

// SAFETY: the pointer is a handle, which the driver takes on any thread, from one at a time: the value is not `Sync`.
unsafe impl Send for GreenContext {}

impl GreenContext {
    /// Makes a green context of these multiprocessors. It is not made current.
    ///
    /// The first share of a primary context takes the driver some tenths of a second; a green context of one that is
    /// active takes far less.
    ///
    /// # Errors
    ///
    /// [`CallRequiresNewerDriver`](CudaError::CallRequiresNewerDriver) before CUDA 12.4;
    /// [`OutOfMemory`](CudaError::OutOfMemory); those of [`PrimaryContext::retain`].
    #[doc(alias("cuGreenCtxCreate", "cuDevResourceGenerateDesc", "cuCtxFromGreenCtx"))]
    pub fn new(part: &SmResource) -> CudaResult<GreenContext> {
        GreenContext::of_parts(std::slice::from_ref(part))
    }

    /// Makes a green context of several parts together, such as groups and the rest of one split. They may overlap.
    ///
    /// # Errors
    ///
    /// Those of [`new`](Self::new); [`InvalidValue`](CudaError::InvalidValue) for no parts (refused before the driver is
    /// called, which would crash);
    /// [`InvalidResourceConfiguration`](CudaError::InvalidResourceConfiguration) for parts of several devices.
    ///
    /// ```
    /// # use custack::context::GreenContext;
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let all = Device::get_device(0)?.sm_resource()?;
    /// let split = all.split(2, all.min_partition())?;
    /// let both = GreenContext::of_parts(&split.groups)?;
    /// assert_eq!(both.sm_resource()?.count(), 2 * split.groups[0].count());
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuGreenCtxCreate", "cuDevResourceGenerateDesc", "cuCtxFromGreenCtx"))]
    pub fn of_parts(parts: &[SmResource]) -> CudaResult<GreenContext> {
        let [first, ..] = parts else {
            return Err(CudaError::InvalidValue.note(format_args!("to make a green context of no parts")));
        };
        let driver = driver()?;
        let device = first.device();
        let mut resources: Vec<CUdevResource> = parts.iter().map(SmResource::as_raw).collect();
        let description = driver.dev_resource_generate_desc(&mut resources)?;
        let primary = PrimaryContext::retain(device)?;
        // SAFETY: the driver has just made the description, and never frees it.
        let (result, raw) = driver.green_ctx_create(unsafe { Held::new(description) }, device.as_raw());
        if raw.is_null() {
            result?;
            return Err(CudaError::InvalidContext
                .note(format_args!("to make a green context; the driver gave no handle")));
        }
        // SAFETY: just made, and given to nothing else; it is used before it is destroyed.
        let green = unsafe { Held::new(raw) };
        let context = result.and_then(|()| driver.ctx_from_green_ctx(green));
        let registered = context.and_then(|context| {
            let lease = primary.lease()?;
            let primary = *primary.handle();
            Ok(liveness::green::created(context, raw, device.as_raw(), primary, lease.live()).into())
        });
        let handle = registered.inspect_err(|_| {
            let _note = keep_note();
            let _ = driver.green_ctx_destroy(green);
        })?;
        Ok(GreenContext { handle, primary, raw })
    }

    /// The primary context, which has the memory, the modules, the events and the settings.
    pub fn primary(&self) -> &PrimaryContext {
        &self.primary
    }

    /// A handle of the green context. It tells whether the context is alive and what is current; with a context that is
    /// green, only the owner is [entered](Self::enter), so what needs it to be current returns
    /// [`NotPermitted`](CudaError::NotPermitted) where it is not.
    pub fn handle(&self) -> &UnownedContext {
        &self.handle
    }

    /// The device.
    pub fn device(&self) -> Device {
        self.primary.device()
    }

    /// The multiprocessors of the green context. Unlike the part that it was made from they can be split again.
    ///
    /// # Errors
    ///
    /// Any error of the driver.
    ///
    /// ```
    /// # use custack::context::GreenContext;
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let all = Device::get_device(0)?.sm_resource()?;
    /// let part = all.split(1, all.min_partition())?.groups[0];
    /// assert_eq!(GreenContext::new(&part)?.sm_resource()?.count(), part.count());
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuGreenCtxGetDevResource")]
    pub fn sm_resource(&self) -> CudaResult<SmResource> {
        let raw = self.with(Driver::green_ctx_get_dev_resource)?;
        Ok(SmResource::of(raw, self.device()))
    }

    /// The driver's own number for the green context, never reused in this process, which is that of its
    /// [handle](UnownedContext::driver_id) too.
    ///
    /// # Errors
    ///
    /// [`CallRequiresNewerDriver`](CudaError::CallRequiresNewerDriver) before CUDA 12.9.
    #[doc(alias = "cuGreenCtxGetId")]
    pub fn driver_id(&self) -> CudaResult<u64> {
        self.with(Driver::green_ctx_get_id)
    }

    /// Waits until the device has finished all work of the green context, and no other (CUDA 13.0 and later).
    ///
    /// # Errors
    ///
    /// [`CallRequiresNewerDriver`](CudaError::CallRequiresNewerDriver) on an older driver; the error of work that failed.
    ///
    /// ```
    /// # use custack::context::GreenContext;
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let green = GreenContext::new(&Device::get_device(0)?.sm_resource()?)?;
    /// green.synchronize()?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuCtxSynchronize_v2")]
    pub fn synchronize(&self) -> CudaResult<()> {
        let _call = super::refuse_in_context(self.primary.as_handle(), "wait for a green context")?;
        driver()?.ctx_synchronize_named(self.handle.lease()?.live())
    }

    /// The driver's handle of the green context.
    pub fn as_raw(&self) -> CUgreenCtx {
        self.raw
    }

    /// The driver's handle of the context that the green context is.
    pub fn as_raw_context(&self) -> CUcontext {
        self.handle.as_raw()
    }

    /// Destroys the green context; if that fails, returns the error and the owner. It is destroyed for the program from
    /// here on; the driver destroys it at once, unless it has [streams](Self#the-order-of-drops).
    ///
    /// # Errors
    ///
    /// Any error of the driver, with the owner. If its handle [is alive](UnownedContext::is_alive), nothing was done;
    /// otherwise dropping the returned owner does nothing to the green context.
    /// [`NotPermitted`](CudaError::NotPermitted) in a host function.
    ///
    /// ```
    /// # use custack::context::GreenContext;
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let green = GreenContext::new(&Device::get_device(0)?.sm_resource()?)?;
    /// GreenContext::drop(green).map_err(|(error, _)| error)?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuGreenCtxDestroy")]
    pub fn drop(green: GreenContext) -> DropResult<GreenContext> {
        match destroy_green(*green.handle.handle()) {
            // The destructor has nothing left to destroy, and gives up the share.
            Ok(()) => {
                mem::drop(green);
                Ok(())
            }
            Err(error) => Err((error, green)),
        }
    }

    /// Calls `f` with the green context's handle while it is alive.
    #[inline]
    pub(crate) fn with<R>(
        &self,
        f: impl FnOnce(&Driver, Held<'_, CUgreenCtx>) -> CudaResult<R>,
    ) -> CudaResult<R> {
        let driver = driver()?;
        let called = self.handle.handle().with_green(|green| f(driver, green));
        called.unwrap_or_else(|| Err(super::stack_ops::refusal(*self.handle.handle())))
    }

    /// Keeps the green context at the driver, for a stream.
    pub(crate) fn pin(&self) -> CudaResult<Pin> {
        self.handle.pin()
    }
}

impl Drop for GreenContext {
    fn drop(&mut self) {
        let _note = keep_note();
        destroy_green_quietly(*self.handle.handle());
    }
}

impl PartialEq for GreenContext {
    fn eq(&self, other: &GreenContext) -> bool {
        self.handle == other.handle
    }
}

impl Eq for GreenContext {}

impl fmt::Debug for GreenContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GreenContext").field("handle", &self.handle).field("primary", &self.primary).finish()
    }
}

impl fmt::Display for GreenContext {
    /// Like its handle.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.fmt(f)
    }
}

impl UnownedContext {
    /// The multiprocessors of the context: all of its device, or those of the green context that it is (CUDA 12.4 and
    /// later).
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed);
    /// [`CallRequiresNewerDriver`](CudaError::CallRequiresNewerDriver) on an older driver.
    ///
    /// ```
    /// # use custack::device::Device;
    /// let context = custack::quick_init()?;
    /// assert_eq!(context.device_resource()?.count(), Device::get_device(0)?.sm_resource()?.count());
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuCtxGetDevResource")]
    pub fn device_resource(&self) -> CudaResult<SmResource> {
        let (driver, device) = (driver()?, self.device()?);
        let raw = self.hazard(|live| driver.ctx_get_dev_resource(live))??;
        Ok(SmResource::of(raw, device))
    }

    /// How the work queues of the context are chosen (CUDA 13.1 and later).
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed); those of
    /// [`Device::workqueue_config`].
    #[doc(alias("cuCtxGetDevResource", "CUdevWorkqueueConfigResource"))]
    pub fn workqueue_config(&self) -> CudaResult<WorkqueueConfig> {
        let (driver, device) = (driver()?, self.device()?);
        WorkqueueConfig::of(self.hazard(|live| driver.ctx_get_workqueue_config(live))?, device)
    }
}
