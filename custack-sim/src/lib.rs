//! The simulated CUDA driver: another implementation of [`Table`], for programs and tests on a machine without a GPU.
//!
//! Programs reach it as `custack::sim`, with custack's feature `sim`. Programs in other languages get it as a
//! `libcuda.so.1`, from the package custack-libcuda. This crate is for code that works on tables. [`instrument`] works on
//! any table: it counts calls, makes them fail, and writes timelines and reports.
//!
//! ```
//! let table = custack_sim::start()?;
//! let mut context = std::ptr::null_mut();
//! // SAFETY: the handle is the driver's own.
//! let (statuses, calls) = custack_sim::instrument::during(|| unsafe {
//!     [(table.cuInit)(0), (table.cuCtxCreate_v2)(&mut context, 0, 0), (table.cuCtxDestroy_v2)(context)]
//! });
//! assert_eq!((statuses, calls.total(), custack_sim::misuses()), ([0; 3], 3, 0));
//! # Ok::<(), custack_sim::StartError>(())
//! ```
//!
//! It behaves as an NVIDIA H200 with driver 580 (CUDA 13.0) was observed to behave: status by status, and in the order
//! in which that driver checks its arguments. Where that driver would crash, this one returns an error, counts a
//! [misuse](misuses), and says on standard error what was wrong. Every other refusal leaves a sentence in the thread's
//! [`log`].
//!
//! # What is modelled
//!
//! * Several devices ([`set_devices`], or the environment variable `CUSTACK_SIM_DEVICES`; one by default), all alike,
//!   with the attributes, memory size and limits of an H200, and links between all of them ([`set_link`]). Where
//!   `CUSTACK_SIM_DEVICES` is set, `CUDA_VISIBLE_DEVICES` chooses among them, by numbers or by UUIDs, as on a GPU.
//! * Contexts: creation and destruction, the stack of each thread, what a destroyed context returns where it is still
//!   current, when the driver frees a handle and [reuses it](reuse_handles), flags, limits with their rounding and
//!   clamping, cache and shared-memory configurations, usage counts, peer access: a kernel that uses device memory of a
//!   context on another device, without access to it, fails, and a fill of such memory is refused.
//! * Primary contexts: their counts, flags and reset, and the handle, which is always the same.
//! * Memory with contents and bounds. Device memory has addresses of its own, which the host cannot dereference;
//!   managed and page-locked memory is host memory. A copy past the end of an allocation, or of freed memory, is
//!   refused, and the log says which allocation it was and how large. Addresses of freed device memory [are
//!   reused](reuse_addresses) on request.
//! * Memory pools, the devices' own and the program's: in chunks of 32 MiB, with thresholds, limits, statistics and
//!   peaks. What they keep unused is taken back where the device has too little left. An allocation in the order of a
//!   stream reuses the address of memory that was freed in the same stream before. That of another stream's memory is
//!   reused as the three attributes for it allow: freed before an event that the stream waits for, free by now, or behind
//!   a wait that the driver inserts. A call on freed memory is refused. Work fails that reaches memory before its
//!   allocation or after its free, in the order of the streams, and the log says so; a GPU reads and writes what happens
//!   to be there. Memory of a pool that `cuMemFree` frees stays counted as used, as
//!   on an H200. Pools of managed memory and of the host's have their own rules of access; fills and copies reach the
//!   host's only after access was granted to a device, and captures allocate from neither it nor a shared pool.
//! * Fills and copies without a stream are work of the default stream. They return before it is
//!   done, unless the host can use some of the memory.
//! * What the driver knows of an address; copies that find out where their ends are; advice about managed memory, which is
//!   kept page by page and told, and changes nothing, as the host's memory and the device's are one here.
//! * Memory that the program maps by itself, in granules of 2 MiB: what is mapped twice is the same memory, what lies side by
//!   side is used as one, and nothing is used where access was not granted.
//! * Arrays, textures and surfaces of them, and textures of memory: addressing modes, filters with weights of 8 bits,
//!   normalised reads, borders, cubes, layers, gathers, and what each mode of a surface does beyond it. A handle of another
//!   context, or of what is destroyed, ends the kernel, where a GPU reads something.
//! * Streams, whose work a thread does in order while the program continues; the default streams, of a context and of
//!   each thread, and how they wait for others; the synchronization policy and the priority as attributes; events with
//!   times, and their handles for other processes; callbacks and host functions, in which every driver call is refused.
//! * Captures of streams in all three modes: which calls break a capture, on its own thread and on others, how it
//!   spreads by events and is joined, captures into a graph that exists, and the errors with which a capture ends.
//! * Streams that write a value of memory or wait for one, alone and in batches, in captures too.
//! * Graphs of all kinds of nodes but semaphores and conditions: their order, clones and
//!   child graphs, user objects, executable graphs, whose branches run side by side, updates and their reasons, memory
//!   that a graph allocates, and graphs as DOT files.
//! * Launches that wait for their kernels, where `CUDA_LAUNCH_BLOCKING` asks for it.
//! * Modules from PTX, and kernels, as compilers write them. The threads of a warp execute one instruction together, part
//!   where they branch apart, and join again; threads that wait for each other, of one warp, one block or several, make
//!   progress, and blocks run on all cores of the host. There are all kinds of memory, calls (also recursive, and by a
//!   function's address), `printf`, `assert`, `malloc` and `free`, barriers, votes, shuffles and matches, clusters, atomics of every
//!   kind, all roundings, saturation and flushing, floats of 16 bits, video instructions, asynchronous copies, and the
//!   barrier of a cooperative grid. [Another page](instructions) lists the instructions.
//! * An instruction or a modifier that is not modelled is never ignored: `NotSupported`, with line and instruction, is the
//!   answer when its kernel is asked for, and the module's other kernels run. What no compiler would accept is
//!   `InvalidPtx` when the module is loaded.
//! * A kernel that accesses invalid addresses, is misaligned, traps, or whose threads wait for each other for ever leaves
//!   its context in the error that the device would leave, and the log says which thread of which block, and in which
//!   line. One that does not end fails after some [billions of instructions](limit_kernels), and the log says where its
//!   threads are. What a kernel says of the size
//!   of its blocks and clusters is enforced. How many blocks run at once is counted with the shared memory that a
//!   multiprocessor splits off its cache, as the kernel's carveout or cache configuration asks.
//! * Libraries, which are of no context: modules in each context that uses them, managed variables in common,
//!   attributes of kernels on each device. Code that does not compile loads, and its first use returns the error, as on
//!   an H200.
//! * Linking of PTX. The image is one text again; names that are defined twice or nowhere are refused where an H200
//!   refuses them.
//! * Options of the compiler are checked; of what they ask for, only the logs are written.
//!
//! # What is not modelled, and why
//!
//! * The compiler's checks of types beyond the width of registers: an integer's register where a float's is expected is
//!   refused by the NVIDIA driver with `InvalidPtx`, and taken here.
//! * Time. Creating a context takes microseconds, not 0.2 s; copies and kernels take as long as they take on the host.
//!   Asynchronous copies of kernels are done when they are issued.
//! * What waits while a context is destroyed: as on an H200, that waits for the work of all contexts of the device. There
//!   no thread creates a context, allocates or frees until then; here they go on.
//! * Registers: a kernel may have as many as it says. How many a compiler would take is an [estimate](instructions), which
//!   decides how large blocks may be and how many run at once.
//! * Managed memory beyond some 30 TiB, where an H100 grants 100,000 GiB: it is memory of the process, whose addresses do not
//!   suffice.
//! * Memory for contexts: creating one never fails for lack of memory. The upper bounds of `MallocHeapSize`
//!   (17681179680), `DeviceRuntimePendingLaunchCount` (599186) and `StackSize` (523712) are those of an otherwise idle
//!   H200; the real ones shrink with its free memory.
//! * The gap between the end of an allocation, or of a block's shared memory, and the device's next page or granule: a
//!   GPU lets a kernel read and write there, this driver does not.
//! * The end of a process after a kernel's error: on an H200 it can create no more contexts; here the error stays with
//!   its context, so that a test of such a kernel needs no process of its own.
//! * Machine code: of a fatbin the PTX for the best target up to compute capability 9.0 runs, compressed or not; machine
//!   code without PTX is refused (`NoBinaryForGpu`).
//! * Mipmapped arrays, other views of an array, sRGB, and filters across the edges of a cube: refused. Filtered floats are
//!   rounded once, where a GPU may be a unit in the last place away.
//! * Approximate functions of kernels (`ex2.approx`, `sin.approx` and so on) give the nearest value, where a GPU's may be
//!   some units in the last place away.
//! * Graphs: launches from the device, priorities of nodes, and edges that let a kernel begin before another ends: they
//!   are kept and shown, and the kernel waits for the end.
//!   A DOT file shows handles where it is asked for more, and no parameters. Memory of graphs is counted in chunks of
//!   32 MiB for each graph that has some; which chunks graphs share, and when the real driver gives them back, is not known.
//! * Attributes of kernel nodes that are windows of the cache, maps of domains or updates from the device; child graphs that
//!   are moved and not copied.
//! * Execution affinity: as on a device without NVIDIA's multi-process service, there is none.
//! * Of memory that the program maps: the host's, access only to read, handles other than descriptors of files, and which
//!   of several devices has access, for what one may use all may.
//! * Contexts that share a graphics queue, and NvSciSync: refused.
//! * Which multiprocessors a green context has: how many is as on an H200, but their numbers follow one another. Resources
//!   other than multiprocessors (`INVALID_RESOURCE_TYPE`), as with a driver of CUDA 13.0, which has no work queues.
//! * Two details of streams: on an H200 a stream is done if its last work is an event that waits for the default
//!   stream, and host functions that were pending in other streams when a kernel failed are called; neither is so here.
//!   The other attributes of streams are refused.
//! * Other processes: what they share is shared on Linux only, and between processes of one user. Memory and events can be
//!   opened as long as their owner keeps them; on a GPU often longer. The first handle of a buffer waits until no work uses
//!   it, ten seconds at most.
//! * Linking of anything but PTX, and of texts that each have a private variable of one name, which is refused as a
//!   second definition; functions of one text that another calls.
//! * What clusters, priorities and programmatic serialization do for a launch: their sizes and values are checked, and
//!   the kernel runs as without them.
//! * Of memory of pools and of other processes, whether a kernel on another device was given access to it.
//! * When a text that a kernel prints appears: here at once, on a GPU when the program waits for the kernel. What the program
//!   itself has printed by C's library and is not written yet, as to a pipe, comes after it.
//! * Notifications: they can be registered, but none is ever sent.
//! * The end of a thread, on Windows: its stack is released while the program's thread-locals are being destroyed, in
//!   their order. The NVIDIA driver releases it after the last of them, and so does this one on Unix.
//! * Names: handles, PCI addresses and UUIDs are invented, and the device's name says that it is simulated.

