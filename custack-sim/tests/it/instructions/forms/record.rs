//! What an H200 answered, recorded by its owner and compared with the simulated driver.
//!
//! ```sh
//! CUSTACK_DRIVER=cuda CUSTACK_RECORD_FORMS=h200.txt cargo test -p custack-sim --release --test it -- \
//!     --ignored --exact --nocapture instructions::forms::record::record
//! ```
//!
//! The operands are part of what a record says: who changes `operands.rs` or a form's operands records anew.
//!
//! A line of the record has a form's name, and behind it either two hashes (of its answers to the first operands, and to
//! all), or its answers to edges and to a sample.

use super::apply::{Applied, Device};
use super::form::{Form, Truth};
use super::{SHOWN, list, wrong};
use crate::harness::deep;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;

const RECORD: &str = include_str!("h200.txt");
const SUMS_OF_A_GPU: &str = include_str!("sums.txt");
const MEMORY: &str = include_str!("memory.txt");

/// FNV-1a of 64 bits, by whole words.
fn hash(answers: &[u64]) -> u64 {
    answers.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, answer| {
        (hash ^ answer).wrapping_mul(0x100_0000_01b3).rotate_left(23)
    })
}

/// How many random operands are recorded in full, behind the edges.
const SAMPLE: usize = 300;

/// Which answers of an approximate form are recorded.
fn sampled(applied: &Applied<'_>) -> usize {
    let edges = applied.operands.few - super::operands::FEW;
    edges.min(400) + if edges <= 400 { SAMPLE } else { 0 }
}

fn line(form: &Form, applied: &Applied<'_>) -> String {
    let mut line = form.name.clone();
    if form.is_exact() {
        let few = hash(&applied.answers[..applied.few]);
        let _ = write!(line, "\t{few:016x}\t{:016x}", hash(&applied.answers));
    } else {
        for answer in &applied.answers[..sampled(applied)] {
            let _ = write!(line, "\t{answer:x}");
        }
    }
    line
}

/// Writes the record of the device that there is, and prints where the reference is wrong.
#[test]
#[ignore = "writes a file: CUSTACK_RECORD_FORMS names it, and a GPU answers"]
fn record() {
    let undecided = list::undecided();
    let forms: Vec<Form> = list::all().into_iter().chain(list::undecided()).collect();
    let mut text = String::new();
    write(&forms, &mut text, &mut |text, form, applied| {
        if !undecided.iter().any(|it| it.name == form.name) {
            let _ = writeln!(text, "{}", line(form, applied));
        }
    });
}

/// The same for forms that work on memory; `CUSTACK_FORMS` names families if not all are meant. All answers of forms whose
/// names have a part that `CUSTACK_RAW_FORMS` names (parts are separated by `;`) are in a second file, `.raw`.
#[test]
#[ignore = "writes a file: CUSTACK_RECORD_FORMS names it, and a GPU answers"]
fn record_memory() {
    let (mut text, mut groups) = (String::new(), Groups::default());
    let (mut raw, parts) = (String::new(), std::env::var("CUSTACK_RAW_FORMS").unwrap_or_default());
    let parts: Vec<&str> = parts.split(';').filter(|part| !part.is_empty()).collect();
    write(&list::chosen(), &mut text, &mut |text, form, applied| {
        if parts.iter().any(|part| form.name.contains(part)) {
            let _ = writeln!(raw, "{}\t{}", form.name, hexes(&applied.answers));
        }
        groups.add(form, applied);
        *text = groups.text();
    });
    if !parts.is_empty() {
        let mut path = std::env::var_os("CUSTACK_RECORD_FORMS").unwrap();
        path.push(".raw");
        std::fs::write(path, raw).unwrap();
    }
}

fn hexes(answers: &[u64]) -> String {
    answers.iter().map(|answer| format!("{answer:x}")).collect::<Vec<_>>().join("\t")
}

/// How many answers of sums of products are recorded in full.
const SUMS: usize = 64;

/// Writes the sums of products of matrices: a hash of all answers, and the first of them.
#[test]
#[ignore = "writes a file: CUSTACK_RECORD_FORMS names it, and a GPU answers"]
fn record_sums() {
    let mut text = String::new();
    write(&list::family("sums_of_products"), &mut text, &mut |text, form, applied| {
        let (all, first) = (hash(&applied.answers), hexes(&applied.answers[..SUMS]));
        let _ = writeln!(text, "{}\t{all:016x}\t{first}", form.name);
    });
}

type Each<'a> = dyn FnMut(&mut String, &Form, &Applied<'_>) + Send + 'a;

