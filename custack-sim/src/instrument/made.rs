//! What calls make and end, so that what is left at the end of a program can be told, with the place where it was made.

use super::{FUNCTIONS, INNER};
use custack_sys::ffi::CUcontext;
use std::backtrace::Backtrace;
use std::collections::BTreeMap;

/// Where a call says what it makes.
#[derive(Clone, Copy)]
enum At {
    /// The driver writes it where this argument points to.
    Written(usize),
    /// It is the first argument.
    First,
}
use At::{First, Written};

const SHARE: &str = "share of the primary context";
const USER_OBJECT: &str = "user object";
const PHYSICAL: &str = "physical memory";
const MAPPING: &str = "mapping";

/// `CU_GRAPH_USER_OBJECT_MOVE`
const MOVE: u64 = 1;

/// Functions that make something, where they say what, and what it is.
const MAKE: &[(&str, At, &str)] = &[
    ("cuArray3DCreate_v2", Written(0), "array"),
    ("cuArrayCreate_v2", Written(0), "array"),
    ("cuCtxAttach", Written(0), "context"),
    ("cuCtxCreate_v2", Written(0), "context"),
    ("cuCtxCreate_v3", Written(0), "context"),
    ("cuCtxCreate_v4", Written(0), "context"),
    ("cuDevicePrimaryCtxRetain", Written(0), SHARE),
    ("cuDeviceRegisterAsyncNotification", Written(3), "notification"),
    ("cuEventCreate", Written(0), "event"),
    ("cuGraphClone", Written(0), "graph"),
    ("cuGraphCreate", Written(0), "graph"),
    ("cuGraphInstantiateWithFlags", Written(0), "executable graph"),
    ("cuGraphInstantiateWithParams", Written(0), "executable graph"),
    ("cuGreenCtxCreate", Written(0), "green context"),
    ("cuGreenCtxStreamCreate", Written(0), "stream"),
    ("cuIpcOpenEventHandle", Written(0), "event"),
    ("cuIpcOpenMemHandle_v2", Written(0), "memory of another process"),
    ("cuLibraryLoadData", Written(0), "library"),
    ("cuLibraryLoadFromFile", Written(0), "library"),
    ("cuLinkCreate_v2", Written(3), "linker"),
    ("cuMemAddressReserve", Written(0), "reserved addresses"),
    ("cuMemAllocAsync", Written(0), "memory"),
    ("cuMemAllocFromPoolAsync", Written(0), "memory"),
    ("cuMemAllocHost_v2", Written(0), "page-locked memory"),
    ("cuMemAllocManaged", Written(0), "memory"),
    ("cuMemAllocPitch_v2", Written(0), "memory"),
    ("cuMemAlloc_v2", Written(0), "memory"),
    ("cuMemCreate", Written(0), PHYSICAL),
    ("cuMemHostAlloc", Written(0), "page-locked memory"),
    ("cuMemHostRegister_v2", First, "registered memory"),
    ("cuMemImportFromShareableHandle", Written(0), PHYSICAL),
    ("cuMemMap", First, MAPPING),
    ("cuMemPoolCreate", Written(0), "memory pool"),
    ("cuMemPoolImportPointer", Written(0), "memory"),
    ("cuMemRetainAllocationHandle", Written(0), PHYSICAL),
    ("cuModuleLoad", Written(0), "module"),
    ("cuModuleLoadData", Written(0), "module"),
    ("cuModuleLoadDataEx", Written(0), "module"),
    ("cuModuleLoadFatBinary", Written(0), "module"),
    ("cuStreamCreate", Written(0), "stream"),
    ("cuStreamCreateWithPriority", Written(0), "stream"),
    ("cuStreamEndCapture", Written(1), "graph"),
    ("cuSurfObjectCreate", Written(0), "surface"),
    ("cuTexObjectCreate", Written(0), "texture"),
    ("cuUserObjectCreate", Written(0), USER_OBJECT),
];

