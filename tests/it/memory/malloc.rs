//! Allocating and freeing by pointers.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::harness::{pushed, run};
use custack::error::CudaError;
use custack::memory::*;

#[test]
fn nothing_and_too_much_are_not_allocated() {
    run(|| {
        assert_eq!(DeviceBuffer::from_slice(&[1u8]).unwrap_err(), CudaError::InvalidContext);
        let _ctx = pushed();
        for count in [0, usize::MAX, usize::MAX / 8 + 1, isize::MAX as usize / 8 + 1] {
            assert_eq!(unsafe { cuda_malloc::<u64>(count) }.unwrap_err(), CudaError::InvalidMemoryAllocation);
        }
        assert_eq!(unsafe { cuda_malloc_unified::<()>(5) }.unwrap_err(), CudaError::InvalidMemoryAllocation);
        assert_eq!(unsafe { cuda_malloc_locked::<u8>(0) }.unwrap_err(), CudaError::InvalidMemoryAllocation);
        assert_eq!(unsafe { cuda_malloc::<u8>(1 << 46) }.unwrap_err(), CudaError::OutOfMemory);
        assert_eq!(
            unsafe { cuda_free(DevicePointer::<u8>::null()) },
            Err(CudaError::InvalidMemoryAllocation)
        );
        assert_eq!(
            unsafe { cuda_free_unified(UnifiedPointer::<u8>::null()) },
            Err(CudaError::InvalidMemoryAllocation)
        );
        assert_eq!(
            unsafe { cuda_free_locked(std::ptr::null_mut::<u8>()) },
            Err(CudaError::InvalidMemoryAllocation)
        );
        let (free, total) = info().unwrap();
        assert!(free <= total && total > 1 << 30);
    });
}
