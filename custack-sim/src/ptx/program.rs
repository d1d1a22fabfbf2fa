//! The kernels, the functions and the variables of PTX texts.

use super::code::{Body, generate};
use super::declared::{Address, Declared, declared};
use super::directives::Directives;
use super::listed::Listed;
use super::reader::Reader;
use super::run::function_address;
use super::scope::name_within;
use super::tokens::Token;
use super::{Refusal, unknown, wrong};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// The maximum size of a program's constant memory, in bytes.
const MOST_CONSTANTS: usize = 1 << 16;

/// The contents of a PTX text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Program {
    pub(crate) version: u32,
    /// The newest architecture among its `.target` directives.
    pub(super) target: u32,
    /// `map_f64_to_f32`, for the oldest devices, which have no `.f64`: operations on `.f64` are computed as `.f32`.
    pub(super) maps_f64: bool,
    /// Whether it is compiled for a debugger: then no instructions are contracted.
    pub(super) is_debugged: bool,
    pub(crate) entries: Listed<Entry>,
    /// The variables in global and constant memory.
    pub(crate) variables: Listed<Variable>,
    /// The bytes of those in constant memory.
    constants: usize,
    pub(super) functions: Listed<Function>,
    /// Variables in shared memory that are declared outside of functions.
    pub(super) shared: Listed<Declared>,
    pub(super) aliases: HashMap<String, String>,
    /// Whether it is one of several texts to be linked: functions may be defined in another one.
    pub(super) is_open: bool,
    /// How many registers its threads have at most, by an option of the compiler.
    pub(crate) most_registers: Option<super::MostRegisters>,
}

#[derive(Debug, Clone)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) size: usize,
    /// Its initial bytes; zeros follow.
    pub(crate) contents: Vec<u8>,
    /// The addresses among the initial bytes.
    pub(crate) addresses: Vec<Address>,
    pub(crate) constant: bool,
    /// Whether it is in managed memory, which the host can use too.
    pub(crate) managed: bool,
    /// Whether it is only declared here, and defined in another text with which this one is linked.
    pub(super) external: bool,
    /// `.weak`: another definition of the same name is allowed, and stands for the same variable.
    pub(super) weak: bool,
}

/// A parameter of a kernel, and its offset among them.
#[derive(Debug, Clone)]
pub(crate) struct Parameter {
    pub(crate) offset: usize,
    pub(crate) size: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// Its number among the functions.
    pub(super) function: usize,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) directives: Directives,
    pub(crate) body: Arc<Body>,
    /// Why it cannot be launched, if so.
    pub(crate) refusal: Option<Arc<Refusal>>,
    /// The number of registers of each of its threads, once somebody has asked for it.
    pub(super) registers: OnceLock<u32>,
}

/// A kernel or a function.
#[derive(Debug, Clone)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) is_kernel: bool,
    pub(super) returns: Vec<Declared>,
    pub(super) parameters: Vec<Declared>,
    pub(super) directives: Directives,
    /// Its code, if it is defined.
    pub(super) code: Option<(Vec<Token>, Vec<u32>)>,
    pub(super) line: u32,
    pub(super) weak: bool,
}

impl Program {
    /// Adds a variable. A definition replaces an earlier declaration of the same name.
    pub(super) fn add(&mut self, new: Variable) -> Result<(), Refusal> {
        let constants = |it: &Variable| if it.constant { it.size } else { 0 };
        if new.constant && self.constants + new.size > MOST_CONSTANTS {
            return Err(wrong(format!("more than {MOST_CONSTANTS} bytes of constants")));
        }
        match self.variables.named_mut(&new.name) {
            None => {
                self.constants += constants(&new);
                self.variables.push(&new.name.clone(), new);
            }
            Some(known) if known.external => {
                self.constants = self.constants + constants(&new) - constants(known);
                *known = new;
            }
            Some(known) if new.external || new.weak && known.weak => {}
            Some(_) => return Err(wrong(format!("the variable {} is defined twice", new.name))),
        }
        Ok(())
    }

    /// Adds the variables that a function declares in global or constant memory: they live as long as those of the
    /// module.
    pub(super) fn add_variables_within(&mut self, function: &Function) -> Result<(), Refusal> {
        let Some((tokens, lines)) = &function.code else { return Ok(()) };
        let begins = |at: usize| at == 0 || matches!(tokens[at - 1], Token::Sign(';' | '{' | '}' | ':'));
        for at in (0..tokens.len()).filter(|at| begins(*at)) {
            let Some(word @ (".global" | ".const")) = tokens[at].word() else { continue };
            let mut reader = Reader::new(&tokens[at + 1..], &lines[at + 1..]);
            let found = declared(&mut reader)?;
            found.check_complete(false)?;
            let name = name_within(&function.name, &found.name, lines[at]);
            let Declared { size, contents, addresses, managed, .. } = found;
            let (constant, weak) = (word == ".const", function.weak);
            self.add(Variable { name, size, contents, addresses, constant, managed, external: false, weak })?;
        }
        Ok(())
    }

