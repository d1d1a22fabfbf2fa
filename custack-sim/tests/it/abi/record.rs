//! Writes `cuda.txt` from one or more `cuda.h`, newest first:
//!
//! ```sh
//! CUSTACK_CUDA_H=/usr/local/cuda/include/cuda.h cargo test -p custack-sim --test it -- \
//!     --ignored --exact abi::record::record
//! ```
//!
//! Several headers are separated as in `PATH`. The C preprocessor expands the macros, this file parses the result, and
//! a C program prints the size and class of each type. A line that not all headers have names those that have it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

#[test]
#[ignore = "needs a cuda.h in CUSTACK_CUDA_H and a C compiler, and writes cuda.txt"]
fn record() {
    let paths = env::var_os("CUSTACK_CUDA_H").expect("CUSTACK_CUDA_H names one or more cuda.h");
    let headers: Vec<_> = env::split_paths(&paths).map(|path| read(&path)).collect();
    let versions: Vec<_> = headers.iter().map(|(version, _)| version.clone()).collect();
    let mut text = format!(
        "# What cuda.h declares, of CUDA {}. Written by abi/record.rs, which says how to write it again; not to be\n\
         # edited. An enum is the integer that C makes of it; a struct's field has its offset and its size. A line\n\
         # with an @ is of these versions only.\n",
        versions.join(" and ")
    );
    let mut lines: BTreeMap<&String, Vec<usize>> = BTreeMap::new();
    for (at, (_, header)) in headers.iter().enumerate() {
        header.iter().for_each(|line| lines.entry(line).or_default().push(at));
    }
    let mut lines: Vec<_> = lines.into_iter().collect();
    // By name; for one name the newest header comes first.
    let name = |line: &str| line.split(['(', ':']).next().unwrap().split(" size").next().unwrap().to_owned();
    lines.sort_by_key(|(line, of)| (name(line), of[0]));
    for (line, of) in lines {
        let of: Vec<_> = of.into_iter().map(|at| versions[at].as_str()).collect();
        let mark = if of.len() == versions.len() { String::new() } else { format!(" @{}", of.join(" @")) };
        writeln!(text, "{line}{mark}").unwrap();
    }
    fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/abi/cuda.txt"), text).unwrap();
}

