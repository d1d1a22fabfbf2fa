//! Generates the code of kernels: each instruction of a kernel, and of the functions that it calls, becomes a closure.

mod arguments;
mod arithmetic;
mod atomic;
mod bits;
mod blocks;
mod body;
mod call;
mod carry;
mod cluster;
mod compare;
mod contraction;
mod convert;
mod copies;
mod floats;
mod flow;
mod fragments;
mod half;
mod hints;
mod lanes;
mod live;
mod matrix;
mod mbarrier;
mod memory;
mod moves;
mod opcode;
mod operands;
mod product;
mod quads;
mod special;
mod stack;
mod surface;
mod table;
mod texture;
mod video;
mod warp;

pub(super) use body::{Body, Fixed, Function};
pub(super) use live::most_live;
pub(super) use special::{RESERVED, Special};

use super::inst::{Inst, Kind};
use super::program::Program;
use super::reader::Reader;
use super::run::{Range, Reg};
use super::scope::{Named, Scopes, SharedLayout, Statement};
use super::tokens::Token;
use super::types::Class;
use super::{Refusal, unknown, wrong};
use crate::circles::on_circles;
use contraction::Contracted;
use opcode::Opcode;
use std::collections::HashMap;

/// The reason why a function that is called and not defined has no code.
pub(super) fn unresolved(name: &str) -> String {
    format!("Unresolved extern function '{name}'")
}

/// The maximum sizes of shared and of local memory, in bytes.
const MOST_SHARED: usize = 1 << 20;
const MOST_LOCAL: usize = 512 << 10;

/// The code of a kernel while it is generated.
pub(super) struct Builder<'a> {
    program: &'a Program,
    body: Body,
    shared: SharedLayout,
    /// The variables in shared memory, declared outside of functions, that the kernel uses.
    shared_names: HashMap<String, Named>,
    /// The registers that no instruction sets, by their values.
    fixed: HashMap<(Class, Fixed), Reg>,
    /// The registers that hold the address of dynamic shared memory, which is known only at the end.
    dynamic: Vec<Reg>,
    /// The functions that each of the body's functions calls, by their indices there.
    calls: Vec<Vec<usize>>,
    /// The function whose code is being generated; `None` for the kernel.
    present: Option<usize>,
    /// Whether there is a call by address, which may reach any function.
    calls_any: bool,
    /// The guard of the present statement's own instruction, until it is added; those that are added before it have
    /// none.
    guard: Option<(u32, bool)>,
    /// The guard in the text of the present statement.
    own_guard: Option<(u32, bool)>,
    /// The registers in which the present function returns its results.
    returns: Vec<(Reg, usize, usize)>,
    /// The offset in the frame where its calls have arguments that are not in the space `.param`.
    scratch: usize,
}

/// The names and the scope of the present statement.
pub(super) struct Names<'s, 'a> {
    scopes: &'s Scopes<'a>,
    scope: usize,
}

/// Refuses a function that no kernel calls if something is wrong with it.
pub(super) fn check(program: &Program, function: usize) -> Result<(), Refusal> {
    let mut builder = Builder::new(program);
    // What it calls is not generated with it.
    builder.calls_any = true;
    builder.present = Some(builder.callee(function));
    builder.function(function).map(|_| ())
}

/// Generates the code of a kernel of the program.
pub(super) fn generate(program: &Program, kernel: usize) -> Result<Body, Refusal> {
    let mut builder = Builder::new(program);
    builder.function(kernel)?;
    let mut done = 0;
    while done < builder.body.functions.len() {
        builder.present = Some(done);
        let number = builder.body.functions[done].number as usize;
        let (from, at) = (builder.body.counts, builder.body.code.len() as u32);
        let made = builder.function(number);
        let range = Range(from, builder.body.counts);
        let found = &mut builder.body.functions[done];
        found.range = range;
        match made {
            Ok(local) => (found.at, found.local) = (Ok(at), local),
            // The function may never be called, so this is an error only when it is.
            Err(refusal) if builder.calls_any && refusal.is_unknown() => {
                found.at = Err(format!("the function {}: {refusal}", program.functions[number].name));
            }
            Err(refusal) => {
                return Err(refusal.within(format_args!("function {}", program.functions[number].name)));
            }
        }
        done += 1;
    }
    builder.finish()
}

