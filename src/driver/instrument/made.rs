//! What calls make and end, so that what is left at the end of a program can be told, with the place where it was made.

use super::{FUNCTIONS, INNER};
use crate::driver::ffi::CUcontext;
use std::backtrace::Backtrace;
use std::collections::BTreeMap;

/// Functions that make something, the argument that points to it, and what it is.
const MAKE: &[(&str, usize, &str)] = &[
    ("cuArray3DCreate_v2", 0, "array"),
    ("cuCtxAttach", 0, "context"),
    ("cuCtxCreate_v2", 0, "context"),
    ("cuCtxCreate_v3", 0, "context"),
    ("cuCtxCreate_v4", 0, "context"),
    ("cuDevicePrimaryCtxRetain", 0, "share of the primary context"),
    ("cuEventCreate", 0, "event"),
    ("cuGraphClone", 0, "graph"),
    ("cuGraphCreate", 0, "graph"),
    ("cuGraphInstantiateWithFlags", 0, "executable graph"),
    ("cuGraphInstantiateWithParams", 0, "executable graph"),
    ("cuGreenCtxCreate", 0, "green context"),
    ("cuGreenCtxStreamCreate", 0, "stream"),
    ("cuLibraryLoadData", 0, "library"),
    ("cuLibraryLoadFromFile", 0, "library"),
    ("cuLinkCreate_v2", 3, "linker"),
    ("cuMemAllocAsync", 0, "memory"),
    ("cuMemAllocFromPoolAsync", 0, "memory"),
    ("cuMemAllocHost_v2", 0, "page-locked memory"),
    ("cuMemAllocManaged", 0, "memory"),
    ("cuMemAllocPitch_v2", 0, "memory"),
    ("cuMemAlloc_v2", 0, "memory"),
    ("cuMemHostAlloc", 0, "page-locked memory"),
    ("cuMemPoolCreate", 0, "memory pool"),
    ("cuModuleLoad", 0, "module"),
    ("cuModuleLoadData", 0, "module"),
    ("cuModuleLoadDataEx", 0, "module"),
    ("cuStreamCreate", 0, "stream"),
    ("cuStreamCreateWithPriority", 0, "stream"),
    ("cuStreamEndCapture", 1, "graph"),
    ("cuSurfObjectCreate", 0, "surface"),
    ("cuTexObjectCreate", 0, "texture"),
];

/// Functions that end what their first argument names.
const END: &[(&str, &str)] = &[
    ("cuArrayDestroy", "array"),
    ("cuCtxDestroy_v2", "context"),
    ("cuEventDestroy_v2", "event"),
    ("cuGraphDestroy", "graph"),
    ("cuGraphExecDestroy", "executable graph"),
    ("cuGreenCtxDestroy", "green context"),
    ("cuLibraryUnload", "library"),
    ("cuLinkDestroy", "linker"),
    ("cuMemFreeAsync", "memory"),
    ("cuMemFreeHost", "page-locked memory"),
    ("cuMemFree_v2", "memory"),
    ("cuMemPoolDestroy", "memory pool"),
    ("cuModuleUnload", "module"),
    ("cuStreamDestroy_v2", "stream"),
    ("cuSurfObjectDestroy", "surface"),
    ("cuTexObjectDestroy", "texture"),
];

/// What lives on when the context is destroyed in which it was made.
const OF_NO_CONTEXT: &[&str] = &[
    "context",
    "green context",
    "share of the primary context",
    "library",
    "graph",
    "executable graph",
    "memory pool",
];

/// Something that was made.
pub(super) struct Made {
    pub(super) function: &'static str,
    pub(super) place: String,
    context: u64,
    /// For primary contexts and those that were attached: how many.
    shares: u64,
    /// For shares of primary contexts: of which device.
    device: u64,
}

#[derive(Default)]
pub(super) struct Alive(BTreeMap<(&'static str, u64), Made>);

/// The handle that an argument points to.
fn made_at(pointer: u64) -> Option<u64> {
    let pointer = std::ptr::with_exposed_provenance::<u64>(pointer as usize);
    // SAFETY: the driver has just written a handle or an address there, each of 8 bytes, for the caller who owns the place.
    (!pointer.is_null()).then(|| unsafe { pointer.read_unaligned() })
}

fn current() -> u64 {
    let mut context: CUcontext = std::ptr::null_mut();
    match INNER.get() {
        // SAFETY: it writes to a local.
        Some(inner) if unsafe { (inner.cuCtxGetCurrent)(&mut context) } == 0 => context.addr() as u64,
        _ => 0,
    }
}

/// The functions of the program that led to the present call, the innermost first.
fn place() -> String {
    let text = Backtrace::force_capture().to_string();
    let mut frames: Vec<String> = Vec::new();
    for line in text.lines().map(str::trim) {
        match (line.strip_prefix("at "), line.split_once(": ")) {
            (Some(at), _) => frames.last_mut().into_iter().for_each(|frame| *frame += &format!(" ({at})")),
            (None, Some((_, name))) => frames.push(name.to_owned()),
            _ => {}
        }
    }
    let is_own =
        |frame: &String| frame.contains("custack::") || frame.starts_with("cu") || frame.contains("cuda::");
    let last = frames.iter().rposition(is_own).map_or(0, |at| at + 1);
    let end =
        |frame: &&String| !frame.contains("__libc_start") && !frame.contains("__rust_begin_short_backtrace");
    let shown: Vec<&str> = frames[last..].iter().take_while(end).take(4).map(String::as_str).collect();
    shown.join(", called by ")
}

impl Alive {
    /// A call has succeeded.
    pub(super) fn call(&mut self, index: usize, arguments: &[u64]) {
        let function = FUNCTIONS[index];
        if let Some((_, at, kind)) = MAKE.iter().find(|it| it.0 == function) {
            let Some(handle) = made_at(arguments[*at]) else { return };
            let device = arguments.get(1).copied().unwrap_or_default();
            let new = || Made { function, place: place(), context: current(), shares: 0, device };
            self.0.entry((kind, handle)).or_insert_with(new).shares += 1;
        } else if let Some((_, kind)) = END.iter().find(|it| it.0 == function) {
            self.0.remove(&(*kind, arguments[0]));
            if *kind == "context" {
                self.end_what_is_in(arguments[0]);
            }
        } else if function == "cuCtxDetach" {
            self.detach(arguments[0]);
        } else if function == "cuDevicePrimaryCtxRelease_v2" {
            self.release(arguments[0]);
        }
    }

    /// What was made in a context has gone with it.
    fn end_what_is_in(&mut self, context: u64) {
        self.0.retain(|key, made| made.context != context || OF_NO_CONTEXT.contains(&key.0));
    }

    /// A context was created or attached one time less, and is destroyed after the last.
    fn detach(&mut self, context: u64) {
        let Some(made) = self.0.get_mut(&("context", context)) else { return };
        made.shares -= 1;
        if made.shares == 0 {
            self.0.remove(&("context", context));
            self.end_what_is_in(context);
        }
    }

    /// A share of a device's primary context was given back; what was made in it goes with the last.
    fn release(&mut self, device: u64) {
        let is_it =
            |key: &(&str, u64), made: &Made| key.0 == "share of the primary context" && made.device == device;
        let Some((key, made)) = self.0.iter_mut().find(|(key, made)| is_it(key, made)) else { return };
        made.shares -= 1;
        let (key, shares) = (*key, made.shares);
        if shares == 0 {
            self.0.remove(&key);
            self.end_what_is_in(key.1);
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&'static str, u64, &Made)> {
        self.0.iter().map(|((kind, handle), made)| (*kind, *handle, made))
    }
}
