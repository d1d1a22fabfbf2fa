//! How the simulated driver's PTX parser and interpreter handle numbers that no sensible program has.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::gpu::{Buffer, Module, Result, Size, Stream, major, pushed, said, status};
use crate::harness::{is_simulated, run, skip};
use custack_sys::ffi::CUresult;

const HEAD: &str = ".version 7.0 .target sm_70 .address_size 64 ";

/// Skips the test on a GPU, where another compiler reads the text.
fn simulated(test: &str) -> bool {
    if !is_simulated() {
        skip(test, "a GPU's compiler is not what is tested");
    }
    is_simulated()
}

fn load(text: &str) -> Result<Module> {
    Module::load(format!("{HEAD}{text}").as_bytes())
}

/// What is wrong with a text: with all of it, or with its kernel.
fn refusal(text: &str) -> CUresult {
    match load(text) {
        Err(error) => error,
        Ok(module) => module.get_function(c"k").map(drop).unwrap_err(),
    }
}

/// A kernel with these lines, which may use a few registers.
fn kernel(lines: &str) -> String {
    let registers = ".reg .b64 %rd<30>; .reg .b32 %r<9>; .reg .f64 %fd<9>; .reg .pred %p<3>;";
    format!(".visible .entry k(.param .u64 to) {{ {registers} {lines} ret; }}")
}

#[test]
fn numbers_that_do_not_fit_are_refused() {
    if !simulated("numbers_that_do_not_fit_are_refused") {
        return;
    }
    run(|| {
        let _ctx = pushed();
        let most = u64::MAX;
        let invalid = status::INVALID_PTX;
        let offset = |text: &str| kernel(&format!("ld.global.u32 %r1, [%rd1{text}];"));
        let many = |text: &str, count: usize| vec![text; count].join(", ");
        let registers = |count: usize| {
            kernel(&(0..count).map(|at| format!(".reg .b32 %a{at}_<65536>;")).collect::<String>())
        };
        for (text, error) in [
            (offset("-9223372036854775808"), invalid),
            (offset("-2147483649"), invalid),
            (offset("-18446744073709551615"), invalid),
            (offset("-18446744073709551616"), invalid),
            (kernel("st.shared.u32 [%rd1-9223372036854775808], 1;"), invalid),
            (kernel("atom.global.add.u32 %r1, [%rd1-9223372036854775808], 1;"), invalid),
            (kernel("red.global.add.u32 [%rd1-9223372036854775808], 1;"), invalid),
            (kernel("@_ trap;"), invalid),
            (kernel("@!_ trap;"), invalid),
            (kernel("selp.u32 %r1, 1, 2, !_;"), invalid),
            (kernel("bar.sync 9223372036854775808;"), invalid),
            (".global .align 0 .b8 a[4];".to_owned(), invalid),
            (".global .align 3 .b8 a[4];".to_owned(), invalid),
            (".global .align 8192 .b8 a[4];".to_owned(), invalid),
            (".global .align 9223372036854775808 .b8 a[4];".to_owned(), invalid),
            (format!(".global .align {most} .b8 a[4];"), invalid),
            (format!(".global .b8 a[{most}];"), invalid),
            (".global .b8 a[4294967297];".to_owned(), invalid),
            (".global .b64 a[2305843009213693952];".to_owned(), invalid),
            (".const .b8 a[65537];".to_owned(), invalid),
            (".const .b8 a[65536]; .const .u32 b;".to_owned(), invalid),
            (format!(".shared .b8 a[{most}];"), invalid),
            (kernel(".shared .b64 a[536870912];"), invalid),
            (kernel(&".shared .align 4096 .b8 a[4294967295];".repeat(50)), invalid),
            (kernel(&".local .align 4096 .b8 a[4294967295];".repeat(50)), invalid),
            (kernel(&format!(".reg .b32 %many<{most}>;")), invalid),
            (kernel(".reg .b32 %many<9223372036854775807>;"), status::NOT_SUPPORTED),
            (registers(1), status::NOT_SUPPORTED),
            (registers(500), status::NOT_SUPPORTED),
            (format!(".entry k(.param .b8 a[{most}]) {{ ret; }}"), invalid),
            (".entry k(.param .b8 a[4353]) { ret; }".to_owned(), invalid),
            (".entry k(.param .b64 a[32764]) { ret; }".to_owned(), invalid),
            (format!(".entry k({}) {{ ret; }}", many(".param .u64 a", 5000)), invalid),
            (
                format!(".entry k({}) {{ ret; }}", many(".param .align 9223372036854775807 .b8 a[9]", 5000)),
                invalid,
            ),
        ] {
            let shown: String = text.chars().take(200).collect();
            assert_eq!(refusal(&text), error, "{shown}");
        }
        for (head, error) in [
            (".version 9.9e99999 .target sm_70", status::UNSUPPORTED_PTX_VERSION),
            (".version 18446744073709551615 .target sm_70", invalid),
            (".version 8.1 .target sm_70 .entry k(.param .b8 a[32765]) { ret; }", invalid),
            (".version 7.0 .target sm_70 .address_size 18446744073709551615", invalid),
        ] {
            assert_eq!(Module::load(head.as_bytes()).unwrap_err(), error, "{head}");
        }
    });
}

