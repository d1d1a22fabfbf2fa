//! The C functions that say how many blocks run at once, and how large they should be.

// C functions that read and write through the pointers that they get.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use crate::abi::{c_abi, call};
use crate::device::SM_COUNT;
use crate::function::Block;
use crate::machine::*;
use custack_sys::ffi::*;
use std::os::raw::{c_int, c_uint};

/// The only flag: caches do not make blocks fewer.
const DISABLE_CACHING_OVERRIDE: c_uint = 1;
const WARP: c_int = 32;

/// What one asks with a size of blocks.
///
/// # Safety
///
/// `shared` may be called with any size of a block.
unsafe fn shared_for(size: CUoccupancyB2DSize, block: c_int, fixed: usize) -> usize {
    match size {
        // SAFETY: the caller guarantees it.
        Some(size) => unsafe { size(block) },
        None => fixed,
    }
}

/// The size of blocks with which most threads run at once on a multiprocessor, and how many of them; of equal ones the
/// largest. The program is asked for the shared memory of each, and may call the driver meanwhile.
///
/// # Safety
///
/// As for `cuOccupancyMaxPotentialBlockSize`.
unsafe fn best(
    most: Block,
    function: CUfunction,
    size: CUoccupancyB2DSize,
    fixed: usize,
) -> (CUresult, c_int, c_int) {
    let (mut found, mut threads) = ((0, 0), 0);
    let mut rounded = (most.threads + WARP - 1) / WARP * WARP;
    while rounded > 0 && threads < most.per_processor {
        let block = rounded.min(most.threads);
        // SAFETY: as the caller guarantees.
        let shared = unsafe { shared_for(size, block, fixed) };
        let mut blocks = 0;
        let status = call(|m| {
            let function = m.of_kernel(function.addr())?;
            blocks = m.blocks_at_once(function, block, shared)?;
            Ok(())
        });
        if status != CUDA_SUCCESS {
            return (status, 0, 0);
        }
        if blocks * block > threads {
            (found, threads) = ((block, blocks), blocks * block);
        }
        rounded -= WARP;
    }
    (CUDA_SUCCESS, found.0, found.1)
}

fn known_flags(m: &mut Machine, flags: c_uint) -> Answer<()> {
    if flags & !DISABLE_CACHING_OVERRIDE == 0 {
        return Ok(());
    }
    m.refuse(INVALID_VALUE, format_args!("{flags:#x} are no flags of the occupancy"))
}

c_abi! {
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, function: CUfunction, block_size: c_int, shared: usize) {
        cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size, shared, 0)
    }
    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks: *mut c_int, function: CUfunction, block_size: c_int, shared: usize, flags: c_uint) {
        call(|m| {
            m.healthy_current()?;
            if blocks.is_null() {
                return m.refuse(INVALID_VALUE, "the pointer for the result is NULL");
            }
            known_flags(m, flags)?;
            let function = m.of_kernel(function.addr())?;
            blocks.write(m.blocks_at_once(function, block_size, shared)?);
            Ok(())
        })
    }
    fn cuOccupancyMaxPotentialBlockSize(grid: *mut c_int, block: *mut c_int, function: CUfunction, size: CUoccupancyB2DSize, shared: usize, limit: c_int) {
        cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, size, shared, limit, 0)
    }
    fn cuOccupancyMaxPotentialBlockSizeWithFlags(grid: *mut c_int, block: *mut c_int, function: CUfunction, size: CUoccupancyB2DSize, shared: usize, limit: c_int, flags: c_uint) {
        let mut most = Block::default();
        let status = call(|m| {
            m.healthy_current()?;
            if grid.is_null() || block.is_null() || limit < 0 {
                return m.refuse(INVALID_VALUE, format_args!("a pointer for a result is NULL, or at most {limit} threads"));
            }
            known_flags(m, flags)?;
            let function = m.of_kernel(function.addr())?;
            most = m.largest_block(function, limit)?;
            Ok(())
        });
        if status != CUDA_SUCCESS {
            return status;
        }
        let (status, threads, blocks) = best(most, function, size, shared);
        if status == CUDA_SUCCESS {
            grid.write(blocks * SM_COUNT as c_int);
            block.write(threads);
        }
        status
    }
}
