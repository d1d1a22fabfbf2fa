//! Copies and fills of rows.

use super::block::collected;
use super::copies::End;
use super::turn::waiting;
use crate::graph::Copy;
use crate::machine::{Answer, INVALID_VALUE, Machine};
use custack_sys::ffi::CUresult;

/// One side of a copy of rows.
pub(super) struct Side {
    /// The rows, from the first byte that is copied of each.
    pub(super) rows: Vec<End>,
    /// Bytes from row to row.
    pub(super) pitch: usize,
    /// Bytes before the first one of each row.
    pub(super) x: usize,
}

impl Machine {
    /// What is wrong with the stream of a copy is said before what is wrong with the copy, and of empty ones too.
    pub(super) fn may_copy_in(&mut self, stream: Option<usize>) -> Answer<()> {
        self.place_of(stream)?;
        self.stream_of(stream.unwrap_or(0))?;
        self.capturing(stream.unwrap_or(0)).map(|_| ())
    }

    fn check_side(&mut self, side: &Side, width: usize) -> Answer<()> {
        let row = side.x.saturating_add(width);
        // A pitch of 0 is as many bytes as are copied.
        if side.pitch != 0 && side.pitch < row {
            return self
                .refuse(INVALID_VALUE, format_args!("rows of {row} bytes, {} bytes apart", side.pitch));
        }
        Ok(())
    }
}

/// Copies rows of this width, in a stream or not, as [`copy`](super::copies::copy) does.
pub(super) fn copy_rows(to: Side, from: Side, width: usize, stream: Option<usize>) -> CUresult {
    waiting(|m| {
        if width == 0 || to.rows.is_empty() {
            return Ok(None);
        }
        m.check_side(&to, width)?;
        m.check_side(&from, width)?;
        let parts = collected(to.rows.len(), to.rows.into_iter().zip(from.rows));
        let parts = m.with_room(parts)?;
        m.copy_parts(parts, width, stream, false)
    })
}

/// Copies rows of slices, of arrays or not, as [`copy_rows`] does. They need not begin or end with
/// an element of an array.
pub(super) fn copy_slices(copy: Copy, stream: Option<usize>) -> CUresult {
    waiting(|m| {
        let found = m.stream_of(stream.unwrap_or(0))?;
        let captured = stream.filter(|stream| m.member(*stream).is_some());
        m.capturing(stream.unwrap_or(0))?;
        if copy.extent.contains(&0) {
            return Ok(None);
        }
        let copy = m.with_arrays(Copy { context: found.context, home: found.context, ..copy })?;
        if let Some(stream) = captured {
            return m.record_copy(stream, copy);
        }
        m.check_copy(&copy)?;
        let [width, height, depth] = copy.extent;
        let parts = m.with_room(collected(height.saturating_mul(depth), copy.rows()))?;
        m.copy_parts(parts, width, stream, false)
    })
}

/// Fills the first elements of rows, in a stream or not, as [`fill`](super::copies::fill) does.
pub(super) fn fill_rows(
    (to, pitch): (u64, usize),
    pattern: &[u8],
    (width, height): (usize, usize),
    stream: Option<usize>,
) -> CUresult {
    let each = pattern.len();
    waiting(|m| {
        m.place_of(stream)?;
        m.stream_of(stream.unwrap_or(0))?;
        let captures = m.capturing(stream.unwrap_or(0))?;
        if width == 0 || height == 0 {
            return Ok(None);
        }
        let width = width.saturating_mul(each);
        let fits = height == 1 || pitch >= width && pitch % each == 0;
        if to % each as u64 != 0 || !fits {
            let why =
                format!("rows of {width} bytes, {pitch} bytes apart, from {to:#x}, in elements of {each}");
            return m.refuse(INVALID_VALUE, why);
        }
        let last = (height - 1).checked_mul(pitch).and_then(|last| last.checked_add(width));
        // What is captured is looked at when the graph is instantiated.
        if !captures {
            m.check_span(to, last)?;
        }
        let row = |row: usize| to.wrapping_add(row.wrapping_mul(pitch) as u64);
        let rows = m.with_room(collected(height, (0..height).map(row)))?;
        m.fill_parts((rows, pitch), pattern, width, stream)
    })
}
