//! How words and bytes of memory are read and written while other threads may do the same.
//!
//! Each access is a relaxed atomic one of its width, so what threads read was written as a whole. Accesses of different
//! widths to the same bytes at the same time have no meaning in PTX either: it leaves such races undefined, and a launch
//! is unsafe because the program answers for its kernels' races.

// Atomics in memory that has no Rust type, at an address.
#![allow(unsafe_code)]

use std::ptr::with_exposed_provenance_mut as pointer;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What one instruction of a kernel reads or writes.
pub(in crate::sim) trait Word: Copy + Default + Send + Sync + 'static {
    const SIZE: usize = size_of::<Self>();

    /// # Safety
    ///
    /// `at` is a multiple of `SIZE`, and the address of so many bytes that stay allocated meanwhile. What uses them
    /// meanwhile does so by atomics of this width, or only reads.
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
        let _alone = WIDE.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: as the caller guarantees.
        let old = unsafe { Self::load(at) };
        // SAFETY: as the caller guarantees.
        unsafe { Self::store(at, f(old)) };
        old
    }
}

/// The width of the next access of a copy: the largest that is aligned, and not more than is left.
fn width(at: usize, left: usize) -> usize {
    [8, 4, 2].into_iter().find(|width| at % width == 0 && left >= *width).unwrap_or(1)
}

/// Reads bytes in words as large as possible: copies may go on beside kernels that wait for what is copied.
///
/// # Safety
///
/// So many bytes at `at` stay allocated meanwhile, and `into` is none of them.
pub(super) unsafe fn read<B: Copy>(mut at: usize, mut into: &mut [B], each: impl Fn(u8) -> B + Copy) {
    while !into.is_empty() {
        let width = width(at, into.len());
        let count = if width == 8 { into.len() / 8 * 8 } else { width };
        let (now, later) = into.split_at_mut(count);
        for (word, to) in now.chunks_exact_mut(width).enumerate() {
            let at = at + word * width;
            // SAFETY: aligned, as `width` looks at, and within the bytes that the caller vouches for.
            unsafe {
                match width {
                    8 => to.copy_from_slice(&u64::load(at).to_ne_bytes().map(each)),
                    4 => to.copy_from_slice(&u32::load(at).to_ne_bytes().map(each)),
                    2 => to.copy_from_slice(&u16::load(at).to_ne_bytes().map(each)),
                    _ => to.fill(each(u8::load(at))),
                }
            }
        }
        at += count;
        into = later;
    }
}

/// Writes bytes in words as large as possible.
///
/// # Safety
///
/// As for `read`, of `from`.
pub(super) unsafe fn write(mut at: usize, mut from: &[u8]) {
    while !from.is_empty() {
        let width = width(at, from.len());
        let count = if width == 8 { from.len() / 8 * 8 } else { width };
        let (now, later) = from.split_at(count);
        for (word, bytes) in now.chunks_exact(width).enumerate() {
            let at = at + word * width;
            // SAFETY: aligned, as `width` looks at, and within the bytes that the caller vouches for.
            unsafe {
                match *bytes {
                    [a, b, c, d, e, f, g, h] => u64::store(at, u64::from_ne_bytes([a, b, c, d, e, f, g, h])),
                    [a, b, c, d] => u32::store(at, u32::from_ne_bytes([a, b, c, d])),
                    [a, b] => u16::store(at, u16::from_ne_bytes([a, b])),
                    _ => u8::store(at, bytes[0]),
                }
            }
        }
        at += count;
        from = later;
    }
}
