//! The arithmetic of PTX on single values, as an H200 computes it: what each lane of a warp does.
//!
//! [`float`] has `f32` and `f64`, [`half`] `f16` and `bf16`, [`small`] the formats of tensor cores, [`int`] and
//! [`bits`] integers, [`simd`] the video instructions, [`convert`] `cvt` and [`approx`] the approximate functions.
//! [`matrix`] says which lane has which element of a matrix, and [`mma`] and [`quads`] multiply them.
//! [`round`] is the one place that deals with rounding modes, and [`soft`] computes what the host's arithmetic cannot.
//!
//! Every function has a result for all operands, and none panics. A modifier such as `.ftz` is a function of its own
//! wherever it can be, applied to operands and results, so that common instructions stay one instruction of the host.

pub(in crate::sim) mod approx;
pub(in crate::sim) mod bits;
pub(in crate::sim) mod compare;
pub(in crate::sim) mod convert;
pub(in crate::sim) mod float;
pub(in crate::sim) mod half;
pub(in crate::sim) mod int;
pub(in crate::sim) mod matrix;
pub(in crate::sim) mod mma;
pub(in crate::sim) mod quads;
pub(in crate::sim) mod round;
pub(in crate::sim) mod simd;
pub(in crate::sim) mod small;
mod soft;
