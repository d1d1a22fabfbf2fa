//! Linking.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::harness::{is_simulated, parked, pushed, run, run_alone};
use custack::driver::instrument;
use custack::error::CudaError;
use custack::launch;
use custack::library::Library;
use custack::memory::{CopyDestination, DeviceBuffer};
use custack::module::{JitOptions, LinkInput, Linker, Module};
use custack::sim;
use custack::stream::{Stream, StreamFlags};
use static_assertions::assert_impl_all;
use std::ffi::CString;

assert_impl_all!(Linker: Send, Sync);

const HEAD: &str = ".version 7.0\n.target sm_70\n.address_size 64\n";

fn variable() -> String {
    format!("{HEAD}.visible .global .u32 given = 5;\n.visible .entry one() {{ ret; }}\n")
}

fn kernel() -> String {
    format!(
        "{HEAD}.extern .global .u32 given;
        .visible .entry reads(.param .u64 to) {{
            .reg .b32 %r<2>;
            .reg .b64 %rd<2>;
            ld.param.u64 %rd1, [to];
            cvta.to.global.u64 %rd1, %rd1;
            ld.global.u32 %r1, [given];
            st.global.u32 [%rd1], %r1;
            ret;
        }}\n"
    )
}

fn linker() -> Linker {
    Linker::new(&JitOptions::new().verbose(true)).unwrap()
}

/// Links these, and gives what came of it.
fn link(texts: &[&str]) -> Result<Vec<u8>, CudaError> {
    let mut linker = linker();
    for (at, text) in texts.iter().enumerate() {
        let name = CString::new(format!("text {at}")).unwrap();
        linker.add(LinkInput::Ptx, text.as_bytes(), &name)?;
    }
    linker.complete().map(|linked| linked.0).map_err(|refused| refused.error)
}

