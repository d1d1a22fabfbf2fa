//! Functions that no kernel calls.

use super::Refusal;
use super::code::check;
use super::program::{Entry, Program};
use std::collections::HashSet;

impl Program {
    /// Refuses what no driver would accept also in functions that no kernel calls.
    pub(super) fn check_unreached(&self, entries: &[Entry]) -> Result<(), Refusal> {
        let called: HashSet<u64> = entries.iter().flat_map(|it| it.body.called()).collect();
        for (number, function) in self.functions.iter().enumerate() {
            if function.is_kernel || function.code.is_none() || called.contains(&(number as u64)) {
                continue;
            }
            match check(self, number) {
                Err(refusal) if !refusal.is_unknown() => {
                    return Err(refusal.within(format_args!("function {}", function.name)).at(function.line));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
