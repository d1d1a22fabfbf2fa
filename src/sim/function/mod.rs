//! Functions: the kernels of a module, and their attributes.

pub(super) mod abi;
mod launch;

pub(super) use launch::Asked;

use super::device::SHARED_PER_BLOCK;
use super::machine::*;
use super::module::NOT_FOUND;
use super::ptx::Program;
use std::sync::Arc;

const MOST_THREADS: u64 = 1024;
const MOST_SHARED: usize = 232_448;
const SHARED_PER_PROCESSOR: usize = 233_472;

pub(super) struct Function {
    pub(super) context: Handle,
    pub(super) module: usize,
    entry: usize,
    /// The most dynamic shared memory that a launch may ask for.
    dynamic_limit: usize,
    cache_config: u32,
}

impl Machine {
    pub(super) fn function_named(&mut self, module: usize, name: &str) -> Answer<usize> {
        let found = self.module(module)?;
        let context = found.context;
        let Some(entry) = found.program.entries.iter().position(|entry| entry.name == name) else {
            return self.refuse(NOT_FOUND, format_args!("the module has no kernel {name}"));
        };
        if let Some(handle) = found.functions.get(&entry) {
            return Ok(*handle);
        }
        let dynamic_limit = SHARED_PER_BLOCK.saturating_sub(found.program.entries[entry].body.shared);
        let function = Function { context, module, entry, dynamic_limit, cache_config: 0 };
        let handle = self.objects.add(Object::Function(function));
        self.module(module)?.functions.insert(entry, handle);
        Ok(handle)
    }

    fn function(&mut self, handle: usize) -> Answer<&mut Function> {
        self.ready()?;
        if handle == 0 {
            return self.refuse(INVALID_HANDLE, "the function is NULL");
        }
        let context = match self.objects.get(handle) {
            Some(Object::Function(function)) => function.context,
            _ => return self.misuse(INVALID_HANDLE, format_args!("{handle:#x} is no function")),
        };
        self.healthy(context)?;
        match self.objects.get_mut(handle) {
            Some(Object::Function(function)) => Ok(function),
            _ => Err(INVALID_HANDLE),
        }
    }

    fn program_of(&mut self, function: usize) -> Answer<(Arc<Program>, Arc<Vec<u64>>, usize)> {
        let found = self.function(function)?;
        let (module, entry) = (found.module, found.entry);
        let module = self.module(module)?;
        Ok((Arc::clone(&module.program), Arc::clone(&module.variables), entry))
    }

    /// What the interpreter can tell; registers and constants are a compiler's, and made up.
    pub(super) fn function_attribute(&mut self, function: usize, attribute: u32) -> Answer<i32> {
        let (program, _, entry) = self.program_of(function)?;
        let body = &program.entries[entry].body;
        let constants: usize =
            program.variables.iter().filter(|variable| variable.constant).map(|variable| variable.size).sum();
        let found = self.function(function)?;
        Ok(match attribute {
            0 => MOST_THREADS as i32,
            1 => body.shared as i32,
            2 => constants as i32,
            3 => body.local as i32,
            4 => 16,
            5 => program.version as i32,
            6 => 90,
            7 => 0,
            8 => found.dynamic_limit as i32,
            9 => -1,
            10..=15 => 0,
            _ => {
                return self.refuse(INVALID_VALUE, format_args!("{attribute} is no attribute of a function"));
            }
        })
    }

    /// How many blocks of so many threads run at once on a multiprocessor, by threads, shared memory and the number of
    /// blocks that one can have. Registers are a compiler's, and are not counted.
    pub(super) fn occupancy(&mut self, function: usize, block_size: i32, shared: usize) -> Answer<i32> {
        let (program, _, entry) = self.program_of(function)?;
        let fixed = program.entries[entry].body.shared;
        let Some(threads) = usize::try_from(block_size).ok().filter(|size| *size > 0) else {
            return self.refuse(INVALID_VALUE, format_args!("a block of {block_size} threads"));
        };
        let by_threads =
            if threads > MOST_THREADS as usize { 0 } else { 2048 / threads.next_multiple_of(32) };
        // A kilobyte of each block's shared memory is the system's.
        let by_shared = SHARED_PER_PROCESSOR / (fixed + shared + 1024);
        Ok(by_threads.min(by_shared).min(32) as i32)
    }

    pub(super) fn set_function_attribute(
        &mut self,
        function: usize,
        attribute: u32,
        value: i32,
    ) -> Answer<()> {
        self.function(function)?;
        match attribute {
            8 if (0..=MOST_SHARED as i32).contains(&value) => {
                self.function(function)?.dynamic_limit = value as usize;
                Ok(())
            }
            9 if (-1..=100).contains(&value) => Ok(()),
            _ => self
                .refuse(INVALID_VALUE, format_args!("attribute {attribute} of a function cannot be {value}")),
        }
    }

    pub(super) fn set_function_cache(&mut self, function: usize, config: u32) -> Answer<()> {
        self.function(function)?;
        if config > 3 {
            return self.refuse(INVALID_VALUE, format_args!("{config} is no cache configuration"));
        }
        self.function(function)?.cache_config = config;
        Ok(())
    }

    pub(super) fn set_function_banks(&mut self, function: usize, config: u32) -> Answer<()> {
        self.function(function)?;
        if config > 2 {
            return self.refuse(INVALID_VALUE, format_args!("{config} is no shared-memory configuration"));
        }
        Ok(())
    }
}
