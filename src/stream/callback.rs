//! Functions of the program that a stream calls (callbacks).

// The function that the driver calls gets back a pointer that was passed to the driver.
#![allow(unsafe_code)]

use super::Stream;
use crate::driver::ffi::{CUresult, CUstream};
use crate::driver::{as_host_function, lock};
use crate::error::{CudaError, CudaResult};
use crate::report;
use std::os::raw::c_void;
use std::sync::{Arc, Mutex};

impl Stream {
    /// Queues a function, which is called once, when all earlier work is done; later work waits for it. Its argument
    /// says whether the earlier work failed.
    ///
    /// It runs on a thread of the driver, where every driver call is refused with
    /// [`NotPermitted`](CudaError::NotPermitted). Owners, streams and memory that it drops are destroyed soon after
    /// ([`wait_until_retired`](crate::context::wait_until_retired)). A panic in it is only reported. If the context is
    /// destroyed before the stream reaches it, the function may never be called. It must not wait for a thread that drops
    /// a context, or that allocates or frees memory of the device, as [`launch_host_func`](Self::launch_host_func) says.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed), or any error of the driver. The function is dropped then,
    /// without being called.
    #[doc(alias = "cuStreamAddCallback")]
    #[inline]
    pub fn add_callback<T>(&self, callback: Box<T>) -> CudaResult<()>
    where
        T: FnOnce(CudaResult<()>) + Send + 'static,
    {
        let what = "add a callback to a stream";
        self.refuse_in_capture(what)?;
        let waiting = Arc::new(Mutex::new(Some(callback)));
        let added = self.inner.outside_capture(what, |driver, stream| {
            let data = Arc::into_raw(Arc::clone(&waiting)).cast_mut().cast();
            // SAFETY: `call` takes this count back, once; the closure is `Send` and borrows nothing.
            unsafe { driver.stream_add_callback(stream, Some(call::<T>), data) }
        });
        if added.is_err() {
            // A driver that fails may have taken the callback first, and may still call it. So the driver keeps its
            // count, for ever if it never calls, but finds no function there.
            drop(take(&waiting));
        }
        added
    }
}

/// A callback, until it is called or given up.
type Waiting<T> = Mutex<Option<Box<T>>>;

fn take<T>(waiting: &Waiting<T>) -> Option<Box<T>> {
    lock(waiting).take()
}

/// The function that the driver calls.
unsafe extern "C" fn call<T>(_stream: CUstream, status: CUresult, data: *mut c_void)
where
    T: FnOnce(CudaResult<()>) + Send + 'static,
{
    let status = CudaError::from_code(status).map_or(Ok(()), Err);
    // SAFETY: the count that was passed to the driver with this call.
    let waiting = unsafe { Arc::from_raw(data.cast::<Waiting<T>>()) };
    as_host_function(|| {
        let Some(callback) = take(&waiting) else { return };
        if !report::contained(|| callback(status)) {
            report::warn(format_args!("a stream's callback panicked"));
        }
    });
}
