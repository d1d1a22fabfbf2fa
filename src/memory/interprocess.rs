//! Device memory that processes share.

// Memory of another process is valid only as long as that process keeps it.
#![allow(unsafe_code)]

#[cfg(unix)]
mod shared_pool;

use super::allocation::{Allocation, Kind};
use super::malloc::size_of;
use super::{DeviceBuffer, DeviceCopy, DevicePointer, DeviceSlice};
use crate::context::UnownedContext;
use crate::driver::ffi::CUipcMemHandle;
use crate::error::{CudaError, CudaResult, DropResult};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::os::raw::c_char;

/// The handle with which another process opens a buffer of values of type `T`: 72 bytes, which can be sent in any way. Several
/// processes may open it, but not the one that it comes from.
///
/// ```
/// use custack::memory::{DeviceBuffer, IpcMemHandle};
///
/// let _context = custack::quick_init()?;
/// let buffer = DeviceBuffer::from_slice(&[1u32, 2, 3])?;
/// # if cfg!(target_os = "linux") {
/// let handle = buffer.ipc_handle()?;
/// let bytes: [u8; 72] = handle.to_bytes(); // to send
/// let handle = IpcMemHandle::<u32>::from_bytes(bytes); // in the other process, which opens it
/// assert_eq!((handle.len(), handle.to_bytes()), (3, bytes));
/// # }
/// # Ok::<(), custack::error::CudaError>(())
/// ```
pub struct IpcMemHandle<T> {
    raw: CUipcMemHandle,
    len: usize,
    values: PhantomData<fn() -> T>,
}

impl<T> IpcMemHandle<T> {
    /// The bytes to send: the driver's 64, and the number of values as 8, the lowest first.
    #[inline]
    pub fn to_bytes(self) -> [u8; 72] {
        let mut bytes = [0; 72];
        let (raw, len) = bytes.split_at_mut(64);
        raw.copy_from_slice(&self.raw.reserved.map(|byte| byte as u8));
        len.copy_from_slice(&(self.len as u64).to_le_bytes());
        bytes
    }

    /// The handle with these bytes.
    #[inline]
    pub fn from_bytes(bytes: [u8; 72]) -> IpcMemHandle<T> {
        let (raw, last) = bytes.split_at(64);
        let mut reserved = [0; 64];
        reserved.iter_mut().zip(raw).for_each(|(to, from)| *to = *from as c_char);
        let mut len = [0; 8];
        len.copy_from_slice(last);
        let len = usize::try_from(u64::from_le_bytes(len)).unwrap_or(usize::MAX);
        IpcMemHandle { raw: CUipcMemHandle { reserved }, len, values: PhantomData }
    }

    #[cfg(unix)]
    pub(super) fn of(reserved: [c_char; 64], len: usize) -> IpcMemHandle<T> {
        IpcMemHandle { raw: CUipcMemHandle { reserved }, len, values: PhantomData }
    }

    #[cfg(unix)]
    pub(super) fn reserved(&self) -> [c_char; 64] {
        self.raw.reserved
    }

    /// The bytes of the values.
    pub(super) fn size(&self) -> CudaResult<usize> {
        size_of::<T>(self.len).map_err(|_| {
            CudaError::InvalidValue
                .note(format_args!("to open a buffer of {} values, as the handle says", self.len))
        })
    }

    /// The number of values.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no values. A buffer without any has no handle.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<T> Clone for IpcMemHandle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for IpcMemHandle<T> {}

impl<T> PartialEq for IpcMemHandle<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.raw, self.len) == (other.raw, other.len)
    }
}

impl<T> Eq for IpcMemHandle<T> {}

impl<T> fmt::Debug for IpcMemHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IpcMemHandle(.., {} values)", self.len)
    }
}

impl<T: DeviceCopy> DeviceBuffer<T> {
    /// The handle with which another process can open the buffer ([`IpcBuffer::open`]). The buffer must live as long as any
    /// process has it open; dropping it earlier is an error that the driver does not notice.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](CudaError::InvalidValue) for a buffer without values, and for memory in the order of a stream,
    /// which comes from a pool; [`ContextIsDestroyed`](CudaError::ContextIsDestroyed);
    /// [`NotSupported`](CudaError::NotSupported) on the simulated driver on systems other than Linux.
    #[doc(alias = "cuIpcGetMemHandle")]
    #[inline]
    pub fn ipc_handle(&self) -> CudaResult<IpcMemHandle<T>> {
        let memory = self.memory();
        if memory.is_spent() {
            return Err(CudaError::InvalidValue.note(format_args!("to share a buffer that has no memory")));
        }
        let raw = memory.context().inside(|driver| driver.ipc_get_mem_handle(memory.address()))?;
        Ok(IpcMemHandle { raw, len: self.len(), values: PhantomData })
    }
}

