//! The textures and surfaces that forms read and write, each with contents of its own.

use crate::gpu::{Buffer, Result, ask};
use custack_sys::ffi::*;
use std::ptr::{null, null_mut};

/// What a channel is, with the driver's number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ArrayFormat {
    UnsignedInt8 = 0x01,
    UnsignedInt16 = 0x02,
    UnsignedInt32 = 0x03,
    SignedInt8 = 0x08,
    SignedInt16 = 0x09,
    SignedInt32 = 0x0a,
    Half = 0x10,
    Float = 0x20,
}

/// What is read beyond the edge, with the driver's number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AddressMode {
    Wrap = 0,
    Clamp = 1,
    Mirror = 2,
    Border = 3,
}

/// How a texture is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sampler {
    pub(super) address_modes: [AddressMode; 3],
    pub(super) is_linear: bool,
    /// Integers stay what they are, and are not parts of one.
    pub(super) as_integer: bool,
    pub(super) is_normalized: bool,
    pub(super) border_color: [f32; 4],
}

impl Sampler {
    pub(super) const PLAIN: Sampler = Sampler {
        address_modes: [AddressMode::Clamp; 3],
        is_linear: false,
        as_integer: true,
        is_normalized: false,
        border_color: [0.0; 4],
    };

    fn raw(&self) -> CUDA_TEXTURE_DESC {
        CUDA_TEXTURE_DESC {
            addressMode: self.address_modes.map(|mode| mode as u32),
            filterMode: self.is_linear.into(),
            flags: u32::from(self.as_integer) | u32::from(self.is_normalized) << 1,
            borderColor: self.border_color,
            ..CUDA_TEXTURE_DESC::default()
        }
    }
}

/// What a texture or a surface is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    One,
    Two,
    Three,
    OneLayered,
    TwoLayered,
    Cube,
    CubeLayered,
    /// Memory without rows.
    Buffer,
    /// Rows of memory.
    Rows,
}

/// What an instruction names; the handle is in `%object`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Object {
    pub(super) shape: Shape,
    pub(super) format: ArrayFormat,
    pub(super) channels: usize,
    /// Elements of a row, rows, and slices, layers or faces; 1 where the shape has none.
    pub(super) size: [usize; 3],
    /// How it is read; `None` for a surface.
    pub(super) texture: Option<Sampler>,
    /// Which contents it has: [`FILLED`] is the same word everywhere.
    pub(super) seed: u64,
    /// Floats are of a few magnitudes, and not any bits.
    pub(super) is_tame: bool,
    /// `tld4` reads it.
    pub(super) is_gathered: bool,
}

pub(super) const FILLED: u64 = u64::MAX;
pub(super) const FILL: u32 = 0x5a5a_1234;

/// What an object is of.
enum Source {
    Array(CUarray),
    Linear(Buffer<u8>),
    Rows { at: u64, pitch: usize },
}

/// A driver's object, with what it is of.
pub(super) struct Made {
    pub(super) handle: u64,
    is_surface: bool,
    source: Source,
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = if self.is_surface {
            call!(cuSurfObjectDestroy(self.handle))
        } else {
            call!(cuTexObjectDestroy(self.handle))
        };
        let _ = match self.source {
            Source::Array(array) => call!(cuArrayDestroy(array)),
            Source::Rows { at, .. } => call!(cuMemFree_v2(at)),
            Source::Linear(_) => 0,
        };
    }
}

