//! Which share of the forms of PTX 8.8 for sm_90 the driver loads.
//!
//! To the forms that are compared (`list/`) come those of the other instructions, each as one example. Left out are
//! clusters, copies by descriptors of tensors (`cp.async.bulk`, `tensormap`), `wgmma` and `mma.sp`.

mod example;
mod matrix;
mod memory;
mod textures;
mod threads;

use super::{form, list};
use crate::gpu::{Module, pushed};
use crate::harness::{run, within};
use example::{Example, text};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::fmt::Write;

/// All examples of instructions that are not compared.
fn examples() -> Vec<Example> {
    let templates =
        [memory::LOADS, memory::ATOMICS, memory::OTHERS, threads::ALL, matrix::ALL, textures::ALL];
    example::all(templates.into_iter().flat_map(str::lines))
}

/// The opcodes of loads and stores, or of atomic operations.
pub(super) fn memory_examples(at: usize) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let all = example::all([memory::LOADS, memory::ATOMICS][at].lines()).into_iter();
    let names = all.map(|example| example.name.split(' ').next().unwrap().to_owned());
    names.filter(|name| seen.insert(name.clone())).collect()
}

/// The names of examples of `mma` and `wmma`, and their code.
pub(super) fn matrix_examples() -> Vec<(String, String)> {
    named(matrix::ALL.lines())
}

/// The opcodes of all accesses of surfaces.
pub(super) fn surface_examples() -> Vec<String> {
    let lines =
        textures::ALL.lines().filter(|line| ["suld", "sust", "sured"].iter().any(|it| line.starts_with(it)));
    let mut seen = BTreeSet::new();
    let names = example::all(lines).into_iter().map(|it| it.name.split(' ').next().unwrap().to_owned());
    names.filter(|name| seen.insert(name.clone())).collect()
}

/// The same of `mbarrier`.
pub(super) fn barrier_examples() -> Vec<(String, String)> {
    named(threads::ALL.lines().filter(|line| line.starts_with("mbarrier")))
}

fn named(lines: impl Iterator<Item = &'static str>) -> Vec<(String, String)> {
    example::all(lines).into_iter().map(|example| (example.name, example.code)).collect()
}

/// The forms of an instruction that there are, and those that do not load.
#[derive(Default)]
struct Count {
    all: usize,
    refused: BTreeSet<String>,
}

/// Asks for each example alone, as one that is refused may be refused with its module.
fn counted() -> BTreeMap<String, Count> {
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    let mut count = |name: &str, loads: bool| {
        let instruction = name.split(['.', ' ', ';']).next().unwrap();
        let count = counts.entry(instruction.to_owned()).or_default();
        count.all += 1;
        if !loads {
            count.refused.insert(name.to_owned());
        }
    };
    let loads = |text: String| {
        let module = Module::load(text.as_bytes());
        module.is_ok_and(|module| module.get_function(&CString::new("k0").unwrap()).is_ok())
    };
    let _context = pushed();
    for form in list::all() {
        let text = form::module(&[form::Kernel { forms: vec![&form] }]);
        count(&form.name, loads(text));
    }
    for example in examples() {
        count(&example.name, loads(text(std::slice::from_ref(&example))));
    }
    counts
}

/// How many forms there are, and how many of them run.
fn sum<'a>(counts: impl Iterator<Item = &'a Count>) -> (usize, usize) {
    counts.fold((0, 0), |(all, run), it| (all + it.all, run + it.all - it.refused.len()))
}

fn percent((all, run): (usize, usize)) -> f64 {
    100.0 * run as f64 / all as f64
}

/// The part of the page of instructions that says how many forms of each run, and which do not.
fn page(counts: &BTreeMap<String, Count>) -> String {
    let all = sum(counts.values());
    let mut page = format!("Of {} forms, {} run: {:.1} %.\n", all.0, all.1, percent(all));
    page.push_str("\n| instruction | forms | that run | that do not run |\n|---|---|---|---|\n");
    for (name, count) in counts.iter().filter(|it| !it.1.refused.is_empty()) {
        let refused = example::summary(&count.refused, count.all);
        let _ =
            writeln!(page, "| `{name}` | {} | {} | {refused} |", count.all, count.all - count.refused.len());
    }
    let whole = counts.iter().filter(|it| it.1.refused.is_empty());
    let whole: Vec<String> = whole.map(|(name, count)| format!("`{name}` ({})", count.all)).collect();
    page.push_str("\nAll forms run of these instructions, each with how many it has:\n");
    let mut line = String::new();
    for word in whole.join(", ").split_inclusive(", ") {
        if line.len() + word.len() > 110 {
            let _ = writeln!(page, "{}", std::mem::take(&mut line).trim_end());
        }
        line += word;
    }
    let _ = writeln!(page, "{line}.");
    page
}

const PAGE: &str = include_str!("../../../../../src/forms.md");

/// The part of the page that is generated begins with its figures.
fn generated(page: &str) -> &str {
    &page[page.find("Of ").unwrap()..]
}

#[test]
fn the_page_says_which_forms_run() {
    if !crate::harness::is_simulated() {
        return crate::harness::skip(
            "the_page_says_which_forms_run",
            "the page is about the simulated driver",
        );
    }
    within(300, || {
        run(|| {
            let counts = counted();
            let page = page(&counts);
            if let Some(path) = std::env::var_os("CUSTACK_WRITE_FORMS") {
                let head = &PAGE[..PAGE.len() - generated(PAGE).len()];
                std::fs::write(path, format!("{head}{page}")).unwrap();
                return;
            }
            let (all, run) = sum(counts.values());
            assert!(run * 100 >= all * 95, "{run} of {all} forms run");
            assert_eq!(
                generated(PAGE),
                page,
                "CUSTACK_WRITE_FORMS=custack-sim/src/forms.md writes the page anew"
            );
        });
    });
}

/// Writes modules of all examples into a folder, so that NVIDIA's assembler can be asked whether it takes them.
#[test]
#[ignore = "writes files: CUSTACK_FORMS_PTX names the folder"]
fn write_examples() {
    let folder = std::env::var_os("CUSTACK_FORMS_PTX").expect("CUSTACK_FORMS_PTX names a folder");
    std::fs::write(std::path::Path::new(&folder).join("examples.ptx"), text(&examples())).unwrap();
}
