//! Addresses of the shared memory of other blocks of a cluster. A cluster is one block, whose rank is 0.

use super::super::inst::Kind;
use super::super::run::{Fault, LAUNCH_FAILED, lanes_of};
use super::super::types::Type;
use super::super::{Refusal, wrong};
use super::lanes::uniform;
use super::opcode::Opcode;
use super::operands::{Operands, exactly};
use super::{Builder, Names};

impl Builder<'_> {
    /// The type of an address, which is a generic one without a space.
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
        Ok(Kind::Memory(Box::new(move |lanes| {
            let (bits, ranks) = (lanes.registers.bits(from), lanes.get::<u32>(rank));
            if let Some(rank) = lanes_of(lanes.mask).map(|lane| ranks[lane]).find(|rank| *rank != 0) {
                let why =
                    format!("an address of block {rank} of a cluster, which the simulated driver has one of");
                return Err(Fault::new(LAUNCH_FAILED, why));
            }
            lanes.registers.set_bits(to, &bits, lanes.mask);
            Ok(())
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
        self.source(names, from, ty)?;
        let to = self.to(names, to, Type::U(4))?;
        Ok(uniform(to, |_| 0))
    }
}
