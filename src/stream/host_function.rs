//! Functions of the program that a stream calls once, unless its context is in error.

// The driver is told what to call.
#![allow(unsafe_code)]

use super::Stream;
use crate::driver::ffi::CUstream;
use crate::driver::{Driver, Held, as_host_function};
use crate::error::{CudaError, CudaResult};
use crate::liveness::promised;
use crate::report;
use std::os::raw::c_void;

impl Stream {
    /// Calls the function, once, when all work given so far is done; work given later waits for it.
    ///
    /// It runs on a thread of the driver's, as a [callback](Self::add_callback) does: driver calls are refused there,
    /// what it drops is destroyed soon after, and a panic in it goes no further than a report.
    ///
    /// If the context is in error when the stream gets there, the function is not called: that is the driver's rule, and
    /// the difference to a callback, which is told the error. Then it is dropped when the context is destroyed, or, of a
    /// primary one, with the last share; it stays if other code made and destroys the context. A function that must hear
    /// of failures is a callback.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed);
    /// [`StreamCaptureUnsupported`](CudaError::StreamCaptureUnsupported) while the stream is capturing, because a graph
    /// would call the function at every launch; what the driver returns. The function is dropped then, and not called any
    /// more.
    ///
    /// ```
    /// use custack::stream::{Stream, StreamFlags};
    /// use std::sync::mpsc::channel;
    ///
    /// let _context = custack::quick_init()?;
    /// let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    /// let (tell, told) = channel();
    /// stream.launch_host_func(move || tell.send("the work before is done").unwrap())?;
    /// assert_eq!(told.recv(), Ok("the work before is done"));
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuLaunchHostFunc")]
    pub fn launch_host_func<F>(&self, function: F) -> CudaResult<()>
    where
        F: FnOnce() + Send + 'static,
    {
        self.promise(Box::new(function)).map(|_| ())
    }

    /// Like [`launch_host_func`](Self::launch_host_func); returns the key of the function.
    pub(super) fn promise(&self, function: promised::Function) -> CudaResult<u64> {
        self.refuse_in_capture("call a function once, which a graph would call at every launch")?;
        let key = self.context().promise(function);
        let asked = self.inner.with(|driver, stream| {
            refuse_while_capturing(driver, stream)?;
            // SAFETY: `call` takes the function that has this key, if there is one, and that is so only once.
            unsafe { driver.launch_host_func(stream, Some(call), key as usize as *mut c_void) }
        });
        if asked.is_err() {
            // A driver that fails may have taken it first, and call it yet: then it finds nothing.
            drop(promised::take(key));
        }
        asked.map(|()| key)
    }
}

/// Refuses what a capture would have done at every launch of its graph.
#[doc(alias = "cuStreamIsCapturing")]
pub(super) fn refuse_while_capturing(driver: &Driver, stream: Held<'_, CUstream>) -> CudaResult<()> {
    if driver.stream_is_capturing(stream)? == 0 {
        return Ok(());
    }
    Err(CudaError::StreamCaptureUnsupported
        .note(format_args!("to do once what a graph would do at every launch: the stream is capturing")))
}

/// What the driver calls, with a key in place of a pointer.
unsafe extern "C" fn call(key: *mut c_void) {
    as_host_function(|| {
        let Some(function) = promised::take(key.addr() as u64) else { return };
        if !report::contained(function) {
            report::warn(format_args!("a host function panicked"));
        }
    });
}
