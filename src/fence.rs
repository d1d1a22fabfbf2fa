//! The two sides of one memory fence: nearly free for those who use contexts, expensive for those who destroy them.
//!
//! Between publishing what it is about to use and looking whether that still lives, a user needs the publishing to be
//! seen. The plain way is a full fence, and on an H200's host that alone is a quarter of a push and a pop.
//! Contexts are used millions of times and destroyed once, in a tenth of a second. So on Linux the destroyer has the
//! kernel put a full fence into every running thread of the process (`membarrier`, since Linux 4.14), and users only
//! keep the compiler from swapping the two steps: the fence is *asymmetric*. Where the kernel has no such call, users
//! fence themselves, which is what the model checker tries (`tests/it/liveness.rs`).
//!
//! Registering with the kernel takes tens of milliseconds once threads run, so it is done when a driver is loaded.
//!
//! A sandbox may take the call away later. Then users are told to fence themselves from now on, and the destroyer waits
//! once for what was published before: a store leaves a processor's store buffer within a microsecond or so, and it is
//! given [`GRACE`].

// Two functions of the C library, which the standard library does not have.
#![allow(unsafe_code)]

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence, fence};
use std::time::Duration;

/// How long a store may take to be seen by other processors, ten thousand times over.
const GRACE: Duration = Duration::from_millis(10);

/// Whether users leave the fence to the destroyer. False until it is known: a user's own fence is right with either kind
/// of destroyer.
static ASYMMETRIC: AtomicBool = AtomicBool::new(false);

/// Whether it once was left to the destroyer, so that some user may not have heard yet that it is no more.
static REGISTERED_WITH_KERNEL: AtomicBool = AtomicBool::new(false);

/// Publishes. What the thread reads after this, it reads after a destroyer can see what was published, or else after
/// that destroyer's [`heavy`].
#[inline]
pub(crate) fn publish(cell: &AtomicUsize, what: usize) {
    cell.store(what, Ordering::Relaxed);
    light();
}

/// What the thread wrote before this, a destroyer can see, or else the thread reads after this what was written before
/// that destroyer's [`heavy`].
#[inline]
pub(crate) fn light() {
    if ASYMMETRIC.load(Ordering::Relaxed) {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// After this everything is seen that was published by a thread which has not seen what the caller wrote before.
pub(crate) fn heavy() {
    fence(Ordering::SeqCst);
    register();
    if !REGISTERED_WITH_KERNEL.load(Ordering::SeqCst) || kernel::fence_all_threads() {
        return;
    }
    // Whoever destroys meanwhile waits for the same.
    static LOST: Once = Once::new();
    LOST.call_once(|| {
        ASYMMETRIC.store(false, Ordering::SeqCst);
        std::thread::sleep(GRACE);
    });
    fence(Ordering::SeqCst);
}

/// Asks the kernel for the asymmetric fence, once.
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
