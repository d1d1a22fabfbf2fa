//! Streams: work that runs in order, while the program continues.
//!
//! Each stream has a queue, and a thread while the queue is not empty. Host functions run on that thread; every driver
//! call there is refused.

pub(super) mod abi;
mod attributes;
mod capture;
mod default;
mod ending;
mod forbidden;
mod queue;
pub(crate) mod timeline;

pub(super) use attributes::Attributes;
pub(super) use capture::{Captured, Captures, ILLEGAL_STATE};
pub(super) use forbidden::is_anything_captured;
pub(super) use queue::{Moment, Queue};

use super::context::{GREATEST_PRIORITY, LEAST_PRIORITY};
use super::graph::Operation;
use super::machine::*;
use super::memory;
use custack_sys::ffi::CUresult;
use std::cell::Cell;
use std::sync::Arc;

const STREAM_FLAGS: u32 = 0x1;
/// The status of a query for work that is not done.
pub(super) const NOT_READY: CUresult = 600;

thread_local! {
    static HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread runs a host function, in which driver calls are not permitted.
pub(super) fn in_host_function() -> bool {
    HOST_FUNCTION.get()
}

/// Runs a function of the program as the driver does.
pub(super) fn as_host_function(f: impl FnOnce()) {
    HOST_FUNCTION.set(true);
    f();
    HOST_FUNCTION.set(false);
}

#[derive(Clone)]
pub(super) struct Stream {
    pub(super) context: Handle,
    /// The green context that it was made in, or 0.
    pub(super) green: Handle,
    pub(super) flags: u32,
    pub(super) id: u64,
    pub(super) queue: Arc<Queue>,
    pub(super) attributes: Attributes,
}

impl Stream {
    /// The context with whose default stream it is: the green one, if it is of one.
    pub(super) fn owner(&self) -> Handle {
        if self.green == 0 { self.context } else { self.green }
    }
}

impl Machine {
    pub(super) fn create_stream(&mut self, has_out: bool, flags: u32, priority: i32) -> Answer<usize> {
        if !has_out || flags & !STREAM_FLAGS != 0 {
            return self.refuse(
                INVALID_VALUE,
                format_args!("{flags:#x} are not flags of a stream, or the pointer is NULL"),
            );
        }
        let owner = self.healthy_top()?;
        self.add_stream(owner, flags, priority)
    }

    /// Of this context, which is alive.
    pub(super) fn add_stream(&mut self, owner: Handle, flags: u32, priority: i32) -> Answer<usize> {
        let attributes = Attributes::new(priority.clamp(GREATEST_PRIORITY, LEAST_PRIORITY));
        let (context, green) = self.base_and_green(owner);
        let (id, queue) = (self.next_id(), Arc::default());
        let stream = Stream { context, green, flags, id, queue, attributes };
        Ok(self.objects.add(Object::Stream(stream)))
    }

    /// The context that has the memory, and the green context or 0.
    fn base_and_green(&self, owner: Handle) -> (Handle, Handle) {
        (self.base(owner), if self.is_green(owner) { owner } else { 0 })
    }

    /// A stream of a living context.
    pub(super) fn stream_of(&mut self, handle: usize) -> Answer<Stream> {
        self.stream_is_in_no_ending_capture(handle)?;
        self.known_stream(handle)
    }

    /// Like [`stream_of`](Self::stream_of), for the calls that may be made while its capture is ended.
    pub(super) fn known_stream(&mut self, handle: usize) -> Answer<Stream> {
        if let Some(which) = default::which(handle) {
            return self.default_stream(which);
        }
        self.ready()?;
        let Some(Object::Stream(stream)) = self.objects.get(handle) else {
            return self.misuse(INVALID_HANDLE, format_args!("{handle:#x} is not a stream"));
        };
        let stream = stream.clone();
        self.healthy(stream.context)?;
        self.healthy(stream.owner())?;
        Ok(stream)
    }

    /// The work in other streams that a stream's next work waits for: the default stream and the blocking streams wait
    /// for each other.
    pub(super) fn comes_after(&mut self, handle: usize, stream: &Stream) -> Vec<Arc<Moment>> {
        let others = match handle {
            0 | default::LEGACY => self.blocking_queues(stream.owner()),
            _ if stream.flags == 0 => {
                self.get(stream.owner()).map(|it| Arc::clone(&it.default_stream)).into_iter().collect()
            }
            _ => Vec::new(),
        };
        others.iter().filter(|queue| !queue.is_idle()).map(Moment::behind).collect()
    }

    /// Adds work to a stream. Once the context is in error no more work is done; work that fails puts it in error.
    pub(super) fn enqueue(
        &mut self,
        handle: usize,
        stream: &Stream,
        work: impl FnOnce() -> Result<(), (CUresult, String)> + Send + 'static,
    ) -> Answer<()> {
        let before = self.comes_after(handle, stream);
        let context = stream.context;
        stream.queue.push(Box::new(move || {
            before.iter().for_each(|moment| moment.wait());
            if lock().error_of(context) != 0 {
                return;
            }
            if let Err(error) = work() {
                lock().put_in_error(context, error);
            }
        }));
        Ok(())
    }

    /// Adds an operation to a stream, or to the graph that it is captured into.
    pub(super) fn record_or_enqueue(
        &mut self,
        handle: usize,
        stream: &Stream,
        operation: Operation,
    ) -> Answer<()> {
        if self.capturing(handle)? {
            return self.record(handle, operation);
        }
        self.enqueue(handle, stream, move || operation.run())
    }

    /// A stream that is asked what cannot be asked of one that captures.
    pub(super) fn not_captured(&mut self, handle: usize) -> Answer<Stream> {
        let stream = self.stream_of(handle)?;
        self.no_node(handle)?;
        Ok(stream)
    }

    /// All work of a context, including that of destroyed streams, and for a primary context that of its green ones.
    pub(super) fn work_of(&mut self, context: Handle) -> Vec<Arc<Queue>> {
        self.leftovers.retain(|(_, queue)| !queue.is_idle());
        let of = |owner: Handle| owner == context || self.base(owner) == context;
        let streams = self.objects.streams().filter(|stream| of(stream.owner()));
        let mut queues: Vec<_> = streams.map(|stream| Arc::clone(&stream.queue)).collect();
        let left = self.leftovers.iter().filter(|(owner, _)| of(*owner));
        queues.extend(left.map(|(_, queue)| Arc::clone(queue)));
        // Only a primary context has green ones.
        let is_primary = self.peek(context).is_some_and(|context| context.primary);
        let all = if is_primary { self.contexts_with_work() } else { Vec::new() };
        let greens = all.into_iter().filter(|green| *green != context && of(*green));
        for owner in std::iter::once(context).chain(greens) {
            queues.extend(self.peek(owner).map(|context| Arc::clone(&context.default_stream)));
            queues.extend(self.per_thread_queues(owner));
        }
        queues
    }

    /// All work of all contexts.
    pub(super) fn all_work(&mut self) -> Vec<Arc<Queue>> {
        let contexts = self.contexts_with_work();
        contexts.into_iter().flat_map(|context| self.work_of(context)).collect()
    }

    /// The work that the contexts of a device have.
    pub(super) fn work_on(&self, device: usize) -> Vec<Arc<Queue>> {
        let on = |context: Handle| self.peek(context).is_some_and(|context| context.device == device);
        let streams = self.objects.streams().map(|stream| (stream.context, &stream.queue));
        let left = self.leftovers.iter().map(|(owner, queue)| (*owner, queue));
        let busy = streams.chain(left).filter(|(owner, queue)| !queue.is_idle() && on(*owner));
        let mut queues: Vec<_> = busy.map(|(_, queue)| Arc::clone(queue)).collect();
        for context in self.contexts().filter(|context| context.alive && context.device == device) {
            let threads = context.per_thread.values().map(|stream| &stream.queue);
            let busy = threads.chain([&context.default_stream]).filter(|queue| !queue.is_idle());
            queues.extend(busy.map(Arc::clone));
        }
        queues
    }

    /// The queues of streams that wait for the default stream, and it for them.
    pub(super) fn blocking_queues(&self, context: Handle) -> Vec<Arc<Queue>> {
        let streams = self.objects.streams().filter(|stream| stream.owner() == context && stream.flags == 0);
        let own = streams.map(|stream| Arc::clone(&stream.queue));
        own.chain(self.per_thread_queues(context)).collect()
    }

    /// Work that is under way continues.
    pub(super) fn destroy_stream(&mut self, handle: usize) -> Answer<()> {
        if default::which(handle).is_some() {
            return self.keep_default_stream(handle);
        }
        let stream = self.stream_of(handle)?;
        self.uncapture(handle);
        memory::lock().order.forget_stream(memory::key(&stream));
        if !stream.queue.is_idle() {
            self.leave(stream.owner(), stream.queue);
        }
        self.objects.remove(handle);
        Ok(())
    }

    /// Work goes on in a queue that no stream has any more.
    pub(super) fn leave(&mut self, owner: Handle, queue: Arc<Queue>) {
        self.leftovers.retain(|(_, queue)| !queue.is_idle());
        self.leftovers.push((owner, queue));
    }

    pub(super) fn query_stream(&mut self, handle: usize) -> Answer<()> {
        let stream = self.stream_of(handle)?;
        self.no_node(handle)?;
        self.may_wait()?;
        let busy = match handle {
            0 | default::LEGACY => {
                !stream.queue.is_idle()
                    || self.blocking_queues(stream.owner()).iter().any(|queue| !queue.is_idle())
            }
            _ => !stream.queue.is_idle(),
        };
        if busy { Err(NOT_READY) } else { Ok(()) }
    }
}
