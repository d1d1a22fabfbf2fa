//! Events: moments in the work of streams, and the times between them.

pub(super) mod abi;
mod ipc;

use super::graph::Operation;
use super::machine::*;
use super::memory;
use super::stream::{Captured, ILLEGAL_STATE, Moment, NOT_READY, Queue};
use ipc::Common;
use std::sync::Arc;
use std::time::Duration;

const EVENT_FLAGS: u32 = 0x7;
const BLOCKING_EVENT_NEEDED: u32 = 0x2;
const DISABLE_TIMING: u32 = 0x2;
const INTERPROCESS: u32 = 0x4;
/// In a capture: the event outside the graph.
const EXTERNAL: u32 = 0x1;

#[derive(Clone)]
pub(super) struct Event {
    pub(super) context: Handle,
    flags: u32,
    /// The moment that it was last recorded for.
    moment: Option<Arc<Moment>>,
    /// Where in a capture, if it was recorded in one last.
    captured: Option<Captured>,
    /// If it is for other processes, or of another one.
    common: Option<Common>,
}

impl Event {
    pub(super) fn moment(&self) -> Option<Arc<Moment>> {
        self.moment.clone()
    }
}

impl Machine {
    pub(super) fn create_event(&mut self, has_out: bool, flags: u32) -> Answer<usize> {
        let context = self.healthy_current()?;
        let odd = flags & INTERPROCESS != 0 && flags & BLOCKING_EVENT_NEEDED == 0;
        if !has_out || flags & !EVENT_FLAGS != 0 || odd {
            return self.refuse(
                INVALID_VALUE,
                format_args!("{flags:#x} are not flags of an event, or the pointer is NULL"),
            );
        }
        let (moment, captured, common) = (None, None, ipc::common(flags));
        Ok(self.objects.add(Object::Event(Event { context, flags, moment, captured, common })))
    }

    pub(super) fn event_of(&mut self, handle: usize) -> Answer<Event> {
        self.ready()?;
        if handle == 0 {
            return self.refuse(INVALID_HANDLE, "the event is NULL");
        }
        let Some(Object::Event(event)) = self.objects.get(handle) else {
            return self.misuse(INVALID_HANDLE, format_args!("{handle:#x} is not an event"));
        };
        let mut event = event.clone();
        if let Some(elsewhere) = event.common.as_ref().and_then(Common::elsewhere) {
            event.moment = Some(elsewhere);
        }
        self.event_is_in_no_ending_capture(event.captured.as_ref())?;
        self.healthy(event.context)?;
        Ok(event)
    }

    pub(super) fn destroy_event(&mut self, handle: usize) -> Answer<()> {
        self.event_of(handle)?;
        self.objects.remove(handle);
        memory::lock().order.forget_event(handle);
        Ok(())
    }

    /// The moment comes when the stream reaches it.
    pub(super) fn record_event(&mut self, handle: usize, stream: usize, flags: u32) -> Answer<()> {
        let to = self.stream_of(stream)?;
        let captures = self.capturing(stream)?;
        let event = self.event_of(handle)?;
        if flags & !EXTERNAL != 0 {
            return self.refuse(INVALID_VALUE, format_args!("{flags:#x} are no flags of a record"));
        }
        // An external record is of any context.
        match (captures, flags) {
            (true, EXTERNAL) => return self.record(stream, Operation::Record(handle)),
            (false, EXTERNAL) => {
                return self.refuse(ILLEGAL_STATE, "an external record is of a stream that captures");
            }
            _ => {}
        }
        if to.context != event.context {
            return self
                .refuse(INVALID_HANDLE, "an event can only be recorded in streams of its own context");
        }
        if captures {
            let captured = self.captured_event(stream);
            if let Some(Object::Event(event)) = self.objects.get_mut(handle) {
                event.captured = captured;
            }
            return Ok(());
        }
        let comes = self.next_moment(handle);
        memory::lock().order.record(handle, memory::key(&to));
        let before = self.comes_after(stream, &to);
        to.queue.push_until(comes, Box::new(move || before.iter().for_each(|moment| moment.wait())));
        Ok(())
    }

    /// Records the event: its moment comes when the present work of the context is done.
    pub(super) fn record_context(&mut self, context: Handle, handle: usize) -> Answer<()> {
        self.named_and_living(context)?;
        if handle == 0 {
            return self.refuse(INVALID_HANDLE, "the event is NULL");
        }
        if self.event_of(handle)?.context != self.base(context) {
            return self.refuse(INVALID_HANDLE, "an event is recorded in its own context");
        }
        self.may_wait_for(context)?;
        let moment = self.next_moment(handle);
        let queues = self.work_of(context);
        let before: Vec<_> = queues.iter().filter(|queue| !queue.is_idle()).map(Moment::behind).collect();
        let all = Arc::new(Queue::default());
        all.push_until(moment, Box::new(move || before.iter().for_each(|moment| moment.wait())));
        self.leave(context, all);
        Ok(())
    }

