//! Many blocks, many launches, and guards of all instructions.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{block, each, launched, left_by, program};
use crate::gpu::{Buffer, Module, Stream, pushed};
use crate::harness::run;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn sums_of_many_blocks_are_exact() {
    let lines = "red.global.add.u32 [%to], 1; add.u64 %rd1, %to, 8; atom.global.add.u64 %rd2, [%rd1], 4294967297;
        L: ld.volatile.global.u16 %h1, [%to+16]; M: add.u16 %h2, %h1, 1; atom.global.cas.b16 %h3, [%to+16], %h1, %h2;
        setp.ne.b16 %p1, %h3, %h1; mov.u16 %h1, %h3; @%p1 bra M;
        atom.shared.add.u32 %r1, [s], 1; bar.sync 0; setp.eq.u32 %p2, %t, 0; @%p2 ld.shared.u32 %r2, [s];
        @%p2 red.global.add.u32 [%to+20], %r2; red.global.max.u32 [%to+24], %gid; red.global.xor.b32 [%to+28], %gid;";
    let clear = "setp.eq.u32 %p3, %t, 0; @%p3 st.shared.u32 [s], 0; bar.sync 0;";
    let lines = format!(".reg .b16 %h<4>; .shared .align 4 .b8 s[4]; {clear} {lines}");
    let left = left_by("", &lines, 150, 70, 8);
    let all = 150 * 70;
    let xor = (0..all).fold(0, |all, it| all ^ it);
    assert_eq!(left, [all, 0, all, all, all, all, all - 1, xor]);
}

#[test]
fn sixteen_bytes_are_exchanged_as_one() {
    // Both halves count: one up, one down.
    let lines = "ld.volatile.global.v2.u64 {%rd1, %rd2}, [%to];
        TRY: add.u64 %rd3, %rd1, 1; sub.u64 %rd4, %rd2, 1; mov.b128 %q1, {%rd1, %rd2}; mov.b128 %q2, {%rd3, %rd4};
        atom.global.cas.b128 %q3, [%to], %q1, %q2; mov.b128 {%rd5, %rd6}, %q3;
        setp.ne.u64 %p1, %rd5, %rd1; setp.ne.u64 %p2, %rd6, %rd2; or.pred %p1, %p1, %p2;
        mov.u64 %rd1, %rd5; mov.u64 %rd2, %rd6; @%p1 bra TRY;";
    let text = program("", &format!(".reg .b128 %q<4>; {lines}"));
    let text = text.replace(".version 7.0 .target sm_80", ".version 8.4 .target sm_90");
    run(|| {
        let _ctx = pushed();
        assert_eq!(launched(&text, 60, 40, &[0; 4]).unwrap(), [2400, 0, -2400i32 as u32, u32::MAX]);
    });
}

#[test]
fn sixteen_bytes_are_written_and_read_as_one() {
    // Even blocks write one number into all elements, odd blocks count what they find of two numbers.
    for (order, vector, others) in [
        ("relaxed.gpu", "v2.u64 [%to], {%rd1, %rd1}", "v2.u64 {%rd2, %rd3}, [%to]"),
        ("volatile", "v4.u32 [%to], {%r1, %r1, %r1, %r1}", "v4.u32 {%r2, %r7, %r8, %r3}, [%to]"),
    ] {
        let compared =
            if vector.contains("u64") { "setp.ne.u64 %p3, %rd2, %rd3" } else { "setp.ne.u32 %p3, %r2, %r3" };
        let lines = format!(
            "and.b32 %r5, %cta, 1; setp.eq.u32 %p1, %r5, 1; mov.u32 %r6, 0;
             ROUND: mad.lo.u32 %r1, %cta, 4000, %r6; cvt.u64.u32 %rd1, %r1;
             @!%p1 st.{order}.global.{vector}; @%p1 ld.{order}.global.{others}; {compared};
             and.pred %p3, %p3, %p1; @%p3 red.global.add.u32 [%to+16], 1;
             add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 2000; @%p2 bra ROUND;"
        );
        assert_eq!(left_by("", &lines, 8, 1, 5)[4], 0, "{order} {vector}");
    }
}

