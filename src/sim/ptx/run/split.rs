//! Lanes of a warp that are at one place of the code.

use super::call::Frame;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Ready,
    /// At the barrier of this number.
    Waits(u8),
    /// At an instruction for which lanes are missing.
    Joins,
}

#[derive(Default, Clone)]
pub(super) struct Split {
    pub(super) mask: u32,
    /// The instruction that comes next.
    pub(super) at: u32,
    /// The calls that it is in, the innermost last.
    pub(super) frames: Vec<Frame>,
    /// Where the present function's part of local memory begins.
    pub(super) frame: usize,
    pub(super) state: State,
    /// How often its turn has ended before it joined others.
    pub(super) turns: u32,
    /// What it has executed in its present turn.
    spent: u32,
}

/// A split executes so many instructions before others that are ready have their turn.
const TURN: u32 = 1 << 20;

impl Split {
    /// Takes these lanes out, which go on elsewhere.
    pub(super) fn part(&mut self, mask: u32, at: u32) -> Split {
        self.mask &= !mask;
        Split { mask, at, ..self.clone() }
    }

    /// Whether the other one is at the same place, in the same calls.
    pub(super) fn is_with(&self, other: &Split) -> bool {
        let calls = |it: &Split| it.frames.iter().map(Frame::place).collect::<Vec<_>>();
        self.at == other.at
            && self.frame == other.frame
            && self.frames.len() == other.frames.len()
            && (self.frames.is_empty() || calls(self) == calls(other))
    }

    pub(super) fn join(&mut self, other: &Split) {
        for (own, its) in self.frames.iter_mut().zip(&other.frames) {
            own.join(its, other.mask);
        }
        self.mask |= other.mask;
        self.turns = self.turns.min(other.turns);
        self.spent = self.spent.max(other.spent);
    }

    /// Counts what it has executed, in whatever pieces: those that part and meet again in each round of a loop let others
    /// have their turn as well.
    pub(super) fn spend(&mut self, instructions: u32) {
        self.spent = self.spent.saturating_add(instructions);
    }

    /// Whether its turn ends with so many instructions more.
    pub(super) fn is_spent(&self, more: u32) -> bool {
        self.spent.saturating_add(more) >= TURN
    }

    /// Ends its turn, if it has lasted long enough. Nobody waits without going around in a loop: elsewhere it goes on, to
    /// where others may expect it.
    pub(super) fn goes_around(&mut self) {
        if self.is_spent(0) {
            self.spent = 0;
            self.turns += 1;
        }
    }

    /// The least of these goes on: who has had the fewest turns, is in the most calls, and is furthest behind.
    pub(super) fn order(&self) -> (u32, usize, u32) {
        (self.turns, usize::MAX - self.frames.len(), self.at)
    }
}

/// The one of those that are ready that goes on, with all that are where it is.
pub(super) fn choose(splits: &mut Vec<Split>) -> Option<usize> {
    // Mostly all are together.
    if let [only] = splits.as_slice() {
        return (only.state == State::Ready).then_some(0);
    }
    let order = |which: &usize| splits[*which].order();
    let ready = (0..splits.len()).filter(|which| splits[*which].state == State::Ready);
    let mut chosen = ready.min_by_key(order)?;
    let mut other = 0;
    while other < splits.len() {
        let joins = other != chosen && splits[other].state == State::Ready;
        if joins && splits[other].is_with(&splits[chosen]) {
            let joined = splits.remove(other);
            chosen -= usize::from(other < chosen);
            splits[chosen].join(&joined);
        } else {
            other += 1;
        }
    }
    Some(chosen)
}

/// The next place after this one at which another split is that this one may join or has to let go first.
pub(super) fn next_other(splits: &[Split], which: usize, at: u32) -> u32 {
    let this = &splits[which];
    let ahead = splits.iter().enumerate().filter(|(other, it)| {
        *other != which && it.state != State::Joins && it.frames.len() == this.frames.len() && it.at > at
    });
    ahead.map(|(_, it)| it.at).min().unwrap_or(u32::MAX)
}
