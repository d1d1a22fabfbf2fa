//! The page that lists the driver's chapters of contexts function by function.

use custack::driver::{FUNCTIONS, SINCE};

/// Each function, since when there is one, and what is said to call it.
fn rows() -> Vec<(&'static str, &'static str, &'static str)> {
    let rows = include_str!("../../../src/context/functions.md").lines();
    let rows = rows.filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |")?.split_once("` | "));
    rows.map(|(function, rest)| {
        let (since, here) = rest.split_once(" | ").unwrap();
        (function, since, here)
    })
    .collect()
}

/// Whether a driver function is of the page's chapters.
fn is_of_chapter(name: &str) -> bool {
    ["cuCtx", "cuDevicePrimaryCtx", "cuGreenCtx", "cuDevSm", "cuDevRes"].iter().any(|it| name.starts_with(it))
}

/// A function's name, and its version.
fn unversioned(name: &str) -> (&str, u32) {
    let parts = name.rsplit_once("_v").and_then(|(name, version)| Some((name, version.parse().ok()?)));
    parts.unwrap_or((name, 1))
}

#[test]
fn the_page_says_of_every_function_what_calls_it() {
    let rows = rows();
    let listed = FUNCTIONS.iter().zip(SINCE).filter(|(name, _)| is_of_chapter(name));
    let listed: Vec<(&str, String)> =
        listed.map(|(name, since)| (*name, format!("{}.{}", since / 1000, since % 1000 / 10))).collect();
    let told: Vec<(&str, String)> =
        rows.iter().map(|(name, since, _)| (*name, (*since).to_owned())).collect();
    assert_eq!(told, listed);
}

/// The methods of a cell such as "[`Context::drop`], [`green`](GreenContext::drop)".
fn methods(here: &str) -> Vec<&str> {
    let names = here.split('`').filter_map(|text| Some(text.split_once("::")?.1));
    names.filter(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')).collect()
}

/// Whether a function of this name has a documentation with this text.
fn is_documented(source: &str, method: &str, text: &str) -> bool {
    let parts: Vec<&str> = source.split(&format!("fn {method}")).collect();
    let before = &parts[..parts.len() - 1];
    before.iter().any(|before| {
        let begin =
            ["    }\n", "{\n\n", "\n}\n"].iter().filter_map(|end| before.rfind(end)).max().unwrap_or(0);
        before[begin..].contains(text)
    })
}

#[test]
fn what_the_page_says_calls_a_function_names_it_in_its_documentation() {
    if !crate::tidy::has_source("what_the_page_says_calls_a_function_names_it_in_its_documentation") {
        return;
    }
    let sources = crate::tidy::files("src", ".rs");
    let mut checked = 0;
    for (name, _, here) in rows().into_iter().filter(|(.., here)| !here.starts_with("not called")) {
        // An alias has no version, or the version that is called.
        let text = format!("\"{}", unversioned(name).0);
        for method in methods(here) {
            let names_it = sources.iter().any(|(_, source)| is_documented(source, method, &text));
            assert!(names_it, "{method} is said to call {name}, and does not name it");
            checked += 1;
        }
    }
    assert!(checked > 50, "{checked}");
}
