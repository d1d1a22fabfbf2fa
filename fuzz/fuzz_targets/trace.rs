//! Traces as the tests record them: what is read is written as it is read again.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../custack-sim/tests/alone/trace/language.rs"]
#[allow(dead_code, clippy::redundant_pub_crate, reason = "the tests use all of it")]
mod language;

fuzz_target!(|text: &[u8]| {
    let Some(trace) = str::from_utf8(text).ok().and_then(language::Trace::parse) else { return };
    let written = trace.to_string();
    let again = language::Trace::parse(&written).expect("what is written is read");
    assert_eq!(again.to_string(), written);
});
