//! What `launch!` passes on: where each argument is, and how large.

use crate::memory::DeviceCopy;
use std::mem;
use std::os::raw::c_void;
use std::ptr;

/// An argument of a launch. Made by [`launch!`](crate::launch) alone.
#[derive(Debug, Clone, Copy)]
pub struct Argument {
    pub(super) pointer: *mut c_void,
    pub(super) size: usize,
}

impl Argument {
    /// The argument that this value is; a launch reads the value.
    pub fn of<T: DeviceCopy>(value: &T) -> Argument {
        Argument { pointer: ptr::from_ref(value).cast_mut().cast(), size: mem::size_of::<T>() }
    }
}
