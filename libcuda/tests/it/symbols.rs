//! What the library exports.

use super::{folder, skip};
use std::collections::BTreeSet;
use std::process::Command;

/// What a program of the system's tools says of the library, if it is there.
fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).arg(folder().join("libcuda.so.1")).output().ok()?;
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

fn exported() -> Option<BTreeSet<String>> {
    let text = said("nm", &["-D", "--defined-only"])?;
    Some(text.lines().filter_map(|line| line.split_whitespace().nth(2)).map(str::to_owned).collect())
}

/// The names in a part of the README that begins with a heading.
fn listed(heading: &str) -> BTreeSet<String> {
    let readme = include_str!("../../README.md");
    let part = readme.split_once(&format!("## {heading}")).expect("the README has this part").1;
    let part = part.split_once("\n## ").map_or(part, |it| it.0);
    part.split('`').skip(1).step_by(2).filter(|it| it.starts_with("cu")).map(str::to_owned).collect()
}

const MODELLED: &str = "Functions that are modelled";
const OTHERS: &str = "Functions that answer 801";

/// The symbols that the library was made of, the variants included.
pub(crate) fn listed_symbols() -> Vec<&'static str> {
    let mut symbols: Vec<&str> =
        include_str!("../../symbols.tsv").lines().filter_map(|line| line.split('\t').next()).collect();
    symbols.extend(custack_sys::FUNCTIONS);
    symbols.sort_unstable();
    symbols.dedup();
    symbols
}

#[test]
fn the_library_exports_what_the_readme_lists() {
    let Some(exported) = exported() else {
        return skip("the_library_exports_what_the_readme_lists", "there is no nm");
    };
    let (modelled, others) = (listed(MODELLED), listed(OTHERS));
    if let Some(path) = std::env::var_os("CUSTACK_WRITE_README") {
        return write_lists(&path, &exported);
    }
    assert!(modelled.is_disjoint(&others));
    assert_eq!(
        exported,
        modelled.union(&others).cloned().collect(),
        "CUSTACK_WRITE_README=README.md writes it anew"
    );
    for function in custack_sys::FUNCTIONS {
        assert!(modelled.contains(*function), "{function}");
    }
}

/// A function that is not modelled has no arguments to read, and answers at once.
fn is_modelled(library: &libloading::Library, symbol: &str) -> bool {
    let known = custack_sys::FUNCTIONS.contains(&symbol) || symbol.starts_with("cuGet");
    // SAFETY: null and zero are taken by all functions.
    known
        || unsafe {
            type Any =
                unsafe extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64) -> u32;
            library.get::<Any>(symbol.as_bytes()).unwrap()(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) != 801
        }
}

fn write_lists(path: &std::ffi::OsStr, exported: &BTreeSet<String>) {
    // SAFETY: the library is custack's own.
    let library = unsafe { libloading::Library::new(folder().join("libcuda.so.1")) }.unwrap();
    let (modelled, others): (Vec<_>, Vec<_>) = exported.iter().partition(|it| is_modelled(&library, it));
    let list = |names: &[&String]| {
        let (mut text, mut line) = (String::new(), String::new());
        for name in names {
            if line.len() + name.len() > 110 {
                text += &(std::mem::take(&mut line).trim_end().to_owned() + "\n");
            }
            line += &format!("`{name}` ");
        }
        text + line.trim_end()
    };
    let readme = include_str!("../../README.md");
    let head = readme.split_once(&format!("## {MODELLED}")).unwrap().0;
    let text = format!("{head}## {MODELLED}\n\n{}\n\n## {OTHERS}\n\n{}\n", list(&modelled), list(&others));
    std::fs::write(path, text).unwrap();
}

#[test]
fn the_library_has_the_name_of_the_driver() {
    match said("readelf", &["-d"]) {
        Some(text) => assert!(text.contains("Library soname: [libcuda.so.1]"), "{text}"),
        None => skip("the_library_has_the_name_of_the_driver", "there is no readelf"),
    }
}
