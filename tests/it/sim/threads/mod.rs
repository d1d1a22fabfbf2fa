//! Whether the threads of a kernel go on, meet and wait for each other as those of a device do.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

mod barriers;
mod calls;
mod lanes;
mod many;
mod stuck;
mod waits;

use crate::harness::{is_simulated, pushed, run, skip};
use custack::error::CudaError;
use custack::function::{BlockSize, GridSize};
use custack::launch;
use custack::memory::{CopyDestination, DeviceBuffer};
use custack::module::Module;
use custack::stream::{Stream, StreamFlags};

/// Skips the test on a GPU, where there are other sentences, or none and no end.
fn simulated(test: &str) -> bool {
    if !is_simulated() {
        skip(test, "it is about the simulated driver's sentences and limits");
    }
    is_simulated()
}

/// A kernel with these lines behind declarations of functions and variables. `%out` is where the thread has a number of
/// its own, `%to` where those begin.
fn program(declarations: &str, lines: &str) -> String {
    format!(
        ".version 7.0 .target sm_80 .address_size 64
        {declarations}
        .visible .entry k(.param .u64 to) {{
            .reg .b32 %r<40>; .reg .b64 %rd<20>; .reg .pred %p<10>;
            .reg .b32 %t, %lane, %cta, %n, %gid; .reg .b64 %to, %out;
            ld.param.u64 %to, [to]; cvta.to.global.u64 %to, %to;
            mov.u32 %t, %tid.x; mov.u32 %cta, %ctaid.x; mov.u32 %n, %ntid.x; mov.u32 %lane, %laneid;
            mad.lo.u32 %gid, %cta, %n, %t; mad.wide.u32 %out, %gid, 4, %to;
            {lines}
            ret;
        }}"
    )
}

fn launched(
    text: &str,
    grid: impl Into<GridSize>,
    block: impl Into<BlockSize>,
    words: &[u32],
) -> Result<Vec<u32>, CudaError> {
    let module = Module::load_from_bytes(text.as_bytes())?;
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    let mut to = DeviceBuffer::from_slice(words)?;
    let pointer = to.as_device_ptr();
    unsafe { launch!(module.k<<<grid, block, 0, stream>>>(pointer)) }?;
    stream.synchronize()?;
    let mut words = vec![0; words.len()];
    to.copy_to(&mut words[..])?;
    Ok(words)
}

/// What the threads of a kernel leave in as many numbers, which are 0 at first.
#[track_caller]
fn left_by(
    declarations: &str,
    lines: &str,
    grid: impl Into<GridSize> + Send,
    block: impl Into<BlockSize> + Send,
    words: usize,
) -> Vec<u32> {
    let mut left = Vec::new();
    run(|| {
        let _ctx = pushed();
        left = launched(&program(declarations, lines), grid, block, &vec![0; words]).unwrap();
    });
    left
}

/// What the threads of a block leave, each in its number.
#[track_caller]
fn block(lines: &str, threads: u32) -> Vec<u32> {
    left_by(".shared .align 16 .b8 s[8192];", lines, 1, threads, threads as usize)
}

/// The same numbers from a function of each thread's number.
fn each(threads: u32, f: impl Fn(u32) -> u32) -> Vec<u32> {
    (0..threads).map(f).collect()
}
