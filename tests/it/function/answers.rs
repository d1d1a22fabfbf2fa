//! What a driver says of kernels where no manual does: printed, so that it can be recorded.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "each kernel writes no more than its output has")]

use crate::harness::{pushed, run_alone};
use custack::context::CurrentContext;
use custack::context::ResourceLimit;
use custack::error::CudaResult;
use custack::function::FunctionAttribute;
use custack::launch;
use custack::memory::{CopyDestination, DeviceBuffer};
use custack::module::{JitOptions, Module};
use custack::stream::{Stream, StreamFlags};

const HEAD: &str = ".version 8.8 .target sm_90 .address_size 64\n";

/// Runs a kernel of one block in a context of its own, which an error ends.
fn words(text: &str, threads: u32, given: u32, count: usize) -> CudaResult<Vec<u32>> {
    let _context = pushed();
    let module = Module::load_from_bytes(text.as_bytes())?;
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    let mut to = DeviceBuffer::from_slice(&vec![0u32; count])?;
    let pointer = to.as_device_ptr();
    unsafe { launch!(module.k<<<1, threads, 0, stream>>>(pointer, given)) }?;
    stream.synchronize()?;
    let mut found = vec![0; count];
    to.copy_to(&mut found)?;
    Ok(found)
}

fn targets() {
    for target in [
        "sm_90",
        "sm_90a",
        "sm_100",
        "sm_100a",
        "sm_100f",
        "sm_101",
        "sm_103",
        "sm_120",
        "sm_120a",
        "sm_121",
        "sm_130",
        "compute_120",
    ] {
        for version in ["8.8", "9.0"] {
            let text = format!(
                ".version {version} .target {target} .address_size 64\n.visible .entry k() {{ ret; }}"
            );
            let _context = pushed();
            let loaded = Module::load_from_bytes(text.as_bytes());
            let has = loaded.as_ref().map(|module| module.get_function(c"k").map(|_| ()));
            println!("target {target} of {version}: {has:?}");
        }
    }
}

/// Each call has a number of bytes that its callees may change.
fn recursion(bytes: u32) -> String {
    format!(
        "{HEAD}.func (.param .b32 out) deep (.param .b32 left, .param .b64 of);
        .func (.param .b32 out) deep (.param .b32 left, .param .b64 of) {{
            .local .align 8 .b8 own[{bytes}]; .reg .b32 %r<8>; .reg .b64 %d<4>; .reg .pred %p;
            ld.param.u32 %r0, [left]; ld.param.u64 %d0, [of];
            mov.u64 %d1, own; cvta.local.u64 %d1, %d1; st.volatile.u32 [%d1], %r0;
            setp.eq.u32 %p, %r0, 0; mov.u32 %r1, 0; @%p bra END;
            sub.u32 %r2, %r0, 1;
            {{ .param .b32 a; .param .b64 b; .param .b32 c; st.param.b32 [a], %r2; st.param.b64 [b], %d1;
            call.uni (c), deep, (a, b); ld.param.b32 %r1, [c]; }}
            ld.volatile.u32 %r3, [%d1]; add.u32 %r1, %r1, %r3;
            END: st.param.b32 [out], %r1; ret;
        }}
        .visible .entry k(.param .u64 to, .param .u32 given) {{
            .reg .b32 %r<4>; .reg .b64 %d<4>; ld.param.u64 %d0, [to]; ld.param.u32 %r0, [given];
            {{ .param .b32 a; .param .b64 b; .param .b32 c; st.param.b32 [a], %r0; st.param.b64 [b], %d0;
            call.uni (c), deep, (a, b); ld.param.b32 %r1, [c]; }}
            st.global.u32 [%d0], %r1; ret;
        }}"
    )
}

fn recursions() {
    for bytes in [16, 64, 256] {
        let text = recursion(bytes);
        for depth in [1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64, 128, 256, 1000, 10_000, 1_000_000] {
            let found = words(&text, 1, depth, 1);
            println!("recursion of {bytes} bytes, {depth} deep: {found:?}");
            if found.is_err() {
                // The process has no context any more.
                return;
            }
        }
        let _context = pushed();
        let module = Module::load_from_bytes(text.as_bytes()).unwrap();
        let local = module.get_function(c"k").unwrap().get_attribute(FunctionAttribute::LocalSizeBytes);
        let stack = CurrentContext::get_resource_limit(ResourceLimit::StackSize);
        println!("recursion of {bytes} bytes: {local:?} bytes of local memory, a stack of {stack:?}");
    }
}

