//! [`PrimaryContext`]: the context of a device that all code in the process shares.

use super::captures;
use super::destroy::finish;
use super::flags::ContextFlags;
use super::handle::{ContextHandle, UnownedContext};
use super::stack_ops;
use crate::device::Device;
use crate::driver::ffi::CUcontext;
use crate::driver::{driver, driver_to_drop};
use crate::error::{CudaError, CudaResult, DropResult, keep_note};
use crate::liveness::{is_ending, registry, retire};
use crate::report;
use crate::sealed::Sealed;
use std::fmt;
use std::mem;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A share in a device's primary context, the one that the CUDA runtime, its libraries and every framework use.
///
/// The driver counts shares and keeps the context while there are any; this type holds one and releases it when
/// dropped. Handles made from it are valid until this crate's last share is released, whatever shares other code has:
/// custack cannot know about those.
///
/// Retaining does not make the context current; [`scoped`](UnownedContext::scoped), [`enter`](UnownedContext::enter)
/// and everything else that takes a context does.
///
/// ```
/// use custack::context::PrimaryContext;
/// use custack::device::Device;
///
/// custack::init(custack::CudaFlags::empty())?;
/// let primary = PrimaryContext::retain(Device::get_device(0)?)?;
/// primary.scoped(|current| current.synchronize())?;
/// # Ok::<(), custack::error::CudaError>(())
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct PrimaryContext {
    share: Arc<Share>,
}

/// One share of the driver's count.
#[derive(Debug)]
struct Share {
    handle: UnownedContext,
    device: Device,
    /// Released already; another release would release somebody else's share.
    spent: AtomicBool,
    /// Given away by one of several clones that hold it in common, so the last of them must not release it.
    given_away: AtomicBool,
}

/// The state of a device's primary context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PrimaryState {
    /// The flags that it has, or will have when it becomes active.
    pub flags: ContextFlags,
    /// Whether any code holds a share.
    pub active: bool,
}

impl PrimaryContext {
    /// Takes a share in the device's primary context, which is created if there are no shares yet.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`](CudaError::OutOfMemory); [`UnknownError`](CudaError::UnknownError) if the device's compute
    /// mode forbids contexts.
    #[doc(alias = "cuDevicePrimaryCtxRetain")]
    pub fn retain(device: Device) -> CudaResult<PrimaryContext> {
        let driver = driver()?;
        let (result, raw) = driver.primary_ctx_retain(device.as_raw());
        if result.is_err() && raw.is_null() {
            result?;
        }
        let share = Share::new(raw, device);
        // The call failed, but the driver has counted the share; dropping it releases it.
        result.map(|()| PrimaryContext { share: Arc::new(share) })
    }

    /// Takes a share in the primary context of every device, in the order of the devices. None is made current.
    ///
    /// # Errors
    ///
    /// Those of [`retain`](Self::retain); the shares that were taken before are released.
    ///
    /// ```
    /// # use custack::context::PrimaryContext;
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let contexts = PrimaryContext::retain_all()?;
    /// assert_eq!(contexts.len(), Device::devices()?.len());
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuDevicePrimaryCtxRetain")]
    pub fn retain_all() -> CudaResult<Vec<PrimaryContext>> {
        Device::devices()?.map(|device| PrimaryContext::retain(device?)).collect()
    }

    /// The state of the device's primary context, whether or not this program has a share.
    ///
    /// # Errors
    ///
    /// Any error of the driver.
    ///
    /// ```
    /// # use custack::context::PrimaryContext;
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let device = Device::get_device(0)?;
    /// let primary = PrimaryContext::retain(device)?;
    /// assert!(PrimaryContext::state(device)?.active);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuDevicePrimaryCtxGetState")]
    pub fn state(device: Device) -> CudaResult<PrimaryState> {
        let (flags, active) = driver()?.primary_ctx_get_state(device.as_raw())?;
        Ok(PrimaryState { flags: ContextFlags::from_driver(flags), active })
    }

