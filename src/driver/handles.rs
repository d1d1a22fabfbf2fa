//! Handles that may be given to the driver.
//!
//! The driver dereferences the handles it gets: one that it has freed ends the process. So every call that takes a
//! handle takes it as one of these types, and the code that makes such a value answers for the handle.

// The constructors are unsafe: their callers vouch for the handles.
#![allow(unsafe_code)]

use super::ffi::CUcontext;
use std::marker::PhantomData;

/// A context handle that may be given to the driver while this value exists.
#[derive(Clone, Copy)]
pub(crate) struct Live<'a> {
    raw: CUcontext,
    held: PhantomData<&'a ()>,
}

impl Live<'_> {
    /// # Safety
    ///
    /// While the value exists, the driver must not free what the handle points to: its context is alive and kept
    /// from being destroyed, or some thread's stack holds the handle and will go on holding it.
    #[inline]
    pub(crate) unsafe fn new(raw: CUcontext) -> Self {
        Live { raw, held: PhantomData }
    }

    #[inline]
    pub(crate) fn raw(self) -> CUcontext {
        self.raw
    }
}

/// Another handle that may be given to the driver while this value exists, by the same reasoning.
#[derive(Clone, Copy)]
pub(crate) struct Held<'a, H> {
    raw: H,
    held: PhantomData<&'a ()>,
}

impl<H: Copy> Held<'_, H> {
    /// # Safety
    ///
    /// While the value exists, what the handle stands for is not destroyed, nor its context.
    #[inline]
    pub(crate) unsafe fn new(raw: H) -> Self {
        Held { raw, held: PhantomData }
    }

    #[inline]
    pub(super) fn raw(self) -> H {
        self.raw
    }
}
