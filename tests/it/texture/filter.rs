//! What linear filters and gathers make of the elements around a place. The places are chosen so that the weights, which
//! have 8 bits behind the point, are exact.

use super::{READ_2D, READ_3D, floats, line};
use crate::harness::{pushed, run};
use custack::memory::PitchedBuffer;
use custack::memory::array::{ArrayFormat, ArrayObject};
use custack::texture::{AddressMode, FilterMode, ReadMode, Texture, TextureDescriptor};

fn linear() -> TextureDescriptor {
    TextureDescriptor::new().filter(FilterMode::Linear)
}

#[test]
fn a_line_is_interpolated_between_the_middles_of_its_elements() {
    run(|| {
        let _ctx = pushed();
        let array = ArrayObject::new_1d(4, ArrayFormat::Float, 1).unwrap();
        array.copy_from(&[0.0f32, 256.0, 512.0, 0.0]).unwrap();
        let texture = Texture::new(&array, &linear()).unwrap();
        let at = [0.5, 1.0, 1.5, 0.75, 0.5 + 1.0 / 256.0, 3.25, 0.0, 4.0];
        assert_eq!(line(texture.as_raw(), &at), [0.0, 128.0, 256.0, 64.0, 1.0, 128.0, 0.0, 0.0]);
        // A quarter of what the weights can tell apart.
        let found = line(texture.as_raw(), &[0.5 + 1.25 / 256.0, 0.5 + 1.75 / 256.0]);
        assert_eq!(found, [1.0, 2.0]);
    });
}

#[test]
fn what_is_outside_is_filtered_too() {
    run(|| {
        let _ctx = pushed();
        let array = ArrayObject::new_1d(4, ArrayFormat::Float, 1).unwrap();
        array.copy_from(&[1.0f32, 2.0, 3.0, 5.0]).unwrap();
        let read = |mode| {
            let descriptor = linear().normalized_coordinates(true).address_mode(mode);
            let texture = Texture::new(&array, &descriptor.border_color([9.0, 0.0, 0.0, 0.0])).unwrap();
            line(texture.as_raw(), &[0.0, 1.0])
        };
        assert_eq!(read(AddressMode::Clamp), [1.0, 5.0]);
        assert_eq!(read(AddressMode::Wrap), [3.0, 3.0]);
        assert_eq!(read(AddressMode::Mirror), [1.0, 5.0]);
        assert_eq!(read(AddressMode::Border), [5.0, 7.0]);
    });
}

#[test]
fn planes_and_solids_are_interpolated_in_all_dimensions() {
    run(|| {
        let _ctx = pushed();
        let flat = [[0.0f32, 1.0], [4.0, 1.0], [8.0, 1.0], [12.0, 1.0]];
        let array = ArrayObject::new_2d([2, 2], ArrayFormat::Float, 2).unwrap();
        array.copy_from(&flat).unwrap();
        let texture = Texture::new(&array, &linear()).unwrap();
        let at = [[1.0, 1.0, 0.0, 0.0], [0.75, 1.25, 0.0, 0.0]];
        let found = floats(READ_2D, texture.as_raw(), &at);
        assert_eq!([found[0][0], found[1][0], found[1][1]], [6.0, 7.0, 1.0]);
        let rows = PitchedBuffer::from_slice(&[0.0f32, 4.0, 8.0, 12.0], 2).unwrap();
        let texture = Texture::of_rows(rows, &linear()).unwrap();
        assert_eq!(floats(READ_2D, texture.as_raw(), &at)[1][0], 7.0);
        let solid = ArrayObject::new([2, 2, 2], ArrayFormat::Float, 1).unwrap();
        solid.copy_from(&[0.0f32, 8.0, 16.0, 24.0, 32.0, 40.0, 48.0, 56.0]).unwrap();
        let texture = Texture::new(&solid, &linear()).unwrap();
        let at = [[1.0, 1.0, 1.0, 0.0], [0.75, 1.25, 0.625, 0.0]];
        let found = floats(READ_3D, texture.as_raw(), &at);
        assert_eq!([found[0][0], found[1][0]], [28.0, 2.0 + 12.0 + 4.0]);
    });
}

#[test]
fn normalised_integers_are_filtered() {
    run(|| {
        let _ctx = pushed();
        let array = ArrayObject::new_1d(2, ArrayFormat::UnsignedInt8, 1).unwrap();
        array.copy_from(&[0u8, 255]).unwrap();
        let texture = Texture::new(&array, &linear().read(ReadMode::NormalizedFloat)).unwrap();
        assert_eq!(line(texture.as_raw(), &[0.5, 1.0, 1.25, 1.5]), [0.0, 0.5, 0.75, 1.0]);
    });
}

#[test]
fn a_gather_is_of_one_channel_of_four_elements() {
    run(|| {
        let _ctx = pushed();
        let flat = [[1.0f32, 10.0], [2.0, 20.0], [3.0, 30.0], [4.0, 40.0]];
        let descriptor = custack::memory::array::ArrayDescriptor::new(
            [2, 2, 0],
            ArrayFormat::Float,
            2,
            custack::memory::array::ArrayObjectFlags::TEXTURE_GATHER,
        );
        let array = ArrayObject::from_descriptor(&descriptor).unwrap();
        array.copy_from(&flat).unwrap();
        let texture = Texture::new(&array, &TextureDescriptor::new()).unwrap();
        for (channel, unit) in [("r", 1.0), ("g", 10.0)] {
            let gather =
                format!("tld4.{channel}.2d.v4.f32.f32 {{%r4, %r5, %r6, %r7}}, [%rd0, {{%f0, %f1}}];");
            let found = floats(&gather, texture.as_raw(), &[[1.0, 1.0, 0.0, 0.0]]);
            assert_eq!(found[0], [3.0 * unit, 4.0 * unit, 2.0 * unit, unit]);
        }
    });
}
