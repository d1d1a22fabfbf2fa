//! Calls of every exported function with values at random: none may end the process, or hang.
//!
//! A process of its own makes them, and writes each into a file before it makes it, so that the last one is known.

use super::folder;
use custack_sys::{ARGUMENTS, FUNCTIONS};
use libloading::Library;
use std::collections::BTreeMap;
use std::io::{Seek, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A function with room for more arguments than any has: those that it does not have are not read.
type Any = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64) -> u32;

/// What the manual wants to be valid memory: it is large, aligned, and begins as zeros.
const ROOM: usize = 1 << 16;
const ROOMS: usize = 4;

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ z >> 31) % end as u64) as usize
    }

    fn of(&mut self, values: &[u64]) -> u64 {
        values[self.below(values.len())]
    }
}

extern "C" fn function_of_the_program() {}

/// Makes the arguments of calls, and remembers what earlier ones have made.
struct Caller {
    random: Random,
    rooms: Vec<Vec<u64>>,
    made: Vec<u64>,
}

impl Caller {
    fn argument(&mut self, at: usize, name: &str, ty: &str) -> u64 {
        let text = ty.replace(' ', "");
        if text == "*constc_char" {
            return self.random.of(&[0, c"k".as_ptr() as u64, c"0000:00:00.0".as_ptr() as u64]);
        }
        if text.starts_with('*') {
            let room = self.rooms[at % ROOMS].as_ptr() as u64;
            return if self.random.below(6) == 0 { 0 } else { room };
        }
        if text.contains("Fn") || text.to_lowercase().contains("callback") && !text.contains("Handle") {
            return self.random.of(&[0, function_of_the_program as *const () as u64]);
        }
        match text.as_str() {
            // As many elements as there is room for.
            "usize" | "c_uint" | "c_int" if name.contains("count") || name.contains("num") => {
                self.random.below(9) as u64
            }
            "usize" => self.random.of(&[0, 1, 4, 16, 64, 4096, u64::MAX, 1 << 62]),
            "c_uint" | "c_int" | "c_ulonglong" | "u16" | "c_uchar" | "u8" | "c_ushort" => {
                let all = u64::from(u32::MAX);
                self.random.of(&[0, 0, 0, 1, 1, 2, 3, 4, 5, 8, 16, 32, 64, 255, 1024, all, 1 << 31])
            }
            "CUdevice" => self.random.of(&[0, 0, 0, 1, u64::from(u32::MAX)]),
            // A handle, or an address of the device.
            _ => match self.random.below(4) {
                0 => self.random.of(&[0, 0, 1, 2, 3, 8, 0xdead_0000, 0x5349_4d00_0000, u64::MAX]),
                _ if self.made.is_empty() => 0,
                _ => self.made[self.random.below(self.made.len())],
            },
        }
    }

    /// Clears what pointers lead to. Some calls find structures of small numbers, and none finds wild pointers.
    fn clear(&mut self) {
        for room in &mut self.rooms {
            room.fill(0);
        }
        if self.random.below(3) == 0 {
            let (room, value) = (self.random.below(ROOMS), self.random.of(&[1, 2, 0x1_0000_0001]));
            let first = self.random.below(4);
            self.rooms[room][first] = value;
        }
    }

    /// Remembers what a call has written first.
    fn remember(&mut self) {
        for at in 0..ROOMS {
            let value = self.rooms[at][0];
            if value > 0xffff && self.made.len() < 400 {
                self.made.push(value);
            } else if value > 0xffff {
                let place = self.random.below(400);
                self.made[place] = value;
            }
        }
    }
}

/// Copies from and to whatever address, for which the host's memory must be there: of these, none has a byte.
const ANY_ADDRESS: &[&str] = &["cuMemcpy", "cuMemcpyAsync", "cuMemcpyPeer", "cuMemcpyPeerAsync"];

/// Functions that wait until a value is in memory. Nothing writes the value, so none of these calls gets an address.
const WAITS: &[&str] = &["cuStreamWaitValue32_v2", "cuStreamWaitValue64_v2"];

