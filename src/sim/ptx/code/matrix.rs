//! `mma`, and what brings its matrices into the registers of a warp.

use super::super::arith::matrix::{Matrix, Shape, halves};
use super::super::arith::mma::{Accumulator, Element, Mma, mma_bits, mma_f64};
use super::super::arith::round::Rounding;
use super::super::inst::Kind;
use super::super::run::{Lanes, Reg, WARP, lanes_of};
use super::super::tokens::Token;
use super::super::types::{Class, Type};
use super::super::{Refusal, unknown, wrong};
use super::floats::ROUNDINGS;
use super::fragments::registers_of;
use super::opcode::Opcode;
use super::operands::{Elements, Operands, exactly};
use super::quads::{QUADS, layout_of};
use super::warp::joint;
use super::{Builder, Names};

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

/// The next type among the modifiers.
pub(super) fn value_of(op: &mut Opcode<'_>) -> Result<Value, Refusal> {
    op.one_of(VALUES).ok_or_else(|| unknown("it without a type of its matrices"))
}

/// The shape of a product: `m16n8k16`.
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

/// What an instruction computes of three matrices.
pub(super) enum Product {
    Words(Mma),
    /// Products of bits are their conjunction, or whether they differ.
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

/// The shapes of `mma`.
fn check(shape: Shape, a: Value) -> Result<(), Refusal> {
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

impl Builder<'_> {
    /// Names all lanes of a warp.
    pub(super) fn all_lanes(&mut self) -> Reg {
        self.bits(Class::B32, u32::MAX.into())
    }

    /// So many registers of this class, which an instruction reads.
    pub(super) fn sources_of(
        &mut self,
        names: &Names<'_, '_>,
        tokens: &[Token],
        class: Class,
        count: usize,
    ) -> Result<Vec<Reg>, Refusal> {
        let ty = Type::B((class.bits() / 8) as u8);
        let registers = match self.elements(names, tokens)? {
            Elements::Registers(registers) => registers,
            Elements::Tokens(all) => {
                all.into_iter().map(|it| self.source(names, it, ty)).collect::<Result<_, _>>()?
            }
        };
        counted(registers, class, count)
    }

    /// So many registers of this class, which an instruction sets.
    pub(super) fn results_of(
        &mut self,
        names: &Names<'_, '_>,
        tokens: &[Token],
        class: Class,
        count: usize,
    ) -> Result<Vec<Reg>, Refusal> {
        let ty = Type::B((class.bits() / 8) as u8);
        let registers = match self.elements(names, tokens)? {
            Elements::Registers(registers) => registers,
            Elements::Tokens(all) => {
                all.into_iter().map(|it| self.to(names, it, ty)).collect::<Result<_, _>>()?
            }
        };
        counted(registers, class, count)
    }

    pub(super) fn mma(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        if ["sp", "sp::ordered_metadata"].map(|it| op.has(it)).contains(&true) {
            return Err(unknown("products of sparse matrices"));
        }
        op.is_of_all_lanes()?;
        let shape = shape_of(op)?;
        let layouts = [layout_of(op)?, layout_of(op)?];
        let sat = op.has("satfinite");
        let rounding = op.one_of(ROUNDINGS).unwrap_or(Rounding::Nearest);
        let bitwise = op.one_of(&[("xor", false), ("and", true)]);
        if bitwise.is_some() && !op.has("popc") {
            return Err(wrong("it without .popc"));
        }
        let values @ [d, a, b, c] = [value_of(op)?, value_of(op)?, value_of(op)?, value_of(op)?];
        if (shape, a) == (QUADS, Value::F16) && !sat && bitwise.is_none() && rounding == Rounding::Nearest {
            return self.quads(names, (layouts, values), operands);
        }
        if layouts != [true, false] {
            return Err(wrong("it with other layouts than .row.col"));
        }
        check(shape, a)?;
        let product = Product::new(shape, values, sat, bitwise, rounding)?;
        let [to, left, right, third] = exactly(operands)?;
        let sources = [(left, Matrix::A, a), (right, Matrix::B, b), (third, Matrix::C, c)];
        let sources = sources.into_iter().map(|(tokens, matrix, value)| {
            self.sources_of(names, tokens, value.class(), registers_of(shape, matrix, value).0)
        });
        let sources = sources.collect::<Result<Vec<_>, _>>()?;
        let to = self.results_of(names, to, d.class(), registers_of(shape, Matrix::C, d).0)?;
        self.product(product, to, sources)
    }

    /// The product of the first two of three matrices, to which the third is added.
    pub(super) fn product(
        &mut self,
        product: Product,
        to: Vec<Reg>,
        sources: Vec<Vec<Reg>>,
    ) -> Result<Kind, Refusal> {
        let Ok([a, b, c]) = <[Vec<Reg>; 3]>::try_from(sources) else {
            return Err(wrong("it takes three matrices"));
        };
        let all = self.all_lanes();
        Ok(match product {
            Product::Words(mma) => joint(all, move |lanes| {
                let mut d = vec![[0; WARP]; to.len()];
                mma.run(&words(lanes, &a), &words(lanes, &b), &words(lanes, &c), &mut d);
                to.iter().zip(&d).for_each(|(to, values)| lanes.set(*to, values));
            }),
            Product::Bits(shape, and) => joint(all, move |lanes| {
                let d = mma_bits(shape, and, &words(lanes, &a), &words(lanes, &b), &words(lanes, &c));
                to.iter().zip(&d).for_each(|(to, values)| lanes.set(*to, values));
            }),
            Product::Doubles(shape, rounding) => joint(all, move |lanes| {
                let of =
                    |registers: &[Reg]| registers.iter().map(|it| lanes.get::<u64>(*it)).collect::<Vec<_>>();
                let d = mma_f64(shape, rounding, &of(&a), &of(&b), &of(&c));
                to.iter().zip(&d).for_each(|(to, values)| lanes.set(*to, values));
            }),
        })
    }

    pub(super) fn ldmatrix(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let (count, transposed) = matrices(op)?;
        let space = op.space();
        let [to, address] = exactly(operands)?;
        let to = self.results_of(names, to, Class::B32, count)?;
        let (base, offset) = self.address(names, address)?;
        let all = self.all_lanes();
        Ok(Kind::Joint(
            all,
            Box::new(move |lanes| {
                let addresses = lanes.addresses(base, offset);
                let mut rows = [0u128; WARP];
                for lane in lanes_of(lanes.mask).filter(|lane| lane / 8 < to.len()) {
                    rows[lane] = lanes.load_one(lane, space, addresses[lane], 16)?;
                }
                for (matrix, to) in to.iter().enumerate() {
                    let half = |(row, column): (usize, usize)| {
                        (rows[8 * matrix + row] >> (16 * column)) as u32 & 0xffff
                    };
                    let values: [u32; WARP] = std::array::from_fn(|lane| {
                        let [low, high] = halves(transposed, lane).map(half);
                        high << 16 | low
                    });
                    lanes.set(*to, &values);
                }
                Ok(())
            }),
        ))
    }

    pub(super) fn stmatrix(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let (count, transposed) = matrices(op)?;
        let space = op.space();
        let [address, from] = exactly(operands)?;
        let from = self.sources_of(names, from, Class::B32, count)?;
        let (base, offset) = self.address(names, address)?;
        let all = self.all_lanes();
        Ok(Kind::Joint(
            all,
            Box::new(move |lanes| {
                let addresses = lanes.addresses(base, offset);
                let mut rows = [0u128; WARP];
                for (matrix, values) in words(lanes, &from).iter().enumerate() {
                    for (lane, word) in values.iter().enumerate() {
                        for ((row, column), half) in
                            halves(transposed, lane).into_iter().zip([word & 0xffff, word >> 16])
                        {
                            rows[8 * matrix + row] |= u128::from(half) << (16 * column);
                        }
                    }
                }
                let mut written = lanes_of(lanes.mask).filter(|lane| lane / 8 < from.len());
                written.try_for_each(|lane| lanes.store_one(lane, space, addresses[lane], 16, rows[lane]))
            }),
        ))
    }
}

/// How many matrices of 8 by 8 halves are moved, and whether they are transposed.
fn matrices(op: &mut Opcode<'_>) -> Result<(usize, bool), Refusal> {
    op.is_of_all_lanes()?;
    if !op.has("m8n8") || !op.has("b16") {
        return Err(unknown("it with other matrices than of 8 by 8 halves"));
    }
    let count = op
        .one_of(&[("x1", 1), ("x2", 2), ("x4", 4)])
        .ok_or_else(|| wrong("it without a number of matrices"))?;
    Ok((count, op.has("trans")))
}

pub(super) fn words(lanes: &Lanes<'_>, registers: &[Reg]) -> Vec<[u32; WARP]> {
    registers.iter().map(|register| lanes.get(*register)).collect()
}

fn counted(registers: Vec<Reg>, class: Class, count: usize) -> Result<Vec<Reg>, Refusal> {
    if registers.len() == count && registers.iter().all(|register| register.class == class) {
        return Ok(registers);
    }
    Err(wrong(format!("{} registers, where it takes {count} of {} bits", registers.len(), class.bits())))
}
