//! What the simulated driver makes of memory that several threads use at once.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

mod storage;

use crate::gpu::{Buffer, Context, Module, Result, Stream, ask, parked, pushed, said, status};
use crate::harness::{is_simulated, run, skip, within};
use custack_sys::ffi::{CUmemLocation, CUmemPoolProps, CUresult};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

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

fn stream() -> Stream {
    Stream::new().unwrap()
}

fn module() -> Module {
    Module::load(KERNELS).unwrap()
}

/// Has a kernel run until this is done.
fn while_a_kernel_runs(to: u64, module: &Module, stream: &Stream, f: impl FnOnce()) {
    let locked = locked([0, 0]);
    let [flag, begun] = [0, 1].map(|at| unsafe { AtomicU32::from_ptr(locked.add(at)) });
    let at = locked.expose_provenance() as u64;
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
    assert_eq!(call!(cuMemFreeHost(locked.cast())), 0);
}

/// Page-locked memory with these values.
fn locked<const N: usize>(values: [u32; N]) -> *mut u32 {
    let mut at = null_mut();
    assert_eq!(call!(cuMemAllocHost_v2(&mut at, 4 * N)), 0);
    let at = at.cast::<u32>();
    values.iter().enumerate().for_each(|(place, value)| unsafe { at.add(place).write(*value) });
    at
}

/// Memory of zeros.
fn zeroed(words: usize) -> Buffer<u32> {
    let memory = Buffer::uninitialized(words).unwrap();
    assert_eq!(call!(cuMemsetD32_v2(memory.address(), 0, words)), 0);
    // The call returns before the fill is done, and the streams do not wait for it.
    assert_eq!(call!(cuCtxSynchronize()), 0);
    memory
}

