//! Fills and copies without a stream: which of them return before they are done, and what a stream
//! that does not wait for the legacy stream reads then. Observed on an H100.

// The tests call the table.
#![allow(unsafe_code, non_snake_case)]

use super::pool::{alloc, leave, stream};
use crate::harness::{drain, other, run, within};
use crate::run_alone;
use custack_sys::ffi::*;
use std::cell::Cell;
use std::os::raw::c_void;
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const SIZE: usize = 4096;
const OLD: u8 = 170;
const NEW: u8 = 5;

/// A kind of memory.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Of {
    Device,
    Pool,
    Managed,
    Locked,
    Registered,
    Pageable,
}
use Of::{Device, Locked, Managed, Pageable, Pool, Registered};

const ALL: [Of; 6] = [Device, Pool, Managed, Locked, Registered, Pageable];

/// Some memory: of what kind, and where.
#[derive(Clone, Copy)]
struct Piece(Of, u64);

impl Of {
    /// Whether it is the host's, and no pool has it.
    fn is_hosts(self) -> bool {
        matches!(self, Locked | Registered | Pageable)
    }

    /// Whether the host can use it, so that work on it is done when the call returns.
    fn is_awaited(self) -> bool {
        self.is_hosts() || self == Managed
    }

    fn piece(self) -> Piece {
        let (mut address, mut memory) = (0, null_mut());
        let of_program = || Box::leak(vec![0u8; SIZE].into_boxed_slice()).as_mut_ptr().cast();
        match self {
            Device => assert_eq!(call!(cuMemAlloc_v2(&mut address, SIZE)), 0),
            Managed => assert_eq!(call!(cuMemAllocManaged(&mut address, SIZE, 1)), 0),
            Pool => {
                let home = stream();
                address = alloc(SIZE, home).1;
                assert_eq!(call!(cuStreamSynchronize(home)), 0);
            }
            Locked => assert_eq!(call!(cuMemAllocHost_v2(&mut memory, SIZE)), 0),
            Registered => {
                memory = of_program();
                assert_eq!(call!(cuMemHostRegister_v2(memory, SIZE, 0)), 0);
            }
            Pageable => memory = of_program(),
        }
        Piece(self, address.max(memory.expose_provenance() as u64))
    }
}

impl Piece {
    fn host(self) -> *mut c_void {
        with_exposed_provenance_mut(self.1 as usize)
    }

    /// Its type in a copy of rows.
    fn kind(self) -> u32 {
        if self.0.is_hosts() { 1 } else { 2 }
    }

    /// Sets all bytes, and waits for that.
    fn set(self, byte: u8) {
        if self.0.is_hosts() {
            // SAFETY: it has this size, and nothing uses it now.
            unsafe { self.host().write_bytes(byte, SIZE) };
            return;
        }
        assert_eq!(call!(cuMemsetD8_v2(self.1, byte, SIZE)), 0);
        assert_eq!(call!(cuCtxSynchronize()), 0);
    }

    /// Its last byte, which this stream reads.
    fn last(self, reader: CUstream) -> u8 {
        let at = self.1 + SIZE as u64 - 1;
        if self.0.is_hosts() {
            // SAFETY: it has this size.
            return unsafe { with_exposed_provenance_mut::<u8>(at as usize).read_volatile() };
        }
        let mut byte = 0u8;
        assert_eq!(call!(cuMemcpyDtoHAsync_v2((&raw mut byte).cast(), at, 1, reader)), 0);
        assert_eq!(call!(cuStreamSynchronize(reader)), 0);
        byte
    }
}

extern "C" fn wait_until_open(gate: *mut c_void) {
    // SAFETY: a gate is never freed.
    let gate = unsafe { &*gate.cast::<AtomicBool>() };
    while !gate.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// A stream that is busy until the gate is opened.
fn close(busy: CUstream) -> &'static AtomicBool {
    let gate: &_ = Box::leak(Box::new(AtomicBool::new(false)));
    let argument = std::ptr::from_ref(gate).cast_mut().cast();
    assert_eq!(call!(cuLaunchHostFunc(busy, Some(wait_until_open), argument)), 0);
    gate
}

/// When a call returns.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Returns {
    /// Before its turn.
    AtOnce,
    /// After its turn, and perhaps before the device has all of it.
    InTurn,
    Done,
}