/// The arguments of functions that are not in custack's list: names that tell of pointers' lengths, and types.
const OTHERS: &[(&str, &[(&str, &str)])] = &[
    ("cuFuncSetBlockShape", &[("f", "CUfunction"), ("x", "c_int"), ("y", "c_int"), ("z", "c_int")]),
    ("cuFuncSetSharedSize", &[("f", "CUfunction"), ("bytes", "c_uint")]),
    ("cuGetErrorName", &[("error", "c_uint"), ("name", "*mut c_void")]),
    ("cuGetErrorString", &[("error", "c_uint"), ("text", "*mut c_void")]),
    ("cuGetExportTable", &[("table", "*mut c_void"), ("id", "*const c_void")]),
    (
        "cuGetProcAddress",
        &[("name", "*const c_char"), ("f", "*mut c_void"), ("v", "c_int"), ("flags", "c_uint")],
    ),
    (
        "cuGetProcAddress_v2",
        &[
            ("name", "*const c_char"),
            ("f", "*mut c_void"),
            ("v", "c_int"),
            ("flags", "c_uint"),
            ("s", "*mut c_int"),
        ],
    ),
    ("cuGraphAddKernelNode", KERNEL_NODE),
    ("cuGraphAddNode", KERNEL_NODE),
    ("cuGraphAddBatchMemOpNode", KERNEL_NODE),
    ("cuGraphBatchMemOpNodeSetParams", &[("node", "CUgraphNode"), ("params", "*const c_void")]),
    (
        "cuGraphExecBatchMemOpNodeSetParams",
        &[("executable", "CUgraphExec"), ("node", "CUgraphNode"), ("params", "*const c_void")],
    ),
    (
        "cuGraphExecKernelNodeSetParams",
        &[("executable", "CUgraphExec"), ("node", "CUgraphNode"), ("params", "*const c_void")],
    ),
    (
        "cuGraphExecUpdate",
        &[
            ("executable", "CUgraphExec"),
            ("graph", "CUgraph"),
            ("node", "*mut c_void"),
            ("why", "*mut c_uint"),
        ],
    ),
    ("cuGraphInstantiate", INSTANTIATE),
    ("cuGraphInstantiate_v2", INSTANTIATE),
    ("cuGraphKernelNodeGetParams", &[("node", "CUgraphNode"), ("params", "*mut c_void")]),
    ("cuGraphKernelNodeSetParams", &[("node", "CUgraphNode"), ("params", "*const c_void")]),
    ("cuLaunch", &[("f", "CUfunction")]),
    ("cuLaunchGrid", &[("f", "CUfunction"), ("width", "c_int"), ("height", "c_int")]),
    (
        "cuLaunchGridAsync",
        &[("f", "CUfunction"), ("width", "c_int"), ("height", "c_int"), ("stream", "CUstream")],
    ),
    ("cuParamSetSize", &[("f", "CUfunction"), ("bytes", "c_uint")]),
    ("cuParamSeti", &[("f", "CUfunction"), ("offset", "c_int"), ("value", "c_uint")]),
    (
        "cuParamSetv",
        &[("f", "CUfunction"), ("offset", "c_int"), ("from", "*const c_void"), ("count", "c_uint")],
    ),
    ("cuStreamBeginCapture", &[("stream", "CUstream")]),
    (
        "cuStreamGetCaptureInfo",
        &[("stream", "CUstream"), ("status", "*mut c_uint"), ("id", "*mut c_ulonglong")],
    ),
];
const KERNEL_NODE: &[(&str, &str)] = &[
    ("node", "*mut CUgraphNode"),
    ("graph", "CUgraph"),
    ("after", "*const CUgraphNode"),
    ("count", "usize"),
    ("params", "*const c_void"),
];
const INSTANTIATE: &[(&str, &str)] = &[
    ("executable", "*mut CUgraphExec"),
    ("graph", "CUgraph"),
    ("node", "*mut CUgraphNode"),
    ("text", "*mut c_void"),
    ("count", "usize"),
];

/// The arguments of a function: its own, or those of its newest form, if it has no list of its own.
fn arguments_of(symbol: &str) -> Option<&'static [(&'static str, &'static str)]> {
    let base = base(symbol);
    let own = OTHERS.iter().find(|it| it.0 == base).map(|it| it.1);
    let listed = |name: &str| FUNCTIONS.iter().position(|it| *it == name).map(|at| ARGUMENTS[at]);
    own.or_else(|| listed(base)).or_else(|| listed(&format!("{base}_v2")))
}

/// The name without what says that there is a default stream for each thread.
fn base(symbol: &str) -> &str {
    symbol.trim_end_matches("_ptsz").trim_end_matches("_ptds")
}

/// A pointer in a structure that the program fills: of these, only zeros are passed.
fn has_pointers(symbol: &str) -> bool {
    [
        "LaunchKernel",
        "KernelNode",
        "cuGraphAddHostNode",
        "HostNodeSetParams",
        "Params",
        "TexObject",
        "SurfObject",
        "BatchMemOp",
        "cuGraphAddNode",
    ]
    .iter()
    .any(|it| symbol.contains(it))
}

