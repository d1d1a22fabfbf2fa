//! Integers and bits, against the manual's own programs.

use super::Random;
use super::numbers::bits::*;
use super::numbers::int::{Int, mul24_s32, mul24_u32};

/// Every function of one type, against 128 bits.
macro_rules! width {
    ($int:ty, $random:ident, $rounds:expr) => {
        for _ in 0..$rounds {
            let [a, b, c] = [(); 3].map(|()| $random.integer() as $int);
            let [x, y, z] = [a, b, c].map(i128::from);
            let carry = $random.below(2) == 1;
            let bits = <$int>::BITS;
            let (low, high) = (i128::from(<$int>::MIN), i128::from(<$int>::MAX));
            let product = x.wrapping_mul(y);
            let top = if <$int>::MIN == 0 {
                ((x as u128 * y as u128) >> bits) as $int
            } else {
                (product >> bits) as $int
            };
            assert_eq!(<$int as Int>::add(a, b), (x + y) as $int);
            assert_eq!(<$int as Int>::sub(a, b), (x - y) as $int);
            assert_eq!(<$int as Int>::add_sat(a, b), (x + y).clamp(low, high) as $int);
            assert_eq!(<$int as Int>::sub_sat(a, b), (x - y).clamp(low, high) as $int);
            assert_eq!(<$int as Int>::mul_lo(a, b), product as $int);
            assert_eq!(<$int as Int>::mul_hi(a, b), top);
            assert_eq!(<$int as Int>::mul_wide(a, b) as u128, product as <$int as Int>::Wide as u128);
            assert_eq!(<$int as Int>::mad_lo(a, b, c), product.wrapping_add(z) as $int);
            assert_eq!(<$int as Int>::mad_hi(a, b, c), (i128::from(top) + z) as $int);
            assert_eq!(<$int as Int>::mad_hi_sat(a, b, c), (i128::from(top) + z).clamp(low, high) as $int);
            assert_eq!(<$int as Int>::mad_wide(a, b, 5), <$int as Int>::mul_wide(a, b).wrapping_add(5));
            let (quotient, rest) = if y == 0 { (-1, -1) } else { (x / y, x % y) };
            assert_eq!(<$int as Int>::quotient(a, b), quotient as $int);
            assert_eq!(<$int as Int>::remainder(a, b), rest as $int);
            assert_eq!(<$int as Int>::magnitude(a), x.unsigned_abs() as $int);
            assert_eq!(<$int as Int>::negated(a), (-x) as $int);
            assert_eq!(<$int as Int>::sad(a, b, c), (z + (x - y).abs()) as $int);
            assert_eq!(<$int as Int>::cnot(a), (x == 0) as $int);
            assert_eq!([Int::lesser(a, b), Int::greater(a, b)], [x.min(y) as $int, x.max(y) as $int]);
            assert_eq!(<$int as Int>::relu(a), x.max(0) as $int);
            let bit = |at: u32| x >> at & 1;
            assert_eq!(<$int as Int>::popc(a), (0..bits).map(|at| bit(at) as u32).sum());
            assert_eq!(<$int as Int>::clz(a), (0..bits).rev().take_while(|&at| bit(at) == 0).count() as u32);
            assert_eq!(<$int as Int>::brev(a), (0..bits).fold(0, |all, at| all << 1 | bit(at)) as $int);
            let sign = if x < 0 { 1 } else { 0 };
            let found = (0..bits).rev().find(|&at| bit(at) != sign);
            assert_eq!(<$int as Int>::bfind(a), found.unwrap_or(u32::MAX));
            assert_eq!(<$int as Int>::bfind_shift(a), found.map_or(u32::MAX, |at| bits - 1 - at));
            for by in [$random.below(70) as u32, $random.next() as u32] {
                assert_eq!(<$int as Int>::shl(a, by), if by < bits { (x << by) as $int } else { 0 });
                assert_eq!(<$int as Int>::shr(a, by), (x >> by.min(bits)) as $int);
            }
            let plain = |value: i128| value & ((1 << bits) - 1);
            let sum = plain(x) + plain(y) + i128::from(carry);
            assert_eq!(<$int as Int>::addc(a, b, carry), (sum as $int, sum >> bits != 0));
            let difference = plain(x) - plain(y) - i128::from(carry);
            assert_eq!(<$int as Int>::subc(a, b, carry), (difference as $int, difference < 0));
            let sum = plain(product) + plain(z) + i128::from(carry);
            assert_eq!(<$int as Int>::madc_lo(a, b, c, carry), (sum as $int, sum >> bits != 0));
            let sum = plain(i128::from(top)) + plain(z) + i128::from(carry);
            assert_eq!(<$int as Int>::madc_hi(a, b, c, carry), (sum as $int, sum >> bits != 0));
        }
    };
}

