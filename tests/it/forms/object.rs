//! The textures and surfaces that forms read and write, each with contents of its own.

// Takes numbers from bytes.
#![allow(unsafe_code)]

use custack::error::CudaResult;
use custack::memory::array::{ArrayDescriptor, ArrayFormat, ArrayObject, ArrayObjectFlags, Half, Texel};
use custack::memory::{DeviceBuffer, PitchedBuffer};
use custack::texture::{Surface, Texture, TextureDescriptor};

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
    pub(super) texture: Option<TextureDescriptor>,
    /// Which contents it has: [`FILLED`] is the same word everywhere.
    pub(super) seed: u64,
    /// Floats are of a few magnitudes, and not any bits.
    pub(super) is_tame: bool,
    /// `tld4` reads it.
    pub(super) is_gathered: bool,
}

pub(super) const FILLED: u64 = u64::MAX;
pub(super) const FILL: u32 = 0x5a5a_1234;

/// A driver's object, with what it is of.
pub(super) struct Made {
    pub(super) handle: u64,
    _of: Box<dyn std::any::Any>,
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
        self.format.channel_size()
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
    pub(super) fn make(&self) -> CudaResult<Made> {
        macro_rules! made {
            ($($format:ident $ty:ty,)*) => {
                match (self.format, self.channels) {
                    $((ArrayFormat::$format, 1) => self.of::<$ty>(),
                    (ArrayFormat::$format, 2) => self.of::<[$ty; 2]>(),
                    (ArrayFormat::$format, 4) => self.of::<[$ty; 4]>(),)*
                    other => panic!("no elements are {other:?}"),
                }
            };
        }
        made! {
            UnsignedInt8 u8, UnsignedInt16 u16, UnsignedInt32 u32, SignedInt8 i8, SignedInt16 i16, SignedInt32 i32,
            Half Half, Float f32,
        }
    }

    fn of<T: Texel + 'static>(&self) -> CudaResult<Made> {
        let count = self.size.iter().product::<usize>() * self.channels;
        let size = self.channel_size();
        let bytes: Vec<u8> =
            (0..count).flat_map(|at| self.channel(at).to_le_bytes().into_iter().take(size)).collect();
        // SAFETY: all bits are values, and each is of as many bytes.
        let value = |bytes: &[u8]| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() };
        let values: Vec<T> = bytes.chunks_exact(std::mem::size_of::<T>()).map(value).collect();
        let array = || -> CudaResult<ArrayObject> {
            let descriptor = ArrayDescriptor::new(self.dims(), T::FORMAT, T::CHANNELS, self.flags());
            let array = ArrayObject::from_descriptor(&descriptor)?;
            array.copy_from(&values)?;
            Ok(array)
        };
        fn made<S: 'static>(handle: u64, of: S) -> Made {
            Made { handle, _of: Box::new(of) }
        }
        Ok(match (&self.texture, self.shape) {
            (None, _) => {
                let surface = Surface::new(array()?)?;
                made(surface.as_raw(), surface)
            }
            (Some(texture), Shape::Buffer) => {
                let texture = Texture::of_buffer(DeviceBuffer::from_slice(&values)?, texture)?;
                made(texture.as_raw(), texture)
            }
            (Some(texture), Shape::Rows) => {
                let rows = PitchedBuffer::from_slice(&values, self.size[0])?;
                let texture = Texture::of_rows(rows, texture)?;
                made(texture.as_raw(), texture)
            }
            (Some(texture), _) => {
                let texture = Texture::new(array()?, texture)?;
                made(texture.as_raw(), texture)
            }
        })
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

    fn flags(&self) -> ArrayObjectFlags {
        let flags = match self.shape {
            Shape::OneLayered | Shape::TwoLayered => ArrayObjectFlags::LAYERED,
            Shape::Cube => ArrayObjectFlags::CUBEMAP,
            Shape::CubeLayered => ArrayObjectFlags::CUBEMAP | ArrayObjectFlags::LAYERED,
            _ => ArrayObjectFlags::empty(),
        };
        let gathered = self.is_gathered && self.shape == Shape::Two;
        let flags = if gathered { flags | ArrayObjectFlags::TEXTURE_GATHER } else { flags };
        if self.texture.is_none() { flags | ArrayObjectFlags::SURFACE_LDST } else { flags }
    }
}
