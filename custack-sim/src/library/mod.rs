//! Libraries: programs that belong to no context, and are loaded into a context when they are first used there.

pub(super) mod abi;

use super::function::{Function, OWN_CACHE, Settings};
use super::machine::*;
use super::memory;
use super::module::{FILE_NOT_FOUND, Module, NOT_FOUND};
use super::objects::OF_NO_CONTEXT;
use super::ptx::Program;
use custack_sys::ffi::{CUdevice, CUresult};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::Arc;

pub(super) struct Library {
    /// Of none.
    pub(super) context: Handle,
    /// The program, or the error of compiling it, which its first use returns.
    program: Result<Arc<Program>, (CUresult, String)>,
    /// The module that each context has.
    modules: BTreeMap<Handle, usize>,
    /// The handle of each kernel that was asked for.
    kernels: BTreeMap<usize, usize>,
    /// The addresses of the managed variables, once one is needed.
    managed: Option<BTreeMap<usize, u64>>,
}

pub(super) struct Kernel {
    /// Of none.
    pub(super) context: Handle,
    library: usize,
    entry: usize,
    name: Arc<CString>,
    /// What was set for each device.
    settings: BTreeMap<usize, Settings>,
}

impl Machine {
    /// Accepts any image: the first use returns the errors.
    pub(super) fn load_library(&mut self, image: &[u8]) -> Answer<usize> {
        self.ready()?;
        let read = self.compile(image);
        let program = read.map(Arc::new).map_err(|status| {
            let why = self.why_refused(status).unwrap_or_default();
            (status, why)
        });
        let library = Library {
            context: OF_NO_CONTEXT,
            program,
            modules: BTreeMap::new(),
            kernels: BTreeMap::new(),
            managed: None,
        };
        Ok(self.objects.add(Object::Library(library)))
    }

    pub(super) fn load_library_file(&mut self, path: &str) -> Answer<usize> {
        self.ready()?;
        match std::fs::read(path) {
            Ok(image) => self.load_library(&image),
            Err(error) => self.refuse(FILE_NOT_FOUND, format_args!("{path}: {error}")),
        }
    }

    fn library(&mut self, handle: usize) -> Answer<&mut Library> {
        if handle == 0 {
            return self.refuse(INVALID_HANDLE, "the library is NULL");
        }
        self.ready()?;
        if !matches!(self.objects.get(handle), Some(Object::Library(_))) {
            return self.misuse(INVALID_HANDLE, format_args!("{handle:#x} is no library"));
        }
        match self.objects.get_mut(handle) {
            Some(Object::Library(library)) => Ok(library),
            _ => Err(INVALID_HANDLE),
        }
    }

    fn library_kernel(&mut self, handle: usize) -> Answer<&mut Kernel> {
        if handle == 0 {
            return self.refuse(INVALID_HANDLE, "the kernel is NULL");
        }
        self.ready()?;
        if !matches!(self.objects.get(handle), Some(Object::Kernel(_))) {
            return self.misuse(INVALID_HANDLE, format_args!("{handle:#x} is no kernel of a library"));
        }
        match self.objects.get_mut(handle) {
            Some(Object::Kernel(kernel)) => Ok(kernel),
            _ => Err(INVALID_HANDLE),
        }
    }

    /// What the library has, or what is wrong with it.
    fn program_of_library(&mut self, handle: usize) -> Answer<Arc<Program>> {
        match self.library(handle)?.program.clone() {
            Ok(program) => Ok(program),
            Err((status, why)) => self.refuse(status, format_args!("the library has no code: {why}")),
        }
    }

    /// The managed variables, which all contexts have in common.
    fn managed_of_library(&mut self, handle: usize) -> Answer<BTreeMap<usize, u64>> {
        if let Some(managed) = &self.library(handle)?.managed {
            return Ok(managed.clone());
        }
        let program = self.program_of_library(handle)?;
        let mut placed = BTreeMap::new();
        for (at, variable) in program.variables.iter().enumerate().filter(|(_, it)| it.managed) {
            let alone = Program::of_one(variable);
            let address = self.place(&alone, OF_NO_CONTEXT, &BTreeMap::new())?;
            placed.extend(address.first().map(|address| (at, *address)));
        }
        self.library(handle)?.managed = Some(placed.clone());
        Ok(placed)
    }

    /// The library's module in the current context, loaded now if it was not.
    pub(super) fn module_of_library(&mut self, handle: usize) -> Answer<usize> {
        self.library(handle)?;
        let context = self.healthy_current()?;
        self.module_in(handle, context)
    }

