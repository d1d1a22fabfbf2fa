//! Calls: in divergent code, of each other, by addresses, with structures.

use super::{each, launched, left_by, program, simulated};
use crate::gpu::{pushed, said, status};
use crate::harness::run;
use custack_sys::ffi::CUresult;

const CALL: &str =
    "{ .param .b32 a; st.param.b32 [a], %r1; .param .b32 b; call.uni (b), F, (a); ld.param.b32 %r2, [b]; }
    st.global.u32 [%out], %r2;";

/// The sum of all numbers up to one, from the last on.
const SUM: &str = ".func (.param .b32 out) F(.param .b32 in) { .reg .b32 %n, %m, %s; .reg .pred %p;
    ld.param.b32 %n, [in]; mov.u32 %s, 0; setp.eq.u32 %p, %n, 0; @%p bra END; sub.u32 %m, %n, 1;
    { .param .b32 a; st.param.b32 [a], %m; .param .b32 b; call.uni (b), F, (a); ld.param.b32 %s, [b]; }
    add.u32 %s, %s, %n; END: st.param.b32 [out], %s; ret; }";

/// The same with a deeper stack, which a device has to be asked for.
fn deep(declarations: &str, lines: &str, threads: u32) -> Vec<u32> {
    let mut left = Vec::new();
    run(|| {
        let _ctx = pushed();
        assert_eq!(call!(cuCtxSetLimit(0, 128 << 10)), 0);
        left = launched(&program(declarations, lines), 1, threads, &vec![0; threads as usize]).unwrap();
    });
    left
}

#[test]
fn functions_call_themselves_as_deep_as_each_lane_wants() {
    let lines = |from: &str| format!("{from} {CALL}");
    let sum = |n: u32| n * (n + 1) / 2;
    assert_eq!(deep(SUM, &lines("mov.u32 %r1, 1000;"), 64), [500_500; 64]);
    assert_eq!(deep(SUM, &lines("mul.lo.u32 %r1, %lane, 32;"), 33), each(33, |it| sum(it % 32 * 32)));
    assert_eq!(deep(SUM, &lines("mov.u32 %r1, %t;"), 2), [0, 1]);
    // Lanes part at each depth: each adds a number that is its own, on one of two ways.
    let parting = SUM.replace(
        "add.u32 %s, %s, %n;",
        "{ .reg .b32 %l; .reg .pred %q; mov.u32 %l, %laneid; and.b32 %l, %l, 1; setp.eq.u32 %q, %l, 1;
           @%q bra ODD; add.u32 %s, %s, %n; bra END; ODD: add.u32 %s, %s, %n; add.u32 %s, %s, %n; }",
    );
    let parting = parting.replace("bra END; ODD", "bra K; ODD").replace("%s, %n; } END", "%s, %n; K: } END");
    let expected = each(32, |it| sum(it + 20) * (1 + it % 2));
    assert_eq!(deep(&parting, &lines("add.u32 %r1, %lane, 20;"), 32), expected);
}

