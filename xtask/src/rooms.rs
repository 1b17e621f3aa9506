//! The layers of a crate: a module at the root (a room) uses only rooms on floors below its own. So no two rooms need each
//! other, and a reader who starts at the lowest floor meets no name that is explained above. The files inside a room have
//! no floors; where `files_in_order` is set, they do not use each other in a circle either.
//!
//! Checked are the paths from `crate` and `super` in all code, in imports and elsewhere, tests included. Not checked are
//! links in comments. What lib.rs exports is for users of the crate: a room names the room that declares it. Circles
//! are those of files without children and tests: what a mod.rs declares and its children use is not followed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::imports::words;
use crate::structure::{collect, root};

/// The floors of a crate's modules.
struct House {
    package: &'static str,
    /// From the lowest. Rooms of one floor, which do not use each other, are separated by spaces.
    floors: &'static [&'static str],
    /// Whether the files of a room use each other in one direction, too. Handles and what they return, such as a blob
    /// and its snapshots, name each other.
    files_in_order: bool,
}

/// The crates that are checked.
const HOUSES: [House; 9] = [
    House {
        package: "rowkey-client",
        floors: &[
            "error clock backoff address",
            "endpoint",
            "credential hot_partitions telemetry",
            "pace",
            "options",
            "cost",
            "transport",
            "account",
            "paging",
            "service",
            "table queue blob",
            "sas rounds answers internals",
            "tests",
        ],
        files_in_order: false,
    },
    House {
        package: "rowkey-emulator",
        floors: &[
            "clock",
            "tls identity",
            "op",
            "store wire",
            "account",
            "front",
            "durable control load",
            "state",
            "services authority",
            "http",
            "server fuzzing",
        ],
        files_in_order: true,
    },
    House {
        package: "rowkey-control",
        floors: &[
            "problem schema counts page",
            "body shared",
            "clock contents data faults guard health identities journal limits queues",
            "forks",
            "routes",
            "plane",
        ],
        files_in_order: true,
    },
    House {
        package: "rowkey-patterns",
        floors: &[
            "keys probe together unique waits",
            "job lease_lock log_blob log_tail lookup parallel series vending",
            "inspect rollover spread internals",
            "ranges",
        ],
        files_in_order: true,
    },
    House {
        package: "rowkey-store",
        floors: &[
            "row",
            "layer",
            "plan",
            "declaring",
            "declarations",
            "execute",
            "store",
            "answers reread",
        ],
        files_in_order: false,
    },
    House {
        package: "rowkey-cli",
        floors: &[
            "error",
            "accounts duration prices programs secret",
            "args confirm entities profiles rejects",
            "connect output",
            "jobs",
            "selection",
            "commands",
            "main",
        ],
        files_in_order: true,
    },
    House {
        package: "rowkey-transfer",
        floors: &[
            "error",
            "compression objects row",
            "columns json_lines",
            "spool backup azcopy storage_explorer parquet",
            "format",
            "jobs",
        ],
        files_in_order: true,
    },
    House {
        package: "rowkey-worker",
        floors: &[
            "errors panics random renewal_thread",
            "task",
            "dead_letters outbox",
            "worker partitions",
            "inbox",
            "steps janitor",
        ],
        files_in_order: true,
    },
    House {
        package: "rowkey-encryption",
        floors: &[
            "random cache key",
            "format",
            "index branch",
            "ring",
            "records legacy",
            "cipher",
            "tests",
        ],
        files_in_order: true,
    },
];

/// Adds each use of a room that is not below.
pub(crate) fn check(faults: &mut Vec<String>) {
    for house in &HOUSES {
        let source = root().join("crates").join(house.package).join("src");
        let mut paths = Vec::new();
        collect(&source, "rs", &mut paths);
        paths.sort();
        let files: Vec<_> = paths
            .iter()
            .filter_map(|path| {
                let name = path.strip_prefix(&source).ok()?.to_string_lossy().replace('\\', "/");
                Some((name, fs::read_to_string(path).ok()?))
            })
            .collect();
        faults.extend(house.faults(&files));
    }
}

