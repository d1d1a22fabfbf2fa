//! Formats and descriptors as RustaCUDA's programs convert them.

// The flags of a descriptor are any bits.
#![allow(unsafe_code)]

use super::{ArrayDescriptor, ArrayFormat, ArrayObjectFlags};
use cuda_driver_sys::{CUDA_ARRAY3D_DESCRIPTOR, CUarray_format, CUarray_format_enum};

const FORMATS: [(ArrayFormat, CUarray_format); 8] = [
    (ArrayFormat::UnsignedInt8, CUarray_format_enum::CU_AD_FORMAT_UNSIGNED_INT8),
    (ArrayFormat::UnsignedInt16, CUarray_format_enum::CU_AD_FORMAT_UNSIGNED_INT16),
    (ArrayFormat::UnsignedInt32, CUarray_format_enum::CU_AD_FORMAT_UNSIGNED_INT32),
    (ArrayFormat::SignedInt8, CUarray_format_enum::CU_AD_FORMAT_SIGNED_INT8),
    (ArrayFormat::SignedInt16, CUarray_format_enum::CU_AD_FORMAT_SIGNED_INT16),
    (ArrayFormat::SignedInt32, CUarray_format_enum::CU_AD_FORMAT_SIGNED_INT32),
    (ArrayFormat::Half, CUarray_format_enum::CU_AD_FORMAT_HALF),
    (ArrayFormat::Float, CUarray_format_enum::CU_AD_FORMAT_FLOAT),
];

impl ArrayFormat {
    /// The format for the C header's value.
    #[inline]
    pub fn from_raw(raw: CUarray_format) -> ArrayFormat {
        let found = FORMATS.iter().find(|(_, known)| *known == raw);
        found.map_or(ArrayFormat::UnsignedInt8, |(format, _)| *format)
    }

    /// The C header's value.
    #[inline]
    pub fn to_raw(self) -> CUarray_format {
        let found = FORMATS.iter().find(|(format, _)| *format == self);
        found.map_or(CUarray_format_enum::CU_AD_FORMAT_UNSIGNED_INT8, |(_, raw)| *raw)
    }
}

impl ArrayDescriptor {
    /// Converts a descriptor of the C header.
    #[inline]
    pub fn from_raw(desc: CUDA_ARRAY3D_DESCRIPTOR) -> ArrayDescriptor {
        // SAFETY: any bits are valid; the driver may have newer flags.
        let flags = unsafe { ArrayObjectFlags::from_bits_unchecked(desc.Flags) };
        let dims = [desc.Width, desc.Height, desc.Depth];
        ArrayDescriptor::new(dims, ArrayFormat::from_raw(desc.Format), desc.NumChannels, flags)
    }
}
