//! Performs the acts on memory. A use of a cell waits for the use before it, whatever streams they are in, so the
//! oracle knows the values.

use super::act::{Act, On, Thing};
use super::actor::{Actor, Lent, Within};
use super::world::{Cell, Effect, LEN, World};
use crate::harness::is_simulated;
use custack::error::{CudaError, CudaResult};
use custack::event::EventFlags;
use custack::function::Function;
use custack::launch;
use custack::memory::{AsyncCopyDestination, CopyDestination, DeviceBuffer};
use custack::stream::{CaptureStatus, LegacyStream, Stream, StreamWaitEventFlags, SyncScope};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A cell, out of its slot while it is used.
pub(super) type Out = (usize, Cell);

/// Makes the stream wait for the last use of the cell.
pub(super) fn order(cell: &Cell, stream: &Stream) -> CudaResult<()> {
    match &cell.last {
        Some((event, _)) => stream.wait_event(&**event, StreamWaitEventFlags::DEFAULT),
        None => Ok(()),
    }
}

/// Notes that the stream has used the cell last.
pub(super) fn used(cell: &mut Cell, stream: &Stream, context: usize) {
    let event = stream.context().create_event(EventFlags::DISABLE_TIMING);
    match event.and_then(|event| event.record(stream).map(|()| event)) {
        Ok(event) => cell.last = Some((Arc::new(event), context)),
        Err(_) => cell.values = None,
    }
}

/// Submits a function by another thread, when the scope waits already.
fn submit_late<'scope>(
    scope: &'scope SyncScope<'scope, '_>,
    seen: &'scope mut bool,
    result: &'scope OnceLock<CudaResult<()>>,
) {
    let submit = move || {
        let function = move || {
            std::thread::sleep(Duration::from_micros(200));
            *seen = true;
        };
        let _ = result.set(scope.launch_host_func(function));
    };
    std::thread::scope(|threads| drop(threads.spawn(submit)));
}

impl World {
    pub(super) fn take_cell(&mut self, n: usize) -> Option<Out> {
        let out = self.cells.take(n)?;
        self.busy.insert(out.1.id);
        Some(out)
    }

    pub(super) fn put_cell(&mut self, (at, cell): Out) {
        self.busy.remove(&cell.id);
        self.cells.put(at, cell);
    }
}

impl Actor {
    pub(super) fn with_cell(&mut self, n: usize, f: impl FnOnce(&mut Actor, &mut Cell)) {
        let Some((at, mut cell)) = self.world(|world| world.take_cell(n)) else { return };
        f(self, &mut cell);
        self.world(|world| world.put_cell((at, cell)));
    }

