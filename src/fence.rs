//! The two sides of an asymmetric memory fence: almost free for threads that use contexts, expensive for the one that
//! destroys a context.
//!
//! A user publishes which context it is about to use, then checks that the context is alive; the publication must be
//! visible before the check. A full fence there costs a quarter of a push and a pop on an H200 host. Contexts are used
//! millions of times and destroyed once, in a tenth of a second. So on Linux the destroyer has the kernel execute a
//! full fence on every running thread of the process (`membarrier`, since Linux 4.14), and users only stop the compiler
//! from reordering the two steps. Where the kernel has no such call, users execute the fence themselves, which is the
//! variant that the model checker tests (`tests/it/liveness.rs`).
//!
//! Registering with the kernel takes tens of milliseconds once threads run, so it is done when a driver is loaded.
//!
//! A sandbox may forbid the call later. Users are then told to execute the fence themselves, and the destroyer waits
//! [`GRACE`] once for what was published before: a store leaves a processor's store buffer within about a microsecond.

// Declares a C library function that the standard library does not expose.
#![allow(unsafe_code)]

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence, fence};
use std::time::Duration;

/// Ten thousand times what a store needs to become visible to other processors.
const GRACE: Duration = Duration::from_millis(10);

/// Whether users rely on the destroyer's fence. False until that is known to work; a user's own fence is correct with
/// either kind of destroyer.
static ASYMMETRIC: AtomicBool = AtomicBool::new(false);

/// Whether users ever relied on the destroyer's fence. If so, some may not have seen yet that they no longer can.
static REGISTERED_WITH_KERNEL: AtomicBool = AtomicBool::new(false);

/// Stores `what` in `cell`. Either a destroyer sees the store before the thread's later reads, or those reads see what
/// was written before that destroyer's [`heavy`].
#[inline]
pub(crate) fn publish(cell: &AtomicUsize, what: usize) {
    cell.store(what, Ordering::Relaxed);
    light();
}

/// Either a destroyer sees what the thread wrote before this, or the thread's later reads see what was written before
/// that destroyer's [`heavy`].
#[inline]
pub(crate) fn light() {
    if ASYMMETRIC.load(Ordering::Relaxed) {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// After this the caller sees everything published by threads that have not seen the caller's earlier writes.
pub(crate) fn heavy() {
    fence(Ordering::SeqCst);
    register();
    if !REGISTERED_WITH_KERNEL.load(Ordering::SeqCst) || kernel::fence_all_threads() {
        return;
    }
    // Concurrent destroyers wait here too.
    static LOST: Once = Once::new();
    LOST.call_once(|| {
        ASYMMETRIC.store(false, Ordering::SeqCst);
        std::thread::sleep(GRACE);
    });
    fence(Ordering::SeqCst);
}

/// Registers with the kernel for the asymmetric fence, once.
pub(crate) fn register() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        let works = kernel::register() && kernel::fence_all_threads();
        REGISTERED_WITH_KERNEL.store(works, Ordering::SeqCst);
        ASYMMETRIC.store(works, Ordering::SeqCst);
    });
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod kernel {
    use std::os::raw::{c_int, c_long};

    #[cfg(target_arch = "x86_64")]
    const MEMBARRIER: c_long = 324;
    #[cfg(target_arch = "aarch64")]
    const MEMBARRIER: c_long = 283;
    const PRIVATE_EXPEDITED: c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: c_int = 1 << 4;

    // SAFETY: the declaration has the C library's signature.
    unsafe extern "C" {
        fn syscall(number: c_long, ...) -> c_long;
    }

    fn membarrier(command: c_int) -> bool {
        // SAFETY: the call takes three integers and touches no memory of the process.
        unsafe { syscall(MEMBARRIER, command, 0 as c_int, 0 as c_int) == 0 }
    }

    pub(super) fn register() -> bool {
        membarrier(REGISTER_PRIVATE_EXPEDITED)
    }

    pub(super) fn fence_all_threads() -> bool {
        membarrier(PRIVATE_EXPEDITED)
    }
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod kernel {
    pub(super) fn register() -> bool {
        false
    }

    pub(super) fn fence_all_threads() -> bool {
        false
    }
}