/// The version of a header, and the lines that record it.
fn read(header: &Path) -> (String, BTreeSet<String>) {
    let folder = env::temp_dir().join(format!("custack-abi-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    // The older versions of functions are declared only if this macro is defined.
    let all = "-D__CUDA_API_VERSION_INTERNAL";
    let text = run(Command::new("cc").args(["-E", "-P", all]).arg(header));
    let tokens = tokens(&text);

    let functions = functions(&tokens);
    let callbacks = callbacks(&tokens);
    let structs = structs(&tokens);
    let mut bases: BTreeSet<String> = BTreeSet::new();
    for (_, arguments) in functions.iter().chain(&callbacks) {
        bases.extend(arguments.iter().map(|argument| argument.base.clone()).filter(|base| base != "void"));
    }

    let mut c = format!("#define {}\n#include {header:?}\n{PROGRAM}", &all[2..]);
    c.push_str("int main(void) {\n");
    c.push_str("printf(\"version %d\\n\", CUDA_VERSION);\n");
    for base in &bases {
        writeln!(c, "CLASS(\"{base}\", {base});").unwrap();
    }
    for (name, fields) in &structs {
        writeln!(c, "WHOLE(\"{name}\", {name});").unwrap();
        for field in fields {
            writeln!(c, "FIELD(\"{field}\", {name}, {field});").unwrap();
        }
        c.push_str("puts(\"\");\n");
    }
    c.push_str("return 0; }\n");
    let (source, program): (PathBuf, PathBuf) = (folder.join("abi.c"), folder.join("abi"));
    fs::write(&source, c).unwrap();
    run(Command::new("cc").arg("-w").arg(&source).arg("-o").arg(&program));
    let answers = run(&mut Command::new(&program));
    fs::remove_dir_all(&folder).unwrap();

    let mut classes: BTreeMap<&str, &str> = BTreeMap::from([("void", "void")]);
    let (mut version, mut lines) = (String::new(), BTreeSet::new());
    for line in answers.lines() {
        let (kind, rest) = line.split_once(' ').unwrap();
        match kind {
            "version" => {
                let number: u32 = rest.parse().unwrap();
                version = format!("{}.{}", number / 1000, number % 1000 / 10);
            }
            "class" => {
                let (class, base) = rest.split_once(' ').unwrap();
                // Pointers and structs keep their names.
                let named = matches!(class, "pointer" | "whole");
                classes.insert(base, if named { base } else { class });
                if class == "pointer" {
                    lines.insert(format!("handle {base}"));
                }
            }
            _ => {
                lines.insert(line.to_owned());
            }
        }
    }
    for (kind, list) in [("fn", &functions), ("callback", &callbacks)] {
        for (name, arguments) in list {
            let arguments: Vec<_> = arguments.iter().map(|argument| argument.class(&classes)).collect();
            lines.insert(format!("{kind} {name}({})", arguments.join(", ")));
        }
    }
    (version, lines)
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The head of the C program. `size_t` and a 64-bit integer may be the same type to the compiler, so `size_t` is
/// recognised by name.
const PROGRAM: &str = r##"
#include <stdio.h>
#include <stddef.h>
#include <string.h>
#define CLASS(name, T) printf("class %s %s\n", !strcmp(name, "size_t") ? "usize" : _Generic((T *)0, \
    char *: "char", unsigned char *: "u8", unsigned short *: "u16", short *: "i16", int *: "i32", unsigned int *: "u32", \
    long *: "i64", unsigned long *: "u64", long long *: "i64", unsigned long long *: "u64", float *: "f32", double *: "f64", \
    default: kind(__builtin_classify_type(*(T *)0), sizeof(T))), name)
#define WHOLE(name, T) printf("struct " name " size %zu align %zu:", sizeof(T), _Alignof(T)); separator = " "
#define FIELD(name, T, path) printf("%s" name " %zu+%zu", separator, offsetof(T, path), sizeof(((T *)0)->path)); separator = ", "
static const char *separator;
static const char *kind(int class, size_t size) { return class == 5 ? "pointer" : class == 12 || class == 13 ? "whole" : "unknown"; }
"##;

fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let end = match is_word(first) {
            true => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        if !first.is_whitespace() {
            tokens.push(&rest[..end]);
        }
        rest = &rest[end..];
    }
    tokens
}

/// A C argument: its base type without `const`, and for each level of pointer whether its target is constant.
struct Argument {
    base: String,
    levels: Vec<bool>,
}

impl Argument {
    fn read(tokens: &[&str]) -> Argument {
        let levels = tokens.iter().position(|token| *token == "*").unwrap_or(tokens.len());
        let (front, back) = tokens.split_at(levels);
        let mut base: Vec<_> =
            front.iter().copied().filter(|token| !["const", "struct", "enum"].contains(token)).collect();
        let arrays = base.iter().position(|token| *token == "[");
        base.truncate(arrays.unwrap_or(base.len()));
        let plain = ["void", "char", "short", "int", "long", "unsigned", "float", "double"];
        if back.is_empty() && base.len() > 1 && !plain.contains(base.last().unwrap()) {
            base.pop();
        }
        let mut constant = front.contains(&"const");
        let mut levels = Vec::new();
        for token in back.iter().chain(arrays.map(|_| &"*")) {
            match *token {
                "*" => levels.push(std::mem::take(&mut constant)),
                "const" => constant = true,
                "[" => levels.push(std::mem::take(&mut constant)),
                _ => {}
            }
        }
        Argument { base: base.join(" "), levels }
    }

    fn class(&self, classes: &BTreeMap<&str, &str>) -> String {
        let start = classes[self.base.as_str()].to_owned();
        let around = |to, constant: &bool| format!("*{} {to}", if *constant { "const" } else { "mut" });
        self.levels.iter().fold(start, around)
    }
}