    /// Performs the act, if it is one of these.
    pub(super) fn on_cells(&mut self, act: &Act, within: Within<'_>) -> bool {
        match *act {
            Act::MakeCell(n, value) => {
                let at = self.world(|world| world.context(n));
                let made = self.handle(at).device_buffer(&[value; LEN]);
                self.judge("make a buffer", &made, [at], &[]);
                self.made(made, at, value);
            }
            Act::MakeOrderedCell(n, pool, value) => {
                let Some((stream, context)) = self.stream(On::Own(n), None) else { return true };
                let pool = pool.and_then(|n| self.world(|world| world.pools.get(n).cloned()));
                let made = match &pool {
                    Some(pool) => DeviceBuffer::from_slice_in(&[value; LEN], (&**pool, &*stream)),
                    None => DeviceBuffer::from_slice_in(&[value; LEN], &*stream),
                };
                self.judge("make a buffer in the order of a stream", &made, [context], &[]);
                self.made(made, context, value);
            }
            Act::Fill(n, on, value) => self.with_cell(n, |this, cell| {
                let id = cell.id;
                this.use_cell("fill", cell, on, within, Effect::Fill(id, value), |cell, stream, _| {
                    let slice = Arc::get_mut(&mut cell.memory)?;
                    // SAFETY: what uses the cell next waits for an event behind this.
                    Some(unsafe { slice.async_fill(value, stream) })
                });
            }),
            Act::Put(n, function, on, value) => {
                let Some((function, of)) = self.world(|world| world.functions.get(function).cloned()) else {
                    return true;
                };
                self.with_cell(n, |this, cell| {
                    if of == cell.context {
                        this.put(cell, &function, on, within, value);
                    }
                });
            }
            Act::Copy(from, to, on) => self.copy(from, to, on, within),
            Act::Read(n) => self.with_cell(n, |this, cell| this.read(cell)),
            Act::ReadIn(n, stream) => self.with_cell(n, |this, cell| this.read_in(cell, stream)),
            Act::Write(n, value) => self.with_cell(n, |this, cell| {
                this.set("write a buffer", cell, value, |slice| slice.copy_from(&[value; LEN]));
            }),
            Act::FillNow(n, stream, value) => self.with_cell(n, |this, cell| {
                this.set("fill a buffer", cell, value, |slice| slice.fill(value));
                this.read_in(cell, stream);
            }),
            Act::MoveTo(n, stream) => {
                let Some((stream, context)) = self.stream(On::Own(stream), None) else { return true };
                self.with_cell(n, |this, cell| {
                    let Some(buffer) = Arc::get_mut(&mut cell.memory) else { return };
                    let result = buffer.move_to(&stream);
                    let also: &[_] = match buffer.is_in_stream_order() {
                        false => &[CudaError::InvalidValue],
                        true if context != cell.context => &[CudaError::InvalidHandle],
                        true => &[],
                    };
                    // Nothing is asked of a stream that is the home already.
                    if result.is_err() {
                        this.judge("move a buffer", &result, [cell.context, context], also);
                    }
                });
            }
            Act::FreeIn(n, stream) => {
                let Some((stream, context)) = self.stream(On::Own(stream), None) else { return true };
                let Some((_, cell)) = self.world(|world| world.cells.take(n)) else { return true };
                let (of, ordered) = (cell.context, cell.memory.is_in_stream_order());
                let Ok(buffer) = Arc::try_unwrap(cell.memory) else { return true };
                let result = DeviceBuffer::free_in(buffer, &stream).map_err(|(error, _)| error);
                let also: &[_] = match ordered {
                    false => &[CudaError::InvalidValue],
                    true if context != of => &[CudaError::InvalidHandle],
                    true => &[],
                };
                if result.is_err() {
                    self.judge("free in a stream", &result, [of, context], also);
                }
            }
            _ => return false,
        }
        true
    }

    fn made(&self, made: CudaResult<DeviceBuffer<u32>>, context: usize, value: u32) {
        let Ok(memory) = made else { return };
        let dropped = self.world(|world| {
            if world.is_full(Thing::Cell) {
                return Some(memory);
            }
            let id = world.id();
            let memory = Arc::new(memory);
            world.cells.add(Cell { id, memory, context, last: None, values: Some([value; LEN]) });
            None
        });
        drop(dropped);
    }

