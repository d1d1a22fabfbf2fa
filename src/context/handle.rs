//! [`UnownedContext`]: a handle to a context that something else owns.

use super::destroy::Pin;
use super::relaxed::refuse_in_context;
use super::stack_ops;
use crate::device::Device;
use crate::driver::ffi::CUcontext;
use crate::driver::{CudaApiVersion, Driver, driver};
use crate::error::{CudaError, CudaResult};
use crate::liveness::{Handle, Origin, registry};
use crate::sealed::Sealed;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ptr;

/// A handle to a context that does not own it: cheap to clone, and usable on any thread.
///
/// It may outlive the context. From the moment the owner is dropped, every method and every call that takes the handle
/// returns [`ContextIsDestroyed`](CudaError::ContextIsDestroyed) without calling the driver, which would crash. Two
/// handles are equal if they refer to the same context; that the driver reuses handle values does not make them equal.
///
/// The methods that query or change the context work whatever is current on the calling thread, and leave its stack as
/// it was.
///
/// ```
/// use custack::context::{Context, ContextFlags};
/// use custack::device::Device;
/// use custack::error::CudaError;
///
/// custack::init(custack::CudaFlags::empty())?;
/// let owner = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
/// let handle = owner.get_unowned();
/// std::thread::spawn({
///     let handle = handle.clone();
///     move || handle.scoped(|current| current.synchronize())
/// })
/// .join()
/// .unwrap()?;
///
/// drop(owner);
/// assert_eq!(handle.synchronize(), Err(CudaError::ContextIsDestroyed));
/// # Ok::<(), CudaError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[repr(transparent)]
pub struct UnownedContext(Handle);

#[doc(hidden)]
impl From<Handle> for UnownedContext {
    #[inline]
    fn from(handle: Handle) -> UnownedContext {
        UnownedContext(handle)
    }
}

impl UnownedContext {
    /// The handle as plain data.
    #[inline]
    pub(super) fn handle(&self) -> &Handle {
        &self.0
    }

    /// The null handle, by reference.
    pub(crate) const NONE: &'static UnownedContext = &UnownedContext(Handle::NONE);

    /// The null handle.
    pub(crate) fn none() -> UnownedContext {
        UnownedContext(Handle::NONE)
    }

    /// The pinned context with this number; the null handle for 0.
    #[inline]
    pub(crate) fn numbered(number: u16) -> UnownedContext {
        UnownedContext(Handle::numbered(number))
    }

    /// Whether there is a number for it, by which slices of its memory know it.
    #[inline]
    pub(crate) fn has_number(&self) -> bool {
        self.0.number() != 0
    }

    /// The context that has what is about to be made: the current one, or the primary one while a green one is current.
    #[inline]
    pub(crate) fn of_this_thread() -> CudaResult<UnownedContext> {
        UnownedContext::current_itself().map(|current| current.base())
    }

    /// The current context, in which something is about to be made.
    #[inline]
    pub(crate) fn current_itself() -> CudaResult<UnownedContext> {
        let current = stack_ops::current(driver()?)?;
        if current.is_alive() { Ok(UnownedContext(current)) } else { Err(unusable(current)) }
    }

    /// The context that has the memory, the modules and the events of this one: of a green context the primary one.
    #[inline]
    pub(crate) fn base(&self) -> UnownedContext {
        UnownedContext(self.0.base())
    }

    /// Whether what was made in the one can be used in the other.
    #[inline]
    pub(crate) fn shares_with(&self, other: &UnownedContext) -> bool {
        self == other || (self.0.is_green() || other.0.is_green()) && self.base() == other.base()
    }

    /// Of a green context: keeps it at the driver, for a stream of it.
    #[inline]
    pub(crate) fn pin_if_green(&self) -> CudaResult<Option<Pin>> {
        if self.0.is_green() { self.pin().map(Some) } else { Ok(None) }
    }

    /// Refuses a handle without a living context, before the driver is called.
    #[inline]
    pub(crate) fn usable(&self) -> CudaResult<()> {
        if self.is_alive() { Ok(()) } else { Err(stack_ops::refusal(self.0)) }
    }

    /// Whether the context is alive. Another thread may destroy it right afterwards.
    ///
    /// For a context made by [other code](Origin::Foreign), `true` means only that custack has not seen it destroyed.
    #[inline]
    pub fn is_alive(&self) -> bool {
        self.0.is_alive()
    }

    /// Whether this is the null handle, which [`get_current`](super::CurrentContext::get_current) returns on a thread
    /// without a context.
    pub fn is_null(&self) -> bool {
        self.0.is_none()
    }

    /// custack's own number for the context, from 1, never reused in this process; 0 for a null handle.
    pub fn id(&self) -> u64 {
        self.0.id()
    }

    /// Where the context came from.
    pub fn origin(&self) -> Origin {
        self.0.origin()
    }

    /// The driver's handle. Using it after the context is destroyed can crash the process.
    #[inline]
    pub fn as_raw(&self) -> CUcontext {
        self.0.raw()
    }

