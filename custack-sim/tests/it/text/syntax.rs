//! The forms in which compilers, old and new, and inline code write PTX: which the simulated driver takes, with the
//! values that they compute, and which it refuses, with the statuses of the NVIDIA driver's compiler.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::gpu::{Buffer, Module, Stream, pushed, status};
use crate::harness::{is_simulated, run, skip};
use custack_sys::ffi::CUresult;

const HEAD: &str = ".version 7.0 .target sm_70 .address_size 64\n";

/// Runs the claim on the simulated driver only: what another compiler says of a text is not what is tested.
fn simulated(test: &str, claim: impl FnOnce() + Send) {
    if !is_simulated() {
        return skip(test, "a GPU's compiler is not what is tested");
    }
    run(|| {
        let _ctx = pushed();
        claim();
    });
}

/// What is wrong with a text: with all of it, or with its kernel.
fn refusal(text: &str) -> CUresult {
    match Module::load(text.as_bytes()) {
        Err(error) => error,
        Ok(module) => module.get_function(c"k").map(drop).unwrap_err(),
    }
}

/// The kernel `k`, with registers, and with the address of its results in `%rd1`.
fn kernel(lines: &str) -> String {
    let registers = ".reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .b16 %rs<9>; .reg .pred %p<3>;";
    format!(".visible .entry k(.param .u64 to) {{ {registers} ld.param.u64 %rd1, [to];\n{lines}\nret; }}")
}

