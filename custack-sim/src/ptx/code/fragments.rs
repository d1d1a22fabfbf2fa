//! `wmma`: products of matrices whose fragments are in the registers of a warp, and loads and stores of fragments.

use super::super::arith::matrix::{Matrix, Shape, movmatrix};
use super::super::arith::round::Rounding;
use super::super::inst::Kind;
use super::super::run::{Fault, Lanes, Reg, WARP, lanes_of};
use super::super::types::{Class, Type};
use super::super::{Refusal, Space, unknown, wrong};
use super::floats::ROUNDINGS;
use super::opcode::Opcode;
use super::operands::{Operands, exactly};
use super::product::{Product, VALUES, Value, shape_of, value_of};
use super::warp::joint;
use super::{Builder, Names};

/// The layouts of a matrix in memory; true if the elements of a row are consecutive.
pub(super) const LAYOUTS: &[(&str, bool)] = &[("row", true), ("col", false)];

/// A fragment: which elements of the matrix its registers hold, and where these are in memory.
struct Fragment {
    shape: Shape,
    matrix: Matrix,
    value: Value,
    is_by_rows: bool,
    space: Space,
    base: Reg,
    offset: i64,
    stride: Reg,
    registers: Vec<Reg>,
}

/// The number of different registers of a fragment, and the number of registers in the text: fragments of halves
/// contain copies.
pub(super) fn registers_of(shape: Shape, matrix: Matrix, value: Value) -> (usize, usize) {
    let elements = match matrix {
        Matrix::A => shape.m * shape.k,
        Matrix::B => shape.k * shape.n,
        Matrix::C => shape.m * shape.n,
    };
    let different = (elements / WARP / value.per_register()).max(1);
    (different, if value == Value::F16 && matrix != Matrix::C { 8 } else { different })
}

/// Refuses types of A and B that `wmma` does not multiply in this shape.
fn check(shape: Shape, value: Value) -> Result<(), Refusal> {
    let Shape { m, n, k } = shape;
    let is_there = match value {
        Value::F16 | Value::Bf16 | Value::S8 | Value::U8 => {
            matches!((m, n, k), (16, 16, 16) | (32, 8, 16) | (8, 32, 16))
        }
        Value::Tf32 => (m, n, k) == (16, 16, 8),
        Value::S4 | Value::U4 => (m, n, k) == (8, 8, 32),
        Value::B1 => (m, n, k) == (8, 8, 128),
        Value::F64 => (m, n, k) == (8, 8, 4),
        _ => false,
    };
    if is_there { Ok(()) } else { Err(unknown(format!("it with {value:?} in the shape m{m}n{n}k{k}"))) }
}

/// Refuses types of C and D that are not available in this shape.
fn check_third(shape: Shape, value: Value) -> Result<(), Refusal> {
    let Shape { m, n, k } = shape;
    let tall = matches!((m, n, k), (16, 16, 16) | (32, 8, 16) | (8, 32, 16));
    let is_there = match value {
        Value::F16 => tall,
        Value::F32 => tall || (m, n, k) == (16, 16, 8),
        Value::S32 => tall || matches!((m, n, k), (8, 8, 32) | (8, 8, 128)),
        Value::F64 => (m, n, k) == (8, 8, 4),
        _ => false,
    };
    if is_there { Ok(()) } else { Err(unknown(format!("a result of {value:?} in the shape m{m}n{n}k{k}"))) }
}