    /// A handle for a raw one that other code made, or that [`into_raw`](super::Context::into_raw) returned.
    ///
    /// If custack already has handles to the same living context, the new one equals them.
    ///
    /// # Safety
    ///
    /// `raw` is null, or the handle of a context of the running driver that is alive and stays alive while this handle
    /// or a clone of it is used: custack cannot know when other code destroys it.
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags, UnownedContext};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// // SAFETY: the owner is alive.
    /// let again = unsafe { UnownedContext::from_raw(ctx.as_raw()) };
    /// assert_eq!(again, ctx.get_unowned());
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[allow(unsafe_code, reason = "only the caller can vouch for a raw handle")]
    pub unsafe fn from_raw(raw: CUcontext) -> UnownedContext {
        if raw.is_null() {
            return UnownedContext::none();
        }
        let alive = registry::find(raw).filter(Handle::is_alive);
        UnownedContext(alive.unwrap_or_else(|| registry::find_or_add(raw, None)))
    }

    /// The device of the context.
    ///
    /// # Errors
    ///
    /// [`InvalidContext`](CudaError::InvalidContext) for a null handle; for a [foreign](Origin::Foreign) context whose
    /// device is not known yet, any error of the driver.
    #[doc(alias("cuCtxGetDevice", "cuCtxGetDevice_v2"))]
    pub fn device(&self) -> CudaResult<Device> {
        if let Some(device) = self.0.device() {
            return Ok(Device::from_raw(device));
        }
        self.usable()?;
        self.inside(Driver::ctx_get_device).map(Device::from_raw)
    }

    /// The version of the interface that the context was made with, such as 3.2; not the driver's version.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed), or
    /// [`InvalidContext`](CudaError::InvalidContext) for a null handle.
    #[doc(alias = "cuCtxGetApiVersion")]
    pub fn get_api_version(&self) -> CudaResult<CudaApiVersion> {
        let driver = driver()?;
        let version = self.hazard(|live| driver.ctx_get_api_version(live))??;
        Ok(CudaApiVersion::from_raw(i32::try_from(version).unwrap_or(i32::MAX)))
    }

    /// The driver's own number for the context, never reused in this process (CUDA 12.0 and later).
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed);
    /// [`CallRequiresNewerDriver`](CudaError::CallRequiresNewerDriver) on an older driver.
    #[doc(alias = "cuCtxGetId")]
    pub fn driver_id(&self) -> CudaResult<u64> {
        let driver = driver()?;
        self.hazard(|live| driver.ctx_get_id(live))?
    }

    /// Whether the context is alive and current on the calling thread.
    ///
    /// # Errors
    ///
    /// Any error of the driver.
    #[doc(alias = "cuCtxGetCurrent")]
    pub fn is_current(&self) -> CudaResult<bool> {
        Ok(self.is_alive() && ptr::eq(driver()?.ctx_get_current()?, self.as_raw()))
    }

    /// Makes the context current without a scope: for a thread that works in one context for long.
    ///
    /// If it is current already, whoever made it so, this asks the driver what is current, and does
    /// nothing else. Otherwise it does what [`set_current`](super::CurrentContext::set_current)
    /// does: it replaces the top of the stack, but no entry that a guard holds. Where a guard holds
    /// this context on top and other code has made another one current, the guard's entry is
    /// restored.
    ///
    /// # Errors
    ///
    /// * [`ContextIsDestroyed`](CudaError::ContextIsDestroyed): without a driver call.
    /// * [`HeldByGuard`](CudaError::HeldByGuard): another context is current, and a living guard holds its entry.
    /// * [`InvalidContext`](CudaError::InvalidContext): a null handle.
    ///
    /// ```
    /// # use custack::context::{Context, ContextFlags, ContextStack, CurrentContext};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
    /// ContextStack::pop()?;
    ///
    /// for _ in 0..3 {
    ///     ctx.bind()?; // sets it once, and then looks
    ///     assert_eq!(CurrentContext::get_current()?, ctx.get_unowned());
    /// }
    /// assert_eq!(ContextStack::depth(), 1);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuCtxGetCurrent", "cuCtxSetCurrent"))]
    #[track_caller]
    #[inline]
    pub fn bind(&self) -> CudaResult<()> {
        self.usable()?;
        if self.is_current()? { Ok(()) } else { stack_ops::set(&self.0) }
    }

    /// Waits until the device has finished all work of this context.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed); the error of work that failed.
    #[doc(alias("cuCtxSynchronize", "cuCtxSynchronize_v2"))]
    pub fn synchronize(&self) -> CudaResult<()> {
        self.usable()?;
        let _call = refuse_in_context(self, "wait for a context")?;
        self.inside(Driver::ctx_synchronize)
    }
}

impl UnownedContext {
    /// For a call that was not made because other code has destroyed the context.
    #[cold]
    pub(crate) fn gone<R>(&self) -> CudaResult<R> {
        Err(stack_ops::refusal(self.0))
    }
}

/// Why nothing can be made in the current context.
#[cold]
fn unusable(current: Handle) -> CudaError {
    if current.is_none() {
        return CudaError::InvalidContext.note(format_args!("to work in the current context"));
    }
    stack_ops::refusal(current)
}

impl Hash for UnownedContext {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.id().hash(state);
    }
}

impl fmt::Debug for UnownedContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnownedContext")
            .field("raw", &self.as_raw())
            .field("id", &self.0.id())
            .field("device", &self.0.device())
            .field("origin", &self.0.origin())
            .field("alive", &self.is_alive())
            .finish()
    }
}

impl fmt::Display for UnownedContext {
    /// For example `context 3 on device 0`, plus what is special about it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Anything that can be pushed, set and entered: an owner, a handle, a guard. Other crates cannot implement it.
pub trait ContextHandle: Sealed {
    /// The driver's handle.
    #[doc(hidden)]
    fn get_inner(&self) -> CUcontext;

    /// The handle, which knows whether its context is alive.
    #[doc(hidden)]
    fn as_unowned(&self) -> &UnownedContext;
}

impl Sealed for UnownedContext {}

impl ContextHandle for UnownedContext {
    fn get_inner(&self) -> CUcontext {
        self.as_raw()
    }

    #[inline]
    fn as_unowned(&self) -> &UnownedContext {
        self
    }
}