fn constants() {
    let text = format!(
        "{HEAD}.const .align 4 .b8 first[100];\n.const .align 4 .b8 second[36];\n.const .align 8 .u64 third = 5;
        .const .align 4 .b8 unused[1000];\n
        .func (.param .b32 out) reads () {{ .reg .b32 %r; ld.const.u32 %r, [second+4]; st.param.b32 [out], %r; ret; }}
        .visible .entry none() {{ ret; }}
        .visible .entry one(.param .u64 to) {{ .reg .b32 %r; .reg .b64 %d; ld.param.u64 %d, [to];
            ld.const.u32 %r, [first+8]; st.global.u32 [%d], %r; ret; }}
        .visible .entry two(.param .u64 to) {{ .reg .b32 %r<2>; .reg .b64 %d; ld.param.u64 %d, [to];
            ld.const.u32 %r0, [second]; st.global.u32 [%d], %r0; ld.const.u32 %r1, [third]; st.global.u32 [%d+4], %r1; ret; }}
        .visible .entry by_call(.param .u64 to) {{ .reg .b32 %r; .reg .b64 %d; ld.param.u64 %d, [to];
            {{ .param .b32 c; call.uni (c), reads, (); ld.param.b32 %r, [c]; }} st.global.u32 [%d], %r; ret; }}
        .visible .entry by_address(.param .u64 to) {{ .reg .b64 %d<2>; ld.param.u64 %d0, [to];
            mov.u64 %d1, first; cvta.const.u64 %d1, %d1; st.global.u64 [%d0], %d1; ret; }}"
    );
    let _context = pushed();
    let module = Module::load_from_bytes(text.as_bytes()).unwrap();
    for name in [c"none", c"one", c"two", c"by_call", c"by_address"] {
        let size = module.get_function(name).unwrap().get_attribute(FunctionAttribute::ConstSizeBytes);
        println!("constants of {name:?}: {size:?}");
    }
    let small = format!("{HEAD}.visible .entry alone(.param .align 16 .b8 given[1000]) {{ ret; }}");
    let module = Module::load_from_bytes(small.as_bytes()).unwrap();
    let size = module.get_function(c"alone").unwrap().get_attribute(FunctionAttribute::ConstSizeBytes);
    println!("constants of a module without any: {size:?}");
}

fn registers() {
    let each = |line: &dyn Fn(usize) -> String| (0..120).map(line).collect::<String>();
    let kernel = |name: &str, directives: &str| {
        format!(
            ".visible .entry {name}(.param .u64 to, .param .u32 given) {directives} {{ .reg .b32 %r<121>; .reg .b64 %to;
            ld.param.u64 %to, [to]; {} bar.sync 0; {} ret; }}\n",
            each(&|at| format!("ld.volatile.global.u32 %r{at}, [%to+{}];", 4 * at)),
            each(&|at| format!("st.volatile.global.u32 [%to+{}], %r{};", 4 * at, 119 - at)),
        )
    };
    let text = format!(
        "{HEAD}{}{}{}",
        kernel("k", ""),
        kernel("bounded", ".maxnreg 48"),
        kernel("sized", ".maxntid 512")
    );
    for most in [0, 1, 8, 15, 16, 17, 20, 24, 32, 40, 64, 96, 128, 255, 256, 1000] {
        for overrides in [false, true] {
            let _context = pushed();
            let mut options = JitOptions::new();
            if most > 0 {
                options = options.max_registers(most);
            }
            if overrides {
                options = options.override_directives(true);
            }
            let loaded = Module::load_with_options(text.as_bytes(), &options);
            let (module, _) = match loaded {
                Ok(loaded) => loaded,
                Err(error) => {
                    println!("at most {most} registers, {overrides}: {error:?}");
                    continue;
                }
            };
            for name in [c"k", c"bounded", c"sized"] {
                let function = module.get_function(name).unwrap();
                let of = |attribute| function.get_attribute(attribute).unwrap();
                println!(
                    "at most {most} registers, {overrides}, {name:?}: {} registers, {} threads, {} local",
                    of(FunctionAttribute::NumRegisters),
                    of(FunctionAttribute::MaxThreadsPerBlock),
                    of(FunctionAttribute::LocalSizeBytes)
                );
            }
        }
    }
}

