//! Small kernels that the tests here make of a few lines of PTX.

#![allow(clippy::undocumented_unsafe_blocks, reason = "each kernel writes no more than its output has")]

use crate::gpu::{Buffer, Module, Stream, pushed};

fn text(body: &str) -> String {
    format!(
        ".version 8.3 .target sm_90 .address_size 64 .visible .entry k(.param .u64 from, .param .u64 to) {{
        .reg .b64 %from, %to; .reg .b32 %lane, %t; ld.param.u64 %from, [from]; ld.param.u64 %to, [to];
        mov.u32 %lane, %laneid; mov.u32 %t, %tid.x;
        {body} ret; }}"
    )
}

/// What a block of `threads` threads writes at `%to`, where `%from` has the input.
pub(super) fn compute(body: &str, threads: u32, input: &[u8], size: usize) -> Vec<u8> {
    let _ctx = pushed();
    let module = Module::load(text(body).as_bytes()).unwrap();
    let stream = Stream::new().unwrap();
    let mut input = input.to_vec();
    input.resize(input.len().max(16), 0);
    let from = Buffer::from_slice(&input).unwrap();
    let to = Buffer::from_slice(&vec![0u8; size]).unwrap();
    let (a, b) = (from.address(), to.address());
    unsafe { launch!(module.k<<<1, threads, 0, stream>>>(a, b)) }.unwrap();
    stream.synchronize().unwrap_or_else(|error| panic!("{error}: {body}"));
    let mut output = vec![0; size];
    to.copy_to(&mut output[..]).unwrap();
    output
}

/// Whether no kernel can be made of this.
pub(super) fn refused(body: &str) -> bool {
    let _ctx = pushed();
    match Module::load(text(body).as_bytes()) {
        Err(_) => true,
        Ok(module) => module.get_function(c"k").is_err(),
    }
}

/// The words of what a kernel has written.
pub(super) fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
}