impl Builder<'_> {
    pub(super) fn turn_matrix(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        op.is_of_all_lanes()?;
        if !op.has("m8n8") || !op.has("trans") || !op.has("b16") {
            return Err(unknown("this movement of a matrix"));
        }
        let (to, [from]) = self.alike(names, operands, Type::B(4))?;
        let all = self.all_lanes();
        Ok(joint(all, move |lanes: &mut Lanes<'_>| lanes.set(to, &movmatrix(&lanes.get::<u32>(from)))))
    }

    pub(super) fn wmma(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let what =
            op.one_of(&[("load", 0), ("store", 1), ("mma", 2)]).ok_or_else(|| unknown("this instruction"))?;
        op.is_of_all_lanes()?;
        if what == 2 {
            return self.wmma_mma(names, op, operands);
        }
        let matrices = [("a", Matrix::A), ("b", Matrix::B), ("c", Matrix::C)];
        let matrix = if what == 0 { op.one_of(&matrices) } else { op.one_of(&[("d", Matrix::C)]) };
        let matrix = matrix.ok_or_else(|| wrong("which matrix is not said"))?;
        let is_by_rows = op.one_of(LAYOUTS).ok_or_else(|| wrong("it without .row or .col"))?;
        let (shape, space, value) = (shape_of(op)?, op.space(), value_of(op)?);
        if matrix == Matrix::C {
            check_third(shape, value)?
        } else {
            check(shape, value)?
        }
        if value.is_below_a_byte() && is_by_rows != (matrix == Matrix::A) {
            return Err(wrong("elements of less than a byte are in rows of A, and in columns of B"));
        }
        let (first, second, stride) = match operands {
            [first, second] => (first, second, None),
            [first, second, stride] => (first, second, Some(stride)),
            other => return Err(wrong(format!("it takes two operands or three, and has {}", other.len()))),
        };
        let (registers, address) = if what == 0 { (first, second) } else { (second, first) };
        let (_, count) = registers_of(shape, matrix, value);
        let registers = if what == 0 {
            self.results_of(names, registers, value.class(), count)?
        } else {
            self.sources_of(names, registers, value.class(), count)?
        };
        let (base, offset) = self.address(names, address)?;
        let (rows, columns) = match matrix {
            Matrix::A => (shape.m, shape.k),
            Matrix::B => (shape.k, shape.n),
            Matrix::C => (shape.m, shape.n),
        };
        let stride = match stride {
            Some(tokens) => self.source(names, tokens, Type::U(4))?,
            None => self.bits(Class::B32, if is_by_rows { columns } else { rows } as u128),
        };
        let fragment = Fragment { shape, matrix, value, is_by_rows, space, base, offset, stride, registers };
        let all = self.all_lanes();
        Ok(Kind::Joint(
            all,
            if what == 0 {
                Box::new(move |lanes| fragment.load(lanes))
            } else {
                Box::new(move |lanes| fragment.store(lanes))
            },
        ))
    }

    fn wmma_mma(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let bitwise = op.one_of(&[("xor", false), ("and", true)]);
        if bitwise.is_some() && !op.has("popc") {
            return Err(wrong("it without .popc"));
        }
        // The layouts of A and B do not matter here: a fragment has the same registers for both.
        for _ in 0..2 {
            op.one_of(LAYOUTS).ok_or_else(|| wrong("it without two layouts"))?;
        }
        let (shape, sat) = (shape_of(op)?, op.has("satfinite"));
        let rounding = op.one_of(ROUNDINGS).unwrap_or(Rounding::Nearest);
        let first = value_of(op)?;
        let second = value_of(op)?;
        // For products of halves, the text names only the types of D and C.
        let (d, [a, b], c) = match op.one_of(VALUES) {
            Some(b) => (first, [second, b], value_of(op)?),
            None => (first, [Value::F16; 2], second),
        };
        check(shape, a)?;
        check_third(shape, c)?;
        check_third(shape, d)?;
        let [d_tokens, a_tokens, b_tokens, c_tokens] = exactly(operands)?;
        let product = Product::new(shape, [d, a, b, c], sat, bitwise, rounding)?;
        let mut sources = Vec::new();
        for (tokens, matrix, value) in
            [(a_tokens, Matrix::A, a), (b_tokens, Matrix::B, b), (c_tokens, Matrix::C, c)]
        {
            let (different, count) = registers_of(shape, matrix, value);
            let mut registers = self.sources_of(names, tokens, value.class(), count)?;
            registers.truncate(different);
            sources.push(registers);
        }
        let to = self.results_of(names, d_tokens, d.class(), registers_of(shape, Matrix::C, d).1)?;
        self.product(product, to, sources)
    }
}

impl Fragment {
    /// The index of an element in memory, where the elements of one register may be consecutive.
    fn index(&self, register: usize, part: usize, lane: usize, stride: u32) -> u64 {
        let (row, column) = self.shape.position(self.matrix, self.value.per_register(), register, part, lane);
        let (line, at) = if self.is_by_rows { (row, column) } else { (column, row) };
        line as u64 * u64::from(stride) + at as u64
    }

    /// Calls `f` for each element with its lane, its register, the position of its bits there, its address, and the
    /// position of its bits there.
    fn each(
        &self,
        lanes: &mut Lanes<'_>,
        mut with: impl FnMut(&mut Lanes<'_>, usize, usize, usize, u64, usize) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let (addresses, strides) = (lanes.addresses(self.base, self.offset), lanes.get::<u32>(self.stride));
        let width = self.value.width();
        let (different, _) = registers_of(self.shape, self.matrix, self.value);
        for register in 0..different {
            for lane in lanes_of(lanes.mask) {
                for part in 0..self.value.per_register() {
                    let bit = self.index(register, part, lane, strides[lane]).wrapping_mul(width as u64);
                    let address = addresses[lane].wrapping_add(bit / 8);
                    with(lanes, lane, register, part * width, address, bit as usize % 8)?;
                }
            }
        }
        Ok(())
    }

    fn load(&self, lanes: &mut Lanes<'_>) -> Result<(), Fault> {
        let (width, space) = (self.value.width(), self.space);
        let keep = (1u128 << width) - 1;
        let mut words = vec![[0u128; WARP]; self.registers.len()];
        self.each(lanes, |lanes, lane, register, at, address, bit| {
            let bits = lanes.load_one(lane, space, address, width.div_ceil(8))?;
            words[register][lane] |= (bits >> bit & keep) << at;
            Ok(())
        })?;
        let (different, _) = registers_of(self.shape, self.matrix, self.value);
        for (at, register) in self.registers.iter().enumerate() {
            lanes.registers.set_bits(*register, &words[at % different], lanes.mask);
        }
        Ok(())
    }

    fn store(&self, lanes: &mut Lanes<'_>) -> Result<(), Fault> {
        let (width, space) = (self.value.width(), self.space);
        let words: Vec<_> = self.registers.iter().map(|register| lanes.registers.bits(*register)).collect();
        self.each(lanes, |lanes, lane, register, at, address, _| {
            lanes.store_one(lane, space, address, width / 8, words[register][lane] >> at & ((1 << width) - 1))
        })
    }
}
