//! The arithmetic of PTX on single values, as an H200 computes it: what each lane of a warp does.
//!
//! [`float`] has `f32` and `f64`, [`half`] `f16` and `bf16`, [`small`] the formats of tensor cores, [`int`] and
//! [`bits`] integers, [`simd`] the video instructions, [`convert`] `cvt` and [`approx`] the approximate functions.
//! [`matrix`] says which lane has which element of a matrix, and [`mma`] and [`quads`] multiply them.
//! [`round`] is the one place that deals with rounding modes, and [`soft`] computes what the host's arithmetic cannot.
//!
//! Every function has a result for all operands, and none panics. A modifier such as `.ftz` is a function of its own
//! wherever it can be, applied to operands and results, so that common instructions stay one instruction of the host.

pub(crate) mod approx;
pub(crate) mod bits;
pub(crate) mod compare;
pub(crate) mod convert;
pub(crate) mod float;
pub(crate) mod half;
pub(crate) mod int;
pub(crate) mod matrix;
pub(crate) mod mma;
pub(crate) mod quads;
pub(crate) mod round;
pub(crate) mod simd;
pub(crate) mod small;
mod soft;
