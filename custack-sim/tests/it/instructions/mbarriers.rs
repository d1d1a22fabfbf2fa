//! Barriers in shared memory.

use super::warps::{compute, words};
use crate::harness::{run, within};

/// `%in` is the address of a barrier that expects `count` arrivals; each line leaves its result in `%r0`.
fn one_thread(count: u32, lines: &str) -> u32 {
    let body = format!(
        ".shared .align 8 .b64 gate; .reg .b32 %r<9>; .reg .b64 %s<9>; .reg .pred %p<5>; .reg .b32 %in;
        mov.u32 %in, gate; mbarrier.init.shared::cta.b64 [%in], {count}; fence.mbarrier_init.release.cluster;
        mov.u32 %r0, 0; {lines} st.global.u32 [%to], %r0;"
    );
    words(&compute(&body, 1, &[], 4))[0]
}

#[test]
fn a_phase_ends_when_all_have_arrived_and_all_bytes_are_there() {
    run(|| {
        let test = "mbarrier.test_wait.parity.shared.b64 %p1, [%in], 0; selp.u32 %r0, 1, 0, %p1;";
        let other = "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%in], 1, 1000; selp.u32 %r0, 1, 0, %p1;";
        let arrive = "mbarrier.arrive.shared.b64 %s1, [%in];";
        for (count, lines, expected) in [
            (2, test.to_owned(), 0),
            (2, other.to_owned(), 1),
            (2, format!("{arrive} {test}"), 0),
            (2, format!("{arrive} {arrive} {test}"), 1),
            (2, format!("{arrive} {arrive} {other}"), 0),
            (2, format!("{arrive} {arrive} {arrive} {arrive} {test}"), 0),
            (2, format!("mbarrier.arrive.shared::cta.b64 _, [%in], 2; {test}"), 1),
            (1, format!("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %s1, [%in], 64; {test}"), 0),
            (1, format!("mbarrier.arrive.expect_tx.shared::cta.b64 %s1, [%in], 64; mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%in], 64; {test}"), 1),
            (1, format!("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%in], 64; mbarrier.complete_tx.shared::cta.b64 [%in], 60; {arrive} {test}"), 0),
            // The bytes may come before they are expected.
            (1, format!("mbarrier.complete_tx.shared::cta.b64 [%in], 8; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%in], 8; {test}"), 1),
            (1, format!("cp.async.mbarrier.arrive.noinc.shared.b64 [%in]; WAIT: {test} @!%p1 bra WAIT;"), 1),
            (1, format!("cp.async.mbarrier.arrive.shared.b64 [%in]; {test}"), 0),
            // The second phase is for one thread less.
            (2, format!("mbarrier.arrive_drop.shared.b64 %s1, [%in]; {arrive} {arrive} {test}"), 0),
            (2, format!("mbarrier.arrive_drop.shared.b64 %s1, [%in]; {arrive} {test}"), 1),
            (2, format!("{arrive} mbarrier.test_wait.shared.b64 %p1, [%in], %s1; selp.u32 %r0, 1, 0, %p1;"), 0),
            (2, format!("{arrive} {arrive} mbarrier.try_wait.shared.b64 %p1, [%in], %s1; selp.u32 %r0, 1, 0, %p1;"), 1),
            (9, format!("{arrive} {arrive} mbarrier.pending_count.b64 %r0, %s1;"), 8),
            (9, "mbarrier.arrive.noComplete.shared.b64 %s1, [%in], 4; mbarrier.arrive.shared.b64 %s1, [%in]; mbarrier.pending_count.b64 %r0, %s1;".to_owned(), 5),
            // Memory of a barrier that has ended is memory again.
            (1, "mbarrier.inval.shared.b64 [%in]; st.shared.u32 [%in], 7; ld.shared.u32 %r0, [%in];".to_owned(), 7),
        ] {
            assert_eq!(one_thread(count, &lines), expected, "{lines}");
        }
    });
}

/// A warp writes, the other one reads, many times: each waits for the other.
#[test]
fn warps_that_wait_for_each_other_at_barriers_go_on() {
    within(60, || {
        run(|| {
            let body = "
                .shared .align 8 .b64 full; .shared .align 8 .b64 empty; .shared .b32 slots[32];
                .reg .pred %p<5>; .reg .b32 %i, %sum, %value, %parity, %slot, %f, %e; .reg .b64 %place;
                mov.u32 %f, full; mov.u32 %e, empty; mov.u32 %slot, slots; mad.lo.u32 %slot, %lane, 4, %slot;
                setp.ne.u32 %p0, %t, 0; @%p0 bra begun;
                mbarrier.init.shared.b64 [%f], 32; mbarrier.init.shared.b64 [%e], 32;
                begun: bar.sync 0; mov.u32 %i, 0; mov.u32 %sum, 0;
                setp.ge.u32 %p1, %t, 32; @%p1 bra read;
                write: and.b32 %parity, %i, 1; xor.b32 %parity, %parity, 1;
                free: mbarrier.try_wait.parity.shared.b64 %p2, [%e], %parity; @!%p2 bra free;
                add.u32 %value, %i, %lane; st.shared.u32 [%slot], %value; mbarrier.arrive.shared.b64 _, [%f];
                add.u32 %i, %i, 1; setp.lt.u32 %p3, %i, 50; @%p3 bra write; ret;
                read: and.b32 %parity, %i, 1;
                there: mbarrier.test_wait.parity.shared.b64 %p2, [%f], %parity; @!%p2 bra there;
                ld.shared.u32 %value, [%slot]; add.u32 %sum, %sum, %value; mbarrier.arrive.shared.b64 _, [%e];
                add.u32 %i, %i, 1; setp.lt.u32 %p3, %i, 50; @%p3 bra read;
                mad.wide.u32 %place, %lane, 4, %to; st.global.u32 [%place], %sum;";
            let expected: Vec<u32> = (0..32).map(|lane| (0..50).map(|i| i + lane).sum()).collect();
            assert_eq!(words(&compute(body, 64, &[], 128)), expected);
        });
    });
}
