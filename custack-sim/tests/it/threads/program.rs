//! A kernel of some lines, and what it leaves in memory.

use crate::gpu::{Buffer, Module, Result, Size, Stream};

/// A kernel with these lines behind declarations of functions and variables. `%out` is where the thread has a number of
/// its own, `%to` where those begin.
pub(super) fn program(declarations: &str, lines: &str) -> String {
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

pub(super) fn launched(
    text: &str,
    grid: impl Into<Size>,
    block: impl Into<Size>,
    words: &[u32],
) -> Result<Vec<u32>> {
    let module = Module::load(text.as_bytes())?;
    let stream = Stream::new()?;
    let to = Buffer::from_slice(words)?;
    let pointer = to.address();
    // SAFETY: the kernels of these tests stay within their memory, or are to fail.
    unsafe { launch!(module.k<<<grid, block, 0, stream>>>(pointer)) }?;
    stream.synchronize()?;
    let mut words = vec![0; words.len()];
    to.copy_to(&mut words[..])?;
    Ok(words)
}