/// Memory of a thread's stack: where it is, and what remains of it.
fn stacks() {
    let kernel = |code: &str| {
        format!(
            "{HEAD}.visible .entry k(.param .u64 to, .param .u32 given) {{
            .reg .b32 %r<8>; .reg .b64 %d<16>; .reg .pred %p; ld.param.u64 %d0, [to]; ld.param.u32 %r0, [given]; cvt.u64.u32 %d1, %r0;
            {code} ret; }}"
        )
    };
    let addresses = kernel(
        "stacksave.u64 %d2; alloca.u64 %d3, %d1, 16; alloca.u64 %d4, %d1; alloca.u64 %d5, 100, 128; alloca.u64 %d6, %d1, 8;
        stacksave.u64 %d7; stackrestore.u64 %d2; alloca.u64 %d8, %d1, 16; stacksave.u64 %d9;
        st.global.u64 [%d0], %d2; st.global.u64 [%d0+8], %d3; st.global.u64 [%d0+16], %d4; st.global.u64 [%d0+24], %d5;
        st.global.u64 [%d0+32], %d6; st.global.u64 [%d0+40], %d7; st.global.u64 [%d0+48], %d8; st.global.u64 [%d0+56], %d9;",
    );
    for given in [0, 1, 8, 16, 24, 100] {
        println!("stack of {given} bytes: {:x?}", words(&addresses, 1, given, 16));
    }
    let kept = kernel(
        "alloca.u64 %d2, %d1, 16; st.local.u32 [%d2], 77; stacksave.u64 %d4; alloca.u64 %d3, %d1, 16; st.local.u32 [%d3], 88;
        stackrestore.u64 %d4; alloca.u64 %d5, %d1, 16; st.local.u32 [%d5], 99; ld.local.u32 %r1, [%d2]; ld.local.u32 %r2, [%d3];
        st.global.u32 [%d0], %r1; st.global.u32 [%d0+4], %r2; cvta.local.u64 %d6, %d2; ld.u32 %r3, [%d6]; st.global.u32 [%d0+8], %r3;",
    );
    println!("values on the stack: {:?}", words(&kept, 1, 64, 4));
    let looped = kernel(
        "mov.u32 %r1, 0; AGAIN: stacksave.u64 %d3; alloca.u64 %d2, 256, 16; st.local.u32 [%d2], %r1; stackrestore.u64 %d3;
        add.u32 %r1, %r1, 1; setp.lt.u32 %p, %r1, %r0; @%p bra AGAIN; st.global.u32 [%d0], %r1;",
    );
    println!("stack restored in a loop: {:?}", words(&looped, 1, 1000, 1));
    let narrow =
        kernel("stacksave.u32 %r2; alloca.u32 %r3, %r0, 16; stackrestore.u32 %r2; st.global.u32 [%d0], %r3;");
    println!("stack of 32 bits: {:x?}", words(&narrow, 1, 16, 1));
    let much = kernel(
        "alloca.u64 %d2, %d1, 16; st.local.u32 [%d2], 77; ld.local.u32 %r1, [%d2]; st.global.u32 [%d0], %r1;",
    );
    for given in [512, 1000, 1024, 1040, 2048, 4096, 65_536, 500_000, 1 << 20, 1 << 30] {
        let found = words(&much, 1, given, 1);
        println!("stack with {given} bytes: {found:?}");
        if found.is_err() {
            return;
        }
    }
}

#[test]
#[ignore = "prints what a driver says: CUSTACK_PART names what of, as an error ends the process's contexts"]
fn print() {
    run_alone(|| {
        let part = std::env::var("CUSTACK_PART").unwrap_or_default();
        match &part[..] {
            "targets" => targets(),
            "constants" => constants(),
            "registers" => registers(),
            "stacks" => stacks(),
            "recursions" => recursions(),
            _ => println!("CUSTACK_PART is targets, constants, registers, stacks or recursions"),
        }
    });
}
