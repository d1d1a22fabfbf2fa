//! Damaged machine code: each image is refused, or the driver takes it, and no process ends by it.
//!
//! A driver that is given a wrong number crashes. So children give the images to it, each many, one after the other. A child
//! says which image is next before it takes it; if the child ends or says nothing more, its parent knows by which image, and
//! starts another child with the next one.
//!
//! Beside those of other tests `images/` has what NVRTC 11.8 (`barriers`), 12.9 (`recursion`) and 13.5 (`votes`) and ptxas 13.0
//! (`prints`) made of kernels for an H100, to be linked.

mod generate;

use crate::harness::{is_simulated, pushed, run, times};
use custack::driver::instrument;
use custack::error::CudaError;
use custack::library::Library;
use custack::module::{CacheMode, Fallback, JitOptions, LinkInput, Linker, Module};
use generate::{Changes, Random, bases, changed, damaged};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

const CHILD: &str = "module::damaged_code::a_child_that_loads_damaged_machine_code";
/// As long as no image takes.
const MOST_TIME: Duration = Duration::from_secs(30);
/// How many images one child has.
const IMAGES_OF_A_CHILD: u64 = 20_000;
/// Errors after which nothing works in the process any more.
const LAST_ERRORS: [u32; 5] = [700, 702, 714, 715, 719];

/// What came of an image: refused by custack (0), or what the driver said.
type Answers = BTreeMap<String, u64>;

fn text(options: u64) -> String {
    format!(
        ".version 7.0 .target sm_70 .address_size 64 .visible .entry k(.param .u64 p) .maxntid 256 {{ .reg .b64 a; \
         .reg .b32 r; ld.param.u64 a, [p]; mov.u32 r, %tid.x; st.global.u32 [a], r; ret; }} //{options}"
    )
}

/// Compiles a text with options at random.
fn compile(number: u64) -> Result<(), CudaError> {
    let mut random = Random::new(number);
    let mut options = JitOptions::new();
    for _ in 0..1 + random.below(4) {
        let value = random.of(&[
            0,
            1,
            2,
            3,
            4,
            5,
            16,
            32,
            33,
            64,
            75,
            90,
            100,
            255,
            256,
            1024,
            1025,
            65535,
            1 << 31,
            u32::MAX,
        ]);
        let is = value % 2 == 1;
        options = match random.below(11) {
            0 => options.max_registers(value),
            1 => options.threads_per_block(value),
            2 => options.optimization_level(value),
            3 => options.target(value),
            4 => options.debug_info(is),
            5 => options.min_blocks_per_multiprocessor(value),
            6 => options.max_threads_per_block(value),
            7 => options.override_directives(true),
            8 => options.fallback(if is { Fallback::PreferPtx } else { Fallback::PreferBinary }),
            9 => options.cache_mode(if is { CacheMode::L2 } else { CacheMode::L1AndL2 }),
            _ => options.log_bytes(value as usize % 4096).verbose(is).position_independent_code(is),
        };
    }
    let loaded = Module::load_with_options(text(number).as_bytes(), &options);
    loaded.map(|_| ()).map_err(|refused| refused.error)
}

/// Uses what was loaded as far as that can be done without running it.
fn look_at(module: &Module) -> Result<(), CudaError> {
    for function in module.functions()? {
        function.load()?;
        function.name()?;
        function.parameters()?;
        function.get_attribute(custack::function::FunctionAttribute::NumRegisters)?;
    }
    Ok(())
}

fn link(kind: LinkInput, image: &[u8]) -> Result<bool, CudaError> {
    let mut linker = Linker::new(&JitOptions::new())?;
    let (added, calls) = instrument::during(|| linker.add(kind, image, c"damaged"));
    let is_refused = calls.total() == 0;
    added
        .and_then(|()| linker.complete().map(|_| ()).map_err(|refused| refused.error))
        .map(|()| is_refused)
        .or_else(|error| if is_refused { Ok(true) } else { Err(error) })
}

