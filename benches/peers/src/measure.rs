//! Times one piece of work on several threads at once.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Long enough for a clock that ticks in tens of nanoseconds, and short enough to avoid interruptions.
const SPAN: Duration = Duration::from_millis(4);
const WARM_UP: u64 = 200;
/// How many calls of each thread may be queued on the device.
const BATCH: u64 = 64;

/// What a thread gets: it prepares itself, calls [`time`](Run::time) once, and cleans up.
pub struct Run<'a> {
    iterations: u64,
    together: &'a Barrier,
    /// In nanoseconds, for each call.
    taken: Cell<f64>,
}

impl Run<'_> {
    /// Repeats the work, timed; all threads begin together, and none cleans up while another is measured.
    #[inline]
    pub fn time(&self, mut work: impl FnMut()) {
        for _ in 0..WARM_UP.min(self.iterations) {
            work();
        }
        self.together.wait();
        let start = Instant::now();
        for _ in 0..self.iterations {
            work();
        }
        self.taken.set(start.elapsed().as_nanos() as f64 / self.iterations as f64);
        self.together.wait();
    }

    /// Like [`time`](Run::time), for asynchronous work: from time to time the thread waits for it, untimed. So the
    /// queues stay short, and the cost of a call is not hidden behind a slower device. Only whole batches: where a queue
    /// gets full, the later calls of a batch take longer, so a library that is measured with a shorter one looks faster.
    pub fn time_and_wait(&self, mut work: impl FnMut(), wait: impl Fn()) {
        let mut some = |batches: u64| {
            let mut taken = Duration::ZERO;
            for _ in 0..batches {
                let start = Instant::now();
                for _ in 0..BATCH {
                    work();
                }
                taken += start.elapsed();
                wait();
            }
            taken.as_nanos() as f64 / (batches * BATCH) as f64
        };
        some(WARM_UP.min(self.iterations).div_ceil(BATCH));
        self.together.wait();
        self.taken.set(some(self.iterations.div_ceil(BATCH)));
        self.together.wait();
    }
}

/// One library doing one task.
pub struct Bench {
    pub task: &'static str,
    pub library: &'static str,
    /// How many scopes (or calls) one iteration makes.
    pub per_iteration: u64,
    pub run: Box<dyn Fn(&Run) + Sync>,
}

impl Bench {
    pub fn new(task: &'static str, library: &'static str, run: impl Fn(&Run) + Sync + 'static) -> Bench {
        Bench { task, library, per_iteration: 1, run: Box::new(run) }
    }

    /// Nanoseconds per scope, the mean over the threads.
    fn once(&self, threads: usize, iterations: u64) -> f64 {
        let together = Barrier::new(threads);
        let taken: f64 = std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads)
                .map(|_| {
                    scope.spawn(|| {
                        let run = Run { iterations, together: &together, taken: Cell::default() };
                        (self.run)(&run);
                        run.taken.get()
                    })
                })
                .collect();
            running.into_iter().map(|thread| thread.join().expect("a measured thread panicked")).sum()
        });
        taken / threads as f64 / self.per_iteration as f64
    }

    /// Whether the task works here at all: if one of several threads panicked, the others would wait for ever.
    pub fn works(&self) -> bool {
        catch_unwind(AssertUnwindSafe(|| self.once(1, 1))).is_ok()
    }

    /// How many cores the process keeps busy while one thread does this.
    pub fn cores(&self, iterations: u64) -> Option<f64> {
        let (busy, start) = (processor_time()?, Instant::now());
        self.once(1, iterations);
        Some((processor_time()? - busy).as_secs_f64() / start.elapsed().as_secs_f64())
    }

    /// How many iterations take about the span.
    fn calibrate(&self, threads: usize) -> u64 {
        let once = self.once(threads, 200).max(1.0) * self.per_iteration as f64;
        ((SPAN.as_nanos() as f64 / once) as u64).clamp(10, 1_000_000)
    }
}

/// The processor time of all threads of this process so far, which Linux tells in ticks of 10 ms.
fn processor_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field, in parentheses, may contain spaces.
    let ticks: Vec<u64> =
        stat.rsplit(')').next()?.split_whitespace().skip(11).take(2).flat_map(str::parse).collect();
    Some(Duration::from_millis(ticks.iter().sum::<u64>() * 10))
}

/// The quartiles over several repetitions.
#[derive(Clone)]
pub struct Row {
    pub task: &'static str,
    pub library: &'static str,
    pub threads: usize,
    pub median: f64,
    pub low: f64,
    pub high: f64,
    /// In the order of the repetitions.
    times: Vec<f64>,
}

impl Row {
    /// How many times as long as the other one it took, the median over the repetitions. What the driver takes may
    /// have two values that alternate from one minute to the next; then a quotient of medians compares one with the
    /// other, and quotients within a repetition do not.
    pub fn times_as_long_as(&self, other: &Row) -> f64 {
        let mut ratios: Vec<f64> =
            self.times.iter().zip(&other.times).map(|(ours, theirs)| ours / theirs).collect();
        ratios.sort_by(f64::total_cmp);
        ratios[(ratios.len() - 1) / 2]
    }
}

/// Measures all of them on this many threads. The repetitions are interleaved, so that disturbances of the machine
/// affect all of them.
pub fn measure(benches: &[Bench], threads: usize, repetitions: usize) -> Vec<Row> {
    let iterations: Vec<u64> = benches.iter().map(|bench| bench.calibrate(threads)).collect();
    let mut times = vec![Vec::new(); benches.len()];
    for _ in 0..repetitions {
        for (at, bench) in benches.iter().enumerate() {
            times[at].push(bench.once(threads, iterations[at]));
        }
    }
    benches.iter().zip(times).map(|(bench, times)| row(bench, threads, times)).collect()
}

fn row(bench: &Bench, threads: usize, times: Vec<f64>) -> Row {
    let mut sorted = times.clone();
    sorted.sort_by(f64::total_cmp);
    let quantile = |part: usize| sorted[(sorted.len() - 1) * part / 4];
    Row {
        task: bench.task,
        library: bench.library,
        threads,
        median: quantile(2),
        low: quantile(1),
        high: quantile(3),
        times,
    }
}
