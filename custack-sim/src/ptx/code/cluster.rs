//! Addresses of the shared memory of other blocks of a cluster.

use super::super::inst::Kind;
use super::super::run::{Lanes, each, in_rank, rank_of};
use super::super::types::Type;
use super::super::{Refusal, wrong};
use super::opcode::Opcode;
use super::operands::{Operands, exactly};
use super::{Builder, Names};

impl Builder<'_> {
    /// The type of an address in shared memory; without `.shared::cluster` it is a generic address.
    fn address_of_cluster(&mut self, op: &mut Opcode<'_>) -> Result<Type, Refusal> {
        op.has("shared::cluster");
        match op.ty()? {
            ty @ Type::U(4 | 8) => Ok(ty),
            other => Err(wrong(format!("an address of type {other}"))),
        }
    }

    pub(super) fn mapa(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let ty = self.address_of_cluster(op)?;
        let (to, [from, rank]) = self.typed(names, operands, ty, [ty, Type::U(4)])?;
        // In a generic address the bits of the window are above those of the rank.
        Ok(Kind::Lanes(Box::new(move |lanes: &mut Lanes<'_>| {
            let (mut bits, ranks) = (lanes.registers.bits(from), lanes.get::<u32>(rank));
            bits.iter_mut().zip(ranks).for_each(|(at, rank)| *at = in_rank(*at as u64, rank).into());
            lanes.registers.set_bits(to, &bits, lanes.mask);
        })))
    }

    pub(super) fn getctarank(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let ty = self.address_of_cluster(op)?;
        let [to, from] = exactly(operands)?;
        let (to, from) = (self.to(names, to, Type::U(4))?, self.source(names, from, ty)?);
        Ok(Kind::Lanes(Box::new(move |lanes: &mut Lanes<'_>| {
            let bits = lanes.registers.bits(from);
            lanes.set::<u32>(to, &each(|lane| rank_of(bits[lane] as u64)));
        })))
    }
}
