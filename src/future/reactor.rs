//! The threads that look whether awaited work is done: one, and more while the work of many streams is awaited.
//!
//! They ask the driver about the work of each stream in its order. They are in the relaxed capture mode, so their questions
//! break no capture. Whatever else runs on them is the program's (wakers, subscribers of reports), and runs as a host
//! function: driver calls and waits are refused there, because all that is awaited would wait with them.
//!
//! One thread needs about 5 us for each piece of work that is done, in which it waits for locks of the driver and for the
//! system call that wakes a task: with 16 streams that is longer than all the rest.

use super::inbox::Inbox;
use super::pace::Pace;
use crate::driver::{RELAXED, refuse_in_child, running};
use crate::error::{CudaError, CudaResult};
use crate::stream::Shared;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The longest time that the thread stays awake without work: a task that was just woken often submits more.
const LONGEST_AWAKE: Duration = Duration::from_micros(50);

/// The longest pause with few streams. An error of the context, which ends all waiting, is noticed within it.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// For each group of this many streams the longest pause becomes longer by its base value.
const FEW_STREAMS: u32 = 32;

/// How long a large number of streams is remembered: tasks that were woken together submit together.
const CROWDED: Duration = Duration::from_millis(1);

/// After this many rounds without a pause the thread yields to others.
const LOOKS_AT_A_STRETCH: u32 = 16;

/// Work whose end is awaited.
pub(super) trait Work: Send {
    /// The stream that does it.
    fn of(&self) -> &Weak<Shared>;

    fn submitted_at(&self) -> Instant;

    /// In the relaxed capture mode.
    ///
    /// Asks whether it is done, and if so gives the outcome to who awaits it. False as long as it is to be kept.
    fn is_over(&mut self) -> bool;
}

/// What a thread that looks is told, and tells.
struct Watch {
    inbox: Inbox<Box<dyn Work>>,
    /// Whether its thread runs: read without the lock by all who await something.
    has_thread: AtomicBool,
    starts: Mutex<()>,
    /// Of how many streams it looks at work.
    streams: AtomicUsize,
}

/// A thread with this number of streams is busy enough for the next one to help.
const STREAMS_OF_A_THREAD: usize = 3;

static WATCHES: LazyLock<[Watch; 4]> = LazyLock::new(|| std::array::from_fn(|_| Watch::new()));

/// How many streams were looked at, not long ago.
static CROWD: AtomicUsize = AtomicUsize::new(0);

/// Makes sure that the first thread runs.
pub(super) fn start() -> CudaResult<()> {
    refuse_in_child()?;
    if WATCHES[0].has_thread() {
        return Ok(());
    }
    let error = CudaError::OperatingSystemError;
    Err(error.note(format_args!("to start the thread that looks whether work is done")))
}

/// Has a thread look at the work. The first one runs.
pub(super) fn look_at(work: Box<dyn Work>) {
    let threads = 1 + CROWD.load(Ordering::Relaxed) / STREAMS_OF_A_THREAD;
    let watch = WATCHES.iter().take(threads).min_by_key(|watch| watch.load());
    let watch = watch.filter(|watch| watch.has_thread()).unwrap_or(&WATCHES[0]);
    watch.inbox.add(work);
}

/// At the work of how many streams the threads look.
fn all() -> usize {
    WATCHES.iter().map(|watch| watch.streams.load(Ordering::Relaxed)).sum()
}

impl Watch {
    fn new() -> Watch {
        Watch {
            inbox: Inbox::new(),
            has_thread: AtomicBool::new(false),
            starts: Mutex::new(()),
            streams: AtomicUsize::new(0),
        }
    }

    fn load(&self) -> usize {
        self.inbox.count() + self.streams.load(Ordering::Relaxed)
    }

    /// Starts the thread if there is none. False if it could not be started.
    fn has_thread(&'static self) -> bool {
        self.has_thread.load(Ordering::Relaxed) || self.starts()
    }

    #[cold]
    fn starts(&'static self) -> bool {
        let _one_at_a_time = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.has_thread.load(Ordering::Relaxed) {
            let thread = std::thread::Builder::new().name("custack completions".to_owned());
            self.has_thread.store(thread.spawn(|| self.run()).is_ok(), Ordering::Relaxed);
        }
        self.has_thread.load(Ordering::Relaxed)
    }

    fn run(&self) {
        let mut queues = Queues::new();
        let (mut relaxed, mut looks) = (false, 0u32);
        loop {
            looks = looks.wrapping_add(1);
            let streams = self.count(&mut queues);
            if self.inbox.count() != 0 || !queues.stays_awake() {
                self.taken(queues.next_look()).into_iter().for_each(|work| queues.add(work));
            } else if looks % LOOKS_AT_A_STRETCH == 0 {
                std::thread::yield_now();
            }
            // Asked again if it failed; a driver too old to have capture modes has no captures that this would break.
            relaxed = relaxed
                || running()
                    .is_some_and(|driver| driver.thread_exchange_stream_capture_mode(RELAXED).is_ok());
            queues.look(streams);
        }
    }

