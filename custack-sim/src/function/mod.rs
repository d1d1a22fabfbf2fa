//! Functions: the kernels of a module, and their attributes.

pub(super) mod abi;
mod cluster;
mod launch;
mod settings;

pub(super) use settings::Settings;

pub(super) use cluster::{
    INVALID_CLUSTER_SIZE, MOST as MOST_BLOCKS_OF_CLUSTER, blocks as blocks_of_cluster, divides,
};
pub(super) use launch::Asked;

use super::device::SHARED_PER_BLOCK;
use super::machine::*;
use super::module::NOT_FOUND;
use super::ptx::{Program, threads_with};
use std::ffi::CString;
use std::sync::Arc;

const MOST_THREADS: u64 = 1024;
pub(super) const MOST_SHARED: usize = 232_448;
const SHARED_PER_PROCESSOR: usize = 233_472;
/// Bytes of each block's shared memory that are the system's.
const SYSTEM_SHARED: usize = 1024;
/// Shared memory is allocated in multiples of this size.
const SHARED_UNIT: usize = 128;
const THREADS_PER_PROCESSOR: usize = 2048;
const MOST_BLOCKS: usize = 32;
const WARP: usize = 32;
/// What the function prefers of the cache was set on it: no attribute has this number.
pub(super) const OWN_CACHE: u32 = 1 << 31;

pub(super) struct Function {
    pub(super) context: Handle,
    pub(super) module: usize,
    pub(super) entry: usize,
    pub(super) settings: Settings,
    /// Which attributes were set here, as bits, and [`OWN_CACHE`]: a kernel's are not taken over any more.
    pub(super) own: u32,
    /// Its name with a NUL, which the driver gives out.
    pub(super) name: Arc<CString>,
}

/// The largest block that a launch may have, and how many threads a multiprocessor has at once.
#[derive(Default, Clone, Copy)]
pub(super) struct Block {
    pub(super) threads: i32,
    pub(super) per_processor: i32,
}

impl Machine {
    /// The largest block of a kernel, with no more threads than this, unless it is 0.
    pub(super) fn largest_block(&mut self, function: usize, limit: i32) -> Answer<Block> {
        let (program, _, entry) = self.program_of(function)?;
        let most = Settings::most_threads_at_once(&program, entry) as i32;
        let threads = if limit == 0 { most } else { most.min(limit) };
        Ok(Block { threads, per_processor: THREADS_PER_PROCESSOR as i32 })
    }

    pub(super) fn function_named(&mut self, module: usize, name: &str) -> Answer<usize> {
        let found = self.module(module)?;
        let context = found.context;
        let Some(entry) = found.program.entries.at(name) else {
            return self.refuse(NOT_FOUND, format_args!("the module has no kernel {name}"));
        };
        if let Some(handle) = found.functions.get(&entry) {
            return Ok(*handle);
        }
        let program = Arc::clone(&found.program);
        self.can_run(&program, entry)?;
        let found = self.module(module)?;
        let settings = Settings::of(&found.program.entries[entry]);
        let name = Arc::new(CString::new(name).unwrap_or_default());
        let function = Function { context, module, entry, settings, own: 0, name };
        let handle = self.objects.add(Object::Function(function));
        self.module(module)?.functions.insert(entry, handle);
        Ok(handle)
    }

