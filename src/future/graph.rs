//! Launches and uploads of graphs as futures.

use super::{Completion, submit::submit};
use crate::error::CudaResult;
use crate::graph::GraphExec;
use crate::stream::Stream;

impl GraphExec {
    /// Like [`launch`](Self::launch); the future is ready when the launch is done.
    ///
    /// # Errors
    ///
    /// Those of [`launch`](Self::launch) and of [`Stream::completion`]; in the latter case nothing was launched.
    ///
    /// ```
    /// use custack::graph::{Graph, InstantiateFlags};
    /// use custack::stream::{Stream, StreamFlags};
    ///
    /// let context = custack::quick_init()?;
    /// let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    /// let mut graph = Graph::new(&context)?;
    /// graph.add_host_func(&[], || println!("in a graph"))?;
    /// graph.instantiate(InstantiateFlags::empty())?.launch_async(&stream)?.wait()?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuGraphLaunch", "cuEventQuery"))]
    #[inline]
    pub fn launch_async(&mut self, stream: &Stream) -> CudaResult<Completion> {
        submit(stream, false, || self.launch(stream))
    }

    /// Like [`upload`](Self::upload); the future is ready when the graph is uploaded.
    ///
    /// # Errors
    ///
    /// Those of [`upload`](Self::upload) and of [`Stream::completion`]; in the latter case nothing was uploaded.
    #[doc(alias("cuGraphUpload", "cuEventQuery"))]
    #[inline]
    pub fn upload_async(&mut self, stream: &Stream) -> CudaResult<Completion> {
        submit(stream, false, || self.upload(stream))
    }
}
