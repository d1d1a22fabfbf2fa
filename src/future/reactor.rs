//! The thread that looks whether awaited work is done.
//!
//! It asks the driver about the work of each stream in its order. It is in the relaxed capture mode, so its questions
//! break no capture. Whatever else runs on it is the program's (wakers, subscribers of reports), and runs as a host function:
//! driver calls and waits are refused there, because all that is awaited would wait with them.

use crate::driver::{RELAXED, running};
use crate::error::{CudaError, CudaResult};
use crate::stream::{Shared, Stream};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// For so long it looks without a pause: work that ends soon is noticed at once.
const EAGER: Duration = Duration::from_micros(20);

/// Afterwards it pauses for this part of the time it has waited so far.
const PART: u32 = 8;

/// The longest pause with few streams. An error of the context, which ends all waiting, is noticed within it.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// Each time that there are so many streams more, the longest pause becomes longer by itself.
const FEW_STREAMS: u32 = 32;

/// Work whose end is awaited.
pub(super) trait Work: Send {
    /// Asks whether it is done, and if so gives the outcome to who awaits it. False as long as it is to be kept.
    fn is_over(&mut self) -> bool;
}

struct Inbox {
    new: Vec<(Weak<Shared>, Box<dyn Work>)>,
    has_thread: bool,
}

static INBOX: Mutex<Inbox> = Mutex::new(Inbox { new: Vec::new(), has_thread: false });
static ARRIVED: Condvar = Condvar::new();

fn inbox() -> MutexGuard<'static, Inbox> {
    INBOX.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes sure that the thread runs.
pub(super) fn start() -> CudaResult<()> {
    let mut inbox = inbox();
    if inbox.has_thread {
        return Ok(());
    }
    let thread = std::thread::Builder::new().name("custack completions".to_owned());
    if thread.spawn(run).is_err() {
        let error = CudaError::OperatingSystemError;
        return Err(error.note(format_args!("to start the thread that looks whether work is done")));
    }
    inbox.has_thread = true;
    Ok(())
}

/// Has the thread, which runs, look at the work, which is the last that the stream has now, or nearly: two threads may do
/// this in another order than they submitted the work.
pub(super) fn submit(stream: &Stream, work: Box<dyn Work>) {
    inbox().new.push((Arc::downgrade(stream.inner()), work));
    ARRIVED.notify_one();
}

/// The awaited work of one stream.
struct Queue {
    /// Keeps the address from being used for another stream.
    _of: Weak<Shared>,
    work: VecDeque<Box<dyn Work>>,
    /// When the first of it was the first.
    since: Instant,
    /// Which one is looked at besides the first.
    other: usize,
}

impl Queue {
    /// Looks at the work from the first on, until some is not done. Then looks at one other, at each time the next one,
    /// because some may be in another order. Returns the pause before the next look.
    fn look(&mut self) -> Duration {
        while self.work.front_mut().is_some_and(|first| first.is_over()) {
            self.work.pop_front();
            self.since = Instant::now();
        }
        let waited = self.since.elapsed();
        if waited < EAGER {
            return Duration::ZERO;
        }
        self.other = if self.other + 1 < self.work.len() { self.other + 1 } else { 1 };
        if self.work.get_mut(self.other).is_some_and(|one| one.is_over()) {
            self.work.remove(self.other);
        }
        waited / PART
    }
}

#[derive(Default)]
struct Queues {
    by_stream: HashMap<usize, Queue>,
    /// When to look at each, the next one first.
    looks: BinaryHeap<Reverse<(Instant, usize)>>,
}

impl Queues {
    fn add(&mut self, of: Weak<Shared>, work: Box<dyn Work>) {
        let (stream, now) = (of.as_ptr().addr(), Instant::now());
        let queue = self.by_stream.entry(stream).or_insert_with(|| {
            self.looks.push(Reverse((now, stream)));
            Queue { _of: of, work: VecDeque::new(), since: now, other: 0 }
        });
        queue.work.push_back(work);
    }

    fn next_look(&self) -> Option<Instant> {
        self.looks.peek().map(|Reverse((at, _))| *at)
    }

    /// Looks at each queue once for which it is time.
    fn look(&mut self) {
        let (begun, longest) =
            (Instant::now(), LONGEST_PAUSE * (1 + self.by_stream.len() as u32 / FEW_STREAMS));
        let mut later = Vec::new();
        while self.next_look().is_some_and(|at| at <= begun) {
            let Some(Reverse((_, stream))) = self.looks.pop() else { break };
            let Some(queue) = self.by_stream.get_mut(&stream) else { continue };
            let pause = queue.look().min(longest);
            if queue.work.is_empty() {
                self.by_stream.remove(&stream);
            } else {
                later.push(Reverse((Instant::now() + pause, stream)));
            }
        }
        self.looks.extend(later);
    }
}

fn run() {
    let mut queues = Queues::default();
    let mut relaxed = false;
    loop {
        arrived(queues.next_look()).into_iter().for_each(|(of, work)| queues.add(of, work));
        // Asked again if it failed; a driver too old to have capture modes has no captures that this would break.
        relaxed = relaxed
            || running().is_some_and(|driver| driver.thread_exchange_stream_capture_mode(RELAXED).is_ok());
        queues.look();
    }
}

/// What was submitted; waits for something, at most until then.
fn arrived(until: Option<Instant>) -> Vec<(Weak<Shared>, Box<dyn Work>)> {
    let mut inbox = inbox();
    while inbox.new.is_empty() {
        let Some(until) = until else {
            inbox = ARRIVED.wait(inbox).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        let pause = until.saturating_duration_since(Instant::now());
        if pause.is_zero() {
            drop(inbox);
            // Others may need the core more.
            std::thread::yield_now();
            return Vec::new();
        }
        inbox = ARRIVED.wait_timeout(inbox, pause).unwrap_or_else(PoisonError::into_inner).0;
    }
    std::mem::take(&mut inbox.new)
}
