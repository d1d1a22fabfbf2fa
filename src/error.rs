//! Errors and their texts.
//!
//! * [`CudaError`] is what every call may return: one of the driver's error codes by name, or one of custack's own
//!   refusals ([`HeldByGuard`](CudaError::HeldByGuard), [`NoDriver`](CudaError::NoDriver), ...). A code without a name
//!   is kept as a number.
//! * [`Failure`] is one failure: an error with the text of what was asked for, which travels.
//! * [`DriverError`] says why no driver could be loaded: what was tried, and what to do.
//! * [`DropResult`] is the result of destroying a value by hand: the error and the value. A value that may be destroyed
//!   all the same comes back empty.
//!
//! # What was asked
//!
//! `CudaError` is `Copy` and carries a number, as in RustaCUDA, so it cannot hold the operands of the call that failed,
//! nor say which failure it is of. `Display` says what the number means. The operands stand beside it, in notes that each
//! thread keeps of its last failures (as `errno` does for C). A [`Failure`] takes them from there, so make it on the
//! thread that got the error, before the same error comes again: where `?` returns it from a function.
//!
//! `Debug` of a `CudaError` adds what the thread asked for when it last got this error, and says so: it is what `unwrap`
//! prints, and a `main` that returns it.
//!
//! ```
//! use custack::context::{Context, ContextFlags, ContextStack};
//! use custack::device::Device;
//! use custack::error::CudaError;
//!
//! custack::init(custack::CudaFlags::empty())?;
//! let owner = Context::create_and_push(ContextFlags::SCHED_AUTO, Device::get_device(0)?)?;
//! let handle = owner.get_unowned();
//! drop(owner);
//!
//! let error = ContextStack::push(&handle).unwrap_err();
//! assert_eq!((error, error.code()), (CudaError::ContextIsDestroyed, 709));
//! assert_eq!(error.to_string(), "the context is destroyed (CUDA_ERROR_CONTEXT_IS_DESTROYED, 709)");
//! let failure = error.failure();
//! assert!(failure.to_string().starts_with("failed to use context "));
//! assert!(failure.to_string().ends_with(" (CUDA_ERROR_CONTEXT_IS_DESTROYED, 709: the context is destroyed)"));
//! # Ok::<(), CudaError>(())
//! ```
//!
//! # Errors of earlier work
//!
//! The device works asynchronously, so a call may return the error of work that was submitted earlier. The errors of a
//! kernel (such as `IllegalAddress`) are permanent: later calls return them too.
//!
//! # Errors in destructors
//!
//! A destructor returns nothing. Its errors are reported through `tracing` (target `custack`), if that feature is on.

mod failure;
mod no_driver;
mod note;

pub use failure::Failure;
pub use no_driver::{Attempt, DriverError};
pub(crate) use note::{keep_note, twice};

/// The result of a call that may fail.
pub type CudaResult<T> = Result<T, CudaError>;

/// The result of destroying a value by hand: on failure the error, and the value.
pub type DropResult<T> = Result<(), (CudaError, T)>;

