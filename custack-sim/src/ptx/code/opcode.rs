//! An opcode with its modifiers. The code for an opcode takes each modifier that it handles; one that is left is
//! refused.

use super::super::types::Type;
use super::super::{Refusal, Space, unknown, wrong};

pub(super) struct Opcode<'a> {
    pub(super) name: &'a str,
    /// The modifiers that are not taken yet.
    left: Vec<&'a str>,
}

impl<'a> Opcode<'a> {
    pub(super) fn new(written: &'a str) -> Opcode<'a> {
        let mut parts = written.split('.');
        let name = parts.next().unwrap_or_default();
        Opcode { name, left: parts.collect() }
    }

    /// Takes a modifier; false if it is not there.
    pub(super) fn has(&mut self, modifier: &str) -> bool {
        let at = self.left.iter().position(|part| *part == modifier);
        at.map(|at| self.left.remove(at)).is_some()
    }

    /// Takes one of these modifiers and returns its value. A second one is left, and so refused.
    pub(super) fn one_of<T: Copy>(&mut self, known: &[(&str, T)]) -> Option<T> {
        let at = self.left.iter().position(|part| known.iter().any(|(name, _)| name == part))?;
        let part = self.left.remove(at);
        known.iter().find(|(name, _)| *name == part).map(|(_, value)| *value)
    }

    /// Takes the first modifier for which the function has a result.
    pub(super) fn find<T>(&mut self, f: impl Fn(&str) -> Option<T>) -> Option<T> {
        let (at, found) = self.left.iter().enumerate().find_map(|(at, part)| Some((at, f(part)?)))?;
        self.left.remove(at);
        Some(found)
    }

    /// Refuses an instruction that is not `.sync.aligned`: one that not all lanes of a warp execute together.
    pub(super) fn is_of_all_lanes(&mut self) -> Result<(), Refusal> {
        if self.has("sync") && self.has("aligned") {
            Ok(())
        } else {
            Err(wrong("it is with .sync.aligned only"))
        }
    }

    /// Takes the first type.
    pub(super) fn ty(&mut self) -> Result<Type, Refusal> {
        self.has_type().ok_or_else(|| unknown("it without a type"))
    }

    pub(super) fn has_type(&mut self) -> Option<Type> {
        let at = self.left.iter().position(|part| Type::named(part).is_some())?;
        Type::named(self.left.remove(at))
    }

    /// Takes the next modifier, whatever it is.
    pub(super) fn next(&mut self) -> Option<&'a str> {
        if self.left.is_empty() { None } else { Some(self.left.remove(0)) }
    }

    /// The next modifier, which is not taken.
    pub(super) fn peek(&self) -> Option<&'a str> {
        self.left.first().copied()
    }

    /// Takes all modifiers for which the function is true.
    pub(super) fn pass(&mut self, f: impl Fn(&str) -> bool) {
        self.left.retain(|part| !f(part));
    }

    /// Takes the state space; without one, the address is generic.
    pub(super) fn space(&mut self) -> Space {
        let spaces = [
            ("param", Space::Param),
            ("param::entry", Space::Param),
            ("param::func", Space::Param),
            ("global", Space::Global),
            ("const", Space::Global),
            ("shared", Space::Shared),
            ("shared::cta", Space::Shared),
            ("shared::cluster", Space::Cluster),
            ("local", Space::Local),
        ];
        self.one_of(&spaces).unwrap_or(Space::Generic)
    }

    /// Refuses the opcode if a modifier is left.
    pub(super) fn is_all(&self) -> Result<(), Refusal> {
        match self.left.first() {
            None => Ok(()),
            Some(other) => Err(unknown(format!("the modifier .{other} of {}", self.name))),
        }
    }
}
