//! Kernels that can never go on, and faults in one of many blocks.

use super::{launched, program, simulated};
use crate::gpu::{pushed, said, status};
use crate::harness::run;
use std::time::Instant;

#[test]
fn threads_that_wait_for_each_other_for_ever_are_named() {
    if !simulated("threads_that_wait_for_each_other_for_ever_are_named") {
        return;
    }
    let half = "setp.lt.u32 %p1, %lane, 16; @%p1 bra A;";
    let second = "setp.gt.u32 %p1, %t, 31; @%p1 bra A;";
    for (lines, threads, says) in [
        (
            format!("{half} bar.sync 0; ret; A: vote.sync.ballot.b32 %r1, 1, -1;"),
            32,
            &[
                "16 threads of warp 0 (the first is [16, 0, 0]) at barrier 0",
                "16 threads of warp 0 (the first is [0, 0, 0]) for other lanes",
                "vote.sync.ballot.b32",
            ][..],
        ),
        (
            format!("{second} bar.sync 1; ret; A: bar.sync 2;"),
            64,
            &[
                "32 threads of warp 0 (the first is [0, 0, 0]) at barrier 1",
                "32 threads of warp 1 (the first is [32, 0, 0]) at barrier 2",
            ],
        ),
        (format!("{half} bar.sync 3; ret; A: bar.sync 4;"), 32, &["at barrier 3", "at barrier 4"]),
        ("bar.sync 0, 96;".to_owned(), 64, &["32 threads of warp 1", "at barrier 0", "bar.sync"]),
        (
            format!("{half} bar.warp.sync -1; bar.warp.sync -1; ret; A: bar.warp.sync -1; bar.sync 0;"),
            32,
            &["for other lanes", "bar.warp.sync", "at barrier 0"],
        ),
    ] {
        run(|| {
            let _ctx = pushed();
            let begun = Instant::now();
            let error = launched(&program("", &lines), 40, threads, &[0]).unwrap_err();
            let text = said(error);
            assert_eq!(error, status::LAUNCH_TIMEOUT, "{lines}: {text}");
            assert!(text.contains("its threads wait for each other, and none can go on"), "{text}");
            for part in says {
                assert!(text.contains(part), "{part}: {text}");
            }
            assert!(begun.elapsed().as_secs() < 30);
        });
    }
}

#[test]
fn a_fault_in_one_of_many_blocks_ends_all() {
    if !simulated("a_fault_in_one_of_many_blocks_ends_all") {
        return;
    }
    // The others wait for what never comes, or are done.
    for wait in ["ld.volatile.global.u32 %r1, [%to]; setp.eq.u32 %p2, %r1, 0; @%p2 bra W;", ""] {
        for (wrong, error) in [
            ("st.global.u32 [%rd1], 1;", status::ILLEGAL_ADDRESS),
            ("trap;", status::LAUNCH_FAILED),
            ("st.global.u32 [%to+2], 1;", status::MISALIGNED_ADDRESS),
        ] {
            run(|| {
                let _ctx = pushed();
                let lines = format!(
                    "setp.ne.u32 %p1, %cta, 777; mov.u64 %rd1, 16; mov.u32 %r1, 0; @%p1 bra W; {wrong} W: {wait}"
                );
                let begun = Instant::now();
                let found = launched(&program("", &lines), 2000, 33, &[0]).unwrap_err();
                let text = said(found);
                assert_eq!(found, error, "{text}");
                assert!(
                    text.contains("line ")
                        && (error == status::LAUNCH_FAILED || text.contains("block [777, 0, 0]")),
                    "{text}"
                );
                assert!(begun.elapsed().as_secs() < 30, "{wait} {wrong} {:?}", begun.elapsed());
                assert_eq!(
                    launched(&program("", ""), 1, 1, &[0]),
                    Err(error),
                    "the context stays in the error"
                );
            });
        }
    }
}
