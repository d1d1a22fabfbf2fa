//! Libraries and their kernels.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

mod life;

use crate::harness::{self, current, parked, pushed, run};
use crate::module::KERNELS;
use custack::context::{CacheConfig, Context, CurrentContext};
use custack::error::CudaError;
use custack::function::{Function, FunctionAttribute, SettableAttribute};
use custack::launch;
use custack::library::{Kernel, Library, ManagedVariable};
use custack::memory::{CopyDestination, DeviceBuffer};
use custack::module::JitOptions;
use custack::stream::{Stream, StreamFlags};
use static_assertions::assert_impl_all;
use std::collections::BTreeSet;
use std::thread;

assert_impl_all!(Library: Send, Sync, Clone);
assert_impl_all!(Kernel: Send, Sync, Clone);
assert_impl_all!(Function<'static>: Send, Sync);
assert_impl_all!(ManagedVariable<u32>: Send, Sync, Clone);

/// A variable of each kind, and kernels that use them.
pub(crate) const CODE: &str = "
.version 7.0
.target sm_70
.address_size 64
.visible .const .align 4 .u32 answer = 42;
.visible .global .align 4 .u32 counter = 5;
.visible .global .attribute(.managed) .align 4 .u32 shared_by_all = 7;
.visible .entry put(.param .u64 to, .param .u32 value)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [to];
    ld.param.u32 %r1, [value];
    cvta.to.global.u64 %rd1, %rd1;
    st.global.u32 [%rd1], %r1;
    ret;
}
.visible .entry count()
{
    .reg .b32 %r<2>;
    ld.global.u32 %r1, [counter];
    add.u32 %r1, %r1, 1;
    st.global.u32 [counter], %r1;
    ld.global.u32 %r1, [shared_by_all];
    add.u32 %r1, %r1, 1;
    st.global.u32 [shared_by_all], %r1;
    ret;
}
.visible .entry padded(.param .u8 small, .param .u64 large)
{
    ret;
}
";

pub(super) fn library() -> Library {
    Library::load(CODE.as_bytes(), &JitOptions::new()).unwrap()
}

pub(super) fn stream_in(context: &Context) -> Stream {
    context.scoped(|_| Stream::new(StreamFlags::NON_BLOCKING, None)).unwrap()
}

/// Has the kernel `put` write a number, in this context.
fn put(kernel: &Kernel, context: &Context, value: u32) -> u32 {
    let stream = stream_in(context);
    let mut number = context.scoped(|_| DeviceBuffer::from_slice(&[0u32])).unwrap();
    let function = kernel.function_in(context).unwrap();
    unsafe { launch!(function<<<1, 1, 0, stream>>>(number.as_device_ptr(), value)) }.unwrap();
    stream.synchronize().unwrap();
    let mut back = [0];
    number.copy_to(&mut back).unwrap();
    back[0]
}

#[test]
fn a_library_needs_no_context_and_its_kernels_run_in_all() {
    run(|| {
        let library = library();
        let kernel = library.kernel(c"put").unwrap();
        assert!(current().is_null());
        for value in 1..4 {
            let context = parked();
            assert_eq!(put(&kernel, &context, value), value);
            // Another context while the first is current.
            let other = parked();
            let there = context.scoped(|_| Ok(put(&kernel, &other, value + 10)));
            assert_eq!(there, Ok(value + 10));
        }
        assert!(current().is_null());
    });
}

#[test]
fn kernels_of_a_library_run_on_every_device() {
    run(|| {
        let kernel = library().kernel(c"put").unwrap();
        let count = custack::device::Device::num_devices().unwrap();
        if count < 2 {
            return harness::skip("kernels_of_a_library_run_on_every_device", "there is one device");
        }
        for device in 0..count {
            let device = custack::device::Device::get_device(device).unwrap();
            let context =
                Context::create_and_push(custack::context::ContextFlags::SCHED_AUTO, device).unwrap();
            assert_eq!(put(&kernel, &context, device.as_raw() as u32 + 5), device.as_raw() as u32 + 5);
        }
    });
}

