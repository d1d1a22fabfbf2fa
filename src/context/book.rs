//! Where the thread's book keeps its entries: the topmost in plain cells, what lies deeper in a vector.
//!
//! A scope whose context is current should cost the driver's answer and little else, and one that switches a push, a
//! pop and little else. A vector in a thread-local cell has a destructor to look after, a borrow to count and a heap
//! to walk to; with it alone both kinds of scope took half as long again. So the topmost entries, up to [`ROOM`] of
//! them, stand in cells without a destructor, where a scope reads and writes a few words. When the cells are full the
//! lower half goes into the vector, and when they are empty as many come back, so that a deep stack costs no more for
//! each scope than a shallow one.

use super::model::{self, Entry, How};
use super::unowned::{Identity, UnownedContext};
use crate::driver::ffi::CUcontext;
use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::ptr;

const ROOM: usize = 16;

/// Room for an [`Entry`].
struct Place {
    identity: Cell<Identity>,
    place: Cell<&'static Location<'static>>,
    serial: Cell<u64>,
    guards: Cell<u32>,
    how: Cell<How>,
    doomed: Cell<bool>,
}

impl Place {
    const fn new() -> Place {
        Place {
            identity: Cell::new(Identity::NOBODY),
            place: Cell::new(Location::caller()),
            serial: Cell::new(0),
            guards: Cell::new(0),
            how: Cell::new(How::Set),
            doomed: Cell::new(false),
        }
    }

    fn get(&self) -> Entry {
        Entry {
            context: self.identity.get().into(),
            how: self.how.get(),
            place: self.place.get(),
            guards: self.guards.get(),
            doomed: self.doomed.get(),
            serial: self.serial.get(),
        }
    }

    #[inline]
    fn set(&self, entry: &Entry) {
        self.identity.set(entry.context.identity());
        self.how.set(entry.how);
        self.place.set(entry.place);
        self.guards.set(entry.guards);
        self.doomed.set(entry.doomed);
        self.serial.set(entry.serial);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nobody waits for the thread's end yet.
    New,
    Open,
    /// The thread is ending.
    Closed,
}

struct Book {
    state: Cell<State>,
    next_serial: Cell<u64>,
    /// How many of the cells are in use, from the first; none only if there is no entry at all.
    used: Cell<usize>,
    /// How many entries are in the vector, under those in the cells.
    below: Cell<usize>,
    cells: [Place; ROOM],
}

thread_local! {
    static BOOK: Book = const {
        Book {
            state: Cell::new(State::New),
            next_serial: Cell::new(1),
            used: Cell::new(0),
            below: Cell::new(0),
            cells: [const { Place::new() }; ROOM],
        }
    };
    static DEEP: Deep = const { Deep(RefCell::new(Vec::new())) };
}

/// The entries under those in the cells, and the one who is told that the thread ends.
struct Deep(RefCell<Vec<Entry>>);

impl Drop for Deep {
    fn drop(&mut self) {
        let mut all = std::mem::take(self.0.get_mut());
        BOOK.with(|book| {
            all.extend(book.cells[..book.used.get()].iter().map(Place::get));
            book.state.set(State::Closed);
            book.used.set(0);
            book.below.set(0);
        });
        model::thread_ends(&all);
    }
}

impl Book {
    #[inline]
    fn top(&self) -> Option<&Place> {
        self.cells.get(self.used.get().wrapping_sub(1))
    }

    /// Notes the thread's end in advance, and makes room; false if the thread is ending already.
    #[cold]
    fn make_room(&self) -> bool {
        if self.state.get() == State::New && DEEP.try_with(|_| ()).is_ok() {
            self.state.set(State::Open);
        }
        if self.state.get() != State::Open {
            return false;
        }
        if self.used.get() == ROOM {
            deep(|entries| entries.extend(self.cells[..ROOM / 2].iter().map(Place::get)));
            for at in ROOM / 2..ROOM {
                self.cells[at - ROOM / 2].set(&self.cells[at].get());
            }
            self.used.set(ROOM / 2);
            self.below.set(self.below.get() + ROOM / 2);
        }
        true
    }

