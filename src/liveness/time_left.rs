//! How long a thread waits for another.

use std::time::Duration;

/// What is left of the time for which a thread looks again and again whether another is done.
///
/// Where the system stops a whole process for longer than that, the thread that waits may be the first to run again, before
/// the other had a chance. So what passes between two looks counts only up to a part of the whole time.
pub(super) struct TimeLeft {
    left: Duration,
    longest: Duration,
}

impl TimeLeft {
    pub(super) fn new(whole: Duration) -> TimeLeft {
        TimeLeft { left: whole, longest: whole / 8 }
    }

    /// Takes off the time since the last look; whether any is left.
    pub(super) fn pass(&mut self, passed: Duration) -> bool {
        self.left = self.left.saturating_sub(passed.min(self.longest));
        !self.left.is_zero()
    }
}