#[test]
fn a_library_tells_what_it_has() {
    run(|| {
        let library = library();
        let names = |kernels: Vec<Kernel>| {
            kernels.iter().map(|kernel| kernel.name().to_owned()).collect::<BTreeSet<_>>()
        };
        // The driver may compile it first when a kernel is asked for.
        let put = library.kernel(c"put").unwrap();
        assert_eq!((library.kernel_count(), put.name()), (Ok(3), c"put"));
        let found = names(library.kernels().unwrap());
        assert_eq!(found, [c"put", c"count", c"padded"].map(Into::into).into());
        assert_eq!(put.library().as_raw(), library.as_raw());
        let nobody = library.kernel(c"nobody").unwrap_err();
        assert!(
            nobody == CudaError::NotFound && crate::harness::said(nobody).contains("\"nobody\""),
            "{nobody}"
        );
        assert_eq!(library.managed::<u32>(c"counter").unwrap_err(), CudaError::NotFound);
        assert_eq!(library.managed::<u64>(c"shared_by_all").unwrap_err(), CudaError::InvalidValue);
        let context = pushed();
        assert_eq!(library.global_in::<u32>(&context, c"nowhere").unwrap_err(), CudaError::NotFound);
        assert_eq!(library.global_in::<u64>(&context, c"answer").unwrap_err(), CudaError::InvalidValue);
        assert!(!library.as_raw_module_in(&context).unwrap().is_null());
    });
}

#[test]
fn parameters_are_told_with_their_places() {
    run(|| {
        let kernel = library().kernel(c"padded").unwrap();
        assert_eq!(kernel.parameters(), Err(CudaError::InvalidContext));
        let context = pushed();
        let wanted = vec![0..1, 8..16];
        assert_eq!(kernel.parameters(), Ok(Some(wanted.clone())));
        assert_eq!(kernel.function_in(&context).unwrap().parameters(), Ok(Some(wanted)));
    });
}

#[test]
fn a_launch_with_other_arguments_than_the_kernel_has_is_refused() {
    run(|| {
        let context = pushed();
        let stream = stream_in(&context);
        let function = library().kernel(c"put").unwrap().function_in(&context).unwrap();
        let result = unsafe { launch!(function<<<1, 1, 0, stream>>>(1u64)) };
        assert_eq!(result, Err(CudaError::InvalidValue));
        let result = unsafe { launch!(function<<<1, 1, 0, stream>>>(1u64, 2.0f64)) };
        assert!(crate::harness::said(result.unwrap_err()).contains("8 bytes for its parameter 1"));
        let other = parked();
        let there = stream_in(&other);
        let result = unsafe { launch!(function<<<1, 1, 0, there>>>(1u64, 2u32)) };
        assert_eq!(result, Err(CudaError::InvalidHandle));
        assert_eq!((function.context(), function.kernel().unwrap().name()), (&context.get_unowned(), c"put"));
        assert_eq!(function.name().unwrap().as_c_str(), c"put");
        function.load().unwrap();
        assert_eq!(function.is_loaded(), Ok(true));
        assert!(!function.as_raw_module().unwrap().is_null());
    });
}

#[test]
fn each_context_has_its_own_variables_and_all_have_the_managed_ones() {
    run(|| {
        let library = library();
        let counter = |context: &Context| {
            let mut value = 0u32;
            let variable = library.global_in::<u32>(context, c"counter").unwrap();
            assert_eq!(variable.context(), &context.get_unowned());
            context.scoped(|_| variable.copy_to(&mut value)).unwrap();
            value
        };
        let (a, b) = (parked(), parked());
        let kernel = library.kernel(c"count").unwrap();
        for context in [&a, &a, &b] {
            let stream = stream_in(context);
            let function = kernel.function_in(context).unwrap();
            unsafe { launch!(function<<<1, 1, 0, stream>>>()) }.unwrap();
            stream.synchronize().unwrap();
        }
        assert_eq!((counter(&a), counter(&b)), (7, 6));
        let managed = library.managed::<u32>(c"shared_by_all").unwrap();
        assert_eq!(unsafe { managed.read() }, 10);
        unsafe { managed.write(1) };
        assert_eq!(unsafe { *managed.as_unified_ptr().as_raw() }, 1);
        let mut answer = 0;
        let variable = library.global_in::<u32>(&b, c"answer").unwrap();
        b.scoped(|_| variable.copy_to(&mut answer)).unwrap();
        assert_eq!(answer, 42);
    });
}

