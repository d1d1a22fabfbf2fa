//! Links several texts into one.

use super::Refusal;
use super::code::unresolved;
use super::program::Program;
use super::read::{add, read};
use custack_sys::ffi::CUresult;

/// The texts that are linked so far, and the names that they define and declare.
#[derive(Debug, Default)]
pub(crate) struct Links {
    text: String,
    program: Program,
    /// By the name of each text, the functions that it declares and does not define.
    declared: Vec<(String, Vec<String>)>,
}

/// The linker's status for names that are defined twice, and for some that are not defined.
pub(crate) const INVALID_SOURCE: CUresult = 300;
const UNKNOWN: CUresult = 999;

impl Links {
    /// Adds a text; all texts share one set of names.
    pub(crate) fn add(&mut self, text: &str, name: &str) -> Result<(), Refusal> {
        let mut own = Program::default();
        add(&mut own, text)?;
        own.check()?;
        if let Some(twice) = own.defines().find(|it| self.program.has_defined(it)) {
            let why = format!("Multiple definition of '{twice}' in '{name}'");
            return Err(Refusal { status: INVALID_SOURCE, line: None, why });
        }
        add(&mut self.program, text)?;
        self.declared.push((name.to_owned(), own.declared_functions().map(str::to_owned).collect()));
        self.text.push_str(text);
        self.text.push('\n');
        Ok(())
    }

    /// The linked text, with a NUL at its end, and its program; an error if something is declared and nowhere defined.
    pub(crate) fn finish(&self) -> Result<(String, Program), Refusal> {
        if let Some(name) = self.program.undefined() {
            let why = format!("Undefined reference to '{name}'");
            return Err(Refusal { status: UNKNOWN, line: None, why });
        }
        // The image of no text is empty.
        let program = if self.text.is_empty() { Ok(Program::default()) } else { read(&self.text) };
        Ok((format!("{}\0", self.text), program.map_err(|refusal| self.of_text(refusal))?))
    }

    /// Completes the message about a function that no text defines with the text that refers to it.
    fn of_text(&self, refusal: Refusal) -> Refusal {
        let wanted = self.declared.iter().find_map(|(text, names)| {
            let name = names.iter().find(|name| refusal.why.ends_with(&unresolved(name)))?;
            Some(format!("Undefined reference to '{name}' in '{text}'"))
        });
        match wanted {
            Some(why) => Refusal { line: None, why, ..refusal },
            None => refusal,
        }
    }
}
