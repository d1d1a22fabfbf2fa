//! Which elements kernels read.

use super::{READ_1D, READ_2D, READ_3D, floats, line, run_words, words};
use crate::harness::{pushed, run};
use custack::memory::array::{ArrayFormat, ArrayObject, Half};
use custack::memory::{DeviceBuffer, PitchedBuffer};
use custack::texture::{AddressMode, ReadMode, Texture, TextureDescriptor};

fn normalized() -> TextureDescriptor {
    TextureDescriptor::new().normalized_coordinates(true)
}

/// The numbers from 0 on.
fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|at| at as f32).collect()
}

#[test]
fn elements_are_read_by_the_coordinates_within_them() {
    run(|| {
        let _ctx = pushed();
        let array = ArrayObject::new_1d(5, ArrayFormat::Float, 1).unwrap();
        array.copy_from(&numbers(5)).unwrap();
        let texture = Texture::new(&array, &TextureDescriptor::new()).unwrap();
        assert_eq!(line(texture.as_raw(), &[0.0, 0.5, 0.999, 1.0, 4.5]), [0.0, 0.0, 0.0, 1.0, 4.0]);
        let flat = ArrayObject::new_2d([5, 3], ArrayFormat::Float, 1).unwrap();
        flat.copy_from(&numbers(15)).unwrap();
        let texture = Texture::new(&flat, &TextureDescriptor::new()).unwrap();
        let at = [[0.5, 0.5, 0.0, 0.0], [4.5, 0.5, 0.0, 0.0], [1.25, 2.75, 0.0, 0.0]];
        assert_eq!(floats(READ_2D, texture.as_raw(), &at).map_first(), [0.0, 4.0, 11.0]);
        let solid = ArrayObject::new([4, 3, 2], ArrayFormat::Float, 1).unwrap();
        solid.copy_from(&numbers(24)).unwrap();
        let texture = Texture::new(&solid, &TextureDescriptor::new()).unwrap();
        let at = [[0.5, 0.5, 1.5, 0.0], [3.5, 2.5, 0.5, 0.0], [1.5, 1.5, 1.5, 0.0]];
        assert_eq!(floats(READ_3D, texture.as_raw(), &at).map_first(), [12.0, 11.0, 17.0]);
    });
}

trait First {
    /// The first channel of each.
    fn map_first(self) -> Vec<f32>;
}

impl First for Vec<[f32; 4]> {
    fn map_first(self) -> Vec<f32> {
        self.into_iter().map(|found| found[0]).collect()
    }
}

#[test]
fn coordinates_may_go_from_0_to_1() {
    run(|| {
        let _ctx = pushed();
        let array = ArrayObject::new_2d([8, 4], ArrayFormat::Float, 1).unwrap();
        array.copy_from(&numbers(32)).unwrap();
        let texture = Texture::new(&array, &normalized()).unwrap();
        let at = [[0.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0], [0.99, 0.99, 0.0, 0.0]];
        assert_eq!(floats(READ_2D, texture.as_raw(), &at).map_first(), [0.0, 20.0, 31.0]);
    });
}

#[test]
fn what_is_outside_is_clamped_repeated_mirrored_or_the_border() {
    run(|| {
        let _ctx = pushed();
        let array = ArrayObject::new_1d(4, ArrayFormat::Float, 1).unwrap();
        array.copy_from(&[1.0f32, 2.0, 3.0, 4.0]).unwrap();
        // In the middle of elements, from two texture's widths before to two after.
        let at: Vec<f32> = (-8..12).map(|at| (at as f32 + 0.5) / 4.0).collect();
        let read = |descriptor: TextureDescriptor| {
            let texture = Texture::new(&array, &descriptor).unwrap();
            line(texture.as_raw(), &at)
        };
        let once = [1.0, 2.0, 3.0, 4.0];
        let back = [4.0, 3.0, 2.0, 1.0];
        let joined = |parts: [[f32; 4]; 5]| parts.concat();
        assert_eq!(read(normalized()), joined([[1.0; 4], [1.0; 4], once, [4.0; 4], [4.0; 4]]));
        assert_eq!(read(normalized().address_mode(AddressMode::Wrap)), joined([once; 5]));
        let mirrored = read(normalized().address_mode(AddressMode::Mirror));
        assert_eq!(mirrored, joined([once, back, once, back, once]));
        let border = normalized().address_mode(AddressMode::Border).border_color([9.0, 0.0, 0.0, 0.0]);
        assert_eq!(read(border), joined([[9.0; 4], [9.0; 4], once, [9.0; 4], [9.0; 4]]));
        // And without normalised coordinates.
        let border = border.normalized_coordinates(false);
        let texture = Texture::new(&array, &border).unwrap();
        assert_eq!(line(texture.as_raw(), &[-0.5, 0.5, 3.5, 4.0]), [9.0, 1.0, 4.0, 9.0]);
        let clamped = Texture::new(&array, &TextureDescriptor::new()).unwrap();
        assert_eq!(line(clamped.as_raw(), &[-7.0, 100.0]), [1.0, 4.0]);
    });
}

