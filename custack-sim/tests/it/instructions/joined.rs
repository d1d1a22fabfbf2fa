//! Products and sums that say nothing about their rounding, which the compiler may join: which ones it joins.

use super::warps::{compute, words};
use crate::harness::run;

/// `a`, `b`, `-c` and `c`, with a product of which `c` is all but the last digits: a sum that is rounded apart is zero.
fn inputs() -> Vec<u8> {
    let mut bytes: Vec<u8> = [0x3f80_0800_u32, 0x3f80_0800, 0xbf80_1000, 0x3f80_1000]
        .iter()
        .flat_map(|it| it.to_le_bytes())
        .collect();
    let a = 1.0 + 2f64.powi(-27);
    let c = 1.0 + 2f64.powi(-26);
    bytes.extend([a, a, -c, c].iter().flat_map(|it| it.to_le_bytes()));
    // f16, then bf16.
    bytes.extend([0x3c10_u16, 0x3c10, 0xbc20, 0x3c20].iter().flat_map(|it| it.to_le_bytes()));
    bytes.extend([0x3f84_u16, 0x3f84, 0xbf88, 0x3f88].iter().flat_map(|it| it.to_le_bytes()));
    bytes
}

const HEAD: &str = ".reg .f32 %a, %b, %n, %c, %d, %e, %f, %g, %h; .reg .f64 %da, %db, %dn, %dc, %dd, %de;
    .reg .b16 %ha, %hb, %hn, %hc, %hd, %he, %ba, %bb, %bn, %bc; .reg .b32 %pa, %pn, %pd, %pe, %qa, %qn;
    .reg .pred %p, %q; .reg .u32 %i, %zero;
    ld.global.f32 %a, [%from]; ld.global.f32 %b, [%from+4]; ld.global.f32 %n, [%from+8]; ld.global.f32 %c, [%from+12];
    ld.global.f64 %da, [%from+16]; ld.global.f64 %db, [%from+24]; ld.global.f64 %dn, [%from+32]; ld.global.f64 %dc, [%from+40];
    ld.global.b16 %ha, [%from+48]; ld.global.b16 %hb, [%from+50]; ld.global.b16 %hn, [%from+52]; ld.global.b16 %hc, [%from+54];
    ld.global.b16 %ba, [%from+56]; ld.global.b16 %bb, [%from+58]; ld.global.b16 %bn, [%from+60]; ld.global.b16 %bc, [%from+62];
    mov.b32 %pa, {%ha, %hb}; mov.b32 %pn, {%hn, %hn}; mov.b32 %qa, {%ba, %bb}; mov.b32 %qn, {%bn, %bn};
    ld.global.u32 %zero, [%to]; setp.eq.u32 %p, %zero, 0; setp.ne.u32 %q, %zero, 0;
    mov.f32 %e, 0f00000000; mov.f32 %f, 0f00000000; rcp.rn.f32 %h, %b;";

