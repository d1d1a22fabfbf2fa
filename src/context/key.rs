//! What streams, events and contexts are known by in the [list of captures](super::captures).

use super::handle::UnownedContext;
use crate::driver::ffi::{CU_STREAM_PER_THREAD, CUarray, CUevent, CUlinkState, CUmodule, CUstream};
use crate::liveness::OF_GRAPH;
pub(crate) use crate::liveness::this_thread;

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
            (this_thread() as usize) << 32 | (context.id() as usize) << 2 | at
        }
        _ => key_of_legacy_stream(context.as_raw().addr()),
    }
}

/// The key of the legacy stream of the context with this address, which waits for the context's blocking streams. The
/// context is known by its address, because a primary context that is retained again has another number.
#[inline]
pub(super) fn key_of_legacy_stream(context: usize) -> usize {
    context | 1
}

/// The key of what waits for the whole context with this address.
#[inline]
pub(super) fn key_of_whole_context(context: usize) -> usize {
    context | 3
}

/// Whether it stands for what any capture may have: it is one of these keys, of a context that is
/// not known, or that of the events of a graph.
pub(super) fn may_be_of_any_capture(key: usize) -> bool {
    [key_of_legacy_stream(0), key_of_whole_context(0), OF_GRAPH].contains(&key)
}
