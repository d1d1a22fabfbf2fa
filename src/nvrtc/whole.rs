//! Whether what a program compiles to depends on nothing but the program.

/// Options that neither read nor write files; without the dashes, of which there may be one or two, and the value.
const CLOSED: &[&str] = &[
    "D",
    "G",
    "Ofast-compile",
    "U",
    "Werror",
    "arch",
    "builtin-initializer-list",
    "builtin-move-forward",
    "default-device",
    "define-macro",
    "device-as-default-execution-space",
    "device-debug",
    "device-int128",
    "diag-error",
    "diag-suppress",
    "diag-warn",
    "disable-warnings",
    "display-error-number",
    "dlink-time-opt",
    "dlto",
    "ewp",
    "extensible-whole-program",
    "extra-device-vectorization",
    "fmad",
    "ftz",
    "generate-line-info",
    "gpu-architecture",
    "lineinfo",
    "maxrregcount",
    "modify-stack-limit",
    "no-display-error-number",
    "optix-ir",
    "prec-div",
    "prec-sqrt",
    "rdc",
    "relocatable-device-code",
    "restrict",
    "std",
    "undefine-macro",
    "use_fast_math",
    "w",
];

/// What is another text each time, what may read a file, and what may hide either of them: other spellings of `#`, and
/// names that are pasted together.
const OPEN: &[&str] = &["__TIME", "__DATE", "has_include", "import", "embed", "??", "%:", "##"];

/// What is not certain is not whole.
#[inline]
pub(super) fn is_whole(
    source: &str,
    headers: &[(String, String)],
    options: &[String],
    expressions: &[String],
) -> bool {
    let texts = || headers.iter().map(|(_, text)| text).chain(expressions);
    [source].into_iter().chain(texts().map(|text| &**text)).all(|text| is_closed(text, headers))
        && options.iter().all(|option| is_closed(option, &[]) && is_closed_option(option))
}

#[inline]
fn is_closed_option(option: &str) -> bool {
    let Some(name) = option.strip_prefix("--").or_else(|| option.strip_prefix('-')) else { return false };
    let is = |name: &str| CLOSED.contains(&name.split('=').next().unwrap_or_default());
    // The value of a macro may follow without a sign between them.
    is(name) || name.starts_with(['D', 'U'])
}

/// A line that goes on may hide what the next one begins with.
#[inline]
fn is_closed(text: &str, headers: &[(String, String)]) -> bool {
    let given = text.lines().filter(|line| includes_one(line, headers)).count();
    let goes_on = text.split(['\n', '\r']).any(|line| line.trim_end().ends_with('\\'));
    text.matches("include").count() == given && !goes_on && !OPEN.iter().any(|open| text.contains(open))
}

/// Whether a line does nothing but include one of these headers.
#[inline]
fn includes_one(line: &str, headers: &[(String, String)]) -> bool {
    let named = || {
        let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?.trim();
        let quoted = rest.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        quoted.or_else(|| rest.strip_prefix('<')?.strip_suffix('>'))
    };
    named().is_some_and(|name| !name.contains("include") && headers.iter().any(|(given, _)| given == name))
}