    pub(super) fn add_function(&mut self, new: Function) -> Result<(), Refusal> {
        match self.functions.named_mut(&new.name) {
            None => self.functions.push(&new.name.clone(), new),
            Some(known) if known.code.is_none() => *known = new,
            Some(known) if new.code.is_none() || new.weak && known.weak => {}
            Some(_) => {
                let what = if new.is_kernel { "kernel" } else { "function" };
                return Err(wrong(format!("the {what} {} is defined twice", new.name)));
            }
        }
        Ok(())
    }

    /// Refuses what a compiler would refuse before linking.
    pub(super) fn check(&mut self) -> Result<(), Refusal> {
        self.is_open = true;
        self.finish()
    }

    /// A program that consists of this variable alone.
    pub(crate) fn of_one(variable: &Variable) -> Program {
        let mut program = Program::default();
        program.variables.push(&variable.name, variable.clone());
        program
    }

    /// The bytes of an address in a variable's initial value.
    pub(crate) fn bytes_of(&self, address: &Address, variables: &[u64]) -> Vec<u8> {
        let of = match self.variables.at(&address.of) {
            Some(at) => variables.get(at).copied().unwrap_or(0),
            None => self.function(&address.of).map_or(0, function_address),
        };
        let value = of.wrapping_add_signed(address.offset).checked_shr(address.shift).unwrap_or(0);
        value.to_le_bytes()[..address.size.min(8)].to_vec()
    }

    /// The names that it defines and that no other text may define.
    pub(super) fn defines(&self) -> impl Iterator<Item = &str> {
        let functions =
            self.functions.iter().filter(|it| it.code.is_some() && !it.weak).map(|it| &it.name[..]);
        let variables = self.variables.iter().filter(|it| !it.external && !it.weak).map(|it| &it.name[..]);
        functions.chain(variables)
    }

    /// Whether it defines this name, and no other text may.
    pub(super) fn has_defined(&self, name: &str) -> bool {
        self.functions.named(name).is_some_and(|it| it.code.is_some() && !it.weak)
            || self.variables.named(name).is_some_and(|it| !it.external && !it.weak)
    }

    /// A variable that is declared but not defined, if there is one.
    pub(super) fn undefined(&self) -> Option<&str> {
        self.variables.iter().find(|variable| variable.external).map(|variable| &variable.name[..])
    }

    /// The functions that are declared but not defined.
    pub(super) fn declared_functions(&self) -> impl Iterator<Item = &str> {
        self.functions.iter().filter(|it| it.code.is_none()).map(|it| &it.name[..])
    }

    /// The number of the function that has this name or this alias.
    pub(super) fn function(&self, name: &str) -> Option<usize> {
        self.functions.at(self.aliases.get(name).map_or(name, |of| of))
    }

    /// Generates the code of the kernels. A kernel with an instruction that is not modelled is refused when the
    /// program asks for it; what no driver would accept makes loading fail.
    pub(super) fn finish(&mut self) -> Result<(), Refusal> {
        let mut entries = Listed::default();
        for (number, function) in self.functions.iter().enumerate().filter(|(_, it)| it.is_kernel) {
            let name = function.name.clone();
            let made = match function.directives.blocks_are_clusters {
                true => Err(unknown("the directive .blocksareclusters")),
                false => generate(self, number),
            };
            let (body, refusal) = match made {
                Ok(body) => (body, None),
                Err(refusal) if refusal.is_unknown() => {
                    let refusal = refusal.within(format_args!("kernel {name}")).at(function.line);
                    (Body::default(), Some(Arc::new(refusal)))
                }
                Err(refusal) => return Err(refusal.within(format_args!("kernel {name}")).at(function.line)),
            };
            let mut end = 0;
            let parameters = function.parameters.iter().map(|it| {
                let offset = usize::next_multiple_of(end, it.align);
                end = offset + it.size;
                Parameter { offset, size: it.size }
            });
            let parameters = parameters.collect();
            entries.push(
                &function.name,
                Entry {
                    name,
                    function: number,
                    parameters,
                    directives: function.directives,
                    body: Arc::new(body),
                    refusal,
                    registers: OnceLock::new(),
                },
            );
        }
        self.check_unreached(&entries)?;
        self.entries = entries;
        Ok(())
    }
}
