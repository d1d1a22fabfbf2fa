//! The attributes of a cubin: of the whole file, and of each function.
//!
//! Each begins with the form of its value, and its number; then 16 bits have the value, or its size.

use super::bytes::{Bytes, Wrong};
use super::elf::{Elf, Section};
use super::symbols::FUNCTION;
use std::collections::HashSet;

/// What an attribute holds.
#[derive(Clone, Copy)]
pub(super) enum Holds {
    /// A number in the entry itself, up to this one.
    Value(u64),
    /// This many words.
    Words(u64),
    /// A function, and a number.
    OfFunction,
    /// Any number of symbols.
    Symbols,
    /// Any number of words.
    Any,
    /// Any number of places in the code.
    Places,
    /// Where the parameters are: the section of constants, where they begin there, and their size.
    Parameters,
    /// A parameter: its number, its place, and its size.
    Parameter,
}

/// The form, the number, and what it holds.
pub(super) type Attribute = (u8, u8, Holds);

const FRAME_SIZE: u8 = 0x11;
/// Some compilers write it twice.
const LEAST_STACK: u8 = 0x12;
const REGISTERS: u8 = 0x2f;

const OF_FILE: &[Attribute] = &[
    (4, FRAME_SIZE, Holds::OfFunction),
    (4, LEAST_STACK, Holds::OfFunction),
    (4, 0x23, Holds::OfFunction),
    (4, REGISTERS, Holds::OfFunction),
    (1, 0x53, Holds::Value(0)),
    (3, 0x5f, Holds::Value(0x101)),
];

const PARAMETERS: u8 = 0x0a;
const PARAMETER: u8 = 0x17;
const PARAMETERS_SIZE: u8 = 0x19;
const VERSION: u8 = 0x37;

const OF_FUNCTION: &[Attribute] = &[
    (1, 0x04, Holds::Value(0)),
    (4, 0x05, Holds::Words(3)),
    (4, PARAMETERS, Holds::Parameters),
    (4, 0x0f, Holds::Symbols),
    (4, 0x10, Holds::Words(3)),
    (4, PARAMETER, Holds::Parameter),
    (3, PARAMETERS_SIZE, Holds::Value(0x8000)),
    (3, 0x1b, Holds::Value(0xff)),
    (4, 0x1c, Holds::Places),
    (4, 0x1e, Holds::Words(1)),
    (4, 0x25, Holds::Places),
    (4, 0x28, Holds::Places),
    (4, 0x29, Holds::Any),
    (1, 0x2a, Holds::Value(0)),
    (4, 0x2e, Holds::Places),
    (1, 0x30, Holds::Value(0)),
    (4, 0x31, Holds::Places),
    (4, 0x34, Holds::Places),
    (1, 0x35, Holds::Value(0)),
    (4, 0x36, Holds::Words(1)),
    (4, VERSION, Holds::Words(1)),
    (4, 0x3d, Holds::Words(3)),
    (1, 0x3e, Holds::Value(0)),
    (1, 0x41, Holds::Value(0)),
    (4, 0x44, Holds::Places),
    (4, 0x46, Holds::Places),
    (2, 0x4a, Holds::Value(0xff)),
    (2, 0x4c, Holds::Value(0xff)),
    (3, 0x50, Holds::Value(0x8000)),
    (3, 0x5f, Holds::Value(0x101)),
    (4, 0x66, Holds::Words(1)),
    (3, 0x6b, Holds::Value(1)),
    (2, 0x6d, Holds::Value(0xff)),
];

/// An attribute as it is in a file: its number, what it holds, the value in the entry, and that after it.
type Found<'a> = (u8, Holds, u64, Bytes<'a>);

/// All attributes, if each is of a known form and number, and as long as it should be.
#[inline]
pub(super) fn attributes<'a>(bytes: Bytes<'a>, known: &[Attribute]) -> Result<Vec<Found<'a>>, Wrong> {
    let (mut rest, mut found) = (bytes, Vec::new());
    while !rest.0.is_empty() {
        let (form, number, value) = (rest.number(0, 1)? as u8, rest.number(1, 1)? as u8, rest.number(2, 2)?);
        let size = if form == 4 { value } else { 0 };
        let after = rest.part(4, size)?;
        let fits = |holds: &Holds| match holds {
            Holds::Value(most) => value <= *most,
            Holds::Words(words) => size == 4 * words,
            Holds::OfFunction | Holds::Parameters => size == 8,
            Holds::Parameter => size == 12,
            Holds::Symbols | Holds::Any | Holds::Places => size % 4 == 0,
        };
        let holds = known.iter().find(|known| (known.0, known.1) == (form, number)).map(|known| known.2);
        let holds = holds.filter(fits).ok_or_else(|| {
            format!(
                "an attribute {number:#x} of form {form} and value {value:#x} is not one that custack knows"
            )
        })?;
        found.push((number, holds, value, after));
        rest = rest.from(4 + size)?;
    }
    Ok(found)
}

