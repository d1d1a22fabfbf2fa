//! The tables of other crates' names, in the pages of streams and of contexts: each path in them exists, is called here,
//! and does what is expected of it.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::harness::{current, parked, pushed, run};
use crate::module::KERNELS;
use custack::context::UnownedContext;
use custack::error::{CudaError, CudaResult};
use custack::event::{Event, EventFlags, EventStatus};
use custack::future::Completion;
use custack::graph::{Capture, Dependencies, EdgeData, Graph, InstantiateFlags, Recordable};
use custack::library::Library;
use custack::module::{JitOptions, Module};
use custack::nvrtc::{OutputKind, Program};
use custack::stream::{
    BorrowedStream, CaptureMode, CaptureStatus, LegacyStream, PerThreadStream, Stream, StreamFlags,
    StreamWaitEventFlags, SyncScope, ThreadCaptureMode,
};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

const STREAMS: &str = include_str!("../../../src/stream/names.md");
const PROGRAMS: &str = include_str!("../../../src/nvrtc/names.md");
const CONTEXTS: &str = include_str!("../../../src/context/names.md");

type Seen = RefCell<BTreeSet<&'static str>>;

/// Calls a function by its path, and notes the path.
macro_rules! call {
    ($seen:ident, $ty:ident::$method:ident($($args:tt)*)) => {{
        $seen.borrow_mut().insert(concat!(stringify!($ty), "::", stringify!($method)));
        $ty::$method($($args)*)
    }};
}

fn add(count: &AtomicUsize, more: usize) {
    count.fetch_add(more, Ordering::SeqCst);
}

/// Notes types, which exist if this compiles.
macro_rules! types {
    ($seen:ident, $($ty:ident),*) => {$({
        #[allow(unused_imports, reason = "that it can be imported is what is tested")]
        use self::$ty as _;
        $seen.borrow_mut().insert(stringify!($ty));
    })*};
}

/// The rows of a table, by column; the table is behind this heading.
fn rows(page: &'static str, heading: &str) -> Vec<[&'static str; 3]> {
    let begins = page.find(heading).unwrap_or_else(|| panic!("{heading} is gone"));
    let lines = page[begins..].lines().skip_while(|line| !line.starts_with('|'));
    let rows = lines.take_while(|line| line.starts_with('|')).skip(2);
    let rows: Vec<_> = rows
        .map(|line| {
            let columns: Vec<_> = line.trim_matches('|').split('|').collect();
            columns.try_into().unwrap_or_else(|columns| panic!("{columns:?} are not three columns"))
        })
        .collect();
    assert!(!rows.is_empty());
    rows
}

/// Fails unless the table links exactly to these paths, and names functions that the driver's table has.
#[track_caller]
fn holds(page: &'static str, heading: &str, seen: Seen) {
    let rows = rows(page, heading);
    let linked = rows.iter().flat_map(|[_, here, _]| here.split("[`").skip(1));
    let linked: BTreeSet<_> = linked.map(|link| link.split("`]").next().unwrap()).collect();
    assert_eq!(linked, seen.into_inner(), "the table and what this test calls");
    for function in rows.iter().flat_map(|[.., functions]| functions.split('`').skip(1).step_by(2)) {
        assert!(custack::driver::FUNCTIONS.contains(&function), "{function} is no function of the table");
    }
}

#[test]
fn streams_do_what_those_of_other_crates_do_under_the_names_of_the_table() {
    run(|| {
        let seen = Seen::default();
        types!(seen, Stream, BorrowedStream, SyncScope, StreamFlags, StreamWaitEventFlags);
        let ctx = pushed();
        let raw = call!(seen, Stream::into_raw(Stream::new(StreamFlags::NON_BLOCKING, Some(-1)).unwrap()));
        let stream = &mut unsafe { call!(seen, Stream::from_raw(raw)) }.unwrap();
        assert_eq!(call!(seen, Stream::as_raw(stream)), raw);
        assert_eq!(call!(seen, Stream::get_flags(stream)), Ok(StreamFlags::NON_BLOCKING));
        assert_eq!(call!(seen, Stream::get_priority(stream)), Ok(-1));
        let other = Stream::new(StreamFlags::DEFAULT, None).unwrap();
        assert_ne!(call!(seen, Stream::id(stream)), other.id());
        assert_eq!(call!(seen, Stream::device(stream)), ctx.device());
        assert_eq!(call!(seen, Stream::context(stream)), &ctx.get_unowned());
        {
            let borrowed = call!(seen, Stream::to_borrowed(stream));
            let by_handle = unsafe { call!(seen, BorrowedStream::from_raw(raw)) }.unwrap();
            assert!(*borrowed == *by_handle && *borrowed.clone() == *stream && *borrowed != other);
        }
        let legacy = call!(seen, LegacyStream::of(&ctx));
        let mine = call!(seen, PerThreadStream::of(&ctx));
        assert!(*legacy == *legacy.clone() && *mine == *mine.clone() && *legacy != *mine);

        let count = Arc::new(AtomicUsize::new(0));
        let counts = |count: &Arc<AtomicUsize>| {
            let count = Arc::clone(count);
            move || add(&count, 1)
        };
        call!(
            seen,
            Stream::sync_scope(stream, |scope| {
                call!(seen, SyncScope::launch_host_func(scope, || add(&count, 1)))
            })
        )
        .unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 1);
        let (go, wait) = channel::<()>();
        call!(seen, Stream::launch_host_func(stream, move || wait.recv().unwrap())).unwrap();
        let event = Event::new(EventFlags::DEFAULT).unwrap();
        event.record(stream).unwrap();
        call!(seen, Stream::wait_event(&other, &event, StreamWaitEventFlags::DEFAULT)).unwrap();
        let called = counts(&count);
        call!(seen, Stream::add_callback(&other, Box::new(move |_| called()))).unwrap();
        assert_eq!(call!(seen, Stream::is_done(&other)), Ok(false));
        go.send(()).unwrap();
        call!(seen, Stream::synchronize(&other)).unwrap();
        assert_eq!((call!(seen, Stream::is_done(&other)), count.load(Ordering::SeqCst)), (Ok(true), 2));
        assert!(call!(seen, Stream::shutdown(other)).is_ok());
        holds(STREAMS, "## Streams", seen);
    });
}

