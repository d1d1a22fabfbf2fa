//! Enums whose variants are numbers of the driver, and their conversion in both directions.
//!
//! RustaCUDA's have a hidden last variant, which a program can name but no driver knows: as an argument it is refused
//! before the driver is called. A number that the driver writes is looked up, because it may have no name yet.

use crate::error::{CudaError, CudaResult};

/// An enum that [`numbered!`] defines.
pub(crate) trait Numbered: Copy + 'static {
    /// Every variant except the hidden one, in the order of the numbers.
    const ALL: &'static [Self];

    /// The number for the driver; [`InvalidValue`](CudaError::InvalidValue) for the hidden variant.
    fn number(self) -> CudaResult<u32>;

    /// The variant for a number that the function returned; [`UnexpectedValue`](CudaError::UnexpectedValue) for one
    /// without a name.
    fn named(function: &'static str, answer: u32) -> CudaResult<Self> {
        let found = Self::ALL.iter().find(|variant| variant.number() == Ok(answer));
        found.copied().ok_or(CudaError::UnexpectedValue { function, value: answer.into() })
    }
}

/// Defines an enum of the driver's numbers; `refuses` names the hidden variant, which is last.
macro_rules! numbered {
    (
        $(#[$of_enum:meta])*
        pub enum $Enum:ident $(refuses($hidden:ident = $none:expr))? {
            $($(#[$of_variant:meta])* $variant:ident = $number:literal,)*
        }
    ) => {
        $(#[$of_enum])*
        #[repr(u32)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $Enum {
            $($(#[$of_variant])* $variant = $number,)*
            $(#[doc(hidden)] $hidden = $none,)?
        }

        impl $crate::driver::Numbered for $Enum {
            const ALL: &'static [$Enum] = &[$($Enum::$variant),*];

            #[inline]
            fn number(self) -> $crate::error::CudaResult<u32> {
                $(if self == $Enum::$hidden {
                    let what = concat!(stringify!($Enum), "::", stringify!($hidden));
                    let error = $crate::error::CudaError::InvalidValue;
                    return Err(error.note(format_args!("to use {what}, which stands for nothing")));
                })?
                Ok(self as u32)
            }
        }
    };
}
pub(crate) use numbered;
