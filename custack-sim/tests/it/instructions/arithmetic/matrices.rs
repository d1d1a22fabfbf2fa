//! Products of matrices in registers, against products of matrices.

use super::Random;
use super::numbers::half::{Bf16, F16, Short};
use super::numbers::matrix::{Matrix, Shape, halves, movmatrix};
use super::numbers::mma::{Accumulator, Element, Mma, mma_f64};
use super::numbers::round::Rounding;
use super::numbers::small::Fp8;

fn shape(m: usize, n: usize, k: usize) -> Shape {
    Shape { m, n, k }
}

#[test]
fn elements_are_where_the_manual_says() {
    // The manual's formulas for m16n8k16 with halves, by the index of an element in a lane.
    let halves = shape(16, 8, 16);
    for lane in 0..32 {
        let (group, member) = (lane >> 2, lane % 4);
        for i in 0..8 {
            let row = if i < 2 || (4..6).contains(&i) { group } else { group + 8 };
            let column = member * 2 + (i & 1) + if i < 4 { 0 } else { 8 };
            assert_eq!(halves.position(Matrix::A, 2, i / 2, i % 2, lane), (row, column));
        }
        for i in 0..4 {
            let row = member * 2 + (i & 1) + if i < 2 { 0 } else { 8 };
            assert_eq!(halves.position(Matrix::B, 2, i / 2, i % 2, lane), (row, group));
            let (row, column) = (if i < 2 { group } else { group + 8 }, member * 2 + (i & 1));
            assert_eq!(halves.position(Matrix::C, 1, i, 0, lane), (row, column));
            assert_eq!(halves.position(Matrix::C, 2, i / 2, i % 2, lane), (row, column));
            // m16n8k8 with tf32.
            let (row, column) = (group + 8 * (i % 2), member + 4 * (i / 2));
            assert_eq!(shape(16, 8, 8).position(Matrix::A, 1, i, 0, lane), (row, column));
        }
        for i in 0..16 {
            // m16n8k32 with bytes.
            let row = if i < 4 || (8..12).contains(&i) { group } else { group + 8 };
            let column = member * 4 + (i & 3) + if i < 8 { 0 } else { 16 };
            assert_eq!(shape(16, 8, 32).position(Matrix::A, 4, i / 4, i % 4, lane), (row, column));
        }
        for i in 0..2 {
            assert_eq!(shape(8, 8, 16).position(Matrix::C, 1, i, 0, lane), (group, member * 2 + i));
        }
    }
}

/// Every element is in a register.
#[test]
fn tiles_of_every_shape_have_every_element_once_or_as_often_as_another() {
    for (m, n, k, per) in [
        (16, 8, 16, 2),
        (16, 16, 16, 2),
        (32, 8, 16, 2),
        (8, 32, 16, 2),
        (16, 16, 8, 1),
        (16, 16, 16, 4),
        (8, 8, 16, 4),
        (32, 8, 16, 4),
        (8, 32, 16, 4),
    ] {
        let of = shape(m, n, k);
        for (matrix, per, rows, columns) in
            [(Matrix::A, per, m, k), (Matrix::B, per, k, n), (Matrix::C, 1, m, n)]
        {
            let mut times = vec![0; rows * columns];
            for (lane, register) in
                (0..32).flat_map(|lane| (0..rows * columns / 32 / per).map(move |register| (lane, register)))
            {
                for part in 0..per {
                    let (row, column) = of.position(matrix, per, register, part, lane);
                    times[row * columns + column] += 1;
                }
            }
            assert!(times.iter().all(|&times| times == 1), "{of:?} {matrix:?}");
        }
    }
}

/// Puts a matrix into registers.
fn spread(of: Shape, matrix: Matrix, per: usize, bits: impl Fn(usize, usize) -> u32) -> Vec<[u32; 32]> {
    let count = match matrix {
        Matrix::A => of.m * of.k,
        Matrix::B => of.k * of.n,
        Matrix::C => of.m * of.n,
    } / 32
        / per;
    let word = |register: usize, lane: usize| {
        (0..per).fold(0, |word, part| {
            let (row, column) = of.position(matrix, per, register, part, lane);
            word | bits(row, column) << (32 / per * part)
        })
    };
    (0..count).map(|register| std::array::from_fn(|lane| word(register, lane))).collect()
}

fn product(
    of: Shape,
    element: Element,
    accumulator: Accumulator,
    encode: impl Fn(i32) -> u32,
    result: impl Fn(i32) -> u32,
) {
    let mut random = Random(12);
    let mut numbers = |count: usize| (0..count).map(|_| random.below(13) as i32 - 6).collect::<Vec<_>>();
    let (a, b, c) = (numbers(of.m * of.k), numbers(of.k * of.n), numbers(of.m * of.n));
    let per = element.per_register();
    let registers = |matrix, per, of_it: &[i32], columns: usize, encode: &dyn Fn(i32) -> u32| {
        spread(of, matrix, per, |row, column| encode(of_it[row * columns + column]))
    };
    let left = registers(Matrix::A, per, &a, of.k, &encode);
    let right = registers(Matrix::B, per, &b, of.n, &encode);
    let third = registers(Matrix::C, accumulator.per_register(), &c, of.n, &result);
    let mut d = third.clone();
    let mma = Mma { shape: of, a: element, b: element, c: accumulator, d: accumulator, sat: false };
    mma.run(&left, &right, &third, &mut d);
    let sums: Vec<i32> = (0..of.m * of.n)
        .map(|at| c[at] + (0..of.k).map(|k| a[at / of.n * of.k + k] * b[k * of.n + at % of.n]).sum::<i32>())
        .collect();
    assert_eq!(
        d,
        registers(Matrix::C, accumulator.per_register(), &sums, of.n, &result),
        "{of:?} {element:?}"
    );
}

