//! The types that a device variable can be read as.
//!
//! A variable of a module has its initial value or what kernels wrote, so its bytes may be any. As a `bool` or a
//! `NonZeroU32` they need not be a valid value, which safe code must not get. `DeviceCopy` does not distinguish these
//! types from numbers, but the compiler does: it stores `None` in an invalid pattern of a type, if there is one, and
//! then an `Option` of the type is no larger than the type itself.
//!
//! ```
//! use custack::memory::CopyDestination;
//! use custack::module::Module;
//! use custack::DeviceCopy;
//!
//! #[derive(Clone, Debug, Default, PartialEq, DeviceCopy)]
//! #[repr(C)]
//! struct Particle {
//!     place: [f32; 3],
//!     charge: (i32, i32),
//! }
//!
//! let _context = custack::quick_init()?;
//! let text = b".version 7.0 .target sm_70 .address_size 64 .visible .global .u32 first[5] = {0x3f800000, 0, 0, 7, 8};";
//! let module = Module::load_from_bytes(text)?;
//! let mut particle = Particle::default();
//! module.get_global::<Particle>(c"first")?.copy_to(&mut particle)?;
//! assert_eq!(particle, Particle { place: [1.0, 0.0, 0.0], charge: (7, 8) });
//! # Ok::<(), custack::error::CudaError>(())
//! ```
//!
//! These do not compile, each for the type of one field or value:
//!
//! ```compile_fail,E0080
//! # use custack::{memory::CopyDestination, module::Module};
//! # let module = Module::load_from_bytes(b"").unwrap();
//! let mut value = std::num::NonZeroU32::MIN;
//! module.get_global::<std::num::NonZeroU32>(c"x").unwrap().copy_to(&mut value).unwrap();
//! ```
//!
//! ```compile_fail,E0080
//! # use custack::{memory::CopyDestination, module::Module};
//! # let module = Module::load_from_bytes(b"").unwrap();
//! let mut value = [false; 4];
//! module.get_global::<[bool; 4]>(c"x").unwrap().copy_to(&mut value).unwrap();
//! ```
//!
//! ```compile_fail,E0080
//! # use custack::{memory::CopyDestination, module::Module};
//! # use custack::DeviceCopy;
//! # let module = Module::load_from_bytes(b"").unwrap();
//! #[derive(Clone, DeviceCopy)]
//! #[repr(u32)]
//! enum Mode {
//!     Fast,
//!     Exact,
//! }
//! let mut value = Mode::Fast;
//! module.get_global::<Mode>(c"x").unwrap().copy_to(&mut value).unwrap();
//! ```
//!
//! ```compile_fail,E0080
//! # use custack::{memory::CopyDestination, module::Module};
//! # use custack::DeviceCopy;
//! # let module = Module::load_from_bytes(b"").unwrap();
//! #[derive(Clone, DeviceCopy)]
//! #[repr(C)]
//! struct Options {
//!     steps: u32,
//!     exact: bool,
//! }
//! let mut value = Options { steps: 0, exact: false };
//! module.get_global::<Options>(c"x").unwrap().copy_to(&mut value).unwrap();
//! ```

use crate::memory::{DevicePointer, UnifiedPointer};
use std::marker::PhantomData;
use std::mem::size_of;
use std::num::{NonZero, Wrapping};

/// Whether all bytes are a valid `T`, as far as the compiler's layout of an `Option` shows.
///
/// It does not detect one kind of type: an enum that uses every pattern of its tag (256 variants, with a tag of a byte)
/// and has a field that does not; or as many `Option`s around a tuple of two `bool`s. The tag then has no invalid
/// pattern, and the compiler looks nowhere else.
pub(crate) const fn every_pattern_is_a_value<T>() -> bool {
    size_of::<Option<T>>() > size_of::<T>()
}

// A compiler with other layouts fails here, rather than accept what it should not.
const _: () = {
    #[allow(dead_code, reason = "only their layout matters")]
    enum Fieldless {
        A,
        B,
    }

    #[allow(dead_code, reason = "only its layout matters")]
    #[repr(u32)]
    enum OfFourBytes {
        A,
        B,
    }

    #[allow(dead_code, reason = "only its layout matters")]
    enum WithFields {
        A(u32),
        B(u64),
    }

    #[allow(dead_code, reason = "only its layout matters")]
    enum WithoutVariants {}

    #[allow(dead_code, reason = "only its layout matters")]
    struct WithBool {
        number: u64,
        truth: bool,
    }

    #[allow(dead_code, reason = "only its layout matters")]
    #[repr(C)]
    struct WithNonZero(u8, [u32; 3], NonZero<u16>);

    #[allow(dead_code, reason = "only its layout matters")]
    #[repr(C)]
    struct Numbers {
        small: u8,
        large: [f64; 3],
        pair: (i16, i128),
        nothing: (),
    }

    #[allow(dead_code, reason = "only its layout matters")]
    union Either {
        truth: bool,
        number: u32,
    }

    assert!(!every_pattern_is_a_value::<bool>());
    assert!(!every_pattern_is_a_value::<char>());
    assert!(!every_pattern_is_a_value::<NonZero<u8>>());
    assert!(!every_pattern_is_a_value::<NonZero<u32>>());
    assert!(!every_pattern_is_a_value::<NonZero<i128>>());
    assert!(!every_pattern_is_a_value::<Fieldless>());
    assert!(!every_pattern_is_a_value::<OfFourBytes>());
    assert!(!every_pattern_is_a_value::<WithFields>());
    assert!(!every_pattern_is_a_value::<WithoutVariants>());
    assert!(!every_pattern_is_a_value::<Option<u32>>());
    assert!(!every_pattern_is_a_value::<Result<u8, u16>>());
    assert!(!every_pattern_is_a_value::<[bool; 4]>());
    assert!(!every_pattern_is_a_value::<[[char; 2]; 2]>());
    assert!(!every_pattern_is_a_value::<(u64, bool)>());
    assert!(!every_pattern_is_a_value::<Wrapping<bool>>());
    assert!(!every_pattern_is_a_value::<WithBool>());
    assert!(!every_pattern_is_a_value::<WithNonZero>());
    assert!(!every_pattern_is_a_value::<&'static u32>());
    assert!(!every_pattern_is_a_value::<fn()>());

    assert!(every_pattern_is_a_value::<u8>());
    assert!(every_pattern_is_a_value::<u32>());
    assert!(every_pattern_is_a_value::<i64>());
    assert!(every_pattern_is_a_value::<u128>());
    assert!(every_pattern_is_a_value::<usize>());
    assert!(every_pattern_is_a_value::<f32>());
    assert!(every_pattern_is_a_value::<f64>());
    assert!(every_pattern_is_a_value::<()>());
    assert!(every_pattern_is_a_value::<[u32; 0]>());
    assert!(every_pattern_is_a_value::<[u32; 3]>());
    assert!(every_pattern_is_a_value::<(u8, u32)>());
    assert!(every_pattern_is_a_value::<Wrapping<u64>>());
    assert!(every_pattern_is_a_value::<PhantomData<bool>>());
    assert!(every_pattern_is_a_value::<Numbers>());
    assert!(every_pattern_is_a_value::<[Numbers; 2]>());
    assert!(every_pattern_is_a_value::<Either>());
    assert!(every_pattern_is_a_value::<DevicePointer<bool>>());
    assert!(every_pattern_is_a_value::<UnifiedPointer<u32>>());
};