/// The lines, and for each of `%e` and `%f` whether it is joined: `j` if it is above zero then, `J` if below; or `a` if apart.
const CASES: &[(&str, &str)] = &[
    // Either operand, sums and differences, all types.
    ("mul.f32 %d, %a, %b; add.f32 %e, %d, %n;", "j"),
    ("mul.f32 %d, %a, %b; add.f32 %e, %n, %d;", "j"),
    ("mul.f32 %d, %a, %b; sub.f32 %e, %d, %c;", "j"),
    ("mul.f32 %d, %a, %b; sub.f32 %e, %c, %d;", "J"),
    ("mul.f32 %d, %a, %b; add.f32 %d, %d, %n; mov.f32 %e, %d;", "j"),
    ("mul.f64 %dd, %da, %db; add.f64 %de, %dd, %dn; cvt.rn.f32.f64 %e, %de;", "j"),
    ("mul.f64 %dd, %da, %db; sub.f64 %de, %dc, %dd; cvt.rn.f32.f64 %e, %de;", "J"),
    ("mul.f16 %hd, %ha, %hb; add.f16 %he, %hd, %hn; cvt.f32.f16 %e, %he;", "j"),
    ("mul.f16 %hd, %ha, %hb; sub.f16 %he, %hc, %hd; cvt.f32.f16 %e, %he;", "J"),
    ("mul.bf16 %hd, %ba, %bb; add.bf16 %he, %hd, %bn; cvt.f32.bf16 %e, %he;", "j"),
    ("mul.f16x2 %pd, %pa, %pa; add.f16x2 %pe, %pd, %pn; mov.b32 {%hd, %he}, %pe; cvt.f32.f16 %e, %he;", "j"),
    (
        "mul.bf16x2 %pd, %qa, %qa; add.bf16x2 %pe, %qn, %pd; mov.b32 {%hd, %he}, %pe; cvt.f32.bf16 %e, %hd;",
        "j",
    ),
    ("mul.f32 %d, %a, 0f3F800800; add.f32 %e, %d, %n;", "j"),
    ("mul.f32 %d, %a, %b; add.f32 %e, %d, 0fBF801000;", "j"),
    // A rounding that is said, and modes that differ.
    ("mul.rn.f32 %d, %a, %b; add.f32 %e, %d, %n;", "a"),
    ("mul.f32 %d, %a, %b; add.rn.f32 %e, %d, %n;", "a"),
    ("mul.rn.f64 %dd, %da, %db; add.f64 %de, %dd, %dn; cvt.rn.f32.f64 %e, %de;", "a"),
    ("mul.rn.f16 %hd, %ha, %hb; add.rn.f16 %he, %hd, %hn; cvt.f32.f16 %e, %he;", "a"),
    ("mul.rn.bf16 %hd, %ba, %bb; add.bf16 %he, %hd, %bn; cvt.f32.bf16 %e, %he;", "a"),
    ("mul.ftz.f32 %d, %a, %b; add.ftz.f32 %e, %d, %n;", "j"),
    ("mul.ftz.f32 %d, %a, %b; add.f32 %e, %d, %n;", "a"),
    ("mul.f32 %d, %a, %b; add.ftz.f32 %e, %d, %n;", "a"),
    ("mul.f32 %d, %a, %b; add.sat.f32 %e, %d, %n;", "j"),
    ("mul.f32 %d, %a, %b; sub.sat.f32 %e, %d, %c;", "j"),
    (
        "mul.f32 %d, %a, %b; cvt.f64.f32 %dd, %d; cvt.f64.f32 %dn, %n; add.f64 %de, %dd, %dn; cvt.rn.f32.f64 %e, %de;",
        "a",
    ),
    // Products that are used more than once.
    ("mul.f32 %d, %a, %b; add.f32 %e, %d, %n; sub.f32 %f, %d, %c;", "jj"),
    ("mul.f32 %d, %a, %b; add.f32 %e, %d, %n; sub.f32 %f, %d, %c; st.global.f32 [%to+8], %d;", "aa"),
    ("mul.f32 %d, %a, %b; st.global.f32 [%to+8], %d; add.f32 %e, %d, %n;", "a"),
    ("mul.f32 %d, %a, %b; add.f32 %e, %d, %n; fma.rn.f32 %f, %d, %d, %d; st.global.f32 [%to+8], %f;", "a"),
    ("mul.f32 %d, %a, %b; add.f32 %e, %d, %n; mul.f32 %d, %a, %a; add.f32 %f, %d, %n;", "jj"),
    ("mul.f32 %d, %a, %b; add.f32 %e, %d, %d; sub.f32 %e, %e, %c; sub.f32 %e, %e, %c;", "a"),
    ("mul.f32 %d, %a, %b; setp.gt.f32 %q, %d, %n; add.f32 %e, %d, %n; @!%q mov.f32 %e, %c;", "a"),
    ("mul.f32 %d, %a, %b; abs.f32 %d, %d; add.f32 %e, %d, %n;", "a"),
    ("mul.f32 %d, %a, %b; selp.f32 %g, %d, %a, %p; add.f32 %e, %g, %n;", "a"),
    ("mul.f32 %d, %a, %b; max.f32 %g, %d, %n; add.f32 %e, %g, %n;", "a"),
    // Sums of two products: the first is joined, or the one that nothing else uses.
    (
        "neg.f32 %g, %a; mul.f32 %d, %a, %b; mul.f32 %f, %g, %b; add.f32 %e, %d, %f; mov.f32 %f, 0f00000000;",
        "j",
    ),
    (
        "neg.f32 %g, %a; mul.f32 %f, %g, %b; mul.f32 %d, %a, %b; add.f32 %e, %d, %f; mov.f32 %f, 0f00000000;",
        "j",
    ),
    (
        "neg.f32 %g, %a; mul.f32 %d, %a, %b; mul.f32 %f, %g, %b; add.f32 %e, %f, %d; mov.f32 %f, 0f00000000;",
        "J",
    ),
    (
        "ld.global.f32 %g, [%from+4]; mul.f32 %d, %a, %b; mul.f32 %f, %a, %g; sub.f32 %e, %d, %f;  mov.f32 %f, 0f00000000;",
        "j",
    ),
    (
        "ld.global.f32 %g, [%from+4]; mul.f32 %d, %a, %b; mul.f32 %f, %a, %g; sub.f32 %e, %d, %f; st.global.f32 [%to+8], %d; mov.f32 %f, 0f00000000;",
        "J",
    ),
    (
        "neg.f32 %g, %a; mul.f32 %d, %a, %b; mul.f32 %g, %g, %b; mul.f32 %h, %c, %b; add.f32 %e, %d, %g; add.f32 %f, %h, %d; st.global.f32 [%to+8], %f; mov.f32 %f, 0f00000000;",
        "J",
    ),
    (
        "neg.f32 %g, %a; mul.f32 %d, %a, %b; mul.f32 %g, %g, %b; mul.f32 %h, %c, %b; add.f32 %e, %d, %g; add.f32 %f, %d, %h; st.global.f32 [%to+8], %f; mov.f32 %f, 0f00000000;",
        "J",
    ),
    // Guards, branches, and what comes between.
    ("mul.f32 %d, %a, %b; mov.f32 %e, 0f00000000; @%p add.f32 %e, %d, %n;", "j"),
    ("mov.f32 %d, %c; @%p mul.f32 %d, %a, %b; add.f32 %e, %d, %n;", "a"),
    (
        "mul.f32 %d, %a, %b; @%q bra L; add.f32 %e, %d, %n; st.global.f32 [%to], %e; L: ld.global.f32 %e, [%to];",
        "a",
    ),
    ("mul.f32 %d, %a, %b; @%q exit; add.f32 %e, %d, %n;", "a"),
    ("mul.f32 %d, %a, %b; @%q ret; add.f32 %e, %d, %n;", "a"),
    ("mul.f32 %d, %a, %b; @%q bra L; st.global.u32 [%to+8], %zero; L: add.f32 %e, %d, %n;", "a"),
    ("mul.f32 %d, %a, %b; add.f32 %e, %d, %n; @%q bra L; add.f32 %f, %d, %c; L:", "a"),
    ("mul.f32 %d, %a, %b; add.f32 %e, %d, %n; @%q bra L; st.global.u32 [%to+8], %zero; L:", "j"),
    ("mul.f32 %d, %a, %b; LX: add.f32 %e, %d, %n;", "j"),
    ("mul.f32 %d, %a, %b; bar.sync 0; add.f32 %e, %d, %n;", "j"),
    ("mul.f32 %d, %a, %b; { .reg .f32 %z; add.f32 %z, %d, %n; mov.f32 %e, %z; }", "j"),
    (
        "mov.u32 %i, %zero; L: mul.f32 %d, %a, %b; add.f32 %e, %d, %n; add.u32 %i, %i, 1; setp.lt.u32 %q, %i, 3; @%q bra L;",
        "j",
    ),
    (
        "mov.u32 %i, %zero; mul.f32 %d, %a, %b; L: add.f32 %e, %d, %n; add.u32 %i, %i, 1; setp.lt.u32 %q, %i, 3; @%q bra L;",
        "a",
    ),
    // What is not a product in the text, and what is one. Subtracting the rounded value leaves zero, or what joining adds.
    (
        "div.full.f32 %d, %a, %h; add.f32 %e, %d, %n; div.full.f32 %g, %a, %h; mov.b32 %i, %g; xor.b32 %i, %i, %zero; mov.b32 %g, %i; add.rn.f32 %g, %g, %n; sub.rn.f32 %e, %e, %g;",
        "j",
    ),
    (
        "div.approx.ftz.f32 %d, %a, %h; add.ftz.f32 %e, %d, %n; div.approx.ftz.f32 %g, %a, %h; mov.b32 %i, %g; xor.b32 %i, %i, %zero; mov.b32 %g, %i; add.rn.f32 %g, %g, %n; sub.rn.f32 %e, %e, %g;",
        "j",
    ),
    (
        "div.full.ftz.f32 %d, %a, %h; add.f32 %e, %d, %n; div.full.ftz.f32 %g, %a, %h; mov.b32 %i, %g; xor.b32 %i, %i, %zero; mov.b32 %g, %i; add.rn.f32 %g, %g, %n; sub.rn.f32 %e, %e, %g;",
        "a",
    ),
    (
        "div.rn.f32 %d, %a, %h; add.f32 %e, %d, %n; div.rn.f32 %g, %a, %h; mov.b32 %i, %g; xor.b32 %i, %i, %zero; mov.b32 %g, %i; add.rn.f32 %g, %g, %n; sub.rn.f32 %e, %e, %g;",
        "a",
    ),
];

#[test]
fn products_and_sums_are_joined_as_an_h200_joins_them() {
    run(|| {
        let mut wrong = Vec::new();
        for (lines, expected) in CASES {
            let body = format!("{HEAD} {lines} st.global.f32 [%to], %e; st.global.f32 [%to+4], %f;");
            let found = words(&compute(&body, 1, &inputs(), 16));
            let said = |word: &u32| match f32::from_bits(*word) {
                0.0 => 'a',
                value => {
                    if value > 0.0 {
                        'j'
                    } else {
                        'J'
                    }
                }
            };
            let said: String = found.iter().take(expected.len()).map(said).collect();
            if said != *expected {
                wrong.push(format!("{said} {expected} {found:08x?} {lines}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}
