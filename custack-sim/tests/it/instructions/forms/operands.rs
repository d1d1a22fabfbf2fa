//! The operands that forms are applied to: edges of each kind, crossed, and random ones.

/// What an operand is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Kind {
    I16,
    I32,
    I64,
    /// Two integers of 16 bits.
    I16x2,
    /// By how much something is shifted, or where a field of bits is: a word that often is small.
    Amount,
    /// A word that is 0 or 1.
    Flag,
    F16,
    Bf16,
    F16x2,
    Bf16x2,
    F32,
    F64,
    /// Two floats of 8 bits.
    Fp8x2,
    /// Where something is in a small texture: a float.
    Coordinate,
    /// The same as an integer.
    Index,
}

impl Kind {
    pub(super) fn size(self) -> usize {
        match self {
            Kind::I16 | Kind::F16 | Kind::Bf16 | Kind::Fp8x2 => 2,
            Kind::I32 | Kind::I16x2 | Kind::Amount | Kind::Flag | Kind::F16x2 | Kind::Bf16x2 | Kind::F32 => 4,
            Kind::Coordinate | Kind::Index => 4,
            Kind::I64 | Kind::F64 => 8,
        }
    }

    /// The most telling values come first.
    fn edges(self) -> Vec<u64> {
        match self {
            Kind::I16 => integers(16),
            Kind::I32 => integers(32),
            Kind::I64 => integers(64),
            Kind::I16x2 => pairs(&integers(16), 16),
            Kind::Amount => {
                let far = [255, 256, 257, 264, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0xffff_ff80];
                let near = [0, 1, 31, 32, 33, 63, 64, 65, 16, 15, 17, 8];
                let rest = (0..=128).filter(|at| !near.contains(at));
                near.into_iter().chain(far).chain(rest).collect()
            }
            Kind::Flag => vec![0, 1],
            Kind::F16 => floats(5, 10),
            Kind::Bf16 => floats(8, 7),
            Kind::F16x2 => pairs(&floats(5, 10), 16),
            Kind::Bf16x2 => pairs(&floats(8, 7), 16),
            Kind::F32 => floats(8, 23),
            Kind::F64 => floats(11, 52),
            Kind::Coordinate => coordinates(),
            Kind::Index => {
                let near = [0, 1, 4, 0xffff_ffff, 5, 2, 7, 0x8000_0000, 0x7fff_ffff, 3, 6, 8, 9, 16];
                let far =
                    [0xffff_fffe, 0xffff_fffb, 0x1_0000, 0xffff_0000, 0x1000_0000, 0x4000_0000, 0xc000_0001];
                near.into_iter().chain(far).collect()
            }
            Kind::Fp8x2 => (0..256u64).flat_map(|low| [low | low << 8, low | (low ^ 0x80) << 8]).collect(),
        }
    }

    fn random(self, random: &mut Random) -> u64 {
        match self {
            Kind::I16 => random.integer() & 0xffff,
            Kind::I32 => random.integer() & 0xffff_ffff,
            Kind::I64 => random.integer(),
            Kind::I16x2 => random.integer() & 0xffff | (random.integer() & 0xffff) << 16,
            Kind::Amount if random.next() >> 61 == 0 => random.next() >> 32,
            Kind::Amount => random.next() >> 57,
            Kind::Flag => random.next() >> 63,
            Kind::F16 => random.float(5, 10),
            Kind::Bf16 => random.float(8, 7),
            Kind::F16x2 => random.float(5, 10) | random.float(5, 10) << 16,
            Kind::Bf16x2 => random.float(8, 7) | random.float(8, 7) << 16,
            Kind::F32 => random.float(8, 23),
            Kind::F64 => random.float(11, 52),
            Kind::Fp8x2 => random.next() >> 48,
            Kind::Coordinate => random.coordinate(),
            Kind::Index if random.next() >> 61 == 0 => random.integer() & 0xffff_ffff,
            Kind::Index => (random.next() >> 60).wrapping_sub(5) & 0xffff_ffff,
        }
    }
}

