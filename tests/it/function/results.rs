//! What kernels compute: the same on the host, on the simulated device and on a real one.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{module, read, stream};
use crate::harness::{pushed, run};
use custack::function::{BlockSize, GridSize};
use custack::launch;
use custack::memory::{CopyDestination, DeviceBuffer};

#[test]
fn sums_are_the_hosts() {
    run(|| {
        let _ctx = pushed();
        let (module, stream) = (module(), stream());
        let a: Vec<f32> = (0..1000).map(|i| i as f32 * 0.37).collect();
        let b: Vec<f32> = (0..1000).map(|i| 1.0 / (i as f32 + 3.0)).collect();
        let (mut a_there, mut b_there) =
            (DeviceBuffer::from_slice(&a).unwrap(), DeviceBuffer::from_slice(&b).unwrap());
        let mut to = DeviceBuffer::from_slice(&[0f32; 1000]).unwrap();
        let (pa, pb, pt) = (a_there.as_device_ptr(), b_there.as_device_ptr(), to.as_device_ptr());
        unsafe { launch!(module.sum<<<4, 256, 0, stream>>>(pa, pb, pt, 1000u32)) }.unwrap();
        stream.synchronize().unwrap();
        let expected: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
        assert_eq!(read(&to), expected);
    });
}

#[test]
fn saxpy_is_right_to_the_bit_in_both_widths() {
    run(|| {
        let _ctx = pushed();
        let (module, stream) = (module(), stream());
        let x: Vec<f32> = (0..500).map(|i| (i as f32).sin()).collect();
        let y: Vec<f32> = (0..500).map(|i| (i as f32).cos()).collect();
        let (mut xs, mut ys) = (DeviceBuffer::from_slice(&x).unwrap(), DeviceBuffer::from_slice(&y).unwrap());
        let (px, py) = (xs.as_device_ptr(), ys.as_device_ptr());
        unsafe {
            launch!(module.saxpy<<<GridSize::x(2), BlockSize::x(256), 0, stream>>>(1.7f32, px, py, 500u32))
        }
        .unwrap();
        stream.synchronize().unwrap();
        let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 1.7f32.mul_add(*x, *y)).collect();
        assert_eq!(read(&ys), expected);

        let (x, y): (Vec<f64>, Vec<f64>) =
            (0..500).map(|i| (f64::from(i).sqrt(), 1.0 / f64::from(i + 1))).unzip();
        let (mut xs, mut ys) = (DeviceBuffer::from_slice(&x).unwrap(), DeviceBuffer::from_slice(&y).unwrap());
        let (px, py) = (xs.as_device_ptr(), ys.as_device_ptr());
        let daxpy = module.get_function(c"daxpy").unwrap();
        unsafe { launch!(daxpy<<<(2, 1, 1), (256, 1), 0, stream>>>(-0.3f64, px, py, 500u32)) }.unwrap();
        stream.synchronize().unwrap();
        let expected: Vec<f64> = x.iter().zip(&y).map(|(x, y)| -0.3 * x + y).collect();
        assert_eq!(read(&ys), expected);
    });
}

