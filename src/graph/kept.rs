//! What a graph keeps for as long as it, or anything that was made from it, can run.
//!
//! Only the driver knows how long that is: a graph is cloned, put into others, made into executables, and those may be
//! destroyed while their last launch runs. Its user objects follow all that, and their destructor runs when the last of
//! them is over. So what a node needs goes into one such object, which never changes.

// A pointer goes through the driver, and comes back.
#![allow(unsafe_code)]

use crate::driver::ffi::{CUDA_HOST_NODE_PARAMS, CUgraph, CUuserObject};
use crate::driver::{Driver, Held, as_host_function};
use crate::error::CudaResult;
use crate::report;
use std::os::raw::c_void;
use std::sync::{Arc, Mutex, PoisonError};

/// What is kept, until it is given up.
type Shell<T> = Mutex<Option<T>>;

fn take<T>(shell: &Shell<T>) -> Option<T> {
    shell.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Something that a graph keeps by now.
pub(super) struct Kept<T> {
    shell: Arc<Shell<T>>,
    object: CUuserObject,
}

impl<T: Send + 'static> Kept<T> {
    /// Gives the graph the value to keep. If that fails the value is dropped here.
    pub(super) fn by(driver: &Driver, graph: Held<'_, CUgraph>, value: T) -> CudaResult<Kept<T>> {
        let shell = Arc::new(Mutex::new(Some(value)));
        let data = Arc::into_raw(Arc::clone(&shell));
        // SAFETY: `gone` takes this count back, once; the value may be dropped on any thread.
        let made = unsafe { driver.user_object_create(data.cast_mut().cast(), Some(gone::<T>)) };
        let object = match made {
            Ok(object) => object,
            Err((error, was_made)) => {
                if !was_made {
                    // SAFETY: the driver has not taken it.
                    drop(unsafe { Arc::from_raw(data) });
                }
                drop(take(&shell));
                return Err(error);
            }
        };
        // SAFETY: the object was made above, with one reference. The graph gets one of its own and this one is given back,
        // so that whether or not a call that fails has done its work, nothing is given back that is not ours.
        let retained = unsafe { driver.graph_retain_user_object(graph, object) };
        // SAFETY: as above.
        if let Err(error) = unsafe { driver.user_object_release(object) } {
            report::warn(format_args!("what a graph keeps may be kept for ever: {error}"));
        }
        match retained {
            Ok(()) => Ok(Kept { shell, object }),
            Err(error) => {
                drop(take(&shell));
                Err(error)
            }
        }
    }

    /// The graph need not keep it after all: the value is dropped here.
    pub(super) fn give_up(self, driver: &Driver, graph: Held<'_, CUgraph>) {
        drop(take(&self.shell));
        release(driver, graph, self.object);
    }

    /// The value is dropped here; the graph keeps where it was.
    pub(super) fn empty(&self) {
        drop(take(&self.shell));
    }

    pub(super) fn object(&self) -> CUuserObject {
        self.object
    }
}

impl<F: FnMut() + Send + 'static> Kept<F> {
    /// What a host function's node calls, and with what, as long as the graph keeps this.
    pub(super) fn as_host_function(&self) -> CUDA_HOST_NODE_PARAMS {
        as_node(&self.shell)
    }
}

/// A host function that something else keeps than a graph: what keeps it, and what its node calls meanwhile.
pub(super) fn host_function<F: FnMut() + Send + 'static>(
    f: F,
) -> (impl Send + 'static, CUDA_HOST_NODE_PARAMS) {
    let shell = Arc::new(Mutex::new(Some(f)));
    let node = as_node(&shell);
    (shell, node)
}

fn as_node<F: FnMut() + Send + 'static>(shell: &Arc<Shell<F>>) -> CUDA_HOST_NODE_PARAMS {
    CUDA_HOST_NODE_PARAMS { fn_: Some(call::<F>), userData: Arc::as_ptr(shell).cast_mut().cast() }
}

/// The graph no longer keeps what it was given; what was made from it may.
pub(super) fn release(driver: &Driver, graph: Held<'_, CUgraph>, object: CUuserObject) {
    // SAFETY: the graph was given its reference, which is taken back only here, once.
    if let Err(error) = unsafe { driver.graph_release_user_object(graph, object) } {
        report::warn(format_args!("a graph keeps what it no longer needs, until it is destroyed: {error}"));
    }
}

/// What the driver calls when nothing that needs it can run any more.
unsafe extern "C" fn gone<T>(data: *mut c_void) {
    // SAFETY: the count that was given away with the object.
    let shell = unsafe { Arc::from_raw(data.cast::<Shell<T>>()) };
    as_host_function(|| {
        if !report::contained(|| drop(shell)) {
            report::warn(format_args!("what a graph kept panicked when it was dropped"));
        }
    });
}

/// What a host function's node calls.
unsafe extern "C" fn call<F: FnMut()>(data: *mut c_void) {
    // SAFETY: the graph that runs keeps it.
    let shell = unsafe { &*data.cast::<Shell<F>>() };
    as_host_function(|| {
        // Executables of one graph may run at once, and the function is one.
        let mut held = shell.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(function) = held.as_mut() else { return };
        if !report::contained(function) {
            report::warn(format_args!("a host function of a graph panicked"));
        }
    });
}
