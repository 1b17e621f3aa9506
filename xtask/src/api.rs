//! `cargo xtask api [--check]`: the public API of each published library as text, in `docs/api`.
//!
//! A change of it shows in a review, and `--check` fails if the text is not that of the code. Needs a nightly compiler,
//! for the JSON of rustdoc, and cargo-public-api:
//!
//! ```console
//! $ rustup toolchain install NIGHTLY --profile minimal
//! $ cargo install cargo-public-api --version PUBLIC_API --locked
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::structure::{root, target};

/// The compiler. Its JSON is of the version that cargo-public-api reads, so the two change together.
const NIGHTLY: &str = "nightly-2026-05-20";

/// The program, which the workflow installs in this version.
const PUBLIC_API: &str = "0.52.0";

/// Writes the texts, or compares them with the code.
pub(crate) fn run(is_check: bool) -> bool {
    let folder = root().join("docs/api");
    let libraries = crate::package::published().into_iter();
    let libraries =
        libraries.filter(|name| root().join("crates").join(name).join("src/lib.rs").exists());
    let mut is_good = true;
    for name in libraries {
        let Some(text) = text(&name) else {
            println!(
                "   {name}: see the errors above; it takes {NIGHTLY} and cargo-public-api {PUBLIC_API}"
            );
            return false;
        };
        let path = folder.join(format!("{name}.txt"));
        let before = fs::read_to_string(&path).unwrap_or_default();
        if is_check {
            let changes = changes(&before, &text);
            for change in &changes {
                println!("   {name}: {change}");
            }
            is_good &= changes.is_empty();
        } else {
            let written = fs::create_dir_all(&folder).and_then(|()| fs::write(&path, &text));
            println!("   docs/api/{name}.txt: {} lines", text.lines().count());
            is_good &= written.is_ok();
        }
    }
    if !is_good && is_check {
        println!(
            "   `cargo xtask api` writes what has changed; CHANGELOG.md says what users notice"
        );
    }
    is_good
}

/// The public items of a library with all features, one a line, without auto traits and derived impls.
fn text(name: &str) -> Option<String> {
    let output = Command::new("rustup")
        .args(["run", NIGHTLY, "cargo", "public-api", "-p", name, "--all-features"])
        .args(["--omit", "blanket-impls,auto-trait-impls,auto-derived-impls", "--color", "never"])
        .current_dir(root())
        .env("CARGO_TARGET_DIR", target().join("api"))
        .stderr(std::process::Stdio::inherit())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// Lines that are gone, and lines that are new.
fn changes(before: &str, after: &str) -> Vec<String> {
    let (before, after): (BTreeSet<_>, BTreeSet<_>) =
        (before.lines().collect(), after.lines().collect());
    let gone = before.difference(&after).map(|line| format!("- {line}"));
    gone.chain(after.difference(&before).map(|line| format!("+ {line}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_and_added_names_are_reported() {
        assert_eq!(changes("a\nb\n", "b\nc\n"), ["- a", "+ c"]);
        assert_eq!(changes("a\nb\n", "a\nb\n"), Vec::<String>::new());
    }
}
