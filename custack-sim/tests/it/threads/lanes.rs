//! Lanes of a warp: apart, together again, and working together where they are apart.

use super::{block, each, left_by};

const ALL: u32 = u32::MAX;

#[test]
fn lanes_are_together_again_behind_a_branch_a_loop_and_a_break() {
    for lines in [
        "setp.lt.u32 %p1, %lane, 7; @%p1 bra A; add.u32 %r1, %lane, 1; bra.uni J; A: add.u32 %r1, %lane, 2; J:",
        "mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; setp.le.u32 %p1, %r1, %lane; @%p1 bra L;",
        "mov.u32 %r1, 0; L: setp.gt.u32 %p1, %r1, %lane; @%p1 bra J; add.u32 %r1, %r1, 3;
         setp.lt.u32 %p2, %r1, 50; @%p2 bra L; J:",
        "and.b32 %r1, %lane, 3; setp.eq.u32 %p1, %r1, 0; setp.gt.u32 %p2, %r1, 1;
         @%p1 bra J; @%p2 bra B; add.u32 %r1, %r1, 1; bra K; B: setp.eq.u32 %p3, %r1, 3; @%p3 bra K;
         add.u32 %r1, %r1, 9; K: add.u32 %r1, %r1, 4; J:",
        // As long as this a loop keeps those that are done.
        "mul.lo.u32 %r2, %lane, 2000; L: sub.u32 %r2, %r2, 1; setp.gt.s32 %p1, %r2, 0; @%p1 bra L;",
        // An access by which threads may wait is none where there is no loop.
        &format!(
            "setp.lt.u32 %p1, %lane, 7; @%p1 bra J; {} J:",
            "atom.shared.add.u32 %r1, [s], 1;".repeat(50)
        ),
    ] {
        let lines = format!("{lines} activemask.b32 %r9; st.global.u32 [%out], %r9;");
        assert_eq!(block(&lines, 32), [ALL; 32], "{lines}");
        assert_eq!(block(&lines, 33)[32], 1, "{lines}");
    }
}

#[test]
fn lanes_go_to_as_many_targets_as_there_are() {
    let labels: Vec<String> = (0..32).map(|at| format!("T{at}")).collect();
    let code: String = (0..32)
        .map(|at| format!("T{at}: activemask.b32 %r2; add.u32 %r1, %r1, {}; bra J;\n", at * at))
        .collect();
    let lines = format!(
        "mov.u32 %r1, 5; xor.b32 %r3, %lane, 21; targets: .branchtargets {}; brx.idx %r3, targets; {code}
         J: shl.b32 %r4, 1, %lane; setp.eq.u32 %p1, %r2, %r4; selp.u32 %r5, 10000, 0, %p1; activemask.b32 %r6;
         setp.eq.u32 %p2, %r6, -1; selp.u32 %r7, 20000, 0, %p2;
         add.u32 %r1, %r1, %r5; add.u32 %r1, %r1, %r7; st.global.u32 [%out], %r1;",
        labels.join(", ")
    );
    assert_eq!(block(&lines, 32), each(32, |lane| 30_005 + (lane ^ 21) * (lane ^ 21)));
}

#[test]
fn lanes_that_arrive_one_after_the_other_exchange_numbers() {
    // Each lane goes around as often as its number says before it is there.
    let lines = "mul.lo.u32 %r2, %lane, %lane; L: sub.u32 %r2, %r2, 1; setp.gt.s32 %p1, %r2, 0; @%p1 bra L;
        mul.lo.u32 %r1, %lane, 7; shfl.sync.down.b32 %r3, %r1, 1, 31, -1; st.global.u32 [%out], %r3;";
    assert_eq!(block(lines, 32), each(32, |lane| 7 * (lane + 1).min(31)));
}

