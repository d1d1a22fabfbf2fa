//! Calls: by a function's name, or by its address in a register.

use super::super::inst::{Builtin, Call, Kind, Target};
use super::super::scope::{Named, Signature, split};
use super::super::tokens::Token;
use super::super::types::Type;
use super::super::{Refusal, unknown, wrong};
use super::opcode::Opcode;
use super::operands::Operands;
use super::unresolved;
use super::{Builder, Names};

const BUILTINS: &[(&str, Builtin)] = &[
    ("vprintf", Builtin::Printf),
    ("malloc", Builtin::Malloc),
    ("free", Builtin::Free),
    ("__assertfail", Builtin::Assert),
];

/// The operands between round brackets.
fn bracketed(tokens: &[Token]) -> Option<Vec<&[Token]>> {
    match tokens {
        [Token::Sign('('), inner @ .., Token::Sign(')')] => Some(split(inner)),
        _ => None,
    }
}

/// The operands of a call: `(results), function, (arguments), prototype`, where only the function must be there.
struct Written<'t> {
    returned: Vec<&'t [Token]>,
    function: &'t [Token],
    passed: Vec<&'t [Token]>,
    behind: Option<&'t [Token]>,
}

impl<'t> Written<'t> {
    fn of(operands: Operands<'_, 't>) -> Result<Written<'t>, Refusal> {
        let missing = || wrong("the function is missing");
        let mut rest = operands.iter().copied();
        let first = rest.next().ok_or_else(missing)?;
        let (returned, function) = match bracketed(first) {
            Some(places) => (places, rest.next().ok_or_else(missing)?),
            None => (Vec::new(), first),
        };
        let second = rest.next();
        let (passed, behind) = match second.and_then(bracketed) {
            Some(values) => (values, rest.next()),
            None => (Vec::new(), second),
        };
        Ok(Written { returned, function, passed, behind })
    }
}

impl Builder<'_> {
    /// `local` is the size of the caller's frame, after which the callee's begins.
    pub(super) fn call(
        &mut self,
        names: &Names<'_, '_>,
        op: &mut Opcode<'_>,
        operands: Operands<'_, '_>,
        local: usize,
    ) -> Result<Kind, Refusal> {
        op.has("uni");
        let Written { returned, function, passed, behind } = Written::of(operands)?;
        let [Token::Word(name)] = function else {
            return Err(wrong("a function is called by its name or its address"));
        };
        let (target, signature) = if let Some(Named::Register(_)) = names.find(name) {
            self.callee_at_address(names, function, behind)?
        } else {
            self.callee_named(name)?
        };
        let (return_places, parameter_places, _) = signature.layout();
        if returned.len() != return_places.len() || passed.len() != parameter_places.len() {
            let (has, takes) = (passed.len(), parameter_places.len());
            return Err(wrong(format!(
                "{name} takes {takes} parameters, and gets {has}, or returns another number of values"
            )));
        }
        let mut scratch = self.scratch;
        let passed = self.passed(names, &passed, &signature, &mut scratch)?;
        let (returned, kept) = self.returned(names, &returned, &signature, &mut scratch)?;
        let with = |here: &[u64], there: &[usize], sizes: &[(usize, usize)]| -> Vec<(usize, usize, usize)> {
            let sizes = sizes.iter().map(|(size, _)| *size);
            here.iter()
                .zip(there)
                .zip(sizes)
                .map(|((here, there), size)| (*here as usize, *there, size))
                .collect()
        };
        let call = Call {
            target,
            passed: with(&passed, &parameter_places, &signature.parameters),
            returned: with(&returned, &return_places, &signature.returns),
            frame: local,
        };
        Ok(self.call_and_load(call, &kept))
    }

    /// A function that is called by the address in a register; what follows the arguments says how.
    fn callee_at_address(
        &mut self,
        names: &Names<'_, '_>,
        register: &[Token],
        behind: Option<&[Token]>,
    ) -> Result<(Target, Signature), Refusal> {
        // The address may be that of any function of the program.
        if !std::mem::replace(&mut self.calls_any, true) {
            let program = self.program;
            let all = program.functions.iter().enumerate();
            for (number, _) in all.filter(|(_, it)| !it.is_kernel && it.code.is_some()) {
                self.callee(number);
            }
        }
        let label = behind.and_then(|tokens| tokens.first()).and_then(Token::word);
        let signature = match label.and_then(|it| names.find(it)) {
            Some(Named::Prototype(signature)) => signature,
            Some(Named::Callees(all)) => self.signature_of_all(&all)?,
            _ => return Err(unknown("a call by an address without a prototype")),
        };
        Ok((Target::Pointer(self.source(names, register, Type::U(8))?), signature))
    }

    /// A function that is called by its name.
    fn callee_named(&mut self, name: &str) -> Result<(Target, Signature), Refusal> {
        let number = self.program.function(name).ok_or_else(|| wrong(format!("{name} is not a function")))?;
        let function = &self.program.functions[number];
        let signature = Signature::of(&function.returns, &function.parameters);
        if function.code.is_none() {
            if let Some((_, builtin)) = BUILTINS.iter().find(|(known, _)| *known == name) {
                self.body.has_heap |= matches!(builtin, Builtin::Malloc | Builtin::Free);
                return Ok((Target::Builtin(*builtin), signature));
            }
            if self.program.is_open {
                return Ok((Target::Function(u32::MAX), signature));
            }
            return Err(wrong(unresolved(name)));
        }
        let at = self.callee(number);
        self.present.iter().for_each(|caller| self.calls[*caller].push(at));
        Ok((Target::Function(at as u32), signature))
    }

    /// The common signature of functions that one call by address may call.
    fn signature_of_all(&self, names: &[String]) -> Result<Signature, Refusal> {
        let mut found: Option<Signature> = None;
        for name in names {
            let number =
                self.program.function(name).ok_or_else(|| wrong(format!("{name} is not a function")))?;
            let function = &self.program.functions[number];
            let signature = Signature::of(&function.returns, &function.parameters);
            if found.is_some_and(|other| {
                other.returns != signature.returns || other.parameters != signature.parameters
            }) {
                return Err(wrong(format!(
                    "{name} is called as other functions are, and takes something else"
                )));
            }
            found = Some(signature);
        }
        found.ok_or_else(|| wrong("no function is named that may be called"))
    }
}
