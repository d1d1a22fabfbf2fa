//! User objects, and the text of a graph.

// Calls through C function pointers; see `ask!` for what makes them sound, and `Held` for the handles.
#![allow(unsafe_code)]

use super::super::ask;
use super::Graph;
use crate::driver::Driver;
use crate::driver::ffi::*;
use crate::error::CudaResult;
use std::ffi::CStr;
use std::os::raw::c_void;
use std::ptr;

impl Driver {
    /// An object with one reference, which the caller has. The driver calls the function with the data when the last
    /// one is gone. A driver that fails after it has made the object has written it; then that reference is given back,
    /// and the function is called: true stands beside the error.
    ///
    /// # Safety
    ///
    /// The function may be called with the data, once, on any thread.
    pub(crate) unsafe fn user_object_create(
        &self,
        data: *mut c_void,
        destroy: CUhostFn,
    ) -> Result<CUuserObject, (crate::error::CudaError, bool)> {
        // The program has no way to wait for the function, says the flag that must be given.
        const NO_DESTRUCTOR_SYNC: u32 = 1;
        let mut object = ptr::null_mut();
        ask!(self.cuUserObjectCreate(&mut object, data, destroy, 1, NO_DESTRUCTOR_SYNC)).map_err(
            |error| {
                let made = !object.is_null();
                if made {
                    let _ = ask!(self.cuUserObjectRelease(object, 1));
                }
                (error, made)
            },
        )?;
        Ok(object)
    }

    /// Adds a reference of the graph.
    ///
    /// # Safety
    ///
    /// The caller has a reference.
    pub(crate) unsafe fn graph_retain_user_object(
        &self,
        graph: Graph<'_>,
        object: CUuserObject,
    ) -> CudaResult<()> {
        ask!(self.cuGraphRetainUserObject(graph.raw(), object, 1, 0))
    }

    /// Releases the caller's reference.
    ///
    /// # Safety
    ///
    /// The caller has one, and has none afterwards.
    pub(crate) unsafe fn user_object_release(&self, object: CUuserObject) -> CudaResult<()> {
        ask!(self.cuUserObjectRelease(object, 1))
    }

    /// Releases a reference of the graph.
    ///
    /// # Safety
    ///
    /// The graph has a reference that the caller gave it.
    pub(crate) unsafe fn graph_release_user_object(
        &self,
        graph: Graph<'_>,
        object: CUuserObject,
    ) -> CudaResult<()> {
        ask!(self.cuGraphReleaseUserObject(graph.raw(), object, 1))
    }

    pub(crate) fn graph_debug_dot_print(&self, graph: Graph<'_>, path: &CStr, flags: u32) -> CudaResult<()> {
        ask!(self.cuGraphDebugDotPrint(graph.raw(), path.as_ptr(), flags))
    }
}