    fn module_in(&mut self, handle: usize, context: Handle) -> Answer<usize> {
        if let Some(module) = self.library(handle)?.modules.get(&context).copied() {
            let of = |object: &Object| matches!(object, Object::Module(it) if it.context == context);
            if self.objects.get(module).is_some_and(of) {
                return Ok(module);
            }
        }
        let program = self.program_of_library(handle)?;
        let managed = self.managed_of_library(handle)?;
        let variables = Arc::new(self.place(&program, context, &managed)?);
        let functions = BTreeMap::new();
        let module = Module { context, program, variables, functions, of_library: true };
        let module = self.objects.add(Object::Module(module));
        self.library(handle)?.modules.insert(context, module);
        Ok(module)
    }

    pub(super) fn unload_library(&mut self, handle: usize) -> Answer<()> {
        let library = self.library(handle)?;
        let modules = std::mem::take(&mut library.modules);
        let kernels = std::mem::take(&mut library.kernels);
        let managed = library.managed.take().unwrap_or_default();
        for module in modules.into_values() {
            let Some(Object::Module(module)) = self.objects.remove(module) else { continue };
            module.functions.into_values().for_each(|function| drop(self.objects.remove(function)));
            let own = module.variables.iter().filter(|_| module.context != 0);
            own.filter(|address| !managed.values().any(|other| other == *address))
                .for_each(|address| memory::lock().free(*address));
        }
        kernels.into_values().for_each(|kernel| drop(self.objects.remove(kernel)));
        managed.into_values().for_each(|address| memory::lock().free(address));
        self.objects.remove(handle);
        Ok(())
    }

    /// The names of the kernels; none if something is wrong with the code.
    pub(super) fn kernels_of_library(&mut self, handle: usize) -> Answer<Vec<String>> {
        let Ok(program) = self.library(handle)?.program.clone() else { return Ok(Vec::new()) };
        Ok(program.entries.iter().map(|entry| entry.name.clone()).collect())
    }

    /// An H200 shares no function's address with the host.
    pub(super) fn unified_function(&mut self, library: usize, name: &str) -> Answer<()> {
        self.library(library)?;
        self.refuse(INVALID_VALUE, format_args!("the host and the device have no function {name} in common"))
    }

    pub(super) fn kernel_named(&mut self, library: usize, name: &str) -> Answer<usize> {
        let program = self.program_of_library(library)?;
        let Some(entry) = program.entries.at(name) else {
            return self.refuse(NOT_FOUND, format_args!("the library has no kernel {name}"));
        };
        if let Some(kernel) = self.library(library)?.kernels.get(&entry) {
            return Ok(*kernel);
        }
        self.can_run(&program, entry)?;
        let name = Arc::new(CString::new(name).unwrap_or_default());
        let settings = BTreeMap::new();
        let kernel = Kernel { context: OF_NO_CONTEXT, library, entry, name, settings };
        let handle = self.objects.add(Object::Kernel(kernel));
        self.library(library)?.kernels.insert(entry, handle);
        Ok(handle)
    }

    pub(super) fn kernel_name(&mut self, kernel: usize) -> Answer<Arc<CString>> {
        self.library_kernel(kernel).map(|kernel| Arc::clone(&kernel.name))
    }

    pub(super) fn library_of(&mut self, kernel: usize) -> Answer<usize> {
        self.library_kernel(kernel).map(|kernel| kernel.library)
    }

    /// The kernel's function in the current context.
    pub(crate) fn function_of_kernel(&mut self, kernel: usize) -> Answer<usize> {
        self.library_kernel(kernel)?;
        let context = self.healthy_current()?;
        self.function_of_kernel_in(kernel, context)
    }

    pub(crate) fn function_of_kernel_in(&mut self, kernel: usize, context: Handle) -> Answer<usize> {
        let found = self.library_kernel(kernel)?;
        let (library, entry, name) = (found.library, found.entry, Arc::clone(&found.name));
        let module = self.module_in(library, context)?;
        let known = self.module(module)?.functions.contains_key(&entry);
        let function = self.function_named(module, &name.to_string_lossy())?;
        let device = self.healthy(context)?.device;
        let settings = self.library_kernel(kernel)?.settings.get(&device).copied();
        if let (false, Some(settings), Some(Object::Function(function))) =
            (known, settings, self.objects.get_mut(function))
        {
            function.settings = settings;
        }
        Ok(function)
    }

    /// The kernel of a library whose function this is, if it was asked for.
    pub(crate) fn kernel_of_function(&self, function: usize) -> Option<usize> {
        let Some(Object::Function(function)) = self.objects.get(function) else { return None };
        self.objects.libraries().find_map(|library| {
            let has = library.modules.values().any(|module| *module == function.module);
            library.kernels.get(&function.entry).copied().filter(|_| has)
        })
    }

    /// What a handle stands for that may be a function's or a kernel's: the kernel's function in the current context.
    pub(super) fn of_kernel(&mut self, handle: usize) -> Answer<usize> {
        match self.objects.get(handle) {
            Some(Object::Kernel(_)) => self.function_of_kernel(handle),
            _ => Ok(handle),
        }
    }

