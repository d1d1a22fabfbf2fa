//! Tasks on what is made in a context.

use super::{Driver, Handle, LIBRARY, check};
use crate::measure::{Bench, Run};
use crate::tasks::*;
use libloading::{Error, Library};
use std::ffi::{CStr, c_char, c_void};
use std::hint::black_box;
use std::ptr::null_mut;

macro_rules! calls {
    ($($name:ident($($argument:ident: $type:ty),*) = $symbol:literal;)*) => {
        #[derive(Clone, Copy)]
        struct Calls {
            $($name: unsafe extern "C" fn($($type),*) -> u32,)*
        }

        impl Calls {
            fn open() -> Result<Calls, Error> {
                // SAFETY: the driver's own library, and its functions with the signatures of the manual.
                unsafe {
                    let library = Box::leak(Box::new(Library::new("libcuda.so.1")?));
                    Ok(Calls { $($name: *library.get(concat!($symbol, "\0").as_bytes())?,)* })
                }
            }

            $(
                #[allow(clippy::too_many_arguments)] // A launch has eleven.
                #[inline]
                fn $name(&self, $($argument: $type),*) {
                    check(unsafe { (self.$name)($($argument),*) });
                }
            )*
        }
    };
}

calls! {
    stream_create(stream: &mut Handle, flags: u32, priority: i32) = "cuStreamCreateWithPriority";
    stream_destroy(stream: Handle) = "cuStreamDestroy_v2";
    stream_wait(stream: Handle) = "cuStreamSynchronize";
    event_create(event: &mut Handle, flags: u32) = "cuEventCreate";
    event_destroy(event: Handle) = "cuEventDestroy_v2";
    event_record(event: Handle, stream: Handle) = "cuEventRecord";
    event_query(event: Handle) = "cuEventQuery";
    module_load(module: &mut Handle, image: *const c_char) = "cuModuleLoadData";
    module_unload(module: Handle) = "cuModuleUnload";
    module_function(function: &mut Handle, module: Handle, name: *const c_char) = "cuModuleGetFunction";
    launch_kernel(
        function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
        shared: u32, stream: Handle, arguments: *mut *mut c_void, extra: *mut *mut c_void
    ) = "cuLaunchKernel";
    alloc(address: &mut Handle, size: usize) = "cuMemAlloc_v2";
    free(address: Handle) = "cuMemFree_v2";
    alloc_locked(memory: &mut *mut u8, size: usize) = "cuMemAllocHost_v2";
    free_locked(memory: *mut u8) = "cuMemFreeHost";
    alloc_async(address: &mut Handle, size: usize, stream: Handle) = "cuMemAllocAsync";
    free_async(address: Handle, stream: Handle) = "cuMemFreeAsync";
    capture_begin(stream: Handle, mode: u32) = "cuStreamBeginCapture_v2";
    capture_end(stream: Handle, graph: &mut Handle) = "cuStreamEndCapture";
    graph_instantiate(executable: &mut Handle, graph: Handle, flags: u64) = "cuGraphInstantiateWithFlags";
    graph_launch(executable: Handle, stream: Handle) = "cuGraphLaunch";
    graph_destroy(graph: Handle) = "cuGraphDestroy";
    executable_destroy(executable: Handle) = "cuGraphExecDestroy";
    copy(to: Handle, from: *const u8, size: usize, stream: Handle) = "cuMemcpyHtoDAsync_v2";
}

impl Calls {
    fn stream(&self) -> Handle {
        let mut stream = 0;
        self.stream_create(&mut stream, 1, 0);
        stream
    }

    fn is_reached(&self, event: Handle) -> bool {
        const NOT_READY: u32 = 600;
        // SAFETY: the caller has the event.
        unsafe { (self.event_query)(event) != NOT_READY }
    }

    fn event(&self) -> Handle {
        let mut event = 0;
        self.event_create(&mut event, 2);
        event
    }

    fn module(&self) -> Handle {
        self.load(EMPTY_KERNEL)
    }

    fn load(&self, source: &CStr) -> Handle {
        let mut module = 0;
        self.module_load(&mut module, source.as_ptr());
        module
    }

    fn function(&self, module: Handle) -> Handle {
        let mut function = 0;
        self.module_function(&mut function, module, c"empty".as_ptr());
        function
    }

    fn launch(&self, function: Handle, stream: Handle) {
        let (mut a, mut b) = (0u64, 1u32);
        let mut arguments = [(&raw mut a).cast(), (&raw mut b).cast()];
        self.launch_kernel(function, 1, 1, 1, 32, 1, 1, 0, stream, arguments.as_mut_ptr(), null_mut());
    }

    fn launch_graph(&self, kernels: usize, run: &Run) {
        const THREAD_LOCAL: u32 = 1;
        let (module, stream) = (self.module(), self.stream());
        let empty = self.function(module);
        let (mut graph, mut executable) = (0, 0);
        self.capture_begin(stream, THREAD_LOCAL);
        (0..kernels).for_each(|_| self.launch(empty, stream));
        self.capture_end(stream, &mut graph);
        self.graph_instantiate(&mut executable, graph, 0);
        run.time_and_wait(|| self.graph_launch(executable, stream), || self.stream_wait(stream));
        self.executable_destroy(executable);
        self.graph_destroy(graph);
        self.stream_destroy(stream);
        self.module_unload(module);
    }

