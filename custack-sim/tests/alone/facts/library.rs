//! Libraries, linking, and launches with attributes.

use super::dead_current;
use crate::harness::{drain, other, run};
use custack_sys::ffi::*;
use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};

const CODE: &CStr = c".version 7.0 .target sm_70 .address_size 64
    .visible .global .u32 counter = 5;
    .visible .global .attribute(.managed) .u32 managed = 7;
    .visible .entry takes(.param .u8 a, .param .u64 b) { ret; }
    .visible .entry nothing() { ret; }";
const BROKEN: &CStr = c".version 7.0 .target sm_70 .address_size 64 .visible .entry k() { bra nowhere; }";

fn load_as(code: &CStr) -> (u32, CUlibrary) {
    let mut library = null_mut();
    let (none, values) = (null_mut(), null_mut());
    let status = call!(cuLibraryLoadData(
        &mut library,
        code.as_ptr().cast(),
        none,
        values,
        0,
        null_mut(),
        null_mut(),
        0
    ));
    (status, library)
}

fn load() -> CUlibrary {
    let (status, library) = load_as(CODE);
    assert_eq!(status, 0);
    library
}

fn kernel(library: CUlibrary, name: &CStr) -> (u32, CUkernel) {
    let mut kernel = null_mut();
    (call!(cuLibraryGetKernel(&mut kernel, library, name.as_ptr())), kernel)
}

fn function(kernel: CUkernel) -> (u32, CUfunction) {
    let mut function = null_mut();
    (call!(cuKernelGetFunction(&mut function, kernel)), function)
}

fn count(library: CUlibrary) -> (u32, u32) {
    let mut count = 77;
    (call!(cuLibraryGetKernelCount(&mut count, library)), count)
}

fn attribute(kernel: CUkernel, which: u32, device: i32) -> (u32, i32) {
    let mut value = 77;
    (call!(cuKernelGetAttribute(&mut value, which, kernel, device)), value)
}

fn of_function(function: CUfunction, which: u32) -> (u32, i32) {
    let mut value = 77;
    (call!(cuFuncGetAttribute(&mut value, which, function)), value)
}

fn variable(library: CUlibrary, name: &CStr) -> (u32, u64) {
    let (mut address, mut size) = (0, 0);
    (call!(cuLibraryGetGlobal(&mut address, &mut size, library, name.as_ptr())), address)
}

fn managed(library: CUlibrary, name: &CStr) -> (u32, u64) {
    let (mut address, mut size) = (0, 0);
    (call!(cuLibraryGetManaged(&mut address, &mut size, library, name.as_ptr())), address)
}

fn module(library: CUlibrary) -> (u32, CUmodule) {
    let mut module = null_mut();
    (call!(cuLibraryGetModule(&mut module, library)), module)
}

fn parameter(kernel: CUkernel, index: usize) -> (u32, usize, usize) {
    let (mut offset, mut size) = (77, 77);
    (call!(cuKernelGetParamInfo(kernel, index, &mut offset, &mut size)), offset, size)
}

#[test]
fn what_needs_no_context_works_without_one() {
    run(|| {
        let library = load();
        assert_eq!(count(library), (0, 2));
        let (found, takes) = kernel(library, c"takes");
        assert_eq!((found, kernel(library, c"takes")), (0, (0, takes)));
        assert_eq!((attribute(takes, 0, 0), attribute(takes, 0, 99).0), ((0, 1024), 101));
        assert_eq!(call!(cuKernelSetAttribute(8, 60_000, takes, 0)), 0);
        assert_eq!(call!(cuKernelSetCacheConfig(takes, 1, 0)), 0);
        assert_eq!(call!(cuKernelSetCacheConfig(takes, 9, 0)), 1);
        assert_eq!(managed(library, c"managed").0, 0);
        assert_eq!(managed(library, c"counter").0, 500);
        assert_eq!([function(takes).0, module(library).0, variable(library, c"counter").0], [201; 3]);
        assert_eq!(parameter(takes, 0).0, 201);
        let mut state = null_mut();
        assert_eq!(call!(cuLinkCreate_v2(0, null_mut(), null_mut(), &mut state)), 201);
        assert_eq!(call!(cuLibraryUnload(library)), 0);
    });
}

