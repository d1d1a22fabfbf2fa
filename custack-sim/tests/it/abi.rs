//! The C interface: the table and the structs match NVIDIA's header, function by function and field by field.
//!
//! `abi/cuda.txt` records the declarations of `cuda.h` as classes: `u32` for an enum as for an `unsigned int`, pointers
//! with their target, handles and structs by name. [`record`] writes it and needs the header and a C compiler; the
//! tests need only the file. The texts of `table.rs` and `ffi.rs` are compared with it, and the structs as the Rust
//! compiler lays them out.

#![cfg(all(target_pointer_width = "64", target_endian = "little"))]

mod record;

/// The types of a build without the feature `rustacuda`, which are not those of this one.
#[path = "../../../custack-sys/src/ffi/handles.rs"]
#[allow(dead_code, unreachable_pub)]
mod handles;

use custack_sys::ffi;
use std::any::TypeId;
use std::collections::BTreeMap;
use std::mem::{align_of, offset_of, size_of};
use std::os::raw::{c_char, c_int, c_uint, c_ulonglong};

const TABLE: &str = include_str!("../../../custack-sys/src/table.rs");
const FFI: &str = concat!(
    include_str!("../../../custack-sys/src/ffi.rs"),
    include_str!("../../../custack-sys/src/ffi/graph.rs"),
    include_str!("../../../custack-sys/src/ffi/library.rs"),
    include_str!("../../../custack-sys/src/ffi/memory.rs"),
    include_str!("../../../custack-sys/src/ffi/texture.rs"),
);
const HEADER: &str = include_str!("abi/cuda.txt");

/// The recorded lines of one kind, by name; if several headers declare it, the newest counts.
fn declared(kind: &str) -> BTreeMap<&'static str, &'static str> {
    let mut found = BTreeMap::new();
    for line in HEADER.lines() {
        let Some(rest) = line.strip_prefix(kind).and_then(|rest| rest.strip_prefix(' ')) else { continue };
        let rest = rest.split(" @").next().unwrap();
        let name = rest.split(['(', ' ']).next().unwrap();
        found.entry(name).or_insert(rest);
    }
    assert!(!found.is_empty(), "no lines of the kind {kind}");
    found
}

/// The arguments in a list, each as a name and a type.
fn arguments(list: &str) -> Vec<(String, String)> {
    let whole = list.split_whitespace().collect::<Vec<_>>().join(" ");
    let split = |argument: &str| {
        let (name, ty) = argument.split_once(':').unwrap_or_else(|| panic!("no type: {argument}"));
        (name.trim().to_owned(), ty.trim().to_owned())
    };
    whole.split(',').filter(|argument| !argument.trim().is_empty()).map(split).collect()
}

/// The class of a Rust type, in the notation of the recorded file.
fn class(ty: &str) -> String {
    for pointer in ["*mut ", "*const "] {
        if let Some(to) = ty.strip_prefix(pointer) {
            return format!("{pointer}{}", class(to));
        }
    }
    match ty {
        "c_uint" | "CUresult" => "u32",
        "c_int" | "CUdevice" => "i32",
        "c_ulonglong" | "CUdeviceptr" | "CUtexObject" | "CUsurfObject" => "u64",
        "c_char" => "char",
        "c_void" => "void",
        other => other,
    }
    .to_owned()
}

/// Whether we point to `void` where the header points to a struct that `ffi.rs` does not have.
fn is_opaque(ours: &str, theirs: &str) -> bool {
    let known = |to: &str| !to.starts_with("CU") || FFI.contains(to);
    ["*mut ", "*const "].iter().any(|level| {
        ours.strip_prefix(level) == Some("void") && !theirs.strip_prefix(level).is_none_or(known)
    })
}

/// The differences between one of our functions and the header's line.
fn differences(name: &str, ours: &[(String, String)], line: &str) -> Vec<String> {
    let list = line.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap();
    let theirs: Vec<_> = list.split(", ").filter(|class| !class.is_empty()).collect();
    if ours.len() != theirs.len() {
        return vec![format!(
            "{name} has {} arguments, and in the header {}: {line}",
            ours.len(),
            theirs.len()
        )];
    }
    let differ = |(at, ((argument, ty), theirs)): (usize, (&(String, String), &&str))| {
        let ours = class(ty);
        (ours != **theirs && !is_opaque(&ours, theirs)).then(|| {
            format!("{name}, argument {} ({argument}): {ty} is {ours}, and in the header {theirs}", at + 1)
        })
    };
    ours.iter().zip(&theirs).enumerate().filter_map(differ).collect()
}

