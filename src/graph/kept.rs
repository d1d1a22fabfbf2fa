//! What a graph keeps for as long as it, or anything that was made from it, can run.
//!
//! Only the driver knows how long that is: graphs are cloned, added to others and instantiated, and an executable may
//! be destroyed during its last launch. The driver's user objects follow all that, and call their destructor at the
//! end. So what a node needs is in one user object, which never changes.

// The driver holds a pointer, and passes it back.
#![allow(unsafe_code)]

use crate::driver::ffi::{CUDA_HOST_NODE_PARAMS, CUgraph, CUuserObject};
use crate::driver::{Driver, Held, as_host_function, lock};
use crate::error::{CudaResult, keep_note};
use crate::report;
use std::mem;
use std::os::raw::c_void;
use std::sync::{Arc, Mutex};

/// The kept value, until it is given up.
type Shell<T> = Mutex<Option<T>>;

#[inline]
fn take<T>(shell: &Shell<T>) -> Option<T> {
    lock(shell).take()
}

/// A value that a graph keeps.
pub(super) struct Kept<T> {
    shell: Arc<Shell<T>>,
    /// `None` for a value without a destructor.
    object: Option<CUuserObject>,
}

/// How a value comes to be kept: [`Kept::by`], or [`Kept::for_its_drop`].
pub(super) type Keeping<T> = fn(&Driver, Held<'_, CUgraph>, T) -> CudaResult<Kept<T>>;

impl<T: Send + 'static> Kept<T> {
    /// Like [`by`](Self::by), for a value whose address is not known outside. One without a destructor need not be
    /// kept, and is not: on an H200 a user object makes a launch slower by 0.3 us for each node.
    #[inline]
    pub(super) fn for_its_drop(driver: &Driver, graph: Held<'_, CUgraph>, value: T) -> CudaResult<Kept<T>> {
        if mem::needs_drop::<T>() {
            return Kept::by(driver, graph, value);
        }
        Ok(Kept { shell: Arc::new(Mutex::new(None)), object: None })
    }

    /// Makes the graph keep the value. If that fails, the value is dropped here.
    #[inline]
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
        // SAFETY: the object was made above, with one reference. The graph gets one of its own and this one is given
        // back, so that no foreign reference is released, whether or not a failed call did its work.
        let retained = unsafe { driver.graph_retain_user_object(graph, object) };
        let note = keep_note();
        // SAFETY: as above.
        if let Err(error) = unsafe { driver.user_object_release(object) } {
            report::warn(format_args!("what a graph keeps may be kept for ever: {error:?}"));
        }
        drop(note);
        match retained {
            Ok(()) => Ok(Kept { shell, object: Some(object) }),
            Err(error) => {
                drop(take(&shell));
                Err(error)
            }
        }
    }

    /// Drops the value here; the graph no longer keeps it.
    #[inline]
    pub(super) fn give_up(self, driver: &Driver, graph: Held<'_, CUgraph>) {
        drop(take(&self.shell));
        self.object.into_iter().for_each(|object| release(driver, graph, object));
    }

    /// Drops the value here; the graph keeps the empty place.
    #[inline]
    pub(super) fn empty(&self) {
        drop(take(&self.shell));
    }

    #[inline]
    pub(super) fn object(&self) -> Option<CUuserObject> {
        self.object
    }
}

impl<F: FnMut() + Send + 'static> Kept<F> {
    /// The function and the data of a host function's node, valid as long as the graph keeps this.
    #[inline]
    pub(super) fn as_host_function(&self) -> CUDA_HOST_NODE_PARAMS {
        as_node(&self.shell)
    }
}

/// A host function that something other than a graph keeps: its owner, and the function and data of its node.
#[inline]
pub(super) fn host_function<F: FnMut() + Send + 'static>(
    f: F,
) -> (impl Send + 'static, CUDA_HOST_NODE_PARAMS) {
    let shell = Arc::new(Mutex::new(Some(f)));
    let node = as_node(&shell);
    (shell, node)
}

#[inline]
fn as_node<F: FnMut() + Send + 'static>(shell: &Arc<Shell<F>>) -> CUDA_HOST_NODE_PARAMS {
    CUDA_HOST_NODE_PARAMS { fn_: Some(call::<F>), userData: Arc::as_ptr(shell).cast_mut().cast() }
}

/// The graph no longer keeps the object; what was made from it may.
#[inline]
pub(super) fn release(driver: &Driver, graph: Held<'_, CUgraph>, object: CUuserObject) {
    let _note = keep_note();
    // SAFETY: the graph was given its reference, which is taken back only here, once.
    if let Err(error) = unsafe { driver.graph_release_user_object(graph, object) } {
        report::warn(format_args!("a graph keeps what it no longer needs, until it is destroyed: {error:?}"));
    }
}

/// The destructor of a user object.
unsafe extern "C" fn gone<T>(data: *mut c_void) {
    // SAFETY: the count that the object holds.
    let shell = unsafe { Arc::from_raw(data.cast::<Shell<T>>()) };
    as_host_function(|| {
        if !report::contained(|| drop(shell)) {
            report::warn(format_args!("what a graph kept panicked when it was dropped"));
        }
    });
}

/// What a host function's node calls.
unsafe extern "C" fn call<F: FnMut()>(data: *mut c_void) {
    // SAFETY: the running graph keeps it.
    let shell = unsafe { &*data.cast::<Shell<F>>() };
    as_host_function(|| {
        // Executables of one graph may run at the same time, but share the function.
        let mut held = lock(shell);
        let Some(function) = held.as_mut() else { return };
        if !report::contained(function) {
            report::warn(format_args!("a host function of a graph panicked"));
        }
    });
}