impl House {
    /// The faults in files, each with its path below `src` and its text.
    fn faults(&self, files: &[(String, String)]) -> Vec<String> {
        let (mut faults, mut rooms) = (Vec::new(), BTreeSet::new());
        for (name, text) in files {
            let module = module(name);
            // lib.rs uses all rooms.
            let Some(room) = module.first().copied() else { continue };
            rooms.insert(room);
            let shown = format!("crates/{}/src/{name}", self.package);
            let Some(floor) = self.floor(room) else {
                faults.push(format!("{shown}: give the room {room} a floor in xtask/src/rooms.rs"));
                continue;
            };
            let words = words(text);
            let others: BTreeSet<_> =
                paths(&words, &module).iter().filter_map(|path| path.first().copied()).collect();
            for other in others {
                match self.floor(other) {
                    _ if other == room => {}
                    Some(below) if below < floor => {}
                    Some(_) => faults.push(format!(
                        "{shown} uses {other}, which is not below {room}: move what both need to a \
                         lower floor, or pass it as an argument"
                    )),
                    None => faults.push(format!(
                        "{shown} uses crate::{other}, which is not a room: name the room that \
                         declares it"
                    )),
                }
            }
        }
        let circle = if self.files_in_order { circle(files) } else { Vec::new() };
        if !circle.is_empty() {
            faults.push(format!(
                "{}: {} use each other in a circle: move what they share to a file of its own",
                self.package,
                circle.join(", ")
            ));
        }
        let known = self.floors.iter().flat_map(|floor| floor.split(' '));
        for room in known.filter(|room| !rooms.contains(room)) {
            faults.push(format!("{}: there is no room {room}, but it has a floor", self.package));
        }
        faults
    }

    fn floor(&self, room: &str) -> Option<usize> {
        self.floors.iter().position(|floor| floor.split(' ').any(|known| known == room))
    }
}

/// The module of a file, as the names from the root.
fn module(file: &str) -> Vec<&str> {
    let mut module: Vec<_> = file.trim_end_matches(".rs").split('/').collect();
    if module.last() == Some(&"mod") || module == ["lib"] {
        module.pop();
    }
    module
}

