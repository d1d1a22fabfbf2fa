//! The arguments of a launch, which come one by one or in one piece.

// Reads through the pointers that the callers of C functions passed.
#![allow(unsafe_code)]

use crate::graph::Parameters;
use crate::machine::*;
use std::os::raw::c_void;

/// What comes next in the list of a launch's extra parameters.
const END: usize = 0;
const BUFFER_POINTER: usize = 1;
const BUFFER_SIZE: usize = 2;
/// More than these two, each once or twice, is no list.
const MOST_EXTRA: usize = 8;

/// The values of a kernel's parameters, at their offsets.
///
/// # Safety
///
/// `parameters` has a pointer for each parameter, valid for reads of the parameter's size, or `extra` is a list that ends,
/// of where they are in one piece and how long it is.
pub(crate) unsafe fn gather(
    machine: &mut Machine,
    function: usize,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Answer<Parameters> {
    let layout = machine.parameters(function)?;
    let length = layout.iter().map(|(offset, size)| offset + size).max().unwrap_or(0);
    let offsets = layout.iter().map(|(offset, _)| *offset).collect::<Vec<_>>();
    // SAFETY: as the caller guarantees.
    let piece = unsafe { listed(machine, extra)? };
    if piece.is_some() && !parameters.is_null() {
        return machine.refuse(INVALID_VALUE, "the parameters are given one by one and in one piece");
    }
    if let Some(piece) = piece {
        // SAFETY: as the caller guarantees.
        let values = unsafe { in_one_piece(machine, piece, length)? };
        return Ok(Parameters::in_one_piece(values));
    }
    let mut values = vec![0; length];
    if !layout.is_empty() && parameters.is_null() {
        return machine.refuse(INVALID_VALUE, "the kernel's parameters are missing");
    }
    for (at, (offset, size)) in layout.iter().copied().enumerate() {
        // SAFETY: the caller guarantees the pointers.
        let value = unsafe { std::slice::from_raw_parts((*parameters.add(at)).cast::<u8>(), size) };
        values[offset..offset + size].copy_from_slice(value);
    }
    Ok(Parameters::new(values, &offsets))
}

/// Where the values of the parameters are, and how many bytes.
type Piece = (Option<*mut u8>, Option<usize>);

/// What the list of extra parameters says; `None` if it is missing or empty.
///
/// # Safety
///
/// The list ends.
unsafe fn listed(machine: &mut Machine, extra: *mut *mut c_void) -> Answer<Option<Piece>> {
    if extra.is_null() {
        return Ok(None);
    }
    let (mut buffer, mut size) = (None, None);
    for at in 0..MOST_EXTRA {
        // SAFETY: the list ends at the first `END`, and after each other word there is one more.
        let (word, of) = unsafe {
            let word = (*extra.add(2 * at)).addr();
            (word, if word == END { std::ptr::null_mut() } else { *extra.add(2 * at + 1) })
        };
        match word {
            END => break,
            BUFFER_POINTER => buffer = Some(of.cast::<u8>()),
            // SAFETY: the caller guarantees that the size is there.
            BUFFER_SIZE if !of.is_null() => size = Some(unsafe { of.cast::<usize>().read() }),
            _ => {
                let why = format!("{word:#x} among the extra parameters of a launch, or NULL for a size");
                return machine.refuse(INVALID_VALUE, why);
            }
        }
    }
    Ok((buffer.is_some() || size.is_some()).then_some((buffer, size)))
}

/// The values as they are in the program's buffer. Parameters beyond its end are 0, and there may be none beyond theirs.
///
/// # Safety
///
/// The buffer has as many bytes as is said.
unsafe fn in_one_piece(machine: &mut Machine, piece: Piece, length: usize) -> Answer<Vec<u8>> {
    let mut values = vec![0; length];
    match piece {
        (Some(_), Some(size)) if size > length => machine.refuse(
            OUT_OF_RESOURCES,
            format_args!("the kernel has {length} bytes of parameters, and got {size}"),
        ),
        (Some(_), Some(0)) if length == 0 => Ok(values),
        (Some(buffer), Some(size)) if size > 0 && !buffer.is_null() => {
            // SAFETY: the caller guarantees `size` bytes at the pointer.
            values[..size].copy_from_slice(unsafe { std::slice::from_raw_parts(buffer, size) });
            Ok(values)
        }
        _ => machine.refuse(
            INVALID_VALUE,
            format_args!("the kernel has {length} bytes of parameters, of which the launch has none"),
        ),
    }
}