#[test]
fn integers_of_every_width_are_those_of_128_bits_cut_off() {
    let mut random = Random(8);
    width!(u16, random, 3_000);
    width!(i16, random, 3_000);
    width!(u32, random, 3_000);
    width!(i32, random, 3_000);
    width!(u64, random, 3_000);
    width!(i64, random, 3_000);
    assert_eq!([i32::quotient(i32::MIN, -1), i32::remainder(i32::MIN, -1)], [i32::MIN, 0]);
    assert_eq!([u32::quotient(7, 0), u32::remainder(7, 0)], [u32::MAX; 2]);
    assert_eq!([Int::magnitude(i64::MIN), Int::negated(i64::MIN)], [i64::MIN; 2]);
}

#[test]
fn products_of_24_bits_have_48() {
    assert_eq!(mul24_u32(false, 0xffff_ffff, 0xffff_ffff), (0xff_ffffu64 * 0xff_ffff) as u32);
    assert_eq!(mul24_u32(true, 0xffff_ffff, 0xffff_ffff), ((0xff_ffffu64 * 0xff_ffff) >> 16) as u32);
    assert_eq!(
        [mul24_s32(false, 0xff_ffff, 5), mul24_s32(true, 0x80_0000, 0x7f_ffff)],
        [-5, (-(1 << 30)) + 128]
    );
}

/// The bit of a number at a position of up to 63.
fn bit(a: u64, at: u32) -> bool {
    a >> at & 1 == 1
}

#[test]
fn bit_fields_are_those_of_the_manual_at_every_position() {
    let mut random = Random(9);
    for (pos, len) in (0..=0x101).flat_map(|pos| (0..=0x101).map(move |len| (pos, len))) {
        let (a, b) = (random.next(), random.next());
        for (msb, signed) in [(31, false), (31, true), (63, false), (63, true)] {
            let (p, l) = if msb == 31 { (pos & 0xff, len & 0xff) } else { (pos, len) };
            let fill = signed && l != 0 && bit(a, (p + l - 1).min(msb));
            let expected = (0..=msb).fold(0u64, |all, at| {
                let set = if at < l && p + at <= msb { bit(a, p + at) } else { fill };
                all | u64::from(set) << at
            });
            let result = match (msb, signed) {
                (31, false) => u32::bfe(a as u32, pos, len).into(),
                (31, true) => i32::bfe(a as i32, pos, len) as u32 as u64,
                (_, false) => u64::bfe(a, pos, len),
                _ => i64::bfe(a as i64, pos, len) as u64,
            };
            assert_eq!(result, expected, "{pos} {len} {msb} {signed}");
        }
        for msb in [31, 63] {
            let (p, l) = if msb == 31 { (pos & 0xff, len & 0xff) } else { (pos, len) };
            let expected = (0..=msb).fold(0, |all, at| {
                let set = if at >= p && at < p + l { bit(a, at - p) } else { bit(b, at) };
                all | u64::from(set) << at
            });
            let result =
                if msb == 31 { bfi32(a as u32, b as u32, pos, len).into() } else { bfi64(a, b, pos, len) };
            assert_eq!(result, expected, "{pos} {len} {msb}");
        }
    }
}

#[test]
fn the_nth_set_bit_is_found_in_both_directions() {
    let mut random = Random(10);
    for _ in 0..20_000 {
        let (mask, base) = (random.integer() as u32, random.below(32) as u32);
        let offset = random.below(71) as i32 - 35;
        let mut expected = u32::MAX;
        if offset == 0 {
            expected = if bit(mask.into(), base) { base } else { expected };
        } else {
            let (mut pos, mut count) = (base as i32, offset.abs() - 1);
            while (0..32).contains(&pos) {
                if bit(mask.into(), pos as u32) {
                    if count == 0 {
                        expected = pos as u32;
                        break;
                    }
                    count -= 1;
                }
                pos += offset.signum();
            }
        }
        assert_eq!(fns(mask, base, offset), expected, "{mask:#x} {base} {offset}");
    }
    assert_eq!([fns(1, 32, 1), fns(1, 0, i32::MIN)], [u32::MAX; 2]);
}

