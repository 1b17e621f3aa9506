//! ARCHITECTURE.md is true of the tree: each path that it names exists.

use std::fs;
use std::path::Path;

use crate::structure::root;

/// The folders of the repository whose paths are recognized between backticks.
const FOLDERS: [&str; 8] =
    ["benches", "crates", "docker", "docs", "examples", "packages", "tests", "xtask"];

/// Adds each path of ARCHITECTURE.md that does not exist.
pub(crate) fn check(faults: &mut Vec<String>) {
    match fs::read_to_string(root().join("ARCHITECTURE.md")) {
        Ok(text) => faults.extend(missing(&text, &root())),
        Err(_) => faults.push("ARCHITECTURE.md does not exist".to_owned()),
    }
}

/// The paths that a text names between backticks and that do not exist below `root`.
fn missing(text: &str, root: &Path) -> Vec<String> {
    let mut faults = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        // Every second piece stands between backticks.
        for name in line.split('`').skip(1).step_by(2).filter(|name| is_path(name)) {
            if !root.join(name).exists() {
                faults.push(format!("ARCHITECTURE.md:{number}: {name} does not exist"));
            }
        }
    }
    faults
}

/// Whether a piece of code is a path of the repository: a folder, a file in one, or a page.
fn is_path(name: &str) -> bool {
    let first = name.split('/').next().unwrap_or_default();
    let is_page = Path::new(name).extension().is_some_and(|extension| extension == "md");
    !name.contains(' ') && (FOLDERS.contains(&first) || is_page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_paths_are_reported_and_code_is_not_parsed_as_a_path() {
        let text = "`xtask/src/main.rs` and `xtask/src/gone.rs`\n`Table::insert` in `crates`\n\
                    `GONE.md`, `cargo xtask ci`, tests/gone.rs\n";
        assert_eq!(
            missing(text, &root()),
            [
                "ARCHITECTURE.md:1: xtask/src/gone.rs does not exist",
                "ARCHITECTURE.md:3: GONE.md does not exist",
            ]
        );
    }
}
