//! Threads that wait for what others do: of the same warp, of another one, of another block.

use super::{block, each, left_by};
use crate::harness::within;

/// As many blocks as a build without optimisation takes not too long for.
const BLOCKS: u32 = if cfg!(debug_assertions) { 50 } else { 500 };

/// A lock in the first word, and a number in the second that the holder counts up.
fn locked(space: &str, lock: &str) -> String {
    format!(
        "TRY: atom{space}.cas.b32 %r1, [{lock}], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra TRY; membar.gl;
         ld.volatile{space}.u32 %r2, [{lock}+4]; add.u32 %r2, %r2, 1; st.volatile{space}.u32 [{lock}+4], %r2; membar.gl;
         atom{space}.exch.b32 %r3, [{lock}], 0;"
    )
}

#[test]
fn a_lock_lets_one_thread_after_the_other_in() {
    within(120, || {
        for threads in [32, 70, 100] {
            let lines = format!(
                "setp.eq.u32 %p2, %t, 0; @%p2 st.shared.u32 [s], 0; @%p2 st.shared.u32 [s+4], 0; bar.sync 0;
                 {} bar.sync 0; ld.shared.u32 %r5, [s+4]; st.global.u32 [%out], %r5;",
                locked(".shared", "s")
            );
            assert_eq!(block(&lines, threads), vec![threads; threads as usize]);
        }
        let left = left_by("", &locked(".global", "%to"), BLOCKS / 5, 40, 2);
        assert_eq!(left, [0, 8 * BLOCKS]);
    });
}

#[test]
fn threads_that_wait_for_each_others_flags_make_progress() {
    // Each lane waits for the one behind it, in a loop in which the lanes part again and again.
    let lines = "mov.u32 %r5, s; mad.lo.u32 %r5, %t, 4, %r5; st.volatile.shared.u32 [%r5], 0; bar.sync 0; mov.u32 %r7, 0;
        add.u32 %r6, %t, 1; setp.eq.u32 %p1, %r6, %n; @%p1 bra SET;
        SPIN: add.u32 %r7, %r7, %lane; and.b32 %r8, %r7, 1; setp.eq.u32 %p2, %r8, 0; @%p2 bra EVEN; add.u32 %r7, %r7, 3; bra LOOK;
        EVEN: add.u32 %r7, %r7, 2; LOOK: ld.volatile.shared.u32 %r2, [%r5+4]; setp.eq.u32 %p3, %r2, 0; @%p3 bra SPIN;
        SET: st.volatile.shared.u32 [%r5], 1; st.global.u32 [%out], 5;";
    within(60, || {
        assert_eq!(block(lines, 32), [5; 32]);
        assert_eq!(block(lines, 256), [5; 256]);
    });
}

#[test]
fn a_chain_of_blocks_ends_in_either_direction() {
    within(120, || {
        for (access, store) in [
            ("ld.volatile.global.u32", "st.volatile.global.u32"),
            ("ld.acquire.gpu.global.u32", "st.release.gpu.global.u32"),
        ] {
            let before = format!(
                "setp.eq.u32 %p1, %cta, 0; mov.u32 %r1, 1; @%p1 bra SET;
                 SPIN: {access} %r1, [%out+-4]; setp.eq.u32 %p2, %r1, 0; @%p2 bra SPIN; add.u32 %r1, %r1, 1;
                 SET: {store} [%out], %r1;"
            );
            assert_eq!(left_by("", &before, BLOCKS, 1, BLOCKS as usize), each(BLOCKS, |block| block + 1));
            let after = format!(
                "mov.u32 %r3, %nctaid.x; sub.u32 %r3, %r3, 1; setp.eq.u32 %p1, %cta, %r3; mov.u32 %r1, 1; @%p1 bra SET;
                 SPIN: {access} %r1, [%out+4]; setp.eq.u32 %p2, %r1, 0; @%p2 bra SPIN; add.u32 %r1, %r1, 1;
                 SET: {store} [%out], %r1;"
            );
            assert_eq!(left_by("", &after, BLOCKS, 1, BLOCKS as usize), each(BLOCKS, |block| BLOCKS - block));
        }
    });
}

