//! Modules, kernels, and what kernels do wrong.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::harness::{current, is_simulated, parked, pushed, run, run_alone};
use custack::context::{CacheConfig, Context, ContextFlags, SharedMemoryConfig};
use custack::error::CudaError;
use custack::function::{BlockSize, Function, FunctionAttribute, GridSize, SettableAttribute};
use custack::launch;
use custack::memory::{CopyDestination, DeviceBuffer, DeviceCopy};
use custack::module::Module;
use custack::sim;
use custack::stream::{Stream, StreamFlags};
use std::ffi::CString;
use std::num::NonZeroU32;

pub(crate) const KERNELS: &str = include_str!("kernels.ptx");

fn module() -> Module {
    Module::load_from_bytes(KERNELS.as_bytes()).unwrap()
}

fn stream() -> Stream {
    Stream::new(StreamFlags::NON_BLOCKING, None).unwrap()
}

fn read<T: DeviceCopy + Default + Clone>(buffer: &DeviceBuffer<T>) -> Vec<T> {
    let mut values = vec![T::default(); buffer.len()];
    buffer.copy_to(&mut values[..]).unwrap();
    values
}

#[test]
fn modules_come_from_files_texts_and_bytes() {
    run(|| {
        assert_eq!(Module::load_from_bytes(KERNELS.as_bytes()).unwrap_err(), CudaError::InvalidContext);
        let ctx = pushed();
        let file = std::env::temp_dir().join(format!("custack-{}.ptx", std::process::id()));
        std::fs::write(&file, KERNELS).unwrap();
        let name = CString::new(file.to_str().unwrap()).unwrap();
        let text = CString::new(KERNELS).unwrap();
        let modules = [
            Module::load_from_file(&name),
            Module::load_from_string(&text),
            Module::load_from_bytes(KERNELS.as_bytes()),
            Module::load_from_bytes(text.as_bytes_with_nul()),
        ];
        std::fs::remove_file(&file).unwrap();
        for module in modules {
            let module = module.unwrap();
            module.get_function(c"sum").unwrap();
            assert_eq!(module.context(), &ctx.get_unowned());
            assert!(Module::drop(module).is_ok());
        }
    });
}

#[test]
fn what_is_no_module_is_refused() {
    run(|| {
        let _ctx = pushed();
        assert_eq!(Module::load_from_file(c"/nowhere/at.all").unwrap_err(), CudaError::FileNotFound);
        for garbage in [&b""[..], b"hello", &[1, 2, 3], b"\0"] {
            assert_eq!(Module::load_from_bytes(garbage).unwrap_err(), CudaError::InvalidImage, "{garbage:?}");
        }
        let broken = KERNELS.replace("mad.lo.s32 %r5, %r2, %r3, %r4;", "mad.lo.s32 %r5, %r2;");
        assert_eq!(Module::load_from_bytes(broken.as_bytes()).unwrap_err(), CudaError::InvalidPtx);
        let newer = KERNELS.replace(".version 7.0", ".version 19.0");
        assert_eq!(Module::load_from_bytes(newer.as_bytes()).unwrap_err(), CudaError::UnsupportedPtxVersion);
        // Machine code that ends before it says.
        for cut in [&b"\x7fELF"[..], &[0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 255, 0, 0, 0, 0, 0, 0, 0]] {
            assert_eq!(Module::load_from_bytes(cut).unwrap_err(), CudaError::InvalidImage);
        }
    });
}

#[test]
fn an_instruction_that_is_not_simulated_is_named() {
    if !is_simulated() {
        return crate::harness::skip("an_instruction_that_is_not_simulated_is_named", "a GPU knows them all");
    }
    run(|| {
        let _ctx = pushed();
        let text = KERNELS.replace("add.rn.f32 %f3, %f1, %f2;", "tanh.approx.f32 %f3, %f1;");
        assert_eq!(Module::load_from_bytes(text.as_bytes()).unwrap_err(), CudaError::NotSupported);
        let why = sim::log().pop().unwrap();
        assert!(why.contains("tanh.approx.f32") && why.contains("kernel sum"), "{why}");
    });
}

#[test]
fn variables_begin_as_they_say_and_can_be_written() {
    run(|| {
        let _ctx = pushed();
        let module = module();
        let mut answer = module.get_global::<u32>(c"answer").unwrap();
        let mut value = 0;
        answer.copy_to(&mut value).unwrap();
        assert_eq!(value, 42);
        answer.copy_from(&43).unwrap();
        answer.copy_to(&mut value).unwrap();
        assert_eq!(value, 43);
        // It can be written as a type that it cannot be read as.
        module.get_global::<NonZeroU32>(c"answer").unwrap().copy_from(&NonZeroU32::MAX).unwrap();
        module.get_global::<char>(c"answer").unwrap().copy_from(&'x').unwrap();
        answer.copy_to(&mut value).unwrap();
        assert_eq!(value, 'x'.into());
        let mut table = [0u32; 4];
        module.get_global::<[u32; 4]>(c"table").unwrap().copy_to(&mut table).unwrap();
        assert_eq!(table, [1, 2, 3, 4]);
        assert_eq!(module.get_global::<u32>(c"nothing").unwrap_err(), CudaError::NotFound);
        assert_eq!(module.get_global::<u64>(c"answer").unwrap_err(), CudaError::InvalidValue);
        assert_eq!(module.get_function(c"nothing").unwrap_err(), CudaError::NotFound);
    });
}

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

