//! Who is told when streams do what.

use super::queue::Queue;
use std::sync::OnceLock;
use std::time::Instant;

/// Functions that are called around the work of streams, on whatever thread; they must not call the driver.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeline {
    /// What the work is called that the calling thread gives now; `None` for what is not shown.
    pub(crate) name: fn() -> Option<String>,
    /// The work of a queue that has this number was done.
    pub(crate) done: fn(name: &str, queue: usize, begun: Instant, ended: Instant),
}

static TIMELINE: OnceLock<Timeline> = OnceLock::new();

/// Has the work of streams told from now on.
pub(crate) fn tell(timeline: Timeline) {
    let _ = TIMELINE.set(timeline);
}

/// The same work, told if somebody wants to know.
pub(super) fn told(queue: &Queue, item: Box<dyn FnOnce() + Send>) -> Box<dyn FnOnce() + Send> {
    let Some((timeline, name)) = TIMELINE.get().and_then(|it| Some((*it, (it.name)()?))) else { return item };
    let number = std::ptr::from_ref(queue).addr();
    Box::new(move || {
        let begun = Instant::now();
        item();
        (timeline.done)(&name, number, begun, Instant::now());
    })
}
