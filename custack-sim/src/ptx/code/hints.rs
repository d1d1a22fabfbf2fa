//! Instructions without an effect in the interpreter: hints to a cache or a profiler, and fences.
//!
//! Their modifiers are checked against the forms that PTX has: a misspelt one is refused.

use super::super::inst::Kind;
use super::super::types::{Class, Type};
use super::super::{Refusal, unknown, wrong};
use super::lanes::lanes1;
use super::opcode::Opcode;
use super::operands::Operands;
use super::{Builder, Names};
use std::sync::atomic::{Ordering, fence};

/// The alternative forms of the modifiers of an opcode. A form is a list of groups in order; one of each group must be
/// given, and `""` in a group means that it may be missing.
type Forms = &'static [&'static [&'static [&'static str]]];

const SCOPES: &[&str] = &["cta", "cluster", "gpu", "sys"];
const PROXIES: &[&str] =
    &["alias", "async", "async.global", "async.shared::cta", "async.shared::cluster", "tensormap"];
const PRIORITIES: &[&str] = &["L2::evict_last", "L2::evict_normal", "L2::evict_first", "L2::evict_unchanged"];

const PREFETCH: Forms =
    &[&[&["", "global", "local"], &["L1", "L2"]], &[&["global"], &["L2::evict_last", "L2::evict_normal"]]];
const PREFETCHU: Forms = &[&[&["L1"]]];
const APPLYPRIORITY: Forms = &[&[&["", "global"], &["L2::evict_normal"]]];
const DISCARD: Forms = &[&[&["", "global"], &["L2"]]];
const PMEVENT: Forms = &[&[&["", "mask"]]];
const GRIDDEPCONTROL: Forms = &[&[&["launch_dependents", "wait"]]];
const SETMAXNREG: Forms = &[&[&["inc", "dec"], &["sync"], &["aligned"], &["u32"]]];
const CREATEPOLICY: Forms = &[
    &[&["fractional"], PRIORITIES, &["", "L2::evict_first", "L2::evict_unchanged"], &["b64"]],
    &[&["range"], &["", "global"], PRIORITIES, &["", "L2::evict_first", "L2::evict_unchanged"], &["b64"]],
    &[&["cvt"], &["L2"], &["b64"]],
];
const MEMBAR: Forms = &[&[&["cta", "gl", "sys"]], &[&["proxy"], PROXIES]];
const FENCE: Forms = &[
    &[&["", "sc", "acq_rel", "acquire", "release"], SCOPES],
    &[
        &["acquire", "release"],
        &["sync_restrict::shared::cta", "sync_restrict::shared::cluster"],
        &["cluster"],
    ],
    &[&["mbarrier_init"], &["release"], &["cluster"]],
    &[&["proxy"], PROXIES],
    &[&["proxy"], &["tensormap::generic"], &["acquire", "release"], SCOPES],
    &[
        &["proxy"],
        &["async::generic"],
        &["acquire", "release"],
        &["sync_restrict::shared::cta", "sync_restrict::shared::cluster"],
        &["cluster"],
    ],
];

/// Takes the modifiers, and refuses them unless they are one of the forms.
fn take(op: &mut Opcode<'_>, forms: Forms) -> Result<(), Refusal> {
    let mut given = Vec::new();
    while let Some(part) = op.next() {
        given.push(part);
    }
    // An element of a group may consist of two modifiers, such as `async.global`.
    let given = given.join(".");
    let fits = |form: &&&[&[&str]]| {
        let mut left = vec![given.as_str()];
        for group in **form {
            let mut next = Vec::new();
            for rest in left {
                for part in *group {
                    match rest.strip_prefix(part) {
                        Some(behind) if part.is_empty() || behind.is_empty() => next.push(behind),
                        Some(behind) => next.extend(behind.strip_prefix('.')),
                        None => {}
                    }
                }
            }
            left = next;
        }
        left.contains(&"")
    };
    match forms.iter().find(fits) {
        Some(_) => Ok(()),
        None => Err(unknown(format!("the modifiers .{given} of {}", op.name))),
    }
}

impl Builder<'_> {
    /// A hint to a cache or a profiler, or one that says when a dependent launch may begin.
    pub(super) fn hint(
        &mut self,
        _: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        _: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        let forms = match op.name {
            "prefetch" => PREFETCH,
            "prefetchu" => PREFETCHU,
            "applypriority" => APPLYPRIORITY,
            "discard" => DISCARD,
            "pmevent" => PMEVENT,
            "griddepcontrol" => GRIDDEPCONTROL,
            _ => SETMAXNREG,
        };
        take(op, forms)?;
        Ok(Kind::Nothing)
    }

    /// A cache policy, which is computed by instructions with this one result.
    pub(super) fn policy(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        take(op, CREATEPOLICY)?;
        let Some(first) = operands.first() else { return Err(wrong("it has a result")) };
        let (to, zero) = (self.to(names, first, Type::B(8))?, self.bits(Class::B64, 0));
        Ok(lanes1(to, zero, |a: u64| a))
    }

    pub(super) fn fence(
        &mut self,
        _: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        _: Operands<'_, '_>,
    ) -> Result<Kind, Refusal> {
        take(op, if op.name == "membar" { MEMBAR } else { FENCE })?;
        // A loop that waits by other kinds of accesses has a fence in it, by which it is recognised as waiting.
        Ok(Kind::Volatile(Box::new(|_| {
            fence(Ordering::SeqCst);
            Ok(())
        })))
    }
}
