//! Work that runs in order, while the program continues: the queue of a stream, and the moments in it.

use super::timeline;
use crate::shared::Record;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The interval in which a thread polls that waits for another process.
const BETWEEN_LOOKS: Duration = Duration::from_micros(50);

type Work = Box<dyn FnOnce() + Send>;

/// Work, and the moment that comes when it is done.
type Item = (Work, Option<Arc<Moment>>);

#[derive(Default)]
struct Waiting {
    items: VecDeque<Item>,
    running: bool,
    /// How many items were added so far, and how many of them are done.
    added: u64,
    done: u64,
}

/// The work of a stream.
#[derive(Default)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    one_is_done: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds work, and starts a thread for it unless one runs.
    pub(crate) fn push(self: &Arc<Queue>, work: Work) {
        self.add((timeline::told(self, work), None));
    }

    /// The same; the moment comes when the work is done. Whoever sees that it has come sees an idle queue, if nothing follows.
    pub(crate) fn push_until(self: &Arc<Queue>, moment: Arc<Moment>, work: Work) {
        self.add((timeline::told(self, work), Some(moment)));
    }

    fn add(self: &Arc<Queue>, item: Item) {
        let mut waiting = self.lock();
        waiting.items.push_back(item);
        waiting.added += 1;
        if waiting.running {
            return;
        }
        waiting.running = true;
        drop(waiting);
        // A thread may be unavailable for a moment; the work cannot be done here, under the machine's lock.
        let start = || {
            let queue = Arc::clone(self);
            std::thread::Builder::new().name("simulated stream".to_owned()).spawn(move || queue.run())
        };
        while start().is_err() {
            std::thread::yield_now();
        }
    }

    fn run(&self) {
        let mut waiting = self.lock();
        while let Some((work, moment)) = waiting.items.pop_front() {
            drop(waiting);
            work();
            waiting = self.lock();
            waiting.done += 1;
            moment.iter().for_each(|moment| moment.comes());
            self.one_is_done.notify_all();
        }
        waiting.running = false;
    }

    pub(crate) fn is_idle(&self) -> bool {
        let waiting = self.lock();
        waiting.done == waiting.added
    }

    /// Waits until it is idle.
    pub(crate) fn wait(&self) {
        self.wait_while(|waiting| waiting.done < waiting.added);
    }

    /// How many items it has had so far, for [`wait_for`](Self::wait_for).
    pub(crate) fn added(&self) -> u64 {
        self.lock().added
    }

    /// Waits until it has done this many items. It may have more by then.
    pub(crate) fn wait_for(&self, count: u64) {
        self.wait_while(|waiting| waiting.done < count);
    }

    fn wait_while(&self, goes_on: impl Fn(&mut Waiting) -> bool) {
        let done = self.one_is_done.wait_while(self.lock(), goes_on);
        drop(done.unwrap_or_else(PoisonError::into_inner));
    }
}

/// A moment in a stream's work, and when it came.
#[derive(Default)]
pub(crate) struct Moment {
    came: Mutex<Option<Instant>>,
    now: Condvar,
    /// The record of an event that processes share which it is of.
    record: Option<(Arc<Record>, u64)>,
    /// Whether it is in the work of another process.
    is_elsewhere: bool,
}

impl Moment {
    /// A moment of this process that others are told of.
    pub(crate) fn for_others(record: Arc<Record>, number: u64) -> Moment {
        Moment { record: Some((record, number)), ..Moment::default() }
    }

    /// A moment of another process.
    pub(crate) fn elsewhere(record: Arc<Record>, number: u64) -> Moment {
        Moment { is_elsewhere: true, ..Moment::for_others(record, number) }
    }

    /// The other process does not notify this one, so this one polls.
    fn look(&self) {
        let has_come = |(record, number): &(Arc<Record>, u64)| record.has_come(*number);
        if self.is_elsewhere && self.record.as_ref().is_some_and(has_come) {
            self.lock().get_or_insert_with(Instant::now);
        }
    }

    /// The moment at which a queue will have done what it has now.
    pub(crate) fn behind(queue: &Arc<Queue>) -> Arc<Moment> {
        let moment = Arc::new(Moment::default());
        queue.add((Box::new(|| ()), Some(Arc::clone(&moment))));
        moment
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.came.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn comes(&self) {
        if let Some((record, number)) = &self.record {
            record.comes(*number);
        }
        *self.lock() = Some(Instant::now());
        self.now.notify_all();
    }

    pub(crate) fn time(&self) -> Option<Instant> {
        self.look();
        *self.lock()
    }

    pub(crate) fn wait(&self) {
        while self.is_elsewhere && self.time().is_none() {
            std::thread::sleep(BETWEEN_LOOKS);
        }
        let mut came = self.lock();
        while came.is_none() {
            came = self.now.wait(came).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
