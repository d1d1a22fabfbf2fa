//! custack's simulated driver as a `libcuda.so.1`, for programs in any language.
//!
//! Each function of custack's list is exported under its C name. Functions of CUDA's headers that are not modelled are
//! exported too, answer `CUDA_ERROR_NOT_SUPPORTED` (801), and are named once on standard error. `README.md` lists both.

mod address;
mod driver;
mod errors;
mod exports;
mod kernel_nodes;
mod launch;
mod old;

/// A compiled function.
struct Symbol(*const ());

// SAFETY: it is the address of code, which never changes.
unsafe impl Sync for Symbol {}
