//! What the simulated driver makes of memory that several threads use at once, and of more memory than the machine has.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::future::block_on;
use crate::harness::{device, is_simulated, parked, pushed, run, run_alone, skip, table, within};
use crate::stream::stream;
use custack::error::{CudaError, CudaResult};
use custack::event::{Event, EventFlags};
use custack::launch;
use custack::memory::*;
use custack::module::Module;
use custack::sim;
use custack::stream::Stream;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A kernel that writes one number after the other, also behind a flag, until that is set; one that counts in steps of
/// one; and one that stores a number.
const KERNELS: &[u8] = b".version 7.0 .target sm_70 .address_size 64
    .visible .entry poll(.param .u64 flag, .param .u64 to) {
        .reg .pred %p; .reg .b64 %flag; .reg .b64 %to; .reg .b32 %set; .reg .b32 %i;
        ld.param.u64 %flag, [flag];
        ld.param.u64 %to, [to];
        mov.u32 %i, 0;
    again:
        add.u32 %i, %i, 1;
        st.global.u32 [%to], %i;
        st.global.u32 [%flag+4], %i;
        ld.global.u32 %set, [%flag];
        setp.eq.u32 %p, %set, 0;
        @%p bra again;
        ret;
    }
    .visible .entry count(.param .u64 to, .param .u32 times) {
        .reg .pred %p; .reg .b64 %to; .reg .b32 %times; .reg .b32 %i;
        ld.param.u64 %to, [to];
        ld.param.u32 %times, [times];
        mov.u32 %i, 0;
    again:
        red.global.add.u32 [%to], 1;
        add.u32 %i, %i, 1;
        setp.lt.u32 %p, %i, %times;
        @%p bra again;
        ret;
    }
    .visible .entry store(.param .u64 to, .param .u64 value) {
        .reg .b64 %to; .reg .b64 %value;
        ld.param.u64 %to, [to];
        ld.param.u64 %value, [value];
        st.global.u64 [%to], %value;
        ret;
    }";

fn on_the_simulated_driver(name: &str, test: impl FnOnce() + Send + 'static) {
    if is_simulated() {
        within(120, || run(test));
    } else {
        skip(name, "it is about the simulated driver");
    }
}

/// Others would find no memory left.
fn alone_on_the_simulated_driver(name: &str, test: impl FnOnce() + Send + 'static) {
    if is_simulated() {
        within(120, || run_alone(test));
    } else {
        skip(name, "it is about the simulated driver");
    }
}

fn module() -> Module {
    Module::load_from_bytes(KERNELS).unwrap()
}

/// Has a kernel run until this is done.
fn while_a_kernel_runs(to: u64, module: &Module, stream: &Stream, f: impl FnOnce()) {
    let mut locked = LockedBuffer::new(&0u32, 2).unwrap();
    let start = locked.as_mut_slice().as_mut_ptr();
    let [flag, begun] = [0, 1].map(|at| unsafe { AtomicU32::from_ptr(start.add(at)) });
    let at = flag.as_ptr().expose_provenance() as u64;
    unsafe { launch!(module.poll<<<1, 1, 0, stream>>>(at, to)) }.unwrap();
    while begun.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
    let done = stream.is_done();
    flag.store(1, Ordering::Relaxed);
    stream.synchronize().unwrap();
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
    assert_eq!(done, Ok(false), "the kernel has run meanwhile");
}

