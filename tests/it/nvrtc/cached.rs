//! Compiled programs that are kept in files.

use super::{is_here, twice};
use custack::nvrtc::{OutputKind, Program};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

/// An empty folder, removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("custack-nvrtc-{}-{number}", std::process::id()));
        Folder(path.join("made/if/need/be"))
    }

    fn files(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(&self.0) else { return Vec::new() };
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let top = self.0.ancestors().nth(4).unwrap();
        let _ = fs::remove_dir_all(top);
    }
}

#[test]
fn a_program_is_compiled_once_for_the_same_text_options_and_kind() {
    if !is_here("a_program_is_compiled_once_for_the_same_text_options_and_kind") {
        return;
    }
    let folder = Folder::new();
    let first = twice().compile_cached(OutputKind::Ptx, &folder.0).unwrap();
    let files = folder.files();
    assert_eq!((files.len(), &first), (1, &twice().compile(OutputKind::Ptx).unwrap()));
    // What is in the file is what comes back: here with another text of the same length.
    let changed = replaced(&files[0], b"add", b"mul");
    assert_eq!(
        twice().compile_cached(OutputKind::Ptx, &folder.0).unwrap(),
        first,
        "a damaged file is not used"
    );
    assert_ne!(fs::read(&files[0]).unwrap(), changed, "it is written anew");
    assert_eq!(twice().compile_cached(OutputKind::Ptx, &folder.0).unwrap(), first);
    assert_eq!(folder.files(), files);

    for (at, other) in [
        twice().option("--use_fast_math"),
        twice().name_expression("twice<int>"),
        twice().name("other.cu"),
        twice().header("unused.h", ""),
    ]
    .into_iter()
    .enumerate()
    {
        other.compile_cached(OutputKind::Ptx, &folder.0).unwrap();
        assert_eq!(folder.files().len(), at + 2);
    }
    twice().compile_cached(OutputKind::Cubin, &folder.0).unwrap();
    assert_eq!(folder.files().len(), 6);
}

#[test]
fn the_files_that_were_used_longest_ago_are_removed_when_there_are_too_many() {
    if !is_here("the_files_that_were_used_longest_ago_are_removed_when_there_are_too_many") {
        return;
    }
    let folder = Folder::new();
    twice().compile_cached(OutputKind::Ptx, &folder.0).unwrap();
    let used = folder.files().remove(0);
    // A sparse file of this size that was modified this long ago.
    let make = |name: &str, mebibytes: u64, hours: u64| {
        let path = folder.0.join(name);
        let file = fs::File::create(&path).unwrap();
        file.set_len(mebibytes << 20).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(3600 * hours)).unwrap();
        path
    };
    let (old, older) = (make("00000000000000aa.custack", 100, 5), make("00000000000000ab.custack", 100, 6));
    let (oldest, new) = (make("00000000000000ac.custack", 100, 7), make("00000000000000ad.custack", 100, 1));
    let (unfinished, being_written) =
        (make("00000000000000ae.77-1", 1, 2), make("00000000000000af.77-1", 1, 0));
    let others = [make("notes.txt", 300, 9), make("00000000000000aa.txt", 300, 9), make("a.custack", 300, 9)];
    let oldest_of_all = SystemTime::now() - Duration::from_secs(3600 * 24);
    fs::File::options().append(true).open(&used).unwrap().set_modified(oldest_of_all).unwrap();

    // Found in its file, which is now the one that was used last; nothing is written, so nothing is removed.
    twice().compile_cached(OutputKind::Ptx, &folder.0).unwrap();
    assert!(oldest.exists() && unfinished.exists());
    twice().compile_cached(OutputKind::Cubin, &folder.0).unwrap();
    let removed = [&oldest, &older, &unfinished].map(|file| file.exists());
    assert_eq!(removed, [false; 3]);
    let kept = [&old, &new, &used, &being_written, &others[0], &others[1], &others[2]];
    assert_eq!(kept.map(|file| file.exists()), [true; 7]);
}

fn replaced(file: &Path, from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut bytes = fs::read(file).unwrap();
    let at = bytes.windows(from.len()).rposition(|window| window == from).unwrap();
    bytes[at..at + to.len()].copy_from_slice(to);
    fs::write(file, &bytes).unwrap();
    bytes
}