/// All blocks meet, five times.
fn meetings(load: &str) -> String {
    format!(
        "mov.u32 %r9, 0; mov.u32 %r8, %nctaid.x;
         ROUND: bar.sync 0; add.u32 %r9, %r9, 1; mul.lo.u32 %r7, %r9, %r8; setp.ne.u32 %p1, %t, 0; @%p1 bra MEET;
         membar.gl; atom.global.add.u32 %r1, [%to], 1;
         SPIN: {load} %r2, [%to]; membar.gl; setp.lt.u32 %p2, %r2, %r7; @%p2 bra SPIN;
         MEET: bar.sync 0; setp.lt.u32 %p3, %r9, 5; @%p3 bra ROUND; @!%p1 red.global.add.u32 [%to+4], %r2;"
    )
}

#[test]
fn all_blocks_of_a_grid_meet() {
    within(200, || {
        for (blocks, threads) in [(132, 64), (264, 33), (100, 256)] {
            let left = left_by("", &meetings("ld.volatile.global.u32"), blocks, threads, 2);
            assert_eq!(left, [5 * blocks, 5 * blocks * blocks]);
        }
        assert_eq!(left_by("", &meetings("ld.relaxed.gpu.global.u32"), 132, 32, 2), [660, 5 * 132 * 132]);
        // A kernel with more registers than the simulated driver has room for in all blocks at once from the start.
        let large = format!(".reg .b64 %many<30000>; {}", meetings("ld.volatile.global.u32"));
        assert_eq!(left_by("", &large, 200, 1, 2), [1000, 200_000]);
    });
}

#[test]
fn a_loop_with_a_fence_sees_what_another_block_stores() {
    let lines = "setp.ne.u32 %p1, %cta, 0; @%p1 bra SET;
        SPIN: ld.global.u32 %r1, [%to]; membar.gl; setp.eq.u32 %p2, %r1, 0; @%p2 bra SPIN; st.global.u32 [%to+4], %r1; ret;
        SET: st.global.u32 [%to], 3;";
    if super::simulated("a_loop_with_a_fence_sees_what_another_block_stores") {
        within(60, move || assert_eq!(left_by("", lines, 2, 1, 2), [3, 3]));
    }
}

#[test]
fn what_is_stored_before_a_fence_is_seen_behind_one() {
    // Even blocks send 50 messages to the odd ones, which answer.
    let lines = "and.b32 %r1, %cta, 1; shr.u32 %r2, %cta, 1; mad.wide.u32 %rd1, %r2, 16, %to; setp.eq.u32 %p1, %r1, 1;
        mov.u32 %r3, 0; mov.u32 %r9, 0; @%p1 bra TAKE;
        SEND: add.u32 %r3, %r3, 1; mul.lo.u32 %r4, %r3, 3; st.global.u32 [%rd1], %r4; membar.gl; st.volatile.global.u32 [%rd1+4], %r3;
        ANSWER: ld.volatile.global.u32 %r5, [%rd1+8]; setp.ne.u32 %p2, %r5, %r3; @%p2 bra ANSWER;
        setp.lt.u32 %p3, %r3, 50; @%p3 bra SEND; ret;
        TAKE: add.u32 %r3, %r3, 1;
        LOOK: ld.volatile.global.u32 %r5, [%rd1+4]; setp.ne.u32 %p2, %r5, %r3; @%p2 bra LOOK; membar.gl;
        ld.volatile.global.u32 %r6, [%rd1]; add.u32 %r9, %r9, %r6; membar.gl; st.volatile.global.u32 [%rd1+8], %r3;
        setp.lt.u32 %p3, %r3, 50; @%p3 bra TAKE; st.global.u32 [%rd1+12], %r9;";
    within(60, move || {
        let left = left_by("", lines, 80, 1, 160);
        assert_eq!(left, [150, 50, 50, 3825].repeat(40));
    });
}