#[test]
fn the_border_is_as_precise_as_an_element() {
    run(|| {
        let _ctx = pushed();
        let read = |format, descriptor: TextureDescriptor, color: f32| {
            let array = ArrayObject::new_1d(1, format, 1).unwrap();
            let descriptor = descriptor.address_mode(AddressMode::Border).border_color([color; 4]);
            let texture = Texture::new(&array, &descriptor).unwrap();
            line(texture.as_raw(), &[-5.0])[0]
        };
        let plain = TextureDescriptor::new();
        let unit = plain.read(ReadMode::NormalizedFloat);
        assert_eq!(read(ArrayFormat::UnsignedInt8, unit, 0.3), 76.0 / 255.0);
        assert_eq!(read(ArrayFormat::SignedInt8, unit, -0.3), -38.0 / 127.0);
        assert_eq!(read(ArrayFormat::UnsignedInt16, unit, 0.3), 19660.0 / 65535.0);
        assert_eq!(read(ArrayFormat::SignedInt16, unit, 1.5), 1.0);
        assert_eq!(read(ArrayFormat::Half, plain, 0.3), 0.2998047);
        assert_eq!(read(ArrayFormat::Float, plain, 0.3), 0.3);
        let bits = |format, bits| read(format, plain, f32::from_bits(bits)).to_bits();
        assert_eq!(bits(ArrayFormat::UnsignedInt8, 300), 300 & 0xff);
        assert_eq!(bits(ArrayFormat::SignedInt8, 0x80), 0xffff_ff80);
        assert_eq!(bits(ArrayFormat::UnsignedInt16, u32::MAX), 0xffff);
    });
}

#[test]
fn what_repeats_repeats_far_away_and_what_is_no_place_is_the_first_one() {
    run(|| {
        let _ctx = pushed();
        let array = ArrayObject::new_1d(4, ArrayFormat::Float, 1).unwrap();
        array.copy_from(&[1.0f32, 2.0, 3.0, 5.0]).unwrap();
        let read = |mode, at: &[f32]| {
            let texture = Texture::new(&array, &normalized().address_mode(mode)).unwrap();
            line(texture.as_raw(), at)
        };
        let edges = [-0.25, 0.0, 1.0, 1.25, 1.5, 1.75, 2.0, -0.5, -1.0];
        assert_eq!(read(AddressMode::Mirror, &edges), [1.0, 1.0, 5.0, 3.0, 2.0, 1.0, 1.0, 2.0, 5.0]);
        assert_eq!(read(AddressMode::Wrap, &edges), [5.0, 1.0, 1.0, 2.0, 3.0, 5.0, 1.0, 3.0, 1.0]);
        let nowhere = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30];
        assert_eq!(read(AddressMode::Wrap, &nowhere), [1.0; 4]);
        assert_eq!(read(AddressMode::Clamp, &nowhere), [1.0, 5.0, 1.0, 5.0]);
    });
}

#[test]
fn each_dimension_has_its_own_mode() {
    run(|| {
        let _ctx = pushed();
        let array = ArrayObject::new_2d([2, 2], ArrayFormat::Float, 1).unwrap();
        array.copy_from(&[1.0f32, 2.0, 3.0, 4.0]).unwrap();
        let modes = [AddressMode::Wrap, AddressMode::Border, AddressMode::Clamp];
        let texture = Texture::new(&array, &normalized().address_modes(modes)).unwrap();
        let at = [[1.25, 0.25, 0.0, 0.0], [1.75, 0.75, 0.0, 0.0], [0.25, 1.25, 0.0, 0.0]];
        assert_eq!(floats(READ_2D, texture.as_raw(), &at).map_first(), [1.0, 4.0, 0.0]);
    });
}

