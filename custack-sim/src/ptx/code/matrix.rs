//! `mma`, and the instructions that move its matrices to and from the registers of a warp.

use super::super::arith::matrix::{Matrix, halves};
use super::super::arith::mma::{mma_bits, mma_f64};
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
use super::product::{Product, Value, check, shape_of, value_of};
use super::quads::{QUADS, layout_of};
use super::warp::joint;
use super::{Builder, Names};

impl Builder<'_> {
    /// A register that names all lanes of a warp.
    pub(super) fn all_lanes(&mut self) -> Reg {
        self.bits(Class::B32, u32::MAX.into())
    }

    /// A given number of registers of a class, which an instruction reads.
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

    /// A given number of registers of a class, which an instruction sets.
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

    /// The product of the first two matrices, added to the third.
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

/// The number of matrices of 8 by 8 halves that are moved, and whether they are transposed.
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