    /// Like [`of_kernel`](Self::of_kernel), where a stream says which context is meant.
    pub(super) fn function_to_launch(&mut self, handle: usize, stream: usize) -> Answer<usize> {
        self.can_launch_in(stream)?;
        self.function_in_stream(handle, stream)
    }

    /// The same, where nothing is launched.
    pub(super) fn function_in_stream(&mut self, handle: usize, stream: usize) -> Answer<usize> {
        match (self.objects.get(handle), stream) {
            (Some(Object::Kernel(_)), 0) => self.function_of_kernel(handle),
            (Some(Object::Kernel(_)), _) => {
                let context = self.stream_of(stream)?.context;
                self.function_of_kernel_in(handle, context)
            }
            _ => Ok(handle),
        }
    }

    pub(super) fn variable_of_library(&mut self, library: usize, name: &str) -> Answer<(u64, usize)> {
        let module = self.module_of_library(library)?;
        self.variable_named(module, name)
    }

    pub(super) fn managed_named(&mut self, library: usize, name: &str) -> Answer<(u64, usize)> {
        let program = self.program_of_library(library)?;
        let managed = self.managed_of_library(library)?;
        let at = program.variables.iter().position(|variable| variable.name == name);
        let found = at.and_then(|at| Some((*managed.get(&at)?, program.variables[at].size)));
        match found {
            Some(found) => Ok(found),
            None => self.refuse(NOT_FOUND, format_args!("the library has no managed variable {name}")),
        }
    }

    fn settings_of(&mut self, kernel: usize, device: CUdevice) -> Answer<(Arc<Program>, usize, Settings)> {
        let found = self.library_kernel(kernel)?;
        let (library, entry) = (found.library, found.entry);
        let device = self.device(device)?;
        let program = self.program_of_library(library)?;
        let set = self.library_kernel(kernel)?.settings.get(&device).copied();
        let settings = set.unwrap_or_else(|| Settings::of(&program.entries[entry]));
        Ok((program, entry, settings))
    }

    pub(super) fn kernel_attribute(
        &mut self,
        kernel: usize,
        attribute: u32,
        device: CUdevice,
    ) -> Answer<i32> {
        let (program, entry, settings) = self.settings_of(kernel, device)?;
        match settings.attribute(&program, entry, attribute) {
            Some(value) => Ok(value),
            None => self.refuse(INVALID_VALUE, format_args!("{attribute} is no attribute of a kernel")),
        }
    }

    /// Sets it for the functions on the device too.
    pub(super) fn set_kernel_attribute(
        &mut self,
        kernel: usize,
        attribute: u32,
        value: i32,
        device: CUdevice,
    ) -> Answer<()> {
        let (_, _, mut settings) = self.settings_of(kernel, device)?;
        if !settings.set(attribute, value) {
            let why = format!("attribute {attribute} of a kernel cannot be {value}");
            return self.refuse(INVALID_VALUE, why);
        }
        self.keep_settings(kernel, device, settings, |function| {
            if function.own >> attribute & 1 == 0 {
                function.settings.set(attribute, value);
            }
        })
    }

    pub(super) fn set_kernel_cache(&mut self, kernel: usize, config: u32, device: CUdevice) -> Answer<()> {
        let (_, _, mut settings) = self.settings_of(kernel, device)?;
        if config > 3 {
            return self.refuse(INVALID_VALUE, format_args!("{config} is not a cache configuration"));
        }
        settings.cache_config = config;
        self.keep_settings(kernel, device, settings, |function| {
            if function.own & OWN_CACHE == 0 {
                function.settings.cache_config = config;
            }
        })
    }

    fn keep_settings(
        &mut self,
        kernel: usize,
        device: CUdevice,
        settings: Settings,
        set: impl Fn(&mut Function),
    ) -> Answer<()> {
        let device = self.device(device)?;
        let found = self.library_kernel(kernel)?;
        found.settings.insert(device, settings);
        let (library, entry) = (found.library, found.entry);
        for (context, module) in self.library(library)?.modules.clone() {
            let here = self.get(context).is_some_and(|context| context.alive && context.device == device);
            let Some(Object::Module(module)) = self.objects.get(module).filter(|_| here) else { continue };
            let function = module.functions.get(&entry).copied();
            let function = function.and_then(|function| self.objects.get_mut(function));
            if let Some(Object::Function(function)) = function {
                set(function);
            }
        }
        Ok(())
    }

    /// The offset and size of a parameter, which the driver tells in a context.
    pub(super) fn kernel_parameter(&mut self, kernel: usize, at: usize) -> Answer<Option<(usize, usize)>> {
        let function = self.function_of_kernel(kernel)?;
        self.parameter(function, at)
    }
}