/// The first words that the kernel `k` of a whole text stores, with 64 threads.
fn words_of(text: &str) -> [u32; 4] {
    let module = Module::load(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"));
    let stream = Stream::new().unwrap();
    let to = Buffer::from_slice(&[0u32; 256]).unwrap();
    let pointer = to.address();
    let function = module.get_function(c"k").unwrap_or_else(|error| panic!("{error}: {text}"));
    unsafe { launch!(function<<<1, 64, 256, stream>>>(pointer)) }.unwrap();
    stream.synchronize().unwrap_or_else(|error| panic!("{error}: {text}"));
    let mut words = [0; 256];
    to.copy_to(&mut words).unwrap();
    words[..4].try_into().unwrap()
}

fn words(text: &str) -> [u32; 4] {
    words_of(&format!("{HEAD}{text}"))
}

#[test]
fn parameters_of_functions_may_be_registers() {
    simulated("parameters_of_functions_may_be_registers", || {
        let functions = ".func (.reg .u32 out) twice (.reg .u32 a) { add.u32 out, a, a; ret; }\n\
             .func (.reg .b64 low, .reg .u32 high) two (.reg .b64 a, .reg .u32 b)\n\
             { add.u64 low, a, 1; add.u32 high, b, 2; ret; }\n\
             .func (.reg .v2 .u32 out) swapped (.reg .v2 .u32 in) { mov.v2.u32 out, {in.y, in.x}; ret; }\n";
        let one = kernel("mov.u32 %r1, 21; call (%r2), twice, (%r1); st.global.u32 [%rd1], %r2;");
        assert_eq!(words(&format!("{functions}{one}"))[0], 42);
        let lines = "mov.u64 %rd2, 4294967295; call (%rd3, %r3), two, (%rd2, 5);\n\
             st.global.u64 [%rd1], %rd3; st.global.u32 [%rd1+8], %r3;";
        assert_eq!(words(&format!("{functions}{}", kernel(lines))), [0, 1, 7, 0]);
        let lines = ".reg .v2 .u32 v; mov.u32 v.x, 3; mov.u32 v.y, 4; call (v), swapped, (v);\n\
             st.global.v2.u32 [%rd1], v;";
        assert_eq!(words(&format!("{functions}{}", kernel(lines)))[..2], [4, 3]);
        let lines = "mov.u32 %r1, 1; call (%r2), twice, (%rd1);";
        assert_eq!(refusal(&format!("{HEAD}{functions}{}", kernel(lines))), status::INVALID_PTX);
        let small = ".func f (.reg .pred a) { ret; }";
        let lines = "setp.eq.u32 %p1, 1, 1; call f, (%p1);";
        assert_eq!(refusal(&format!("{HEAD}{small}{}", kernel(lines))), status::NOT_SUPPORTED);
        assert_eq!(refusal(&format!("{HEAD}.entry k(.reg .u32 a) {{ ret; }}")), status::INVALID_PTX);
    });
}

#[test]
fn a_call_passes_registers_and_constants_where_a_parameter_is_in_memory() {
    simulated("a_call_passes_registers_and_constants_where_a_parameter_is_in_memory", || {
        let function = ".func (.param .b32 out) plus (.param .b32 a, .param .f32 b) {\n\
             .reg .b32 %r<4>; .reg .f32 %f; ld.param.u32 %r1, [a]; ld.param.f32 %f, [b]; cvt.rzi.u32.f32 %r2, %f;\n\
             add.u32 %r3, %r1, %r2; st.param.b32 [out], %r3; ret; }\n";
        let lines = "mov.u32 %r1, 5; call (%r2), plus, (%r1, 2.5); st.global.u32 [%rd1], %r2;\n\
             call (%r2), plus, (6, 0f40400000); st.global.u32 [%rd1+4], %r2; call (_), plus, (6, 0f40400000);";
        assert_eq!(words(&format!("{function}{}", kernel(lines)))[..2], [7, 9]);
    });
}

#[test]
fn a_call_of_some_lanes_leaves_the_results_of_others() {
    simulated("a_call_of_some_lanes_leaves_the_results_of_others", || {
        let function = ".func (.reg .u32 out) twice (.reg .u32 a) { add.u32 out, a, a; ret; }\n";
        let lines = "mov.u32 %r1, %tid.x; mov.u32 %r2, 77; setp.eq.u32 %p1, %r1, 1; @%p1 call (%r2), twice, (%r1);\n\
             mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r2;";
        assert_eq!(words(&format!("{function}{}", kernel(lines))), [77, 2, 77, 77]);
    });
}

#[test]
fn a_function_with_registers_may_call_itself() {
    simulated("a_function_with_registers_may_call_itself", || {
        let function = ".func (.reg .u32 out) factorial (.reg .u32 n) { .reg .pred p; .reg .u32 less, rest;\n\
             mov.u32 out, 1; setp.lt.u32 p, n, 2; @p ret; sub.u32 less, n, 1; call (rest), factorial, (less);\n\
             mul.lo.u32 out, rest, n; ret; }\n";
        let lines = "call (%r1), factorial, (6); st.global.u32 [%rd1], %r1;";
        assert_eq!(words(&format!("{function}{}", kernel(lines)))[0], 720);
    });
}

#[test]
fn the_functions_that_an_address_may_name_can_be_listed() {
    simulated("the_functions_that_an_address_may_name_can_be_listed", || {
        let functions = ".func (.reg .u32 out) one (.reg .u32 a) { add.u32 out, a, 1; ret; }\n\
             .func (.reg .u32 out) two (.reg .u32 a) { add.u32 out, a, 2; ret; }\n\
             .func other (.reg .u64 a) { ret; }\n";
        let lines = "mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 1; mov.u64 %rd4, one; mov.u64 %rd5, two;\n\
             selp.b64 %rd6, %rd5, %rd4, %p1; all: .calltargets one, two; call (%r3), %rd6, (%r1), all;\n\
             mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r3;";
        assert_eq!(words(&format!("{functions}{}", kernel(lines))), [1, 3, 3, 5]);
        let mixed = lines.replace("one, two; call", "one, other; call");
        assert_eq!(refusal(&format!("{HEAD}{functions}{}", kernel(&mixed))), status::INVALID_PTX);
    });
}

#[test]
fn directives_may_follow_each_other_without_a_space() {
    simulated("directives_may_follow_each_other_without_a_space", || {
        let lines = ".reg.b32 a; .reg.v2.u32 v; .local.align 8 .b8 there[8]; mov.u32 a, 3; st.local.u32 [there], a;\n\
             ld.local.u32 %r1, [there]; st.global.u32 [%rd1], %r1;";
        assert_eq!(words(&kernel(lines))[0], 3);
    });
}

#[test]
fn a_declaration_before_another_one_needs_no_semicolon() {
    simulated("a_declaration_before_another_one_needs_no_semicolon", || {
        let text = format!(
            ".visible .func f (.param .u32 a)\n.extern .func g ()\n.func f (.param .u32 a) {{ ret; }}\n{}",
            kernel("")
        );
        assert_eq!(words(&text), [0; 4]);
    });
}

#[test]
fn a_variable_without_a_size_is_refused() {
    simulated("a_variable_without_a_size_is_refused", || {
        for variable in
            [".global .u32 v[];", ".const .u32 v[];", ".shared .u32 v[];", ".visible .global .u32 v[];"]
        {
            assert_eq!(
                refusal(&format!("{HEAD}{variable}{}", kernel(""))),
                status::INVALID_PTX,
                "{variable}"
            );
        }
        for parameter in [".param .b8 v[]", ".param .v2 .b32 v"] {
            assert_eq!(
                refusal(&format!("{HEAD}.entry k({parameter}) {{ ret; }}")),
                status::INVALID_PTX,
                "{parameter}"
            );
        }
        assert_eq!(
            words(&format!(
                ".global .u32 v[] = {{7, 8}}; .extern .shared .u32 s[]; {}",
                kernel("ld.global.u32 %r1, [v+4]; st.global.u32 [%rd1], %r1;")
            ))[0],
            8
        );
    });
}

#[test]
fn a_variable_of_a_function_is_there_for_all_its_threads() {
    simulated("a_variable_of_a_function_is_there_for_all_its_threads", || {
        let lines = "{ .global .u32 v[2] = {7, 8}; atom.global.add.u32 %r1, [v], 1; ld.global.u32 %r2, [v+4]; }\n\
             { .const .u32 v = 9; ld.const.u32 %r3, [v]; } bar.sync 0; st.global.u32 [%rd1+4], %r2;\n\
             st.global.u32 [%rd1+8], %r3; red.global.max.u32 [%rd1], %r1;";
        assert_eq!(words(&kernel(lines)), [70, 8, 9, 0]);
    });
}

#[test]
fn a_named_variable_is_found_in_its_space_where_none_is_written() {
    simulated("a_named_variable_is_found_in_its_space_where_none_is_written", || {
        let lines = ".local .align 8 .b8 here[8]; .shared .align 8 .b8 there[8]; mov.u32 %r1, 5; st.u32 [here+4], %r1;\n\
             ld.u32 %r2, [here+4]; st.u32 [there], %r2; ld.u32 %r3, [there]; atom.exch.b32 %r4, [there], 6; bar.sync 0;\n\
             st.global.u32 [%rd1], %r3; ld.shared.u32 %r4, [there]; st.global.u32 [%rd1+4], %r4;";
        let words = words(&kernel(lines));
        assert!(matches!(words, [5 | 6, 6, 0, 0]), "{words:?}");
        assert_eq!(refusal(&format!("{HEAD}{}", kernel("ld.u64 %rd2, [to];"))), status::INVALID_PTX);
    });
}

#[test]
fn modifiers_with_two_colons_are_parts_of_an_opcode() {
    simulated("modifiers_with_two_colons_are_parts_of_an_opcode", || {
        let text = ".version 7.4 .target sm_80 .address_size 64\n";
        let lines = "st.global.u32 [%rd1], 5; ld.global.L1::no_allocate.L2::128B.u32 %r1, [%rd1];\n\
             createpolicy.fractional.L2::evict_last.b64 %rd2, 1.0; st.global.u32 [%rd1+4], %r1;\n\
             cvt.u32.u64 %r2, %rd1; again: add.u32 %r2, %r2, 1;";
        assert_eq!(words_of(&format!("{text}{}", kernel(lines)))[..2], [5, 5]);
        assert_eq!(
            refusal(&format!("{text}{}", kernel("ld.global::u32 %r1, [%rd1];"))),
            status::NOT_SUPPORTED
        );
    });
}

#[test]
fn floats_of_eight_bits_are_widened() {
    simulated("floats_of_eight_bits_are_widened", || {
        let text = ".version 8.1 .target sm_90 .address_size 64\n";
        // 1.5 and -2, then with negative numbers as zero, then -0.375 and 1 in the other format.
        let lines = "mov.b16 %rs1, 0xC03C; cvt.rn.f16x2.e4m3x2 %r1, %rs1; st.global.u32 [%rd1], %r1;\n\
             cvt.rn.relu.f16x2.e4m3x2 %r1, %rs1; st.global.u32 [%rd1+4], %r1;\n\
             mov.b16 %rs1, 0x3CB6; cvt.rn.f16x2.e5m2x2 %r1, %rs1; st.global.u32 [%rd1+8], %r1;";
        assert_eq!(words_of(&format!("{text}{}", kernel(lines))), [0xC000_3E00, 0x3E00, 0x3C00_B600, 0]);
        let lines = "cvt.rn.bf16x2.e4m3x2 %r1, %rs1;";
        assert_eq!(refusal(&format!("{text}{}", kernel(lines))), status::NOT_SUPPORTED);
    });
}

#[test]
fn votes_and_shuffles_for_older_devices_name_no_lanes() {
    simulated("votes_and_shuffles_for_older_devices_name_no_lanes", || {
        let lines = "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 5; vote.ballot.b32 %r2, %p1; vote.any.pred %p2, %p1;\n\
             selp.u32 %r3, 1, 0, %p2; shfl.idx.b32 %r4|%p2, %r1, 7, 31; setp.ne.u32 %p1, %r1, 0; @%p1 exit;\n\
             st.global.u32 [%rd1], %r2; st.global.u32 [%rd1+4], %r3; st.global.u32 [%rd1+8], %r4;";
        let old = ".version 6.0 .target sm_30 .address_size 64\n";
        assert_eq!(words_of(&format!("{old}{}", kernel(lines))), [31, 1, 7, 0]);
        assert_eq!(words_of(&format!("{}{}", old.replace("sm_30", "sm_70"), kernel(lines))), [31, 1, 7, 0]);
        assert_eq!(refusal(&format!("{HEAD}{}", kernel(lines))), status::INVALID_PTX);
    });
}

#[test]
fn the_system_reserves_shared_memory_that_no_variable_shares() {
    simulated("the_system_reserves_shared_memory_that_no_variable_shares", || {
        let text = ".version 8.1 .target sm_90 .address_size 64\n.extern .shared .u32 more[];\n";
        let lines = ".shared .u32 own[3]; mov.u32 %r1, %reserved_smem_offset_1; st.shared.u32 [own+8], 1; st.shared.u32 [more+252], 2;\n\
             st.shared.u32 [%r1], 3; st.shared.u32 [%r1+284], 4; mov.u32 %r2, %total_smem_size; mov.u32 %r3, %aggr_smem_size;\n\
             sub.u32 %r3, %r3, %r2; ld.shared.u32 %r4, [own+8]; ld.shared.u32 %r5, [more+252];\n\
             ld.shared.u32 %r6, [%r1]; st.global.v4.u32 [%rd1], {%r4, %r5, %r6, %r3};";
        assert_eq!(words_of(&format!("{text}{}", kernel(lines))), [1, 2, 3, 1024]);
    });
}

#[test]
fn vectors_of_registers_are_moved_packed_and_unpacked() {
    simulated("vectors_of_registers_are_moved_packed_and_unpacked", || {
        let lines = ".reg .v2 .u32 v, w; .reg .b8 %b<4>; mov.v2.u32 v, {1, 2}; mov.v2.u32 w, v; mov.v2.u32 {w.y, w.x}, w;\n\
             st.global.v2.u32 [%rd1], w; mov.u32 %r1, 0x04030201; mov.b32 {%b0, %b1, %b2, %b3}, %r1;\n\
             mov.b32 %r2, {%b3, %b2, %b1, %b0}; mov.b16 %rs1, {%b2, %b3}; cvt.u32.u16 %r3, %rs1;\n\
             st.global.u32 [%rd1+8], %r2; st.global.u32 [%rd1+12], %r3;";
        assert_eq!(words(&kernel(lines)), [2, 1, 0x0102_0304, 0x0403]);
        for line in ["mov.v4.u32 v, v;", "mov.v2.u64 v, v;", "mov.b32 %r1, v;", "mov.b128 %r1, v;"] {
            let text = format!("{HEAD}{}", kernel(&format!(".reg .v2 .u32 v; {line}")));
            assert_eq!(refusal(&text), status::INVALID_PTX, "{line}");
        }
    });
}

#[test]
fn an_operand_may_be_a_register_and_a_constant() {
    simulated("an_operand_may_be_a_register_and_a_constant", || {
        let lines = "mov.u32 %r1, 5; add.u32 %r2, %r1+1, %r1+-2; st.global.u32 [%rd1], %r2;";
        assert_eq!(words(&kernel(lines))[0], 9);
        let lines = ".reg .f32 %f; add.f32 %f, %f+1, %f;";
        assert_eq!(refusal(&format!("{HEAD}{}", kernel(lines))), status::NOT_SUPPORTED);
    });
}

#[test]
fn doubles_for_the_oldest_devices_are_refused_where_they_are_used() {
    simulated("doubles_for_the_oldest_devices_are_refused_where_they_are_used", || {
        let old = ".version 1.4 .target sm_10, map_f64_to_f32\n";
        let lines = "st.global.u32 [%rd1], 5;";
        assert_eq!(words_of(&format!("{old}{}", kernel(lines)))[0], 5);
        let lines = ".reg .f64 %d; add.f64 %d, %d, %d;";
        assert_eq!(refusal(&format!("{old}{}", kernel(lines))), status::NOT_SUPPORTED);
        let newer = old.replace("sm_10", "sm_20");
        assert_eq!(refusal(&format!("{newer}{}", kernel(""))), status::INVALID_PTX);
    });
}