fn integers(bits: u32) -> Vec<u64> {
    let mask = u64::MAX >> (64 - bits);
    let top = 1u64 << (bits - 1);
    let mut all = vec![0, 1, mask, top, top - 1, 2, top + 1, mask - 1, 0x5555_5555_5555_5555, 10];
    all.extend([
        3,
        7,
        0x7f,
        0x80,
        0x81,
        0xff,
        0x100,
        0x101,
        31,
        32,
        33,
        0xaaaa_aaaa_aaaa_aaaa,
        0x1234_5678_9abc_def0,
    ]);
    all.extend([0x7fff, 0x8000, 0x8001, 0xffff, 0x1_0000, 0xff_ffff, 0x100_0000, 0x80_0000, 0x7f_ffff]);
    all.extend([
        0x7fff_ffff,
        0x8000_0000,
        0x8000_0001,
        0xffff_ffff,
        0x1_0000_0000,
        0xffff_0000,
        0xff80,
        !0x7f,
        !0xff,
    ]);
    unique(all.into_iter().map(|value| value & mask).collect())
}

fn floats(exponent: u32, fraction: u32) -> Vec<u64> {
    let sign = 1u64 << (exponent + fraction);
    let infinity = ((1u64 << exponent) - 1) << fraction;
    let bias = (1u64 << (exponent - 1)) - 1;
    let one = bias << fraction;
    let quiet = 1u64 << (fraction - 1);
    let half = one - (1 << fraction);
    let mut all = vec![
        0,
        sign,
        one,
        infinity,
        infinity | quiet,
        sign | one,
        1,
        sign | infinity,
        infinity - 1,
        1 << fraction,
    ];
    all.extend([
        infinity | 1,
        sign | infinity | quiet | 5,
        sign | 1,
        one + 1,
        sign | (infinity - 1),
        (1 << fraction) - 1,
    ]);
    all.extend([
        half,
        one + quiet,
        one - 1,
        sign | half,
        sign | (1 << fraction),
        one + (1 << fraction),
        sign | (one + quiet),
    ]);
    all.extend([
        infinity | (quiet - 1),
        sign | infinity | 1,
        one + (1 << fraction) + quiet / 2,
        sign | (one - 1),
    ]);
    // Powers of two at which integers of some width end.
    for power in [2u64, 7, 8, 15, 16, 31, 32, 63, 64] {
        if bias + power < (1 << exponent) - 1 {
            let value = (bias + power) << fraction;
            all.extend([value, value - 1, value + 1, sign | value, sign | (value + 1)]);
        }
    }
    // Those that are between two integers, or two numbers of a smaller format.
    for power in 1..4 {
        all.extend([
            ((bias + power) << fraction) + (1 << fraction) / 2 + (1 << fraction) / 4,
            (half - (power << fraction)) | sign,
        ]);
    }
    unique(all)
}

/// Between elements, in their middle, at what 8 bits behind the point tell apart, and far away.
fn coordinates() -> Vec<u64> {
    let half = 1.0 / 512.0;
    let mut all = vec![0.0, 0.5, 1.0, -0.25, 0.125 + half, 2.5, -3.0, 7.75, f32::NAN, 0.75, -0.0];
    all.extend([
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::MAX,
        1e-40,
        -1e-40,
        1e10,
        -1e10,
        65536.5,
        -1.5,
        5.0,
        6.0,
    ]);
    all.extend([
        0.5 + half,
        0.5 - half,
        1.5 + half / 2.0,
        2.5 - half / 2.0,
        2.0 / 3.0,
        0.1,
        0.99999994,
        1.0000001,
    ]);
    all.into_iter().map(|value: f32| value.to_bits().into()).collect()
}

fn unique(all: Vec<u64>) -> Vec<u64> {
    let mut seen = std::collections::HashSet::new();
    all.into_iter().filter(|value| seen.insert(*value)).collect()
}

/// Each edge below another one, at different distances in the list.
fn pairs(edges: &[u64], bits: u32) -> Vec<u64> {
    let other = |at: usize, distance: usize| edges[(at + distance) % edges.len()] << bits;
    [1, 5]
        .iter()
        .flat_map(|distance| (0..edges.len()).map(move |at| edges[at] | other(at, *distance)))
        .collect()
}

