//! Graphs in the DOT language.

use super::Graph;
use crate::error::{CudaError, CudaResult};
use bitflags::bitflags;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

bitflags! {
    /// What the text of a graph says about its nodes.
    pub struct DotFlags: u32 {
        /// Everything.
        const VERBOSE = 1;
        /// The types of the CUDA runtime.
        const RUNTIME_TYPES = 1 << 1;
        /// The parameters of kernel nodes.
        const KERNEL_PARAMS = 1 << 2;
        /// The parameters of copy nodes.
        const COPY_PARAMS = 1 << 3;
        /// The parameters of fill nodes.
        const FILL_PARAMS = 1 << 4;
        /// The functions of host nodes.
        const HOST_PARAMS = 1 << 5;
        /// The events that are recorded and waited for.
        const EVENT_PARAMS = 1 << 6;
        /// The attributes of kernels.
        const KERNEL_ATTRIBUTES = 1 << 9;
        /// Handles.
        const HANDLES = 1 << 10;
        /// The parameters of allocations.
        const ALLOCATION_PARAMS = 1 << 11;
        /// The parameters of frees.
        const FREE_PARAMS = 1 << 12;
    }
}

impl Graph {
    /// The graph in the DOT language; `dot -Tsvg` of Graphviz draws it.
    ///
    /// # Errors
    ///
    /// [`OperatingSystemError`](CudaError::OperatingSystemError) if the file that the driver writes cannot be read; any
    /// error of the driver.
    ///
    /// ```
    /// use custack::graph::{DotFlags, Graph};
    ///
    /// let context = custack::quick_init()?;
    /// let mut graph = Graph::new(&context)?;
    /// graph.add_empty(&[])?;
    /// assert!(graph.to_dot(DotFlags::empty())?.starts_with("digraph"));
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuGraphDebugDotPrint")]
    #[inline]
    pub fn to_dot(&mut self, flags: DotFlags) -> CudaResult<String> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path =
            Temporary(std::env::temp_dir().join(format!("custack-{}-{number}.dot", std::process::id())));
        self.write_dot(&path.0, flags)?;
        std::fs::read_to_string(&path.0).map_err(|error| unreadable(&path.0, &error))
    }

    /// Writes the graph to a file, in the DOT language.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](CudaError::InvalidValue) for a path that is not a C string; an error of the driver if it cannot
    /// write the file.
    #[doc(alias = "cuGraphDebugDotPrint")]
    #[inline]
    pub fn write_dot(&mut self, path: impl AsRef<Path>, flags: DotFlags) -> CudaResult<()> {
        let path = path.as_ref();
        let name = path.to_str().and_then(|path| CString::new(path).ok());
        let name = name.ok_or_else(|| {
            CudaError::InvalidValue.note(format_args!("to write a graph into {}", path.display()))
        })?;
        self.with(|driver, graph| driver.graph_debug_dot_print(graph, &name, flags.bits()))
    }
}

/// A file that is removed on drop.
struct Temporary(PathBuf);

impl Drop for Temporary {
    #[inline]
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cold]
fn unreadable(path: &Path, error: &std::io::Error) -> CudaError {
    CudaError::OperatingSystemError.note(format_args!("to read {}: {error}", path.display()))
}
