//! How often awaited work is asked about, with a clock that only counts.

#[path = "../../../src/future/pace.rs"]
mod pace;

use pace::Pace;
use std::time::Duration;

const fn us(count: u64) -> Duration {
    Duration::from_micros(count)
}

/// Awaits work of this length: how often it pauses, and how late the end is noticed.
fn await_work(pace: &mut Pace, length: Duration) -> (u32, Duration) {
    let (mut before, mut waited, mut pauses) = (Duration::ZERO, Duration::ZERO, 0);
    while waited < length {
        before = waited;
        let pause = pace.pause(waited);
        // What a question takes, and how much too long a thread sleeps.
        waited += if pause.is_zero() { us(1) } else { pause + us(50) };
        pauses += u32::from(!pause.is_zero());
    }
    pace.learn(before, waited);
    (pauses, waited - length)
}

/// After this much work of such a length.
fn used_to(length: Duration) -> Pace {
    let mut pace = Pace::new();
    for _ in 0..10 {
        await_work(&mut pace, length);
    }
    pace
}

#[test]
fn work_that_takes_as_long_as_what_came_before_is_asked_about_seldom() {
    for length in [us(500), us(1000), us(1200)] {
        let (pauses, late) = await_work(&mut used_to(length), length);
        assert!(pauses <= 4, "{length:?}: {pauses} pauses");
        assert!(late <= us(150) + length / 8, "{length:?} is noticed {late:?} late");
    }
    let (pauses, _) = await_work(&mut Pace::new(), us(1000));
    assert!(pauses > 4, "nothing is expected yet: {pauses} pauses");
}

#[test]
fn work_that_ends_soon_is_asked_about_without_a_pause() {
    let mut pace = used_to(us(100));
    assert_eq!(await_work(&mut pace, us(100)), (0, Duration::ZERO));
    assert!(pace.eager() >= us(100));
}

#[test]
fn work_that_is_shorter_than_what_came_before_is_noticed_within_half_a_millisecond_and_the_next_one_sooner() {
    for before in [us(500), us(1000), us(10_000), us(1_000_000)] {
        let mut pace = used_to(before);
        let (_, late) = await_work(&mut pace, us(50));
        assert!(late <= us(450), "after {before:?} it is noticed {late:?} late");
        let (_, late) = await_work(&mut pace, us(50));
        assert!(late <= us(150), "the next one is noticed {late:?} late");
    }
}

#[test]
fn where_long_and_short_work_alternate_the_long_is_not_expected() {
    let mut pace = Pace::new();
    for _ in 0..10 {
        await_work(&mut pace, us(8000));
        let (_, late) = await_work(&mut pace, us(60));
        assert!(late <= us(150), "short work is noticed {late:?} late");
    }
}
