//! Texts of many functions, variables and kernels are loaded in time that grows as they do.

use crate::gpu::{Module, pushed, status};
use crate::harness::{is_simulated, run, skip};
use std::cell::Cell;
use std::fmt::Write;

#[path = "../../../src/circles.rs"]
mod circles;

const HEAD: &str = ".version 8.0 .target sm_70 .address_size 64\n";

/// Text that says something of each number.
fn each(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |mut text, at| {
        writeln!(text, "{}", line(at)).unwrap();
        text
    })
}

/// What a text is of, and the text of a size.
type Kind = (&'static str, fn(usize) -> String);

const KINDS: [Kind; 8] = [
    ("functions in a chain", |count| {
        let link = |at| if at == 0 { String::new() } else { format!("call f{};", at - 1) };
        let chain = each(count, |at| format!(".func f{at}() {{ {} ret; }}", link(at)));
        format!("{chain}.visible .entry k() {{ call f{}; ret; }}", count - 1)
    }),
    ("functions that call each other in a circle", |count| {
        let declared = each(count, |at| format!(".func f{at}();"));
        let circle = each(count, |at| format!(".func f{at}() {{ call f{}; ret; }}", (at + 1) % count));
        format!("{declared}{circle}.visible .entry k() {{ call f0; ret; }}")
    }),
    ("functions that no kernel calls", |count| {
        let chain = each(count, |at| format!(".func f{at}() {{ ret; }}"));
        format!("{chain}.visible .entry k() {{ ret; }}")
    }),
    ("calls by address", |count| {
        let functions = each(count, |at| format!(".func f{at}() {{ ret; }}"));
        let calls = each(count, |_| "call %a, (), p;".to_owned());
        let first = ".reg .b64 %a; mov.b64 %a, f0; p: .callprototype _ ();";
        format!("{functions}.visible .entry k() {{ {first} {calls} ret; }}")
    }),
    ("variables", |count| each(count, |at| format!(".global .u32 v{at} = {at};"))),
    ("variables with the addresses of others", |count| {
        let plain = each(count, |at| format!(".global .u32 v{at};"));
        format!("{plain}{}", each(count, |at| format!(".global .u64 a{at} = v{at};")))
    }),
    ("variables that a kernel uses", |count| {
        let plain = each(count, |at| format!(".global .u32 v{at};"));
        let uses = each(count, |at| format!("ld.global.u32 %r, [v{at}];"));
        format!("{plain}.visible .entry k() {{ .reg .b32 %r; {uses} ret; }}")
    }),
    ("kernels", |count| each(count, |at| format!(".visible .entry k{at}() {{ ret; }}"))),
];

/// How many nanoseconds this thread has been on a processor; other work beside it is not counted. `None` where the system
/// does not tell.
fn on_processor() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().filter(|time| *time > 0)
}

/// The least work of three loads.
fn work(text: &str) -> Option<u64> {
    let once = || {
        let before = on_processor();
        Module::load(text.as_bytes()).unwrap();
        Some(on_processor()? - before?)
    };
    (0..3).map(|_| once()).min()?
}

#[test]
fn loading_takes_four_times_the_work_for_a_text_of_four_times_the_size() {
    if !is_simulated() {
        let test = "loading_takes_four_times_the_work_for_a_text_of_four_times_the_size";
        return skip(test, "a GPU's compiler is not what is tested");
    }
    run(|| {
        let _ctx = pushed();
        for (kind, text) in KINDS {
            let [few, many] = [4000, 16_000].map(|count| work(&format!("{HEAD}{}", text(count))));
            let Some((few, many)) = few.zip(many) else { continue };
            // What grows with the square takes sixteen times as much. Some systems count in steps of ten milliseconds.
            assert!(many < 9 * few + 30_000_000, "16,000 {kind}: {many} ns, and {few} ns for 4,000");
        }
    });
}

#[test]
fn names_that_are_there_twice_are_found_in_long_texts() {
    run(|| {
        let _ctx = pushed();
        let load = |text: String| Module::load(format!("{HEAD}{text}").as_bytes()).map(drop);
        for (kind, text) in KINDS {
            assert_eq!(load(text(100)), Ok(()), "{kind}");
        }
        let variables = each(100, |at| format!(".global .u32 v{at};"));
        let kernels = each(100, |at| format!(".visible .entry k{at}() {{ ret; }}"));
        for twice in [
            format!("{variables}.global .u32 v42;"),
            format!("{kernels}.visible .entry k42() {{ ret; }}"),
            format!("{kernels}.func k42() {{ ret; }}"),
        ] {
            assert_eq!(load(twice), Err(status::INVALID_PTX));
        }
        let constants = each(16, |at| format!(".const .b8 c{at}[4096];"));
        assert_eq!(load(constants.clone()), Ok(()));
        assert_eq!(load(format!("{constants}.const .b8 more;")), Err(status::INVALID_PTX));
    });
}

/// The nodes on circles, and how often an edge was looked at.
fn on_circles(edges: &[Vec<usize>]) -> (Vec<usize>, usize) {
    let looks = Cell::new(0);
    let next = |node: usize, at: usize| {
        looks.set(looks.get() + 1);
        edges[node].get(at).copied()
    };
    let found = circles::on_circles(edges.len(), next);
    ((0..found.len()).filter(|at| found[*at]).collect(), looks.get())
}

#[test]
fn functions_on_a_circle_of_calls_are_recursive_and_those_between_two_circles_are_not() {
    let found = |edges: &[&[usize]]| on_circles(&edges.iter().map(|it| it.to_vec()).collect::<Vec<_>>()).0;
    assert_eq!(found(&[]), []);
    assert_eq!(found(&[&[0]]), [0], "one that calls itself");
    assert_eq!(found(&[&[1], &[2], &[]]), []);
    assert_eq!(found(&[&[1], &[2], &[0]]), [0, 1, 2]);
    // 0 and 1, then 2 between, then 3 and 4; 5 calls into the first circle, and 6 is called from the last.
    assert_eq!(found(&[&[1], &[0, 2], &[3], &[4], &[3, 6], &[0], &[]]), [0, 1, 3, 4]);
    assert_eq!(found(&[&[1, 2], &[3], &[3], &[]]), [], "two ways to one");
    assert_eq!(found(&[&[3], &[0], &[1], &[2], &[4, 0]]), [0, 1, 2, 3, 4]);
    assert_eq!(found(&[&[], &[0, 2], &[1, 1]]), [1, 2], "called twice");
}

#[test]
fn each_call_is_looked_at_once_to_find_the_circles() {
    for count in [1000, 4000] {
        let chain: Vec<_> =
            (0..count).map(|at| if at + 1 < count { vec![at + 1] } else { Vec::new() }).collect();
        assert_eq!(on_circles(&chain), (Vec::new(), 2 * count - 1), "as often as there are nodes and edges");
        let circle: Vec<_> = (0..count).map(|at| vec![(at + 1) % count]).collect();
        assert_eq!(on_circles(&circle), ((0..count).collect(), 2 * count));
    }
}
