//! After a `fork` no driver works in the child: neither the device's state nor the driver's threads are there.
//!
//! NVIDIA's driver answers 3 (`NOT_INITIALIZED`) there, and so does the simulated one. custack refuses before it takes a lock
//! that a thread of the parent may have held when the process was copied.

// Registers a function with the C library.
#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// How many drivers run here or are being started.
static STARTED: AtomicUsize = AtomicUsize::new(0);

/// Whether this process is a copy of one in which a driver ran. It is read only, so nothing is shared at a cost.
#[inline]
pub fn is_child() -> bool {
    IS_CHILD.load(Ordering::Relaxed)
}

/// A driver is being started, from which on forks are noticed: what one thread has half done is never completed in the
/// child of another.
pub struct Starting(());

impl Starting {
    /// A driver is about to be started.
    pub fn begin() -> Starting {
        notice();
        STARTED.fetch_add(1, Ordering::SeqCst);
        Starting(())
    }

    /// The driver runs.
    pub fn done(self) {
        std::mem::forget(self);
    }
}

impl Drop for Starting {
    /// It does not, and a child may start its own.
    fn drop(&mut self) {
        STARTED.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What a lock guards; or, in the child of a fork, where a thread of the parent may hold that lock for ever, something as
/// empty as at the beginning, which only its user has.
pub enum OrOwn<G, T> {
    /// The lock, which counts.
    Locked(G, Counted),
    /// What a child has instead.
    Own(T),
}

/// Counts the locks of this thread, with which it makes no driver call: the driver may block, for as long as it likes. The
/// instruments look at the count at each call.
pub struct Counted(());

thread_local! {
    // Has no destructor, so that it is there on a thread that is ending.
    static LOCKS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl Counted {
    /// One lock more.
    #[inline]
    #[allow(clippy::new_without_default, reason = "what is counted is not a value")]
    pub fn new() -> Counted {
        LOCKS.set(LOCKS.get() + 1);
        Counted(())
    }
}

impl Drop for Counted {
    #[inline]
    fn drop(&mut self) {
        LOCKS.set(LOCKS.get() - 1);
    }
}

/// How many locks this thread has.
pub fn locks() -> usize {
    LOCKS.get()
}

impl<T, G: Deref<Target = T>> Deref for OrOwn<G, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            OrOwn::Locked(guard, _) => guard,
            OrOwn::Own(own) => own,
        }
    }
}

impl<T, G: DerefMut<Target = T>> DerefMut for OrOwn<G, T> {
    fn deref_mut(&mut self) -> &mut T {
        match self {
            OrOwn::Locked(guard, _) => guard,
            OrOwn::Own(own) => own,
        }
    }
}

/// A locked mutex, or in a child what it guarded at the beginning.
pub type Locked<'a, T> = OrOwn<MutexGuard<'a, T>, T>;

/// Locks a mutex of the process.
pub fn lock<T: Default>(mutex: &Mutex<T>) -> Locked<'_, T> {
    if is_child() {
        return OrOwn::Own(T::default());
    }
    OrOwn::Locked(mutex.lock().unwrap_or_else(PoisonError::into_inner), Counted::new())
}

/// Like [`lock`], to read.
pub fn read<T: Default>(lock: &RwLock<T>) -> OrOwn<RwLockReadGuard<'_, T>, T> {
    if is_child() {
        return OrOwn::Own(T::default());
    }
    OrOwn::Locked(lock.read().unwrap_or_else(PoisonError::into_inner), Counted::new())
}

/// Like [`lock`], to write.
pub fn write<T: Default>(lock: &RwLock<T>) -> OrOwn<RwLockWriteGuard<'_, T>, T> {
    if is_child() {
        return OrOwn::Own(T::default());
    }
    OrOwn::Locked(lock.write().unwrap_or_else(PoisonError::into_inner), Counted::new())
}

/// Has forks noticed from now on.
#[cfg(unix)]
fn notice() {
    use std::os::raw::c_int;

    type Handler = Option<unsafe extern "C" fn()>;
    unsafe extern "C" {
        fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
    }
    unsafe extern "C" fn child() {
        // One that was forked before any driver was used may start its own.
        if STARTED.load(Ordering::SeqCst) > 0 {
            IS_CHILD.store(true, Ordering::Relaxed);
        }
    }
    static NOTICED: std::sync::Once = std::sync::Once::new();
    NOTICED.call_once(|| {
        // SAFETY: the handler only reads and writes atomic values, which is allowed after a fork. Without memory for it,
        // forks go unnoticed.
        unsafe { pthread_atfork(None, None, Some(child)) };
    });
}

/// Does nothing where there is no fork.
#[cfg(not(unix))]
fn notice() {}