#[test]
fn launches_that_cannot_be_are_refused() {
    run(|| {
        let (_a, other) = (pushed(), parked());
        let (module, stream) = (module(), stream());
        let there = other.scoped(|_| Stream::new(StreamFlags::NON_BLOCKING, None)).unwrap();
        let mut to = DeviceBuffer::from_slice(&[0u32]).unwrap();
        let pointer = to.as_device_ptr();
        type Size = (u32, u32, u32);
        let sizes: [(Size, Size); 5] = [
            ((0, 1, 1), (1, 1, 1)),
            ((1, 1, 1), (0, 1, 1)),
            ((1, 1, 1), (1025, 1, 1)),
            ((1, 1, 1), (32, 32, 2)),
            ((1, 70_000, 1), (1, 1, 1)),
        ];
        for (grid, block) in sizes {
            let result = unsafe { launch!(module.misaligned<<<grid, block, 0, stream>>>(pointer)) };
            assert_eq!(result, Err(CudaError::InvalidValue), "{grid:?} {block:?}");
        }
        let result = unsafe { launch!(module.misaligned<<<1, 1, 50_000, stream>>>(pointer)) };
        assert_eq!(result, Err(CudaError::InvalidValue));
        let result = unsafe { launch!(module.misaligned<<<1, 1, 0, there>>>(pointer)) };
        assert_eq!(result, Err(CudaError::InvalidHandle));
        let result = unsafe { launch!(module.nothing<<<1, 1, 0, stream>>>(pointer)) };
        assert_eq!(result, Err(CudaError::NotFound));
        stream.synchronize().unwrap();
    });
}

#[test]
fn a_launch_works_whatever_is_current() {
    run(|| {
        let (a, b) = (parked(), pushed());
        let (module, stream, mut number) =
            a.scoped(|_| Ok((module(), stream(), DeviceBuffer::from_slice(&[27u32])?))).unwrap();
        let pointer = number.as_device_ptr();
        unsafe { launch!(module.collatz<<<1, 1, 0, stream>>>(pointer, 1u32)) }.unwrap();
        stream.synchronize().unwrap();
        assert_eq!((read(&number), current()), (vec![111], b.as_raw()));
    });
}

#[test]
fn kernels_tell_what_they_are_like() {
    run(|| {
        let _ctx = pushed();
        let module = module();
        let mut reduce: Function<'_> = module.get_function(c"reduce").unwrap();
        assert_eq!(reduce.get_attribute(FunctionAttribute::SharedMemorySizeBytes), Ok(0));
        assert_eq!(reduce.get_attribute(FunctionAttribute::LocalSizeBytes), Ok(0));
        assert_eq!(reduce.get_attribute(FunctionAttribute::MaxThreadsPerBlock), Ok(1024));
        assert_eq!(reduce.get_attribute(FunctionAttribute::PtxVersion), Ok(70));
        assert_eq!(reduce.get_attribute(FunctionAttribute::BinaryVersion).map(|v| v > 50), Ok(true));
        assert!(reduce.get_attribute(FunctionAttribute::NumRegisters).unwrap() > 0);
        let unnamed = FunctionAttribute::__Nonexhaustive;
        assert_eq!(reduce.get_attribute(unnamed), Err(CudaError::InvalidValue));
        reduce.set_cache_config(CacheConfig::PreferL1).unwrap();
        reduce.set_shared_memory_config(SharedMemoryConfig::DefaultBankSize).unwrap();
        assert_eq!(reduce.set_cache_config(CacheConfig::__Nonexhaustive), Err(CudaError::InvalidValue));
        reduce.set(SettableAttribute::MaxDynamicSharedSizeBytes, 65_536).unwrap();
        assert_eq!(reduce.get(SettableAttribute::MaxDynamicSharedSizeBytes), Ok(65_536));
        assert_eq!(
            reduce.set(SettableAttribute::MaxDynamicSharedSizeBytes, 1 << 30),
            Err(CudaError::InvalidValue)
        );
        for attribute in [SettableAttribute::ClusterSizeMustBeSet, SettableAttribute::RequiredClusterWidth] {
            assert_eq!(reduce.get(attribute), Ok(0), "{attribute:?}");
        }
        let stream = stream();
        let mut numbers = DeviceBuffer::from_slice(&[3u32; 64]).unwrap();
        let mut to = DeviceBuffer::from_slice(&[0u32]).unwrap();
        let (pf, pt) = (numbers.as_device_ptr(), to.as_device_ptr());
        unsafe { launch!(reduce<<<1, 64, 60_000, stream>>>(pf, pt,)) }.unwrap();
        stream.synchronize().unwrap();
        assert_eq!(read(&to), [192]);
    });
}

