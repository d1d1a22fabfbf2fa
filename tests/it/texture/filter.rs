//! What linear filters and gathers make of the elements around a place. The places are chosen so that the weights, which
//! have 8 bits behind the point, are exact.

use super::{READ_2D, READ_3D, floats, line};
use crate::harness::{pushed, run};
use custack::memory::PitchedBuffer;
use custack::memory::array::{ArrayFormat, ArrayObject, Half};
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
            // A line is filtered as a plane with one row.
            let modes = [mode, AddressMode::Clamp, AddressMode::Clamp];
            let descriptor = linear().normalized_coordinates(true).address_modes(modes);
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
fn a_line_is_filtered_with_the_border_above_it() {
    run(|| {
        let _ctx = pushed();
        let array = ArrayObject::new_1d(4, ArrayFormat::Float, 1).unwrap();
        array.copy_from(&[1.0f32, 2.0, 3.0, 5.0]).unwrap();
        let border = linear().address_mode(AddressMode::Border).border_color([9.0, 0.0, 0.0, 0.0]);
        let texture = Texture::new(&array, &border).unwrap();
        assert_eq!(line(texture.as_raw(), &[0.0, 0.5, 4.0]), [7.0, 5.0, 8.0]);
    });
}

#[test]
fn weights_are_rounded_to_8_bits_behind_the_point() {
    run(|| {
        let _ctx = pushed();
        let array = ArrayObject::new_1d(4, ArrayFormat::Float, 1).unwrap();
        array.copy_from(&[0.0f32, 256.0, 512.0, 768.0]).unwrap();
        let texture = Texture::new(&array, &linear()).unwrap();
        let at: Vec<f32> = (0..8).map(|quarter| 0.5 + quarter as f32 / 1024.0).collect();
        assert_eq!(line(texture.as_raw(), &at), [0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0]);
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
fn weights_of_several_dimensions_are_rounded_as_an_h200_rounds_them() {
    run(|| {
        let _ctx = pushed();
        let solid = ArrayObject::new([2, 2, 2], ArrayFormat::Float, 1).unwrap();
        solid.copy_from(&[1.0f32, 3.0, 7.0, 19.0, 41.0, 101.0, 211.0, 503.0]).unwrap();
        let texture = Texture::new(&solid, &linear()).unwrap();
        let at = [
            [0.6, 1.2, 0.9, 0.0],
            [0.9, 0.7, 1.3, 0.0],
            [1.3, 1.1, 0.77, 0.0],
            [1.45, 1.45, 1.45, 0.0],
            [0.55, 0.55, 0.55, 0.0],
            [1.45, 0.55, 1.0, 0.0],
            [0.55, 1.0, 1.45, 0.0],
        ];
        let found = floats(READ_3D, texture.as_raw(), &at);
        let wanted = [19414.0, 24198.0, 22814.0, 113950.0, 1118.0, 15448.0, 32712.0];
        for (found, wanted) in found.iter().zip(wanted) {
            assert_eq!(found[0] * 256.0, wanted);
        }
        let flat = ArrayObject::new_2d([2, 2], ArrayFormat::Float, 1).unwrap();
        flat.copy_from(&[1.0f32, 1.1, 1.3, 1.7]).unwrap();
        let texture = Texture::new(&flat, &linear()).unwrap();
        let at = [[0.6, 1.2, 0.0, 0.0], [0.9, 0.7, 0.0, 0.0], [1.3, 1.1, 0.0, 0.0], [1.0, 0.5, 0.0, 0.0]];
        let found = floats(READ_2D, texture.as_raw(), &at);
        let found: Vec<_> = found.into_iter().map(|found| found[0].to_bits()).collect();
        assert_eq!(found, [0x3f9e_d999, 0x3f8f_c000, 0x3fb3_cccd, 0x3f86_6667]);
    });
}

#[test]
fn normalised_integers_are_filtered() {
    run(|| {
        let _ctx = pushed();
        let array = ArrayObject::new_1d(2, ArrayFormat::UnsignedInt8, 1).unwrap();
        array.copy_from(&[0u8, 255]).unwrap();
        let texture = Texture::new(&array, &linear().read(ReadMode::NormalizedFloat)).unwrap();
        // The filter has 16 bits for them.
        let wanted = [0.0, 32768.0 / 65535.0, 49151.0 / 65535.0, 1.0];
        assert_eq!(line(texture.as_raw(), &[0.5, 1.0, 1.25, 1.5]), wanted);
        let array = ArrayObject::new_1d(4, ArrayFormat::SignedInt8, 1).unwrap();
        array.copy_from(&[0i8, 127, -128, -127]).unwrap();
        let texture = Texture::new(&array, &linear().read(ReadMode::NormalizedFloat)).unwrap();
        let at = [0.75, 1.0, 1.25, 1.5, 2.0, 2.25, 2.5, 1.5 + 77.0 / 256.0];
        let found: Vec<_> = line(texture.as_raw(), &at).iter().map(|found| found * 32767.0).collect();
        assert_eq!(found, [8192.0, 16383.0, 24575.0, 32767.0, -129.0, -16577.0, -32767.0, 12978.0]);
        let array = ArrayObject::new_1d(4, ArrayFormat::SignedInt16, 1).unwrap();
        array.copy_from(&[0i16, 32767, -32768, 200]).unwrap();
        let texture = Texture::new(&array, &linear().read(ReadMode::NormalizedFloat)).unwrap();
        let found: Vec<_> = line(texture.as_raw(), &at).iter().map(|found| found * 32767.0).collect();
        assert_eq!(found, [8192.0, 16384.0, 24575.0, 32767.0, 0.0, -16384.0, -32767.0, 13055.0]);
    });
}

#[test]
fn filtered_halves_are_halves() {
    run(|| {
        let _ctx = pushed();
        let array = ArrayObject::new_1d(4, ArrayFormat::Half, 1).unwrap();
        array.copy_from(&[0u16, 0x3c00, 0x2e66, 0x3555].map(Half::from_bits)).unwrap();
        let texture = Texture::new(&array, &linear()).unwrap();
        let found = line(texture.as_raw(), &[2.0, 2.25, 2.5, 3.0, 3.25, 1.5 + 77.0 / 256.0]);
        let found: Vec<_> = found.into_iter().map(f32::to_bits).collect();
        assert_eq!(found, [0x3f0c_c000, 0x3ea6_6000, 0x3dcc_c000, 0x3e5d_e000, 0x3e8c_c000, 0x3f3a_c000]);
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
