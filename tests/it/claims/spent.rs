//! What a failed drop gives back is spent: it is used without a driver call, which might reach what others have by now,
//! and is not destroyed again.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::driver::process::child_succeeds;
use crate::harness::{device, parked, pushed, run};
use crate::library::CODE;
use crate::module::KERNELS;
use crate::stream::stream;
use crate::tidy::{files, has_source};
use custack::context::*;
use custack::driver::instrument::{self, When};
use custack::error::{CudaError, CudaResult, DropResult};
use custack::event::{Event, EventFlags};
use custack::graph::{Graph, GraphExec, InstantiateFlags};
use custack::library::Library;
use custack::memory::array::{ArrayDescriptor, ArrayFormat, ArrayObject, ArrayObjectFlags};
use custack::memory::*;
use custack::module::{JitOptions, Module};
use custack::sim;
use custack::stream::{CaptureMode, Stream, StreamFlags};
use custack::texture::{Surface, Texture, TextureDescriptor};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The file of each owner, and its test.
const OWNERS: &[(&str, fn())] = &[
    ("context/green.rs", green_context),
    ("context/owned.rs", context),
    ("context/primary.rs", primary_context),
    ("event/mod.rs", event),
    ("graph/exec.rs", executable),
    ("graph/mod.rs", graph),
    ("library/mod.rs", library),
    ("memory/array.rs", array),
    ("memory/device_box.rs", device_box),
    ("memory/device_buffer.rs", device_buffer),
    // In the process that opens memory of another one: `memory::interprocess::open`.
    ("memory/interprocess.rs", || ()),
    ("memory/locked.rs", locked_buffer),
    ("memory/pitched.rs", pitched_buffer),
    ("memory/pool.rs", pool),
    ("memory/registered.rs", registered_slice),
    ("memory/unified.rs", unified_box),
    ("memory/unified_buffer.rs", unified_buffer),
    ("module/mod.rs", module),
    ("stream/mod.rs", a_stream),
    ("texture/object.rs", texture),
    ("texture/surface.rs", surface),
];

/// Drops what this makes by hand, where the function fails before its work, and after it. Others are made then, so that
/// they may have the same handle or address. `using` uses what came back.
#[track_caller]
pub(crate) fn spent<T>(
    function: &str,
    make: impl Fn() -> T,
    drop_it: impl Fn(T) -> DropResult<T>,
    using: impl Fn(&mut T),
) {
    for (when, by_hand) in
        [(When::Before, true), (When::After, true), (When::Before, false), (When::After, false)]
    {
        let value = make();
        // Often enough for what is tried again until the context counts as lost.
        instrument::fail_times(Some(function), 1, 100, 719, when);
        let (error, mut value) = drop_it(value).err().unwrap();
        instrument::disarm();
        assert_eq!(error, CudaError::LaunchFailed, "{function}, {when:?}");
        let other = make();
        let ((), calls) = instrument::during(|| using(&mut value));
        // What looks only at the stack reaches nothing.
        assert_eq!(calls.total(), calls.of("cuCtxGetCurrent"), "{function}, {when:?}: {calls}");
        let (result, calls) = instrument::during(|| {
            if by_hand {
                return drop_it(value);
            }
            drop(value);
            Ok(())
        });
        // A call that does more than to destroy is refused.
        let error = result.err().map(|(error, _)| error);
        assert!(
            error.is_none_or(|error| error == CudaError::InvalidHandle),
            "{function}, {when:?}: {error:?}"
        );
        assert_eq!(calls.of(function), 0, "{function}, {when:?}: {calls}");
        assert!(drop_it(other).is_ok(), "{function}, {when:?}: the other one is not touched");
    }
}

#[test]
fn what_a_failed_drop_gives_back_is_spent() {
    // In a process of its own, because it loses what the driver did not destroy.
    child_succeeds("spent", &[]);
}

