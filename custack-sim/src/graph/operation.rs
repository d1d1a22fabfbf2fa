//! The operations of nodes.

use super::attributes::{self, KernelAttributes};
use super::memory::Allocation;
use crate::abi::call_host_function;
use crate::context::Multiprocessors;
use crate::function::{INVALID_CLUSTER_SIZE, MOST_BLOCKS_OF_CLUSTER, blocks_of_cluster, divides};
use crate::machine::Handle;
use crate::memory::{self, Batch, End, HostMemory};
use crate::ptx::{Launch, Program};
use crate::stream::as_host_function;
use custack_sys::ffi::{CUhostFn, CUresult};
use std::sync::Arc;

pub(crate) type Done = Result<(), (CUresult, String)>;

/// An operation. The handles that it uses are looked up at the launch.
#[derive(Clone)]
pub(crate) enum Operation {
    Empty,
    Kernel(Kernel),
    Copy(Copy),
    Fill(Fill),
    Host(Host),
    /// A graph that only this node owns.
    Child(usize),
    Record(usize),
    Wait(usize),
    Allocate(Allocation),
    Free(u64),
    Batch(Batch),
}

#[derive(Clone)]
pub(crate) struct Kernel {
    pub(crate) function: usize,
    pub(crate) context: Handle,
    pub(crate) name: String,
    pub(crate) program: Arc<Program>,
    pub(crate) entry: usize,
    pub(crate) variables: Arc<Vec<u64>>,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    /// How many blocks each cluster has, if the launch or the kernel says it.
    pub(crate) cluster: Option<[u32; 3]>,
    pub(crate) shared: usize,
    /// The limit of each thread's stack, as it is when the kernel is launched.
    pub(crate) stack: usize,
    pub(crate) parameters: Arc<Parameters>,
    pub(crate) attributes: KernelAttributes,
    /// The green context in whose stream it is launched or captured, or 0.
    pub(crate) green: Handle,
    /// The green context's multiprocessors.
    pub(crate) part: Option<Multiprocessors>,
}

/// The values of a kernel's parameters, and the address of each; the program may query them.
#[derive(Default)]
pub(crate) struct Parameters {
    pub(crate) values: Vec<u8>,
    pub(crate) addresses: Vec<usize>,
    /// How a program says where all values are, if they came in one piece, and their size.
    pub(crate) piece: Option<([usize; 5], Box<usize>)>,
}

impl Parameters {
    pub(crate) fn new(values: Vec<u8>, offsets: &[usize]) -> Parameters {
        let start = values.as_ptr().addr();
        Parameters { addresses: offsets.iter().map(|offset| start + offset).collect(), values, piece: None }
    }

    /// Values whose addresses are not told one by one.
    pub(crate) fn in_one_piece(values: Vec<u8>) -> Parameters {
        let size = Box::new(values.len());
        let list = [1, values.as_ptr().expose_provenance(), 2, (&raw const *size).expose_provenance(), 0];
        Parameters { addresses: Vec::new(), values, piece: Some((list, size)) }
    }
}

/// The kind of a side that is at whatever the address says.
const UNIFIED: u32 = 4;

/// One side of a copy, as the program describes it.
#[derive(Clone, Copy)]
pub(crate) struct Side {
    /// 1 the host, 2 the device, 3 an array, 4 whatever the address says: memory of the host's is in `host`, too.
    pub(crate) kind: u32,
    pub(crate) host: HostMemory,
    pub(crate) device: u64,
    pub(crate) array: usize,
    /// Bytes, rows and slices before the first one.
    pub(crate) start: [usize; 3],
    pub(crate) level: usize,
    pub(crate) pitch: usize,
    pub(crate) height: usize,
}

