//! Launches, and what kernels do wrong.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{module, read, stream};
use crate::harness::{current, is_simulated, parked, pushed, run, run_alone};
use custack::context::{Context, ContextFlags};
use custack::error::CudaError;
use custack::launch;
use custack::memory::{CopyDestination, DeviceBuffer};
use custack::module::Module;
use custack::stream::{Stream, StreamFlags};
use std::ffi::CString;

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
fn a_launch_after_its_context_is_gone_names_the_kernel_and_the_context() {
    run(|| {
        let owner = pushed();
        let context = owner.get_unowned().to_string();
        let (module, stream) = (module(), stream());
        let function = module.get_function(c"trapped").unwrap();
        drop(owner);
        let error = unsafe { launch!(module.trapped<<<1, 1, 0, stream>>>()) }.unwrap_err();
        let why = format!("it cannot use {context}");
        let text = crate::harness::said(error);
        assert_eq!(
            text,
            format!(
                "failed to find the kernel \"trapped\": {why} (CUDA_ERROR_CONTEXT_IS_DESTROYED, 709: the context is destroyed)"
            )
        );
        let error = unsafe { launch!(function<<<1, 1, 0, stream>>>()) }.unwrap_err();
        let text = crate::harness::said(error);
        assert!(text.ends_with(&format!("to launch `trapped`: {why}")), "{text}");
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
        let launched = match kernel {
            "misaligned" => unsafe { launch!(function<<<1, 1, 0, stream>>>(pointer)) },
            "trapped" => unsafe { launch!(function<<<1, 1, 0, stream>>>()) },
            _ => unsafe { launch!(function<<<1, 1, 0, stream>>>(pointer, far)) },
        };
        launched.unwrap();
        assert_eq!(stream.synchronize(), Err(status), "{kernel}");
        let said = crate::harness::said(status);
        assert!(said.contains(kernel), "{said}");
        if is_simulated() {
            // The instruction with its line, and the address.
            assert!(said.contains(", line ") && (said.contains("0x") || said.contains("trap:")), "{said}");
        }
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
        crate::driver::process::child_succeeds(
            "failing kernel",
            &[("CUSTACK_TEST_KERNEL", &number.to_string())],
        );
    }
}

/// What the test above runs in a process of its own.
pub(crate) fn failing_kernel() {
    let number: usize = std::env::var("CUSTACK_TEST_KERNEL").unwrap().parse().unwrap();
    let (kernel, far, status) = FAILING[number];
    fails(kernel, far, status);
}

/// The sentence of the launch that fails.
fn sentence(result: Result<(), CudaError>, expected: CudaError) -> String {
    assert_eq!(result, Err(expected));
    crate::harness::said(expected)
}

#[test]
fn a_refused_launch_says_which_size_is_outside_what_and_of_which_kernel() {
    run(|| {
        let _ctx = pushed();
        let (module, stream) = (module(), stream());
        let value = 1u32;
        let launch = |grid: (u32, u32, u32), block: (u32, u32, u32), shared: u32| unsafe {
            launch!(module.count_up<<<grid, block, shared, stream>>>(value))
        };
        let cases = [
            (((0, 1, 1), (1, 1, 1), 0), "grid.x is 0, and may be 1 to 2147483647"),
            (((1, 70_000, 1), (1, 1, 1), 0), "grid.y is 70000, and may be 1 to 65535"),
            (((1, 1, 1), (1, 0, 1), 0), "block.y is 0, and may be 1 to 1024"),
            (((1, 1, 1), (1, 1, 65), 0), "block.z is 65, and may be 1 to 64"),
            (((1, 1, 1), (1025, 1, 1), 0), "block.x is 1025, and may be 1 to 1024"),
            (((1, 1, 1), (32, 32, 2), 0), "a block has 2048 threads; this kernel takes at most 1024"),
            (
                ((1, 1, 1), (1, 1, 1), 50_000),
                "50000 bytes of dynamic shared memory; this kernel takes at most 49152; `SettableAttribute::MaxDyn",
            ),
        ];
        for ((grid, block, shared), text) in cases {
            let said = sentence(launch(grid, block, shared), CudaError::InvalidValue);
            assert!(said.contains("to launch `count_up`: ") && said.contains(text), "{said}");
        }
        let kernel = module.get_function(c"count_up").unwrap();
        let args = [std::ptr::from_ref(&value).cast_mut().cast()];
        let result = unsafe { stream.launch_cooperative(&kernel, 1_000_000, 32, 0, &args) };
        let said = sentence(result, CudaError::CooperativeLaunchTooLarge);
        assert!(
            said.contains("`count_up`: 1000000 blocks, of which ") && said.contains(" run at once"),
            "{said}"
        );
    });
}

#[test]
fn arguments_that_are_too_few_too_many_or_of_another_size_are_refused_with_the_numbers() {
    use custack::driver::instrument::during;
    run(|| {
        let ctx = pushed();
        let version = custack::CudaApiVersion::get().unwrap();
        if (version.major(), version.minor()) < (12, 4) {
            let test = "arguments_that_are_too_few_too_many_or_of_another_size_are_refused_with_the_numbers";
            return crate::harness::skip(test, "the driver is older than CUDA 12.4");
        }
        let (module, stream) = (module(), stream());
        let mut number = DeviceBuffer::from_slice(&[27u32]).unwrap();
        let pointer = number.as_device_ptr();
        let collatz = module.get_function(c"collatz").unwrap();
        let check = |result: Result<(), CudaError>, text: &str| {
            let said = sentence(result, CudaError::InvalidValue);
            assert!(said.contains("to launch `collatz` with ") && said.contains(text), "{said}");
        };
        let ((), calls) = during(|| unsafe {
            check(launch!(collatz<<<1, 1, 0, stream>>>()), "0 arguments; it takes 2");
            check(launch!(collatz<<<1, 1, 0, stream>>>(pointer)), "1 argument; it takes 2");
            check(launch!(collatz<<<1, 1, 0, stream>>>(pointer, 1u32, 2u32)), "3 arguments; it takes 2");
            check(launch!(collatz<<<1, 1, 0, stream>>>(pointer, 1.0f64)), "8 bytes for its parameter 1");
            check(
                launch!(collatz<<<1, 1, 0, stream>>>(pointer, 1u64 << 32)),
                "the integer 4294967296 of 8 bytes for its parameter 1",
            );
            check(
                launch!(collatz<<<1, 1, 0, stream>>>(pointer, 1u16)),
                "the integer 1 of 2 bytes for its parameter 1",
            );
            check(
                launch!(collatz<<<1, 1, 0, stream>>>(1u32, 1u32)),
                "the integer 1 of 4 bytes for its parameter 0",
            );
            let args = [std::ptr::from_ref(&pointer).cast_mut().cast()];
            check(stream.launch(&collatz, 1, 1, 0, &args), "1 argument; it takes 2");
            check(stream.launch_cooperative(&collatz, 1, 1, 0, &args), "1 argument; it takes 2");
        });
        assert_eq!(calls.total(), 0, "{calls}");
        // A wider integer whose value fits, as RustaCUDA's programs pass the length of a slice.
        unsafe { launch!(collatz<<<1, 1, 0, stream>>>(pointer, [7u8].len())) }.unwrap();
        stream.synchronize().unwrap();
        assert_eq!(read(&number), [111]);
        drop(ctx);
    });
}

#[test]
fn the_parameters_of_a_kernel_are_asked_for_once_by_however_many_threads() {
    use custack::driver::instrument::during;
    run(|| {
        let _ctx = pushed();
        let module = module();
        let (_, first) = during(|| module.get_function(c"collatz").unwrap());
        let (_, again) = during(|| module.get_function(c"collatz").unwrap());
        assert_eq!((first.of("cuFuncGetParamInfo"), again.of("cuFuncGetParamInfo")), (3, 0));
        let names =
            [c"sum", c"saxpy", c"daxpy", c"reduce", c"histogram", c"strided", c"collatz", c"count_up"];
        std::thread::scope(|scope| {
            for start in 0..8 {
                let module = &module;
                scope.spawn(move || {
                    for at in 0..64 {
                        let name = names[(start + at) % names.len()];
                        assert!(
                            format!("{:?}", module.get_function(name).unwrap()).contains("parameters: Some")
                        );
                    }
                });
            }
        });
    });
}

#[test]
fn a_launch_passes_on_any_number_of_arguments_and_reads_each_once() {
    run(|| {
        let _ctx = pushed();
        let parameters: Vec<_> = (0..20).map(|at| format!(".param .u32 p{at}")).collect();
        let text = format!(
            ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry last(.param .u64 to, {})\n{{\n\
             .reg .b64 %rd<3>;\n.reg .b32 %r<2>;\nld.param.u64 %rd1, [to];\ncvta.to.global.u64 %rd2, %rd1;\n\
             ld.param.u32 %r1, [p19];\nst.global.u32 [%rd2], %r1;\nret;\n}}\n",
            parameters.join(", ")
        );
        let module = Module::load_from_bytes(text.as_bytes()).unwrap();
        let stream = stream();
        let mut to = DeviceBuffer::from_slice(&[0u32]).unwrap();
        let mut counted = 0;
        let mut next = || {
            counted += 1;
            counted
        };
        let pointer = to.as_device_ptr();
        unsafe {
            launch!(module.last<<<1, 1, 0, stream>>>(
                pointer, next(), next(), next(), next(), next(), next(), next(), next(), next(), next(),
                next(), next(), next(), next(), next(), next(), next(), next(), next(), next()
            ))
        }
        .unwrap();
        stream.synchronize().unwrap();
        assert_eq!((read(&to), counted), (vec![20u32], 20));
    });
}

#[test]
fn the_parameters_are_unknown_rather_than_wrong_if_the_driver_fails_to_tell_them() {
    use custack::driver::instrument::{When, fail};
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let mut number = DeviceBuffer::from_slice(&[27u32]).unwrap();
        let pointer = number.as_device_ptr();
        for (nth, code, when) in
            [(1, 801, When::Before), (2, 719, When::Before), (1, 1, When::After), (3, 36, When::Before)]
        {
            let module = module();
            fail(Some("cuFuncGetParamInfo"), nth, code, when);
            let before = CudaError::InvalidValue.failure();
            unsafe { launch!(module.collatz<<<1, 1, 0, stream>>>(pointer, 1u32)) }.unwrap();
            assert_eq!(CudaError::InvalidValue.failure(), before, "asking leaves no note");
            // And asked again, it is known.
            let again = module.get_function(c"collatz").unwrap();
            assert_eq!(unsafe { launch!(again<<<1, 1, 0, stream>>>(pointer)) }, Err(CudaError::InvalidValue));
        }
        stream.synchronize().unwrap();
    });
}