#[test]
fn a_library_of_no_code_loads_and_its_first_use_says_what_is_wrong() {
    run(|| {
        let context = other::create();
        for (code, status) in
            [(BROKEN, 218), (c"hello", 200), (c"", 200), (c".version 9.9 .target sm_70", 222)]
        {
            let (loaded, library) = load_as(code);
            assert_eq!((loaded, count(library)), (0, (0, 0)), "{code:?}");
            assert_eq!([kernel(library, c"k").0, kernel(library, c"k").0], [status; 2], "{code:?}");
            assert_eq!([module(library).0, variable(library, c"x").0], [status; 2], "{code:?}");
            let mut found = null_mut();
            assert_eq!(call!(cuLibraryEnumerateKernels(&mut found, 1, library)), 0);
            assert_eq!(call!(cuLibraryUnload(library)), 0);
        }
        other::destroy(context);
    });
}

#[test]
fn null_is_refused_in_this_order() {
    run(|| {
        let context = other::create();
        let library = load();
        let takes = kernel(library, c"takes").1;
        let (mut at, mut bytes) = (null_mut::<c_void>(), 0u64);
        let none = null_mut();
        assert_eq!(call!(cuLibraryGetKernel(null_mut(), library, c"takes".as_ptr())), 1);
        assert_eq!(call!(cuLibraryGetKernel(&mut at, library, null())), 1);
        assert_eq!([kernel(library, c"nope").0, kernel(library, c"").0], [500; 2]);
        assert_eq!(call!(cuLibraryGetGlobal(null_mut(), null_mut(), library, c"counter".as_ptr())), 1);
        assert_eq!(call!(cuLibraryGetGlobal(&mut bytes, null_mut(), library, c"counter".as_ptr())), 0);
        assert_eq!(call!(cuLibraryEnumerateKernels(null_mut(), 0, library)), 1);
        assert_eq!(call!(cuLibraryEnumerateKernels(&mut at, 0, library)), 0);
        assert_eq!(call!(cuKernelGetParamInfo(takes, 0, null_mut(), null_mut())), 1);
        assert_eq!([parameter(takes, 0), parameter(takes, 1)], [(0, 0, 1), (0, 8, 8)]);
        assert_eq!(parameter(takes, 2), (1, 77, 77));
        // A handle that is NULL: most say that it is none, three that it is no value.
        assert_eq!([kernel(none, c"k").0, count(none).0, function(none).0, module(none).0], [400; 4]);
        assert_eq!([attribute(none, 0, 0).0, variable(none, c"x").0, managed(none, c"x").0], [400; 3]);
        assert_eq!(call!(cuLibraryUnload(none)), 400);
        assert_eq!(call!(cuKernelGetName(&mut null(), none)), 1);
        assert_eq!(call!(cuFuncGetName(&mut null(), null_mut())), 1);
        assert_eq!(call!(cuFuncGetModule(&mut null_mut(), null_mut())), 1);
        assert_eq!(call!(cuFuncLoad(null_mut())), 400);
        assert_eq!(call!(cuLinkDestroy(none)), 400);
        assert_eq!(call!(cuLibraryUnload(library)), 0);
        other::destroy(context);
    });
}

