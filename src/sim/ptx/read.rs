//! Finds the kernels, the functions and the variables of a PTX text.

use super::code::{Body, generate};
use super::declared::{Address, Declared, declared};
use super::directives::{Directives, directives};
use super::reader::Reader;
use super::run::function_address;
use super::scope::name_within;
use super::target::{target, version};
use super::tokens::{Token, tokens};
use super::{INVALID_IMAGE, Refusal, unknown, wrong};
use std::sync::{Arc, OnceLock};

/// The maximum size of a kernel's parameters, in bytes; before PTX 8.1 it was smaller.
const MOST_PARAMETERS: usize = 32_764;
const MOST_PARAMETERS_BEFORE: usize = 4352;
/// The maximum size of a program's constant memory, in bytes.
const MOST_CONSTANTS: usize = 1 << 16;

/// The contents of a PTX text.
#[derive(Debug, Clone, Default)]
pub(in crate::sim) struct Program {
    pub(in crate::sim) version: u32,
    /// The newest device that it is written for.
    pub(super) target: u32,
    /// For the oldest devices, which have no `.f64`: what is written with it is computed as `.f32` is.
    pub(super) maps_f64: bool,
    /// Whether it is compiled for a debugger, and so as it is written.
    pub(super) is_debugged: bool,
    pub(in crate::sim) entries: Vec<Entry>,
    /// The variables in global and constant memory.
    pub(in crate::sim) variables: Vec<Variable>,
    pub(super) functions: Vec<Function>,
    /// Variables in shared memory that are declared outside of functions.
    pub(super) shared: Vec<Declared>,
    aliases: Vec<(String, String)>,
    /// It is a part of what is linked: functions may be defined elsewhere.
    pub(super) is_open: bool,
    /// How many registers its threads have at most, where a kernel does not say so itself.
    pub(in crate::sim) most_registers: Option<super::MostRegisters>,
}

#[derive(Debug, Clone)]
pub(in crate::sim) struct Variable {
    pub(in crate::sim) name: String,
    pub(in crate::sim) size: usize,
    /// Its initial bytes; zeros follow.
    pub(in crate::sim) contents: Vec<u8>,
    /// Addresses among them.
    pub(in crate::sim) addresses: Vec<Address>,
    pub(in crate::sim) constant: bool,
    /// In memory that the host can use too.
    pub(in crate::sim) managed: bool,
    /// Declared, and to be found in another text that this one is linked with.
    pub(super) external: bool,
    /// Another one of this name is the same.
    weak: bool,
}

/// A parameter of a kernel, and its offset among them.
#[derive(Debug, Clone)]
pub(in crate::sim) struct Parameter {
    pub(in crate::sim) offset: usize,
    pub(in crate::sim) size: usize,
}

#[derive(Debug, Clone)]
pub(in crate::sim) struct Entry {
    pub(in crate::sim) name: String,
    pub(in crate::sim) parameters: Vec<Parameter>,
    pub(in crate::sim) directives: Directives,
    pub(in crate::sim) body: Arc<Body>,
    /// Why it cannot run.
    pub(in crate::sim) refusal: Option<Arc<Refusal>>,
    /// How many registers a thread of it has, once that was asked.
    pub(super) registers: OnceLock<u32>,
}

/// A kernel or a function.
#[derive(Debug, Clone)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) is_kernel: bool,
    pub(super) returns: Vec<Declared>,
    pub(super) parameters: Vec<Declared>,
    directives: Directives,
    /// Its code, if it is defined.
    pub(super) code: Option<(Vec<Token>, Vec<u32>)>,
    pub(super) line: u32,
    weak: bool,
}

/// Parses a text; one that is not PTX at all is an invalid image.
pub(in crate::sim) fn read(text: &str) -> Result<Program, Refusal> {
    let mut program = Program::default();
    add(&mut program, text)?;
    if let Some(name) = program.undefined() {
        return Err(wrong(format!("{name} is declared, and defined nowhere")));
    }
    program.finish()?;
    Ok(program)
}

/// Adds what a text has to a program.
pub(super) fn add(program: &mut Program, text: &str) -> Result<(), Refusal> {
    if !text.contains(".version") {
        let why = "the image is not PTX: it has no .version".to_owned();
        return Err(Refusal { status: INVALID_IMAGE, line: None, why });
    }
    let (tokens, lines) = tokens(text)?;
    let mut reader = Reader::new(&tokens, &lines);
    items(program, &mut reader).map_err(|refusal| refusal.at(reader.line()))
}

