//! What other threads do with graphs that use an event of a capture, in the moment in which the
//! capture is ended. Such a call does not name the event.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "a capture by hand without unsafe work")]

use super::ends::{beside_captures, event, in_both_kinds_of_streams, whatever};
use crate::harness::{pushed, run_alone};
use custack::context::CurrentContext;
use custack::driver::instrument;
use custack::error::CudaResult;
use custack::event::Event;
use custack::graph::{Graph, GraphExec, InstantiateFlags, Node};
use custack::stream::{CaptureMode, Stream, StreamFlags};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A graph that uses an event, and what was made from it.
struct WithEvent {
    event: Arc<Event>,
    graph: Graph,
    child: Graph,
    /// Records the event, and is a child that does.
    nodes: [Node; 2],
    executable: GraphExec,
    stream: Stream,
}

impl WithEvent {
    fn new(event: &Arc<Event>) -> WithEvent {
        let context = CurrentContext::get_current().unwrap();
        let [mut child, mut graph] = [(); 2].map(|()| Graph::new(&context).unwrap());
        child.add_event_record(&[], event).unwrap();
        let records = graph.add_event_record(&[], event).unwrap();
        let waits = graph.add_event_wait(&[records], event).unwrap();
        let nodes = [records, graph.add_child(&[waits], &mut child).unwrap()];
        let executable = graph.instantiate(InstantiateFlags::empty()).unwrap();
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
        WithEvent { event: Arc::clone(event), graph, child, nodes, executable, stream }
    }
}

type WithGraph = fn(&mut WithEvent) -> CudaResult<()>;

/// The calls that may use the event, and the functions of the driver.
const OF_GRAPHS: [(&str, WithGraph); 5] = [
    ("cuGraphLaunch", |it| it.executable.launch(&it.stream)),
    ("cuGraphUpload", |it| it.executable.upload(&it.stream)),
    ("cuGraphExecUpdate_v2", |it| it.executable.update(&mut it.graph).map_err(|refused| refused.error)),
    ("cuGraphExecEventRecordNodeSetEvent", |it| {
        it.executable.set_event(&mut it.graph, it.nodes[0], &it.event)
    }),
    ("cuGraphExecChildGraphNodeSetParams", |it| {
        it.executable.set_child(&mut it.graph, it.nodes[1], &mut it.child)
    }),
];

#[test]
fn no_graph_with_an_event_meets_the_end_of_its_capture() {
    in_both_kinds_of_streams(|flags, stream, forks| {
        let graph = Mutex::new(WithEvent::new(forks));
        for (_, call) in OF_GRAPHS {
            beside_captures(flags, stream, forks, &|| whatever(call(&mut graph.lock().unwrap())));
        }
    });
}

#[test]
fn a_call_on_a_graph_with_an_event_begins_after_the_end_of_its_capture() {
    run_alone(|| {
        let _ctx = pushed();
        let event = Arc::new(event());
        let mut graph = WithEvent::new(&event);
        for (function, call) in OF_GRAPHS {
            let origin = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
            unsafe { origin.begin_capture(CaptureMode::Relaxed) }.unwrap();
            event.record(&origin).unwrap();
            let ((tell, is_ending), (go_on, goes_on), (begin, begins)) = (channel(), channel(), channel());
            let called = thread::scope(|scope| {
                let (origin, graph) = (&origin, &mut graph);
                scope.spawn(move || {
                    instrument::wait_in("cuStreamEndCapture", move || {
                        tell.send(()).unwrap();
                        goes_on.recv().unwrap();
                    });
                    unsafe { origin.end_capture() }.unwrap();
                });
                is_ending.recv().unwrap();
                let called = scope.spawn(move || {
                    instrument::wait_in(function, move || begin.send(()).unwrap());
                    call(graph)
                });
                let begun = begins.recv_timeout(Duration::from_millis(50));
                go_on.send(()).unwrap();
                assert_eq!(begun, Err(RecvTimeoutError::Timeout), "{function}");
                called.join().unwrap()
            });
            assert_eq!((called, begins.recv()), (Ok(()), Ok(())), "{function}");
        }
    });
}
