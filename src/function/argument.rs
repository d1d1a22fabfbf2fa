//! The arguments of `launch!`: their addresses and sizes, and the values of integers.

use crate::memory::DeviceCopy;
use std::fmt;
use std::mem;
use std::os::raw::c_void;
use std::ptr;

/// An argument of a launch. Made by [`launch!`](crate::launch) alone.
#[derive(Debug, Clone, Copy)]
pub struct Argument {
    pub(super) pointer: *mut c_void,
    size: usize,
    integer: Option<i128>,
}

impl Argument {
    #[inline]
    fn of<T>(value: &T, integer: Option<i128>) -> Argument {
        Argument { pointer: ptr::from_ref(value).cast_mut().cast(), size: mem::size_of::<T>(), integer }
    }

    /// Whether this argument fits a parameter of this many bytes. A wider integer is accepted if its value fits: the
    /// driver copies the lower bytes, and RustaCUDA's programs pass the `len()` of a slice as a `u32`.
    #[inline]
    pub(super) fn fits(&self, parameter: usize) -> bool {
        self.size == parameter || self.fits_narrowed(parameter)
    }

    #[cold]
    fn fits_narrowed(&self, parameter: usize) -> bool {
        let Some(value) = self.integer.filter(|_| (1..self.size).contains(&parameter)) else { return false };
        let bits = 8 * parameter as u32;
        cfg!(target_endian = "little") && (-(1 << (bits - 1))..1 << bits).contains(&value)
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.integer {
            Some(value) => write!(f, "the integer {value} of {} bytes", self.size),
            None => write!(f, "{} bytes", self.size),
        }
    }
}

/// A value before it becomes an [`Argument`]. Method lookup prefers [`OfInteger`], which takes a reference to this, to
/// [`OfAny`], which takes a reference to a reference.
#[derive(Debug)]
pub struct Passed<'a, T>(&'a T);

impl<'a, T> Passed<'a, T> {
    /// The value that `launch!` was given.
    #[inline]
    pub fn new(value: &'a T) -> Passed<'a, T> {
        Passed(value)
    }
}

/// Arguments of an integer type.
pub trait OfInteger {
    /// The argument for this value, which a launch reads.
    fn argument(&self) -> Argument;
}

/// Arguments of any other type.
pub trait OfAny {
    /// The argument for this value, which a launch reads.
    fn argument(&self) -> Argument;
}

impl<T: DeviceCopy> OfAny for &Passed<'_, T> {
    #[inline]
    fn argument(&self) -> Argument {
        Argument::of(self.0, None)
    }
}

macro_rules! integers {
    ($($ty:ident)*) => {$(
        impl OfInteger for Passed<'_, $ty> {
            #[inline]
            fn argument(&self) -> Argument {
                Argument::of(self.0, Some(*self.0 as i128))
            }
        }
    )*};
}
integers!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize);
