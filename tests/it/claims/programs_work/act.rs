//! The acts that programs consist of.

use custack::stream::CaptureMode;
use proptest::prelude::*;

/// What one thread does next. The numbers select among what was made so far and is not dropped.
#[derive(Debug, Clone)]
pub(super) enum Act {
    CreateContext,
    DropContext(usize),
    SyncContext(usize),
    /// In a context, blocking or not.
    MakeStream(usize, bool),
    MakePool,
    MakeEvent(usize),
    LoadLibrary,
    /// A kernel of a library, in a context.
    MakeFunction(usize, usize),
    /// In a context, with one value; or in the order of a stream, and from a pool.
    MakeCell(usize, u32),
    MakeOrderedCell(usize, Option<usize>, u32),
    /// A function that the stream calls; in a capture, at every launch. It may take a moment.
    Work(On, bool),
    /// A kernel that does nothing.
    Noop(On),
    /// Within a capture: memory that the graph allocates, fills and frees.
    Scratch,
    Fill(usize, On, u32),
    /// A kernel that writes one value.
    Put(usize, usize, On, u32),
    Copy(usize, usize, On),
    /// Without a stream, and read at once in this one.
    FillNow(usize, usize, u32),
    Read(usize),
    /// In a scope of a stream that nothing orders after the work before it.
    ReadIn(usize, usize),
    Write(usize, u32),
    MoveTo(usize, usize),
    FreeIn(usize, usize),
    /// Borrowed work on the cell, and these acts meanwhile; it may end in a panic.
    Scope(usize, usize, u32, Vec<Act>, bool),
    Record(usize, On),
    Wait(On, usize),
    SyncEvent(usize),
    SyncStream(On),
    IsDone(On),
    /// A stream captures while these acts are done.
    Capture(usize, CaptureMode, How, Vec<Act>, End),
    /// Within a capture: another stream is captured too.
    Fork(usize, Vec<Act>, End),
    MakeGraph(usize),
    AddHost(usize),
    /// Memory that the graph allocates, fills and frees.
    AddScratch(usize),
    AddFill(usize, usize, u32),
    AddPut(usize, usize, usize, u32),
    AddEvent(usize, usize, bool),
    AddChild(usize, usize),
    SetHost(usize),
    DestroyLast(usize),
    Keep(usize),
    CloneGraph(usize),
    /// A graph, and the stream in which it is uploaded.
    Instantiate(usize, Option<usize>),
    Launch(usize, On),
    Update(usize, usize),
    ExecSetHost(usize, usize),
    Drop(Thing, usize),
    /// Things are dropped in a function that the stream calls.
    DropInStream(usize, Vec<(Thing, usize)>),
    /// Things are dropped in the destructor of a thread-local, when a thread ends.
    DropAtThreadEnd(Vec<(Thing, usize)>),
    /// With a context current.
    Inside(usize, Vec<Act>),
    /// Another thread does this, while the present one waits.
    Elsewhere(usize, Box<Act>),
    /// All threads do something at the same time.
    Together(Vec<Vec<Act>>),
}