/// Makes the call while a blocking stream is busy.
fn probe(
    what: &str,
    busy: CUstream,
    returns: Returns,
    call: impl FnOnce() -> CUresult,
    last: impl Fn() -> u8,
) {
    let gate = close(busy);
    std::thread::scope(|scope| {
        if returns != Returns::AtOnce {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(2));
                gate.store(true, Ordering::SeqCst);
            });
        }
        assert_eq!(call(), 0, "{what}");
        assert_eq!(gate.load(Ordering::SeqCst), returns != Returns::AtOnce, "{what}");
        if returns != Returns::InTurn {
            assert_eq!(last(), if returns == Returns::Done { NEW } else { OLD }, "{what}");
        }
        gate.store(true, Ordering::SeqCst);
        // This is enough for all of them.
        assert_eq!((call!(cuStreamSynchronize(null_mut())), last()), (0, NEW), "{what}");
        assert_eq!(call!(cuCtxSynchronize()), 0);
    });
}

fn blocking() -> CUstream {
    let mut stream = null_mut();
    assert_eq!(call!(cuStreamCreate(&mut stream, 0)), 0);
    stream
}

/// A test in a context with a blocking stream and one that is not.
fn in_context(test: fn(CUstream, CUstream)) {
    within(60, move || {
        run(|| {
            let context = other::create();
            test(blocking(), stream());
            leave(context);
        });
    });
}

#[test]
fn a_fill_returns_before_it_is_done_unless_the_host_can_use_the_memory() {
    in_context(|busy, reader| {
        for of in ALL.into_iter().filter(|of| *of != Pageable) {
            let piece @ Piece(_, at) = of.piece();
            let (wide, word) = (u16::from_ne_bytes([NEW; 2]), u32::from_ne_bytes([NEW; 4]));
            for form in 0..5 {
                piece.set(OLD);
                let returns = if of.is_awaited() { Returns::Done } else { Returns::AtOnce };
                let fill = || match form {
                    0 => call!(cuMemsetD8_v2(at, NEW, SIZE)),
                    1 => call!(cuMemsetD16_v2(at, wide, SIZE / 2)),
                    2 => call!(cuMemsetD32_v2(at, word, SIZE / 4)),
                    3 => call!(cuMemsetD2D8_v2(at, 64, NEW, 64, SIZE / 64)),
                    _ => call!(cuMemsetD2D32_v2(at, 64, word, 16, SIZE / 64)),
                };
                probe(&format!("fill {form} of {of:?}"), busy, returns, fill, || piece.last(reader));
            }
        }
        assert_eq!(call!(cuMemsetD8_v2(Pageable.piece().1, NEW, SIZE)), 1);
    });
}

/// Rows of 64 bytes, one slice of all.
fn rows(to: Piece, from: Piece) -> (CUDA_MEMCPY2D, CUDA_MEMCPY3D) {
    let (srcMemoryType, srcHost, srcDevice) = (from.kind(), from.host().cast_const(), from.1);
    let (dstMemoryType, dstHost, dstDevice) = (to.kind(), to.host(), to.1);
    let (srcArray, dstArray) = (null_mut(), null_mut());
    let flat = CUDA_MEMCPY2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType,
        srcHost,
        srcDevice,
        srcArray,
        srcPitch: 64,
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType,
        dstHost,
        dstDevice,
        dstArray,
        dstPitch: 64,
        WidthInBytes: 64,
        Height: SIZE / 64,
    };
    let deep = CUDA_MEMCPY3D {
        srcXInBytes: 0,
        srcY: 0,
        srcZ: 0,
        srcLOD: 0,
        srcMemoryType,
        srcHost,
        srcDevice,
        srcArray,
        reserved0: null_mut(),
        srcPitch: 64,
        srcHeight: SIZE / 64,
        dstXInBytes: 0,
        dstY: 0,
        dstZ: 0,
        dstLOD: 0,
        dstMemoryType,
        dstHost,
        dstDevice,
        dstArray,
        reserved1: null_mut(),
        dstPitch: 64,
        dstHeight: SIZE / 64,
        WidthInBytes: 64,
        Height: SIZE / 64,
        Depth: 1,
    };
    (flat, deep)
}

