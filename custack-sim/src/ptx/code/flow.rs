//! Branches, returns and ends.

use super::super::inst::Kind;
use super::super::scope::Named;
use super::super::tokens::Token;
use super::super::types::Type;
use super::super::{Refusal, wrong};
use super::opcode::Opcode;
use super::operands::{Operands, exactly};
use super::{Builder, Names};

impl Builder<'_> {
    pub(super) fn bra(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        op.has("uni");
        Ok(Kind::Branch(names.label_of(operands.first())?))
    }

    pub(super) fn brx(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        op.has("uni");
        if !op.has("idx") {
            return Err(wrong("it jumps by an index: brx.idx"));
        }
        let [by, targets] = exactly(operands)?;
        let by = self.source(names, by, Type::U(4))?;
        let [Token::Word(name)] = targets else { return Err(wrong("the name of its targets is missing")) };
        let Some(Named::Targets(labels)) = names.find(name) else {
            return Err(wrong(format!("{name} is no list of targets")));
        };
        let targets = labels.iter().map(|label| names.label(label)).collect::<Result<_, _>>()?;
        Ok(Kind::BranchTo(by, targets))
    }

    pub(super) fn ret(
        &mut self,
        _: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        op.has("uni");
        let [] = exactly(operands)?;
        self.store_returns();
        Ok(Kind::Return)
    }

    pub(super) fn exit(
        &mut self,
        _: &Names<'_, '_>,
        _: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let [] = exactly(operands)?;
        Ok(Kind::Exit)
    }

    pub(super) fn trap(
        &mut self,
        _: &Names<'_, '_>,
        _: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let [] = exactly(operands)?;
        Ok(Kind::Trap)
    }

    pub(super) fn brkpt(
        &mut self,
        _: &Names<'_, '_>,
        _: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let [] = exactly(operands)?;
        Ok(Kind::Breakpoint)
    }

    pub(super) fn nanosleep(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let ty = op.ty()?;
        let [time] = exactly(operands)?;
        let nanoseconds = self.source(names, time, ty)?;
        Ok(Kind::Sleep(nanoseconds))
    }
}
