//! Streams and events: work that runs in its order, while the program goes on.
//!
//! Each stream has a queue, and a thread while there is something in it. Host functions run on that thread; there every
//! driver call is refused.

use super::context::Ctx;
use super::machine::*;
use super::memory;
use crate::driver::ffi::CUresult;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub(super) const STREAM_FLAGS: u32 = 0x1;
const EVENT_FLAGS: u32 = 0x7;
const BLOCKING_EVENT_NEEDED: u32 = 0x2;
const DISABLE_TIMING: u32 = 0x2;
const INTERPROCESS: u32 = 0x4;
pub(super) const NOT_READY: CUresult = 600;

thread_local! {
    static HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread runs a host function, in which driver calls are not permitted.
pub(super) fn in_host_function() -> bool {
    HOST_FUNCTION.get()
}

/// Runs a program's function as the driver does.
pub(super) fn as_host_function(f: impl FnOnce()) {
    HOST_FUNCTION.set(true);
    f();
    HOST_FUNCTION.set(false);
}

pub(super) type Item = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Waiting {
    items: VecDeque<Item>,
    running: bool,
}

/// The work of a stream.
#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    idle: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds work; a thread comes to do it, unless one is there.
    pub(super) fn push(self: &Arc<Queue>, item: Item) {
        let mut waiting = self.lock();
        waiting.items.push_back(item);
        if waiting.running {
            return;
        }
        waiting.running = true;
        drop(waiting);
        // No thread may be to be had for a moment; the work cannot be done here, under the machine's lock.
        let start = || {
            let queue = Arc::clone(self);
            std::thread::Builder::new().name("simulated stream".to_owned()).spawn(move || queue.run())
        };
        while start().is_err() {
            std::thread::yield_now();
        }
    }

    fn run(&self) {
        loop {
            let mut waiting = self.lock();
            let Some(item) = waiting.items.pop_front() else {
                waiting.running = false;
                self.idle.notify_all();
                return;
            };
            drop(waiting);
            item();
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        !self.lock().running
    }

    pub(super) fn wait(&self) {
        let mut waiting = self.lock();
        while waiting.running {
            waiting = self.idle.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A moment that comes, and when it came.
#[derive(Default)]
pub(super) struct Moment {
    came: Mutex<Option<Instant>>,
    now: Condvar,
}

impl Moment {
    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.came.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn comes(&self) {
        *self.lock() = Some(Instant::now());
        self.now.notify_all();
    }

    pub(super) fn time(&self) -> Option<Instant> {
        *self.lock()
    }

    pub(super) fn wait(&self) {
        let mut came = self.lock();
        while came.is_none() {
            came = self.now.wait(came).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[derive(Clone)]
pub(super) struct Stream {
    pub(super) context: Handle,
    pub(super) flags: u32,
    pub(super) priority: i32,
    pub(super) id: u64,
    pub(super) queue: Arc<Queue>,
}

#[derive(Clone)]
pub(super) struct Event {
    pub(super) context: Handle,
    flags: u32,
    /// What it was recorded for last.
    moment: Option<Arc<Moment>>,
}

impl Machine {
    pub(super) fn create_stream(&mut self, has_out: bool, flags: u32, priority: i32) -> Answer<usize> {
        let context = self.healthy_current()?;
        if !has_out || flags & !STREAM_FLAGS != 0 {
            return self
                .refuse(INVALID_VALUE, format_args!("{flags:#x} are no flags of a stream, or no place"));
        }
        let (least, greatest) = self.stream_priority_range()?;
        let priority = priority.clamp(greatest, least);
        let id = self.next_id();
        let stream = Stream { context, flags, priority, id, queue: Arc::default() };
        Ok(self.objects.add(Object::Stream(stream)))
    }

    /// A stream of a living context; 0 is the one that every context has.
    pub(super) fn stream_of(&mut self, handle: usize) -> Answer<Stream> {
        if handle == 0 {
            let context = self.healthy_current()?;
            let queue = Arc::clone(&self.healthy(context)?.common);
            return Ok(Stream { context, flags: 0, priority: 0, id: 0, queue });
        }
        self.ready()?;
        let Some(Object::Stream(stream)) = self.objects.get(handle) else {
            return self.misuse(INVALID_HANDLE, format_args!("{handle:#x} is no stream"));
        };
        let stream = stream.clone();
        self.healthy(stream.context)?;
        Ok(stream)
    }

    /// What the next work of a stream comes after, in other streams: the common one waits for the blocking ones, and
    /// they for it.
    pub(super) fn comes_after(&mut self, handle: usize, stream: &Stream) -> Vec<Arc<Moment>> {
        let others = match handle {
            0 => self.blocking_queues(stream.context),
            _ if stream.flags == 0 => {
                self.get(stream.context).map(|it| Arc::clone(&it.common)).into_iter().collect()
            }
            _ => Vec::new(),
        };
        let busy = others.into_iter().filter(|queue| !queue.is_idle());
        busy.map(|queue| {
            let moment = Arc::new(Moment::default());
            let comes = Arc::clone(&moment);
            queue.push(Box::new(move || comes.comes()));
            moment
        })
        .collect()
    }

    /// Adds work to a stream. Once the context is in error nothing more is done; what fails puts it there.
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
                if let Some(context) = lock().get(context) {
                    context.error.get_or_insert(error);
                }
            }
        }));
        Ok(())
    }

    /// The error that the context is in, or 0.
    pub(super) fn error_of(&mut self, context: Handle) -> CUresult {
        match self.get(context) {
            Some(context) if context.alive => context.error.as_ref().map_or(0, |(status, _)| *status),
            _ => CONTEXT_IS_DESTROYED,
        }
    }

    /// A context that lives and is not in error.
    pub(super) fn healthy(&mut self, handle: Handle) -> Answer<&mut Ctx> {
        if !self.get(handle).is_some_and(|context| context.alive) {
            return self.refuse(CONTEXT_IS_DESTROYED, "the context of what was named is destroyed");
        }
        if let Some((status, why)) = self.get(handle).and_then(|context| context.error.clone()) {
            return self.refuse(status, format_args!("the context is in error: {why}"));
        }
        self.get(handle).ok_or(INVALID_CONTEXT)
    }

    pub(super) fn healthy_current(&mut self) -> Answer<Handle> {
        let handle = self.current_handle()?;
        self.living(handle)?;
        self.healthy(handle).map(|_| handle)
    }

    /// All work of a context, also that of streams that are destroyed.
    pub(super) fn work_of(&mut self, context: Handle) -> Vec<Arc<Queue>> {
        self.leftovers.retain(|(_, queue)| !queue.is_idle());
        let mut queues = self.all_queues(context);
        queues.extend(
            self.leftovers.iter().filter(|(of, _)| *of == context).map(|(_, queue)| Arc::clone(queue)),
        );
        queues.extend(self.get(context).map(|context| Arc::clone(&context.common)));
        queues
    }

    /// A context is gone, and with it all that it made.
    pub(super) fn end_work(&mut self, context: Handle) {
        memory::lock().free_all(context);
        self.objects.orphan(context);
    }

    /// Work in streams that wait for the one that every context has, and it for them.
    pub(super) fn blocking_queues(&self, context: Handle) -> Vec<Arc<Queue>> {
        let streams = self.objects.streams().filter(|stream| stream.context == context && stream.flags == 0);
        streams.map(|stream| Arc::clone(&stream.queue)).collect()
    }

    pub(super) fn all_queues(&self, context: Handle) -> Vec<Arc<Queue>> {
        let streams = self.objects.streams().filter(|stream| stream.context == context);
        streams.map(|stream| Arc::clone(&stream.queue)).collect()
    }

    /// The work that is under way goes on.
    pub(super) fn destroy_stream(&mut self, handle: usize) -> Answer<()> {
        if handle == 0 {
            return self.refuse(INVALID_HANDLE, "the stream that every context has is not destroyed");
        }
        let stream = self.stream_of(handle)?;
        if !stream.queue.is_idle() {
            self.leftovers.push((stream.context, stream.queue));
        }
        self.objects.remove(handle);
        Ok(())
    }

    pub(super) fn query_stream(&mut self, handle: usize) -> Answer<()> {
        let stream = self.stream_of(handle)?;
        let busy = match handle {
            0 => {
                !stream.queue.is_idle()
                    || self.blocking_queues(stream.context).iter().any(|queue| !queue.is_idle())
            }
            _ => !stream.queue.is_idle(),
        };
        if busy { Err(NOT_READY) } else { Ok(()) }
    }

    pub(super) fn create_event(&mut self, has_out: bool, flags: u32) -> Answer<usize> {
        let context = self.healthy_current()?;
        let odd = flags & INTERPROCESS != 0 && flags & BLOCKING_EVENT_NEEDED == 0;
        if !has_out || flags & !EVENT_FLAGS != 0 || odd {
            return self
                .refuse(INVALID_VALUE, format_args!("{flags:#x} are no flags of an event, or no place"));
        }
        Ok(self.objects.add(Object::Event(Event { context, flags, moment: None })))
    }

    pub(super) fn event_of(&mut self, handle: usize) -> Answer<Event> {
        self.ready()?;
        if handle == 0 {
            return self.refuse(INVALID_HANDLE, "the event is NULL");
        }
        let Some(Object::Event(event)) = self.objects.get(handle) else {
            return self.misuse(INVALID_HANDLE, format_args!("{handle:#x} is no event"));
        };
        let event = event.clone();
        self.healthy(event.context)?;
        Ok(event)
    }

    pub(super) fn destroy_event(&mut self, handle: usize) -> Answer<()> {
        self.event_of(handle)?;
        self.objects.remove(handle);
        Ok(())
    }

    /// The moment comes when the stream gets to it.
    pub(super) fn record_event(&mut self, handle: usize, stream: usize) -> Answer<()> {
        let event = self.event_of(handle)?;
        let to = self.stream_of(stream)?;
        if to.context != event.context {
            return self.refuse(INVALID_HANDLE, "an event is recorded in streams of its own context");
        }
        let moment = Arc::new(Moment::default());
        let comes = Arc::clone(&moment);
        if let Some(Object::Event(event)) = self.objects.get_mut(handle) {
            event.moment = Some(moment);
        }
        let before = self.comes_after(stream, &to);
        to.queue.push(Box::new(move || {
            before.iter().for_each(|moment| moment.wait());
            comes.comes();
        }));
        Ok(())
    }

    pub(super) fn query_event(&mut self, handle: usize) -> Answer<()> {
        let event = self.event_of(handle)?;
        let over = event.moment.is_none_or(|moment| moment.time().is_some());
        if over { Ok(()) } else { Err(NOT_READY) }
    }

    /// What to wait for; nothing if it was never recorded.
    pub(super) fn moment_of(&mut self, handle: usize) -> Answer<Option<Arc<Moment>>> {
        Ok(self.event_of(handle)?.moment)
    }

    pub(super) fn wait_event(&mut self, stream: usize, event: usize, flags: u32) -> Answer<()> {
        let to = self.stream_of(stream)?;
        let moment = self.moment_of(event)?;
        if flags != 0 {
            return self.refuse(INVALID_VALUE, format_args!("{flags:#x} are no flags of a wait"));
        }
        let Some(moment) = moment else { return Ok(()) };
        let before = self.comes_after(stream, &to);
        to.queue.push(Box::new(move || {
            before.iter().for_each(|moment| moment.wait());
            moment.wait();
        }));
        Ok(())
    }

    /// Milliseconds, as the device tells them: in steps of about half a microsecond.
    pub(super) fn elapsed(&mut self, start: usize, end: usize) -> Answer<f32> {
        let (start, end) = (self.event_of(start)?, self.event_of(end)?);
        let timed = (start.flags | end.flags) & DISABLE_TIMING == 0 && start.context == end.context;
        let (Some(from), Some(to), true) = (start.moment, end.moment, timed) else {
            return self
                .refuse(INVALID_HANDLE, "times are between two recorded, timed events of one context");
        };
        let (Some(from), Some(to)) = (from.time(), to.time()) else { return Err(NOT_READY) };
        let backwards = from > to;
        let time = if backwards { from - to } else { to - from };
        let millis = time.max(Duration::from_nanos(1)).as_secs_f64() as f32 * 1000.0;
        Ok(if backwards { -millis } else { millis })
    }
}
