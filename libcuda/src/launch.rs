//! Launches of CUDA 2 and 3, for which a function keeps the shape of its blocks and its arguments until it is launched.

#![allow(non_snake_case, reason = "they have the names of C")]

use super::driver::call;
use custack_sys::ffi::{CUfunction, CUresult, CUstream};
use std::collections::BTreeMap;
use std::os::raw::{c_int, c_uint, c_void};
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::{Mutex, PoisonError};

const INVALID_VALUE: CUresult = 1;
const INVALID_CONTEXT: CUresult = 201;
/// The threads that a block can have.
const MAX_THREADS_PER_BLOCK: u64 = 1024;
/// The layers of threads that a block can have.
const MAX_DEPTH: c_uint = 64;
/// The bytes of arguments that a kernel can have.
const MAX_ARGUMENTS: usize = 4096;
/// An attribute that every function has.
const ANY_ATTRIBUTE: c_uint = 0;
const MAX_DYNAMIC_SHARED_SIZE_BYTES: c_uint = 8;

/// What a function keeps.
#[derive(Clone)]
struct Kept {
    block: [c_uint; 3],
    shared: c_uint,
    arguments: Vec<u8>,
    size: usize,
}

impl Default for Kept {
    fn default() -> Kept {
        Kept { block: [1; 3], shared: 0, arguments: Vec::new(), size: 0 }
    }
}

static KEPT: Mutex<BTreeMap<usize, Kept>> = Mutex::new(BTreeMap::new());

/// Changes what a function of the current context keeps, if it may be so.
fn change(function: CUfunction, f: impl FnOnce(&mut Kept) -> CUresult) -> CUresult {
    match own(function) {
        0 => f(KEPT.lock().unwrap_or_else(PoisonError::into_inner).entry(function as usize).or_default()),
        status => status,
    }
}

/// Whether this is a function, and a context is current: that is asked first.
fn own(function: CUfunction) -> CUresult {
    let mut current = null_mut();
    // SAFETY: the value is here.
    match call(|table| unsafe { (table.cuCtxGetCurrent)(&mut current) }) {
        0 if current.is_null() => INVALID_CONTEXT,
        0 => attribute(function, ANY_ATTRIBUTE).map_or_else(|status| status, |_| 0),
        status => status,
    }
}

/// An attribute of a function.
fn attribute(function: CUfunction, attribute: c_uint) -> Result<c_int, CUresult> {
    let mut value = 0;
    // SAFETY: the value is here, and the handle is the simulated driver's to check.
    match call(|table| unsafe { (table.cuFuncGetAttribute)(&mut value, attribute, function) }) {
        0 => Ok(value),
        status => Err(status),
    }
}

/// The bytes of all arguments of a function.
fn size_of_arguments(function: CUfunction) -> usize {
    let (mut offset, mut size) = (0, 0);
    let mut ends = (0..).map_while(|index| {
        // SAFETY: the values are here, and the handle is the simulated driver's to check.
        let status =
            call(|table| unsafe { (table.cuFuncGetParamInfo)(function, index, &mut offset, &mut size) });
        (status == 0).then_some(offset + size)
    });
    ends.by_ref().last().unwrap_or(0)
}

/// Writes some bytes of a function's arguments. What lies behind those that a kernel can have is never used.
fn write(function: CUfunction, offset: c_int, bytes: &[u8]) -> CUresult {
    let Ok(begin) = usize::try_from(offset) else { return INVALID_VALUE };
    change(function, |kept| {
        let end = begin.saturating_add(bytes.len());
        if end > MAX_ARGUMENTS {
            return 0;
        }
        if kept.arguments.len() < end {
            kept.arguments.resize(end, 0);
        }
        kept.arguments[begin..end].copy_from_slice(bytes);
        0
    })
}

/// The shape of the blocks of the next launches.
#[unsafe(no_mangle)]
pub extern "C" fn cuFuncSetBlockShape(function: CUfunction, x: c_int, y: c_int, z: c_int) -> CUresult {
    let sides = [x, y, z].map(|side| u32::try_from(side).unwrap_or(0));
    let threads = sides.iter().try_fold(1_u64, |threads, side| threads.checked_mul(u64::from(*side)));
    let fits = threads.is_some_and(|threads| (1..=MAX_THREADS_PER_BLOCK).contains(&threads));
    change(function, |kept| {
        if !fits || sides[2] > MAX_DEPTH {
            return INVALID_VALUE;
        }
        kept.block = sides;
        0
    })
}

/// The memory that a block of the next launches shares, beside what the kernel declares.
#[unsafe(no_mangle)]
pub extern "C" fn cuFuncSetSharedSize(function: CUfunction, bytes: c_uint) -> CUresult {
    let most = attribute(function, MAX_DYNAMIC_SHARED_SIZE_BYTES).unwrap_or(0);
    change(function, |kept| {
        if i64::from(bytes) > i64::from(most) {
            return INVALID_VALUE;
        }
        kept.shared = bytes;
        0
    })
}

/// The size of all arguments together.
#[unsafe(no_mangle)]
pub extern "C" fn cuParamSetSize(function: CUfunction, bytes: c_uint) -> CUresult {
    change(function, |kept| {
        kept.size = bytes as usize;
        0
    })
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
/// The pointer is null, or that many bytes may be read from it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuParamSetv(
    function: CUfunction,
    offset: c_int,
    from: *const c_void,
    bytes: c_uint,
) -> CUresult {
    if from.is_null() {
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
    let status = change(function, |it| {
        kept = it.clone();
        0
    });
    if status != 0 {
        return status;
    }
    // Arguments that are missing are zeros; the launch refuses too many.
    kept.arguments.truncate(kept.size);
    kept.arguments.resize(MAX_ARGUMENTS, 0);
    kept.size = kept.size.max(size_of_arguments(function));
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
