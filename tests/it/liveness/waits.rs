//! How long a thread waits for another that makes a call.

#[path = "../../../src/liveness/time_left.rs"]
mod time_left;

use std::time::Duration;
use time_left::TimeLeft;

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// How often it looks after the first time.
fn looks(whole: Duration, between: impl Fn(u32) -> Duration) -> u32 {
    let mut left = TimeLeft::new(whole);
    (0..).take_while(|look| left.pass(between(*look))).count() as u32
}

#[test]
fn a_thread_that_runs_waits_for_the_whole_time() {
    assert_eq!(looks(ms(100), |_| ms(1)), 99);
    assert_eq!(looks(ms(100), |_| ms(5)), 19);
}

#[test]
fn a_thread_whose_process_was_stopped_for_longer_than_it_waits_looks_again() {
    assert_eq!(looks(ms(100), |look| if look == 3 { ms(5000) } else { ms(1) }), 88);
    assert_eq!(looks(ms(20), |_| ms(100)), 7);
}
