//! The acts that programs consist of.

use proptest::prelude::*;

/// What one thread does next. The numbers select among what was made so far, alive or not, and among the thread's
/// guards.
#[derive(Debug, Clone)]
pub(super) enum Act {
    Create,
    /// Retains the primary context.
    Retain,
    Push(usize),
    Pop,
    Set(usize),
    Unset,
    Enter(usize),
    Leave(usize),
    /// Drops all guards of the thread, the last first.
    LeaveAll,
    /// A scope, and what is done in it.
    Scoped(usize, Vec<Act>),
    /// A scope that pushes another context and panics.
    PanicInScope(usize, usize),
    /// Other code changes the stack within a scope, with another context.
    ForeignInScope(usize, usize, Change),
    Synchronize(usize),
    SynchronizeCurrent,
    GetCurrent,
    MakeBuffer(Kind, usize, u32),
    Write(usize, u32),
    Read(usize),
    /// From device memory to device memory.
    Copy(usize, usize),
    /// Takes a slice, drops the owner of its context, and uses the slice.
    StaleSlice(usize, u32),
    MakeStream,
    SynchronizeStream(usize),
    /// A thread outside the program waits for the stream, while the program continues.
    SynchronizeElsewhere(usize),
    MakeEvent,
    Record(usize, usize),
    SynchronizeEvent(usize),
    Drop(Thing, usize),
    /// `T::drop(value)`.
    GiveBack(Thing, usize),
    /// Moves these things into a callback of the stream, which makes some calls on a context and drops them.
    Callback {
        stream: usize,
        context: usize,
        drops: Vec<(Thing, usize)>,
        sleeps: bool,
        waits: bool,
    },
    /// A short-lived thread, which performs the latter acts in the destructor of a thread-local, before or after
    /// custack's own are destroyed.
    Ending {
        late: bool,
        before: Vec<Act>,
        dying: Vec<Act>,
    },
    /// The `nth` driver call of the act fails.
    Faulty {
        code: u32,
        after: bool,
        nth: u64,
        act: Box<Act>,
    },
    /// Reads every buffer.
    ReadAll,
    /// The last act of a thread: pops everything off the driver's stack, behind custack's back.
    Drain,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Device,
    Bytes,
    One,
    Unified,
    Locked,
}

/// What other code does to the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Set,
    Push,
    Pop,
    PopAndPush,
    Unset,
    TwoPops,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Thing {
    /// The owner of a created context, or a share of the primary one.
    Owner,
    Buffer,
    Stream,
    Event,
}

/// The index that the number selects out of `count`: one of the latest.
pub(super) fn pick(n: usize, count: usize) -> Option<usize> {
    const LATEST: usize = 10;
    count.checked_sub(1).map(|last| last - n % count.min(LATEST))
}

fn any_n() -> impl Strategy<Value = usize> {
    0..2520usize
}

fn thing() -> impl Strategy<Value = (Thing, usize)> {
    let thing = prop_oneof![
        3 => Just(Thing::Owner),
        3 => Just(Thing::Buffer),
        2 => Just(Thing::Stream),
        1 => Just(Thing::Event),
    ];
    (thing, any_n())
}

fn moves() -> BoxedStrategy<Act> {
    prop_oneof![
        12 => any_n().prop_map(Act::Push),
        14 => Just(Act::Pop),
        8 => any_n().prop_map(Act::Set),
        4 => Just(Act::Unset),
        22 => any_n().prop_map(Act::Enter),
        20 => any_n().prop_map(Act::Leave),
    ]
    .boxed()
}

fn kind() -> impl Strategy<Value = Kind> {
    use Kind::*;
    prop_oneof![4 => Just(Device), 1 => Just(Bytes), 1 => Just(One), 1 => Just(Unified), 1 => Just(Locked)]
}

fn change() -> impl Strategy<Value = Change> {
    use Change::*;
    prop::sample::select(vec![Set, Push, Pop, PopAndPush, Unset, TwoPops])
}