/// The calls of one process, which ends in good order.
fn calls(seed: u64, count: usize, path: &str) {
    // SAFETY: the library is custack's own, which lies beside what is written.
    let library = unsafe { Library::new(Path::new(path).with_file_name("libcuda.so.1")) }.unwrap();
    let symbols = super::symbols::listed_symbols();
    let functions: Vec<Any> = symbols
        .iter()
        // SAFETY: every symbol is a function.
        .map(|symbol| unsafe { *library.get::<Any>(symbol.as_bytes()).unwrap() })
        .collect();
    let known: BTreeMap<&str, _> = symbols.iter().filter_map(|it| Some((*it, arguments_of(it)?))).collect();
    let rooms = vec![vec![0; ROOM / 8]; ROOMS];
    let mut caller = Caller { random: Random(seed), rooms, made: Vec::new() };
    let mut file = std::fs::File::create(path).unwrap();
    let call = |symbol: &str, arguments: [u64; 12]| {
        let function = functions[symbols.iter().position(|it| *it == symbol).unwrap()];
        let [a, b, c, d, e, f, g, h, i, j, k, l] = arguments;
        // SAFETY: pointers lead to room, and handles are the library's to check.
        unsafe { function(a, b, c, d, e, f, g, h, i, j, k, l) }
    };
    assert_eq!(call("cuInit", [0; 12]), 0);
    for number in 0..count {
        let symbol = symbols[caller.random.below(symbols.len())];
        caller.clear();
        if has_pointers(symbol) {
            caller.rooms.iter_mut().for_each(|room| room.fill(0));
        }
        let mut arguments = [0; 12];
        if let Some(of) = known.get(symbol) {
            for (number, (name, ty)) in of.iter().enumerate() {
                arguments[number] = match *ty {
                    "usize" if ANY_ADDRESS.contains(&base(symbol)) => 0,
                    "CUdeviceptr" if WAITS.contains(&base(symbol)) => {
                        caller.random.of(&[0, 1, 4, 0xdead_0000, u64::MAX])
                    }
                    _ => caller.argument(number, name, ty),
                };
            }
        }
        // The seldom is made often: without a context all else is refused.
        let (symbol, arguments) = match number % 50 {
            0 => ("cuCtxCreate_v2", [caller.rooms[0].as_ptr() as u64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            _ => (symbol, arguments),
        };
        file.rewind().unwrap();
        write!(file, "{number}: {symbol} {arguments:x?}{:100}", "").unwrap();
        if call(symbol, arguments) == 0 {
            caller.remember();
        }
    }
}

/// Has a process make calls, and says how it ended if it ended in another way than by itself.
fn outcome(seed: u64, count: usize) -> Result<(), String> {
    let path = folder().join(format!("calls-{seed}"));
    // What an earlier process of this seed has written would be taken for this one's.
    let _ = std::fs::remove_file(&path);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "calls::in_a_process_of_its_own"])
        .env("CUSTACK_TEST_CALLS", format!("{seed} {count} {}", path.display()))
        .current_dir(folder())
        .stdout(std::process::Stdio::null())
        .stderr(std::fs::File::create(path.with_extension("err")).unwrap())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if begun.elapsed() > Duration::from_secs(60 + count as u64 / 500) {
            child.kill().unwrap();
            child.wait().unwrap();
            break None;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let last = std::fs::read_to_string(&path).unwrap_or_default();
    match status {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("seed {seed}: {status} in call {}", last.trim())),
        None => Err(format!("seed {seed}: it hangs in call {}", last.trim())),
    }
}

#[test]
#[ignore = "plays the process that other tests start"]
fn in_a_process_of_its_own() {
    let Ok(what) = std::env::var("CUSTACK_TEST_CALLS") else { return };
    let [seed, count, path] = what.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{what}") };
    calls(seed.parse().unwrap(), count.parse().unwrap(), path);
}

#[test]
fn no_call_with_values_at_random_ends_or_stops_the_process() {
    for seed in 1..=4 {
        outcome(seed, 5000).unwrap();
    }
}

/// `CUSTACK_CALLS=1000000 cargo test -p custack-libcuda --release -- --ignored million`
#[test]
#[ignore = "takes minutes"]
fn no_call_of_a_million_ends_or_stops_the_process() {
    let count: u64 = std::env::var("CUSTACK_CALLS").map_or(1_000_000, |it| it.parse().unwrap());
    let wrong: Vec<String> = (0..count / 10_000).filter_map(|at| outcome(1000 + at, 10_000).err()).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), count / 10_000, wrong.join("\n"));
}
