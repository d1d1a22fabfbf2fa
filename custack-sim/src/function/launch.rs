//! Launches: their parameters, and whether the device supports them.

use super::cluster::{self, INVALID_CLUSTER_SIZE};
use super::{MOST_THREADS, Settings};
use crate::context::{GREATEST_PRIORITY, LEAST_PRIORITY};
use crate::device::SM_COUNT;
use crate::graph::{Kernel, Operation, Parameters};
use crate::machine::*;
use crate::ptx::{Entry, Program, threads_with};
use crate::stream::Stream;
use custack_sys::ffi::CUresult;
use std::collections::BTreeMap;
use std::sync::Arc;

const COOPERATIVE_LAUNCH_TOO_LARGE: CUresult = 720;
/// Threads that a multiprocessor has room for, however many registers each has.
const ALWAYS_FIT: u64 = 256;

/// The parameters of a launch.
pub(crate) struct Asked {
    pub(crate) function: usize,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: usize,
    pub(crate) cooperative: bool,
    pub(crate) cluster: Option<[u32; 3]>,
    /// How the blocks of a cluster are spread over the multiprocessors; 0 leaves it to the driver.
    pub(crate) scheduling: u32,
    /// What else the node of a captured launch keeps.
    pub(crate) kept: BTreeMap<u32, [u32; 3]>,
}

/// The default streams' handles are NULL and the numbers up to this one.
pub(super) const LAST_DEFAULT_STREAM: usize = 2;
const COOPERATIVE: u32 = 2;
const CLUSTER_DIMENSION: u32 = 4;
const CLUSTER_SCHEDULING: u32 = 5;
const SPREAD: u32 = 1;
const LOAD_BALANCING: u32 = 2;
const PRIORITY: u32 = 8;
const MEM_SYNC_DOMAIN: u32 = 10;
const PREFERRED_CARVEOUT: u32 = 14;
/// The numbers of attributes that a launch may have and that change nothing here.
const WITHOUT_EFFECT: [u32; 9] = [0, 1, 6, 7, 9, 11, 12, 13, 16];

impl Asked {
    /// Whether there is such a block.
    pub(super) fn is_block(block: [u32; 3]) -> bool {
        (1..=MOST_THREADS).contains(&count(block))
    }

    /// Whether an attribute says the size of clusters, and that they have no blocks.
    pub(super) fn is_empty_cluster(id: u32, value: [u32; 3]) -> bool {
        id == CLUSTER_DIMENSION && value.contains(&0) && value != [0; 3]
    }

    /// Adds an attribute of a launch, given by its number and value; false for one that there is not.
    pub(super) fn add(&mut self, id: u32, value: [u32; 3]) -> bool {
        match id {
            COOPERATIVE => self.cooperative = value[0] != 0,
            CLUSTER_DIMENSION => self.cluster = Some(value),
            CLUSTER_SCHEDULING => {
                self.scheduling = value[0];
                return value[0] <= LOAD_BALANCING;
            }
            PRIORITY => {
                let priority = (value[0] as i32).clamp(GREATEST_PRIORITY, LEAST_PRIORITY);
                self.kept.insert(id, [priority as u32, 0, 0]);
            }
            PREFERRED_CARVEOUT | MEM_SYNC_DOMAIN => {
                self.kept.insert(id, [value[0], 0, 0]);
                return value[0] <= if id == MEM_SYNC_DOMAIN { 1 } else { 100 };
            }
            _ => return WITHOUT_EFFECT.contains(&id),
        }
        true
    }
}

/// The product, which may overflow 64 bits.
fn count(sizes: [u32; 3]) -> u64 {
    sizes.iter().fold(1u64, |all, size| all.saturating_mul((*size).into()))
}

impl Asked {
    /// What a kernel node tells of it.
    fn attributes(&self) -> BTreeMap<u32, [u32; 3]> {
        let cooperative = self.cooperative.then_some((COOPERATIVE, [1, 0, 0]));
        cooperative.into_iter().chain(self.cluster.map(|cluster| (CLUSTER_DIMENSION, cluster))).collect()
    }

    /// How a launch spreads its clusters, which the driver has decided when it is captured, and not when a node is made.
    fn launched_scheduling(&self) -> u32 {
        if self.scheduling == 0 { SPREAD } else { self.scheduling }
    }

