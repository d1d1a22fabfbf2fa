//! When work is known to be over, although the driver fails.
//!
//! Memory that is lent to the device for a time is given back when the work that uses it is over.
//! A wait that fails may not have waited. So the driver is asked again, in other ways, until an
//! answer proves that the work is over:
//!
//! * A question is answered with success.
//! * The context is lost: it does no work any more, and answers every question with an error that
//!   says so. A driver that fails for a while may answer the same. So this is believed after many
//!   such answers, if none between them says that work goes on.
//!
//! Other answers prove nothing. One case ends without a proof: other code captures the stream. The
//! capture may have been begun by this very thread, which could then never end it. So after a while
//! the error is returned.

use super::resource::is_gone;
use crate::driver::is_child;
use crate::error::{CudaError, CudaResult, keep_note};
use crate::report;
use std::thread;
use std::time::Duration;

/// How often a lost context has to say so.
const TIMES: usize = 16;

/// After this many rounds without a proof the program is told.
const MANY: u32 = 10;

/// After this many rounds in which a capture forbade every question, about a second, they end.
const CAPTURED: u32 = 1_000;

const SHORTEST_PAUSE: Duration = Duration::from_micros(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// A wait for some work, or a query. Success says that the work is over.
pub(crate) type Question<'a> = &'a dyn Fn() -> CudaResult<()>;

/// Whether a context that returns this error each time does no work any more.
pub(crate) fn ends_all_work(error: CudaError) -> bool {
    is_gone(error)
        || matches!(
            error,
            CudaError::EccUncorrectable
                | CudaError::NvlinkUncorrectable
                | CudaError::Contained
                | CudaError::IllegalAddress
                | CudaError::LaunchTimeout
                | CudaError::AssertError
                | CudaError::HardwareStackError
                | CudaError::IllegalInstruction
                | CudaError::MisalignedAddress
                | CudaError::InvalidAddressSpace
                | CudaError::InvalidProgramCounter
                | CudaError::LaunchFailed
                | CudaError::TensorMemoryLeak
                | CudaError::MpsClientTerminated
                | CudaError::ExternalDevice
        )
}

/// Whether the context is lost, by its answers to one question.
#[cold]
pub(crate) fn is_lost(ask: impl Fn() -> CudaResult<()>) -> bool {
    (0..TIMES).all(|_| ask().is_err_and(ends_all_work))
}

/// Asks these questions in turn, after one that failed, until the work is known to be over. If there
/// is a number of rounds, it ends after them.
///
/// # Errors
///
/// The last answer, if the context is lost, and if it ends without a proof.
#[cold]
pub(crate) fn ask_until_over(questions: &[Question<'_>], rounds: Option<u32>) -> CudaResult<()> {
    let _note = keep_note();
    let (mut lost, mut pause, mut round, mut captured) = (0, SHORTEST_PAUSE, 1, 0);
    loop {
        let mut answer = Ok(());
        captured += 1;
        for ask in questions {
            answer = ask();
            match answer {
                Ok(()) => return answer,
                Err(CudaError::NotReady) => lost = 0,
                Err(error) if error.is_of_capture() => continue,
                Err(error) => lost += usize::from(ends_all_work(error)),
            }
            captured = 0;
            // In the child of a fork nothing is used: the work is the parent's.
            if lost == TIMES || is_child() {
                return answer;
            }
        }
        if rounds == Some(round) || captured == CAPTURED {
            return answer;
        }
        if let (Err(error), MANY) = (answer, round) {
            let what = "the driver is asked on whether it uses memory of the program";
            report::warn(format_args!("{what}: {error:?}"));
        }
        thread::sleep(pause);
        (pause, round) = (LONGEST_PAUSE.min(pause * 2), round.saturating_add(1));
    }
}
