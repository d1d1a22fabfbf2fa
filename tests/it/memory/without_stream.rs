//! Fills and copies without a stream, and what streams find afterwards that do not wait for the
//! default stream.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::*;
use crate::context::green::green;
use crate::harness::{is_simulated, parked, run_alone, table};
use crate::module::KERNELS;
use custack::context::Context;
use custack::driver::instrument::{self, When, during};
use custack::error::{CudaError, CudaResult};
use custack::memory::array::ArrayFormat;
use custack::module::Module;
use custack::stream::{CaptureMode, CaptureStatus, StreamFlags};
use std::time::Duration;

const LEN: usize = 1024;

/// A context, a stream that its default stream waits for, and one that waits for neither.
struct Place {
    _context: Context,
    busy: Stream,
    other: Stream,
}

impl Place {
    fn new() -> Place {
        let _context = pushed();
        let stream = |flags| Stream::new(flags, None).unwrap();
        Place { _context, busy: stream(StreamFlags::DEFAULT), other: stream(StreamFlags::NON_BLOCKING) }
    }

    /// Has the default stream wait for a while.
    fn delay(&self) {
        self.busy.launch_host_func(|| std::thread::sleep(Duration::from_millis(10))).unwrap();
    }

    /// What the other stream finds.
    fn finds<T: DeviceCopy + Default>(&mut self, memory: &DeviceSlice<T>) -> Vec<T> {
        let mut back: Vec<T> = (0..memory.len()).map(|_| T::default()).collect();
        self.other.sync_scope(|scope| scope.copy_to(memory, &mut back[..])).unwrap();
        back
    }

    /// Whether the other stream finds these values after the call.
    #[track_caller]
    fn check<M: ?Sized, T: DeviceCopy + Default + PartialEq + std::fmt::Debug>(
        &mut self,
        memory: &mut M,
        call: impl FnOnce(&mut M) -> CudaResult<()>,
        slice: impl FnOnce(&M) -> &DeviceSlice<T>,
        expected: T,
    ) {
        self.delay();
        call(memory).unwrap();
        let found = self.finds(slice(memory));
        assert!(found.iter().all(|value| *value == expected), "{:?} is not {expected:?}", found.last());
    }
}

/// Runs a test in a context.
fn in_place(test: impl FnOnce(&mut Place) + Send) {
    run(|| test(&mut Place::new()));
}

/// The slice of one value.
fn one<T>(value: &DeviceBox<T>) -> &DeviceSlice<T> {
    let pointer = std::ptr::from_ref(value).cast::<*mut T>();
    unsafe { DeviceSlice::from_raw_parts(DevicePointer::wrap(pointer.read()), 1) }
}

#[test]
fn what_is_zeroed_is_zero_for_every_stream() {
    in_place(|place| {
        // Memory of these sizes that had other values, which the next of that size may get.
        let dirty = |place: &mut Place| {
            drop(DeviceBuffer::from_slice(&[0xAAu8; LEN]).unwrap());
            drop(DeviceBox::new(&0xAAAA_AAAAu32).unwrap());
            drop(PitchedBuffer::from_slice(&[0xAAu8; LEN], 64).unwrap());
            place.delay();
        };
        dirty(place);
        let buffer = unsafe { DeviceBuffer::<u8>::zeroed(LEN) }.unwrap();
        assert!(place.finds(&buffer) == [0; LEN]);
        dirty(place);
        let value = unsafe { DeviceBox::<u32>::zeroed() }.unwrap();
        assert_eq!(place.finds(one(&value)), [0]);
        dirty(place);
        let rows = unsafe { PitchedBuffer::<u8>::zeroed(64, 16) }.unwrap();
        assert!((0..16).all(|y| place.finds(rows.row(y)) == [0; 64]));
    });
}

#[test]
fn what_is_filled_is_there_for_every_stream() {
    in_place(|place| {
        fn all<T: FillValue + Default + PartialEq + std::fmt::Debug>(place: &mut Place, value: T) {
            let mut buffer = DeviceBuffer::from_slice(&[T::default(); LEN]).unwrap();
            place.check(&mut buffer, |it| it.fill(value), |it| &**it, value);
            let mut single = DeviceBox::new(&T::default()).unwrap();
            place.check(&mut single, |it| it.fill(value), one, value);
            let mut rows = PitchedBuffer::from_slice(&[T::default(); LEN], 64).unwrap();
            place.check(&mut rows, |it| it.fill(value), |it| it.row(LEN / 64 - 1), value);
        }
        all(place, true);
        all(place, 0x1234u16);
        all(place, 0x1234_5678u32);
        let given = unsafe { cuda_malloc::<u8>(LEN) }.unwrap();
        let of_address = unsafe { DeviceSlice::from_raw_parts_mut(given, LEN) };
        place.check(of_address, |it| it.fill(7), |it| it, 7);
        unsafe { cuda_free(given) }.unwrap();
    });
}

