//! Launches: what they ask for, and whether the device has it.

use super::MOST_THREADS;
use crate::driver::ffi::CUresult;
use crate::sim::device::SM_COUNT;
use crate::sim::graph::{Kernel, Operation, Parameters};
use crate::sim::machine::*;
use std::sync::Arc;

const COOPERATIVE_LAUNCH_TOO_LARGE: CUresult = 720;

/// What a launch asks for.
pub(in crate::sim) struct Asked {
    pub(in crate::sim) function: usize,
    pub(in crate::sim) grid: [u32; 3],
    pub(in crate::sim) block: [u32; 3],
    pub(in crate::sim) shared: usize,
    pub(in crate::sim) cooperative: bool,
}

impl Machine {
    /// The offset and size of each parameter of a kernel.
    pub(in crate::sim) fn parameters(&mut self, function: usize) -> Answer<Vec<(usize, usize)>> {
        let (program, _, entry) = self.program_of(function)?;
        Ok(program.entries[entry].parameters.iter().map(|it| (it.offset, it.size)).collect())
    }

    /// A launch is of the context that is current; one that is wrong invalidates the stream's capture.
    pub(super) fn launch(&mut self, asked: &Asked, stream: usize, parameters: Parameters) -> Answer<()> {
        let current = self.healthy_current()?;
        self.program_of(asked.function)?;
        let to = self.stream_of(stream)?;
        self.capturing(stream)?;
        if self.function(asked.function)?.context != current || to.context != current {
            return self
                .refuse(INVALID_HANDLE, "the function and the stream are of the context that is current");
        }
        let kernel = self.kernel(asked, parameters);
        let kernel = self.breaks_capture(stream, kernel)?;
        self.record_or_enqueue(stream, &to, Operation::Kernel(kernel))
    }

    /// What a launch asks for, to be launched.
    pub(in crate::sim) fn kernel(&mut self, asked: &Asked, parameters: Parameters) -> Answer<Kernel> {
        let (program, variables, entry) = self.program_of(asked.function)?;
        self.check_size(asked, program.entries[entry].body.shared)?;
        Ok(Kernel {
            function: asked.function,
            context: self.function(asked.function)?.context,
            name: program.entries[entry].name.clone(),
            program,
            entry,
            variables,
            grid: asked.grid,
            block: asked.block,
            shared: asked.shared,
            parameters: Arc::new(parameters),
        })
    }

    fn check_size(&mut self, asked: &Asked, fixed: usize) -> Answer<()> {
        // Three sizes of 32 bits have a product that 64 bits cannot hold.
        let count = |sizes: [u32; 3]| sizes.iter().fold(1u64, |all, size| all.saturating_mul((*size).into()));
        let (grid, block) = (asked.grid, asked.block);
        let [most_x, most_y, most_z] = [2_147_483_647u32, 65_535, 65_535];
        let fits = grid[0] <= most_x && grid[1] <= most_y && grid[2] <= most_z && block[2] <= 64;
        if !fits || count(grid) == 0 || count(block) == 0 || count(block) > MOST_THREADS {
            return self
                .refuse(INVALID_VALUE, format_args!("a grid of {grid:?} blocks of {block:?} threads"));
        }
        let limit = self.function(asked.function)?.dynamic_limit;
        if asked.shared > limit {
            let shared = asked.shared;
            return self
                .refuse(INVALID_VALUE, format_args!("{shared} bytes of shared memory, beside {fixed}"));
        }
        if asked.cooperative {
            let each = self.occupancy(asked.function, count(block) as i32, asked.shared)?;
            if count(grid) > u64::from(SM_COUNT) * each as u64 {
                let why = format!("{} blocks do not run at once", count(grid));
                return self.refuse(COOPERATIVE_LAUNCH_TOO_LARGE, why);
            }
        }
        Ok(())
    }
}
