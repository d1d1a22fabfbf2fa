//! The arguments of a launch, which come one by one or in one piece.

// Reads through the pointers that the callers of C functions passed.
#![allow(unsafe_code)]

use crate::sim::graph::Parameters;
use crate::sim::machine::*;
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
pub(in crate::sim) unsafe fn gather(
    machine: &mut Machine,
    function: usize,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Answer<Parameters> {
    let layout = machine.parameters(function)?;
    if !parameters.is_null() && !extra.is_null() {
        return machine.refuse(INVALID_VALUE, "the parameters are given one by one and in one piece");
    }
    let length = layout.iter().map(|(offset, size)| offset + size).max().unwrap_or(0);
    let offsets = layout.iter().map(|(offset, _)| *offset).collect::<Vec<_>>();
    if !extra.is_null() {
        // SAFETY: as the caller guarantees.
        let values = unsafe { in_one_piece(machine, extra, length)? };
        return Ok(Parameters::new(values, &offsets));
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

/// The values as they are in the program's buffer, which has to have them all.
///
/// # Safety
///
/// The list ends, and the buffer has as many bytes as it says.
unsafe fn in_one_piece(machine: &mut Machine, extra: *mut *mut c_void, length: usize) -> Answer<Vec<u8>> {
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
    match (buffer, size) {
        _ if length == 0 => Ok(Vec::new()),
        (Some(buffer), Some(size)) if size >= length && !buffer.is_null() => {
            // SAFETY: the caller guarantees so many bytes.
            Ok(unsafe { std::slice::from_raw_parts(buffer, length) }.to_vec())
        }
        _ => machine.refuse(
            INVALID_VALUE,
            format_args!("the kernel has {length} bytes of parameters, and got {size:?}"),
        ),
    }
}