#[test]
fn lanes_that_are_apart_work_together_with_those_they_name() {
    let lines = "setp.lt.u32 %p1, %lane, 12; setp.lt.u32 %p2, %lane, 20; and.b32 %r4, %lane, 1;
        setp.eq.u32 %p3, %r4, 1; @%p1 bra A;
        redux.sync.add.u32 %r1, %lane, 0xfffff000; vote.sync.ballot.b32 %r2, %p3, 0xfffff000; bra J;
        A: redux.sync.max.u32 %r1, %lane, 0xfff; match.any.sync.b32 %r2, %r4, 0xfff;
        J: shl.b32 %r1, %r1, 16; xor.b32 %r1, %r1, %r2; st.global.u32 [%out], %r1;";
    let expected = each(32, |lane| match lane {
        0..12 => 11 << 16 ^ (0x555 << (lane & 1)),
        _ => ((12..32).sum::<u32>() << 16) ^ 0xaaaa_a000,
    });
    assert_eq!(block(lines, 32), expected);
    // Those that have ended are not waited for, whether before or while others wait.
    let lines = "setp.ge.u32 %p1, %lane, 20; setp.eq.u32 %p2, %lane, 3; @%p1 bra E; @%p2 bra W;
        vote.sync.ballot.b32 %r1, 1, -1; st.global.u32 [%out], %r1; ret;
        W: mov.u32 %r2, 0; L: add.u32 %r2, %r2, 1; setp.lt.u32 %p3, %r2, 500; @%p3 bra L; E: exit;";
    let expected = each(32, |lane| if lane < 20 && lane != 3 { 0xf_fff7 } else { 0 });
    assert_eq!(block(lines, 32), expected);
    let lines = "setp.lt.u32 %p1, %lane, 16; @%p1 shfl.sync.bfly.b32 %r1|%p2, %lane, 5, 31, 0xffff;
        @!%p1 shfl.sync.up.b32 %r1|%p2, %lane, 2, 0x1000, 0xffff0000; selp.u32 %r2, 100, 0, %p2;
        add.u32 %r1, %r1, %r2; st.global.u32 [%out], %r1;";
    let expected = each(32, |lane| match lane {
        0..16 => 100 + (lane ^ 5),
        16 | 17 => lane,
        _ => 100 + lane - 2,
    });
    assert_eq!(block(lines, 32), expected);
}

#[test]
fn lanes_meet_at_several_instructions_that_only_wait() {
    let lines = "mov.u32 %r5, s; mad.lo.u32 %r5, %lane, 4, %r5; xor.b32 %r6, %lane, 31; mov.u32 %r7, s;
        mad.lo.u32 %r7, %r6, 4, %r7; setp.lt.u32 %p1, %lane, 16; @%p1 bra A;
        st.shared.u32 [%r5], %lane; bar.warp.sync -1; ld.shared.u32 %r1, [%r7]; bra J;
        A: add.u32 %r2, %lane, 50; st.shared.u32 [%r5], %r2; bar.warp.sync -1; ld.shared.u32 %r1, [%r7];
        J: st.global.u32 [%out], %r1;";
    assert_eq!(block(lines, 32), each(32, |lane| if lane < 16 { 31 - lane } else { 81 - lane }));
}

/// Lanes below 12 are at one instruction, the others at another one.
fn at_two(prepare: &str, [low, high]: [&str; 2]) -> Vec<u32> {
    let lines = format!(
        "{prepare} setp.lt.u32 %p1, %lane, 12; @%p1 bra A; mov.u32 %r9, 1; {high} bra J; A: mov.u32 %r9, 2; {low} J:
         mad.lo.u32 %r1, %r9, 1000, %r1; st.global.u32 [%out], %r1;"
    );
    block(&lines, 32)
}

#[test]
fn lanes_meet_at_several_instructions_of_one_opcode() {
    let branch = |lane: u32| if lane < 12 { 2000 } else { 1000 };
    let shuffle = [
        "shfl.sync.bfly.b32 %r1, %lane, 16, 31, -1;",
        "add.u32 %r2, %lane, 0; shfl.sync.bfly.b32 %r1, %r2, 16, 31, -1;",
    ];
    assert_eq!(at_two("", shuffle), each(32, |lane| branch(lane) + (lane ^ 16)));
    // Each lane's own operands say where its value is from.
    let shuffle = ["shfl.sync.idx.b32 %r1, %r3, 20, 31, -1;", "shfl.sync.idx.b32 %r1, %r4, 3, 31, -1;"];
    let values = "add.u32 %r3, %lane, 100; add.u32 %r4, %lane, 200;";
    assert_eq!(at_two(values, shuffle), each(32, |lane| branch(lane) + if lane < 12 { 220 } else { 103 }));
    let vote = ["vote.sync.ballot.b32 %r1, %p2, -1;", "vote.sync.ballot.b32 %r1, %p3, -1;"];
    let odd = "and.b32 %r5, %lane, 1; setp.eq.u32 %p2, %r5, 1; setp.eq.u32 %p3, %r5, 0;";
    assert_eq!(at_two(odd, vote), each(32, |lane| branch(lane) + 0x5555_5aaa));
    let vote = [
        "vote.sync.all.pred %p4, %p2, -1; selp.u32 %r1, 7, 8, %p4;",
        "vote.sync.all.pred %p4, %p3, -1; selp.u32 %r1, 7, 8, %p4;",
    ];
    assert_eq!(
        at_two("setp.ge.u32 %p2, %lane, 0; setp.ge.u32 %p3, %lane, 13;", vote),
        each(32, |lane| branch(lane) + 8)
    );
    assert_eq!(
        at_two("setp.ge.u32 %p2, %lane, 0; setp.ge.u32 %p3, %lane, 12;", vote),
        each(32, |lane| branch(lane) + 7)
    );
    let sum = ["redux.sync.add.u32 %r1, %lane, -1;", "redux.sync.add.u32 %r1, %r4, -1;"];
    assert_eq!(at_two(values, sum), each(32, |lane| branch(lane) + 496 + 20 * 200));
    let same = ["match.any.sync.b32 %r1, %r6, -1;", "match.any.sync.b32 %r1, %r7, -1;"];
    let left = at_two("and.b32 %r6, %lane, 3; and.b32 %r7, %lane, 1;", same);
    assert_eq!(
        left,
        each(32, |lane| {
            let value = |lane: u32| if lane < 12 { lane & 3 } else { lane & 1 };
            (0..32)
                .filter(|it| value(*it) == value(lane))
                .fold(branch(lane), |all, it| all.wrapping_add(1 << it))
        })
    );
}

