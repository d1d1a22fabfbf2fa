//! Work that may use what the caller has borrowed: done before the call that gave it returns.

// Lets the driver have functions that borrow, and waits for them.
#![allow(unsafe_code)]

use super::{Stream, host_function};
use crate::context::{Mode, Pin};
use crate::driver::{Driver, RELAXED, driver};
use crate::error::{CudaResult, keep_note};
use crate::liveness::promised;
use crate::report;
use std::marker::PhantomData;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

impl Stream {
    /// Lets a closure give the stream work that uses borrowed memory, and waits until all of it is done before it returns:
    /// also if the closure fails or panics, and whatever is forgotten in it.
    ///
    /// Nobody else can reach the stream meanwhile, so that it cannot begin to capture: a graph would keep what is only
    /// borrowed. That is why the default streams, which anybody can reach, and borrowed ones have no scope. The context is kept at the driver, even if its owner is dropped in the closure.
    ///
    /// # Errors
    ///
    /// The closure's error, else that of the work. Before the closure is called:
    /// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed);
    /// [`StreamCaptureUnsupported`](crate::error::CudaError::StreamCaptureUnsupported) if the stream is capturing.
    ///
    /// ```
    /// use custack::memory::DeviceBuffer;
    /// use custack::stream::{Stream, StreamFlags};
    ///
    /// let _context = custack::quick_init()?;
    /// let mut stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    /// let there = DeviceBuffer::from_slice(&[1, 2, 3])?;
    /// let (mut here, mut seen) = ([0; 3], false);
    /// stream.sync_scope(|scope| {
    ///     scope.copy_to(&there[..], &mut here[..])?;
    ///     scope.launch_host_func(|| seen = true)
    /// })?;
    /// assert_eq!((here, seen), ([1, 2, 3], true));
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    ///
    /// What is lent to the stream is not free again before the scope is over:
    ///
    /// ```compile_fail,E0499
    /// # let context = custack::quick_init().unwrap();
    /// # let mut stream = context.create_stream(custack::stream::StreamFlags::DEFAULT, None).unwrap();
    /// let mut seen = 0;
    /// stream.sync_scope(|scope| {
    ///     scope.launch_host_func(|| seen += 1)?;
    ///     scope.launch_host_func(|| seen += 1)
    /// });
    /// ```
    #[doc(alias = "cuStreamSynchronize")]
    pub fn sync_scope<'env, F, R>(&'env mut self, f: F) -> CudaResult<R>
    where
        F: for<'scope> FnOnce(&'scope SyncScope<'scope, 'env>) -> CudaResult<R>,
    {
        self.inner.with(host_function::refuse_while_capturing)?;
        let work = Work {
            pin: self.context().pin()?,
            stream: self,
            keys: Mutex::default(),
            unfinished: Arc::default(),
            waited: AtomicBool::new(false),
        };
        let scope = SyncScope { work: &work, scope: PhantomData, env: PhantomData };
        // After a panic `work` waits where it is dropped.
        let result = f(&scope);
        let waited = work.wait();
        result.and_then(|value| waited.map(|()| value))
    }
}

/// What [`Stream::sync_scope`] lends its closure: takes work that may borrow whatever outlives the scope.
#[derive(Debug)]
pub struct SyncScope<'scope, 'env: 'scope> {
    work: &'scope Work<'env>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl<'scope> SyncScope<'scope, '_> {
    /// Like [`Stream::launch_host_func`], of a function that may borrow.
    ///
    /// If the work before it fails, it is dropped at the end of the scope without having been called.
    ///
    /// # Errors
    ///
    /// Those of [`Stream::launch_host_func`].
    #[doc(alias = "cuLaunchHostFunc")]
    pub fn launch_host_func<F>(&'scope self, function: F) -> CudaResult<()>
    where
        F: FnOnce() + Send + 'scope,
    {
        let scoped = Scoped { function, unfinished: Unfinished::one_more(&self.work.unfinished) };
        let function: Box<dyn FnOnce() + Send + 'scope> = Box::new(move || scoped.call());
        // SAFETY: only the lifetime changes. The scope does not end before `unfinished` in it is dropped, which is so when
        // the function was called, or dropped uncalled; and both drop what it borrows first.
        let function =
            unsafe { mem::transmute::<Box<dyn FnOnce() + Send + 'scope>, promised::Function>(function) };
        let key = self.work.stream.promise(function)?;
        lock(&self.work.keys).push(key);
        Ok(())
    }

    /// The stream, for what the scope has no method for, such as a kernel's launch or an event.
    ///
    /// # Safety
    ///
    /// The stream does not begin to capture, and does not wait for an event that was recorded in a capture, before the
    /// scope is over: a graph would keep what is only borrowed.
    pub unsafe fn stream(&self) -> &Stream {
        self.work.stream
    }

    /// Like [`stream`](Self::stream), for what custack gives it.
    pub(crate) fn lend(&self, work: impl FnOnce(&Stream) -> CudaResult<()>) -> CudaResult<()> {
        work(self.work.stream)
    }
}

/// What a scope has given its stream.
#[derive(Debug)]
struct Work<'env> {
    stream: &'env Stream,
    /// Keeps the stream, and what its work uses of the context, at the driver.
    pin: Pin,
    keys: Mutex<Vec<u64>>,
    unfinished: Arc<Unfinished>,
    waited: AtomicBool,
}

impl Work<'_> {
    /// Returns when nothing that was lent is used any more, with the error of the work.
    fn wait(&self) -> CudaResult<()> {
        self.waited.store(true, Ordering::Relaxed);
        // A capture of another stream on this thread would forbid to wait, and one on any thread could be broken by it.
        // Unless the driver is so old that it has no such modes, and no captures either.
        let _relaxed = driver().and_then(|driver| Mode::exchange(driver, RELAXED)).ok();
        let synchronized = || self.stream.inner.with_pinned(&self.pin, Driver::stream_synchronize);
        let waited = synchronized().unwrap_or(Ok(()));
        if waited.is_err() {
            // It may have failed without having waited. A context that is in error says so again, and does nothing more.
            let all = || self.pin.context().dispose(Driver::ctx_synchronize);
            let _ = synchronized().filter(Result::is_ok).or_else(all);
        }
        // What the driver has not called it will not find.
        for function in lock(&self.keys).drain(..).filter_map(promised::take).collect::<Vec<_>>() {
            report::contained(|| drop(function));
        }
        self.unfinished.wait();
        waited
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        if !self.waited.load(Ordering::Relaxed) {
            let _note = keep_note();
            if let Err(error) = self.wait() {
                report::warn(format_args!("the work of a scope that panicked failed: {error}"));
            }
        }
    }
}

/// A function and, dropped after it, what tells that it is over.
struct Scoped<F> {
    function: F,
    unfinished: One,
}

impl<F: FnOnce()> Scoped<F> {
    fn call(self) {
        let Scoped { function, unfinished: _over_afterwards } = self;
        function();
    }
}

/// How many functions of a scope are not over.
#[derive(Debug, Default)]
struct Unfinished {
    count: Mutex<usize>,
    none: Condvar,
}

struct One(Arc<Unfinished>);

impl Unfinished {
    fn one_more(this: &Arc<Unfinished>) -> One {
        *lock(&this.count) += 1;
        One(Arc::clone(this))
    }

    fn wait(&self) {
        let mut count = lock(&self.count);
        while *count > 0 {
            count = self.none.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for One {
    fn drop(&mut self) {
        let mut count = lock(&self.0.count);
        *count -= 1;
        if *count == 0 {
            self.0.none.notify_all();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
