//! Futures that run in a context, whatever thread polls them.

use crate::context::{ContextHandle, UnownedContext};
use crate::error::CudaResult;
use crate::report;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Futures that run in a context.
pub trait InContextExt: Future + Sized {
    /// Runs the future in the context: the context is current during every poll, on whichever thread, and while the
    /// future is dropped. In between, and afterwards, the thread's stack is as it was, unless the future keeps a guard of its
    /// own across an `await`, or forgets one. In a waker, where driver calls are refused, it is neither polled nor dropped in
    /// its context.
    ///
    /// A guard of [`enter`](UnownedContext::enter) cannot do that: it belongs to one thread's stack, so a future that
    /// keeps one across an `await` is not `Send`, and multi-threaded executors refuse it:
    ///
    /// ```compile_fail
    /// fn spawn(task: impl Future<Output = ()> + Send) {}
    /// let context = custack::quick_init().unwrap();
    /// spawn(async move {
    ///     let _current = context.enter().unwrap();
    ///     std::future::ready(()).await; // another thread may go on from here
    /// });
    /// ```
    ///
    /// The future is put in a box. A poll costs what a scope costs: two driver calls.
    ///
    /// # Errors
    ///
    /// The result is that of the future, or [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed) and the
    /// other errors of [`enter`](UnownedContext::enter) at any poll. In a destroyed context it is dropped without it.
    ///
    /// ```
    /// use custack::context::{ContextStack, CurrentContext};
    /// use custack::future::InContextExt;
    /// # use std::future::Future;
    /// # use std::task::{Context, Poll, Waker};
    ///
    /// let context = custack::quick_init()?;
    /// ContextStack::pop()?; // nothing is current here
    /// let task = async { CurrentContext::get_current() }.in_context(&context);
    /// # let test = async {
    /// assert_eq!(task.await??, context.get_unowned());
    /// # Ok::<(), custack::error::CudaError>(()) };
    /// # let mut test = std::pin::pin!(test);
    /// # let Poll::Ready(result) = test.as_mut().poll(&mut Context::from_waker(Waker::noop())) else { unreachable!() };
    /// # result?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuCtxPushCurrent", "cuCtxPopCurrent"))]
    fn in_context<C: ContextHandle>(self, context: &C) -> InContext<Self> {
        InContext { context: context.as_unowned().clone(), future: Some(Box::pin(self)) }
    }
}

impl<F: Future> InContextExt for F {}

/// A future that runs in a context; made by [`InContextExt::in_context`].
///
/// # Panics
///
/// Polling it again after it was ready panics, unless it was ready with an error of its context.
#[must_use = "a future does nothing unless it is polled"]
pub struct InContext<F> {
    context: UnownedContext,
    future: Option<Pin<Box<F>>>,
}

impl<F: Future> Future for InContext<F> {
    type Output = CudaResult<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CudaResult<F::Output>> {
        let InContext { context, future } = &mut *self;
        let Some(running) = future else { panic!("a future in a context was polled after it was ready") };
        let _current = match context.enter() {
            Ok(current) => current,
            Err(error) => return Poll::Ready(Err(error)),
        };
        let Poll::Ready(output) = running.as_mut().poll(cx) else { return Poll::Pending };
        // What is left of it is dropped in the context too.
        *future = None;
        Poll::Ready(Ok(output))
    }
}

impl<F> Drop for InContext<F> {
    fn drop(&mut self) {
        let Some(future) = self.future.take() else { return };
        let current = self.context.enter();
        if let (Err(error), true) = (&current, self.context.is_alive()) {
            report::warn(format_args!("a future of {} is dropped outside it: {error:?}", self.context));
        }
        drop(future);
    }
}

impl<F> fmt::Debug for InContext<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InContext").field("context", &self.context).finish_non_exhaustive()
    }
}
