//! What this example needs of NCCL's C interface, opened at run time.

use custack::memory::DeviceBuffer;
use custack::stream::Stream;
use libloading::Library;
use std::ffi::{CStr, OsString};
use std::fmt;
use std::os::raw::{c_char, c_int, c_uint, c_void};

/// `ncclResult_t`; 0 is success.
type Status = c_uint;
/// `ncclComm_t`.
type RawComm = *mut c_void;

const SUM: c_uint = 0;
const FLOAT32: c_uint = 7;

/// `ncclUniqueId`: what the members of a communicator have in common. One of them makes it, and hands it to the others.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct UniqueId(pub [u8; 128]);

/// The functions of NCCL.
pub struct Nccl {
    version: unsafe extern "C" fn(*mut c_int) -> Status,
    unique_id: unsafe extern "C" fn(*mut UniqueId) -> Status,
    init: unsafe extern "C" fn(*mut RawComm, c_int, UniqueId, c_int) -> Status,
    destroy: unsafe extern "C" fn(RawComm) -> Status,
    all_reduce: unsafe extern "C" fn(
        *const c_void,
        *mut c_void,
        usize,
        c_uint,
        c_uint,
        RawComm,
        *mut c_void,
    ) -> Status,
    text: unsafe extern "C" fn(Status) -> *const c_char,
    last: Option<unsafe extern "C" fn(RawComm) -> *const c_char>,
    /// Not closed while there are pointers into it.
    _library: Library,
}

/// A failure of NCCL's, with its own words.
#[derive(Debug)]
pub struct NcclError(String);

impl fmt::Display for NcclError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NcclError {}

impl Nccl {
    /// Opens the library that `LIBNCCL` names, or `libnccl.so.2` from where the system finds libraries. NCCL's Python
    /// package has one at `nvidia/nccl/lib/libnccl.so.2`.
    pub fn open() -> Result<Nccl, NcclError> {
        let name = std::env::var_os("LIBNCCL").unwrap_or(OsString::from("libnccl.so.2"));
        let missing = |error| NcclError(format!("{}: {error}; LIBNCCL may name it", name.to_string_lossy()));
        // SAFETY: NCCL's initialisers only prepare the library itself.
        let library = unsafe { Library::new(&name) }.map_err(missing)?;
        // SAFETY: the types are those of nccl.h, for each function.
        unsafe {
            Ok(Nccl {
                version: *library.get(b"ncclGetVersion\0").map_err(missing)?,
                unique_id: *library.get(b"ncclGetUniqueId\0").map_err(missing)?,
                init: *library.get(b"ncclCommInitRank\0").map_err(missing)?,
                destroy: *library.get(b"ncclCommDestroy\0").map_err(missing)?,
                all_reduce: *library.get(b"ncclAllReduce\0").map_err(missing)?,
                text: *library.get(b"ncclGetErrorString\0").map_err(missing)?,
                // From NCCL 2.13 on.
                last: library.get(b"ncclGetLastError\0").ok().map(|symbol| *symbol),
                _library: library,
            })
        }
    }

    /// The version, such as 2.27.3.
    pub fn version(&self) -> Result<String, NcclError> {
        let mut code = 0;
        // SAFETY: writes to a local.
        self.check("ncclGetVersion", unsafe { (self.version)(&mut code) })?;
        // Version 2.9 was the first to have a fifth digit.
        let major = if code < 10_000 { 1000 } else { 10_000 };
        Ok(format!("{}.{}.{}", code / major, code % major / 100, code % 100))
    }

    /// Makes what one member hands to the others.
    pub fn make_id(&self) -> Result<UniqueId, NcclError> {
        let mut id = UniqueId([0; 128]);
        // SAFETY: writes to a local, which has the size of nccl.h.
        self.check("ncclGetUniqueId", unsafe { (self.unique_id)(&mut id) })?;
        Ok(id)
    }

    /// Joins the communicator of this id, on the device of the context that is current on this thread; returns when all
    /// members have joined. That should be the device's primary context, as NCCL is written for the CUDA runtime.
    pub fn join(&self, id: UniqueId, rank: usize, size: usize) -> Result<Communicator<'_>, NcclError> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: writes to a local; the id is plain bytes, which NCCL checks.
        let status = unsafe { (self.init)(&mut raw, size as c_int, id, rank as c_int) };
        self.check("ncclCommInitRank", status)?;
        Ok(Communicator { nccl: self, raw })
    }

    fn check(&self, function: &str, status: Status) -> Result<(), NcclError> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: NCCL returns texts that live for ever, and takes a null communicator for none.
        let (text, last) =
            unsafe { (told((self.text)(status)), self.last.map(|last| told(last(std::ptr::null_mut())))) };
        let last = last.filter(|last| !last.is_empty()).map(|last| format!(": {last}")).unwrap_or_default();
        Err(NcclError(format!("{function} failed: {text} ({status}){last}")))
    }
}

/// # Safety
///
/// The pointer is null, or a C string.
unsafe fn told(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as the caller guarantees.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().trim().to_owned()
}

/// A member of a communicator.
pub struct Communicator<'a> {
    nccl: &'a Nccl,
    raw: RawComm,
}

impl Communicator<'_> {
    /// Submits to the stream: every member's buffer becomes the sum of all members' buffers.
    ///
    /// # Safety
    ///
    /// The stream and the buffer are of the context that was current when the member joined; the buffer lives, and is not
    /// used otherwise, until the stream is done with it; all members call this in the same order with as many values.
    pub unsafe fn all_reduce_sum(
        &self,
        buffer: &mut DeviceBuffer<f32>,
        stream: &Stream,
    ) -> Result<(), NcclError> {
        let address = buffer.as_device_ptr().as_raw_mut().cast::<c_void>();
        let count = buffer.len();
        // SAFETY: as the caller guarantees. A stream of the driver's is one of the runtime's.
        let status = unsafe {
            (self.nccl.all_reduce)(address, address, count, FLOAT32, SUM, self.raw, stream.as_raw().cast())
        };
        self.nccl.check("ncclAllReduce", status)
    }
}

impl Drop for Communicator<'_> {
    fn drop(&mut self) {
        // SAFETY: the communicator is this value's own, and not used again.
        let status = unsafe { (self.nccl.destroy)(self.raw) };
        if let Err(error) = self.nccl.check("ncclCommDestroy", status) {
            eprintln!("{error}");
        }
    }
}