    /// Brings entries back from the vector into the cells.
    #[cold]
    fn refill(&self) {
        let count = self.below.get().min(ROOM / 2);
        let start = self.below.get() - count;
        deep(|entries| entries.drain(start..).zip(&self.cells).for_each(|(entry, cell)| cell.set(&entry)));
        self.below.set(start);
        self.used.set(count);
    }
}

fn deep<R>(f: impl FnOnce(&mut Vec<Entry>) -> R) -> Option<R> {
    DEEP.try_with(|deep| deep.0.try_borrow_mut().ok().map(|mut entries| f(&mut entries))).ok().flatten()
}

pub(super) fn depth() -> usize {
    BOOK.with(|book| book.below.get() + book.used.get())
}

/// The entry with this index, counted from the bottom.
pub(super) fn get(index: usize) -> Option<Entry> {
    BOOK.with(|book| match index.checked_sub(book.below.get()) {
        Some(at) => book.cells[..book.used.get()].get(at).map(Place::get),
        None => deep(|entries| entries.get(index).cloned()).flatten(),
    })
}

/// Changes the entry with this index.
pub(super) fn change(index: usize, change: impl FnOnce(&mut Entry)) {
    let Some(mut entry) = get(index) else { return };
    change(&mut entry);
    BOOK.with(|book| match index.checked_sub(book.below.get()) {
        Some(at) => book.cells[at].set(&entry),
        None => drop(deep(|entries| entries[index] = entry)),
    });
}

/// Adds an entry with a new number, and gives the number; 0, and nothing added, if the thread is ending.
#[inline]
pub(super) fn push(
    context: &UnownedContext,
    how: How,
    place: &'static Location<'static>,
    guards: u32,
) -> u64 {
    BOOK.with(|book| {
        let serial = book.next_serial.get();
        book.next_serial.set(serial + 1);
        let is_open = book.state.get() == State::Open && book.used.get() < ROOM;
        if !is_open && !book.make_room() {
            return 0;
        }
        let used = book.used.get();
        if let Some(cell) = book.cells.get(used) {
            cell.set(&Entry { context: context.clone(), how, place, guards, doomed: false, serial });
            book.used.set(used + 1);
        }
        serial
    })
}

/// Puts an entry back that was taken out.
pub(super) fn put_back(entry: &Entry) {
    BOOK.with(|book| {
        if book.make_room() {
            book.cells[book.used.get()].set(entry);
            book.used.set(book.used.get() + 1);
        }
    });
}

/// Takes the top entry out; true if the next one can be taken off too.
#[inline]
pub(super) fn pop() -> bool {
    BOOK.with(|book| {
        book.used.set(book.used.get().saturating_sub(1));
        if book.used.get() == 0 && book.below.get() > 0 {
            book.refill();
        }
        is_over()
    })
}

/// Whether the top entry can be taken off.
#[inline]
pub(super) fn is_over() -> bool {
    BOOK.with(|book| book.top().is_some_and(|top| top.doomed.get() && top.guards.get() == 0))
}

/// Whether the book says that this context is current.
#[inline]
pub(super) fn is_top(context: &UnownedContext) -> bool {
    BOOK.with(|book| book.top().is_some_and(|top| top.identity.get() == context.identity()))
}

/// Whether there is a top entry and no guard stands on it.
#[inline]
pub(super) fn top_is_unheld() -> bool {
    BOOK.with(|book| book.top().is_some_and(|top| top.guards.get() == 0))
}

/// Whether there is a top entry with this handle.
#[inline]
pub(super) fn top_has(raw: CUcontext) -> bool {
    BOOK.with(|book| book.top().is_some_and(|top| ptr::eq(top.identity.get().raw(), raw)))
}

/// The context on top, for one who knows that there is an entry; else some context or nobody.
///
/// It comes out through a variable, not as a result: `with` wraps a result in an `Option`, a compiler that folds the
/// `None` into a field of the handle copies it in pieces, and a processor that is to read whole what was just written
/// in pieces waits. That alone was a tenth of a push and a pop.
#[inline]
pub(super) fn top_context() -> UnownedContext {
    let mut identity = Identity::NOBODY;
    BOOK.with(|book| identity = book.cells[book.used.get().wrapping_sub(1) % ROOM].identity.get());
    identity.into()
}

/// Lets one more guard stand on the top entry, and gives the entry's number.
#[inline]
pub(super) fn stand_on_top() -> u64 {
    BOOK.with(|book| match book.top() {
        Some(top) => {
            top.guards.set(top.guards.get() + 1);
            top.serial.get()
        }
        None => 0,
    })
}

/// Lets a guard that did not make the top entry step off it; false, and nothing done, if more would have to follow or
/// the entry is another.
#[inline]
pub(super) fn step_off_top(serial: u64) -> bool {
    BOOK.with(|book| {
        let Some(top) = book.top() else { return false };
        let guards = top.guards.get();
        let all = top.serial.get() == serial && guards > u32::from(top.doomed.get());
        if all {
            top.guards.set(guards - 1);
        }
        all
    })
}

/// Whether the entry is on top, with one guard on it.
#[inline]
pub(super) fn top_has_one_guard(serial: u64) -> bool {
    BOOK.with(|book| book.top().is_some_and(|top| top.serial.get() == serial && top.guards.get() == 1))
}
