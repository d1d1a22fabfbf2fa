//! The calls of linking with Rust's types.

// Calls through C function pointers; see `ask!` for what makes them sound, and `Held` for the handles.
#![allow(unsafe_code)]

use super::{Jit, complained};
use crate::driver::calls::{ask, made};
use crate::driver::ffi::*;
use crate::driver::{Driver, Held};
use crate::error::CudaResult;
use std::ffi::CStr;
use std::ptr;

impl Driver {
    /// # Safety
    ///
    /// The options stay where they are as long as the linker exists.
    #[inline]
    pub(crate) unsafe fn link_create(&self, jit: &mut Jit) -> CudaResult<CUlinkState> {
        let mut state = ptr::null_mut();
        let (count, options, values) = (jit.count(), jit.options(), jit.values());
        let created = ask!(self.cuLinkCreate_v2(count, options, values, &mut state));
        made!(self, created, state, link_destroy)
    }

    /// Adds data of this kind, which the driver does not look at any more afterwards.
    ///
    /// # Safety
    ///
    /// The data is a text with a final NUL, or machine code that is as its compiler wrote it.
    #[inline]
    pub(crate) unsafe fn link_add_data(
        &self,
        state: Held<'_, CUlinkState>,
        kind: u32,
        data: &[u8],
        name: &CStr,
        jit: &Jit,
    ) -> CudaResult<()> {
        let (at, size, none) = (data.as_ptr().cast_mut().cast(), data.len(), ptr::null_mut());
        let name = name.as_ptr();
        ask!(self.cuLinkAddData_v2(state.raw(), kind, at, size, name, 0, none, ptr::null_mut()))
            .map_err(|error| complained("cuLinkAddData", error, jit))
    }

    /// The image that was linked.
    #[inline]
    pub(crate) fn link_complete(&self, state: Held<'_, CUlinkState>, jit: &Jit) -> CudaResult<Vec<u8>> {
        let (mut image, mut size) = (ptr::null_mut(), 0);
        ask!(self.cuLinkComplete(state.raw(), &mut image, &mut size))
            .map_err(|error| complained("cuLinkComplete", error, jit))?;
        if image.is_null() {
            return Ok(Vec::new());
        }
        // SAFETY: the driver wrote the address of `size` bytes; they belong to the linker, which still exists.
        Ok(unsafe { std::slice::from_raw_parts(image.cast::<u8>(), size) }.to_vec())
    }

    #[inline]
    pub(crate) fn link_destroy(&self, state: Held<'_, CUlinkState>) -> CudaResult<()> {
        ask!(self.cuLinkDestroy(state.raw()))
    }
}