#[test]
fn kernels_are_asked_about_and_set_for_each_device() {
    run(|| {
        let kernel = library().kernel(c"put").unwrap();
        let device = harness::device();
        assert_eq!(kernel.get_attribute_on(device, FunctionAttribute::MaxThreadsPerBlock), Ok(1024));
        assert_eq!(kernel.get_attribute_on(device, FunctionAttribute::PtxVersion), Ok(70));
        let unnamed = FunctionAttribute::__Nonexhaustive;
        assert_eq!(kernel.get_attribute_on(device, unnamed), Err(CudaError::InvalidValue));
        let limit = SettableAttribute::MaxDynamicSharedSizeBytes;
        kernel.set_on(device, limit, 60_000).unwrap();
        assert_eq!(kernel.get_on(device, limit), Ok(60_000));
        assert_eq!(kernel.set_on(device, limit, 1 << 30), Err(CudaError::InvalidValue));
        kernel.set_cache_config_on(device, CacheConfig::PreferL1).unwrap();
        let context = pushed();
        let function = kernel.function_in(&context).unwrap();
        assert_eq!(function.get(limit), Ok(60_000));
    });
}

#[test]
fn a_library_of_no_code_is_refused_at_once_or_when_it_is_first_used() {
    run(|| {
        for garbage in [&[1u8, 2, 3][..], b"\x7fELF", &[0xb1, 0x43, 0x62, 0x46]] {
            let refused = Library::load(garbage, &JitOptions::new()).unwrap_err();
            assert_eq!(refused, CudaError::InvalidImage, "{garbage:?}");
        }
        let broken = CODE.replace("st.global.u32 [%rd1], %r1;", "st.global.u32 [%rd1], %r9;");
        let refused = Library::load(broken.as_bytes(), &JitOptions::new())
            .and_then(|library| library.kernel(c"put"))
            .unwrap_err();
        assert_eq!(refused, CudaError::InvalidPtx);
        let nowhere = Library::load_file("/nowhere/at.all", &JitOptions::new()).unwrap_err();
        assert!(
            nowhere == CudaError::FileNotFound && crate::harness::said(nowhere).contains("/nowhere/at.all")
        );
    });
}

#[test]
fn libraries_come_from_files_and_with_options() {
    run(|| {
        let file = std::env::temp_dir().join(format!("custack-library-{}.ptx", std::process::id()));
        std::fs::write(&file, KERNELS).unwrap();
        let library = Library::load_file(&file, &JitOptions::new().max_registers(32)).unwrap();
        std::fs::remove_file(&file).unwrap();
        library.kernel(c"saxpy").unwrap();
        let (library, _log) =
            Library::load_with_log(CODE.as_bytes(), &JitOptions::new().verbose(true).log_bytes(64)).unwrap();
        library.kernel(c"put").unwrap();
    });
}

#[test]
fn threads_use_one_kernel_in_their_own_contexts() {
    run(|| {
        let kernel = library().kernel(c"put").unwrap();
        thread::scope(|scope| {
            for value in 0..4 {
                let kernel = kernel.clone();
                scope.spawn(move || {
                    let context = parked();
                    for round in 0..8 {
                        assert_eq!(put(&kernel, &context, value * 100 + round), value * 100 + round);
                    }
                });
            }
        });
    });
}

#[test]
fn a_function_is_asked_of_the_driver_once_for_each_context() {
    run(|| {
        let kernel = library().kernel(c"put").unwrap();
        let context = pushed();
        kernel.function_in(&context).unwrap();
        let (again, calls) = custack::driver::instrument::during(|| kernel.function_in(&context));
        assert_eq!((again.is_ok(), calls.of("cuKernelGetFunction")), (true, 0));
        assert_eq!(calls.total(), 0, "{calls}");
        custack::context::ContextStack::pop().unwrap();
        let none = CurrentContext::get_current().unwrap();
        assert_eq!(kernel.function_in(&none).unwrap_err(), CudaError::InvalidContext);
    });
}
