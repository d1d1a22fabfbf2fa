//! The numbers of the simulated driver's interpreter, against references that compute in other ways.
//!
//! The files under test are the crate's own, compiled here by themselves: a kernel would be a slow way to reach them.

#[path = "../../../../src/ptx/arith/mod.rs"]
#[allow(dead_code, reason = "what only the interpreter uses")]
mod numbers;

mod conversions;
mod floats;
mod halves;
mod integers;
mod matrices;
mod videos;

/// Random numbers, the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// The bits of a float with these numbers of bits in exponent and fraction: often an edge case, or with few bits
    /// set.
    fn float(&mut self, exponent: u32, fraction: u32) -> u64 {
        let sign = self.next() >> 63 << (exponent + fraction);
        let infinity = ((1u64 << exponent) - 1) << fraction;
        let bias = ((1u64 << (exponent - 1)) - 1) << fraction;
        let random = self.next() & ((1 << fraction) - 1);
        let short = random & !0u64 << self.below(fraction.into());
        let near_one = bias.wrapping_add((self.below(9)).wrapping_sub(4) << fraction);
        sign | match self.below(12) {
            0 => [0, 1, infinity, infinity - 1, 1 << fraction, (1 << fraction) - 1, bias]
                [self.below(7) as usize],
            1 => random,
            2 => short,
            3..=5 => near_one + short,
            6..=8 => near_one + random,
            9 => infinity - (1 << fraction) + random,
            _ => self.next() & (infinity + (1 << fraction) - 1),
        }
    }

    fn f32(&mut self) -> f32 {
        f32::from_bits(self.float(8, 23) as u32)
    }

    fn f64(&mut self) -> f64 {
        f64::from_bits(self.float(11, 52))
    }

    /// Often an edge of some width.
    fn integer(&mut self) -> u64 {
        let edges = [
            0,
            1,
            2,
            7,
            8,
            31,
            32,
            33,
            63,
            64,
            255,
            0x7f,
            0x7fff,
            0xffff,
            0x7fff_ffff,
            0x8000_0000,
            u64::MAX,
        ];
        match self.below(4) {
            0 => edges[self.below(17) as usize],
            1 => (1u64 << self.below(64)).wrapping_sub(self.below(3)),
            _ => self.next() >> self.below(64),
        }
    }
}