macro_rules! errors {
    ($($name:ident = $code:literal, $symbol:literal, $text:literal;)*) => {
        /// An error of the driver, or of custack before it called the driver.
        ///
        /// The variants with a number are the driver's `CUDA_ERROR_*`; [`code`](Self::code) returns the number. A
        /// number that this crate does not know is kept as [`Unrecognized`](Self::Unrecognized).
        ///
        /// ```
        /// use custack::error::CudaError;
        ///
        /// assert_eq!(CudaError::InvalidContext.code(), 201);
        /// assert_eq!(CudaError::from_code(4711), Some(CudaError::Unrecognized(4711)));
        /// assert!(CudaError::ContextIsDestroyed.to_string().contains("CUDA_ERROR_CONTEXT_IS_DESTROYED"));
        /// ```
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub enum CudaError {
            $(#[doc = concat!("`CUDA_ERROR_", $symbol, "` (", stringify!($code), "): ", $text, ".")] $name,)*
            /// A memory size overflows or is zero (100100, RustaCUDA's own number).
            InvalidMemoryAllocation,
            /// A living guard holds the entry of the context stack, so it cannot be removed or replaced (100200).
            HeldByGuard,
            /// No driver could be loaded (100201); the contained error says what was tried and what to do.
            NoDriver(&'static DriverError),
            /// The driver wrote a number that has no name in this crate, or an address where no memory can be (100202).
            UnexpectedValue {
                /// The driver function that wrote it.
                function: &'static str,
                /// The value.
                value: i64,
            },
            /// An error code of the driver that this crate does not know.
            Unrecognized(u32),
            #[doc(hidden)]
            __Nonexhaustive,
        }

        const TABLE: &[(CudaError, u32, &str, &str)] = &[$((CudaError::$name, $code, $symbol, $text)),*];

        /// The code of each error of the driver, its name behind `CUDA_ERROR_`, and what it means.
        #[doc(hidden)]
        pub const ERRORS: &[(u32, &str, &str)] = &[$(($code, $symbol, $text)),*];
    };
}

errors! {
    InvalidValue = 1, "INVALID_VALUE", "an argument has a value that the driver does not take";
    OutOfMemory = 2, "OUT_OF_MEMORY", "the device or the host has not enough memory left";
    NotInitialized = 3, "NOT_INITIALIZED", "the driver is not initialised; call custack::init first";
    Deinitialized = 4, "DEINITIALIZED", "the driver is shutting down because the process is exiting";
    ProfilerDisabled = 5, "PROFILER_DISABLED", "the profiler is switched off for this run";
    ProfilerNotInitialized = 6, "PROFILER_NOT_INITIALIZED", "the profiler is not initialised";
    ProfilerAlreadyStarted = 7, "PROFILER_ALREADY_STARTED", "the profiler is started already";
    ProfilerAlreadyStopped = 8, "PROFILER_ALREADY_STOPPED", "the profiler is stopped already";
    StubLibrary = 34, "STUB_LIBRARY", "the loaded library is the toolkit's stub for linking, not a driver";
    CallRequiresNewerDriver = 36, "CALL_REQUIRES_NEWER_DRIVER", "the installed driver is too old for this function";
    DeviceUnavailable = 46, "DEVICE_UNAVAILABLE", "the device is busy, or its compute mode forbids another context";
    NoDevice = 100, "NO_DEVICE", "the driver finds no CUDA device";
    InvalidDevice = 101, "INVALID_DEVICE", "the device ordinal is not one of the driver's devices";
    DeviceNotLicensed = 102, "DEVICE_NOT_LICENSED", "the device has no valid licence";
    InvalidImage = 200, "INVALID_IMAGE", "the driver cannot read the module image";
    InvalidContext = 201, "INVALID_CONTEXT", "no context is current on this thread, or the handle is not a context";
    ContextAlreadyCurrent = 202, "CONTEXT_ALREADY_CURRENT", "the context is current already";
    MapFailed = 205, "MAP_FAILED", "a resource could not be mapped";
    UnmapFailed = 206, "UNMAP_FAILED", "a resource could not be unmapped";
    ArrayIsMapped = 207, "ARRAY_IS_MAPPED", "the array is mapped and cannot be destroyed";
    AlreadyMapped = 208, "ALREADY_MAPPED", "the resource is mapped already";
    NoBinaryForGpu = 209, "NO_BINARY_FOR_GPU", "the image has no code for this device";
    AlreadyAcquired = 210, "ALREADY_ACQUIRED", "the resource is acquired already";
    NotMapped = 211, "NOT_MAPPED", "the resource is not mapped";
    NotMappedAsArray = 212, "NOT_MAPPED_AS_ARRAY", "the resource is not mapped as an array";
    NotMappedAsPointer = 213, "NOT_MAPPED_AS_POINTER", "the resource is not mapped as a pointer";
    EccUncorrectable = 214, "ECC_UNCORRECTABLE", "the device found a memory error that it could not correct";
    UnsupportedLimit = 215, "UNSUPPORTED_LIMIT", "the device does not support this limit";
    ContextAlreadyInUse = 216, "CONTEXT_ALREADY_IN_USE", "the context is bound to another thread already";
    PeerAccessUnsupported = 217, "PEER_ACCESS_UNSUPPORTED", "the devices cannot access each other's memory";
    InvalidPtx = 218, "INVALID_PTX", "the PTX could not be compiled";
    InvalidGraphicsContext = 219, "INVALID_GRAPHICS_CONTEXT", "the graphics context is not valid";
    NvlinkUncorrectable = 220, "NVLINK_UNCORRECTABLE", "an NVLink error could not be corrected";
    JitCompilerNotFound = 221, "JIT_COMPILER_NOT_FOUND", "the PTX compiler library was not found";
    UnsupportedPtxVersion = 222, "UNSUPPORTED_PTX_VERSION", "the PTX version is newer than the driver";
    JitCompilationDisabled = 223, "JIT_COMPILATION_DISABLED", "compiling PTX is switched off";
    UnsupportedExecAffinity = 224, "UNSUPPORTED_EXEC_AFFINITY", "the device does not support this execution affinity";
    UnsupportedDevsideSync = 225, "UNSUPPORTED_DEVSIDE_SYNC", "the code synchronises on the device, which is not supported";
    Contained = 226, "CONTAINED", "a device fault was contained; the process must be restarted";
    InvalidSouce = 300, "INVALID_SOURCE", "the device kernel source is not valid";
    FileNotFound = 301, "FILE_NOT_FOUND", "the file was not found or cannot be read";
    SharedObjectSymbolNotFound = 302, "SHARED_OBJECT_SYMBOL_NOT_FOUND", "a symbol of a shared object was not found";
    SharedObjectInitFailed = 303, "SHARED_OBJECT_INIT_FAILED", "a shared object could not be initialised";
    OperatingSystemError = 304, "OPERATING_SYSTEM", "an operating system call failed";
    InvalidHandle = 400, "INVALID_HANDLE", "the handle is not valid for this call";
    IllegalState = 401, "ILLEGAL_STATE", "the resource is not in the required state";
    LossyQuery = 402, "LOSSY_QUERY", "the answer would lose information";
    NotFound = 500, "NOT_FOUND", "the named symbol was not found";
    NotReady = 600, "NOT_READY", "the work has not finished";
    IllegalAddress = 700, "ILLEGAL_ADDRESS", "a kernel accessed an invalid address";
    LaunchOutOfResources = 701, "LAUNCH_OUT_OF_RESOURCES", "the launch needs more registers or threads than the device has";
    LaunchTimeout = 702, "LAUNCH_TIMEOUT", "the kernel ran longer than the device allows";
    LaunchIncompatibleTexturing = 703, "LAUNCH_INCOMPATIBLE_TEXTURING", "the kernel uses an incompatible texturing mode";
    PeerAccessAlreadyEnabled = 704, "PEER_ACCESS_ALREADY_ENABLED", "access to this peer is enabled already";
    PeerAccessNotEnabled = 705, "PEER_ACCESS_NOT_ENABLED", "access to this peer is not enabled";
    PrimaryContextActive = 708, "PRIMARY_CONTEXT_ACTIVE", "the primary context is active already";
    ContextIsDestroyed = 709, "CONTEXT_IS_DESTROYED", "the context is destroyed";
    AssertError = 710, "ASSERT", "a device-side assertion failed";
    TooManyPeers = 711, "TOO_MANY_PEERS", "no more peers can be enabled";
    HostMemoryAlreadyRegistered = 712, "HOST_MEMORY_ALREADY_REGISTERED", "the host memory is registered already";
    HostMemoryNotRegistered = 713, "HOST_MEMORY_NOT_REGISTERED", "the host memory is not registered";
    HardwareStackError = 714, "HARDWARE_STACK_ERROR", "a kernel overran its stack";
    IllegalInstruction = 715, "ILLEGAL_INSTRUCTION", "a kernel executed an illegal instruction";
    MisalignedAddress = 716, "MISALIGNED_ADDRESS", "a kernel used a misaligned address";
    InvalidAddressSpace = 717, "INVALID_ADDRESS_SPACE", "a kernel used an address in the wrong address space";
    InvalidProgramCounter = 718, "INVALID_PC", "a kernel jumped to an invalid address";
    LaunchFailed = 719, "LAUNCH_FAILED", "a kernel failed while it ran";
    CooperativeLaunchTooLarge = 720, "COOPERATIVE_LAUNCH_TOO_LARGE", "the cooperative launch has more blocks than fit at once";
    TensorMemoryLeak = 721, "TENSOR_MEMORY_LEAK", "a kernel ended without freeing its tensor memory";
    NotPermitted = 800, "NOT_PERMITTED", "the driver does not permit this here";
    NotSupported = 801, "NOT_SUPPORTED", "the driver or the device does not support this";
    SystemNotReady = 802, "SYSTEM_NOT_READY", "a system service that the driver needs is not ready";
    SystemDriverMismatch = 803, "SYSTEM_DRIVER_MISMATCH", "the display driver and the CUDA driver have different versions";
    CompatNotSupportedOnDevice = 804, "COMPAT_NOT_SUPPORTED_ON_DEVICE", "forward compatibility is not supported on this device";
    MpsConnectionFailed = 805, "MPS_CONNECTION_FAILED", "the MPS server could not be reached";
    MpsRpcFailure = 806, "MPS_RPC_FAILURE", "a call to the MPS server failed";
    MpsServerNotReady = 807, "MPS_SERVER_NOT_READY", "the MPS server is not ready";
    MpsMaxClientsReached = 808, "MPS_MAX_CLIENTS_REACHED", "the MPS server cannot take another client";
    MpsMaxConnectionsReached = 809, "MPS_MAX_CONNECTIONS_REACHED", "the device cannot take another MPS connection";
    MpsClientTerminated = 810, "MPS_CLIENT_TERMINATED", "the MPS server ended this client";
    CdpNotSupported = 811, "CDP_NOT_SUPPORTED", "launching from the device is not supported here";
    CdpVersionMismatch = 812, "CDP_VERSION_MISMATCH", "the module was built for another version of device-side launches";
    StreamCaptureUnsupported = 900, "STREAM_CAPTURE_UNSUPPORTED", "the operation is not allowed while a stream captures";
    StreamCaptureInvalidated = 901, "STREAM_CAPTURE_INVALIDATED", "an earlier error has invalidated the capture";
    StreamCaptureMerge = 902, "STREAM_CAPTURE_MERGE", "the operation would join two captures";
    StreamCaptureUnmatched = 903, "STREAM_CAPTURE_UNMATCHED", "the capture was not begun in this stream";
    StreamCaptureUnjoined = 904, "STREAM_CAPTURE_UNJOINED", "the capture has a fork that never joined it";
    StreamCaptureIsolation = 905, "STREAM_CAPTURE_ISOLATION", "the operation would make the capture depend on work outside it";
    StreamCaptureImplicit = 906, "STREAM_CAPTURE_IMPLICIT", "the operation would make the legacy stream depend on a capture";
    CapturedEvent = 907, "CAPTURED_EVENT", "the event was last recorded in a capturing stream";
    StreamCaptureWrongThread = 908, "STREAM_CAPTURE_WRONG_THREAD", "the capture was begun on another thread";
    Timeout = 909, "TIMEOUT", "the wait timed out";
    GraphExecUpdateFailure = 910, "GRAPH_EXEC_UPDATE_FAILURE", "the executable graph cannot be updated this way";
    ExternalDevice = 911, "EXTERNAL_DEVICE", "a device outside CUDA's reach failed";
    InvalidClusterSize = 912, "INVALID_CLUSTER_SIZE", "the cluster is larger than the kernel allows";
    FunctionNotLoaded = 913, "FUNCTION_NOT_LOADED", "the function is not loaded yet";
    InvalidResourceType = 914, "INVALID_RESOURCE_TYPE", "the resource type is not valid for this call";
    InvalidResourceConfiguration = 915, "INVALID_RESOURCE_CONFIGURATION", "the resources cannot be configured this way";
    KeyRotation = 916, "KEY_ROTATION", "the device is rotating its encryption key";
    UnknownError = 999, "UNKNOWN", "the driver reports an unknown error";
}

impl CudaError {
    /// The error for a status of the driver; `None` for 0, which is success.
    pub fn from_code(code: u32) -> Option<CudaError> {
        if code == 0 {
            return None;
        }
        let known = TABLE.binary_search_by_key(&code, |row| row.1);
        Some(known.map_or(CudaError::Unrecognized(code), |at| TABLE[at].0))
    }

    /// The number of this error: the driver's, or one above 100000 for custack's own.
    pub fn code(self) -> u32 {
        match self {
            CudaError::InvalidMemoryAllocation => 100_100,
            CudaError::HeldByGuard => 100_200,
            CudaError::NoDriver(_) => 100_201,
            CudaError::UnexpectedValue { .. } => 100_202,
            CudaError::__Nonexhaustive => 100_101,
            CudaError::Unrecognized(code) => code,
            driver => driver.row().map_or(999, |row| row.1),
        }
    }

    /// Whether a call was refused because of a capture.
    pub(crate) fn is_of_capture(self) -> bool {
        (CudaError::StreamCaptureUnsupported.code()..=CudaError::CapturedEvent.code()).contains(&self.code())
    }

    /// What the driver's number means; empty for custack's own.
    pub(crate) fn text(self) -> &'static str {
        self.row().map_or("", |row| row.3)
    }

    fn row(self) -> Option<&'static (CudaError, u32, &'static str, &'static str)> {
        TABLE.iter().find(|row| row.0 == self)
    }
}
