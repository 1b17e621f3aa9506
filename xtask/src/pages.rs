//! Errors in pages, which are all Markdown files of the repository: broken links; in those of the book a summary that
//! mdBook rejects, missing programs, programs that do not show their imports, unlisted pages, and tables that must
//! match the code.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::structure::{examples, root};

/// Adds the faults in the pages of the book and of the repository.
pub(crate) fn check(faults: &mut Vec<String>) {
    let mut pages = Vec::new();
    collect(&root(), &mut pages);
    collect(&root().join(".github"), &mut pages);
    let book = root().join("docs/src");
    let summary = fs::read_to_string(book.join("SUMMARY.md")).unwrap_or_default();
    faults.extend(summary_faults(&summary).into_iter().map(|fault| format!("SUMMARY.md:{fault}")));
    error_kinds(faults);
    programs(&book, faults);
    for page in &pages {
        let text = fs::read_to_string(page).unwrap_or_default();
        let shown = page.strip_prefix(root()).unwrap_or(page).display();
        let folder = page.parent().unwrap_or(page);
        let found = links(&text, page, folder).into_iter().chain(includes(&text, folder));
        for fault in found.chain(crate::imports::faults(&text)) {
            faults.push(format!("{shown}:{fault}"));
        }
        let listed = |name: &Path| summary.contains(&format!("({})", name.display()));
        if let Ok(name) = page.strip_prefix(&book)
            && name != Path::new("SUMMARY.md")
            && !listed(name)
        {
            faults.push(format!("{shown} is not in docs/src/SUMMARY.md"));
        }
    }
}

/// Each example has a page of the book, and each page of a pattern shows a program.
fn programs(book: &Path, faults: &mut Vec<String>) {
    // What lists pages, and what describes bytes.
    const WITHOUT: [&str; 2] = ["patterns/index.md", "patterns/encryption-format.md"];
    let mut pages = Vec::new();
    collect(book, &mut pages);
    let texts: Vec<_> =
        pages.iter().map(|page| (page, fs::read_to_string(page).unwrap_or_default())).collect();
    for name in examples() {
        let is_named = |(_, text): &(&PathBuf, String)| {
            ["examples/", "--example "].iter().any(|before| {
                let named = format!("{before}{name}");
                let mut behind =
                    text.match_indices(&named).map(|(at, _)| &text[at + named.len()..]);
                behind.any(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
            })
        };
        if !texts.iter().any(is_named) {
            faults.push(format!("examples/{name} has no page: include or name it in docs/src"));
        }
    }
    for (page, text) in &texts {
        let Ok(name) = page.strip_prefix(book) else { continue };
        let is_pattern = name.starts_with("patterns") || name.starts_with("client");
        let is_shown = text.contains("```rust") || text.contains("examples/");
        if is_pattern && !is_shown && !WITHOUT.iter().any(|without| name == Path::new(without)) {
            faults.push(format!("docs/src/{} shows no program", name.display()));
        }
    }
}

/// What mdBook refuses in a summary: a page that is listed twice, a line that is neither a title nor
/// an entry, an entry nested deeper than one level below the one before it, an entry outside of the
/// list behind the list.
fn summary_faults(summary: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut listed = HashSet::new();
    let mut depth = None;
    for (number, line) in summary.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let number = number + 1;
        let indent = line.len() - line.trim_start().len();
        let (is_item, entry) = match line.trim_start().strip_prefix("- ") {
            Some(entry) => (true, entry),
            None => (false, line),
        };
        if !is_item && (entry.starts_with("# ") || entry == "---") {
            depth = depth.map(|_| 0);
            continue;
        }
        let target = (entry.strip_prefix('[')).and_then(|entry| entry.strip_suffix(')'));
        let Some((_, target)) = target.and_then(|entry| entry.split_once("](")) else {
            faults.push(format!("{number}: neither a title nor `- [Title](page.md)`"));
            continue;
        };
        if !listed.insert(target.to_owned()) {
            faults.push(format!("{number}: {target} is listed twice; mdBook refuses to build"));
        }
        if is_item {
            if indent % 2 != 0 || indent / 2 > depth.map_or(0, |depth: usize| depth + 1) {
                faults.push(format!("{number}: {target} is nested too deeply"));
            }
            depth = Some(indent / 2);
        } else if depth.is_some() {
            faults.push(format!("{number}: {target} stands outside of the list"));
        }
    }
    faults
}