/// The body of that process.
pub(crate) fn scenario() {
    run(|| {
        sim::reuse_handles(true);
        sim::reuse_addresses(true);
        let _ctx = pushed();
        for (owner, test) in OWNERS {
            println!("{owner}");
            test();
        }
        assert_eq!(ContextStack::depth(), 1);
    });
}

#[test]
fn every_owner_that_can_be_dropped_by_hand_is_tested() {
    if !has_source("every_owner_that_can_be_dropped_by_hand_is_tested") {
        return;
    }
    let sources = files("src", ".rs").into_iter().filter(|(_, text)| text.contains("pub fn drop("));
    let owners: BTreeSet<String> = sources.map(|(name, _)| name["src/".len()..].to_owned()).collect();
    assert!(owners.iter().eq(OWNERS.iter().map(|(file, _)| file)), "{owners:?}");
}

#[track_caller]
fn invalid<T>(result: CudaResult<T>) {
    assert_eq!(result.err(), Some(CudaError::InvalidHandle));
}

#[track_caller]
fn destroyed<T>(result: CudaResult<T>) {
    assert_eq!(result.err(), Some(CudaError::ContextIsDestroyed));
}

/// No memory is at such an address.
fn is_none<T>(address: *const T) -> bool {
    address.addr() <= std::mem::align_of::<T>()
}

fn device_buffer() {
    let home = stream();
    let plain = || DeviceBuffer::from_slice(&[1u32; 8]).unwrap();
    let ordered = || DeviceBuffer::from_slice_in(&[1u32; 8], &home).unwrap();
    let using = |buffer: &mut DeviceBuffer<u32>| {
        assert!(buffer.is_empty() && buffer[..].is_empty() && buffer.context().is_null());
        assert!(is_none(buffer.as_ptr()) && is_none(buffer.as_device_ptr().as_raw()));
        buffer.fill(7).unwrap();
        buffer.copy_from(&[]).unwrap();
        buffer.copy_to(&mut [0u32; 0]).unwrap();
        buffer.also_used_in(&home).unwrap();
        buffer.move_to(&home).unwrap();
        assert_eq!(buffer.ipc_handle(), Err(CudaError::InvalidValue));
        assert!(Texture::of_buffer(&*buffer, &TextureDescriptor::new()).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| buffer[..1].len())).is_err());
    };
    spent("cuMemFree_v2", plain, DeviceBuffer::drop, using);
    spent("cuMemFreeAsync", ordered, DeviceBuffer::drop, using);
    spent("cuMemFreeAsync", ordered, |buffer| DeviceBuffer::free_in(buffer, &home), using);
}

fn device_box() {
    let home = stream();
    let using = |value: &mut DeviceBox<u32>| {
        assert!(is_none(value.as_device_ptr().as_raw()));
        invalid(value.copy_from(&1));
        invalid(value.copy_to(&mut 1));
        invalid(value.fill(1));
        value.also_used_in(&home).unwrap();
    };
    spent("cuMemFree_v2", || DeviceBox::new(&1u32).unwrap(), DeviceBox::drop, using);
    spent("cuMemFreeAsync", || DeviceBox::new_in(&1u32, &home).unwrap(), DeviceBox::drop, using);
}

fn pitched_buffer() {
    let make = || PitchedBuffer::from_slice(&[1u32; 6], 3).unwrap();
    spent("cuMemFree_v2", make, PitchedBuffer::drop, |rows| {
        assert!(rows.height() == 0 && is_none(rows.as_device_ptr().as_raw()));
        rows.fill(1).unwrap();
        rows.copy_from(&[]).unwrap();
        rows.copy_to(&mut []).unwrap();
        assert!(catch_unwind(AssertUnwindSafe(|| rows.row(0).len())).is_err());
        assert!(Texture::of_rows(&*rows, &TextureDescriptor::new()).is_err());
    });
}

fn unified_box() {
    spent(
        "cuMemFree_v2",
        || UnifiedBox::new(1u32).unwrap(),
        UnifiedBox::drop,
        |value| {
            assert!(is_none(value.as_unified_ptr().as_raw()));
            assert!(catch_unwind(AssertUnwindSafe(|| **value)).is_err());
            assert!(catch_unwind(AssertUnwindSafe(|| **value = 2)).is_err());
        },
    );
}

