//! How words and bytes of memory are read and written while other threads may do the same.
//!
//! Each access is a relaxed atomic one of its width, so what threads read was written as a whole. Accesses of different
//! widths to the same bytes at the same time have no meaning in PTX either: it leaves such races undefined, and a launch
//! is unsafe because the program answers for its kernels' races.

// Atomics in memory that has no Rust type, at an address.
#![allow(unsafe_code)]

use std::ptr::with_exposed_provenance_mut as pointer;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What one instruction of a kernel reads or writes.
pub(crate) trait Word: Copy + Default + Send + Sync + 'static {
    const SIZE: usize = size_of::<Self>();

    /// # Safety
    ///
    /// `at` is a multiple of `SIZE`, and the address of `SIZE` bytes that stay allocated during the call. Other
    /// threads access them by atomics of this width during the call, or only read them.
    unsafe fn load(at: usize) -> Self;

    /// # Safety
    ///
    /// As for `load`.
    unsafe fn store(at: usize, value: Self);

    /// Replaces the value in one step, and returns the old one. What other threads have written before their updates of
    /// it is seen after this one.
    ///
    /// # Safety
    ///
    /// As for `load`.
    unsafe fn update(at: usize, f: impl FnMut(Self) -> Self) -> Self;
}

macro_rules! words {
    ($($word:ty: $atomic:ty),*) => {$(
        impl Word for $word {
            #[inline]
            unsafe fn load(at: usize) -> $word {
                // SAFETY: as the caller guarantees.
                unsafe { <$atomic>::from_ptr(pointer(at)) }.load(Ordering::Relaxed)
            }

            #[inline]
            unsafe fn store(at: usize, value: $word) {
                // SAFETY: as the caller guarantees.
                unsafe { <$atomic>::from_ptr(pointer(at)) }.store(value, Ordering::Relaxed);
            }

            #[inline]
            unsafe fn update(at: usize, mut f: impl FnMut($word) -> $word) -> $word {
                // SAFETY: as the caller guarantees.
                let word = unsafe { <$atomic>::from_ptr(pointer(at)) };
                let mut old = word.load(Ordering::Relaxed);
                loop {
                    match word.compare_exchange_weak(old, f(old), Ordering::AcqRel, Ordering::Relaxed) {
                        Ok(old) => return old,
                        Err(now) => old = now,
                    }
                }
            }
        }
    )*};
}

words!(u8: AtomicU8, u16: AtomicU16, u32: AtomicU32, u64: AtomicU64);

/// Only one thread at a time updates 128 bits, for which not every processor has an instruction.
static WIDE: Mutex<()> = Mutex::new(());

/// Keeps others meanwhile from updating 128 bits, and from what else holds this.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    WIDE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Two halves, each of which is read and written as a whole.
impl Word for u128 {
    #[inline]
    unsafe fn load(at: usize) -> u128 {
        // SAFETY: as the caller guarantees; both halves are aligned, as the whole is.
        let [low, high] = unsafe { [u64::load(at), u64::load(at + 8)] };
        u128::from(high) << 64 | u128::from(low)
    }

    #[inline]
    unsafe fn store(at: usize, value: u128) {
        // SAFETY: as for `load`.
        unsafe {
            u64::store(at, value as u64);
            u64::store(at + 8, (value >> 64) as u64);
        }
    }

    unsafe fn update(at: usize, mut f: impl FnMut(u128) -> u128) -> u128 {
        let _alone = alone();
        // SAFETY: as the caller guarantees.
        let old = unsafe { Self::load(at) };
        // SAFETY: as the caller guarantees.
        unsafe { Self::store(at, f(old)) };
        old
    }
}

/// Copies of no more bytes are done in words.
const SHORT: usize = 256;

/// The width of the next access of a short copy: the largest that is aligned, and not more than is left.
fn width(at: usize, left: usize) -> usize {
    [8, 4, 2].into_iter().find(|width| at % width == 0 && left >= *width).unwrap_or(1)
}

/// Reads bytes. A short copy is read by words, as a kernel may be writing a flag there that the program polls. CUDA forbids
/// kernels to use the memory of a longer copy meanwhile, so that there is no race.
///
/// # Safety
///
/// `at` and `into` are the addresses of `count` bytes each, which do not overlap, and stay allocated during the call.
pub(super) unsafe fn read(at: usize, into: *mut u8, count: usize) {
    if count > SHORT {
        // SAFETY: as the caller guarantees.
        return unsafe { into.copy_from_nonoverlapping(pointer(at), count) };
    }
    let mut done = 0;
    while done < count {
        let width = width(at + done, count - done);
        // SAFETY: aligned, as `width` looks at, and within the bytes that the caller vouches for.
        unsafe {
            let (at, into) = (at + done, into.add(done));
            match width {
                8 => into.cast::<u64>().write_unaligned(u64::load(at)),
                4 => into.cast::<u32>().write_unaligned(u32::load(at)),
                2 => into.cast::<u16>().write_unaligned(u16::load(at)),
                _ => into.write(u8::load(at)),
            }
        }
        done += width;
    }
}

/// Copies bytes; a short copy goes by words, as in [`read`].
///
/// # Safety
///
/// There are `count` bytes at each address, which stay allocated during the call.
pub(super) unsafe fn copy(from: usize, to: usize, count: usize) {
    if count > SHORT {
        // SAFETY: as the caller guarantees, and as for `read`. These may overlap.
        return unsafe { pointer::<u8>(to).copy_from(pointer(from), count) };
    }
    let mut bytes = [0; SHORT];
    // SAFETY: as the caller guarantees; `bytes` are others, and not fewer.
    unsafe {
        read(from, bytes.as_mut_ptr(), count);
        write(to, bytes.as_ptr(), count);
    }
}

/// Writes bytes, few of them in words: a kernel may wait for the flag that is written.
///
/// # Safety
///
/// As for `read`, of `from`.
pub(super) unsafe fn write(at: usize, from: *const u8, count: usize) {
    if count > SHORT {
        // SAFETY: as the caller guarantees.
        return unsafe { pointer::<u8>(at).copy_from_nonoverlapping(from, count) };
    }
    let mut done = 0;
    while done < count {
        let width = width(at + done, count - done);
        // SAFETY: as in `read`.
        unsafe {
            let (at, from) = (at + done, from.add(done));
            match width {
                8 => u64::store(at, from.cast::<u64>().read_unaligned()),
                4 => u32::store(at, from.cast::<u32>().read_unaligned()),
                2 => u16::store(at, from.cast::<u16>().read_unaligned()),
                _ => u8::store(at, from.read()),
            }
        }
        done += width;
    }
}