mod abi;
mod circles;
mod machine;
mod objects;
mod shared;

// The chapters of the driver manual: each has the C ABI and the model.
mod context;
mod device;
mod event;
mod function;
mod graph;
mod init;
mod library;
mod memory;
mod module;
mod stream;
mod texture;

mod ptx;

pub mod instrument;
mod start;

#[doc = include_str!("instructions.md")]
#[doc = include_str!("forms.md")]
pub mod instructions {}

/// The C functions of all chapters.
mod functions {
    pub(super) use super::context::abi::*;
    pub(super) use super::device::abi::*;
    pub(super) use super::event::abi::*;
    pub(super) use super::function::abi::*;
    pub(super) use super::graph::abi::*;
    pub(super) use super::init::abi::*;
    pub(super) use super::library::abi::*;
    pub(super) use super::memory::abi::*;
    pub(super) use super::module::abi::*;
    pub(super) use super::stream::abi::*;
    pub(super) use super::texture::abi::*;
}

use custack_sys::ffi::CUresult;
use custack_sys::{Table, for_each_function};

macro_rules! simulated {
    ($($since:literal fn $name:ident($($arg:ident: $ty:ty),*);)*) => {
        /// The simulated driver's table, for code that works on tables.
        ///
        /// All these tables share the one simulated machine of the process. A program normally selects the simulated
        /// driver by its name instead.
        pub fn table() -> Table {
            let mut table = Table::EMPTY;
            $(table.$name = functions::$name;)*
            table
        }
    };
}
for_each_function!(simulated);

