//! Storage for the entries: the topmost ones inline, in plain cells; deeper ones spill into a vector.
//!
//! A scope should cost little more than its driver calls. A vector in a thread-local cell has a destructor to register,
//! a borrow to count and a heap pointer to follow; with a vector alone, scopes took half as long again. So the topmost
//! entries, up to [`INLINE`], are in cells without a destructor, where a scope reads and writes a few words. When the
//! cells are full, the lower half spills into the vector; when they are empty, as many come back. So a scope costs the
//! same on a deep stack as on a shallow one.
//!
//! Nothing here has a destructor, so it works while the thread ends, in the destructors of the program's thread-locals.
//! [`WATCH`] notices the thread's end and frees the vector; if the vector still has entries then, it is freed when the
//! last of them comes back.

use super::cells::Cells;
use super::entry::{Entry, How};
use crate::driver::ffi::CUcontext;
use crate::liveness::{Handle, deaths};
use custack_sys::thread_end::AtEnd;
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::panic::Location;
use std::ptr;

const INLINE: usize = 16;
const FEWEST_UNPROBED: u32 = 4;
const MOST_UNPROBED: u32 = 256;

struct Stack {
    next_serial: Cell<u64>,
    /// How many of the cells are in use, from the first; 0 only if the stack is empty.
    used: Cell<usize>,
    /// How many entries have spilled; they are below those in the cells.
    spilled: Cell<usize>,
    inline: [Cells; INLINE],
    spill: ManuallyDrop<RefCell<Vec<Entry>>>,
    /// How many scopes may still switch before the next probe, and how many before the one after that.
    unprobed: Cell<u32>,
    next_unprobed: Cell<u32>,
    /// Whether [`WATCH`] is registered for this thread, and whether it has run.
    watched: Cell<bool>,
    ended: Cell<bool>,
    /// Whether [`let_go_at_end`] is registered.
    lets_go: Cell<bool>,
}