/// Checks the attributes of the file and of each function, and that each function has those that it needs.
#[inline]
pub(super) fn check(elf: &Elf<'_>) -> Result<(), Wrong> {
    let find = |name: &str| elf.sections.iter().find(|section| section.name == name);
    let mut of_functions = HashSet::new();
    if let Some(of_file) = find(".nv.info") {
        for (number, holds, _, after) in attributes(of_file.bytes, OF_FILE)? {
            if matches!(holds, Holds::OfFunction) {
                let index = after.number(0, 4)?;
                let is_function = elf.symbols.get(index as usize).is_some_and(|it| it.kind == FUNCTION);
                let is_new = of_functions.insert((number, index)) || number == LEAST_STACK;
                if !is_function || !is_new {
                    return Err(format!(
                        "its attribute {number:#x} is of symbol {index}, which is no function"
                    ));
                }
            }
        }
    }
    for text in elf.sections.iter().filter(|section| section.name.starts_with(".text.")) {
        let name = &text.name[".text.".len()..];
        let own = find(&format!(".nv.info.{name}")).ok_or_else(|| format!("{name} has no attributes"))?;
        let wrong = |why| format!("{name}: {why}");
        let function = text.info & 0xff_ffff;
        let needed = [FRAME_SIZE, REGISTERS].iter().all(|number| of_functions.contains(&(*number, function)));
        let constants = find(&format!(".nv.constant0.{name}"));
        if !needed {
            return Err(wrong(
                "the number of its registers, or the size of its frame, is missing".to_owned(),
            ));
        }
        check_function(elf, text, constants, own.bytes).map_err(wrong)?;
    }
    Ok(())
}

/// Checks the attributes of one function.
#[inline]
fn check_function(
    elf: &Elf<'_>,
    text: &Section<'_>,
    constants: Option<&Section<'_>>,
    own: Bytes<'_>,
) -> Result<(), Wrong> {
    let (mut place, mut size, mut parameters, mut seen) = (None, None, Vec::new(), HashSet::new());
    for (number, holds, value, after) in attributes(own, OF_FUNCTION)? {
        let all = |is: &dyn Fn(u64) -> bool| after.words().all(|word| is(word.into()));
        let fits = match holds {
            Holds::Places => all(&|word| word < text.size),
            Holds::Symbols => all(&|word| word < elf.symbols.len() as u64),
            Holds::Parameters => {
                place = Some((after.number(0, 4)?, after.number(4, 2)?, after.number(6, 2)?));
                true
            }
            Holds::Parameter => {
                // Fourteen bits have the size; those below them are other properties of the parameter.
                let part = (after.number(6, 2)?, after.number(8, 4)? >> 18);
                parameters.push((after.number(4, 2)?, part));
                after.number(0, 4)? == 0
            }
            _ => true,
        };
        size = if number == PARAMETERS_SIZE { Some(value) } else { size };
        if !fits || (number != PARAMETER && number != 0x46 && !seen.insert(number)) {
            return Err(format!(
                "its attribute {number:#x} leads outside of what it is about, or is there twice"
            ));
        }
    }
    if !seen.contains(&VERSION) || size != place.map(|place| place.2) {
        return Err("an attribute that it needs is missing".to_owned());
    }
    if let Some((symbol, begin, size)) = place {
        let section = elf.symbols.get(symbol as usize).and_then(|symbol| elf.sections.get(symbol.section?));
        let own = section.zip(constants).filter(|(section, constants)| section.name == constants.name);
        if own.is_none_or(|(section, _)| begin + size > section.size) {
            return Err("its parameters are not in its constants".to_owned());
        }
    }
    parameters.sort_unstable();
    let size = size.unwrap_or(0);
    let are = |(at, parameter): (usize, &(u64, (u64, u64)))| {
        parameter.0 == at as u64 && parameter.1.0 + parameter.1.1 <= size
    };
    if parameters.iter().enumerate().all(are) {
        Ok(())
    } else {
        Err("its parameters are not those that it has".to_owned())
    }
}
