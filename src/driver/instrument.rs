//! A layer over either driver that counts calls and, on request, makes one fail: for writing tests of a program (cargo
//! feature `sim`).
//!
//! On the simulated driver the layer is always there; on the NVIDIA driver after [`enable`], called before the
//! first use. Faults belong to the thread that makes the calls, and so do the counts of [`calls`] and [`during`]: tests
//! that use them may run side by side. [`calls_of_all_threads`] and [`during_on_all_threads`] count every thread of the
//! process, for a program that leaves its driver calls to workers.
//!
//! ```
//! use custack::context::{Context, ContextFlags};
//! use custack::device::Device;
//! use custack::driver::{self, Choice, instrument};
//!
//! driver::choose(Choice::Sim).unwrap();
//! custack::init(custack::CudaFlags::empty())?;
//! let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
//!
//! let (_, calls) = instrument::during(|| ctx.scoped(|_| Ok(())));
//! assert_eq!(calls.to_string(), "cuCtxGetCurrent x2");
//!
//! let handle = ctx.get_unowned();
//! let job = || std::thread::spawn(move || handle.synchronize()).join().unwrap();
//! let ((result, here), everywhere) = instrument::during_on_all_threads(|| instrument::during(job));
//! assert_eq!((result, here.total()), (Ok(()), 0));
//! assert_eq!(everywhere.to_string(), "cuCtxPushCurrent_v2, cuCtxPopCurrent_v2, cuCtxSynchronize");
//! # Ok::<(), custack::error::CudaError>(())
//! ```
//!
//! # A call that fails, and one that blocks
//!
//! ```
//! use custack::driver::instrument::{self, When};
//! use custack::driver::{self, Choice};
//! use custack::error::CudaError;
//!
//! driver::choose(Choice::Sim).unwrap();
//! let ctx = custack::quick_init()?;
//! instrument::fail(Some("cuCtxSynchronize"), 2, CudaError::LaunchFailed.code(), When::Before);
//! assert_eq!(ctx.synchronize(), Ok(()));
//! assert_eq!(ctx.synchronize(), Err(CudaError::LaunchFailed));
//!
//! let (blocked, is_blocked) = std::sync::mpsc::channel();
//! instrument::wait_in("cuCtxSynchronize", move || blocked.send(()).unwrap());
//! assert_eq!(ctx.synchronize(), Ok(()));
//! is_blocked.recv().unwrap();
//! # Ok::<(), CudaError>(())
//! ```

pub use custack_sim::instrument::{
    Calls, When, calls, calls_of_all_threads, contexts_alive, disarm, during, during_on_all_threads, enable,
    fail, fail_times, primary_retains, succeeded, wait_in,
};
#[doc(hidden)]
pub use custack_sim::instrument::{calls_with_a_lock, missing};
