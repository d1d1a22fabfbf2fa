//! Which of the processes of this machine this one is, as its launcher says.

use crate::error::CudaError;
use std::ffi::{OsStr, OsString};
use std::fmt;

/// A program that starts several processes of a job, and tells each by environment variables which one it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Launcher {
    /// Whoever sets `CUSTACK_LOCAL_RANK`, and `CUSTACK_LOCAL_SIZE` if the number of processes matters.
    Explicit,
    /// PyTorch's `torchrun`: `LOCAL_RANK`, `LOCAL_WORLD_SIZE`.
    Torchrun,
    /// The `mpirun` of Open MPI: `OMPI_COMM_WORLD_LOCAL_RANK`, `OMPI_COMM_WORLD_LOCAL_SIZE`.
    OpenMpi,
    /// The `mpiexec` of MPICH and of Intel MPI: `MPI_LOCALRANKID`, `MPI_LOCALNRANKS`.
    Mpich,
    /// Another one that speaks PMI and has a local rank, such as HPE Cray's: `PMI_LOCAL_RANK`, `PMI_LOCAL_SIZE`.
    Pmi,
    /// `flux run`: `FLUX_TASK_LOCAL_ID`; on one machine `FLUX_JOB_SIZE`.
    Flux,
    /// Slurm's `srun`: `SLURM_LOCALID`, `SLURM_STEP_TASKS_PER_NODE`.
    Slurm,
}

/// The number of this process among those that a launcher has started on this machine, from 0, and where the number is
/// from.
///
/// A launcher may run within another one: `srun` or a batch script starts `mpirun` or `torchrun`, and their processes
/// have both launchers' variables. So the order is that in which they usually start each other, the innermost first:
/// `CUSTACK_LOCAL_RANK`, torchrun's, Open MPI's, MPICH's, PMI's, flux's, Slurm's, and a `LOCAL_RANK` that does not come
/// from torchrun. A variable that is empty counts as unset. `Display` says what was taken and why, and which other
/// launcher says otherwise.
///
/// `RANK`, `PMI_RANK` and `SLURM_PROCID` are not looked at: they count the processes of all machines.
///
/// ```
/// use custack::device::{Launcher, LocalRank};
/// use std::ffi::OsString;
///
/// let variables = |name: &str| match name {
///     "OMPI_COMM_WORLD_LOCAL_RANK" => Some(OsString::from("2")),
///     "OMPI_COMM_WORLD_LOCAL_SIZE" => Some(OsString::from("4")),
///     _ => None,
/// };
/// let rank = LocalRank::from_variables(variables)?;
/// assert_eq!((rank.rank(), rank.size(), rank.launcher()), (2, Some(4), Some(Launcher::OpenMpi)));
/// assert_eq!(rank.to_string(), "local rank 2 of 4 processes, as OMPI_COMM_WORLD_LOCAL_RANK of Open MPI says");
/// # Ok::<(), custack::device::LocalRankError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalRank {
    rank: u32,
    size: Option<u32>,
    source: Source,
    /// Variables of other launchers that say another number.
    others: Vec<(&'static str, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Variable(Launcher, &'static str),
    Program,
    NoLauncher,
}

/// A variable of a launcher that is not what the launcher would write.
///
/// ```
/// use custack::device::LocalRank;
/// use std::ffi::OsString;
///
/// let wrong = |name: &str| (name == "SLURM_LOCALID").then(|| OsString::from("two"));
/// let error = LocalRank::from_variables(wrong).unwrap_err();
/// assert_eq!((error.variable(), error.value()), ("SLURM_LOCALID", "two"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalRankError {
    variable: &'static str,
    value: String,
    expected: &'static str,
}

const A_RANK: &str = "a number of a process, from 0";
const A_COUNT: &str = "a number of processes, from 1";
const COUNTS: &str = "the number of processes on each node, such as 4(x2),3";