/// The paths that code names from `crate` or `super`, each as the names from the root.
fn paths<'w>(words: &[&'w str], module: &[&'w str]) -> Vec<Vec<&'w str>> {
    let mut found = Vec::new();
    let word = |at: usize| words.get(at).copied().unwrap_or_default();
    // The modules inside the file that are open, each with the number of open braces before it.
    let (mut inner, mut depth) = (Vec::new(), 0_usize);
    let mut at = 0;
    while at < words.len() {
        match word(at) {
            "{" => {
                if at > 1 && word(at - 2) == "mod" {
                    inner.push((word(at - 1), depth));
                }
                depth += 1;
            }
            "}" => {
                depth = depth.saturating_sub(1);
                if inner.last().is_some_and(|(_, before)| *before == depth) {
                    inner.pop();
                }
            }
            first @ ("crate" | "super") if word(at + 1) == "::" => {
                let mut base: Vec<_> = match first {
                    "super" => {
                        module.iter().copied().chain(inner.iter().map(|(name, _)| *name)).collect()
                    }
                    _ => Vec::new(),
                };
                base.pop();
                at += 2;
                while word(at) == "super" {
                    base.pop();
                    at += 2;
                }
                at += leaves(&words[at..], base, &mut found);
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// Adds the paths that words begin with, one or those of a group; returns how many words they take.
fn leaves<'w>(words: &[&'w str], mut base: Vec<&'w str>, found: &mut Vec<Vec<&'w str>>) -> usize {
    let word = |at: usize| words.get(at).copied().unwrap_or_default();
    let mut at = 0;
    loop {
        match word(at) {
            "{" => {
                at += 1;
                while at < words.len() && word(at) != "}" {
                    at += match word(at) {
                        "," => 1,
                        "as" => 2,
                        _ => leaves(&words[at..], base.clone(), found).max(1),
                    };
                }
                return at + 1;
            }
            "self" => {}
            name => base.push(name),
        }
        at += 1;
        // `::<T>` ends a path.
        if word(at) != "::" || word(at + 1) == "<" {
            found.push(base);
            return at;
        }
        at += 1;
    }
}

/// The modules that use each other in a circle, or lie between circles.
fn circle(files: &[(String, String)]) -> Vec<String> {
    let known: BTreeSet<_> = files.iter().map(|(name, _)| module(name)).collect();
    let is_parent = |module: &[&str]| {
        known.iter().any(|other| other.len() > module.len() && other.starts_with(module))
    };
    let is_test = |module: &[&str]| module.iter().any(|name| name.ends_with("tests"));
    let mut arrows: BTreeMap<Vec<&str>, BTreeSet<Vec<&str>>> = BTreeMap::new();
    for (name, text) in files {
        let from = module(name);
        if is_parent(&from) || is_test(&from) {
            continue;
        }
        // Tests stand at the end of a file.
        let text = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
        let words = words(text);
        let ends = paths(&words, &from).into_iter().filter_map(|path| {
            let prefix = |length: usize| path[..length].to_vec();
            let end = (1..=path.len()).rev().map(prefix).find(|end| known.contains(end))?;
            let end = known.get(&end)?.clone();
            (end != from).then_some(end)
        });
        arrows.insert(from.clone(), ends.collect());
    }
    // What uses none of the others, and what none of them uses, is not in a circle.
    loop {
        let rest: BTreeSet<_> = arrows.keys().cloned().collect();
        let used: BTreeSet<_> = arrows.values().flatten().cloned().collect();
        arrows.retain(|from, ends| {
            ends.retain(|end| rest.contains(end));
            !ends.is_empty() && used.contains(from)
        });
        if arrows.len() == rest.len() {
            return arrows.keys().map(|module| module.join("::")).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUSE: House =
        House { package: "house", floors: &["ground", "left right", "roof"], files_in_order: true };

    /// The faults of a house whose rooms have these texts, without what all have in common.
    fn faults(files: &[(&str, &str)]) -> Vec<String> {
        let all = ["ground.rs", "left.rs", "right/mod.rs", "roof.rs"];
        let files = all.map(|name| (name, "")).into_iter().chain(files.iter().copied());
        let files: Vec<_> = files.map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
        let faults = HOUSE.faults(&files).into_iter();
        faults.map(|fault| fault.trim_start_matches("crates/house/src/").to_owned()).collect()
    }

    /// The rooms that are used in vain.
    fn wrong(file: &str, text: &str) -> Vec<String> {
        let words = faults(&[(file, text)]).into_iter();
        words
            .map(|fault| {
                let used = fault.strip_prefix(&format!("{file} uses ")).unwrap_or(&fault);
                used.split([',', ' ']).next().unwrap_or_default().to_owned()
            })
            .collect()
    }

    #[test]
    fn a_room_uses_only_rooms_below() {
        assert_eq!(
            wrong("roof.rs", "use crate::ground::A;\nuse crate::{left, right::{B, C}};"),
            [""; 0]
        );
        assert_eq!(wrong("lib.rs", "mod ground;\npub use roof::A;\nuse crate::roof::A;"), [""; 0]);
        assert_eq!(wrong("right/door.rs", "use super::frame;\nuse super::super::ground;"), [""; 0]);
        for arrow in [
            "use crate::right::A;",
            "use super::right::{self, A};",
            "fn f() -> crate::right::A { let a = 1; }",
            "use crate::{ground::{A, B}, right};",
            "mod tests { use super::*; use super::super::right; }",
            "mod tests { mod deep {} fn f() {} use super::super::right::A; }",
            "pub(crate) use crate::right::A;",
        ] {
            assert_eq!(wrong("left.rs", arrow), ["right"], "{arrow}");
        }
        for text in [
            "//! [`A`](crate::right::A)\n// use crate::right::A;",
            "const A: &str = \"crate::right::A\";",
            "pub(super) fn right() {}\npub(in crate::left) fn f() {}",
            "use right::A;",
            "mod tests { use super::right; }",
        ] {
            assert_eq!(wrong("left.rs", text), [""; 0], "{text}");
        }
        assert_eq!(
            wrong("right/door.rs", "use crate::roof;\nuse super::super::left;"),
            ["left", "roof"]
        );
    }

    #[test]
    fn a_circle_is_at_least_one_fault() {
        let circle = [("ground.rs", "use crate::roof::A;"), ("roof.rs", "use crate::ground::B;")];
        let found = faults(&circle);
        assert!(found[0].starts_with("ground.rs uses roof, which is not below"), "{found:?}");
        assert!(
            found[1].starts_with("house: ground, roof use each other in a circle"),
            "{found:?}"
        );
        let level = [("left.rs", "use crate::right::A;"), ("right/mod.rs", "use crate::left::B;")];
        let faults = faults(&level);
        assert!(faults[0].starts_with("left.rs uses right,"), "{faults:?}");
        assert!(faults[1].starts_with("right/mod.rs uses left,"), "{faults:?}");
    }

    #[test]
    fn modules_of_a_room_do_not_use_each_other_in_a_circle() {
        let circle = [
            ("right/a.rs", "use super::b::{self, B};"),
            ("right/b.rs", "fn f() { crate::right::c::g::<u8>() }"),
            ("right/c.rs", "use super::{a::A as Other, d};"),
            (
                "right/d.rs",
                "use crate::ground::A;\n#[cfg(test)]\nmod tests { use super::super::a; }",
            ),
            ("right/tests.rs", "use super::a;"),
        ];
        let fault = "house: right::a, right::b, right::c use each other in a circle: move what they \
                     share to a file of its own";
        assert_eq!(faults(&circle), [fault]);
        assert_eq!(faults(&circle[1..]), [""; 0]);
    }

    #[test]
    fn the_table_names_all_rooms_and_no_others() {
        assert_eq!(
            faults(&[("attic.rs", "")]),
            ["attic.rs: give the room attic a floor in xtask/src/rooms.rs"]
        );
        assert_eq!(
            faults(&[("roof.rs", "use crate::A;\nuse crate::*;")]),
            ["*", "A"].map(|name| format!(
                "roof.rs uses crate::{name}, which is not a room: name the room that declares it"
            ))
        );
        let house = House { package: "house", floors: &["ground"], files_in_order: true };
        assert_eq!(house.faults(&[]), ["house: there is no room ground, but it has a floor"]);
    }
}
