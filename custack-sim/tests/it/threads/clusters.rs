//! Clusters of several blocks: their registers, their shared memory, their barrier.

#![allow(clippy::undocumented_unsafe_blocks, reason = "each kernel writes no more than its output has")]

use crate::gpu::{Buffer, Config, Module, Result, Stream, ask, major, pushed, said, status};
use crate::harness::{is_simulated, run, skip};

fn has_clusters(test: &str) -> bool {
    let has = major() >= 9;
    if !has {
        skip(test, "the device has no clusters");
    }
    has
}

/// A kernel of these lines. `%out` is where the thread has a number of its own, `%to` where those begin; `%rank` is that of
/// its block in the cluster, of which there are `%blocks`.
fn program(directives: &str, lines: &str) -> String {
    format!(
        ".version 8.0 .target sm_90 .address_size 64
        .visible .entry k(.param .u64 to) {directives} {{
            .shared .align 16 .b8 s[1024]; .shared .align 8 .b64 gate;
            .reg .b32 %r<40>; .reg .b64 %rd<20>; .reg .pred %p<10>;
            .reg .b32 %t, %lane, %cta, %n, %gid, %rank, %blocks; .reg .b64 %to, %out;
            ld.param.u64 %to, [to]; cvta.to.global.u64 %to, %to;
            mov.u32 %t, %tid.x; mov.u32 %cta, %ctaid.x; mov.u32 %n, %ntid.x; mov.u32 %lane, %laneid;
            mov.u32 %rank, %cluster_ctarank; mov.u32 %blocks, %cluster_nctarank;
            mad.lo.u32 %gid, %cta, %n, %t; mad.wide.u32 %out, %gid, 4, %to;
            {lines}
            ret;
        }}"
    )
}

/// All threads of the cluster come here before any goes on.
const MEET: &str = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;";

fn launched(text: &str, config: Config, words: usize) -> Result<Vec<u32>> {
    let module = Module::load(text.as_bytes())?;
    let stream = Stream::new()?;
    let to = Buffer::from_slice(&vec![0u32; words])?;
    let pointer = to.address();
    unsafe { launch!(module.k<<<config, stream>>>(pointer)) }?;
    stream.synchronize()?;
    let mut words = vec![0; words];
    to.copy_to(&mut words[..])?;
    Ok(words)
}

#[track_caller]
fn left_by(lines: &str, config: Config, words: usize) -> Vec<u32> {
    let mut left = Vec::new();
    run(|| {
        let _ctx = pushed();
        left = launched(&program("", lines), config, words).unwrap();
    });
    left
}

/// The number of each block, of the thread in it, and of the block's rank.
fn each(blocks: u32, threads: u32, cluster: u32, f: impl Fn(u32, u32, u32) -> u32) -> Vec<u32> {
    (0..blocks * threads).map(|it| f(it / threads, it % threads, it / threads % cluster)).collect()
}