#[derive(Clone, Copy)]
pub(crate) struct Copy {
    pub(crate) context: Handle,
    /// The context in which the device works, which stays when an executable is changed: that of the memory, or for memory
    /// of none the one that is named, or of the stream which was captured; 0 between places of the host's.
    pub(crate) home: Handle,
    pub(crate) from: Side,
    pub(crate) to: Side,
    /// Bytes, rows, slices.
    pub(crate) extent: [usize; 3],
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fill {
    pub(crate) context: Handle,
    /// As for a copy, but always that of the stream which was captured.
    pub(crate) home: Handle,
    pub(crate) to: u64,
    pub(crate) pitch: usize,
    pub(crate) value: u32,
    pub(crate) element: u32,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// A function of the program, and its argument.
#[derive(Clone, Copy)]
pub(crate) struct Host {
    pub(crate) function: CUhostFn,
    pub(crate) data: usize,
}

impl Host {
    pub(crate) fn run(self) {
        as_host_function(|| call_host_function(self.function, self.data));
    }
}

impl Side {
    pub(crate) fn is_host(&self) -> bool {
        self.kind == 1 || self.kind == UNIFIED && self.host.address() != 0
    }

    /// The same place, of which only the address says where it is.
    fn unified(self) -> Side {
        Side { kind: UNIFIED, device: self.base(), ..self }
    }

    /// The address, the pitch and the height as the program knows them: an array has none.
    pub(super) fn told(&self) -> (u64, usize, usize) {
        if self.kind == 3 { (0, 0, 0) } else { (self.device, self.pitch, self.height) }
    }

    /// The address that the rows are counted from.
    pub(super) fn base(&self) -> u64 {
        if self.is_host() { self.host.address() as u64 } else { self.device }
    }

    /// Bytes from a row to the next: as many as are copied, if nothing is said.
    fn row_pitch(&self, width: usize) -> usize {
        if self.pitch == 0 { self.start[0].saturating_add(width) } else { self.pitch }
    }

    /// How far from the beginning a row is.
    fn offset(&self, width: usize, row: usize, slice: usize) -> usize {
        let [x, y, z] = self.start;
        let rows = (z + slice).saturating_mul(self.height).saturating_add(y + row);
        rows.saturating_mul(self.row_pitch(width)).saturating_add(x)
    }

    /// Bytes from the beginning to the end of the last row.
    pub(crate) fn span(&self, extent: [usize; 3]) -> usize {
        let [width, height, depth] = extent;
        let last = self.offset(width, height.saturating_sub(1), depth.saturating_sub(1));
        last.saturating_add(width)
    }

    fn end(&self, at: usize, width: usize) -> End {
        match self.is_host() {
            true => End::Host(self.host.part(at, width)),
            false => End::Device(self.device.saturating_add(at as u64)),
        }
    }
}

impl Copy {
    /// Rows of this size each, as far apart as the first two are.
    pub(crate) fn of_rows(context: Handle, rows: &[(End, End)], size: usize) -> Copy {
        let side = |end: fn(&(End, End)) -> End| {
            let (first, last) = (end(&rows[0]), end(&rows[rows.len() - 1]));
            let second = end(rows.get(1).unwrap_or(&rows[0]));
            match (first, second, last) {
                (End::Host(from), End::Host(second), End::Host(last)) => {
                    let pitch = second.address() - from.address();
                    Side { pitch, ..End::Host(from.through(last)).into() }
                }
                (End::Device(from), End::Device(second), _) => {
                    Side { pitch: (second - from) as usize, ..End::Device(from).into() }
                }
                (first, ..) => first.into(),
            }
        };
        let (to, from) = (side(|row| row.0), side(|row| row.1));
        Copy { context, home: context, to, from, extent: [size, rows.len(), 1] }
    }

    /// The same copy, between places of which only the addresses say where they are.
    pub(crate) fn unified(self) -> Copy {
        Copy { to: self.to.unified(), from: self.from.unified(), ..self }
    }

    /// Where each row goes, and where it is.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (End, End)> {
        let [width, height, depth] = self.extent;
        let place = move |side: &Side, slice, row| side.end(side.offset(width, row, slice), width);
        (0..depth).flat_map(move |slice| {
            (0..height).map(move |row| (place(&self.to, slice, row), place(&self.from, slice, row)))
        })
    }

    fn run(&self) -> Done {
        let [width, ..] = self.extent;
        self.rows().try_for_each(|(to, from)| memory::transfer(to, from, width))
    }

    /// In the context of the memory that it reads from, or if that is the host's, of what it writes to.
    pub(crate) fn at_home(self) -> Copy {
        let at = match (self.from.is_host(), self.to.is_host()) {
            (false, _) => self.from.device,
            (true, false) => self.to.device,
            (true, true) => return Copy { home: 0, ..self },
        };
        Copy { home: memory::home_of(at, self.context), ..self }
    }

    /// What counts as the kind of a copy: it stays as it is when an executable is changed.
    pub(super) fn kinds(&self) -> (u32, u32, bool) {
        let [_, height, depth] = self.extent;
        (self.from.kind, self.to.kind, height * depth > 1)
    }
}

impl Fill {
    /// Rows of this size each, this far apart.
    pub(crate) fn of_rows(
        context: Handle,
        (rows, pitch): (&[u64], usize),
        pattern: &[u8],
        size: usize,
    ) -> Fill {
        let to = rows.first().copied().unwrap_or(0);
        let value = pattern.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte));
        let (element, width) = (pattern.len() as u32, size / pattern.len());
        Fill { context, home: context, to, pitch, value, element, width, height: rows.len() }
    }

    fn run(&self) -> Done {
        let pattern = &self.value.to_le_bytes()[..self.element as usize];
        let width = self.width.saturating_mul(pattern.len());
        let row = |at| self.to.saturating_add((at * self.pitch) as u64);
        (0..self.height).try_for_each(|at| memory::fill_bytes(row(at), pattern, width))
    }

    /// Bytes from the beginning to the end of the last row.
    pub(super) fn span(&self) -> usize {
        let width = self.width.saturating_mul(self.element as usize);
        self.height.saturating_sub(1).saturating_mul(self.pitch).saturating_add(width)
    }
}