    fn function(&mut self, handle: usize) -> Answer<&mut Function> {
        self.ready()?;
        if matches!(self.objects.get(handle), Some(Object::Kernel(_))) {
            return self.refuse(INVALID_HANDLE, "a kernel of a library is no function");
        }
        if handle == 0 {
            return self.refuse(INVALID_HANDLE, "the function is NULL");
        }
        let context = match self.objects.get(handle) {
            Some(Object::Function(function)) => function.context,
            _ => return self.misuse(INVALID_HANDLE, format_args!("{handle:#x} is not a function")),
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

    pub(super) fn function_attribute(&mut self, function: usize, attribute: u32) -> Answer<i32> {
        let (program, _, entry) = self.program_of(function)?;
        let settings = self.function(function)?.settings;
        match settings.attribute(&program, entry, attribute) {
            Some(value) => Ok(value),
            None => self.refuse(INVALID_VALUE, format_args!("{attribute} is not an attribute of a function")),
        }
    }

    /// The number of blocks of this size that run at once on a multiprocessor: its threads, their registers, its
    /// shared memory and the number of blocks limit it.
    pub(super) fn blocks_at_once(&mut self, function: usize, block_size: i32, shared: usize) -> Answer<i32> {
        let (program, _, entry) = self.program_of(function)?;
        let fixed = program.entries[entry].body.shared;
        let Some(threads) = usize::try_from(block_size).ok().filter(|size| *size > 0) else {
            return self.refuse(INVALID_VALUE, format_args!("a block of {block_size} threads"));
        };
        // The driver does not look at what the kernel says of its blocks, but does at what its launches may ask for.
        let settings = self.function(function)?.settings;
        if shared > settings.dynamic_limit.max(SHARED_PER_BLOCK.saturating_sub(fixed)) {
            return Ok(0);
        }
        let by_threads = if threads > MOST_THREADS as usize {
            0
        } else {
            THREADS_PER_PROCESSOR / threads.next_multiple_of(WARP)
        };
        let each = fixed + shared + SYSTEM_SHARED;
        let by_shared = settings.shared_per_processor(each) / each;
        let by_registers = threads_with(program.registers(entry)) as usize / threads.next_multiple_of(WARP);
        Ok(by_threads.min(by_registers).min(by_shared).min(MOST_BLOCKS) as i32)
    }

    pub(super) fn set_function_attribute(
        &mut self,
        function: usize,
        attribute: u32,
        value: i32,
    ) -> Answer<()> {
        let found = self.function(function)?;
        if found.settings.set(attribute, value) {
            found.own |= 1 << attribute;
            return Ok(());
        }
        self.refuse(INVALID_VALUE, format_args!("attribute {attribute} of a function cannot be {value}"))
    }

    pub(super) fn set_function_cache(&mut self, function: usize, config: u32) -> Answer<()> {
        self.function(function)?;
        if config > 3 {
            return self.refuse(INVALID_VALUE, format_args!("{config} is not a cache configuration"));
        }
        let found = self.function(function)?;
        found.settings.cache_config = config;
        found.own |= OWN_CACHE;
        Ok(())
    }

    pub(super) fn set_function_banks(&mut self, function: usize, config: u32) -> Answer<()> {
        self.function(function)?;
        if config > 2 {
            return self.refuse(INVALID_VALUE, format_args!("{config} is not a shared-memory configuration"));
        }
        Ok(())
    }

    /// What the driver compiles itself it has loaded at once, whatever its mode.
    pub(super) fn is_loaded(&mut self, function: usize) -> Answer<bool> {
        self.function(function).map(|_| true)
    }

    pub(super) fn load_function(&mut self, function: usize) -> Answer<()> {
        self.function(function).map(|_| ())
    }

    pub(super) fn function_name(&mut self, function: usize) -> Answer<Arc<CString>> {
        self.function(function).map(|found| Arc::clone(&found.name))
    }

    pub(super) fn module_of(&mut self, function: usize) -> Answer<usize> {
        self.function(function).map(|found| found.module)
    }

    /// How much dynamic shared memory a block may have if this number of blocks is to run at once on a multiprocessor.
    pub(super) fn available_shared(
        &mut self,
        function: usize,
        blocks: i32,
        block_size: i32,
    ) -> Answer<usize> {
        let (program, _, entry) = self.program_of(function)?;
        let fixed = program.entries[entry].body.shared;
        let blocks = usize::try_from(blocks).unwrap_or(0);
        let threads = usize::try_from(block_size).unwrap_or(0);
        let fits = (1..=MOST_THREADS as usize).contains(&threads)
            && (1..=MOST_BLOCKS).contains(&blocks)
            && blocks * threads.next_multiple_of(WARP) <= THREADS_PER_PROCESSOR;
        if !fits {
            return self
                .refuse(INVALID_VALUE, format_args!("{blocks} blocks of {block_size} threads at once"));
        }
        // As the driver answers it, which leaves no room for what is the system's.
        let settings = self.function(function)?.settings;
        // One block has the size that it needs split off, whatever its kernel prefers.
        let shared = if blocks == 1 { SHARED_PER_PROCESSOR } else { settings.shared_per_processor(0) };
        let each = shared / blocks / SHARED_UNIT * SHARED_UNIT;
        let limit = settings.dynamic_limit;
        match each.checked_sub(fixed) {
            Some(bytes) => Ok(bytes.min(limit)),
            None => {
                self.refuse(INVALID_VALUE, format_args!("{blocks} blocks have no room for {fixed} bytes"))
            }
        }
    }
}