/// Applies forms to all operands (few of a build that is not optimised, on the simulated driver), writes a text about them, and prints where the reference is wrong.
fn write(forms: &[Form], text: &mut String, each: &mut Each<'_>) {
    let path = std::env::var_os("CUSTACK_RECORD_FORMS").expect("CUSTACK_RECORD_FORMS names a file");
    crate::harness::run(|| {
        let mut mismatches = String::new();
        let (mut wrong_forms, mut refused) = (0, 0);
        Device::new().apply(&forms.iter().collect::<Vec<_>>(), deep(), &mut |form, applied| match applied {
            Err(error) => {
                refused += 1;
                let _ = writeln!(mismatches, "{} does not load: {error}", form.name);
            }
            Ok(applied) => {
                each(text, form, &applied);
                let wrong = wrong(form, &applied);
                if wrong.count != 0 {
                    wrong_forms += 1;
                    let (count, all) = (wrong.count, applied.answers.len());
                    let first = wrong.first.join("\n");
                    let _ = writeln!(mismatches, "{}: {count} of {all} differ\n{first}", form.name);
                }
            }
        });
        std::fs::write(&path, &*text).unwrap();
        println!(
            "{mismatches}{} forms: {wrong_forms} differ from the reference, {refused} do not load",
            forms.len()
        );
    });
}

/// The hashes of forms that are alike but for their order, scope, space and hints.
#[derive(Default)]
pub(super) struct Groups(BTreeMap<String, [Vec<u64>; 2]>);

impl Groups {
    fn add(&mut self, form: &Form, applied: &Applied<'_>) {
        if list::is_not_recorded(&form.name) || matches!(form.truth, Truth::Near(_)) {
            return;
        }
        let mut answers = applied.answers.clone();
        if matches!(form.truth, Truth::Together(_)) {
            // Which thread returns which value is any.
            answers.chunks_mut(form.group).for_each(<[u64]>::sort_unstable);
        }
        let [few, all] = self.0.entry(group(&form.name)).or_default();
        few.push(hash(&answers[..applied.few]));
        all.push(hash(&answers));
    }

    /// A line for each: its name, how many it has, and a hash of the answers to the first operands, and to all.
    fn text(&self) -> String {
        self.0.iter().fold(String::new(), |mut text, (name, [few, all])| {
            let _ = writeln!(text, "{name}\t{}\t{:016x}\t{:016x}", few.len(), hash(few), hash(all));
            text
        })
    }
}

/// The instruction, the length of its vectors, what it does, its shape, and its type; of textures and surfaces the geometry,
/// the elements and the filter, or what is done beyond.
fn group(name: &str) -> String {
    let (opcode, what) = name.split_once(" of ").unwrap_or((name, ""));
    let opcode = opcode.split(' ').next().unwrap();
    let parts: Vec<&str> = opcode.split('.').collect();
    let is_telling = |part: &str| {
        let short = ["v2", "v4", "v8", "add", "min", "max", "and", "or", "xor", "inc", "dec", "exch", "cas"];
        short.contains(&part) || part.starts_with('m') && part.contains('k')
    };
    let (first, last) = (parts[0], *parts.last().unwrap());
    let of: Vec<&str> = match first {
        "mbarrier" => vec![parts[1]],
        "wmma" | "mma" => parts[1..]
            .iter()
            .copied()
            .filter(|it| *it == "load" || *it == "store" || is_telling(it))
            .collect(),
        "tex" | "tld4" | "txq" | "suq" => {
            let elements = what.split(", ").take(2).collect::<Vec<_>>().join(", ");
            let by = if first == "tex" && last == "s32" { " by integers" } else { "" };
            return format!("{first} of {elements}{by}");
        }
        "suld" | "sust" | "sured" => {
            let telling = ["b", "p", "1d", "2d", "3d", "a1d", "a2d", "trap", "clamp", "zero"];
            parts[1..].iter().copied().filter(|it| telling.contains(it)).collect()
        }
        _ => parts[1..parts.len() - 1].iter().copied().filter(|it| is_telling(it)).chain([last]).collect(),
    };
    let what = if what.is_empty() { String::new() } else { format!(" of {what}") };
    format!("{first}.{}{what}", of.join("."))
}

/// Products of formats of 8 bits, those of `wmma` with `tf32`, and four at once that give `f32` are summed on a device in another way than here.
fn is_only_near(name: &str) -> bool {
    ["e4m3", "e5m2", ".f32.f16.f16."]
        .iter()
        .any(|it| name.contains(it) && (*it != ".f32.f16.f16." || name.contains("m8n8k4")))
        || name.starts_with("wmma") && name.contains("tf32")
}

/// The lines of a record: a name, and numbers.
fn lines(text: &'static str) -> HashMap<&'static str, Vec<u64>> {
    let lines = text.lines().filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let mut fields = line.split('\t');
            let name = fields.next().unwrap();
            (name, fields.map(|field| u64::from_str_radix(field, 16).unwrap()).collect())
        })
        .collect()
}

