//! Driver calls on what a capture may include: never while the capture is ended.
//!
//! A driver of CUDA 13.0 on an H200 crashes when one thread ends a capture and another begins a call on a stream or an
//! event of it, be it a query, or on the default stream of its context, or waits for the context. Calls at the beginning
//! of a capture and during it do no harm, nor do those that are blocked in the driver since before. So every such call is
//! published on its thread ([`Call`]) before it looks whether a capture is being ended; a thread that ends one says so in
//! the [list of captures](super::captures), then waits for the published calls. No lock is held during a driver call.
//!
//! Captures of other code are not known here.

use super::captures;
use super::handle::UnownedContext;
use crate::driver::ffi::{
    CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, CUarray, CUevent, CUlinkState, CUmodule, CUstream,
};
use crate::error::{CudaError, CudaResult};
use crate::liveness::{Call, wait_shortly_while};

/// Until it is dropped, no other thread ends a capture that this call could crash.
pub(crate) struct InCall(#[expect(dead_code, reason = "it is there to be dropped")] Option<Call>);

/// What a handle is known by in the list of captures.
pub(crate) trait Capturable: Copy + 'static {
    /// 0 for what is no part of any capture.
    fn key(self, context: &UnownedContext) -> usize;
}

impl Capturable for CUstream {
    #[inline]
    fn key(self, context: &UnownedContext) -> usize {
        key_of_stream(self, context)
    }
}

impl Capturable for CUevent {
    #[inline]
    fn key(self, _: &UnownedContext) -> usize {
        self.addr()
    }
}

macro_rules! never_captured {
    ($($handle:ty),*) => {
        $(impl Capturable for $handle {
            #[inline]
            fn key(self, _: &UnownedContext) -> usize {
                0
            }
        })*
    };
}

never_captured!(CUmodule, CUarray, CUlinkState);

/// The key of a stream in the list of captures. It is not the raw handle, because the default streams have the same raw
/// handles in every context, and on every thread.
#[inline]
pub(crate) fn key_of_stream(stream: CUstream, context: &UnownedContext) -> usize {
    match stream.addr() {
        at if at > CU_STREAM_PER_THREAD.addr() => at,
        at if at == CU_STREAM_PER_THREAD.addr() => {
            (captures::this_thread() as usize) << 32 | (context.id() as usize) << 2 | at
        }
        _ => key_of_default_stream(context.id()),
    }
}

/// The key of a context's legacy stream, and of what waits for the whole context.
#[inline]
pub(crate) fn key_of_default_stream(context: u64) -> usize {
    (context as usize) << 2 | CU_STREAM_LEGACY.addr()
}

/// A call without a stream, or one that waits for the whole context. A null context stands for any.
#[inline]
pub(crate) fn enter_context(context: &UnownedContext) -> CudaResult<InCall> {
    enter([key_of_default_stream(context.id()), 0])
}

/// A call on what has these keys, of which the second may be 0.
#[inline]
pub(super) fn enter(keys: [usize; 2]) -> CudaResult<InCall> {
    if keys[0] == 0 {
        return Ok(InCall(None));
    }
    let call = Call::publish(keys);
    if captures::ending() { enter_later(keys, call) } else { Ok(InCall(call)) }
}

#[cold]
fn enter_later(keys: [usize; 2], mut call: Option<Call>) -> CudaResult<InCall> {
    while captures::is_ending_elsewhere(keys) {
        drop(call.take());
        if !wait_shortly_while(|| captures::is_ending_elsewhere(keys)) {
            return Err(CudaError::IllegalState.note(format_args!(
                "to use a stream or an event of a capture that another thread is ending, which does not come to an end"
            )));
        }
        call = Call::publish(keys);
    }
    Ok(InCall(call))
}
