//! Where the entries are: the topmost inline, in plain cells; what lies deeper spills into a vector.
//!
//! A scope whose context is current should cost the driver's answer and little else, and one that switches a push, a
//! pop and little else. A vector in a thread-local cell has a destructor to look after, a borrow to count and a heap
//! to walk to; with it alone both kinds of scope took half as long again. So the topmost entries, up to [`INLINE`] of
//! them, stand in cells without a destructor, where a scope reads and writes a few words. When the cells are full the
//! lower half spills into the vector, and when they are empty as many come back, so that a deep stack costs no more for
//! each scope than a shallow one.
//!
//! None of it has a destructor, so it works while the thread ends, in the destructors of the program's thread-locals.
//! What watches for the thread's end is [`WATCH`] beside it; the vector is freed there, or, if
//! entries are left in it, when the last of them come back after.

use super::entry::{Entry, How, NEVER};
use crate::driver::ffi::CUcontext;
use crate::liveness::{Handle, deaths};
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::panic::Location;
use std::ptr;

const INLINE: usize = 16;
const FEWEST_BLIND: u32 = 4;
const MOST_BLIND: u32 = 256;

/// An [`Entry`], a cell for each field.
struct Cells {
    context: Cell<Handle>,
    location: Cell<&'static Location<'static>>,
    serial: Cell<u64>,
    guards: Cell<u32>,
    how: Cell<How>,
    ended: Cell<bool>,
    since: Cell<u64>,
}

impl Cells {
    const fn new() -> Cells {
        Cells {
            context: Cell::new(Handle::NONE),
            location: Cell::new(Location::caller()),
            serial: Cell::new(0),
            guards: Cell::new(0),
            how: Cell::new(How::Set),
            ended: Cell::new(false),
            since: Cell::new(NEVER),
        }
    }

    fn get(&self) -> Entry {
        Entry {
            context: self.context.get(),
            how: self.how.get(),
            location: self.location.get(),
            guards: self.guards.get(),
            ended: self.ended.get(),
            since: self.since.get(),
            serial: self.serial.get(),
        }
    }

    #[inline]
    fn set(&self, entry: &Entry) {
        self.context.set(entry.context);
        self.how.set(entry.how);
        self.location.set(entry.location);
        self.guards.set(entry.guards);
        self.ended.set(entry.ended);
        self.since.set(entry.since);
        self.serial.set(entry.serial);
    }
}

struct Stack {
    next_serial: Cell<u64>,
    /// How many of the cells are in use, from the first; none only if there is no entry at all.
    used: Cell<usize>,
    /// How many entries have spilled, under those in the cells.
    spilled: Cell<usize>,
    inline: [Cells; INLINE],
    spill: ManuallyDrop<RefCell<Vec<Entry>>>,
    /// How many scopes may still switch before one looks, and how many the time after.
    blind: Cell<u32>,
    next_blind: Cell<u32>,
    /// Somebody watches for the thread's end, or it has come.
    watched: Cell<bool>,
    ended: Cell<bool>,
}

thread_local! {
    static STACK: Stack = const {
        Stack {
            next_serial: Cell::new(1),
            used: Cell::new(0),
            spilled: Cell::new(0),
            inline: [const { Cells::new() }; INLINE],
            spill: ManuallyDrop::new(RefCell::new(Vec::new())),
            blind: Cell::new(1),
            next_blind: Cell::new(FEWEST_BLIND),
            watched: Cell::new(false),
            ended: Cell::new(false),
        }
    };
    static WATCH: Watch = const { Watch };
}

struct Watch;

impl Drop for Watch {
    fn drop(&mut self) {
        super::thread_ends(&super::entries());
        STACK.with(|stack| {
            stack.ended.set(true);
            stack.free_spill();
        });
    }
}

impl Stack {
    #[inline]
    fn top(&self) -> Option<&Cells> {
        self.inline.get(self.used.get().wrapping_sub(1))
    }

    #[cold]
    fn looks(&self) -> bool {
        let next = self.next_blind.get();
        self.blind.set(next);
        self.next_blind.set((2 * next).min(MOST_BLIND));
        true
    }

