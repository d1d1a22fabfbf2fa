//! The end of a thread, after all of its thread-locals are destroyed. Until then a destructor of one may make calls in what is
//! current, whichever was made first.
//!
//! On Unix, destructors of pthread keys run then. Where Rust's and C++'s thread-locals are built on a key themselves, all keys
//! are processed in rounds, and Rust's run in the second round at the latest; so this destructor waits for the third of the
//! at least four rounds. Elsewhere that end is not noticed.

/// Has the function called when the calling thread ends.
pub(super) fn at_end(call: fn()) {
    #[cfg(unix)]
    end::watch(call);
    #[cfg(not(unix))]
    let _ = call;
}

#[cfg(unix)]
mod end {
    // Declares two POSIX functions that no dependency declares, and defines the destructor that they call.
    #![allow(unsafe_code)]

    use std::cell::Cell;
    use std::os::raw::{c_int, c_void};
    use std::ptr;
    use std::sync::OnceLock;

    #[cfg(target_vendor = "apple")]
    type Key = std::os::raw::c_ulong;
    #[cfg(not(target_vendor = "apple"))]
    type Key = std::os::raw::c_uint;

    // SAFETY: the signatures are those of POSIX, with the key type of these systems.
    unsafe extern "C" {
        fn pthread_key_create(key: *mut Key, destructor: Option<unsafe extern "C" fn(*mut c_void)>) -> c_int;
        fn pthread_setspecific(key: Key, value: *const c_void) -> c_int;
    }

    /// The round of destructors in which the thread ends.
    const ROUND: usize = 3;

    thread_local! {
        /// What is called then, and whether that round was reached. Without destructors, so they can be read to the end.
        static CALL: Cell<Option<fn()>> = const { Cell::new(None) };
        static OVER: Cell<bool> = const { Cell::new(false) };
    }

    /// A destructor of another key may ask for this after this key's: then the next round is the one.
    pub(super) fn watch(call: fn()) {
        CALL.set(Some(call));
        set(if OVER.get() { ROUND } else { 1 });
    }

    /// Sets the value to the number of the next round; it is not a pointer.
    fn set(round: usize) {
        // Made once and never deleted; `None` if the system has none left.
        static KEY: OnceLock<Option<Key>> = OnceLock::new();
        let key = KEY.get_or_init(|| {
            let mut key = 0;
            // SAFETY: writes to a local; the destructor takes any value and lives as long as the program.
            let status = unsafe { pthread_key_create(&mut key, Some(destructor)) };
            (status == 0).then_some(key)
        });
        if let Some(key) = key {
            // SAFETY: the key was made and is never deleted. If there is no memory for the value, the end is not noticed.
            unsafe { pthread_setspecific(*key, ptr::without_provenance(round)) };
        }
    }

    /// The system calls this with the value, which it has reset to NULL.
    unsafe extern "C" fn destructor(value: *mut c_void) {
        let round = value.addr();
        if round < ROUND {
            return set(round + 1);
        }
        OVER.set(true);
        if let Some(call) = CALL.take() {
            call();
        }
    }
}
