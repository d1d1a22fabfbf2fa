//! The simulated driver: another filling of the same [`Table`], for programs and tests on a machine without a GPU.
//!
//! It behaves as an NVIDIA H200 with driver 580 (CUDA 13.0) was seen to behave, status by status and in the order in
//! which that driver looks at its arguments. Where that driver would have crashed, this one answers an error,
//! counts a [misuse](misuses) and says on standard error what was wrong. Every other refusal leaves a sentence in the
//! thread's [`log`].
//!
//! # What is modelled
//!
//! * Several devices ([`set_devices`], or the environment variable `CUSTACK_SIM_DEVICES`; one unless told), all alike:
//!   the attributes, memory size and limits of an H200.
//! * Contexts: creating, destroying, the stack of each thread, what a destroyed context answers where it is still
//!   current, when the driver frees a handle and [gives it out again](reuse_handles), flags, limits with their
//!   rounding and clamping, cache and shared-memory configurations, usage counts, peer access.
//! * Primary contexts: their counts, flags, reset, and the handle that comes back.
//! * Memory with contents and bounds. Device memory has addresses of its own, which the host cannot follow; managed and
//!   page-locked memory is the host's. A copy past an allocation, or of what was freed, is refused, and the log says
//!   which allocation it was and how large. Addresses of freed device memory [come again](reuse_addresses) if asked.
//! * Streams, whose work is done in its order by a thread while the program goes on; events with times; callbacks, in
//!   which every driver call is refused.
//! * Modules from PTX, and kernels, by an interpreter for scalar PTX: integers and floats, predicates and branches,
//!   parameters, global, constant, shared and local memory, barriers, atomics, conversions. An instruction that it does
//!   not know makes loading fail with `NotSupported`, and the log names it. A kernel that reads or writes where nothing
//!   is, is misaligned, or traps leaves its context in the error that the device leaves.
//!
//! # What is not, and why
//!
//! * Time. Creating a context takes microseconds, not 0.2 s; copies and kernels take what they take on the host. Threads
//!   of a block run one after the other between barriers, so that a kernel whose threads wait for each other without one
//!   does not end; after some billions of instructions it fails with `LaunchTimeout`.
//! * Memory for contexts: creating one never fails for want of it. The upper ends of `MallocHeapSize` (17681179680),
//!   `DeviceRuntimePendingLaunchCount` (599186) and `StackSize` (523712) are those of an H200 with nothing else on it;
//!   the real ones shrink with its free memory.
//! * The room between the end of an allocation, or of a block's shared memory, and the device's next page or granule: a
//!   GPU lets a kernel read and write there, and this one fails it.
//! * The end of a process by a kernel's error: on an H200 no context can be made in it any more; here the error stays
//!   with its context, so that a test of such a kernel need not be a process of its own.
//! * Arrays have a descriptor and no contents; machine code (`NoBinaryForGpu`); calls, textures, vectors, warp-wide
//!   instructions and rounding other than to the nearest in kernels; capturing streams into graphs.
//! * Execution affinity: as on a device without NVIDIA's multi-process service, which has none to give.
//! * Contexts that share a graphics queue, green contexts, and NvSciSync: refused, as there is nothing to share.
//! * Notifications: one can be registered, and none is ever sent.
//! * The end of a thread, on Windows: its stack is let go when the thread-locals of the program are destroyed, in their
//!   order. The NVIDIA driver lets go later, when all of them are gone, and so does this one on Unix.
//! * Names: handles, PCI addresses and UUIDs are made up, and the device's name says that it is simulated.

mod abi;
mod machine;
mod objects;
mod thread_end;

// The chapters of the driver manual: in each, the C ABI beside the model.
mod context;
mod device;
mod event;
mod function;
mod init;
mod memory;
mod module;
mod stream;

mod ptx;

/// The C functions of all chapters.
mod functions {
    pub(super) use super::context::abi::*;
    pub(super) use super::device::abi::*;
    pub(super) use super::event::abi::*;
    pub(super) use super::function::abi::*;
    pub(super) use super::init::abi::*;
    pub(super) use super::memory::abi::*;
    pub(super) use super::module::abi::*;
    pub(super) use super::stream::abi::*;
}

use crate::driver::{Table, for_each_function};

