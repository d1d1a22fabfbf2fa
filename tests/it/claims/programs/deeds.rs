//! Performs the acts on what all threads share.

use super::act::{Act, Thing, pick};
use super::perform::Answer;
use super::world::{Buffer, Gone, Owner, World, values};
use crate::harness::device;
use custack::context::{Context, ContextFlags, ContextStack, CurrentContext, PrimaryContext, UnownedContext};
use custack::driver::instrument;
use custack::error::{CudaError, CudaResult};
use custack::event::{Event, EventFlags};
use custack::memory::{CopyDestination, DeviceBox, DeviceBuffer, LockedBuffer, UnifiedBuffer};
use custack::stream::{Stream, StreamFlags};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

/// What a returned value is: 0 for none, 1 for an unchanged one, 2 for a spent one.
fn back(error: CudaError, spent: bool) -> Vec<u32> {
    vec![if spent { 2 } else { 1 }, error.code()]
}

/// Performs one act.
pub(super) fn on_world(act: &Act, world: &mut World) -> Answer {
    match *act {
        Act::Create => {
            if world.created_and_owned() < world.most {
                let context = Context::create_and_push(ContextFlags::SCHED_AUTO, device())?;
                world.add(context.get_unowned(), Owner::Created(Some(context)));
            }
        }
        Act::Retain => {
            let share = PrimaryContext::retain(device())?;
            let handle = share.get_unowned();
            match world.index_of(&handle).map(|at| &mut world.owners[at]) {
                Some(Owner::Primary(shares)) => shares.push(share),
                Some(_) => panic!("a primary context that was created"),
                None => world.add(handle, Owner::Primary(vec![share])),
            }
        }
        Act::MakeBuffer(kind, len, seed) => {
            world.buffers.push(Some(Buffer::new(kind, &values(kind, len, seed))?));
        }
        Act::Write(n, seed) => {
            let at = pick(n, world.buffers.len());
            if let Some(buffer) = at.and_then(|at| world.buffers[at].as_mut()) {
                buffer.write(seed)?;
            }
        }
        Act::Read(n) => {
            let at = pick(n, world.buffers.len());
            return at.and_then(|at| world.buffers[at].as_ref()).map_or(Ok(vec![]), Buffer::read);
        }
        Act::ReadAll => {
            // The answers in sequence; 1 for a destroyed context, else 0 and the value.
            let each = |buffer: &Buffer| match buffer.read() {
                Ok(values) => Ok([vec![0], values].concat()),
                Err(CudaError::ContextIsDestroyed) => Ok(vec![1]),
                Err(error) => Err(error),
            };
            let all = world.buffers.iter().flatten().map(each).collect::<CudaResult<Vec<_>>>()?;
            return Ok(all.concat());
        }
        Act::Copy(to, from) => {
            let count = world.buffers.len();
            let (Some(to), Some(from)) = (pick(to, count), pick(from, count)) else { return Ok(vec![]) };
            if to == from {
                return Ok(vec![]);
            }
            let mut target = world.buffers[to].take();
            let result = match (target.as_mut(), world.buffers[from].as_ref()) {
                (Some(Buffer::Device(target)), Some(Buffer::Device(source))) => {
                    let count = target.len().min(source.len());
                    target[..count].copy_from(&source[..count])
                }
                _ => Ok(()),
            };
            world.buffers[to] = target;
            result?;
        }
        Act::StaleSlice(n, seed) => return stale_slice(world, n, seed),
        Act::MakeStream => {
            world.streams.push(Some(Arc::new(Stream::new(StreamFlags::NON_BLOCKING, None)?)));
        }
        Act::SynchronizeStream(n) => {
            let at = pick(n, world.streams.len());
            if let Some(stream) = at.and_then(|at| world.streams[at].as_ref()) {
                stream.synchronize()?;
            }
        }
        Act::SynchronizeElsewhere(n) => {
            let at = pick(n, world.streams.len());
            if let Some(stream) = at.and_then(|at| world.streams[at].as_ref()) {
                world.waiter.as_ref().unwrap().send(Arc::clone(stream)).unwrap();
            }
        }
        Act::MakeEvent => world.events.push(Some(Event::new(EventFlags::DEFAULT)?)),
        Act::Record(event, stream) => {
            let (event, stream) = (pick(event, world.events.len()), pick(stream, world.streams.len()));
            let event = event.and_then(|at| world.events[at].as_ref());
            if let (Some(event), Some(stream)) = (event, stream.and_then(|at| world.streams[at].as_ref())) {
                event.record(stream)?;
            }
        }
        Act::SynchronizeEvent(n) => {
            let at = pick(n, world.events.len());
            if let Some(event) = at.and_then(|at| world.events[at].as_ref()) {
                event.synchronize()?;
            }
        }
        Act::Drop(thing, n) => drop(world.take(thing, n)),
        Act::GiveBack(thing, n) => return give_back(world, thing, n),
        Act::Callback { stream, context, ref drops, sleeps, waits } => {
            return callback(world, stream, context, drops, sleeps, waits);
        }
        ref other => unreachable!("{other:?}"),
    }
    Ok(vec![])
}

