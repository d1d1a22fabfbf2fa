//! Textures of arrays, of buffers and of rows, and what is checked of them.

// Describes to the driver what the texture keeps.
#![allow(unsafe_code)]

use super::owned::Owned;
use super::resource::{linear, of_array, rows};
use super::{AddressMode, FilterMode, ReadMode, Texture, TextureDescriptor};
use crate::context::UnownedContext;
use crate::device::DeviceAttribute;
use crate::driver::Driver;
use crate::driver::ffi::CUDA_RESOURCE_DESC;
use crate::error::{CudaError, CudaResult};
use crate::memory::array::{ArrayFormat, ArrayObject, ArrayObjectFlags, Texel};
use crate::memory::{DeviceBuffer, DeviceSlice, PitchedBuffer};
use std::borrow::Borrow;

impl<A: Borrow<ArrayObject>> Texture<A> {
    /// A texture of an array: of a reference to it, an [`Arc`](std::sync::Arc), or the array itself.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](CudaError::InvalidValue), before the driver is called, for a filter of elements that are read as
    /// integers, normalised reads of 32-bit integers, modes that repeat, and cubes, without normalised coordinates;
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed); or any error of the driver.
    ///
    /// ```
    /// use custack::error::CudaError;
    /// use custack::memory::array::{ArrayFormat, ArrayObject};
    /// use custack::texture::{FilterMode, Texture, TextureDescriptor};
    /// use std::sync::Arc;
    ///
    /// let _context = custack::quick_init()?;
    /// let array = Arc::new(ArrayObject::new_2d([16, 16], ArrayFormat::UnsignedInt32, 1)?);
    /// let texture = Texture::new(Arc::clone(&array), &TextureDescriptor::new())?;
    /// let filtered = Texture::new(array, &TextureDescriptor::new().filter(FilterMode::Linear));
    /// assert_eq!(filtered.unwrap_err(), CudaError::InvalidValue);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuTexObjectCreate")]
    #[inline]
    pub fn new(array: A, descriptor: &TextureDescriptor) -> CudaResult<Texture<A>> {
        let of: &ArrayObject = array.borrow();
        let is_cube = of.made().flags().contains(ArrayObjectFlags::CUBEMAP);
        let wrong = match wrong(descriptor, of.made().format()) {
            None if is_cube && !descriptor.normalized_coordinates => {
                Some("directions into a cube are normalised coordinates")
            }
            wrong => wrong,
        };
        refuse(wrong, descriptor)?;
        let object = make(of.context(), &of_array(of)?, descriptor)?;
        Ok(Texture::made(object, array, descriptor))
    }
}

impl<B> Texture<B> {
    /// A texture of a buffer, whose elements kernels fetch by number; what is beyond is zero.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](CudaError::InvalidValue), before the texture is made, for what the driver would ignore: a filter, a
    /// mode for what is outside, normalised coordinates; for normalised reads of 32-bit integers; for a buffer without
    /// values, one of more than the device's
    /// [`MaximumTexture1DLinearWidth`](DeviceAttribute::MaximumTexture1DLinearWidth), or one that is not aligned to its
    /// [`TextureAlignment`](DeviceAttribute::TextureAlignment). [`ContextIsDestroyed`](CudaError::ContextIsDestroyed); or
    /// any error of the driver.
    ///
    /// ```
    /// use custack::memory::DeviceBuffer;
    /// use custack::texture::{Texture, TextureDescriptor};
    ///
    /// let _context = custack::quick_init()?;
    /// let texture = Texture::of_buffer(DeviceBuffer::from_slice(&[[1u8, 2, 3, 4]; 100])?, &TextureDescriptor::new())?;
    /// assert_eq!(texture.source().len(), 100);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuTexObjectCreate")]
    #[inline]
    pub fn of_buffer<T: Texel>(buffer: B, descriptor: &TextureDescriptor) -> CudaResult<Texture<B>>
    where
        B: Borrow<DeviceBuffer<T>>,
    {
        let object = of_linear(buffer.borrow(), descriptor)?;
        Ok(Texture::made(object, buffer, descriptor))
    }

    /// A texture of rows, which kernels read as two dimensions.
    ///
    /// # Errors
    ///
    /// Those of [`new`](Self::new). [`InvalidValue`](CudaError::InvalidValue), before the texture is made, for no rows,
    /// and for more, longer, or further apart than the device's [`MaximumTexture2DLinearHeight`], [`Width`] and [`Pitch`].
    ///
    /// [`MaximumTexture2DLinearHeight`]: DeviceAttribute::MaximumTexture2DLinearHeight
    /// [`Width`]: DeviceAttribute::MaximumTexture2DLinearWidth
    /// [`Pitch`]: DeviceAttribute::MaximumTexture2DLinearPitch
    ///
    /// ```
    /// use custack::memory::PitchedBuffer;
    /// use custack::texture::{Texture, TextureDescriptor};
    ///
    /// let _context = custack::quick_init()?;
    /// let rows = PitchedBuffer::from_slice(&[1.0f32; 12], 4)?;
    /// let texture = Texture::of_rows(&rows, &TextureDescriptor::new())?;
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuTexObjectCreate")]
    #[inline]
    pub fn of_rows<T: Texel>(buffer: B, descriptor: &TextureDescriptor) -> CudaResult<Texture<B>>
    where
        B: Borrow<PitchedBuffer<T>>,
    {
        let of: &PitchedBuffer<T> = buffer.borrow();
        refuse(wrong(descriptor, T::FORMAT), descriptor)?;
        if of.width() == 0 || of.height() == 0 {
            return Err(CudaError::InvalidValue.note(format_args!("to make a texture of no values")));
        }
        let (address, context) = of.row(0).place()?;
        let sizes = [
            (DeviceAttribute::MaximumTexture2DLinearWidth, of.width()),
            (DeviceAttribute::MaximumTexture2DLinearHeight, of.height()),
            (DeviceAttribute::MaximumTexture2DLinearPitch, of.pitch()),
        ];
        let alignments = [
            (DeviceAttribute::TextureAlignment, address),
            (DeviceAttribute::TexturePitchAlignment, of.pitch() as u64),
        ];
        within(&context, &sizes, &alignments)?;
        let resource = rows::<T>(address, [of.width(), of.height()], of.pitch());
        let object = make(&context, &resource, descriptor)?;
        Ok(Texture::made(object, buffer, descriptor))
    }
}