    /// The stream for work on the cell: one that captures only in the innermost capture of this thread.
    fn stream_for<'a>(&self, cell: &Cell, on: On, within: Within<'a>) -> Option<(Lent<'a>, usize)> {
        let (stream, context) = self.stream(on, within)?;
        let free = || stream.capture_status() == Ok(CaptureStatus::None);
        let captured = matches!(stream, Lent::Captured(_));
        // Memory in the order of a stream is used in streams of the program's own only.
        let fits = captured || stream.is_own() || !cell.memory.is_in_stream_order();
        (context == cell.context && fits && (captured || free())).then_some((stream, context))
    }

    /// Does something with the cell in the stream; in a capture it becomes part of the plan.
    fn use_cell(
        &mut self,
        what: &str,
        cell: &mut Cell,
        on: On,
        within: Within<'_>,
        effect: Effect,
        f: impl FnOnce(&mut Cell, &Stream, Within<'_>) -> Option<CudaResult<()>>,
    ) {
        let Some((stream, context)) = self.stream_for(cell, on, within) else { return };
        if let (Lent::Captured(_), Some(capture)) = (&stream, within) {
            let Some(result) = f(cell, &stream, within) else { return };
            self.judge(what, &result, [context], &[]);
            if result.is_ok() {
                self.planned(effect);
                let kept = capture.keep(Arc::clone(&cell.memory));
                self.frames.last_mut().unwrap().abandon |= kept.is_err();
            }
            return;
        }
        let ordered = cell.memory.is_in_stream_order();
        let also = if ordered { cell.memory.also_used_in(&stream) } else { Ok(()) };
        let before = also.and_then(|()| order(cell, &stream));
        let last = cell.last.as_ref().map(|(_, context)| *context);
        self.judge("have a stream wait for a cell", &before, [context].into_iter().chain(last), &[]);
        if before.is_err() {
            return;
        }
        let Some(result) = f(cell, &stream, within) else { return };
        self.judge(what, &result, [context], &[]);
        if result.is_ok() {
            effect.apply(&mut [&mut *cell]);
            used(cell, &stream, context);
        }
    }

    fn put(
        &mut self,
        cell: &mut Cell,
        function: &Arc<Function<'static>>,
        on: On,
        within: Within<'_>,
        value: u32,
    ) {
        let (id, address) = (cell.id, cell.address());
        let keep = Arc::clone(function);
        self.use_cell("launch a kernel", cell, on, within, Effect::Put(id, value), |_, stream, within| {
            // SAFETY: the cell has this address; what uses it next waits for an event behind this.
            let launched = unsafe { launch!(keep<<<1, 1, 0, stream>>>(address, value)) };
            let capture = within.filter(|capture| std::ptr::eq::<Stream>(&***capture, stream));
            match (launched, capture) {
                (Ok(()), Some(capture)) => Some(capture.keep(Arc::clone(&keep))),
                (launched, _) => Some(launched),
            }
        });
    }

    fn copy(&mut self, from: usize, to: usize, on: On, within: Within<'_>) {
        let Some(source) = self.world(|world| world.take_cell(from)) else { return };
        if let Some((at, mut cell)) = self.world(|world| world.take_cell(to)) {
            self.copy_between(&source.1, &mut cell, on, within);
            self.world(|world| world.put_cell((at, cell)));
        }
        self.world(|world| world.put_cell(source));
    }

    /// By a copy that is done when it returns, or that is captured.
    fn copy_between(&mut self, source: &Cell, cell: &mut Cell, on: On, within: Within<'_>) {
        let (ids, needs) = ((source.id, cell.id), [source.context, cell.context]);
        if let (On::Captured(_), Some(capture)) = (on, within) {
            if source.context != cell.context || self.frames.last().unwrap().context != cell.context {
                return;
            }
            let Some(slice) = Arc::get_mut(&mut cell.memory) else { return };
            // SAFETY: the graph keeps both.
            let result = unsafe { slice.async_copy_from(&**source.memory, capture) };
            self.judge("capture a copy", &result, needs, &[]);
            if result.is_ok() {
                self.planned(Effect::Copy(ids.0, ids.1));
                let kept = capture.keep((Arc::clone(&source.memory), Arc::clone(&cell.memory)));
                self.frames.last_mut().unwrap().abandon |= kept.is_err();
            }
            return;
        }
        if !self.settled(source) || !self.settled(cell) {
            return;
        }
        let Some(slice) = Arc::get_mut(&mut cell.memory) else { return };
        self.delay(source.context);
        let result = slice.copy_from(&**source.memory);
        self.judge("copy a buffer", &result, needs, &[]);
        if result.is_err() && self.world(|world| world.loose) {
            cell.values = None;
        }
        if result.is_ok() {
            cell.values = source.values;
        }
        if let On::Own(stream) = on {
            self.read_in(cell, stream);
        }
    }

    /// Has work without a stream wait for a moment, unless a capture forbids it.
    fn delay(&self, context: usize) {
        let moment = || std::thread::sleep(std::time::Duration::from_micros(300));
        let _ = LegacyStream::of(&self.handle(context)).launch_host_func(moment);
    }

    /// Sets all values by a call that is done when it returns.
    fn set(
        &self,
        what: &str,
        cell: &mut Cell,
        value: u32,
        f: impl FnOnce(&mut DeviceBuffer<u32>) -> CudaResult<()>,
    ) {
        if !self.settled(cell) {
            return;
        }
        let Some(buffer) = Arc::get_mut(&mut cell.memory) else { return };
        self.delay(cell.context);
        let result = f(buffer);
        self.judge(what, &result, [cell.context], &[]);
        // A call that fails because of what another thread does may have written.
        let loose = self.world(|world| world.loose);
        cell.values = if result.is_ok() { Some([value; LEN]) } else { cell.values.filter(|_| !loose) };
    }

    /// Waits for the last use of the cell; whether that is possible.
    pub(super) fn settled(&self, cell: &Cell) -> bool {
        let Some((event, context)) = &cell.last else { return true };
        let result = event.synchronize();
        self.judge("wait for the last use", &result, [*context], &[]);
        result.is_ok()
    }

    pub(super) fn read(&self, cell: &Cell) {
        if !self.settled(cell) {
            return;
        }
        let mut back = [0; LEN];
        let result = cell.memory.copy_to(&mut back);
        self.judge("read a buffer", &result, [cell.context], &[]);
        self.compare(cell, result, back);
    }

    /// Reads the cell in a scope of a stream that does not wait for the work before it.
    fn read_in(&self, cell: &Cell, n: usize) {
        if !self.settled(cell) {
            return;
        }
        let Some((at, (mut stream, context))) = self.world(|world| world.streams.take(n)) else { return };
        let free = stream.capture_status() == Ok(CaptureStatus::None);
        if let (true, true, Some(own)) = (cell.context == context, free, Arc::get_mut(&mut stream)) {
            let mut back = [0; LEN];
            let result = own.sync_scope(|scope| scope.copy_to(&cell.memory[..], &mut back[..]));
            self.judge("read a buffer in a scope", &result, [context], &[]);
            self.compare(cell, result, back);
        }
        self.world(|world| world.streams.put(at, (stream, context)));
    }

    fn compare(&self, cell: &Cell, result: CudaResult<()>, found: [u32; LEN]) {
        if let (Ok(()), Some(expected)) = (result, cell.values) {
            if found != expected {
                self.problem(format!("cell {} has {found:x?}, expected {expected:x?}", cell.id));
            }
        }
    }

    /// Work that borrows, and acts before the end of the scope.
    pub(super) fn scope(&mut self, n: usize, cell: usize, value: u32, acts: &[Act], panics: bool) {
        let Some((at, (mut stream, context))) = self.world(|world| world.streams.take(n)) else { return };
        let Some((slot, mut cell)) = self.world(|world| world.take_cell(cell)) else {
            return self.world(|world| world.streams.put(at, (stream, context)));
        };
        let free = stream.capture_status() == Ok(CaptureStatus::None);
        if cell.context == context && free && order(&cell, &stream).is_ok() {
            if let (Some(stream), Some(buffer)) = (Arc::get_mut(&mut stream), Arc::get_mut(&mut cell.memory))
            {
                let (host, mut back, mut seen, mut submitted) = ([value; LEN], [0u32; LEN], false, false);
                let (mut late_seen, late) = (false, OnceLock::new());
                let depth = (self.stack.len(), self.frames.len());
                let result = catch_unwind(AssertUnwindSafe(|| {
                    stream.sync_scope(|scope| {
                        scope.copy_from(&mut buffer[..], &host[..])?;
                        scope.launch_host_func(|| seen = true)?;
                        submitted = true;
                        acts.iter().for_each(|act| self.act(act, None));
                        // Behind the acts, and beside no other thread: on a GPU a copy that waits for the function
                        // may block the call that the function waits for.
                        if is_simulated() || !self.world(|world| world.loose) {
                            let (late_seen, late) = (&mut late_seen, &late);
                            let asked = scope.launch_host_func(move || submit_late(scope, late_seen, late));
                            self.judge("launch a function behind the acts", &asked, [context], &[]);
                        }
                        if panics {
                            resume_unwind(Box::new("on purpose"));
                        }
                        Ok(())
                    })
                }));
                self.stack.truncate(depth.0);
                self.frames.truncate(depth.1);
                let alive = self.world(|world| world.is_alive(context));
                match &result {
                    Ok(result) => {
                        self.judge("a scope", result, if submitted { None } else { Some(context) }, &[])
                    }
                    Err(_) if panics => {}
                    Err(_) => self.problem("a scope panicked".to_owned()),
                }
                cell.values = if submitted { Some([value; LEN]) } else { None };
                if submitted && alive && !seen {
                    self.problem("a function of a scope was not called".to_owned());
                }
                if let Some(late) = late.get().filter(|_| alive) {
                    self.judge("a late function", late, None, &[]);
                    if late.is_ok() && !late_seen {
                        self.problem("a late function of a scope was not called".to_owned());
                    }
                }
                // Once more, without acts between.
                let again = stream.sync_scope(|scope| scope.copy_to(&buffer[..], &mut back[..]));
                self.judge("a second scope", &again, [context], &[]);
                if again.is_ok() && submitted && back != host {
                    self.problem(format!("a scope has read {back:x?}, expected {host:x?}"));
                }
            }
        }
        self.world(|world| {
            world.put_cell((slot, cell));
            world.streams.put(at, (stream, context));
        });
    }
}
