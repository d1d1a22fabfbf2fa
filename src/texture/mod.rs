//! Textures and surfaces: memory that kernels read by coordinates, and arrays that they write.
//!
//! | | of | kernels |
//! |---|---|---|
//! | [`Texture`] | an [array](crate::memory::array::ArrayObject), a [buffer](crate::memory::DeviceBuffer), or [rows](crate::memory::PitchedBuffer) | read it, with filters, and what is beyond it as well |
//! | [`Surface`] | an array that was made with [`SURFACE_LDST`](crate::memory::array::ArrayObjectFlags::SURFACE_LDST) | read and write it |
//!
//! Both keep what they are of: a reference to it, an [`Arc`](std::sync::Arc), or the array or buffer itself. A kernel gets
//! the [handle](Texture::handle). They belong to the context of their array or memory, work on any thread, whatever is
//! current there, and keep their context at the driver.
//!
//! ```
//! use custack::launch;
//! use custack::memory::array::{ArrayFormat, ArrayObject};
//! use custack::memory::{CopyDestination, DeviceBuffer};
//! use custack::module::Module;
//! use custack::stream::{Stream, StreamFlags};
//! use custack::texture::{FilterMode, Texture, TextureDescriptor};
//! use std::ffi::CString;
//!
//! // tex1D<float>(texture, 1.0f), half-way between the first element and the second one.
//! const PTX: &str = r#"
//!     .version 7.0 .target sm_70 .address_size 64
//!     .visible .entry between(.param .u64 texture, .param .u64 to) {
//!         .reg .b64 %rd<3>; .reg .f32 %f<5>;
//!         ld.param.u64 %rd1, [texture];
//!         ld.param.u64 %rd2, [to];
//!         mov.f32 %f0, 0f3F800000;
//!         tex.1d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f0}];
//!         st.global.f32 [%rd2], %f1;
//!         ret;
//!     }"#;
//!
//! let _context = custack::quick_init()?;
//! let module = Module::load_from_string(&CString::new(PTX).unwrap())?;
//! let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
//! let array = ArrayObject::new_1d(2, ArrayFormat::Float, 1)?;
//! array.copy_from(&[1.0f32, 2.0])?;
//! let texture = Texture::new(&array, &TextureDescriptor::new().filter(FilterMode::Linear))?;
//! let mut result = DeviceBuffer::from_slice(&[0.0f32])?;
//! unsafe {
//!     launch!(module.between<<<1, 1, 0, stream>>>(texture.handle(), result.as_device_ptr()))?;
//! }
//! stream.synchronize()?;
//! let mut found = [0.0f32];
//! result.copy_to(&mut found)?;
//! assert_eq!(found, [1.5]);
//! # Ok::<(), custack::error::CudaError>(())
//! ```

mod descriptor;
mod object;
mod owned;
mod resource;
mod sources;
mod surface;

pub use descriptor::{AddressMode, FilterMode, ReadMode, TextureDescriptor};
pub use object::{Texture, TextureHandle};
pub use resource::TextureResource;
pub use surface::{Surface, SurfaceHandle};
