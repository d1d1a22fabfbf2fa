//! Launches and occupancy as programs ask the driver's table for them.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{module, read, stream};
use crate::harness::{pushed, run, table};
use custack::driver::ffi::{CUDA_KERNEL_NODE_PARAMS, CUfunction, CUstream};
use custack::function::FunctionAttribute;
use custack::memory::DeviceBuffer;
use custack::module::Module;
use std::os::raw::{c_int, c_void};
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::atomic::{AtomicI32, Ordering};

fn function(module: &Module, name: &std::ffi::CStr) -> CUfunction {
    let mut found = null_mut();
    assert_eq!(unsafe { (table().cuModuleGetFunction)(&mut found, module.as_raw(), name.as_ptr()) }, 0);
    found
}

/// The words of a list of extra parameters.
const END: usize = 0;
const BUFFER: usize = 1;
const SIZE: usize = 2;

/// The bytes of the parameters of `saxpy`, which end with the last one.
const LENGTH: usize = 28;

/// The arguments of `saxpy` as C lays them out in one piece.
#[repr(C)]
struct Saxpy {
    a: f32,
    x: u64,
    y: u64,
    count: u32,
}

fn launch(
    function: CUfunction,
    stream: CUstream,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> u32 {
    unsafe { (table().cuLaunchKernel)(function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, extra) }
}

#[test]
fn a_launch_takes_its_arguments_in_one_piece() {
    run(|| {
        let _ctx = pushed();
        let (module, stream) = (module(), stream());
        let saxpy = function(&module, c"saxpy");
        let mut x = DeviceBuffer::from_slice(&[1.0f32; 32]).unwrap();
        let mut y = DeviceBuffer::from_slice(&[10.0f32; 32]).unwrap();
        let mut all = Saxpy {
            a: 2.0,
            x: x.as_device_ptr().as_raw().addr() as u64,
            y: y.as_device_ptr().as_raw().addr() as u64,
            count: 32,
        };
        let word = |word: usize| without_provenance_mut::<c_void>(word);
        let mut size = LENGTH;
        let mut extra: [*mut c_void; 5] =
            [word(BUFFER), (&raw mut all).cast(), word(SIZE), (&raw mut size).cast(), word(END)];
        assert_eq!(launch(saxpy, stream.as_raw(), null_mut(), extra.as_mut_ptr()), 0);
        stream.synchronize().unwrap();
        assert_eq!(read(&y), [12.0; 32]);

        // One by one and in one piece, more of them than there are, and none.
        let mut parameters = [null_mut(); 4];
        assert_eq!(launch(saxpy, stream.as_raw(), parameters.as_mut_ptr(), extra.as_mut_ptr()), 1);
        *std::hint::black_box(&mut size) = size_of::<Saxpy>();
        assert_eq!(launch(saxpy, stream.as_raw(), null_mut(), extra.as_mut_ptr()), 701);
        *std::hint::black_box(&mut size) = 0;
        assert_eq!(launch(saxpy, stream.as_raw(), null_mut(), extra.as_mut_ptr()), 1);
        let mut nothing: [*mut c_void; 1] = [word(END)];
        assert_eq!(launch(saxpy, stream.as_raw(), null_mut(), nothing.as_mut_ptr()), 1);
        // Those that the program does not give are 0, so that no element is computed.
        *std::hint::black_box(&mut size) = 24;
        assert_eq!(launch(saxpy, stream.as_raw(), null_mut(), extra.as_mut_ptr()), 0);
        stream.synchronize().unwrap();
        assert_eq!(read(&y), [12.0; 32]);
        // An empty list is none.
        parameters = [
            (&raw mut all.a).cast(),
            (&raw mut all.x).cast(),
            (&raw mut all.y).cast(),
            (&raw mut all.count).cast(),
        ];
        assert_eq!(launch(saxpy, stream.as_raw(), parameters.as_mut_ptr(), nothing.as_mut_ptr()), 0);
        stream.synchronize().unwrap();
        assert_eq!(read(&y), [14.0; 32]);
    });
}

#[test]
fn a_kernel_node_takes_its_arguments_in_one_piece() {
    run(|| {
        let _ctx = pushed();
        let (module, stream) = (module(), stream());
        let mut x = DeviceBuffer::from_slice(&[3.0f32; 32]).unwrap();
        let mut y = DeviceBuffer::from_slice(&[1.0f32; 32]).unwrap();
        let mut all = Saxpy {
            a: 5.0,
            x: x.as_device_ptr().as_raw().addr() as u64,
            y: y.as_device_ptr().as_raw().addr() as u64,
            count: 32,
        };
        let word = |word: usize| without_provenance_mut::<c_void>(word);
        let mut size = LENGTH;
        let mut extra: [*mut c_void; 5] =
            [word(BUFFER), (&raw mut all).cast(), word(SIZE), (&raw mut size).cast(), word(END)];
        let params = CUDA_KERNEL_NODE_PARAMS {
            func: function(&module, c"saxpy"),
            gridDimX: 1,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: 32,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            kernelParams: null_mut(),
            extra: extra.as_mut_ptr(),
            kern: null_mut(),
            ctx: null_mut(),
        };
        let t = table();
        let (mut graph, mut node, mut exec) = (null_mut(), null_mut(), null_mut());
        unsafe {
            assert_eq!((t.cuGraphCreate)(&mut graph, 0), 0);
            *std::hint::black_box(&mut size) = LENGTH + 4;
            assert_eq!((t.cuGraphAddKernelNode_v2)(&mut node, graph, std::ptr::null(), 0, &params), 1);
            *std::hint::black_box(&mut size) = LENGTH;
            assert_eq!((t.cuGraphAddKernelNode_v2)(&mut node, graph, std::ptr::null(), 0, &params), 0);
            // They are told as they were given.
            let mut told = params;
            assert_eq!((t.cuGraphKernelNodeGetParams_v2)(node, &mut told), 0);
            assert!(told.kernelParams.is_null() && !told.extra.is_null());
            assert_eq!((t.cuGraphInstantiateWithFlags)(&mut exec, graph, 0), 0);
            // The arguments were copied when the node was made.
            std::hint::black_box(&mut all).a = 100.0;
            assert_eq!((t.cuGraphLaunch)(exec, stream.as_raw()), 0);
            stream.synchronize().unwrap();
            assert_eq!((t.cuGraphExecDestroy)(exec), 0);
            assert_eq!((t.cuGraphDestroy)(graph), 0);
        }
        assert_eq!(read(&y), [16.0; 32]);
    });
}

#[test]
fn occupancy_is_asked_with_flags() {
    run(|| {
        let _ctx = pushed();
        let module = module();
        let kernel = function(&module, c"count_up");
        let ask = table().cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags;
        let mut blocks = 0;
        for flags in [0, 1] {
            assert_eq!(unsafe { ask(&mut blocks, kernel, 256, 0, flags) }, 0);
            assert_eq!(blocks, 8);
        }
        assert_eq!(unsafe { ask(&mut blocks, kernel, 256, 0, 2) }, 1);
        assert_eq!(unsafe { ask(null_mut(), kernel, 256, 0, 0) }, 1);
        assert_eq!(unsafe { ask(&mut blocks, kernel, 0, 0, 0) }, 1);
    });
}

/// The largest block that the driver has asked about, and how often it has asked.
static LARGEST: AtomicI32 = AtomicI32::new(0);
static ASKED: AtomicI32 = AtomicI32::new(0);

extern "C" fn sixty_four_each(block: c_int) -> usize {
    LARGEST.fetch_max(block, Ordering::Relaxed);
    ASKED.fetch_add(1, Ordering::Relaxed);
    block as usize * 64
}

#[test]
fn the_driver_says_with_which_size_of_blocks_most_threads_run_at_once() {
    run(|| {
        let _ctx = pushed();
        let module = module();
        let kernel = function(&module, c"count_up");
        let found = module.get_function(c"count_up").unwrap();
        let most = found.get_attribute(FunctionAttribute::MaxThreadsPerBlock).unwrap();
        let ask = table().cuOccupancyMaxPotentialBlockSize;
        let with = |size, shared, limit| {
            let (mut grid, mut block) = (0, 0);
            let status = unsafe { ask(&mut grid, &mut block, kernel, size, shared, limit) };
            (status, grid, block)
        };
        let processors = crate::harness::device()
            .get_attribute(custack::device::DeviceAttribute::MultiprocessorCount)
            .unwrap();
        let (status, grid, block) = with(None, 0, 0);
        assert_eq!((status, block, grid % processors), (0, most, 0));
        let (status, _, block) = with(None, 0, 100);
        assert!(status == 0 && block > 0 && block <= 100, "{status} {block}");
        // With 64 bytes of each thread 1,024 threads have 64 KiB, which a block has only if it was asked for.
        let (status, grid, block) = with(Some(sixty_four_each), 0, 0);
        assert!(status == 0 && block > 0 && block * 64 <= 49_152, "{status} {block}");
        assert!(grid >= processors);
        assert!(LARGEST.load(Ordering::Relaxed) == most && ASKED.load(Ordering::Relaxed) > 1);
        let (mut grid, mut block) = (7, 7);
        let flags = table().cuOccupancyMaxPotentialBlockSizeWithFlags;
        assert_eq!(unsafe { flags(&mut grid, &mut block, kernel, None, 0, 0, 1) }, 0);
        assert_eq!(block, most);
        assert_eq!(unsafe { flags(&mut grid, &mut block, kernel, None, 0, 0, 2) }, 1);
        assert_eq!(unsafe { ask(null_mut(), &mut block, kernel, None, 0, 0) }, 1);
        assert_eq!(unsafe { ask(&mut grid, null_mut(), kernel, None, 0, 0) }, 1);
    });
}
