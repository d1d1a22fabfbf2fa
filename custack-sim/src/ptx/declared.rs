//! Declarations of variables and parameters, and the initial values of variables.

use super::reader::Reader;
use super::tokens::{Token, Written};
use super::types::Type;
use super::{Refusal, unknown, wrong};

/// The maximum size of a variable, in bytes: more than any device has, and small enough that sums cannot overflow.
const MOST_BYTES: usize = 1 << 32;

/// A declared variable or parameter.
#[derive(Debug, Clone)]
pub(super) struct Declared {
    pub(super) name: String,
    pub(super) align: usize,
    /// In bytes; 0 for an array whose declaration does not give its size.
    pub(super) size: usize,
    /// Its initial bytes; zeros follow.
    pub(super) contents: Vec<u8>,
    /// The addresses among the initial bytes, which are known only when the module is loaded.
    pub(super) addresses: Vec<Address>,
    pub(super) managed: bool,
    /// The type of an element, and the number of elements in a vector such as `.v4`.
    pub(super) ty: Type,
    pub(super) elements: usize,
    /// A parameter of a function that the function declares as a register (`.reg`).
    pub(super) in_register: bool,
}

impl Declared {
    /// Refuses an array whose size is not given, unless it is declared elsewhere too.
    pub(super) fn check_complete(&self, external: bool) -> Result<(), Refusal> {
        if self.size == 0 && !external {
            return Err(wrong(format!("Non-external variable '{}' has incomplete type", self.name)));
        }
        Ok(())
    }
}

/// An address in the initial value of a variable.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Address {
    /// Its position among the initial bytes, and how many bytes of the address are stored there.
    pub(crate) at: usize,
    pub(crate) size: usize,
    /// The variable or function whose address it is.
    pub(crate) of: String,
    pub(crate) offset: i64,
    /// The number of low bits of the address that are left out.
    pub(crate) shift: u32,
}

/// Reads `[.align N] .type name[N] = {...}`, which follows the word for the state space, and stops before what follows
/// it.
pub(super) fn declared(reader: &mut Reader<'_>) -> Result<Declared, Refusal> {
    let (mut align, mut ty, mut managed, mut elements, mut pointer) = (None, None, false, 1, false);
    let name = loop {
        match reader.word()? {
            ".attribute" => {
                reader.expect('(')?;
                managed |= reader.until(')')?.iter().any(|token| token.word() == Some(".managed"));
            }
            ".align" => align = Some(reader.int()? as usize),
            ".ptr" => pointer = true,
            ".volatile" | ".global" | ".const" | ".shared" | ".local" => {}
            ".v2" => elements = 2,
            ".v4" => elements = 4,
            ".v8" => elements = 8,
            ".texref" | ".samplerref" | ".surfref" => ty = Some(Type::B(8)),
            word if word.starts_with('.') => match Type::named(word) {
                Some(known) => ty = Some(known),
                None => return Err(unknown(format!("a variable of type {word}"))),
            },
            name => break name.to_owned(),
        }
    };
    let ty = ty.ok_or_else(|| wrong(format!("the variable {name} has no type")))?;
    let Dimensions { count, is_array, is_open } = dimensions(reader, &name)?;
    let element = ty.size() * elements;
    let mut initial = InitialValue { ty, contents: Vec::new(), addresses: Vec::new() };
    if reader.takes('=') {
        initial.read(reader, &name)?;
    }
    let InitialValue { contents, addresses, .. } = initial;
    let size = count.checked_mul(element).filter(|size| *size <= MOST_BYTES);
    let size = size.ok_or_else(|| wrong(format!("the variable {name} is too large")))?;
    if is_array && !is_open && count == 0 {
        return Err(wrong(format!("the variable {name} has no elements")));
    }
    let size = if is_open { contents.len() } else { size };
    if contents.len() > size {
        return Err(wrong(format!("the variable {name} begins with more than it has room for")));
    }
    // `.align` after `.ptr` is the alignment of what the pointer points to, not of the pointer.
    let align = align.filter(|_| !pointer).unwrap_or(1);
    if !align.is_power_of_two() || align > 4096 {
        return Err(wrong(format!("the variable {name} is aligned to {align}")));
    }
    Ok(Declared {
        name,
        align: align.max(element),
        size,
        contents,
        addresses,
        managed,
        ty,
        elements,
        in_register: false,
    })
}