#[test]
fn blocks_know_their_place_in_the_cluster_and_clusters_theirs_in_the_grid() {
    if !has_clusters("blocks_know_their_place_in_the_cluster_and_clusters_theirs_in_the_grid") {
        return;
    }
    let registers = [
        "cluster_ctarank",
        "cluster_nctarank",
        "cluster_ctaid.x",
        "cluster_ctaid.y",
        "cluster_ctaid.z",
        "cluster_nctaid.x",
        "cluster_nctaid.y",
        "cluster_nctaid.z",
        "clusterid.x",
        "clusterid.y",
        "clusterid.z",
        "nclusterid.x",
        "nclusterid.y",
        "nclusterid.z",
    ];
    let stores: String = registers
        .iter()
        .enumerate()
        .map(|(at, name)| format!("mov.u32 %r3, %{name}; st.global.u32 [%rd1+{}], %r3;", 4 * at))
        .collect();
    let count = registers.len() + 1;
    let lines = format!(
        "mov.u32 %r1, %ctaid.y; mov.u32 %r2, %nctaid.x; mad.lo.u32 %r1, %r1, %r2, %cta;
         mov.u32 %r4, %ctaid.z; mov.u32 %r5, %nctaid.y; mul.lo.u32 %r5, %r5, %r2; mad.lo.u32 %r1, %r4, %r5, %r1;
         mad.wide.u32 %rd1, %r1, {}, %to; {stores}
         mov.pred %p1, %is_explicit_cluster; selp.u32 %r3, 1, 0, %p1; st.global.u32 [%rd1+{}], %r3;",
        4 * count,
        4 * (count - 1)
    );
    let [gx, gy, gz] = [4, 6, 2u32];
    let [cx, cy, cz] = [2, 3, 1u32];
    let config = Config::new((gx, gy, gz), 1);
    let words = (gx * gy * gz) as usize * count;
    let alone = left_by(&lines, config, words);
    let together = left_by(&lines, config.cluster((cx, cy, cz)), words);
    for block in 0..gx * gy * gz {
        let [x, y, z] = [block % gx, block / gx % gy, block / (gx * gy)];
        let at = block as usize * count..(block as usize + 1) * count;
        assert_eq!(alone[at.clone()], [0, 1, 0, 0, 0, 1, 1, 1, x, y, z, gx, gy, gz, 0], "{block}");
        let rank = x % cx + cx * (y % cy);
        assert_eq!(
            together[at],
            [
                rank,
                cx * cy * cz,
                x % cx,
                y % cy,
                0,
                cx,
                cy,
                cz,
                x / cx,
                y / cy,
                z,
                gx / cx,
                gy / cy,
                gz / cz,
                1
            ],
            "{block}"
        );
    }
}

#[test]
fn blocks_of_a_cluster_read_and_write_each_others_shared_memory() {
    if !has_clusters("blocks_of_a_cluster_read_and_write_each_others_shared_memory") {
        return;
    }
    // Each block reads what the block after it has written of itself.
    let own = "mov.u32 %r1, s; mad.lo.u32 %r1, %t, 4, %r1; st.shared.u32 [%r1], %gid;";
    let next = "add.u32 %r2, %rank, 1; rem.u32 %r2, %r2, %blocks;";
    let next_of = |block: u32, cluster: u32| block / cluster * cluster + (block + 1) % cluster;
    let generic = "cvta.shared.u64 %rd1, s; mad.wide.u32 %rd1, %t, 4, %rd1; mapa.u64 %rd1, %rd1, %r2;";
    for load in [
        "mapa.shared::cluster.u32 %r3, %r1, %r2; ld.shared::cluster.u32 %r4, [%r3];".to_owned(),
        "mapa.shared::cluster.u32 %r3, s, %r2; mad.lo.u32 %r3, %t, 4, %r3; ld.shared::cluster.u32 %r4, [%r3];".to_owned(),
        format!("{generic} ld.u32 %r4, [%rd1];"),
        format!("{generic} cvta.to.shared::cluster.u64 %rd1, %rd1; ld.shared::cluster.u32 %r4, [%rd1];"),
        format!("{generic} atom.add.u32 %r4, [%rd1], 0;"),
        "mapa.shared::cluster.u32 %r3, %r1, %r2; atom.relaxed.cluster.shared::cluster.or.b32 %r4, [%r3], 0;".to_owned(),
    ] {
        for cluster in [1, 2, 4, 8] {
            let lines = format!("{own} {MEET} {next} {load} st.global.u32 [%out], %r4; {MEET}");
            let left = left_by(&lines, Config::new(16, 64).cluster(cluster), 1024);
            let expected = each(16, 64, cluster, |block, thread, _| 64 * next_of(block, cluster) + thread);
            assert_eq!(left, expected, "{load} {cluster}");
        }
    }
    // Each block writes into the block after it, by the address that is its own, of the cluster, or generic.
    for store in [
        "mapa.shared::cluster.u32 %r3, %r1, %r2; st.shared::cluster.u32 [%r3], %gid;".to_owned(),
        "mapa.shared::cluster.u32 %r3, %r1, %r2; st.shared::cluster.v2.u16 [%r3], {%rs1, %rs2};".to_owned(),
        format!("{generic} st.u32 [%rd1], %gid;"),
        format!("{generic} red.add.u32 [%rd1], %gid;"),
    ] {
        let lines = format!(
            ".reg .b16 %rs<4>; mov.b32 {{%rs1, %rs2}}, %gid; mov.u32 %r1, s; mad.lo.u32 %r1, %t, 4, %r1;
             st.shared::cta.u32 [%r1], 0; {MEET} {next} {store} {MEET} ld.shared.u32 %r4, [%r1]; st.global.u32 [%out], %r4;"
        );
        let left = left_by(&lines, Config::new(12, 32).cluster(4), 384);
        let before = |block: u32| block / 4 * 4 + (block + 3) % 4;
        assert_eq!(left, each(12, 32, 4, |block, thread, _| 32 * before(block) + thread), "{store}");
    }
}

