//! Futures that are ready when work is done, and futures that run in a context.

use super::{Operation, stream};
use custack::context::CurrentContext;
use custack::error::CudaResult;
use custack::event::{Event, EventFlags};
use custack::future::{Completion, InContextExt};
use custack::graph::{Graph, GraphExec, InstantiateFlags};
use custack::memory::DeviceBuffer;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

fn executable() -> CudaResult<GraphExec> {
    let mut graph = Graph::new(&CurrentContext::get_current()?)?;
    graph.add_host_func(&[], || {})?;
    graph.instantiate(InstantiateFlags::empty())
}

/// Awaits work that is done, so that it takes one question, and the same calls each time.
fn done<T>(completion: Completion<T>) -> CudaResult<T> {
    CurrentContext::synchronize()?;
    completion.wait()
}

pub(super) const OPERATIONS: &[(&str, Operation)] = &[
    ("work that is awaited", || {
        let stream = stream()?;
        done(stream.enqueue_async(|stream| DeviceBuffer::from_slice_in(&[1, 2, 3], stream))?).map(drop)
    }),
    ("an event that is awaited", || {
        let event = Event::new(EventFlags::DISABLE_TIMING)?;
        done(event.completion()?)
    }),
    ("a launch of a graph that is awaited", || done(executable()?.launch_async(&stream()?)?)),
    ("an upload of a graph that is awaited", || done(executable()?.upload_async(&stream()?)?)),
    ("a future that runs in a context", || {
        let context = CurrentContext::get_current()?;
        let mut polls = 0;
        let task = std::future::poll_fn(|_| {
            polls += 1;
            let current = CurrentContext::get_current();
            if polls < 3 && current.is_ok() { Poll::Pending } else { Poll::Ready(current) }
        });
        let mut task = pin!(task.in_context(&context));
        loop {
            if let Poll::Ready(result) = task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return result?.map(drop);
            }
        }
    }),
    ("a future that is dropped in its context", || {
        let context = CurrentContext::get_current()?;
        let mut task = Box::pin(std::future::pending::<()>().in_context(&context));
        match task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result,
            Poll::Pending => Ok(()),
        }
    }),
];
