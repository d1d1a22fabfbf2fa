//! The parameters of the kernels, from the words of the table.

/// A parameter of a kernel, before the launch.
pub(super) enum Parameter {
    /// What the kernel gets the address of.
    Buffer { bytes: Vec<u8>, written: bool },
    /// What it gets itself.
    Value(Vec<u8>),
}

/// The parameter `at` of a kernel.
pub(super) fn parameter(text: &str, at: u64) -> Parameter {
    if let Some((_, value)) = text.split_once('=') {
        return Parameter::Value(value.parse::<u32>().unwrap().to_le_bytes().to_vec());
    }
    let (what, arguments) = text.strip_suffix(']').and_then(|text| text.split_once('[')).unwrap();
    let numbers: Vec<f64> = arguments.split(',').map(|number| number.parse().unwrap()).collect();
    let (count, range) = (numbers[0] as u64, &numbers[1..]);
    if what == "out" {
        return Parameter::Buffer { bytes: vec![0; count as usize], written: true };
    }
    let kind = what.trim_start_matches(['&', '#']);
    let bytes = (0..count).flat_map(|index| element(kind, range, at, index)).collect();
    if what.starts_with('#') {
        return Parameter::Value(bytes);
    }
    Parameter::Buffer { bytes, written: what.starts_with('&') }
}

/// Bits that look random: the function that SplitMix64 makes its numbers with.
fn random(parameter: u64, index: u64) -> u64 {
    let z = ((parameter << 32 | index) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

/// An element between two limits, of which the table has none, one or two.
fn element(kind: &str, range: &[f64], parameter: u64, index: u64) -> Vec<u8> {
    let z = random(parameter, index);
    let (low, high) = (range.first().copied().unwrap_or(0.0), range.get(1).copied().unwrap_or(0.0));
    match kind {
        "u8" => vec![(z >> 56) as u8],
        "u16" => ((z >> 48) as u16).to_le_bytes().to_vec(),
        "u32" => ((z >> 32) as u32).to_le_bytes().to_vec(),
        "u64" => z.to_le_bytes().to_vec(),
        "i32" => i32_between(low as i64, high as i64, z).to_le_bytes().to_vec(),
        "f32" => f32_between(low as f32, high as f32, z).to_le_bytes().to_vec(),
        "f64" => f64_between(low, high, z).to_le_bytes().to_vec(),
        "e32" => edge_word(index).to_le_bytes().to_vec(),
        "e64" => {
            (u64::from(edge_word(index)) << 32 | u64::from(edge_word(index / 16))).to_le_bytes().to_vec()
        }
        "x32" => EDGES_OF_F32[index as usize % EDGES_OF_F32.len()].to_le_bytes().to_vec(),
        "x64" => EDGES_OF_F64[index as usize % EDGES_OF_F64.len()].to_le_bytes().to_vec(),
        _ => panic!("the table has {kind}"),
    }
}

fn i32_between(low: i64, high: i64, z: u64) -> i32 {
    (low + ((z >> 33) % (high - low) as u64) as i64) as i32
}

fn f32_between(low: f32, high: f32, z: u64) -> f32 {
    low + (high - low) * ((z >> 40) as f32 / (1u64 << 24) as f32)
}

fn f64_between(low: f64, high: f64, z: u64) -> f64 {
    low + (high - low) * ((z >> 11) as f64 / (1u64 << 53) as f64)
}

fn edge_word(index: u64) -> u32 {
    const WORDS: [u32; 16] = [
        0,
        1,
        2,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_ffff,
        0xffff_fffe,
        0x8000_0001,
        0xffff,
        0x1_0000,
        0xffff_8000,
        0x7f80_ff01,
        31,
        32,
        33,
        0x55aa_33cc,
    ];
    WORDS[index as usize % WORDS.len()]
}

const EDGES_OF_F32: [f32; 24] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    f32::MAX,
    f32::MIN,
    f32::MIN_POSITIVE,
    -1e-40,
    1e-45,
    3.333_333_3,
    -7.75,
    65504.0,
    65520.0,
    2_147_483_648.0,
    -2_147_483_904.0,
    16_777_215.0,
];

const EDGES_OF_F64: [f64; 24] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    f64::MAX,
    f64::MIN,
    f64::MIN_POSITIVE,
    -1e-310,
    5e-324,
    1.0 / 3.0,
    -7.75,
    1e39,
    -1e-46,
    9_223_372_036_854_775_808.0,
    -9_223_372_036_854_777_856.0,
    4_294_967_295.5,
];