pub use machine::MOST_DEVICES;
pub use start::{StartError, instrumented, start};

/// Sets how many devices the machine has, from 0 to 64. Returns false, and changes nothing, for any other number, or if
/// the driver is initialised and has more already.
pub fn set_devices(count: usize) -> bool {
    machine::lock().set_devices(count)
}

/// Sets the performance rank of the link from one device to another, or cuts the link with `None`; before, every device
/// reaches every other one at rank 0. Returns false for ordinals that are equal or not below 64.
///
/// It is asked for when access is enabled, and when a program asks for the links; access that is enabled stays.
pub fn set_link(from: usize, to: usize, rank: Option<u8>) -> bool {
    let is_pair = from != to && from.max(to) < MOST_DEVICES;
    if is_pair {
        machine::lock().links.insert((from, to), rank.map(i32::from));
    }
    is_pair
}

/// Whether the host may access managed memory while a kernel runs, from now on: so it is at first. Without it the machine
/// is like one with Windows, with WSL or with an older Jetson: the devices' attribute says so, and on Linux the host's
/// access to memory of `cuMemAllocManaged` while a kernel runs is a fault, as it is there.
pub fn set_concurrent_managed_access(allowed: bool) {
    memory::lock().apart.wanted = !allowed;
}

/// Whether the driver reuses a freed handle at once, as the NVIDIA driver does and as code that keeps stale handles
/// must survive. Off by default: then no handle value is ever reused.
pub fn reuse_handles(at_once: bool) {
    machine::lock().reuse_handles = at_once;
}

