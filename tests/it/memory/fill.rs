//! Filling device memory.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::harness::{parked, pushed, run};
use crate::stream::stream;
use custack::driver::instrument::during;
use custack::error::CudaError;
use custack::memory::*;

fn filled<T: FillValue + Default + PartialEq + std::fmt::Debug>(value: T, function: &str) {
    let mut buffer = DeviceBuffer::from_slice(&[T::default(); 5]).unwrap();
    let ((), calls) = during(|| buffer[1..4].fill(value).unwrap());
    assert_eq!(calls.of(function), 1, "{calls}");
    let mut back = [T::default(); 5];
    buffer.copy_to(&mut back).unwrap();
    assert_eq!(back, [T::default(), value, value, value, T::default()]);
}

#[test]
fn values_of_each_width_are_filled_by_one_call() {
    run(|| {
        let _ctx = pushed();
        filled(0xA5u8, "cuMemsetD8_v2");
        filled(-3i8, "cuMemsetD8_v2");
        filled(true, "cuMemsetD8_v2");
        filled(0x1234u16, "cuMemsetD16_v2");
        filled(-300i16, "cuMemsetD16_v2");
        filled([1u8, 2], "cuMemsetD16_v2");
        filled(0x1234_5678u32, "cuMemsetD32_v2");
        filled(-70_000i32, "cuMemsetD32_v2");
        filled(0.25f32, "cuMemsetD32_v2");
        filled('é', "cuMemsetD32_v2");
        filled([1u8, 2, 3, 4], "cuMemsetD32_v2");
        filled([1u16, 2], "cuMemsetD32_v2");
        filled([-1i16, 2], "cuMemsetD32_v2");
    });
}

#[test]
fn a_fill_in_a_stream_comes_in_its_order() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let mut buffer = DeviceBuffer::from_slice_in(&[0u16; 4], &stream).unwrap();
        unsafe {
            buffer.async_fill(1, &stream).unwrap();
            buffer[2..].async_fill(2, &stream).unwrap();
        }
        let mut back = [0; 4];
        buffer.copy_to(&mut back).unwrap();
        assert_eq!(back, [1, 1, 2, 2]);
        let mut one = DeviceBox::new_in(&1.0f32, &stream).unwrap();
        one.fill(2.0).unwrap();
        let mut back = 0.0;
        one.copy_to(&mut back).unwrap();
        assert_eq!(back, 2.0);
    });
}

#[test]
fn nothing_is_filled_without_a_call_and_elsewhere_not_at_all() {
    run(|| {
        let (other, _ctx) = (parked(), pushed());
        let stream = other.scoped(|_| Ok(stream())).unwrap();
        let mut buffer = DeviceBuffer::from_slice(&[1u32, 2]).unwrap();
        let (result, calls) = during(|| buffer[1..1].fill(9));
        assert_eq!((result, calls.total()), (Ok(()), 0));
        assert_eq!(unsafe { buffer.async_fill(9, &stream) }, Err(CudaError::InvalidHandle));
        let mut of_other = other.scoped(|_| DeviceBuffer::from_slice(&[1u32])).unwrap();
        drop(other);
        let (result, calls) = during(|| of_other.fill(9));
        assert_eq!((result, calls.total()), (Err(CudaError::ContextIsDestroyed), 0));
        drop(stream);
    });
}
