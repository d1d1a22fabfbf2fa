//! Shrinks a trace to the shortest one that still shows something.

/// Leaves out ever shorter runs of steps, as long as the rest still `shows` it.
pub(super) fn shrink<S: Clone>(steps: &[S], mut shows: impl FnMut(&[S]) -> bool) -> Vec<S> {
    let mut best = steps.to_vec();
    let mut run = best.len() / 2;
    while run > 0 {
        let before = best.len();
        let mut at = 0;
        while at < best.len() {
            let mut fewer = best.clone();
            fewer.drain(at..(at + run).min(best.len()));
            if !fewer.is_empty() && shows(&fewer) {
                best = fewer;
            } else {
                at += run;
            }
        }
        // One step at a time until none can be left out.
        if run > 1 || best.len() == before {
            run /= 2;
        }
    }
    best
}

#[test]
fn shrinking_keeps_what_is_needed() {
    let steps: Vec<u32> = (0..200).collect();
    let wanted = |steps: &[u32]| steps.contains(&7) && steps.contains(&150);
    assert_eq!(shrink(&steps, wanted), [7, 150]);
}