/// What an H200 answered to the forms of a family.
pub(super) enum Record {
    /// Each form by itself.
    Forms(HashMap<&'static str, Vec<u64>>),
    /// Sums of products, of which some are only near.
    Sums(HashMap<&'static str, Vec<u64>>),
    /// Forms that work on memory, put together; and the groups that this family has part in.
    Groups(Groups),
}

impl Record {
    pub(super) fn of(family: &str) -> Record {
        match family {
            "sums_of_products" => Record::Sums(lines(SUMS_OF_A_GPU)),
            _ if list::ON_MEMORY.iter().any(|it| it.0 == family) => Record::Groups(Groups::default()),
            _ => Record::Forms(lines(RECORD)),
        }
    }

    /// Compares a form's answers, or keeps them for [`unlike`](Self::unlike).
    pub(super) fn compare(&mut self, form: &Form, applied: &Applied<'_>) -> Result<(), String> {
        let found = |all: &HashMap<&str, Vec<u64>>| {
            all.get(&form.name[..]).cloned().ok_or_else(|| format!("{}: it is not recorded", form.name))
        };
        match self {
            Record::Forms(all) => against(form, applied, &found(all)?),
            Record::Sums(all) => sums(form, applied, &found(all)?),
            Record::Groups(groups) => {
                groups.add(form, applied);
                Ok(())
            }
        }
    }

    /// The groups that are not as recorded.
    pub(super) fn unlike(&self) -> Vec<String> {
        let Record::Groups(groups) = self else { return Vec::new() };
        let fields = if deep() { 4 } else { 3 };
        let shown = |line: &str| line.split('\t').take(fields).collect::<Vec<_>>().join(" ");
        let recorded: HashSet<String> = MEMORY.lines().map(shown).collect();
        let text = groups.text();
        assert!(!text.is_empty(), "no form was compared");
        let wrong = text.lines().map(shown).filter(|line| !recorded.contains(line));
        wrong.map(|line| format!("{line}: these answers are not those of the record")).collect()
    }
}

/// What is wrong with sums of products by the record.
fn sums(form: &Form, applied: &Applied<'_>, recorded: &[u64]) -> Result<(), String> {
    // The first number is a hash of all answers.
    let recorded = &recorded[1..];
    let Truth::Together(check) = &form.truth else { panic!("{} is exact", form.name) };
    if !is_only_near(&form.name) && applied.answers[..SUMS] != *recorded {
        return Err(format!("{}: the answers are not those of the record", form.name));
    }
    for (at, (answers, recorded)) in applied.answers.chunks(32).zip(recorded.chunks(32)).enumerate() {
        let operands: Vec<u64> = (32 * at..32 * at + 32).map(|at| applied.operands.at(at)[0]).collect();
        check(&operands, Some(recorded), answers).map_err(|why| format!("{}: {why}", form.name))?;
    }
    Ok(())
}

/// What is wrong with a form's answers by the record.
fn against(form: &Form, applied: &Applied<'_>, recorded: &[u64]) -> Result<(), String> {
    let Truth::Near(near) = &form.truth else {
        let few = hash(&applied.answers[..applied.few]);
        if few != recorded[0] || deep() && hash(&applied.answers) != recorded[1] {
            return Err(format!("{}: the answers are not those of the record", form.name));
        }
        return Ok(());
    };
    let answers = applied.answers.iter().zip(recorded).enumerate();
    let wrong: Vec<String> = answers
        .filter_map(|(at, (answer, recorded))| {
            let of = applied.operands.at(at);
            let why = near(&of, Some(*recorded), *answer).err()?;
            Some(format!("  {} of {}: {why}", form.name, super::hex(&of)))
        })
        .collect();
    if wrong.is_empty() {
        return Ok(());
    }
    let (count, all) = (wrong.len(), recorded.len());
    let first = wrong[..count.min(SHOWN)].join("\n");
    Err(format!("{}: {count} of {all} are too far from the record\n{first}", form.name))
}

#[test]
fn the_records_have_no_other_forms_than_the_families() {
    let names: HashSet<String> = list::all().into_iter().map(|form| form.name).collect();
    let sums: HashSet<String> = list::family("sums_of_products").into_iter().map(|form| form.name).collect();
    assert!(lines(RECORD).into_keys().all(|name| names.contains(name)));
    assert!(lines(SUMS_OF_A_GPU).into_keys().all(|name| sums.contains(name)));
    let groups: HashSet<String> = list::on_memory().iter().map(|form| group(&form.name)).collect();
    let recorded = MEMORY.lines().map(|line| line.split('\t').next().unwrap());
    assert!(recorded.into_iter().all(|name| groups.contains(name)));
}
