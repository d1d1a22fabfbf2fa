//! A launch: its clusters of blocks, executed on all cores of the host.

use super::super::code::{Body, Fixed, RESERVED, Special};
use super::super::{Entry, Program};
use super::block::{Env, Progress};
use super::cluster::Cluster;
use super::fault::Fault;
use super::heap;
use super::registers::WARP;
use super::shared::address_of;
use super::unended::Unended;
use super::{FUNCTION_STEP, FUNCTIONS, count, unfold};
use crate::context::Multiprocessors;
use crate::device::SM_COUNT;
use crate::machine::Handle;
use crate::memory::{self, KernelRuns, Kind};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{Scope, available_parallelism, scope};
use std::time::{Duration, Instant};

/// A kernel that executes more instructions than this is assumed not to end, unless the program sets another limit.
const MOST_STEPS: u64 = 1 << 33;
static LIMIT: AtomicU64 = AtomicU64::new(MOST_STEPS);

/// Sets the limit of instructions that the warps of a kernel may execute in all, and returns the previous limit.
pub(crate) fn limit_steps(most: u64) -> u64 {
    LIMIT.swap(most, Ordering::Relaxed)
}

/// A worker executes this many instructions of a cluster before it checks whether the kernel has to end.
const TURN: u64 = 1 << 20;
/// After this many such turns the worker's other clusters have theirs: this one may be waiting for them.
const TURNS: u32 = 1 << 6;
/// One core executes a short kernel alone; after this time the others help.
const BEFORE_HELP: Duration = Duration::from_micros(100);
/// The limit of the memory that the waiting clusters of a worker may take at first, in bytes.
const MOST_MEMORY: u64 = 512 << 20;
/// If the clusters of a worker have had this many turns each and none has ended, the worker begins more of them.
const IDLE: usize = 16;
/// The maximum number of threads on a multiprocessor at once.
const THREADS: u64 = 2048;
/// The size of the memory in which the blocks of a cooperative launch count who has arrived, in bytes.
const WORKSPACE: usize = 4096;

/// A kernel with the parameters of a launch.
pub(crate) struct Launch {
    pub(crate) context: Handle,
    pub(crate) program: Arc<Program>,
    pub(crate) entry: usize,
    /// The addresses of the module's variables.
    pub(crate) variables: Arc<Vec<u64>>,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    /// The sizes of a cluster in blocks, if the launch or the kernel gives them.
    pub(crate) cluster: Option<[u32; 3]>,
    pub(crate) dynamic_shared: usize,
    pub(crate) parameters: Vec<u8>,
    /// The stack of each thread in bytes, which limits recursive calls.
    pub(crate) stack: usize,
    /// The multiprocessors that it may use; all of the device if `None`.
    pub(crate) part: Option<Multiprocessors>,
}

impl Launch {
    fn entry(&self) -> &Entry {
        &self.program.entries[self.entry]
    }

    pub(crate) fn run(&self) -> Result<(), Fault> {
        let _kernel = KernelRuns::begin();
        let Entry { body, name, .. } = self.entry();
        if body.has_heap {
            heap::prepare(self.context);
        }
        let workspace = if body.has_workspace { self.workspace() } else { 0 };
        let running = Running {
            launch: self,
            body,
            workspace,
            clusters: count(self.grid) / count(self.blocks_of_cluster()),
            next: AtomicU64::new(0),
            steps: AtomicU64::new(0),
            limit: LIMIT.load(Ordering::Relaxed),
            is_over: AtomicBool::new(false),
            fault: Mutex::new(None),
            unended: Unended::default(),
        };
        scope(|scope| running.work(Some(scope)));
        if workspace != 0 {
            memory::lock().free(workspace);
        }
        let fault = running.fault.into_inner().unwrap_or_else(PoisonError::into_inner);
        let fault = fault.or_else(|| running.unended.fault(running.limit));
        fault.map_or(Ok(()), |fault| Err(fault.within(format_args!("kernel {name}, "))))
    }

    fn blocks_of_cluster(&self) -> [u32; 3] {
        self.cluster.unwrap_or([1; 3])
    }

    fn workspace(&self) -> u64 {
        memory::lock().allocate(Kind::Variable, self.context, WORKSPACE).unwrap_or(0)
    }
}

/// A launch while it is executed.
pub(super) struct Running<'a> {
    pub(super) launch: &'a Launch,
    body: &'a Body,
    workspace: u64,
    clusters: u64,
    /// The first cluster that no worker has claimed.
    next: AtomicU64,
    steps: AtomicU64,
    limit: u64,
    is_over: AtomicBool,
    fault: Mutex<Option<Fault>>,
    unended: Unended,
}

/// The most clusters that a worker claims at a time.
const MOST_CLAIMED: u64 = 64;

