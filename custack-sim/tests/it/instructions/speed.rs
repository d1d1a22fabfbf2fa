//! How fast the simulated driver runs kernels: the figures of the README; `tests/README.md` has the commands.

use crate::gpu::{Buffer, Module, Stream, pushed};
use crate::harness::{is_simulated, run};
use std::time::Instant;

/// Five instructions around, as often as it is told.
const LOOP: &[u8] = b".version 7.0 .target sm_70 .address_size 64
    .visible .entry around(.param .u32 times) {
        .reg .pred %p; .reg .b32 %times; .reg .b32 %i; .reg .b32 %sum;
        ld.param.u32 %times, [times];
        mov.u32 %i, 0; mov.u32 %sum, 0;
    again:
        add.s32 %sum, %sum, %i;
        xor.b32 %sum, %sum, 21;
        add.s32 %i, %i, 1;
        setp.lt.u32 %p, %i, %times;
        @%p bra again;
        ret;
    }";

#[test]
#[ignore = "started by hand, as it measures"]
fn how_fast_kernels_run() {
    assert!(is_simulated(), "this is about the simulated driver");
    run(|| {
        let _ctx = pushed();
        let module = Module::load(LOOP).unwrap();
        let stream = Stream::new().unwrap();
        for (what, grid, block, times) in
            [("one thread", 1, 1, 1_000_000u32), ("64 blocks of 256 threads", 64, 256, 4_000)]
        {
            let mut rates: Vec<f64> = (0..9)
                .map(|_| {
                    let start = Instant::now();
                    // SAFETY: the kernel takes one number, and touches no memory.
                    unsafe { launch!(module.around<<<grid, block, 0, stream>>>(times)) }.unwrap();
                    stream.synchronize().unwrap();
                    5.0 * f64::from(grid * block) * f64::from(times) / start.elapsed().as_secs_f64() / 1e6
                })
                .collect();
            rates.sort_by(f64::total_cmp);
            println!(
                "{what}: median {:.1} million instructions a second, from {:.1} to {:.1}",
                rates[4], rates[0], rates[8]
            );
        }
    });
}

/// Adds one to a number in memory, as often as it is told: six instructions around, of which two use memory.
const ADD: &[u8] = b".version 7.0 .target sm_70 .address_size 64
    .visible .entry around(.param .u64 to, .param .u32 times) {
        .reg .pred %p; .reg .b64 %to; .reg .b32 %times; .reg .b32 %i; .reg .b32 %sum;
        ld.param.u64 %to, [to];
        ld.param.u32 %times, [times];
        mov.u32 %i, 0;
    again:
        ld.global.u32 %sum, [%to];
        add.s32 %sum, %sum, 1;
        st.global.u32 [%to], %sum;
        add.s32 %i, %i, 1;
        setp.lt.u32 %p, %i, %times;
        @%p bra again;
        ret;
    }";

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

#[test]
#[ignore = "started by hand, as it measures"]
fn how_fast_kernels_and_copies_use_memory() {
    assert!(is_simulated(), "this is about the simulated driver");
    run(|| {
        let _ctx = pushed();
        let (module, times) = (Module::load(ADD).unwrap(), 2_000_000u32);
        let stream = Stream::new().unwrap();
        for size in [1usize << 12, 1 << 26] {
            let buffer = Buffer::from_slice(&vec![0u32; size / 4]).unwrap();
            let _others: Vec<_> = (0..100).map(|_| Buffer::from_slice(&[0u8]).unwrap()).collect();
            let to = buffer.address();
            let rate = median(
                (0..9)
                    .map(|_| {
                        let start = Instant::now();
                        // SAFETY: the kernel uses the first number of the buffer, and nothing else does meanwhile.
                        unsafe { launch!(module.around<<<1, 1, 0, stream>>>(to, times)) }.unwrap();
                        stream.synchronize().unwrap();
                        6.0 * f64::from(times) / start.elapsed().as_secs_f64() / 1e6
                    })
                    .collect(),
            );
            println!("in {size} bytes: median {rate:.1} million instructions a second");
        }
        for size in [1usize << 12, 1 << 20, 1 << 28] {
            let mut host = vec![1u8; size];
            let buffer = Buffer::from_slice(&host).unwrap();
            let other = Buffer::from_slice(&host).unwrap();
            let rate = |what: &str, copy: &mut dyn FnMut()| {
                let seconds = median(
                    (0..9)
                        .map(|_| {
                            let start = Instant::now();
                            copy();
                            start.elapsed().as_secs_f64()
                        })
                        .collect(),
                );
                println!("{what} of {size} bytes: median {:.2} GB a second", size as f64 / seconds / 1e9);
            };
            rate("to the device", &mut || buffer.copy_from(&host).unwrap());
            rate("within the device", &mut || {
                assert_eq!(call!(cuMemcpyDtoD_v2(other.address(), buffer.address(), size)), 0)
            });
            rate("from the device", &mut || other.copy_to(&mut host).unwrap());
        }
    });
}