/// A stream.
#[derive(Debug, Clone, Copy)]
pub(super) enum On {
    Own(usize),
    /// The innermost one that this thread captures in a closure; outside of captures like `Own`.
    Captured(usize),
    Legacy(usize),
    PerThread(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Graph,
    Executable,
    /// Into an existing graph.
    Into(usize),
    /// Begun and ended by hand.
    ByHand,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Well,
    /// With an error of the closure; a capture by hand is ended on another thread.
    Error,
    /// With a panic; a capture by hand ends with its stream.
    Panic,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Thing {
    Stream,
    Event,
    Pool,
    Library,
    Function,
    Cell,
    Graph,
    Executable,
}

fn n() -> impl Strategy<Value = usize> {
    0..60usize
}

fn on() -> impl Strategy<Value = On> {
    prop_oneof![
        4 => n().prop_map(On::Own),
        5 => n().prop_map(On::Captured),
        1 => n().prop_map(On::Legacy),
        2 => n().prop_map(On::PerThread),
    ]
}

fn thing() -> impl Strategy<Value = (Thing, usize)> {
    use Thing::*;
    let all = vec![
        Stream, Stream, Event, Pool, Library, Function, Cell, Cell, Graph, Graph, Executable, Executable,
    ];
    (prop::sample::select(all), n())
}

fn things() -> impl Strategy<Value = Vec<(Thing, usize)>> {
    prop::collection::vec(thing(), 1..4)
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![6 => Just(End::Well), 1 => Just(End::Error), 1 => Just(End::Panic)]
}

fn makes() -> BoxedStrategy<Act> {
    prop_oneof![
        1 => Just(Act::CreateContext),
        1 => n().prop_map(Act::DropContext),
        5 => (n(), any::<bool>()).prop_map(|(a, b)| Act::MakeStream(a, b)),
        1 => Just(Act::MakePool),
        2 => n().prop_map(Act::MakeEvent),
        1 => Just(Act::LoadLibrary),
        2 => (n(), n()).prop_map(|(a, b)| Act::MakeFunction(a, b)),
        3 => (n(), any::<u32>()).prop_map(|(a, b)| Act::MakeCell(a, b)),
        4 => (n(), prop::option::of(n()), any::<u32>()).prop_map(|(a, b, c)| Act::MakeOrderedCell(a, b, c)),
        3 => n().prop_map(Act::MakeGraph),
        6 => (n(), prop::option::of(n())).prop_map(|(a, b)| Act::Instantiate(a, b)),
        2 => n().prop_map(Act::CloneGraph),
        12 => thing().prop_map(|(a, b)| Act::Drop(a, b)),
        2 => (n(), things()).prop_map(|(a, b)| Act::DropInStream(a, b)),
        1 => things().prop_map(Act::DropAtThreadEnd),
    ]
    .boxed()
}

fn work() -> BoxedStrategy<Act> {
    prop_oneof![
        8 => (on(), any::<bool>()).prop_map(|(a, b)| Act::Work(a, b)),
        3 => on().prop_map(Act::Noop),
        1 => Just(Act::Scratch),
        5 => (n(), on(), any::<u32>()).prop_map(|(a, b, c)| Act::Fill(a, b, c)),
        7 => (n(), n(), on(), any::<u32>()).prop_map(|(a, b, c, d)| Act::Put(a, b, c, d)),
        3 => (n(), n(), on()).prop_map(|(a, b, c)| Act::Copy(a, b, c)),
        3 => (n(), n(), any::<u32>()).prop_map(|(a, b, c)| Act::FillNow(a, b, c)),
        4 => n().prop_map(Act::Read),
        4 => (n(), n()).prop_map(|(a, b)| Act::ReadIn(a, b)),
        2 => (n(), any::<u32>()).prop_map(|(a, b)| Act::Write(a, b)),
        2 => (n(), n()).prop_map(|(a, b)| Act::MoveTo(a, b)),
        1 => (n(), n()).prop_map(|(a, b)| Act::FreeIn(a, b)),
        2 => (n(), on()).prop_map(|(a, b)| Act::Record(a, b)),
        2 => (on(), n()).prop_map(|(a, b)| Act::Wait(a, b)),
        1 => n().prop_map(Act::SyncEvent),
        2 => on().prop_map(Act::SyncStream),
        1 => on().prop_map(Act::IsDone),
        1 => n().prop_map(Act::SyncContext),
    ]
    .boxed()
}

fn graphs() -> BoxedStrategy<Act> {
    prop_oneof![
        4 => n().prop_map(Act::AddHost),
        1 => n().prop_map(Act::AddScratch),
        2 => (n(), n(), any::<u32>()).prop_map(|(a, b, c)| Act::AddFill(a, b, c)),
        3 => (n(), n(), n(), any::<u32>()).prop_map(|(a, b, c, d)| Act::AddPut(a, b, c, d)),
        2 => (n(), n(), any::<bool>()).prop_map(|(a, b, c)| Act::AddEvent(a, b, c)),
        2 => (n(), n()).prop_map(|(a, b)| Act::AddChild(a, b)),
        1 => n().prop_map(Act::SetHost),
        1 => n().prop_map(Act::DestroyLast),
        1 => n().prop_map(Act::Keep),
        12 => (n(), on()).prop_map(|(a, b)| Act::Launch(a, b)),
        2 => (n(), n()).prop_map(|(a, b)| Act::Update(a, b)),
        2 => (n(), n()).prop_map(|(a, b)| Act::ExecSetHost(a, b)),
    ]
    .boxed()
}

fn modes() -> impl Strategy<Value = CaptureMode> {
    prop::sample::select(vec![CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed])
}

fn how() -> impl Strategy<Value = How> {
    prop_oneof![
        4 => Just(How::Graph),
        2 => Just(How::Executable),
        2 => n().prop_map(How::Into),
        2 => Just(How::ByHand),
    ]
}

/// Acts, nested up to this number of levels.
pub(super) fn acts(levels: u32) -> BoxedStrategy<Act> {
    let plain = prop_oneof![3 => makes(), 4 => work(), 3 => graphs()];
    if levels == 0 {
        return plain.boxed();
    }
    let some = || prop::collection::vec(acts(levels - 1), 0..7);
    prop_oneof![
        40 => plain,
        5 => (n(), modes(), how(), some(), end()).prop_map(|(a, b, c, d, e)| Act::Capture(a, b, c, d, e)),
        3 => (n(), some(), end()).prop_map(|(a, b, c)| Act::Fork(a, b, c)),
        2 => (n(), n(), any::<u32>(), some(), prop::bool::weighted(0.2)).prop_map(|(a, b, c, d, e)| Act::Scope(a, b, c, d, e)),
        2 => (n(), some()).prop_map(|(a, b)| Act::Inside(a, b)),
        3 => (n(), acts(levels - 1)).prop_map(|(a, b)| Act::Elsewhere(a, Box::new(b))),
    ]
    .boxed()
}

/// What the threads do at the same time.
pub(super) fn together(threads: usize) -> impl Strategy<Value = Act> {
    let each = prop::collection::vec(acts(1), 0..9);
    prop::collection::vec(each, threads).prop_map(Act::Together)
}