impl<'a, T: Texel> Texture<&'a DeviceSlice<T>> {
    /// Like [`of_buffer`](Self::of_buffer), of a part of a buffer.
    ///
    /// # Errors
    ///
    /// Like [`of_buffer`](Self::of_buffer).
    ///
    /// ```
    /// use custack::memory::DeviceBuffer;
    /// use custack::texture::{Texture, TextureDescriptor};
    ///
    /// let _context = custack::quick_init()?;
    /// let buffer = DeviceBuffer::from_slice(&[1.0f32; 1000])?;
    /// let texture = Texture::of_slice(&buffer[..100], &TextureDescriptor::new())?;
    /// assert!(Texture::of_slice(&buffer[1..], &TextureDescriptor::new()).is_err()); // not aligned
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuTexObjectCreate")]
    #[inline]
    pub fn of_slice(slice: &'a DeviceSlice<T>, descriptor: &TextureDescriptor) -> CudaResult<Self> {
        Ok(Texture::made(of_linear(slice, descriptor)?, slice, descriptor))
    }
}

#[inline]
fn of_linear<T: Texel>(slice: &DeviceSlice<T>, descriptor: &TextureDescriptor) -> CudaResult<Owned> {
    let plain = TextureDescriptor { read: descriptor.read, ..TextureDescriptor::new() };
    let wrong = match wrong(descriptor, T::FORMAT) {
        None if *descriptor != plain => Some("elements of a buffer are fetched as they are, by number"),
        None if slice.is_empty() => Some("it has no values"),
        wrong => wrong,
    };
    refuse(wrong, descriptor)?;
    let (address, context) = slice.place()?;
    let sizes = [(DeviceAttribute::MaximumTexture1DLinearWidth, slice.len())];
    within(&context, &sizes, &[(DeviceAttribute::TextureAlignment, address)])?;
    make(&context, &linear::<T>(address, slice.len()), descriptor)
}

/// What is wrong with reading elements of this format so.
#[inline]
fn wrong(descriptor: &TextureDescriptor, format: ArrayFormat) -> Option<&'static str> {
    let is_float = matches!(format, ArrayFormat::Half | ArrayFormat::Float);
    let is_wide = format.channel_size() == 4;
    let repeats = |mode: &AddressMode| matches!(mode, AddressMode::Wrap | AddressMode::Mirror);
    let normalizes = descriptor.read == ReadMode::NormalizedFloat;
    match () {
        () if normalizes && is_wide && !is_float => Some("integers of 32 bits are not normalised"),
        () if descriptor.filter == FilterMode::Linear && !is_float && !normalizes => {
            Some("elements that are read as integers are not filtered")
        }
        () if !descriptor.normalized_coordinates && descriptor.address_modes.iter().any(repeats) => {
            Some("a texture is repeated with normalised coordinates only")
        }
        () => None,
    }
}

#[inline]
fn refuse(wrong: Option<&'static str>, descriptor: &TextureDescriptor) -> CudaResult<()> {
    match wrong {
        None => Ok(()),
        Some(wrong) => Err(CudaError::InvalidValue
            .note(format_args!("to make a texture that reads as {descriptor:?} says: {wrong}"))),
    }
}

/// Refuses sizes above the limits of the context's device, and what is not aligned as it asks.
#[inline]
fn within(
    context: &UnownedContext,
    sizes: &[(DeviceAttribute, usize)],
    alignments: &[(DeviceAttribute, u64)],
) -> CudaResult<()> {
    let here = if context.is_null() { UnownedContext::of_this_thread()? } else { context.clone() };
    let device = here.device()?;
    for (attribute, size) in sizes {
        let most = device.get_attribute(*attribute)?;
        if *size > most.unsigned_abs() as usize {
            return Err(CudaError::InvalidValue
                .note(format_args!("to make a texture of {size}, where {attribute:?} is {most}")));
        }
    }
    for (attribute, at) in alignments {
        let step = device.get_attribute(*attribute)?;
        if at % u64::from(step.unsigned_abs().max(1)) != 0 {
            return Err(CudaError::InvalidValue
                .note(format_args!("to make a texture with {at:#x}, where {attribute:?} is {step}")));
        }
    }
    Ok(())
}

#[inline]
fn make(
    context: &UnownedContext,
    resource: &CUDA_RESOURCE_DESC,
    descriptor: &TextureDescriptor,
) -> CudaResult<Owned> {
    let raw = descriptor.raw();
    // SAFETY: the caller keeps what the resource is of as long as the texture.
    Owned::make(context, |driver| unsafe { driver.texture_create(resource, &raw) }, Driver::texture_destroy)
}