/// Whether the addresses of device memory freed from now on are reused, as the NVIDIA driver does and as code that
/// keeps stale addresses must survive. Off by default: then no address is ever reused.
///
/// The first freed range that fits a later allocation is used at once, whichever context had it and whichever
/// allocates. So the first buffer in a new context gets the address of the buffer of a destroyed one.
/// Page-locked and managed memory is host memory, whose allocator reuses addresses as it likes.
pub fn reuse_addresses(at_once: bool) {
    memory::lock().addresses.reuse(at_once);
}

/// How many contexts are alive on the machine, primary ones included.
pub fn contexts_alive() -> usize {
    machine::lock().contexts_alive()
}

/// How many retains of this device's primary context are outstanding.
pub fn primary_retains(device: usize) -> u32 {
    machine::lock().primary_retains(device)
}

/// How many allocations of device, managed and page-locked memory are not freed yet, and how many pieces of the
/// program's own memory are registered. Memory that the program maps counts until it is released and unmapped.
pub fn allocations() -> usize {
    memory::lock().count()
}

/// How many streams, events, modules, arrays, textures, surfaces, memory pools, graphs, executable graphs and user objects are not
/// destroyed yet, by themselves or with their contexts. A user object is there as long as anything keeps it.
pub fn objects() -> usize {
    let mut machine = machine::lock();
    machine.objects.count() + machine.graphs.count() + memory::lock().count_pools()
}

/// How many entries the calling thread's stack in the driver has; real drivers have no such query.
pub fn depth() -> usize {
    let mut machine = machine::lock();
    machine.stack().len()
}

/// Sets how many instructions a kernel may execute before it is assumed not to end, and fails with
/// 702 (`LAUNCH_TIMEOUT`); the previous number is returned. An instruction that a warp executes counts as one. A kernel may execute 2^33 of them unless a program says otherwise.
pub fn limit_kernels(instructions: u64) -> u64 {
    ptx::limit_steps(instructions)
}

/// How many calls on this machine would have crashed the NVIDIA driver or had undefined results. A program that adds
/// one has passed the driver an invalid raw handle or address; if a safe call of custack adds one, custack has a bug.
pub fn misuses() -> u64 {
    machine::lock().misuses
}

/// The reason for the last refusal on this thread, if its status was this one.
pub fn why_refused(status: CUresult) -> Option<String> {
    machine::lock().why_refused(status)
}

/// The same, while it stays to be asked for.
pub(crate) fn last_refusal(status: CUresult) -> Option<String> {
    machine::lock().last_refusal(status)
}

/// The contexts that threads have or had on their stacks when they ended, from the bottom: one list for each of them.
pub(crate) fn stacks_left() -> Vec<Vec<usize>> {
    machine::lock().stacks_left()
}

/// The most recent messages about refused calls of this thread, the oldest first; 64 at most. The error of work that a thread
/// awaits by a future is in the log of the thread that looked, and its text in the error itself.
pub fn log() -> Vec<String> {
    let mut machine = machine::lock();
    machine.thread().log.iter().cloned().collect()
}