/// How a launcher says how many processes it has started on this machine.
enum Size {
    In(&'static str),
    /// That of the job, if there is one machine.
    OfJob,
    /// A list with a number for each machine.
    OfNodes,
}

/// A launcher, the variable of the rank, and that of the size; each is looked at in this order.
const VARIABLES: [(Launcher, &str, Size); 8] = [
    (Launcher::Explicit, "CUSTACK_LOCAL_RANK", Size::In("CUSTACK_LOCAL_SIZE")),
    (Launcher::Torchrun, "LOCAL_RANK", Size::In("LOCAL_WORLD_SIZE")),
    (Launcher::OpenMpi, "OMPI_COMM_WORLD_LOCAL_RANK", Size::In("OMPI_COMM_WORLD_LOCAL_SIZE")),
    (Launcher::Mpich, "MPI_LOCALRANKID", Size::In("MPI_LOCALNRANKS")),
    (Launcher::Pmi, "PMI_LOCAL_RANK", Size::In("PMI_LOCAL_SIZE")),
    (Launcher::Flux, "FLUX_TASK_LOCAL_ID", Size::OfJob),
    (Launcher::Slurm, "SLURM_LOCALID", Size::OfNodes),
    // Others set it too, and some programs export another launcher's number under this name.
    (Launcher::Torchrun, "LOCAL_RANK", Size::In("LOCAL_WORLD_SIZE")),
];

/// What torchrun alone sets, so that its `LOCAL_RANK` is known to be its own.
const TORCHRUN: &str = "TORCHELASTIC_RUN_ID";

impl LocalRank {
    /// What the environment of this process says.
    ///
    /// # Errors
    ///
    /// [`LocalRankError`]: the first variable that is set holds something else than a number.
    #[inline]
    pub fn from_environment() -> Result<LocalRank, LocalRankError> {
        LocalRank::from_variables(|name| std::env::var_os(name))
    }

    /// What these variables say: [`from_environment`](Self::from_environment) with an environment of the program's own.
    ///
    /// # Errors
    ///
    /// As for [`from_environment`](Self::from_environment).
    #[inline]
    pub fn from_variables(variables: impl Fn(&str) -> Option<OsString>) -> Result<LocalRank, LocalRankError> {
        let look = |name: &str| variables(name).filter(|value| !value.is_empty());
        let is_torchrun = look(TORCHRUN).is_some();
        let mut found = None;
        let mut others = Vec::new();
        for (at, (launcher, variable, size)) in VARIABLES.iter().enumerate() {
            let is_last = at + 1 == VARIABLES.len();
            if *launcher == Launcher::Torchrun && is_torchrun == is_last {
                continue;
            }
            let Some(value) = look(variable) else { continue };
            match &found {
                None => found = Some(LocalRank::said_by(*launcher, variable, &value, size, look)?),
                Some(LocalRank { rank, .. }) if number(&value) != Some(*rank) => {
                    others.push((*variable, value.to_string_lossy().into_owned()));
                }
                Some(_) => {}
            }
        }
        let alone = LocalRank { rank: 0, size: Some(1), source: Source::NoLauncher, others: Vec::new() };
        Ok(LocalRank { others, ..found.unwrap_or(alone) })
    }

    /// A number that the program knows, from its communicator for example, and that of all processes if it knows it.
    #[inline]
    pub fn new(rank: u32, size: Option<u32>) -> LocalRank {
        LocalRank { rank, size, source: Source::Program, others: Vec::new() }
    }

    #[inline]
    fn said_by(
        launcher: Launcher,
        variable: &'static str,
        value: &OsStr,
        size: &Size,
        look: impl Fn(&str) -> Option<OsString>,
    ) -> Result<LocalRank, LocalRankError> {
        let rank = number(value).ok_or_else(|| LocalRankError::new(variable, value, A_RANK))?;
        // A number that the rank is not below is about other processes.
        let size = read_size(size, look)?.filter(|size| *size > rank);
        Ok(LocalRank { rank, size, source: Source::Variable(launcher, variable), others: Vec::new() })
    }

    /// The number of this process on this machine, from 0. It is 0 if no launcher has set a variable.
    #[inline]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// How many processes the launcher has started on this machine, if it says so; 1 if there is no launcher.
    #[inline]
    pub fn size(&self) -> Option<u32> {
        self.size
    }

    /// Whose variable was taken; `None` if there was none.
    #[inline]
    pub fn launcher(&self) -> Option<Launcher> {
        match self.source {
            Source::Variable(launcher, _) => Some(launcher),
            Source::Program | Source::NoLauncher => None,
        }
    }

