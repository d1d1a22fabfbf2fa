//! What keeps a library loaded, and what a library, a context and a thread that are gone leave behind.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{library, stream_in};
use crate::harness::{is_simulated, parked, pushed, run, run_alone};
use custack::driver::instrument::{self, When};
use custack::error::CudaError;
use custack::function::FunctionAttribute;
use custack::launch;
use custack::library::Library;
use custack::memory::CopyDestination;
use custack::sim;

fn objects() -> (usize, usize) {
    if is_simulated() { (sim::objects(), sim::allocations()) } else { (0, 0) }
}

#[test]
fn the_last_of_what_stands_for_a_library_unloads_it() {
    run_alone(|| {
        let context = pushed();
        let before = objects();
        let unloads = |f: &mut dyn FnMut()| instrument::during(f).1.of("cuLibraryUnload");
        let library = library();
        let kernel = library.kernel(c"count").unwrap();
        let function = kernel.function_in(&context).unwrap();
        let variable = library.global_in::<u32>(&context, c"counter").unwrap();
        let managed = library.managed::<u32>(c"shared_by_all").unwrap();
        let clone = library.clone();
        assert_eq!(unloads(&mut || assert!(Library::drop(clone.clone()).is_ok())), 0);
        let mut rest = Some((library, kernel, clone));
        assert_eq!(unloads(&mut || drop(rest.take())), 0);
        let stream = stream_in(&context);
        unsafe { launch!(function<<<1, 1, 0, stream>>>()) }.unwrap();
        stream.synchronize().unwrap();
        let mut value = 0;
        variable.copy_to(&mut value).unwrap();
        assert_eq!((value, unsafe { managed.read() }), (6, 8));
        let mut rest = Some((function, variable));
        assert_eq!(unloads(&mut || drop(rest.take())), 0);
        let mut last = Some(managed);
        assert_eq!(unloads(&mut || drop(last.take())), 1);
        drop(stream);
        assert_eq!(objects(), before);
    });
}

#[test]
fn a_function_whose_context_is_gone_answers_so_and_the_kernel_goes_on() {
    run(|| {
        let library = library();
        let kernel = library.kernel(c"count").unwrap();
        let context = parked();
        let stream = stream_in(&context);
        let function = kernel.function_in(&context).unwrap();
        let variable = library.global_in::<u32>(&context, c"counter").unwrap();
        let handle = context.get_unowned();
        drop(context);
        let gone = Err(CudaError::ContextIsDestroyed);
        let ((), calls) = instrument::during(|| {
            assert_eq!(unsafe { launch!(function<<<1, 1, 0, stream>>>()) }, gone);
            assert_eq!(function.get_attribute(FunctionAttribute::NumRegisters).map(|_| ()), gone);
            assert_eq!(variable.copy_to(&mut 0), gone);
            assert_eq!(kernel.function_in(&handle).map(|_| ()), gone);
            assert_eq!(library.global_in::<u32>(&handle, c"counter").map(|_| ()), gone);
        });
        assert_eq!(calls.total(), 0, "{calls}");
        for _ in 0..3 {
            let next = parked();
            let stream = stream_in(&next);
            let function = kernel.function_in(&next).unwrap();
            unsafe { launch!(function<<<1, 1, 0, stream>>>()) }.unwrap();
            stream.synchronize().unwrap();
        }
    });
}

#[test]
fn a_library_dropped_in_a_host_function_is_unloaded_later() {
    run_alone(|| {
        let context = pushed();
        let before = objects();
        let kernel = library().kernel(c"count").unwrap();
        let stream = stream_in(&context);
        stream
            .add_callback(Box::new(move |_| {
                let other = kernel.library().clone();
                assert_eq!(kernel.library().kernel(c"put").unwrap_err(), CudaError::NotPermitted);
                drop((kernel, other));
            }))
            .unwrap();
        stream.synchronize().unwrap();
        drop(stream);
        custack::context::wait_until_retired().unwrap();
        assert_eq!(objects(), before);
    });
}

#[test]
fn unloading_waits_for_kernels_that_run() {
    run(|| {
        let context = pushed();
        let stream = stream_in(&context);
        let function = library().kernel(c"count").unwrap().function_in(&context).unwrap();
        let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let set = done.clone();
        stream
            .add_callback(Box::new(move |_| {
                std::thread::sleep(std::time::Duration::from_millis(50));
                set.store(true, std::sync::atomic::Ordering::SeqCst);
            }))
            .unwrap();
        unsafe { launch!(function<<<1, 1, 0, stream>>>()) }.unwrap();
        drop(function);
        assert!(done.load(std::sync::atomic::Ordering::SeqCst), "unloaded before the kernel ran");
        stream.synchronize().unwrap();
    });
}

#[test]
fn a_library_that_could_not_be_unloaded_comes_back_and_refuses_every_call() {
    run_alone(|| {
        for when in [When::Before, When::After] {
            let library = library();
            instrument::fail(Some("cuLibraryUnload"), 1, 999, when);
            let (error, back) = Library::drop(library).unwrap_err();
            instrument::disarm();
            assert_eq!(back.kernel(c"put").unwrap_err(), CudaError::InvalidHandle, "{error}");
            drop(back);
        }
    });
}
