//! Kernels that can never go on, and faults in one of many blocks.

use super::{launched, program, simulated};
use crate::harness::{pushed, run_alone};
use custack::error::CudaError;
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
        run_alone(|| {
            let _ctx = pushed();
            let begun = Instant::now();
            let error = launched(&program("", &lines), 40, threads, &[0]).unwrap_err();
            let text = crate::harness::said(error);
            assert_eq!(error, CudaError::LaunchTimeout, "{lines}: {text}");
            assert!(text.contains("its threads wait for each other, and none can go on"), "{text}");
            for part in says {
                assert!(text.contains(part), "{part}: {text}");
            }
            assert!(begun.elapsed().as_secs() < 5);
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
            ("st.global.u32 [%rd1], 1;", CudaError::IllegalAddress),
            ("trap;", CudaError::LaunchFailed),
            ("st.global.u32 [%to+2], 1;", CudaError::MisalignedAddress),
        ] {
            run_alone(|| {
                let _ctx = pushed();
                let lines = format!(
                    "setp.ne.u32 %p1, %cta, 777; mov.u64 %rd1, 16; mov.u32 %r1, 0; @%p1 bra W; {wrong} W: {wait}"
                );
                let begun = Instant::now();
                let found = launched(&program("", &lines), 2000, 33, &[0]).unwrap_err();
                let text = crate::harness::said(found);
                assert_eq!(found, error, "{text}");
                assert!(
                    text.contains("line ")
                        && (error == CudaError::LaunchFailed || text.contains("block [777, 0, 0]")),
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

#[test]
fn a_kernel_that_does_not_end_fails_after_the_instructions_that_a_program_allows() {
    if !simulated("a_kernel_that_does_not_end_fails_after_the_instructions_that_a_program_allows") {
        return;
    }
    // The limit is one of the process.
    run_alone(|| {
        let _ctx = pushed();
        let turns = |count: u32| {
            let lines = "AGAIN: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, ";
            launched(&program("", &format!("mov.u32 %r1, 0; {lines}{count}; @%p1 bra AGAIN;")), 1, 32, &[0])
        };
        let before = custack::sim::limit_kernels(1_000_000);
        assert_eq!(before, 1 << 33);
        let few = turns(1000);
        let many = turns(u32::MAX);
        assert_eq!(custack::sim::limit_kernels(before), 1_000_000);
        assert!(few.is_ok(), "{few:?}");
        let error = many.unwrap_err();
        assert_eq!(error, CudaError::LaunchTimeout);
        assert!(
            crate::harness::said(error).contains("it does not end after 1000000 instructions"),
            "{error}"
        );
    });
}

#[test]
fn a_kernel_that_does_not_end_says_where_its_threads_are() {
    if !simulated("a_kernel_that_does_not_end_says_where_its_threads_are") {
        return;
    }
    let spin = |flag: &str| {
        format!("AGAIN: ld.volatile.global.u32 %r1, [%to+{flag}]; setp.eq.u32 %p1, %r1, 0; @%p1 bra AGAIN;")
    };
    let other = "setp.eq.u32 %p2, %cta, 1; @%p2 bra OTHER;";
    for (lines, blocks, threads, says) in [
        // Each of two blocks waits for what the other one does behind its own wait.
        (
            format!(
                "{other} {} st.global.u32 [%to], 1; ret; OTHER: {} st.global.u32 [%to+4], 1;",
                spin("4"),
                spin("0").replace("AGAIN", "LOOK")
            ),
            2,
            1,
            &[
                "kernel k, it does not end after 2000000 instructions: block [0, 0, 0]: 1 threads of warp 0 (the first is [0, 0, 0]) in line",
                "; block [1, 0, 0]: 1 threads of warp 0 (the first is [0, 0, 0]) in line",
            ][..],
        ),
        // Some threads wait at a barrier for one that waits for ever.
        (
            format!("setp.ne.u32 %p2, %t, 40; @%p2 bra MEET; {} MEET: bar.sync 0;", spin("0")),
            1,
            64,
            &[
                "32 threads of warp 0 (the first is [0, 0, 0]) at barrier 0 in line",
                "31 threads of warp 1 (the first is [32, 0, 0]) at barrier 0 in line",
                "1 threads of warp 1 (the first is [40, 0, 0]) in line",
            ],
        ),
        (spin("0"), 300, 32, &["block [0, 0, 0]", "block [3, 0, 0]", "; and ", " more that have begun"]),
    ] {
        run_alone(|| {
            let _ctx = pushed();
            let before = custack::sim::limit_kernels(2_000_000);
            let error = launched(&program("", &lines), blocks, threads, &[0, 0]).unwrap_err();
            custack::sim::limit_kernels(before);
            let text = crate::harness::said(error);
            assert_eq!(error, CudaError::LaunchTimeout, "{lines}: {text}");
            for part in says {
                assert!(text.contains(part), "{part}: {text}");
            }
            assert!(!text.contains("block [4, 0, 0]"), "{text}");
        });
    }
}