#[test]
fn a_copy_returns_before_it_is_done_unless_the_host_can_use_one_side() {
    in_context(|busy, reader| {
        let (to, from) = (ALL.map(Of::piece), ALL.map(Of::piece));
        from.iter().for_each(|piece| piece.set(NEW));
        for (to, from) in to.iter().flat_map(|to| from.map(|from| (*to, from))) {
            let returns = match (to.0.is_awaited(), from.0) {
                // It is read before the call returns, and arrives some time after that.
                (false, Pageable) => Returns::InTurn,
                (false, from) if !from.is_awaited() => Returns::AtOnce,
                _ => Returns::Done,
            };
            let (flat, deep) = rows(to, from);
            let is_none = |kinds: &[Of]| ![to.0, from.0].iter().any(|of| kinds.contains(of));
            let in_rows = is_none(&[Pool, Registered]);
            let forms: [(&str, bool, &dyn Fn() -> CUresult); 7] = [
                ("cuMemcpy", true, &|| call!(cuMemcpy(to.1, from.1, SIZE))),
                ("cuMemcpyDtoD", is_none(&[Pageable]), &|| call!(cuMemcpyDtoD_v2(to.1, from.1, SIZE))),
                ("cuMemcpyHtoD", from.0.is_hosts() && !to.0.is_hosts(), &|| {
                    call!(cuMemcpyHtoD_v2(to.1, from.host(), SIZE))
                }),
                ("cuMemcpyDtoH", to.0.is_hosts() && !from.0.is_hosts(), &|| {
                    call!(cuMemcpyDtoH_v2(to.host(), from.1, SIZE))
                }),
                ("cuMemcpy2D", in_rows, &|| call!(cuMemcpy2D_v2(&flat))),
                ("cuMemcpy2DUnaligned", in_rows, &|| call!(cuMemcpy2DUnaligned_v2(&flat))),
                ("cuMemcpy3D", in_rows, &|| call!(cuMemcpy3D_v2(&deep))),
            ];
            for (name, _, copy) in forms.iter().filter(|(_, fits, _)| *fits) {
                to.set(OLD);
                let what = format!("{name} to {:?} from {:?}", to.0, from.0);
                probe(&what, busy, returns, copy, || to.last(reader));
            }
        }
    });
}

fn array() -> CUarray {
    let (mut array, made) =
        (null_mut(), CUDA_ARRAY_DESCRIPTOR { Width: SIZE, Height: 0, Format: 1, NumChannels: 1 });
    assert_eq!(call!(cuArrayCreate_v2(&mut array, &made)), 0);
    array
}

#[test]
fn a_copy_between_arrays_and_device_memory_returns_before_it_is_done() {
    in_context(|busy, reader| {
        let (to, from) = (array(), array());
        let (device, old, new) = (Device.piece(), Locked.piece(), Locked.piece());
        let host = Pageable.piece();
        old.set(OLD);
        new.set(NEW);
        let of_array = |array| {
            let back = Locked.piece();
            assert_eq!(call!(cuMemcpyAtoHAsync_v2(back.host(), array, 0, SIZE, reader)), 0);
            assert_eq!(call!(cuStreamSynchronize(reader)), 0);
            back.last(reader)
        };
        let reset = || {
            assert_eq!(call!(cuMemcpyHtoA_v2(to, 0, old.host(), SIZE)), 0);
            assert_eq!(call!(cuMemcpyHtoA_v2(from, 0, new.host(), SIZE)), 0);
            assert_eq!(call!(cuCtxSynchronize()), 0);
        };
        let to_array: [(&str, Returns, &dyn Fn() -> CUresult); 4] = [
            ("AtoA", Returns::AtOnce, &|| call!(cuMemcpyAtoA_v2(to, 0, from, 0, SIZE))),
            ("DtoA", Returns::AtOnce, &|| call!(cuMemcpyDtoA_v2(to, 0, device.1, SIZE))),
            ("HtoA, page-locked", Returns::Done, &|| call!(cuMemcpyHtoA_v2(to, 0, new.host(), SIZE))),
            ("HtoA", Returns::InTurn, &|| call!(cuMemcpyHtoA_v2(to, 0, host.host(), SIZE))),
        ];
        device.set(NEW);
        host.set(NEW);
        for (what, returns, copy) in to_array {
            reset();
            probe(what, busy, returns, copy, || of_array(to));
        }
        for (to, returns) in [(device, Returns::AtOnce), (old, Returns::Done), (host, Returns::Done)] {
            to.set(OLD);
            let copy = || match to.0 {
                Device => call!(cuMemcpyAtoD_v2(to.1, from, 0, SIZE)),
                _ => call!(cuMemcpyAtoH_v2(to.host(), from, 0, SIZE)),
            };
            probe(&format!("from an array to {:?}", to.0), busy, returns, copy, || to.last(reader));
        }
    });
}