#[test]
fn blocks_meet_at_barriers() {
    run(|| {
        let _ctx = pushed();
        let (module, stream) = (module(), stream());
        let numbers: Vec<u32> = (0..2048u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
        let mut from = DeviceBuffer::from_slice(&numbers).unwrap();
        let mut to = DeviceBuffer::from_slice(&[0u32; 8]).unwrap();
        let (pf, pt) = (from.as_device_ptr(), to.as_device_ptr());
        unsafe { launch!(module.reduce<<<8, 256, 1024, stream>>>(pf, pt)) }.unwrap();
        stream.synchronize().unwrap();
        let sums = numbers.chunks(256).map(|part| part.iter().fold(0u32, |sum, n| sum.wrapping_add(*n)));
        assert_eq!(read(&to), sums.collect::<Vec<_>>());
    });
}

#[test]
fn atomics_lose_nothing() {
    run(|| {
        let _ctx = pushed();
        let (module, stream) = (module(), stream());
        let numbers: Vec<u32> = (0..5000).map(|i: u32| i.wrapping_mul(i) >> 3).collect();
        let mut from = DeviceBuffer::from_slice(&numbers).unwrap();
        let mut to = DeviceBuffer::from_slice(&[0u32; 16]).unwrap();
        let (pf, pt) = (from.as_device_ptr(), to.as_device_ptr());
        unsafe { launch!(module.histogram<<<20, 256, 0, stream>>>(pf, pt, 5000u32)) }.unwrap();
        unsafe { launch!(module.count_up<<<3, 5, 0, stream>>>(10u32)) }.unwrap();
        stream.synchronize().unwrap();
        let mut expected = vec![0u32; 16];
        numbers.iter().for_each(|n| expected[(n & 15) as usize] += 1);
        assert_eq!(read(&to), expected);
        let mut counter = 0f64;
        module.get_global::<f64>(c"counter").unwrap().copy_to(&mut counter).unwrap();
        assert_eq!(counter, 150.0);
    });
}

#[test]
fn strided_reads_and_branches_are_right() {
    run(|| {
        let _ctx = pushed();
        let (module, stream) = (module(), stream());
        let numbers: Vec<u16> = (0..3000).map(|i| (i * 7) as u16).collect();
        let mut from = DeviceBuffer::from_slice(&numbers).unwrap();
        let mut to = DeviceBuffer::from_slice(&[0u16; 1000]).unwrap();
        let (pf, pt) = (from.as_device_ptr(), to.as_device_ptr());
        unsafe { launch!(module.strided<<<8, 128, 0, stream>>>(pf, pt, 3u32, 1000u32)) }.unwrap();
        stream.synchronize().unwrap();
        assert_eq!(read(&to), numbers.iter().step_by(3).copied().collect::<Vec<_>>());

        let steps = |mut n: u64| {
            let mut count = 0;
            while n > 1 {
                n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
                count += 1;
            }
            count
        };
        let numbers: Vec<u32> = (1..=400).collect();
        let mut there = DeviceBuffer::from_slice(&numbers).unwrap();
        let pointer = there.as_device_ptr();
        unsafe { launch!(module.collatz<<<4, 128, 0, stream>>>(pointer, 400u32)) }.unwrap();
        stream.synchronize().unwrap();
        assert_eq!(read(&there), numbers.iter().map(|n| steps((*n).into())).collect::<Vec<u32>>());
    });
}

/// What an H200 gave for these arguments.
#[test]
fn arithmetic_is_the_devices() {
    run(|| {
        let _ctx = pushed();
        let (module, stream) = (module(), stream());
        let mut to = DeviceBuffer::from_slice(&[0u32; 24]).unwrap();
        let pointer = to.as_device_ptr();
        let (a, b, x, y) = (-77i32, 10i32, 6.5f32, 0.1f64);
        unsafe { launch!(module.arithmetic<<<1, 1, 0, stream>>>(pointer, a, b, x, y)) }.unwrap();
        stream.synchronize().unwrap();
        let expected = [
            (-7i32) as u32,
            (-7i32) as u32,
            ((i64::from(a) * i64::from(b)) >> 32) as u32,
            a as u32,
            a as u32,
            (a >> 3) as u32,
            0,
            !a as u32,
            a.count_ones(),
            b.leading_zeros(),
            (b as u32).reverse_bits(),
            77,
            1,
            2,
            6,
            6,
            (-77f32).to_bits(),
            0.1f32.to_bits(),
            (6.5f32 / 3.0).to_bits(),
            6.5f32.sqrt().to_bits(),
            (a as u8).into(),
            i32::from(a as i8) as u32,
            6f32.to_bits(),
            (-77f32).to_bits(),
        ];
        assert_eq!(read(&to), expected);
    });
}

mod in_a_users_macro {
    macro_rules! start {
        ($module:ident, $stream:ident, $pointer:expr) => {
            unsafe { custack::launch!($module.collatz<<<1, 1, 0, $stream>>>($pointer, 1u32)) }
        };
    }

    #[test]
    fn launch_works_by_its_path_and_within_macros() {
        use super::*;
        run(|| {
            let _ctx = pushed();
            let (module, stream) = (module(), stream());
            let mut number = DeviceBuffer::from_slice(&[6u32]).unwrap();
            let pointer = number.as_device_ptr();
            start!(module, stream, pointer).unwrap();
            stream.synchronize().unwrap();
            assert_eq!(read(&number), [8]);
        });
    }
}