#[test]
fn each_context_has_a_function_of_a_kernel_and_its_own_variables() {
    run(|| {
        let library = load();
        let takes = kernel(library, c"takes").1;
        let first = other::create();
        let here = (function(takes), module(library), variable(library, c"counter"));
        let common = managed(library, c"managed");
        let second = other::create();
        let there = (function(takes), module(library), variable(library, c"counter"));
        assert!(here.0.1 != there.0.1 && here.1.1 != there.1.1 && here.2.1 != there.2.1);
        assert_eq!((function(takes), managed(library, c"managed")), (there.0, common));
        assert_eq!(variable(library, c"managed"), common);
        let (mut owner, mut found) = (null_mut(), null_mut());
        assert_eq!(call!(cuFuncGetModule(&mut owner, there.0.1)), 0);
        assert_eq!(call!(cuModuleGetFunction(&mut found, owner, c"takes".as_ptr())), 0);
        assert_eq!((owner, found), (there.1.1, there.0.1));
        assert_eq!(call!(cuModuleUnload(owner)), 800);
        // A kernel is no function, but launches and occupancy take it for the one of the context.
        assert_eq!(of_function(takes.cast(), 0).0, 400);
        let nothing = kernel(library, c"nothing").1.cast();
        let launch =
            || call!(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, null_mut(), null_mut(), null_mut()));
        assert_eq!(launch(), 0);
        let available = |function| {
            let mut bytes = 0;
            (call!(cuOccupancyAvailableDynamicSMemPerBlock(&mut bytes, function, 2, 64)), bytes)
        };
        let as_function = function(kernel(library, c"nothing").1).1;
        assert_eq!((available(nothing), available(nothing).0), (available(as_function), 0));
        other::destroy(second);
        assert_eq!(function(takes), here.0);
        assert_eq!(call!(cuLibraryUnload(library)), 0);
        assert_eq!(drain(), [first]);
        other::destroy(first);
    });
}

#[test]
fn on_a_destroyed_context_what_needs_one_says_so() {
    run(|| {
        let library = load();
        let takes = kernel(library, c"takes").1;
        dead_current();
        assert_eq!([function(takes).0, module(library).0, variable(library, c"counter").0], [709; 3]);
        assert_eq!((parameter(takes, 0).0, managed(library, c"managed").0), (709, 0));
        assert_eq!((attribute(takes, 0, 0), load_as(CODE).0), ((0, 1024), 0));
        drain();
        assert_eq!(call!(cuLibraryUnload(library)), 0);
    });
}

#[test]
fn a_kernels_attributes_reach_its_functions_unless_they_have_their_own() {
    run(|| {
        let library = load();
        let takes = kernel(library, c"takes").1;
        assert_eq!(call!(cuKernelSetAttribute(8, 60_000, takes, 0)), 0);
        let set = |(which, value)| call!(cuKernelSetAttribute(which, value, takes, 0));
        let refused = [(8, 300_000), (8, -1), (9, 101), (9, -2), (0, 5), (99, 1)];
        assert_eq!(refused.map(set), [1; 6]);
        let taken = [(9, 50), (14, 1), (14, 2), (15, 1), (11, 2)];
        assert_eq!(taken.map(set), [0; 5]);
        assert_eq!([attribute(takes, 16, 0), attribute(takes, u32::MAX, 0)], [(1, 77); 2]);
        let context = other::create();
        let found = function(takes).1;
        assert_eq!(of_function(found, 8), (0, 60_000));
        assert_eq!(call!(cuFuncSetAttribute(found, 8, 70_000)), 0);
        assert_eq!(attribute(takes, 8, 0), (0, 60_000));
        assert_eq!(call!(cuKernelSetAttribute(8, 80_000, takes, 0)), 0);
        assert_eq!((attribute(takes, 8, 0), of_function(found, 8)), ((0, 80_000), (0, 70_000)));
        assert_eq!(call!(cuLibraryUnload(library)), 0);
        other::destroy(context);
    });
}

