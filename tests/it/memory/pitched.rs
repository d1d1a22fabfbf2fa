//! Rows of values in device memory.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::harness::{current, parked, pushed, run};
use crate::stream::stream;
use custack::driver::instrument::during;
use custack::error::CudaError;
use custack::memory::*;

fn read<T: DeviceCopy + Default + Clone>(buffer: &PitchedBuffer<T>) -> Vec<T> {
    let mut back = vec![T::default(); buffer.width() * buffer.height()];
    buffer.copy_to(&mut back).unwrap();
    back
}

#[test]
fn rows_are_as_far_apart_as_suits_the_device() {
    run(|| {
        let _ctx = pushed();
        let values: Vec<u32> = (0..100 * 7).collect();
        let mut buffer = PitchedBuffer::from_slice(&values, 100).unwrap();
        assert_eq!((buffer.width(), buffer.height()), (100, 7));
        assert!(buffer.pitch() >= 400 && buffer.pitch() % 16 == 0);
        assert_eq!(read(&buffer), values);
        let first = buffer.as_device_ptr().as_raw() as usize;
        assert_eq!(buffer.row(3).as_ptr().addr(), first + 3 * buffer.pitch());
        let mut row = [0; 100];
        buffer.row(6).copy_to(&mut row).unwrap();
        assert_eq!(row[..], values[600..]);
        buffer.row_mut(6)[99..].copy_from(&[7]).unwrap();
        assert_eq!(read(&buffer)[699], 7);
    });
}

#[test]
fn rows_are_copied_and_filled_on_any_thread_and_in_streams() {
    run(|| {
        let (ctx, above) = (parked(), pushed());
        let (mut buffer, stream) =
            ctx.scoped(|_| Ok((PitchedBuffer::from_slice(&[1u16; 6], 3)?, stream()))).unwrap();
        buffer.fill(2).unwrap();
        assert_eq!(read(&buffer), [2; 6]);
        let from = LockedBuffer::from_slice(&[1u16, 2, 3, 4, 5, 6]).unwrap();
        let mut to = LockedBuffer::new(&0u16, 6).unwrap();
        unsafe {
            buffer.async_copy_from(&from, &stream).unwrap();
            buffer.async_copy_to(&mut to, &stream).unwrap();
            buffer.async_fill(9, &stream).unwrap();
        }
        stream.synchronize().unwrap();
        assert_eq!(to[..], from[..]);
        assert_eq!(read(&buffer), [9; 6]);
        let zeros = ctx.scoped(|_| unsafe { PitchedBuffer::<f64>::zeroed(5, 2) }).unwrap();
        assert_eq!(read(&zeros), [0.0; 10]);
        assert_eq!(current(), above.as_raw());
        let of_above = stream_of(&above);
        assert_eq!(unsafe { buffer.async_fill(1, &of_above) }, Err(CudaError::InvalidHandle));
        assert!(PitchedBuffer::drop(zeros).is_ok());
    });
}

fn stream_of(context: &custack::context::Context) -> custack::stream::Stream {
    context.scoped(|_| Ok(stream())).unwrap()
}

#[test]
fn rectangles_are_copied_between_buffers_of_any_contexts() {
    run(|| {
        let (other, _ctx) = (parked(), pushed());
        let source: Vec<u8> = (0..48).collect();
        let here = PitchedBuffer::from_slice(&source, 8).unwrap();
        let there = other.scoped(|_| PitchedBuffer::from_slice(&source, 8)).unwrap();
        for from in [&here, &there] {
            let mut to = PitchedBuffer::from_slice(&[0u8; 20], 5).unwrap();
            to.copy_part_from((1, 2), from, (4, 3), (3, 2)).unwrap();
            let mut wanted = [0u8; 20];
            wanted[11..14].copy_from_slice(&source[28..31]);
            wanted[16..19].copy_from_slice(&source[36..39]);
            assert_eq!(read(&to), wanted);
            let ((), calls) = during(|| to.copy_part_from((5, 4), from, (0, 0), (0, 0)).unwrap());
            assert_eq!(calls.total(), 0);
        }
        drop(other);
        let mut to = PitchedBuffer::from_slice(&[0u8; 4], 2).unwrap();
        assert_eq!(to.copy_part_from((0, 0), &there, (0, 0), (1, 1)), Err(CudaError::ContextIsDestroyed));
    });
}

#[test]
#[should_panic(expected = "out of range for 2 by 2")]
fn a_rectangle_beyond_the_rows_is_no_rectangle() {
    run(|| {
        let _ctx = pushed();
        let source = PitchedBuffer::from_slice(&[0u8; 4], 2).unwrap();
        let mut to = PitchedBuffer::from_slice(&[0u8; 4], 2).unwrap();
        let _ = to.copy_part_from((1, 0), &source, (0, 0), (2, 1));
    });
}

#[test]
fn rows_of_nothing_have_no_memory() {
    run(|| {
        let _ctx = pushed();
        let ((), calls) = during(|| unsafe {
            for (width, height) in [(0, 3), (3, 0), (0, 0)] {
                let mut buffer = PitchedBuffer::<u32>::zeroed(width, height).unwrap();
                buffer.fill(1).unwrap();
                buffer.copy_to(&mut []).unwrap();
                assert_eq!(buffer.pitch(), 0);
            }
            let units = PitchedBuffer::<()>::uninitialized(3, 3).unwrap();
            units.copy_to(&mut [(); 9]).unwrap();
        });
        assert_eq!(calls.total(), 0);
        let huge = unsafe { PitchedBuffer::<u64>::uninitialized(usize::MAX / 4, 9) };
        assert_eq!(huge.unwrap_err(), CudaError::InvalidMemoryAllocation);
    });
}
