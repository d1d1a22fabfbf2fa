//! The end of a thread: when the driver releases its stack.
//!
//! The NVIDIA driver does so after all thread-locals of the program are destroyed: a destructor of one that asks what
//! is current still gets it, whichever was made first. On Unix, destructors of pthread keys run at that time, after
//! those of Rust's and C++'s thread-locals. Where those are built on a key themselves, all keys are processed in
//! rounds, and Rust's run in the second round at the latest; so this destructor waits for the third of the at least
//! four rounds. Elsewhere a Rust thread-local is used, whose turn comes among the others.

use super::machine;

/// Has this thread's stack released when the thread ends.
pub(super) fn watch() {
    end::watch();
}

#[cfg(unix)]
mod end {
    // Declares two POSIX functions that no dependency declares, and defines the destructor that they call.
    #![allow(unsafe_code)]

    use super::machine;
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

    /// The round of destructors in which the stack is released.
    const ROUND: usize = 3;

    /// The key, made once and never deleted; `None` if the system has none left.
    fn key() -> Option<Key> {
        static KEY: OnceLock<Option<Key>> = OnceLock::new();
        *KEY.get_or_init(|| {
            let mut key = 0;
            // SAFETY: writes to a local; the destructor takes any value and lives as long as the program.
            let status = unsafe { pthread_key_create(&mut key, Some(destructor)) };
            (status == 0).then_some(key)
        })
    }

    /// Sets the value to the number of the next round; it is not a pointer.
    fn set(round: usize) {
        if let Some(key) = key() {
            // SAFETY: the key was made and is never deleted. If there is no memory for the value it is not set, and the
            // stack stays, as the NVIDIA driver's would.
            unsafe { pthread_setspecific(key, ptr::without_provenance(round)) };
        }
    }

    thread_local! {
        /// Whether the stack was released already. Has no destructor, so it can be read to the end.
        static OVER: Cell<bool> = const { Cell::new(false) };
    }

    pub(super) fn watch() {
        // A destructor of another key made this call, after this key's destructor: the next round clears what it left.
        set(if OVER.get() { ROUND } else { 1 });
    }

    /// The system calls this with the value, which it has reset to NULL.
    unsafe extern "C" fn destructor(value: *mut c_void) {
        let round = value.addr();
        if round < ROUND {
            return set(round + 1);
        }
        OVER.set(true);
        machine::end_this_thread();
    }
}

#[cfg(not(unix))]
mod end {
    use super::machine;

    thread_local! {
        static SENTINEL: Sentinel = const { Sentinel };
    }

    struct Sentinel;

    impl Drop for Sentinel {
        fn drop(&mut self) {
            machine::end_this_thread();
        }
    }

    pub(super) fn watch() {
        // A thread whose sentinel is already destroyed keeps its stack for good.
        let _ = SENTINEL.try_with(|_| ());
    }
}