/// What stands before a declaration.
#[derive(Default)]
struct Linkage {
    external: bool,
    weak: bool,
}

fn items(program: &mut Program, reader: &mut Reader<'_>) -> Result<(), Refusal> {
    let mut linkage = Linkage::default();
    while reader.peek().is_some() {
        match reader.word()? {
            ".version" => program.version = version(reader.next()?)?.max(program.version),
            ".target" => {
                program.target = target(reader.word()?)?.max(program.target);
                while reader.takes(',') {
                    match reader.word()? {
                        "debug" => program.is_debugged = true,
                        "texmode_unified" | "texmode_independent" => {}
                        "map_f64_to_f32" if program.target < 13 => program.maps_f64 = true,
                        word => drop(target(word)?),
                    }
                }
            }
            ".address_size" => {
                if reader.int()? != 64 {
                    return Err(wrong("addresses have 64 bits"));
                }
            }
            ".extern" => linkage.external = true,
            ".weak" | ".common" => linkage.weak = true,
            ".visible" | ".default_stream" => {}
            word @ (".global" | ".const") => {
                let Linkage { external, weak } = std::mem::take(&mut linkage);
                let found = declared(reader)?;
                reader.expect(';')?;
                found.check_complete(external)?;
                let Declared { name, size, contents, addresses, managed, .. } = found;
                let (size, constant) = (size.max(1), word == ".const");
                program.add(Variable {
                    name,
                    size,
                    contents,
                    addresses,
                    constant,
                    managed,
                    external,
                    weak,
                })?;
            }
            ".shared" => {
                let found = declared(reader)?;
                reader.expect(';')?;
                found.check_complete(std::mem::take(&mut linkage).external)?;
                program.shared.push(found);
            }
            ".tex" => {
                let (found, Linkage { external, weak }) = (declared(reader)?, std::mem::take(&mut linkage));
                reader.expect(';')?;
                let Declared { name, size, contents, addresses, managed, .. } = found;
                program.add(Variable {
                    name,
                    size,
                    contents,
                    addresses,
                    constant: false,
                    managed,
                    external,
                    weak,
                })?;
            }
            word @ (".entry" | ".func") => {
                let weak = std::mem::take(&mut linkage).weak;
                let function = function(reader, word == ".entry", weak, program.version)?;
                program.add_variables_within(&function)?;
                program.add_function(function)?;
            }
            ".alias" => {
                let alias = reader.word()?.to_owned();
                reader.expect(',')?;
                program.aliases.push((alias, reader.word()?.to_owned()));
                reader.expect(';')?;
            }
            ".pragma" => {
                reader.until(';')?;
            }
            ".file" | ".loc" => reader.pass_line(),
            ".section" => {
                reader.word()?;
                reader.expect('{')?;
                reader.block()?;
            }
            other => return Err(unknown(format!("the directive {other}"))),
        }
    }
    Ok(())
}

impl Program {
    /// Adds a variable, or makes one that was declared the one that is defined.
    fn add(&mut self, new: Variable) -> Result<(), Refusal> {
        let constants: usize = self.variables.iter().filter(|it| it.constant).map(|it| it.size).sum();
        if new.constant && constants + new.size > MOST_CONSTANTS {
            return Err(wrong(format!("more than {MOST_CONSTANTS} bytes of constants")));
        }
        match self.variables.iter_mut().find(|known| known.name == new.name) {
            None => self.variables.push(new),
            Some(known) if known.external => *known = new,
            Some(known) if new.external || new.weak && known.weak => {}
            Some(_) => return Err(wrong(format!("the variable {} is defined twice", new.name))),
        }
        Ok(())
    }

