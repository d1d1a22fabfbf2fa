//! Generates the exported functions: those of custack's list, their variants, and all others of the driver's headers.

use custack_sys::{ARGUMENTS, FUNCTIONS};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Functions that this library has beside custack's list.
const OWN: &[&str] = &[
    "cuFuncSetBlockShape",
    "cuFuncSetSharedSize",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGetExportTable",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
    "cuGraphAddBatchMemOpNode",
    "cuGraphAddKernelNode",
    "cuGraphAddNode",
    "cuGraphBatchMemOpNodeSetParams",
    "cuGraphExecBatchMemOpNodeSetParams",
    "cuGraphExecKernelNodeSetParams",
    "cuGraphExecUpdate",
    "cuGraphInstantiate",
    "cuGraphInstantiateWithParams_ptsz",
    "cuGraphInstantiate_v2",
    "cuGraphKernelNodeGetParams",
    "cuGraphKernelNodeSetParams",
    "cuLaunch",
    "cuLaunchGrid",
    "cuLaunchGridAsync",
    "cuLaunchKernelEx_ptsz",
    "cuParamSetSize",
    "cuParamSetf",
    "cuParamSeti",
    "cuParamSetv",
    "cuStreamBeginCapture",
    "cuStreamBeginCapture_ptsz",
    "cuStreamGetCaptureInfo",
    "cuStreamGetCaptureInfo_ptsz",
];

/// Old functions whose arguments are those of a newer one, which does the same.
const ALIKE: &[(&str, &str)] = &[
    ("cuCtxCreate", "cuCtxCreate_v2"),
    ("cuCtxDestroy", "cuCtxDestroy_v2"),
    ("cuCtxPopCurrent", "cuCtxPopCurrent_v2"),
    ("cuCtxPushCurrent", "cuCtxPushCurrent_v2"),
    ("cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease_v2"),
    ("cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset_v2"),
    ("cuDevicePrimaryCtxSetFlags", "cuDevicePrimaryCtxSetFlags_v2"),
    ("cuEventDestroy", "cuEventDestroy_v2"),
    ("cuIpcOpenMemHandle", "cuIpcOpenMemHandle_v2"),
    ("cuLinkAddData", "cuLinkAddData_v2"),
    ("cuLinkAddFile", "cuLinkAddFile_v2"),
    ("cuLinkCreate", "cuLinkCreate_v2"),
    ("cuMemHostRegister", "cuMemHostRegister_v2"),
    ("cuStreamDestroy", "cuStreamDestroy_v2"),
];

/// Functions that work in the default stream of the thread, if there is one for each: for the ends of their names, the
/// functions that do the same in any stream, and whether the caller waits: always, or if one of these is host memory.
const IN_DEFAULT_STREAM: &[(&str, &str, Option<&[&str]>)] = &[
    ("cuMemcpy", "cuMemcpyAsync", Some(&["to", "from"])),
    ("cuMemcpy2D_v2", "cuMemcpy2DAsync_v2", None),
    ("cuMemcpy3D_v2", "cuMemcpy3DAsync_v2", None),
    ("cuMemcpyAtoH_v2", "cuMemcpyAtoHAsync_v2", None),
    ("cuMemcpyDtoD_v2", "cuMemcpyDtoDAsync_v2", Some(&[])),
    ("cuMemcpyDtoH_v2", "cuMemcpyDtoHAsync_v2", None),
    ("cuMemcpyHtoA_v2", "cuMemcpyHtoAAsync_v2", None),
    ("cuMemcpyHtoD_v2", "cuMemcpyHtoDAsync_v2", None),
    ("cuMemcpyPeer", "cuMemcpyPeerAsync", Some(&[])),
    ("cuMemsetD16_v2", "cuMemsetD16Async", Some(&["to"])),
    ("cuMemsetD2D16_v2", "cuMemsetD2D16Async", Some(&["to"])),
    ("cuMemsetD2D32_v2", "cuMemsetD2D32Async", Some(&["to"])),
    ("cuMemsetD2D8_v2", "cuMemsetD2D8Async", Some(&["to"])),
    ("cuMemsetD32_v2", "cuMemsetD32Async", Some(&["to"])),
    ("cuMemsetD8_v2", "cuMemsetD8Async", Some(&["to"])),
];

