//! Functions of the program that a stream calls once, unless its context is in error.

// The driver gets a function to call.
#![allow(unsafe_code)]

use super::Stream;
use crate::driver::ffi::CUstream;
use crate::driver::{Driver, Held, as_host_function};
use crate::error::{CudaError, CudaResult};
use crate::liveness::promised;
use crate::report;
use std::os::raw::c_void;

impl Stream {
    /// Queues a function, which is called once, when all earlier work is done; later work waits for it.
    ///
    /// It runs on a thread of the driver, like a [callback](Self::add_callback): driver calls are refused there, what
    /// it drops is destroyed soon after, and a panic in it is only reported.
    ///
    /// While it runs, the driver destroys no context of the device, whosever that is: dropping a context waits for the work
    /// of all contexts of the process. Meanwhile a driver may neither allocate nor free for other threads (an H200's does
    /// not). So a function must not wait for a thread that drops a context, or that allocates or frees memory of the device.
    /// Nor must it wait for other driver calls of another thread: a copy without a stream, from or to memory that is not
    /// page-locked, may wait for the function, and an H100's driver holds a lock of the context meanwhile, for which those
    /// calls wait.
    ///
    /// Unlike a callback, which gets the error, the function is not called if the context is in error by then: that is
    /// the driver's rule. It is then dropped when the context is destroyed (a primary one with its last share), or
    /// never if other code made and destroys the context. Use a callback for a function that must learn of failures.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed);
    /// [`StreamCaptureUnsupported`](CudaError::StreamCaptureUnsupported) while the stream is capturing, because a graph
    /// would call the function at every launch; any error of the driver. The function is then dropped without a call.
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
    #[inline]
    pub fn launch_host_func<F>(&self, function: F) -> CudaResult<()>
    where
        F: FnOnce() + Send + 'static,
    {
        self.promise(Box::new(function)).map(|_| ())
    }

    /// Like [`launch_host_func`](Self::launch_host_func); returns the key of the function.
    #[inline]
    pub(super) fn promise(&self, function: promised::Function) -> CudaResult<u64> {
        let what = "call a function once, which a graph would call at every launch";
        self.refuse_in_capture(what)?;
        let key = self.context().promise(function);
        let asked = self.inner.outside_capture(what, |driver, stream| {
            refuse_while_capturing(driver, stream)?;
            // SAFETY: `call` takes the function with this key, which exists only once.
            unsafe { driver.launch_host_func(stream, Some(call), key as usize as *mut c_void) }
        });
        if asked.is_err() {
            // A driver that fails may have taken the function all the same, and may still call it: then it finds none.
            drop(promised::take(key));
        }
        asked.map(|()| key)
    }

    /// Asks for a call of a function that is promised under this key, even if the owner of the pinned context is gone.
    #[inline]
    pub(crate) fn call_promised(&self, key: u64, pin: &crate::context::Pin) -> CudaResult<()> {
        let ask = |driver: &Driver, stream: Held<'_, CUstream>| {
            // SAFETY: as in `promise`.
            unsafe { driver.launch_host_func(stream, Some(call), key as usize as *mut c_void) }
        };
        self.inner.with_pinned(pin, ask).unwrap_or_else(|| pin.context().gone())
    }
}

/// Refuses a function that a graph would call at every launch.
#[doc(alias = "cuStreamIsCapturing")]
pub(crate) fn refuse_while_capturing(driver: &Driver, stream: Held<'_, CUstream>) -> CudaResult<()> {
    if driver.stream_is_capturing(stream)? == 0 {
        return Ok(());
    }
    Err(CudaError::StreamCaptureUnsupported
        .note(format_args!("to do once what a graph would do at every launch: the stream is capturing")))
}

/// For a stream that other code captures, or another value for it.
#[cold]
pub(crate) fn captured_elsewhere<R>() -> CudaResult<R> {
    Err(CudaError::StreamCaptureUnsupported
        .note(format_args!("to wait for the work of a stream that is captured elsewhere")))
}

/// The function that the driver calls, with a key in place of a pointer.
unsafe extern "C" fn call(key: *mut c_void) {
    as_host_function(|| {
        let Some(function) = promised::take(key.addr() as u64) else { return };
        if !report::contained(function) {
            report::warn(format_args!("a host function panicked"));
        }
    });
}