#[test]
fn bytes_are_permuted_as_the_tables_say() {
    let (a, b) = (0x8322_1100, 0x7766_f544);
    let all = |mode| [0, 1, 2, 7].map(|selector| prmt(mode, a, b, selector));
    assert_eq!(all(Permute::F4e), [0x8322_1100, 0x4483_2211, 0xf544_8322, 0x66f5_4483]);
    assert_eq!(all(Permute::B4e), [0xf566_7700, 0x6677_0011, 0x7700_1122, 0x0011_2283]);
    assert_eq!(all(Permute::Rc8), [0, 0x1111_1111, 0x2222_2222, 0x8383_8383]);
    assert_eq!(all(Permute::Ecl), [0x8322_1100, 0x8322_1111, 0x8322_2222, 0x8383_8383]);
    assert_eq!(all(Permute::Ecr), [0, 0x1111_1100, 0x2222_1100, 0x8322_1100]);
    assert_eq!(all(Permute::Rc16), [0x1100_1100, 0x8322_8322, 0x1100_1100, 0x8322_8322]);
    assert_eq!(prmt(Permute::Plain, a, b, 0xffff_3210), a);
    assert_eq!(prmt(Permute::Plain, a, b, 0xfdb4), 0x00ff_ff44);
}

#[test]
fn words_are_shifted_into_each_other() {
    let (a, b) = (0x0123_4567, 0x89ab_cdef);
    assert_eq!([shf_l(true, a, b, 36), shf_l(false, a, b, 36)], [0x9abc_def0, a]);
    assert_eq!([shf_r(true, a, b, 36), shf_r(false, a, b, 36)], [0xf012_3456, b]);
    assert_eq!([shf_l(true, a, b, 0), shf_r(true, a, b, 32)], [b, a]);
}

#[test]
fn every_table_of_three_operands_is_looked_up_bit_by_bit() {
    for table in 0..=255u8 {
        let result = lop3(0xf0f0_f0f0, 0xcccc_cccc, 0xaaaa_aaaa, table);
        assert_eq!(result, u32::from_ne_bytes([table; 4]));
    }
}

#[test]
fn dot_products_have_either_sign_for_each_operand() {
    let (a, b) = (0x80ff_0102, 0x7f03_fe81);
    let bytes = |word: u32, signed| {
        word.to_le_bytes().map(|byte| if signed { i32::from(byte as i8) } else { i32::from(byte) })
    };
    let halves =
        |signed| [a & 0xffff, a >> 16].map(|half| if signed { half as i16 as i32 } else { half as i32 });
    for (a_signed, b_signed) in [(false, false), (false, true), (true, false), (true, true)] {
        let b4 = bytes(b, b_signed);
        let sum: i32 = bytes(a, a_signed).iter().zip(b4).map(|(x, y)| x * y).sum();
        assert_eq!(dp4a(a_signed, b_signed, a, b, 9), (sum + 9) as u32);
        let a2 = halves(a_signed);
        let low = a2[0] * b4[0] + a2[1] * b4[1];
        let high = a2[0] * b4[2] + a2[1] * b4[3];
        assert_eq!(dp2a(false, a_signed, b_signed, a, b, 9), (low + 9) as u32);
        assert_eq!(dp2a(true, a_signed, b_signed, a, b, u32::MAX), (high - 1) as u32);
    }
}

#[test]
fn masks_and_extensions_are_those_of_the_manual() {
    for (a, b) in (0..70u32).flat_map(|a| (0..70u32).map(move |b| (a, b))) {
        for wrap in [false, true] {
            let (a1, b1) = (a & 31, b & 31);
            let mut mask0 = u32::MAX << a1;
            let mut mask1 = u32::MAX.checked_shl(a1 + b1).unwrap_or(0);
            let position = !wrap && a >= 32;
            if position {
                mask0 = 0;
            }
            if a1 + b1 >= 32 || position || (!wrap && b >= 32) {
                mask1 = 0;
            } else if b1 == 0 {
                mask1 = u32::MAX;
            }
            assert_eq!(bmsk(wrap, a, b), mask0 & !mask1, "{wrap} {a} {b}");
            for (signed, word) in [(false, 0x8765_4321 ^ a), (true, 0x8765_4321 ^ a)] {
                let large = b >= 32 && !wrap;
                let mask = if large { 0 } else { u32::MAX << b1 };
                let sign = signed && b1 != 0 && !large && word >> (b1 - 1) & 1 == 1;
                assert_eq!(szext(wrap, signed, word, b), word & !mask | if sign { mask } else { 0 });
            }
        }
    }
}
