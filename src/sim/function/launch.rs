//! Launches: what they ask for, and whether the device has it.

use super::MOST_THREADS;
use crate::driver::ffi::CUresult;
use crate::sim::device::SM_COUNT;
use crate::sim::machine::*;
use crate::sim::ptx::Launch;

const COOPERATIVE_LAUNCH_TOO_LARGE: CUresult = 720;

/// What a launch asks for.
pub(super) struct Asked {
    pub(super) function: usize,
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) shared: usize,
    pub(super) stream: usize,
    pub(super) cooperative: bool,
}

impl Machine {
    /// The offset and size of each parameter of a kernel.
    pub(super) fn parameters(&mut self, function: usize) -> Answer<Vec<(usize, usize)>> {
        let (program, _, entry) = self.program_of(function)?;
        Ok(program.entries[entry].parameters.iter().map(|it| (it.offset, it.size)).collect())
    }

    pub(super) fn launch(&mut self, asked: &Asked, parameters: Vec<u8>) -> Answer<()> {
        let current = self.healthy_current()?;
        let (program, variables, entry) = self.program_of(asked.function)?;
        let stream = self.stream_of(asked.stream)?;
        if self.function(asked.function)?.context != current || stream.context != current {
            return self
                .refuse(INVALID_HANDLE, "the function and the stream are of the context that is current");
        }
        self.check_size(asked, program.entries[entry].body.shared)?;
        let launch = Launch {
            program,
            entry,
            variables,
            grid: asked.grid,
            block: asked.block,
            dynamic_shared: asked.shared,
            parameters,
        };
        self.enqueue(asked.stream, &stream, move || launch.run().map_err(|fault| (fault.status, fault.why)))
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