    /// Adds the variables that a function declares, which are there as long as those of the module.
    fn add_variables_within(&mut self, function: &Function) -> Result<(), Refusal> {
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

    fn add_function(&mut self, new: Function) -> Result<(), Refusal> {
        match self.functions.iter_mut().find(|known| known.name == new.name) {
            None => self.functions.push(new),
            Some(known) if known.code.is_none() => *known = new,
            Some(known) if new.code.is_none() || new.weak && known.weak => {}
            Some(_) => {
                let what = if new.is_kernel { "kernel" } else { "function" };
                return Err(wrong(format!("the {what} {} is defined twice", new.name)));
            }
        }
        Ok(())
    }

    /// Whether a compiler would accept it before it is linked.
    pub(super) fn check(&mut self) -> Result<(), Refusal> {
        self.is_open = true;
        self.finish()
    }

    /// One that has nothing but a variable.
    pub(in crate::sim) fn of_one(variable: &Variable) -> Program {
        Program { variables: vec![variable.clone()], ..Program::default() }
    }

    /// The bytes of an address that a variable begins with.
    pub(in crate::sim) fn bytes_of(&self, address: &Address, variables: &[u64]) -> Vec<u8> {
        let of = match self.variables.iter().position(|variable| variable.name == address.of) {
            Some(at) => variables.get(at).copied().unwrap_or(0),
            None => self.function(&address.of).map_or(0, function_address),
        };
        let value = of.wrapping_add_signed(address.offset).checked_shr(address.shift).unwrap_or(0);
        value.to_le_bytes()[..address.size.min(8)].to_vec()
    }

    /// The names that it defines, and that nothing else may define.
    pub(super) fn defines(&self) -> impl Iterator<Item = &str> {
        let functions =
            self.functions.iter().filter(|it| it.code.is_some() && !it.weak).map(|it| &it.name[..]);
        let variables = self.variables.iter().filter(|it| !it.external && !it.weak).map(|it| &it.name[..]);
        functions.chain(variables)
    }

    /// A variable that is declared, and defined nowhere.
    pub(super) fn undefined(&self) -> Option<&str> {
        self.variables.iter().find(|variable| variable.external).map(|variable| &variable.name[..])
    }

    /// The functions that are declared, and not defined.
    pub(super) fn declared_functions(&self) -> impl Iterator<Item = &str> {
        self.functions.iter().filter(|it| it.code.is_none()).map(|it| &it.name[..])
    }

    /// The number of the function that has this name, or that an alias of this name stands for.
    pub(super) fn function(&self, name: &str) -> Option<usize> {
        let name = self.aliases.iter().find(|(alias, _)| alias == name).map_or(name, |(_, of)| of);
        self.functions.iter().position(|function| function.name == name)
    }

    /// Makes the code of the kernels. One with an instruction that is not known is refused when it is asked for; what no
    /// driver would accept refuses them all.
    fn finish(&mut self) -> Result<(), Refusal> {
        let mut entries = Vec::new();
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
            entries.push(Entry {
                name,
                parameters,
                directives: function.directives,
                body: Arc::new(body),
                refusal,
                registers: OnceLock::new(),
            });
        }
        self.check_unreached(&entries)?;
        self.entries = entries;
        Ok(())
    }
}

fn function(reader: &mut Reader<'_>, is_kernel: bool, weak: bool, version: u32) -> Result<Function, Refusal> {
    let line = reader.line();
    let returns = if !is_kernel && reader.takes('(') { parameters(reader)? } else { Vec::new() };
    let name = reader.word()?.to_owned();
    let what = if is_kernel { "kernel" } else { "function" };
    let within = |refusal: Refusal| refusal.within(format_args!("{what} {name}"));
    let parameters = if reader.takes('(') { parameters(reader).map_err(within)? } else { Vec::new() };
    if let Some(it) = parameters.iter().find(|it| is_kernel && (it.in_register || it.size == 0)) {
        return Err(wrong(format!("Entry parameter '{}' must have .param state space, and a size", it.name)));
    }
    let most = if version < 81 { MOST_PARAMETERS_BEFORE } else { MOST_PARAMETERS };
    let mut end = 0usize;
    for parameter in &parameters {
        end = end.next_multiple_of(parameter.align).saturating_add(parameter.size);
        if end > most {
            return Err(wrong(format!("{what} {name}: more than {most} bytes of parameters")));
        }
    }
    let (directives, has_code) = directives(reader).map_err(within)?;
    let code = if has_code { Some(reader.block()?.rest()) } else { None };
    Ok(Function { name, is_kernel, returns, parameters, directives, code, line, weak })
}

/// Up to the closing bracket.
pub(super) fn parameters(reader: &mut Reader<'_>) -> Result<Vec<Declared>, Refusal> {
    let mut parameters = Vec::new();
    if reader.takes(')') {
        return Ok(parameters);
    }
    loop {
        let in_register = match reader.word()? {
            ".param" => false,
            ".reg" => true,
            other => return Err(wrong(format!("a parameter begins with .param, and not with {other}"))),
        };
        let found = declared(reader)?;
        if found.elements > 1 && !in_register {
            return Err(wrong(format!(
                "Variable '{}' cannot be allocated in .param state space",
                found.name
            )));
        }
        parameters.push(Declared { in_register, ..found });
        if !reader.takes(',') {
            break;
        }
    }
    reader.expect(')')?;
    Ok(parameters)
}