#[test]
fn lanes_meet_in_functions_that_they_have_called_from_several_places() {
    let function =
        ".func (.reg .b32 %out) swapped(.reg .b32 %in) { shfl.sync.bfly.b32 %out, %in, 16, 31, -1; ret; }
        .shared .align 16 .b8 s[64];";
    let lines = "setp.lt.u32 %p1, %lane, 16; @%p1 bra A; add.u32 %r2, %lane, 100; call (%r1), swapped, (%r2); bra J;
        A: add.u32 %r2, %lane, 200; call (%r1), swapped, (%r2); add.u32 %r1, %r1, 1000; J: st.global.u32 [%out], %r1;";
    let expected = each(32, |lane| if lane < 16 { 1116 + lane } else { 184 + lane });
    assert_eq!(left_by(function, lines, 1, 32, 32), expected);
}

/// Lanes 16 and on wait for a flag, which lane 0 sets behind what the others do.
fn while_others_go_around(lines: &str) -> Vec<u32> {
    let lines = format!(
        "setp.eq.u32 %p8, %lane, 0; setp.ge.u32 %p9, %lane, 16; setp.eq.u32 %p7, %lane, 31; @%p7 bra LAST; @%p9 bra SPIN;
        {lines}
        BEHIND: @%p8 st.volatile.shared.u32 [s], 1; st.global.u32 [%out], %r1; ret;
        SPIN: ld.volatile.shared.u32 %r2, [s]; setp.eq.u32 %p3, %r2, 0; @%p3 bra SPIN; st.global.u32 [%out], 9; ret;
        LAST: mov.u32 %r3, 0; L: add.u32 %r3, %r3, 1; setp.lt.u32 %p4, %r3, 300; @%p4 bra L; ret;"
    );
    left_by(".shared .align 16 .b8 s[64];", &format!("st.shared.u32 [s], 0; bar.sync 0; {lines}"), 1, 32, 32)
}

#[test]
fn a_lane_that_ends_is_not_waited_for_while_others_go_around() {
    let left = while_others_go_around("shfl.sync.idx.b32 %r1, %lane, 7, 31, 0x8000ffff;");
    assert_eq!(left, each(32, |lane| [7, 9, 0][(lane / 16 + lane / 31) as usize]));
}

#[test]
fn lanes_meet_at_several_instructions_while_others_go_around() {
    let left = while_others_go_around(
        "mov.u32 %r1, 7; setp.lt.u32 %p1, %lane, 5; @%p1 bra A; bar.warp.sync 0xffff; bra BEHIND;
         A: bar.warp.sync 0xffff;",
    );
    assert_eq!(left, each(32, |lane| [7, 9, 0][(lane / 16 + lane / 31) as usize]));
}

#[test]
fn lanes_at_one_instruction_may_wait_for_different_lanes() {
    // Lane 9 waits for what lane 0 does when it has met lane 8; lanes 2 and 3 wait for lane 9.
    let lines = "bar.warp.sync -1; setp.eq.u32 %p8, %lane, 8; setp.eq.u32 %p9, %lane, 9; setp.lt.u32 %p1, %lane, 2;
        setp.lt.u32 %p2, %lane, 4; selp.b32 %r4, 0x103, 0x20c, %p1; mov.u32 %r1, 1;
        @%p8 bra EIGHT; @%p9 bra NINE; @!%p2 bra END;
        bar.warp.sync %r4; @%p1 st.volatile.shared.u32 [s], 5; ld.volatile.shared.u32 %r1, [s+4]; @!%p1 bra END;
        mov.u32 %r1, 3; bra END;
        EIGHT: bar.warp.sync 0x103; bra END;
        NINE: ld.volatile.shared.u32 %r2, [s]; setp.eq.u32 %p3, %r2, 0; @%p3 bra NINE;
        st.volatile.shared.u32 [s+4], 77; bar.warp.sync 0x20c;
        END: st.global.u32 [%out], %r1;";
    let expected = each(32, |lane| [3, 3, 77, 77].get(lane as usize).copied().unwrap_or(1));
    let begin = "@%p0 bra NEVER; st.shared.u32 [s], 0; st.shared.u32 [s+4], 0; NEVER:";
    let lines = format!("setp.ne.u32 %p0, %lane, 0; {begin} {lines}");
    assert_eq!(block(&lines, 32), expected);
}