#[test]
fn a_refused_launch_keeps_its_reason_when_its_limits_cannot_be_asked() {
    use custack::driver::instrument::{When, disarm, fail, fail_times};
    run(|| {
        let _ctx = pushed();
        let (module, stream) = (module(), stream());
        let count_up = module.get_function(c"count_up").unwrap();
        for code in [1, 719, 801] {
            fail_times(Some("cuDeviceGetAttribute"), 1, 2, code, When::Before);
            let result = unsafe { launch!(count_up<<<1, (1, 1, 65), 0, stream>>>(1u32)) };
            let said = sentence(result, CudaError::InvalidValue);
            assert!(said.contains("block.z is 65, and may be 1 to 64"), "{said}");
            disarm();
            fail(Some("cuCtxGetDevice"), 1, code, When::Before);
            let result = unsafe { launch!(count_up<<<1, 1, 50_000, stream>>>(1u32)) };
            let said = sentence(result, CudaError::InvalidValue);
            assert!(said.contains("to launch `count_up` with 1 x 1 x 1 blocks"), "{said}");
            assert!(!said.contains("cuCtxGetDevice"), "{said}");
        }
    });
}

#[test]
fn a_kernel_that_was_not_launched_is_not_blamed() {
    use custack::driver::instrument::{When, fail};
    run(|| {
        let _ctx = pushed();
        let (module, stream) = (module(), stream());
        unsafe { launch!(module.count_up<<<1, 1, 0, stream>>>(1u32)) }.unwrap();
        assert!(unsafe { launch!(module.trapped<<<0, 1, 0, stream>>>()) }.is_err());
        fail(Some("cuStreamSynchronize"), 1, 719, When::Before);
        let said = sentence(stream.synchronize(), CudaError::LaunchFailed);
        assert!(
            said.contains("to call cuStreamSynchronize; the last kernel it launched is `count_up` ("),
            "{said}"
        );
    });
}

