//! Buffers, boxes and slices of device memory.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::harness::{pushed, run};
use custack::error::CudaError;
use custack::memory::*;

#[test]
fn values_go_there_and_come_back() {
    run(|| {
        let _ctx = pushed();
        let start = [1u64, 2, 3, 4, 5, 6];
        let mut buffer = DeviceBuffer::from_slice(&start).unwrap();
        let mut end = [0u64; 6];
        buffer.copy_to(&mut end).unwrap();
        assert_eq!(end, start);
        buffer[1..3].copy_from(&[20, 30]).unwrap();
        let mut part = [0; 2];
        buffer[2..=3].copy_to(&mut part).unwrap();
        assert_eq!(part, [30, 4]);
        let mut other = DeviceBuffer::from_slice(&[0u64; 6]).unwrap();
        other.copy_from(&buffer).unwrap();
        let (left, right) = other.split_at_mut(3);
        left.copy_from(&*right).unwrap();
        other.copy_to(&mut end).unwrap();
        assert_eq!(end, [4, 5, 6, 4, 5, 6]);
        let mut value = DeviceBox::new(&7u32).unwrap();
        let mut copy = DeviceBox::new(&0u32).unwrap();
        copy.copy_from(&value).unwrap();
        value.copy_from(&9).unwrap();
        let mut back = [0, 0];
        copy.copy_to(&mut back[0]).unwrap();
        value.copy_to(&mut back[1]).unwrap();
        assert_eq!(back, [7, 9]);
    });
}

#[test]
fn memory_can_be_zero_from_the_start() {
    run(|| {
        let _ctx = pushed();
        let buffer = unsafe { DeviceBuffer::<u32>::zeroed(100) }.unwrap();
        let mut back = [1u32; 100];
        buffer.copy_to(&mut back).unwrap();
        assert_eq!(back, [0; 100]);
        let value = unsafe { DeviceBox::<u64>::zeroed() }.unwrap();
        let mut back = 1;
        value.copy_to(&mut back).unwrap();
        assert_eq!(back, 0);
    });
}

#[test]
fn chunks_are_as_those_of_a_host_slice() {
    run(|| {
        let _ctx = pushed();
        let numbers: Vec<u32> = (0..23).collect();
        let mut buffer = DeviceBuffer::from_slice(&numbers).unwrap();
        for size in [1, 2, 5, 22, 23, 24] {
            let read = |part: &DeviceSlice<u32>| {
                let mut values = vec![0; part.len()];
                part.copy_to(&mut values).unwrap();
                values
            };
            let forward: Vec<_> = buffer.chunks(size).map(read).collect();
            assert_eq!(forward, numbers.chunks(size).map(<[u32]>::to_vec).collect::<Vec<_>>(), "{size}");
            let backward: Vec<_> = buffer.chunks(size).rev().map(read).collect();
            assert_eq!(
                backward,
                numbers.chunks(size).rev().map(<[u32]>::to_vec).collect::<Vec<_>>(),
                "{size}"
            );
            assert_eq!(buffer.chunks(size).len(), numbers.chunks(size).len());
            assert_eq!(buffer.chunks_mut(size).len(), numbers.chunks(size).len());
        }
        for part in buffer.chunks_mut(10) {
            let ones = vec![1; part.len()];
            part.copy_from(&ones[..]).unwrap();
        }
        buffer.chunks_mut(10).next_back().unwrap().copy_from(&[2; 3]).unwrap();
        let mut back = [0; 23];
        buffer.copy_to(&mut back).unwrap();
        assert_eq!((back.iter().filter(|one| **one == 1).count(), back[20..].to_vec()), (20, vec![2; 3]));
    });
}

#[test]
fn slices_that_are_none_panic_as_host_slices_do() {
    run(|| {
        let _ctx = pushed();
        let buffer = DeviceBuffer::from_slice(&[1u8, 2, 3]).unwrap();
        let panics = |f: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_err();
        assert!(panics(&|| assert_ne!(format!("{:?}", buffer[2..5].len()), "never")));
        #[allow(clippy::reversed_empty_ranges)]
        let backwards = || assert_ne!(buffer[2..1].len(), 99);
        assert!(panics(&backwards));
        assert!(panics(&|| assert_ne!(format!("{:?}", buffer.chunks(0).len()), "never")));
        assert!(panics(&|| assert_ne!(format!("{:?}", buffer.split_at(4).0.len()), "never")));
        assert!(panics(&|| assert_ne!(format!("{:?}", buffer.copy_to(&mut [0u8; 2])), "never")));
        assert!(!panics(&|| assert_ne!(format!("{:?}", buffer[3..].is_empty()), "never")));
    });
}

#[test]
fn debug_never_reads_device_memory() {
    run(|| {
        let _ctx = pushed();
        let buffer = DeviceBuffer::from_slice(&[1u64, 2]).unwrap();
        assert!(format!("{buffer:?} {:?}", &buffer[0..2]).contains("len: 2"));
        let value = DeviceBox::new(&1u32).unwrap();
        assert!(format!("{value:?} {value:p}").contains("0x"));
    });
}

#[test]
fn the_address_is_the_first_thing_in_a_buffer() {
    run(|| {
        let _ctx = pushed();
        let mut buffer = DeviceBuffer::from_slice(&[1u32]).unwrap();
        let first = unsafe { std::ptr::from_ref(&buffer).cast::<u64>().read() };
        assert_eq!(first, buffer.as_device_ptr().as_raw() as u64);
    });
}

#[cfg(feature = "rustacuda")]
#[test]
fn derived_types_go_to_the_device_and_back() {
    use custack::DeviceCopy;
    #[derive(Clone, Debug, PartialEq, DeviceCopy)]
    struct Pair {
        number: u32,
        part: f32,
    }
    run(|| {
        let _ctx = pushed();
        let pairs = [Pair { number: 1, part: 0.5 }, Pair { number: 2, part: 1.5 }];
        let buffer = DeviceBuffer::from_slice(&pairs).unwrap();
        let mut back = [Pair { number: 0, part: 0.0 }, Pair { number: 0, part: 0.0 }];
        buffer.copy_to(&mut back).unwrap();
        assert_eq!(back, pairs);
    });
}

#[test]
fn more_memory_than_a_laptop_has_can_be_allocated_and_is_used_where_it_is_touched() {
    run(|| {
        let _ctx = pushed();
        let (free, _) = info().unwrap();
        let count = free / 2;
        let mut large = unsafe { DeviceBuffer::<u8>::uninitialized(count) }.unwrap();
        large[count - 70_000..].copy_from(&vec![7; 70_000][..]).unwrap();
        let mut back = [0; 3];
        large[count - 3..].copy_to(&mut back).unwrap();
        assert_eq!(back, [7; 3]);
        assert_eq!(
            unsafe { DeviceBuffer::<u8>::uninitialized(count + count / 4) }.unwrap_err(),
            CudaError::OutOfMemory
        );
    });
}