    /// Sets the flags that the device's primary context has or will have; releasing its last share resets them.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](CudaError::InvalidValue): more than one scheduling flag (refused before the driver is called),
    /// or `MAP_HOST`, which a primary context always has.
    ///
    /// ```
    /// # use custack::context::{ContextFlags, PrimaryContext};
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let device = Device::get_device(0)?;
    /// PrimaryContext::set_primary_flags(device, ContextFlags::SCHED_BLOCKING_SYNC)?;
    /// assert_eq!(PrimaryContext::state(device)?.flags, ContextFlags::SCHED_BLOCKING_SYNC);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuDevicePrimaryCtxSetFlags", "cuDevicePrimaryCtxSetFlags_v2"))]
    pub fn set_primary_flags(device: Device, flags: ContextFlags) -> CudaResult<()> {
        flags.refuse_two_schedules()?;
        driver()?
            .primary_ctx_set_flags(device.as_raw(), flags.bits())
            .map_err(|error| error.note_instead(format_args!("to set {flags:?} for the primary context")))
    }

    /// Destroys the device's primary context and everything in it, whoever made it; the shares stay counted.
    ///
    /// # Errors
    ///
    /// Any error of the driver.
    ///
    /// # Safety
    ///
    /// From here on nothing in the process uses the primary context or anything made in it: all of that is freed,
    /// including what other libraries made and what this crate's handles refer to.
    #[doc(alias("cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset_v2"))]
    #[allow(unsafe_code, reason = "only the caller can vouch for everybody else in the process")]
    pub unsafe fn reset(device: Device) -> CudaResult<()> {
        driver()?.primary_ctx_reset(device.as_raw())
    }

    /// A handle that holds no share, to give to other threads.
    #[inline]
    pub fn get_unowned(&self) -> UnownedContext {
        self.share.handle.clone()
    }

    /// The handle, by reference.
    pub(super) fn as_handle(&self) -> &UnownedContext {
        &self.share.handle
    }

    /// The device whose primary context it is.
    pub fn device(&self) -> Device {
        self.share.device
    }

    /// Takes another share.
    ///
    /// # Errors
    ///
    /// Those of [`retain`](Self::retain). [`Clone`] cannot fail; where this function fails, it makes both values hold
    /// one share.
    #[doc(alias = "cuDevicePrimaryCtxRetain")]
    pub fn try_clone(&self) -> CudaResult<PrimaryContext> {
        PrimaryContext::retain(self.share.device)
    }

    /// Releases the share; if that fails, returns the error and the share.
    ///
    /// # Errors
    ///
    /// Any error of the driver. It is not an error if the share is released already. A call that failed may have done
    /// its work, so the returned share is spent and dropping it does nothing; only after
    /// [`NotPermitted`](CudaError::NotPermitted), in a host function, is the share unchanged.
    ///
    /// ```
    /// # use custack::context::PrimaryContext;
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let primary = PrimaryContext::retain(Device::get_device(0)?)?;
    /// PrimaryContext::drop(primary).map_err(|(error, _primary)| error)?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease_v2"))]
    pub fn drop(primary: PrimaryContext) -> DropResult<PrimaryContext> {
        // A share of its own is released here; one that a failed clone left in common, by its last holder.
        let share = match Arc::try_unwrap(primary.share) {
            Ok(share) => share,
            Err(_shared) => return Ok(()),
        };
        match share.release() {
            Ok(()) => {
                mem::forget(share);
                Ok(())
            }
            Err(error) => Err((error, PrimaryContext { share: Arc::new(share) })),
        }
    }

    /// Gives the share away: whoever has the raw handle must release it.
    ///
    /// Existing handles stay valid.
    pub fn into_raw(self) -> CUcontext {
        // If others hold the share in common, the handles stay valid and the last holder updates the registry.
        self.share.given_away.store(true, Ordering::Relaxed);
        self.share.handle.as_raw()
    }