macro_rules! simulated {
    ($($since:literal fn $name:ident($($arg:ident: $ty:ty),*);)*) => {
        /// The simulated driver's table, for code that works on tables.
        ///
        /// All such tables are of the one simulated machine of the process. A program normally chooses the simulated
        /// driver with [`choose`](crate::driver::choose) instead.
        pub fn table() -> Table {
            Table { $($name: functions::$name,)* }
        }
    };
}
for_each_function!(simulated);

/// Sets how many devices the machine has, from 0 to 64; false, and nothing changes, for another number, or for
/// fewer than there are once the driver is initialised.
///
/// ```
/// use custack::device::Device;
/// use custack::driver::{self, Choice};
/// use custack::sim;
///
/// driver::choose(Choice::Sim).unwrap();
/// assert!(sim::set_devices(4));
/// custack::init(custack::CudaFlags::empty())?;
/// assert_eq!(Device::num_devices()?, 4);
/// # Ok::<(), custack::error::CudaError>(())
/// ```
pub fn set_devices(count: usize) -> bool {
    machine::lock().set_devices(count)
}

/// Whether the driver gives a freed handle out again at once, which it does in earnest and which code that keeps
/// stale handles must survive. Off unless asked for: then no handle value comes twice.
pub fn reuse_handles(at_once: bool) {
    machine::lock().reuse_handles = at_once;
}

/// Whether the addresses of device memory that is freed from now on are given out again, which the driver does in
/// earnest and which code that keeps stale addresses must survive. Off unless asked for: then no address comes twice.
///
/// The first freed range that a later allocation fits into is taken at once, whichever context had it and whichever
/// asks. So the first buffer in a new context gets the very address of the buffer of one that was destroyed:
///
/// ```
/// use custack::driver::{self, Choice};
/// use custack::sim;
/// use custack::memory::DeviceBuffer;
///
/// driver::choose(Choice::Sim).unwrap();
/// sim::reuse_addresses(true);
/// let address = || {
///     let _context = custack::quick_init()?;
///     Ok(DeviceBuffer::from_slice(&[1u32, 2, 3])?.as_device_ptr().as_raw() as u64)
/// };
/// assert_eq!(address()?, address()?);
/// # Ok::<(), custack::error::CudaError>(())
/// ```
///
/// Page-locked and managed memory is the host's, whose allocator gives its addresses out again as it likes.
pub fn reuse_addresses(at_once: bool) {
    memory::lock().addresses.reuse(at_once);
}

/// How many contexts are alive on the machine, primary ones included.
pub fn contexts_alive() -> usize {
    machine::lock().contexts_alive()
}

/// How many times the primary context of this device is retained.
pub fn primary_retains(device: usize) -> u32 {
    machine::lock().primary_retains(device)
}

/// How many allocations of device, managed and page-locked memory have been made and not freed.
pub fn allocations() -> usize {
    memory::lock().count()
}

/// How many streams, events, modules and arrays have been made and not destroyed, by their contexts or one by one.
pub fn objects() -> usize {
    machine::lock().objects.count()
}

/// How many entries the driver's stack of the calling thread has; no real driver tells.
pub fn depth() -> usize {
    let mut machine = machine::lock();
    machine.stack().len()
}

/// How many calls on this machine would have crashed the NVIDIA driver, or let it do what nobody can foresee. A program
/// that adds one has given the driver a raw handle or address that was not good; safe calls of custack that add one are a
/// defect of custack.
pub fn misuses() -> u64 {
    machine::lock().misuses
}

/// Why this thread's last refused call was refused, if it was with this status.
pub(crate) fn why_refused(status: crate::driver::ffi::CUresult) -> Option<String> {
    machine::lock().why_refused(status)
}

/// The last sentences about calls of this thread that were refused, the oldest first; 64 at most.
///
/// ```
/// use custack::context::ContextStack;
/// use custack::driver::{self, Choice};
/// use custack::sim;
/// # use custack::context::CurrentContext;
///
/// driver::choose(Choice::Sim).unwrap();
/// custack::init(custack::CudaFlags::empty())?;
/// assert!(CurrentContext::synchronize().is_err());
/// assert!(sim::log().pop().unwrap().contains("no context is current"));
/// # Ok::<(), custack::error::CudaError>(())
/// ```
pub fn log() -> Vec<String> {
    let mut machine = machine::lock();
    machine.thread().log.iter().cloned().collect()
}
