//! How many blocks of a kernel run at once.

use super::{KERNELS, module};
use crate::harness::{current, drain, other, parked, pushed, run};
use custack::context::{ContextStack, CurrentContext};
use custack::driver::instrument;
use custack::error::{CudaError, CudaResult};
use custack::function::{BlockSize, LaunchConfig};
use custack::library::Library;
use custack::module::JitOptions;
use std::cell::Cell;
use std::ptr::null_mut;

/// Blocks of a kernel without shared memory on a multiprocessor of an H200, by threads: without dynamic shared memory,
/// with 40,000 bytes of it, and with 300,000.
const SEEN: [(u32, [u32; 3]); 9] = [
    (1, [32, 5, 0]),
    (32, [32, 5, 0]),
    (33, [32, 5, 0]),
    (64, [32, 5, 0]),
    (128, [16, 5, 0]),
    (256, [8, 5, 0]),
    (512, [4, 4, 0]),
    (1024, [2, 2, 0]),
    (1025, [0, 0, 0]),
];

#[test]
fn blocks_of_a_multiprocessor_are_those_of_an_h200() {
    run(|| {
        let _ctx = pushed();
        let module = module();
        let kernel = module.get_function(c"count_up").unwrap();
        for (threads, blocks) in SEEN {
            let told = [0, 40_000, 300_000]
                .map(|shared| kernel.max_active_blocks_per_multiprocessor(threads, shared));
            assert_eq!(told, blocks.map(Ok), "{threads}");
        }
        assert_eq!(kernel.max_active_blocks_per_multiprocessor(BlockSize::xyz(8, 4, 4), 0), Ok(16));
        let none = kernel.max_active_blocks_per_multiprocessor((0, 1), 0).unwrap_err();
        assert_eq!(none, CudaError::InvalidValue);
        assert!(crate::harness::said(none).contains("0 x 1 x 1 threads of `count_up`"), "{none}");
        assert_eq!(kernel.max_active_blocks_per_multiprocessor((u32::MAX, u32::MAX), 0), Ok(0));
    });
}

#[test]
fn questions_are_about_the_context_of_the_function_whatever_is_current() {
    run(|| {
        let (context, other) = (parked(), parked());
        let module = context.load_module(KERNELS.as_bytes()).unwrap();
        let library = Library::load(KERNELS.as_bytes(), &JitOptions::new()).unwrap();
        let of_module = module.get_function(c"count_up").unwrap();
        let of_library = library.kernel(c"count_up").unwrap().function_in(&context).unwrap();
        let clusters = LaunchConfig::new(8, 128).cluster(2);
        let ask = || -> CudaResult<()> {
            for function in [&of_module, &of_library] {
                assert_eq!(function.max_active_blocks_per_multiprocessor(1024, 0), Ok(2));
                assert_eq!(function.max_potential_block_size(|_| 0, 0).unwrap().block_size, 1024);
                assert!(function.available_dynamic_shared_bytes(2, 128).unwrap() > 0);
                assert!(function.max_active_clusters(&clusters).unwrap() > 0);
                assert!(function.max_potential_cluster_size(&clusters).unwrap() >= 8);
            }
            Ok(())
        };
        context.scoped(|_| ask()).unwrap();
        ask().unwrap();
        assert_eq!(CurrentContext::get_device().unwrap_err(), CudaError::InvalidContext, "none is current");
        other.scoped(|_| ask()).unwrap();
        drop(context);
        let gone = of_library.max_active_clusters(&clusters).unwrap_err();
        assert_eq!(gone, CudaError::ContextIsDestroyed);
    });
}

#[test]
fn the_context_is_current_in_the_question_although_other_code_changed_the_stack() {
    thread_local! {
        static CURRENT: Cell<*mut ()> = const { Cell::new(null_mut()) };
    }
    run(|| {
        let (ctx, own) = (pushed(), other::parked());
        let module = module();
        let kernel = module.get_function(c"count_up").unwrap();
        other::set(own);
        let asked = "cuOccupancyMaxActiveBlocksPerMultiprocessor";
        instrument::wait_in(asked, || CURRENT.set(current().cast()));
        assert!(kernel.max_active_blocks_per_multiprocessor(128, 0).is_ok());
        assert_eq!((CURRENT.get(), current()), (ctx.as_raw().cast(), own));
        assert_eq!((drain(), ContextStack::pop().err()), (vec![own], Some(CudaError::InvalidContext)));
        other::destroy(own);
    });
}
