//! Times one piece of work on several threads at once.

use std::cell::Cell;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Enough for a clock that ticks in tens of nanoseconds, and short enough that nothing else happens meanwhile.
const SPAN: Duration = Duration::from_millis(4);
const WARM_UP: u64 = 200;

/// What a thread gets: it prepares itself, calls [`time`](Run::time) once, and tidies up.
pub struct Run<'a> {
    iterations: u64,
    start: &'a Barrier,
    taken: Cell<Duration>,
}

impl Run<'_> {
    /// Repeats the work, timed; all threads begin together.
    #[inline]
    pub fn time(&self, mut work: impl FnMut()) {
        for _ in 0..WARM_UP.min(self.iterations) {
            work();
        }
        self.start.wait();
        let start = Instant::now();
        for _ in 0..self.iterations {
            work();
        }
        self.taken.set(start.elapsed());
    }
}

/// One library doing one piece of work.
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

    /// Nanoseconds a scope, the mean over the threads.
    fn once(&self, threads: usize, iterations: u64) -> f64 {
        let start = Barrier::new(threads);
        let taken: f64 = std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads)
                .map(|_| {
                    scope.spawn(|| {
                        let run = Run { iterations, start: &start, taken: Cell::default() };
                        (self.run)(&run);
                        run.taken.get().as_nanos() as f64
                    })
                })
                .collect();
            running.into_iter().map(|thread| thread.join().expect("a measured thread panicked")).sum()
        });
        taken / threads as f64 / (iterations * self.per_iteration) as f64
    }

    /// So many iterations take about the span.
    fn calibrate(&self, threads: usize) -> u64 {
        let once = self.once(threads, 200).max(1.0) * self.per_iteration as f64;
        ((SPAN.as_nanos() as f64 / once) as u64).clamp(10, 1_000_000)
    }
}

/// The quartiles of several repetitions.
#[derive(Clone)]
pub struct Row {
    pub task: &'static str,
    pub library: &'static str,
    pub threads: usize,
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

/// Measures all of them on so many threads. The repetitions are interleaved, so that whatever the machine does
/// meanwhile happens to all of them.
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

fn row(bench: &Bench, threads: usize, mut times: Vec<f64>) -> Row {
    times.sort_by(f64::total_cmp);
    let quantile = |part: usize| times[(times.len() - 1) * part / 4];
    Row {
        task: bench.task,
        library: bench.library,
        threads,
        median: quantile(2),
        low: quantile(1),
        high: quantile(3),
    }
}
