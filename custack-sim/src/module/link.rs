//! Linking of PTX. The image is PTX again, which the simulated driver loads.

use super::abi::Options;
use super::{CompilerLog, FILE_NOT_FOUND};
use crate::machine::*;
use crate::ptx::{INVALID_SOURCE, Links};
use custack_sys::ffi::CUresult;
use std::sync::Arc;

const JIT_COMPILER_NOT_FOUND: CUresult = 221;
const PTX: u32 = 1;
const LAST_KIND: u32 = 5;

pub(crate) struct Linker {
    pub(crate) context: Handle,
    /// Where it tells what it does: the options, as they were when it was made.
    pub(super) options: (Options, Vec<(u32, usize)>),
    links: Links,
    state: State,
    /// The program has its address until the linker is destroyed.
    #[allow(dead_code, reason = "it only lives")]
    image: Option<Arc<Vec<u8>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Done,
    /// Linking failed, and every later call returns this.
    Failed(CUresult),
}

impl State {
    fn status(self) -> Option<CUresult> {
        match self {
            State::Failed(status) => Some(status),
            _ => None,
        }
    }
}

impl Machine {
    pub(super) fn create_linker(&mut self, options: (Options, Vec<(u32, usize)>)) -> Answer<usize> {
        let context = self.healthy_current()?;
        let linker = Linker { context, options, links: Links::default(), state: State::Open, image: None };
        Ok(self.objects.add(Object::Linker(Box::new(linker))))
    }

    pub(super) fn linker(&mut self, handle: usize) -> Answer<&mut Linker> {
        self.ready()?;
        if handle == 0 {
            return self.refuse(INVALID_HANDLE, "the linker is NULL");
        }
        if !matches!(self.objects.get(handle), Some(Object::Linker(_))) {
            return self.misuse(INVALID_HANDLE, format_args!("{handle:#x} is no linker"));
        }
        match self.objects.get_mut(handle) {
            Some(Object::Linker(linker)) => Ok(linker.as_mut()),
            _ => Err(INVALID_HANDLE),
        }
    }

    /// It needs a context, of which it does not matter which.
    fn open_linker(&mut self, handle: usize) -> Answer<&mut Linker> {
        if self.linker(handle)?.context == 0 || self.healthy_current().is_err() {
            return self.refuse(INVALID_VALUE, "the linker's context is destroyed, or none is current");
        }
        if self.linker(handle)?.state == State::Done {
            return self.refuse(INVALID_VALUE, "the linker is done already");
        }
        self.linker(handle)
    }

    pub(super) fn add_to_linker(&mut self, handle: usize, kind: u32, data: &[u8], name: &str) -> Answer<()> {
        self.open_linker(handle)?;
        if kind > LAST_KIND {
            return self.refuse(INVALID_VALUE, format_args!("{kind} is no kind of code"));
        }
        if kind != PTX {
            self.linker(handle)?.state = State::Failed(JIT_COMPILER_NOT_FOUND);
            let why = "the simulated driver links PTX, and this is another kind of code";
            return self.refuse(JIT_COMPILER_NOT_FOUND, why);
        }
        let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
        let text = self.text_of(&data[..end])?.into_owned();
        let linker = self.linker(handle)?;
        let failed = linker.state.status();
        // What is wrong with the code itself is said of a linker that has failed too.
        let added = match failed {
            Some(_) => Links::default().add(&text, name),
            None => linker.links.add(&text, name),
        };
        match (added, failed) {
            (Ok(()), None) => Ok(()),
            (Ok(()), Some(status)) => self.refuse(status, "the linker has failed"),
            (Err(refusal), _) => {
                let error = if refusal.status == INVALID_SOURCE {
                    self.linker(handle)?.state = State::Failed(INVALID_SOURCE);
                    refusal.linker_log()
                } else {
                    refusal.compiler_log()
                };
                self.thread().compiler_log = CompilerLog { info: String::new(), error };
                self.refuse(refusal.status, refusal)
            }
        }
    }

    pub(super) fn add_file_to_linker(&mut self, handle: usize, kind: u32, path: &str) -> Answer<()> {
        self.open_linker(handle)?;
        match std::fs::read(path) {
            Ok(data) => self.add_to_linker(handle, kind, &data, path),
            Err(error) => self.refuse(FILE_NOT_FOUND, format_args!("{path}: {error}")),
        }
    }

    /// The image, which the linker keeps.
    pub(super) fn complete_linker(&mut self, handle: usize) -> Answer<Arc<Vec<u8>>> {
        let linker = self.linker(handle)?;
        if linker.context == 0 || linker.state == State::Done {
            return self.refuse(INVALID_HANDLE, "the linker's context is destroyed, or it is done already");
        }
        if let Some(status) = linker.state.status() {
            return self.refuse(status, "what was given to the linker cannot be linked");
        }
        let (text, program) = match linker.links.finish() {
            Ok(linked) => linked,
            Err(refusal) => {
                self.linker(handle)?.state = State::Failed(refusal.status);
                self.thread().compiler_log = CompilerLog { info: String::new(), error: refusal.linker_log() };
                return self.refuse(refusal.status, refusal);
            }
        };
        self.thread().compiler_log = CompilerLog::of(&program);
        let image = Arc::new(text.into_bytes());
        let linker = self.linker(handle)?;
        linker.state = State::Done;
        linker.image = Some(Arc::clone(&image));
        Ok(image)
    }

    pub(super) fn destroy_linker(&mut self, handle: usize) -> Answer<()> {
        self.linker(handle)?;
        self.objects.remove(handle);
        Ok(())
    }
}