    /// The variable that was taken.
    #[inline]
    pub fn variable(&self) -> Option<&'static str> {
        match self.source {
            Source::Variable(_, variable) => Some(variable),
            Source::Program | Source::NoLauncher => None,
        }
    }
}

#[inline]
fn number(value: &OsStr) -> Option<u32> {
    value.to_str().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
}

#[inline]
fn read_size(size: &Size, look: impl Fn(&str) -> Option<OsString>) -> Result<Option<u32>, LocalRankError> {
    let read = |variable, expected, parse: &dyn Fn(&OsStr) -> Option<u32>| {
        let Some(value) = look(variable) else { return Ok(None) };
        let count = parse(&value).filter(|count| *count > 0);
        count.map(Some).ok_or_else(|| LocalRankError::new(variable, &value, expected))
    };
    let on_one_node = || look("FLUX_JOB_NNODES").is_some_and(|nodes| nodes == "1");
    match size {
        Size::In(variable) => read(variable, A_COUNT, &number),
        Size::OfJob if on_one_node() => read("FLUX_JOB_SIZE", A_COUNT, &number),
        Size::OfJob => Ok(None),
        Size::OfNodes => {
            let node = look("SLURM_NODEID").and_then(|node| number(&node)).unwrap_or(0);
            read("SLURM_STEP_TASKS_PER_NODE", COUNTS, &|list| count_of(list.to_str()?, node))
        }
    }
}

/// The number for this node in a list of Slurm's, such as `4(x2),3`: two nodes with four, and one with three.
#[inline]
fn count_of(list: &str, node: u32) -> Option<u32> {
    let mut before = 0u32;
    for item in list.split(',') {
        let (count, nodes) = match item.split_once("(x") {
            Some((count, rest)) => (count, rest.strip_suffix(')')?.parse::<u32>().ok()?),
            None => (item, 1),
        };
        before = before.checked_add(nodes)?;
        if node < before {
            return number(OsStr::new(count));
        }
    }
    None
}

impl LocalRankError {
    #[inline]
    fn new(variable: &'static str, value: &OsStr, expected: &'static str) -> LocalRankError {
        LocalRankError { variable, value: value.to_string_lossy().into_owned(), expected }
    }

    /// The variable.
    #[inline]
    pub fn variable(&self) -> &'static str {
        self.variable
    }

    /// What it holds.
    #[inline]
    pub fn value(&self) -> &str {
        &self.value
    }

    /// `InvalidValue`, with the sentence as this thread's note of what was asked. Not a `From`: a second type that becomes a
    /// `CudaError` by `?` would leave the compiler in doubt in programs where there is only one now.
    #[inline]
    pub(super) fn refusal(&self) -> CudaError {
        CudaError::InvalidValue.note(format_args!("to take the number of this process: {self}"))
    }
}

impl std::error::Error for LocalRankError {}

impl fmt::Display for LocalRankError {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the environment variable {} holds {:?}, which is not {}",
            self.variable, self.value, self.expected
        )
    }
}

impl fmt::Display for Launcher {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Launcher::Explicit => "the user",
            Launcher::Torchrun => "torchrun",
            Launcher::OpenMpi => "Open MPI",
            Launcher::Mpich => "MPICH or Intel MPI",
            Launcher::Pmi => "PMI",
            Launcher::Flux => "flux",
            Launcher::Slurm => "Slurm",
        })
    }
}

impl fmt::Display for LocalRank {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "local rank {}", self.rank)?;
        match self.size {
            Some(1) => f.write_str(" of one process")?,
            Some(size) => write!(f, " of {size} processes")?,
            None => {}
        }
        match self.source {
            Source::Variable(Launcher::Explicit, variable) => write!(f, ", as {variable} says")?,
            Source::Variable(launcher, variable) => write!(f, ", as {variable} of {launcher} says")?,
            Source::Program => f.write_str(", as the program says")?,
            Source::NoLauncher => f.write_str(", as no launcher's variable is set")?,
        }
        for (at, (variable, value)) in self.others.iter().enumerate() {
            let before = if at == 0 { ", and not " } else { " or " };
            write!(f, "{before}{value}, as {variable} says")?;
        }
        Ok(())
    }
}
