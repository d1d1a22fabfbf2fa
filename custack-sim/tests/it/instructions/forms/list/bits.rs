//! Logic, shifts, fields of bits, bytes, and sums of small products.

use super::super::form::List;
use super::super::operands::Kind;
use super::integers::{Int, S32, S64, U32, U64};

const WIDTHS: [(&str, Kind, u32); 3] =
    [("b16", Kind::I16, 16), ("b32", Kind::I32, 32), ("b64", Kind::I64, 64)];

fn ones(count: u32) -> u64 {
    (0..count.min(64)).fold(0, |all, at| all | 1 << at)
}

pub(super) fn list(list: &mut List) {
    for (name, kind, bits) in WIDTHS {
        let size = kind.size();
        list.plain(format!("and.{name}"), &[kind; 2], size, |of| of[0] & of[1]);
        list.plain(format!("or.{name}"), &[kind; 2], size, |of| of[0] | of[1]);
        list.plain(format!("xor.{name}"), &[kind; 2], size, |of| of[0] ^ of[1]);
        list.plain(format!("not.{name}"), &[kind], size, move |of| !of[0] & ones(bits));
        list.plain(format!("cnot.{name}"), &[kind], size, |of| u64::from(of[0] == 0));
        list.plain(format!("shl.{name}"), &[kind, Kind::Amount], size, move |of| {
            if of[1] < bits.into() { of[0] << of[1] & ones(bits) } else { 0 }
        });
        for letter in ["b", "u"] {
            list.plain(format!("shr.{letter}{bits}"), &[kind, Kind::Amount], size, move |of| {
                if of[1] < bits.into() { of[0] >> of[1] } else { 0 }
            });
        }
        list.plain(format!("shr.s{bits}"), &[kind, Kind::Amount], size, move |of| {
            let ty = Int { name: "", bits, signed: true };
            ty.cut(ty.value(of[0]) >> of[1].min(bits.into()))
        });
    }
    for (op, f) in [("and", 0b1000), ("or", 0b1110), ("xor", 0b0110)] {
        let code = format!(
            "setp.ne.u32 %p0, $a, 0; setp.ne.u32 %p1, $b, 0; {op}.pred %p2, %p0, %p1; selp.u32 $d, 1, 0, %p2;"
        );
        list.coded(format!("{op}.pred"), &[Kind::Flag; 2], 4, code, move |of| f >> (of[0] * 2 + of[1]) & 1);
    }
    let code = "setp.ne.u32 %p0, $a, 0; not.pred %p1, %p0; selp.u32 $d, 1, 0, %p1;";
    list.coded("not.pred", &[Kind::Flag], 4, code, |of| 1 - of[0]);
    counted(list);
    fields(list);
    funnels(list);
    bytes(list);
    tables(list);
}

fn counted(list: &mut List) {
    for (name, kind, bits) in [WIDTHS[1], WIDTHS[2]] {
        list.plain(format!("popc.{name}"), &[kind], 4, |of| (0..64).map(|at| of[0] >> at & 1).sum());
        list.plain(format!("clz.{name}"), &[kind], 4, move |of| {
            (0..bits).rev().take_while(|at| of[0] >> at & 1 == 0).count() as u64
        });
        list.plain(format!("brev.{name}"), &[kind], kind.size(), move |of| {
            (0..bits).fold(0, |all, at| all | (of[0] >> at & 1) << (bits - 1 - at))
        });
    }
    for ty in [U32, S32, U64, S64] {
        for amount in [false, true] {
            let name = format!("bfind{}.{}", if amount { ".shiftamt" } else { "" }, ty.name);
            list.plain(name, &[ty.kind()], 4, move |of| {
                let value = ty.value(of[0]);
                let value = if value < 0 { !value } else { value };
                match (0..ty.bits).rev().find(|at| value >> at & 1 == 1) {
                    None => 0xffff_ffff,
                    Some(at) => u64::from(if amount { ty.bits - 1 - at } else { at }),
                }
            });
        }
    }
    list.plain("fns.b32", &[Kind::I32, Kind::Amount, Kind::Amount], 4, |of| {
        let (mask, base, offset) = (of[0], of[1], of[2] as i32);
        if base > 31 {
            return 0xffff_ffff;
        }
        let set = |at: &u64| mask >> at & 1 == 1;
        let skip = (offset.unsigned_abs() as usize).saturating_sub(1);
        let found = match offset {
            0 => Some(base).filter(|at| set(at)),
            1.. => (base..32).filter(set).nth(skip),
            _ => (0..=base).rev().filter(set).nth(skip),
        };
        found.unwrap_or(0xffff_ffff)
    });
}

