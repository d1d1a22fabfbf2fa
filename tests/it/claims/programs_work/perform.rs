//! Performs the acts on contexts, streams and events, and what makes and drops things.

use super::act::{Act, On, Thing};
use super::actor::{Actor, Within};
use super::world::{CODE, Ctx};
use crate::harness::{device, parked};
use custack::error::CudaError;
use custack::event::EventFlags;
use custack::launch;
use custack::library::Library;
use custack::memory::{MemoryPool, PoolProperties};
use custack::module::JitOptions;
use custack::stream::{CaptureStatus, StreamFlags, StreamWaitEventFlags};
use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How many contexts a program has at once.
const CONTEXTS: usize = 3;

/// Whether each act is shown before it is done, for a driver that ends the process.
fn shows() -> bool {
    static SHOWS: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *SHOWS.get_or_init(|| std::env::var_os("CUSTACK_PROGRAM_SHOW").is_some())
}

type Things = Vec<Box<dyn Any + Send>>;

impl Actor {
    pub(super) fn perform(&mut self, act: &Act, within: Within<'_>) {
        if shows() {
            eprintln!("{:?}: {act:?}", std::thread::current().id());
        }
        match act {
            Act::CreateContext => self.create_context(),
            Act::DropContext(n) => {
                let at = self.world(|world| world.context(*n));
                // The first is on the threads' stacks, and so is one that an act has entered.
                if at != 0 {
                    let owner = self.world(|world| {
                        world.may_fail |= world.open > 0;
                        world.contexts[at].owner.take()
                    });
                    drop(owner);
                }
            }
            Act::SyncContext(n) => {
                let at = self.world(|world| world.context(*n));
                let result = self.handle(at).synchronize();
                self.judge("synchronize a context", &result, [at], &[]);
            }
            Act::Work(on, sleeps) => self.work(*on, *sleeps, within),
            Act::Noop(on) => self.noop(*on, within),
            Act::Scratch => self.scratch(within),
            Act::Record(n, on) => {
                let event = self.world(|world| world.events.get(*n).cloned());
                let (Some((event, of)), Some((stream, context))) = (event, self.stream(*on, within)) else {
                    return;
                };
                let also: &[_] = if of == context { &[] } else { &[CudaError::InvalidHandle] };
                let result = event.record(&stream);
                self.judge("record an event", &result, if of == context { vec![of] } else { vec![] }, also);
            }
            Act::Wait(on, n) => self.wait(*on, *n, within),
            Act::SyncEvent(n) => {
                let Some((event, of)) = self.world(|world| world.events.get(*n).cloned()) else { return };
                let result = event.synchronize();
                self.judge("wait for an event", &result, [of], &OF_A_CAPTURE);
            }
            Act::SyncStream(on) => {
                let Some((stream, context)) = self.stream(*on, within) else { return };
                let result = stream.synchronize();
                self.judge("wait for a stream", &result, [context], &[]);
            }
            Act::IsDone(on) => {
                let Some((stream, context)) = self.stream(*on, within) else { return };
                let result = stream.is_done();
                self.judge("ask whether a stream is done", &result, [context], &[]);
            }
            Act::Drop(thing, n) => {
                let taken = self.world(|world| world.take(*thing, *n));
                drop(taken);
            }
            Act::DropInStream(n, things) => {
                let Some((stream, context)) = self.stream(On::Own(*n), within) else { return };
                let things = self.take_all(things);
                let result = stream.launch_host_func(move || drop(things));
                self.judge("a function that drops", &result, [context], &[]);
            }
            Act::DropAtThreadEnd(things) => {
                let things = self.take_all(things);
                let thread = std::thread::spawn(move || AT_END.with(|kept| kept.borrow_mut().extend(things)));
                if thread.join().is_err() {
                    self.problem("a destructor at the end of a thread panicked".to_owned());
                }
            }
            Act::Inside(n, acts) => {
                let at = self.world(|world| world.context(*n));
                let handle = self.handle(at);
                let mut entered = false;
                let depth = self.stack.len();
                let result = handle.scoped(|_| {
                    entered = true;
                    // There is no further entry where the context is current already.
                    let switches = self.stack.last() != Some(&at);
                    self.stack.extend(switches.then_some(at));
                    acts.iter().for_each(|act| self.act(act, within));
                    self.stack.truncate(depth);
                    Ok(())
                });
                if !entered {
                    self.judge("enter a context", &result, [at], &[]);
                }
            }
            Act::Elsewhere(thread, act) => self.elsewhere(*thread, act),
            Act::Together(_) => unreachable!("the crew does that"),
            Act::Capture(n, mode, how, acts, end) => self.capture(*n, *mode, *how, acts, *end),
            Act::Fork(n, acts, end) => self.fork(*n, acts, *end, within),
            Act::Scope(n, cell, value, acts, panics) => self.scope(*n, *cell, *value, acts, *panics),
            other if self.on_cells(other, within) => {}
            other if self.on_graphs(other, within) => {}
            other => self.make(other),
        }
    }

    fn create_context(&mut self) {
        let count = self.world(|world| world.contexts.iter().filter(|ctx| ctx.owner.is_some()).count());
        // Making a context is forbidden during captures of this thread and global ones.
        if count < CONTEXTS && self.world(|world| world.open == 0 && !world.loose) {
            let context = parked();
            let handle = context.get_unowned();
            self.world(|world| world.contexts.push(Ctx { owner: Some(context), handle }));
        }
    }

