//! Memory that threads take from their stacks.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "each kernel writes no more than its output has")]

use crate::harness::{pushed, run};
use custack::launch;
use custack::memory::{CopyDestination, DeviceBuffer};
use custack::module::Module;
use custack::stream::{Stream, StreamFlags};

/// Runs a kernel whose threads write four words each; `%r0` is the number of the thread.
fn words(functions: &str, code: &str, threads: usize) -> Vec<[u32; 4]> {
    let text = format!(
        ".version 7.3 .target sm_70 .address_size 64
        {functions}
        .visible .entry k(.param .u64 to) {{
            .reg .b32 %r<16>; .reg .b64 %d<16>; .reg .pred %p<4>;
            ld.param.u64 %d0, [to]; mov.u32 %r0, %tid.x; mul.wide.u32 %d1, %r0, 16; add.u64 %d0, %d0, %d1;
            {code}
            st.global.v4.u32 [%d0], {{%r1, %r2, %r3, %r4}}; ret;
        }}"
    );
    let module = Module::load_from_bytes(text.as_bytes()).unwrap();
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
    let mut to = DeviceBuffer::from_slice(&vec![[0u32; 4]; threads]).unwrap();
    let pointer = to.as_device_ptr();
    unsafe { launch!(module.k<<<1, threads as u32, 0, stream>>>(pointer)) }.unwrap();
    stream.synchronize().unwrap();
    let mut found = vec![[0; 4]; threads];
    to.copy_to(&mut found).unwrap();
    found
}

#[test]
fn each_thread_has_what_it_takes_from_its_stack_for_itself() {
    run(|| {
        let _ctx = pushed();
        // Of a size that the thread computes, and twice.
        let code = "add.u32 %r5, %r0, 1; shl.b32 %r5, %r5, 2; cvt.u64.u32 %d2, %r5;
            alloca.u64 %d3, %d2, 16; alloca.u64 %d4, %d2;
            add.u64 %d5, %d3, %d2; add.u64 %d6, %d4, %d2; st.local.u32 [%d5+-4], %r0; add.u32 %r6, %r0, 100; st.local.u32 [%d6+-4], %r6;
            ld.local.u32 %r1, [%d5+-4]; cvta.local.u64 %d7, %d6; ld.u32 %r2, [%d7+-4];
            and.b64 %d8, %d3, 15; cvt.u32.u64 %r3, %d8; and.b64 %d8, %d4, 7; cvt.u32.u64 %r4, %d8;";
        let wanted: Vec<[u32; 4]> = (0..40).map(|thread| [thread, thread + 100, 0, 0]).collect();
        assert_eq!(words("", code, 40), wanted);
    });
}

#[test]
fn a_restored_stack_is_taken_again() {
    run(|| {
        let _ctx = pushed();
        // 1,000 times 256 bytes are more than a stack has; those before remain.
        let code = "alloca.u64 %d2, 64, 16; st.local.u32 [%d2], 77; stacksave.u64 %d9; mov.u32 %r5, 0;
            AGAIN: stacksave.u64 %d3; alloca.u64 %d4, 256, 16; st.local.u32 [%d4+252], %r5; ld.local.u32 %r2, [%d4+252];
            stackrestore.u64 %d3; add.u32 %r5, %r5, 1; setp.lt.u32 %p0, %r5, 1000; @%p0 bra AGAIN;
            ld.local.u32 %r1, [%d2]; stacksave.u64 %d10; setp.eq.u64 %p1, %d9, %d10; selp.u32 %r3, 1, 0, %p1; mov.u32 %r4, %r5;";
        assert_eq!(words("", code, 3), [[77, 999, 1, 1000]; 3]);
    });
}

#[test]
fn a_function_frees_what_it_took_from_the_stack() {
    run(|| {
        let _ctx = pushed();
        let function = ".func (.param .b32 out) takes (.param .b32 given) {
            .reg .b32 %r<4>; .reg .b64 %d<4>; ld.param.u32 %r0, [given]; alloca.u64 %d0, 256, 16; st.local.u32 [%d0+128], %r0;
            ld.local.u32 %r1, [%d0+128]; add.u32 %r1, %r1, 1; st.param.b32 [out], %r1; ret; }";
        let code = "alloca.u64 %d2, 16, 16; st.local.u32 [%d2], %r0; mov.u32 %r5, 0;
            AGAIN: { .param .b32 a; .param .b32 b; st.param.b32 [a], %r5; call.uni (b), takes, (a); ld.param.b32 %r2, [b]; }
            add.u32 %r5, %r5, 1; setp.lt.u32 %p0, %r5, 200; @%p0 bra AGAIN;
            ld.local.u32 %r1, [%d2]; mov.u32 %r3, %r5; mov.u32 %r4, 0;";
        assert_eq!(words(function, code, 2), [[0, 200, 200, 0], [1, 200, 200, 0]]);
    });
}
