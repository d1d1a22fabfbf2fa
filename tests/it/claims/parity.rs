//! Capabilities and guarantees that users of other crates know, by the names they have here.

use crate::harness::{current, device, parked, pushed, run, run_alone};
use crate::module::KERNELS;
use custack::context::{Context, ContextFlags, ContextStack, CurrentContext, PrimaryContext};
use custack::driver::instrument::{self, When};
use custack::error::CudaError;
use custack::event::{Event, EventFlags};
use custack::graph::{Graph, InstantiateFlags};
use custack::library::Library;
use custack::memory::array::{ArrayDescriptor, ArrayFormat, ArrayObject, ArrayObjectFlags};
use custack::memory::{DeviceBuffer, LockedBuffer, MemoryPool, PoolProperties};
use custack::module::{JitOptions, Module};
use custack::stream::{Stream, StreamFlags};
use custack::texture::{Surface, Texture, TextureDescriptor};
use std::sync::Arc;

#[test]
fn a_context_is_shared_in_an_arc() {
    run(|| {
        let ctx = Arc::new(parked());
        let other = Arc::clone(&ctx);
        std::thread::spawn(move || other.synchronize().unwrap()).join().unwrap();
        ctx.synchronize().unwrap();
    });
}

#[test]
fn a_context_is_created_on_the_device_of_the_current_one() {
    run(|| {
        let _base = pushed();
        let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, CurrentContext::get_device().unwrap())
            .unwrap();
        assert_eq!(ctx.device(), Ok(device()));
    });
}

#[test]
fn a_primary_context_is_retained_and_made_current() {
    run_alone(|| {
        let primary = PrimaryContext::retain(device()).unwrap();
        CurrentContext::set_current(&primary).unwrap();
        assert!(primary.is_current().unwrap());
        drop(primary);
        assert!(current().is_null());
    });
}

#[test]
fn a_retain_is_released_if_making_it_current_fails() {
    run_alone(|| {
        let retain_and_set = || {
            let primary = PrimaryContext::retain(device())?;
            CurrentContext::set_current(&primary)?;
            Ok(primary)
        };
        instrument::fail(Some("cuCtxSetCurrent"), 1, 719, When::Before);
        assert_eq!(retain_and_set().err(), Some(CudaError::LaunchFailed));
        assert!(!PrimaryContext::state(device()).unwrap().active);
        assert!(current().is_null());
    });
}

#[test]
fn synchronising_does_not_switch_the_thread() {
    run(|| {
        let (a, b) = (parked(), pushed());
        a.synchronize().unwrap();
        assert_eq!(current(), b.as_raw());
    });
}

#[test]
fn an_error_in_a_drop_is_not_returned_by_the_next_call() {
    run(|| {
        let (a, b) = (parked(), parked());
        let guard = a.enter().unwrap();
        instrument::fail(Some("cuCtxPopCurrent_v2"), 1, 719, When::Before);
        drop(guard);
        assert_eq!(b.synchronize(), Ok(()));
        assert_eq!(CurrentContext::get_current().map(|none| none.is_null()), Ok(true));
    });
}

#[test]
fn a_failed_init_is_tried_again() {
    run(|| {
        instrument::fail(Some("cuInit"), 1, 999, When::Before);
        assert_eq!(custack::init(custack::CudaFlags::empty()), Err(CudaError::UnknownError));
        assert_eq!(custack::init(custack::CudaFlags::empty()), Ok(()));
    });
}

#[test]
fn printing_calls_no_driver() {
    run(|| {
        let ctx = pushed();
        let gone = parked().get_unowned();
        let error = ContextStack::push(&gone).unwrap_err();
        let (_, calls) =
            instrument::during(|| format!("{ctx:?} {ctx} {error:?} {error} {:?}", ctx.get_unowned()));
        assert_eq!(calls.total(), 0);
    });
}

#[test]
fn the_raw_current_context_is_an_option_away() {
    run(|| {
        let raw = || {
            Some(CurrentContext::get_current().unwrap()).filter(|ctx| !ctx.is_null()).map(|ctx| ctx.as_raw())
        };
        assert_eq!(raw(), None);
        let ctx = pushed();
        assert_eq!(raw(), Some(ctx.as_raw()));
    });
}

#[test]
fn an_error_of_the_scope_is_not_hidden_by_one_of_the_restoring() {
    run(|| {
        let ctx = parked();
        let result = ctx.scoped::<()>(|_| {
            instrument::fail(Some("cuCtxPopCurrent_v2"), 1, 719, When::Before);
            Err(CudaError::NotReady)
        });
        assert_eq!(result, Err(CudaError::NotReady));
        assert!(current().is_null());
    });
}

type Making = fn() -> Box<dyn std::any::Any>;

/// What has a destructor that calls the driver, by the function that it calls.
const DESTROYED: [(&str, Making); 11] = [
    ("cuStreamDestroy_v2", || Box::new(Stream::new(StreamFlags::NON_BLOCKING, None).unwrap())),
    ("cuEventDestroy_v2", || Box::new(Event::new(EventFlags::DEFAULT).unwrap())),
    ("cuModuleUnload", || Box::new(Module::load_from_bytes(KERNELS.as_bytes()).unwrap())),
    ("cuLibraryUnload", || Box::new(Library::load(KERNELS.as_bytes(), &JitOptions::new()).unwrap())),
    ("cuMemFree_v2", || Box::new(DeviceBuffer::from_slice(&[1u8]).unwrap())),
    ("cuMemFreeHost", || Box::new(LockedBuffer::new(&1u8, 1).unwrap())),
    ("cuMemPoolDestroy", || Box::new(MemoryPool::new(device(), &PoolProperties::new()).unwrap())),
    ("cuTexObjectDestroy", || {
        let array = ArrayObject::new_1d(4, ArrayFormat::Float, 1).unwrap();
        Box::new(Texture::new(array, &TextureDescriptor::new()).unwrap())
    }),
    ("cuSurfObjectDestroy", || {
        let flags = ArrayObjectFlags::SURFACE_LDST;
        let written = ArrayDescriptor::new([4, 0, 0], ArrayFormat::Float, 1, flags);
        Box::new(Surface::new(ArrayObject::from_descriptor(&written).unwrap()).unwrap())
    }),
    ("cuGraphDestroy", || Box::new(Graph::new(&CurrentContext::get_current().unwrap()).unwrap())),
    ("cuGraphExecDestroy", || {
        let mut graph = Graph::new(&CurrentContext::get_current().unwrap()).unwrap();
        Box::new(graph.instantiate(InstantiateFlags::empty()).unwrap())
    }),
];

#[test]
fn no_error_in_the_drop_of_anything_is_returned_by_another_call_or_changes_what_is_current() {
    run_alone(|| {
        let (ctx, above) = (parked(), pushed());
        let other = above.create_stream(StreamFlags::NON_BLOCKING, None).unwrap();
        for (function, make) in DESTROYED {
            for when in [When::Before, When::After] {
                let thing = ctx.scoped(|_| Ok(make())).unwrap();
                instrument::fail(Some(function), 1, 719, when);
                let said = crate::report::reported(|| drop(thing));
                assert!(!instrument::disarm(), "{function} was called");
                assert_eq!(said.len(), 1, "{function} {when:?}: {said:?}");
                assert_eq!(current(), above.as_raw(), "{function} {when:?}");
                let (next, calls) = instrument::during(|| other.synchronize());
                assert_eq!((next, calls.to_string().as_str()), (Ok(()), "cuStreamSynchronize"));
                assert_eq!(ctx.synchronize(), Ok(()));
            }
        }
    });
}
