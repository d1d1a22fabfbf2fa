//! CUDA contexts with stack discipline, and what a GPU program needs around them: sound, fast, and testable on a laptop
//! without a GPU.
//!
//! custack manages CUDA contexts as RustaCUDA does: an owned [`Context`](context::Context), an
//! [`UnownedContext`](context::UnownedContext) for each worker, and push and pop of the
//! [`ContextStack`](context::ContextStack). It has RustaCUDA's [streams](stream), [events](event), [memory],
//! [modules](module) and [launches](function), too. It guarantees what RustaCUDA had to leave to the programmer: no
//! sequence of safe calls, on any number of threads, crashes or leaves the wrong context current.
//!
//! Everything runs on the NVIDIA driver and, with the cargo feature `sim`, on a simulated one, kernels included.
//!
//! ```
//! use custack::memory::LockedBuffer;
//! use custack::prelude::*;
//!
//! custack::init(CudaFlags::empty())?;
//! let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
//!
//! let workers: Vec<_> = (0..4u32)
//!     .map(|worker| {
//!         let handle = ctx.get_unowned();
//!         std::thread::spawn(move || {
//!             handle.scoped(|_| {
//!                 let there = DeviceBuffer::from_slice(&[worker; 8])?;
//!                 let mut back = LockedBuffer::new(&0, 8)?;
//!                 there.copy_to(&mut back[..])?;
//!                 Ok(back.iter().sum::<u32>())
//!             })
//!         })
//!     })
//!     .collect();
//! for (worker, thread) in (0..).zip(workers) {
//!     assert_eq!(thread.join().unwrap()?, worker * 8);
//! }
//! # Ok::<(), custack::error::CudaError>(())
//! ```
//!
//! # Which driver
//!
//! The environment variable `CUSTACK_DRIVER` is `cuda` (also when unset), `sim`, or `auto`: the NVIDIA driver if it
//! finds a device, else the simulated one. [`driver::choose`] does the same from code.
//!
//! Only on targets with pointers of 64 bits: NVIDIA has no driver for others, and there custack does not compile.
//!
//! # Features
//!
//! Everything but the simulated driver is there by default. `default-features = false` and the names of features make a
//! smaller build: a feature brings a module or a dependency, and changes nothing else. Contexts, streams, events, memory,
//! modules and launches are there in every build.
//!
//! | feature | default | what it brings |
//! |---|---|---|
//! | `future` | yes | [futures](future) that are ready when work is done, and that run in a context |
//! | `graph` | yes | captures of streams, and [graphs](graph) |
//! | `green` | yes | green contexts: parts of a device |
//! | `library` | yes | [libraries](library) and kernels that belong to no context, and linking |
//! | `nvrtc` | yes | CUDA C++ [compiled at run time](nvrtc), by a library that is opened then |
//! | `pool` | yes | [pools](memory::MemoryPool) of memory in the order of a stream: limits, statistics, access |
//! | `processes` | yes | one process of several: memory, pools and events of other processes, the device of each, how devices are connected |
//! | `rustacuda` | yes | what only programs written for RustaCUDA look for: `#[derive(DeviceCopy)]` at the root, handles of the types of `cuda-driver-sys`, and [arrays](memory::array) |
//! | `texture` | yes | [textures and surfaces](texture), memory in rows, and [arrays](memory::array) |
//! | `tracing` | yes | reports what destructors cannot return, and what other code did to the stack |
//! | `sim` | no | the simulated driver, and a layer over either driver that counts calls and makes them fail |
//!
//! # From RustaCUDA
//!
//! A program written for RustaCUDA moves over by changing one line of its Cargo.toml:
//!
//! ```toml
//! rustacuda = { package = "custack", version = "0.1" }
//! ```
//!
//! Paths, names and signatures are RustaCUDA's; the README has the table of what differs.

#![cfg_attr(docsrs, feature(doc_cfg))]
// In the default build the compiler reports what nothing uses.
#![cfg_attr(
    not(all(
        feature = "future",
        feature = "graph",
        feature = "green",
        feature = "library",
        feature = "pool",
        feature = "processes",
        feature = "texture"
    )),
    allow(dead_code, unused_imports, reason = "only what the features bring uses some of it")
)]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("custack is for targets with pointers of 64 bits: NVIDIA has no driver for others");

pub mod error;
mod report;
mod sealed;

mod fence;

pub mod driver;

#[cfg(feature = "sim")]
pub mod sim;

mod init;

pub mod device;

mod liveness;

mod shadow_stack;

pub mod context;

pub mod stream;
#[cfg(feature = "texture")]
pub mod texture;

pub mod event;

pub mod memory;

pub mod module;

#[cfg(feature = "library")]
pub mod library;

pub mod function;

#[cfg(feature = "graph")]
pub mod graph;

#[cfg(feature = "future")]
pub mod future;

#[cfg(feature = "nvrtc")]
pub mod nvrtc;

pub mod prelude;

pub use context::quick_init;
pub use driver::CudaApiVersion;
pub use init::{CudaFlags, init};
#[cfg(feature = "rustacuda")]
#[doc(hidden)]
pub use rustacuda_derive::*;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
