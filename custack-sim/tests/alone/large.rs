//! What the simulated driver makes of more memory than the machine has. Others would find none left.

#![allow(clippy::undocumented_unsafe_blocks, reason = "each kernel writes no more than its memory has")]

use crate::gpu::{Buffer, Module, Stream, free_memory, pushed, status};
use crate::harness::run_simulated;

/// A kernel that stores a number.
const STORE: &[u8] = b".version 7.0 .target sm_70 .address_size 64
    .visible .entry store(.param .u64 to, .param .u64 value) {
        .reg .b64 %to; .reg .b64 %value;
        ld.param.u64 %to, [to];
        ld.param.u64 %value, [value];
        st.global.u64 [%to], %value;
        ret;
    }";

#[test]
fn fifty_gigabytes_take_as_much_of_the_host_as_is_written() {
    run_simulated("fifty_gigabytes_take_as_much_of_the_host_as_is_written", || {
        let _ctx = pushed();
        let (module, stream) = (Module::load(STORE).unwrap(), Stream::new().unwrap());
        let size = 50u64 << 30;
        let memory = Buffer::<u8>::uninitialized(size as usize).unwrap();
        let at = memory.address();
        // Zeros are not stored where nothing was.
        assert_eq!(call!(cuMemsetD8_v2(at, 0, size as usize)), 0);
        // The stream does not wait for it.
        assert_eq!(call!(cuCtxSynchronize()), 0);
        let places: Vec<u64> = (0..8).map(|part| part * (size / 8)).chain([size - 8]).collect();
        for place in &places {
            unsafe { launch!(module.store<<<1, 1, 0, stream>>>(at + place, *place + 1)) }.unwrap();
        }
        stream.synchronize().unwrap();
        for place in &places {
            let mut back = [9u64; 2];
            let from = at + place.saturating_sub(8);
            assert_eq!(call!(cuMemcpyDtoH_v2(back.as_mut_ptr().cast(), from, 16)), 0);
            assert_eq!(back, if *place == 0 { [1, 0] } else { [0, place + 1] });
        }
    });
}

#[test]
fn variables_of_many_gigabytes_are_used_where_they_are_written() {
    run_simulated("variables_of_many_gigabytes_are_used_where_they_are_written", || {
        let _ctx = pushed();
        let text = |what: &str, count: usize| -> String {
            let variables =
                (0..count).map(|at| format!(".visible .global {what} .u32 v{at}[1073741824] = {{7}};"));
            [".version 7.0 .target sm_70 .address_size 64 ".to_owned()].into_iter().chain(variables).collect()
        };
        let before = free_memory();
        for what in ["", ".attribute(.managed)"] {
            let refused = Module::load(text(what, 40).as_bytes()).unwrap_err();
            assert_eq!(refused, status::OUT_OF_MEMORY, "{what}");
        }
        let module = Module::load(text("", 3).as_bytes()).unwrap();
        let (at, size) = module.get_global(c"v1").unwrap();
        assert_eq!(size, 4 << 30);
        let (kernels, stream) = (Module::load(STORE).unwrap(), Stream::new().unwrap());
        unsafe { launch!(kernels.store<<<1, 1, 0, stream>>>(at + (4 << 30) - 8, 3u64 << 32 | 2)) }.unwrap();
        stream.synchronize().unwrap();
        for (from, expected) in [(0, [7, 0]), ((4 << 30) - 8, [2, 3])] {
            let mut back = [9u32; 2];
            assert_eq!(call!(cuMemcpyDtoH_v2(back.as_mut_ptr().cast(), at + from, 8)), 0);
            assert_eq!(back, expected);
        }
        drop(module);
        assert_eq!(free_memory(), before);
    });
}

#[test]
fn large_variables_take_device_memory_and_no_host_memory() {
    run_simulated("large_variables_take_device_memory_and_no_host_memory", || {
        let _ctx = pushed();
        let before = free_memory();
        let large = |count: usize| -> String {
            let variables =
                (0..count).map(|at| format!(".visible .global .u32 v{at}[1073741824] = {{7, 8}};"));
            [".version 7.0 .target sm_70 .address_size 64 ".to_owned()].into_iter().chain(variables).collect()
        };
        assert_eq!(Module::load(large(40)).err(), Some(status::OUT_OF_MEMORY));
        assert_eq!(free_memory(), before, "what was taken of the first ones came back");
        let module = Module::load(format!("{}.visible .global .align 2 .u16 small[2];", large(20))).unwrap();
        assert_eq!(free_memory(), before - 20 * (4 << 30) - 4);
        let mut begin = [1u16; 2];
        let (at, size) = module.get_global(c"small").unwrap();
        assert_eq!(call!(cuMemcpyDtoH_v2(begin.as_mut_ptr().cast(), at, size)), 0);
        assert_eq!(begin, [0, 0]);
        drop(module);
        assert_eq!(free_memory(), before);
    });
}