/// Both compilers refuse the module: this is no question of what is modelled.
#[test]
fn operands_that_no_instruction_has_are_refused_with_their_module() {
    run(|| {
        let _ctx = pushed();
        for line in [
            "add.u32 %r1, %r2 %r3, %r4;",
            "add.u32 %r1, %r2, 3 @%p1 bra L; L:",
            "add.u32 %r1, , %r2, %r3;",
            "add.u32 %r1, %r2, %r3,;",
            "add.u32 , %r1, %r2, %r3;",
            "ld.global.u32 %r1, [%rd1;",
            "ld.global.u32 %r1, %rd1];",
            "ld.global.u32 %r1, [%rd1) ;",
            "ld.global.u32 %r1, [%rd1+];",
            "st.global.v2.u32 [%rd1], {%r1, };",
            "mov.b64 %rd1, {%r1 %r2};",
            "mov.u32 %r1, %r2 ld.global.u32 %r1, [%rd1];",
            "mov.u32 %r1, \"text\" 5;",
        ] {
            let text = format!("{} .visible .entry other() {{ ret; }}", kernel(line));
            assert_eq!(load(&text).map(drop), Err(status::INVALID_PTX), "{line}");
        }
    });
}

#[test]
fn misspelt_opcodes_and_modifiers_are_refused() {
    run(|| {
        let _ctx = pushed();
        for line in [
            "ld.globl.u32 %r1, [%rd1];",
            "ld.global.u33 %r1, [%rd1];",
            "mov.u32.foo %r1, %r2;",
            "mov.foo.u32 %r1, %r2;",
            "mvo.u32 %r1, %r2;",
            "st.gloal.u32 [%rd1], %r1;",
            "add.u32.rn.x %r1, %r1, %r1;",
            "atom.global.ad.u32 %r1, [%rd1], 1;",
            "bar.snyc 0;",
            "cvt.u32.u65 %r1, %r2;",
            "fence.acq_rle.gpu;",
            "membar.gll;",
            "prefetch.global.L3 [%rd1];",
        ] {
            let error = refusal(&kernel(line));
            assert!(matches!(error, status::INVALID_PTX | status::NOT_SUPPORTED), "{line}: {error}");
        }
    });
}

#[test]
fn a_text_for_a_newer_device_is_refused() {
    if major() != 9 {
        return skip("a_text_for_a_newer_device_is_refused", "the device is none of compute capability 9.0");
    }
    run(|| {
        let _ctx = pushed();
        for (target, loads) in [
            ("sm_70", true),
            ("sm_90", true),
            ("sm_90a", true),
            ("sm_100", false),
            ("sm_120", false),
            ("sm_120a", false),
        ] {
            let text =
                format!(".version 8.7 .target {target} .address_size 64 .visible .entry k() {{ ret; }}");
            let found = Module::load(text.as_bytes()).map(drop);
            assert_eq!(found, if loads { Ok(()) } else { Err(status::INVALID_PTX) }, "{target}");
        }
    });
}

