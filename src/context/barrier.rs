//! The two sides of one memory barrier: nearly free for those who enter contexts, and dear for the one who destroys.
//!
//! Between writing its announcement and looking whether the context lives, one who enters needs the write to be seen.
//! The plain way is an atomic exchange, and on an H200's host that alone is a quarter of a push and a pop. Contexts
//! are entered millions of times and destroyed once, in a tenth of a second; so on Linux the destroyer has the kernel
//! put a full barrier into every running thread of the process (`membarrier`, since Linux 4.14), and those who enter
//! only keep the compiler from swapping the two steps. Where the kernel has no such call it is the exchange.

// One system call, which the standard library does not have.
#![allow(unsafe_code)]

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence, fence};

/// Writes the announcement. What the thread reads after this, it reads after a destroyer can see the writing, or else
/// after that destroyer's [`everyone_sees`].
#[inline]
pub(super) fn announce(slot: &AtomicUsize, what: usize) {
    if DESTROYERS_PAY.load(Ordering::Relaxed) {
        slot.store(what, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    } else {
        slot.swap(what, Ordering::SeqCst);
    }
}

/// After this every announcement is seen that was written by a thread which has not seen what the caller wrote before.
pub(super) fn everyone_sees() {
    fence(Ordering::SeqCst);
    settle();
    if !DESTROYERS_PAY.load(Ordering::Relaxed) {
        return;
    }
    // It cannot fail once it is registered, except for want of memory in the kernel; the slower one wants none.
    while !(kernel::barrier() || kernel::slow_barrier()) {
        kernel::register();
        std::thread::yield_now();
    }
}

/// False until it is settled: one who enters does the exchange then, which is right with either kind of destroyer.
static DESTROYERS_PAY: AtomicBool = AtomicBool::new(false);

/// Asks the kernel, once. A thread that is going to enter contexts calls this first, for its speed alone.
pub(super) fn settle() {
    static SETTLED: Once = Once::new();
    SETTLED.call_once(|| DESTROYERS_PAY.store(kernel::register() && kernel::barrier(), Ordering::SeqCst));
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod kernel {
    use std::os::raw::{c_int, c_long};

    #[cfg(target_arch = "x86_64")]
    const MEMBARRIER: c_long = 324;
    #[cfg(target_arch = "aarch64")]
    const MEMBARRIER: c_long = 283;
    const GLOBAL: c_int = 1;
    const PRIVATE_EXPEDITED: c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: c_int = 1 << 4;

    // SAFETY: the C library's own function, with its signature.
    unsafe extern "C" {
        fn syscall(number: c_long, ...) -> c_long;
    }

    fn membarrier(command: c_int) -> bool {
        // SAFETY: the call takes three numbers, and touches no memory of the program.
        unsafe { syscall(MEMBARRIER, command, 0 as c_int, 0 as c_int) == 0 }
    }

    pub(super) fn register() -> bool {
        membarrier(REGISTER_PRIVATE_EXPEDITED)
    }

    pub(super) fn barrier() -> bool {
        membarrier(PRIVATE_EXPEDITED)
    }

    pub(super) fn slow_barrier() -> bool {
        membarrier(GLOBAL)
    }
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod kernel {
    pub(super) fn register() -> bool {
        false
    }

    pub(super) fn barrier() -> bool {
        false
    }

    pub(super) fn slow_barrier() -> bool {
        false
    }
}
