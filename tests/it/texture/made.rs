//! How textures and surfaces are made and destroyed, and what is refused.

use super::{READ_1D, line, run_words, text};
use crate::harness::{is_simulated, parked, pushed, run, run_alone};
use custack::context::CurrentContext;
use custack::driver::instrument::during;
use custack::error::CudaError;
use custack::memory::array::{ArrayDescriptor, ArrayFormat, ArrayObject, ArrayObjectFlags};
use custack::memory::{DeviceBuffer, PitchedBuffer};
use custack::module::Module;
use custack::texture::*;
use std::ffi::CString;
use std::sync::Arc;

#[test]
fn a_texture_keeps_what_it_is_of() {
    run(|| {
        let _ctx = pushed();
        let array = Arc::new(ArrayObject::new_1d(2, ArrayFormat::Float, 1).unwrap());
        array.copy_from(&[3.0f32, 4.0]).unwrap();
        let texture = Texture::new(Arc::clone(&array), &TextureDescriptor::new()).unwrap();
        drop(array);
        assert_eq!(line(texture.as_raw(), &[1.5]), [4.0]);
        let array = texture.into_source().unwrap();
        assert_eq!(Arc::strong_count(&array), 1);
        let owned = Texture::new(Arc::into_inner(array).unwrap(), &TextureDescriptor::new()).unwrap();
        assert_eq!(line(owned.as_raw(), &[0.5]), [3.0]);
        assert!(Texture::drop(owned).is_ok());
        let buffer = DeviceBuffer::from_slice(&[1u32, 2]).unwrap();
        let texture = Texture::of_buffer(buffer, &TextureDescriptor::new()).unwrap();
        assert_eq!(texture.source().len(), 2);
        texture.into_source().unwrap();
    });
}

#[test]
fn a_texture_says_how_it_reads_and_what_it_is_of() {
    run(|| {
        let ctx = pushed();
        let array = ArrayObject::new_2d([4, 4], ArrayFormat::UnsignedInt8, 4).unwrap();
        let descriptor = TextureDescriptor::new()
            .address_modes([AddressMode::Border, AddressMode::Wrap, AddressMode::Mirror])
            .filter(FilterMode::Linear)
            .read(ReadMode::NormalizedFloat)
            .normalized_coordinates(true)
            .border_color([1.0, 0.5, 0.25, 0.0]);
        let texture = Texture::new(&array, &descriptor).unwrap();
        assert_eq!(texture.descriptor().unwrap(), descriptor);
        assert!(matches!(texture.resource().unwrap(), TextureResource::Array(_)));
        assert_eq!(texture.context(), &ctx.get_unowned());
        let rows = PitchedBuffer::from_slice(&[[1i16, 2]; 6], 3).unwrap();
        let texture = Texture::of_rows(&rows, &TextureDescriptor::new()).unwrap();
        let TextureResource::Rows { format, channels, width, height, pitch, .. } =
            texture.resource().unwrap()
        else {
            panic!("{texture:?}")
        };
        assert_eq!((format, channels, width, height), (ArrayFormat::SignedInt16, 2, 3, 2));
        assert_eq!(pitch, rows.pitch());
    });
}