#[test]
fn what_is_wrong_with_a_function_that_no_kernel_calls_refuses_the_module() {
    run(|| {
        let _ctx = pushed();
        for code in [
            "add.u32 %a, %b;",
            "mov.u32 %a, %nobody_has_declared_this1;",
            "bra NOWHERE;",
            "mvo.u32 %a, %b;",
            "mov.u64 %a, %b;",
        ] {
            let function = format!(".func f(.param .b32 in) {{ .reg .b32 %a, %b; {code} ret; }}");
            let text = format!("{function} {}", kernel(""));
            assert_eq!(load(&text).map(drop), Err(status::INVALID_PTX), "{code}");
        }
        // What is right stays.
        let text = format!(
            ".func (.param .b32 out) f(.param .b32 in) {{ .reg .b32 %a; ld.param.b32 %a, [in]; st.param.b32 [out], %a; ret; }}
            .func (.reg .b32 %out) g(.reg .b32 %in) {{ add.u32 %out, %in, 1; ret; }} {}",
            kernel("")
        );
        load(&text).unwrap().get_function(c"k").unwrap();
    });
}

#[test]
fn clocks_never_go_back() {
    run(|| {
        let _ctx = pushed();
        let clock = |name: &str| {
            format!(
                "{{ .reg .b64 %now, %last; .reg .b32 %count; mov.u64 %last, 0; mov.u32 %count, 0;
                 AGAIN: mov.u64 %now, {name}; setp.lt.u64 %p1, %now, %last; @%p1 bra BACK; mov.u64 %last, %now;
                 add.u32 %count, %count, 1; setp.lt.u32 %p1, %count, 2000; @%p1 bra AGAIN; }}"
            )
        };
        let words = "{ .reg .b32 %low, %high, %again; mov.u32 %high, %clock_hi; mov.u32 %low, %clock;
            mov.u32 %again, %clock_hi; setp.lt.u32 %p1, %again, %high; @%p1 bra BACK; }";
        let lines = format!(
            "ld.param.u64 %rd1, [to]; {} {} {words} st.global.u32 [%rd1], 1; ret; BACK: st.global.u32 [%rd1], 2;",
            clock("%clock64"),
            clock("%globaltimer"),
        );
        let module = load(&kernel(&lines)).unwrap();
        let stream = Stream::new().unwrap();
        let to = Buffer::from_slice(&[0u32]).unwrap();
        unsafe { launch!(module.k<<<1, 1, 0, stream>>>(to.address())) }.unwrap();
        stream.synchronize().unwrap();
        let mut found = [0u32];
        to.copy_to(&mut found[..]).unwrap();
        assert_eq!(found, [1]);
    });
}

#[test]
fn a_register_with_the_name_of_one_of_the_machine_hides_it() {
    run(|| {
        let _ctx = pushed();
        for line in [
            ".reg .b32 %tid; mov.u32 %r1, %tid.x;",
            ".reg .b32 %ctaid; mov.u32 %r1, %ctaid.y;",
            "mov.u32 %r1, %tid;",
            "mov.u32 %r1, %laneid.x;",
            "mov.u32 %r1, %tid.q;",
        ] {
            let error = refusal(&kernel(line));
            assert!(matches!(error, status::INVALID_PTX | status::NOT_SUPPORTED), "{line}: {error}");
        }
        let lines = "ld.param.u64 %rd1, [to]; mov.u32 %r1, %ntid.r; { .reg .b32 %ntid; mov.u32 %ntid, 5;
             add.u32 %r1, %r1, %ntid; } mov.u32 %r2, %ntid.w; mad.lo.u32 %r1, %r2, 100, %r1; st.global.u32 [%rd1], %r1;";
        let module = load(&kernel(lines)).unwrap();
        let stream = Stream::new().unwrap();
        let to = Buffer::from_slice(&[0u32]).unwrap();
        unsafe { launch!(module.k<<<1, 3, 0, stream>>>(to.address())) }.unwrap();
        stream.synchronize().unwrap();
        let mut found = [0u32];
        to.copy_to(&mut found[..]).unwrap();
        assert_eq!(found, [8]);
    });
}

