//! The parameters of nodes: from the structs of the C ABI to the model, and back.

use crate::function::Asked;
use crate::function::abi::gather;
use crate::graph::{Copy, Fill, Host, Operation, Parameters, Side};
use crate::machine::*;
use crate::memory::{self, HostMemory};
use custack_sys::ffi::*;
use std::collections::BTreeMap;
use std::os::raw::c_void;
use std::ptr::null_mut;

/// Reads the parameters behind a pointer.
///
/// # Safety
///
/// `params` is NULL or may be read.
pub(super) unsafe fn given<T: std::marker::Copy>(machine: &mut Machine, params: *const T) -> Answer<T> {
    if params.is_null() {
        return machine.refuse(INVALID_VALUE, "parameters are needed, and got NULL");
    }
    // SAFETY: not NULL, and the caller guarantees the rest.
    Ok(unsafe { params.read() })
}

/// # Safety
///
/// What CUDA requires of the pointers in the parameters.
pub(super) unsafe fn kernel(
    m: &mut Machine,
    params: *const CUDA_KERNEL_NODE_PARAMS,
    cluster: Option<[u32; 3]>,
) -> Answer<Operation> {
    // SAFETY: as the caller guarantees.
    let params = unsafe { given(m, params)? };
    if params.func.is_null() && params.kern.is_null() {
        return m.refuse(INVALID_HANDLE, "the function is NULL");
    }
    if m.top()? == 0 {
        return m.misuse(INVALID_CONTEXT, "a kernel node while no context is current");
    }
    let context = m.named_context(params.ctx.addr())?;
    let function = match params.func.is_null() {
        true => m.function_of_kernel_in(params.kern.addr(), context)?,
        false => params.func.addr(),
    };
    // SAFETY: as the caller guarantees.
    let gathered = unsafe { gather(m, function, params.kernelParams, params.extra) };
    // Of more parameters than the kernel has, a launch says something else than a node.
    let parameters: Parameters =
        gathered.map_err(|status| if status == OUT_OF_RESOURCES { INVALID_VALUE } else { status })?;
    let grid = [params.gridDimX, params.gridDimY, params.gridDimZ];
    let block = [params.blockDimX, params.blockDimY, params.blockDimZ];
    let asked = Asked {
        function,
        grid,
        block,
        shared: params.sharedMemBytes as usize,
        cooperative: false,
        cluster,
        scheduling: 0,
        kept: BTreeMap::new(),
    };
    m.kernel(&asked, parameters).map(Operation::Kernel)
}

/// # Safety
///
/// What CUDA requires of the pointers in the parameters.
pub(super) unsafe fn copy(
    m: &mut Machine,
    params: *const CUDA_MEMCPY3D,
    context: CUcontext,
) -> Answer<Operation> {
    // SAFETY: as the caller guarantees.
    let it = unsafe { given(m, params)? };
    let context = m.named_context(context.addr())?;
    // SAFETY: as the caller guarantees.
    let copy = m.with_arrays(unsafe { copy_of(&it, context) })?;
    m.check_copy(&copy)?;
    Ok(Operation::Copy(copy.at_home()))
}

/// # Safety
///
/// What CUDA requires of the pointers in the parameters.
pub(crate) unsafe fn copy_of(it: &CUDA_MEMCPY3D, context: Handle) -> Copy {
    let extent = [it.WidthInBytes, it.Height, it.Depth];
    let side = |kind: u32,
                host: usize,
                device: u64,
                array: CUarray,
                start: [usize; 3],
                level,
                pitch,
                height| {
        let found =
            Side { kind, host: HostMemory::none(), device, array: array.addr(), start, level, pitch, height };
        let bytes = if kind == 1 { found.span(extent) } else { 0 };
        // SAFETY: the caller guarantees as many bytes as the parameters speak of.
        Side { host: unsafe { HostMemory::new(host, bytes) }, ..found }
    };
    let from = [it.srcXInBytes, it.srcY, it.srcZ];
    let from = side(
        it.srcMemoryType,
        it.srcHost.addr(),
        it.srcDevice,
        it.srcArray,
        from,
        it.srcLOD,
        it.srcPitch,
        it.srcHeight,
    );
    let to = [it.dstXInBytes, it.dstY, it.dstZ];
    let to = side(
        it.dstMemoryType,
        it.dstHost.addr(),
        it.dstDevice,
        it.dstArray,
        to,
        it.dstLOD,
        it.dstPitch,
        it.dstHeight,
    );
    Copy { context, home: 0, from, to, extent }
}

pub(super) fn params_of(copy: &Copy) -> CUDA_MEMCPY3D {
    let Copy { from, to, extent, .. } = copy;
    CUDA_MEMCPY3D {
        srcXInBytes: from.start[0],
        srcY: from.start[1],
        srcZ: from.start[2],
        srcLOD: from.level,
        srcMemoryType: from.kind,
        srcHost: from.host.address() as *const c_void,
        srcDevice: from.told().0,
        srcArray: from.array as CUarray,
        reserved0: null_mut(),
        srcPitch: from.told().1,
        srcHeight: from.told().2,
        dstXInBytes: to.start[0],
        dstY: to.start[1],
        dstZ: to.start[2],
        dstLOD: to.level,
        dstMemoryType: to.kind,
        dstHost: to.host.address() as *mut c_void,
        dstDevice: to.told().0,
        dstArray: to.array as CUarray,
        reserved1: null_mut(),
        dstPitch: to.told().1,
        dstHeight: to.told().2,
        WidthInBytes: extent[0],
        Height: extent[1],
        Depth: extent[2],
    }
}

/// # Safety
///
/// `params` is NULL or may be read.
pub(super) unsafe fn fill(
    m: &mut Machine,
    params: *const CUDA_MEMSET_NODE_PARAMS,
    context: CUcontext,
) -> Answer<Operation> {
    // SAFETY: as the caller guarantees.
    let it = unsafe { given(m, params)? };
    if context.is_null() {
        m.check_home(it.dst)?;
    }
    let context = m.named_context(context.addr())?;
    let (to, pitch, value, element) = (it.dst, it.pitch, it.value, it.elementSize);
    let home = memory::home_of(to, context);
    let fill = Fill { context, home, to, pitch, value, element, width: it.width, height: it.height };
    m.check_fill(&fill)?;
    Ok(Operation::Fill(fill))
}

/// # Safety
///
/// `params` is NULL or may be read.
pub(super) unsafe fn host(m: &mut Machine, params: *const CUDA_HOST_NODE_PARAMS) -> Answer<Operation> {
    // SAFETY: as the caller guarantees.
    let it = unsafe { given(m, params)? };
    m.check_host(Host { function: it.fn_, data: it.userData.addr() })
}
