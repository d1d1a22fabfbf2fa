//! The C types of texture and surface objects.

use std::os::raw::{c_int, c_uint, c_ulonglong};

/// A texture object, as kernels get it.
pub type CUtexObject = c_ulonglong;
/// A surface object, as kernels get it.
pub type CUsurfObject = c_ulonglong;

/// What a texture or a surface is of. The header has a union; these fields are those of its longest part, `pitch2D`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(non_snake_case)]
pub struct CUDA_RESOURCE_DESC {
    /// 0 an array, 1 a mipmapped array, 2 linear memory, 3 rows.
    pub resType: c_uint,
    /// The handle of the array, or the address of the memory.
    pub devPtr: c_ulonglong,
    /// The number of the format, for memory.
    pub format: c_uint,
    /// Channels of an element, for memory.
    pub numChannels: c_uint,
    /// Elements of a row; bytes of linear memory.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Bytes from row to row.
    pub pitchInBytes: usize,
    /// Nothing.
    pub reserved: [c_ulonglong; 11],
    /// 0.
    pub flags: c_uint,
}

/// How a texture reads.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[allow(non_snake_case)]
pub struct CUDA_TEXTURE_DESC {
    /// What is read outside, for each dimension: 0 wrap, 1 clamp, 2 mirror, 3 border.
    pub addressMode: [c_uint; 3],
    /// 0 point, 1 linear.
    pub filterMode: c_uint,
    /// 1 elements as integers, 2 normalised coordinates, 0x10 sRGB, and others.
    pub flags: c_uint,
    /// Clamped to 1 to 16.
    pub maxAnisotropy: c_uint,
    /// As `filterMode`, between levels.
    pub mipmapFilterMode: c_uint,
    /// Added to the level.
    pub mipmapLevelBias: f32,
    /// The least level.
    pub minMipmapLevelClamp: f32,
    /// The greatest level.
    pub maxMipmapLevelClamp: f32,
    /// What is read outside in the mode border.
    pub borderColor: [f32; 4],
    /// Nothing.
    pub reserved: [c_int; 12],
}

/// Another view of an array: its format, and some of its levels and layers.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(non_snake_case)]
pub struct CUDA_RESOURCE_VIEW_DESC {
    /// The number of the format; 0 is the array's own.
    pub format: c_uint,
    /// Elements of a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Slices.
    pub depth: usize,
    /// 0 for an array without levels.
    pub firstMipmapLevel: c_uint,
    /// 0 for an array without levels.
    pub lastMipmapLevel: c_uint,
    /// The first layer.
    pub firstLayer: c_uint,
    /// The last layer.
    pub lastLayer: c_uint,
    /// Nothing.
    pub reserved: [c_uint; 16],
}
