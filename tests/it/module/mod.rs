//! Modules and their variables.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

mod damaged;
#[cfg(feature = "library")]
mod damaged_code;
mod image;
#[cfg(feature = "library")]
mod images;
#[cfg(feature = "library")]
mod jit;
#[cfg(feature = "library")]
mod linker;
mod raw;

use crate::harness::{is_simulated, pushed, run};
use custack::error::CudaError;
use custack::function::FunctionAttribute;
use custack::launch;
use custack::memory::CopyDestination;
use custack::module::Module;
use custack::sim;
use custack::stream::{Stream, StreamFlags};
use std::ffi::CString;
use std::num::NonZeroU32;

fn module() -> Module {
    Module::load_from_bytes(KERNELS.as_bytes()).unwrap()
}

fn stream() -> Stream {
    Stream::new(StreamFlags::NON_BLOCKING, None).unwrap()
}

pub(crate) const KERNELS: &str = include_str!("kernels.ptx");

#[test]
fn modules_come_from_files_texts_and_bytes() {
    run(|| {
        assert_eq!(Module::load_from_bytes(KERNELS.as_bytes()).unwrap_err(), CudaError::InvalidContext);
        let ctx = pushed();
        let file = std::env::temp_dir().join(format!("custack-{}.ptx", std::process::id()));
        std::fs::write(&file, KERNELS).unwrap();
        let name = CString::new(file.to_str().unwrap()).unwrap();
        let text = CString::new(KERNELS).unwrap();
        let modules = [
            Module::load_from_file(&name),
            Module::load_from_string(&text),
            Module::load_from_bytes(KERNELS.as_bytes()),
            Module::load_from_bytes(text.as_bytes_with_nul()),
        ];
        std::fs::remove_file(&file).unwrap();
        for module in modules {
            let module = module.unwrap();
            module.get_function(c"sum").unwrap();
            assert_eq!(module.context(), &ctx.get_unowned());
            assert!(Module::drop(module).is_ok());
        }
    });
}

#[test]
fn what_is_no_module_is_refused() {
    run(|| {
        let _ctx = pushed();
        assert_eq!(Module::load_from_file(c"/nowhere/at.all").unwrap_err(), CudaError::FileNotFound);
        for garbage in [&b""[..], b"hello", &[1, 2, 3], b"\0"] {
            assert_eq!(Module::load_from_bytes(garbage).unwrap_err(), CudaError::InvalidImage, "{garbage:?}");
        }
        let broken = KERNELS.replace("mad.lo.s32 %r5, %r2, %r3, %r4;", "mad.lo.s32 %r5, %r2;");
        assert_eq!(Module::load_from_bytes(broken.as_bytes()).unwrap_err(), CudaError::InvalidPtx);
        let newer = KERNELS.replace(".version 7.0", ".version 19.0");
        assert_eq!(Module::load_from_bytes(newer.as_bytes()).unwrap_err(), CudaError::UnsupportedPtxVersion);
        // Machine code that ends before it says.
        for cut in [&b"\x7fELF"[..], &[0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 255, 0, 0, 0, 0, 0, 0, 0]] {
            assert_eq!(Module::load_from_bytes(cut).unwrap_err(), CudaError::InvalidImage);
        }
    });
}

#[test]
fn an_instruction_that_is_not_simulated_is_named() {
    if !is_simulated() {
        return crate::harness::skip("an_instruction_that_is_not_simulated_is_named", "a GPU knows them all");
    }
    run(|| {
        let _ctx = pushed();
        let text = KERNELS.replace("add.rn.f32 %f3, %f1, %f2;", "wgmma.fence.sync.aligned;");
        let module = Module::load_from_bytes(text.as_bytes()).unwrap();
        assert_eq!(module.get_function(c"sum").unwrap_err(), CudaError::NotSupported);
        let why = sim::log().pop().unwrap();
        assert!(why.contains("wgmma.fence") && why.contains("kernel sum"), "{why}");
    });
}

#[test]
fn variables_begin_as_they_say_and_can_be_written() {
    run(|| {
        let _ctx = pushed();
        let module = module();
        let mut answer = module.get_global::<u32>(c"answer").unwrap();
        let mut value = 0;
        answer.copy_to(&mut value).unwrap();
        assert_eq!(value, 42);
        answer.copy_from(&43).unwrap();
        answer.copy_to(&mut value).unwrap();
        assert_eq!(value, 43);
        // It can be written as a type that it cannot be read as.
        module.get_global::<NonZeroU32>(c"answer").unwrap().copy_from(&NonZeroU32::MAX).unwrap();
        module.get_global::<char>(c"answer").unwrap().copy_from(&'x').unwrap();
        answer.copy_to(&mut value).unwrap();
        assert_eq!(value, u32::from('x'));
        let mut table = [0u32; 4];
        module.get_global::<[u32; 4]>(c"table").unwrap().copy_to(&mut table).unwrap();
        assert_eq!(table, [1, 2, 3, 4]);
        assert_eq!(module.get_global::<u32>(c"nothing").unwrap_err(), CudaError::NotFound);
        assert_eq!(module.get_global::<u64>(c"answer").unwrap_err(), CudaError::InvalidValue);
        assert_eq!(module.get_function(c"nothing").unwrap_err(), CudaError::NotFound);
    });
}

