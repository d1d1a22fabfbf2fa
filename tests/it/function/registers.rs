//! The registers of kernels, and which blocks they allow. How many a kernel has is the compiler's business: the tests rely
//! on what no compiler can do without.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "each kernel writes no more than its output has")]

use crate::harness::{pushed, run};
use custack::error::CudaError;
use custack::function::FunctionAttribute::{MaxThreadsPerBlock, NumRegisters};
use custack::launch;
use custack::memory::{CopyDestination, DeviceBuffer};
use custack::module::{JitOptions, Module};
use custack::stream::{Stream, StreamFlags};

/// Values that are all in use at the barrier.
const VALUES: usize = 120;

/// A kernel in which each thread has this many values at once: it reads them, and stores them in another order.
fn kernel(name: &str, directives: &str, values: usize) -> String {
    let each = |line: &dyn Fn(usize) -> String| (0..values).map(line).collect::<String>();
    format!(
        ".visible .entry {name}(.param .u64 to) {directives} {{ .reg .b32 %r<{}>; .reg .b64 %to;
         ld.param.u64 %to, [to]; {} bar.sync 0; {} ret; }}",
        values + 1,
        each(&|at| format!("ld.volatile.global.u32 %r{at}, [%to+{}];", 4 * at)),
        each(&|at| format!("st.volatile.global.u32 [%to+{}], %r{};", 4 * at, values - 1 - at)),
    )
}

fn module() -> Module {
    let kernels = [
        kernel("few", "", 2),
        kernel("many", "", VALUES),
        kernel("bounded", ".maxnreg 32", VALUES),
        kernel("for_1024", ".maxntid 1024", VALUES),
        kernel("for_4_of_256", ".maxntid 256 .minnctapersm 4", VALUES),
        kernel("of_1024", ".reqntid 32, 32", VALUES),
    ];
    let text = format!(".version 7.0 .target sm_70 .address_size 64 {}", kernels.concat());
    Module::load_from_bytes(text.as_bytes()).unwrap()
}

#[test]
fn an_option_of_the_compiler_bounds_the_registers_of_kernels_that_say_nothing_of_them() {
    run(|| {
        let _ctx = pushed();
        let kernels = [
            kernel("many", "", VALUES),
            kernel("bounded", ".maxnreg 48", VALUES),
            kernel("sized", ".maxntid 512", VALUES),
        ];
        let text = format!(".version 7.0 .target sm_70 .address_size 64 {}", kernels.concat());
        let registers = |options: JitOptions| {
            let (module, _) = Module::load_with_options(text.as_bytes(), &options).unwrap();
            [c"many", c"bounded", c"sized"].map(|name| {
                let function = module.get_function(name).unwrap();
                let of = |attribute| function.get_attribute(attribute).unwrap();
                (of(NumRegisters), of(MaxThreadsPerBlock))
            })
        };
        let plain = registers(JitOptions::new());
        assert!(plain[0].0 > 100 && plain[0].1 <= 512, "{plain:?}");
        let bounded = registers(JitOptions::new().max_registers(40));
        assert_eq!(bounded[0], (40, 1024));
        assert_eq!(bounded[1..], plain[1..]);
        // A compiler needs some.
        assert_eq!(registers(JitOptions::new().max_registers(1))[0], (24, 1024));
        let all = registers(JitOptions::new().max_registers(64).override_directives(true));
        assert_eq!(all, [(64, 1024), (64, 1024), (64, 512)]);
    });
}