#[test]
fn layers_are_read_by_their_numbers_and_the_last_one_for_more() {
    run(|| {
        let _ctx = pushed();
        let layer = |at: f32, x: f32, y: f32| [f32::from_bits(at as u32), x, y, 0.0];
        let array = ArrayObject::new_layered([2, 2], 3, ArrayFormat::Float, 1).unwrap();
        array.copy_from(&numbers(12)).unwrap();
        let texture = Texture::new(&array, &TextureDescriptor::new()).unwrap();
        let read = "tex.a2d.v4.f32.f32 {%r4, %r5, %r6, %r7}, [%rd0, {%r0, %f1, %f2, %f3}];";
        let at = [layer(0.0, 1.5, 0.5), layer(1.0, 0.5, 1.5), layer(2.0, 0.5, 0.5), layer(7.0, 1.5, 1.5)];
        assert_eq!(floats(read, texture.as_raw(), &at).map_first(), [1.0, 6.0, 8.0, 11.0]);
        let array = ArrayObject::new_layered_1d(4, 2, ArrayFormat::Float, 1).unwrap();
        array.copy_from(&numbers(8)).unwrap();
        let texture = Texture::new(&array, &TextureDescriptor::new()).unwrap();
        let read = "tex.a1d.v4.f32.f32 {%r4, %r5, %r6, %r7}, [%rd0, {%r0, %f1}];";
        let at = [layer(0.0, 3.5, 0.0), layer(1.0, 2.5, 0.0)];
        assert_eq!(floats(read, texture.as_raw(), &at).map_first(), [3.0, 6.0]);
    });
}

#[test]
fn cubes_are_read_by_directions() {
    run(|| {
        let _ctx = pushed();
        let cube = ArrayObject::new_cubemap(2, ArrayFormat::Float, 1).unwrap();
        cube.copy_from(&numbers(24)).unwrap();
        let texture = Texture::new(&cube, &normalized()).unwrap();
        let read = "tex.cube.v4.f32.f32 {%r4, %r5, %r6, %r7}, [%rd0, {%f0, %f1, %f2, %f2}];";
        let at = [
            [1.0, 0.5, 0.5, 0.0],
            [-1.0, 0.5, 0.5, 0.0],
            [0.5, 1.0, 0.5, 0.0],
            [0.5, -1.0, 0.5, 0.0],
            [0.5, 0.5, 1.0, 0.0],
            [0.5, 0.5, -1.0, 0.0],
            [2.0, -1.0, 1.0, 0.0],
        ];
        assert_eq!(floats(read, texture.as_raw(), &at).map_first(), [0.0, 5.0, 11.0, 13.0, 17.0, 20.0, 2.0]);
        let cubes = ArrayObject::new_layered_cubemap(2, 2, ArrayFormat::Float, 1).unwrap();
        cubes.copy_from(&numbers(48)).unwrap();
        let texture = Texture::new(&cubes, &normalized()).unwrap();
        let read = "tex.acube.v4.f32.f32 {%r4, %r5, %r6, %r7}, [%rd0, {%r0, %f1, %f2, %f3}];";
        let at = [[f32::from_bits(1), 0.5, 0.5, 1.0], [0.0, 0.5, 0.5, 1.0]];
        assert_eq!(floats(read, texture.as_raw(), &at).map_first(), [41.0, 17.0]);
    });
}

