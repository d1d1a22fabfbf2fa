//! Several texts as one.

use super::Refusal;
use super::read::{Program, add, read};
use crate::driver::ffi::CUresult;

/// Texts that are linked, and what they have together.
#[derive(Debug, Default)]
pub(in crate::sim) struct Links {
    text: String,
    program: Program,
}

/// What the linker answers for names that are defined twice, and for some that are not defined.
pub(in crate::sim) const INVALID_SOURCE: CUresult = 300;
const UNKNOWN: CUresult = 999;

impl Links {
    /// Adds a text, whose names are those of all.
    pub(in crate::sim) fn add(&mut self, text: &str, name: &str) -> Result<(), Refusal> {
        let mut own = Program::default();
        add(&mut own, text)?;
        own.check()?;
        let known = |name: &str| self.program.defines().any(|it| it == name);
        if let Some(twice) = own.defines().find(|it| known(it)) {
            let why = format!("Multiple definition of '{twice}' in '{name}'");
            return Err(Refusal { status: INVALID_SOURCE, line: None, why });
        }
        add(&mut self.program, text)?;
        self.text.push_str(text);
        self.text.push('\n');
        Ok(())
    }

    /// The text of all, with a NUL, and what it is, if what is declared is defined.
    pub(in crate::sim) fn finish(&self) -> Result<(String, Program), Refusal> {
        if let Some(name) = self.program.undefined() {
            let why = format!("Undefined reference to '{name}'");
            return Err(Refusal { status: UNKNOWN, line: None, why });
        }
        // Of nothing an empty image is made.
        let program = if self.text.is_empty() { Program::default() } else { read(&self.text)? };
        Ok((format!("{}\0", self.text), program))
    }
}
