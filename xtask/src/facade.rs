//! What users read names one crate: pages and documentation write `rowkey::store::..`, and not the crate that the facade shows
//! there. Links of the documentation go through the crates, so what a link leads to is not looked at.

use std::fs;
use std::path::Path;

use crate::structure::{collect, root};

/// The crates behind the facade, as code names them. Programs without a client do name `rowkey_entity`.
const BEHIND: [&str; 5] = ["client", "encryption", "patterns", "store", "worker"];

/// Pages for those who change the crates.
const OF_CRATES: [&str; 4] = ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/src/adr"];

/// Adds each line for users that names a crate behind the facade.
pub(crate) fn check(faults: &mut Vec<String>) {
    let mut files = Vec::new();
    for extension in ["md", "rs"] {
        for folder in ["benches", "crates", "docs", "examples"] {
            collect(&root().join(folder), extension, &mut files);
        }
    }
    files.extend(["README.md", "SECURITY.md"].map(|name| root().join(name)));
    for path in files {
        let shown = path.strip_prefix(root()).unwrap_or(&path);
        if OF_CRATES.iter().any(|page| shown.starts_with(page)) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap_or_default();
        for (number, name) in named(&text, is_source(shown)) {
            let shown = shown.display();
            faults.push(format!("{shown}:{number} names {name}: users write its path in rowkey"));
        }
    }
}

fn is_source(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rs")
}

/// The numbered lines that name a crate behind the facade. Of sources, those of the documentation.
fn named(text: &str, is_source: bool) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let documented = line.trim_start();
        let documented = documented
            .strip_prefix("///")
            .or_else(|| documented.strip_prefix("//!"))
            .map(str::trim);
        let Some(line) = (if is_source { documented } else { Some(line) }) else { continue };
        // Hidden lines of an example, and where `[name]` leads.
        if line.starts_with("# ") && is_source || line.starts_with('[') && line.contains("]: ") {
            continue;
        }
        // Comments of private modules speak of this crate; some of its types are public, with examples.
        if line.starts_with("use rowkey_wire::") {
            found.push((number, "rowkey_wire".to_owned()));
        }
        let mut pieces = line.split("](");
        let first = pieces.next().unwrap_or_default();
        let behind_links = pieces.map(|piece| piece.split_once(')').map_or("", |(_, rest)| rest));
        for name in std::iter::once(first).chain(behind_links).flat_map(words) {
            if BEHIND.iter().any(|behind| name.strip_prefix("rowkey_") == Some(behind)) {
                found.push((number, name.to_owned()));
            }
        }
    }
    found
}

/// The identifiers of a line, without names of files such as `rowkey_encryption.py`.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '.');
    words.map(|word| word.trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_behind_the_facade_are_found_where_users_read() {
        let page = "use rowkey_store::Store;\nuse rowkey::store::Store;\nuse rowkey_entity::Key;\n\
                    `rowkey_encryption`, by `tests/rowkey_encryption.py`\n\
                    of rowkey_store.\n";
        let numbers = |text, is_source| -> Vec<_> {
            named(text, is_source).into_iter().map(|(number, _)| number).collect()
        };
        assert_eq!(numbers(page, false), [1, 4, 5]);
        let source = "//! use rowkey_store::Store;\nuse rowkey_client::Table;\n/// # use rowkey_wire as rowkey;\n\
                      /// A [table](rowkey_client::Table) of `rowkey_client`, a [`rowkey_client::Queue`].\n\
                      /// [table]: rowkey_client::Table\n/// use rowkey_wire::edm::Value;\n";
        assert_eq!(numbers(source, true), [1, 4, 4, 6]);
    }
}
