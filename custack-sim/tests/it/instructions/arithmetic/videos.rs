//! The video instructions.

use super::Random;
use super::numbers::compare::Compare;
use super::numbers::simd::{Lanes, Mad, Part, Scalar, Second, Video, lanes, mad, scalar};

const WORDS: Scalar = Scalar {
    op: Video::Add,
    a: Part::Word,
    b: Part::Word,
    a_signed: true,
    b_signed: true,
    d_signed: true,
    sat: false,
    second: Second::Nothing,
};

#[test]
fn scalars_are_selected_clamped_and_merged() {
    let (most, least) = (i32::MAX as u32, i32::MIN as u32);
    let sat = Scalar { sat: true, ..WORDS };
    assert_eq!([scalar(WORDS, most, 1, 0), scalar(sat, most, 1, 0)], [least, most]);
    assert_eq!(scalar(Scalar { op: Video::Sub, d_signed: false, ..sat }, 1, 2, 0), 0);
    assert_eq!(scalar(Scalar { op: Video::AbsDiff, ..WORDS }, least, most, 0), u32::MAX);
    assert_eq!(
        scalar(Scalar { a: Part::Byte(3), b: Part::Half(1), ..WORDS }, 0x80ff_ffff, 0x7fff_0000, 0),
        0x7f7f
    );
    assert_eq!(scalar(Scalar { a: Part::Byte(3), a_signed: false, ..WORDS }, 0x80ff_ffff, 0, 0), 0x80);
    let merge = Scalar { second: Second::Merge(Part::Byte(2)), ..sat };
    assert_eq!(scalar(merge, 300, 0, 0x1122_3344), 0x117f_3344);
    assert_eq!(
        scalar(Scalar { second: Second::Merge(Part::Half(0)), ..WORDS }, 0xffff_ffff, 2, 0xaaaa_bbbb),
        0xaaaa_0001
    );
    assert_eq!(scalar(Scalar { second: Second::Add, ..WORDS }, 1, 2, 10), 13);
    assert_eq!(scalar(Scalar { second: Second::Min, ..WORDS }, 1, 2, -5i32 as u32), -5i32 as u32);
    assert_eq!(scalar(Scalar { second: Second::Max, d_signed: false, ..WORDS }, 1, 2, u32::MAX), u32::MAX);
    let set = Scalar { op: Video::Set(Compare::Lt), b_signed: false, d_signed: false, ..WORDS };
    assert_eq!(
        [scalar(set, u32::MAX, 0, 0), scalar(Scalar { a_signed: false, ..set }, u32::MAX, 0, 0)],
        [1, 0]
    );
}

#[test]
fn scalars_are_shifted_by_clamped_or_wrapped_amounts() {
    let shift = |op, sat| Scalar { op, sat, b_signed: false, ..WORDS };
    let minus = -8i32 as u32;
    assert_eq!(
        [
            scalar(shift(Video::Shr(false), false), minus, 99, 0),
            scalar(shift(Video::Shr(true), false), minus, 33, 0)
        ],
        [u32::MAX, -4i32 as u32]
    );
    assert_eq!(
        [scalar(shift(Video::Shl(false), false), 1, 32, 0), scalar(shift(Video::Shl(true), false), 1, 32, 0)],
        [0, 1]
    );
    assert_eq!(scalar(shift(Video::Shl(false), true), minus, 31, 0), i32::MIN as u32);
    let plain = Scalar { a_signed: false, d_signed: false, ..shift(Video::Shl(false), true) };
    assert_eq!(scalar(plain, u32::MAX, u32::MAX, 0), u32::MAX);
}

#[test]
fn products_are_negated_scaled_and_clamped() {
    let plain = Mad {
        a: Part::Word,
        b: Part::Word,
        a_signed: false,
        b_signed: false,
        negate_product: false,
        negate_c: false,
        plus_one: false,
        sat: false,
        scale: 0,
    };
    assert_eq!(mad(plain, 6, 7, 8), 50);
    assert_eq!(mad(Mad { sat: true, ..plain }, u32::MAX, 2, 0), u32::MAX);
    assert_eq!(mad(Mad { negate_product: true, ..plain }, 6, 7, 2), -40i32 as u32);
    assert_eq!(mad(Mad { negate_c: true, ..plain }, 6, 7, 2), 40);
    assert_eq!(mad(Mad { plus_one: true, scale: 7, ..plain }, 16, 16, 0), 2);
    assert_eq!(
        mad(Mad { scale: 15, ..plain }, u32::MAX, u32::MAX, 0),
        ((u64::from(u32::MAX) * u64::from(u32::MAX)) >> 15) as u32
    );
    let signed =
        Mad { a: Part::Half(0), b: Part::Byte(0), a_signed: true, b_signed: true, sat: true, ..plain };
    assert_eq!(mad(signed, 0x8000, 0x80, i32::MAX as u32), i32::MAX as u32);
    assert_eq!(mad(signed, 0x8000, 0x7f, 0), (-32768 * 127) as u32);
}

#[test]
fn lanes_are_selected_clamped_masked_and_added() {
    let halves = Lanes {
        op: Video::Add,
        count: 2,
        a: [0, 1, 0, 0],
        b: [2, 3, 0, 0],
        a_signed: true,
        b_signed: true,
        d_signed: true,
        sat: false,
        add: false,
        mask: 3,
    };
    assert_eq!(lanes(halves, 0x7fff_0001, 0x0001_0002, 0), 0x8000_0003);
    assert_eq!(lanes(Lanes { sat: true, ..halves }, 0x7fff_0001, 0x0001_0002, 0), 0x7fff_0003);
    assert_eq!(lanes(Lanes { mask: 1, ..halves }, 0x7fff_0001, 0x0001_0002, 0xabcd_0000), 0xabcd_0003);
    assert_eq!(
        lanes(Lanes { a: [1, 1, 0, 0], b: [0, 3, 0, 0], ..halves }, 0x0010_0001, 0x0100_0002, 0),
        0x0110_0011
    );
    let average = Lanes { op: Video::Average, ..halves };
    assert_eq!(lanes(average, 0xfffd_0002, 0x0000_0003, 0), 0xfffe_0003);
    let sums = Lanes {
        op: Video::AbsDiff,
        count: 4,
        a: [0, 1, 2, 3],
        b: [4, 5, 6, 7],
        a_signed: false,
        b_signed: false,
        d_signed: false,
        sat: false,
        add: true,
        mask: 15,
    };
    let mut random = Random(11);
    for _ in 0..1_000 {
        let (a, b, c) = (random.next() as u32, random.next() as u32, random.next() as u32);
        let distance: u32 =
            a.to_le_bytes().iter().zip(b.to_le_bytes()).map(|(x, y)| u32::from(x.abs_diff(y))).sum();
        assert_eq!(lanes(sums, a, b, c), c.wrapping_add(distance));
        let set = Lanes { op: Video::Set(Compare::Ge), add: false, ..sums };
        let expected: Vec<u8> =
            a.to_le_bytes().iter().zip(b.to_le_bytes()).map(|(x, y)| u8::from(*x >= y)).collect();
        assert_eq!(lanes(set, a, b, c).to_le_bytes().to_vec(), expected);
    }
}