    fn take_all(&self, things: &[(Thing, usize)]) -> Things {
        // A stream that takes part in a capture keeps that open until it is destroyed, at some later time.
        let stays = |thing| thing == Thing::Stream && self.world(|world| world.open > 0 || world.loose);
        let take = |&(thing, n): &(Thing, usize)| match stays(thing) {
            true => None,
            false => self.world(|world| world.take(thing, n)),
        };
        things.iter().filter_map(take).collect()
    }

    fn make(&mut self, act: &Act) {
        match *act {
            Act::MakeStream(n, blocking) if !self.world(|world| world.is_full(Thing::Stream)) => {
                let at = self.world(|world| world.context(n));
                let flags = if blocking { StreamFlags::DEFAULT } else { StreamFlags::NON_BLOCKING };
                let result = self.handle(at).create_stream(flags, None);
                self.judge("make a stream", &result, [at], &[]);
                self.world(|world| {
                    result.into_iter().for_each(|made| world.streams.add((Arc::new(made), at)))
                });
            }
            Act::MakePool if !self.world(|world| world.is_full(Thing::Pool)) => {
                let result = MemoryPool::new(device(), &PoolProperties::new());
                self.judge("make a pool", &result, [], &[]);
                self.world(|world| result.into_iter().for_each(|made| world.pools.add(Arc::new(made))));
            }
            Act::MakeEvent(n) if !self.world(|world| world.is_full(Thing::Event)) => {
                let at = self.world(|world| world.context(n));
                let result = self.handle(at).create_event(EventFlags::DISABLE_TIMING);
                self.judge("make an event", &result, [at], &[]);
                self.world(|world| {
                    result.into_iter().for_each(|made| world.events.add((Arc::new(made), at)))
                });
            }
            Act::LoadLibrary if !self.world(|world| world.is_full(Thing::Library)) => {
                let result = Library::load(CODE.as_bytes(), &JitOptions::new());
                self.judge("load a library", &result, [], &[]);
                self.world(|world| result.into_iter().for_each(|made| world.libraries.add(made)));
            }
            Act::MakeFunction(n, m) if !self.world(|world| world.is_full(Thing::Function)) => {
                let Some(library) = self.world(|world| world.libraries.get(n).cloned()) else { return };
                let at = self.world(|world| world.context(m));
                let kernel = library.kernel(c"put");
                self.judge("find a kernel", &kernel, [], &[]);
                let Ok(kernel) = kernel else { return };
                let result = kernel.function_in(&self.handle(at));
                self.judge("a kernel in a context", &result, [at], &[]);
                self.world(|world| {
                    result.into_iter().for_each(|made| world.functions.add((Arc::new(made), at)))
                });
            }
            _ => {}
        }
    }

    /// In a capture the function is called at every launch, and is in the plan of the graph.
    fn work(&mut self, on: On, sleeps: bool, within: Within<'_>) {
        let token = self.token();
        let counter = Arc::clone(&token.0);
        let call = move || {
            if sleeps {
                std::thread::sleep(Duration::from_micros(60));
            }
            token.ran();
        };
        if let (On::Captured(_), Some(capture)) = (on, within) {
            let context = self.frames.last().unwrap().context;
            let result = capture.launch_host_func(call);
            self.judge("capture a function", &result, [context], &[]);
            if result.is_ok() {
                self.planned(super::world::Effect::Call(counter));
            }
            return;
        }
        let Some((stream, context)) = self.stream(on, within) else { return };
        let result = stream.launch_host_func(call);
        self.judge("launch a function", &result, [context], &[]);
        if result.is_ok() {
            counter.expected.fetch_add(1, Ordering::SeqCst);
            counter.contexts.lock().unwrap().extend(BTreeSet::from([context]));
        }
    }

    fn noop(&mut self, on: On, within: Within<'_>) {
        let Some((stream, context)) = self.stream(on, within) else { return };
        let Some(steady) = self.world(|world| world.steady.clone()) else { return };
        let function = steady.function_in(&self.handle(context));
        self.judge("the steady kernel in a context", &function, [context], &[]);
        let Ok(function) = function else { return };
        let there = &*stream;
        // A stream that has joined a capture must be joined again after this.
        let captures = there.capture_status() != Ok(CaptureStatus::None);
        self.world(|world| world.may_fail |= stream_is_other(on, within) && captures && world.open > 0);
        // SAFETY: the kernel does nothing, and its library outlives what the program makes.
        let result = unsafe { launch!(function<<<1, 1, 0, there>>>(1u32)) };
        self.judge("launch what does nothing", &result, [context], &[]);
        if let (On::Captured(_), Some(_), true) = (on, within, result.is_ok()) {
            self.planned(super::world::Effect::Nothing);
        }
    }

    fn wait(&mut self, on: On, n: usize, within: Within<'_>) {
        let event = self.world(|world| world.events.get(n).cloned());
        let (Some((event, of)), Some((stream, context))) = (event, self.stream(on, within)) else { return };
        let skip = self.world(|world| {
            // A stream that joins a capture may not come back, and a capture that waits for what is outside is broken.
            world.may_fail |= world.open > 0;
            world.loose
        });
        if !skip {
            let result = stream.wait_event(&*event, StreamWaitEventFlags::DEFAULT);
            self.judge("have a stream wait for an event", &result, [of, context], &OF_A_CAPTURE);
        }
    }
}

/// The answers about an event that was recorded in a capture that is over.
const OF_A_CAPTURE: [CudaError; 2] = [CudaError::InvalidValue, CudaError::CapturedEvent];

/// Whether it is not the innermost one that captures.
fn stream_is_other(on: On, within: Within<'_>) -> bool {
    !matches!((on, within), (On::Captured(_), Some(_)))
}

thread_local!(static AT_END: RefCell<Things> = const { RefCell::new(Vec::new()) });
