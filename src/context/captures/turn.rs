//! Turns of threads at streams and events that captures concern.

use crate::driver::lock;
use crate::error::{CudaError, CudaResult};
use crate::liveness::wait_shortly_while;
use std::sync::Mutex;

/// The keys at which a thread has its turn.
static TURNS: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// The turn of one thread at a stream or an event: what it asks of the list of captures stays true. Driver calls are made
/// meanwhile, so it is no lock: a thread that has waited for its turn for two seconds is refused.
#[must_use = "it is over when it is dropped"]
pub(crate) struct Turn(usize);

impl Turn {
    /// Waits for the turn of this thread, which has none at this key.
    ///
    /// # Errors
    ///
    /// [`IllegalState`](CudaError::IllegalState) if another thread's turn does not come to an end.
    #[cold]
    pub(crate) fn at(key: usize) -> CudaResult<Turn> {
        let is_taken = || {
            let mut turns = lock(&TURNS);
            let is_taken = turns.contains(&key);
            if !is_taken {
                turns.push(key);
            }
            is_taken
        };
        if wait_shortly_while(is_taken) {
            return Ok(Turn(key));
        }
        Err(CudaError::IllegalState.note(format_args!(
            "to use a stream or an event in captures, of which another thread is in a driver call that does not return"
        )))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        lock(&TURNS).retain(|key| *key != self.0);
    }
}
