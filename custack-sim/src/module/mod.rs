//! Modules: loaded programs and their variables.

pub(super) mod abi;
mod image;
mod jit;
mod link;

pub(super) use abi::{Options, code_at, with_options};
pub(super) use jit::CompilerLog;
pub(super) use link::Linker;

use super::machine::*;
use super::memory::{self, Kind};
use super::ptx::{INVALID_IMAGE, Program, read};
use custack_sys::ffi::CUresult;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(super) const NO_BINARY_FOR_GPU: CUresult = 209;
pub(super) const NOT_FOUND: CUresult = 500;
pub(super) const FILE_NOT_FOUND: CUresult = 301;

pub(super) struct Module {
    pub(super) context: Handle,
    pub(super) program: Arc<Program>,
    pub(super) variables: Arc<Vec<u64>>,
    /// The handle of each kernel that was asked for: the driver gives the same one each time.
    pub(super) functions: BTreeMap<usize, usize>,
    /// Whether a library has it, which then unloads it.
    pub(super) of_library: bool,
}

impl Machine {
    pub(super) fn load_module(&mut self, image: &[u8]) -> Answer<usize> {
        self.thread().compiler_log = CompilerLog::default();
        let context = self.healthy_current()?;
        let program = self.compile(image)?;
        let variables = self.place(&program, context, &BTreeMap::new())?;
        let (program, variables) = (Arc::new(program), Arc::new(variables));
        let functions = BTreeMap::new();
        let module = Module { context, program, variables, functions, of_library: false };
        Ok(self.objects.add(Object::Module(module)))
    }

    /// Reads a program, and leaves what is wrong with it in the compiler's log.
    pub(super) fn compile(&mut self, image: &[u8]) -> Answer<Program> {
        let text = self.text_of(image)?;
        if self.thread().tells_lines && image.starts_with(text.as_bytes()) && text.len() % 8 == 0 {
            let why =
                "with debug information or lines, the compiler writes the NUL of a text behind its copy";
            return self.misuse(INVALID_VALUE, why);
        }
        match read(&text) {
            Ok(mut program) => {
                program.most_registers = self.thread().most_registers;
                self.thread().compiler_log = CompilerLog::of(&program);
                Ok(program)
            }
            Err(refusal) => {
                self.thread().compiler_log = CompilerLog::refused(&refusal);
                self.refuse(refusal.status, refusal)
            }
        }
    }

    /// The text that an image is, or has in it.
    pub(super) fn text_of<'a>(&mut self, image: &'a [u8]) -> Answer<Cow<'a, str>> {
        image::text(image).or_else(|refusal| self.refuse(refusal.status, refusal))
    }

    /// Finds room for the variables of a program, and writes what they begin with. Those that have an address already
    /// have it from `known`.
    pub(super) fn place(
        &mut self,
        program: &Program,
        context: Handle,
        known: &BTreeMap<usize, u64>,
    ) -> Answer<Vec<u64>> {
        let (mut variables, mut new) = (Vec::new(), BTreeSet::new());
        for (at, variable) in program.variables.iter().enumerate() {
            if let Some(address) = known.get(&at) {
                variables.push(*address);
                continue;
            }
            let mut memory = memory::lock();
            let kind = if variable.managed { Kind::ManagedVariable } else { Kind::Variable };
            let address = memory.allocate(kind, context, variable.size);
            let written = address.map(|address| memory.write(address, &variable.contents));
            let (Some(address), Some(Ok(()))) = (address, written) else {
                new.iter().chain(&address).for_each(|address| memory.free(*address));
                drop(memory);
                return self
                    .refuse(OUT_OF_MEMORY, format_args!("no memory for the variable {}", variable.name));
            };
            new.insert(address);
            variables.push(address);
        }
        for (variable, at) in program.variables.iter().zip(&variables).filter(|(_, at)| new.contains(at)) {
            for address in &variable.addresses {
                let bytes = program.bytes_of(address, &variables);
                // It was just placed, with room for what it begins with.
                let _ = memory::lock().write(at + address.at as u64, &bytes);
            }
        }
        Ok(variables)
    }

    /// Refuses a kernel that cannot run.
    pub(super) fn can_run(&mut self, program: &Program, entry: usize) -> Answer<()> {
        match &program.entries[entry].refusal {
            None => Ok(()),
            Some(refusal) => {
                self.thread().compiler_log = CompilerLog::refused(refusal);
                self.refuse(refusal.status, refusal)
            }
        }
    }

    /// The compiler's log of this thread's last program; returned once.
    pub(super) fn compiler_log(&mut self) -> CompilerLog {
        std::mem::take(&mut self.thread().compiler_log)
    }

    pub(super) fn load_file(&mut self, name: &str) -> Answer<usize> {
        self.healthy_current()?;
        match std::fs::read(name) {
            Ok(image) => self.load_module(&image),
            Err(error) => self.refuse(FILE_NOT_FOUND, format_args!("{name}: {error}")),
        }
    }

    pub(super) fn module(&mut self, handle: usize) -> Answer<&mut Module> {
        self.ready()?;
        if handle == 0 {
            return self.refuse(INVALID_HANDLE, "the module is NULL");
        }
        let context = match self.objects.get(handle) {
            Some(Object::Module(module)) => module.context,
            _ => return self.misuse(INVALID_HANDLE, format_args!("{handle:#x} is not a module")),
        };
        self.healthy(context)?;
        match self.objects.get_mut(handle) {
            Some(Object::Module(module)) => Ok(module),
            _ => Err(INVALID_HANDLE),
        }
    }

    pub(super) fn unload_module(&mut self, handle: usize) -> Answer<()> {
        if self.module(handle)?.of_library {
            return self.refuse(NOT_PERMITTED, "the module is a library's, which unloads it");
        }
        let module = self.module(handle)?;
        let variables = Arc::clone(&module.variables);
        for function in std::mem::take(&mut module.functions).into_values() {
            self.objects.remove(function);
        }
        variables.iter().for_each(|address| memory::lock().free(*address));
        self.objects.remove(handle);
        Ok(())
    }

    pub(super) fn variable_named(&mut self, module: usize, name: &str) -> Answer<(u64, usize)> {
        let found = self.module(module)?;
        let at = found.program.variables.at(name);
        match at.map(|at| (found.variables[at], found.program.variables[at].size)) {
            Some(variable) => Ok(variable),
            None if found.program.entries.at(name).is_some() => {
                self.refuse(INVALID_VALUE, format_args!("{name} is a kernel"))
            }
            None => self.refuse(NOT_FOUND, format_args!("the module has no variable {name}")),
        }
    }

    /// The names of the kernels of a module.
    pub(super) fn kernels_of_module(&mut self, module: usize) -> Answer<Vec<String>> {
        if module == 0 {
            return self.refuse(INVALID_HANDLE, "the module is NULL");
        }
        let program = Arc::clone(&self.module(module)?.program);
        Ok(program.entries.iter().map(|entry| entry.name.clone()).collect())
    }
}
