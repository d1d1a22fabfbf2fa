//! [`UnownedContext`]: a handle to a context that something else owns.

use super::known;
use super::liveness::{Killed, Record};
use super::moves;
use crate::device::Device;
use crate::driver::ffi::{CUcontext, CUdevice};
use crate::driver::{CudaApiVersion, Live, driver};
use crate::error::{CudaError, CudaResult};
use crate::private::Sealed;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ptr;

/// How custack came to know a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Created by this crate, and owned by a [`Context`](super::Context).
    Created,
    /// A device's primary context, retained by a [`PrimaryContext`](super::PrimaryContext).
    Primary,
    /// Made by other code. Its lifetime is that code's business: custack cannot know when it is destroyed.
    Foreign,
}

/// A handle to a context that does not own it: cheap to clone, and good on any thread.
///
/// It may outlive the context. From the moment the owner lets go, every method and every call that takes the handle
/// answers [`ContextIsDestroyed`](CudaError::ContextIsDestroyed), without asking the driver, which would crash. Two
/// handles are equal if they are of the same context; the driver's reuse of a handle value does not make them so.
///
/// The methods that ask about or change the context work whatever is current on the calling thread, and leave its
/// stack as it was.
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
pub struct UnownedContext(Identity);

/// What a handle is, as plain data.
#[derive(Clone, Copy)]
pub(super) struct Identity {
    record: &'static Record,
    id: u64,
    // A number and not an `Option`: handles are copied in every scope, and this keeps them in one piece.
    device: CUdevice,
    origin: Origin,
}

/// No device has this number.
const UNKNOWN: CUdevice = -1;

/// Stands behind the handle that `get_current` gives when no context is current.
static NULL: Record = Record::new(0);

impl Identity {
    pub(super) const NOBODY: Identity =
        Identity { record: &NULL, id: 0, device: UNKNOWN, origin: Origin::Foreign };

    #[inline]
    pub(super) fn raw(&self) -> CUcontext {
        self.record.raw()
    }

    #[inline]
    pub(super) fn is_alive(&self) -> bool {
        self.record.is_alive(self.id)
    }

    fn device(&self) -> Option<CUdevice> {
        (self.device != UNKNOWN).then_some(self.device)
    }
}

impl PartialEq for Identity {
    #[inline]
    fn eq(&self, other: &Identity) -> bool {
        ptr::eq(self.record, other.record) && self.id == other.id
    }
}

impl Eq for Identity {}

impl From<Identity> for UnownedContext {
    #[inline]
    fn from(identity: Identity) -> UnownedContext {
        UnownedContext(identity)
    }
}

impl UnownedContext {
    pub(super) fn new(
        record: &'static Record,
        id: u64,
        device: Option<CUdevice>,
        origin: Origin,
    ) -> UnownedContext {
        UnownedContext(Identity { record, id, device: device.unwrap_or(UNKNOWN), origin })
    }

    pub(super) fn null() -> UnownedContext {
        UnownedContext(Identity::NOBODY)
    }

    pub(super) fn with_id(self, id: u64) -> UnownedContext {
        UnownedContext(Identity { id, ..self.0 })
    }

    #[inline]
    pub(super) fn identity(&self) -> Identity {
        self.0
    }

