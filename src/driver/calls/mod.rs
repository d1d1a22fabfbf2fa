//! Each driver function that custack calls, with Rust types: out-parameters become results.
//!
//! One file for each chapter of the CUDA driver manual, named like the chapter everywhere else in this crate.

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

pub(crate) use function::{More, Shape};
pub(crate) use graph::{Added, After, Edge, NotAdded};
pub(crate) use memory::{Fill, Order};
pub(crate) use module::{Jit, Told};
pub(crate) use stream::RELAXED;

/// Calls one function of the table.
///
/// The signature makes this sound: numbers are passed by value, the driver writes only through pointers to locals of
/// the type that the table's signature names, and a handle comes from a [`Live`](super::Live) or a
/// [`Held`](super::Held), which guarantee that it is valid.
macro_rules! ask {
    ($driver:ident.$function:ident($($arg:expr),* $(,)?)) => {
        // SAFETY: see the macro's documentation: numbers by value, pointers to live locals, handles from `Live` or
        // `Held`.
        $crate::driver::check(stringify!($function), unsafe { ($driver.table.$function)($($arg),*) })
    };
}
pub(super) use ask;

/// Like [`ask!`], for the calls that every scope makes.
macro_rules! ask_briefly {
    ($driver:ident.$function:ident($($arg:expr),* $(,)?)) => {
        // SAFETY: as `ask!`.
        $crate::driver::Failed::unless(unsafe { ($driver.table.$function)($($arg),*) })
    };
}
pub(super) use ask_briefly;

/// The result of a call that makes something: the handle, or the error. If the driver wrote a handle before it failed,
/// the object is destroyed.
macro_rules! made {
    ($driver:ident, $asked:expr, $handle:ident, $destroy:ident) => {
        match $asked {
            Ok(()) => Ok($handle),
            Err(error) => {
                if !$handle.is_null() {
                    let _note = $crate::error::keep_note();
                    // SAFETY: just made in the current context, and given to nothing else.
                    let _ = $driver.$destroy(unsafe { $crate::driver::Held::new($handle) });
                }
                Err(error)
            }
        }
    };
}
pub(super) use made;