/// Takes one image; says whether custack refused it, or what the driver said.
fn take(number: u64, bases: &[(String, Vec<u8>)]) -> Result<bool, CudaError> {
    if number % 64 == 63 {
        return compile(number).map(|()| false);
    }
    let (which, changes, length) = damaged(bases, number);
    let image = changed(&bases[which].1, &changes, length);
    let kind = if image.starts_with(b"\x7fELF") { LinkInput::Cubin } else { LinkInput::Fatbin };
    match number % 8 {
        0 | 5 | 6 => link(kind, &image),
        1 => {
            let (library, calls) = instrument::during(|| Library::load(&image, &JitOptions::new()));
            if calls.total() == 0 {
                return Ok(true);
            }
            let current = custack::context::CurrentContext::get_current()?;
            library?.kernels()?.iter().try_for_each(|kernel| kernel.function_in(&current).map(|_| ()))?;
            Ok(false)
        }
        2 if number % 64 == 2 => link(LinkInput::Object, &image),
        2 if number % 64 == 10 => link(LinkInput::Library, &image),
        _ => {
            let (module, calls) = instrument::during(|| Module::load_from_bytes(&image));
            if calls.total() == 0 {
                return Ok(true);
            }
            look_at(&module?).map(|()| false)
        }
    }
}

#[test]
#[ignore = "started by a test of this file, each time in a process of its own"]
fn a_child_that_loads_damaged_machine_code() {
    let Ok(range) = std::env::var("CUSTACK_DAMAGED_CODE") else { return };
    let (first, end) = range.split_once("..").unwrap();
    run(move || {
        let _context = pushed();
        let (bases, mut said) = (bases(), std::io::stdout());
        for number in first.parse::<u64>().unwrap()..end.parse().unwrap() {
            writeln!(said, "next {number}").unwrap();
            let answer = match take(number, &bases) {
                Ok(true) => "custack".to_owned(),
                Ok(false) => "loaded".to_owned(),
                Err(error) => format!("driver {}", error.code()),
            };
            writeln!(said, "answer {answer}").unwrap();
            if LAST_ERRORS.iter().any(|code| answer == format!("driver {code}")) {
                break;
            }
        }
        writeln!(said, "done").unwrap();
    });
}

/// What a child says: the last image that it took, what came of all, and how it ended, unless as it should.
struct Told {
    last: u64,
    answers: Answers,
    ended: Option<String>,
}

fn child(first: u64, end: u64) -> Told {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([CHILD, "--exact", "--ignored", "--nocapture"]);
    command.env("CUSTACK_DAMAGED_CODE", format!("{first}..{end}")).env("CUDA_MODULE_LOADING", "EAGER");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (lines, mut errors) = (BufReader::new(child.stdout.take().unwrap()), child.stderr.take().unwrap());
    let (to, from) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        lines.lines().map_while(Result::ok).take_while(|line| to.send(line.clone()).is_ok()).for_each(drop);
    });
    let complained = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = errors.read_to_end(&mut text);
        String::from_utf8_lossy(&text[text.len().saturating_sub(600)..]).into_owned()
    });
    let (mut told, mut is_done) = (Told { last: first, answers: Answers::new(), ended: None }, false);
    let is_silent = loop {
        match from.recv_timeout(MOST_TIME) {
            Ok(line) => match line.split_once(' ') {
                Some(("next", number)) => told.last = number.parse().unwrap(),
                Some(("answer", answer)) => *told.answers.entry(answer.to_owned()).or_default() += 1,
                _ => is_done |= line == "done",
            },
            Err(error) => break error == mpsc::RecvTimeoutError::Timeout,
        }
    };
    if is_silent {
        let _ = child.kill();
    }
    let status = child.wait().unwrap();
    reader.join().unwrap();
    let complained = complained.join().unwrap();
    told.ended = match (is_silent, is_done && status.success()) {
        (true, _) => Some("hangs".to_owned()),
        (false, true) => None,
        (false, false) => Some(format!("{status} {}", complained.replace('\n', " "))),
    };
    told
}

