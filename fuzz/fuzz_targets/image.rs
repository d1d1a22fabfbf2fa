//! Cubins and fatbins, through the checks of images. Start it with `tests/it/module/images` as a corpus.

#![no_main]

use custack::module::{JitOptions, LinkInput, Linker, Module};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: std::mem::forget(custack::quick_init().unwrap()), |image: &[u8]| {
    drop(Module::load_from_bytes(image));
    let mut linker = Linker::new(&JitOptions::new()).unwrap();
    for kind in [LinkInput::Cubin, LinkInput::Fatbin] {
        let _ = linker.add(kind, image, c"image");
    }
});
