//! Words that make a sentence say less than it could: a sentence with one of them names neither who acts
//! nor how much. Each has a number of places where it may stand, as in a quotation or a name.

use std::fs;
use std::path::{Path, PathBuf};

use crate::structure::root;

/// The words, in two pieces so that this file has none of them; how often they may stand in all, and what to write.
const WORDS: [(&str, usize, &str); 6] = [
    (
        concat!("no", "body"),
        10,
        "name what does not act: `no client`, `no request`; or use the passive",
    ),
    (concat!("some", "body"), 10, "name what acts: `another client`, `the worker`"),
    (concat!("who", "ever"), 10, "name what acts: `the holder`, `a program that ..`"),
    (concat!("what", "ever"), 12, "say what is meant: `any`, `every`, `through every failure`"),
    (concat!("which", "ever"), 3, "say what is meant: `any`, `each`, `if any request fails`"),
    (concat!("so ", "many"), 0, "say the number, or name the parameter that says it"),
];

/// The folders and the extensions of checked files.
const FOLDERS: [&str; 7] = ["benches", "crates", "docs", "examples", "packages", "tests", "xtask"];
const EXTENSIONS: [&str; 2] = ["rs", "md"];

/// Adds each word that stands too often, with its places.
pub(crate) fn check(faults: &mut Vec<String>) {
    let mut paths = Vec::new();
    for folder in FOLDERS {
        collect(&root().join(folder), &mut paths);
    }
    paths.extend(
        ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
            .map(|name| root().join(name)),
    );
    let texts: Vec<_> = paths
        .iter()
        .map(|path| (path, fs::read_to_string(path).unwrap_or_default().to_lowercase()))
        .collect();
    for (word, most, advice) in WORDS {
        let places: Vec<_> =
            texts.iter().flat_map(|(path, text)| found(path, text, word)).collect();
        if places.len() > most {
            faults.push(format!(
                "\"{word}\" stands {} times, at most {most}: {advice}",
                places.len()
            ));
            faults.extend(places.into_iter().map(|place| format!("  {place}")));
        }
    }
}

/// The places of a word in a text that is in lower case.
fn found(path: &Path, text: &str, word: &str) -> Vec<String> {
    let shown = path.strip_prefix(root()).unwrap_or(path).display();
    let is_whole = |line: &str, at: usize| {
        let is_letter = |byte: Option<&u8>| {
            byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        };
        let bytes = line.as_bytes();
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        !is_letter(before) && !is_letter(bytes.get(at + word.len()))
    };
    let lines = (1..).zip(text.lines());
    lines
        .filter(|(_, line)| line.match_indices(word).any(|(at, _)| is_whole(line, at)))
        .map(|(number, _)| format!("{shown}:{number}"))
        .collect()
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let is_source = |path: &Path| {
            path.extension().is_some_and(|one| EXTENSIONS.iter().any(|known| one == *known))
        };
        let is_foreign =
            name == "target" || name == "node_modules" || name.to_string_lossy().starts_with('.');
        if path.is_dir() && !is_foreign {
            collect(&path, paths);
        } else if is_source(&path) {
            paths.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_whole_and_with_its_line() {
        let path = root().join("a.md");
        let text = "thing\nfor (thing, else)\nthings is_thing thing_\n";
        assert_eq!(found(&path, text, "thing"), ["a.md:1", "a.md:2"]);
        assert_eq!(found(&path, "two words\ntwo\nwords", "two words"), ["a.md:1"]);
    }
}
