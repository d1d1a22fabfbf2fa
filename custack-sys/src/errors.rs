//! Every error of the driver, declared once: its name in Rust, its number, its name behind `CUDA_ERROR_`, and what it means.

/// Passes the whole list of errors to the macro named in the parentheses.
#[macro_export]
macro_rules! for_each_error {
    ($then:ident) => {
        $then! {
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
    };
}

macro_rules! numbers {
    ($($name:ident = $code:literal, $symbol:literal, $text:literal;)*) => {
        /// The number of each error of the driver, its name behind `CUDA_ERROR_`, and what it means.
        pub const ERRORS: &[(u32, &str, &str)] = &[$(($code, $symbol, $text)),*];
    };
}
for_each_error!(numbers);