/// The page about errors lists each kind once, in the order of the code.
fn error_kinds(faults: &mut Vec<String>) {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap_or_default();
    let code = read("crates/rowkey-client/src/error.rs");
    let kinds =
        code.split_once("pub enum ErrorKind {").and_then(|(_, rest)| rest.split_once("\n}"));
    let kinds: Vec<_> = (kinds.map_or("", |(body, _)| body).lines())
        .filter_map(|line| line.trim().strip_suffix(','))
        .filter(|name| name.chars().all(char::is_alphanumeric))
        .collect();
    let page = read("docs/src/client/errors-and-retry.md");
    let table = page.split_once("| kind | do |").map_or("", |(_, rest)| rest).trim_start();
    let rows: Vec<_> = (table.lines().take_while(|line| line.starts_with('|')))
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(name, _)| name)
        .collect();
    if kinds.is_empty() || kinds != rows {
        faults.push(format!("errors-and-retry.md lists the kinds {rows:?}, the code {kinds:?}"));
    }
}

/// Links to files that are not there, and to headings that their pages do not have.
fn links(text: &str, page: &Path, folder: &Path) -> Vec<String> {
    let mut faults = Vec::new();
    for (number, line) in prose(text) {
        for rest in line.split("](").skip(1) {
            let Some((target, _)) = rest.split_once(')') else { continue };
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() { page.to_owned() } else { folder.join(path) };
            let has_headings = path.extension().is_some_and(|extension| extension == "md");
            if path.is_absolute() && !path.starts_with(root()) {
                faults.push(format!("{number}: {target} is not relative"));
            } else if !path.exists() {
                faults.push(format!("{number}: the link to {target} leads nowhere"));
            } else if has_headings
                && !heading.is_empty()
                && !headings(&path).contains(&heading.to_owned())
            {
                faults.push(format!("{number}: {target} names a heading that is not there"));
            }
        }
    }
    faults
}

/// Programs, or parts of them, that a page shows and that are not there.
fn includes(text: &str, folder: &Path) -> Vec<String> {
    let mut faults = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let Some((_, rest)) = line.split_once("{{#include ") else { continue };
        let target = rest.split("}}").next().unwrap_or_default().trim();
        let (path, anchor) = target.split_once(':').unwrap_or((target, ""));
        let program = fs::read_to_string(folder.join(path));
        let has = |program: &str| {
            program.lines().any(|line| line.ends_with(&format!("ANCHOR: {anchor}")))
        };
        match program {
            Err(_) => faults.push(format!("{}: {path} is not there", number + 1)),
            Ok(program) if !anchor.is_empty() && !has(&program) => {
                faults.push(format!("{}: {path} has no `ANCHOR: {anchor}`", number + 1));
            }
            Ok(_) => {}
        }
    }
    faults
}

/// The headings of a page as links name them.
fn headings(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap_or_default();
    let lines = prose(&text).filter(|(_, line)| line.starts_with('#'));
    let slug = |line: &str| -> String {
        let kept = line.trim_start_matches('#').trim().chars();
        let kept = kept.filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
    };
    let mut headings: Vec<String> = Vec::new();
    for (_, line) in lines {
        let slug = slug(line);
        // The second of a name gets a number.
        let mut number = 0;
        let mut name = slug.clone();
        while headings.contains(&name) {
            number += 1;
            name = format!("{slug}-{number}");
        }
        headings.push(name);
    }
    headings
}

/// The numbered lines that are no code.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        (!in_code && !is_fence).then_some((number + 1, line))
    })
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let foreign =
            matches!(&*name, "target" | "node_modules" | "cache") || name.starts_with('.');
        if path.is_dir() && !foreign {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found.sort();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_links_outside_of_code_are_reported() {
        let page = root().join("xtask/src/pages.rs");
        let folder = root().join("xtask/src");
        let text = "[a](main.rs#L3) [b](gone.rs)\n```\n[c](gone.rs)\n```\n[d](https://x.example/y) \
                    [e](../../README.md#none) [f](../../README.md#install) [g](/etc/hosts)\n";
        let found = links(text, &page, &folder);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("1: the link to gone.rs"), "{found:?}");
        assert!(found[1].starts_with("5: ../../README.md#none names"), "{found:?}");
        assert!(found[2].starts_with("5: /etc/hosts is not relative"), "{found:?}");
        let text = "{{#include main.rs}}\n{{#include gone.rs}}\n{{#include main.rs:none}}\n";
        assert_eq!(includes(text, &folder).len(), 2);
    }

    #[test]
    fn summaries_that_mdbook_rejects_are_reported() {
        let good = "# Summary\n\n[Start](a.md)\n\n# Part\n\n- [B](b.md)\n  - [C](c.md)\n";
        assert_eq!(summary_faults(good), Vec::<String>::new());
        for (text, fault) in [
            ("- [B](b.md)\n- [C](c.md)\n- [B again](b.md)\n", "3: b.md is listed twice"),
            ("- [B](b.md)\n    - [C](c.md)\n", "2: c.md is nested too deeply"),
            ("- [B](b.md)\nwords\n", "2: neither a title"),
            ("- [B](b.md)\n[C](c.md)\n- [D](d.md)\n", "2: c.md stands outside"),
        ] {
            let found = summary_faults(text);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with(fault), "{found:?}");
        }
    }
}
