//! Memory that a thread takes from its stack: `alloca`, and what marks and frees it.

use super::super::inst::{Kind, Stack};
use super::super::tokens::Token;
use super::super::types::Type;
use super::super::{Refusal, unknown, wrong};
use super::opcode::Opcode;
use super::operands::{Operands, exactly};
use super::{Builder, Names};

/// The alignment that is not said, and the greatest that there is.
const ALIGNMENT: i64 = 8;
const MOST_ALIGNED: i64 = 1 << 23;

/// The type of an address.
fn address_of(op: &mut Opcode<'_>) -> Result<Type, Refusal> {
    match op.ty()? {
        ty @ (Type::U(4) | Type::U(8)) => Ok(ty),
        other => Err(wrong(format!("an address of type {other}"))),
    }
}

impl Builder<'_> {
    pub(super) fn alloca(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let ty = address_of(op)?;
        let (to, size, align) = match operands {
            [to, size] => (to, size, ALIGNMENT),
            [to, size, [Token::Int(align)]] => (to, size, *align),
            _ => return Err(wrong("it takes a size, and a number as its alignment")),
        };
        if !(1..=MOST_ALIGNED).contains(&align) || align.count_ones() != 1 {
            return Err(wrong(format!("an alignment of {align}")));
        }
        if align > 1 << 12 {
            return Err(unknown(format!("a stack aligned to {align} bytes")));
        }
        let (to, size) = (self.to(names, to, ty)?, self.source(names, size, ty)?);
        Ok(Kind::Stack(Stack::Allocate { to, size, align: align as u32 }))
    }

    pub(super) fn stacksave(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let ty = address_of(op)?;
        let [to] = exactly(operands)?;
        Ok(Kind::Stack(Stack::Save(self.to(names, to, ty)?)))
    }

    pub(super) fn stackrestore(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let ty = address_of(op)?;
        let [from] = exactly(operands)?;
        Ok(Kind::Stack(Stack::Restore(self.source(names, from, ty)?)))
    }
}
