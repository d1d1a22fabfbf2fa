//! Instructions that only newer devices have.

use super::warps::{compute, refused, words};
use crate::gpu::{Module, pushed};
use crate::harness::{is_simulated, run, skip};

#[test]
fn a_cluster_is_one_block() {
    run(|| {
        // Each thread arrives, and meanwhile writes what another warp reads behind the barrier.
        let body = "
            .shared .b32 slots[64]; .reg .b32 %own, %mapped, %rank, %value, %other; .reg .b64 %place, %wide;
            mov.u32 %own, slots; mapa.shared::cluster.u32 %mapped, %own, 0; mad.lo.u32 %own, %t, 4, %mapped;
            st.shared::cluster.u32 [%own], %t; griddepcontrol.wait;
            barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
            cvta.shared.u64 %wide, slots; mapa.u64 %wide, %wide, 0; getctarank.u64 %rank, %wide;
            xor.b32 %other, %t, 33; mad.wide.u32 %place, %other, 4, %wide; ld.u32 %value, [%place];
            add.u32 %value, %value, %rank;
            barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
            mad.wide.u32 %place, %t, 4, %to; st.global.u32 [%place], %value;";
        assert_eq!(words(&compute(body, 64, &[], 256)), (0..64).map(|at| at ^ 33).collect::<Vec<u32>>());
    });
}

#[test]
fn those_who_have_arrived_at_the_barrier_of_a_cluster_need_not_wait_for_others_to_wait() {
    if !is_simulated() {
        let test = "those_who_have_arrived_at_the_barrier_of_a_cluster_need_not_wait_for_others_to_wait";
        return skip(test, "an H200 waits for ever, in a kernel that was launched without clusters");
    }
    run(|| {
        // The first warp waits for a word that the second one writes when its wait is over.
        let body = "
            .shared .b32 flag; .reg .b32 %value; .reg .pred %p<3>;
            st.shared.b32 [flag], 0; bar.sync 0;
            barrier.cluster.arrive.aligned;
            setp.ge.u32 %p0, %t, 32; @%p0 bra second;
            spin: ld.volatile.shared.u32 %value, [flag]; setp.eq.u32 %p1, %value, 0; @%p1 bra spin;
            barrier.cluster.wait.aligned; st.global.u32 [%to], %value; ret;
            second: barrier.cluster.wait.aligned; st.volatile.shared.u32 [flag], 7;";
        assert_eq!(words(&compute(body, 64, &[], 4)), [7]);
    });
}

#[test]
fn lop3_also_gives_a_predicate() {
    run(|| {
        let with = |op: &str, b: u32, q: u32| {
            let body = format!(
                ".reg .b32 %r<4>; .reg .pred %p<3>; setp.ne.u32 %p1, {q}, 0;
                lop3.{op}.b32 %r0|%p0, 12, {b}, 0, 0xc0, %p1; selp.u32 %r1, 16, 0, %p0; add.u32 %r1, %r1, %r0;
                st.global.u32 [%to], %r1;"
            );
            words(&compute(&body, 1, &[], 4))[0]
        };
        assert_eq!([with("or", 4, 0), with("or", 3, 0), with("or", 3, 1)], [20, 0, 16]);
        assert_eq!([with("and", 4, 0), with("and", 4, 1), with("and", 3, 1)], [4, 20, 0]);
    });
}

#[test]
fn vectors_are_added_in_memory() {
    run(|| {
        let body = "
            .reg .b32 %r<4>; .reg .b16 %h<3>;
            red.global.add.v4.f32 [%to], {0f3F800000, 0f40000000, 0f40400000, 0f40800000};
            bar.sync 0;
            atom.global.v2.f32.add {%r0, %r1}, [%to], {0f00000000, 0f00000000};
            mov.b32 %r2, 0x3c003c00; mov.b32 %r3, 0x40003c00; red.global.v2.f16x2.add.noftz [%to+16], {%r2, %r3};
            mov.b16 %h0, 0x4000; mov.b16 %h1, 0xbc00;
            red.global.max.noftz.v2.f16 [%to+24], {%h0, %h1};
            mov.b32 %r2, 0xc0003f80; mov.b32 %r3, 0; red.global.min.noftz.v2.bf16x2 [%to+32], {%r2, %r3};
            st.global.v2.b32 [%to+40], {%r0, %r1};";
        let found = words(&compute(body, 32, &[], 48));
        let sums = [32f32, 64.0, 96.0, 128.0].map(f32::to_bits);
        assert_eq!(found[..4], sums);
        // 32 and 64 as halves.
        assert_eq!(found[4..7], [0x5000_5000, 0x5400_5000, 0x0000_4000]);
        assert_eq!(found[8..12], [0xc000_0000, 0, sums[0], sums[1]]);
        for line in [
            "red.global.add.v2.u32 [%to], {1, 2};",
            "red.global.max.v2.f32 [%to], {1, 2};",
            "red.shared.add.v2.f32 [%to], {0f00000000, 0f00000000};",
            "red.global.exch.b32 [%to], 1;",
            "atom.global.max.f32 %lane, [%to], 0f00000000;",
        ] {
            assert!(refused(line), "{line}");
        }
    });
}