    /// Has the thread's end watched, and makes room for an entry.
    #[cold]
    fn make_room(&self) {
        if !self.watched.replace(true) {
            let _ = WATCH.try_with(|_| ());
        }
        if self.used.get() == INLINE {
            let lower = self.inline[..INLINE / 2].iter().map(Cells::get);
            self.spill.borrow_mut().extend(lower);
            for at in INLINE / 2..INLINE {
                self.inline[at - INLINE / 2].set(&self.inline[at].get());
            }
            self.used.set(INLINE / 2);
            self.spilled.set(self.spilled.get() + INLINE / 2);
        }
    }

    /// Brings spilled entries back into the cells.
    #[cold]
    fn refill(&self) {
        let count = self.spilled.get().min(INLINE / 2);
        let start = self.spilled.get() - count;
        let mut spill = self.spill.borrow_mut();
        spill.drain(start..).zip(&self.inline).for_each(|(entry, cells)| cells.set(&entry));
        drop(spill);
        self.spilled.set(start);
        self.used.set(count);
        if self.ended.get() {
            self.free_spill();
        }
    }

    fn free_spill(&self) {
        let mut spill = self.spill.borrow_mut();
        if spill.is_empty() {
            *spill = Vec::new();
        }
    }
}

pub(crate) fn depth() -> usize {
    STACK.with(|stack| stack.spilled.get() + stack.used.get())
}

/// The entry with this index, counted from the bottom.
pub(super) fn get(index: usize) -> Option<Entry> {
    STACK.with(|stack| match index.checked_sub(stack.spilled.get()) {
        Some(at) => stack.inline[..stack.used.get()].get(at).map(Cells::get),
        None => stack.spill.borrow().get(index).cloned(),
    })
}

/// Changes the entry with this index.
pub(super) fn change(index: usize, change: impl FnOnce(&mut Entry)) {
    let Some(mut entry) = get(index) else { return };
    change(&mut entry);
    STACK.with(|stack| match index.checked_sub(stack.spilled.get()) {
        Some(at) => stack.inline[at].set(&entry),
        None => stack.spill.borrow_mut()[index] = entry,
    });
}

/// Adds an entry, and gives its serial number.
#[inline]
pub(crate) fn push(context: &Handle, how: How, location: &'static Location<'static>, guards: u32) -> u64 {
    let since = if guards > 0 { deaths() } else { NEVER };
    STACK.with(|stack| {
        let serial = stack.next_serial.get();
        stack.next_serial.set(serial + 1);
        if stack.used.get() == INLINE || !stack.watched.get() {
            stack.make_room();
        }
        let used = stack.used.get();
        if let Some(cells) = stack.inline.get(used) {
            // In one piece, from where it is: what is written in pieces cannot soon be read whole.
            cells.context.set(*context);
            cells.how.set(how);
            cells.location.set(location);
            cells.guards.set(guards);
            cells.ended.set(false);
            cells.since.set(since);
            cells.serial.set(serial);
            stack.used.set(used + 1);
        }
        serial
    })
}

/// Puts an entry back that was taken out.
pub(crate) fn put_back(entry: &Entry) {
    STACK.with(|stack| {
        if stack.used.get() == INLINE {
            stack.make_room();
        }
        stack.inline[stack.used.get()].set(entry);
        stack.used.set(stack.used.get() + 1);
    });
}

/// Takes the top entry out.
#[inline]
pub(crate) fn pop() {
    STACK.with(|stack| {
        stack.used.set(stack.used.get().saturating_sub(1));
        if stack.used.get() == 0 && stack.spilled.get() > 0 {
            stack.refill();
        }
    });
}

