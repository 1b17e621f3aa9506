//! Examples in the documentation: which public functions no example of their crate calls.
//!
//! Counted are functions that send requests (`pub async fn`) and methods of builders, which return `Self`.
//! A function has an example if a code block in the documentation of its crate calls one of its name.

use std::fs;

use crate::structure::{collect, root};

/// How many functions without an example each crate has. New ones come with an example, so lower a figure
/// when it falls, and do not raise it.
const WITHOUT: [(&str, usize); 10] = [
    ("rowkey-client", 15),
    ("rowkey-emulator", 6),
    ("rowkey-encryption", 5),
    ("rowkey-entity", 0),
    ("rowkey-metrics", 0),
    ("rowkey-otel", 0),
    ("rowkey-patterns", 2),
    ("rowkey-store", 5),
    ("rowkey-transfer", 0),
    ("rowkey-worker", 7),
];

pub(crate) fn check(faults: &mut Vec<String>) {
    for (package, most) in WITHOUT {
        let mut files = Vec::new();
        collect(&root().join("crates").join(package).join("src"), "rs", &mut files);
        let texts: Vec<_> =
            files.iter().map(|path| fs::read_to_string(path).unwrap_or_default()).collect();
        let examples: Vec<_> = texts.iter().flat_map(|text| examples(text)).collect();
        let functions = texts.iter().flat_map(|text| functions(text));
        let lacking: Vec<_> = functions.filter(|name| !is_called(name, &examples)).collect();
        if lacking.len() > most {
            let (count, names) = (lacking.len(), lacking.join(", "));
            faults.push(format!(
                "{package} has {count} public functions that no example calls, instead of {most}: {names}"
            ));
        }
    }
}

/// The lines of the code blocks in the documentation of a file.
fn examples(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    let docs = text.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))
    });
    docs.filter(move |line| {
        is_code ^= line.trim_start().starts_with("```");
        is_code
    })
}

/// The names of the public functions of a file that send requests or return `Self`.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    let lines: Vec<_> = text.lines().take_while(|line| !line.ends_with("mod tests {")).collect();
    let mut names = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let line = line.trim_start();
        let is_hidden = at > 0 && lines[at - 1].contains("#[doc(hidden)]");
        let signature = || lines[at..].iter().take_while(|line| !line.contains("    }"));
        let name = line.strip_prefix("pub async fn ").or_else(|| {
            let name = line.strip_prefix("pub fn ")?;
            let end = signature().find(|line| line.ends_with('{'))?;
            end.contains("-> Self ").then_some(name)
        });
        let name = name.and_then(|name| name.split(['(', '<']).next());
        names.extend(name.filter(|name| !is_hidden && !name.starts_with('$')));
    }
    names.into_iter()
}

fn is_called(name: &str, examples: &[&str]) -> bool {
    examples.iter().any(|line| {
        line.match_indices(name).any(|(at, _)| {
            let (before, after) = (&line[..at], &line[at + name.len()..]);
            before.ends_with(['.', ':', ' ', '(', '!']) && after.starts_with(['(', ':', ')', ';'])
        })
    })
}