#[test]
fn blocks_at_once_depend_on_how_much_of_the_cache_the_kernel_prefers() {
    run(|| {
        let library = load();
        let nothing = kernel(library, c"nothing").1;
        let context = other::create();
        let (found, mut stream) = (function(nothing).1, null_mut());
        assert_eq!(call!(cuStreamCreate(&mut stream, 1)), 0);
        let blocks = |shared| {
            let mut blocks = 77;
            let status = call!(cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, found, 32, shared));
            (status, blocks)
        };
        let both = || [blocks(0), blocks(40_000)];
        assert_eq!(both(), [(0, 32), (0, 5)]);
        assert_eq!((call!(cuKernelSetCacheConfig(nothing, 2, 0)), both()), (0, [(0, 8), (0, 1)]));
        let available = |blocks| {
            let mut bytes = 77;
            (call!(cuOccupancyAvailableDynamicSMemPerBlock(&mut bytes, found, blocks, 64)), bytes)
        };
        assert_eq!(
            [4, 2, 1].map(available),
            [(0, 2048), (0, 4096), (0, 49_152)],
            "one block has what it needs"
        );
        assert_eq!((call!(cuKernelSetCacheConfig(nothing, 1, 0)), both()), (0, [(0, 32), (0, 5)]));
        assert_eq!((call!(cuKernelSetAttribute(9, 0, nothing, 0)), both()), (0, [(0, 8), (0, 1)]));
        // A limit below the one that all kernels have changes nothing.
        assert_eq!((call!(cuFuncSetAttribute(found, 9, -1)), call!(cuFuncSetAttribute(found, 8, 0))), (0, 0));
        assert_eq!(both(), [(0, 32), (0, 5)]);
        let launch =
            |shared| call!(cuLaunchCooperativeKernel(found, 1, 1, 1, 1, 1, 1, shared, stream, null_mut()));
        assert_eq!((launch(0), launch(49_153)), (0, 720));
        assert_eq!(drain(), [context]);
        assert_eq!(launch(0), 0, "with nothing current");
        assert_eq!(call!(cuStreamSynchronize(stream)), 0);
        let asked = call!(cuOccupancyMaxActiveBlocksPerMultiprocessor(null_mut(), found, 32, 0));
        assert_eq!((asked, call!(cuKernelGetAttribute(null_mut(), 0, null_mut(), 0))), (201, 400));
        assert_eq!(call!(cuModuleLoadData(null_mut(), CODE.as_ptr().cast())), 201);
        assert_eq!(call!(cuLibraryUnload(library)), 0);
        other::destroy(context);
    });
}

fn loaded_with(code: &CStr, options: &mut [u32], values: &mut [*mut c_void]) -> u32 {
    let mut module = null_mut();
    let count = options.len() as u32;
    let (options, values) = (options.as_mut_ptr(), values.as_mut_ptr());
    let status = call!(cuModuleLoadDataEx(&mut module, code.as_ptr().cast(), count, options, values));
    if status == 0 {
        assert_eq!(call!(cuModuleUnload(module)), 0);
    }
    status
}

fn number(value: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(value)
}

#[test]
fn options_are_looked_at_with_their_values() {
    run(|| {
        let context = other::create();
        let mut log = [b'x'; 64];
        let at: *mut c_void = log.as_mut_ptr().cast();
        assert_eq!(loaded_with(CODE, &mut [0], &mut [number(16)]), 0);
        assert_eq!(loaded_with(CODE, &mut [0], &mut [number(0)]), 1);
        assert_eq!(loaded_with(CODE, &mut [99], &mut [number(0)]), 1);
        // A log has a buffer and a size.
        assert_eq!(loaded_with(BROKEN, &mut [5], &mut [at]), 1);
        assert_eq!(loaded_with(BROKEN, &mut [6], &mut [number(64)]), 1);
        assert_eq!(loaded_with(BROKEN, &mut [5, 6], &mut [null_mut(), number(64)]), 1);
        assert_eq!(loaded_with(BROKEN, &mut [5, 6], &mut [at, number(0)]), 218);
        // The final NUL is written where there is no room for it.
        assert_eq!(&log[..2], b"\0x");
        let mut values = [at, number(1)];
        assert_eq!((loaded_with(BROKEN, &mut [5, 6], &mut values), values[1]), (218, number(0)));
        let mut values = [at, number(20)];
        assert_eq!(loaded_with(BROKEN, &mut [5, 6], &mut values), 218);
        assert_eq!((values[1], &log[..20]), (number(20), &b"ptxas application p\0"[..]));
        let mut values = [at, number(64)];
        assert_eq!(loaded_with(CODE, &mut [5, 6], &mut values), 0);
        assert_eq!(values[1], number(0));
        let mut module = null_mut();
        let none = null_mut();
        assert_eq!(call!(cuModuleLoadDataEx(&mut module, CODE.as_ptr().cast(), 1, none, null_mut())), 1);
        other::destroy(context);
    });
}