#[test]
fn products_of_small_integers_are_exact_in_every_type() {
    let half = |value: i32| u32::from(F16::round(value.into(), Rounding::Nearest));
    let brain = |value: i32| u32::from(Bf16::round(value.into(), Rounding::Nearest));
    let single = |value: i32| (value as f32).to_bits();
    let double = |value: i32| value as u32;
    for (m, n, k) in [(16, 8, 16), (16, 8, 8), (16, 16, 16), (32, 8, 16), (8, 32, 16)] {
        product(shape(m, n, k), Element::F16, Accumulator::F32, half, single);
        product(shape(m, n, k), Element::F16, Accumulator::F16, half, half);
        product(shape(m, n, k), Element::Bf16, Accumulator::F32, brain, single);
    }
    product(shape(16, 8, 8), Element::Tf32, Accumulator::F32, single, single);
    product(shape(16, 8, 4), Element::Tf32, Accumulator::F32, single, single);
    product(shape(16, 16, 8), Element::Tf32, Accumulator::F32, single, single);
    for (kind, element) in [(Fp8::E4m3, Element::E4m3), (Fp8::E5m2, Element::E5m2)] {
        let byte = |value: i32| u32::from(kind.round(value.into()));
        // Two bits of fraction are enough for numbers below 8.
        product(shape(16, 8, 32), element, Accumulator::F32, byte, single);
    }
    for (m, n, k) in [(16, 8, 32), (16, 8, 16), (8, 8, 16), (16, 16, 16)] {
        product(shape(m, n, k), Element::S8, Accumulator::S32, |value| value as u8 as u32, double);
    }
    product(shape(16, 8, 64), Element::S4, Accumulator::S32, |value| value as u32 & 15, double);
}

#[test]
fn sums_of_products_are_cut_off_and_infinities_and_nan_survive() {
    let mma = Mma {
        shape: shape(16, 8, 16),
        a: Element::F16,
        b: Element::F16,
        c: Accumulator::F32,
        d: Accumulator::F32,
        sat: false,
    };
    let one = |a: [f32; 2], c: f32| {
        let half = |value: f32| u32::from(F16::round(value.into(), Rounding::Nearest));
        let left = [[half(a[0]) | half(a[1]) << 16; 32], [0; 32], [0; 32], [0; 32]];
        let right = [[half(1.0) | half(1.0) << 16; 32], [0; 32]];
        let mut d = [[0; 32]; 4];
        mma.run(&left, &right, &[[c.to_bits(); 32]; 4], &mut d);
        assert!(d[0].iter().all(|&bits| bits == d[0][0]));
        f32::from_bits(d[0][0])
    };
    assert_eq!(one([0.5, 0.25], 1.0), 4.0);
    // 2^-23 of 1 is kept from eight products of 2^-24, those of 2^-26 are lost in the alignment.
    assert_eq!(one([2f32.powi(-24), 0.0], 1.0), 1.0 + 2f32.powi(-22));
    assert_eq!(one([f32::INFINITY, 1.0], 1.0), f32::INFINITY);
    assert_eq!(one([f32::INFINITY, f32::NEG_INFINITY], 1.0).to_bits(), 0x7fff_ffff);
    assert_eq!(one([1.0, f32::NAN], 1.0).to_bits(), 0x7fff_ffff);
    assert_eq!(one([-0.0, 0.0], 0.0).to_bits(), 0);
}

#[test]
fn integers_saturate_only_if_asked() {
    let mma = Mma {
        shape: shape(8, 8, 16),
        a: Element::U8,
        b: Element::S8,
        c: Accumulator::S32,
        d: Accumulator::S32,
        sat: true,
    };
    let mut d = [[0; 32]; 2];
    let (a, b, c) = ([[u32::MAX; 32]], [[0x7f7f_7f7f; 32]], [[i32::MAX as u32; 32]; 2]);
    mma.run(&a, &b, &c, &mut d);
    assert_eq!(d, c);
    Mma { sat: false, ..mma }.run(&a, &b, &c, &mut d);
    assert_eq!(d[0][0] as i32, i32::MAX.wrapping_add(16 * 255 * 127));
}

#[test]
fn f64_is_multiplied_in_tiles_of_8_by_8_by_4() {
    let a: [u64; 32] = std::array::from_fn(|lane| (lane as f64).to_bits());
    let b: [u64; 32] = std::array::from_fn(|lane| (3.0 * lane as f64 - 7.0).to_bits());
    let d = mma_f64(shape(8, 8, 4), Rounding::Nearest, &[a], &[b], &[[1f64.to_bits(); 32]; 2]);
    for (register, lane) in (0..2).flat_map(|register| (0..32).map(move |lane| (register, lane))) {
        let (row, column) = (lane / 4, lane % 4 * 2 + register);
        let sum: f64 = (0..4).map(|k| (row * 4 + k) as f64 * (3.0 * (column * 4 + k) as f64 - 7.0)).sum();
        assert_eq!(f64::from_bits(d[register][lane]), sum + 1.0);
    }
}

#[test]
fn matrices_of_halves_are_transposed() {
    let a: [u32; 32] = std::array::from_fn(|lane| {
        let [low, high] = halves(false, lane).map(|(row, column)| (row * 8 + column) as u32);
        high << 16 | low
    });
    let turned: [u32; 32] = std::array::from_fn(|lane| {
        let [low, high] = halves(false, lane).map(|(row, column)| (column * 8 + row) as u32);
        high << 16 | low
    });
    assert_eq!(movmatrix(&a), turned);
}
