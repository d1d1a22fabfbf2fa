//! Asynchronous copies. They are performed when they are issued.

use super::super::inst::Kind;
use super::super::run::{WARP, lanes_of};
use super::super::tokens::Token;
use super::super::types::{Class, Type};
use super::super::{Refusal, Space, unknown, wrong};
use super::memory::pass_hints;
use super::opcode::Opcode;
use super::operands::Operands;
use super::{Builder, Names};
use std::array::from_fn;

impl Builder<'_> {
    /// `cp.async`.
    pub(super) fn copy_asynchronously(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        if !op.has("async") {
            return Err(unknown("this instruction"));
        }
        if op.has("mbarrier") {
            return self.arrive_after_copies(names, op, operands);
        }
        if op.has("commit_group") || op.has("wait_group") || op.has("wait_all") {
            return Ok(Kind::Nothing);
        }
        let has_policy = op.has("L2::cache_hint");
        pass_hints(op);
        if !(op.has("shared") || op.has("shared::cta")) || !op.has("global") {
            return Err(unknown("a copy other than from global to shared memory"));
        }
        let [to, from, size, rest @ ..] = operands else { return Err(wrong("it takes three operands")) };
        let [Token::Int(size @ (4 | 8 | 16))] = size else {
            return Err(wrong("it copies 4, 8 or 16 bytes"));
        };
        let size = *size as usize;
        let ((to, to_offset), (from, from_offset)) = (self.address(names, to)?, self.address(names, from)?);
        // A cache policy, if there is one, is the last operand.
        let given = match rest.split_last() {
            Some((_, others)) if has_policy => others.first(),
            _ => rest.first(),
        };
        let given = match given {
            Some(tokens) => self.any_source(names, tokens, Type::U(4))?,
            None => self.bits(Class::B32, size as u128),
        };
        if !matches!(given.class, Class::B32 | Class::Pred) {
            return Err(unknown("a cache policy as third operand"));
        }
        Ok(Kind::Memory(Box::new(move |lanes| {
            let (to, from) = (lanes.addresses(to, to_offset), lanes.addresses(from, from_offset));
            // If the predicate is true, the source is ignored, and the destination is filled with zeros.
            let given: [u32; WARP] = if given.class == Class::Pred {
                let ignored = lanes.registers.predicate(given.at);
                from_fn(|lane| if ignored >> lane & 1 != 0 { 0 } else { size as u32 })
            } else {
                lanes.get(given)
            };
            for lane in lanes_of(lanes.mask) {
                let given = (given[lane] as usize).min(size);
                lanes.check_aligned(lane, from[lane], size)?;
                let mut value = 0u128;
                if given == size {
                    value = lanes.load_one(lane, Space::Global, from[lane], size)?;
                } else {
                    for byte in 0..given {
                        value |=
                            lanes.load_one(lane, Space::Global, from[lane] + byte as u64, 1)? << (8 * byte);
                    }
                }
                lanes.store_one(lane, Space::Shared, to[lane], size, value)?;
            }
            Ok(())
        })))
    }
}
