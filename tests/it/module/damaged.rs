//! Damaged texts and fatbins, as many as one has time for: each is refused or loads, and what loads runs or fails.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::harness::{is_simulated, pushed, run, skip, table};
use custack::sim;
use std::ffi::{CString, c_void};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// No image takes longer, and all together never have more memory.
const MOST_TIME: Duration = Duration::from_secs(10);
const MOST_MEMORY: u64 = 2 << 30;
/// Kernels that load are executed so far.
const STEPS: u64 = 20_000;

/// Numbers that follow from the one that it begins with.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }

    fn of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }
}

const NUMBERS: &[&str] = &[
    "0",
    "-1",
    "1",
    "31",
    "32",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "0x7fffffffffffffff",
    "0f7FC00000",
    "1e999",
];

/// A text in which some words, lines or bytes are others.
fn damaged_text(whole: &str, random: &mut Random) -> Vec<u8> {
    let mut lines: Vec<String> = whole.lines().map(str::to_owned).collect();
    let words: Vec<&str> = whole.split(|c: char| c.is_whitespace() || ",;[]{}()+".contains(c)).collect();
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    for _ in 0..=random.below(3) {
        let (at, other) = (random.below(lines.len()), random.below(lines.len()));
        let word = random.of(&words);
        match random.below(7) {
            0 => lines[at].clear(),
            1 => lines.swap(at, other),
            2 => lines[at] = lines[other].clone(),
            kind @ 3..=5 => {
                // A word of the line becomes another one of the text, a number, or a part of itself.
                let own = lines[at].clone();
                let own: Vec<&str> =
                    own.split(|c: char| c.is_whitespace() || ",;[]{}()+".contains(c)).collect();
                let old = random.of(&own);
                let new = match kind {
                    3 => word.to_owned(),
                    4 => random.of(NUMBERS).to_owned(),
                    _ => old.chars().take(random.below(old.len())).collect(),
                };
                if !old.is_empty() {
                    lines[at] = lines[at].replacen(old, &new, 1);
                }
            }
            _ => {
                let mut bytes = std::mem::take(&mut lines[at]).into_bytes();
                let place = random.below(bytes.len() + 1);
                if random.below(2) == 0 && place < bytes.len() {
                    bytes.remove(place);
                } else {
                    bytes.insert(
                        place,
                        random.of(&[",", ";", "{", "}", "[", "]", "(", ".", "%", "@", "\"", ":"]).as_bytes()
                            [0],
                    );
                }
                lines[at] = String::from_utf8_lossy(&bytes).into_owned();
            }
        }
    }
    let mut text = lines.join("\n").into_bytes();
    if random.below(16) == 0 {
        text.truncate(random.below(text.len()));
    }
    text.retain(|byte| *byte != 0);
    text.push(0);
    text
}

fn damaged_bytes(whole: &[u8], random: &mut Random) -> Vec<u8> {
    let mut image = whole.to_vec();
    for _ in 0..=random.below(3) {
        let near = [80, 250, image.len()][random.below(3)].min(image.len());
        let (place, size) = (random.below(near).max(4), [1, 2, 4, 8][random.below(4)]);
        let value = match random.below(5) {
            0 => 0,
            1 => u64::MAX >> random.below(64),
            2 => 1 << random.below(64),
            3 => random.below(300) as u64,
            _ => u64::from(image[place]) ^ 1 << random.below(8),
        };
        for (to, byte) in image.iter_mut().skip(place).zip(value.to_le_bytes()).take(size) {
            *to = byte;
        }
    }
    if random.below(8) == 0 {
        image.truncate(4 + random.below(whole.len() - 4));
    }
    image
}

/// The names of the kernels of a text.
fn kernels(text: &str) -> Vec<CString> {
    let names = text.split(".entry ").skip(1).filter_map(|rest| rest.split(['(', '\n', ' ']).next());
    names.map(|name| CString::new(name).unwrap()).collect()
}

/// The most memory that this process has had, in bytes, where the system says it.
fn most_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
    1024 * line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
}