/// Work that is recorded.
struct Counts(Arc<AtomicUsize>);

impl Recordable for Counts {
    fn record(self, capture: &Capture<'_>) -> CudaResult<()> {
        capture.launch_host_func(move || add(&self.0, 1))
    }
}

#[test]
fn captures_do_what_those_of_other_crates_do_under_the_names_of_the_table() {
    run(|| {
        let seen = Seen::default();
        types!(
            seen,
            Capture,
            CaptureMode,
            CaptureStatus,
            Dependencies,
            EdgeData,
            InstantiateFlags,
            Recordable
        );
        let ctx = pushed();
        let mut stream = Stream::new(StreamFlags::DEFAULT, None).unwrap();
        let count = Arc::new(AtomicUsize::new(0));
        let local = CaptureMode::ThreadLocal;

        unsafe { call!(seen, Stream::begin_capture(&stream, local)) }.unwrap();
        assert_eq!(call!(seen, Stream::capture_status(&stream)), Ok(CaptureStatus::Active));
        assert!(call!(seen, Stream::capture_id(&stream)).unwrap().is_some());
        let first = call!(seen, Stream::capture_dependencies(&stream)).unwrap();
        call!(seen, Stream::update_capture_dependencies(&stream, Dependencies::Set, &first)).unwrap();
        // The legacy stream would wait for this one. The answer breaks nothing.
        let legacy = LegacyStream::of(&ctx);
        assert_eq!(legacy.capture_status(), Err(CudaError::StreamCaptureImplicit));
        assert_eq!(legacy.capture_id(), Err(CudaError::StreamCaptureImplicit));
        assert_eq!(stream.capture_status(), Ok(CaptureStatus::Active));
        let mut empty = unsafe { call!(seen, Stream::end_capture(&stream)) }.unwrap();
        assert_eq!(empty.nodes(), Ok(vec![]));
        unsafe { call!(seen, Stream::begin_capture_into(&stream, empty, &[], local)) }.unwrap();
        assert_eq!(unsafe { stream.end_capture() }.unwrap().nodes(), Ok(vec![]));

        let capturing = |capture: &Capture<'_>| {
            call!(seen, Capture::record(capture, Counts(Arc::clone(&count))))?;
            let first = call!(seen, Capture::dependencies(capture))?;
            let more = Arc::clone(&count);
            call!(seen, Capture::launch_host_func(capture, move || add(&more, 10)))?;
            call!(seen, Capture::update_dependencies(capture, Dependencies::Add, &first))
        };
        let mut graph = call!(seen, Stream::capture(&mut stream, local, capturing)).unwrap();
        let nodes = graph.nodes().unwrap();
        assert_eq!(nodes.len(), 2);
        let after = nodes.into_iter().map(|node| (node, EdgeData::default())).collect::<Vec<_>>();
        let recording = |capture: &Capture<'_>| capture.record(Counts(Arc::clone(&count)));
        call!(seen, Stream::capture_into(&mut stream, &mut graph, &after, local, recording)).unwrap();
        let last = graph.nodes().unwrap()[2];
        assert_eq!(graph.dependencies(last).unwrap().len(), 2);
        graph.instantiate(InstantiateFlags::empty()).unwrap().launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 12);

        let flags = InstantiateFlags::AUTO_FREE_ON_LAUNCH;
        let mut executable =
            call!(seen, Stream::capture_executable(&mut stream, local, flags, recording)).unwrap();
        assert_eq!(executable.flags(), Ok(flags));
        executable.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 13);
        let relaxed = call!(seen, ThreadCaptureMode::exchange(CaptureMode::Relaxed)).unwrap();
        assert_eq!(relaxed.previous(), Some(CaptureMode::Global));
        drop(relaxed);
        holds(STREAMS, "## Captures", seen);
    });
}

