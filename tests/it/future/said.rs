//! What the error of a kernel says, however it is awaited.

#![allow(unsafe_code)]

use super::block_on;
use crate::harness::{is_simulated, pushed, run, said, skip};
use crate::stream::stream;
use custack::error::{CudaError, CudaResult};
use custack::event::{Event, EventFlags};
use custack::launch;
use custack::module::Module;
use custack::stream::Stream;
use std::time::Duration;

type Way = fn(&Stream) -> CudaResult<()>;

const STORE: &[u8] = b".version 7.0 .target sm_70 .address_size 64
    .visible .entry store(.param .u64 to) {
        .reg .b64 %to;
        ld.param.u64 %to, [to];
        st.global.u64 [%to], %to;
        ret;
    }";

/// Launches a kernel that fails, in a context of its own.
fn fails(await_it: impl FnOnce(&Stream) -> CudaResult<()>) -> String {
    let _ctx = pushed();
    let (module, stream) = (Module::load_from_bytes(STORE).unwrap(), stream());
    // SAFETY: the simulated driver survives the address.
    unsafe { launch!(module.store<<<1, 1, 0, stream>>>(4096u64)) }.unwrap();
    let error = await_it(&stream).unwrap_err();
    assert_eq!(error, CudaError::IllegalAddress);
    said(error)
}

#[test]
fn the_error_of_a_kernel_names_it_however_it_is_awaited() {
    if !is_simulated() {
        let why = "the sentences are the simulated driver's";
        return skip("the_error_of_a_kernel_names_it_however_it_is_awaited", why);
    }
    run(|| {
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
            let said = fails(way);
            assert!(said.contains("store") && said.contains("0x1000"), "{name}: {said}");
        }
        let said = fails(|stream| stream.enqueue_async(|_| Ok(()))?.spinning_for(spin).wait());
        assert!(said.contains("to await work: ") && said.contains("store"), "{said}");
    });
}