impl Kernel {
    /// The context that a kernel node has: the green one, if it was captured in one.
    pub(super) fn told_context(&self) -> Handle {
        if self.green == 0 { self.context } else { self.green }
    }

    fn run(&self) -> Done {
        let (grid, cluster) = (self.grid, attributes::cluster(&self.attributes).or(self.cluster));
        if let Some(size) = cluster {
            if !divides(size, grid) || blocks_of_cluster(size) > MOST_BLOCKS_OF_CLUSTER {
                let why = format!("kernel {}: clusters of {size:?} in a grid of {grid:?}", self.name);
                return Err((INVALID_CLUSTER_SIZE, why));
            }
        }
        let launch = Launch {
            context: self.context,
            program: Arc::clone(&self.program),
            entry: self.entry,
            variables: Arc::clone(&self.variables),
            grid,
            block: self.block,
            cluster,
            dynamic_shared: self.shared,
            parameters: self.parameters.values.clone(),
            stack: self.stack,
            part: self.part,
        };
        launch.run().map_err(|fault| (fault.status, fault.why))
    }
}

impl Operation {
    /// The number of the node's type.
    pub(super) fn number(&self) -> u32 {
        match self {
            Operation::Kernel(_) => 0,
            Operation::Copy(_) => 1,
            Operation::Fill(_) => 2,
            Operation::Host(_) => 3,
            Operation::Child(_) => 4,
            Operation::Empty => 5,
            Operation::Wait(_) => 6,
            Operation::Record(_) => 7,
            Operation::Allocate(_) => 10,
            Operation::Free(_) => 11,
            Operation::Batch(_) => 12,
        }
    }

    pub(super) fn allocation(&self) -> Option<&Allocation> {
        match self {
            Operation::Allocate(it) => Some(it),
            _ => None,
        }
    }

    pub(super) fn child(&self) -> Option<usize> {
        match self {
            Operation::Child(child) => Some(*child),
            _ => None,
        }
    }

    pub(super) fn is_of_memory(&self) -> bool {
        self.allocation().is_some() || self.freed().is_some()
    }

    /// The address that it frees.
    pub(super) fn freed(&self) -> Option<u64> {
        match self {
            Operation::Free(address) => Some(*address),
            _ => None,
        }
    }

    /// The context that it works in; 0 for what works in none.
    pub(crate) fn context(&self) -> Handle {
        match self {
            Operation::Kernel(kernel) => kernel.context,
            Operation::Copy(copy) => copy.context,
            Operation::Fill(fill) => fill.context,
            Operation::Batch(batch) => batch.context,
            _ => 0,
        }
    }

    /// The context in which the device does it; 0 for what works in none.
    pub(super) fn home(&self) -> Handle {
        match self {
            Operation::Copy(copy) => copy.home,
            Operation::Fill(fill) => fill.home,
            other => other.context(),
        }
    }

    /// Runs an operation that depends on nothing else.
    pub(crate) fn run(&self) -> Done {
        match self {
            Operation::Kernel(kernel) => kernel.run(),
            Operation::Copy(copy) => copy.run(),
            Operation::Fill(fill) => fill.run(),
            Operation::Batch(batch) => batch.run(),
            Operation::Host(host) => {
                host.run();
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl From<End> for Side {
    fn from(end: End) -> Side {
        let (kind, host, device) = match end {
            End::Host(host) => (1, host, 0),
            End::Device(device) => (2, HostMemory::none(), device),
        };
        Side { kind, host, device, array: 0, start: [0; 3], level: 0, pitch: 0, height: 0 }
    }
}