#[test]
fn bad_textures_are_refused_before_the_driver_is_asked() {
    run(|| {
        let _ctx = pushed();
        let plain = TextureDescriptor::new();
        let bytes = ArrayObject::new_2d([4, 4], ArrayFormat::UnsignedInt8, 1).unwrap();
        let words = ArrayObject::new_2d([4, 4], ArrayFormat::UnsignedInt32, 1).unwrap();
        let cube = ArrayObject::new_cubemap(4, ArrayFormat::Float, 1).unwrap();
        let buffer = DeviceBuffer::from_slice(&[1u32; 64]).unwrap();
        let rows = PitchedBuffer::from_slice(&[1.0f32; 4], 2).unwrap();
        let none = PitchedBuffer::from_slice(&[0.0f32; 0], 2).unwrap();
        let (results, calls) = during(|| {
            [
                Texture::new(&bytes, &plain.filter(FilterMode::Linear)).err(),
                Texture::new(&words, &plain.read(ReadMode::NormalizedFloat)).err(),
                Texture::new(&bytes, &plain.address_mode(AddressMode::Wrap)).err(),
                Texture::new(&bytes, &plain.address_mode(AddressMode::Mirror)).err(),
                Texture::new(&cube, &plain).err(),
                Texture::of_buffer(&buffer, &plain.filter(FilterMode::Linear)).err(),
                Texture::of_buffer(&buffer, &plain.read(ReadMode::NormalizedFloat)).err(),
                Texture::of_buffer(&buffer, &plain.address_mode(AddressMode::Border)).err(),
                Texture::of_slice(&buffer[..0], &plain).err(),
                Texture::of_rows(&rows, &plain.address_mode(AddressMode::Wrap)).err(),
                Texture::of_rows(&none, &plain).err(),
                Surface::new(&bytes).err(),
            ]
        });
        assert_eq!((results, calls.total()), ([Some(CudaError::InvalidValue); 12], 0));
        let (result, calls) = during(|| Texture::of_slice(&buffer[1..], &plain).err());
        assert_eq!((result, calls.of("cuTexObjectCreate")), (Some(CudaError::InvalidValue), 0));
    });
}

#[test]
fn a_texture_is_made_read_and_destroyed_in_its_context_whatever_is_current() {
    run(|| {
        let (ctx, _base) = (parked(), pushed());
        let array = ctx.scoped(|_| ArrayObject::new_1d(2, ArrayFormat::Float, 1)).unwrap();
        let before = CurrentContext::get_current().unwrap();
        let other = ArrayObject::new_1d(2, ArrayFormat::Float, 1).unwrap();
        let texture = Texture::new(&array, &TextureDescriptor::new()).unwrap();
        let here = Texture::new(&other, &TextureDescriptor::new()).unwrap();
        assert_eq!(texture.context(), &ctx.get_unowned());
        assert_eq!(texture.descriptor(), Ok(TextureDescriptor::new()));
        drop(texture);
        assert_eq!(here.descriptor(), Ok(TextureDescriptor::new()));
        assert_eq!(CurrentContext::get_current().unwrap(), before);
    });
}

#[test]
fn a_texture_outlives_the_owner_of_its_context() {
    run(|| {
        let ctx = pushed();
        let array = ArrayObject::new_1d(2, ArrayFormat::Float, 1).unwrap();
        let texture = Texture::new(&array, &TextureDescriptor::new()).unwrap();
        drop(ctx);
        assert_eq!(texture.descriptor(), Err(CudaError::ContextIsDestroyed));
        let refused = Texture::new(&array, &TextureDescriptor::new());
        assert_eq!(refused.unwrap_err(), CudaError::ContextIsDestroyed);
        assert!(Texture::drop(texture).is_ok());
    });
}

#[test]
fn a_texture_is_dropped_on_any_thread_and_in_host_functions() {
    use custack::stream::{Stream, StreamFlags};
    run(|| {
        let _ctx = pushed();
        let make = || {
            let array = ArrayObject::new_1d(2, ArrayFormat::Float, 1).unwrap();
            Texture::new(array, &TextureDescriptor::new()).unwrap()
        };
        let (one, two) = (make(), make());
        std::thread::spawn(move || drop(one)).join().unwrap();
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
        stream.add_callback(Box::new(move |_| drop(two))).unwrap();
        stream.synchronize().unwrap();
        custack::context::wait_until_retired().unwrap();
    });
}