#[test]
fn an_address_of_shared_memory_says_which_block_of_the_cluster_has_it() {
    if !has_clusters("an_address_of_shared_memory_says_which_block_of_the_cluster_has_it") {
        return;
    }
    let is = |space: &str, bit: u32| {
        format!("isspacep.{space} %p1, %rd2; selp.u32 %r3, {bit}, 0, %p1; or.b32 %r1, %r1, %r3;")
    };
    let lines = format!(
        "cvta.shared.u64 %rd1, s; getctarank.u64 %r2, %rd1; mov.u32 %r4, s; getctarank.shared::cluster.u32 %r5, %r4;
         xor.b32 %r2, %r2, %rank; xor.b32 %r5, %r5, %rank; or.b32 %r1, %r2, %r5;
         xor.b32 %r6, %t, %rank; mapa.u64 %rd2, %rd1, %r6; getctarank.u64 %r2, %rd2; shl.b32 %r2, %r2, 8; or.b32 %r1, %r1, %r2;
         {} {} {} {} st.global.u32 [%out], %r1; {MEET}",
        is("shared::cta", 16),
        is("shared", 32),
        is("shared::cluster", 64),
        is("global", 128),
    );
    let left = left_by(&lines, Config::new(8, 4).cluster(4), 32);
    let expected =
        each(8, 4, 4, |_, thread, rank| (thread ^ rank) << 8 | 64 | if thread == 0 { 48 } else { 0 });
    assert_eq!(left, expected);
    // The address of one's own memory may be given to another block as it is.
    let lines = format!(
        "cvta.shared.u64 %rd1, s; st.shared.u32 [s], %cta; mov.u32 %r1, 1; sub.u32 %r1, %r1, %rank;
         cvta.shared.u64 %rd2, gate; mapa.u64 %rd2, %rd2, %r1; st.u64 [%rd2], %rd1; {MEET}
         ld.shared.u64 %rd3, [gate]; ld.u32 %r2, [%rd3]; st.global.u32 [%out], %r2; {MEET}"
    );
    let left = left_by(&lines, Config::new(6, 1).cluster(2), 6);
    assert_eq!(left, [1, 0, 3, 2, 5, 4]);
}

#[test]
fn the_barrier_of_a_cluster_holds_every_thread_until_all_have_arrived() {
    if !has_clusters("the_barrier_of_a_cluster_holds_every_thread_until_all_have_arrived") {
        return;
    }
    // In each of many rounds a block adds one to the number that the block before it has left; blocks take differently long.
    let lines = format!(
        "st.shared.u32 [s], %rank; mov.u32 %r9, 0; mov.u32 %r10, s; add.u32 %r2, %rank, 1; rem.u32 %r2, %r2, %blocks;
         mapa.shared::cluster.u32 %r3, %r10, %r2; setp.ne.u32 %p5, %t, 0; {MEET}
         ROUND: mul.lo.u32 %r5, %rank, 700; LONG: sub.u32 %r5, %r5, 1; setp.gt.s32 %p1, %r5, 0; @%p1 bra LONG;
         ld.shared.u32 %r4, [s]; {MEET} add.u32 %r4, %r4, 1; @!%p5 st.shared::cluster.u32 [%r3], %r4; {MEET}
         add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 20; @%p2 bra ROUND;
         ld.shared.u32 %r4, [s]; st.global.u32 [%out], %r4;"
    );
    let left = left_by(&lines, Config::new(16, 70).cluster(8), 16 * 70);
    assert_eq!(left, each(16, 70, 8, |_, _, rank| 20 + (rank + 8 - 20 % 8) % 8));
    // Between an arrival and the wait a block goes on, and threads that have ended are not waited for.
    let lines = format!(
        "st.shared.u32 [s], 5; {MEET} setp.ge.u32 %p1, %t, 40; @%p1 exit;
         mov.u32 %r10, s; mapa.shared::cluster.u32 %r3, %r10, 0; setp.eq.u32 %p3, %lane, 0;
         @%p3 red.relaxed.cluster.shared::cluster.add.u32 [%r3], 1;
         barrier.cluster.arrive.release; mul.lo.u32 %r5, %gid, 3; barrier.cluster.wait.acquire;
         ld.shared::cluster.u32 %r4, [%r3]; add.u32 %r4, %r4, %r5; st.global.u32 [%out], %r4; {}",
        MEET.replace(".aligned", "")
    );
    let left = left_by(&lines, Config::new(4, 64).cluster(4), 256);
    assert_eq!(
        left,
        each(4, 64, 4, |block, thread, _| if thread < 40 { 13 + 3 * (64 * block + thread) } else { 0 })
    );
}