/// The dimensions of an array.
struct Dimensions {
    /// The product of those that are given.
    count: usize,
    is_array: bool,
    /// One is not given: then the initial value has the size of the array.
    is_open: bool,
}

/// Reads `[N]`, `[]` and several of them; nothing for what is not an array.
fn dimensions(reader: &mut Reader<'_>, name: &str) -> Result<Dimensions, Refusal> {
    let mut found = Dimensions { count: 1, is_array: false, is_open: false };
    while reader.takes('[') {
        found.is_array = true;
        if reader.takes(']') {
            found.is_open = true;
            continue;
        }
        let length = usize::try_from(reader.int()?).map_err(|_| wrong("a negative number of elements"))?;
        let count = found.count.checked_mul(length);
        found.count = count.ok_or_else(|| wrong(format!("the variable {name} is too large")))?;
        reader.expect(']')?;
    }
    Ok(found)
}

/// The initial value of a variable, while it is read.
struct InitialValue {
    ty: Type,
    contents: Vec<u8>,
    addresses: Vec<Address>,
}

impl InitialValue {
    /// Reads a value, or several in braces, which may be nested.
    fn read(&mut self, reader: &mut Reader<'_>, name: &str) -> Result<(), Refusal> {
        let mut depth = 0;
        loop {
            while reader.takes('{') {
                depth += 1;
            }
            if !(depth > 0 && matches!(reader.peek(), Some(Token::Sign('}')))) {
                self.value(reader, name)?;
            }
            while depth > 0 && reader.takes('}') {
                depth -= 1;
            }
            if depth == 0 || !reader.takes(',') {
                break;
            }
        }
        match depth {
            0 => Ok(()),
            _ => reader.expect('}'),
        }
    }

    fn value(&mut self, reader: &mut Reader<'_>, name: &str) -> Result<(), Refusal> {
        let negative = reader.takes('-');
        let size = self.ty.size();
        let value = match reader.next()? {
            // A part of an address: a mask chooses which of its bytes.
            Token::Int(mask) if reader.takes('(') => {
                let word = reader.word()?;
                self.address(word, reader, size)?;
                if let Some(last) = self.addresses.last_mut() {
                    last.shift = (*mask as u64).trailing_zeros();
                }
                return reader.expect(')');
            }
            Token::Int(value) if self.ty == Type::F32 => {
                u64::from((if negative { -(*value as f32) } else { *value as f32 }).to_bits())
            }
            Token::Int(value) if self.ty == Type::F64 => {
                (if negative { -(*value as f64) } else { *value as f64 }).to_bits()
            }
            Token::Int(value) if negative => value.wrapping_neg() as u64,
            Token::Int(value) => *value as u64,
            Token::Single(bits) => u64::from(*bits),
            Token::Double(bits) if self.ty == Type::F32 => {
                u64::from((f64::from_bits(*bits) as f32).to_bits())
            }
            Token::Double(bits) => *bits,
            Token::Word(word) => return self.address(word, reader, size),
            other => return Err(unknown(format!("{name} begins with `{other}`"))),
        };
        let mut bytes = value.to_le_bytes().to_vec();
        bytes.resize(size.max(8), 0);
        self.contents.extend_from_slice(&bytes[..size]);
        Ok(())
    }

    /// Reads `name` or `generic(name)`, or the name in `0xFF00(name)`, where the number is a mask; an offset may
    /// follow.
    fn address(&mut self, word: &str, reader: &mut Reader<'_>, size: usize) -> Result<(), Refusal> {
        let of = if word == "generic" && reader.takes('(') {
            let of = reader.until(')')?;
            match of {
                [Token::Word(name)] => name.clone(),
                other => return Err(unknown(format!("the address `{}`", Written(other)))),
            }
        } else {
            word.to_owned()
        };
        let sign = if reader.takes('+') {
            1
        } else if reader.takes('-') {
            -1
        } else {
            0
        };
        let offset = if sign == 0 { 0 } else { reader.int()?.wrapping_mul(sign) };
        self.addresses.push(Address { at: self.contents.len(), size, of, offset, shift: 0 });
        self.contents.resize(self.contents.len() + size, 0);
        Ok(())
    }
}