fn fields(list: &mut List) {
    for ty in [U32, S32, U64, S64] {
        let operands = [ty.kind(), Kind::Amount, Kind::Amount];
        list.plain(format!("bfe.{}", ty.name), &operands, ty.size(), move |of| {
            // What the manual says of 8 bits, an H200 does with words alone.
            let counted = if ty.bits == 64 { u64::MAX } else { 0xff };
            let (pos, len, last) = (of[1] & counted, of[2] & counted, u64::from(ty.bits) - 1);
            let sign = if !ty.signed || len == 0 { 0 } else { of[0] >> (pos + len - 1).min(last) & 1 };
            (0..=last).fold(0, |all, at| {
                let bit = if at < len && pos + at <= last { of[0] >> (pos + at) & 1 } else { sign };
                all | bit << at
            })
        });
    }
    for (name, kind, bits) in [WIDTHS[1], WIDTHS[2]] {
        let operands = [kind, kind, Kind::Amount, Kind::Amount];
        list.plain(format!("bfi.{name}"), &operands, kind.size(), move |of| {
            let counted = if bits == 64 { u64::MAX } else { 0xff };
            let (pos, len) = (of[2] & counted, of[3] & counted);
            (0..len.min(64))
                .take_while(|at| pos + at < bits.into())
                .fold(of[1], |all, at| all & !(1 << (pos + at)) | (of[0] >> at & 1) << (pos + at))
        });
    }
    for wrap in [true, false] {
        let mode = if wrap { "wrap" } else { "clamp" };
        let amount = move |by: u64| if wrap { by & 31 } else { by.min(32) } as u32;
        list.plain(format!("bmsk.{mode}.b32"), &[Kind::Amount; 2], 4, move |of| {
            ones(amount(of[1])) << amount(of[0]) & ones(32)
        });
        for ty in [U32, S32] {
            list.plain(format!("szext.{mode}.{}", ty.name), &[Kind::I32, Kind::Amount], 4, move |of| {
                match amount(of[1]) {
                    0 => 0,
                    bits => U32.cut(Int { name: "", bits, signed: ty.signed }.value(of[0])),
                }
            });
        }
    }
}

fn funnels(list: &mut List) {
    for wrap in [true, false] {
        let mode = if wrap { "wrap" } else { "clamp" };
        let amount = move |by: u64| if wrap { by % 32 } else { by.min(32) };
        let operands = [Kind::I32, Kind::I32, Kind::Amount];
        list.plain(format!("shf.l.{mode}.b32"), &operands, 4, move |of| {
            let (low, high, by) = (u128::from(of[0]), u128::from(of[1]), amount(of[2]));
            ((high << 32 | low) << by >> 32) as u64 & ones(32)
        });
        list.plain(format!("shf.r.{mode}.b32"), &operands, 4, move |of| {
            (of[1] << 32 | of[0]) >> amount(of[2]) & ones(32)
        });
    }
}

