//! The end of a thread: when the driver lets go of its stack.
//!
//! The NVIDIA driver does so when all thread-locals of the program are gone: one whose destructor asks what is current
//! still finds it, whichever was made first. On Unix that is the time of the destructors of pthread keys, which come
//! after those of Rust's and C++'s thread-locals. Where those themselves stand on a key, all keys are gone through in
//! rounds, and Rust's come in the second at the latest; so this one waits for the third of the four that there are at
//! least. Elsewhere a Rust thread-local has to do, and its turn comes among the others'.

use super::machine;

/// Has this thread's stack let go of when the thread ends.
pub(super) fn watch() {
    end::watch();
}

#[cfg(unix)]
mod end {
    // Two functions of POSIX that no crate here declares, and the function that they call.
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

    // SAFETY: the signatures are POSIX's, with the key as these systems have it.
    unsafe extern "C" {
        fn pthread_key_create(key: *mut Key, destructor: Option<unsafe extern "C" fn(*mut c_void)>) -> c_int;
        fn pthread_setspecific(key: Key, value: *const c_void) -> c_int;
    }

    /// The round of destructors in which the stack is let go.
    const ROUND: usize = 3;

    /// The key, made once and never deleted; none if there was none to be had.
    fn key() -> Option<Key> {
        static KEY: OnceLock<Option<Key>> = OnceLock::new();
        *KEY.get_or_init(|| {
            let mut key = 0;
            // SAFETY: writes to a local; the destructor takes any value, and is there as long as the program.
            let status = unsafe { pthread_key_create(&mut key, Some(destructor)) };
            (status == 0).then_some(key)
        })
    }

    /// The value is the number of the next round; it is no pointer.
    fn set(round: usize) {
        if let Some(key) = key() {
            // SAFETY: a key that was made and is never deleted. Without memory for the value it is not set, and the
            // stack stays, as the driver's own would.
            unsafe { pthread_setspecific(key, ptr::without_provenance(round)) };
        }
    }

    thread_local! {
        /// Whether the stack was let go already. Without a destructor, so that it can be read to the end.
        static OVER: Cell<bool> = const { Cell::new(false) };
    }

    pub(super) fn watch() {
        // A call of another key's destructor, later than this one's: the next round does away with what it left.
        set(if OVER.get() { ROUND } else { 1 });
    }

    /// What the system calls with the value, which it has set to NULL before.
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
        // A thread that is past its sentinel keeps its stack for good.
        let _ = SENTINEL.try_with(|_| ());
    }
}
