//! Things in the order of a text, found by their names.

use std::collections::HashMap;
use std::ops::Deref;

#[derive(Debug, Clone)]
pub(crate) struct Listed<T> {
    all: Vec<T>,
    by_name: HashMap<String, usize>,
}

impl<T> Default for Listed<T> {
    fn default() -> Listed<T> {
        Listed { all: Vec::new(), by_name: HashMap::new() }
    }
}

impl<T> Deref for Listed<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.all
    }
}

impl<T> Listed<T> {
    /// Of several with one name, the first one is found.
    pub(super) fn push(&mut self, name: &str, new: T) {
        self.by_name.entry(name.to_owned()).or_insert(self.all.len());
        self.all.push(new);
    }

    /// The place of the one that has this name.
    pub(crate) fn at(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn named(&self, name: &str) -> Option<&T> {
        self.at(name).map(|at| &self.all[at])
    }

    pub(super) fn named_mut(&mut self, name: &str) -> Option<&mut T> {
        self.at(name).map(|at| &mut self.all[at])
    }
}