#[test]
fn what_is_copied_on_the_device_is_there_for_every_stream_and_the_source_may_change() {
    in_place(|place| {
        let mut source = DeviceBuffer::from_slice(&[5u32; LEN]).unwrap();
        let mut buffer = DeviceBuffer::from_slice(&[1u32; LEN]).unwrap();
        place.check(&mut buffer, |it| it.copy_from(&source), |it| &**it, 5);
        place.check(&mut buffer[1..], |it| it.copy_from(&source[1..]), |it| it, 5);
        // What the other stream writes to the source afterwards is not copied.
        place.delay();
        source.copy_to(&mut buffer).unwrap();
        let later = [6u32; LEN];
        place.other.sync_scope(|scope| scope.copy_from(&mut source[..], &later[..])).unwrap();
        assert!(place.finds(&buffer) == [5; LEN]);
        let (single, mut to) = (DeviceBox::new(&5u32).unwrap(), DeviceBox::new(&1u32).unwrap());
        place.check(&mut to, |it| it.copy_from(&single), one, 5);
        let from = PitchedBuffer::from_slice(&[5u32; 64], 8).unwrap();
        let mut rows = PitchedBuffer::from_slice(&[1u32; 64], 8).unwrap();
        let copy = |it: &mut PitchedBuffer<u32>| it.copy_part_from((0, 0), &from, (0, 0), (8, 8));
        place.check(&mut rows, copy, |it| it.row(7), 5);
    });
}

#[test]
fn what_is_copied_from_the_host_is_there_for_every_stream() {
    in_place(|place| {
        let mut buffer = DeviceBuffer::from_slice(&[1u32; LEN]).unwrap();
        let mut values = vec![5u32; LEN];
        let locked = LockedBuffer::from_slice(&values).unwrap();
        let unified = UnifiedBuffer::from_slice(&values).unwrap();
        for from in [&values[..], &locked[..], &unified[..]] {
            buffer.fill(1).unwrap();
            place.check(&mut buffer, |it| it.copy_from(from), |it| &**it, 5);
        }
        buffer.fill(1).unwrap();
        let registered = |it: &mut DeviceBuffer<u32>| {
            RegisteredSlice::scoped(&mut values, RegisterFlags::empty(), |from| it.copy_from(&**from))
        };
        place.check(&mut buffer, registered, |it| &**it, 5);
        let mut rows = PitchedBuffer::from_slice(&[1u32; 64], 8).unwrap();
        place.check(&mut rows, |it| it.copy_from(&[5; 64]), |it| it.row(7), 5);
        let module = Module::load_from_bytes(KERNELS.as_bytes()).unwrap();
        let mut symbol = module.get_global::<u32>(c"answer").unwrap();
        place.delay();
        symbol.copy_from(&5).unwrap();
        let (mut at, mut size) = (0, 0);
        let name = c"answer".as_ptr();
        unsafe { (table().cuModuleGetGlobal_v2)(&mut at, &mut size, module.as_raw(), name) };
        let at = unsafe { DevicePointer::wrap(at as *mut u32) };
        assert_eq!(place.finds(unsafe { DeviceSlice::from_raw_parts(at, 1) }), [5]);
        let (array, mut back) = (ArrayObject::new_1d(64, ArrayFormat::UnsignedInt8, 1).unwrap(), [1u8; 64]);
        place.delay();
        array.copy_from(&[5u8; 64]).unwrap();
        unsafe { array.async_copy_to(&mut back, &place.other) }.unwrap();
        place.other.synchronize().unwrap();
        assert_eq!(back, [5; 64]);
    });
}

#[test]
fn memory_in_the_order_of_a_stream_and_memory_of_none_find_each_others_values() {
    in_place(|place| {
        let mut plain = DeviceBuffer::from_slice(&[1u32; LEN]).unwrap();
        let home = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
        let mut ordered = DeviceBuffer::from_slice_in(&[2u32; LEN], &home).unwrap();
        for value in 3..6 {
            place.delay();
            plain.fill(value).unwrap();
            ordered.copy_from(&plain).unwrap();
            assert!(place.finds(&ordered) == [value; LEN]);
            // The other way round: the home is busy.
            home.launch_host_func(|| std::thread::sleep(Duration::from_millis(10))).unwrap();
            unsafe { ordered.async_fill(value + 10, &home) }.unwrap();
            plain.copy_from(&ordered).unwrap();
            assert!(place.finds(&plain) == [value + 10; LEN]);
            home.launch_host_func(|| std::thread::sleep(Duration::from_millis(10))).unwrap();
            let zeroed = unsafe { DeviceBuffer::<u32>::zeroed_in(LEN, &home) }.unwrap();
            place.delay();
            zeroed.copy_to(&mut plain).unwrap();
            // It is freed in the order of the home, which does not wait for the default stream.
            drop(zeroed);
            drop(DeviceBuffer::from_slice_in(&[9u32; LEN], &home).unwrap());
            assert!(place.finds(&plain) == [0; LEN]);
        }
    });
}

