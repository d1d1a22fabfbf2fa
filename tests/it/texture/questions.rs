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
        let of = |array: ArrayObject| {
            let texture = Texture::new(array, &TextureDescriptor::new()).unwrap();
            let found = run_words(&ask("txq"), texture.as_raw(), &[[0; 4]]).unwrap();
            [found[0][0], found[0][1], found[0][2]]
        };
        assert_eq!(of(ArrayObject::new_1d(7, ArrayFormat::Float, 1).unwrap()), [7, 1, 0]);
        assert_eq!(of(ArrayObject::new_2d([7, 5], ArrayFormat::Float, 1).unwrap()), [7, 5, 0]);
        assert_eq!(of(ArrayObject::new_layered([7, 5], 3, ArrayFormat::Float, 1).unwrap()), [7, 5, 3]);
        assert_eq!(of(ArrayObject::new_layered_1d(7, 3, ArrayFormat::Float, 1).unwrap()), [7, 3, 0]);
    });
}
