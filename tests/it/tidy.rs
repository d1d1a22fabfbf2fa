//! The source itself: which modules use which, what stands where, how long files are.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below a folder with this ending, with its path from the root.
pub(crate) fn files(folder: &str, ending: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![root().join(folder)];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                // A package of its own may be built where it is.
                if !path.ends_with("target") {
                    open.push(path);
                }
            } else if path.to_string_lossy().ends_with(ending) {
                let name = path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    assert!(!found.is_empty());
    found
}

/// The test binary may run without the source of all packages: in the package of this one, or on a machine that was given
/// the binary alone.
pub(crate) fn has_source(test: &str) -> bool {
    let there = root().join("src").is_dir() && root().join("custack-sim").is_dir();
    if !there {
        crate::harness::skip(test, "the source is not here");
    }
    there
}

#[test]
fn modules_use_only_earlier_modules() {
    if !has_source("modules_use_only_earlier_modules") {
        return;
    }
    let modules = [
        "error",
        "report",
        "sealed",
        "fence",
        "driver",
        "sim",
        "init",
        "device",
        "liveness",
        "shadow_stack",
        "context",
        "stream",
        "event",
        "memory",
        "texture",
        "module",
        "library",
        "function",
        "graph",
        "future",
        "nvrtc",
        "prelude",
    ];
    for (name, text) in files("src", ".rs").iter().filter(|(name, _)| name != "src/lib.rs") {
        let module = name.trim_start_matches("src/").trim_end_matches(".rs").split('/').next().unwrap();
        let at = modules.iter().position(|other| *other == module);
        let at = at.unwrap_or_else(|| panic!("{name} is in a module that has no place in the order"));
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for later in modules[at + 1..].iter().filter(|later| **later != "sim") {
                let used = line.contains(&format!("crate::{later}"));
                assert!(!used, "{name} uses {later}: {line}");
            }
        }
    }
}

#[test]
fn only_the_choice_of_the_driver_uses_the_simulator() {
    if !has_source("only_the_choice_of_the_driver_uses_the_simulator") {
        return;
    }
    // Every other file works through the table, and so is tested with both drivers.
    let may = ["src/driver/instrument.rs", "src/driver/simulated.rs", "src/sim.rs"];
    let files = files("src", ".rs").into_iter();
    let using = files.filter(|(_, text)| text.contains("custack_sim::")).map(|(name, _)| name);
    assert_eq!(using.collect::<Vec<_>>(), may);
}

#[test]
fn a_chapter_has_one_name_on_every_level() {
    if !has_source("a_chapter_has_one_name_on_every_level") {
        return;
    }
    let chapters = files("src/driver/calls", ".rs");
    for (name, _) in chapters.iter().filter(|(name, _)| !name.ends_with("/mod.rs")) {
        let chapter = name.trim_start_matches("src/driver/calls/").trim_end_matches(".rs");
        let chapter = chapter.split('/').next().unwrap();
        assert!(
            root().join(format!("custack-sim/src/{chapter}/abi.rs")).is_file(),
            "{chapter} in the simulated driver"
        );
        // `cuInit` and the driver's version are a single file, and are tested with the driver.
        let places = if chapter == "init" { vec![] } else { vec!["src", "tests/it"] };
        for level in places {
            assert!(root().join(format!("{level}/{chapter}/mod.rs")).is_file(), "{chapter} in {level}");
        }
    }
    for entry in fs::read_dir(root().join("tests/it")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        // An empty folder is none of git's.
        if entry.path().is_dir() && fs::read_dir(entry.path()).unwrap().next().is_none() {
            continue;
        }
        let module = name.trim_end_matches(".rs");
        let here = root().join(format!("src/{module}")).is_dir()
            || root().join(format!("src/{module}.rs")).is_file();
        assert!(
            here || ["main", "harness", "claims", "tidy"].contains(&module),
            "tests/it/{name} tests no module"
        );
    }
}

#[test]
fn the_paths_that_the_pages_mention_exist() {
    if !has_source("the_paths_that_the_pages_mention_exist") {
        return;
    }
    for page in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "tests/README.md"] {
        let text = fs::read_to_string(root().join(page)).unwrap();
        for quoted in text.split('`').skip(1).step_by(2) {
            let path = ["src/", "tests/", "benches/", "examples/", "custack-", "libcuda/"]
                .iter()
                .any(|start| quoted.starts_with(start));
            // What compares with peers is in no package, nor are packages of their own.
            let elsewhere = ["benches/peers", "examples/mpi", "examples/nccl"];
            let left_out = elsewhere.iter().any(|start| quoted.starts_with(start))
                && root().join("Cargo.toml.orig").exists();
            if path && !left_out && !quoted.contains(['<', '*', ' ', '{']) {
                assert!(root().join(quoted).exists(), "{page} names {quoted}");
            }
        }
    }
}

#[test]
fn the_shadow_stack_never_calls_the_driver() {
    if !has_source("the_shadow_stack_never_calls_the_driver") {
        return;
    }
    for (name, text) in files("src/shadow_stack", ".rs") {
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let calls = line.contains("crate::driver") && !line.contains("crate::driver::ffi");
            assert!(!calls && !line.contains("driver()"), "{name}: {line}");
        }
    }
}

