//! How long a thread waits for another.

use std::time::Duration;

/// The rest of a time for which something is awaited by looking again and again.
///
/// Where the system stops a whole process for longer than that, the thread that waits may be the first to run again, before
/// the other had a chance. So what passes between two looks counts only up to a part of the whole time.
pub(super) struct Patience {
    left: Duration,
    longest: Duration,
}

impl Patience {
    pub(super) fn new(whole: Duration) -> Patience {
        Patience { left: whole, longest: whole / 8 }
    }

    /// Whether to look once more; `passed` is the time since the last look.
    pub(super) fn lasts(&mut self, passed: Duration) -> bool {
        self.left = self.left.saturating_sub(passed.min(self.longest));
        !self.left.is_zero()
    }
}
