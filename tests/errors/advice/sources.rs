//! The advices in the sources of the client, the store and jobs: what stands in a call of `advise`, or is returned by
//! `ErrorKind::advice`.

use std::fs;
use std::path::{Path, PathBuf};

/// All advices, as the sources have them: of a format, with `{..}`.
pub(super) fn advices() -> Vec<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut found = Vec::new();
    for package in ["rowkey-client/src", "rowkey-store/src", "rowkey-patterns/src/job"] {
        let mut files = Vec::new();
        collect(&crates.join(package), &mut files);
        for file in files {
            read(&fs::read_to_string(&file).unwrap_or_default(), &mut found);
        }
    }
    found.sort();
    found.dedup();
    found
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() {
            if name != "tests" {
                collect(&path, files);
            }
        } else if name.to_string_lossy().ends_with(".rs") && name != "tests.rs" {
            files.push(path);
        }
    }
}

fn read(source: &str, found: &mut Vec<String>) {
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let code: String = source.lines().filter(is_code).flat_map(|line| [line, "\n"]).collect();
    let mut rest = code.as_str();
    while let Some(at) = rest.find(".advise(") {
        let (before, call) = (&rest[..at], &rest[at + ".advise(".len()..]);
        let argument = call.trim_start().trim_start_matches("format!(").trim_start();
        if argument.starts_with('"') {
            found.push(literal(argument));
        } else {
            // A variable: what stands between its last binding and the call.
            let end = argument.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(0);
            let name = &argument[..end];
            let bindings = [format!("let {name} ="), format!("{name}) ="), format!("Some({name})")];
            let bound = bindings.iter().filter_map(|binding| before.rfind(binding)).max();
            let bound = bound.map_or("", |bound| &before[bound..]);
            literals(bound, found);
        }
        rest = call;
    }
    // Functions whose results are advices.
    for head in ["fn advice(", "fn for_existing("] {
        if let Some(at) = code.find(head) {
            let body = &code[at..];
            literals(&body[..body.find("\n}\n").unwrap_or(body.len())], found);
        }
    }
}

/// The texts in a piece of code that are sentences: those with a space.
fn literals(code: &str, found: &mut Vec<String>) {
    let mut rest = code;
    while let Some(at) = rest.find('"') {
        let text = literal(&rest[at..]);
        let raw = rest[at + 1..].find('"').map_or(rest.len(), |end| at + 1 + end + 1);
        if text.contains(' ') {
            found.push(text);
        }
        rest = &rest[raw..];
    }
}

/// The literal that code begins with, on one line.
fn literal(code: &str) -> String {
    let mut text = String::new();
    let mut rest = code[1..].chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' => break,
            '\\' if rest.peek() == Some(&'\n') => {
                while rest.next_if(|c| c.is_whitespace()).is_some() {}
            }
            '\\' => text.extend(rest.next()),
            c => text.push(c),
        }
    }
    text
}