fn unified_buffer() {
    spent(
        "cuMemFree_v2",
        || UnifiedBuffer::new(&1u32, 9).unwrap(),
        UnifiedBuffer::drop,
        |buffer| {
            assert!(buffer.is_empty() && is_none(buffer.as_unified_ptr().as_raw()));
            buffer.fill(7);
        },
    );
}

fn locked_buffer() {
    spent(
        "cuMemFreeHost",
        || LockedBuffer::new(&1u32, 9).unwrap(),
        LockedBuffer::drop,
        |buffer| {
            assert!(buffer.is_empty() && is_none(buffer.as_ptr()));
            assert!(is_none(buffer.as_device_ptr().unwrap().as_raw()));
            assert_eq!(buffer.flags(), Ok(LockedFlags::empty()));
            buffer.fill(7);
        },
    );
}

fn registered_slice() {
    let make = || {
        // It may stay page-locked.
        let slice = Box::leak(vec![1u32; 2000].into_boxed_slice());
        unsafe { RegisteredSlice::new(slice, RegisterFlags::empty()) }.unwrap()
    };
    spent("cuMemHostUnregister", make, RegisteredSlice::drop, |slice| {
        assert!(is_none(slice.as_device_ptr().unwrap().as_raw()));
        // It is the program's own memory.
        slice.fill(2);
        assert_eq!(slice.len(), 2000);
    });
}

fn array() {
    let written = ArrayDescriptor::new([4, 0, 0], ArrayFormat::Float, 1, ArrayObjectFlags::SURFACE_LDST);
    let make = || ArrayObject::from_descriptor(&written).unwrap();
    spent("cuArrayDestroy", make, ArrayObject::drop, |array| {
        invalid(array.descriptor());
        invalid(array.copy_from(&[1.0f32; 4]));
        invalid(array.copy_to(&mut [1.0f32; 4]));
        invalid(Texture::new(&*array, &TextureDescriptor::new()));
        invalid(Surface::new(&*array));
    });
}

fn texture() {
    let array = ArrayObject::new_1d(4, ArrayFormat::Float, 1).unwrap();
    let make = || Texture::new(&array, &TextureDescriptor::new()).unwrap();
    let using = |texture: &mut Texture<&ArrayObject>| {
        assert_eq!((texture.as_raw(), texture.context().is_null()), (0, true));
        invalid(texture.descriptor());
        invalid(texture.resource());
    };
    spent("cuTexObjectDestroy", make, Texture::drop, using);
    spent("cuTexObjectDestroy", make, |texture| texture.into_source().map(drop), using);
}

fn surface() {
    let written = ArrayDescriptor::new([4, 0, 0], ArrayFormat::Float, 1, ArrayObjectFlags::SURFACE_LDST);
    let array = ArrayObject::from_descriptor(&written).unwrap();
    let make = || Surface::new(&array).unwrap();
    let using = |surface: &mut Surface<&ArrayObject>| {
        assert_eq!((surface.as_raw(), surface.context().is_null()), (0, true));
        invalid(surface.resource());
    };
    spent("cuSurfObjectDestroy", make, Surface::drop, using);
    spent("cuSurfObjectDestroy", make, |surface| surface.into_array().map(drop), using);
}

fn pool() {
    let home = stream();
    let make = || MemoryPool::new(device(), &PoolProperties::new()).unwrap();
    spent("cuMemPoolDestroy", make, MemoryPool::drop, |pool| {
        assert!(pool.as_raw().is_null());
        invalid(pool.usage());
        invalid(pool.trim_to(0));
        invalid(pool.make_current());
        invalid(DeviceBuffer::from_slice_in(&[1], (&*pool, &home)));
    });
}

