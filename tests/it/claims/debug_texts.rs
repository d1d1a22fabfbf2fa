//! What `{:?}` prints: what a program knows the thing by, and not all that it is made of.

use crate::harness::{pushed, run};
use crate::module::KERNELS;
use custack::context::CurrentContext;
use custack::event::{Event, EventFlags};
use custack::library::Library;
use custack::memory::{DeviceBox, DeviceBuffer, LockedBuffer, UnifiedBuffer};
use custack::module::{JitOptions, Linker, Module};
use custack::stream::{Stream, StreamFlags};
use std::fmt::Debug;

#[track_caller]
fn prints(value: &dyn Debug, with: &str) {
    let text = format!("{value:?}");
    assert!(text.len() < 400 && text.contains(with), "{} characters: {text:.600}", text.len());
}

#[test]
fn a_debug_text_is_short_and_says_which_one_it_is() {
    run(|| {
        let context = pushed();
        let raw = format!("{:?}", CurrentContext::get_current().unwrap().as_raw());
        let module = Module::load_from_bytes(KERNELS.as_bytes()).unwrap();
        let library = Library::load(KERNELS.as_bytes(), &JitOptions::new()).unwrap();
        let kernel = library.kernel(c"count_up").unwrap();
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
        prints(&module, &format!("{:?}", module.as_raw()));
        prints(&module.get_function(c"count_up").unwrap(), "`count_up`");
        prints(&library, &format!("{:?}", library.as_raw()));
        prints(&kernel, "\"count_up\"");
        prints(&kernel.function_in(&context).unwrap(), "`count_up`");
        prints(&Linker::new(&JitOptions::new()).unwrap(), &raw);
        prints(&stream, &format!("{:?}", stream.as_raw()));
        prints(&Event::new(EventFlags::DEFAULT).unwrap(), &raw);
        prints(&DeviceBuffer::from_slice(&[1u8; 100]).unwrap(), "100");
        prints(&DeviceBuffer::from_slice_in(&[1u8; 100], &stream).unwrap(), "100");
        prints(&DeviceBox::new(&1u8).unwrap(), "DeviceBox");
        prints(&LockedBuffer::new(&1u8, 100).unwrap(), "100");
        prints(&UnifiedBuffer::new(&1u8, 100).unwrap(), "100");
        prints(&stream.completion().unwrap(), "is_done");
    });
}