    /// Makes all later work of the context wait for the event.
    pub(super) fn wait_in_context(&mut self, context: Handle, handle: usize) -> Answer<()> {
        self.named_and_living(context)?;
        self.may_wait_for(context)?;
        let event = self.event_of(handle)?;
        self.is_real(event.captured.as_ref(), true)?;
        let Some(moment) = event.moment.filter(|moment| moment.time().is_none()) else { return Ok(()) };
        for queue in self.work_of(context) {
            let moment = Arc::clone(&moment);
            queue.push(Box::new(move || moment.wait()));
        }
        Ok(())
    }

    fn named_and_living(&mut self, context: Handle) -> Answer<()> {
        self.ready()?;
        if context == 0 {
            return self.refuse(INVALID_CONTEXT, "the context of the event is NULL");
        }
        self.living(context).map(|_| ())
    }

    /// The moment for which the event is recorded now.
    pub(super) fn next_moment(&mut self, handle: usize) -> Arc<Moment> {
        let Some(Object::Event(event)) = self.objects.get_mut(handle) else { return Arc::default() };
        let moment = Arc::new(event.common.as_mut().map_or_else(Moment::default, Common::here));
        event.moment = Some(Arc::clone(&moment));
        event.captured = None;
        moment
    }

    pub(super) fn query_event(&mut self, handle: usize) -> Answer<()> {
        let event = self.event_of(handle)?;
        self.is_real(event.captured.as_ref(), true)?;
        self.may_wait()?;
        let over = event.moment.is_none_or(|moment| moment.time().is_some());
        if over { Ok(()) } else { Err(NOT_READY) }
    }

    /// The moment to wait for; `None` if the event was never recorded.
    pub(super) fn moment_of(&mut self, handle: usize) -> Answer<Option<Arc<Moment>>> {
        let event = self.event_of(handle)?;
        self.is_real(event.captured.as_ref(), true)?;
        self.may_wait()?;
        Ok(event.moment)
    }

    pub(super) fn wait_event(&mut self, stream: usize, event: usize, flags: u32) -> Answer<()> {
        let to = self.stream_of(stream)?;
        let captures = self.capturing(stream)?;
        if flags & !EXTERNAL != 0 {
            return self.refuse(INVALID_VALUE, format_args!("{flags:#x} are not flags of a wait"));
        }
        let found = self.event_of(event);
        let found = self.breaks_capture(stream, found)?;
        if let (Some(captured), EXTERNAL) = (&found.captured, flags) {
            let live = self.is_live(captured);
            self.breaks_capture(stream, live)?;
        }
        match (captures, flags) {
            (true, EXTERNAL) => return self.record(stream, Operation::Wait(event)),
            (false, EXTERNAL) => {
                return self.refuse(ILLEGAL_STATE, "an external wait is of a stream that captures");
            }
            (captures, _) => match (&found.captured, &found.moment) {
                (Some(captured), _) => return self.wait_captured(stream, captured),
                (None, Some(_)) if captures => return self.no_isolation(stream),
                _ => {}
            },
        }
        let Some(moment) = found.moment else { return Ok(()) };
        memory::lock().order.wait(memory::key(&to), event);
        let before = self.comes_after(stream, &to);
        to.queue.push(Box::new(move || {
            before.iter().for_each(|moment| moment.wait());
            moment.wait();
        }));
        Ok(())
    }

    /// An event that a time can be measured from or to, and when it came. All of the first event is checked before the
    /// second one is looked at.
    fn timed(&mut self, handle: usize) -> Answer<(Handle, Arc<Moment>)> {
        let event = self.event_of(handle)?;
        self.is_real(event.captured.as_ref(), false)?;
        match event.moment.filter(|_| event.flags & DISABLE_TIMING == 0) {
            Some(moment) => Ok((event.context, moment)),
            None => self.refuse(INVALID_HANDLE, "elapsed time needs two recorded, timed events"),
        }
    }

    /// Milliseconds with the device's resolution, about half a microsecond.
    pub(super) fn elapsed(&mut self, start: usize, end: usize) -> Answer<f32> {
        let ((context, from), (of_end, to)) = (self.timed(start)?, self.timed(end)?);
        if context != of_end {
            return self.refuse(INVALID_HANDLE, "elapsed time is between events of one context");
        }
        let (Some(from), Some(to)) = (from.time(), to.time()) else { return Err(NOT_READY) };
        let backwards = from > to;
        let time = if backwards { from - to } else { to - from };
        let millis = time.max(Duration::from_nanos(1)).as_secs_f64() as f32 * 1000.0;
        Ok(if backwards { -millis } else { millis })
    }
}