#[test]
fn copies_take_a_cache_policy_and_modifiers_with_colons() {
    run(|| {
        let body = "
            .shared .align 16 .b8 tile[32]; .reg .b64 %policy; .reg .b32 %r<4>;
            createpolicy.fractional.L2::evict_last.b64 %policy, 1.0;
            cp.async.cg.shared::cta.global.L2::cache_hint [tile], [%from], 16, %policy;
            cp.async.ca.shared.global.L2::cache_hint.L2::128B [tile+16], [%from], 8, 4, %policy;
            cp.async.wait_all; ld.shared::cta.v2.b32 {%r0, %r1}, [tile+8]; ld.shared.v2.b32 {%r2, %r3}, [tile+16];
            st.global.v4.b32 [%to], {%r0, %r1, %r2, %r3};";
        let input: Vec<u8> = (0..16).collect();
        let expected = [0x0b0a_0908, 0x0f0e_0d0c, 0x0302_0100, 0];
        assert_eq!(words(&compute(body, 1, &input, 16)), expected);
    });
}

#[test]
fn a_hint_of_the_number_of_registers_is_taken() {
    run(|| {
        let _ctx = pushed();
        let text = ".version 8.0 .target sm_90a .address_size 64 .visible .entry k() .maxntid 128 {
            setmaxnreg.dec.sync.aligned.u32 40; setmaxnreg.inc.sync.aligned.u32 64; ret; }";
        Module::load(text.as_bytes()).unwrap().get_function(c"k").unwrap();
    });
}

#[test]
fn a_predicate_turns_what_is_copied_into_zeros() {
    run(|| {
        let body = "
            .shared .align 16 .b8 tile[512]; .reg .b64 %at; .reg .b32 %tile, %step; .reg .pred %odd;
            and.b32 %step, %lane, 1; setp.ne.u32 %odd, %step, 0;
            mov.u32 %tile, tile; shl.b32 %step, %lane, 2; add.u32 %tile, %tile, %step;
            cp.async.ca.shared.global [%tile], [%from], 4, %odd; cp.async.wait_all;
            ld.shared.u32 %tile, [%tile]; mul.wide.u32 %at, %lane, 4; add.u64 %at, %at, %to;
            st.global.u32 [%at], %tile;";
        assert_eq!(words(&compute(body, 4, &[1, 2, 3, 4], 16)), [0x0403_0201, 0, 0x0403_0201, 0]);
    });
}

#[test]
fn coordinates_are_vectors_and_counters_count_nothing() {
    run(|| {
        let body = "
            .reg .b32 %r<4>; .reg .b64 %count; .reg .pred %last; mov.v4.u32 {%r0, %r1, %r2, %r3}, %ntid;
            mov.u64 %count, %current_graph_exec; cvt.u32.u64 %r3, %count;
            st.global.v4.u32 [%to], {%r0, %r1, %r2, %r3};";
        assert_eq!(words(&compute(body, 3, &[], 16)), [3, 1, 1, 0]);
    });
}

#[test]
fn products_of_doubles_are_rounded_as_they_say() {
    run(|| {
        let body = "
            .reg .b64 %one, %left, %tiny, %d<4>; mov.b64 %one, 0d3ff0000000000000; mov.b64 %tiny, 0d3c00000000000000;
            .reg .b32 %column; .reg .pred %first; and.b32 %column, %lane, 3; setp.eq.u32 %first, %column, 0;
            selp.b64 %left, %one, 0, %first;
            mma.sync.aligned.m8n8k4.row.col.rp.f64.f64.f64.f64 {%d0, %d1}, {%left}, {%tiny}, {%one, %one};
            mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d2, %d3}, {%left}, {%tiny}, {%one, %one};
            st.global.v2.b64 [%to], {%d0, %d2};";
        // The one product that is not zero is a step to the next number, or none.
        assert_eq!(words(&compute(body, 32, &[], 16)), [1, 0x3ff0_0000, 0, 0x3ff0_0000]);
    });
}