    /// Whether several blocks of a cluster may be on one multiprocessor.
    pub(super) fn packed(&self) -> bool {
        self.scheduling == LOAD_BALANCING
    }
}

impl Machine {
    /// The offset and size of each parameter of a kernel.
    pub(crate) fn parameters(&mut self, function: usize) -> Answer<Vec<(usize, usize)>> {
        let (program, _, entry) = self.program_of(function)?;
        Ok(program.entries[entry].parameters.iter().map(|it| (it.offset, it.size)).collect())
    }

    /// Those of one parameter.
    pub(crate) fn parameter(&mut self, function: usize, at: usize) -> Answer<Option<(usize, usize)>> {
        let (program, _, entry) = self.program_of(function)?;
        Ok(program.entries[entry].parameters.get(at).map(|it| (it.offset, it.size)))
    }

    /// A launch is of the context that is current; one that is wrong invalidates the stream's capture.
    pub(super) fn launch(&mut self, asked: &Asked, stream: usize, parameters: Parameters) -> Answer<()> {
        let to = self.can_launch_in(stream)?;
        self.program_of(asked.function)?;
        self.is_of(asked.function, to.context)?;
        // Too much shared memory is its own fault in a capture, and elsewhere one of too many blocks at once.
        let fits = self.not_empty(asked).and_then(|()| self.check_cluster(asked)).map(|_| ());
        let captures = self.capturing(stream)?;
        let fits = fits.and_then(|()| if captures { self.check_shared(asked) } else { Ok(()) });
        let kernel = fits.and_then(|()| self.kernel(asked, parameters));
        let kernel = kernel.and_then(|kernel| self.on_part_of(&to, asked, kernel));
        let mut kernel = self.breaks_capture(stream, kernel)?;
        kernel.attributes.extend(&asked.kept);
        kernel.attributes.insert(CLUSTER_SCHEDULING, [asked.launched_scheduling(), 0, 0]);
        self.record_or_enqueue(stream, &to, Operation::Kernel(kernel))
    }

    /// A launch with a configuration looks at its function before its attributes, and then at its block.
    pub(super) fn is_of_stream_to_launch(&mut self, function: usize, stream: usize) -> Answer<()> {
        let to = self.can_launch_in(stream)?;
        self.program_of(function)?;
        self.is_of(function, to.context)
    }

    /// A block that cannot be invalidates the stream's capture.
    pub(super) fn check_block(&mut self, stream: usize, block: [u32; 3]) -> Answer<()> {
        if Asked::is_block(block) {
            return Ok(());
        }
        let refused = self.refuse(INVALID_VALUE, format_args!("blocks of {block:?} threads"));
        self.breaks_capture(stream, refused)
    }

    fn is_of(&mut self, function: usize, context: Handle) -> Answer<()> {
        if self.function(function)?.context != context {
            return self.refuse(INVALID_HANDLE, "the function and the stream are of one context");
        }
        Ok(())
    }

    /// Of a default stream that is what is current; no capture forbids to ask.
    pub(super) fn is_of_stream(&mut self, function: usize, stream: usize) -> Answer<()> {
        let context = match stream {
            0..=LAST_DEFAULT_STREAM => self.healthy_current()?,
            _ => self.stream_of(stream)?.context,
        };
        self.is_of(function, context)
    }

    /// The kernel on the multiprocessors of the stream's green context.
    fn on_part_of(&mut self, stream: &Stream, asked: &Asked, kernel: Kernel) -> Answer<Kernel> {
        let part = self.part_of(stream);
        if let Some(part) = part.filter(|_| asked.cooperative) {
            self.check_cooperative(asked, part.count())?;
        }
        Ok(Kernel { part, green: stream.green, ..kernel })
    }

    /// The stream is looked at before the function.
    pub(crate) fn can_launch_in(&mut self, stream: usize) -> Answer<Stream> {
        let to = self.stream_of(stream)?;
        self.capturing(stream)?;
        Ok(to)
    }

