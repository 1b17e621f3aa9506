//! Rules beyond the compiler: the dependencies of each crate and of its modules, the length of files, that vectors
//! name their source, that doctests run and call public functions, that every pattern has its page,
//! example and tests, that links on pages lead somewhere, and that users read of one crate.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Crates of patterns: each public module is one. What they stand on is checked in dependencies.rs.
const PATTERNS: [&str; 3] = ["rowkey-patterns", "rowkey-worker", "rowkey-encryption"];

/// Patterns that are declarations and jobs of a store: the name of their page and example, and the file of
/// their tests.
const DECLARED: [(&str, &str); 12] = [
    ("blob_index", "tests/store/blob_lists.rs"),
    ("bulk", "tests/store/bulk.rs"),
    ("bulk_delete", "tests/store/bulk_delete.rs"),
    ("denormalized", "tests/store/copies.rs"),
    ("index_entity", "tests/store/value_lists.rs"),
    ("local_index", "tests/store/local_index.rs"),
    ("remote_index", "tests/store/remote_index.rs"),
    ("remote_index_entity", "tests/store/remote_index_entity.rs"),
    ("unique", "tests/store/unique.rs"),
    ("verify", "tests/store/verify.rs"),
    ("view", "tests/store/view.rs"),
    ("wide", "tests/store/wide.rs"),
];

/// Public modules that serve several patterns, which are declared above.
const SHARED: [&str; 2] = ["internals", "job"];

/// A file of source longer than this is about more than one thing.
const MAX_LINES: usize = 900;

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}

/// Runs every check and prints what each finds.
pub(crate) fn check() -> bool {
    let mut faults = Vec::new();
    crate::dependencies::check(&mut faults);
    let mut sources = Vec::new();
    for folder in ["crates", "examples", "tests", "xtask"] {
        collect(&root().join(folder), "rs", &mut sources);
    }
    for path in &sources {
        source(path, &mut faults);
    }
    vectors(&mut faults);
    for package in PATTERNS {
        patterns(package, &mut faults);
    }
    for (name, tests) in DECLARED {
        pattern("rowkey-store", name, &[tests.to_owned()], &mut faults);
    }
    decisions(&mut faults);
    crate::address::check(&mut faults);
    crate::architecture::check(&mut faults);
    crate::commands::check(&mut faults);
    crate::examples::check(&mut faults);
    crate::facade::check(&mut faults);
    crate::pages::check(&mut faults);
    crate::rooms::check(&mut faults);
    crate::words::check(&mut faults);
    for fault in &faults {
        println!("   {fault}");
    }
    faults.is_empty()
}

/// The examples by name, which the manifest of their package lists.
pub(crate) fn examples() -> Vec<String> {
    let manifest = fs::read_to_string(root().join("examples/Cargo.toml")).unwrap_or_default();
    let mut lines = manifest.lines();
    let mut names = Vec::new();
    while let Some(line) = lines.next() {
        if line == "[[example]]" {
            let name = lines.next().and_then(|line| line.strip_prefix("name = "));
            names.extend(name.map(|name| name.trim_matches('"').to_owned()));
        }
    }
    names
}

fn source(path: &Path, faults: &mut Vec<String>) {
    let Ok(text) = fs::read_to_string(path) else { return };
    let shown = path.strip_prefix(root()).unwrap_or(path).display();
    let is_test = path.components().any(|part| part.as_os_str() == "tests")
        || path.file_stem().is_some_and(|stem| stem == "tests");
    if text.lines().count() > MAX_LINES && !is_test {
        faults.push(format!("{shown} has more than {MAX_LINES} lines: split it"));
    }
    let is_ui = path.components().any(|part| part.as_os_str() == "ui");
    if !text.starts_with("//!") && !is_ui {
        faults.push(format!("{shown} does not begin by saying what it is for (//!)"));
    }
    for (number, line) in text.lines().enumerate() {
        let doc = line.trim_start();
        if (doc.starts_with("/// ```") || doc.starts_with("//! ```")) && doc.contains("ignore") {
            faults.push(format!("{shown}:{}: doctests run; none is ignored", number + 1));
        }
    }
}

/// Adds each decision record that does not begin with its decision.
fn decisions(faults: &mut Vec<String>) {
    let mut records = Vec::new();
    collect(&root().join("docs/src/adr"), "md", &mut records);
    for path in records {
        let text = fs::read_to_string(&path).unwrap_or_default();
        if !text.lines().nth(2).is_some_and(|line| line.starts_with("**Decision:** ")) {
            faults.push(format!("{} does not begin with its **Decision:**", path.display()));
        }
    }
}

/// Recorded bytes name their source. A crate that is published has a copy of those that its tests read, and
/// all copies are the same.
fn vectors(faults: &mut Vec<String>) {
    let mut known: BTreeMap<OsString, Vec<u8>> = BTreeMap::new();
    for package in fs::read_dir(root().join("crates")).into_iter().flatten().flatten() {
        for entry in fs::read_dir(package.path().join("vectors")).into_iter().flatten().flatten() {
            let path = entry.path();
            let bytes = fs::read(&path).unwrap_or_default();
            let is_recorded = path.extension().is_some_and(|extension| extension == "http");
            if is_recorded && !bytes.starts_with(b"source: ") {
                faults.push(format!("{} does not name its source", path.display()));
            }
            if known.entry(entry.file_name()).or_insert_with(|| bytes.clone()) != &bytes {
                faults.push(format!("{} differs from another copy", path.display()));
            }
        }
    }
}

/// Each public module of a crate of patterns is a pattern, and comes with everything.
fn patterns(package: &str, faults: &mut Vec<String>) {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap_or_default();
    let library = read(&format!("crates/{package}/src/lib.rs"));
    let modules = library.lines().filter_map(|line| line.strip_prefix("pub mod "));
    let modules = modules.map(|module| module.trim_end_matches(';'));
    for module in modules.filter(|module| !SHARED.contains(module)) {
        let tests =
            [format!("tests/patterns/{module}.rs"), format!("tests/patterns/{module}/mod.rs")];
        pattern(package, module, &tests, faults);
    }
}

/// A pattern has a page, an example of its name, and one of these files of tests.
fn pattern(package: &str, name: &str, tests: &[String], faults: &mut Vec<String>) {
    let summary = fs::read_to_string(root().join("docs/src/SUMMARY.md")).unwrap_or_default();
    let page = format!("patterns/{}.md", name.replace('_', "-"));
    if !summary.contains(&format!("({page})")) || !root().join("docs/src").join(&page).exists() {
        faults.push(format!("{package}: {name} has no page docs/src/{page} in SUMMARY.md"));
    }
    if !examples().iter().any(|example| example == name) {
        faults.push(format!("{package}: {name} has no example named {name}"));
    }
    // A file, or a folder where there is a file for each subject.
    let exists = |path: &String| {
        let path = root().join(path);
        path.exists() || path.with_extension("").join("mod.rs").exists()
    };
    if !tests.iter().any(exists) {
        faults.push(format!("{package}: {name} has no {}", tests[0]));
    }
}

/// The folder of what cargo builds.
pub(crate) fn target() -> PathBuf {
    let chosen = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    root().join(chosen.unwrap_or_else(|| "target".into()))
}

/// Adds the files below a folder that have an extension, without those that are no source.
pub(crate) fn collect(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() {
            if name != "target"
                && name != "node_modules"
                && !name.to_string_lossy().starts_with('.')
            {
                collect(&path, extension, found);
            }
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
}
