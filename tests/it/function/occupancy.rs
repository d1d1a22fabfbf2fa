//! How many blocks of a kernel run at once.

use super::module;
use crate::harness::{pushed, run};
use custack::error::CudaError;
use custack::function::BlockSize;

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
        assert!(none.to_string().contains("0 x 1 x 1 threads of `count_up`"), "{none}");
        assert_eq!(kernel.max_active_blocks_per_multiprocessor((u32::MAX, u32::MAX), 0), Ok(0));
    });
}
