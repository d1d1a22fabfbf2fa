//! Modules: programs that are loaded, with their variables.

pub(super) mod abi;

use super::machine::*;
use super::memory::{self, Kind};
use super::ptx::{INVALID_IMAGE, Program, read};
use crate::driver::ffi::CUresult;
use std::collections::BTreeMap;
use std::sync::Arc;

const NO_BINARY_FOR_GPU: CUresult = 209;
pub(super) const NOT_FOUND: CUresult = 500;
const FILE_NOT_FOUND: CUresult = 301;

pub(super) struct Module {
    pub(super) context: Handle,
    pub(super) program: Arc<Program>,
    pub(super) variables: Arc<Vec<u64>>,
    /// The handle of each kernel that was asked for: the driver gives the same one each time.
    pub(super) functions: BTreeMap<usize, usize>,
}

impl Machine {
    pub(super) fn load_module(&mut self, image: &[u8]) -> Answer<usize> {
        self.thread().compiler_log.clear();
        let context = self.healthy_current()?;
        if image.starts_with(b"\x7fELF") || image.starts_with(&[0x50, 0xed, 0x55, 0xba]) {
            return self
                .refuse(NO_BINARY_FOR_GPU, "the simulated device runs PTX, and the image is machine code");
        }
        let Ok(text) = std::str::from_utf8(image) else {
            return self.refuse(INVALID_IMAGE, "the image is neither a text nor machine code");
        };
        let program = match read(text) {
            Ok(program) => program,
            Err(refusal) => {
                self.thread().compiler_log = refusal.compiler_log();
                return self.refuse(refusal.status, refusal);
            }
        };
        let mut variables = Vec::new();
        for variable in &program.variables {
            let mut memory = memory::lock();
            let address = memory.allocate(Kind::Variable, context, variable.size);
            let written = address.map(|address| memory.write(address, &variable.contents));
            let (Some(address), Some(Ok(()))) = (address, written) else {
                variables.iter().chain(&address).for_each(|address| memory.free(*address));
                drop(memory);
                return self
                    .refuse(OUT_OF_MEMORY, format_args!("no memory for the variable {}", variable.name));
            };
            variables.push(address);
        }
        let (program, variables) = (Arc::new(program), Arc::new(variables));
        let module = Module { context, program, variables, functions: BTreeMap::new() };
        Ok(self.objects.add(Object::Module(module)))
    }

    /// What the compiler said about the last program that it refused on this thread; told once.
    pub(super) fn compiler_log(&mut self) -> String {
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
        let context = match self.objects.get(handle) {
            Some(Object::Module(module)) => module.context,
            _ => return self.misuse(INVALID_HANDLE, format_args!("{handle:#x} is no module")),
        };
        self.healthy(context)?;
        match self.objects.get_mut(handle) {
            Some(Object::Module(module)) => Ok(module),
            _ => Err(INVALID_HANDLE),
        }
    }

    pub(super) fn unload_module(&mut self, handle: usize) -> Answer<()> {
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
        let at = found.program.variables.iter().position(|variable| variable.name == name);
        match at.map(|at| (found.variables[at], found.program.variables[at].size)) {
            Some(variable) => Ok(variable),
            None => self.refuse(NOT_FOUND, format_args!("the module has no variable {name}")),
        }
    }
}
