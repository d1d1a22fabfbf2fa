//! Reads the declarations of a PTX text into a [`Program`].

use super::declared::{Declared, declared};
use super::directives::directives;
use super::program::{Function, Program, Variable};
use super::reader::Reader;
use super::target::{target, version};
use super::tokens::tokens;
use super::{INVALID_IMAGE, Refusal, unknown, wrong};

/// The maximum size of a kernel's parameters, in bytes; before PTX 8.1 it was smaller.
const MOST_PARAMETERS: usize = 32_764;
const MOST_PARAMETERS_BEFORE: usize = 4352;

/// Parses a text. A text that is not PTX at all is an invalid image.
pub(crate) fn read(text: &str) -> Result<Program, Refusal> {
    let mut program = Program::default();
    add(&mut program, text)?;
    if let Some(name) = program.undefined() {
        return Err(wrong(format!("{name} is declared, and defined nowhere")));
    }
    program.finish()?;
    Ok(program)
}

/// Adds the contents of a text to a program.
pub(super) fn add(program: &mut Program, text: &str) -> Result<(), Refusal> {
    if !text.contains(".version") {
        let why = "the image is not PTX: it has no .version".to_owned();
        return Err(Refusal { status: INVALID_IMAGE, line: None, why });
    }
    let (tokens, lines) = tokens(text)?;
    let mut reader = Reader::new(&tokens, &lines);
    items(program, &mut reader).map_err(|refusal| refusal.at(reader.line()))
}

/// The linkage directives before a declaration.
#[derive(Default)]
struct Linkage {
    external: bool,
    weak: bool,
}

/// Reads all declarations of a text.
fn items(program: &mut Program, reader: &mut Reader<'_>) -> Result<(), Refusal> {
    let mut linkage = Linkage::default();
    // Several texts that are linked have one each.
    let mut own_version = 0;
    while reader.peek().is_some() {
        match reader.word()? {
            ".version" => {
                own_version = version(reader.next()?)?;
                program.version = own_version.max(program.version);
            }
            ".target" => targets(program, reader, own_version)?,
            ".address_size" => {
                if reader.int()? != 64 {
                    return Err(wrong("addresses have 64 bits"));
                }
            }
            ".extern" => linkage.external = true,
            ".weak" | ".common" => linkage.weak = true,
            ".visible" | ".default_stream" => {}
            word @ (".global" | ".const" | ".tex") => {
                let variable = variable(reader, word, std::mem::take(&mut linkage))?;
                program.add(variable)?;
            }
            ".shared" => {
                let found = declared(reader)?;
                reader.expect(';')?;
                found.check_complete(std::mem::take(&mut linkage).external)?;
                let name = found.name.clone();
                program.shared.push(&name, found);
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
                program.aliases.entry(alias).or_insert(reader.word()?.to_owned());
                reader.expect(';')?;
            }
            ".pragma" => drop(reader.until(';')?),
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

/// Reads the targets and options after `.target`, in a text of this version.
fn targets(program: &mut Program, reader: &mut Reader<'_>, version: u32) -> Result<(), Refusal> {
    program.target = target(reader.word()?, version)?.max(program.target);
    while reader.takes(',') {
        match reader.word()? {
            "debug" => program.is_debugged = true,
            "texmode_unified" | "texmode_independent" => {}
            "map_f64_to_f32" if program.target < 13 => program.maps_f64 = true,
            word => drop(target(word, version)?),
        }
    }
    Ok(())
}

/// Reads a variable in global or constant memory, or a texture reference (`.tex`).
fn variable(
    reader: &mut Reader<'_>,
    space: &str,
    Linkage { external, weak }: Linkage,
) -> Result<Variable, Refusal> {
    let found = declared(reader)?;
    reader.expect(';')?;
    let is_texture = space == ".tex";
    if !is_texture {
        found.check_complete(external)?;
    }
    let Declared { name, size, contents, addresses, managed, .. } = found;
    let (size, constant) = (if is_texture { size } else { size.max(1) }, space == ".const");
    Ok(Variable { name, size, contents, addresses, constant, managed, external, weak })
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

/// Reads parameters up to the closing bracket.
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
