//! Options of the driver's compiler and linker, and their logs.

// What holds buffers that the driver writes into may be sent to other threads.
#![allow(unsafe_code)]

use std::os::raw::c_void;
use std::{fmt, ptr};

const WALL_TIME: u32 = 2;
const INFO_LOG_BUFFER: u32 = 3;
const INFO_LOG_BUFFER_SIZE_BYTES: u32 = 4;
const ERROR_LOG_BUFFER: u32 = 5;
const ERROR_LOG_BUFFER_SIZE_BYTES: u32 = 6;
/// The driver gets this much room for each log at the least.
const LEAST_LOG_BYTES: usize = 16 << 10;
/// The options that this file gives by itself: the first numbers of the list.
const OWN: usize = 5;

/// Options with their values, and room for what the compiler says. The driver may write into all of it for as long as
/// what was made with it exists, so none of it moves.
#[derive(Default)]
pub(crate) struct Jit {
    options: Vec<u32>,
    values: Vec<*mut c_void>,
    info: Vec<u8>,
    error: Vec<u8>,
    /// How many bytes of each log are wanted, with the NUL.
    log_bytes: usize,
}

// SAFETY: the pointers lead into its own buffers, and no method of a shared reference gives them away.
unsafe impl Send for Jit {}
// SAFETY: as above.
unsafe impl Sync for Jit {}

// Not the logs, which are large and nearly always empty.
impl fmt::Debug for Jit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jit").field("options", &self.options).finish_non_exhaustive()
    }
}

/// The compiler's output.
#[derive(Debug, Clone, Default)]
pub(crate) struct Told {
    pub(crate) info: String,
    pub(crate) error: String,
    pub(crate) milliseconds: f32,
    /// The other options, as the driver left them.
    pub(crate) options: Vec<(u32, u32)>,
}

/// A number stands where a pointer would, as the manual has it.
fn by_value(number: usize) -> *mut c_void {
    ptr::without_provenance_mut(number)
}

fn text(log: &[u8]) -> String {
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    String::from_utf8_lossy(&log[..end]).trim_end().to_owned()
}

impl Jit {
    /// With these options, and as many bytes for each of the two logs.
    #[inline]
    pub(crate) fn new(options: &[(u32, u32)], log_bytes: usize) -> Jit {
        let room = log_bytes.max(LEAST_LOG_BYTES);
        let (mut info, mut error) = (vec![0; room], vec![0; room]);
        let mut jit = Jit { log_bytes, ..Jit::default() };
        let own: [(u32, *mut c_void); OWN] = [
            (WALL_TIME, ptr::null_mut()),
            (INFO_LOG_BUFFER, info.as_mut_ptr().cast()),
            (INFO_LOG_BUFFER_SIZE_BYTES, by_value(room)),
            (ERROR_LOG_BUFFER, error.as_mut_ptr().cast()),
            (ERROR_LOG_BUFFER_SIZE_BYTES, by_value(room)),
        ];
        let given = options.iter().map(|(option, value)| (*option, by_value(*value as usize)));
        (jit.options, jit.values) = own.into_iter().chain(given).unzip();
        (jit.info, jit.error) = (info, error);
        jit
    }

    pub(in crate::driver::calls) fn count(&self) -> u32 {
        self.options.len() as u32
    }

    pub(in crate::driver::calls) fn options(&mut self) -> *mut u32 {
        self.options.as_mut_ptr()
    }

    pub(in crate::driver::calls) fn values(&mut self) -> *mut *mut c_void {
        self.values.as_mut_ptr()
    }

    fn wanted<'a>(&self, log: &'a [u8]) -> &'a [u8] {
        &log[..log.len().min(self.log_bytes.saturating_sub(1))]
    }

    /// The output so far.
    #[inline]
    pub(crate) fn told(&self) -> Told {
        let low = |value: &*mut c_void| value.addr() as u32;
        let options = self.options.iter().copied().zip(self.values.iter().map(low));
        Told {
            info: text(self.wanted(&self.info)),
            error: text(self.wanted(&self.error)),
            milliseconds: f32::from_bits(low(&self.values[0])),
            options: options.skip(OWN).collect(),
        }
    }

    /// What the compiler says is wrong with which line, in a line; `None` if it says nothing.
    #[inline]
    pub(crate) fn complaint(&self) -> Option<String> {
        complaint(&self.error)
    }
}

/// What is wrong with which line, from the compiler's log; `None` for an empty one.
pub(super) fn complaint(log: &[u8]) -> Option<String> {
    let log = text(log);
    let says_nothing = ["Ptx assembly aborted due to errors", "Binary format for key="];
    let lines = log.lines().filter(|line| !says_nothing.iter().any(|text| line.contains(text)));
    let mut text = String::new();
    for line in lines.map(sentence).filter(|line| !line.is_empty()).take(5) {
        if !text.is_empty() {
            text.push_str("; ");
        }
        text.push_str(&line);
    }
    (!text.is_empty()).then_some(text)
}

/// A line of the log without its columns: `line 7; error   : what` becomes `line 7: what`.
fn sentence(line: &str) -> String {
    let line = line.trim_start_matches("ptxas").trim_start().trim_start_matches("application ptx input,");
    let mut text = String::new();
    for word in line.split_whitespace() {
        match word {
            ":" => text.push(':'),
            "error:" | "fatal:" if text.ends_with(';') => {
                text.pop();
                text.push(':');
            }
            "error" | "fatal" if text.ends_with(';') => {
                text.pop();
            }
            _ => {
                if !text.is_empty() {
                    text.push(' ');
                }
                text.push_str(word);
            }
        }
    }
    text
}
