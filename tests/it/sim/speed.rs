//! How fast the simulated driver runs kernels: the figures of the README; `tests/README.md` has the commands.

#![allow(unsafe_code)]

use crate::harness::{is_simulated, pushed, run};
use custack::launch;
use custack::module::Module;
use custack::stream::{Stream, StreamFlags};
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
        let (module, times) = (Module::load_from_bytes(LOOP).unwrap(), 4_000_000u32);
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
        let mut rates: Vec<f64> = (0..9)
            .map(|_| {
                let start = Instant::now();
                // SAFETY: the kernel takes one number, and touches no memory.
                unsafe { launch!(module.around<<<1, 1, 0, stream>>>(times)) }.unwrap();
                stream.synchronize().unwrap();
                5.0 * f64::from(times) / start.elapsed().as_secs_f64() / 1e6
            })
            .collect();
        rates.sort_by(f64::total_cmp);
        println!(
            "median {:.1} million instructions a second, from {:.1} to {:.1}",
            rates[4], rates[0], rates[8]
        );
    });
}
