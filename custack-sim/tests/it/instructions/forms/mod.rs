//! Every form of the instructions that compute: applied by the driver to edges and random operands, and compared with a
//! reference that shares nothing with the interpreter.
//!
//! `list/` has the forms with what each computes, `exact.rs` the arithmetic of floats by integers of 128 bits, `record.rs`
//! what an H200 answered, and `share/` counts which forms of PTX load at all.

mod apply;
pub(super) mod exact;
mod form;
mod list;
mod object;
mod operands;
mod record;
mod share;

use crate::gpu::status;
use crate::harness::{deep, is_simulated};
use apply::{Applied, Device};
use custack_sys::ffi::CUresult;
use form::{Form, Truth};
use record::Record;

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
    let is_right = !is_simulated() || error == Some(status::NOT_SUPPORTED);
    (!is_right).then(|| format!("{}: it is not refused, but {error:?}", form.name))
}

/// Compares all forms of a family with the reference and with the record; a failure has the first wrong answers of each.
fn agrees(family: &'static str) {
    crate::harness::within(600, move || {
        crate::harness::run(|| {
            let forms = list::family(family);
            let forms: Vec<&Form> = forms.iter().collect();
            let mut failures = Vec::new();
            let mut record = Record::of(family);
            Device::new().apply(&forms, deep(), &mut |form, applied| match applied {
                _ if list::differs(&form.name) => failures.extend(unless_refused(form, applied.err())),
                Err(error) => failures.push(format!("{}: {error}", form.name)),
                Ok(applied) => {
                    let wrong = wrong(form, &applied);
                    // What a GPU answers otherwise than the reference is in no record.
                    if wrong.count != 0 && (is_simulated() || !list::is_only_simulated(&form.name)) {
                        let head =
                            format!("{}: {} of {} wrong", form.name, wrong.count, applied.answers.len());
                        failures.push([vec![head], wrong.first].concat().join("\n"));
                    }
                    failures.extend(record.compare(form, &applied).err());
                }
            });
            failures.extend(record.unlike());
            let (count, all) = (failures.len(), forms.len());
            assert_eq!(count, 0, "{family}: {count} of {all} forms disagree\n{}", failures.join("\n"));
        });
    });
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
    };
}

families! {
    integers packed carries bits floats extremes approximate predicates numbers_of_comparisons moves conversions small_formats
    video video_lanes loads_and_stores atomics barriers matrices sums_of_products textures surfaces
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
