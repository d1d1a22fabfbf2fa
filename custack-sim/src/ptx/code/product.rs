//! Which products of matrices there are: the types of their elements, and their shapes.

use super::super::arith::matrix::Shape;
use super::super::arith::mma::{Accumulator, Element, Mma};
use super::super::arith::round::Rounding;
use super::super::types::Class;
use super::super::{Refusal, unknown, wrong};
use super::opcode::Opcode;

/// The type of the elements of a matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Value {
    F16,
    Bf16,
    Tf32,
    F32,
    F64,
    E4m3,
    E5m2,
    S8,
    U8,
    S4,
    U4,
    B1,
    S32,
}

pub(super) const VALUES: &[(&str, Value)] = &[
    ("f16", Value::F16),
    ("bf16", Value::Bf16),
    ("tf32", Value::Tf32),
    ("f32", Value::F32),
    ("f64", Value::F64),
    ("e4m3", Value::E4m3),
    ("e5m2", Value::E5m2),
    ("s8", Value::S8),
    ("u8", Value::U8),
    ("s4", Value::S4),
    ("u4", Value::U4),
    ("b1", Value::B1),
    ("s32", Value::S32),
];

/// The next of the modifiers that is such a type.
pub(super) fn value_of(op: &mut Opcode<'_>) -> Result<Value, Refusal> {
    op.one_of(VALUES).ok_or_else(|| unknown("it without a type of its matrices"))
}

/// The shape of a product, such as `m16n8k16`.
pub(super) fn shape_of(op: &mut Opcode<'_>) -> Result<Shape, Refusal> {
    let read = |part: &str| {
        let (m, rest) = part.strip_prefix('m')?.split_once('n')?;
        let (n, k) = rest.split_once('k')?;
        Some(Shape { m: m.parse().ok()?, n: n.parse().ok()?, k: k.parse().ok()? })
    };
    op.find(read).ok_or_else(|| wrong("it without a shape"))
}

impl Value {
    /// The size of an element, in bits.
    pub(super) fn width(self) -> usize {
        match self {
            Value::F64 => 64,
            Value::F32 | Value::Tf32 | Value::S32 => 32,
            Value::F16 | Value::Bf16 => 16,
            Value::E4m3 | Value::E5m2 | Value::S8 | Value::U8 => 8,
            Value::S4 | Value::U4 => 4,
            Value::B1 => 1,
        }
    }

    pub(super) fn per_register(self) -> usize {
        (32 / self.width()).max(1)
    }

    pub(super) fn class(self) -> Class {
        if self == Value::F64 { Class::B64 } else { Class::B32 }
    }

    pub(super) fn is_below_a_byte(self) -> bool {
        self.width() < 8
    }

    fn element(self) -> Option<Element> {
        Some(match self {
            Value::F16 => Element::F16,
            Value::Bf16 => Element::Bf16,
            Value::Tf32 => Element::Tf32,
            Value::E4m3 => Element::E4m3,
            Value::E5m2 => Element::E5m2,
            Value::S8 => Element::S8,
            Value::U8 => Element::U8,
            Value::S4 => Element::S4,
            Value::U4 => Element::U4,
            _ => return None,
        })
    }

    pub(super) fn accumulator(self) -> Option<Accumulator> {
        Some(match self {
            Value::F16 => Accumulator::F16,
            Value::F32 => Accumulator::F32,
            Value::S32 => Accumulator::S32,
            _ => return None,
        })
    }
}

/// How an instruction computes with three matrices.
pub(super) enum Product {
    Words(Mma),
    /// A product of matrices of bits, where bits are multiplied by `and`, or by `xor` if the flag is set.
    Bits(Shape, bool),
    Doubles(Shape, Rounding),
}

impl Product {
    pub(super) fn new(
        shape: Shape,
        [d, a, b, c]: [Value; 4],
        sat: bool,
        bitwise: Option<bool>,
        rounding: Rounding,
    ) -> Result<Product, Refusal> {
        let types =
            || unknown(format!("a product of {a:?} and {b:?} that is added to {c:?} and gives {d:?}"));
        match (a, bitwise) {
            (Value::F64, None) if [b, c, d] == [Value::F64; 3] && !sat => {
                return Ok(Product::Doubles(shape, rounding));
            }
            _ if rounding != Rounding::Nearest => {
                return Err(unknown("another rounding than .rn of this product"));
            }
            (Value::B1, Some(and)) if b == Value::B1 && [c, d] == [Value::S32; 2] && !sat => {
                return Ok(Product::Bits(shape, and));
            }
            (_, None) => {}
            _ => return Err(types()),
        }
        let (Some(left), Some(right), Some(third), Some(result)) =
            (a.element(), b.element(), c.accumulator(), d.accumulator())
        else {
            return Err(types());
        };
        let fits = match a {
            Value::S8 | Value::U8 => matches!(b, Value::S8 | Value::U8) && [c, d] == [Value::S32; 2],
            Value::S4 | Value::U4 => matches!(b, Value::S4 | Value::U4) && [c, d] == [Value::S32; 2],
            Value::E4m3 | Value::E5m2 => {
                matches!(b, Value::E4m3 | Value::E5m2) && c == d && matches!(c, Value::F16 | Value::F32)
            }
            Value::F16 => {
                b == a && matches!(c, Value::F16 | Value::F32) && matches!(d, Value::F16 | Value::F32)
            }
            _ => b == a && [c, d] == [Value::F32; 2],
        };
        if !fits || sat && c != Value::S32 {
            return Err(types());
        }
        Ok(Product::Words(Mma { shape, a: left, b: right, c: third, d: result, sat }))
    }
}

/// Refuses shapes that `mma` does not have.
pub(super) fn check(shape: Shape, a: Value) -> Result<(), Refusal> {
    let Shape { m, n, k } = shape;
    let depths: &[(usize, usize)] = match a {
        Value::F16 | Value::Bf16 => &[(16, 8), (16, 16)],
        Value::Tf32 => &[(16, 4), (16, 8)],
        Value::F64 => &[(8, 4), (16, 4), (16, 8), (16, 16)],
        Value::E4m3 | Value::E5m2 => &[(16, 16), (16, 32)],
        Value::S8 | Value::U8 => &[(8, 16), (16, 16), (16, 32)],
        Value::S4 | Value::U4 => &[(8, 32), (16, 32), (16, 64)],
        Value::B1 => &[(8, 128), (16, 128), (16, 256)],
        Value::F32 | Value::S32 => &[],
    };
    if n == 8 && depths.contains(&(m, k)) {
        return Ok(());
    }
    Err(unknown(format!("it with {a:?} in the shape m{m}n{n}k{k}")))
}