fn stale_slice(world: &mut World, n: usize, seed: u32) -> Answer {
    let Some(at) = pick(n, world.buffers.len()) else { return Ok(vec![]) };
    let Some(Buffer::Device(mut buffer)) = world.buffers[at].take_if(|it| matches!(it, Buffer::Device(_)))
    else {
        return Ok(vec![]);
    };
    let owner = world.index_of(buffer.context());
    let slice = &mut buffer[..];
    drop(world.take_owner(owner));
    let new = values(super::act::Kind::Device, slice.len(), seed);
    let mut old = vec![0; slice.len()];
    let read = slice.copy_to(&mut old[..]);
    let written = slice.copy_from(&new[..]);
    assert_eq!(read, written);
    world.buffers[at] = Some(Buffer::Device(buffer));
    written.map(|()| old)
}

fn quiet<R>(f: impl FnOnce() -> R) -> R {
    let (result, calls) = instrument::during(f);
    assert_eq!(calls.total(), 0, "{calls} for what is spent");
    result
}

fn give_back(world: &mut World, thing: Thing, n: usize) -> Answer {
    let slot = pick(n, world.owners.len());
    let came_back = match world.take(thing, n) {
        Gone::Nothing => None,
        Gone::Context(context) => Context::drop(context).err().map(|(error, context)| {
            let alive = context.is_alive();
            if alive {
                world.owners[slot.unwrap()] = Owner::Created(Some(context));
            } else {
                let ((), calls) = instrument::during(|| drop(context));
                assert_eq!(calls.of("cuCtxDestroy_v2"), 0, "destroyed once more");
            }
            back(error, !alive)
        }),
        Gone::Primary(share) => PrimaryContext::drop(share).err().map(|(error, share)| {
            assert!(quiet(|| PrimaryContext::drop(share)).is_ok());
            back(error, true)
        }),
        Gone::Buffer(buffer) => drop_buffer(buffer).err().map(|error| back(error, true)),
        Gone::Stream(stream) => match Arc::try_unwrap(stream) {
            Ok(stream) => Stream::drop(stream).err().map(|(error, stream)| {
                let used = quiet(|| stream.synchronize());
                assert_eq!(used, Err(CudaError::InvalidHandle));
                assert!(quiet(|| Stream::drop(stream)).is_ok());
                back(error, true)
            }),
            // The waiter still has it.
            Err(shared) => {
                drop(shared);
                None
            }
        },
        Gone::Event(event) => Event::drop(event).err().map(|(error, event)| {
            assert_eq!(quiet(|| event.query()), Err(CudaError::InvalidHandle));
            assert!(quiet(|| Event::drop(event)).is_ok());
            back(error, true)
        }),
    };
    Ok(came_back.unwrap_or_else(|| vec![0]))
}

