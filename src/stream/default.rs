//! The default streams: each context has one, and each thread has one in each context.

use super::Stream;
use crate::context::{ContextHandle, Resource};
use crate::driver::ffi::{CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
use std::marker::PhantomData;
use std::ops::Deref;

/// The default stream of a context. Work without a stream is in it, such as a plain copy, and so is what other code gives
/// the NULL stream.
///
/// Its work waits for what all streams of the context were given before, unless they are
/// [`NON_BLOCKING`](super::StreamFlags::NON_BLOCKING), and what they are given later waits for it. It cannot be captured.
///
/// The driver takes it for that of whatever context is current; this one is of its own context on every thread, at the
/// cost of a scope where that is not current. It derefs to [`Stream`], and is never destroyed.
///
/// ```
/// use custack::stream::LegacyStream;
///
/// let context = custack::quick_init()?;
/// let legacy = LegacyStream::of(&context);
/// legacy.launch_host_func(|| println!("after all blocking streams"))?;
/// legacy.synchronize()?;
/// # Ok::<(), custack::error::CudaError>(())
/// ```
#[derive(Debug)]
pub struct LegacyStream(Stream);

impl LegacyStream {
    /// That of this context. It can be had of a context that is destroyed too, and reports so.
    pub fn of<C: ContextHandle>(context: &C) -> LegacyStream {
        let context = context.as_unowned().clone();
        LegacyStream(Resource::implicit(CU_STREAM_LEGACY, context, false).into())
    }
}

impl Clone for LegacyStream {
    fn clone(&self) -> LegacyStream {
        LegacyStream::of(self.context())
    }
}

impl Deref for LegacyStream {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        &self.0
    }
}

/// The default stream that the calling thread has in a context, beside those of other threads. It waits for the
/// [legacy](LegacyStream) one, and that for it, as a stream without flags does.
///
/// It cannot leave its thread; where a `&Stream` that it gave out has, every call returns
/// [`InvalidHandle`](crate::error::CudaError::InvalidHandle). It derefs to [`Stream`], and is never destroyed.
///
/// ```
/// use custack::stream::PerThreadStream;
///
/// let context = custack::quick_init()?;
/// let mine = PerThreadStream::of(&context);
/// mine.launch_host_func(|| println!("after the work of this thread"))?;
/// mine.synchronize()?;
/// # Ok::<(), custack::error::CudaError>(())
/// ```
///
/// ```compile_fail,E0277
/// # use custack::stream::PerThreadStream;
/// # let context = custack::quick_init().unwrap();
/// let mine = PerThreadStream::of(&context);
/// std::thread::spawn(move || mine.synchronize());
/// ```
#[derive(Debug)]
pub struct PerThreadStream {
    stream: Stream,
    /// It is about one thread: neither `Send` nor `Sync`.
    thread: PhantomData<*const ()>,
}

impl PerThreadStream {
    /// That of the calling thread in this context.
    pub fn of<C: ContextHandle>(context: &C) -> PerThreadStream {
        let context = context.as_unowned().clone();
        let inner = Resource::implicit(CU_STREAM_PER_THREAD, context, true);
        PerThreadStream { stream: inner.into(), thread: PhantomData }
    }
}

impl Clone for PerThreadStream {
    fn clone(&self) -> PerThreadStream {
        PerThreadStream::of(self.context())
    }
}

impl Deref for PerThreadStream {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        &self.stream
    }
}