#[test]
fn instructions_have_guards_that_hold_in_some_all_or_no_lanes() {
    for (guard, holds) in [("%lane, 11", 11), ("%lane, 32", 32), ("%lane, 0", 0)] {
        let mask = (1u64 << holds) as u32;
        let mask = if holds == 32 { u32::MAX } else { mask - 1 };
        let lines = format!(
            "setp.lt.u32 %p1, {guard}; mov.u32 %r1, 0; mov.u32 %r5, s; mad.lo.u32 %r5, %lane, 4, %r5; st.shared.u32 [%r5], 1;
             @%p1 mov.u32 %r1, 3; @%p1 st.shared.u32 [%r5], 2; @!%p1 ld.shared.u32 %r1, [%r5]; @%p1 atom.shared.add.u32 %r2, [%r5], 40;
             @%p1 shfl.sync.idx.b32 %r1, %lane, 4, 31, {mask}; @%p1 barrier.arrive 1, 32; @!%p1 barrier.arrive 1, 32; @%p1 bra J; add.u32 %r1, %r1, 500; J:
             ld.shared.u32 %r3, [%r5]; add.u32 %r1, %r1, %r3; @%p1 activemask.b32 %r4; st.global.u32 [%out], %r1; @!%p1 ret;
             setp.eq.u32 %p2, %r4, {mask}; @%p2 add.u32 %r1, %r1, 1000; st.global.u32 [%out], %r1;"
        );
        assert_eq!(block(&lines, 32), each(32, |it| if it < holds { 1046 } else { 502 }), "{guard}");
    }
}

#[test]
fn names_in_braces_are_others_than_those_around_them() {
    let lines = "mov.u32 %r1, 1; { .reg .b32 %r<4>; mov.u32 %r1, 2; setp.eq.u32 %p1, %lane, 3; @%p1 bra L; add.u32 %r1, %r1, 50;
          L: st.global.u32 [%out], %r1; }
        { .reg .pred %p1; .reg .b32 %lane; mov.u32 %lane, 7; setp.eq.u32 %p1, %lane, 3; @%p1 bra L; mov.u32 %r2, %lane;
          { .reg .b32 %r2; mov.u32 %r2, 1; L: bra M; M: } bra M; L: trap; M: }
        ld.global.u32 %r3, [%out]; add.u32 %r3, %r3, %r1; mad.lo.u32 %r3, %r2, 100, %r3; @%p1 bra L; add.u32 %r3, %r3, 1000; L:
        st.global.u32 [%out], %r3;";
    assert_eq!(block(lines, 32), each(32, |it| if it == 3 { 703 } else { 1753 }));
}

#[test]
fn thousands_of_launches_from_many_threads_count_each() {
    run(|| {
        let ctx = pushed();
        let text = program("", "red.global.add.u32 [%to], 1;");
        let module = Module::load(text.as_bytes()).unwrap();
        let to = Buffer::from_slice(&[0u32]).unwrap();
        let pointer = to.address();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let entered = ctx.scoped(|| {
                        let stream = Stream::new()?;
                        for _ in 0..400 {
                            unsafe { launch!(module.k<<<2, 3, 0, stream>>>(pointer)) }?;
                        }
                        stream.synchronize()
                    });
                    entered.unwrap();
                });
            }
        });
        let mut sum = [0];
        to.copy_to(&mut sum).unwrap();
        assert_eq!(sum, [8 * 400 * 6]);
    });
}

#[test]
fn memory_is_allocated_and_copied_while_a_kernel_runs() {
    run(|| {
        let ctx = pushed();
        // It runs until the host says so, in memory that both use.
        let text = program(
            "",
            "W: ld.volatile.global.u32 %r1, [%to]; setp.eq.u32 %p1, %r1, 0; @%p1 bra W; st.volatile.global.u32 [%to+4], 1;",
        );
        let module = Module::load(text.as_bytes()).unwrap();
        let (stream, other) = (Stream::new().unwrap(), Stream::new().unwrap());
        let to = Buffer::from_slice(&[0u32, 0]).unwrap();
        let pointer = to.address();
        let set = Module::load(program("", "st.volatile.global.u32 [%to], 1;").as_bytes()).unwrap();
        // A driver loads a kernel when it is launched first, and may wait for the kernel that runs.
        let elsewhere = Buffer::from_slice(&[0u32, 0]).unwrap();
        unsafe { launch!(set.k<<<1, 1, 0, other>>>(elsewhere.address())) }.unwrap();
        other.synchronize().unwrap();
        unsafe { launch!(module.k<<<3, 32, 0, stream>>>(pointer)) }.unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                ctx.scoped(|| {
                    for size in 1..100usize {
                        let bytes = vec![size as u8; size * 1000];
                        let buffer = Buffer::from_slice(&bytes)?;
                        let mut back = vec![0; size * 1000];
                        buffer.copy_to(&mut back[..])?;
                        assert_eq!(back, bytes);
                        // Freeing waits for the kernel on a device.
                        std::mem::forget(buffer);
                    }
                    done.store(true, Ordering::Relaxed);
                    unsafe { launch!(set.k<<<1, 1, 0, other>>>(pointer)) }
                })
                .unwrap();
            });
        });
        assert!(done.load(Ordering::Relaxed));
        stream.synchronize().unwrap();
        let mut left = [0; 2];
        to.copy_to(&mut left).unwrap();
        assert_eq!(left, [1, 1]);
    });
}