const ONE: &CStr = c".version 7.0 .target sm_70 .address_size 64 .visible .global .u32 given = 5;";
const TWO: &CStr = c".version 7.0 .target sm_70 .address_size 64 .extern .global .u32 given;
    .visible .entry reads() { ret; }";

fn link_new() -> CUlinkState {
    let mut state = null_mut();
    assert_eq!(call!(cuLinkCreate_v2(0, null_mut(), null_mut(), &mut state)), 0);
    state
}

fn link_add(state: CUlinkState, code: &CStr) -> u32 {
    let (data, size) = (code.as_ptr().cast_mut().cast(), code.count_bytes() + 1);
    let (name, none) = (c"text".as_ptr(), null_mut());
    call!(cuLinkAddData_v2(state, 1, data, size, name, 0, none, null_mut()))
}

fn link_done(state: CUlinkState) -> (u32, bool, usize) {
    let (mut image, mut size) = (null_mut(), 77);
    let status = call!(cuLinkComplete(state, &mut image, &mut size));
    (status, image.is_null(), size)
}

#[test]
fn a_linker_is_of_its_context_and_needs_any() {
    run(|| {
        let context = other::create();
        let state = link_new();
        assert_eq!(link_add(state, ONE), 0);
        let second = other::create();
        assert_eq!(link_add(state, TWO), 0);
        let (done, none, _) = link_done(state);
        assert_eq!((done, none), (0, false));
        assert_eq!((link_done(state).0, link_add(state, ONE)), (400, 1));
        assert_eq!(call!(cuLinkDestroy(state)), 0);
        drain();
        other::push(context);
        let state = link_new();
        assert_eq!(drain(), [context]);
        // The same driver was seen to take this and to refuse it.
        let taken = link_add(state, ONE) == 0;
        other::destroy(context);
        // What was taken is there twice then, and what was refused is still not there.
        let expected = if taken { (300, 300) } else { (1, 400) };
        assert_eq!((link_add(state, ONE), link_done(state).0), expected);
        assert_eq!(call!(cuLinkDestroy(state)), 0);
        other::destroy(second);
    });
}

#[test]
fn what_cannot_be_linked_is_said_when_it_is_added_or_at_the_end() {
    run(|| {
        let context = other::create();
        let with = |texts: &[&CStr]| {
            let state = link_new();
            let added: Vec<_> = texts.iter().map(|text| link_add(state, text)).collect();
            let (done, untouched, size) = link_done(state);
            assert_eq!(call!(cuLinkDestroy(state)), 0);
            (added, done, untouched && size == 77)
        };
        assert_eq!(with(&[ONE, ONE]), (vec![0, 300], 300, true));
        let undefined = with(&[TWO]);
        assert!([300, 999].contains(&undefined.1), "the same driver was seen to answer both");
        assert_eq!((undefined.0, undefined.2), (vec![0], true));
        assert_eq!(with(&[ONE, BROKEN]), (vec![0, 218], 0, false));
        assert_eq!(with(&[ONE, c"hello", c""]), (vec![0, 200, 200], 0, false));
        assert_eq!(with(&[]), (vec![], 0, false));
        other::destroy(context);
    });
}

