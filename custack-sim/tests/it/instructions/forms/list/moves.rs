//! Copies, choices, and registers that are put together and taken apart.

use super::super::exact::F32;
use super::super::form::List;
use super::super::operands::Kind;

/// The types of choices.
const TYPES: [(&str, Kind); 11] = [
    ("b16", Kind::I16),
    ("u16", Kind::I16),
    ("s16", Kind::I16),
    ("b32", Kind::I32),
    ("u32", Kind::I32),
    ("s32", Kind::I32),
    ("f32", Kind::F32),
    ("b64", Kind::I64),
    ("u64", Kind::I64),
    ("s64", Kind::I64),
    ("f64", Kind::F64),
];

pub(super) fn list(list: &mut List) {
    for (name, kind) in TYPES {
        let size = kind.size();
        list.plain(format!("mov.{name}"), &[kind], size, |of| of[0]);
        let code = format!("setp.ne.u32 %p0, $c, 0; selp.{name} $d, $a, $b, %p0;");
        list.coded(format!("selp.{name}"), &[kind, kind, Kind::Flag], size, code, |of| {
            of[usize::from(of[2] == 0)]
        });
        let code = format!("setp.ne.u32 %p0, $c, 0; selp.{name} $d, $a, $b, !%p0;");
        list.coded(format!("selp.{name} of !c"), &[kind, kind, Kind::Flag], size, code, |of| {
            of[usize::from(of[2] != 0)]
        });
        list.plain(format!("slct.{name}.s32"), &[kind, kind, Kind::I32], size, |of| {
            of[usize::from((of[2] as i32) < 0)]
        });
        for ftz in [false, true] {
            let name = format!("slct{}.{name}.f32", if ftz { ".ftz" } else { "" });
            list.plain(name, &[kind, kind, Kind::F32], size, move |of| {
                let c = if ftz { F32.flush(of[2]) } else { of[2] };
                // NaN is not at least zero, and -0 is.
                of[usize::from(F32.is_nan(c) || c > F32.sign())]
            });
        }
    }
    let code = "setp.ne.u32 %p0, $a, 0; mov.pred %p1, %p0; selp.u32 $d, 1, 0, %p1;";
    list.coded("mov.pred", &[Kind::Flag], 4, code, |of| of[0]);
    vectors(list);
}

fn vectors(list: &mut List) {
    list.coded("mov.b32 of two", &[Kind::I16; 2], 4, "mov.b32 $d, {$a, $b};", |of| of[0] | of[1] << 16);
    list.coded("mov.b64 of two", &[Kind::I32; 2], 8, "mov.b64 $d, {$a, $b};", |of| of[0] | of[1] << 32);
    list.coded("mov.b64 of four", &[Kind::I16; 4], 8, "mov.b64 $d, {$a, $b, $c, $e};", |of| {
        of[0] | of[1] << 16 | of[2] << 32 | of[3] << 48
    });
    for part in 0..2 {
        let code = format!("mov.b32 {{%h0, %h1}}, $a; mov.b16 $d, %h{part};");
        list.coded(format!("mov.b32 into two, part {part}"), &[Kind::I32], 2, code, move |of| {
            of[0] >> (16 * part) & 0xffff
        });
        let code = format!("mov.b64 {{%w0, %w1}}, $a; mov.b32 $d, %w{part};");
        list.coded(format!("mov.b64 into two, part {part}"), &[Kind::I64], 4, code, move |of| {
            of[0] >> (32 * part) & 0xffff_ffff
        });
    }
    for part in 0..4 {
        let code = format!("mov.b64 {{%h0, %h1, %h2, %h3}}, $a; mov.b16 $d, %h{part};");
        list.coded(format!("mov.b64 into four, part {part}"), &[Kind::I64], 2, code, move |of| {
            of[0] >> (16 * part) & 0xffff
        });
        let code = format!("mov.b32 {{%y0, %y1, %y2, %y3}}, $a; cvt.u32.u8 $d, %y{part};");
        list.coded(format!("mov.b32 into four, part {part}"), &[Kind::I32], 4, code, move |of| {
            of[0] >> (8 * part) & 0xff
        });
    }
    let code = "mov.b32 {%y0, %y1, %y2, %y3}, $a; mov.b32 $d, {%y3, %y2, %y1, %y0};";
    list.coded("mov.b32 of four", &[Kind::I32], 4, code, |of| u64::from((of[0] as u32).swap_bytes()));
    let code = "mov.b16 {%y0, %y1}, $a; mov.b16 $d, {%y1, %y0};";
    list.coded("mov.b16 of two", &[Kind::I16], 2, code, |of| u64::from((of[0] as u16).swap_bytes()));
}
