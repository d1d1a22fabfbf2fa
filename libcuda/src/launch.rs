//! Launches of CUDA 2 and 3, for which a function keeps the shape of its blocks and its arguments until it is launched.

#![allow(non_snake_case, reason = "they have the names of C")]

use super::driver::call;
use custack::driver::ffi::{CUfunction, CUresult, CUstream};
use std::collections::BTreeMap;
use std::os::raw::{c_int, c_uint, c_void};
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::{Mutex, PoisonError};

const INVALID_VALUE: CUresult = 1;
/// The threads that a block can have.
const MAX_THREADS_PER_BLOCK: u64 = 1024;
/// The bytes of arguments that a kernel can have.
const MAX_ARGUMENTS: usize = 4096;
/// An attribute that every function has.
const ANY_ATTRIBUTE: c_uint = 0;

/// What a function keeps.
#[derive(Clone, Default)]
struct Kept {
    block: [c_uint; 3],
    shared: c_uint,
    arguments: Vec<u8>,
    size: usize,
}

static KEPT: Mutex<BTreeMap<usize, Kept>> = Mutex::new(BTreeMap::new());

/// Changes what a function keeps, if it is one.
fn change(function: CUfunction, f: impl FnOnce(&mut Kept)) -> CUresult {
    let mut value = 0;
    // SAFETY: the value is here, and the handle is the simulated driver's to check.
    let status = call(|table| unsafe { (table.cuFuncGetAttribute)(&mut value, ANY_ATTRIBUTE, function) });
    if status == 0 {
        f(KEPT.lock().unwrap_or_else(PoisonError::into_inner).entry(function as usize).or_default());
    }
    status
}

/// Writes some bytes of a function's arguments.
fn write(function: CUfunction, offset: c_int, bytes: &[u8]) -> CUresult {
    let Some(begin) = usize::try_from(offset).ok().filter(|it| it + bytes.len() <= MAX_ARGUMENTS) else {
        return INVALID_VALUE;
    };
    change(function, |kept| {
        let end = begin + bytes.len();
        if kept.arguments.len() < end {
            kept.arguments.resize(end, 0);
        }
        kept.arguments[begin..end].copy_from_slice(bytes);
    })
}

/// The shape of the blocks of the next launches.
#[unsafe(no_mangle)]
pub extern "C" fn cuFuncSetBlockShape(function: CUfunction, x: c_int, y: c_int, z: c_int) -> CUresult {
    let sides = [x, y, z].map(|side| u32::try_from(side).unwrap_or(0));
    let threads = sides.iter().try_fold(1_u64, |threads, side| threads.checked_mul(u64::from(*side)));
    if !threads.is_some_and(|threads| (1..=MAX_THREADS_PER_BLOCK).contains(&threads)) {
        return INVALID_VALUE;
    }
    change(function, |kept| kept.block = sides)
}

/// The memory that a block of the next launches shares, beside what the kernel declares.
#[unsafe(no_mangle)]
pub extern "C" fn cuFuncSetSharedSize(function: CUfunction, bytes: c_uint) -> CUresult {
    change(function, |kept| kept.shared = bytes)
}

/// The size of all arguments together.
#[unsafe(no_mangle)]
pub extern "C" fn cuParamSetSize(function: CUfunction, bytes: c_uint) -> CUresult {
    let size = bytes as usize;
    if size > MAX_ARGUMENTS { INVALID_VALUE } else { change(function, |kept| kept.size = size) }
}

/// An argument that is a number.
#[unsafe(no_mangle)]
pub extern "C" fn cuParamSeti(function: CUfunction, offset: c_int, value: c_uint) -> CUresult {
    write(function, offset, &value.to_ne_bytes())
}

/// An argument that is a number with a fraction.
#[unsafe(no_mangle)]
pub extern "C" fn cuParamSetf(function: CUfunction, offset: c_int, value: f32) -> CUresult {
    write(function, offset, &value.to_ne_bytes())
}

/// An argument of any type.
///
/// # Safety
///
/// The pointer is null, or so many bytes may be read behind it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuParamSetv(
    function: CUfunction,
    offset: c_int,
    from: *const c_void,
    bytes: c_uint,
) -> CUresult {
    if from.is_null() || bytes as usize > MAX_ARGUMENTS {
        return INVALID_VALUE;
    }
    // SAFETY: not null, and the caller guarantees the rest.
    write(function, offset, unsafe { std::slice::from_raw_parts(from.cast(), bytes as usize) })
}

/// Launches a function in a stream as it was told.
fn launch(function: CUfunction, width: c_int, height: c_int, stream: CUstream) -> CUresult {
    let (Ok(width), Ok(height)) = (u32::try_from(width), u32::try_from(height)) else {
        return INVALID_VALUE;
    };
    let mut kept = Kept::default();
    let status = change(function, |it| kept = it.clone());
    if status != 0 {
        return status;
    }
    kept.arguments.resize(kept.size.max(1), 0);
    // CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE, and the end of the list.
    let mut extra: [*mut c_void; 5] = [
        without_provenance_mut(1),
        kept.arguments.as_mut_ptr().cast(),
        without_provenance_mut(2),
        (&raw mut kept.size).cast(),
        null_mut(),
    ];
    let ([x, y, z], shared) = (kept.block, kept.shared);
    // SAFETY: the arguments are here as long as the call takes, and the handles are the simulated driver's to check.
    call(|table| unsafe {
        let (arguments, extra) = (null_mut(), extra.as_mut_ptr());
        (table.cuLaunchKernel)(function, width, height, 1, x, y, z, shared, stream, arguments, extra)
    })
}

/// Launches one block.
#[unsafe(no_mangle)]
pub extern "C" fn cuLaunch(function: CUfunction) -> CUresult {
    launch(function, 1, 1, null_mut())
}

/// Launches blocks.
#[unsafe(no_mangle)]
pub extern "C" fn cuLaunchGrid(function: CUfunction, width: c_int, height: c_int) -> CUresult {
    launch(function, width, height, null_mut())
}

/// Launches blocks in a stream.
#[unsafe(no_mangle)]
pub extern "C" fn cuLaunchGridAsync(
    function: CUfunction,
    width: c_int,
    height: c_int,
    stream: CUstream,
) -> CUresult {
    launch(function, width, height, stream)
}
