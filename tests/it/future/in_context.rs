//! Futures that run in a context.

use super::{Counting, block_on, poll, stream};
use crate::harness::{parked, pushed, run, run_alone};
use custack::context::{ContextStack, CurrentContext, UnownedContext};
use custack::driver::instrument;
use custack::error::CudaError;
use custack::future::InContextExt;
use custack::memory::{CopyDestination, DeviceBuffer};
use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

fn current() -> UnownedContext {
    CurrentContext::get_current().unwrap()
}

/// Gives way once.
fn yielding() -> impl Future<Output = ()> {
    let mut polled = false;
    poll_fn(move |cx| {
        if std::mem::replace(&mut polled, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
}

/// Notes what is current where it is dropped.
struct Noting(Arc<Mutex<Option<UnownedContext>>>);

impl Drop for Noting {
    fn drop(&mut self) {
        *self.0.lock().unwrap() = CurrentContext::get_current().ok();
    }
}

#[test]
fn each_poll_is_in_the_context_whatever_thread_makes_it() {
    run(|| {
        let (ctx, other) = (parked(), pushed());
        let task = async {
            let mut seen = vec![current()];
            for _ in 0..3 {
                yielding().await;
                seen.push(current());
            }
            seen
        };
        let mut task = Box::pin(task.in_context(&ctx));
        let (_, waker) = Counting::waker();
        assert!(poll(&mut task, &waker).is_pending());
        assert_eq!((current(), ContextStack::depth()), (other.get_unowned(), 1));
        let mut task = std::thread::scope(|scope| {
            let elsewhere = || {
                assert!(poll(&mut task, &waker).is_pending());
                assert_eq!(ContextStack::depth(), 0);
                task
            };
            scope.spawn(elsewhere).join().unwrap()
        });
        let seen = block_on(&mut task).unwrap();
        assert_eq!(seen, vec![ctx.get_unowned(); 4]);
        assert_eq!((current(), ContextStack::depth()), (other.get_unowned(), 1));
    });
}

#[test]
fn it_costs_what_a_scope_costs() {
    run(|| {
        let (ctx, other) = (parked(), pushed());
        let (_, waker) = Counting::waker();
        for context in [&ctx, &other] {
            let mut task = std::future::pending::<()>().in_context(context);
            let (polled, made) = instrument::during(|| poll(&mut task, &waker));
            assert!(polled.is_pending());
            assert_eq!(made.total(), 2, "a push and a pop, or two looks: {made}");
        }
    });
}

#[test]
fn what_a_future_has_is_dropped_in_the_context() {
    run(|| {
        let (ctx, _other) = (parked(), pushed());
        let (_, waker) = Counting::waker();
        for ends in [false, true] {
            let noted = Arc::new(Mutex::new(None));
            let noting = Noting(Arc::clone(&noted));
            let task = async move {
                let _noting = noting;
                if !ends {
                    std::future::pending::<()>().await;
                }
            };
            let mut task = task.in_context(&ctx);
            assert_eq!(poll(&mut task, &waker).is_ready(), ends);
            drop(task);
            assert_eq!(noted.lock().unwrap().take(), Some(ctx.get_unowned()), "also if it was never done");
        }
        assert_eq!(ContextStack::depth(), 1);
    });
}

#[test]
fn a_future_of_a_destroyed_context_is_ready_with_that() {
    run(|| {
        let _other = pushed();
        let ctx = parked();
        let (_, waker) = Counting::waker();
        let dropped = Arc::new(Mutex::new(None));
        let noting = Noting(Arc::clone(&dropped));
        let mut task = Box::pin(
            async move {
                let _noting = noting;
                std::future::pending::<()>().await;
            }
            .in_context(&ctx),
        );
        assert!(poll(&mut task, &waker).is_pending());
        drop(ctx);
        for _ in 0..2 {
            assert_eq!(poll(&mut task, &waker), Poll::Ready(Err(CudaError::ContextIsDestroyed)));
        }
        drop(task);
        assert_eq!(dropped.lock().unwrap().take(), Some(current()), "in what is current there");
        assert_eq!(ContextStack::depth(), 1);
    });
}

#[test]
fn a_panic_in_a_poll_leaves_the_stack_as_it_was() {
    run(|| {
        let (ctx, other) = (parked(), pushed());
        let (_, waker) = Counting::waker();
        let mut task = Box::pin(async { panic!("in a task") }.in_context(&ctx));
        let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| poll(&mut task, &waker)));
        assert!(polled.is_err());
        assert_eq!((current(), ContextStack::depth()), (other.get_unowned(), 1));
        drop(task);
        assert_eq!(ContextStack::depth(), 1);
    });
}

#[test]
fn tasks_of_a_multi_thread_executor_keep_to_their_contexts() {
    run_alone(|| {
        let contexts: Vec<_> = (0..4).map(|_| Arc::new(parked())).collect();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
        let done = Arc::new(AtomicUsize::new(0));
        runtime.block_on(async {
            let tasks: Vec<_> = (0..64)
                .map(|number: usize| {
                    let (ctx, done) = (Arc::clone(&contexts[number % 4]), Arc::clone(&done));
                    let own = ctx.get_unowned();
                    let task = async move {
                        let stream = stream();
                        for round in 0..4 {
                            let value = (number * 10 + round) as u32;
                            let filled = stream
                                .enqueue_async(|stream| DeviceBuffer::from_slice_in(&[value; 16], stream))?;
                            let buffer = filled.await?;
                            assert_eq!(current(), own);
                            tokio::task::yield_now().await;
                            let mut back = [0; 16];
                            buffer.copy_to(&mut back)?;
                            assert_eq!(back, [value; 16]);
                        }
                        done.fetch_add(1, Ordering::SeqCst);
                        Ok::<_, CudaError>(ctx)
                    };
                    tokio::spawn(task.in_context(&contexts[number % 4].get_unowned()))
                })
                .collect();
            for task in tasks {
                task.await.unwrap().unwrap().unwrap();
            }
        });
        assert_eq!(done.load(Ordering::SeqCst), 64);
        drop(runtime);
    });
}

#[test]
fn a_cancelled_task_leaves_nothing() {
    run_alone(|| {
        let ctx = parked();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let kept = Arc::new(());
        let value = Arc::clone(&kept);
        let go = runtime.block_on(async {
            let (tell, told) = std::sync::mpsc::channel();
            let task = async move {
                let stream = stream();
                tell.send(super::held(&stream)).unwrap();
                stream.enqueue_async(|_| Ok(value))?.await.map(drop)
            };
            let task = tokio::task::spawn(task.in_context(&ctx));
            tokio::task::yield_now().await;
            task.abort();
            assert!(task.await.unwrap_err().is_cancelled());
            told.recv().unwrap()
        });
        assert_eq!(Arc::strong_count(&kept), 2, "its work goes on");
        drop(go);
        crate::harness::owned_by(&kept, 1);
    });
}