/// The clusters of one worker.
struct Worker {
    /// Clusters that have begun and not ended.
    waiting: VecDeque<Box<Cluster>>,
    /// Clusters that have ended, whose memory the next ones use. They are moved often, and are large.
    #[allow(clippy::vec_box, reason = "a cluster is moved from here into the queue")]
    spare: Vec<Box<Cluster>>,
    /// The clusters that it begins next, which no other worker begins.
    claimed: Range<u64>,
    steps: u64,
}

fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| available_parallelism().map_or(1, usize::from).min(64))
}

impl Running<'_> {
    /// Executes clusters until none is left. Only the first worker gets the scope, in which it starts the others.
    fn work<'s>(&'s self, mut helpers: Option<&'s Scope<'s, '_>>) {
        let view = memory::view(self.launch.context);
        let env = Env {
            body: self.body,
            view: &view,
            parameters: &self.launch.parameters,
            grid: self.launch.grid,
            block: self.launch.block,
            cluster: self.launch.blocks_of_cluster(),
            running: self,
        };
        let mut worker = Worker { waiting: VecDeque::new(), spare: Vec::new(), claimed: 0..0, steps: 0 };
        let begun = Instant::now();
        let (mut most, resident) = self.most_at_once();
        let mut idle = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            let new = if worker.waiting.len() < most { self.begin(&env, &mut worker) } else { None };
            let Some(mut cluster) = new.or_else(|| worker.waiting.pop_front()) else { break };
            match self.go_on(&mut cluster, &env, &mut worker.steps) {
                Ok(Progress::Done) => {
                    idle = 0;
                    worker.spare.push(cluster);
                }
                Ok(_) => {
                    idle += 1;
                    worker.waiting.push_back(cluster);
                }
                Err(fault) => return self.fail(fault),
            }
            if idle > IDLE * most && most < resident {
                // They may all be waiting for a block that has not begun.
                (idle, most) = (0, (2 * most).min(resident));
            }
            if helpers.is_some() && begun.elapsed() > BEFORE_HELP {
                self.start_helpers(helpers.take());
            }
        }
        self.unended.tell(&worker.waiting, &env);
    }

    /// Starts workers on the other cores, as far as there are clusters left for them.
    fn start_helpers<'s>(&'s self, scope: Option<&'s Scope<'s, '_>>) {
        let left = self.clusters.saturating_sub(self.next.load(Ordering::Relaxed));
        let wanted = (cores() - 1).min(usize::try_from(left).unwrap_or(usize::MAX));
        let Some(scope) = scope else { return };
        for _ in 0..wanted {
            let named = std::thread::Builder::new().name("simulated processor".to_owned());
            if named.spawn_scoped(scope, || self.work(None)).is_err() {
                return;
            }
        }
    }

    /// How many clusters one worker may have begun and not ended: at first, as memory allows, and at most, as many as
    /// a device runs at once.
    fn most_at_once(&self) -> (usize, usize) {
        let threads = count(self.launch.block).max(1);
        let processors = self.launch.part.map_or(SM_COUNT, Multiprocessors::count);
        let blocks = count(self.launch.blocks_of_cluster());
        let resident = ((THREADS / threads).clamp(1, 32) * u64::from(processors) / blocks).max(1);
        let warps = threads.div_ceil(WARP as u64);
        let each = blocks * (warps * self.body.bytes_of_warp() + self.all_shared() as u64);
        (resident.min(MOST_MEMORY / each.max(1)).max(1) as usize, resident as usize)
    }

    fn shared(&self) -> usize {
        self.body.shared + self.launch.dynamic_shared
    }

    /// The offset of the shared memory that the system reserves.
    fn reserved(&self) -> usize {
        self.shared().next_multiple_of(RESERVED)
    }

    fn all_shared(&self) -> usize {
        if self.body.has_reserved { self.reserved() + RESERVED } else { self.shared() }
    }

    /// Begins the next cluster, if there is one left.
    fn begin(&self, env: &Env<'_>, worker: &mut Worker) -> Option<Box<Cluster>> {
        if worker.claimed.is_empty() {
            worker.claimed = self.claim();
        }
        let index = worker.claimed.next()?;
        let mut cluster = worker.spare.pop().unwrap_or_else(|| {
            Box::new(Cluster::new(self.body, env, count(self.launch.block) as u32, self.all_shared()))
        });
        cluster.begin(index, env);
        Some(cluster)
    }

    /// Claims clusters for this worker: more at a time while many are left, because the workers contend for the
    /// counter.
    fn claim(&self) -> Range<u64> {
        let left = self.clusters.saturating_sub(self.next.load(Ordering::Relaxed));
        let wanted = (left / (8 * cores() as u64)).clamp(1, MOST_CLAIMED);
        let first = self.next.fetch_add(wanted, Ordering::Relaxed).min(self.clusters);
        first..(first + wanted).min(self.clusters)
    }

    /// Executes some turns of a cluster. `steps` counts the worker's instructions that are not yet in the common
    /// count.
    fn go_on(&self, cluster: &mut Cluster, env: &Env<'_>, steps: &mut u64) -> Result<Progress, Fault> {
        let mut turns = 0;
        loop {
            let mut left = TURN;
            let progress = cluster.run(env, &mut left)?;
            turns += 1;
            *steps += TURN - left;
            if *steps > TURN.min(self.limit) {
                let counted = std::mem::take(steps);
                if self.steps.fetch_add(counted, Ordering::Relaxed) + counted > self.limit {
                    self.unended.end();
                    self.is_over.store(true, Ordering::Relaxed);
                }
            }
            if progress != Progress::Turn || turns == TURNS || self.is_over.load(Ordering::Relaxed) {
                return Ok(progress);
            }
        }
    }

    fn fail(&self, fault: Fault) {
        self.is_over.store(true, Ordering::Relaxed);
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fault);
    }

    /// The values, in the lanes of a warp, of a register that no instruction sets. `first` is the number of the warp's
    /// first thread, `ctaid` the block's place in the grid, and `rank` its rank in the cluster.
    pub(super) fn values(&self, fixed: &Fixed, first: u32, ctaid: [u32; 3], rank: u32) -> [u128; WARP] {
        match fixed {
            Fixed::Bits(bits) => [*bits; WARP],
            Fixed::Variable(at, offset) => {
                let address = self.launch.variables.get(*at).copied().unwrap_or(0);
                [address.wrapping_add_signed(*offset).into(); WARP]
            }
            Fixed::Shared(offset) => [address_of(rank, *offset).into(); WARP],
            Fixed::Function(number) => [u128::from(FUNCTIONS + FUNCTION_STEP * number); WARP],
            Fixed::Special(special) => {
                std::array::from_fn(|lane| self.special(*special, first + lane as u32, ctaid, rank))
            }
        }
    }

    fn special(&self, special: Special, thread: u32, ctaid: [u32; 3], rank: u32) -> u128 {
        let Launch { grid, block, dynamic_shared, .. } = self.launch;
        let cluster = self.launch.blocks_of_cluster();
        let lane = thread % WARP as u32;
        let linear = |ctaid: [u32; 3]| {
            let [x, y, z] = ctaid.map(u64::from);
            x + u64::from(grid[0]) * (y + u64::from(grid[1]) * z)
        };
        match special {
            Special::Tid(axis) => unfold(u64::from(thread), *block)[axis as usize].into(),
            Special::Ntid(axis) => block[axis as usize].into(),
            Special::Ctaid(axis) => ctaid[axis as usize].into(),
            Special::Nctaid(axis) => grid[axis as usize].into(),
            Special::Laneid => lane.into(),
            Special::Warpid => (thread / WARP as u32).into(),
            Special::Nwarpid => 64,
            Special::Smid => match self.launch.part {
                Some(part) => part.of_block(linear(ctaid)).into(),
                None => (linear(ctaid) % SM_COUNT as u64).into(),
            },
            Special::Nsmid => SM_COUNT.into(),
            Special::Gridid => 1,
            Special::LanemaskEq => (1u32 << lane).into(),
            Special::LanemaskLe => (u32::MAX >> (31 - lane)).into(),
            Special::LanemaskLt => ((1u32 << lane) - 1).into(),
            Special::LanemaskGe => (u32::MAX << lane).into(),
            Special::LanemaskGt => (u32::MAX << lane << 1).into(),
            Special::Clusterid(axis) => (ctaid[axis as usize] / cluster[axis as usize]).into(),
            Special::Nclusterid(axis) => (grid[axis as usize] / cluster[axis as usize]).into(),
            Special::ClusterCtaid(axis) => unfold(rank.into(), cluster)[axis as usize].into(),
            Special::ClusterNctaid(axis) => cluster[axis as usize].into(),
            Special::ClusterCtarank => rank.into(),
            Special::ClusterNctarank => count(cluster).into(),
            Special::IsExplicitCluster => self.launch.cluster.is_some().into(),
            Special::Envreg(1) => (self.workspace >> 32).into(),
            Special::Envreg(2) => (self.workspace & 0xffff_ffff).into(),
            Special::Envreg(_) | Special::Zero | Special::WideZero => 0,
            Special::DynamicShared => *dynamic_shared as u128,
            Special::TotalShared => self.shared() as u128,
            Special::AggregateShared => (self.shared() + RESERVED) as u128,
            Special::Reserved(offset) => (self.reserved() + usize::from(offset)) as u128,
        }
    }
}
