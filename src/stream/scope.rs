//! Work on borrowed memory, which is done before the call that submitted it returns.

// Passes functions that borrow to the driver, and waits for them.
#![allow(unsafe_code)]

use super::{Stream, host_function};
use crate::context::{Pin, relax};
use crate::driver::{driver, refuse_in_child};
use crate::error::{CudaResult, keep_note};
use crate::liveness::promised;
use crate::report;
use std::marker::PhantomData;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

impl Stream {
    /// Calls a closure that submits work on borrowed memory to the stream, and waits for all of that work before it
    /// returns, even if the closure fails, panics or forgets values. It also waits for what functions of
    /// the scope have other threads submit meanwhile. If the driver fails to wait, it is asked again
    /// until the work is over.
    ///
    /// The stream is borrowed exclusively, so that it cannot begin to capture: a graph would keep what is only
    /// borrowed. So default streams and borrowed streams, which other code can use at the same time, have no scope. The
    /// context is kept at the driver, even if its owner is dropped in the closure.
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
    /// What the stream uses stays borrowed until the scope ends:
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
    #[inline]
    pub fn sync_scope<'env, F, R>(&'env mut self, f: F) -> CudaResult<R>
    where
        F: for<'scope> FnOnce(&'scope SyncScope<'scope, 'env>) -> CudaResult<R>,
    {
        self.inner.with(host_function::refuse_while_capturing)?;
        let work = Work {
            pin: self.context().pin()?,
            stream: self,
            functions: Arc::default(),
            waited: AtomicBool::new(false),
        };
        let scope = SyncScope { work: &work, scope: PhantomData, env: PhantomData };
        // After a panic the drop of `work` waits.
        let result = f(&scope);
        let waited = work.wait();
        result.and_then(|value| waited.map(|()| value))
    }
}

/// The argument of the closure of [`Stream::sync_scope`]: accepts work that may borrow what outlives the scope.
#[derive(Debug)]
pub struct SyncScope<'scope, 'env: 'scope> {
    work: &'scope Work<'env>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl<'scope> SyncScope<'scope, '_> {
    /// Like [`Stream::launch_host_func`], for a function that may borrow.
    ///
    /// If the work before it fails, it is dropped at the end of the scope without having been called.
    ///
    /// # Errors
    ///
    /// Those of [`Stream::launch_host_func`].
    #[doc(alias = "cuLaunchHostFunc")]
    #[inline]
    pub fn launch_host_func<F>(&'scope self, function: F) -> CudaResult<()>
    where
        F: FnOnce() + Send + 'scope,
    {
        refuse_in_child()?;
        let scoped = Scoped { function, unfinished: Functions::one_more(&self.work.functions) };
        let function: Box<dyn FnOnce() + Send + 'scope> = Box::new(move || scoped.call());
        // SAFETY: only the lifetime changes. The scope does not end before `unfinished` is dropped, which happens after
        // the function was called or dropped; and either drops what it borrows first.
        let function =
            unsafe { mem::transmute::<Box<dyn FnOnce() + Send + 'scope>, promised::Function>(function) };
        self.work.functions.accepted(self.work.stream.promise(function)?);
        Ok(())
    }

    /// The stream, for calls that the scope has no method for, such as launches and events.
    ///
    /// # Safety
    ///
    /// The stream does not begin to capture, and does not wait for an event that was recorded in a capture, before the
    /// scope is over: a graph would keep what is only borrowed.
    #[inline]
    pub unsafe fn stream(&self) -> &Stream {
        self.work.stream
    }

    /// Like [`stream`](Self::stream), for work that custack submits.
    #[inline]
    pub(crate) fn lend(&self, work: impl FnOnce(&Stream) -> CudaResult<()>) -> CudaResult<()> {
        work(self.work.stream)
    }
}

/// The work that a scope has submitted.
#[derive(Debug)]
struct Work<'env> {
    stream: &'env Stream,
    /// Keeps the context at the driver, and so the stream and what its work uses.
    pin: Pin,
    functions: Arc<Functions>,
    waited: AtomicBool,
}

impl Work<'_> {
    /// Waits until nothing borrowed is used any more; returns the error of the work.
    ///
    /// A wait covers what was submitted before it. Meanwhile functions of the scope may submit more, and
    /// nothing else can. So the last wait is one that has begun after all of them ended.
    #[inline]
    fn wait(&self) -> CudaResult<()> {
        self.waited.store(true, Ordering::Relaxed);
        // Waiting can be forbidden by a capture of another stream, and break it. A driver too old for
        // the relaxed mode has no captures either.
        let _relaxed = driver().ok().and_then(relax);
        let mut result = Ok(());
        loop {
            // In the child of a fork nothing that was borrowed is used: the work is the parent's.
            refuse_in_child()?;
            let (keys, none) = self.functions.so_far();
            result = result.and(self.stream.inner.wait_until_over(&self.pin));
            if none {
                return result;
            }
            // What the driver has not called by now it never will, because the context is lost.
            for function in keys.into_iter().filter_map(promised::take) {
                report::contained(|| drop(function));
            }
            self.functions.wait_for_ends_or_more();
        }
    }
}

impl Drop for Work<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.waited.load(Ordering::Relaxed) {
            let _note = keep_note();
            if let Err(error) = self.wait() {
                report::warn(format_args!("the work of a scope that panicked failed: {error:?}"));
            }
        }
    }
}

/// A function, and what reports its end, which is dropped after it.
struct Scoped<F> {
    function: F,
    unfinished: One,
}

impl<F: FnOnce()> Scoped<F> {
    #[inline]
    fn call(self) {
        let Scoped { function, unfinished: _over_afterwards } = self;
        function();
    }
}

/// The functions of a scope.
#[derive(Debug, Default)]
struct Functions {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Those that the driver has accepted since these were taken for the last time.
    keys: Vec<u64>,
    /// How many have not ended.
    unfinished: usize,
}

struct One(Arc<Functions>);

impl Functions {
    #[inline]
    fn one_more(this: &Arc<Functions>) -> One {
        lock(&this.state).unfinished += 1;
        One(Arc::clone(this))
    }

    fn accepted(&self, key: u64) {
        lock(&self.state).keys.push(key);
        self.changed.notify_all();
    }

    /// Takes the keys of those that were accepted since the last time; and whether there were none, and
    /// all have ended. Not only the latter, so that a scope makes the same calls however fast they are.
    fn so_far(&self) -> (Vec<u64>, bool) {
        let mut state = lock(&self.state);
        let keys = mem::take(&mut state.keys);
        let none = keys.is_empty() && state.unfinished == 0;
        (keys, none)
    }

    /// Waits until all have ended, or until more were accepted: in a context that is lost they are
    /// never called, and have to be dropped.
    fn wait_for_ends_or_more(&self) {
        let goes_on = |state: &mut State| state.unfinished > 0 && state.keys.is_empty();
        drop(self.changed.wait_while(lock(&self.state), goes_on).unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for One {
    #[inline]
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.unfinished -= 1;
        if state.unfinished == 0 {
            self.0.changed.notify_all();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