fn bytes(list: &mut List) {
    let byte = |of: &[u64], at: u64| of[(at / 4) as usize] >> (8 * (at % 4)) & 0xff;
    let word = [Kind::I32; 3];
    list.plain("prmt.b32", &word, 4, move |of| {
        (0..4).fold(0, |all, at| {
            let nibble = of[2] >> (4 * at) & 15;
            let value = byte(of, nibble & 7);
            let sign = if value & 0x80 != 0 { 0xff } else { 0 };
            all | (if nibble & 8 != 0 { sign } else { value }) << (8 * at)
        })
    });
    // Which bytes are taken for the two low bits of the selector, the highest first, as the manual has it in tables.
    for (mode, table) in [
        ("f4e", [0x3210, 0x4321, 0x5432, 0x6543]),
        ("b4e", [0x5670, 0x6701, 0x7012, 0x0123]),
        ("rc8", [0x0000, 0x1111, 0x2222, 0x3333]),
        ("ecl", [0x3210, 0x3211, 0x3222, 0x3333]),
        ("ecr", [0x0000, 0x1110, 0x2210, 0x3210]),
        ("rc16", [0x1010, 0x3232, 0x1010, 0x3232]),
    ] {
        list.plain(format!("prmt.b32.{mode}"), &word, 4, move |of| {
            let table: u64 = table[(of[2] & 3) as usize];
            (0..4).fold(0, |all, at| all | byte(of, table >> (4 * at) & 7) << (8 * at))
        });
    }
    for (a, b) in [(U32, U32), (U32, S32), (S32, U32), (S32, S32)] {
        let part = |word: u64, at: u32, bits: u32, of: Int| {
            Int { name: "", bits, signed: of.signed }.value(word >> (at * bits))
        };
        list.plain(format!("dp4a.{}.{}", a.name, b.name), &word, 4, move |of| {
            U32.cut(
                (0..4).map(|at| part(of[0], at, 8, a) * part(of[1], at, 8, b)).sum::<i128>()
                    + i128::from(of[2]),
            )
        });
        for (half, first) in [("lo", 0), ("hi", 2)] {
            list.plain(format!("dp2a.{half}.{}.{}", a.name, b.name), &word, 4, move |of| {
                let sum: i128 = (0..2).map(|at| part(of[0], at, 16, a) * part(of[1], first + at, 8, b)).sum();
                U32.cut(sum + i128::from(of[2]))
            });
        }
    }
}

/// `lop3`, with every eighth table and some that compilers write.
fn tables(list: &mut List) {
    let combined = |of: &[u64], table: u64| {
        (0..32).fold(0, |all, at| {
            let bit = |which: usize| of[which] >> at & 1;
            all | (table >> (bit(0) * 4 + bit(1) * 2 + bit(2)) & 1) << at
        })
    };
    let tables =
        (0..32).map(|at| at * 8 + ((at * 5) & 7)).chain([0x96, 0xe8, 0xca, 0x80, 0xfe, 0x1e, 0x78, 0xf8]);
    let tables: std::collections::BTreeSet<u64> = tables.collect();
    for table in tables {
        let code = format!("lop3.b32 $d, $a, $b, $c, {table};");
        list.coded(format!("lop3.b32 of {table:#04x}"), &[Kind::I32; 3], 4, code, move |of| {
            combined(of, table)
        });
    }
    for (op, table) in [("or", 0x96), ("and", 0xca), ("or", 0x80), ("and", 0x01)] {
        let code = format!(
            "setp.ne.u32 %p0, $e, 0; lop3.{op}.b32 %w0|%p1, $a, $b, $c, {table}, %p0; selp.u32 %w1, 0x55, 0, %p1; xor.b32 $d, %w0, %w1;"
        );
        let operands = [Kind::I32, Kind::I32, Kind::I32, Kind::Flag];
        list.coded(format!("lop3.{op}.b32 of {table:#04x}"), &operands, 4, code, move |of| {
            let value = combined(of, table);
            let set = if op == "or" { value != 0 || of[3] != 0 } else { value != 0 && of[3] != 0 };
            value ^ if set { 0x55 } else { 0 }
        });
    }
}
