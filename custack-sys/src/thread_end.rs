//! The end of a thread, after all of its thread-locals are destroyed.
//!
//! The NVIDIA driver releases a thread's stack then: a destructor of a thread-local that asks what is current still gets
//! it, whichever was made first. On Unix, destructors of pthread keys run at that time, after those of Rust's and C++'s
//! thread-locals. Where those are built on a key themselves, all keys are processed in rounds, and Rust's run in the
//! second round at the latest; so [`AtEnd`] waits for the third of the at least four rounds. Elsewhere that end is not
//! noticed.

// Declares two POSIX functions that no dependency declares, and defines the destructor that they call.
#![allow(unsafe_code)]

/// A function that is called when a thread ends that has asked for it.
#[repr(align(8))]
pub struct AtEnd {
    call: fn(),
    #[cfg(unix)]
    key: std::sync::OnceLock<Option<end::Key>>,
}

impl AtEnd {
    /// For a `static`, of which each has a key of the system.
    pub const fn new(call: fn()) -> AtEnd {
        AtEnd {
            call,
            #[cfg(unix)]
            key: std::sync::OnceLock::new(),
        }
    }

    /// Has the function called when the calling thread ends. Returns false where that end is not noticed.
    pub fn watch(&'static self) -> bool {
        #[cfg(unix)]
        end::watch(self);
        cfg!(unix)
    }
}

#[cfg(unix)]
mod end {
    use super::AtEnd;
    use std::cell::Cell;
    use std::os::raw::{c_int, c_void};

    #[cfg(target_vendor = "apple")]
    pub(super) type Key = std::os::raw::c_ulong;
    #[cfg(not(target_vendor = "apple"))]
    pub(super) type Key = std::os::raw::c_uint;

    // SAFETY: the signatures are those of POSIX, with the key type of these systems.
    unsafe extern "C" {
        fn pthread_key_create(key: *mut Key, destructor: Option<unsafe extern "C" fn(*mut c_void)>) -> c_int;
        fn pthread_setspecific(key: Key, value: *const c_void) -> c_int;
    }

    /// The round of destructors in which the thread ends. A key's value is the address of its [`AtEnd`] plus a round.
    const ROUND: usize = 3;

    thread_local! {
        /// Whether that round was reached. Has no destructor, so it can be read to the end.
        static OVER: Cell<bool> = const { Cell::new(false) };
    }

    /// A destructor of another key may ask for this after this key's: then the next round is the one.
    pub(super) fn watch(at_end: &'static AtEnd) {
        set(at_end, if OVER.get() { ROUND } else { 1 });
    }

    fn set(at_end: &'static AtEnd, round: usize) {
        // Made once and never deleted; `None` if the system has none left.
        let key = at_end.key.get_or_init(|| {
            let mut key = 0;
            // SAFETY: writes to a local; the destructor takes the values that are set here and lives as long as the program.
            let status = unsafe { pthread_key_create(&mut key, Some(destructor)) };
            (status == 0).then_some(key)
        });
        if let Some(key) = key {
            let value = std::ptr::from_ref(at_end).cast::<c_void>().map_addr(|address| address + round);
            // SAFETY: the key was made and is never deleted. If there is no memory for the value, the end is not noticed.
            unsafe { pthread_setspecific(*key, value) };
        }
    }

    /// The system calls this with the value, which it has reset to NULL.
    unsafe extern "C" fn destructor(value: *mut c_void) {
        let round = value.addr() % align_of::<AtEnd>();
        // SAFETY: the value is the address of a static, to which the round was added.
        let at_end: &'static AtEnd = unsafe { &*value.map_addr(|address| address - round).cast() };
        if round < ROUND {
            return set(at_end, round + 1);
        }
        OVER.set(true);
        (at_end.call)();
    }
}