fn drop_buffer(buffer: Buffer) -> CudaResult<()> {
    match buffer {
        Buffer::Device(buffer) => DeviceBuffer::drop(buffer).map_err(|(error, mut buffer)| {
            assert!(buffer.is_empty());
            assert!(quiet(|| buffer.copy_from(&[])).is_ok());
            assert!(quiet(|| DeviceBuffer::drop(buffer)).is_ok());
            error
        }),
        Buffer::Bytes(buffer) => DeviceBuffer::drop(buffer).map_err(|(error, buffer)| {
            quiet(|| drop(buffer));
            error
        }),
        Buffer::One(one) => DeviceBox::drop(one).map_err(|(error, mut one)| {
            assert_eq!(quiet(|| one.copy_from(&1)), Err(CudaError::InvalidHandle));
            quiet(|| drop(one));
            error
        }),
        Buffer::Unified(buffer) => UnifiedBuffer::drop(buffer).map_err(|(error, buffer)| {
            assert!(buffer.is_empty());
            quiet(|| drop(buffer));
            error
        }),
        Buffer::Locked(buffer) => LockedBuffer::drop(buffer).map_err(|(error, buffer)| {
            assert!(buffer.is_empty());
            quiet(|| drop(buffer));
            error
        }),
    }
}

fn callback(
    world: &mut World,
    stream: usize,
    context: usize,
    drops: &[(Thing, usize)],
    sleeps: bool,
    waits: bool,
) -> Answer {
    let at = pick(stream, world.streams.len());
    let Some(stream) = at.and_then(|at| world.streams[at].clone()) else { return Ok(vec![]) };
    let handle = pick(context, world.handles.len()).map(|at| world.handles[at]);
    let cargo: Vec<_> = drops.iter().map(|(thing, n)| world.take(*thing, *n)).collect();
    let (done, called) = channel();
    stream.add_callback(Box::new(move |_| {
        if sleeps {
            std::thread::sleep(Duration::from_micros(30));
        }
        let (refused, calls) = instrument::during(|| {
            let refused = handle.is_none_or(refuses_all);
            drop(cargo);
            refused
        });
        let right = refused && calls.total() == 0 && ContextStack::depth() == 0;
        let _ = done.send((!right).then(|| format!("in a callback: all refused: {refused}, calls {calls}")));
    }))?;
    if !waits {
        world.called.push(called);
        return Ok(vec![]);
    }
    let waited = stream.synchronize();
    match called.recv_timeout(Duration::from_secs(20)) {
        Ok(None) => {}
        Ok(Some(problem)) => panic!("{problem}"),
        Err(error) => panic!("the callback was not called: {error}"),
    }
    waited.map(|()| vec![1])
}

/// Whether every call is refused, as it must be in a callback.
fn refuses_all(handle: &'static UnownedContext) -> bool {
    let refused = |result: CudaResult<()>| result == Err(CudaError::NotPermitted);
    refused(ContextStack::push(handle))
        && refused(ContextStack::pop().map(drop))
        && refused(CurrentContext::set_current(handle))
        && refused(handle.enter().map(drop))
        && (refused(handle.synchronize()) || !handle.is_alive())
        && refused(CurrentContext::get_current().map(drop))
        && refused(CurrentContext::synchronize())
        && refused(Context::create_and_push(ContextFlags::SCHED_AUTO, device_0()).map(drop))
        && refused(PrimaryContext::retain(device_0()).map(drop))
        && refused(Stream::new(StreamFlags::NON_BLOCKING, None).map(drop))
        && refused(DeviceBuffer::from_slice(&[1u32]).map(drop))
        && refused(custack::context::wait_until_retired())
}

/// The device, queried outside of callbacks.
fn device_0() -> custack::device::Device {
    static DEVICE: std::sync::OnceLock<custack::device::Device> = std::sync::OnceLock::new();
    *DEVICE.get_or_init(device)
}

/// Prepares what callbacks use.
pub(super) fn prepare() {
    device_0();
}