/// A random word for each number.
fn mixed(at: u64) -> u64 {
    let z = at.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

impl Object {
    pub(super) fn channel_size(&self) -> usize {
        match self.format {
            ArrayFormat::UnsignedInt8 | ArrayFormat::SignedInt8 => 1,
            ArrayFormat::UnsignedInt16 | ArrayFormat::SignedInt16 | ArrayFormat::Half => 2,
            _ => 4,
        }
    }

    /// Bytes of an element.
    pub(super) fn element(&self) -> usize {
        self.channel_size() * self.channels
    }

    pub(super) fn is_layered(&self) -> bool {
        matches!(self.shape, Shape::OneLayered | Shape::TwoLayered | Shape::CubeLayered)
    }

    /// The bits of a channel, of which `at` counts all.
    pub(super) fn channel(&self, at: usize) -> u64 {
        let word = if self.seed == FILLED { FILL.into() } else { mixed(self.seed << 32 | at as u64) };
        let bits = word & (u64::MAX >> (64 - 8 * self.channel_size()));
        match self.format {
            ArrayFormat::Float if self.is_tame => bits & 0x83ff_ffff | 0x3c00_0000,
            ArrayFormat::Half if self.is_tame => bits & 0xbfff,
            _ => bits,
        }
    }

    /// The bits of the channels of an element.
    pub(super) fn texel(&self, [x, y, z]: [usize; 3]) -> Vec<u64> {
        let first = ((z * self.size[1] + y) * self.size[0] + x) * self.channels;
        (first..first + self.channels).map(|at| self.channel(at)).collect()
    }

    /// A byte, of which `at` counts all.
    pub(super) fn byte(&self, at: usize) -> u8 {
        let size = self.channel_size();
        (self.channel(at / size) >> (8 * (at % size))) as u8
    }

    /// Makes it in the current context.
    pub(super) fn make(&self) -> Result<Made> {
        let size = self.channel_size();
        let count = self.size.iter().product::<usize>() * self.channels;
        let bytes: Vec<u8> = (0..count * size).map(|at| self.byte(at)).collect();
        let source = match (self.texture, self.shape) {
            (Some(_), Shape::Buffer) => Source::Linear(Buffer::from_slice(&bytes)?),
            (Some(_), Shape::Rows) => self.rows(&bytes)?,
            _ => self.array(&bytes)?,
        };
        let mut resource = CUDA_RESOURCE_DESC {
            format: self.format as u32,
            numChannels: self.channels as u32,
            ..CUDA_RESOURCE_DESC::default()
        };
        match source {
            Source::Array(array) => {
                (resource.resType, resource.devPtr) = (0, array.expose_provenance() as u64)
            }
            Source::Linear(ref buffer) => {
                (resource.resType, resource.devPtr, resource.width) = (2, buffer.address(), bytes.len());
            }
            Source::Rows { at, pitch } => {
                (resource.resType, resource.devPtr, resource.pitchInBytes) = (3, at, pitch);
                (resource.width, resource.height) = (self.size[0], self.size[1]);
            }
        }
        let mut made = Made { handle: 0, is_surface: self.texture.is_none(), source };
        ask(match &self.texture {
            None => call!(cuSurfObjectCreate(&mut made.handle, &resource)),
            Some(texture) => call!(cuTexObjectCreate(&mut made.handle, &resource, &texture.raw(), null())),
        })?;
        Ok(made)
    }

    /// An array of these bytes.
    fn array(&self, bytes: &[u8]) -> Result<Source> {
        let [width, height, depth] = self.dims();
        let descriptor = CUDA_ARRAY3D_DESCRIPTOR {
            Width: width,
            Height: height,
            Depth: depth,
            Format: self.format as u32,
            NumChannels: self.channels as u32,
            Flags: self.flags(),
        };
        let (mut array, row) = (null_mut(), width * self.element());
        ask(call!(cuArray3DCreate_v2(&mut array, &descriptor)))?;
        // SAFETY: zeros are numbers, and null.
        let mut copy: CUDA_MEMCPY3D = unsafe { std::mem::zeroed() };
        (copy.srcMemoryType, copy.srcHost) = (1, bytes.as_ptr().cast());
        (copy.srcPitch, copy.srcHeight) = (row, height.max(1));
        (copy.dstMemoryType, copy.dstArray) = (3, array);
        (copy.WidthInBytes, copy.Height, copy.Depth) = (row, height.max(1), depth.max(1));
        ask(call!(cuMemcpy3D_v2(&copy)))?;
        Ok(Source::Array(array))
    }

    /// Rows of these bytes.
    fn rows(&self, bytes: &[u8]) -> Result<Source> {
        let (mut at, mut pitch) = (0, 0);
        let (row, height) = (self.size[0] * self.element(), self.size[1]);
        ask(call!(cuMemAllocPitch_v2(&mut at, &mut pitch, row, height, 16)))?;
        for (y, bytes) in bytes.chunks(row).enumerate() {
            ask(call!(cuMemcpyHtoD_v2(at + (y * pitch) as u64, bytes.as_ptr().cast(), row)))?;
        }
        ask(call!(cuCtxSynchronize()))?;
        Ok(Source::Rows { at, pitch })
    }

    fn dims(&self) -> [usize; 3] {
        let [x, y, z] = self.size;
        match self.shape {
            Shape::One => [x, 0, 0],
            Shape::Two => [x, y, 0],
            Shape::OneLayered => [x, 0, z],
            _ => [x, y, z],
        }
    }

    fn flags(&self) -> u32 {
        let (layered, surface, cube, gather) = (1, 2, 4, 8);
        let shape = match self.shape {
            Shape::OneLayered | Shape::TwoLayered => layered,
            Shape::Cube => cube,
            Shape::CubeLayered => cube | layered,
            _ => 0,
        };
        let gathered = if self.is_gathered && self.shape == Shape::Two { gather } else { 0 };
        shape | gathered | if self.texture.is_none() { surface } else { 0 }
    }
}