#[test]
fn two_functions_call_each_other_and_two_calls_are_in_one_function() {
    let declarations = ".func (.param .b32 out) G(.param .b32 in);
        .func (.param .b32 out) F(.param .b32 in) { .reg .b32 %n, %r; .reg .pred %p;
            ld.param.b32 %n, [in]; mov.u32 %r, 1000; setp.eq.u32 %p, %n, 0; @%p bra E; sub.u32 %n, %n, 1;
            { .param .b32 a; st.param.b32 [a], %n; .param .b32 b; call (b), G, (a); ld.param.b32 %r, [b]; }
            E: st.param.b32 [out], %r; ret; }
        .func (.param .b32 out) G(.param .b32 in) { .reg .b32 %n, %r; .reg .pred %p;
            ld.param.b32 %n, [in]; mov.u32 %r, 2000; setp.eq.u32 %p, %n, 0; @%p bra E; sub.u32 %n, %n, 1;
            { .param .b32 a; st.param.b32 [a], %n; .param .b32 b; call (b), F, (a); ld.param.b32 %r, [b]; }
            E: st.param.b32 [out], %r; ret; }";
    let lines = format!("mov.u32 %r1, %lane; {CALL}");
    assert_eq!(deep(declarations, &lines, 32), each(32, |it| 1000 + it % 2 * 1000));
    let fibonacci = ".func (.param .b32 out) F(.param .b32 in) { .reg .b32 %n, %m, %s, %t; .reg .pred %p;
        ld.param.b32 %n, [in]; mov.u32 %s, %n; setp.lt.u32 %p, %n, 2; @%p bra END; sub.u32 %m, %n, 1;
        { .param .b32 a; st.param.b32 [a], %m; .param .b32 b; call (b), F, (a); ld.param.b32 %s, [b]; } sub.u32 %m, %n, 2;
        { .param .b32 a; st.param.b32 [a], %m; .param .b32 b; call (b), F, (a); ld.param.b32 %t, [b]; }
        add.u32 %s, %s, %t; END: st.param.b32 [out], %s; ret; }";
    let fib = |n: u32| (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0;
    assert_eq!(deep(fibonacci, &format!("and.b32 %r1, %lane, 7; {CALL}"), 32), each(32, |it| fib(it % 8)));
}

#[test]
fn each_lane_calls_the_function_whose_address_it_has() {
    let functions: String = (0..5)
        .map(|at| {
            format!(
                ".func (.param .b32 out) F{at}(.param .b32 in) {{ .reg .b32 %n; ld.param.b32 %n, [in];
                 mad.lo.u32 %n, %n, {at}, 100; st.param.b32 [out], %n; ret; }}"
            )
        })
        .collect();
    let table = ".global .u64 table[5] = {F0, F1, F2, F3, F4};";
    let lines = "rem.u32 %r1, %lane, 5; mov.u64 %rd1, table; mad.wide.u32 %rd1, %r1, 8, %rd1; ld.global.u64 %rd2, [%rd1];
        setp.gt.u32 %p1, %lane, 28; mov.u32 %r2, 7; @%p1 bra END;
        { .param .b32 a; st.param.b32 [a], %lane; .param .b32 b; proto: .callprototype (.param .b32 _) _ (.param .b32 _);
          call (b), %rd2, (a), proto; ld.param.b32 %r2, [b]; }
        END: st.global.u32 [%out], %r2;";
    let expected = each(32, |it| if it > 28 { 7 } else { it * (it % 5) + 100 });
    assert_eq!(left_by(&format!("{functions}{table}"), lines, 1, 32, 32), expected);
    // A function that calls what it is given, which is itself.
    let through = ".func (.param .b32 out) F(.param .b64 f, .param .b32 in) { .reg .b64 %f; .reg .b32 %n, %m, %s; .reg .pred %p;
        ld.param.b64 %f, [f]; ld.param.b32 %n, [in]; mov.u32 %s, 0; setp.eq.u32 %p, %n, 0; @%p bra END; sub.u32 %m, %n, 1;
        { .param .b64 g; st.param.b64 [g], %f; .param .b32 a; st.param.b32 [a], %m; .param .b32 b;
          proto: .callprototype (.param .b32 _) _ (.param .b64 _, .param .b32 _); call (b), %f, (g, a), proto;
          ld.param.b32 %s, [b]; }
        add.u32 %s, %s, %n; END: st.param.b32 [out], %s; ret; }";
    let lines = "mov.u64 %rd1, F; { .param .b64 g; st.param.b64 [g], %rd1; .param .b32 a; st.param.b32 [a], %lane; .param .b32 b;
        call (b), F, (g, a); ld.param.b32 %r2, [b]; } st.global.u32 [%out], %r2;";
    assert_eq!(deep(through, lines, 32), each(32, |n| n * (n + 1) / 2));
}