/// The functions in the text of the table, with their arguments.
fn table() -> Vec<(&'static str, Vec<(String, String)>)> {
    let list = TABLE.split("macro_rules! define").next().unwrap();
    let function = |rest: &'static str| {
        let (name, rest) = rest.split_once('(').unwrap();
        (name, arguments(rest.split_once(')').unwrap().0))
    };
    list.split(" fn ").skip(1).map(function).collect()
}

#[test]
fn every_function_of_the_table_is_as_the_header_declares_it() {
    let header = declared("fn");
    let table = table();
    let names: Vec<_> = table.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, custack_sys::FUNCTIONS, "the table's text, as it is read here");
    let mut wrong = Vec::new();
    for (name, ours) in &table {
        match header.get(name) {
            Some(line) => wrong.extend(differences(name, ours, line)),
            // `cudaProfiler.h` declares two more, which take nothing.
            None if name.starts_with("cuProfiler") && ours.is_empty() => {}
            None => wrong.push(format!("{name} is in no header that was recorded")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_table_has_the_contexts_of_the_header_or_what_came_after() {
    let unversioned = |name: &'static str| -> (&'static str, u32) {
        let parts = name.rsplit_once("_v").and_then(|(name, version)| Some((name, version.parse().ok()?)));
        parts.unwrap_or((name, 1))
    };
    let chapters = ["cuCtx", "cuDevicePrimaryCtx", "cuGreenCtx", "cuDevSm", "cuDevRes"];
    let declared = declared("fn").into_keys().filter(|name| chapters.iter().any(|it| name.starts_with(it)));
    let declared: Vec<_> = declared.map(|name| (name, unversioned(name))).collect();
    assert!(declared.len() > 50, "{declared:?}");
    for (name, (base, version)) in declared {
        let mut ours = custack_sys::FUNCTIONS.iter().map(|ours| unversioned(ours));
        assert!(ours.any(|ours| ours.0 == base && ours.1 >= version), "{name} is in no table");
    }
}

#[test]
fn every_callback_is_as_the_header_declares_it() {
    let header = declared("callback");
    let text = FFI.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut seen = 0;
    for part in text.split("pub type ").skip(1) {
        let (name, rest) = part.split_once(" = ").unwrap();
        let Some(rest) = rest.strip_prefix("Option<unsafe extern \"C\" fn(") else { continue };
        let ours = arguments(rest.split_once(')').unwrap().0);
        let line = header.get(name).unwrap_or_else(|| panic!("{name} is in no header that was recorded"));
        assert_eq!(differences(name, &ours, line), Vec::<String>::new());
        seen += 1;
    }
    assert!(seen >= 3, "{seen}");
}

/// The names that [`class`] translates stand for the integers that it says.
#[test]
fn numbers_are_as_wide_as_the_header_has_them() {
    let same = [
        ("CUresult", TypeId::of::<ffi::CUresult>(), TypeId::of::<u32>()),
        ("CUdevice", TypeId::of::<ffi::CUdevice>(), TypeId::of::<i32>()),
        ("CUtexObject", TypeId::of::<ffi::CUtexObject>(), TypeId::of::<u64>()),
        ("CUsurfObject", TypeId::of::<ffi::CUsurfObject>(), TypeId::of::<u64>()),
        ("CUdeviceptr", TypeId::of::<ffi::CUdeviceptr>(), TypeId::of::<u64>()),
        ("c_uint", TypeId::of::<c_uint>(), TypeId::of::<u32>()),
        ("c_int", TypeId::of::<c_int>(), TypeId::of::<i32>()),
        ("c_ulonglong", TypeId::of::<c_ulonglong>(), TypeId::of::<u64>()),
    ];
    for (name, ours, wanted) in same {
        assert_eq!(ours, wanted, "{name}");
    }
    assert_eq!((size_of::<c_char>(), size_of::<usize>()), (1, 8));
    let pointer = size_of::<usize>();
    let handles = declared("handle");
    let sizes = [
        ("CUcontext", size_of::<ffi::CUcontext>()),
        ("CUstream", size_of::<ffi::CUstream>()),
        ("CUevent", size_of::<ffi::CUevent>()),
        ("CUmodule", size_of::<ffi::CUmodule>()),
        ("CUfunction", size_of::<ffi::CUfunction>()),
        ("CUarray", size_of::<ffi::CUarray>()),
        ("CUmemoryPool", size_of::<ffi::CUmemoryPool>()),
        ("CUgraph", size_of::<ffi::CUgraph>()),
        ("CUgraphNode", size_of::<ffi::CUgraphNode>()),
        ("CUgraphExec", size_of::<ffi::CUgraphExec>()),
        ("CUuserObject", size_of::<ffi::CUuserObject>()),
        ("CUlibrary", size_of::<ffi::CUlibrary>()),
        ("CUkernel", size_of::<ffi::CUkernel>()),
        ("CUlinkState", size_of::<ffi::CUlinkState>()),
        ("CUgreenCtx", size_of::<ffi::CUgreenCtx>()),
        ("CUdevResourceDesc", size_of::<ffi::CUdevResourceDesc>()),
        ("CUasyncCallbackHandle", size_of::<ffi::CUasyncCallbackHandle>()),
    ];
    for (name, size) in sizes {
        assert!(handles.contains_key(name), "{name} is no handle in the header");
        assert_eq!(size, pointer, "{name}");
    }
}

/// One of our structs: its name, size and alignment, and for each field its name, the header's name, its offset and its
/// size.
struct Layout {
    name: &'static str,
    size: usize,
    align: usize,
    fields: Vec<(&'static str, &'static str, usize, usize)>,
}

fn size_behind<S, T>(_: fn(&S) -> &T) -> usize {
    size_of::<T>()
}

macro_rules! layouts {
    ($($name:ident { $($field:ident = $theirs:literal),* $(,)? })*) => {
        vec![$(Layout {
            name: stringify!($name),
            size: size_of::<ffi::$name>(),
            align: align_of::<ffi::$name>(),
            fields: vec![$((
                stringify!($field),
                $theirs,
                offset_of!(ffi::$name, $field),
                size_behind(|whole: &ffi::$name| &whole.$field),
            )),*],
        }),*]
    };
}

/// Every struct of `ffi.rs`, with the header's name for each field. A trailing `+` means that only the offset counts,
/// because the header's field is larger; an empty name means that the header has no such field.
fn layouts() -> Vec<Layout> {
    layouts! {
        CUDA_ARRAY3D_DESCRIPTOR {
            Width = "Width",
            Height = "Height",
            Depth = "Depth",
            Format = "Format",
            NumChannels = "NumChannels",
            Flags = "Flags",
        }
        CUDA_ARRAY_DESCRIPTOR {
            Width = "Width", Height = "Height", Format = "Format", NumChannels = "NumChannels",
        }
        CUexecAffinityParam { kind = "type", sm_count = "param.smCount" }
        CUctxCreateParams {
            exec_affinity_params = "execAffinityParams",
            num_exec_affinity_params = "numExecAffinityParams",
            cig_params = "cigParams",
        }
        CUdevWorkqueueConfigResource { device = "device", limit = "wqConcurrencyLimit", scope = "sharingScope" }
        CU_DEV_SM_RESOURCE_GROUP_PARAMS {
            count = "smCount", coscheduled = "coscheduledSmCount", preferred = "preferredCoscheduledSmCount",
            flags = "flags", locality = "localityDomainId", reserved = "reserved",
        }
        CUdevResource { kind = "type", internal = "_internal_padding", sm = "sm+", reserved = "" }
        CUDA_KERNEL_NODE_PARAMS {
            func = "func", gridDimX = "gridDimX", gridDimY = "gridDimY", gridDimZ = "gridDimZ",
            blockDimX = "blockDimX", blockDimY = "blockDimY", blockDimZ = "blockDimZ",
            sharedMemBytes = "sharedMemBytes", kernelParams = "kernelParams", extra = "extra", kern = "kern",
            ctx = "ctx",
        }
        CUDA_MEMSET_NODE_PARAMS {
            dst = "dst", pitch = "pitch", value = "value", elementSize = "elementSize", width = "width",
            height = "height",
        }
        CUipcEventHandle { reserved = "reserved" }
        CUipcMemHandle { reserved = "reserved" }
        CUmemPoolPtrExportData { reserved = "reserved" }
        CUDA_HOST_NODE_PARAMS { fn_ = "fn", userData = "userData" }
        CUDA_MEMCPY3D {
            srcXInBytes = "srcXInBytes", srcY = "srcY", srcZ = "srcZ", srcLOD = "srcLOD",
            srcMemoryType = "srcMemoryType", srcHost = "srcHost", srcDevice = "srcDevice",
            srcArray = "srcArray", reserved0 = "reserved0", srcPitch = "srcPitch", srcHeight = "srcHeight",
            dstXInBytes = "dstXInBytes", dstY = "dstY", dstZ = "dstZ", dstLOD = "dstLOD",
            dstMemoryType = "dstMemoryType", dstHost = "dstHost", dstDevice = "dstDevice",
            dstArray = "dstArray", reserved1 = "reserved1", dstPitch = "dstPitch", dstHeight = "dstHeight",
            WidthInBytes = "WidthInBytes", Height = "Height", Depth = "Depth",
        }
        CUDA_MEMCPY2D {
            srcXInBytes = "srcXInBytes", srcY = "srcY", srcMemoryType = "srcMemoryType", srcHost = "srcHost",
            srcDevice = "srcDevice", srcArray = "srcArray", srcPitch = "srcPitch",
            dstXInBytes = "dstXInBytes", dstY = "dstY", dstMemoryType = "dstMemoryType", dstHost = "dstHost",
            dstDevice = "dstDevice", dstArray = "dstArray", dstPitch = "dstPitch",
            WidthInBytes = "WidthInBytes", Height = "Height",
        }
        CUDA_RESOURCE_DESC {
            resType = "resType", devPtr = "res.pitch2D.devPtr", format = "res.pitch2D.format",
            numChannels = "res.pitch2D.numChannels", width = "res.pitch2D.width", height = "res.pitch2D.height",
            pitchInBytes = "res.pitch2D.pitchInBytes", reserved = "", flags = "flags",
        }
        CUDA_TEXTURE_DESC {
            addressMode = "addressMode", filterMode = "filterMode", flags = "flags",
            maxAnisotropy = "maxAnisotropy", mipmapFilterMode = "mipmapFilterMode",
            mipmapLevelBias = "mipmapLevelBias", minMipmapLevelClamp = "minMipmapLevelClamp",
            maxMipmapLevelClamp = "maxMipmapLevelClamp", borderColor = "borderColor", reserved = "reserved",
        }
        CUDA_RESOURCE_VIEW_DESC {
            format = "format", width = "width", height = "height", depth = "depth",
            firstMipmapLevel = "firstMipmapLevel", lastMipmapLevel = "lastMipmapLevel", firstLayer = "firstLayer",
            lastLayer = "lastLayer", reserved = "reserved",
        }
        CUmemAllocationProp {
            kind = "type", requestedHandleTypes = "requestedHandleTypes", location = "location",
            win32HandleMetaData = "win32HandleMetaData", compressionType = "allocFlags.compressionType",
            gpuDirectRDMACapable = "allocFlags.gpuDirectRDMACapable", usage = "allocFlags.usage",
            reserved = "allocFlags.reserved",
        }
        CUmemLocation { kind = "type", id = "id" }
        CUmemAccessDesc { location = "location", flags = "flags" }
        CUmemPoolProps {
            allocType = "allocType", handleTypes = "handleTypes", location = "location",
            win32SecurityAttributes = "win32SecurityAttributes", maxSize = "maxSize", usage = "usage",
            gpuDirectRDMACapable = "gpuDirectRDMACapable", reserved = "reserved",
        }
        CUDA_MEM_ALLOC_NODE_PARAMS {
            poolProps = "poolProps", accessDescs = "accessDescs", accessDescCount = "accessDescCount",
            bytesize = "bytesize", dptr = "dptr",
        }
        CUgraphEdgeData { from_port = "from_port", to_port = "to_port", kind = "type", reserved = "reserved" }
        CUgraphNodeParams {
            kind = "type", reserved0 = "reserved0", data = "reserved1", reserved2 = "reserved2",
        }
        CUgraphExecUpdateResultInfo {
            result = "result", errorNode = "errorNode", errorFromNode = "errorFromNode",
        }
        CUDA_GRAPH_INSTANTIATE_PARAMS {
            flags = "flags", hUploadStream = "hUploadStream", hErrNode_out = "hErrNode_out",
            result_out = "result_out",
        }
        CUlaunchAttribute { id = "id", pad = "pad", value = "value" }
        CUlaunchConfig {
            gridDimX = "gridDimX", gridDimY = "gridDimY", gridDimZ = "gridDimZ",
            blockDimX = "blockDimX", blockDimY = "blockDimY", blockDimZ = "blockDimZ",
            sharedMemBytes = "sharedMemBytes", hStream = "hStream", attrs = "attrs", numAttrs = "numAttrs",
        }
        CUuuid { bytes = "bytes" }
        CUdevprop {
            maxThreadsPerBlock = "maxThreadsPerBlock",
            maxThreadsDim = "maxThreadsDim",
            maxGridSize = "maxGridSize",
            sharedMemPerBlock = "sharedMemPerBlock",
            totalConstantMemory = "totalConstantMemory",
            SIMDWidth = "SIMDWidth",
            memPitch = "memPitch",
            regsPerBlock = "regsPerBlock",
            clockRate = "clockRate",
            textureAlign = "textureAlign",
        }
    }
}

#[test]
fn every_struct_is_laid_out_as_the_header_lays_it_out() {
    let header = declared("struct");
    let mut wrong = Vec::new();
    for layout in layouts() {
        let line = header.get(layout.name).unwrap_or_else(|| panic!("{} is not recorded", layout.name));
        let (head, fields) = line.split_once(": ").unwrap();
        let ours = format!("{} size {} align {}", layout.name, layout.size, layout.align);
        if head != ours {
            wrong.push(format!("{ours}, and in the header {head}"));
        }
        for (field, theirs, offset, size) in layout.fields.into_iter().filter(|field| !field.1.is_empty()) {
            let name = theirs.trim_end_matches('+');
            let wanted = fields.split(", ").find_map(|field| field.strip_prefix(name)?.strip_prefix(' '));
            let is_there = wanted.is_some_and(|wanted| match theirs.ends_with('+') {
                true => wanted.starts_with(&format!("{offset}+")),
                false => wanted == format!("{offset}+{size}"),
            });
            if !is_there {
                wrong.push(format!(
                    "{}, {field}: {size} bytes at {offset}, and in the header {theirs} {wanted:?}",
                    layout.name
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_struct_and_field_is_in_the_list() {
    let layouts = layouts();
    for part in FFI.split("pub struct ").skip(1) {
        let (name, rest) = part.split_once(" {").unwrap();
        let body = rest.split_once("\n}").unwrap().0;
        let fields = body.lines().filter_map(|line| line.trim().strip_prefix("pub ")?.split(':').next());
        let listed = layouts.iter().find(|layout| layout.name == name);
        let listed = listed.unwrap_or_else(|| panic!("{name} is not among the layouts above"));
        let names: Vec<_> = listed.fields.iter().map(|field| field.0).collect();
        assert_eq!(fields.collect::<Vec<_>>(), names, "{name}");
    }
}

#[test]
fn builds_without_rustacudas_types_have_the_same_layouts() {
    macro_rules! same {
        ($($ty:ident { $($field:ident),* })*) => {$(
            let laid_out = [size_of::<handles::$ty>(), align_of::<handles::$ty>() $(, offset_of!(handles::$ty, $field))*];
            assert_eq!(laid_out, [size_of::<ffi::$ty>(), align_of::<ffi::$ty>() $(, offset_of!(ffi::$ty, $field))*]);
        )*};
    }
    same! {
        CUcontext {} CUmodule {} CUfunction {} CUarray {} CUevent {} CUstream {} CUdevice {} CUdeviceptr {}
        CUuuid { bytes }
        CUdevprop {
            maxThreadsPerBlock, maxThreadsDim, maxGridSize, sharedMemPerBlock, totalConstantMemory, SIMDWidth, memPitch,
            regsPerBlock, clockRate, textureAlign
        }
    }
    let same = [
        TypeId::of::<handles::CUdevice>() == TypeId::of::<ffi::CUdevice>(),
        TypeId::of::<handles::CUdeviceptr>() == TypeId::of::<ffi::CUdeviceptr>(),
    ];
    assert_eq!(same, [true; 2]);
}
