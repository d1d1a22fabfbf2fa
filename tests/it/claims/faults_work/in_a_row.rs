//! Several calls fail, one after the other, whatever they are.

use super::{Operation, code, futures, memory, streams};
use crate::harness::{pushed, run_alone, within};
use custack::driver::instrument::{self, When};
use custack::error::CudaError;

const ALL: [&[(&str, Operation)]; 4] =
    [streams::OPERATIONS, memory::OPERATIONS, code::OPERATIONS, futures::OPERATIONS];

#[test]
fn several_failures_in_a_row_end_an_operation_and_the_next_attempt_succeeds() {
    within(300, || {
        run_alone(|| {
            let _ctx = pushed();
            for (name, operation) in ALL.into_iter().flatten() {
                let (clean, calls) = instrument::during(operation);
                assert_eq!(clean, Ok(()), "{name}");
                for nth in 1..=calls.total() {
                    let (times, code) = if nth % 2 == 0 { (2, 999) } else { (5, 719) };
                    instrument::fail_times(None, nth, times, code, When::Before);
                    let result = operation();
                    instrument::disarm();
                    let what = format!("{name}, {times} times {code} from call {nth} on: {result:?}");
                    let error = CudaError::from_code(code).unwrap();
                    assert!(result == Ok(()) || result == Err(error), "{what}");
                    assert_eq!(operation(), Ok(()), "again after {what}");
                }
            }
        });
    });
}
