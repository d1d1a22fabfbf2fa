//! The driver's objects for tests: each is released when it is dropped, and errors are the driver's statuses.

use crate::harness::other;
use custack_sys::ffi::*;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_void};
use std::marker::PhantomData;
use std::ptr::null_mut;

pub(crate) type Result<T, E = CUresult> = std::result::Result<T, E>;

/// The statuses that tests expect, by their names.
pub(crate) mod status {
    use custack_sys::ffi::CUresult;

    pub(crate) const INVALID_VALUE: CUresult = 1;
    pub(crate) const OUT_OF_MEMORY: CUresult = 2;
    pub(crate) const INVALID_PTX: CUresult = 218;
    pub(crate) const UNSUPPORTED_PTX_VERSION: CUresult = 222;
    pub(crate) const NOT_READY: CUresult = 600;
    pub(crate) const ILLEGAL_ADDRESS: CUresult = 700;
    pub(crate) const LAUNCH_TIMEOUT: CUresult = 702;
    pub(crate) const ASSERT: CUresult = 710;
    pub(crate) const ILLEGAL_INSTRUCTION: CUresult = 715;
    pub(crate) const MISALIGNED_ADDRESS: CUresult = 716;
    pub(crate) const INVALID_PROGRAM_COUNTER: CUresult = 718;
    pub(crate) const LAUNCH_FAILED: CUresult = 719;
    pub(crate) const NOT_SUPPORTED: CUresult = 801;
}

thread_local! {
    /// What the simulated driver said of the last refusal, and its status.
    static SAID: RefCell<(CUresult, String)> = const { RefCell::new((0, String::new())) };
}

pub(crate) fn ask(status: CUresult) -> Result<()> {
    if status == 0 {
        return Ok(());
    }
    // Now, as releasing what was made before it is another call.
    SAID.set((status, custack_sim::why_refused(status).unwrap_or_default()));
    Err(status)
}

/// What the simulated driver said of the last refusal, which had this status.
#[track_caller]
pub(crate) fn said(status: CUresult) -> String {
    let (of, text) = SAID.take();
    assert_eq!(of, status);
    text
}

/// An attribute of the first device.
pub(crate) fn attribute(attribute: u32) -> i32 {
    let mut value = 0;
    assert_eq!(call!(cuDeviceGetAttribute(&mut value, attribute, 0)), 0);
    value
}

/// The first number of the device's compute capability.
pub(crate) fn major() -> i32 {
    attribute(75)
}

/// How much memory is free.
pub(crate) fn free_memory() -> usize {
    let (mut free, mut all) = (0, 0);
    assert_eq!(call!(cuMemGetInfo_v2(&mut free, &mut all)), 0);
    free
}

/// A context on the first device.
pub(crate) struct Context(pub(crate) CUcontext);

// SAFETY: a handle, which any thread may use.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// A new context, on top of this thread's stack.
#[track_caller]
pub(crate) fn pushed() -> Context {
    Context(other::create())
}

/// A new context, on no stack.
pub(crate) fn parked() -> Context {
    Context(other::parked())
}

impl Context {
    pub(crate) fn make_current(&self) {
        other::set(self.0);
    }

    /// Runs this with the context on top of the calling thread's stack.
    pub(crate) fn scoped<T>(&self, f: impl FnOnce() -> T) -> T {
        other::push(self.0);
        let result = f();
        assert_eq!(other::pop(), Ok(self.0));
        result
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let _ = call!(cuCtxDestroy_v2(self.0));
    }
}

#[derive(Debug)]
pub(crate) struct Module(pub(crate) CUmodule);

