//! How often awaited work is asked about: the pauses between looks, which adapt to how long work took lately.

use std::time::Duration;

/// It pauses for this part of the time it has waited so far.
const PART: u32 = 8;

/// A sleep takes about this much longer than it was meant to, so a shorter one is of no use.
const SHORTEST_PAUSE: Duration = Duration::from_micros(50);

/// The longest pause that stands on a guess: so much later work is noticed that ends long before what was done lately.
const LONGEST_GUESS: Duration = Duration::from_micros(400);

/// How many pieces of work are remembered.
const LATELY: usize = 4;

pub(super) struct Pace {
    /// How long it looks without a pause: long while work ends soon, and hardly at all while work takes long.
    eager: Duration,
    /// How long the last pieces of work took at least: when they were last seen not to be done.
    lately: [Duration; LATELY],
    oldest: usize,
}

impl Pace {
    const LEAST_EAGER: Duration = Duration::from_micros(10);
    const MOST_EAGER: Duration = Duration::from_micros(200);

    pub(super) fn new() -> Pace {
        Pace { eager: Self::MOST_EAGER, lately: [Duration::ZERO; LATELY], oldest: 0 }
    }

    /// How long it looks without a pause.
    pub(super) fn eager(&self) -> Duration {
        self.eager
    }

    /// Adapts to the times from the first look at some work to the last one that found it not done, and to the one that found
    /// it done. A pause may have been too long, so only the former is expected of later work.
    pub(super) fn learn(&mut self, before: Duration, waited: Duration) {
        let eager = if waited <= Self::MOST_EAGER { self.eager * 2 } else { self.eager / 2 };
        self.eager = eager.clamp(Self::LEAST_EAGER, Self::MOST_EAGER);
        self.lately[self.oldest] = before;
        self.oldest = (self.oldest + 1) % LATELY;
    }

    /// The pause before the next look at work that has been looked at for so long.
    pub(super) fn pause(&self, waited: Duration) -> Duration {
        if waited < self.eager {
            return Duration::ZERO;
        }
        (waited / PART).max(self.shortest_pause()).max(self.guess(waited))
    }

    /// Work that comes after work that took long is expected to take long as well, so it is asked about half as often at
    /// first.
    fn shortest_pause(&self) -> Duration {
        if self.eager == Self::LEAST_EAGER { 2 * SHORTEST_PAUSE } else { SHORTEST_PAUSE }
    }

    /// Most of what is left until it has taken as long as the shortest of the last pieces of work.
    fn guess(&self, waited: Duration) -> Duration {
        let shortest = self.lately.iter().min().copied().unwrap_or_default();
        (shortest.saturating_sub(waited) * 3 / 4).min(LONGEST_GUESS)
    }
}
