//! Every form of the instructions that compute: applied by the driver to edges and random operands, and compared with a
//! reference that shares nothing with the interpreter.
//!
//! `list/` has the forms with what each computes, `exact.rs` the arithmetic of floats by integers of 128 bits, `record.rs`
//! what an H200 answered, and `share/` counts which forms of PTX load at all.

mod apply;
mod exact;
mod form;
mod list;
mod object;
mod operands;
mod record;
mod share;

use crate::gpu::status;
use apply::{Applied, Device};
use custack_sys::ffi::CUresult;
use form::{Form, Truth};

/// How many wrong answers a failure shows.
const SHOWN: usize = 10;

/// What is wrong with a form's answers: how many, and the first of them.
struct Wrong {
    count: usize,
    first: Vec<String>,
}

fn hex(values: &[u64]) -> String {
    values.iter().map(|value| format!("{value:#x}")).collect::<Vec<_>>().join(", ")
}

/// The first operand of each thread of the group that begins here, and their answers.
fn group<'a>(form: &Form, applied: &'a Applied<'_>, at: usize) -> (Vec<u64>, &'a [u64]) {
    let all = at..at + form.group;
    (all.clone().map(|at| applied.operands.at(at)[0]).collect(), &applied.answers[all])
}

/// Compares answers with the reference.
fn wrong(form: &Form, applied: &Applied<'_>) -> Wrong {
    let mut wrong = Wrong { count: 0, first: Vec::new() };
    let mut expected = Vec::new();
    for (at, answer) in applied.answers.iter().enumerate() {
        let mut of = applied.operands.at(at);
        if form.on_memory {
            of.push(at as u64);
        }
        let why = match &form.truth {
            Truth::Groups(exact) => {
                if at % form.group == 0 {
                    expected = exact(&group(form, applied, at).0);
                }
                let expected = expected[at % form.group];
                if expected == *answer { continue } else { format!("{answer:#x} instead of {expected:#x}") }
            }
            Truth::Together(check) if at % form.group == 0 => {
                let (operands, answers) = group(form, applied, at);
                match check(&operands, None, answers) {
                    Ok(()) => continue,
                    Err(why) => why,
                }
            }
            Truth::Together(_) => continue,
            Truth::Exact(exact) => {
                let expected = exact(&of);
                if expected == *answer { continue } else { format!("{answer:#x} instead of {expected:#x}") }
            }
            Truth::Near(near) => match near(&of, None, *answer) {
                Ok(()) => continue,
                Err(why) => format!("{answer:#x}: {why}"),
            },
        };
        wrong.count += 1;
        if wrong.first.len() < SHOWN {
            wrong.first.push(format!("  {} of {}: {why}", form.name, hex(&of)));
        }
    }
    wrong
}

/// The simulated driver refuses what it could only compute in another way than a device.
fn unless_refused(form: &Form, error: Option<CUresult>) -> Option<String> {
    let is_right = !crate::harness::is_simulated() || error == Some(status::NOT_SUPPORTED);
    (!is_right).then(|| format!("{}: it is not refused, but {error:?}", form.name))
}

/// Compares all forms of a family; a failure has the first wrong answers of each form.
fn agrees(family: &'static str) {
    crate::harness::within(600, move || {
        crate::harness::run(|| {
            let forms = list::family(family);
            let forms: Vec<&Form> = forms.iter().collect();
            let mut failures = Vec::new();
            Device::new().apply(&forms, is_full(), &mut |form, applied| match applied {
                _ if !crate::harness::is_simulated() && list::is_only_simulated(&form.name) => {}
                _ if list::differs(&form.name) => failures.extend(unless_refused(form, applied.err())),
                Err(error) => failures.push(format!("{}: {error}", form.name)),
                Ok(applied) => {
                    let wrong = wrong(form, &applied);
                    if wrong.count != 0 {
                        let head =
                            format!("{}: {} of {} wrong", form.name, wrong.count, applied.answers.len());
                        failures.push([vec![head], wrong.first].concat().join("\n"));
                    }
                }
            });
            let (count, all) = (failures.len(), forms.len());
            assert_eq!(count, 0, "{family}: {count} of {all} forms disagree\n{}", failures.join("\n"));
        });
    });
}

/// Whether all operands are tried: a build that is not optimised tries few on the simulated driver.
fn is_full() -> bool {
    !cfg!(debug_assertions)
        || !crate::harness::is_simulated()
        || std::env::var_os("CUSTACK_ALL_OPERANDS").is_some()
}

/// A test for each family.
macro_rules! families {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                agrees(stringify!($name));
            }
        )*

        #[test]
        fn each_family_has_a_test() {
            let tests = [$(stringify!($name)),*];
            let families = list::FAMILIES.iter().chain(&list::ON_MEMORY);
            assert_eq!(families.map(|it| it.0).collect::<Vec<_>>(), tests);
        }
    };
}

families! {
    integers packed carries bits floats extremes approximate predicates numbers_of_comparisons moves conversions small_formats
    video video_lanes loads_and_stores atomics barriers matrices sums_of_products textures surfaces
}

/// A name is how a record finds a form.
#[test]
fn no_two_forms_have_the_same_name() {
    let mut seen = std::collections::HashSet::new();
    for form in list::all() {
        assert!(seen.insert(form.name.clone()), "{} is listed twice", form.name);
    }
}

/// Writes the modules of all forms into a folder, so that NVIDIA's assembler can be asked whether it takes them.
#[test]
#[ignore = "writes files: CUSTACK_FORMS_PTX names the folder"]
fn write_ptx() {
    let folder = std::path::PathBuf::from(
        std::env::var_os("CUSTACK_FORMS_PTX").expect("CUSTACK_FORMS_PTX names a folder"),
    );
    for (family, _) in list::FAMILIES.iter().chain(&list::ON_MEMORY) {
        let forms = list::family(family);
        let kernels = form::kernels(&forms.iter().collect::<Vec<_>>());
        for (part, kernels) in kernels.chunks(40).enumerate() {
            std::fs::write(folder.join(format!("{family}{part}.ptx")), form::module(kernels)).unwrap();
        }
    }
}
