//! The thread that looks whether awaited work is done.
//!
//! It asks the driver about one event of each stream, because those of a stream are reached in their order. It is in the
//! relaxed capture mode, so its questions break no capture.

use crate::driver::{RELAXED, running};
use crate::error::{CudaError, CudaResult};
use crate::stream::{Shared, Stream};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// For so long it looks without a pause: work that ends soon is noticed at once.
const EAGER: Duration = Duration::from_micros(20);

/// Afterwards it pauses for this part of the time it has waited so far.
const PART: u32 = 8;

/// So that an error of the context, which ends all waiting, is noticed soon.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// Work whose end is awaited.
pub(super) trait Submitted: Send {
    /// How it ended; `None` if it goes on. Does not wait.
    fn result(&self) -> Option<CudaResult<()>>;

    fn finish(self: Box<Self>, result: CudaResult<()>);
}

type Work = Box<dyn Submitted>;

struct Inbox {
    new: Vec<(Weak<Shared>, Work)>,
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

/// Has the thread, which runs, look at the work; it is the last that the stream has now.
pub(super) fn submit(stream: &Stream, work: Work) {
    inbox().new.push((Arc::downgrade(stream.inner()), work));
    ARRIVED.notify_one();
}

/// The awaited work of one stream, in its order.
struct Line {
    /// Keeps the address from being used for another stream.
    _of: Weak<Shared>,
    work: VecDeque<Work>,
    /// When the first of it was the first.
    since: Instant,
    next_look: Instant,
}

impl Line {
    fn look(&mut self) {
        while let Some(first) = self.work.front() {
            let result = first.result();
            let now = Instant::now();
            let Some(result) = result else {
                let waited = now - self.since;
                let pause = if waited < EAGER { Duration::ZERO } else { waited / PART };
                self.next_look = now + pause.min(LONGEST_PAUSE);
                return;
            };
            self.since = now;
            if let Some(done) = self.work.pop_front() {
                done.finish(result);
            }
        }
    }
}

fn run() {
    let mut lines: HashMap<usize, Line> = HashMap::new();
    let mut relaxed = false;
    loop {
        for (of, work) in arrived(lines.values().map(|line| line.next_look).min()) {
            let now = Instant::now();
            let line = lines.entry(of.as_ptr().addr()).or_insert_with(|| Line {
                _of: of,
                work: VecDeque::new(),
                since: now,
                next_look: now,
            });
            line.work.push_back(work);
        }
        // Asked again if it failed; a driver too old to have capture modes has no captures either.
        relaxed = relaxed
            || running().is_some_and(|driver| driver.thread_exchange_stream_capture_mode(RELAXED).is_ok());
        let now = Instant::now();
        lines.values_mut().filter(|line| line.next_look <= now).for_each(Line::look);
        lines.retain(|_, line| !line.work.is_empty());
    }
}

/// What was submitted; waits for something, at most until then.
fn arrived(until: Option<Instant>) -> Vec<(Weak<Shared>, Work)> {
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
