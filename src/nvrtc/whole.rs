//! Whether what a program compiles to depends on nothing but the program.

/// Options that read or write files; without the dashes, of which there may be one or two.
const READS: &[&str] = &[
    "I",
    "include",
    "pre-include",
    "use-pch",
    "pch",
    "create-pch",
    "fdevice-time-trace",
    "device-time-trace",
    "minimal",
];

/// What may hide an include (a line that goes on, other spellings of `#`), and what is another text each time.
const HIDES: &[&str] = &["\\\n", "\\\r", "??", "%:", "__TIME", "__DATE", "has_include"];

/// What is not certain is not whole.
pub(super) fn is_whole(source: &str, headers: &[(String, String)], options: &[String]) -> bool {
    let reads = |option: &String| {
        let name = option.trim_start().trim_start_matches('-');
        READS.iter().any(|reads| name.starts_with(reads))
    };
    let is_closed = |text: &str| {
        let given = text.lines().filter(|line| includes_one(line, headers)).count();
        text.matches("include").count() == given && !HIDES.iter().any(|hides| text.contains(hides))
    };
    !options.iter().any(reads) && is_closed(source) && headers.iter().all(|(_, text)| is_closed(text))
}

/// Whether a line does nothing but include one of these headers.
fn includes_one(line: &str, headers: &[(String, String)]) -> bool {
    let named = || {
        let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?.trim();
        let quoted = rest.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        quoted.or_else(|| rest.strip_prefix('<')?.strip_suffix('>'))
    };
    named().is_some_and(|name| !name.contains("include") && headers.iter().any(|(given, _)| given == name))
}