#[test]
fn integers_are_read_as_they_are_or_normalised() {
    run(|| {
        let _ctx = pushed();
        let read = "tex.1d.v4.u32.f32 {%r4, %r5, %r6, %r7}, [%rd0, {%f0}];";
        let plain = TextureDescriptor::new();
        let unit = plain.read(ReadMode::NormalizedFloat);
        let small = ArrayObject::new_1d(1, ArrayFormat::SignedInt8, 4).unwrap();
        small.copy_from(&[[-128i8, -127, 64, 127]]).unwrap();
        let texture = Texture::new(&small, &plain).unwrap();
        assert_eq!(
            words(read, texture.as_raw(), &[[0.0; 4]])[0].map(|word| word as i32),
            [-128, -127, 64, 127]
        );
        let texture = Texture::new(&small, &unit).unwrap();
        assert_eq!(floats(READ_1D, texture.as_raw(), &[[0.0; 4]])[0], [-1.0, -1.0, 64.0 / 127.0, 1.0]);
        let bytes = ArrayObject::new_1d(1, ArrayFormat::UnsignedInt8, 4).unwrap();
        bytes.copy_from(&[[0u8, 51, 102, 255]]).unwrap();
        let texture = Texture::new(&bytes, &unit).unwrap();
        assert_eq!(floats(READ_1D, texture.as_raw(), &[[0.0; 4]])[0], [0.0, 0.2, 0.4, 1.0]);
        let shorts = ArrayObject::new_1d(1, ArrayFormat::SignedInt16, 4).unwrap();
        shorts.copy_from(&[[-32768i16, -32767, 0, 32767]]).unwrap();
        let texture = Texture::new(&shorts, &unit).unwrap();
        assert_eq!(floats(READ_1D, texture.as_raw(), &[[0.0; 4]])[0], [-1.0, -1.0, 0.0, 1.0]);
        let words_of = ArrayObject::new_1d(1, ArrayFormat::UnsignedInt16, 2).unwrap();
        words_of.copy_from(&[[65535u16, 13107]]).unwrap();
        let texture = Texture::new(&words_of, &unit).unwrap();
        assert_eq!(floats(READ_1D, texture.as_raw(), &[[0.0; 4]])[0][..2], [1.0, 0.2]);
        let wide = ArrayObject::new_1d(1, ArrayFormat::SignedInt32, 2).unwrap();
        wide.copy_from(&[[i32::MIN, 7]]).unwrap();
        let texture = Texture::new(&wide, &plain).unwrap();
        assert_eq!(words(read, texture.as_raw(), &[[0.0; 4]])[0][..2], [1 << 31, 7]);
        let halves = ArrayObject::new_1d(1, ArrayFormat::Half, 2).unwrap();
        halves.copy_from(&[[Half::from_bits(0x3e00), Half::from_bits(0xc000)]]).unwrap();
        let texture = Texture::new(&halves, &plain).unwrap();
        assert_eq!(floats(READ_1D, texture.as_raw(), &[[0.0; 4]])[0][..2], [1.5, -2.0]);
    });
}

#[test]
fn channels_that_an_element_does_not_have_are_0() {
    run(|| {
        let _ctx = pushed();
        let array = ArrayObject::new_1d(1, ArrayFormat::Float, 1).unwrap();
        array.copy_from(&[5.0f32]).unwrap();
        let texture = Texture::new(&array, &TextureDescriptor::new()).unwrap();
        assert_eq!(floats(READ_1D, texture.as_raw(), &[[0.0; 4]])[0], [5.0, 0.0, 0.0, 0.0]);
        let array = ArrayObject::new_1d(1, ArrayFormat::UnsignedInt8, 2).unwrap();
        array.copy_from(&[[7u8, 8]]).unwrap();
        let texture = Texture::new(&array, &TextureDescriptor::new()).unwrap();
        let read = "tex.1d.v4.u32.f32 {%r4, %r5, %r6, %r7}, [%rd0, {%f0}];";
        assert_eq!(words(read, texture.as_raw(), &[[0.0; 4]])[0], [7, 8, 0, 0]);
    });
}