fn launch(function: CUfunction, grid: u32, block: u32, attributes: &mut [CUlaunchAttribute]) -> u32 {
    let config = CUlaunchConfig {
        gridDimX: grid,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: block,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: 0,
        hStream: null_mut(),
        attrs: attributes.as_mut_ptr(),
        numAttrs: attributes.len() as u32,
    };
    call!(cuLaunchKernelEx(&config, function, null_mut(), null_mut()))
}

fn with(id: u32, x: u32, y: u32, z: u32) -> CUlaunchAttribute {
    let mut value = [0; 16];
    value[..3].copy_from_slice(&[x, y, z]);
    CUlaunchAttribute { id, pad: [0; 4], value }
}

#[test]
fn attributes_of_a_launch_are_looked_at_first() {
    run(|| {
        let context = other::create();
        let library = load();
        let nothing = function(kernel(library, c"nothing").1).1;
        assert_eq!(call!(cuLaunchKernelEx(null(), nothing, null_mut(), null_mut())), 1);
        for (attribute, status) in [
            (with(0, 0, 0, 0), 0),
            (with(2, 5, 0, 0), 0),
            (with(3, 1, 0, 0), 1),
            (with(5, 2, 0, 0), 0),
            (with(5, 9, 0, 0), 1),
            (with(6, 5, 0, 0), 0),
            (with(8, 7, 0, 0), 0),
            (with(10, 1, 0, 0), 0),
            (with(10, 5, 0, 0), 1),
            (with(14, 50, 0, 0), 0),
            (with(14, 101, 0, 0), 1),
            (with(14, u32::MAX, 0, 0), 1),
            (with(15, 0, 0, 0), 1),
            (with(17, 0, 0, 0), 1),
            (with(99, 0, 0, 0), 1),
            (with(4, 2, 1, 1), 0),
            (with(4, 0, 0, 0), 0),
            (with(4, 0, 1, 1), 912),
            (with(4, 3, 1, 1), 912),
            (with(4, 16, 1, 1), 912),
        ] {
            assert_eq!(launch(nothing, 16, 32, &mut [attribute]), status, "{attribute:?}");
        }
        assert_eq!(launch(nothing, 16, 32, &mut [with(4, 3, 1, 1), with(99, 0, 0, 0)]), 1);
        assert_eq!(launch(nothing, 16, 2000, &mut []), 1);
        // The block comes before the attributes, and the grid before what its clusters are.
        for (grid, block, cluster, status) in [
            (16, 0, with(4, 3, 1, 1), 1),
            (16, 2000, with(4, 16, 1, 1), 1),
            (16, 2000, with(4, 0, 1, 1), 1),
            (0, 32, with(4, 16, 1, 1), 1),
            (0, 32, with(4, 0, 1, 1), 912),
        ] {
            assert_eq!(launch(nothing, grid, block, &mut [cluster]), status, "{grid} {block} {cluster:?}");
        }
        let other = other::create();
        assert_eq!(launch(nothing, 16, 32, &mut [with(99, 0, 0, 0)]), 400, "said of the function first");
        other::destroy(other);
        // A kernel that has a width and no height has no clusters that could be.
        assert_eq!(call!(cuFuncSetAttribute(nothing, 11, 2)), 0);
        assert_eq!(launch(nothing, 16, 32, &mut []), 912);
        assert_eq!(call!(cuFuncSetAttribute(nothing, 12, 1)), 0);
        assert_eq!(call!(cuFuncSetAttribute(nothing, 13, 1)), 0);
        assert_eq!([launch(nothing, 16, 32, &mut []), launch(nothing, 7, 32, &mut [])], [0, 912]);
        assert_eq!(launch(nothing, 16, 32, &mut [with(4, 4, 1, 1)]), 912);
        assert_eq!(call!(cuCtxSynchronize()), 0);
        assert_eq!(call!(cuLibraryUnload(library)), 0);
        other::destroy(context);
    });
}