#[test]
fn cooperative_launches_run_all_at_once_or_not_at_all() {
    run(|| {
        let _ctx = pushed();
        let (module, stream) = (module(), stream());
        let trap = module.get_function(c"count_up").unwrap();
        let mut one = 1u32;
        let args = [std::ptr::from_mut(&mut one).cast()];
        unsafe { stream.launch_cooperative(&trap, 4, 32, 0, &args) }.unwrap();
        stream.synchronize().unwrap();
        let result = unsafe { stream.launch_cooperative(&trap, 1_000_000, 32, 0, &args) };
        assert_eq!(result, Err(CudaError::CooperativeLaunchTooLarge));
    });
}

/// The kernel, how far it goes, and what an H200 answered. Shared memory ends for good at 16 MiB.
const FAILING: [(&str, u64, CudaError); 7] = [
    ("reads_far", 1 << 40, CudaError::IllegalAddress),
    ("shared_far", 1 << 20, CudaError::IllegalAddress),
    ("shared_far", 1 << 24, CudaError::IllegalInstruction),
    ("shared_far", (1 << 32) - 4, CudaError::IllegalInstruction),
    ("out_of_bounds", 1 << 40, CudaError::IllegalAddress),
    ("misaligned", 1 << 40, CudaError::MisalignedAddress),
    ("trapped", 1 << 40, CudaError::LaunchFailed),
];

/// A kernel that fails puts its context into the error for good; other contexts go on.
fn fails(kernel: &str, far: u64, status: CudaError) {
    run_alone(|| {
        let ctx = pushed();
        let (module, stream) = (module(), stream());
        let mut to = DeviceBuffer::from_slice(&[0u32; 4]).unwrap();
        let function = module.get_function(&CString::new(kernel).unwrap()).unwrap();
        let pointer = to.as_device_ptr();
        unsafe { launch!(function<<<1, 1, 0, stream>>>(pointer, far)) }.unwrap();
        assert_eq!(stream.synchronize(), Err(status), "{kernel}");
        assert_eq!(stream.synchronize(), Err(status));
        assert_eq!(ctx.synchronize(), Err(status));
        assert_eq!(to.copy_from(&[1; 4]), Err(status));
        assert_eq!(DeviceBuffer::from_slice(&[1u8]).unwrap_err(), status);
        assert_eq!(Stream::new(StreamFlags::DEFAULT, None).unwrap_err(), status);
        let other = Stream::drop(stream);
        assert_eq!(other.unwrap_err().0, status);
        drop((to, module));
        drop(ctx);
        // On a GPU the error takes the process with it; the simulated driver leaves it at the context.
        let next = Context::create_and_push(ContextFlags::SCHED_AUTO, crate::harness::device());
        match next {
            Ok(next) if is_simulated() => {
                next.synchronize().unwrap();
                assert_eq!(read(&DeviceBuffer::from_slice(&[5u8]).unwrap()), [5]);
            }
            other => assert_eq!(other.unwrap_err(), status),
        }
    });
}

#[test]
fn kernels_that_fail_leave_their_context_in_error() {
    // On a GPU such an error takes the process with it: a process of its own.
    for number in 0..FAILING.len() {
        crate::process::child_succeeds("failing kernel", &[("CUSTACK_TEST_KERNEL", &number.to_string())]);
    }
}

/// What the test above runs in a process of its own.
pub(crate) fn failing_kernel() {
    let number: usize = std::env::var("CUSTACK_TEST_KERNEL").unwrap().parse().unwrap();
    let (kernel, far, status) = FAILING[number];
    fails(kernel, far, status);
}

#[test]
fn a_module_that_outlives_its_context_is_inert() {
    run(|| {
        let ctx = pushed();
        let (module, stream) = (module(), stream());
        let function = module.get_function(c"trapped").unwrap();
        drop(ctx);
        assert_eq!(unsafe { launch!(function<<<1, 1, 0, stream>>>()) }, Err(CudaError::ContextIsDestroyed));
        assert_eq!(module.get_function(c"sum").unwrap_err(), CudaError::ContextIsDestroyed);
        assert_eq!(
            function.get_attribute(FunctionAttribute::NumRegisters),
            Err(CudaError::ContextIsDestroyed)
        );
        assert!(Module::drop(module).is_ok());
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