#[test]
fn the_largest_cooperative_grid_is_what_the_occupancy_says() {
    run(|| {
        let _ctx = pushed();
        let (module, stream) = (module(), stream());
        let kernel = module.get_function(c"count_up").unwrap();
        let device = crate::harness::device();
        let processors = device.get_attribute(custack::device::DeviceAttribute::MultiprocessorCount).unwrap();
        let one = 1u32;
        let args = [std::ptr::from_ref(&one).cast_mut().cast()];
        for (block, shared) in [(1, 0), (1024, 0), (64, 40_000)] {
            let each = kernel.max_active_blocks_per_multiprocessor(block, shared as usize).unwrap();
            let most = each * processors as u32;
            assert_eq!(unsafe { stream.launch_cooperative(&kernel, most, block, shared, &args) }, Ok(()));
            let result = unsafe { stream.launch_cooperative(&kernel, most + 1, block, shared, &args) };
            assert_eq!(result, Err(CudaError::CooperativeLaunchTooLarge), "{block} {shared}");
        }
        stream.synchronize().unwrap();
    });
}

#[test]
fn a_kernel_may_have_what_its_own_shared_memory_leaves() {
    use custack::function::SettableAttribute::MaxDynamicSharedSizeBytes;
    run(|| {
        let _ctx = pushed();
        let text = b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry own()\n{\n.shared .b8 a[1024];\n\
            .reg .b32 %r<2>;\nst.shared.u32 [a], 1;\nld.volatile.shared.u32 %r1, [a+4];\nret;\n}\n";
        let module = Module::load_from_bytes(text).unwrap();
        let (stream, mut own) = (stream(), module.get_function(c"own").unwrap());
        assert_eq!(own.get(MaxDynamicSharedSizeBytes), Ok(48_128));
        assert_eq!(unsafe { launch!(own<<<1, 1, 48_128, stream>>>()) }, Ok(()));
        let said = sentence(unsafe { launch!(own<<<1, 1, 48_129, stream>>>()) }, CudaError::InvalidValue);
        assert!(
            said.contains("at most 48128; `SettableAttribute::MaxDynamicSharedSizeBytes` can allow it"),
            "{said}"
        );
        let said = sentence(unsafe { launch!(own<<<1, 1, 1_000_000, stream>>>()) }, CudaError::InvalidValue);
        assert!(said.contains("the device has no more than 231424 for it"), "{said}");
        let said = sentence(own.set(MaxDynamicSharedSizeBytes, 1 << 20), CudaError::InvalidValue);
        assert!(said.contains("to set MaxDynamicSharedSizeBytes of `own` to 1048576"), "{said}");
        stream.synchronize().unwrap();
    });
}

