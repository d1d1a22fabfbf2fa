//! What is made of the list of functions: the table, their names and versions, and the stubs.

// The stubs are C functions.
#![allow(unsafe_code)]

use crate::ffi::*;
use std::os::raw::{c_char, c_int, c_uint, c_ulonglong, c_void};

macro_rules! define {
    ($($since:literal fn $name:ident($($arg:ident: $ty:ty),*);)*) => {
        /// The driver's functions, one field for each, named after the C symbol.
        ///
        /// Calling one is calling C: what the CUDA manual asks of the caller is the caller's duty, and a context
        /// handle that the driver has freed ends the process.
        #[allow(non_snake_case)]
        #[derive(Clone, Copy)]
        #[repr(C)]
        #[non_exhaustive]
        pub struct Table {
            $(
                #[doc = concat!("`", stringify!($name), "`, since CUDA ", stringify!($since), " (1000 times the major version, 10 times the minor).")]
                pub $name: unsafe extern "C" fn($($ty),*) -> CUresult,
            )*
        }

        impl Table {
            /// The table of a driver that has no function: each answers 36, the error that says so.
            pub const EMPTY: Table = Table { $($name: stub::$name),* };
        }

        /// The name of each function of the [`Table`], in its order.
        pub const FUNCTIONS: &[&str] = &[$(stringify!($name)),*];

        /// The CUDA version that introduced each function of the [`Table`]: 1000 times the major version plus 10 times
        /// the minor.
        pub const SINCE: &[i32] = &[$($since),*];

        /// The arguments of each function of the [`Table`], each with its name and its type, as the list has them: for
        /// code that is generated from it.
        #[doc(hidden)]
        pub const ARGUMENTS: &[&[(&str, &str)]] = &[$(&[$((stringify!($arg), stringify!($ty))),*]),*];

        /// The stub for a function that the driver lacks, which returns the error that says so.
        #[allow(non_snake_case, clippy::missing_safety_doc)]
        mod stub {
            use super::*;
            $(
                pub(super) unsafe extern "C" fn $name($(_: $ty),*) -> CUresult {
                    CALL_REQUIRES_NEWER_DRIVER
                }
            )*
        }
    };
}
crate::for_each_function!(define);

/// The status for a function that the driver is too old for.
const CALL_REQUIRES_NEWER_DRIVER: CUresult = 36;