/// Every test looks whether a thread calls the driver with a lock that `driver::lock` counts.
#[test]
fn every_lock_is_counted() {
    if !has_source("every_lock_is_counted") {
        return;
    }
    // Here locks are counted by hand, or held for some lines without a call, or while a driver is started.
    let by_themselves = [
        "src/driver/select.rs",
        "src/future/completion.rs",
        "src/future/inbox.rs",
        "src/future/reactor.rs",
        "src/future/slot.rs",
        "src/liveness/queue.rs",
        "src/liveness/registry.rs",
        "src/stream/scope.rs",
    ];
    for (name, text) in files("src", ".rs") {
        let locks = ["lock", "read", "write"].iter().any(|how| text.contains(&format!(".{how}().unwrap")));
        assert_eq!(locks, by_themselves.contains(&name.as_str()), "{name}");
    }
}

#[test]
fn no_file_is_longer_than_400_lines() {
    if !has_source("no_file_is_longer_than_400_lines") {
        return;
    }
    for (name, text) in
        ["src", "custack-sys", "custack-sim/src", "libcuda"].iter().flat_map(|it| files(it, ".rs"))
    {
        assert!(text.lines().count() <= 400, "{name}: {} lines", text.lines().count());
    }
}

#[test]
fn every_wrapper_names_its_driver_function() {
    if !has_source("every_wrapper_names_its_driver_function") {
        return;
    }
    let modules: String = files("src", ".rs").into_iter().map(|(_, text)| text).collect();
    let calls: String = files("src/driver/calls", ".rs").into_iter().map(|(_, text)| text).collect();
    let unwrapped = ["cuCtxCreate_v3"];
    for name in custack::driver::FUNCTIONS {
        if calls.contains(&format!("self.{name}(")) && !unwrapped.contains(name) {
            let plain = name.trim_end_matches("_v2");
            let named = modules.contains(&format!("\"{plain}\"")) || modules.contains(&format!("\"{name}\""));
            assert!(named, "{name} has a wrapper without its doc alias");
        }
    }
}

/// Every public enum, and every public struct with public fields, by its file, its name, and what stands over it.
fn open_types() -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    for (file, text) in files("src", ".rs") {
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        for (at, line) in lines.iter().enumerate() {
            let body = lines[at + 1..].iter().take_while(|line| !line.starts_with('}'));
            let Some(rest) = line.strip_prefix("pub enum ").or_else(|| {
                let fields = body.filter(|line| line.starts_with("pub ")).count() > 0;
                line.strip_prefix("pub struct ")
                    .filter(|rest| (fields && rest.ends_with('{')) || rest.contains("(pub "))
            }) else {
                continue;
            };
            let name: String =
                rest.chars().take_while(|c| c.is_alphanumeric() || "_$".contains(*c)).collect();
            let above = lines[..at].iter().rev();
            let above: String = above
                .take_while(|line| line.starts_with('#') || line.starts_with("$(#") || line.starts_with("//"))
                .copied()
                .collect();
            found.push((file.clone(), name, above));
        }
    }
    found
}

#[test]
fn what_may_grow_cannot_be_matched_to_the_end_or_built_by_its_fields() {
    if !has_source("what_may_grow_cannot_be_matched_to_the_end_or_built_by_its_fields") {
        return;
    }
    // RustaCUDA's own, which programs match and build as they always did; a hidden variant keeps most of its enums open.
    let rustacudas = [
        "ArrayFormat",
        "CacheConfig",
        "CudaError",
        "DeviceAttribute",
        "EventStatus",
        "FunctionAttribute",
        "ResourceLimit",
        "SharedMemoryConfig",
        "StreamPriorityRange",
    ];
    let types = open_types();
    for (file, name, above) in &types {
        let listed = rustacudas.contains(&name.as_str())
            // RustaCUDA's GridSize and BlockSize.
            || (name == "$name" && file == "src/function/size.rs");
        let handed_on = name.starts_with('$') && above.contains("$(#[");
        let closed = above.contains("#[non_exhaustive]");
        assert!(closed != listed || (handed_on && !listed), "{file}: {name} is non_exhaustive: {closed}");
    }
    for name in rustacudas {
        assert!(types.iter().any(|(_, other, _)| *other == name), "{name} is listed, and not there");
    }
}

#[test]
fn dependencies_and_features_have_their_reasons() {
    if !has_source("dependencies_and_features_have_their_reasons") {
        return;
    }
    // In a package the manifest is rewritten; the original lies beside it.
    let written = fs::read_to_string(root().join("Cargo.toml.orig"));
    let manifest = written.unwrap_or_else(|_| fs::read_to_string(root().join("Cargo.toml")).unwrap());
    let mut before = "";
    let mut section = "";
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        } else if (section.contains("dependencies") && line.contains('='))
            || (section == "[features]" && line.contains('=') && !line.starts_with("default ="))
        {
            assert!(before.starts_with("# "), "no reason above: {line}");
        }
        before = line;
    }
}
