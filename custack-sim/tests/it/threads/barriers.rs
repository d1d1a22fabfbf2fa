//! Barriers of a block.

use super::{block, each, left_by};

const SIZES: [u32; 6] = [1, 31, 32, 33, 70, 1024];

#[test]
fn barriers_find_out_about_the_predicates_of_all_threads() {
    for threads in SIZES {
        let lines = "setp.lt.u32 %p1, %t, 40; setp.eq.u32 %p2, %t, 29;
            bar.red.popc.u32 %r1, 0, %p1; bar.red.and.pred %p3, 0, %p1; bar.red.or.pred %p4, 0, %p2;
            bar.red.popc.u32 %r2, 3, !%p1; selp.u32 %r3, 10000, 0, %p3; selp.u32 %r4, 20000, 0, %p4;
            add.u32 %r1, %r1, %r3; add.u32 %r1, %r1, %r4; mad.lo.u32 %r1, %r2, 100000, %r1; st.global.u32 [%out], %r1;";
        let all = if threads <= 40 { 10_000 } else { 0 };
        let any = if threads > 29 { 20_000 } else { 0 };
        let expected = threads.min(40) + all + any + threads.saturating_sub(40) * 100_000;
        assert_eq!(block(lines, threads), vec![expected; threads as usize], "{threads}");
    }
}

#[test]
fn threads_that_have_ended_are_not_waited_for() {
    for threads in SIZES {
        // Every third ends before, some later than others, and the whole second warp.
        let lines = "rem.u32 %r1, %t, 3; setp.eq.u32 %p1, %r1, 0; @%p1 exit; shr.u32 %r2, %t, 5;
            setp.eq.u32 %p2, %r2, 1; mov.u32 %r3, %t; L: setp.eq.u32 %p3, %r3, 0; @%p3 bra E; sub.u32 %r3, %r3, 1; bra L;
            E: @%p2 ret; mov.u32 %r5, s; mad.lo.u32 %r5, %t, 4, %r5; st.shared.u32 [%r5], %t; bar.sync 0;
            bar.red.popc.u32 %r6, 0, 1; st.global.u32 [%out], %r6;";
        let lives = |thread: u32| thread % 3 != 0 && thread / 32 != 1;
        let count = (0..threads).filter(|thread| lives(*thread)).count() as u32;
        assert_eq!(block(lines, threads), each(threads, |it| if lives(it) { count } else { 0 }), "{threads}");
    }
}

#[test]
fn producers_arrive_and_consumers_wait() {
    // Warp 0 makes numbers, warp 1 takes them, in eight rounds; warps 2 and 3 meet at a barrier of their own.
    let lines = "shr.u32 %r1, %t, 5; mov.u32 %r9, 0; mov.u32 %r2, 0; setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r1, 1;
        mov.u32 %r5, s; mad.lo.u32 %r5, %lane, 4, %r5; @%p1 bra MAKE; @%p2 bra TAKE;
        bar.sync 5, 64; bar.sync 5, 64; bra END;
        MAKE: bar.sync 2, 64; mad.lo.u32 %r3, %r2, 100, %lane; st.shared.u32 [%r5], %r3; bar.arrive 1, 64;
        add.u32 %r2, %r2, 1; setp.lt.u32 %p3, %r2, 8; @%p3 bra MAKE; bra END;
        TAKE: bar.arrive 2, 64; bar.sync 1, 64; ld.shared.u32 %r4, [%r5]; add.u32 %r9, %r9, %r4;
        add.u32 %r2, %r2, 1; setp.lt.u32 %p3, %r2, 8; @%p3 bra TAKE;
        END: st.global.u32 [%out], %r9;";
    assert_eq!(block(lines, 128), each(128, |it| if it / 32 == 1 { 2800 + 8 * (it % 32) } else { 0 }));
}

#[test]
fn threads_meet_at_barriers_in_divergent_code() {
    // Each half of each warp comes from elsewhere, and the number is in a register.
    let lines = "and.b32 %r1, %t, 1; setp.eq.u32 %p1, %r1, 0; mov.u32 %r5, s; mad.lo.u32 %r5, %t, 4, %r5; mov.u32 %r8, 7;
        @%p1 bra A; st.shared.u32 [%r5], 1; barrier.sync %r8; bra J; A: st.shared.u32 [%r5], 2; barrier.sync %r8;
        J: mov.u32 %r2, 0; mov.u32 %r3, 0; mov.u32 %r6, s;
        L: ld.shared.u32 %r4, [%r6]; add.u32 %r6, %r6, 4; add.u32 %r3, %r3, %r4; add.u32 %r2, %r2, 1;
        setp.lt.u32 %p2, %r2, %n; @%p2 bra L; st.global.u32 [%out], %r3;";
    assert_eq!(block(lines, 96), [144; 96]);
}

#[test]
fn threads_of_three_dimensions_know_where_they_are() {
    let lines = "mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z; mov.u32 %r4, %ctaid.y; mov.u32 %r5, %ctaid.z;
        mad.lo.u32 %r6, %r3, 7, %r2; mad.lo.u32 %r6, %r6, 5, %r1; mad.lo.u32 %r7, %r5, 3, %r4; mad.lo.u32 %r6, %r7, 315, %r6;
        mad.wide.u32 %out, %r6, 4, %to; mad.lo.u32 %r8, %r2, 10, %r1; mad.lo.u32 %r8, %r3, 100, %r8; bar.sync 0;
        mad.lo.u32 %r8, %r7, 10000, %r8; st.global.u32 [%out], %r8;";
    let expected = each(1890, |at| {
        let (block, it) = (at / 315, at % 315);
        10_000 * block + it % 5 + 10 * (it / 5 % 7) + 100 * (it / 35)
    });
    assert_eq!(left_by("", lines, (1, 3, 2), (5, 7, 9), 1890), expected);
}
