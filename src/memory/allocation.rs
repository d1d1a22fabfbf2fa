//! [`Allocation`]: memory that the driver allocated, of any kind, and how it is freed.

// Frees what it owns.
#![allow(unsafe_code)]

use super::ordered::Home;
use crate::context::{Pin, UnownedContext, ask_until_over, is_gone, must_retire, refuse_unsafe, unbroken};
use crate::driver::{Driver, driver};
use crate::error::{CudaError, CudaResult, keep_note};
use crate::liveness::{MOST_NUMBERED, retire};
use crate::report;
use std::cell::Cell;
use std::mem;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Device,
    Unified,
    Locked,
    /// Memory of the program, page-locked in place.
    Registered,
    /// Memory of another process.
    Opened,
}

impl Kind {
    fn allocate(self, driver: &Driver, size: usize) -> CudaResult<u64> {
        match self {
            Kind::Device => driver.mem_alloc(size),
            Kind::Unified => driver.mem_alloc_managed(size),
            Kind::Locked | Kind::Registered => driver.mem_alloc_host(size),
            // It is opened by its handle.
            Kind::Opened => Err(CudaError::InvalidValue),
        }
    }

    /// # Safety
    ///
    /// Nothing uses the memory afterwards.
    unsafe fn free(self, driver: &Driver, address: u64) -> CudaResult<()> {
        // SAFETY: as the caller guarantees.
        unsafe {
            match self {
                Kind::Device | Kind::Unified => driver.mem_free(address),
                Kind::Locked => driver.mem_free_host(address as *mut _),
                Kind::Registered => driver.mem_host_unregister(address as *mut _),
                Kind::Opened => driver.ipc_close_mem_handle(address),
            }
        }
    }
}

/// How often the driver has to refuse an address before it is believed.
const TIMES: u32 = 16;

/// Unregisters memory of the program again, after that failed. The program may free it afterwards, so
/// this is repeated until the driver, which looks the address up, finds nothing registered there. It
/// refuses an address in memory that it has page-locked itself, for which registering failed.
#[cold]
pub(super) fn unregister_again(unregister: impl Fn() -> CudaResult<()>) -> CudaResult<()> {
    let refused = Cell::new(0);
    let is_unregistered = || match unregister() {
        Err(CudaError::HostMemoryNotRegistered) => Ok(()),
        Err(error @ (CudaError::InvalidValue | CudaError::NotSupported)) => {
            refused.set(refused.get() + 1);
            if refused.get() < TIMES { Err(error) } else { Ok(()) }
        }
        result => result,
    };
    ask_until_over(&[&is_unregistered], None)
}

/// The only owner of some memory. It pins its context, so that the addresses are not reused; dropping it frees the
/// memory, and destroys the context if it was the last that kept one whose owner is gone.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Allocation {
    // At offset 0: existing programs read it there.
    address: u64,
    /// The stream in whose order it is freed. Dropped before the pin, because it may be the last that keeps the stream, which
    /// is destroyed while the context is there.
    home: Option<Home>,
    /// `None` if there is no memory, or if custack did not allocate it.
    pin: Option<Pin>,
    kind: Kind,
    /// Freeing failed and may have taken effect: the memory is not used or freed again.
    spent: bool,
}

impl Allocation {
    /// Allocates memory in the current context.
    pub(super) fn new(kind: Kind, size: usize) -> CudaResult<Allocation> {
        Allocation::made(kind, |driver| kind.allocate(driver, size))
    }

    /// Memory in the current context that this allocates.
    pub(super) fn made(
        kind: Kind,
        allocate: impl FnOnce(&Driver) -> CudaResult<u64>,
    ) -> CudaResult<Allocation> {
        refuse_unsafe("allocate memory")?;
        let context = UnownedContext::of_this_thread()?;
        if matches!(kind, Kind::Device | Kind::Opened) && !context.has_number() {
            return Err(CudaError::NotSupported.note(format_args!(
                "to allocate memory in {context}: memory is of {MOST_NUMBERED} contexts at most"
            )));
        }
        let (address, pin) = context.pinned(allocate)?;
        Ok(Allocation { address, kind, pin: Some(pin), spent: false, home: None })
    }

    /// Device memory in the order of a stream.
    pub(super) fn ordered(address: u64, pin: Pin, home: Home) -> Allocation {
        Allocation { address, kind: Kind::Device, pin: Some(pin), spent: false, home: Some(home) }
    }

    /// Refuses memory that is not aligned for `T`: the driver always aligns to 256 bytes, or to a page.
    pub(super) fn aligned_for<T>(self) -> CudaResult<Allocation> {
        if (self.address as *const T).is_aligned() {
            return Ok(self);
        }
        let (address, wanted) = (self.address, mem::align_of::<T>());
        Err(CudaError::InvalidValue.note(format_args!(
            "to allocate values that are aligned to {wanted} bytes; the driver returned {address:#x}"
        )))
    }