fn makes(creates: u32) -> BoxedStrategy<Act> {
    prop_oneof![
        creates => Just(Act::Create),
        creates => any_n().prop_map(|n| Act::Drop(Thing::Owner, n)),
        creates => any_n().prop_map(|n| Act::GiveBack(Thing::Owner, n)),
        creates.div_ceil(3) => Just(Act::Retain),
        6 => (kind(), 1..9usize, any::<u32>()).prop_map(|(kind, len, seed)| Act::MakeBuffer(kind, len, seed)),
        3 => Just(Act::MakeStream),
        1 => Just(Act::MakeEvent),
        6 => thing().prop_filter("owners are rarer", |it| it.0 != Thing::Owner).prop_map(|(a, b)| Act::Drop(a, b)),
        2 => thing().prop_filter("owners are rarer", |it| it.0 != Thing::Owner).prop_map(|(a, b)| Act::GiveBack(a, b)),
    ]
    .boxed()
}

fn uses() -> BoxedStrategy<Act> {
    prop_oneof![
        4 => (any_n(), any_n()).prop_map(|(a, b)| Act::PanicInScope(a, b)),
        8 => (any_n(), any_n(), change()).prop_map(|(a, b, change)| Act::ForeignInScope(a, b, change)),
        6 => any_n().prop_map(Act::Synchronize),
        4 => Just(Act::SynchronizeCurrent),
        4 => Just(Act::GetCurrent),
        5 => (any_n(), any::<u32>()).prop_map(|(n, seed)| Act::Write(n, seed)),
        5 => any_n().prop_map(Act::Read),
        4 => (any_n(), any_n()).prop_map(|(a, b)| Act::Copy(a, b)),
        3 => any_n().prop_map(Act::SynchronizeStream),
        2 => any_n().prop_map(Act::SynchronizeElsewhere),
        2 => (any_n(), any_n()).prop_map(|(a, b)| Act::Record(a, b)),
        1 => any_n().prop_map(Act::SynchronizeEvent),
        1 => Just(Act::ReadAll),
    ]
    .boxed()
}

/// Acts that are possible in a scope and on a thread that ends.
fn plain(creates: u32) -> BoxedStrategy<Act> {
    prop_oneof![8 => moves(), 3 => makes(creates), 3 => uses()].boxed()
}

fn faulty(creates: u32) -> BoxedStrategy<Act> {
    let act = prop_oneof![
        10 => moves(),
        creates => any_n().prop_map(|n| Act::Drop(Thing::Owner, n)),
        creates => any_n().prop_map(|n| Act::GiveBack(Thing::Owner, n)),
        4 => thing().prop_filter("owners above", |it| it.0 != Thing::Owner).prop_map(|(a, b)| Act::Drop(a, b)),
        4 => thing().prop_filter("owners above", |it| it.0 != Thing::Owner).prop_map(|(a, b)| Act::GiveBack(a, b)),
    ];
    let code = prop::sample::select(vec![1u32, 2, 201, 719, 999]);
    (code, any::<bool>(), 1..6u64, act)
        .prop_map(|(code, after, nth, act)| Act::Faulty { code, after, nth, act: Box::new(act) })
        .boxed()
}

/// Acts, of which `creates` in some hundred create a context.
pub(super) fn acts(creates: u32) -> impl Strategy<Value = Act> {
    let callback =
        (any_n(), any_n(), prop::collection::vec(thing(), 0..4), any::<bool>(), any::<bool>()).prop_map(
            |(stream, context, drops, sleeps, waits)| Act::Callback { stream, context, drops, sleeps, waits },
        );
    let few = || prop::collection::vec(plain(creates), 0..6);
    prop_oneof![
        if creates > 1 { 80 } else { 300 } => moves(),
        30 + creates => makes(creates),
        30 => uses(),
        20 => faulty(creates),
        creates.min(4) => (any_n(), any::<u32>()).prop_map(|(n, seed)| Act::StaleSlice(n, seed)),
        8 => (any_n(), few()).prop_map(|(n, acts)| Act::Scoped(n, acts)),
        3 => callback,
        2 => (any::<bool>(), few(), few()).prop_map(|(late, before, dying)| Act::Ending { late, before, dying }),
    ]
}
