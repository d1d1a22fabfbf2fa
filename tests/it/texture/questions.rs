//! What kernels ask of textures and surfaces.

use super::run_words;
use crate::harness::{pushed, run};
use custack::memory::array::{ArrayDescriptor, ArrayFormat, ArrayObject, ArrayObjectFlags};
use custack::texture::{Surface, Texture, TextureDescriptor};

#[test]
fn a_kernel_asks_for_the_size() {
    run(|| {
        let _ctx = pushed();
        let flags = ArrayObjectFlags::SURFACE_LDST;
        let solid = ArrayDescriptor::new([7, 5, 3], ArrayFormat::Float, 1, flags);
        let solid = ArrayObject::from_descriptor(&solid).unwrap();
        let texture = Texture::new(&solid, &TextureDescriptor::new()).unwrap();
        let ask = |kind: &str| {
            format!(
                "{kind}.width.b32 %r4, [%rd0]; {kind}.height.b32 %r5, [%rd0]; {kind}.depth.b32 %r6, [%rd0];"
            )
        };
        assert_eq!(run_words(&ask("txq"), texture.as_raw(), &[[0; 4]]).unwrap()[0][..3], [7, 5, 3]);
        let surface = Surface::new(&solid).unwrap();
        assert_eq!(run_words(&ask("suq"), surface.as_raw(), &[[0; 4]]).unwrap()[0][..3], [7, 5, 3]);
    });
}