fn on_another_thread(f: impl FnOnce() + Send) {
    std::thread::scope(|scope| scope.spawn(f).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

#[test]
fn a_kernel_does_not_hold_up_allocations_and_copies_of_other_threads() {
    on_the_simulated_driver("a_kernel_does_not_hold_up_allocations_and_copies_of_other_threads", || {
        // Destroyed after the kernel, for which that waits.
        let other = parked();
        let _ctx = pushed();
        let (module, stream) = (module(), stream());
        let mut number = DeviceBuffer::from_slice(&[0u32]).unwrap();
        let to = number.as_device_ptr().as_raw().addr() as u64;
        while_a_kernel_runs(to, &module, &stream, || {
            on_another_thread(|| {
                let _current = other.enter().unwrap();
                // Larger than what the calling thread copies itself.
                for size in [1 << 10, 5 << 20, 20 << 20] {
                    let numbers: Vec<u8> = (0..size).map(|at| at as u8).collect();
                    let buffer = DeviceBuffer::from_slice(&numbers).unwrap();
                    let mut back = vec![0u8; size];
                    buffer.copy_to(&mut back).unwrap();
                    assert!(back == numbers);
                }
            });
        });
        let mut counted = [0];
        number.copy_to(&mut counted).unwrap();
        assert!(counted[0] > 0);
    });
}

#[test]
fn a_kernel_sees_what_a_copy_writes_meanwhile() {
    on_the_simulated_driver("a_kernel_sees_what_a_copy_writes_meanwhile", || {
        let _ctx = pushed();
        let (module, polls, copies) = (module(), stream(), stream());
        // In pages, of which that of the flag is not there yet, and whole.
        for size in [8usize, 5 << 20] {
            let mut memory = unsafe { DeviceBuffer::<u32>::zeroed(size) }.unwrap();
            let to = memory.as_device_ptr().as_raw().addr() as u64;
            let flag = to + 4 * (size as u64 - 2);
            let set = LockedBuffer::new(&1u32, 1).unwrap();
            unsafe { launch!(module.poll<<<1, 1, 0, polls>>>(flag, to)) }.unwrap();
            assert_eq!(polls.is_done(), Ok(false));
            unsafe {
                memory.split_at_mut(size - 2).1.split_at_mut(1).0.async_copy_from(set.as_slice(), &copies)
            }
            .unwrap();
            polls.synchronize().unwrap();
            copies.synchronize().unwrap();
        }
    });
}

#[test]
fn kernels_on_many_threads_count_in_one_number_and_lose_nothing() {
    on_the_simulated_driver("kernels_on_many_threads_count_in_one_number_and_lose_nothing", || {
        let _ctx = pushed();
        let (module, streams) = (module(), [(); 8].map(|()| stream()));
        for size in [8usize, 5 << 20] {
            let mut memory = unsafe { DeviceBuffer::<u32>::zeroed(size) }.unwrap();
            let to = memory.as_device_ptr().as_raw().addr() as u64;
            let last = to + 4 * (size as u64 - 1);
            for stream in &streams {
                unsafe { launch!(module.count<<<2, 16, 0, stream>>>(last, 50u32)) }.unwrap();
            }
            streams.iter().for_each(|stream| stream.synchronize().unwrap());
            let mut counted = [0];
            memory.split_at(size - 1).1.copy_to(&mut counted).unwrap();
            assert_eq!(counted, [8 * 2 * 16 * 50]);
        }
    });
}

#[test]
fn memory_that_is_freed_under_a_kernel_stays_until_it_ends_and_is_gone_for_the_next() {
    on_the_simulated_driver(
        "memory_that_is_freed_under_a_kernel_stays_until_it_ends_and_is_gone_for_the_next",
        || {
            // Destroyed after the kernel, for which that waits.
            let other = parked();
            let _ctx = pushed();
            let (module, stream) = (module(), stream());
            for size in [64usize, 20 << 20] {
                let mut at = 0;
                assert_eq!(unsafe { (table().cuMemAlloc_v2)(&mut at, size) }, 0);
                while_a_kernel_runs(at, &module, &stream, || {
                    // A free waits for the work of the current context only.
                    on_another_thread(|| {
                        let _current = other.enter().unwrap();
                        assert_eq!(unsafe { (table().cuMemFree_v2)(at) }, 0);
                        let others: Vec<_> =
                            (0..20).map(|_| DeviceBuffer::from_slice(&[7u8; 64]).unwrap()).collect();
                        for other in &others {
                            let mut back = [0; 64];
                            other.copy_to(&mut back).unwrap();
                            assert_eq!(back, [7; 64]);
                        }
                    });
                });
                if size > 64 {
                    unsafe { launch!(module.store<<<1, 1, 0, stream>>>(at, 1u64)) }.unwrap();
                    assert_eq!(stream.synchronize(), Err(CudaError::IllegalAddress));
                    let why = sim::log().pop().unwrap();
                    assert!(why.contains("writes 8 bytes at 0x"), "{why}");
                    assert!(why.contains(", where nothing is allocated"), "{why}");
                }
            }
        },
    );
}

#[test]
fn a_kernel_uses_memory_of_a_pool_within_what_was_asked_for() {
    on_the_simulated_driver("a_kernel_uses_memory_of_a_pool_within_what_was_asked_for", || {
        let cases = [
            (100, "8 bytes at 104 of an allocation of 108 bytes"),
            (200, "8 bytes at 208 of an allocation of 108 bytes"),
            (1000, "of a pool, where no memory is now"),
        ];
        for (past, says) in cases {
            let _ctx = pushed();
            let (module, stream) = (module(), stream());
            // In the common pool the memory of another test could be next to it.
            let pool = MemoryPool::new(device(), &PoolProperties::new()).unwrap();
            let buffer = unsafe { DeviceBuffer::<u8>::uninitialized_in(108, (&pool, &stream)) }.unwrap();
            let at = ManuallyDrop::new(buffer).as_ptr() as u64;
            unsafe { launch!(module.store<<<1, 1, 0, stream>>>(at + 96, 5u64)) }.unwrap();
            stream.synchronize().unwrap();
            let mut back = 0u64;
            let to = (&raw mut back).cast();
            assert_eq!(unsafe { (table().cuMemcpyDtoH_v2)(to, at + 96, 8) }, 0);
            assert_eq!(back, 5);
            unsafe { launch!(module.store<<<1, 1, 0, stream>>>(at + past / 8 * 8 + 8, 5u64)) }.unwrap();
            assert_eq!(stream.synchronize(), Err(CudaError::IllegalAddress));
            let why = sim::log().pop().unwrap();
            assert!(why.contains(says), "{why}");
        }
    });
}

/// Bytes of which no two neighbours are alike.
fn bytes(count: usize, from: usize) -> Vec<u8> {
    (from..from + count).map(|at| (at * 7 + at / 256) as u8).collect()
}

#[test]
fn copies_and_fills_of_any_offset_and_size_touch_exactly_their_bytes() {
    on_the_simulated_driver("copies_and_fills_of_any_offset_and_size_touch_exactly_their_bytes", || {
        let _ctx = pushed();
        // Whole, and in pages of 64 KiB, of which some are written.
        for size in [300 << 10, 17 << 20] {
            let mut memory = unsafe { DeviceBuffer::<u8>::uninitialized(size) }.unwrap();
            let at = memory.as_device_ptr().as_raw().addr() as u64;
            let mut expected = vec![0u8; 300 << 10];
            let part = |from: usize, count: usize| from..from + count;
            for (from, count) in
                [(0, 1), (3, 18), (65_530, 20), (65_535, 1), (70_001, 140_003), (8, 64), (131_072, 7)]
            {
                let new = bytes(count, from);
                assert_eq!(
                    unsafe { (table().cuMemcpyHtoD_v2)(at + from as u64, new.as_ptr().cast(), count) },
                    0
                );
                expected[part(from, count)].copy_from_slice(&new);
            }
            // From where something was written to where nothing was, and back.
            for (from, to, count) in
                [(60_000, 1 << 18, 30_000), (250_000, 131_072, 9000), (300_000, 290_000, 200)]
            {
                let (from_at, to_at) = (at + from as u64, at + to as u64);
                assert_eq!(unsafe { (table().cuMemcpyDtoD_v2)(to_at, from_at, count) }, 0);
                expected.copy_within(part(from, count), to);
            }
            // What overlaps is as if it was read before it is written.
            for (from, to, count) in
                [(70_001, 10, 60_000), (1, 65_537, 70_000), (65_000, 65_001, 3000), (9, 9, 100)]
            {
                let (from_at, to_at) = (at + from as u64, at + to as u64);
                assert_eq!(unsafe { (table().cuMemcpyDtoD_v2)(to_at, from_at, count) }, 0);
                expected.copy_within(part(from, count), to);
            }
            for (byte, from, count) in [(9, 65_000, 1001), (0, 131_000, 70_000), (0, 200_000, 100_000)] {
                assert_eq!(unsafe { (table().cuMemsetD8_v2)(at + from as u64, byte, count) }, 0);
                expected[part(from, count)].fill(byte);
            }
            assert_eq!(unsafe { (table().cuMemsetD32_v2)(at + 65_532, 0x0102_0304, 3) }, 0);
            expected[part(65_532, 12)].copy_from_slice(&[4, 3, 2, 1].repeat(3));
            let mut back = vec![1u8; expected.len()];
            assert_eq!(unsafe { (table().cuMemcpyDtoH_v2)(back.as_mut_ptr().cast(), at, back.len()) }, 0);
            let wrong = back.iter().zip(&expected).position(|(is, should)| is != should);
            assert_eq!(wrong, None, "of {size}");
        }
    });
}

#[test]
fn fifty_gigabytes_take_as_much_of_the_host_as_is_written() {
    alone_on_the_simulated_driver("fifty_gigabytes_take_as_much_of_the_host_as_is_written", || {
        let _ctx = pushed();
        let (module, stream) = (module(), stream());
        let size = 50u64 << 30;
        let mut memory = unsafe { DeviceBuffer::<u8>::uninitialized(size as usize) }.unwrap();
        let at = memory.as_device_ptr().as_raw().addr() as u64;
        // Zeros are not stored where nothing was.
        assert_eq!(unsafe { (table().cuMemsetD8_v2)(at, 0, size as usize) }, 0);
        // The stream does not wait for it.
        assert_eq!(unsafe { (table().cuCtxSynchronize)() }, 0);
        let places: Vec<u64> = (0..8).map(|part| part * (size / 8)).chain([size - 8]).collect();
        for place in &places {
            unsafe { launch!(module.store<<<1, 1, 0, stream>>>(at + place, *place + 1)) }.unwrap();
        }
        stream.synchronize().unwrap();
        for place in &places {
            let mut back = [9u64; 2];
            let from = at + place.saturating_sub(8);
            assert_eq!(unsafe { (table().cuMemcpyDtoH_v2)(back.as_mut_ptr().cast(), from, 16) }, 0);
            assert_eq!(back, if *place == 0 { [1, 0] } else { [0, place + 1] });
        }
    });
}

#[test]
fn variables_of_many_gigabytes_are_used_where_they_are_written() {
    alone_on_the_simulated_driver("variables_of_many_gigabytes_are_used_where_they_are_written", || {
        let _ctx = pushed();
        let text = |what: &str, count: usize| -> String {
            let variables =
                (0..count).map(|at| format!(".visible .global {what} .u32 v{at}[1073741824] = {{7}};"));
            [".version 7.0 .target sm_70 .address_size 64 ".to_owned()].into_iter().chain(variables).collect()
        };
        let before = info().unwrap().0;
        for what in ["", ".attribute(.managed)"] {
            let refused = Module::load_from_bytes(text(what, 40).as_bytes()).unwrap_err();
            assert_eq!(refused, CudaError::OutOfMemory, "{what}");
        }
        let module = Module::load_from_bytes(text("", 3).as_bytes()).unwrap();
        let (mut at, mut size) = (0, 0);
        let found =
            unsafe { (table().cuModuleGetGlobal_v2)(&mut at, &mut size, module.as_raw(), c"v1".as_ptr()) };
        assert_eq!((found, size), (0, 4 << 30));
        let (kernels, stream) = (self::module(), stream());
        unsafe { launch!(kernels.store<<<1, 1, 0, stream>>>(at + (4 << 30) - 8, 3u64 << 32 | 2)) }.unwrap();
        stream.synchronize().unwrap();
        for (from, expected) in [(0, [7, 0]), ((4 << 30) - 8, [2, 3])] {
            let mut back = [9u32; 2];
            assert_eq!(unsafe { (table().cuMemcpyDtoH_v2)(back.as_mut_ptr().cast(), at + from, 8) }, 0);
            assert_eq!(back, expected);
        }
        drop(module);
        assert_eq!(info().unwrap().0, before);
    });
}

type Way = fn(&Stream) -> CudaResult<()>;

/// Launches the kernel that stores a number there, which fails, in a context of its own.
fn fails(at: impl FnOnce(&Stream) -> u64, await_it: impl FnOnce(&Stream) -> CudaResult<()>) -> String {
    let _ctx = pushed();
    let module = Module::load_from_bytes(KERNELS).unwrap();
    let stream = stream();
    let at = at(&stream);
    unsafe { launch!(module.store<<<1, 1, 0, stream>>>(at, 7u64)) }.unwrap();
    let error = await_it(&stream).unwrap_err();
    assert_eq!(error, CudaError::IllegalAddress);
    crate::harness::said(error)
}

#[test]
fn the_error_of_a_kernel_names_it_however_it_is_awaited() {
    on_the_simulated_driver("the_error_of_a_kernel_names_it_however_it_is_awaited", || {
        let spin = Duration::from_secs(10);
        let ways: [(&str, Way); 7] = [
            ("synchronize", |stream| stream.synchronize()),
            ("wait", |stream| stream.completion()?.wait()),
            ("await", |stream| block_on(stream.completion()?)),
            ("on the thread that looks", |stream| {
                let completion = stream.completion()?;
                while !completion.is_done() {
                    std::thread::yield_now();
                }
                block_on(completion)
            }),
            ("synchronize_async", |stream| block_on(stream.synchronize_async())),
            ("spinning", |stream| block_on(stream.synchronize_async().spinning_for(Duration::from_secs(10)))),
            ("an event", |stream| {
                let event = Event::new(EventFlags::DISABLE_TIMING)?;
                event.record(stream)?;
                block_on(event.completion()?)
            }),
        ];
        for (name, way) in ways {
            let said = fails(|_| 4096, way);
            assert!(said.contains("store") && said.contains("0x1000"), "{name}: {said}");
        }
        let said = fails(|_| 4096, |stream| stream.enqueue_async(|_| Ok(()))?.spinning_for(spin).wait());
        assert!(said.contains("to await work: ") && said.contains("store"), "{said}");
    });
}

#[test]
fn an_access_past_the_end_is_said_to_be_that_also_of_memory_in_stream_order() {
    on_the_simulated_driver(
        "an_access_past_the_end_is_said_to_be_that_also_of_memory_in_stream_order",
        || {
            let past = |stream: &Stream| {
                let buffer = ManuallyDrop::new(DeviceBuffer::from_slice_in(&[1u32; 4], stream).unwrap());
                buffer.as_ptr() as u64 + 16
            };
            let said = fails(past, Stream::synchronize);
            assert!(said.contains("8 bytes at 16 of an allocation of 16 bytes"), "{said}");
        },
    );
}
