//! Arrays and their descriptors.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::harness::{pushed, run};
use custack::error::CudaError;
use custack::memory::array::{ArrayDescriptor, ArrayFormat, ArrayObject, ArrayObjectFlags, Half};
use custack::stream::StreamFlags;

#[test]
fn arrays_are_what_was_asked_for() {
    run(|| {
        assert_eq!(ArrayObject::new_1d(8, ArrayFormat::Float, 1).unwrap_err(), CudaError::InvalidContext);
        let ctx = pushed();
        let arrays = [
            (ArrayObject::new([8, 4, 2], ArrayFormat::Float, 1), [8, 4, 2], ArrayObjectFlags::empty()),
            (ArrayObject::new_1d(8, ArrayFormat::SignedInt16, 2), [8, 0, 0], ArrayObjectFlags::empty()),
            (ArrayObject::new_2d([8, 4], ArrayFormat::UnsignedInt8, 4), [8, 4, 0], ArrayObjectFlags::empty()),
            (ArrayObject::new_layered([8, 4], 3, ArrayFormat::Half, 1), [8, 4, 3], ArrayObjectFlags::LAYERED),
            (ArrayObject::new_layered_1d(8, 3, ArrayFormat::Float, 1), [8, 0, 3], ArrayObjectFlags::LAYERED),
            (ArrayObject::new_cubemap(8, ArrayFormat::Float, 1), [8, 8, 6], ArrayObjectFlags::CUBEMAP),
            (
                ArrayObject::new_layered_cubemap(8, 2, ArrayFormat::Float, 1),
                [8, 8, 12],
                ArrayObjectFlags::CUBEMAP | ArrayObjectFlags::LAYERED,
            ),
        ];
        for (array, dims, flags) in arrays {
            let array = array.unwrap();
            let descriptor = array.descriptor().unwrap();
            assert_eq!((descriptor.dims(), descriptor.flags()), (dims, flags));
            assert!(format!("{array:?}").contains("dims"));
            assert_eq!(array.context(), &ctx.get_unowned());
            assert!(ArrayObject::drop(array).is_ok());
        }
        let array = ArrayObject::new_1d(8, ArrayFormat::Float, 1).unwrap();
        drop(ctx);
        assert_eq!(array.descriptor().unwrap_err(), CudaError::ContextIsDestroyed);
    });
}

#[cfg(feature = "rustacuda")]
#[test]
fn descriptors_that_are_none_are_refused_before_the_driver_is_asked() {
    use custack::driver::instrument::during;
    run(|| {
        let _ctx = pushed();
        let cases = [
            ([0, 0, 0], 1, ArrayObjectFlags::empty()),
            ([8, 0, 3], 1, ArrayObjectFlags::empty()),
            ([8, 4, 6], 1, ArrayObjectFlags::CUBEMAP),
            ([8, 8, 5], 1, ArrayObjectFlags::CUBEMAP),
            ([8, 8, 7], 1, ArrayObjectFlags::CUBEMAP | ArrayObjectFlags::LAYERED),
            ([8, 0, 0], 3, ArrayObjectFlags::empty()),
        ];
        for (dims, channels, flags) in cases {
            let descriptor = ArrayDescriptor::new(dims, ArrayFormat::Float, channels, flags);
            let (result, calls) = during(|| ArrayObject::from_descriptor(&descriptor));
            assert_eq!((result.unwrap_err(), calls.total()), (CudaError::InvalidValue, 0), "{descriptor:?}");
        }
        let mut descriptor = ArrayDescriptor::from_dims_format([1, 0, 0], ArrayFormat::Half);
        descriptor.set_width(4);
        descriptor.set_height(5);
        descriptor.set_depth(6);
        descriptor.set_format(ArrayFormat::Float);
        descriptor.set_num_channels(2);
        descriptor.set_flags(ArrayObjectFlags::SURFACE_LDST);
        assert_eq!((descriptor.width(), descriptor.height(), descriptor.depth()), (4, 5, 6));
        assert_eq!((descriptor.format(), descriptor.num_channels()), (ArrayFormat::Float, 2));
        descriptor.set_dims([7, 7, 0]);
        ArrayObject::from_descriptor(&descriptor).unwrap();
        for format in [ArrayFormat::UnsignedInt8, ArrayFormat::SignedInt32, ArrayFormat::Half] {
            assert_eq!(ArrayFormat::from_raw(format.to_raw()), format);
        }
    });
}

#[test]
fn arrays_keep_what_is_copied_to_them() {
    run(|| {
        let ctx = pushed();
        let flat: Vec<u16> = (0..8 * 3).collect();
        let array = ArrayObject::new_2d([8, 3], ArrayFormat::UnsignedInt16, 1).unwrap();
        array.copy_from(&flat).unwrap();
        let mut back = vec![0u16; 24];
        array.copy_to(&mut back).unwrap();
        assert_eq!(back, flat);
        let solid: Vec<[f32; 2]> = (0..4 * 3 * 2).map(|at| [at as f32, -1.0]).collect();
        for array in [
            ArrayObject::new([4, 3, 2], ArrayFormat::Float, 2),
            ArrayObject::new_layered([4, 3], 2, ArrayFormat::Float, 2),
            ArrayObject::new_layered_1d(12, 2, ArrayFormat::Float, 2),
            ArrayObject::new_1d(24, ArrayFormat::Float, 2),
        ] {
            let array = array.unwrap();
            array.copy_from(&solid).unwrap();
            let mut channels = vec![0.0f32; 48];
            array.copy_to(&mut channels).unwrap();
            assert_eq!(channels[..4], [0.0, -1.0, 1.0, -1.0], "{array:?}");
            assert_eq!(channels[46..], [23.0, -1.0], "{array:?}");
        }
        let stream = ctx.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        let halves: Vec<[Half; 4]> = (0..16).map(|at| [Half::from_bits(at); 4]).collect();
        let array = ArrayObject::new_1d(16, ArrayFormat::Half, 4).unwrap();
        let mut back = vec![[Half::default(); 4]; 16];
        unsafe {
            array.async_copy_from(&halves, &stream).unwrap();
            array.async_copy_to(&mut back, &stream).unwrap();
        }
        stream.synchronize().unwrap();
        assert_eq!(back, halves);
    });
}

#[test]
fn a_copy_of_what_an_array_does_not_have_is_refused_before_the_driver_is_asked() {
    use custack::driver::instrument::during;
    run(|| {
        let _ctx = pushed();
        let array = ArrayObject::new_2d([2, 2], ArrayFormat::SignedInt8, 4).unwrap();
        let (results, calls) = during(|| {
            [array.copy_from(&[0u8; 16]), array.copy_from(&[[0i8; 2]; 8]), array.copy_to(&mut [0.0f32; 4])]
        });
        assert_eq!((results, calls.total()), ([Err(CudaError::InvalidValue); 3], 0));
        let elsewhere = crate::harness::parked();
        let stream = elsewhere.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        let refused = unsafe { array.async_copy_from(&[[0i8; 4]; 4], &stream) };
        assert_eq!(refused, Err(CudaError::InvalidHandle));
        let panics = std::panic::catch_unwind(|| array.copy_from(&[[0i8; 4]; 3]));
        assert!(panics.is_err());
    });
}
