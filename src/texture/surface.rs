//! [`Surface`].

// Describes to the driver what it keeps.
#![allow(unsafe_code)]

use super::TextureResource;
use super::owned::Owned;
use super::resource::of_array;
use crate::context::UnownedContext;
use crate::driver::Driver;
use crate::driver::ffi::CUsurfObject;
use crate::error::{CudaError, CudaResult, DropResult};
use crate::memory::DeviceCopy;
use crate::memory::array::{ArrayObject, ArrayObjectFlags};
use std::borrow::Borrow;
use std::marker::PhantomData;

/// An array that kernels read and write by coordinates; see the [module](super). It keeps the array.
#[derive(Debug)]
pub struct Surface<A> {
    // Dropped in this order.
    object: Owned,
    array: A,
}

/// A surface as a kernel's argument, `cudaSurfaceObject_t` in CUDA C++.
///
/// A launch is asynchronous: the surface is dropped after the kernel's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct SurfaceHandle<'a> {
    raw: CUsurfObject,
    of: PhantomData<&'a ()>,
}

// SAFETY: a number.
unsafe impl DeviceCopy for SurfaceHandle<'_> {}

impl<A: Borrow<ArrayObject>> Surface<A> {
    /// A surface of an array, which was made with [`SURFACE_LDST`](ArrayObjectFlags::SURFACE_LDST).
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](CudaError::InvalidValue) for an array that was made without, before the driver is called;
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    ///
    /// ```
    /// use custack::memory::array::{ArrayDescriptor, ArrayFormat, ArrayObject, ArrayObjectFlags};
    /// use custack::texture::Surface;
    ///
    /// let _context = custack::quick_init()?;
    /// let flags = ArrayObjectFlags::SURFACE_LDST;
    /// let written = ArrayDescriptor::new([8, 8, 0], ArrayFormat::Float, 1, flags);
    /// let surface = Surface::new(ArrayObject::from_descriptor(&written)?)?;
    /// assert!(Surface::new(ArrayObject::new_2d([8, 8], ArrayFormat::Float, 1)?).is_err());
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias = "cuSurfObjectCreate")]
    #[inline]
    pub fn new(array: A) -> CudaResult<Surface<A>> {
        let of: &ArrayObject = array.borrow();
        if !of.made().flags().contains(ArrayObjectFlags::SURFACE_LDST) {
            return Err(CudaError::InvalidValue
                .note(format_args!("to make a surface of an array without SURFACE_LDST: {:?}", of.made())));
        }
        let resource = of_array(of)?;
        // SAFETY: the array is kept as long as the surface.
        let make = |driver: &Driver| unsafe { driver.surface_create(&resource) };
        let object = Owned::make(of.context(), make, Driver::surface_destroy)?;
        Ok(Surface { object, array })
    }
}

impl<A> Surface<A> {
    /// The argument for kernels.
    #[inline]
    pub fn handle(&self) -> SurfaceHandle<'_> {
        SurfaceHandle { raw: self.as_raw(), of: PhantomData }
    }

    /// The driver's handle.
    #[inline]
    pub fn as_raw(&self) -> CUsurfObject {
        self.object.raw()
    }

    /// The array.
    #[inline]
    pub fn array(&self) -> &A {
        &self.array
    }

    /// Its context; a null handle if an attempt to destroy the surface failed.
    #[inline]
    pub fn context(&self) -> &UnownedContext {
        self.object.context()
    }

    /// What it is of, according to the driver.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](CudaError::ContextIsDestroyed).
    #[doc(alias = "cuSurfObjectGetResourceDesc")]
    #[inline]
    pub fn resource(&self) -> CudaResult<TextureResource> {
        TextureResource::of("cuSurfObjectGetResourceDesc", &self.object.with(Driver::surface_resource)?)
    }

    /// Destroys the surface, and returns the array.
    ///
    /// # Errors
    ///
    /// Like [`drop`](Self::drop).
    #[inline]
    pub fn into_array(self) -> Result<A, (CudaError, Surface<A>)> {
        let Surface { object, array } = self;
        match object.drop() {
            Ok(()) => Ok(array),
            Err((error, object)) => Err((error, Surface { object, array })),
        }
    }

    /// Destroys the surface, and drops what it keeps; if destroying fails, returns the error and the surface.
    ///
    /// # Errors
    ///
    /// Any error of the driver.
    #[doc(alias = "cuSurfObjectDestroy")]
    #[inline]
    pub fn drop(surface: Surface<A>) -> DropResult<Surface<A>> {
        surface.into_array().map(drop)
    }
}