/// Functions that end what an argument names, the argument, and what it is.
const END: &[(&str, usize, &str)] = &[
    ("cuArrayDestroy", 0, "array"),
    ("cuCtxDestroy_v2", 0, "context"),
    ("cuDeviceUnregisterAsyncNotification", 1, "notification"),
    ("cuEventDestroy_v2", 0, "event"),
    ("cuGraphDestroy", 0, "graph"),
    ("cuGraphExecDestroy", 0, "executable graph"),
    ("cuGreenCtxDestroy", 0, "green context"),
    ("cuIpcCloseMemHandle", 0, "memory of another process"),
    ("cuLibraryUnload", 0, "library"),
    ("cuLinkDestroy", 0, "linker"),
    ("cuMemAddressFree", 0, "reserved addresses"),
    ("cuMemFreeAsync", 0, "memory"),
    ("cuMemFreeHost", 0, "page-locked memory"),
    ("cuMemFree_v2", 0, "memory"),
    ("cuMemHostUnregister", 0, "registered memory"),
    ("cuMemPoolDestroy", 0, "memory pool"),
    ("cuModuleUnload", 0, "module"),
    ("cuStreamDestroy_v2", 0, "stream"),
    ("cuSurfObjectDestroy", 0, "surface"),
    ("cuTexObjectDestroy", 0, "texture"),
];

/// What lives on when the context is destroyed in which it was made.
const OF_NO_CONTEXT: &[&str] = &[
    "context",
    "green context",
    SHARE,
    "library",
    "graph",
    "executable graph",
    "memory pool",
    "notification",
    "reserved addresses",
    MAPPING,
    PHYSICAL,
    USER_OBJECT,
];

/// Something that was made.
pub(super) struct Made {
    pub(super) function: &'static str,
    pub(super) place: String,
    context: u64,
    /// How many times it must be given back, of what is counted.
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
            let handle = match at {
                First => Some(arguments[0]),
                Written(at) => made_at(arguments[*at]),
            };
            let Some(handle) = handle else { return };
            let device = arguments.get(1).copied().unwrap_or_default();
            let new = || Made { function, place: place(), context: current(), shares: 0, device };
            let shares = if *kind == USER_OBJECT { arguments[3] } else { 1 };
            self.0.entry((kind, handle)).or_insert_with(new).shares += shares;
        } else if let Some((_, at, kind)) = END.iter().find(|it| it.0 == function) {
            self.0.remove(&(*kind, arguments[*at]));
            if *kind == "context" {
                self.end_what_is_in(arguments[*at]);
            }
        } else {
            self.count(function, arguments);
        }
    }

    /// A call that ends some of what is counted, or all that lies within.
    fn count(&mut self, function: &str, arguments: &[u64]) {
        match function {
            "cuCtxDetach" => self.detach(arguments[0]),
            "cuDevicePrimaryCtxRelease_v2" => self.release(arguments[0]),
            "cuMemRelease" => {
                self.give_back((PHYSICAL, arguments[0]), 1);
            }
            "cuMemUnmap" => {
                let within = arguments[0]..arguments[0].saturating_add(arguments[1]);
                self.0.retain(|key, _| key.0 != MAPPING || !within.contains(&key.1));
            }
            "cuUserObjectRetain" => {
                if let Some(made) = self.0.get_mut(&(USER_OBJECT, arguments[0])) {
                    made.shares += arguments[1];
                }
            }
            "cuUserObjectRelease" => {
                self.give_back((USER_OBJECT, arguments[0]), arguments[1]);
            }
            // The program's shares become the graph's.
            "cuGraphRetainUserObject" if arguments[3] == MOVE => {
                self.give_back((USER_OBJECT, arguments[1]), arguments[2]);
            }
            _ => {}
        }
    }

    /// Some shares are given back; true if they were the last.
    fn give_back(&mut self, key: (&'static str, u64), shares: u64) -> bool {
        let Some(made) = self.0.get_mut(&key) else { return false };
        made.shares = made.shares.saturating_sub(shares);
        let is_last = made.shares == 0;
        if is_last {
            self.0.remove(&key);
        }
        is_last
    }

    /// What was made in a context has gone with it.
    fn end_what_is_in(&mut self, context: u64) {
        self.0.retain(|key, made| made.context != context || OF_NO_CONTEXT.contains(&key.0));
    }

    /// A context was created or attached one time less, and is destroyed after the last.
    fn detach(&mut self, context: u64) {
        if self.give_back(("context", context), 1) {
            self.end_what_is_in(context);
        }
    }

    /// A share of a device's primary context was given back; what was made in it goes with the last.
    fn release(&mut self, device: u64) {
        let found = self.0.iter().find(|(key, made)| key.0 == SHARE && made.device == device);
        let Some(key) = found.map(|(key, _)| *key) else { return };
        if self.give_back(key, 1) {
            self.end_what_is_in(key.1);
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&'static str, u64, &Made)> {
        self.0.iter().map(|((kind, handle), made)| (*kind, *handle, made))
    }
}