#[test]
fn a_copy_between_contexts_is_there_for_the_streams_of_both() {
    run(|| {
        let (source, mut place) = (parked(), Place::new());
        let source = source.get_unowned();
        let from = source.device_buffer(&[5u32; LEN]).unwrap();
        let busy = source.create_stream(StreamFlags::DEFAULT, None).unwrap();
        let mut to = DeviceBuffer::from_slice(&[1u32; LEN]).unwrap();
        let mut ordered = DeviceBuffer::from_slice_in(&[1u32; LEN], &place.other).unwrap();
        for current in [&source, &place._context.get_unowned()] {
            busy.launch_host_func(|| std::thread::sleep(Duration::from_millis(10))).unwrap();
            current.scoped(|_| to.fill(1)).unwrap();
            place.check(&mut to, |it| current.scoped(|_| it.copy_from(&from)), |it| &**it, 5);
            place.delay();
            current.scoped(|_| from.copy_to(&mut ordered)).unwrap();
            assert!(place.finds(&ordered) == [5; LEN]);
        }
        let rows = source.pitched_buffer(&[5u32; 64], 8).unwrap();
        let mut to = PitchedBuffer::from_slice(&[1u32; 64], 8).unwrap();
        let copy = |it: &mut PitchedBuffer<u32>| it.copy_part_from((0, 0), &rows, (0, 0), (8, 8));
        place.check(&mut to, copy, |it| it.row(7), 5);
        // Nothing reads the source any more.
        drop((from, rows));
    });
}

#[test]
fn a_stream_of_a_green_context_finds_what_was_written_in_it_and_outside_of_it() {
    run(|| {
        let mut green = green();
        let primary = green.primary().get_unowned();
        let mut stream = green.create_stream(None).unwrap();
        let busy = primary.create_stream(StreamFlags::DEFAULT, None).unwrap();
        let mut buffer = primary.device_buffer(&[1u32; LEN]).unwrap();
        let mut expect = |buffer: &DeviceSlice<u32>, value| {
            let mut back = [0; LEN];
            stream.sync_scope(|scope| scope.copy_to(buffer, &mut back[..])).unwrap();
            assert!(back == [value; LEN], "{} is not {value}", back[0]);
        };
        let delay = || busy.launch_host_func(|| std::thread::sleep(Duration::from_millis(10))).unwrap();
        delay();
        buffer.fill(2).unwrap();
        expect(&buffer, 2);
        let source = primary.device_buffer(&[3u32; LEN]).unwrap();
        let entered = green.enter().unwrap();
        delay();
        buffer.copy_from(&source).unwrap();
        expect(&buffer, 3);
        let mut inside = DeviceBuffer::from_slice(&[4u32; LEN]).unwrap();
        delay();
        inside.fill(5).unwrap();
        expect(&inside, 5);
        drop(entered);
    });
}

#[test]
fn a_fill_and_a_copy_on_the_device_cost_a_wait_in_the_relaxed_mode_and_a_read_costs_none() {
    in_place(|_| {
        let mut buffer = DeviceBuffer::from_slice(&[1u32; 4]).unwrap();
        let source = DeviceBuffer::from_slice(&[2u32; 4]).unwrap();
        let waits = ["cuStreamSynchronize", "cuThreadExchangeStreamCaptureMode"];
        let cost = |call: &mut dyn FnMut() -> CudaResult<()>| {
            let (result, calls) = during(call);
            result.unwrap();
            // The context is current, which is looked at.
            (waits.map(|name| calls.of(name)), calls.total() - calls.of("cuCtxGetCurrent"))
        };
        assert_eq!(cost(&mut || buffer.fill(9)), ([1, 2], 4));
        assert_eq!(cost(&mut || buffer.copy_from(&source)), ([1, 2], 4));
        assert_eq!(cost(&mut || buffer.copy_from(&[1; 4])), ([1, 2], 4));
        assert_eq!(cost(&mut || buffer.copy_to(&mut [1; 4])), ([0, 0], 1));
        assert_eq!(cost(&mut || unsafe { DeviceBuffer::<u8>::zeroed(9) }.map(drop)), ([1, 2], 6));
        assert_eq!(cost(&mut || unsafe { DeviceBox::<u32>::zeroed() }.map(drop)), ([1, 2], 6));
        assert_eq!(cost(&mut || unsafe { PitchedBuffer::<u8>::zeroed(9, 2) }.map(drop)), ([1, 2], 6));
    });
}

