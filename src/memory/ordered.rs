//! Memory in the order of a stream: where it is allocated and freed, and what the free waits for.

// Frees memory at an address.
#![allow(unsafe_code)]

use super::allocation::Allocation;
use super::others::{Other, Others};
use crate::context::in_call::InCall;
use crate::context::{Pin, refuse_unsafe, unbroken};
use crate::driver::Held;
use crate::driver::ffi::CUmemoryPool;
use crate::error::{CudaError, CudaResult};
use crate::stream::{Shared, Stream, captured_elsewhere};
use std::fmt;
use std::sync::Arc;

/// The stream and the pool of an allocation in the order of a stream.
///
/// While the stream captures, the memory would be the graph's, so that is refused with
/// [`StreamCaptureUnsupported`](CudaError::StreamCaptureUnsupported); `Capture::allocate` gives memory that the graph owns.
///
/// It is made from a stream, with the current pool of the stream's device, or from a pool and a stream:
///
/// ```
/// use custack::memory::DeviceBuffer;
/// use custack::stream::{Stream, StreamFlags};
///
/// let _context = custack::quick_init()?;
/// let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
/// let buffer = DeviceBuffer::from_slice_in(&[1u32, 2, 3], &stream)?;
/// assert_eq!(buffer.len(), 3);
/// # Ok::<(), custack::error::CudaError>(())
/// ```
///
/// ```
/// use custack::device::Device;
/// use custack::memory::{DeviceBuffer, MemoryPool, PoolProperties};
/// use custack::stream::{Stream, StreamFlags};
///
/// let _context = custack::quick_init()?;
/// let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
/// let pool = MemoryPool::new(Device::get_device(0)?, &PoolProperties::new())?;
/// let buffer = DeviceBuffer::from_slice_in(&[1u32, 2, 3], (&pool, &stream))?;
/// assert!(pool.usage()?.used >= 12);
/// # Ok::<(), custack::error::CudaError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct StreamOrder<'a> {
    stream: &'a Stream,
    pool: Option<&'a dyn PoolOfOrder>,
}

/// The pool of an order.
pub(super) trait PoolOfOrder: fmt::Debug + Send + Sync {
    /// The handle, for the driver.
    fn held(&self) -> CudaResult<Held<'_, CUmemoryPool>>;
}

impl<'a> StreamOrder<'a> {
    pub(super) fn of(stream: &'a Stream, pool: &'a dyn PoolOfOrder) -> StreamOrder<'a> {
        StreamOrder { stream, pool: Some(pool) }
    }
}

impl<'a> From<&'a Stream> for StreamOrder<'a> {
    fn from(stream: &'a Stream) -> StreamOrder<'a> {
        StreamOrder { stream, pool: None }
    }
}

impl StreamOrder<'_> {
    pub(super) fn stream(&self) -> &Stream {
        self.stream
    }

    /// Allocates `size` bytes, at least one.
    #[inline]
    pub(super) fn allocate(&self, size: usize) -> CudaResult<Allocation> {
        let shared = self.stream.inner();
        let what = "allocate memory in the order of a stream";
        must_be_home(shared)?;
        refuse_unsafe(what)?;
        shared.number()?;
        let uncaptured = shared.uncaptured(what)?;
        let pool = self.pool.map(PoolOfOrder::held).transpose()?;
        let allocated =
            shared.pinned(&uncaptured, |driver, stream| driver.mem_alloc_async(size, pool, stream));
        // Before there is an allocation, which would be moved once more.
        drop(uncaptured);
        allocated.map(|(address, pin)| Allocation::ordered(address, pin, Home::new(shared)))
    }
}

/// Memory of another process, which is freed in the order of a stream.
pub(super) fn open_in_order(
    stream: &Stream,
    pool: &dyn PoolOfOrder,
    handle: [std::os::raw::c_char; 64],
    size: usize,
) -> CudaResult<Allocation> {
    let shared = stream.inner();
    let what = "open memory in the order of a stream";
    must_be_home(shared)?;
    refuse_unsafe(what)?;
    shared.number()?;
    let uncaptured = shared.uncaptured(what)?;
    let pool = pool.held()?;
    let (address, pin) =
        shared.pinned(&uncaptured, |driver, _| driver.mem_pool_import_pointer(pool, handle, size))?;
    Ok(Allocation::ordered(address, pin, Home::new(shared)))
}

/// Refuses a stream with another owner, because the owner may destroy it before the memory is freed.
#[inline]
fn must_be_home(stream: &Shared) -> CudaResult<()> {
    if stream.is_owned() {
        return Ok(());
    }
    Err(CudaError::InvalidHandle.note(format_args!(
        "to have memory in the order of a stream that has another owner, or of a default stream"
    )))
}

/// What is asked for when memory is freed.
const FREE: &str = "free memory in the order of a stream";

/// The stream in whose order memory is freed, and the others that use it.
#[derive(Debug)]
pub(super) struct Home {
    stream: Arc<Shared>,
    others: Others,
}

impl Home {
    fn new(stream: &Arc<Shared>) -> Home {
        Home { stream: Arc::clone(stream), others: Others::default() }
    }

    pub(super) fn stream(&self) -> &Arc<Shared> {
        &self.stream
    }

