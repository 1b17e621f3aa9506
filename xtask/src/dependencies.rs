//! What the crates depend on: which may use which, how many crates one brings, and that each crate that comes in two
//! versions is listed in CONTRIBUTING.md with its cause.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use crate::structure::root;

/// Crates that a crate must not depend on, however indirectly.
const FORBIDDEN: [(&str, &[&str]); 6] = [
    ("rowkey-wire", &["tokio", "reqwest", "hyper"]),
    ("rowkey-entity", &["rowkey-client", "tokio", "reqwest", "hyper"]),
    ("rowkey-emulator", &["rowkey-client", "reqwest"]),
    ("rowkey-control", &["rowkey-client", "reqwest"]),
    ("rowkey-server", &["rowkey-client", "reqwest"]),
    ("rowkey-transfer", &["rowkey-client", "tokio", "reqwest", "hyper"]),
];

/// A program whose TLS needs no C compiler, and what would compile C, or look for a library that was.
const WITHOUT_C: (&str, [&str; 5]) =
    ("rowkey-without-c", ["bindgen", "cc", "cmake", "pkg-config", "vcpkg"]);

/// The crates above the client, and which crates of the workspace each may name. None names the wire crate.
const ABOVE: [(&str, &[&str]); 8] = [
    ("rowkey-cli", &["rowkey", "rowkey-transfer"]),
    ("rowkey-metrics", &["rowkey-client"]),
    ("rowkey-otel", &["rowkey-client"]),
    ("rowkey-patterns", &["rowkey-client"]),
    ("rowkey-store", &["rowkey-client", "rowkey-patterns"]),
    ("rowkey-transfer", &["rowkey-client", "rowkey-entity", "rowkey-patterns"]),
    ("rowkey-worker", &["rowkey-client", "rowkey-patterns", "rowkey-store"]),
    ("rowkey-encryption", &["rowkey-client", "rowkey-patterns", "rowkey-store"]),
];

/// In place of features: none, not even the default ones.
const WITHOUT_DEFAULT: &str = "no default features";

/// How many crates a package may bring with these features, with itself: as many as today. Who adds one changes the number
/// here and on the page.
const MOST: [(&str, &str, usize); 9] = [
    ("rowkey", "rustls", 76),
    ("rowkey", "rustls,store", 84),
    ("rowkey", "rustls,worker,encryption,patterns", 102),
    ("rowkey-emulator", "", 54),
    ("rowkey-server", "", 143),
    ("rowkey-server", WITHOUT_DEFAULT, 110),
    ("rowkey-cli", "", 127),
    ("rowkey-metrics", "", 67),
    ("rowkey-otel", "", 73),
];

/// The page with these numbers.
const PAGE: &str = "docs/src/client/building.md";

/// What users name, with a version that is at least as new. The other packages call hidden items of one another.
const NAMED_BY_USERS: [&str; 5] =
    ["rowkey", "rowkey-emulator", "rowkey-metrics", "rowkey-otel", "rowkey-transfer"];

/// Whose duplicates are listed. The other crates bring no others.
const LISTED: [&str; 3] = ["rowkey", "rowkey-emulator", "rowkey-server"];

/// The heading in CONTRIBUTING.md below which they are listed.
const HEADING: &str = "\n### Crates in two versions\n";

/// A package's crates: the versions of each, by its name.
type Tree = BTreeMap<String, BTreeSet<String>>;

/// Adds the faults in the dependencies.
pub(crate) fn check(faults: &mut Vec<String>) {
    for (package, forbidden) in FORBIDDEN {
        let tree = tree(package, "", faults);
        for name in forbidden.iter().filter(|name| tree.contains_key(**name)) {
            faults.push(format!("{package} must not depend on {name}"));
        }
    }
    for (package, allowed) in ABOVE {
        let manifest = root().join("crates").join(package).join("Cargo.toml");
        let named = named(&fs::read_to_string(manifest).unwrap_or_default());
        for name in named.iter().filter(|name| !allowed.contains(&name.as_str())) {
            faults.push(format!("{package} must not depend on {name}: it may use {allowed:?}"));
        }
    }
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap_or_default();
    for name in unpinned(&manifest) {
        faults.push(format!(
            "Cargo.toml: the version of {name} needs `=`: others call its hidden items"
        ));
    }
    for (package, features, most) in MOST {
        let count: usize = tree(package, features, faults).values().map(BTreeSet::len).sum();
        if count != most {
            faults.push(format!(
                "{package} with {features:?} brings {count} crates with itself, and not {most}: change \
                 xtask/src/dependencies.rs and {PAGE}"
            ));
        }
        let page = fs::read_to_string(root().join(PAGE)).unwrap_or_default();
        let cell = format!("| {most} |");
        if !page.contains(&cell) {
            faults.push(format!("{PAGE} does not show {most} crates of {package}"));
        }
    }
    let (package, compilers) = WITHOUT_C;
    let built = edges(package, "", "normal,build", faults);
    for name in compilers.iter().filter(|name| built.contains_key(**name)) {
        faults.push(format!("{package} must build without a C compiler, and needs {name}"));
    }
    let mut found = BTreeSet::new();
    for package in LISTED {
        let tree = tree(package, "", faults).into_iter();
        found.extend(tree.filter(|(_, versions)| versions.len() > 1).map(|(name, _)| name));
    }
    let listed = listed(&fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap_or_default());
    for name in found.difference(&listed) {
        faults.push(format!("{name} comes in two versions, and CONTRIBUTING.md does not say why"));
    }
    for name in listed.difference(&found) {
        faults.push(format!("CONTRIBUTING.md lists {name}, which comes in one version"));
    }
}