#[test]
fn no_fill_and_no_copy_breaks_a_capture_that_it_does_not_concern() {
    run_alone(|| {
        let (source, _place) = (parked(), Place::new());
        let source = source.get_unowned().device_buffer(&[2u32; 4]).unwrap();
        let mut buffer = DeviceBuffer::from_slice(&[1u32; 4]).unwrap();
        let near = DeviceBuffer::from_slice(&[3u32; 4]).unwrap();
        let mut captures = |flags, expected: [CudaResult<()>; 3]| {
            let mut stream = Stream::new(flags, None).unwrap();
            let mut graph = stream
                .capture(CaptureMode::Global, |capture| {
                    let results = [buffer.fill(1), buffer.copy_from(&near), buffer.copy_from(&source)];
                    assert_eq!(results, expected);
                    assert_eq!(capture.capture_status(), Ok(CaptureStatus::Active));
                    Ok(())
                })
                .unwrap();
            assert_eq!(graph.nodes(), Ok(vec![]));
        };
        captures(StreamFlags::NON_BLOCKING, [Ok(()); 3]);
        captures(StreamFlags::DEFAULT, [Err(CudaError::StreamCaptureImplicit); 3]);
    });
}

#[test]
fn a_copy_from_another_context_is_refused_while_a_blocking_stream_captures_there() {
    run(|| {
        let (there, _place) = (parked(), Place::new());
        let there = there.get_unowned();
        let source = there.device_buffer(&[2u32; 64]).unwrap();
        let rows = there.pitched_buffer(&[2u32; 64], 8).unwrap();
        let mut buffer = DeviceBuffer::from_slice(&[1u32; 64]).unwrap();
        let mut to = PitchedBuffer::from_slice(&[1u32; 64], 8).unwrap();
        let mut stream = there.create_stream(StreamFlags::DEFAULT, None).unwrap();
        let mut graph = stream
            .capture(CaptureMode::Relaxed, |capture| {
                let copied = buffer.copy_from(&source);
                let in_rows = to.copy_part_from((0, 0), &rows, (0, 0), (8, 8));
                assert_eq!([copied, in_rows], [Err(CudaError::StreamCaptureImplicit); 2]);
                assert_eq!(capture.capture_status(), Ok(CaptureStatus::Active));
                Ok(())
            })
            .unwrap();
        assert_eq!(graph.nodes(), Ok(vec![]));
        buffer.copy_from(&source).unwrap();
    });
}

#[test]
fn a_call_that_fails_after_its_work_has_begun_is_waited_for() {
    use custack::driver::instrument::{When, disarm, fail};
    if !is_simulated() {
        return crate::harness::skip("a_call_that_fails_after_its_work", "its faults are injected");
    }
    in_place(|place| {
        let mut buffer = DeviceBuffer::from_slice(&[1u8; LEN]).unwrap();
        let source = DeviceBuffer::from_slice(&[2u8; LEN]).unwrap();
        for (function, expected) in [("cuMemsetD8_v2", 3u8), ("cuMemcpyDtoD_v2", 2)] {
            place.delay();
            fail(Some(function), 1, 719, When::After);
            let failed = if expected == 3 { buffer.fill(3) } else { buffer.copy_from(&source) };
            assert_eq!((failed, disarm()), (Err(CudaError::LaunchFailed), false));
            assert!(place.finds(&buffer) == [expected; LEN]);
        }
    });
}

/// The errors after which a process or a context can do nothing any more, by the driver's manual.
const LAST: [u32; 15] = [214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911];

#[test]
fn a_wait_ends_with_each_error_that_ends_all_work() {
    in_place(|place| {
        let mut buffer = DeviceBuffer::from_slice(&[0u8; 16]).unwrap();
        for status in LAST {
            // From the fill on, which is the second call.
            instrument::fail_times(None, 2, 2_000, status, When::Before);
            let (filled, calls) = during(|| buffer.fill(1));
            instrument::disarm();
            assert!(filled.is_err() && calls.total() < 200, "{status}: {calls}");
        }
        assert_eq!(buffer.fill(2), Ok(()));
        assert_eq!(place.finds(&buffer), [2; 16]);
    });
}
