//! The source itself: what the compiler cannot hold.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The test binary may run without the source, for example on a machine that was given the binary alone.
fn has_source(test: &str) -> bool {
    let there = root().join("src").is_dir();
    if !there {
        crate::harness::skip(test, "the source is not here");
    }
    there
}

#[test]
fn the_page_of_instructions_lists_what_the_table_has() {
    if !has_source("the_page_of_instructions_lists_what_the_table_has") {
        return;
    }
    let read = |name: &str| fs::read_to_string(root().join("src").join(name)).unwrap();
    let (table, page) = (read("ptx/code/table.rs"), read("instructions.md"));
    let quoted = |text: &str, quote: char| -> BTreeSet<String> {
        let is_name = |part: &&str| part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        text.split(quote).skip(1).step_by(2).filter(is_name).map(str::to_owned).collect()
    };
    let between = |text: &str, from: &str, to: &str| {
        let begin = text.find(from).unwrap() + from.len();
        text[begin..begin + text[begin..].find(to).unwrap()].to_owned()
    };
    let mut executed = quoted(&between(&table, "\nopcodes! {", "\n}\n"), '"');
    executed.insert("call".to_owned());
    let others = quoted(&between(&table, "const OTHERS", "];"), '"');
    assert!(executed.len() > 100 && others.len() > 5);
    assert_eq!(quoted(&between(&page, "# Executed", "Of these"), '`'), executed);
    assert_eq!(quoted(&between(&page, "# Not executed", "A kernel"), '`'), others);
}