#[test]
fn what_one_text_declares_another_defines() {
    run(|| {
        let _ctx = pushed();
        let file = std::env::temp_dir().join(format!("custack-linked-{}.ptx", std::process::id()));
        std::fs::write(&file, kernel()).unwrap();
        let mut linker = linker();
        linker.add(LinkInput::Ptx, variable().as_bytes(), c"variable").unwrap();
        linker.add_file(LinkInput::Ptx, &file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let (image, log) = linker.complete().unwrap();
        assert!(log.error.is_empty(), "{log:?}");
        let module = Module::load_from_bytes(&image).unwrap();
        module.get_function(c"one").unwrap();
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
        let mut number = DeviceBuffer::from_slice(&[0u32]).unwrap();
        unsafe { launch!(module.reads<<<1, 1, 0, stream>>>(number.as_device_ptr())) }.unwrap();
        stream.synchronize().unwrap();
        let mut back = [0];
        number.copy_to(&mut back).unwrap();
        assert_eq!(back, [5]);
        let library = Library::load(&image, &JitOptions::new()).unwrap();
        library.kernel(c"reads").unwrap();
    });
}

#[test]
fn what_cannot_be_linked_says_what_is_wrong() {
    run(|| {
        let _ctx = pushed();
        let twice = link(&[&variable(), &variable()]).unwrap_err();
        assert!(twice == CudaError::InvalidSouce && crate::harness::said(twice).contains("'one'"), "{twice}");
        let nowhere = link(&[&kernel()]).unwrap_err();
        let answers = [CudaError::UnknownError, CudaError::InvalidSouce];
        assert!(answers.contains(&nowhere) && crate::harness::said(nowhere).contains("'given'"), "{nowhere}");
        let wrong = format!("{HEAD}.visible .entry k() {{ bra nowhere; }}");
        let wrong = link(&[&variable(), &wrong]).unwrap_err();
        assert!(wrong == CudaError::InvalidPtx && crate::harness::said(wrong).contains("text 1"), "{wrong}");
        for garbage in ["hello", ""] {
            assert_eq!(link(&[garbage]).unwrap_err(), CudaError::InvalidImage, "{garbage:?}");
        }
        for kind in [LinkInput::Cubin, LinkInput::Fatbin] {
            let mut linker = linker();
            for data in [&b"\x7fELF"[..], &[0x50, 0xed, 0x55, 0xba, 1], b"hello", b""] {
                let refused = linker.add(kind, data, c"no code").unwrap_err();
                assert!(
                    refused == CudaError::InvalidImage && crate::harness::said(refused).contains("no code")
                );
            }
            linker.add(LinkInput::Ptx, variable().as_bytes(), c"good").unwrap();
        }
        assert_eq!(linker().add(LinkInput::Object, b"", c"empty"), Err(CudaError::InvalidImage));
        let missing = linker().add_file(LinkInput::Ptx, "/nowhere/at.all").unwrap_err();
        assert!(
            missing == CudaError::FileNotFound && crate::harness::said(missing).contains("/nowhere/at.all")
        );
        assert_eq!(linker().add_file(LinkInput::Ptx, "a\0b"), Err(CudaError::InvalidValue));
    });
}

#[test]
fn what_cannot_be_checked_is_linked_by_an_unsafe_function_alone() {
    run(|| {
        let _ctx = pushed();
        let mut linker = linker();
        for kind in [LinkInput::Object, LinkInput::Library] {
            for data in [&b"\x7fELF\x02\x01\x01 an object"[..], b"!<arch>\n", b"garbage"] {
                let (refused, calls) = instrument::during(|| linker.add(kind, data, c"of the host"));
                let refused = refused.unwrap_err();
                assert_eq!((refused, calls.total()), (CudaError::InvalidImage, 0), "{kind:?}");
                assert!(crate::harness::said(refused).contains("add_unchecked"), "{refused}");
            }
        }
        let text = CString::new(variable()).unwrap();
        unsafe { linker.add_unchecked(LinkInput::Ptx, text.as_bytes_with_nul(), c"variable") }.unwrap();
        assert!(linker.complete().is_ok());
    });
}

#[test]
fn a_part_of_a_file_is_refused_as_a_part_of_the_bytes_is() {
    const FATBIN: &[u8] = include_bytes!("images/several.fatbin");
    const CUBIN: &[u8] = include_bytes!("images/relocatable.cubin");
    run(|| {
        let _ctx = pushed();
        let file = std::env::temp_dir().join(format!("custack-part-{}", std::process::id()));
        let mut linker = linker();
        for (kind, whole) in [(LinkInput::Fatbin, FATBIN), (LinkInput::Cubin, CUBIN)] {
            for length in [0, 4, 16, 64, whole.len() / 2, whole.len() - 1] {
                std::fs::write(&file, &whole[..length]).unwrap();
                let (refused, calls) = instrument::during(|| linker.add_file(kind, &file));
                assert_eq!(
                    (refused, calls.total()),
                    (Err(CudaError::InvalidImage), 0),
                    "{length} of {kind:?}"
                );
            }
        }
        std::fs::remove_file(&file).unwrap();
    });
}

#[test]
fn a_linker_works_whatever_is_current_and_ends_with_its_context() {
    run(|| {
        assert_eq!(Linker::new(&JitOptions::new()).unwrap_err(), CudaError::InvalidContext);
        let context = parked();
        let made = context.scoped(|_| Ok((linker(), linker()))).unwrap();
        let (mut works, mut ends) = made;
        let _other = pushed();
        works.add(LinkInput::Ptx, variable().as_bytes(), c"variable").unwrap();
        assert_eq!(works.context(), &context.get_unowned());
        assert!(!works.complete().unwrap().0.is_empty());
        drop(context);
        let gone = Err(CudaError::ContextIsDestroyed);
        assert_eq!(ends.add(LinkInput::Ptx, variable().as_bytes(), c"variable"), gone);
        assert_eq!(ends.complete().unwrap_err().error, CudaError::ContextIsDestroyed);
    });
}

#[test]
fn a_linker_dropped_in_a_host_function_is_destroyed_later() {
    run_alone(|| {
        let _ctx = pushed();
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
        let objects = || if is_simulated() { sim::objects() } else { 0 };
        let before = objects();
        let mut linker = linker();
        stream
            .add_callback(Box::new(move |_| {
                let refused = linker.add(LinkInput::Ptx, variable().as_bytes(), c"variable");
                assert_eq!(refused, Err(CudaError::NotPermitted));
                drop(linker);
            }))
            .unwrap();
        stream.synchronize().unwrap();
        custack::context::wait_until_retired().unwrap();
        assert_eq!(objects(), before);
    });
}