/// The crates that a program with this package and these features builds for Linux, on any machine.
fn tree(package: &str, features: &str, faults: &mut Vec<String>) -> Tree {
    edges(package, features, "normal", faults)
}

/// The same along these kinds of dependencies.
fn edges(package: &str, features: &str, kinds: &str, faults: &mut Vec<String>) -> Tree {
    let named = ["--features", features];
    let chosen: &[&str] =
        if features == WITHOUT_DEFAULT { &["--no-default-features"] } else { &named };
    let tree = Command::new("cargo")
        .args(["tree", "-p", package, "-e", kinds, "--prefix", "none"])
        .args(chosen)
        .args(["--target", "x86_64-unknown-linux-gnu"])
        .current_dir(root())
        .output();
    let tree = tree.ok().filter(|tree| tree.status.success());
    let Some(tree) = tree else {
        faults.push(format!("cargo tree -p {package} fails"));
        return Tree::new();
    };
    parse(&String::from_utf8_lossy(&tree.stdout))
}

/// The crates of the workspace that a manifest names as dependencies, without those of tests.
fn named(manifest: &str) -> Vec<String> {
    let (_, rest) = manifest.split_once("\n[dependencies]\n").unwrap_or_default();
    let lines = rest.lines().take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| line.split(['.', ' ', '=']).next());
    names.filter(|name| name.starts_with("rowkey")).map(str::to_owned).collect()
}

/// The published crates of the workspace that may be newer or older than those that call them.
fn unpinned(manifest: &str) -> Vec<&str> {
    let lines = manifest.lines().filter(|line| line.contains("path = \"crates/"));
    let lines = lines.filter(|line| !line.contains("version = \"="));
    let names = lines.filter_map(|line| line.split(' ').next());
    names.filter(|name| !NAMED_BY_USERS.contains(name)).collect()
}

/// Each line is a name, a version, and what else is known.
fn parse(lines: &str) -> Tree {
    let mut tree = Tree::new();
    for line in lines.lines() {
        let mut words = line.split_whitespace();
        if let (Some(name), Some(version)) = (words.next(), words.next()) {
            tree.entry(name.to_owned()).or_default().insert(version.to_owned());
        }
    }
    tree
}

/// The crates in the first column of the table below the heading.
fn listed(page: &str) -> BTreeSet<String> {
    let section = page.split_once(HEADING).map_or("", |(_, rest)| rest);
    let rows = section.lines().take_while(|line| !line.starts_with('#'));
    let columns = rows.filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
    columns.flat_map(|column| column.split("`, `")).map(|name| name.replace('`', "")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_versions_of_a_crate_are_two_crates() {
        let tree =
            parse("a v1.0.0 (/path)\nb v2.0.0\nc v0.1.0 (proc-macro)\nb v1.0.0\nb v1.0.0 (*)\n");
        assert_eq!(tree.values().map(BTreeSet::len).sum::<usize>(), 4);
        assert_eq!(tree["b"].len(), 2);
    }

    #[test]
    fn dependencies_of_the_workspace_are_read_without_those_of_tests() {
        let manifest = "[package]\nname = \"a\"\n\n[dependencies]\nbytes.workspace = true\nrowkey.workspace = true\n\
                        rowkey-wire = { workspace = true }\n\n[dev-dependencies]\nrowkey-store.workspace = true\n";
        assert_eq!(named(manifest), ["rowkey", "rowkey-wire"]);
    }

    #[test]
    fn crates_behind_the_facade_without_an_exact_version_are_reported() {
        let manifest = "rowkey = { path = \"crates/rowkey\", version = \"0.1.0\" }\n\
                        rowkey-store = { path = \"crates/rowkey-store\", version = \"0.1.0\" }\n\
                        rowkey-wire = { path = \"crates/rowkey-wire\", version = \"=0.1.0\" }\n\
                        rowkey-fuzz = { path = \"tests/fuzz\" }\n";
        assert_eq!(unpinned(manifest), ["rowkey-store"]);
    }

    #[test]
    fn the_first_column_of_the_table_is_read() {
        let page = format!(
            "| `x` | y |\n{HEADING}\n| crate | c |\n|---|---|\n| `a`, `b-c` | `d` |\n\n## E\n| `f` |\n"
        );
        assert_eq!(listed(&page).into_iter().collect::<Vec<_>>(), ["a", "b-c"]);
    }
}