    /// The stream's number, which it has had since the first memory in its order.
    pub(super) fn number(&self) -> u16 {
        self.stream.number().unwrap_or(0)
    }

    /// Waits for the work of all these streams, up to the beginning of their captures for those that capture; the pin is of
    /// the home's context. Nothing can use the memory afterwards: a capture does not run it, and custack captures no use of
    /// the memory. False if one cannot be waited for, because other code captures it.
    pub(super) fn wait_outside_captures(&self, pin: &Pin) -> bool {
        self.stream.wait_outside_capture(pin) && self.wait_for_others()
    }

    fn wait_for_others(&self) -> bool {
        self.others.all().iter().all(|other| other.stream.wait_outside_capture(&other.pin))
    }

    /// Makes the other stream wait for the home's present work, and the free wait for the other stream's work.
    pub(super) fn also_used_in(&self, other: &Stream) -> CudaResult<()> {
        let other = other.inner();
        if Arc::ptr_eq(&self.stream, other) {
            return Ok(());
        }
        must_be_home(other)?;
        // Made now, because that may fail when the memory is freed.
        let pin = other.prepare()?;
        let what = "use memory in a second stream";
        let uncaptured = (self.stream.uncaptured(what)?, other.uncaptured(what)?);
        self.stream.before(other)?;
        drop(uncaptured);
        self.others.add(Other { stream: Arc::clone(other), pin });
        Ok(())
    }

    /// Makes another stream the home; it waits for the present work of the earlier home.
    pub(super) fn move_to(&mut self, home: &Stream) -> CudaResult<()> {
        let (before, home) = (&self.stream, home.inner());
        if Arc::ptr_eq(before, home) {
            return Ok(());
        }
        if before.context() != home.context() {
            let (here, there) = (before.context(), home.context());
            return Err(CudaError::InvalidHandle
                .note(format_args!("to move memory of {here} to a stream of {there}")));
        }
        must_be_home(home)?;
        home.number()?;
        let what = "move memory to another stream";
        let uncaptured = (before.uncaptured(what)?, home.uncaptured(what)?);
        before.before(home)?;
        drop(uncaptured);
        self.stream = Arc::clone(home);
        Ok(())
    }

    /// Frees the memory after the present work of the home and of the other streams. Refused with
    /// [`StreamCaptureUnsupported`](CudaError::StreamCaptureUnsupported) while one of them is capturing: the free would
    /// become part of that capture.
    ///
    /// # Safety
    ///
    /// The memory has this home, and nothing uses it afterwards.
    #[inline]
    pub(super) unsafe fn free(&self, address: u64, pin: &Pin) -> Option<CudaResult<()>> {
        match self.uncaptured() {
            // SAFETY: as the caller guarantees.
            Ok(uncaptured) if self.others.is_none() => unsafe { self.free_here(&uncaptured, address, pin) },
            // SAFETY: as above.
            Ok(uncaptured) => unsafe { self.free_after_others(uncaptured, address, pin) },
            Err(error) => Some(Err(error)),
        }
    }

    #[inline]
    fn uncaptured(&self) -> CudaResult<InCall> {
        self.stream.uncaptured(FREE)
    }

    /// # Safety
    ///
    /// As for [`free`](Self::free).
    #[cold]
    unsafe fn free_after_others(
        &self,
        uncaptured: InCall,
        address: u64,
        pin: &Pin,
    ) -> Option<CudaResult<()>> {
        let others = self.others.all();
        let all = others.iter().map(|other| other.stream.uncaptured(FREE)).collect::<CudaResult<Vec<_>>>();
        let others_uncaptured = match all {
            Ok(all) => all,
            Err(error) => return Some(Err(error)),
        };
        let order = |other: &Arc<Other>| other.stream.before_at_last(&other.pin, &self.stream, pin);
        if others.iter().try_for_each(order).is_ok() {
            // SAFETY: as the caller guarantees; the home waits for the others.
            return unsafe { self.free_here(&uncaptured, address, pin) };
        }
        // So this thread waits for them, which may take long: captures are not held off meanwhile.
        drop((uncaptured, others_uncaptured));
        if !self.wait_for_others() {
            return Some(captured_elsewhere());
        }
        match self.uncaptured() {
            // SAFETY: as the caller guarantees; the others have no work.
            Ok(uncaptured) => unsafe { self.free_here(&uncaptured, address, pin) },
            Err(error) => Some(Err(error)),
        }
    }

    /// # Safety
    ///
    /// As for [`free`](Self::free), and nothing in another stream uses the memory after the present work of the home.
    #[inline]
    unsafe fn free_here(&self, uncaptured: &InCall, address: u64, pin: &Pin) -> Option<CudaResult<()>> {
        self.stream.with_pinned_in(uncaptured, pin, |driver, stream| {
            // SAFETY: as the caller guarantees.
            unbroken(driver, || unsafe { driver.mem_free_async(address, stream) })
        })
    }
}

/// The error for memory that is not in the order of a stream.
#[cold]
pub(super) fn has_no_order() -> CudaError {
    CudaError::InvalidValue
        .note(format_args!("to order memory that was not allocated in the order of a stream"))
}