/// Takes the top entry out, that of a scope; if the next may have to be taken off too, what [`Entry::since`] said.
#[inline]
pub(crate) fn pop_and_look() -> Option<u64> {
    STACK.with(|stack| {
        let since = stack.top().map_or(NEVER, |top| top.since.get());
        stack.used.set(stack.used.get().saturating_sub(1));
        if stack.used.get() == 0 && stack.spilled.get() > 0 {
            stack.refill();
        }
        let next = stack.top()?;
        let goes = next.guards.get() == 0 && (next.ended.get() || !next.context.get().is_alive());
        goes.then_some(since)
    })
}

/// Whether custack's entry of this context is on top.
#[inline]
pub(crate) fn is_top(context: &Handle) -> bool {
    STACK.with(|stack| stack.top().is_some_and(|top| top.context.get() == *context))
}

/// Whether there is a top entry and no guard stands on it.
#[inline]
pub(crate) fn top_is_free() -> bool {
    STACK.with(|stack| stack.top().is_some_and(|top| top.guards.get() == 0))
}

/// Whether a guard stands on the entry below the top.
#[inline]
pub(crate) fn guard_below_top() -> bool {
    STACK.with(|stack| match stack.used.get() {
        0 => false,
        1 => depth().checked_sub(2).and_then(get).is_some_and(|below| below.guards > 0),
        used => stack.inline[used - 2].guards.get() > 0,
    })
}

/// Whether there is a top entry with this handle of the driver's.
#[inline]
pub(crate) fn top_has(raw: CUcontext) -> bool {
    STACK.with(|stack| stack.top().is_some_and(|top| ptr::eq(top.context.get().raw(), raw)))
}

/// The context on top; [`Handle::NONE`] if there is no entry.
///
/// It comes out through a variable, not as a result: `with` wraps a result in an `Option`, a compiler that folds the
/// `None` into a field of the handle copies it in pieces, and a processor that is to read whole what was just written
/// in pieces waits. That alone was a tenth of a push and a pop.
#[inline]
pub(crate) fn top_context() -> Handle {
    let mut context = Handle::NONE;
    STACK.with(|stack| {
        if let Some(top) = stack.top() {
            context = top.context.get();
        }
    });
    context
}

/// Whether a scope that is to switch should ask first whether other code has made its context current: where custack has
/// nothing of its own on top, the second time on a thread, and then ever more rarely, so that scopes which do have to
/// switch pay nothing for it.
#[inline]
pub(crate) fn is_time_to_look() -> bool {
    STACK.with(|stack| {
        let foreign = stack.top().is_none_or(|top| top.how.get() == How::Found);
        let left = stack.blind.get();
        if foreign && left > 0 {
            stack.blind.set(left - 1);
        }
        foreign && left == 0 && stack.looks()
    })
}

/// Other code has moved this thread's stack: the next scope that is to switch looks.
pub(crate) fn look_soon() {
    STACK.with(|stack| {
        stack.blind.set(0);
        stack.next_blind.set(FEWEST_BLIND);
    });
}

/// Lets one more guard stand on the top entry, and gives the entry's serial number.
#[inline]
pub(crate) fn stand_on_top() -> u64 {
    STACK.with(|stack| match stack.top() {
        Some(top) => {
            let guards = top.guards.get();
            if guards == 0 {
                top.since.set(deaths());
            }
            top.guards.set(guards.saturating_add(1));
            top.serial.get()
        }
        None => 0,
    })
}

/// Lets a guard that did not make the top entry step off it; false, and nothing done, if more would have to follow or
/// the entry is another.
#[inline]
pub(crate) fn step_off_top(serial: u64) -> bool {
    STACK.with(|stack| {
        let Some(top) = stack.top() else { return false };
        let guards = top.guards.get();
        let stays = guards > 1 || !top.ended.get() && top.context.get().is_alive();
        let all = top.serial.get() == serial && guards > 0 && stays;
        if all {
            top.guards.set(guards - 1);
            if guards == 1 {
                top.since.set(NEVER);
            }
        }
        all
    })
}

/// Whether the entry is on top, with one guard on it.
#[inline]
pub(crate) fn top_has_one_guard(serial: u64) -> bool {
    STACK.with(|stack| stack.top().is_some_and(|top| top.serial.get() == serial && top.guards.get() == 1))
}