    pub(super) fn record(&self) -> &'static Record {
        self.0.record
    }

    /// Calls `f` with the raw handle while nobody can destroy the context.
    pub(super) fn protect<R>(&self, f: impl FnOnce(Live<'_>) -> R) -> CudaResult<R> {
        self.protect_or_not(f).ok_or_else(|| self.refusal())
    }

    /// As [`protect`](Self::protect); `None`, without a call, if the handle stands for no living context.
    #[inline]
    pub(super) fn protect_or_not<R>(&self, f: impl FnOnce(Live<'_>) -> R) -> Option<R> {
        self.0.record.protect(self.0.id, f)
    }

    pub(super) fn take_life(&self) -> Option<Killed> {
        self.0.record.take_life(self.0.id)
    }

    /// Refuses a handle that stands for no living context, before the driver is asked.
    #[inline]
    pub(super) fn usable(&self) -> CudaResult<()> {
        if self.is_alive() { Ok(()) } else { Err(self.refusal()) }
    }

    #[cold]
    pub(super) fn refusal(&self) -> CudaError {
        if self.is_null() {
            return CudaError::InvalidContext
                .note(format_args!("a null handle, which stands for no context"));
        }
        CudaError::ContextIsDestroyed.note(format_args!("{self}"))
    }

    /// Whether the context is alive. Another thread may destroy it right after.
    ///
    /// Of a context made by [other code](Origin::Foreign) it tells only that custack has not seen it destroyed.
    #[inline]
    pub fn is_alive(&self) -> bool {
        self.0.is_alive()
    }

    /// Whether this stands for "no context", as [`get_current`](super::CurrentContext::get_current) gives it on a
    /// thread without one.
    pub fn is_null(&self) -> bool {
        self.as_raw().is_null()
    }

    /// custack's own number of the context, from 1, never used again in this process; 0 for a null handle.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// How custack came to know the context.
    pub fn origin(&self) -> Origin {
        self.0.origin
    }

    /// The driver's handle. Using it once the context is destroyed can crash the process.
    #[inline]
    pub fn as_raw(&self) -> CUcontext {
        self.0.raw()
    }

    /// A handle for a raw one that other code made, or that [`into_raw`](super::Context::into_raw) gave away.
    ///
    /// A raw handle that custack knows and that is alive gives a handle equal to the others of the same context.
    ///
    /// # Safety
    ///
    /// `raw` is null, or the handle of a context of the running driver that is alive and stays so while the handle
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
            return UnownedContext::null();
        }
        let alive = known::find(raw).filter(UnownedContext::is_alive);
        alive.unwrap_or_else(|| known::add(raw, None, Origin::Foreign))
    }

    /// The device of the context.
    ///
    /// # Errors
    ///
    /// [`InvalidContext`](CudaError::InvalidContext) for a null handle; of a [foreign](Origin::Foreign) context
    /// whose device is not known yet, what the driver answers.
    #[doc(alias("cuCtxGetDevice", "cuCtxGetDevice_v2"))]
    pub fn device(&self) -> CudaResult<Device> {
        if let Some(device) = self.0.device() {
            return Ok(Device::from_raw(device));
        }
        let _current = self.enter()?;
        driver()?.ctx_get_device().map(Device::from_raw)
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
        let version = self.protect(|live| driver.ctx_get_api_version(live))??;
        Ok(CudaApiVersion::from_raw(i32::try_from(version).unwrap_or(i32::MAX)))
    }

    /// The driver's own number of the context, never used again in this process (CUDA 12.0 and later).
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed);
    /// [`CallRequiresNewerDriver`](CudaError::CallRequiresNewerDriver) on an older driver.
    #[doc(alias = "cuCtxGetId")]
    pub fn driver_id(&self) -> CudaResult<u64> {
        let driver = driver()?;
        self.protect(|live| driver.ctx_get_id(live))?
    }

    /// Whether the context is alive and current on the calling thread.
    ///
    /// # Errors
    ///
    /// What the driver answers.
    #[doc(alias = "cuCtxGetCurrent")]
    pub fn is_current(&self) -> CudaResult<bool> {
        Ok(self.is_alive() && ptr::eq(driver()?.ctx_get_current()?, self.as_raw()))
    }

    /// Makes the context current as [`set_current`](super::CurrentContext::set_current) does, unless it is already.
    ///
    /// # Errors
    ///
    /// Those of [`set_current`](super::CurrentContext::set_current).
    #[doc(alias = "cuCtxSetCurrent")]
    #[track_caller]
    pub fn bind(&self) -> CudaResult<()> {
        self.usable()?;
        if self.is_current()? { Ok(()) } else { moves::set(self) }
    }

    /// Waits until the device has finished all work of this context.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed); the error of work that failed.
    #[doc(alias("cuCtxSynchronize", "cuCtxSynchronize_v2"))]
    pub fn synchronize(&self) -> CudaResult<()> {
        // Not by `cuCtxSynchronize_v2`: it takes the handle, and a destroyer would have to wait as long as we do.
        let _current = self.enter()?;
        driver()?.ctx_synchronize()
    }
}

impl Hash for UnownedContext {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.as_raw(), self.0.id).hash(state);
    }
}

impl fmt::Debug for UnownedContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnownedContext")
            .field("raw", &self.as_raw())
            .field("id", &self.0.id)
            .field("device", &self.0.device())
            .field("origin", &self.0.origin)
            .field("alive", &self.is_alive())
            .finish()
    }
}

impl fmt::Display for UnownedContext {
    /// Such as `context 3 on device 0`, with what is special about it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_null() {
            return f.write_str("no context");
        }
        match self.0.origin {
            Origin::Created => write!(f, "context {}", self.0.id)?,
            Origin::Primary => write!(f, "primary context {}", self.0.id)?,
            Origin::Foreign => write!(f, "foreign context {} ({:p})", self.0.id, self.as_raw())?,
        }
        if let Some(device) = self.0.device() {
            write!(f, " on device {device}")?;
        }
        if self.is_alive() { Ok(()) } else { f.write_str(", destroyed") }
    }
}

/// What can be pushed, set and entered: an owner, a handle, a guard. Not for implementing elsewhere.
pub trait ContextHandle: Sealed {
    /// The driver's handle.
    #[doc(hidden)]
    fn get_inner(&self) -> CUcontext;

    /// The handle with its liveness.
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
