//! The C interface of the CUDA driver. The crate custack and its simulated driver both stand on it.
//!
//! Programs use custack, which has all of this that they need. This crate is for code that calls the driver's C functions
//! by itself, and for drivers that stand in the place of NVIDIA's.
//!
//! * [`ffi`]: the C types.
//! * [`Table`]: the driver's functions, one field for each. [`for_each_function!`] has the list from which it is made.
//! * [`ERRORS`]: the numbers that the functions return. [`for_each_error!`] has the list.
//! * [`load`] finds and opens the installed driver, and fills a table.
//! * [`fork`] and [`thread_end`]: what a driver must know of its process and its threads.
//!
//! ```
//! match custack_sys::load() {
//!     Ok((table, library)) => {
//!         let mut version = 0;
//!         // SAFETY: the function writes one integer.
//!         let status = unsafe { (table.cuDriverGetVersion)(&mut version) };
//!         println!("{library}: status {status}, CUDA {}.{}", version / 1000, version % 1000 / 10);
//!     }
//!     Err(why) => println!("{why}"),
//! }
//! ```

#[cfg(not(target_pointer_width = "64"))]
compile_error!("custack is for targets with pointers of 64 bits: NVIDIA has no driver for others");

mod errors;
pub mod ffi;
pub mod fork;
mod native;
mod table;
pub mod thread_end;

pub use errors::ERRORS;
pub use native::{Attempt, LoadError, Tried, load, load_any, variable};
pub use table::{ARGUMENTS, FUNCTIONS, SINCE, Table};
