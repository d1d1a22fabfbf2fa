//! What products of matrices are: exactly, or within a bound where sums are rounded.

use super::super::exact::{F16, F64};
use super::super::form::{List, Truth};
use super::fold::folded;
use super::matrices::{Elements, Product};

/// A product, and where its results are.
pub(super) struct Whole<F, P> {
    pub(super) product: Product,
    /// How many registers of results a lane has.
    pub(super) count: usize,
    /// The matrices, by the operand of each lane.
    pub(super) factors: F,
    /// The rows and columns of what a register of a lane has.
    pub(super) places: P,
}

/// Adds a form whose lanes fold all their results, or of any floats have some of them, as [`Folding::results`] takes them.
///
/// [`Folding::results`]: super::fold::Folding::results
pub(super) fn add<F, P>(list: &mut List, name: &str, code: String, any: bool, whole: Whole<F, P>)
where
    F: Fn(&[u64]) -> [Elements; 3] + Send + Sync + 'static,
    P: Fn(usize, usize) -> Vec<(usize, usize)> + Send + Sync + 'static,
{
    let Whole { product, count, factors, places } = whole;
    let bits = product.d.bits;
    if !any {
        list.of_warps(name, code, move |of| {
            let [left, right, third] = factors(of);
            let result = product.of(&left, &right, &third);
            let word = |lane: usize, at: usize| {
                let places = places(lane, at).into_iter().enumerate();
                places.fold(0, |word, (it, (row, column))| word | result[row][column] << (bits * it))
            };
            (0..32).map(|lane| folded(&(0..count).map(|at| word(lane, at)).collect::<Vec<u64>>())).collect()
        });
        return;
    }
    let per = 64 / bits.max(32);
    let truth = Truth::Together(Box::new(move |of, recorded, answers| {
        let matrices = factors(of);
        for (lane, answer) in answers.iter().enumerate() {
            let first = (of[lane] >> 3) as usize % count.div_ceil(per) * per;
            let all = (first..first + per).flat_map(|at| places(lane, at));
            for (it, (row, column)) in all.enumerate() {
                let part = |word: u64| product.d.value(word >> (bits * it) & (u64::MAX >> (64 - bits)));
                let (found, sum, most) = (
                    part(*answer),
                    product.sum(&matrices, row, column),
                    product.most(&matrices, row, column),
                );
                let bound = bound(&product, sum, most);
                if (found - sum).abs() > bound {
                    return Err(format!(
                        "row {row}, column {column}: {found:e} instead of {sum:e}, further than {bound:e}"
                    ));
                }
                let recorded = recorded.map_or(found, |recorded| part(recorded[lane]));
                if (found - recorded).abs() > bound {
                    return Err(format!(
                        "row {row}, column {column}: {found:e} instead of the recorded {recorded:e}"
                    ));
                }
            }
        }
        Ok(())
    }));
    list.of_groups(32, name, code, truth);
}

/// How far from the exact sum a result may be, of which no term is greater than `most`: each term and the sum may lose what is
/// 24 bits below the greatest, and the result is rounded in either direction. `f64` is rounded after each term.
fn bound(product: &Product, sum: f64, most: f64) -> f64 {
    let terms = (product.k + 1) as f64;
    let size = most.max(sum.abs());
    if product.d.format() == Some(F64) {
        return terms * terms * size * f64::EPSILON;
    }
    let float = (terms + 2.0) * size / (1 << 23) as f64;
    if product.d.format() == Some(F16) {
        // Every 16 terms the sum is rounded.
        let steps = product.k.div_ceil(4) as f64;
        return float + steps * (terms * size / (1 << 11) as f64 + 1.0 / (1 << 24) as f64);
    }
    float
}
