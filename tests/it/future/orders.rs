//! Every order in which work is polled, cancelled, completed, and its context fails, with and without questions that fail.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{Counting, held, poll, stream};
use crate::harness::{is_simulated, owned_by, pushed, run_alone, skip, within};
use custack::driver::instrument::{self, When};
use custack::error::{CudaError, CudaResult};
use custack::future::Completion;
use custack::launch;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::task::Poll;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    /// The future is polled with a waker.
    Poll,
    /// It is polled, asks by itself, and the driver fails to tell.
    PollInVain,
    /// It is asked whether it is ready.
    Ask,
    /// It is dropped.
    Cancel,
    /// It is forgotten, which keeps the outcome for ever.
    Forget,
    /// The work may end.
    Complete,
    /// A kernel of another stream brings the context into error.
    Fail,
}
use Step::*;

/// What happens to the future, and what to the work: one of each is taken, or none.
const OF_FUTURE: [&[Step]; 9] = [
    &[],
    &[Poll],
    &[PollInVain],
    &[Ask],
    &[Cancel],
    &[Poll, Cancel],
    &[PollInVain, Cancel],
    &[Ask, Cancel],
    &[Poll, Forget],
];
const OF_WORK: [&[Step]; 3] = [&[Complete], &[Complete, Fail], &[Fail, Complete]];

/// All orders of both that keep the order of each.
fn merged(one: &[Step], other: &[Step]) -> Vec<Vec<Step>> {
    let ([a, after_a @ ..], [b, after_b @ ..]) = (one, other) else {
        return vec![[one, other].concat()];
    };
    let before = |step: &Step, rest: Vec<Vec<Step>>| {
        rest.into_iter().map(|rest| [&[*step], &rest[..]].concat()).collect::<Vec<_>>()
    };
    [before(a, merged(after_a, other)), before(b, merged(one, after_b))].concat()
}

/// One piece of work, and what was seen of it.
struct Played {
    completion: Option<Completion<Arc<()>>>,
    go: Option<Sender<()>>,
    kept: Arc<()>,
    woken: Arc<Counting>,
    outcome: Option<CudaResult<()>>,
    is_forgotten: bool,
    in_vain: bool,
}

impl Played {
    fn poll(&mut self, waker: &std::task::Waker) {
        let completion = self.completion.as_mut().unwrap();
        if let Poll::Ready(result) = poll(completion, waker) {
            self.outcome = Some(result.map(drop));
        }
    }
}

/// Whether the work is over after these.
fn is_over(done: &[Step]) -> bool {
    done.contains(&Complete) || done.contains(&Fail)
}

fn play(order: &[Step]) {
    let ctx = pushed();
    let (working, failing) = (stream(), stream());
    let module = ctx.load_module(crate::module::KERNELS.as_bytes()).unwrap();
    let trapped = module.get_function(c"trapped").unwrap();
    trapped.load().unwrap();
    let (woken, waker) = Counting::waker();
    let (kept, go) = (Arc::new(()), held(&working));
    let value = Arc::clone(&kept);
    let completion = working.enqueue_async(|_| Ok(value)).unwrap();
    let mut played = Played {
        completion: Some(completion),
        go: Some(go),
        kept,
        woken,
        outcome: None,
        is_forgotten: false,
        in_vain: false,
    };
    for (at, step) in order.iter().enumerate() {
        if !is_over(&order[..at]) {
            assert_eq!(Arc::strong_count(&played.kept), 2, "{order:?} before {step:?}: the work is not over");
        }
        match step {
            Poll => played.poll(&waker),
            PollInVain => {
                let completion = played.completion.take().unwrap();
                played.completion = Some(completion.spinning_for(Duration::from_secs(5)));
                instrument::fail(Some("cuEventQuery"), 1, 999, When::Before);
                played.poll(&waker);
                assert!(!instrument::disarm(), "{order:?}: it did not ask");
                assert_eq!(played.outcome, Some(Err(CudaError::UnknownError)), "{order:?}");
                played.in_vain = true;
            }
            Ask => drop(played.completion.as_ref().unwrap().is_done()),
            Cancel => drop(played.completion.take()),
            Forget => {
                std::mem::forget(played.completion.take());
                played.is_forgotten = true;
            }
            Complete => drop(played.go.take()),
            Fail => {
                unsafe { launch!(trapped<<<1, 1, 0, failing>>>()) }.unwrap();
                assert_eq!(failing.synchronize(), Err(CudaError::LaunchFailed));
            }
        }
    }
    check(order, played);
    drop((waker, module, working, failing, ctx));
}

/// What must hold when all steps were made, which is after the end of the work.
fn check(order: &[Step], mut played: Played) {
    let polled = order.contains(&Poll) && played.outcome.is_none();
    if let Some(completion) = played.completion.take().filter(|_| played.outcome.is_none()) {
        if polled {
            played.woken.reaches(1);
            assert!(completion.is_done(), "{order:?}");
        }
        played.outcome = Some(completion.wait().map(drop));
        owned_by(&played.kept, 1);
    } else if played.is_forgotten && polled {
        played.woken.reaches(1);
    } else {
        owned_by(&played.kept, 1);
    }
    let at = |step| order.iter().position(|one| *one == step);
    match (played.outcome, played.in_vain) {
        (Some(outcome), false) => match (at(Fail), at(Complete)) {
            (None, _) => assert_eq!(outcome, Ok(()), "{order:?}"),
            // It was over, and may have been looked at, before the context failed.
            (Some(fail), Some(complete)) if complete < fail => {
                assert!(matches!(outcome, Ok(()) | Err(CudaError::LaunchFailed)), "{order:?}: {outcome:?}");
            }
            _ => assert_eq!(outcome, Err(CudaError::LaunchFailed), "{order:?}"),
        },
        (outcome, _) => assert!(outcome.is_none() || played.in_vain, "{order:?}"),
    }
    let cancelled_before = at(Cancel).is_some_and(|at| !is_over(&order[..at]));
    assert!(played.woken.count() <= usize::from(polled && !cancelled_before), "{order:?}");
}

#[test]
fn in_every_order_of_cancelling_completing_and_failing_the_outcome_is_right_and_nothing_is_lost() {
    let test = "in_every_order_of_cancelling_completing_and_failing_the_outcome_is_right_and_nothing_is_lost";
    let mut orders: Vec<_> =
        OF_FUTURE.iter().flat_map(|one| OF_WORK.iter().flat_map(|other| merged(one, other))).collect();
    if !is_simulated() {
        skip(
            test,
            "orders in which the context fails take the process along on a GPU; the others are played",
        );
        orders.retain(|order| !order.contains(&Fail));
    }
    assert!(orders.len() > 20, "{}", orders.len());
    within(300, move || run_alone(move || orders.iter().for_each(|order| play(order))));
}
