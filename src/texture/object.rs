//! [`Texture`].

// Says of a handle that it can be copied to the device.
#![allow(unsafe_code)]

use super::owned::Owned;
use super::{TextureDescriptor, TextureResource};
use crate::context::UnownedContext;
use crate::driver::Driver;
use crate::driver::ffi::CUtexObject;
use crate::error::{CudaError, CudaResult, DropResult};
use crate::memory::DeviceCopy;
use std::marker::PhantomData;

/// Memory that kernels read by coordinates; see the [module](super). It keeps what it is of.
#[derive(Debug)]
pub struct Texture<S> {
    // Dropped in this order.
    object: Owned,
    source: S,
    border_color: [f32; 4],
}

/// A texture as a kernel's argument, `cudaTextureObject_t` in CUDA C++.
///
/// A launch is asynchronous: the texture is dropped after the kernel's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct TextureHandle<'a> {
    raw: CUtexObject,
    of: PhantomData<&'a ()>,
}

// SAFETY: a number.
unsafe impl DeviceCopy for TextureHandle<'_> {}

impl<S> Texture<S> {
    #[inline]
    pub(super) fn made(object: Owned, source: S, descriptor: &TextureDescriptor) -> Texture<S> {
        Texture { object, source, border_color: descriptor.border_color }
    }

    /// The argument for kernels.
    #[inline]
    pub fn handle(&self) -> TextureHandle<'_> {
        TextureHandle { raw: self.as_raw(), of: PhantomData }
    }

    /// The driver's handle.
    #[inline]
    pub fn as_raw(&self) -> CUtexObject {
        self.object.raw()
    }

    /// What the texture is of.
    #[inline]
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Its context; a null handle if an attempt to destroy the texture failed.
    #[inline]
    pub fn context(&self) -> &UnownedContext {
        self.object.context()
    }

    /// How it reads, according to the driver; but for the colour of the border, which drivers were seen to forget.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed); [`UnexpectedValue`](CudaError::UnexpectedValue) for a mode
    /// without a name.
    ///
    /// ```
    /// use custack::memory::array::{ArrayFormat, ArrayObject};
    /// use custack::texture::{Texture, TextureDescriptor};
    ///
    /// let _context = custack::quick_init()?;
    /// let array = ArrayObject::new_2d([4, 4], ArrayFormat::Float, 1)?;
    /// let texture = Texture::new(&array, &TextureDescriptor::new())?;
    /// assert_eq!(texture.descriptor()?, TextureDescriptor::new());
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuTexObjectGetTextureDesc")]
    #[inline]
    pub fn descriptor(&self) -> CudaResult<TextureDescriptor> {
        let found = TextureDescriptor::of(&self.object.with(Driver::texture_descriptor)?)?;
        Ok(found.border_color(self.border_color))
    }

    /// What it is of, according to the driver.
    ///
    /// # Errors
    ///
    /// Like [`descriptor`](Self::descriptor).
    ///
    /// ```
    /// use custack::memory::DeviceBuffer;
    /// use custack::texture::{Texture, TextureDescriptor, TextureResource};
    ///
    /// let _context = custack::quick_init()?;
    /// let buffer = DeviceBuffer::from_slice(&[[1.0f32, 2.0]; 5])?;
    /// let texture = Texture::of_buffer(&buffer, &TextureDescriptor::new())?;
    /// assert!(matches!(texture.resource()?, TextureResource::Linear { channels: 2, bytes: 40, .. }));
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuTexObjectGetResourceDesc")]
    #[inline]
    pub fn resource(&self) -> CudaResult<TextureResource> {
        TextureResource::of("cuTexObjectGetResourceDesc", &self.object.with(Driver::texture_resource)?)
    }

    /// Destroys the texture, and returns what it was of.
    ///
    /// # Errors
    ///
    /// Like [`drop`](Self::drop).
    #[inline]
    pub fn into_source(self) -> Result<S, (CudaError, Texture<S>)> {
        let Texture { object, source, border_color } = self;
        match object.drop() {
            Ok(()) => Ok(source),
            Err((error, object)) => Err((error, Texture { object, source, border_color })),
        }
    }

    /// Destroys the texture, and drops what it is of; if destroying fails, returns the error and the texture.
    ///
    /// # Errors
    ///
    /// Any error of the driver.
    #[doc(alias = "cuTexObjectDestroy")]
    #[inline]
    pub fn drop(texture: Texture<S>) -> DropResult<Texture<S>> {
        texture.into_source().map(drop)
    }
}