    fn buffer(&self) -> Handle {
        let mut address = 0;
        self.alloc(&mut address, SIZE);
        address
    }
}

type Task = (&'static str, fn(&Calls, &Run));

pub fn benches(driver: Driver, context: Handle) -> Result<Vec<Bench>, Error> {
    let calls = Calls::open()?;
    let tasks: [Task; 12] = [
        (LAUNCH, |calls, run| {
            let (module, stream) = (calls.module(), calls.stream());
            let empty = calls.function(module);
            run.time(|| calls.launch(empty, stream));
            calls.stream_wait(stream);
            calls.stream_destroy(stream);
            calls.module_unload(module);
        }),
        (RECORD, |calls, run| {
            let (stream, event) = (calls.stream(), calls.event());
            run.time_and_wait(|| calls.event_record(event, stream), || calls.stream_wait(stream));
            calls.event_destroy(event);
            calls.stream_destroy(stream);
        }),
        (PASSED, |calls, run| {
            let (stream, event) = (calls.stream(), calls.event());
            calls.event_record(event, stream);
            calls.stream_wait(stream);
            run.time(|| calls.event_query(event));
            calls.event_destroy(event);
            calls.stream_destroy(stream);
        }),
        (IDLE, |calls, run| {
            let stream = calls.stream();
            run.time(|| calls.stream_wait(stream));
            calls.stream_destroy(stream);
        }),
        (STREAM, |calls, run| {
            let beside = calls.stream();
            run.time(|| calls.stream_destroy(black_box(calls.stream())));
            calls.stream_destroy(beside);
        }),
        (FUNCTION, |calls, run| {
            let module = calls.module();
            run.time(|| {
                black_box(calls.function(module));
            });
            calls.module_unload(module);
        }),
        (LAUNCH_NAMED, |calls, run| {
            let (module, stream) = (calls.module(), calls.stream());
            run.time_and_wait(|| calls.launch(calls.function(module), stream), || calls.stream_wait(stream));
            calls.stream_destroy(stream);
            calls.module_unload(module);
        }),
        (COPY, |calls, run| {
            let (stream, to) = (calls.stream(), calls.buffer());
            let mut from = null_mut();
            calls.alloc_locked(&mut from, SIZE);
            run.time_and_wait(|| calls.copy(to, from, SIZE, stream), || calls.stream_wait(stream));
            calls.free_locked(from);
            calls.free(to);
            calls.stream_destroy(stream);
        }),
        (BUFFER, |calls, run| {
            // The driver maps memory in larger pieces; this keeps one mapped.
            let beside = calls.buffer();
            run.time(|| calls.free(black_box(calls.buffer())));
            calls.free(beside);
        }),
        (AWAITED, |calls, run| {
            let (module, stream, event) = (calls.module(), calls.stream(), calls.event());
            let empty = calls.function(module);
            // The cheapest way of all, at the price of a core for each waiting thread: the event is asked for all the time.
            run.time(|| {
                calls.launch(empty, stream);
                calls.event_record(event, stream);
                while !calls.is_reached(event) {}
            });
            calls.event_destroy(event);
            calls.stream_destroy(stream);
            calls.module_unload(module);
        }),
        (LONG, |calls, run| {
            let (module, stream, event) = (calls.load(LONG_KERNEL), calls.stream(), calls.event());
            let mut long = 0;
            calls.module_function(&mut long, module, c"long".as_ptr());
            run.time(|| {
                calls.launch_kernel(long, 1, 1, 1, 1, 1, 1, 0, stream, null_mut(), null_mut());
                calls.event_record(event, stream);
                while !calls.is_reached(event) {}
            });
            calls.event_destroy(event);
            calls.stream_destroy(stream);
            calls.module_unload(module);
        }),
        (ORDERED, |calls, run| {
            let stream = calls.stream();
            let buffer = || {
                let mut address = 0;
                calls.alloc_async(&mut address, SIZE, stream);
                address
            };
            let beside = buffer();
            run.time_and_wait(|| calls.free_async(black_box(buffer()), stream), || calls.stream_wait(stream));
            calls.free_async(beside, stream);
            calls.stream_destroy(stream);
        }),
    ];
    let in_context = |(task, work): Task| {
        let context = if IN_PRIMARY.contains(&task) { driver.primary() } else { context };
        Bench::new(task, LIBRARY, move |run| {
            driver.push(context);
            work(&calls, run);
            driver.pop();
        })
    };
    let graph = |(task, kernels): (&'static str, usize)| {
        Bench::new(task, LIBRARY, move |run| {
            driver.push(context);
            calls.launch_graph(kernels, run);
            driver.pop();
        })
    };
    Ok(tasks.map(in_context).into_iter().chain(GRAPHS.map(graph)).collect())
}