#[test]
fn buffers_are_fetched_by_number_and_are_zero_beyond_their_ends() {
    run(|| {
        let _ctx = pushed();
        let fetch = "tex.1d.v4.u32.s32 {%r4, %r5, %r6, %r7}, [%rd0, {%r0}];";
        let buffer = DeviceBuffer::from_slice(&[[1u32, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]).unwrap();
        let texture = Texture::of_buffer(&buffer, &TextureDescriptor::new()).unwrap();
        let at = [[0, 0, 0, 0], [2, 0, 0, 0], [3, 0, 0, 0], [u32::MAX, 0, 0, 0]];
        let found = run_words(fetch, texture.as_raw(), &at).unwrap();
        assert_eq!(found, [[1, 2, 3, 4], [9, 10, 11, 12], [0; 4], [0; 4]]);
        let part = Texture::of_slice(&buffer[..2], &TextureDescriptor::new()).unwrap();
        assert_eq!(run_words(fetch, part.as_raw(), &at).unwrap()[..2], [[1, 2, 3, 4], [0; 4]]);
        let bytes = DeviceBuffer::from_slice(&[0u8, 255]).unwrap();
        let unit = TextureDescriptor::new().read(ReadMode::NormalizedFloat);
        let texture = Texture::of_buffer(bytes, &unit).unwrap();
        let fetch = "tex.1d.v4.f32.s32 {%r4, %r5, %r6, %r7}, [%rd0, {%r0}];";
        let found = run_words(fetch, texture.as_raw(), &[[1, 0, 0, 0]]).unwrap();
        assert_eq!(f32::from_bits(found[0][0]), 1.0);
    });
}

#[test]
fn rows_are_read_as_two_dimensions() {
    run(|| {
        let _ctx = pushed();
        let rows = PitchedBuffer::from_slice(&numbers(15), 5).unwrap();
        let texture = Texture::of_rows(&rows, &TextureDescriptor::new()).unwrap();
        let at = [[0.5, 0.5, 0.0, 0.0], [4.5, 2.5, 0.0, 0.0], [9.5, 1.5, 0.0, 0.0], [1.5, -3.0, 0.0, 0.0]];
        assert_eq!(floats(READ_2D, texture.as_raw(), &at).map_first(), [0.0, 14.0, 9.0, 1.0]);
    });
}

#[test]
fn integers_are_coordinates_too_and_what_is_outside_of_them_is_0() {
    run(|| {
        let _ctx = pushed();
        let array = ArrayObject::new_2d([3, 2], ArrayFormat::Float, 1).unwrap();
        array.copy_from(&numbers(6)).unwrap();
        let texture = Texture::new(&array, &TextureDescriptor::new()).unwrap();
        let read = "tex.2d.v4.f32.s32 {%r4, %r5, %r6, %r7}, [%rd0, {%r0, %r1}];";
        let found = run_words(read, texture.as_raw(), &[[2, 1, 0, 0], [1, 0, 0, 0], [9, 9, 0, 0]]).unwrap();
        let found: Vec<_> = found.into_iter().map(|found| f32::from_bits(found[0])).collect();
        assert_eq!(found, [5.0, 1.0, 0.0]);
    });
}

#[test]
fn a_level_and_gradients_find_the_one_level() {
    run(|| {
        let _ctx = pushed();
        let array = ArrayObject::new_2d([2, 2], ArrayFormat::Float, 1).unwrap();
        array.copy_from(&numbers(4)).unwrap();
        let texture = Texture::new(&array, &TextureDescriptor::new()).unwrap();
        for read in [
            "tex.level.2d.v4.f32.f32 {%r4, %r5, %r6, %r7}, [%rd0, {%f0, %f1}], %f2;",
            "tex.grad.2d.v4.f32.f32 {%r4, %r5, %r6, %r7}, [%rd0, {%f0, %f1}], {%f2, %f2}, {%f2, %f2};",
            "tex.base.2d.v4.f32.f32 {%r4, %r5, %r6, %r7}, [%rd0, {%f0, %f1}];",
        ] {
            let found = floats(read, texture.as_raw(), &[[1.5, 0.5, 3.0, 0.0], [0.5, 1.5, 0.0, 0.0]]);
            assert_eq!(found.map_first(), [1.0, 2.0], "{read}");
        }
    });
}

#[test]
fn results_may_be_floats_of_16_bits() {
    run(|| {
        let _ctx = pushed();
        let array = ArrayObject::new_1d(1, ArrayFormat::Float, 4).unwrap();
        array.copy_from(&[[1.0f32, -2.0, 0.5, 4.0]]).unwrap();
        let texture = Texture::new(&array, &TextureDescriptor::new()).unwrap();
        let read = "tex.1d.v2.f16x2.f32 {%r4, %r5}, [%rd0, {%f0}];";
        assert_eq!(words(read, texture.as_raw(), &[[0.0; 4]])[0][..2], [0xc000_3c00, 0x4400_3800]);
        let read = "tex.1d.v4.f16.f32 {%h0, %h1, %h2, %h3}, [%rd0, {%f0}]; cvt.u32.u16 %r4, %h1;";
        assert_eq!(words(read, texture.as_raw(), &[[0.0; 4]])[0][0], 0xc000);
    });
}