fn on_another_thread(context: &Context, f: impl FnOnce() + Send) {
    std::thread::scope(|scope| scope.spawn(|| context.scoped(f)).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

#[test]
fn a_kernel_does_not_hold_up_allocations_and_copies_of_other_threads() {
    on_the_simulated_driver("a_kernel_does_not_hold_up_allocations_and_copies_of_other_threads", || {
        // Destroyed after the kernel, for which that waits.
        let other = parked();
        let _ctx = pushed();
        let (module, stream) = (module(), stream());
        let number = Buffer::from_slice(&[0u32]).unwrap();
        let to = number.address();
        while_a_kernel_runs(to, &module, &stream, || {
            on_another_thread(&other, || {
                // Larger than what the calling thread copies itself.
                for size in [1 << 10, 5 << 20, 20 << 20] {
                    let numbers: Vec<u8> = (0..size).map(|at| at as u8).collect();
                    let buffer = Buffer::from_slice(&numbers).unwrap();
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
            let memory = zeroed(size);
            let to = memory.address();
            let flag = to + 4 * (size as u64 - 2);
            let set = locked([1]);
            unsafe { launch!(module.poll<<<1, 1, 0, polls>>>(flag, to)) }.unwrap();
            assert_eq!(polls.is_done(), Ok(false));
            assert_eq!(call!(cuMemcpyHtoDAsync_v2(flag, set.cast(), 4, copies.0)), 0);
            polls.synchronize().unwrap();
            copies.synchronize().unwrap();
            assert_eq!(call!(cuMemFreeHost(set.cast())), 0);
        }
    });
}

#[test]
fn kernels_on_many_threads_count_in_one_number_and_lose_nothing() {
    on_the_simulated_driver("kernels_on_many_threads_count_in_one_number_and_lose_nothing", || {
        let _ctx = pushed();
        let (module, streams) = (module(), [(); 8].map(|()| stream()));
        for size in [8usize, 5 << 20] {
            let memory = zeroed(size);
            let to = memory.address();
            let last = to + 4 * (size as u64 - 1);
            for stream in &streams {
                unsafe { launch!(module.count<<<2, 16, 0, stream>>>(last, 50u32)) }.unwrap();
            }
            streams.iter().for_each(|stream| stream.synchronize().unwrap());
            let mut counted = [0u32];
            assert_eq!(call!(cuMemcpyDtoH_v2(counted.as_mut_ptr().cast(), last, 4)), 0);
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
                assert_eq!(call!(cuMemAlloc_v2(&mut at, size)), 0);
                while_a_kernel_runs(at, &module, &stream, || {
                    // A free waits for the work of the current context only.
                    on_another_thread(&other, || {
                        assert_eq!(call!(cuMemFree_v2(at)), 0);
                        let others: Vec<_> =
                            (0..20).map(|_| Buffer::from_slice(&[7u8; 64]).unwrap()).collect();
                        for other in &others {
                            let mut back = [0; 64];
                            other.copy_to(&mut back).unwrap();
                            assert_eq!(back, [7; 64]);
                        }
                    });
                });
                if size > 64 {
                    unsafe { launch!(module.store<<<1, 1, 0, stream>>>(at, 1u64)) }.unwrap();
                    assert_eq!(stream.synchronize(), Err(status::ILLEGAL_ADDRESS));
                    let why = custack_sim::log().pop().unwrap();
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
            let (mut pool, mut at) = (null_mut(), 0);
            let mut properties: CUmemPoolProps = unsafe { std::mem::zeroed() };
            (properties.allocType, properties.location) = (1, CUmemLocation { kind: 1, id: 0 });
            assert_eq!(call!(cuMemPoolCreate(&mut pool, &properties)), 0);
            assert_eq!(call!(cuMemAllocFromPoolAsync(&mut at, 108, pool, stream.0)), 0);
            unsafe { launch!(module.store<<<1, 1, 0, stream>>>(at + 96, 5u64)) }.unwrap();
            stream.synchronize().unwrap();
            let mut back = 0u64;
            let to = (&raw mut back).cast();
            assert_eq!(call!(cuMemcpyDtoH_v2(to, at + 96, 8)), 0);
            assert_eq!(back, 5);
            unsafe { launch!(module.store<<<1, 1, 0, stream>>>(at + past / 8 * 8 + 8, 5u64)) }.unwrap();
            assert_eq!(stream.synchronize(), Err(status::ILLEGAL_ADDRESS));
            let why = custack_sim::log().pop().unwrap();
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
            let memory = Buffer::<u8>::uninitialized(size).unwrap();
            let at = memory.address();
            let mut expected = vec![0u8; 300 << 10];
            let part = |from: usize, count: usize| from..from + count;
            for (from, count) in
                [(0, 1), (3, 18), (65_530, 20), (65_535, 1), (70_001, 140_003), (8, 64), (131_072, 7)]
            {
                let new = bytes(count, from);
                assert_eq!(call!(cuMemcpyHtoD_v2(at + from as u64, new.as_ptr().cast(), count)), 0);
                expected[part(from, count)].copy_from_slice(&new);
            }
            // From where something was written to where nothing was, and back.
            for (from, to, count) in
                [(60_000, 1 << 18, 30_000), (250_000, 131_072, 9000), (300_000, 290_000, 200)]
            {
                let (from_at, to_at) = (at + from as u64, at + to as u64);
                assert_eq!(call!(cuMemcpyDtoD_v2(to_at, from_at, count)), 0);
                expected.copy_within(part(from, count), to);
            }
            // What overlaps is as if it was read before it is written.
            for (from, to, count) in
                [(70_001, 10, 60_000), (1, 65_537, 70_000), (65_000, 65_001, 3000), (9, 9, 100)]
            {
                let (from_at, to_at) = (at + from as u64, at + to as u64);
                assert_eq!(call!(cuMemcpyDtoD_v2(to_at, from_at, count)), 0);
                expected.copy_within(part(from, count), to);
            }
            for (byte, from, count) in [(9, 65_000, 1001), (0, 131_000, 70_000), (0, 200_000, 100_000)] {
                assert_eq!(call!(cuMemsetD8_v2(at + from as u64, byte, count)), 0);
                expected[part(from, count)].fill(byte);
            }
            assert_eq!(call!(cuMemsetD32_v2(at + 65_532, 0x0102_0304, 3)), 0);
            expected[part(65_532, 12)].copy_from_slice(&[4, 3, 2, 1].repeat(3));
            let mut back = vec![1u8; expected.len()];
            assert_eq!(call!(cuMemcpyDtoH_v2(back.as_mut_ptr().cast(), at, back.len())), 0);
            let wrong = back.iter().zip(&expected).position(|(is, should)| is != should);
            assert_eq!(wrong, None, "of {size}");
        }
    });
}

/// Launches the kernel that stores a number there, which fails, in a context of its own.
fn fails(at: impl FnOnce(&Stream) -> u64, await_it: impl FnOnce(&Stream) -> Result<()>) -> String {
    let _ctx = pushed();
    let (module, stream) = (module(), stream());
    let at = at(&stream);
    unsafe { launch!(module.store<<<1, 1, 0, stream>>>(at, 7u64)) }.unwrap();
    let error = await_it(&stream).unwrap_err();
    assert_eq!(error, status::ILLEGAL_ADDRESS);
    said(error)
}

type Way<'a> = &'a dyn Fn(&Stream) -> Result<()>;

#[test]
fn the_error_of_a_kernel_names_it_however_it_is_awaited() {
    on_the_simulated_driver("the_error_of_a_kernel_names_it_however_it_is_awaited", || {
        // The kernel may have failed by then.
        let event = |stream: &Stream| -> Result<_> {
            let mut event = null_mut();
            ask(call!(cuEventCreate(&mut event, 2)))?;
            ask(call!(cuEventRecord(event, stream.0)))?;
            Ok(event)
        };
        let until = |query: &mut dyn FnMut() -> CUresult| loop {
            match query() {
                status::NOT_READY => std::thread::yield_now(),
                found => return ask(found),
            }
        };
        let ways: [(&str, Way<'_>); 5] = [
            ("the stream", &|stream| stream.synchronize()),
            ("the context", &|_| ask(call!(cuCtxSynchronize()))),
            ("an event", &|stream| ask(call!(cuEventSynchronize(event(stream)?)))),
            ("the stream, by questions", &|stream| until(&mut || call!(cuStreamQuery(stream.0)))),
            ("an event, by questions", &|stream| {
                let event = event(stream)?;
                until(&mut || call!(cuEventQuery(event)))
            }),
        ];
        for (name, way) in ways {
            let said = fails(|_| 4096, way);
            assert!(said.contains("store") && said.contains("0x1000"), "{name}: {said}");
        }
    });
}

#[test]
fn an_access_past_the_end_is_said_to_be_that_also_of_memory_in_stream_order() {
    on_the_simulated_driver(
        "an_access_past_the_end_is_said_to_be_that_also_of_memory_in_stream_order",
        || {
            let past = |stream: &Stream| {
                let mut at = 0;
                assert_eq!(call!(cuMemAllocAsync(&mut at, 16, stream.0)), 0);
                at + 16
            };
            let said = fails(past, Stream::synchronize);
            assert!(said.contains("8 bytes at 16 of an allocation of 16 bytes"), "{said}");
        },
    );
}
