//! Modules, functions, launches, and arrays.

use super::device::SHARED_PER_BLOCK;
use super::machine::*;
use super::memory::{self, Kind};
use super::ptx::{INVALID_IMAGE, Launch, Program, read};
use crate::driver::ffi::{CUDA_ARRAY3D_DESCRIPTOR, CUresult};
use std::sync::Arc;

const NO_BINARY_FOR_GPU: CUresult = 209;
const NOT_FOUND: CUresult = 500;
const FILE_NOT_FOUND: CUresult = 301;
const COOPERATIVE_LAUNCH_TOO_LARGE: CUresult = 720;
const OUT_OF_MEMORY: CUresult = 2;
const MOST_THREADS: u64 = 1024;
const MOST_SHARED: usize = 232_448;
/// Blocks that run at once: as many as there are multiprocessors, at least.
const MOST_COOPERATIVE: u64 = super::device::SM_COUNT as u64 * 2;

pub(super) struct Module {
    pub(super) context: Handle,
    program: Arc<Program>,
    variables: Arc<Vec<u64>>,
}

pub(super) struct Function {
    pub(super) context: Handle,
    pub(super) module: usize,
    entry: usize,
    /// The most dynamic shared memory that a launch may ask for.
    dynamic_limit: usize,
    cache_config: u32,
}

#[derive(Clone, Copy)]
pub(super) struct Array {
    pub(super) context: Handle,
    pub(super) descriptor: CUDA_ARRAY3D_DESCRIPTOR,
}

/// What a launch asks for.
pub(super) struct Asked {
    pub(super) function: usize,
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) shared: usize,
    pub(super) stream: usize,
    pub(super) cooperative: bool,
}

impl Machine {
    pub(super) fn load_module(&mut self, image: &[u8]) -> Answer<usize> {
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
            Err(refusal) => return self.refuse(refusal.status, refusal.why),
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
        let module = Module { context, program: Arc::new(program), variables: Arc::new(variables) };
        Ok(self.objects.add(Object::Module(module)))
    }

    pub(super) fn load_file(&mut self, name: &str) -> Answer<usize> {
        self.healthy_current()?;
        match std::fs::read(name) {
            Ok(image) => self.load_module(&image),
            Err(error) => self.refuse(FILE_NOT_FOUND, format_args!("{name}: {error}")),
        }
    }

    fn module(&mut self, handle: usize) -> Answer<&Module> {
        self.ready()?;
        let context = match self.objects.get(handle) {
            Some(Object::Module(module)) => module.context,
            _ => return self.misuse(INVALID_HANDLE, format_args!("{handle:#x} is no module")),
        };
        self.healthy(context)?;
        match self.objects.get(handle) {
            Some(Object::Module(module)) => Ok(module),
            _ => Err(INVALID_HANDLE),
        }
    }

    pub(super) fn unload_module(&mut self, handle: usize) -> Answer<()> {
        let variables = Arc::clone(&self.module(handle)?.variables);
        variables.iter().for_each(|address| memory::lock().free(*address));
        for function in self.objects.functions_of(handle) {
            self.objects.remove(function);
        }
        self.objects.remove(handle);
        Ok(())
    }

    pub(super) fn function_named(&mut self, module: usize, name: &str) -> Answer<usize> {
        let found = self.module(module)?;
        let context = found.context;
        let Some(entry) = found.program.entries.iter().position(|entry| entry.name == name) else {
            return self.refuse(NOT_FOUND, format_args!("the module has no kernel {name}"));
        };
        let dynamic_limit = SHARED_PER_BLOCK;
        let function = Function { context, module, entry, dynamic_limit, cache_config: 0 };
        Ok(self.objects.add(Object::Function(function)))
    }

