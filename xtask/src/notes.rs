//! `cargo xtask notes VERSION`: the changelog of a version, for the page of its release.
//!
//! Fails unless that is the version of the workspace and has a section, so that a tag is never one that nothing
//! describes.

use std::fs;

use crate::structure::root;

/// Prints the section of a version.
pub(crate) fn run(version: &str) -> bool {
    let read = |name: &str| fs::read_to_string(root().join(name)).unwrap_or_default();
    let manifest = read("Cargo.toml");
    if !manifest.lines().any(|line| line == format!("version = \"{version}\"")) {
        eprintln!("Cargo.toml does not have the version {version}");
        return false;
    }
    let Some(section) = section(&read("CHANGELOG.md"), version) else {
        eprintln!("CHANGELOG.md has no section `## {version}`, or an empty one");
        return false;
    };
    println!("{section}");
    true
}

/// The text below the heading `## VERSION`, which may end with a date, up to the next heading.
fn section(changelog: &str, version: &str) -> Option<String> {
    let is_wanted = |line: &str| {
        let heading =
            line.strip_prefix("## ").and_then(|heading| heading.split_whitespace().next());
        heading == Some(version)
    };
    let mut lines = changelog.lines().skip_while(|line| !is_wanted(line));
    lines.next()?;
    let section: Vec<_> = lines.take_while(|line| !line.starts_with("## ")).collect();
    let section = section.join("\n").trim().to_owned();
    (!section.is_empty()).then_some(section)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_ends_with_the_next_version() {
        let changelog = "# Changelog\n\n## Unreleased\n\n- c\n\n## 0.2.0 (2026-12-01)\n\n### a\n\n- b\n\n## 0.1.0\n\n";
        assert_eq!(section(changelog, "0.2.0").as_deref(), Some("### a\n\n- b"));
        assert_eq!(section(changelog, "0.2"), None);
        assert_eq!(section(changelog, "0.1.0"), None);
    }
}