/// A buffer of another process that this one has open. It is used like a [`DeviceBuffer`], as a [`DeviceSlice`]; dropping it
/// closes it, and keeps the values, which are the other process's. It keeps its context at the driver until then.
///
/// What one process writes the other one sees when the work is done that wrote it: an event of
/// [both processes](crate::event::IpcEventHandle) says when.
pub struct IpcBuffer<T> {
    memory: Allocation,
    len: usize,
    values: PhantomData<T>,
}

impl<T: DeviceCopy> IpcBuffer<T> {
    /// Opens a buffer of another process, in the current context. The same handle may be opened several times in one context.
    ///
    /// # Errors
    ///
    /// [`InvalidContext`](CudaError::InvalidContext) if no context is current, and in the process that made the buffer;
    /// [`InvalidValue`](CudaError::InvalidValue) for bytes that are not a handle;
    /// [`InvalidHandle`](CudaError::InvalidHandle) if the buffer is open in another context of this process.
    ///
    /// # Safety
    ///
    /// The bytes are from [`ipc_handle`](DeviceBuffer::ipc_handle) of a buffer of this very type; the other process keeps
    /// the buffer as long as this value lives; and no process writes values while another one reads or writes them.
    #[doc(alias("cuIpcOpenMemHandle", "cuIpcOpenMemHandle_v2"))]
    #[inline]
    pub unsafe fn open(handle: IpcMemHandle<T>) -> CudaResult<IpcBuffer<T>> {
        // On a machine with links between devices they are used when the memory is of another device.
        let size = handle.size()?;
        let memory = Allocation::made(Kind::Opened, |driver| driver.ipc_open_mem_handle(handle.raw, size))?;
        Ok(IpcBuffer { memory: memory.aligned_for::<T>()?, len: handle.len, values: PhantomData })
    }

    /// The context in which it is open.
    #[inline]
    pub fn context(&self) -> &UnownedContext {
        self.memory.context()
    }

    /// The address of the first value, for kernels.
    #[inline]
    pub fn as_device_ptr(&mut self) -> DevicePointer<T> {
        // SAFETY: a device address.
        unsafe { DevicePointer::wrap(self.memory.address() as *mut T) }
    }

    /// Closes the buffer, and returns the error and the value if that fails.
    ///
    /// # Errors
    ///
    /// Any error of the driver. It may have closed the buffer all the same, so the returned one is empty, and dropping it
    /// does nothing; only after [`NotPermitted`](CudaError::NotPermitted), in a host function, is it unchanged.
    #[doc(alias = "cuIpcCloseMemHandle")]
    #[inline]
    pub fn drop(buffer: IpcBuffer<T>) -> DropResult<IpcBuffer<T>> {
        let IpcBuffer { memory, len, values } = buffer;
        memory.free(len).map_err(|(error, memory, len)| (error, IpcBuffer { memory, len, values }))
    }
}

impl UnownedContext {
    /// Like [`IpcBuffer::open`], in this context, whatever is current.
    ///
    /// # Errors
    ///
    /// Like [`IpcBuffer::open`]; [`ContextIsDestroyed`](CudaError::ContextIsDestroyed), without a driver call.
    ///
    /// # Safety
    ///
    /// Like [`IpcBuffer::open`].
    #[doc(alias("cuIpcOpenMemHandle", "cuIpcOpenMemHandle_v2"))]
    #[inline]
    pub unsafe fn open_buffer<T: DeviceCopy>(&self, handle: IpcMemHandle<T>) -> CudaResult<IpcBuffer<T>> {
        let _current = self.enter_for_custack()?;
        // SAFETY: as the caller guarantees.
        unsafe { IpcBuffer::open(handle) }
    }
}

impl<T> Deref for IpcBuffer<T> {
    type Target = DeviceSlice<T>;

    fn deref(&self) -> &DeviceSlice<T> {
        // SAFETY: the memory is open, and has `len` values, as the caller of `open` guarantees.
        unsafe { DeviceSlice::of(self.memory.address(), self.memory.number(), self.len) }
    }
}

impl<T> DerefMut for IpcBuffer<T> {
    fn deref_mut(&mut self) -> &mut DeviceSlice<T> {
        // SAFETY: as in `deref`.
        unsafe { DeviceSlice::of_mut(self.memory.address(), self.memory.number(), self.len) }
    }
}

impl<T> fmt::Debug for IpcBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IpcBuffer({} values at {:#x})", self.len, self.memory.address())
    }
}