    /// No memory, for zero-sized or no values; the address is not used.
    pub(super) fn nothing(kind: Kind, address: usize) -> Allocation {
        Allocation { address: address as u64, kind, pin: None, spent: true, home: None }
    }

    /// Memory that other code allocated. It is freed in whatever context is current then.
    pub(super) fn foreign(kind: Kind, address: u64) -> Allocation {
        Allocation { address, kind, pin: None, spent: false, home: None }
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }

    /// The context of the memory; a null handle if it is not known.
    pub(super) fn context(&self) -> &UnownedContext {
        self.pin.as_ref().map_or(UnownedContext::NONE, Pin::context)
    }

    /// The number of the stream in whose order the memory is, or of the context that is pinned; 0 if there is none.
    pub(super) fn number(&self) -> u16 {
        match &self.home {
            Some(home) => home.number(),
            None => self.pin.as_ref().map_or(0, Pin::number),
        }
    }

    /// The stream in whose order the memory is.
    pub(super) fn home(&self) -> Option<&Home> {
        self.home.as_ref()
    }

    pub(super) fn home_mut(&mut self) -> Option<&mut Home> {
        self.home.as_mut()
    }

    /// Whether freeing failed, or there is nothing to free.
    pub(super) fn is_spent(&self) -> bool {
        self.spent
    }

    fn free_now(&self) -> CudaResult<()> {
        if self.spent {
            return Ok(());
        }
        // SAFETY: this value owns the memory, and is spent or dropped after this.
        let free = |driver: &Driver| unbroken(driver, || unsafe { self.kind.free(driver, self.address) });
        let Some(pin) = &self.pin else { return free(driver()?) };
        let freed = match &self.home {
            // SAFETY: as above.
            Some(home) => unsafe { home.free(self.address, pin) },
            None => match pin.context().dispose(free) {
                // In a host function it can only be retired.
                Some(Err(error)) if self.kind == Kind::Registered && error != CudaError::NotPermitted => {
                    Some(unregister_again(|| pin.context().dispose(free).unwrap_or(Ok(()))))
                }
                freed => freed,
            },
        };
        match freed {
            Some(Err(error)) if !is_gone(error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Frees the memory of `count` values; on failure returns the error, the memory, and how many values are there. That
    /// is none, and the memory is spent, because the call may have done its work, except where the driver refuses every
    /// call.
    pub(super) fn free(mut self, count: usize) -> Result<(), (CudaError, Allocation, usize)> {
        match self.free_now() {
            Err(error) if is_refusal(error) => Err((error, self, count)),
            result => {
                self.spend();
                result.map_err(|error| (error, self, 0))
            }
        }
    }

    /// Gives up the memory and unpins its context.
    fn spend(&mut self) {
        self.spent = true;
        self.address = 0;
        self.home = None;
        self.pin = None;
    }

    /// Moves the memory into another value; nothing is left in this one.
    fn take(&mut self) -> Allocation {
        let nothing = Allocation::nothing(self.kind, 0);
        mem::replace(self, nothing)
    }

    /// The last attempt of a destructor.
    fn free_at_last(mut self) {
        let mut freed = self.free_now();
        if freed == Err(CudaError::StreamCaptureUnsupported) {
            // In the order of a stream that captures the free would go into the graph.
            let (home, pin) = (self.home.as_ref(), self.pin.as_ref());
            if home.zip(pin).is_some_and(|(home, pin)| home.wait_outside_captures(pin)) {
                self.home = None;
                freed = self.free_now();
            }
        }
        if let Err(error) = freed {
            self.report(error);
        }
        self.spend();
    }

    fn report(&self, error: CudaError) {
        let kind = match self.kind {
            Kind::Device => "device",
            Kind::Unified => "unified",
            Kind::Locked | Kind::Registered => "page-locked",
            Kind::Opened => "another process's",
        };
        report::warn(format_args!("{kind} memory of {} could not be freed: {error:?}", self.context()));
    }
}

/// Whether nothing was freed: the driver allows no call now, or a stream is capturing.
fn is_refusal(error: CudaError) -> bool {
    matches!(error, CudaError::NotPermitted | CudaError::StreamCaptureUnsupported)
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if self.spent {
            return;
        }
        let _note = keep_note();
        match if must_retire() { Err(CudaError::NotPermitted) } else { self.free_now() } {
            Ok(()) => {}
            // During a capture the other thread waits for the streams, and breaks none.
            Err(error) if is_refusal(error) => {
                let other = self.take();
                retire(move || other.free_at_last());
            }
            Err(error) => self.report(error),
        }
    }
}