/// Random numbers, the same in every run: SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// Of any magnitude.
    fn integer(&mut self) -> u64 {
        let (value, by) = (self.next(), self.next());
        let value = if by >> 63 == 0 { value } else { value as i64 as u64 >> (by & 63) };
        if by >> 60 & 7 == 1 { value.wrapping_neg() } else { value }
    }

    /// In or near to a texture of a few elements, with or without normalised coordinates; often with few bits.
    fn coordinate(&mut self) -> u64 {
        let (bits, how) = (self.next(), self.next());
        let unit = (bits >> 40) as f32 / (1 << 24) as f32;
        let value = match how & 15 {
            0 => return self.float(8, 23),
            1..=4 => (bits % 4096) as f32 / 256.0 - 4.0,
            5..=6 => (bits % 8192) as f32 / 512.0 - 4.0,
            7..=10 => 2.0 * unit - 0.5,
            _ => 16.0 * unit - 4.0,
        };
        value.to_bits().into()
    }

    /// With any exponent, or with one near to 1, and often with few bits.
    fn float(&mut self, exponent: u32, fraction: u32) -> u64 {
        let (bits, how) = (self.next(), self.next());
        let all = u64::MAX >> (63 - exponent - fraction);
        let bits = if how & 1 == 0 { bits } else { bits >> 20 << 20 | bits & 0xf << 16 };
        let few = bits & (!0 << ((how >> 8 & 0xff) % u64::from(fraction)));
        let value = if how & 6 == 0 { few } else { bits } & all;
        if how & 0x18 == 0 {
            return value;
        }
        // Near to 1: the sum of two of these cancels.
        let field = ((1u64 << exponent) - 1) << fraction;
        let bias = (1u64 << (exponent - 1)) - 1;
        let near = bias.wrapping_sub(if how & 0x20 == 0 { 3 } else { bias / 3 })
            + ((how >> 16) % if how & 0x20 == 0 { 7 } else { 2 * (bias / 3) });
        value & !field | near << fraction & field
    }
}

/// How many random operands a form has, behind the edges; the first of them are those of a build that is not optimised.
pub(super) const RANDOM: usize = 10_000;
pub(super) const FEW: usize = 600;

/// All operands of forms that take these kinds.
pub(super) struct Operands {
    /// For each operand in turn.
    pub(super) values: Vec<Vec<u64>>,
    /// How many of the combinations come before most of the random ones.
    pub(super) few: usize,
}

impl Operands {
    pub(super) fn new(kinds: &[Kind]) -> Operands {
        let edges: Vec<_> = kinds.iter().map(|kind| some_edges(*kind, kinds.len())).collect();
        let mut values: Vec<Vec<u64>> = vec![Vec::new(); kinds.len()];
        let count: usize = edges.iter().map(Vec::len).product();
        for mut at in 0..count {
            for (values, edges) in values.iter_mut().zip(&edges) {
                values.push(edges[at % edges.len()]);
                at /= edges.len();
            }
        }
        for (at, (values, kind)) in values.iter_mut().zip(kinds).enumerate() {
            let mut random = Random(1 + at as u64);
            values.extend((0..RANDOM).map(|_| kind.random(&mut random)));
        }
        // Of one operand of 16 bits all values can be tried.
        if let ([all], [2]) = (&mut values[..], &kinds.iter().map(|kind| kind.size()).collect::<Vec<_>>()[..])
        {
            all.extend(0..0x1_0000);
        }
        Operands { values, few: count + FEW }
    }

    pub(super) fn len(&self) -> usize {
        self.values[0].len()
    }

    /// The operands of one application.
    pub(super) fn at(&self, at: usize) -> Vec<u64> {
        self.values.iter().map(|values| values[at]).collect()
    }
}

/// As many edge cases as give some hundred combinations.
fn some_edges(kind: Kind, operands: usize) -> Vec<u64> {
    let mut edges = kind.edges();
    let most = match (operands, kind) {
        (1, _) => usize::MAX,
        (2, Kind::Amount) => 100,
        (2, _) => 23,
        (3, Kind::Amount) => 12,
        (3, _) => 9,
        _ => 5,
    };
    edges.truncate(most);
    edges
}