#[test]
fn a_copy_between_contexts_comes_after_the_work_of_both_and_of_the_current_one() {
    within(60, || run(between_contexts));
}

fn between_contexts() {
    let contexts = [(); 3].map(|()| other::create());
    let inside = |at: usize, f: &dyn Fn()| {
        other::push(contexts[at]);
        f();
        assert_eq!(other::pop(), Ok(contexts[at]));
    };
    let made = [0, 1, 2].map(|at| {
        other::push(contexts[at]);
        let made = (Device.piece(), blocking(), stream());
        assert_eq!(other::pop(), Ok(contexts[at]));
        made
    });
    let [(to, _, reader), (from, ..), _] = made;
    let both = |current: usize| (0..3).flat_map(move |busy| [true, false].map(|peer| (current, busy, peer)));
    for (current, busy, peer) in (0..3).flat_map(both) {
        inside(0, &|| to.set(OLD));
        inside(1, &|| from.set(NEW));
        inside(current, &|| {
            let what = format!("current {current}, busy {busy}, cuMemcpyPeer {peer}");
            let copy = || match peer {
                true => call!(cuMemcpyPeer(to.1, contexts[0], from.1, contexts[1], SIZE)),
                false => call!(cuMemcpyDtoD_v2(to.1, from.1, SIZE)),
            };
            if busy < 2 || busy == current {
                return probe(&what, made[busy].1, Returns::AtOnce, copy, || to.last(reader));
            }
            let gate = close(made[busy].1);
            assert_eq!((copy(), call!(cuStreamSynchronize(null_mut()))), (0, 0), "{what}");
            assert_eq!((to.last(reader), gate.swap(true, Ordering::SeqCst)), (NEW, false), "{what}");
        });
        (0..3).for_each(|at| inside(at, &|| assert_eq!(call!(cuCtxSynchronize()), 0)));
    }
    drain();
    contexts.into_iter().for_each(other::destroy);
}

#[test]
fn no_copy_or_fill_without_a_stream_breaks_a_capture_and_a_wait_for_them_does_not_in_the_relaxed_mode() {
    run_alone(|| {
        let context = other::create();
        let capturing = stream();
        let (to, from, managed, locked) = (Device.piece(), Device.piece(), Managed.piece(), Locked.piece());
        let next = Cell::new(2);
        let exchange = || {
            // The relaxed mode, and at the second call the one before it.
            let mut mode = next.get();
            assert_eq!(call!(cuThreadExchangeStreamCaptureMode(&mut mode)), 0);
            next.set(mode);
        };
        let fill = |piece: Piece| call!(cuMemsetD8_v2(piece.1, 1, SIZE));
        let calls: [(&dyn Fn() -> CUresult, [u32; 2]); 6] = [
            (&|| fill(to) | fill(managed) | fill(locked), [0, 0]),
            (&|| call!(cuMemcpyDtoD_v2(to.1, from.1, SIZE)), [0, 0]),
            (&|| call!(cuMemcpyHtoD_v2(to.1, locked.host(), SIZE)), [0, 0]),
            (&|| call!(cuMemcpyDtoH_v2(locked.host(), to.1, SIZE)), [0, 0]),
            (&|| call!(cuStreamSynchronize(null_mut())), [900, 901]),
            (
                &|| {
                    exchange();
                    let status = call!(cuStreamSynchronize(null_mut()));
                    exchange();
                    status
                },
                [0, 0],
            ),
        ];
        for (at, (call, expected)) in calls.iter().enumerate() {
            assert_eq!(call!(cuStreamBeginCapture_v2(capturing, 0)), 0);
            let (status, mut graph) = (call(), null_mut());
            assert_eq!([status, call!(cuStreamEndCapture(capturing, &mut graph))], *expected, "{at}");
            if !graph.is_null() {
                assert_eq!(call!(cuGraphDestroy(graph)), 0);
            }
        }
        leave(context);
    });
}
