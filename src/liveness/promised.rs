//! Functions of the program that the driver was asked to call once, until it calls them.
//!
//! The driver gets a key, not a pointer. If it calls twice (because other code captured the stream), or after it
//! returned an error, there is no function under the key. The driver never calls a function in a context that is in
//! error; such a function is dropped when the context is destroyed.

use super::record::{Handle, Origin};
use super::sync::Mutex;
use crate::driver::{self, Locked};
use crate::report;
use std::collections::VecDeque;

pub(crate) type Function = Box<dyn FnOnce() + Send>;

struct Promised {
    key: u64,
    function: Function,
    context: Handle,
}

#[derive(Default)]
struct Table {
    last: u64,
    /// In the order of their keys, which is roughly that in which the driver calls them.
    all: VecDeque<Promised>,
}

static TABLE: Mutex<Table> = Mutex::new(Table { last: 0, all: VecDeque::new() });

fn lock() -> Locked<'static, Table> {
    driver::lock(&TABLE)
}

/// Keeps the function until the context is destroyed; the key is never reused, and never 0.
pub(crate) fn keep(context: Handle, function: Function) -> u64 {
    let mut table = lock();
    table.last += 1;
    let key = table.last;
    table.all.push_back(Promised { key, function, context });
    key
}

/// Removes the function, to be called or dropped.
pub(crate) fn take(key: u64) -> Option<Function> {
    let mut table = lock();
    let all = &mut table.all;
    let at = all.binary_search_by_key(&key, |promised| promised.key).ok()?;
    all.remove(at).map(|promised| promised.function)
}

/// Whether a function is kept that the driver would call in this context.
pub(super) fn has_of(context: Handle) -> bool {
    lock().all.iter().any(|promised| is_of(promised, context))
}

/// Drops the functions of a context that the driver has destroyed: it calls none of them any more.
pub(super) fn drop_of(context: Handle) {
    let keys: Vec<_> = {
        let table = lock();
        let of_it = table.all.iter().filter(|promised| is_of(promised, context));
        of_it.map(|promised| promised.key).collect()
    };
    for function in keys.into_iter().filter_map(take) {
        report::contained(|| drop(function));
    }
}

/// Whether the driver would have called the function in this context, which is destroyed. A primary context may have
/// several ids; a created context with the same raw handle and a later id is another one.
fn is_of(promised: &Promised, context: Handle) -> bool {
    let of = &promised.context;
    let same = of.id() <= context.id() || context.origin() == Origin::Primary;
    of.raw() == context.raw() && same && !of.is_alive()
}
