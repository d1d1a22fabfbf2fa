//! How many instructions a kernel may execute, which is a setting of the process.

use crate::gpu::{pushed, said, status};
use crate::harness::run_simulated;
use program::{launched, program};

#[path = "../it/threads/program.rs"]
mod program;

#[test]
fn a_kernel_that_does_not_end_fails_after_the_instructions_that_a_program_allows() {
    let test = "a_kernel_that_does_not_end_fails_after_the_instructions_that_a_program_allows";
    run_simulated(test, || {
        let _ctx = pushed();
        let turns = |count: u32| {
            let lines = "AGAIN: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, ";
            launched(&program("", &format!("mov.u32 %r1, 0; {lines}{count}; @%p1 bra AGAIN;")), 1, 32, &[0])
        };
        let before = custack_sim::limit_kernels(1_000_000);
        assert_eq!(before, 1 << 33);
        let few = turns(1000);
        let many = turns(u32::MAX);
        assert_eq!(custack_sim::limit_kernels(before), 1_000_000);
        assert!(few.is_ok(), "{few:?}");
        let error = many.unwrap_err();
        assert_eq!(error, status::LAUNCH_TIMEOUT);
        assert!(said(error).contains("it does not end after 1000000 instructions"), "{error}");
    });
}

#[test]
fn a_kernel_that_does_not_end_says_where_its_threads_are() {
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
        run_simulated("a_kernel_that_does_not_end_says_where_its_threads_are", || {
            let _ctx = pushed();
            let before = custack_sim::limit_kernels(2_000_000);
            let error = launched(&program("", &lines), blocks, threads, &[0, 0]).unwrap_err();
            custack_sim::limit_kernels(before);
            let text = said(error);
            assert_eq!(error, status::LAUNCH_TIMEOUT, "{lines}: {text}");
            for part in says {
                assert!(text.contains(part), "{part}: {text}");
            }
            assert!(!text.contains("block [4, 0, 0]"), "{text}");
        });
    }
}
