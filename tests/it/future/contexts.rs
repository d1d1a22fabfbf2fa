//! What is awaited in one context goes on while another one fails or goes.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{Counting, held, poll, stream};
use crate::harness::{is_simulated, other, owned_by, parked, run_alone, skip, within};
use custack::context::Context;
use custack::driver::instrument;
use custack::error::CudaError;
use custack::future::Completion;
use custack::launch;
use custack::sim;
use custack::stream::Stream;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::task::Waker;

/// Work of a context that goes on, and that is awaited already.
struct GoingOn {
    stream: Stream,
    go: Sender<()>,
    completion: Completion<Arc<()>>,
    kept: Arc<()>,
    woken: Arc<Counting>,
    waker: Waker,
}

impl GoingOn {
    fn new(ctx: &Context) -> GoingOn {
        let stream = ctx.scoped(|_| Ok(stream())).unwrap();
        let (go, kept) = (held(&stream), Arc::new(()));
        let value = Arc::clone(&kept);
        let mut completion = stream.enqueue_async(|_| Ok(value)).unwrap();
        let (woken, waker) = Counting::waker();
        assert!(poll(&mut completion, &waker).is_pending());
        GoingOn { stream, go, completion, kept, woken, waker }
    }

    fn is_going_on(&self) {
        std::thread::sleep(std::time::Duration::from_millis(20));
        let seen = (self.completion.is_done(), Arc::strong_count(&self.kept), self.woken.count());
        assert_eq!(seen, (false, 2, 0), "the work is not over");
    }

    /// Lets it end; gives how it did.
    fn end(self) -> Result<(), CudaError> {
        drop(self.go);
        self.woken.reaches(1);
        let result = self.completion.wait().map(drop);
        owned_by(&self.kept, 1);
        drop((self.stream, self.waker));
        result
    }
}

#[test]
fn what_is_awaited_in_a_context_goes_on_while_other_code_destroys_another_one() {
    within(60, || {
        run_alone(|| {
            let (going, gone) = (parked(), parked());
            let one = GoingOn::new(&going);
            // Where nothing of the other context is in use, a driver destroys it without harm.
            let before = gone.scoped(|_| Ok(stream())).unwrap();
            before.completion().unwrap().wait().unwrap();
            drop(before);
            custack::context::wait_until_retired().unwrap();
            std::thread::scope(|scope| {
                let destroyed = scope.spawn(|| other::destroy(gone.as_raw()));
                one.is_going_on();
                assert!(
                    !destroyed.is_finished(),
                    "the driver waits for the work of all contexts of the device"
                );
                assert_eq!(one.end(), Ok(()));
                destroyed.join().unwrap();
            });
            assert_eq!(GoingOn::new(&going).end(), Ok(()), "later ones too");
            std::mem::forget(gone);
        });
    });
}

#[test]
fn what_is_awaited_in_a_context_goes_on_while_its_owner_drops_another_one_with_work() {
    within(60, || {
        run_alone(|| {
            let (going, gone) = (parked(), parked());
            // A driver may call one host function at a time, so the first to end comes first.
            let other = GoingOn::new(&gone);
            let one = GoingOn::new(&going);
            drop(gone);
            one.is_going_on();
            other.is_going_on();
            assert_eq!(other.end(), Ok(()), "its context is kept for it");
            one.is_going_on();
            assert_eq!(one.end(), Ok(()));
        });
    });
}

#[test]
fn what_is_awaited_in_a_context_goes_on_while_another_one_is_in_error() {
    crate::driver::process::child_succeeds("one context in error", &[]);
}

/// What the test above runs in a process of its own, because on a GPU such an error takes the process with it.
pub(crate) fn one_in_error() {
    within(60, || {
        run_alone(|| {
            let (going, failed) = (parked(), parked());
            let module = failed.load_module(crate::module::KERNELS.as_bytes()).unwrap();
            let trapped = module.get_function(c"trapped").unwrap();
            trapped.load().unwrap();
            let one = GoingOn::new(&going);
            let failing = failed.scoped(|_| Ok(stream())).unwrap();
            let awaited = failing.enqueue_async(|stream| unsafe { launch!(trapped<<<1, 1, 0, stream>>>()) });
            assert_eq!(awaited.unwrap().wait(), Err(CudaError::LaunchFailed));
            if is_simulated() {
                one.is_going_on();
                assert_eq!(one.end(), Ok(()));
                assert_eq!(GoingOn::new(&going).end(), Ok(()), "later ones too");
            } else {
                // Such an error is of the whole process there, so what matters is that it ends and nothing is lost.
                let ended = one.end();
                assert!(matches!(ended, Ok(()) | Err(CudaError::LaunchFailed)), "{ended:?}");
            }
            drop((failing, module));
        });
    });
}

#[test]
fn what_is_submitted_to_a_context_that_other_code_destroys_then_keeps_no_other_context() {
    let test = "what_is_submitted_to_a_context_that_other_code_destroys_then_keeps_no_other_context";
    if !is_simulated() {
        return skip(test, "the NVIDIA driver does not bear work in a context that is destroyed");
    }
    within(60, || {
        run_alone(|| {
            sim::reuse_handles(true);
            let gone = other::create();
            let working = stream();
            let mut later = None;
            let submitted = working.enqueue_async(|_| {
                other::destroy(gone);
                // The first gets the raw handle of the context that is gone, which is registered as dead then. The second
                // would get what custack knew that context by.
                later = Some((parked(), parked()));
                Ok(())
            });
            let (first, second) = later.take().unwrap();
            assert_eq!(first.as_raw(), gone);
            let before = instrument::contexts_alive();
            drop((first, second));
            assert_eq!(instrument::contexts_alive(), before - 2, "nothing keeps them");
            if let Ok(submitted) = submitted {
                assert_eq!(submitted.wait(), Err(CudaError::ContextIsDestroyed));
            }
            sim::reuse_handles(false);
        });
    });
}