#[test]
fn errors_quote_the_text_of_the_operands() {
    if !simulated("errors_quote_the_text_of_the_operands") {
        return;
    }
    run(|| {
        let _ctx = pushed();
        for (line, says) in [
            ("mov.u32 %r1, {%r2, -0x10};", "does not know the operand `{%r2, -16}`"),
            (
                "add.u32 %r1, 18446744073709551615 0f3f800000, %r2;",
                "near '0f3F800000' behind `18446744073709551615`",
            ),
            ("mov.f64 %fd1, [1.5];", "does not know the operand `[0d3FF8000000000000]`"),
            ("ld.global.u32 %r1, %rd2;", "an address is expected, but `%rd2` is found"),
            ("ld.global.u32 %r1, [%rd2+%rd3];", "does not know the address `[%rd2+%rd3]`"),
            ("ld.global.u32 %r1, [%rd2 + 4 + 4];", "does not know the address `[%rd2+4+4]`"),
            ("5;", "an instruction cannot begin with `5`"),
            ("\"text\";", "an instruction cannot begin with `\"text\"`"),
            (".reg .b32 %a<%b>;", "a number is expected, but `%b` is found"),
            (".reg .b32 4;", "a name is expected, but `4` is found"),
            (".reg .b32 %a %b;", "`;` is expected, but `%b` is found"),
            (".local .u32 a = \"text\";", "a begins with `\"text\"`"),
            ("mov.u32 %r1, %r2", "near 'ret' behind `%r2`"),
            ("mov.u32 %r1, \u{e9};", "`\u{e9}` is not a character of PTX"),
        ] {
            let text = said(refusal(&kernel(line)));
            assert!(text.contains(says), "{line}: {text}");
            for debug in ["Word(", "Sign(", "Int(", "Single(", "Double(", "Text("] {
                assert!(!text.contains(debug), "{line}: {text}");
            }
        }
    });
}

#[test]
fn a_fault_names_the_kind_of_memory_in_small_letters() {
    if !simulated("a_fault_names_the_kind_of_memory_in_small_letters") {
        return;
    }
    run(|| {
        let _ctx = pushed();
        let stream = Stream::new().unwrap();
        let module = load(&kernel("mov.u64 %rd1, 4096; ld.local.u32 %r1, [%rd1];")).unwrap();
        unsafe { launch!(module.k<<<1, 1, 0, stream>>>(0u64)) }.unwrap();
        let text = said(stream.synchronize().unwrap_err());
        assert!(text.contains("4 bytes at 0x1000 of 0 bytes of local memory"), "{text}");
    });
}

#[test]
fn nesting_may_be_of_any_depth() {
    if !simulated("nesting_may_be_of_any_depth") {
        return;
    }
    run(|| {
        let _ctx = pushed();
        let deep = 200_000;
        load(&kernel(&format!("{}{}", "{".repeat(deep), "}".repeat(deep)))).unwrap();
        assert_eq!(refusal(&kernel(&"{".repeat(deep))), status::INVALID_PTX);
        let brackets = format!("mov.u32 %r1, {}1{};", "[".repeat(deep), "]".repeat(deep));
        assert_eq!(refusal(&kernel(&brackets)), status::NOT_SUPPORTED);
    });
}

#[test]
fn sizes_of_launches_that_overflow_are_refused() {
    run(|| {
        let _ctx = pushed();
        let module = load(".visible .entry k() { trap; }").unwrap();
        let stream = Stream::new().unwrap();
        let function = module.get_function(c"k").unwrap();
        let (most, half) = (u32::MAX, 1 << 31);
        let one = (1, 1, 1);
        for (grid, block) in [
            (one, (most, most, 64)),
            (one, (most, most, most)),
            (one, (half, half, 4)),
            ((most, most, most), one),
            ((half, half, 4), one),
        ] {
            let (grid, block): (Size, Size) = (grid.into(), block.into());
            let result = unsafe { launch!(function<<<grid, block, 0, stream>>>()) };
            assert_eq!(result, Err(status::INVALID_VALUE));
        }
        let result = unsafe { launch!(function<<<1, 1, u32::MAX, stream>>>()) };
        assert_eq!(result, Err(status::INVALID_VALUE));
        stream.synchronize().unwrap();
    });
}

