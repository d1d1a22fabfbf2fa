//! Handles that are safe to pass to the driver.
//!
//! The driver dereferences the handles it gets, so a handle that it has freed crashes the process. Every call that
//! takes a handle takes it as one of these types, and the code that constructs such a value vouches for the handle.

// The constructors are unsafe: their callers vouch for the handles.
#![allow(unsafe_code)]

use super::ffi::CUcontext;
use std::marker::PhantomData;

/// A context handle that is safe to pass to the driver while this value exists.
#[derive(Clone, Copy)]
pub(crate) struct Live<'a> {
    raw: CUcontext,
    held: PhantomData<&'a ()>,
}

impl Live<'_> {
    /// # Safety
    ///
    /// While the value exists, the driver must not free what the handle points to: its context is alive and cannot be
    /// destroyed, or some thread's stack holds the handle and keeps holding it.
    #[inline]
    pub(crate) unsafe fn new(raw: CUcontext) -> Self {
        Live { raw, held: PhantomData }
    }

    #[inline]
    pub(crate) fn raw(self) -> CUcontext {
        self.raw
    }
}

/// Any other handle that is safe to pass to the driver while this value exists.
#[derive(Clone, Copy)]
pub(crate) struct Held<'a, H> {
    raw: H,
    held: PhantomData<&'a ()>,
}

impl<H: Copy> Held<'_, H> {
    /// # Safety
    ///
    /// While the value exists, neither the object of the handle nor its context is destroyed.
    #[inline]
    pub(crate) unsafe fn new(raw: H) -> Self {
        Held { raw, held: PhantomData }
    }

    #[inline]
    pub(super) fn raw(self) -> H {
        self.raw
    }

    /// The handle, for a struct that the driver gets while this value exists.
    #[inline]
    pub(crate) fn as_raw(self) -> H {
        self.raw
    }
}

impl<T> Held<'_, *mut T> {
    /// What tells it from all others that are alive.
    pub(crate) fn address(self) -> usize {
        self.raw.addr()
    }
}