impl<'a> Builder<'a> {
    fn new(program: &'a Program) -> Builder<'a> {
        let mut builder = Builder {
            program,
            body: Body::default(),
            shared: SharedLayout::default(),
            shared_names: HashMap::new(),
            fixed: HashMap::new(),
            dynamic: Vec::new(),
            calls: Vec::new(),
            present: None,
            calls_any: false,
            guard: None,
            own_guard: None,
            returns: Vec::new(),
            scratch: 0,
        };
        // The carry flag.
        builder.body.counts.add(Class::Pred, 1);
        builder
    }

    fn finish(mut self) -> Result<Body, Refusal> {
        let size = self.shared.size;
        if size > MOST_SHARED || self.body.local > MOST_LOCAL {
            let local = self.body.local;
            return Err(wrong(format!("{size} bytes of shared memory, and {local} of local")));
        }
        self.body.shared = size.next_multiple_of(16);
        for register in &self.dynamic {
            self.body.fixed.push((*register, Fixed::Shared(self.body.shared as u64)));
        }
        let on_circles = on_circles(self.calls.len(), |at, nth| self.calls[at].get(nth).copied());
        for (function, is_on_circle) in self.body.functions.iter_mut().zip(on_circles) {
            function.is_recursive = self.calls_any || is_on_circle;
        }
        Ok(self.body)
    }

    /// Generates the code of a function, and returns the size of its frame in local memory.
    fn function(&mut self, number: usize) -> Result<usize, Refusal> {
        let function = &self.program.functions[number];
        let Some((tokens, lines)) = &function.code else {
            return Err(wrong(unresolved(&function.name)));
        };
        let mut reader = Reader::new(tokens, lines);
        let mut scopes = Scopes::new(&function.name);
        self.returns.clear();
        if function.is_kernel {
            let mut end = 0usize;
            for parameter in &function.parameters {
                let at = end.next_multiple_of(parameter.align);
                end = at + parameter.size;
                scopes.name(0, &parameter.name, Named::Parameter(at as u64))?;
            }
        } else {
            self.parameters(function, &mut scopes)?;
        }
        let read = scopes.read(&mut reader, &mut self.body.counts, &mut self.shared);
        read.map_err(|refusal| refusal.at(reader.line()))?;
        self.scratch = scopes.local.next_multiple_of(16);
        let local = match arguments::scratch(&scopes) {
            0 => scopes.local,
            more => self.scratch + more,
        };
        if function.is_kernel {
            self.body.local = local;
            if local > MOST_LOCAL {
                return Err(wrong(format!("0 bytes of shared memory, and {local} of local")));
            }
        }
        let local = local.next_multiple_of(16);
        let mut starts = Vec::with_capacity(scopes.statements.len() + 1);
        let contracted =
            if self.program.is_debugged { HashMap::new() } else { contraction::contracted(&scopes) };
        for (at, statement) in scopes.statements.iter().enumerate() {
            starts.push(self.body.code.len() as u32);
            let made = match contracted.get(&at) {
                None => self.statement(&scopes, statement, local),
                Some(Contracted::Nothing) => Ok(()),
                Some(Contracted::Sum(sum)) => self.statement(&scopes, &sum.statement(statement), local),
            };
            made.map_err(|refusal| refusal.at(statement.line))?;
        }
        starts.push(self.body.code.len() as u32);
        let end = self.body.opcode("ret");
        self.store_returns();
        self.body.written.resize(self.body.code.len(), (reader.line(), end));
        self.push(Kind::Return, (reader.line(), end));
        let first = starts[0] as usize;
        for inst in &mut self.body.code[first..] {
            match &mut inst.kind {
                Kind::Branch(target) => *target = starts[*target as usize],
                Kind::BranchTo(_, targets) => targets.iter_mut().for_each(|it| *it = starts[*it as usize]),
                _ => {}
            }
        }
        Ok(local)
    }

    fn statement(
        &mut self,
        scopes: &Scopes<'_>,
        statement: &Statement<'_>,
        local: usize,
    ) -> Result<(), Refusal> {
        let names = Names { scopes, scope: statement.scope };
        let opcode = self.body.opcode(statement.opcode);
        self.guard = None;
        let guard = match statement.guard {
            Some((name, negated)) => Some((names.predicate(name)?, !negated)),
            None => None,
        };
        self.own_guard = guard;
        let mut parts = Opcode::new(statement.opcode);
        if self.program.maps_f64 && statement.opcode.split('.').any(|part| part == "f64") {
            return Err(unknown("the target map_f64_to_f32, where .f64 has the precision of .f32"));
        }
        let made = self.fill(&names, &mut parts, &statement.operands, local);
        let kind = made.map_err(|refusal| refusal.within(statement.opcode))?;
        self.body.written.resize(self.body.code.len(), (statement.line, opcode));
        self.guard = guard;
        self.push(kind, (statement.line, opcode));
        Ok(())
    }

    fn push(&mut self, kind: Kind, written: (u32, u32)) {
        self.body.code.push(Inst { guard: self.guard.take(), kind });
        self.body.written.push(written);
    }

    /// Adds an instruction that the present statement needs before its own.
    fn before(&mut self, kind: Kind) {
        self.body.code.push(Inst { guard: None, kind });
    }

    /// The register with this value, which no instruction sets.
    fn fixed(&mut self, class: Class, fixed: Fixed) -> Reg {
        if let Some(register) = self.fixed.get(&(class, fixed)) {
            return *register;
        }
        let register = self.body.counts.add(class, 1);
        match fixed {
            Fixed::Special(Special::Ctaid(axis)) => self.body.of_block.push((register, axis)),
            Fixed::Special(special) if special.is_of_place() => self.body.of_place.push((register, special)),
            fixed => self.body.fixed.push((register, fixed)),
        }
        self.fixed.insert((class, fixed), register);
        register
    }

    fn bits(&mut self, class: Class, bits: u128) -> Reg {
        self.fixed(class, Fixed::Bits(bits))
    }

    fn new_register(&mut self, class: Class) -> Reg {
        self.body.counts.add(class, 1)
    }

    /// The index of a function in the body, where it is added if it is new.
    fn callee(&mut self, number: usize) -> usize {
        let next = self.body.functions.len();
        let at = *self.body.by_number.entry(number as u64).or_insert(next as u32) as usize;
        if at == next {
            self.body.functions.push(Function::new(number as u64));
            self.calls.push(Vec::new());
        }
        at
    }
}

impl Names<'_, '_> {
    fn find(&self, name: &str) -> Option<Named> {
        self.scopes.find(self.scope, name)
    }

    /// The number of a predicate register.
    fn predicate(&self, name: &str) -> Result<u32, Refusal> {
        match self.find(name) {
            Some(Named::Register(register)) if register.class == Class::Pred => Ok(register.at),
            _ => Err(wrong(format!("{name} is not a predicate"))),
        }
    }

    /// The number of the statement after a label.
    fn label(&self, name: &str) -> Result<u32, Refusal> {
        match self.find(name) {
            Some(Named::Label(at)) => Ok(at as u32),
            _ => Err(wrong(format!("the label {name} is not defined"))),
        }
    }

    fn label_of(&self, operand: Option<&&[Token]>) -> Result<u32, Refusal> {
        match operand {
            Some([Token::Word(name)]) => self.label(name),
            _ => Err(wrong("a label is missing")),
        }
    }
}