/// Each line leaves its result in `%rd2`.
const ARITHMETIC: &[(&str, u64)] = &[
    ("mov.u64 %rd2, 18446744073709551615;", u64::MAX),
    ("mov.u64 %rd2, -9223372036854775808;", 1 << 63),
    ("mov.u32 %r1, -18446744073709551615; cvt.u64.u32 %rd2, %r1;", 1),
    ("mov.u64 %rd3, -9223372036854775808; neg.s64 %rd2, %rd3;", 1 << 63),
    ("mov.u64 %rd3, -9223372036854775808; abs.s64 %rd2, %rd3;", 1 << 63),
    ("mov.u64 %rd3, -9223372036854775808; div.s64 %rd2, %rd3, -1;", 1 << 63),
    ("mov.u64 %rd3, -9223372036854775808; rem.s64 %rd2, %rd3, -1;", 0),
    ("mov.u64 %rd3, 18446744073709551615; div.u64 %rd2, %rd3, 0;", u64::MAX),
    ("mov.u64 %rd3, 5; rem.u64 %rd2, %rd3, 0;", u64::MAX),
    ("mov.u64 %rd3, 18446744073709551615; mul.lo.u64 %rd2, %rd3, %rd3;", 1),
    ("mov.u64 %rd3, 18446744073709551615; mul.hi.u64 %rd2, %rd3, %rd3;", u64::MAX - 1),
    ("mov.u64 %rd3, -9223372036854775808; mul.hi.s64 %rd2, %rd3, %rd3;", 1 << 62),
    ("mov.u64 %rd3, 18446744073709551615; mad.hi.u64 %rd2, %rd3, %rd3, %rd3;", u64::MAX - 2),
    ("mov.u32 %r1, 4294967295; mad.wide.u32 %rd2, %r1, %r1, 18446744073709551615;", 0xffff_fffe_0000_0000),
    ("mov.u32 %r1, -2147483648; mul.wide.s32 %rd2, %r1, %r1;", 1 << 62),
    ("mov.u64 %rd3, 1; shl.b64 %rd2, %rd3, 4294967295;", 0),
    ("mov.u64 %rd3, -1; shr.s64 %rd2, %rd3, 4294967295;", u64::MAX),
    ("mov.u64 %rd3, -1; shr.u64 %rd2, %rd3, 4294967295;", 0),
    ("mov.f64 %fd1, 0d7FEFFFFFFFFFFFFF; cvt.rzi.s64.f64 %rd2, %fd1;", i64::MAX as u64),
    ("mov.f64 %fd1, 0dFFEFFFFFFFFFFFFF; cvt.rzi.s64.f64 %rd2, %fd1;", 1 << 63),
    ("mov.f64 %fd1, 0dFFEFFFFFFFFFFFFF; cvt.rzi.u64.f64 %rd2, %fd1;", 0),
    ("mov.u64 %rd3, 0; clz.b64 %r1, %rd3; cvt.u64.u32 %rd2, %r1;", 64),
    (
        "st.global.u64 [%rd1], -1; atom.global.inc.u32 %r1, [%rd1], 4294967295; ld.global.u64 %rd2, [%rd1];",
        0xffff_ffff_0000_0000,
    ),
    (
        "st.global.u64 [%rd1], 0; atom.global.dec.u32 %r1, [%rd1], 4294967295; ld.global.u64 %rd2, [%rd1];",
        0xffff_ffff,
    ),
    (
        "st.global.u64 [%rd1], -1; atom.global.add.u64 %rd3, [%rd1], -1; ld.global.u64 %rd2, [%rd1];",
        u64::MAX - 1,
    ),
    // There and back, past both ends of the address space.
    (
        "st.global.u64 [%rd1], 9; add.u64 %rd3, %rd1, 9223372036854775807; ld.global.u64 %rd2, [%rd3+-9223372036854775807];",
        9,
    ),
];

#[test]
fn arithmetic_at_the_ends_of_the_types_wraps() {
    if !simulated("arithmetic_at_the_ends_of_the_types_wraps") {
        return;
    }
    run(|| {
        let _ctx = pushed();
        let stream = Stream::new().unwrap();
        let to = Buffer::from_slice(&[0u64]).unwrap();
        let pointer = to.address();
        for (lines, expected) in ARITHMETIC {
            let text = kernel(&format!("ld.param.u64 %rd1, [to]; {lines} st.global.u64 [%rd1], %rd2;"));
            let module = load(&text).unwrap();
            unsafe { launch!(module.k<<<1, 1, 0, stream>>>(pointer)) }.unwrap();
            stream.synchronize().unwrap();
            let mut value = [0];
            to.copy_to(&mut value).unwrap();
            assert_eq!(value, [*expected], "{lines}");
        }
    });
}
