//! The iterators over the chunks of a [`DeviceSlice`].

use super::DeviceSlice;
use std::iter::FusedIterator;
use std::mem;

fn not_zero(size: usize) -> usize {
    assert!(size != 0, "the chunk size must be at least 1");
    size
}

/// The iterator of [`DeviceSlice::chunks`].
#[derive(Debug)]
pub struct DeviceChunks<'a, T> {
    rest: &'a DeviceSlice<T>,
    size: usize,
}

impl<'a, T> DeviceChunks<'a, T> {
    pub(super) fn new(rest: &'a DeviceSlice<T>, size: usize) -> DeviceChunks<'a, T> {
        DeviceChunks { rest, size: not_zero(size) }
    }
}

impl<T> Clone for DeviceChunks<'_, T> {
    fn clone(&self) -> Self {
        DeviceChunks { ..*self }
    }
}

/// The number of chunks of a length, and the length of the last one.
fn parts(length: usize, size: usize) -> (usize, usize) {
    let count = length.div_ceil(size);
    (count, length - count.saturating_sub(1) * size)
}

impl<'a, T> Iterator for DeviceChunks<'a, T> {
    type Item = &'a DeviceSlice<T>;

    fn next(&mut self) -> Option<&'a DeviceSlice<T>> {
        if self.rest.is_empty() {
            return None;
        }
        let (first, rest) = self.rest.split_at(self.size.min(self.rest.len()));
        self.rest = rest;
        Some(first)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (count, _) = parts(self.rest.len(), self.size);
        (count, Some(count))
    }
}

impl<'a, T> DoubleEndedIterator for DeviceChunks<'a, T> {
    fn next_back(&mut self) -> Option<&'a DeviceSlice<T>> {
        if self.rest.is_empty() {
            return None;
        }
        let (_, last) = parts(self.rest.len(), self.size);
        let (rest, last) = self.rest.split_at(self.rest.len() - last);
        self.rest = rest;
        Some(last)
    }
}

impl<T> ExactSizeIterator for DeviceChunks<'_, T> {}
impl<T> FusedIterator for DeviceChunks<'_, T> {}

/// The iterator of [`DeviceSlice::chunks_mut`].
#[derive(Debug)]
pub struct DeviceChunksMut<'a, T> {
    rest: &'a mut DeviceSlice<T>,
    size: usize,
}

impl<'a, T> DeviceChunksMut<'a, T> {
    pub(super) fn new(rest: &'a mut DeviceSlice<T>, size: usize) -> DeviceChunksMut<'a, T> {
        DeviceChunksMut { rest, size: not_zero(size) }
    }

    fn take_rest(&mut self) -> &'a mut DeviceSlice<T> {
        mem::replace(&mut self.rest, DeviceSlice::empty_mut())
    }
}

impl<'a, T> Iterator for DeviceChunksMut<'a, T> {
    type Item = &'a mut DeviceSlice<T>;

    fn next(&mut self) -> Option<&'a mut DeviceSlice<T>> {
        if self.rest.is_empty() {
            return None;
        }
        let all = self.take_rest();
        let size = self.size.min(all.len());
        let (first, rest) = all.split_at_mut(size);
        self.rest = rest;
        Some(first)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (count, _) = parts(self.rest.len(), self.size);
        (count, Some(count))
    }
}

impl<'a, T> DoubleEndedIterator for DeviceChunksMut<'a, T> {
    fn next_back(&mut self) -> Option<&'a mut DeviceSlice<T>> {
        if self.rest.is_empty() {
            return None;
        }
        let all = self.take_rest();
        let (_, last) = parts(all.len(), self.size);
        let before = all.len() - last;
        let (rest, last) = all.split_at_mut(before);
        self.rest = rest;
        Some(last)
    }
}

impl<T> ExactSizeIterator for DeviceChunksMut<'_, T> {}
impl<T> FusedIterator for DeviceChunksMut<'_, T> {}
