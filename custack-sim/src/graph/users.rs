//! User objects: graphs hold references to them, and their destructor is called when the last reference is gone.

use super::Host;
use crate::machine::*;
use std::cell::RefCell;
use std::sync::{Arc, Weak};

const NO_DESTRUCTOR_SYNC: u32 = 1;
const MOVE: u32 = 1;
const MOST: u32 = i32::MAX as u32;

thread_local! {
    /// The destructors that this thread has to call once it holds no lock.
    static TO_CALL: RefCell<Vec<(usize, Host)>> = const { RefCell::new(Vec::new()) };
}

/// A destructor, which is called when the last reference of the program, a graph, an executable or a launch is gone.
/// The number is the object's handle.
pub(super) struct Destructor(usize, Host);

impl Drop for Destructor {
    fn drop(&mut self) {
        // An ending thread has no list any more.
        let kept = TO_CALL.try_with(|list| list.borrow_mut().push((self.0, self.1)));
        if kept.is_err() {
            self.1.run();
        }
    }
}

/// Calls this thread's pending destructors, without a lock.
pub(crate) fn run_destructors() {
    let next = || TO_CALL.try_with(|list| list.borrow_mut().pop()).ok().flatten();
    while let Some((handle, host)) = next() {
        lock().graphs.users.remove(&handle);
        host.run();
    }
}

/// References of one graph.
#[derive(Clone)]
pub(super) struct Held {
    count: u32,
    destructor: Arc<Destructor>,
}

impl Held {
    pub(super) fn destructor(&self) -> Arc<Destructor> {
        Arc::clone(&self.destructor)
    }
}

/// The program's references.
pub(super) struct UserObject {
    count: u32,
    program: Option<Arc<Destructor>>,
    all: Weak<Destructor>,
}

impl UserObject {
    pub(super) fn is_held(&self) -> bool {
        self.all.strong_count() > 0
    }
}

impl Machine {
    pub(crate) fn create_user(
        &mut self,
        has_out: bool,
        host: Option<Host>,
        count: u32,
        flags: u32,
    ) -> Answer<usize> {
        self.ready()?;
        let (Some(host), true) =
            (host, has_out && (1..=MOST).contains(&count) && flags == NO_DESTRUCTOR_SYNC)
        else {
            return self.refuse(INVALID_VALUE, "a user object has a destructor, a count, and the flag 1");
        };
        let handle = self.graphs.next();
        let destructor = Arc::new(Destructor(handle, host));
        let all = Arc::downgrade(&destructor);
        self.graphs.users.insert(handle, UserObject { count, program: Some(destructor), all });
        Ok(handle)
    }

    /// A user object with at least this many references.
    fn user(&mut self, handle: usize, count: u32) -> Answer<&mut UserObject> {
        self.ready()?;
        if handle == 0 || !(1..=MOST).contains(&count) {
            return self.refuse(INVALID_VALUE, format_args!("{count} references to {handle:#x}"));
        }
        if self.graphs.users.get(&handle).is_none_or(|user| user.all.strong_count() == 0) {
            return self.misuse(
                INVALID_VALUE,
                format_args!("{handle:#x} is not a user object, or was released by all its owners"),
            );
        }
        self.graphs.users.get_mut(&handle).ok_or(INVALID_VALUE)
    }

    pub(crate) fn retain_user(&mut self, handle: usize, count: u32) -> Answer<()> {
        let user = self.user(handle, count)?;
        user.count = user.count.saturating_add(count);
        user.program = user.all.upgrade();
        Ok(())
    }

    pub(crate) fn release_user(&mut self, handle: usize, count: u32) -> Answer<()> {
        let user = self.user(handle, count)?;
        if count > user.count {
            let had = user.count;
            return self.misuse(INVALID_VALUE, format_args!("{count} references are released, of {had}"));
        }
        user.count -= count;
        if user.count == 0 {
            user.program = None;
        }
        Ok(())
    }

    pub(crate) fn graph_retains(
        &mut self,
        graph: usize,
        handle: usize,
        count: u32,
        flags: u32,
    ) -> Answer<()> {
        self.graph(graph)?;
        let user = self.user(handle, count)?;
        let Some(destructor) = user.all.upgrade() else { return Err(INVALID_VALUE) };
        if flags & !MOVE != 0 {
            return self.refuse(INVALID_VALUE, format_args!("{flags:#x} are no flags of a user object"));
        }
        if flags == MOVE {
            self.release_user(handle, count)?;
        }
        let held = self.graph(graph)?.users.entry(handle).or_insert(Held { count: 0, destructor });
        held.count = held.count.saturating_add(count);
        Ok(())
    }

    pub(crate) fn graph_releases(&mut self, graph: usize, handle: usize, count: u32) -> Answer<()> {
        self.graph(graph)?;
        if handle == 0 || count == 0 {
            return self.refuse(INVALID_VALUE, format_args!("{count} references to {handle:#x}"));
        }
        let users = &mut self.graph(graph)?.users;
        match users.get_mut(&handle) {
            Some(held) if held.count > count => held.count -= count,
            Some(held) if held.count == count => {
                users.remove(&handle);
            }
            _ => {
                return self
                    .misuse(INVALID_VALUE, "cuGraphReleaseUserObject of more references than the graph has");
            }
        }
        Ok(())
    }
}
