//! Each driver function that custack calls, with Rust's types: out-parameters become results.
//!
//! One file for each chapter of the CUDA driver manual, under the name that the chapter has everywhere in this crate.

mod context;
mod device;
mod event;
mod function;
mod init;
mod memory;
mod module;
mod stream;

pub(crate) use function::Shape;
pub(crate) use memory::Order;
pub(crate) use stream::RELAXED;

/// Calls one function of the table.
///
/// What makes this sound is the signature around it: numbers go in by value, the driver writes only through
/// pointers to locals of the type that the table's signature names, and a handle can only come out of a
/// [`Live`](super::Live) or a [`Held`](super::Held), which stand for its being good.
macro_rules! ask {
    ($driver:ident.$function:ident($($arg:expr),* $(,)?)) => {
        // SAFETY: see the macro's own text: by-value numbers, pointers to live locals, handles from `Live` or `Held`.
        $crate::driver::check(stringify!($function), unsafe { ($driver.table.$function)($($arg),*) })
    };
}
pub(super) use ask;

/// As [`ask!`], for the calls that every scope makes.
macro_rules! ask_briefly {
    ($driver:ident.$function:ident($($arg:expr),* $(,)?)) => {
        // SAFETY: as `ask!`.
        $crate::driver::Failed::unless(unsafe { ($driver.table.$function)($($arg),*) })
    };
}
pub(super) use ask_briefly;

/// The result of making something: the handle, or the error. A driver that fails after it has made it has written the
/// handle; then it is destroyed.
macro_rules! made {
    ($driver:ident, $asked:expr, $handle:ident, $destroy:ident) => {
        match $asked {
            Ok(()) => Ok($handle),
            Err(error) => {
                if !$handle.is_null() {
                    // SAFETY: made a moment ago, in the context that is current, and given to no one.
                    let _ = $driver.$destroy(unsafe { $crate::driver::Held::new($handle) });
                }
                Err(error)
            }
        }
    };
}
pub(super) use made;