/// An exported function that passes its arguments on.
fn export(code: &mut String, symbol: &str, function: &str, is_per_thread: bool) {
    let at = FUNCTIONS.iter().position(|name| *name == function).expect("a function of the list");
    let of_type: String = ARGUMENTS[at].iter().map(|(name, ty)| format!("{name}: {ty}, ")).collect();
    let pass = |name: &str| if is_per_thread { format!("per_thread({name}), ") } else { format!("{name}, ") };
    let passed: String = ARGUMENTS[at].iter().map(|(name, _)| pass(name)).collect();
    let _ = writeln!(
        code,
        "/// `{function}`.\n///\n/// # Safety\n///\n/// As CUDA's manual says.\n#[unsafe(no_mangle)]\n\
         pub unsafe extern \"C\" fn {symbol}({of_type}) -> CUresult {{\n    \
         // SAFETY: the arguments are the caller's own.\n    \
         call(|table| unsafe {{ (table.{function})({passed}) }})\n}}\n"
    );
}

/// An exported function that does its work in the default stream of the thread.
fn export_in_stream(
    code: &mut String,
    symbol: &str,
    function: &str,
    any_stream: &str,
    waits: Option<&[&str]>,
) {
    let at = FUNCTIONS.iter().position(|name| *name == function).expect("a function of the list");
    let of_type: String = ARGUMENTS[at].iter().map(|(name, ty)| format!("{name}: {ty}, ")).collect();
    let passed: String = ARGUMENTS[at].iter().map(|(name, _)| format!("{name}, ")).collect();
    let waits = waits.map_or("None".to_owned(), |of| format!("Some(&[{}])", of.join(", ")));
    let _ = writeln!(
        code,
        "/// `{function}` in the default stream of the thread.\n///\n/// # Safety\n///\n/// As CUDA's manual says.\n\
         #[unsafe(no_mangle)]\npub unsafe extern \"C\" fn {symbol}({of_type}) -> CUresult {{\n    \
         // SAFETY: the arguments are the caller's own.\n    \
         in_stream_of_thread({waits}, |table, stream| unsafe {{ (table.{any_stream})({passed}stream) }})\n}}\n"
    );
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=symbols.tsv");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    let listed = std::fs::read_to_string("symbols.tsv").expect("symbols.tsv lies beside build.rs");
    let lines = listed.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    // By symbol: the kind of its default stream.
    let mut symbols: BTreeMap<&str, &str> = BTreeMap::new();
    let mut names = String::from("pub(crate) static NAMES: &[(&str, i32, bool, &str)] = &[\n");
    for fields in lines {
        let [symbol, name, since, ref kind @ ..] = fields[..] else { panic!("{fields:?}") };
        symbols.insert(symbol, kind.first().copied().unwrap_or_default());
        if !name.is_empty() {
            let _ = writeln!(names, "    ({name:?}, {since}, {}, {symbol:?}),", !kind.is_empty());
        }
    }
    let mut code = String::new();
    let mut table = String::from("pub(crate) static SYMBOLS: &[(&str, Symbol)] = &[\n");
    for function in FUNCTIONS {
        symbols.entry(function).or_default();
    }
    for name in OWN {
        symbols.entry(name).or_default();
    }
    let mut counts = [0, 0];
    for (symbol, kind) in &symbols {
        let base = symbol.strip_suffix(&format!("_{kind}")).filter(|_| !kind.is_empty()).unwrap_or(symbol);
        let alike = ALIKE.iter().find(|(old, _)| *old == base).map_or(base, |(_, new)| new);
        let is_modelled = FUNCTIONS.contains(&alike) || OWN.contains(symbol);
        let in_stream = IN_DEFAULT_STREAM.iter().find(|it| *kind == "ptds" && it.0 == base);
        if OWN.contains(symbol) {
        } else if let Some((_, any_stream, waits)) = in_stream {
            export_in_stream(&mut code, symbol, alike, any_stream, *waits);
        } else if is_modelled {
            export(&mut code, symbol, alike, !kind.is_empty());
        } else {
            let _ = writeln!(
                code,
                "/// Not modelled.\n#[unsafe(no_mangle)]\npub extern \"C\" fn {symbol}() -> CUresult {{\n    \
                 missing({symbol:?})\n}}\n"
            );
        }
        counts[usize::from(!is_modelled)] += 1;
        let _ = writeln!(table, "    ({symbol:?}, Symbol({symbol} as *const ())),");
    }
    names.push_str("];\n");
    table.push_str("];\n");
    let out = std::env::var_os("OUT_DIR").expect("Cargo sets OUT_DIR");
    std::fs::write(Path::new(&out).join("exports.rs"), format!("{code}{names}{table}"))
        .expect("OUT_DIR can be written");
    println!("cargo:rustc-env=MODELLED={}", counts[0]);
    println!("cargo:rustc-env=NOT_MODELLED={}", counts[1]);
}