#[test]
fn structures_are_passed_and_returned_where_lanes_are_apart() {
    let declarations = ".func (.param .align 8 .b8 out[24]) F(.param .align 8 .b8 in[24], .param .b8 c) {
        .reg .b64 %a, %b; .reg .b32 %c, %d; ld.param.b64 %a, [in]; ld.param.b64 %b, [in+8]; ld.param.u32 %d, [in+16];
        ld.param.u8 %c, [c]; add.u32 %d, %d, %c; st.param.b64 [out], %b; st.param.b64 [out+8], %a; st.param.b32 [out+20], %d; ret; }";
    let lines = "and.b32 %r1, %lane, 3; setp.eq.u32 %p1, %r1, 2; cvt.u64.u32 %rd1, %lane; mov.u64 %rd2, 1000; mov.u32 %r2, 5;
        mov.u64 %rd3, 0; mov.u64 %rd4, 0; mov.u32 %r4, 0;
        @!%p1 bra END; { .param .align 8 .b8 a[24]; .param .b8 c; .param .align 8 .b8 r[24];
          st.param.b64 [a], %rd1; st.param.v2.b32 [a+8], {%lane, %r2}; st.param.b32 [a+16], %lane; st.param.b8 [c], %r2;
          call (r), F, (a, c); ld.param.b64 %rd3, [r]; ld.param.b64 %rd4, [r+8]; ld.param.b32 %r4, [r+20]; }
        END: shr.u64 %rd5, %rd3, 32; cvt.u32.u64 %r5, %rd5; cvt.u32.u64 %r6, %rd4;
        mad.lo.u32 %r7, %r5, 10000, %r6; mad.lo.u32 %r7, %r4, 100, %r7; st.global.u32 [%out], %r7;";
    let expected = each(32, |it| if it % 4 == 2 { 50_000 + it + 100 * (it + 5) } else { 0 });
    assert_eq!(left_by(declarations, lines, 1, 32, 32), expected);
}

#[test]
fn each_call_has_local_memory_of_its_own() {
    let declarations = ".func (.param .b32 out) F(.param .b32 in) { .local .align 16 .b8 own[64]; .reg .b32 %n, %m, %s, %t; .reg .pred %p;
        .reg .b64 %a, %g; ld.param.b32 %n, [in]; mov.u64 %a, own; cvta.local.u64 %g, %a; st.local.u32 [own+60], %n; mov.u32 %s, 0;
        setp.eq.u32 %p, %n, 0; @%p bra END; sub.u32 %m, %n, 1;
        { .param .b32 a; st.param.b32 [a], %m; .param .b32 b; call (b), F, (a); ld.param.b32 %s, [b]; }
        ld.u32 %t, [%g+60]; add.u32 %s, %s, %t; END: st.param.b32 [out], %s; ret; }";
    let lines = format!(
        ".local .align 4 .b8 mine[20]; st.local.u32 [mine+16], %lane; add.u32 %r1, %lane, 3; {CALL}
         ld.local.u32 %r5, [mine+16]; mad.lo.u32 %r5, %r5, 10000, %r2; st.global.u32 [%out], %r5;"
    );
    assert_eq!(deep(declarations, &lines, 32), each(32, |it| 10_000 * it + (it + 3) * (it + 4) / 2));
}

#[test]
fn calls_returns_and_ends_have_guards() {
    let declarations = ".func F(.param .b64 to, .param .b32 in) { .reg .b64 %a; .reg .b32 %n, %m; .reg .pred %p, %q;
        ld.param.b64 %a, [to]; ld.param.b32 %n, [in]; and.b32 %m, %n, 3; setp.eq.u32 %p, %m, 1; setp.eq.u32 %q, %m, 2;
        @%p ret; st.global.u32 [%a], 5; @%q exit; st.global.u32 [%a], 6; }";
    for (guard, calls) in [("%lane, 32", 32), ("%lane, 0", 0), ("%lane, 9", 9)] {
        let lines = format!(
            "setp.lt.u32 %p1, {guard}; {{ .param .b64 a; st.param.b64 [a], %out; .param .b32 b; st.param.b32 [b], %lane;
             @%p1 call F, (a, b); }} ld.global.u32 %r1, [%out]; add.u32 %r1, %r1, 100; st.global.u32 [%out], %r1;"
        );
        let expected = each(32, |it| match it % 4 {
            _ if it >= calls => 100,
            1 => 100,
            2 => 5,
            _ => 106,
        });
        assert_eq!(left_by(declarations, &lines, 1, 32, 32), expected, "{guard}");
    }
}