    /// What a launch asks for, to be launched.
    pub(crate) fn kernel(&mut self, asked: &Asked, parameters: Parameters) -> Answer<Kernel> {
        let (program, variables, entry) = self.program_of(asked.function)?;
        self.check_size(asked, &program.entries[entry])?;
        let cluster = self.check_cluster(asked)?;
        self.check_shared(asked)?;
        self.check_registers(asked, &program, entry)?;
        let context = self.function(asked.function)?.context;
        Ok(Kernel {
            function: asked.function,
            context,
            name: program.entries[entry].name.clone(),
            program,
            entry,
            variables,
            grid: asked.grid,
            block: asked.block,
            cluster,
            shared: asked.shared,
            stack: self.stack_size(context),
            parameters: Arc::new(parameters),
            attributes: asked.attributes(),
            green: 0,
            part: None,
        })
    }

    fn check_size(&mut self, asked: &Asked, entry: &Entry) -> Answer<()> {
        let (grid, block) = (asked.grid, asked.block);
        let [most_x, most_y, most_z] = [2_147_483_647u32, 65_535, 65_535];
        let fits = grid[0] <= most_x && grid[1] <= most_y && grid[2] <= most_z && block[2] <= 64;
        if !fits || count(grid) == 0 || count(block) == 0 || count(block) > MOST_THREADS {
            return self
                .refuse(INVALID_VALUE, format_args!("a grid of {grid:?} blocks of {block:?} threads"));
        }
        let most = Settings::most_threads(entry);
        if count(block) > most || entry.directives.block.is_some_and(|wanted| wanted != block) {
            let why = format!("blocks of {block:?} threads, where the kernel says how many there are");
            return self.refuse(INVALID_VALUE, why);
        }
        if asked.cooperative {
            self.check_cooperative(asked, SM_COUNT)?;
        }
        Ok(())
    }

    /// A block whose threads have more registers than a multiprocessor is not launched.
    fn check_registers(&mut self, asked: &Asked, program: &Program, entry: usize) -> Answer<()> {
        // A block of this size fits, however many registers each thread has.
        if count(asked.block) <= ALWAYS_FIT {
            return Ok(());
        }
        let registers = program.registers(entry);
        if count(asked.block) > threads_with(registers).into() {
            let why = format!("blocks of {:?} threads, of which each has {registers} registers", asked.block);
            return self.refuse(OUT_OF_RESOURCES, why);
        }
        Ok(())
    }

    /// All blocks run at once on these many multiprocessors.
    fn check_cooperative(&mut self, asked: &Asked, processors: u32) -> Answer<()> {
        let (blocks, threads) = (count(asked.grid), count(asked.block));
        let each = self.blocks_at_once(asked.function, threads as i32, asked.shared)?;
        if blocks > u64::from(processors) * each as u64 {
            return self
                .refuse(COOPERATIVE_LAUNCH_TOO_LARGE, format_args!("{blocks} blocks cannot run at once"));
        }
        Ok(())
    }

    fn check_shared(&mut self, asked: &Asked) -> Answer<()> {
        let (program, _, entry) = self.program_of(asked.function)?;
        let (shared, fixed) = (asked.shared, program.entries[entry].body.shared);
        if shared > self.function(asked.function)?.settings.dynamic_limit {
            return self
                .refuse(INVALID_VALUE, format_args!("{shared} bytes of shared memory, beside {fixed}"));
        }
        Ok(())
    }

    /// How large the clusters of a launch are. All zeros mean that no size is set.
    fn check_cluster(&mut self, asked: &Asked) -> Answer<Option<[u32; 3]>> {
        let settings = self.function(asked.function)?.settings;
        let own = settings.cluster.map(|size| size as u32);
        let cluster = match asked.cluster.filter(|cluster| *cluster != [0; 3]) {
            Some(cluster) => cluster,
            None if settings.must_have_cluster() => {
                return self.refuse(INVALID_CLUSTER_SIZE, "the kernel needs the size of its clusters");
            }
            None if own == [0; 3] => return Ok(None),
            None => own,
        };
        let grid = asked.grid;
        let most = cluster::most_blocks(&settings);
        if !cluster::divides(cluster, grid)
            || own != [0; 3] && cluster != own
            || cluster::blocks(cluster) > most
        {
            let why = format!(
                "clusters of {cluster:?} in a grid of {grid:?}; the kernel's are {own:?}, of {most} blocks at most"
            );
            return self.refuse(INVALID_CLUSTER_SIZE, why);
        }
        Ok(Some(cluster))
    }
}
