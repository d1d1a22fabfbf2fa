//! `mma.m8n8k4` of halves, which are four products at once.

use super::super::arith::matrix::Shape;
use super::super::arith::quads::Quads;
use super::super::inst::Kind;
use super::super::run::WARP;
use super::super::types::Class;
use super::super::{Refusal, wrong};
use super::fragments::LAYOUTS;
use super::matrix::words;
use super::opcode::Opcode;
use super::operands::{Operands, exactly};
use super::product::Value;
use super::warp::joint;
use super::{Builder, Names};

/// The shape of four products of halves.
pub(super) const QUADS: Shape = Shape { m: 8, n: 8, k: 4 };

/// Whether the elements of the next matrix are by rows.
pub(super) fn layout_of(op: &mut Opcode<'_>) -> Result<bool, Refusal> {
    op.one_of(LAYOUTS).ok_or_else(|| wrong("it without the layouts of its matrices"))
}

impl Builder<'_> {
    /// The four products of halves whose lanes have any layouts.
    pub(super) fn quads(
        &mut self,
        names: &Names<'_, '_>,
        ([a_by_rows, b_by_rows], [d, a, b, c]): ([bool; 2], [Value; 4]),
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let (Some(third), Some(result)) = (c.accumulator(), d.accumulator()) else {
            return Err(wrong(format!("a sum of {c:?} that gives {d:?}")));
        };
        if [a, b] != [Value::F16; 2]
            || ![Value::F16, Value::F32].contains(&c)
            || (c, d) == (Value::F32, Value::F16)
        {
            return Err(wrong(format!(
                "a product of {a:?} and {b:?} that is added to {c:?} and gives {d:?}"
            )));
        }
        let quads = Quads { a_by_rows, b_by_rows, c: third, d: result };
        let [to, left, right, sums] = exactly(operands)?;
        let left = self.sources_of(names, left, Class::B32, 2)?;
        let right = self.sources_of(names, right, Class::B32, 2)?;
        let sums = self.sources_of(names, sums, Class::B32, Quads::registers(third))?;
        let to = self.results_of(names, to, Class::B32, Quads::registers(result))?;
        let all = self.all_lanes();
        Ok(joint(all, move |lanes| {
            let mut d = vec![[0; WARP]; to.len()];
            quads.run(&words(lanes, &left), &words(lanes, &right), &words(lanes, &sums), &mut d);
            to.iter().zip(&d).for_each(|(to, values)| lanes.set(*to, values));
        }))
    }
}
