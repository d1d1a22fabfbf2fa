//! A call that blocks.

use super::index;
use std::cell::RefCell;

type Wait = (usize, Box<dyn FnOnce()>);

thread_local! {
    static WAIT: RefCell<Option<Wait>> = const { RefCell::new(None) };
}

/// Calls `f` at the beginning of this thread's next call of the function, which is as a driver that blocks there if `f`
/// waits. It replaces an earlier one that was not called.
///
/// # Panics
///
/// If there is no driver function of that name.
#[track_caller]
pub fn wait_in(function: &str, f: impl FnOnce() + 'static) {
    WAIT.set(Some((index(function), Box::new(f))));
}

/// This thread calls the function.
pub(super) fn here(index: usize) {
    // A thread that is ending has none any more.
    let take = |wait: &RefCell<Option<Wait>>| wait.borrow_mut().take_if(|(at, _)| *at == index);
    if let Ok(Some((_, wait))) = WAIT.try_with(take) {
        wait();
    }
}