/// As many as `CUSTACK_DAMAGED` says, from `CUSTACK_DAMAGED_SEED` on, at most as many seconds as `CUSTACK_DAMAGED_SECONDS` says.
#[test]
#[ignore = "started by hand, as it takes minutes; see tests/README.md"]
fn damaged_machine_code_is_refused_or_loads() {
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (seed, count) = (number("CUSTACK_DAMAGED_SEED", 0), number("CUSTACK_DAMAGED", 100_000));
    let begun = Instant::now();
    let most = Duration::from_secs(number("CUSTACK_DAMAGED_SECONDS", 3600));
    let next = AtomicU64::new(seed);
    let (all, crashes, taken) = (Mutex::new(Answers::new()), Mutex::new(Vec::new()), AtomicU64::new(0));
    let (all, crashes, taken, next) = (&all, &crashes, &taken, &next);
    let work = || {
        loop {
            let mut first = next.fetch_add(IMAGES_OF_A_CHILD, Ordering::Relaxed);
            let end = (first + IMAGES_OF_A_CHILD).min(seed + count);
            if first >= end {
                return;
            }
            while first < end {
                if begun.elapsed() > most {
                    return;
                }
                let told = child(first, end);
                taken.fetch_add(told.last + 1 - first, Ordering::Relaxed);
                first = told.last + 1;
                let mut all = all.lock().unwrap();
                told.answers.into_iter().for_each(|(answer, count)| *all.entry(answer).or_default() += count);
                println!("{:?}: {} images, {:?}", begun.elapsed(), taken.load(Ordering::Relaxed), *all);
                if let Some(ended) = told.ended {
                    let description = describe(told.last);
                    println!("image {}: {ended}: {description}", told.last);
                    crashes.lock().unwrap().push((told.last, ended, description));
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let children = std::thread::available_parallelism().map_or(2, |count| count.get());
        (0..children).for_each(|_| drop(scope.spawn(work)));
    });
    let crashes = std::mem::take(&mut *crashes.lock().unwrap());
    println!(
        "{} images, {:?}; crashed or hung: {crashes:#?}",
        taken.load(Ordering::Relaxed),
        all.lock().unwrap()
    );
    assert!(crashes.is_empty(), "{} images", crashes.len());
}

fn describe(number: u64) -> String {
    if number % 64 == 63 {
        return "a text with options".to_owned();
    }
    let bases = bases();
    let (which, changes, length) = damaged(&bases, number);
    format!("{} changed at {changes:?}, {length} of {} bytes", bases[which].0, bases[which].1.len())
}

/// Images by which an H100's driver ended the process, as they were found: with the base, and what is changed.
#[test]
fn images_that_have_crashed_a_driver_are_refused() {
    let zero = vec![0; 4];
    let crashes: [(&str, Changes); 15] = [
        // Where the options of a text are.
        ("plain.fatbin", vec![(36, zero.clone())]),
        ("lz4.fatbin", vec![(36, zero.clone())]),
        ("zstd.fatbin", vec![(36, zero.clone()), (18, vec![2, 1])]),
        ("compressed.fatbin", vec![(1020, zero.clone())]),
        ("several.fatbin", vec![(3668, zero.clone())]),
        ("nvfatbin.fatbin", vec![(332, zero.clone())]),
        ("special.fatbin", vec![(564, zero.clone())]),
        ("targets.fatbin", vec![(3396, zero)]),
        // Who calls whom, and what type a function has.
        ("recursion.cubin", vec![(1656, vec![13, 0, 0, 0])]),
        ("prints.cubin", vec![(1804, vec![4])]),
        ("prints.cubin", vec![(1832, vec![0, 0, 0, 0, 253, 255, 255, 255])]),
        // In which memory a symbol is.
        ("barriers.cubin", vec![(781, vec![176])]),
        // What the symbol of a section is called.
        ("barriers.cubin", vec![(584, vec![1, 0, 0, 0])]),
        // Which section is the note.
        ("votes.cubin", vec![(48, vec![4, 90, 0, 14])]),
        ("votes.cubin", vec![(48, vec![4, 90, 0, 14, 64, 0, 0, 0])]),
    ];
    run(|| {
        let _context = pushed();
        let bases = bases();
        for (name, changes) in crashes {
            let base = &bases.iter().find(|base| base.0 == name).unwrap().1;
            let image = changed(base, &changes, base.len());
            let (refused, calls) = instrument::during(|| Module::load_from_bytes(&image));
            assert_eq!(
                (refused.unwrap_err(), calls.total()),
                (CudaError::InvalidImage, 0),
                "{name} {changes:?}"
            );
            let (library, calls) = instrument::during(|| Library::load(&image, &JitOptions::new()));
            assert_eq!(
                (library.err(), calls.total()),
                (Some(CudaError::InvalidImage), 0),
                "{name} {changes:?}"
            );
        }
    });
}

/// The part of the above that each run of the tests has, in this process: a panic of custack's is a failure, and on the
/// simulated driver so is a misuse. A GPU gets none of these images here.
#[test]
fn the_check_of_machine_code_takes_any_bytes() {
    if !is_simulated() {
        return crate::harness::skip(
            "the_check_of_machine_code_takes_any_bytes",
            "children give such images to a GPU",
        );
    }
    run(|| {
        let _context = pushed();
        let bases = bases();
        let mut answers = [0; 2];
        for number in (0..times(600, 6000)).filter(|number| number % 64 != 63) {
            answers[usize::from(take(number, &bases) == Ok(true))] += 1;
        }
        assert!(answers.iter().all(|count| *count > times(30, 300)), "{answers:?}");
    });
}