#[test]
fn registers_bound_how_many_threads_a_block_has() {
    run(|| {
        let _ctx = pushed();
        let (module, stream) = (module(), Stream::new(StreamFlags::NON_BLOCKING, None).unwrap());
        let input: Vec<u32> = (0..VALUES as u32).collect();
        for (name, allowed) in [
            (c"few", 64),
            (c"many", 255),
            (c"bounded", 32),
            (c"for_1024", 64),
            (c"for_4_of_256", 64),
            (c"of_1024", 64),
        ] {
            let function = module.get_function(name).unwrap();
            let registers = function.get_attribute(NumRegisters).unwrap();
            let most = function.get_attribute(MaxThreadsPerBlock).unwrap();
            assert!((1..=allowed).contains(&registers), "{name:?}: {registers}");
            assert!(registers * most <= 65_536, "{name:?}: {registers} of {most} threads");
            if name == c"many" {
                assert!(registers >= VALUES as i32 && most <= 512, "{registers} of {most} threads");
            }
            let function = &function;
            let mut to = DeviceBuffer::from_slice(&input).unwrap();
            let pointer = to.as_device_ptr();
            if name == c"of_1024" {
                unsafe { launch!(function<<<1, (32, 32), 0, stream>>>(pointer)) }.unwrap();
            } else {
                unsafe { launch!(function<<<1, most as u32, 0, stream>>>(pointer)) }.unwrap();
            }
            stream.synchronize().unwrap();
            if most < 1024 && name == c"many" {
                let more = most as u32 + 32;
                let refused = unsafe { launch!(function<<<1, more, 0, stream>>>(pointer)) };
                assert_eq!(refused, Err(CudaError::LaunchOutOfResources), "{name:?}: {more}");
                assert_eq!(function.max_active_blocks_per_multiprocessor(more, 0), Ok(0), "{name:?}");
            }
            // One thread turns the values around.
            to.copy_from(&input[..]).unwrap();
            if name == c"many" {
                unsafe { launch!(function<<<1, 1, 0, stream>>>(pointer)) }.unwrap();
                stream.synchronize().unwrap();
                let mut left = vec![0; VALUES];
                to.copy_to(&mut left[..]).unwrap();
                assert!(left.iter().rev().eq(&input), "{left:?}");
            }
        }
    });
}

#[test]
fn registers_bound_how_many_blocks_run_at_once() {
    run(|| {
        let _ctx = pushed();
        let module = module();
        for name in [c"few", c"many", c"bounded", c"for_1024"] {
            let function = module.get_function(name).unwrap();
            let registers = function.get_attribute(NumRegisters).unwrap() as u32;
            for threads in [32, 64, 128, 256, 512] {
                let blocks = function.max_active_blocks_per_multiprocessor(threads, 0).unwrap();
                assert!(blocks * threads * registers <= 65_536, "{name:?}: {blocks} of {threads}");
                if registers <= 32 {
                    assert_eq!(blocks, (2048 / threads).min(32), "{name:?} of {threads}");
                } else {
                    // Whole warps of each quarter of a multiprocessor.
                    let warps = 16_384 / (32 * registers.next_multiple_of(8)) * 4;
                    assert_eq!(
                        blocks,
                        (warps * 32 / threads).min(2048 / threads).min(32),
                        "{name:?} of {threads}"
                    );
                }
            }
        }
    });
}

#[test]
fn products_of_matrices_that_follow_each_other_have_their_registers_one_after_the_other() {
    // Rounds that each have 32 registers, of which no value is in use in two of them.
    let names = |name: &str| (0..8).map(|at| format!("%{name}{at}")).collect::<Vec<_>>().join(", ");
    let rounds: String = (0..12)
        .map(|round| {
            let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| names(&format!("{name}{round}_")));
            format!(
                "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {{{a}}}, [%s];
                 wmma.load.b.sync.aligned.col.m16n16k16.shared.f16 {{{b}}}, [%s];
                 wmma.load.c.sync.aligned.row.m16n16k16.shared.f32 {{{c}}}, [%s];
                 wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {{{d}}}, {{{a}}}, {{{b}}}, {{{c}}};
                 wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%to], {{{d}}};"
            )
        })
        .collect();
    let declared: String = (0..12)
        .map(|round| {
            format!(".reg .b32 %a{round}_<8>, %b{round}_<8>; .reg .f32 %c{round}_<8>, %d{round}_<8>;")
        })
        .collect();
    let text = format!(
        ".version 7.0 .target sm_70 .address_size 64 .shared .align 128 .b8 zeros[1024];
         .visible .entry k(.param .u64 to) {{ {declared} .reg .b64 %to, %s, %own; .reg .b32 %t;
         ld.param.u64 %to, [to]; mov.u64 %s, zeros; mov.u32 %t, %tid.x; and.b32 %t, %t, 255; mad.wide.u32 %own, %t, 4, %s;
         st.shared.u32 [%own], 0; bar.sync 0; {rounds} ret; }}"
    );
    run(|| {
        let _ctx = pushed();
        let module = Module::load_from_bytes(text.as_bytes()).unwrap();
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
        let mut to = DeviceBuffer::from_slice(&[7.0f32; 256]).unwrap();
        let pointer = to.as_device_ptr();
        unsafe { launch!(module.k<<<1, 512, 0, stream>>>(pointer)) }.unwrap();
        stream.synchronize().unwrap();
        let mut left = [7.0; 256];
        to.copy_to(&mut left[..]).unwrap();
        assert_eq!(left, [0.0; 256]);
    });
}