#[test]
fn blocks_of_a_cluster_arrive_at_a_barrier_in_the_memory_of_one_of_them() {
    if !has_clusters("blocks_of_a_cluster_arrive_at_a_barrier_in_the_memory_of_one_of_them") {
        return;
    }
    let lines = format!(
        "mov.u32 %r10, gate; setp.ne.u32 %p1, %t, 0; @!%p1 mbarrier.init.shared::cta.b64 [%r10], 96;
         @!%p1 st.shared.u32 [s], 0; fence.mbarrier_init.release.cluster; {MEET}
         mapa.shared::cluster.u32 %r3, %r10, 0; mov.u32 %r11, s; mapa.shared::cluster.u32 %r4, %r11, 0;
         red.relaxed.cluster.shared::cluster.add.u32 [%r4], %gid;
         mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r3];
         setp.ne.u32 %p2, %rank, 0; @%p2 bra DONE;
         WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [%r10], 0; @!%p3 bra WAIT;
         ld.shared.u32 %r5, [s]; st.global.u32 [%out], %r5;
         DONE: {}",
        MEET.replace(".aligned", "")
    );
    let left = left_by(&lines, Config::new(6, 32).cluster(3), 192);
    let sum = |cluster: u32| (96 * cluster..96 * cluster + 96).sum::<u32>();
    assert_eq!(left, each(6, 32, 3, |block, _, rank| if rank == 0 { sum(block / 3) } else { 0 }));
}

#[test]
fn a_block_sees_what_another_one_of_its_cluster_stores_while_it_waits() {
    if !has_clusters("a_block_sees_what_another_one_of_its_cluster_stores_while_it_waits") {
        return;
    }
    // A number goes around all blocks of a cluster, in both directions.
    for (first, step) in [(0, 1), (7, 7)] {
        let lines = format!(
            "st.shared.u32 [s], 0; {MEET} mov.u32 %r10, s; add.u32 %r2, %rank, {step}; and.b32 %r2, %r2, 7;
             mapa.shared::cluster.u32 %r3, %r10, %r2; mov.u32 %r4, 0; setp.eq.u32 %p1, %rank, {first}; @%p1 bra PASS;
             SPIN: ld.acquire.cluster.shared.u32 %r4, [s]; setp.eq.u32 %p2, %r4, 0; @%p2 bra SPIN;
             PASS: add.u32 %r4, %r4, 1; st.release.cluster.shared::cluster.u32 [%r3], %r4; st.global.u32 [%out], %r4; {MEET}"
        );
        let left = left_by(&lines, Config::new(16, 1).cluster(8), 16);
        assert_eq!(left, each(16, 1, 8, |_, _, rank| if step == 1 { rank + 1 } else { 8 - rank }));
    }
}

