//! A split: lanes of a warp that are at the same instruction. A divergent branch makes two splits of one, and they
//! join again where they meet.

use super::call::Frame;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Ready,
    /// At the barrier with this number.
    Waits(u8),
    /// At an instruction for which other lanes have not arrived.
    AwaitsLanes,
}

#[derive(Default, Clone)]
pub(super) struct Split {
    pub(super) mask: u32,
    /// The next instruction.
    pub(super) at: u32,
    /// The calls that have not returned, the innermost last.
    pub(super) frames: Vec<Frame>,
    /// Where the frame of the present function begins in local memory.
    pub(super) frame: usize,
    pub(super) state: State,
    /// How many turns it has used up since it joined other lanes.
    pub(super) turns: u32,
    /// The number of instructions in its present turn.
    spent: u32,
}

/// The number of instructions in the turn of a split, before other splits that are ready go on.
const TURN: u32 = 1 << 20;

impl Split {
    /// Separates these lanes, which go on at another instruction.
    pub(super) fn part(&mut self, mask: u32, at: u32) -> Split {
        self.mask &= !mask;
        Split { mask, at, ..self.clone() }
    }

    /// Whether both are at the same instruction, in the same calls.
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

    /// Counts executed instructions. A split and the one that it came from both keep the count, so that lanes which
    /// diverge and join in each round of a loop use up their turn all the same.
    pub(super) fn spend(&mut self, instructions: u32) {
        self.spent = self.spent.saturating_add(instructions);
    }

    /// Whether these instructions more use up its turn.
    pub(super) fn is_spent(&self, more: u32) -> bool {
        self.spent.saturating_add(more) >= TURN
    }

    /// Ends its turn if it is used up. It is called at backward branches only: lanes cannot wait for others without a
    /// loop, and outside of one the split goes on to where others may expect it.
    pub(super) fn end_spent_turn(&mut self) {
        if self.is_spent(0) {
            self.spent = 0;
            self.turns += 1;
        }
    }

    /// The split with the least of these goes on: the one with the fewest turns, then in the most calls, then at the
    /// earliest instruction.
    pub(super) fn order(&self) -> (u32, usize, u32) {
        (self.turns, usize::MAX - self.frames.len(), self.at)
    }
}

/// Chooses the split that goes on, among those that are ready, and merges it with all that are at the same
/// instruction.
pub(super) fn choose(splits: &mut Vec<Split>) -> Option<usize> {
    // In most cases all lanes are together.
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

/// The next instruction at which the split must stop: another one is there, which it may join, or which has to go on
/// first.
pub(super) fn next_other(splits: &[Split], which: usize, at: u32) -> u32 {
    let this = &splits[which];
    let ahead = splits.iter().enumerate().filter(|(other, it)| {
        *other != which
            && it.state != State::AwaitsLanes
            && it.frames.len() == this.frames.len()
            && it.at > at
    });
    ahead.map(|(_, it)| it.at).min().unwrap_or(u32::MAX)
}