thread_local! {
    static STACK: Stack = const {
        Stack {
            next_serial: Cell::new(1),
            used: Cell::new(0),
            spilled: Cell::new(0),
            inline: [const { Cells::new() }; INLINE],
            spill: ManuallyDrop::new(RefCell::new(Vec::new())),
            unprobed: Cell::new(1),
            next_unprobed: Cell::new(FEWEST_UNPROBED),
            watched: Cell::new(false),
            ended: Cell::new(false),
            lets_go: Cell::new(false),
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

    /// Takes the top entry off. What it knows of ended entries below, the next one knows then.
    #[inline]
    fn take(&self) {
        let ended_from = self.top().map_or(0, |top| top.ended_from.get());
        self.used.set(self.used.get().saturating_sub(1));
        if self.used.get() == 0 && self.spilled.get() > 0 {
            self.refill();
        }
        if ended_from != 0 {
            self.inherit(ended_from);
        }
    }

    #[cold]
    fn inherit(&self, ended_from: u64) {
        if let Some(top) = self.top().filter(|top| top.ended_from.get() > ended_from) {
            top.ended_from.set(ended_from);
        }
    }

    #[inline]
    fn let_go(&self) {
        if let Some(top) = self.top().filter(|top| top.takes.get()) {
            top.context.get().let_go();
        }
    }

    /// A scope begins above the entries of which these are in cells: the entries right below that no guard holds are looked at,
    /// unless they were since the last death.
    #[inline]
    fn scope_begins(&self, used: usize) {
        let deaths = deaths();
        match self.inline.get(used.wrapping_sub(1)) {
            Some(below) if below.guards.get() > 0 || below.looked_at.get() == deaths => {}
            None if self.spilled.get() == 0 => {}
            _ => look_below(self.spilled.get() + used, deaths),
        }
    }

    #[cold]
    fn probe_now(&self) -> bool {
        let next = self.next_unprobed.get();
        self.unprobed.set(next);
        self.next_unprobed.set((2 * next).min(MOST_UNPROBED));
        true
    }

    /// Registers [`WATCH`], and spills entries if all cells are in use.
    #[cold]
    fn prepare_push(&self) {
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

    /// Moves spilled entries back into the cells.
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

/// Notes which entries right below this index have a dead context, after this many deaths.
#[cold]
fn look_below(index: usize, deaths: u64) {
    for index in (0..index).rev() {
        if get(index).is_none_or(|entry| entry.guards > 0 || entry.looked_at == deaths) {
            return;
        }
        change(index, |entry| {
            entry.was_dead |= !entry.context.is_alive();
            entry.looked_at = deaths;
        });
    }
}

/// Adds an entry and returns its serial number.
#[inline]
pub(crate) fn push(context: &Handle, how: How, location: &'static Location<'static>, guards: u32) -> u64 {
    STACK.with(|stack| {
        if guards > 0 {
            stack.scope_begins(stack.used.get());
        }
        let serial = stack.next_serial.get();
        stack.next_serial.set(serial + 1);
        if stack.used.get() == INLINE || !stack.watched.get() {
            stack.prepare_push();
        }
        let used = stack.used.get();
        if let Some(cells) = stack.inline.get(used) {
            // Field by field, without a temporary: a value written in pieces and soon read whole stalls the processor.
            cells.context.set(*context);
            cells.how.set(how);
            cells.location.set(location);
            cells.guards.set(guards);
            cells.ended_from.set(0);
            cells.looked_at.set(0);
            cells.was_dead.set(false);
            cells.look.set(false);
            cells.takes.set(false);
            cells.serial.set(serial);
            stack.used.set(used + 1);
        }
        serial
    })
}

/// Puts a removed entry back.
pub(crate) fn put_back(entry: &Entry) {
    STACK.with(|stack| {
        stack.prepare_push();
        stack.inline[stack.used.get()].set(entry);
        stack.used.set(stack.used.get() + 1);
    });
}

/// Removes the top entry, which the driver has popped.
#[inline]
pub(crate) fn pop() {
    STACK.with(|stack| {
        stack.let_go();
        stack.take();
    });
}

/// Takes the top entry off, which the driver has still to pop.
pub(crate) fn take() {
    STACK.with(Stack::take);
}

/// Removes the top entry, which is that of a scope and which the driver has popped; whether the next entry may have to be
/// popped too.
#[inline]
pub(crate) fn pop_scope_entry() -> bool {
    STACK.with(|stack| {
        stack.let_go();
        stack.take();
        stack.top().is_some_and(|next| {
            next.guards.get() == 0
                && (next.ended_from.get() != 0 || next.look.get() || !next.context.get().is_alive())
        })
    })
}

/// Has this thread let go of the green contexts that are left on its stack when it ends. Where the end of a thread cannot be
/// told from that of its thread-locals, it keeps them: a destructor could still use them.
pub(super) fn let_go_at_end() {
    static END: AtEnd = AtEnd::new(|| {
        STACK.with(|stack| stack.lets_go.set(false));
        (0..depth()).filter_map(get).for_each(|entry| entry.let_go());
    });
    let first = STACK.with(|stack| !stack.lets_go.replace(true));
    if first {
        END.watch();
    }
}

/// Whether custack's entry of this context is on top.
#[inline]
pub(crate) fn is_top(context: &Handle) -> bool {
    STACK.with(|stack| stack.top().is_some_and(|top| top.context.get() == *context))
}

/// Whether there is a top entry and no guard holds it.
#[inline]
pub(crate) fn top_is_unheld() -> bool {
    STACK.with(|stack| stack.top().is_some_and(|top| top.guards.get() == 0))
}

/// Whether a guard holds the top entry or the one below it.
#[inline]
pub(crate) fn guard_near_top() -> bool {
    STACK.with(|stack| match stack.used.get() {
        0 => false,
        1 => !top_is_unheld() || depth().checked_sub(2).and_then(get).is_some_and(|below| below.guards > 0),
        used => stack.inline[used - 2..used].iter().any(|cells| cells.guards.get() > 0),
    })
}

/// Whether there is a top entry with this raw handle.
#[inline]
pub(crate) fn top_has(raw: CUcontext) -> bool {
    STACK.with(|stack| stack.top().is_some_and(|top| ptr::eq(top.context.get().raw(), raw)))
}

/// The context on top; [`Handle::NONE`] if there is no entry.
///
/// The handle is passed out through a variable, not as a result: `with` wraps a result in an `Option`, a compiler that
/// folds the `None` into a field of the handle copies it in pieces, and a processor stalls when it reads whole what was
/// just written in pieces. That alone cost a tenth of a push and a pop.
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

/// Whether a scope that is about to switch should first ask the driver whether other code has made its context current.
/// That is so where custack has no entry of its own on top: on the second switch of a thread, and then ever more
/// rarely, so that scopes which have to switch pay nothing for it.
#[inline]
pub(crate) fn should_probe() -> bool {
    STACK.with(|stack| {
        let foreign = stack.top().is_none_or(|top| top.how.get() == How::Found);
        let left = stack.unprobed.get();
        if foreign && left > 0 {
            stack.unprobed.set(left - 1);
        }
        foreign && left == 0 && stack.probe_now()
    })
}

/// Other code has changed this thread's stack: the next scope that is about to switch probes.
pub(crate) fn probe_soon() {
    STACK.with(|stack| {
        stack.unprobed.set(0);
        stack.next_unprobed.set(FEWEST_UNPROBED);
    });
}

/// Adds a guard to the top entry and returns the entry's serial number.
#[inline]
pub(crate) fn hold_top() -> u64 {
    STACK.with(|stack| match stack.top() {
        Some(top) => {
            let guards = top.guards.get();
            if guards == 0 {
                stack.scope_begins(stack.used.get() - 1);
            }
            top.guards.set(guards.saturating_add(1));
            top.serial.get()
        }
        None => 0,
    })
}

/// Removes a guard, which did not make the entry, from the top entry; returns false, and changes nothing, if the entry
/// is not on top or must be popped as well.
#[inline]
pub(crate) fn release_top(serial: u64) -> bool {
    STACK.with(|stack| {
        let Some(top) = stack.top() else { return false };
        let guards = top.guards.get();
        let stays = guards > 1 || top.ended_from.get() == 0 && top.context.get().is_alive();
        let all = top.serial.get() == serial && guards > 0 && stays;
        if all {
            top.guards.set(guards - 1);
        }
        all
    })
}

/// Whether the entry is on top and one guard holds it.
#[inline]
pub(crate) fn top_has_one_guard(serial: u64) -> bool {
    STACK.with(|stack| stack.top().is_some_and(|top| top.serial.get() == serial && top.guards.get() == 1))
}