fn module() {
    let text = CString::new(KERNELS).unwrap();
    spent(
        "cuModuleUnload",
        || Module::load_from_string(&text).unwrap(),
        Module::drop,
        |module| {
            invalid(module.get_function(c"saxpy"));
            invalid(module.get_global::<u32>(c"answer"));
        },
    );
}

fn library() {
    let ctx = CurrentContext::get_current().unwrap();
    let make = || Library::load(CODE.as_bytes(), &JitOptions::new()).unwrap();
    // A driver compiles at the first use.
    let make = || make().kernel_count().map(|_| make()).unwrap();
    spent("cuLibraryUnload", make, Library::drop, |library| {
        invalid(library.kernel_count());
        invalid(library.managed::<u32>(c"shared_by_all"));
        invalid(library.clone().kernel(c"count"));
        let before = library.global_in::<u32>(&ctx, c"answer");
        invalid(before);
    });
}

fn event() {
    let stream = stream();
    spent(
        "cuEventDestroy_v2",
        || Event::new(EventFlags::DEFAULT).unwrap(),
        Event::drop,
        |event| {
            invalid(event.record(&stream));
            invalid(event.query());
            invalid(event.synchronize());
            invalid(event.elapsed_time_f32(event));
        },
    );
}

fn a_stream() {
    let event = Event::new(EventFlags::DEFAULT).unwrap();
    let using = |spent: &mut Stream| {
        invalid(spent.synchronize());
        invalid(spent.is_done());
        invalid(spent.get_flags());
        invalid(spent.launch_host_func(|| ()));
        invalid(event.record(spent));
        invalid(DeviceBuffer::from_slice_in(&[1], &*spent));
        invalid(spent.capture(CaptureMode::Relaxed, |_| Ok(())));
    };
    let make = || Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
    spent("cuStreamDestroy_v2", make, Stream::drop, using);
    spent("cuStreamDestroy_v2", make, Stream::shutdown, using);
}

fn made_graph() -> Graph {
    let mut graph = Graph::new(&CurrentContext::get_current().unwrap()).unwrap();
    graph.add_empty(&[]).unwrap();
    graph
}

fn graph() {
    spent("cuGraphDestroy", made_graph, Graph::drop, |graph| {
        invalid(graph.add_empty(&[]));
        invalid(graph.try_clone());
        invalid(graph.keep(1));
        invalid(graph.instantiate(InstantiateFlags::empty()));
    });
}

fn executable() {
    let (stream, graph) = (stream(), std::cell::RefCell::new(made_graph()));
    let make = || graph.borrow_mut().instantiate(InstantiateFlags::empty()).unwrap();
    spent("cuGraphExecDestroy", make, GraphExec::drop, |executable| {
        invalid(executable.launch(&stream));
        invalid(executable.upload(&stream));
        invalid(executable.flags());
        assert!(executable.update(&mut graph.borrow_mut()).is_err());
    });
}

fn context() {
    spent("cuCtxDestroy_v2", parked, Context::drop, |context| {
        destroyed(context.synchronize());
        destroyed(context.enter());
        destroyed(context.device_buffer(&[1]));
        destroyed(context.get_unowned().get_api_version());
        destroyed(ContextStack::push(context));
    });
}

fn primary_context() {
    spent(
        "cuDevicePrimaryCtxRelease_v2",
        || PrimaryContext::retain(device()).unwrap(),
        PrimaryContext::drop,
        |it| {
            destroyed(it.synchronize());
            destroyed(it.enter());
            destroyed(it.device_buffer(&[1]));
            destroyed(ContextStack::push(it));
        },
    );
}

fn green_context() {
    let event = Event::new(EventFlags::DEFAULT).unwrap();
    let part = device().sm_resource().unwrap().split(1, 8).unwrap().groups[0];
    spent(
        "cuGreenCtxDestroy",
        || GreenContext::new(&part).unwrap(),
        GreenContext::drop,
        |green| {
            destroyed(green.enter());
            destroyed(green.create_stream(None));
            destroyed(green.synchronize());
            destroyed(green.sm_resource());
            destroyed(green.record_event(&event));
        },
    );
}