#[test]
fn a_file_that_is_cut_or_empty_is_written_anew() {
    if !is_here("a_file_that_is_cut_or_empty_is_written_anew") {
        return;
    }
    let folder = Folder::new();
    let first = twice().compile_cached(OutputKind::Ptx, &folder.0).unwrap();
    let file = folder.files().remove(0);
    let whole = fs::read(&file).unwrap();
    for length in [0, 5, 16, 23, 24, 31, 40, whole.len() / 2, whole.len() - 1] {
        fs::write(&file, &whole[..length]).unwrap();
        assert_eq!(twice().compile_cached(OutputKind::Ptx, &folder.0).unwrap(), first, "{length} bytes");
        assert_eq!(fs::read(&file).unwrap(), whole);
    }
}

/// Whoever writes to the folder can write the sum, too.
#[test]
fn a_damaged_image_whose_sum_is_right_does_not_reach_the_driver() {
    if !is_here("a_damaged_image_whose_sum_is_right_does_not_reach_the_driver") {
        return;
    }
    // Where the section headers are; a text that is machine code instead.
    let cubin = (OutputKind::Cubin, &b"\x7fELF"[..], 0x28, &[0xff][..]);
    let elf = (OutputKind::Ptx, &b"//\n// Generated"[..], 0, &b"\x7fELF\x02\x01\x01"[..]);
    let fatbin = (OutputKind::Ptx, elf.1, 0, &[0x50, 0xed, 0x55, 0xba, 1][..]);
    for (kind, begin, place, damage) in [cubin, elf, fatbin] {
        let folder = Folder::new();
        let first = twice().compile_cached(kind, &folder.0).unwrap();
        let file = folder.files().remove(0);
        let mut bytes = fs::read(&file).unwrap();
        let whole = bytes.clone();
        let image = bytes.windows(begin.len()).position(|window| window == begin).unwrap() + place;
        bytes[image..image + damage.len()].copy_from_slice(damage);
        // The sum follows the first line and its own length, and is over the rest.
        let sum_at = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1 + 8;
        let sum = bytes[sum_at + 8..].iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
            (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        bytes[sum_at..sum_at + 8].copy_from_slice(&sum.to_le_bytes());
        fs::write(&file, &bytes).unwrap();
        assert_eq!(twice().compile_cached(kind, &folder.0).unwrap(), first);
        assert_eq!(fs::read(&file).unwrap(), whole, "it is written anew");
    }
}

#[test]
fn programs_that_include_files_are_compiled_each_time() {
    if !is_here("programs_that_include_files_are_compiled_each_time") {
        return;
    }
    let folder = Folder::new();
    let included = folder.0.join("headers");
    fs::create_dir_all(&included).unwrap();
    let option = format!("--include-path={}", included.display());
    for by in ["17", "18"] {
        fs::write(included.join("by.h"), format!("#define BY {by}")).unwrap();
        for program in [
            Program::new("#include \"by.h\"\n__global__ void add(int *x) { *x += BY; }").option(&option),
            Program::new("  #  include <by.h>\n__global__ void add(int *x) { *x += BY; }").option(&option),
            twice().option(&option),
        ] {
            let compiled = program.compile_cached(OutputKind::Ptx, &folder.0).unwrap();
            let text = String::from_utf8_lossy(compiled.image().as_bytes()).into_owned();
            assert!(text.contains(by) || text.contains("twice"), "{text}");
        }
    }
    assert_eq!(folder.files(), [included], "nothing is kept");
    let own = Program::new("#include \"by.h\"\n__global__ void add(int *x) { *x += BY; }")
        .header("by.h", "#define BY 3");
    own.compile_cached(OutputKind::Ptx, &folder.0).unwrap();
    assert_eq!(folder.files().len(), 2, "a header that was added is part of the program");
}

#[test]
fn programs_in_which_an_include_could_hide_are_compiled_each_time() {
    if !is_here("programs_in_which_an_include_could_hide_are_compiled_each_time") {
        return;
    }
    let folder = Folder::new();
    let hidden = [
        "/**/ #include \"w.h\"",
        "/*\n*/ #include \"w.h\"",
        "# /**/ include \"w.h\"",
        "%:include \"w.h\"",
        "#inc\\\nlude \"w.h\"",
        "#inc\\\r\nlude \"w.h\"",
        "#define H \"w.h\"\n#include H",
        "#if __has_include(\"w.h\")\n#endif\n#define W 3",
        "#define W (__TIME__[0])",
    ];
    for text in hidden {
        let include = folder.0.join("headers");
        fs::create_dir_all(&include).unwrap();
        fs::write(include.join("w.h"), "#define W 3").unwrap();
        let source = format!("{text}\n__global__ void k(int *x) {{ *x = W; }}");
        for program in [
            Program::new(&source).header("H", "").header("w.h", "#define W 3"),
            Program::new("#include \"h.h\"\n")
                .header("h.h", &source)
                .header("H", "")
                .header("w.h", "#define W 3"),
        ] {
            // Some of them do not compile; what matters is that nothing is kept of those that do.
            let _ = program.compile_cached(OutputKind::Ptx, &folder.0);
        }
        let trace = format!("-fdevice-time-trace={}", include.join("trace").display());
        // Otherwise the compiler writes into the folder of the process.
        let pch = format!("-pch-dir={}", include.display());
        let _ = twice().option("-pch").option(&pch).compile_cached(OutputKind::Ptx, &folder.0);
        for option in ["--use-pch=x", &trace, "-I.", "-include=w.h"] {
            let _ = twice().option(option).compile_cached(OutputKind::Ptx, &folder.0);
        }
        assert_eq!(folder.files().len(), 1, "{text}");
    }
}

#[test]
fn programs_that_contain_the_time_are_compiled_each_time_however_it_is_written() {
    if !is_here("programs_that_contain_the_time_are_compiled_each_time_however_it_is_written") {
        return;
    }
    let folder = Folder::new();
    let pasted = "#define PASTE(a, b) a##b\n#define TWICE(a, b) PASTE(a, b)\n";
    let takes = |what: &str| format!("__global__ void k(const char **to) {{ *to = {what}; }}");
    let programs = [
        Program::new(takes("__TIME__")),
        Program::new(takes("__DATE__")),
        Program::new(takes("__TIMESTAMP__")),
        Program::new(format!("{pasted}{}", takes("TWICE(__TI, ME__)"))),
        Program::new(format!("{pasted}{}", takes("PASTE(__D, ATE__)"))),
        Program::new(format!("{pasted}{}", takes("TWICE(__TIMES, TAMP__)"))),
        Program::new(format!("#include \"paste.h\"\n{}", takes("TWICE(__TI, ME__)")))
            .header("paste.h", pasted),
        Program::new(takes("NOW")).option("-DNOW=__TIME__"),
        Program::new(takes("NOW")).option("--define-macro=NOW=__DATE__"),
        Program::new("template <char C> __global__ void k(char *to) { *to = C; }")
            .name_expression("k<__TIME__[7]>"),
    ];
    let compile = |program: Program| program.compile_cached(OutputKind::Ptx, &folder.0).is_ok();
    // Not all compile with each compiler.
    assert!(programs.into_iter().filter_map(|program| compile(program).then_some(())).count() >= 7);
    assert_eq!(folder.files(), [] as [PathBuf; 0]);
    // An option that custack does not know may read anything.
    twice().option("--dump-everything-to=x").compile_cached(OutputKind::Ptx, &folder.0).unwrap_err();
    twice().option("--no-source-include").compile_cached(OutputKind::Ptx, &folder.0).unwrap();
    assert_eq!(folder.files(), [] as [PathBuf; 0]);
    // A macro without the time is a part of the program.
    let kept = Program::new("__global__ void k(int *to) { *to = N; }").option("-DN=3").option("-std=c++17");
    kept.compile_cached(OutputKind::Ptx, &folder.0).unwrap();
    assert_eq!(folder.files().len(), 1);
}

#[test]
fn threads_share_a_folder_and_one_that_cannot_be_written_does_no_harm() {
    if !is_here("threads_share_a_folder_and_one_that_cannot_be_written_does_no_harm") {
        return;
    }
    let folder = Folder::new();
    let expected = twice().compile(OutputKind::Ptx).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..5 {
                    assert_eq!(twice().compile_cached(OutputKind::Ptx, &folder.0).unwrap(), expected);
                }
            });
        }
    });
    assert_eq!(folder.files().len(), 1, "nothing unfinished is left");
    let not_a_folder = folder.files().remove(0);
    assert_eq!(twice().compile_cached(OutputKind::Ptx, not_a_folder).unwrap(), expected);
}
