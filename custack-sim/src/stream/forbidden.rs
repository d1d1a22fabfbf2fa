//! What captures forbid, to the thread that captures and to others, and how a capture becomes invalid.

use super::capture::{CAPTURE_IMPLICIT, CAPTURE_ISOLATION, CAPTURE_UNSUPPORTED, Capture, Member, RELAXED};
use crate::machine::*;
use custack_sys::ffi::CUresult;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// How many captures there are, for the calls that no capture forbids.
pub(super) static CAPTURES: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn is_anything_captured() -> bool {
    CAPTURES.load(Ordering::Relaxed) > 0
}

const GLOBAL: u32 = 0;

/// The functions that may wait for any stream, which captures therefore forbid.
const MAY_WAIT: &[&str] = &[
    "cuDeviceSetMemPool",
    "cuCtxSetLimit",
    "cuCtxSetCacheConfig",
    "cuCtxSetSharedMemConfig",
    "cuCtxDisablePeerAccess",
    "cuMemAllocPitch_v2",
    "cuMemFree_v2",
    "cuMemAllocHost_v2",
    "cuMemFreeHost",
    "cuMemHostAlloc",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuMemPoolCreate",
    "cuMemPoolDestroy",
    "cuMemPoolTrimTo",
    "cuMemPoolSetAttribute",
    "cuMemPoolGetAttribute",
    "cuMemPoolSetAccess",
    "cuMemPoolGetAccess",
    "cuArrayCreate_v2",
    "cuArray3DCreate_v2",
    "cuArrayDestroy",
    "cuTexObjectCreate",
    "cuTexObjectDestroy",
    "cuSurfObjectCreate",
    "cuSurfObjectDestroy",
    "cuGraphExecDestroy",
];

impl Machine {
    pub(super) fn known_mode(&mut self, mode: u32) -> Answer<()> {
        if mode > RELAXED {
            return self.refuse(INVALID_VALUE, format_args!("{mode} is no mode of a capture"));
        }
        Ok(())
    }

    /// Refuses a function that may wait, while a capture forbids it to this thread.
    pub(crate) fn forbidden(&mut self, function: &str) -> Answer<()> {
        if !MAY_WAIT.contains(&function) {
            return Ok(());
        }
        self.may_wait()
    }

    /// Applies the thread's mode: in the global mode all captures count, in the thread-local mode its own, in the
    /// relaxed mode none.
    pub(crate) fn may_wait(&mut self) -> Answer<()> {
        let (mode, here) = (self.thread().capture_mode, thread::current().id());
        let forbids =
            |it: &Capture| it.mode != RELAXED && it.thread == here || mode == GLOBAL && it.mode == GLOBAL;
        if mode == RELAXED {
            return Ok(());
        }
        let hit: Vec<u64> =
            self.captures.by_id.iter().filter(|(_, it)| forbids(it)).map(|(id, _)| *id).collect();
        if hit.is_empty() {
            return Ok(());
        }
        hit.into_iter().for_each(|id| self.invalidate(id));
        self.refuse(CAPTURE_UNSUPPORTED, "a call that may wait, while a stream captures")
    }

    /// Refuses to wait for all of a context while one of its streams captures.
    pub(crate) fn may_wait_for(&mut self, context: Handle) -> Answer<()> {
        self.invalidate_members(CAPTURE_UNSUPPORTED, |member| member.context == context)
    }

    pub(super) fn invalidate(&mut self, id: u64) {
        if let Some(capture) = self.captures.by_id.get_mut(&id) {
            capture.invalid = true;
        }
    }

    /// The captures of these streams are invalid now, and the call is refused; if there is one.
    fn invalidate_members(&mut self, status: CUresult, which: impl Fn(&Member) -> bool) -> Answer<()> {
        let members = self.captures.of_stream.values();
        let hit: Vec<u64> = members.filter(|member| which(member)).map(|member| member.id).collect();
        if hit.is_empty() {
            return Ok(());
        }
        hit.into_iter().for_each(|id| self.invalidate(id));
        self.refuse(status, "the call concerns a stream that captures")
    }

    /// The legacy stream waits for the blocking streams of its context, and so cannot be used while one captures.
    pub(crate) fn legacy_is_free(&mut self, context: Handle) -> Answer<()> {
        self.invalidate_members(CAPTURE_IMPLICIT, |member| member.context == context && member.blocks)
    }

    /// Refuses a call that cannot be captured, in a stream that is capturing.
    pub(crate) fn no_node(&mut self, stream: usize) -> Answer<()> {
        let Some(member) = self.member(stream) else { return Ok(()) };
        self.invalidate(member.id);
        self.refuse(CAPTURE_UNSUPPORTED, "what is asked of the stream cannot be captured")
    }

    /// The call failed in a stream that is capturing: the capture is invalid.
    pub(crate) fn breaks_capture<T>(&mut self, stream: usize, answer: Answer<T>) -> Answer<T> {
        if answer.is_ok() {
            return answer;
        }
        if let Some(member) = self.member(stream) {
            self.invalidate(member.id);
        }
        answer
    }

    /// A stream that is captured waits for what happens outside.
    pub(crate) fn no_isolation(&mut self, stream: usize) -> Answer<()> {
        let refused =
            self.refuse(CAPTURE_ISOLATION, "a captured stream waits for an event that was not captured");
        self.breaks_capture(stream, refused)
    }
}
