//! Memory that a capture's graph allocates and frees.

// Frees what the graph allocates, and makes an address a pointer.
#![allow(unsafe_code)]

use super::Capture;
use crate::driver::{Driver, Fill};
use crate::error::{CudaError, CudaResult};
use crate::memory::{DeviceCopy, DevicePointer};
use std::marker::PhantomData;
use std::mem;

/// Memory that a node of a graph allocates: a key with an address, which owns nothing.
///
/// The address is the same at every launch. It is valid in the work that comes after the allocation, until the graph
/// [frees](Capture::free) it; memory that the graph does not free stays allocated after a launch.
#[derive(Debug)]
pub struct CapturedMemory<T> {
    graph: u64,
    address: u64,
    len: usize,
    values: PhantomData<*mut T>,
}

// SAFETY: numbers.
unsafe impl<T> Send for CapturedMemory<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for CapturedMemory<T> {}

impl<T> CapturedMemory<T> {
    /// The address, for kernels and copies of the graph, and for nodes that are added to it.
    #[inline]
    pub fn as_device_ptr(&self) -> DevicePointer<T> {
        // SAFETY: an address of the device.
        unsafe { DevicePointer::wrap(self.address as *mut T) }
    }

    /// The number of values.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no values, which is never so.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Capture<'_> {
    /// Captures an allocation of uninitialized memory for `len` values, in the stream's order: a node that allocates at every
    /// launch. [`dependencies`](Self::dependencies) returns that node.
    ///
    /// Memory that the graph does not [free](Self::free) stays allocated after a launch, and the graph cannot be launched
    /// again before it is freed, unless it was instantiated with
    /// [`AUTO_FREE_ON_LAUNCH`](crate::graph::InstantiateFlags::AUTO_FREE_ON_LAUNCH). A graph that allocates can have only one
    /// executable at a time, and can be neither cloned nor added to another graph.
    ///
    /// # Errors
    ///
    /// [`InvalidMemoryAllocation`](CudaError::InvalidMemoryAllocation), before the driver is called, for no bytes, or more than
    /// there are addresses; [`OutOfMemory`](CudaError::OutOfMemory); those of [`keep`](Self::keep). If the driver fails after
    /// it has made the node, the node stays in the graph, because the driver destroys none that allocates, and another node
    /// frees its memory.
    ///
    /// ```
    /// use custack::graph::InstantiateFlags;
    /// use custack::launch;
    /// use custack::memory::{CopyDestination, DeviceBuffer};
    /// use custack::module::Module;
    /// use custack::stream::{CaptureMode, Stream, StreamFlags};
    ///
    /// let _context = custack::quick_init()?;
    /// let module = Module::load_from_file(c"examples/kernels.ptx")?;
    /// let saxpy = module.get_function(c"saxpy")?;
    /// let mut stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    /// let x = DeviceBuffer::from_slice(&[1.0f32, 2.0, 3.0])?;
    /// let mut y = DeviceBuffer::from_slice(&[10.0f32; 3])?;
    /// let (from, to) = (x.as_ptr() as u64, y.as_device_ptr());
    ///
    /// let mut executable = stream.capture_executable(CaptureMode::ThreadLocal, InstantiateFlags::empty(), |capture| {
    ///     let scratch = capture.allocate::<f32>(3)?;
    ///     // SAFETY: the kernel takes a factor, two addresses, and the number of values there; the scratch memory is the
    ///     // graph's, and module and buffers live until the end of this example.
    ///     unsafe {
    ///         capture.fill_bytes(&scratch, 0)?;
    ///         launch!(saxpy<<<1, 32, 0, capture>>>(2.0f32, from, scratch.as_device_ptr(), 3u32))?;
    ///         launch!(saxpy<<<1, 32, 0, capture>>>(1.0f32, scratch.as_device_ptr(), to, 3u32))?;
    ///     }
    ///     capture.free(scratch)
    /// })?;
    /// executable.launch(&stream)?;
    /// executable.launch(&stream)?;
    /// stream.synchronize()?;
    ///
    /// let mut result = [0.0; 3];
    /// y.copy_to(&mut result)?;
    /// assert_eq!(result, [14.0, 18.0, 22.0]);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuMemAllocAsync")]
    #[inline]
    pub fn allocate<T: DeviceCopy>(&self, len: usize) -> CudaResult<CapturedMemory<T>> {
        let bytes =
            mem::size_of::<T>().checked_mul(len).filter(|bytes| (1..=isize::MAX as usize).contains(bytes));
        let Some(bytes) = bytes else {
            return Err(CudaError::InvalidMemoryAllocation.note(format_args!(
                "to allocate {len} values of {} bytes in a capture",
                mem::size_of::<T>()
            )));
        };
        // Also says that the capture is in progress, so that the memory is the graph's.
        let address = self.with_graph(|driver, stream, _| driver.mem_alloc_async(bytes, None, stream))?;
        let graph = self.nodes.borrow().graph();
        Ok(CapturedMemory { graph, address, len, values: PhantomData })
    }

    /// Captures a fill of the memory with one byte.
    ///
    /// # Errors
    ///
    /// [`InvalidHandle`](CudaError::InvalidHandle) for memory of another graph; those of [`keep`](Self::keep).
    ///
    /// # Safety
    ///
    /// The memory was allocated before in the order of this stream's work, and there is no data race on it.
    #[doc(alias("cuMemsetD8Async", "cuMemset"))]
    #[inline]
    pub unsafe fn fill_bytes<T>(&self, memory: &CapturedMemory<T>, byte: u8) -> CudaResult<()> {
        self.is_of_this_graph(memory)?;
        let bytes = memory.len * mem::size_of::<T>();
        self.inner().with_current(|driver, stream| {
            // SAFETY: as the caller guarantees; the memory has these bytes.
            unsafe { driver.fill(memory.address, Fill::D8(byte), bytes, Some(stream)) }
        })
    }

    /// Captures the free of memory that the same graph allocates, after the present work of this stream. That work should
    /// come after the allocation, and after all that uses the memory: the driver does not check the order.
    ///
    /// # Errors
    ///
    /// [`InvalidHandle`](CudaError::InvalidHandle) for memory of another graph; those of [`keep`](Self::keep).
    #[doc(alias = "cuMemFreeAsync")]
    #[inline]
    pub fn free<T>(&self, memory: CapturedMemory<T>) -> CudaResult<()> {
        self.is_of_this_graph(&memory)?;
        self.with_graph(|driver: &Driver, stream, _| {
            // SAFETY: the graph allocates it, and nothing else can free it, because the value is used up. What uses it after
            // that is unsafe where it is captured.
            unsafe { driver.mem_free_async(memory.address, stream) }
        })
    }

    #[inline]
    fn is_of_this_graph<T>(&self, memory: &CapturedMemory<T>) -> CudaResult<()> {
        if memory.graph == self.nodes.borrow().graph() {
            return Ok(());
        }
        Err(CudaError::InvalidHandle.note(format_args!("to use memory that another graph allocates")))
    }
}