/// Loads an image and launches its kernels, in a context of its own: says whether it loaded, and how many have run.
fn load_and_run(file: &Path, names: &[CString]) -> (bool, usize) {
    let _ctx = pushed();
    let (path, mut module) = (CString::new(file.to_str().unwrap()).unwrap(), null_mut());
    if unsafe { (table().cuModuleLoad)(&mut module, path.as_ptr()) } != 0 {
        return (false, 0);
    }
    // Whatever a parameter is, it begins with the address of a buffer.
    let mut buffer = 0;
    assert_eq!(unsafe { (table().cuMemAlloc_v2)(&mut buffer, 1 << 20) }, 0);
    let mut values = vec![buffer; 1 << 13];
    let mut parameters = vec![values.as_mut_ptr().cast::<c_void>(); 4096];
    let mut run = 0;
    for name in names {
        let mut function = null_mut();
        if unsafe { (table().cuModuleGetFunction)(&mut function, module, name.as_ptr()) } != 0 {
            continue;
        }
        let (shared, none) = (1024, null_mut());
        let launched = unsafe {
            (table().cuLaunchKernel)(
                function,
                2,
                1,
                1,
                48,
                1,
                1,
                shared,
                none,
                parameters.as_mut_ptr(),
                null_mut(),
            )
        };
        run += usize::from(launched == 0 && unsafe { (table().cuCtxSynchronize)() } == 0);
    }
    unsafe { (table().cuModuleUnload)(module) };
    unsafe { (table().cuMemFree_v2)(buffer) };
    (true, run)
}

/// Damages images from a number on, and returns how many were refused, have loaded, and how many kernels have run.
fn damage(first: u64, count: usize, texts: &[String], fatbins: &[Vec<u8>]) -> [usize; 3] {
    let mut random = Random(first);
    let name = format!("custack-damaged-{}-{first}", std::process::id());
    let file = std::env::temp_dir().join(name);
    let (mut found, which) = ([0; 3], [c"which".to_owned()]);
    for number in 0..count {
        let (image, names) = if number % 4 == 0 {
            (damaged_bytes(&fatbins[random.below(fatbins.len())], &mut random), which.to_vec())
        } else {
            let text = &texts[random.below(texts.len())];
            (damaged_text(text, &mut random), kernels(text))
        };
        std::fs::write(&file, &image).unwrap();
        let begun = Instant::now();
        let (has_loaded, run) = load_and_run(&file, &names);
        let took = begun.elapsed();
        assert!(took < MOST_TIME, "image {number} from {first} takes {took:?}: {}", file.display());
        found[usize::from(has_loaded)] += 1;
        found[2] += run;
    }
    std::fs::remove_file(&file).unwrap();
    found
}

fn images() -> (Vec<String>, Vec<Vec<u8>>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let with = |folder: &str, extension: &str| {
        let files = std::fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = files.filter(|it| it.extension().is_some_and(|it| it == extension)).collect();
        files.sort();
        files
    };
    let texts = with("custack-sim/tests/it/instructions/kernels", "ptx")
        .into_iter()
        .map(|it| std::fs::read_to_string(it).unwrap());
    let fatbins = with("tests/it/module/images", "fatbin").into_iter().map(|it| std::fs::read(it).unwrap());
    (texts.collect(), fatbins.collect())
}

fn damage_many(count: usize) -> [usize; 3] {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        before(info);
    }));
    let limit = sim::limit_kernels(STEPS);
    let (texts, fatbins) = images();
    let all = std::thread::scope(|scope| {
        let work = |first| damage(first, count / 2, &texts, &fatbins);
        let other = scope.spawn(move || work(2));
        let own = work(1);
        let other = other.join().unwrap();
        std::array::from_fn(|at| own[at] + other[at])
    });
    sim::limit_kernels(limit);
    assert_eq!(PANICS.load(Ordering::Relaxed), 0, "panics");
    assert!(most_memory() < MOST_MEMORY, "{} bytes", most_memory());
    all
}

/// As many as `CUSTACK_DAMAGED` says.
#[test]
#[ignore = "started by hand, as it takes minutes; see tests/README.md"]
fn damaged_images_are_refused_or_run() {
    if !is_simulated() {
        return skip("damaged_images_are_refused_or_run", "a GPU may not survive them");
    }
    let count = std::env::var("CUSTACK_DAMAGED").map_or(100_000, |count| count.parse().unwrap());
    run(move || {
        let begun = Instant::now();
        let [refused, loaded, ran] = damage_many(count);
        assert!(refused > count / 4 && loaded > count / 4 && ran > count / 20, "{refused} {loaded} {ran}");
        println!(
            "{count} damaged images in {:?}: {refused} are refused, {loaded} load, {ran} of their kernels end without \
             an error; the most memory was {} MB",
            begun.elapsed(),
            most_memory() >> 20
        );
    });
}