#[test]
fn a_module_that_outlives_its_context_is_inert() {
    run(|| {
        let ctx = pushed();
        let (module, stream) = (module(), stream());
        let function = module.get_function(c"trapped").unwrap();
        drop(ctx);
        assert_eq!(unsafe { launch!(function<<<1, 1, 0, stream>>>()) }, Err(CudaError::ContextIsDestroyed));
        assert_eq!(module.get_function(c"sum").unwrap_err(), CudaError::ContextIsDestroyed);
        assert_eq!(
            function.get_attribute(FunctionAttribute::NumRegisters),
            Err(CudaError::ContextIsDestroyed)
        );
        assert!(Module::drop(module).is_ok());
    });
}

/// A module with this kernel, whose body begins on line 5.
fn with_body(body: &str) -> String {
    format!(
        ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 p) {{\n{body}\nret;\n}}\n"
    )
}

#[test]
fn ptx_that_does_not_compile_names_its_line_and_what_is_wrong() {
    run(|| {
        let _ctx = pushed();
        let cases = [
            (with_body(".reg .b32 %r<3>;\nadd.u32 %r1, %r7, 2;"), "line 6", "%r7"),
            (
                with_body("/* a\n comment */ .reg .b32 %r<3>;\n// another\nadd.u32 %r1, %r9, 2;"),
                "line 8",
                "%r9",
            ),
            (with_body(".reg .b32 %r<3>;\n.loc 1 2 3\nadd.u32 %r1, %r8, 2;"), "line 7", "%r8"),
        ];
        for (text, line, what) in cases {
            let error = Module::load_from_bytes(text.as_bytes()).unwrap_err();
            assert_eq!(error, CudaError::InvalidPtx, "{text}");
            let said = crate::harness::said(error);
            assert!(said.contains(line) && said.contains(what) && !said.contains("aborted"), "{said}");
        }
    });
}

#[test]
fn what_the_interpreter_lacks_is_said_to_be_its_lack() {
    if !is_simulated() {
        return crate::harness::skip(
            "what_the_interpreter_lacks_is_said_to_be_its_lack",
            "the driver is real",
        );
    }
    run(|| {
        let _ctx = pushed();
        let text = with_body(".reg .b32 %r<3>;\nwgmma.fence.sync.aligned;");
        let module = Module::load_from_bytes(text.as_bytes()).unwrap();
        let error = module.get_function(c"k").unwrap_err();
        assert_eq!(error, CudaError::NotSupported);
        let said = crate::harness::said(error);
        assert!(said.contains("line 6") && said.contains("wgmma.fence.sync.aligned"), "{said}");
        assert!(said.contains("the simulated driver does not know") && !said.contains("system"), "{said}");
    });
}

#[test]
fn a_variable_that_is_not_found_or_does_not_fit_is_named() {
    run(|| {
        let _ctx = pushed();
        let module = module();
        let error = module.get_global::<u32>(c"nowhere").unwrap_err();
        assert!(
            error == CudaError::NotFound && crate::harness::said(error).contains("variable \"nowhere\""),
            "{error}"
        );
        let error = module.get_function(c"nobody").unwrap_err();
        assert!(
            error == CudaError::NotFound && crate::harness::said(error).contains("kernel \"nobody\""),
            "{error}"
        );
    });
}

#[test]
fn a_file_that_does_not_compile_is_named() {
    run(|| {
        let _ctx = pushed();
        let file = std::env::temp_dir().join(format!("custack-bad-{}.ptx", std::process::id()));
        std::fs::write(&file, with_body(".reg .b32 %r<3>;\nadd.u32 %r1, %r7, 2;")).unwrap();
        let error = Module::load_from_file(&CString::new(file.to_str().unwrap()).unwrap()).unwrap_err();
        std::fs::remove_file(&file).unwrap();
        let said = crate::harness::said(error);
        assert!(said.contains(&format!("to load {}: line 6: ", file.display())), "{said}");
    });
}

#[test]
fn what_only_looks_like_a_comment_or_a_debuggers_line_is_read() {
    run(|| {
        let _ctx = pushed();
        let texts = [
            with_body(".local .align 4 .b8 depot[8];\n.reg .b64 %r<3>;\nmov.u64 %r1, depot;"),
            with_body(".reg .b64 %r<3>;\n.pragma \"nounroll\"; // \"/*\n/* \" // */ mov.u64 %r1, 1;"),
        ];
        for text in texts {
            Module::load_from_bytes(text.as_bytes()).unwrap();
        }
    });
}

#[test]
fn whatever_is_wrong_with_ptx_is_said_with_its_line() {
    if !is_simulated() {
        return crate::harness::skip(
            "whatever_is_wrong_with_ptx_is_said_with_its_line",
            "its words are the simulated driver's",
        );
    }
    run(|| {
        let _ctx = pushed();
        let cases = [
            (with_body(".reg .b32 %r<3>;\nmov.u32 %r1, 0xZZ;"), "line 6: 0xZZ is not a number"),
            (with_body(".reg .b32 %r<3>;\n/* no end"), "line 6: a comment does not end"),
            (with_body("\"no end"), "line 5: a text does not end"),
            (with_body("mov.u32 \u{e9}, 0;"), "line 5: `é` is not a character of PTX"),
            (".version 8\n".to_owned(), "line 1: a version is a number with a fraction, such as 8.0"),
            (".version 9.1\n".to_owned(), "line 1: PTX 9.1 is newer than 9.0"),
        ];
        for (text, said) in cases {
            let error = Module::load_from_bytes(text.as_bytes()).unwrap_err();
            assert!(
                error != CudaError::InvalidImage && crate::harness::said(error).contains(said),
                "{error}"
            );
        }
        assert!(sim::log().iter().all(|line| !line.contains("parameter")), "{:?}", sim::log());
    });
}
