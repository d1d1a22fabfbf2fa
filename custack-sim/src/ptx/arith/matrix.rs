//! Which lane and register holds which element of a matrix.
//!
//! `mma` and `wmma` use one layout. A warp is eight groups of four lanes: a group holds a row of A or C, or a column
//! of B, and each lane of it the adjacent elements in one register. Larger tiles consist of tiles of 8 by 8, one
//! register after the other. The manual leaves the layout of `wmma` open; this is what compilers generate from `sm_80`
//! on, with copies in the spare registers of A and B.

/// The shape of a product of an `m` by `k` and a `k` by `n` matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
}

/// An operand; the result has the layout of C.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Matrix {
    A,
    B,
    C,
}

impl Shape {
    /// The row and the column of an element, where a register holds `per` elements.
    #[inline]
    pub(crate) fn position(
        self,
        matrix: Matrix,
        per: usize,
        register: usize,
        part: usize,
        lane: usize,
    ) -> (usize, usize) {
        let (group, member) = (lane / 4 % 8, lane % 4);
        // The number of tiles in each direction.
        let (tall, wide) = ((self.m / 8).max(1), (self.n / 8).max(1));
        let deep = (self.k / (4 * per.max(1))).max(1);
        let pair = tall.min(2);
        match matrix {
            Matrix::A => {
                let tile = register % pair + register / (pair * deep) % tall.div_ceil(2) * 2;
                let depth = register / pair % deep;
                (group + 8 * tile, (depth * 4 + member) * per + part)
            }
            Matrix::B => {
                let (depth, tile) = (register % deep, register / deep % wide);
                ((depth * 4 + member) * per + part, group + 8 * tile)
            }
            Matrix::C => {
                let element = register * per + part;
                let (half, block) = (element / 2 % pair, element / (2 * pair));
                let (right, down) = (block % wide, block / wide % tall.div_ceil(2));
                (group + 8 * (half + 2 * down), member * 2 + element % 2 + 8 * right)
            }
        }
    }
}

/// `ldmatrix` and `stmatrix` of matrices of 8 by 8 halves: the row and the column of each of the two halves in a
/// lane's register. The address of row `i` of matrix `q` is in lane `8 * q + i`.
#[inline]
pub(crate) fn halves(transposed: bool, lane: usize) -> [(usize, usize); 2] {
    let (group, member) = (lane / 4 % 8, lane % 4);
    let at = |part: usize| (group, member * 2 + part);
    let turned = |part: usize| (member * 2 + part, group);
    if transposed { [turned(0), turned(1)] } else { [at(0), at(1)] }
}

/// `movmatrix`: transposes a matrix of 8 by 8 halves.
#[inline]
pub(crate) fn movmatrix(a: &[u32; 32]) -> [u32; 32] {
    let half = |row: usize, column: usize| {
        let word = a[(row * 4 + column / 2) % 32];
        if column & 1 == 0 { word & 0xffff } else { word >> 16 }
    };
    std::array::from_fn(|lane| {
        let [low, high] = halves(true, lane).map(|(row, column)| half(row, column));
        high << 16 | low
    })
}