    /// What is new; waits for something, at most until then.
    fn taken(&self, until: Option<Instant>) -> Vec<Box<dyn Work>> {
        if until.is_none() && self.inbox.count() == 0 && all() == 0 {
            CROWD.store(0, Ordering::Relaxed);
        }
        self.inbox.take(until)
    }

    /// At the work of how many streams all threads look. Says so to those who choose among threads.
    fn count(&self, queues: &mut Queues) -> usize {
        self.streams.store(queues.by_stream.len(), Ordering::Relaxed);
        let (all, crowd) = (all(), CROWD.load(Ordering::Relaxed));
        if all > crowd {
            CROWD.store(all, Ordering::Relaxed);
        } else if all < crowd && queues.counted.elapsed() > CROWDED {
            CROWD.store(all.midpoint(crowd), Ordering::Relaxed);
            queues.counted = Instant::now();
        }
        all
    }
}

/// The awaited work of one stream, in the order in which it was submitted.
struct Queue {
    work: VecDeque<Box<dyn Work>>,
    /// When the first of it was the first.
    since: Instant,
    /// How long after that it was last seen not to be done.
    before: Duration,
    /// Which one is looked at besides the first.
    other: usize,
}

impl Queue {
    fn add(&mut self, work: Box<dyn Work>) {
        let at = work.submitted_at();
        let before = self.work.iter().rposition(|other| other.submitted_at() <= at);
        self.work.insert(before.map_or(0, |before| before + 1), work);
    }

    /// Looks at the work from the first on, until some is not done. Then looks at one other, at each time the next one:
    /// threads that submitted work at the same moment may have done so in another order. Returns the pause before the next
    /// look.
    fn look(&mut self, pace: &mut Pace) -> Duration {
        while self.work.front_mut().is_some_and(|first| first.is_over()) {
            self.work.pop_front();
            pace.learn(self.before, self.since.elapsed());
            (self.since, self.before) = (Instant::now(), Duration::ZERO);
        }
        let waited = self.since.elapsed();
        self.before = waited;
        let pause = pace.pause(waited);
        if pause.is_zero() {
            return pause;
        }
        self.other = if self.other + 1 < self.work.len() { self.other + 1 } else { 1 };
        if self.work.get_mut(self.other).is_some_and(|one| one.is_over()) {
            self.work.remove(self.other);
        }
        pause
    }
}

struct Queues {
    /// By the address of the stream, which the work keeps from being used for another one.
    by_stream: HashMap<usize, Queue>,
    /// When to look at each, the next one first.
    looks: BinaryHeap<Reverse<(Instant, usize)>>,
    pace: Pace,
    /// It does not sleep before then.
    awake_until: Instant,
    /// When it last said that there are fewer streams.
    counted: Instant,
}

impl Queues {
    fn new() -> Queues {
        let now = Instant::now();
        Queues {
            by_stream: HashMap::new(),
            looks: BinaryHeap::new(),
            pace: Pace::new(),
            awake_until: now,
            counted: now,
        }
    }

    fn stays_awake(&self) -> bool {
        let now = Instant::now();
        now < self.awake_until || self.next_look().is_some_and(|at| at <= now)
    }

    fn add(&mut self, work: Box<dyn Work>) {
        let (stream, now) = (work.of().as_ptr().addr(), Instant::now());
        let queue = self.by_stream.entry(stream).or_insert_with(|| {
            self.looks.push(Reverse((now, stream)));
            Queue { work: VecDeque::new(), since: now, before: Duration::ZERO, other: 0 }
        });
        queue.add(work);
    }

    fn next_look(&self) -> Option<Instant> {
        self.looks.peek().map(|Reverse((at, _))| *at)
    }

    /// Looks once at each queue that is due. `streams` is the number of streams of all threads.
    fn look(&mut self, streams: usize) {
        let (begun, longest) = (Instant::now(), LONGEST_PAUSE * (1 + streams as u32 / FEW_STREAMS));
        let mut later = Vec::new();
        while self.next_look().is_some_and(|at| at <= begun) {
            let Some(Reverse((_, stream))) = self.looks.pop() else { break };
            let Some(queue) = self.by_stream.get_mut(&stream) else { continue };
            let pause = queue.look(&mut self.pace).min(longest);
            let now = Instant::now();
            if queue.work.is_empty() {
                self.by_stream.remove(&stream);
                self.awake_until = now + self.pace.eager().min(LONGEST_AWAKE);
            } else {
                later.push(Reverse((now + pause, stream)));
            }
        }
        self.looks.extend(later);
    }
}