#[test]
fn the_size_of_clusters_may_be_the_kernels_or_set_on_it() {
    if !has_clusters("the_size_of_clusters_may_be_the_kernels_or_set_on_it") {
        return;
    }
    run(|| {
        let _ctx = pushed();
        let lines = format!("mad.lo.u32 %r1, %blocks, 16, %rank; st.global.u32 [%out], %r1; {MEET}");
        let text = program(".reqnctapercluster 4", &lines);
        let left = launched(&text, Config::new(8, 1), 8).unwrap();
        assert_eq!(left, each(8, 1, 4, |_, _, rank| 64 + rank));
        let module = Module::load(program("", &lines).as_bytes()).unwrap();
        let function = module.get_function(c"k").unwrap();
        // The width, the height and the depth that a cluster must have.
        for (attribute, size) in [(11, 2), (12, 1), (13, 1)] {
            ask(call!(cuFuncSetAttribute(function.0, attribute, size))).unwrap();
        }
        let stream = Stream::new().unwrap();
        let to = Buffer::from_slice(&[0u32; 8]).unwrap();
        let pointer = to.address();
        unsafe { launch!(function<<<8, 1, 0, stream>>>(pointer)) }.unwrap();
        stream.synchronize().unwrap();
        let mut left = [0; 8];
        to.copy_to(&mut left[..]).unwrap();
        assert_eq!(left.to_vec(), each(8, 1, 2, |_, _, rank| 32 + rank));
    });
}

#[test]
fn all_blocks_of_a_cooperative_launch_in_clusters_meet() {
    if !has_clusters("all_blocks_of_a_cooperative_launch_in_clusters_meet") {
        return;
    }
    let lines = format!(
        "mov.u32 %r8, %nctaid.x; mov.u32 %r9, 0; setp.ne.u32 %p1, %t, 0;
         ROUND: bar.sync 0; add.u32 %r9, %r9, 1; mul.lo.u32 %r7, %r9, %r8; @%p1 bra THERE;
         membar.gl; atom.global.add.u32 %r1, [%to], 1;
         SPIN: ld.volatile.global.u32 %r2, [%to]; membar.gl; setp.lt.u32 %p2, %r2, %r7; @%p2 bra SPIN;
         THERE: {MEET} setp.lt.u32 %p3, %r9, 5; @%p3 bra ROUND;"
    );
    let left = left_by(&lines, Config::new(64, 64).cluster(4).cooperative(true), 64 * 64);
    assert_eq!(left[0], 5 * 64);
}

#[test]
fn what_blocks_of_a_cluster_can_never_do_is_told() {
    if !is_simulated() {
        return skip(
            "what_blocks_of_a_cluster_can_never_do_is_told",
            "the sentences are the simulated driver's",
        );
    }
    let far = "mov.u32 %r1, s; mapa.shared::cluster.u32 %r1, %r1, ";
    for (lines, error, says) in [
        (
            format!("setp.eq.u32 %p1, %rank, 1; @%p1 bra OTHER; {MEET} OTHER: bar.sync 0, 64;"),
            status::LAUNCH_TIMEOUT,
            &[
                "kernel k, its threads wait for each other, and none can go on",
                "block [0, 0, 0]: 32 threads of warp 0 (the first is [0, 0, 0]) at the barrier of the cluster in line",
                "barrier.cluster.wait.acquire.aligned; block [1, 0, 0]: 32 threads of warp 0",
                "at barrier 0 in line",
            ][..],
        ),
        (
            format!("{far} 2; st.shared::cluster.u32 [%r1], 1; {MEET}"),
            status::ILLEGAL_INSTRUCTION,
            &["block [0, 0, 0] writes 4 bytes at 0x2000000 of 1040 bytes of shared memory"],
        ),
        (
            format!("{far} 1; st.shared::cluster.u32 [%r1+1040], 1; {MEET}"),
            status::ILLEGAL_ADDRESS,
            &["block [0, 0, 0] writes 4 bytes at 0x410 of 1040 bytes of shared memory"],
        ),
        (
            format!(
                "setp.eq.u32 %p1, %rank, 1; @%p1 exit; mov.u32 %r2, 0; LONG: add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 600000;
                 @%p2 bra LONG; {far} 1; ld.shared::cluster.u32 %r3, [%r1];"
            ),
            status::LAUNCH_FAILED,
            &["block [0, 0, 0] reads shared memory of block 1 of its cluster, which has ended"],
        ),
    ] {
        run(|| {
            let _ctx = pushed();
            let config = Config::new(2, 32).cluster(2);
            let found = launched(&program("", &lines), config, 64).unwrap_err();
            let text = said(found);
            assert_eq!(found, error, "{text}");
            for part in says {
                assert!(text.contains(part), "{part}: {text}");
            }
        });
    }
}
