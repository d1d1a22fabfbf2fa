//! custack's targets, each compared with figures of the same run.

use crate::measure::Row;
use crate::table::find;
use crate::tasks::*;

pub fn print(rows: &[Row]) {
    println!("\nTargets:");
    let ns = |task, library, threads| find(rows, task, library, threads).map(|row| row.median);
    let ours = |task, threads| ns(task, "custack", threads);
    for threads in [1, 2, 4, 8, 16] {
        let most = if threads == 16 { 20.0 } else { 15.0 };
        at_most(&format!("{CURRENT}, {threads} threads, ns"), ours(CURRENT, threads), most);
    }
    let get = ns(GET, "raw", 1).unwrap_or(f64::NAN);
    at_most(
        &format!("a on 1 thread, ns, where raw cuCtxGetCurrent takes 6 (here {get:.1})"),
        ours(CURRENT, 1),
        10.0,
    );
    at_least("a on 16 threads, times faster than raw", over(ns(CURRENT, "raw", 16), ours(CURRENT, 16)), 75.0);
    at_least(
        "a on 16 threads, times faster than cudarc",
        over(ns(CURRENT, "cudarc", 16), ours(CURRENT, 16)),
        20.0,
    );
    for (threads, most) in [(1, 1.4), (16, 1.25)] {
        at_most(
            &format!("b on {threads} threads, times raw"),
            over(ours(EMPTY, threads), ns(EMPTY, "raw", threads)),
            most,
        );
        let cheapest = match (ns(SWITCH, "raw", threads), ns(SWITCH, "raw set and set back", threads)) {
            (Some(push), Some(set)) => Some(push.min(set)),
            _ => None,
        };
        let push = over(ours(SWITCH, threads), ns(SWITCH, "raw", threads));
        at_most(&format!("c on {threads} threads, times raw push and pop"), push, most);
        at_most(
            &format!("c on {threads} threads, times the cheapest raw way"),
            over(ours(SWITCH, threads), cheapest),
            most,
        );
    }
    for threads in [1, 2, 4, 8, 16] {
        for task in [PUSH_POP, SET, GET] {
            let ratio = over(ours(task, threads), ns(task, "rustacuda", threads));
            at_most(&format!("{task} on {threads} threads, times RustaCUDA"), ratio, 1.2);
        }
    }
    for threads in [1, 2, 4, 8, 16] {
        let more = ours(QUERY, threads).zip(ns(QUERY, "raw", threads)).map(|(ours, raw)| ours - raw);
        at_most(&format!("e on {threads} threads, ns more than the raw call"), more, 20.0);
    }
    for threads in [1, 2, 4, 8, 16] {
        let ratio = over(ours(LAUNCH, threads), ns(LAUNCH, "rustacuda", threads));
        at_most(&format!("i: a launch on {threads} threads, times RustaCUDA"), ratio, 1.1);
    }
    for task in [RECORD, PASSED, IDLE, STREAM, FUNCTION, LAUNCH_NAMED, COPY, BUFFER] {
        let theirs = |threads| ns(task, "rustacuda", threads);
        let more = ours(task, 1).zip(theirs(1)).map(|(ours, theirs)| ours - theirs);
        at_most(&format!("{task} on 1 thread, ns more than RustaCUDA"), more, 15.0);
        at_most(&format!("{task} on 16 threads, times RustaCUDA"), over(ours(task, 16), theirs(16)), 1.1);
    }
    for threads in [1, 2, 4, 8, 16] {
        at_most(&format!("{FOREIGN}, {threads} threads, ns"), ours(FOREIGN, threads), 15.0);
    }
    for threads in [1, 2, 4, 8, 16] {
        let ratio = |task, library, other| {
            Some(find(rows, task, library, threads)?.times_as_long_as(find(rows, task, other, threads)?))
        };
        for (task, _) in GRAPHS {
            at_most(&format!("{task} on {threads} threads, times raw"), ratio(task, "custack", "raw"), 1.05);
        }
        at_most(&format!("{ORDERED} on {threads} threads, times raw"), ratio(ORDERED, "custack", "raw"), 1.1);
        for (library, other) in [("custack", "cuda-async, no spin"), ("custack, spinning", "cuda-async")] {
            at_most(
                &format!("{AWAITED}, {library}, on {threads} threads, times {other}"),
                ratio(AWAITED, library, other),
                1.0,
            );
        }
    }
    let deep = over(ours(NESTED[3].0, 1), ours(NESTED[1].0, 1));
    at_most("g: a scope at depth 1000, times one at depth 10", deep, 1.5);
}

fn over(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    Some(a? / b?)
}

fn at_most(what: &str, value: Option<f64>, most: f64) {
    line(what, value, most, "at most", |value| value <= most);
}

fn at_least(what: &str, value: Option<f64>, least: f64) {
    line(what, value, least, "at least", |value| value >= least);
}

fn line(what: &str, value: Option<f64>, bound: f64, word: &str, met: impl Fn(f64) -> bool) {
    match value {
        Some(value) => {
            let verdict = if met(value) { "met" } else { "MISSED" };
            println!("  {verdict:<6} {what}: {value:.3} ({word} {bound})");
        }
        None => println!("  -      {what}: not measured"),
    }
}
