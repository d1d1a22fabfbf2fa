//! Textures and surfaces: how they are made, and what kernels read and write through them.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

mod filter;
mod made;
mod questions;
mod read;
pub(crate) mod surface;

use custack::error::CudaResult;
use custack::memory::{CopyDestination, DeviceBuffer};
use custack::module::Module;
use custack::stream::{Stream, StreamFlags};

/// A kernel of which each thread has four words in `%r0` to `%r3`, also as the floats `%f0` to `%f3`, and writes what
/// the instruction leaves in `%r4` to `%r7`. The object is in `%rd0`.
pub(crate) fn text(instruction: &str) -> String {
    format!(
        ".version 7.0
        .target sm_70
        .address_size 64
        .visible .entry takes(.param .u64 object, .param .u64 from, .param .u64 to) {{
            .reg .b64 %rd<6>;
            .reg .b32 %r<10>;
            .reg .b16 %h<4>;
            .reg .f32 %f<4>;
            .reg .b64 %l<4>;
            ld.param.u64 %rd0, [object];
            ld.param.u64 %rd1, [from];
            ld.param.u64 %rd2, [to];
            mov.u32 %r8, %tid.x;
            mul.wide.u32 %rd3, %r8, 16;
            add.u64 %rd1, %rd1, %rd3;
            add.u64 %rd2, %rd2, %rd3;
            ld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%rd1];
            mov.b32 %f0, %r0;
            mov.b32 %f1, %r1;
            mov.b32 %f2, %r2;
            mov.b32 %f3, %r3;
            mov.b32 %r4, 0;
            mov.b32 %r5, 0;
            mov.b32 %r6, 0;
            mov.b32 %r7, 0;
            {instruction}
            st.global.v4.b32 [%rd2], {{%r4, %r5, %r6, %r7}};
            ret;
        }}
        "
    )
}

/// Runs such a kernel with a thread for each four words; `object` is a handle.
fn run_words(instruction: &str, object: u64, words: &[[u32; 4]]) -> CudaResult<Vec<[u32; 4]>> {
    let module = Module::load_from_bytes(text(instruction).as_bytes())?;
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    let mut from = DeviceBuffer::from_slice(words)?;
    let mut to = DeviceBuffer::from_slice(&vec![[0u32; 4]; words.len()])?;
    let (threads, from, to_address) = (words.len() as u32, from.as_device_ptr(), to.as_device_ptr());
    unsafe { custack::launch!(module.takes<<<1, threads, 0, stream>>>(object, from, to_address)) }?;
    stream.synchronize()?;
    let mut found = vec![[0; 4]; words.len()];
    to.copy_to(&mut found)?;
    Ok(found)
}

/// What an instruction reads for coordinates.
fn words(instruction: &str, object: u64, at: &[[f32; 4]]) -> Vec<[u32; 4]> {
    let bits: Vec<_> = at.iter().map(|at| at.map(f32::to_bits)).collect();
    run_words(instruction, object, &bits).unwrap()
}

/// What an instruction reads for coordinates, as floats.
fn floats(instruction: &str, object: u64, at: &[[f32; 4]]) -> Vec<[f32; 4]> {
    words(instruction, object, at).into_iter().map(|found| found.map(f32::from_bits)).collect()
}

/// The first channels of what is read at these places of one dimension.
fn line(object: u64, at: &[f32]) -> Vec<f32> {
    let at: Vec<_> = at.iter().map(|x| [*x, 0.0, 0.0, 0.0]).collect();
    floats(READ_1D, object, &at).into_iter().map(|found| found[0]).collect()
}

const READ_1D: &str = "tex.1d.v4.f32.f32 {%r4, %r5, %r6, %r7}, [%rd0, {%f0}];";
const READ_2D: &str = "tex.2d.v4.f32.f32 {%r4, %r5, %r6, %r7}, [%rd0, {%f0, %f1}];";
const READ_3D: &str = "tex.3d.v4.f32.f32 {%r4, %r5, %r6, %r7}, [%rd0, {%f0, %f1, %f2, %f2}];";