/// Each thread sleeps for a millisecond ten times, but one that ends at once.
const SLEEPS: &str = "\
.version 7.0 .target sm_70 .address_size 64
.visible .entry sleeps(.param .u64 out) {
  .reg .pred %p<3>; .reg .b32 %r<5>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, 0;
  setp.eq.u32 %p1, %r1, 40; @%p1 bra END;
MORE:
  nanosleep.u32 1000000;
  add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 10; @%p2 bra MORE;
  mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r2;
END: ret;
}";

#[test]
fn a_kernel_whose_threads_sleep_takes_time_and_its_threads_sleep_at_the_same_time() {
    run(|| {
        let _ctx = pushed();
        let (module, stream) = (Module::load_from_string(&CString::new(SLEEPS).unwrap()).unwrap(), stream());
        let mut out = DeviceBuffer::from_slice(&[0_u32; 64]).unwrap();
        let pointer = out.as_device_ptr();
        let begun = std::time::Instant::now();
        unsafe { launch!(module.sleeps<<<8, 64, 0, stream>>>(pointer)) }.unwrap();
        stream.synchronize().unwrap();
        let took = begun.elapsed().as_millis();
        // A sleep may be shorter, and is at most twice as long; sixteen warps one after the other would need 160 ms.
        assert!((3..150).contains(&took), "{took} ms");
        let mut found = [0; 64];
        out.copy_to(&mut found).unwrap();
        let expected: [u32; 64] = std::array::from_fn(|thread| if thread == 40 { 0 } else { 10 });
        assert_eq!(found, expected);
    });
}