#[test]
fn compiled_programs_are_loaded_under_the_names_of_the_table() {
    if !crate::nvrtc::is_here("compiled_programs_are_loaded_under_the_names_of_the_table") {
        return;
    }
    run(|| {
        let seen = Seen::default();
        types!(seen, OutputKind);
        let ctx: &UnownedContext = &pushed();
        let program = crate::nvrtc::twice();
        let compiled = call!(seen, Program::compile(&program, OutputKind::Ptx)).unwrap();
        let name = compiled.lowered_name("twice<float>").unwrap();
        let options = JitOptions::new();
        let modules = [
            call!(seen, UnownedContext::load_nvrtc_module(ctx, &compiled)).unwrap(),
            call!(seen, UnownedContext::load_nvrtc_module_with_options(ctx, &compiled, &options)).unwrap().0,
        ];
        modules.iter().for_each(|module| assert!(module.get_function(name).is_ok()));
        let library = call!(seen, Library::load_nvrtc(&compiled, &options)).unwrap();
        assert!(library.kernel(name).is_ok());
        holds(PROGRAMS, "# Names", seen);
    });
}

#[test]
fn the_paths_of_the_table_of_futures_do_what_it_says() {
    run(|| {
        let seen = Seen::default();
        let _ctx = pushed();
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
        types!(seen, Completion);
        let completion: Completion = call!(seen, Stream::completion(&stream)).unwrap();
        assert_eq!(completion.wait(), Ok(()));
        let mut synchronized = Box::pin(call!(seen, Stream::synchronize_async(&stream)));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        while synchronized.as_mut().poll(&mut context).is_pending() {
            std::thread::yield_now();
        }
        let value: Completion<u8> = call!(seen, Stream::enqueue_async(&stream, |_| Ok(7u8))).unwrap();
        assert_eq!(value.wait(), Ok(7));
        holds(STREAMS, "## Futures", seen);
    });
}

#[test]
fn contexts_make_what_those_of_other_crates_make_under_the_names_of_the_table() {
    run(|| {
        let seen = Seen::default();
        types!(seen, EventFlags, JitOptions, StreamFlags);
        let (owner, above) = (parked(), pushed());
        let ctx: &UnownedContext = &owner;
        let image = KERNELS.as_bytes();
        let file = std::env::temp_dir().join(format!("custack-names-{}.ptx", std::process::id()));
        std::fs::write(&file, image).unwrap();
        let name = CString::new(file.to_str().unwrap()).unwrap();

        let modules = [
            call!(seen, UnownedContext::load_module(ctx, image)).unwrap(),
            call!(seen, UnownedContext::load_module_from_file(ctx, &name)).unwrap(),
            call!(seen, UnownedContext::load_module_with_options(ctx, image, &JitOptions::new())).unwrap().0,
        ];
        for module in modules {
            assert_eq!(module.context(), ctx);
            module.get_function(c"sum").unwrap();
            assert!(call!(seen, Module::drop(module)).is_ok());
        }
        let libraries = [
            call!(seen, Library::load(image, &JitOptions::new())).unwrap(),
            call!(seen, Library::load_with_log(image, &JitOptions::new())).unwrap().0,
            call!(seen, Library::load_file(&file, &JitOptions::new())).unwrap(),
        ];
        std::fs::remove_file(&file).unwrap();
        for library in libraries {
            library.kernel(c"sum").unwrap().function_in(ctx).unwrap();
        }

        let graphs = [call!(seen, UnownedContext::create_graph(ctx)), call!(seen, Graph::new(ctx))];
        assert!(graphs.iter().all(|graph| graph.as_ref().unwrap().context() == ctx));
        drop(graphs);
        let priorities = call!(seen, UnownedContext::stream_priority_range(ctx)).unwrap();
        let stream =
            call!(seen, UnownedContext::create_stream(ctx, StreamFlags::NON_BLOCKING, Some(-99))).unwrap();
        assert_eq!((stream.context(), stream.get_priority()), (ctx, Ok(priorities.greatest)));
        let event = call!(seen, UnownedContext::create_event(ctx, EventFlags::DISABLE_TIMING)).unwrap();
        event.record(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!((event.context(), event.query()), (ctx, Ok(EventStatus::Ready)));
        assert_eq!(current(), above.as_raw());
        holds(CONTEXTS, "# Names of other crates", seen);
    });
}