/// The arguments from after the opening parenthesis up to the closing one.
fn arguments(tokens: &[&str]) -> Vec<Argument> {
    let end = matching(tokens, "(", ")");
    let list: Vec<_> = tokens[..end].split(|token| *token == ",").filter(|list| !list.is_empty()).collect();
    match list.as_slice() {
        [only] if *only == ["void"] => Vec::new(),
        list => list.iter().map(|argument| Argument::read(argument)).collect(),
    }
}

/// The index of the bracket that closes the one before the first token.
fn matching(tokens: &[&str], open: &str, close: &str) -> usize {
    let mut depth = 1;
    let end = tokens.iter().position(|token| {
        depth += i32::from(*token == open) - i32::from(*token == close);
        depth == 0
    });
    end.expect("brackets match")
}

fn functions(tokens: &[&str]) -> Vec<(String, Vec<Argument>)> {
    let starts = tokens
        .windows(3)
        .enumerate()
        .filter(|(_, window)| window[0] == "CUresult" && window[1].starts_with("cu") && window[2] == "(");
    // The variants for per-thread default streams have the same arguments.
    let plain = starts.filter(|(_, window)| !window[1].ends_with("_ptsz") && !window[1].ends_with("_ptds"));
    plain.map(|(at, window)| (window[1].to_owned(), arguments(&tokens[at + 3..]))).collect()
}

/// `typedef void (*NAME)(...)`.
fn callbacks(tokens: &[&str]) -> Vec<(String, Vec<Argument>)> {
    let starts = tokens.windows(7).enumerate().filter(|(_, window)| {
        let returns = ["void", "size_t"].contains(&window[1]);
        returns && [window[0], window[2], window[3]] == ["typedef", "(", "*"] && window[5..] == [")", "("]
    });
    starts.map(|(at, window)| (window[4].to_owned(), arguments(&tokens[at + 7..]))).collect()
}

/// Each struct under the name that functions use, with the paths of its fields.
fn structs(tokens: &[&str]) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for at in 0..tokens.len() {
        match &tokens[at..] {
            ["typedef", "struct", rest @ ..] => {
                let open = usize::from(rest[0] != "{");
                if rest.get(open) != Some(&"{") {
                    continue;
                }
                let body = &rest[open + 1..];
                let end = matching(body, "{", "}");
                if let Some(name) = body.get(end + 1).filter(|name| name.starts_with("CU")) {
                    found.insert((*name).to_owned(), fields(&body[..end], ""));
                }
            }
            ["typedef", known, name, ";", ..] if name.starts_with("CU") => {
                if let Some(fields) = found.get(*known).cloned() {
                    found.insert((*name).to_owned(), fields);
                }
            }
            _ => {}
        }
    }
    found
}

fn fields(mut body: &[&str], prefix: &str) -> Vec<String> {
    let mut found = Vec::new();
    while !body.is_empty() {
        let inner = body.iter().position(|token| *token == "{");
        let end = body.iter().position(|token| *token == ";").unwrap();
        if let Some(open) = inner.filter(|open| *open < end) {
            let inner = &body[open + 1..];
            let close = matching(inner, "{", "}");
            let after = &inner[close + 1..];
            let end = after.iter().position(|token| *token == ";").unwrap();
            // The fields of an anonymous member belong to the struct.
            let is_name = |token: &&&str| token.starts_with(|c: char| c.is_alphabetic() || c == '_');
            match after[..end].iter().find(is_name).filter(|_| !after[..end].contains(&"__attribute__")) {
                Some(name) if after[..end].contains(&"[") => found.push(format!("{prefix}{name}")),
                Some(name) => found.extend(fields(&inner[..close], &format!("{prefix}{name}."))),
                None => found.extend(fields(&inner[..close], prefix)),
            }
            body = &after[end + 1..];
        } else {
            for declared in body[..end].split(|token| *token == ",") {
                let plain = declared.split(|token| *token == "[").next().unwrap();
                let name = match plain.windows(2).position(|window| window == ["(", "*"]) {
                    Some(function) => plain[function + 2],
                    None => plain.last().unwrap(),
                };
                found.push(format!("{prefix}{name}"));
            }
            body = &body[end + 1..];
        }
    }
    found
}