    pub(super) fn variable_named(&mut self, module: usize, name: &str) -> Answer<(u64, usize)> {
        let found = self.module(module)?;
        let at = found.program.variables.iter().position(|variable| variable.name == name);
        match at.map(|at| (found.variables[at], found.program.variables[at].size)) {
            Some(place) => Ok(place),
            None => self.refuse(NOT_FOUND, format_args!("the module has no variable {name}")),
        }
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

    /// The size and place of each parameter of a kernel.
    pub(super) fn parameters(&mut self, function: usize) -> Answer<Vec<(usize, usize)>> {
        let (program, _, entry) = self.program_of(function)?;
        Ok(program.entries[entry].parameters.iter().map(|it| (it.offset, it.size)).collect())
    }

    pub(super) fn launch(&mut self, asked: &Asked, parameters: Vec<u8>) -> Answer<()> {
        let current = self.healthy_current()?;
        let (program, variables, entry) = self.program_of(asked.function)?;
        let stream = self.stream_of(asked.stream)?;
        if self.function(asked.function)?.context != current || stream.context != current {
            return self
                .refuse(INVALID_HANDLE, "the function and the stream are of the context that is current");
        }
        self.check_size(asked, program.entries[entry].body.shared)?;
        let launch = Launch {
            program,
            entry,
            variables,
            grid: asked.grid,
            block: asked.block,
            dynamic_shared: asked.shared,
            parameters,
        };
        self.enqueue(asked.stream, &stream, move || launch.run().map_err(|fault| (fault.status, fault.why)))
    }

    fn check_size(&mut self, asked: &Asked, fixed: usize) -> Answer<()> {
        // Three sizes of 32 bits have a product that 64 bits cannot hold.
        let count = |sizes: [u32; 3]| sizes.iter().fold(1u64, |all, size| all.saturating_mul((*size).into()));
        let (grid, block) = (asked.grid, asked.block);
        let [most_x, most_y, most_z] = [2_147_483_647u32, 65_535, 65_535];
        let fits = grid[0] <= most_x && grid[1] <= most_y && grid[2] <= most_z && block[2] <= 64;
        if !fits || count(grid) == 0 || count(block) == 0 || count(block) > MOST_THREADS {
            return self
                .refuse(INVALID_VALUE, format_args!("a grid of {grid:?} blocks of {block:?} threads"));
        }
        let limit = self.function(asked.function)?.dynamic_limit;
        if asked.shared > limit || asked.shared + fixed > limit.max(SHARED_PER_BLOCK) {
            let shared = asked.shared;
            return self
                .refuse(INVALID_VALUE, format_args!("{shared} bytes of shared memory, beside {fixed}"));
        }
        if asked.cooperative && count(grid) > MOST_COOPERATIVE {
            let why = format!("{} blocks do not run at once", count(grid));
            return self.refuse(COOPERATIVE_LAUNCH_TOO_LARGE, why);
        }
        Ok(())
    }

    pub(super) fn create_array(
        &mut self,
        has_out: bool,
        descriptor: CUDA_ARRAY3D_DESCRIPTOR,
    ) -> Answer<usize> {
        let context = self.healthy_current()?;
        let known_format = [1, 2, 3, 8, 9, 10, 16, 32].contains(&descriptor.Format);
        let channels = [1, 2, 4].contains(&descriptor.NumChannels);
        let layered = descriptor.Flags & 1 != 0;
        let cubes = descriptor.Flags & 4 != 0;
        let cube_like =
            descriptor.Width == descriptor.Height && descriptor.Depth % 6 == 0 && descriptor.Depth > 0;
        let shape = descriptor.Width > 0
            && (layered || descriptor.Depth == 0 || descriptor.Height > 0)
            && (!cubes || cube_like && (layered || descriptor.Depth == 6));
        if !has_out || !known_format || !channels || !shape {
            return self.refuse(INVALID_VALUE, format_args!("an array of {descriptor:?}"));
        }
        Ok(self.objects.add(Object::Array(Array { context, descriptor })))
    }

    pub(super) fn array(&mut self, handle: usize) -> Answer<Array> {
        self.ready()?;
        let Some(Object::Array(array)) = self.objects.get(handle) else {
            return self.misuse(INVALID_HANDLE, format_args!("{handle:#x} is no array"));
        };
        let array = *array;
        self.healthy(array.context)?;
        Ok(array)
    }

    pub(super) fn destroy_array(&mut self, handle: usize) -> Answer<()> {
        self.array(handle)?;
        self.objects.remove(handle);
        Ok(())
    }
}