/// What a kernel fails with, and the sentence.
fn failing(declarations: &str, lines: &str, threads: u32) -> (CUresult, String) {
    let mut found = None;
    run(|| {
        let _ctx = pushed();
        let error = launched(&program(declarations, lines), 1, threads, &[0; 1024]).unwrap_err();
        found = Some((error, said(error)));
    });
    found.unwrap()
}

#[test]
fn a_recursion_without_an_end_is_an_error() {
    if !simulated("a_recursion_without_an_end_is_an_error") {
        return;
    }
    let endless = SUM
        .replace("setp.eq.u32 %p, %n, 0;", "setp.eq.u32 %p, %n, -1;")
        .replace("sub.u32 %m, %n, 1", "or.b32 %m, %n, 1");
    let large = endless.replace(".reg .pred %p;", ".reg .pred %p; .reg .b64 %many<20000>;");
    for declarations in [endless, large] {
        for begin in [
            "mov.u32 %r1, 5;",
            "and.b32 %r9, %lane, 1; setp.eq.u32 %p1, %r9, 1; @%p1 bra X; mov.u32 %r1, 2; X:",
        ] {
            let (error, text) = failing(&declarations, &format!("{begin} {CALL}"), 128);
            assert_eq!(error, status::ILLEGAL_ADDRESS, "{text}");
            assert!(text.contains("calls are in each other") && text.contains("call.uni"), "{text}");
        }
    }
}

#[test]
fn a_recursion_that_is_deeper_than_the_stack_is_an_error() {
    if !simulated("a_recursion_that_is_deeper_than_the_stack_is_an_error") {
        return;
    }
    let lines = format!("mov.u32 %r1, 1000; {CALL}");
    let (error, text) = failing(SUM, &lines, 64);
    assert_eq!(error, status::ILLEGAL_ADDRESS, "{text}");
    assert!(text.contains("calls are in each other, and the stack of a thread has 1024 bytes"), "{text}");
    assert_eq!(deep(SUM, &lines, 64), [500_500; 64]);
    // Few calls fit, and so do functions that need more than the stack but do not call themselves.
    let few = format!("mov.u32 %r1, 9; {CALL}");
    assert_eq!(left_by(SUM, &few, 1, 32, 32), [45; 32]);
    let large = ".func (.param .b32 out) F(.param .b32 in) { .local .align 4 .b8 much[8192]; .reg .b32 %n; .reg .b64 %a;
        ld.param.b32 %n, [in]; mov.u64 %a, much; mad.wide.u32 %a, %n, 4, %a; st.local.u32 [%a], %n; ld.local.u32 %n, [%a];
        st.param.b32 [out], %n; ret; }";
    assert_eq!(left_by(large, &format!("mov.u32 %r1, 2000; {CALL}"), 1, 32, 32), [2000; 32]);
}

#[test]
fn a_call_by_a_wrong_address_or_in_another_shape_is_no_crash() {
    if !simulated("a_call_by_a_wrong_address_or_in_another_shape_is_no_crash") {
        return;
    }
    let nothing = ".func F() { ret; }";
    let call = "{ .param .align 8 .b8 a[4096]; .param .align 8 .b8 b[4096]; st.param.b32 [a], %lane;
        proto: .callprototype (.param .align 8 .b8 _[4096]) _ (.param .align 8 .b8 _[4096]); call (b), %rd1, (a), proto; }";
    run(|| {
        let _ctx = pushed();
        launched(&program(nothing, &format!("mov.u64 %rd1, F; {call}")), 1, 32, &[0]).unwrap();
    });
    for lines in
        ["mov.u64 %rd1, 0;", "mov.u64 %rd1, F; setp.eq.u32 %p1, %lane, 9; @%p1 add.u64 %rd1, %rd1, 8;"]
    {
        let (error, text) = failing(nothing, &format!("{lines} {call}"), 32);
        assert_eq!(error, status::INVALID_PROGRAM_COUNTER, "{text}");
        assert!(text.contains("is not a function's address"), "{text}");
    }
}