#[test]
fn a_kernel_that_reads_what_is_gone_or_no_texture_fails_on_the_simulated_driver() {
    run(|| {
        if !is_simulated() {
            return crate::harness::skip(
                "a_kernel_that_reads_what_is_gone_or_no_texture_fails_on_the_simulated_driver",
                "on a GPU it reads something",
            );
        }
        let refused = |object: u64| {
            let _ctx = pushed();
            run_words(READ_1D, object, &[[0; 4]])
        };
        let _ctx = pushed();
        let array = ArrayObject::new_1d(2, ArrayFormat::Float, 1).unwrap();
        let texture = Texture::new(&array, &TextureDescriptor::new()).unwrap();
        assert_eq!(refused(texture.as_raw()), Err(CudaError::LaunchFailed), "of another context");
        let gone = texture.as_raw();
        drop(texture);
        assert_eq!(refused(gone), Err(CudaError::LaunchFailed));
        assert_eq!(refused(7), Err(CudaError::LaunchFailed));
    });
}

#[test]
fn forms_that_are_not_modelled_are_refused_when_the_kernel_is_asked_for() {
    run(|| {
        if !is_simulated() {
            return crate::harness::skip(
                "forms_that_are_not_modelled_are_refused_when_the_kernel_is_asked_for",
                "a GPU has them",
            );
        }
        let _ctx = pushed();
        for instruction in [
            "tex.2d.v4.f32.f32 {%r4, %r5, %r6, %r7}, [%rd0, {%f0, %f1}], {%r0, %r1};",
            "tex.2d.v4.f32.f32 {%r4, %r5, %r6, %r7}, [%rd0, %rd1, {%f0, %f1}];",
            "tex.2dms.v4.f32.s32 {%r4, %r5, %r6, %r7}, [%rd0, {%r0, %r1, %r2, %r3}];",
            "txq.filter_mode.b32 %r4, [%rd0];",
            "txq.array_size.b32 %r4, [%rd0];",
        ] {
            let module = Module::load_from_bytes(text(instruction).as_bytes()).unwrap();
            let refused = module.get_function(&CString::new("takes").unwrap());
            assert_eq!(refused.err(), Some(CudaError::NotSupported), "{instruction}");
        }
    });
}

#[test]
fn what_a_texture_needs_is_freed_in_any_order() {
    run(|| {
        let _ctx = pushed();
        let flags = ArrayObjectFlags::SURFACE_LDST;
        let descriptor = ArrayDescriptor::new([4, 0, 0], ArrayFormat::Float, 1, flags);
        let array = Arc::new(ArrayObject::from_descriptor(&descriptor).unwrap());
        let surface = Surface::new(Arc::clone(&array)).unwrap();
        let texture = Texture::new(Arc::clone(&array), &TextureDescriptor::new()).unwrap();
        assert!(matches!(surface.resource().unwrap(), TextureResource::Array(_)));
        drop(array);
        drop(surface);
        assert_eq!(texture.descriptor(), Ok(TextureDescriptor::new()));
    });
}

#[cfg(feature = "graph")]
#[test]
fn a_texture_that_is_made_or_dropped_during_a_capture_does_not_break_it() {
    use custack::driver::instrument::during;
    use custack::stream::{CaptureMode, Stream, StreamFlags};
    // The capture forbids other threads to make arrays.
    run_alone(|| {
        let _ctx = pushed();
        let array = ArrayObject::new_1d(2, ArrayFormat::Float, 1).unwrap();
        let texture = Texture::new(&array, &TextureDescriptor::new()).unwrap();
        let mut stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
        let captured = stream.capture(CaptureMode::Global, |_| {
            let (made, calls) = during(|| Texture::new(&array, &TextureDescriptor::new()).err());
            assert_eq!((made, calls.of("cuTexObjectCreate")), (Some(CudaError::StreamCaptureUnsupported), 0));
            assert_eq!(texture.descriptor(), Ok(TextureDescriptor::new()));
            drop(texture);
            Ok(())
        });
        assert!(captured.is_ok(), "{captured:?}");
    });
}
