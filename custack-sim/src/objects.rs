//! The objects that are made in contexts and have handles: streams, events, modules, functions, arrays, textures.

use super::event::Event;
use super::function::Function;
use super::library::{Kernel, Library};
use super::machine::Handle;
use super::memory::Array;
use super::module::{Linker, Module};
use super::stream::Stream;
use super::texture::Texture;
use std::collections::BTreeMap;

/// Far from the handles of contexts.
const FIRST: usize = 0x5349_4E00_0000;
const STEP: usize = 0x40;

pub(super) enum Object {
    Stream(Stream),
    Event(Event),
    Module(Module),
    Function(Function),
    Array(Array),
    Linker(Box<Linker>),
    Library(Library),
    Kernel(Kernel),
    Texture(Box<Texture>),
}

/// Stands for the context of what is of none, and stays when contexts go.
pub(super) const OF_NO_CONTEXT: Handle = 1;

impl Object {
    fn context(&mut self) -> &mut Handle {
        match self {
            Object::Stream(stream) => &mut stream.context,
            Object::Event(event) => &mut event.context,
            Object::Module(module) => &mut module.context,
            Object::Function(function) => &mut function.context,
            Object::Array(array) => &mut array.context,
            Object::Linker(linker) => &mut linker.context,
            Object::Library(library) => &mut library.context,
            Object::Kernel(kernel) => &mut kernel.context,
            Object::Texture(texture) => &mut texture.context,
        }
    }
}

/// Handles are not reused, so that a stale one is recognised.
#[derive(Default)]
pub(super) struct Objects {
    by_handle: BTreeMap<usize, Object>,
    made: usize,
}

impl Objects {
    pub(super) fn add(&mut self, object: Object) -> usize {
        self.made += 1;
        let handle = FIRST + self.made * STEP;
        self.by_handle.insert(handle, object);
        handle
    }

    pub(super) fn get(&self, handle: usize) -> Option<&Object> {
        self.by_handle.get(&handle)
    }

    pub(super) fn get_mut(&mut self, handle: usize) -> Option<&mut Object> {
        self.by_handle.get_mut(&handle)
    }

    pub(super) fn remove(&mut self, handle: usize) -> Option<Object> {
        self.by_handle.remove(&handle)
    }

    pub(super) fn streams(&self) -> impl Iterator<Item = &Stream> {
        self.by_handle.values().filter_map(|object| match object {
            Object::Stream(stream) => Some(stream),
            _ => None,
        })
    }

    pub(super) fn libraries(&self) -> impl Iterator<Item = &Library> {
        self.by_handle.values().filter_map(|object| match object {
            Object::Library(library) => Some(library),
            _ => None,
        })
    }

    /// The context is destroyed; its objects stay without a context.
    pub(super) fn orphan(&mut self, context: Handle) {
        for object in self.by_handle.values_mut() {
            let is_of_green = matches!(object, Object::Stream(stream) if stream.green == context);
            let of = object.context();
            if *of == context || is_of_green {
                *of = 0;
            }
        }
    }

    /// How many there are that a context has, and libraries; functions go with their modules, and the modules and
    /// kernels of libraries with those.
    pub(super) fn count(&mut self) -> usize {
        let mut counted = 0;
        for object in self.by_handle.values_mut() {
            let goes_along = match object {
                Object::Function(_) | Object::Kernel(_) => true,
                Object::Module(module) => module.of_library,
                _ => false,
            };
            counted += usize::from(!goes_along && *object.context() != 0);
        }
        counted
    }
}