    /// Takes over a share that was [given away](Self::into_raw), or retained by other code.
    ///
    /// # Errors
    ///
    /// [`InvalidContext`](CudaError::InvalidContext) for a null handle.
    ///
    /// # Safety
    ///
    /// `raw` is null, or the handle of the device's primary context, and the caller holds a share that nothing else
    /// will release.
    #[allow(unsafe_code, reason = "only the caller can vouch for a raw handle")]
    pub unsafe fn from_raw(raw: CUcontext, device: Device) -> CudaResult<PrimaryContext> {
        if raw.is_null() {
            return Err(CudaError::InvalidContext.note(format_args!("to hold a share in a null handle")));
        }
        let share = Share::new(raw, device);
        Ok(PrimaryContext { share: Arc::new(share) })
    }
}

impl Share {
    fn new(raw: CUcontext, device: Device) -> Share {
        let handle = registry::retained(raw, device.as_raw()).into();
        Share { handle, device, spent: AtomicBool::new(false), given_away: AtomicBool::new(false) }
    }

    /// Releases the share. Before this crate's last share is released its handles die, so that none is used while the
    /// driver may be destroying the context. A call that failed may have done its work, so the share is spent either
    /// way.
    fn release(&self) -> CudaResult<()> {
        if self.given_away.load(Ordering::Relaxed) {
            if !self.spent.swap(true, Ordering::Relaxed) {
                registry::given_away(*self.handle.handle());
            }
            return Ok(());
        }
        let driver = driver_to_drop()?;
        if self.spent.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let (handle, device) = (*self.handle.handle(), self.device.as_raw());
        let last = registry::released(handle);
        let result = match (last, is_ending()) {
            (true, false) => handle.claim().map_or(Ok(()), |ending| ending.finish(0)),
            (false, false) => driver.primary_ctx_release(device),
            (last, true) => {
                self.retire(last);
                Ok(())
            }
        };
        if last {
            stack_ops::clear_destroyed(driver, handle);
            captures::lose_of_context(handle.id());
        }
        match result {
            Err(CudaError::Deinitialized | CudaError::InvalidContext) => Ok(()),
            result => result,
        }
    }

    /// Has custack's own thread release the share.
    fn retire(&self, last: bool) {
        let (handle, device) = (*self.handle.handle(), self.device.as_raw());
        retire(move || {
            let released = match last {
                true => {
                    captures::lose_of_context(handle.id());
                    return finish(handle.claim());
                }
                false => driver_to_drop().and_then(|driver| driver.primary_ctx_release(device)),
            };
            if let Err(error) = released {
                report::warn(format_args!("{handle} could not be released: {error:?}"));
            }
        });
    }
}

impl PartialEq for Share {
    fn eq(&self, other: &Share) -> bool {
        self.handle == other.handle
    }
}

impl Eq for Share {}

impl Drop for Share {
    fn drop(&mut self) {
        let _note = keep_note();
        match self.release() {
            Ok(()) => {}
            // Refused in a host function, before anything was done.
            Err(_) if !self.spent.swap(true, Ordering::Relaxed) => {
                self.retire(registry::released(*self.handle.handle()));
            }
            Err(error) => report::warn(format_args!("{} could not be released: {error:?}", self.handle)),
        }
    }
}

impl Clone for PrimaryContext {
    /// Takes another share. If the driver refuses, which it does only in a broken state, the clone and the original
    /// hold one share in common.
    fn clone(&self) -> PrimaryContext {
        self.try_clone().unwrap_or_else(|error| {
            report::warn(format_args!("{} could not be retained again: {error:?}", self.share.handle));
            PrimaryContext { share: Arc::clone(&self.share) }
        })
    }
}

impl Deref for PrimaryContext {
    type Target = UnownedContext;

    #[inline]
    fn deref(&self) -> &UnownedContext {
        &self.share.handle
    }
}

impl fmt::Display for PrimaryContext {
    /// Like its handle.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.share.handle.fmt(f)
    }
}

impl Sealed for PrimaryContext {}

impl ContextHandle for PrimaryContext {
    fn get_inner(&self) -> CUcontext {
        self.share.handle.as_raw()
    }

    #[inline]
    fn as_unowned(&self) -> &UnownedContext {
        &self.share.handle
    }
}