// SAFETY: a handle, which any thread may use.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl Module {
    /// Loads a text.
    pub(crate) fn load(text: impl AsRef<[u8]>) -> Result<Module> {
        let (mut module, text) = (null_mut(), CString::new(text.as_ref()).unwrap());
        ask(call!(cuModuleLoadData(&mut module, text.as_ptr().cast())))?;
        Ok(Module(module))
    }

    pub(crate) fn get_function(&self, name: &CStr) -> Result<Function> {
        let mut function = null_mut();
        ask(call!(cuModuleGetFunction(&mut function, self.0, name.as_ptr())))?;
        Ok(Function(function))
    }

    /// The address and the size of a variable.
    pub(crate) fn get_global(&self, name: &CStr) -> Result<(u64, usize)> {
        let (mut at, mut size) = (0, 0);
        ask(call!(cuModuleGetGlobal_v2(&mut at, &mut size, self.0, name.as_ptr())))?;
        Ok((at, size))
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        let _ = call!(cuModuleUnload(self.0));
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Function(pub(crate) CUfunction);

/// Memory of the device for some values, which are all that it has.
pub(crate) struct Buffer<T> {
    at: u64,
    len: usize,
    of: PhantomData<T>,
}

impl<T: Copy> Buffer<T> {
    pub(crate) fn uninitialized(len: usize) -> Result<Buffer<T>> {
        let mut at = 0;
        ask(call!(cuMemAlloc_v2(&mut at, len * size_of::<T>())))?;
        Ok(Buffer { at, len, of: PhantomData })
    }

    pub(crate) fn from_slice(values: &[T]) -> Result<Buffer<T>> {
        let buffer = Buffer::uninitialized(values.len())?;
        buffer.copy_from(values)?;
        Ok(buffer)
    }

    pub(crate) fn address(&self) -> u64 {
        self.at
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[track_caller]
    pub(crate) fn copy_from(&self, values: &[T]) -> Result<()> {
        assert_eq!(values.len(), self.len);
        ask(call!(cuMemcpyHtoD_v2(self.at, values.as_ptr().cast(), size_of_val(values))))?;
        // On a GPU the call may return before what it has taken is there, and the streams do not wait for it.
        ask(call!(cuStreamSynchronize(null_mut())))
    }

    #[track_caller]
    pub(crate) fn copy_to(&self, values: &mut [T]) -> Result<()> {
        assert_eq!(values.len(), self.len);
        ask(call!(cuMemcpyDtoH_v2(values.as_mut_ptr().cast(), self.at, size_of_val(values))))
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        let _ = call!(cuMemFree_v2(self.at));
    }
}

/// A stream that does not wait for the default one.
pub(crate) struct Stream(pub(crate) CUstream);

// SAFETY: a handle, which any thread may use.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    pub(crate) fn new() -> Result<Stream> {
        let mut stream = null_mut();
        ask(call!(cuStreamCreate(&mut stream, 1)))?;
        Ok(Stream(stream))
    }

    pub(crate) fn synchronize(&self) -> Result<()> {
        ask(call!(cuStreamSynchronize(self.0)))
    }

    pub(crate) fn is_done(&self) -> Result<bool> {
        match call!(cuStreamQuery(self.0)) {
            status::NOT_READY => Ok(false),
            other => ask(other).map(|()| true),
        }
    }

    /// Launches a kernel with pointers to its arguments.
    ///
    /// # Safety
    ///
    /// The arguments are those that the kernel takes, and it uses no memory that is not its own.
    pub(crate) unsafe fn launch(
        &self,
        function: Function,
        config: &Config,
        arguments: &mut [*mut c_void],
    ) -> Result<()> {
        let attribute = |id, words: [u32; 3]| {
            let mut value = [0; 16];
            value[..3].copy_from_slice(&words);
            CUlaunchAttribute { id, pad: [0; 4], value }
        };
        let mut attributes = Vec::new();
        attributes.extend(config.is_cooperative.then(|| attribute(2, [1, 0, 0])));
        attributes.extend(config.cluster.map(|size| attribute(4, size)));
        let (grid, block, shared) = (config.grid, config.block, config.shared);
        let raw = CUlaunchConfig {
            gridDimX: grid[0],
            gridDimY: grid[1],
            gridDimZ: grid[2],
            blockDimX: block[0],
            blockDimY: block[1],
            blockDimZ: block[2],
            sharedMemBytes: shared,
            hStream: self.0,
            attrs: attributes.as_mut_ptr(),
            numAttrs: attributes.len() as u32,
        };
        let ([x, y, z], [a, b, c], (none, arguments)) = (grid, block, (null_mut(), arguments.as_mut_ptr()));
        ask(if attributes.is_empty() {
            call!(cuLaunchKernel(function.0, x, y, z, a, b, c, shared, self.0, arguments, none))
        } else {
            call!(cuLaunchKernelEx(&raw, function.0, arguments, none))
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = call!(cuStreamDestroy_v2(self.0));
    }
}

/// How many blocks, or threads of a block, in each direction.
#[derive(Clone, Copy)]
pub(crate) struct Size([u32; 3]);

impl From<u32> for Size {
    fn from(x: u32) -> Size {
        Size([x, 1, 1])
    }
}

impl From<(u32, u32, u32)> for Size {
    fn from((x, y, z): (u32, u32, u32)) -> Size {
        Size([x, y, z])
    }
}

/// How a kernel is launched.
#[derive(Clone, Copy)]
pub(crate) struct Config {
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    cluster: Option<[u32; 3]>,
    is_cooperative: bool,
}

impl Config {
    pub(crate) fn new(grid: impl Into<Size>, block: impl Into<Size>) -> Config {
        let (grid, block) = (grid.into().0, block.into().0);
        Config { grid, block, shared: 0, cluster: None, is_cooperative: false }
    }

    pub(crate) fn shared(self, shared: u32) -> Config {
        Config { shared, ..self }
    }

    pub(crate) fn cluster(self, size: impl Into<Size>) -> Config {
        Config { cluster: Some(size.into().0), ..self }
    }

    pub(crate) fn cooperative(self, is_cooperative: bool) -> Config {
        Config { is_cooperative, ..self }
    }
}

pub(crate) fn pointer<T: Copy>(value: &T) -> *mut c_void {
    std::ptr::from_ref(value).cast_mut().cast()
}

/// Launches `module.kernel` or `function` as CUDA C++ does, with values that are copied.
macro_rules! launch {
    ($module:ident . $name:ident <<<$config:expr, $stream:ident>>>($($arg:expr),*)) => {{
        let name = std::ffi::CString::new(stringify!($name)).unwrap();
        $module.get_function(&name).and_then(|function| launch!(function<<<$config, $stream>>>($($arg),*)))
    }};
    ($function:ident <<<$config:expr, $stream:ident>>>($($arg:expr),*)) => {
        $stream.launch($function, &$config, &mut [$(crate::gpu::pointer(&$arg)),*])
    };
    ($module:ident . $name:ident <<<$grid:expr, $block:expr, $shared:expr, $stream:ident>>>($($arg:expr),*)) => {
        launch!($module.$name<<<crate::gpu::Config::new($grid, $block).shared($shared), $stream>>>($($arg),*))
    };
    ($function:ident <<<$grid:expr, $block:expr, $shared:expr, $stream:ident>>>($($arg:expr),*)) => {
        launch!($function<<<crate::gpu::Config::new($grid, $block).shared($shared), $stream>>>($($arg),*))
    };
}
