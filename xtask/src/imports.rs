//! A reader copies code from a page, so each name in its Rust blocks is imported or declared on that page, in the same
//! block or above it, and no line is hidden: the repository's web page shows hidden lines, and the book drops them.
//! A page that shows the dependencies of its programs shows all of them.
//!
//! Checked are types and traits, which begin with a capital letter, and modules in front of `::`. Functions and
//! methods are left to the compiler, which sees all blocks that are copied from programs or tested with the book.

use std::collections::HashSet;

/// Names that need no import: the prelude, and macros' own.
const PRELUDE: &str = "AsyncFn AsyncFnMut AsyncFnOnce AsMut AsRef Box Clone Copy Debug Default Drop Eq Err Extend Fn FnMut \
     FnOnce From FromIterator Future Hash Into IntoFuture IntoIterator Iterator None Ok Option Ord PartialEq PartialOrd \
     Result Self Send Sized Some String Sync ToOwned ToString TryFrom TryInto Unpin Vec";

/// Crates, and what stands for one.
const CRATES: &str = "std core crate self super axum bool char f64 i32 i64 str u8 u16 u32 u64 usize azure_identity chrono csv \
     futures_util metrics_exporter_prometheus opentelemetry opentelemetry_sdk reqwest rowkey rowkey_emulator rowkey_entity \
     rowkey_metrics rowkey_otel serde serde_json tokio tracing tracing_opentelemetry tracing_subscriber \
     wiremock";

/// Those of them that are types.
const TYPES: [&str; 11] =
    ["bool", "char", "f64", "i32", "i64", "str", "u8", "u16", "u32", "u64", "usize"];

/// What a page lacks, each with its line.
pub(crate) fn faults(page: &str) -> Vec<String> {
    let (mut faults, mut known) = (Vec::new(), HashSet::new());
    known.extend(PRELUDE.split_whitespace().chain(CRATES.split_whitespace()).map(str::to_owned));
    for (line, code) in blocks(page) {
        let hidden = code.lines().filter(|line| *line == "#" || line.starts_with("# ")).count();
        if hidden > 0 {
            faults.push(format!("{line}: {hidden} hidden lines: show them, or do without"));
        }
        let words = words(&code);
        declared(&words, &mut known);
        let mut missing: Vec<_> =
            used(&words).filter(|name| !known.contains(*name)).map(str::to_owned).collect();
        missing.sort();
        missing.dedup();
        if !missing.is_empty() {
            let missing = missing.join(", ");
            faults.push(format!("{line}: {missing}: neither imported nor declared on the page"));
        }
    }
    faults.extend(undeclared(page));
    faults
}

/// Crates that the code of a page names, and its `[dependencies]` do not.
fn undeclared(page: &str) -> Vec<String> {
    let Some((_, manifest)) = page.split_once("```toml\n[dependencies]\n") else {
        return Vec::new();
    };
    let manifest = manifest.split("```").next().unwrap_or_default();
    let named =
        |line: &str| line.split([' ', '=', '.']).next().unwrap_or_default().replace('-', "_");
    // The list begins with words of the language.
    let crates = CRATES.split_whitespace().skip_while(|name| *name != "axum");
    let crates = crates.filter(|name| !TYPES.contains(name));
    let code: String = blocks(page).into_iter().map(|(_, code)| code).collect();
    let words = words(&code);
    let is_used = |name: &str| {
        let begins_with = |path: &[&str]| path[0] != "::" && path[1..] == [name, "::"];
        words.windows(3).any(begins_with)
    };
    crates
        .filter(|name| is_used(name) && !manifest.lines().any(|line| named(line) == **name))
        .map(|name| format!("1: the [dependencies] of the page lack {name}"))
        .collect()
}

/// The code of each block of Rust, with the number of its first line. Blocks of `rs` are code of other crates.
fn blocks(page: &str) -> Vec<(usize, String)> {
    let (mut found, mut open) = (Vec::new(), None::<(usize, String)>);
    for (number, line) in (1..).zip(page.lines()) {
        match &mut open {
            Some(_) if line == "```" => found.extend(open.take()),
            Some((_, code)) => code.extend([line, "\n"]),
            None if line.starts_with("```rust") => open = Some((number, String::new())),
            None => {}
        }
    }
    found
}

/// Names and punctuation, without comments, strings and lifetimes. `::` is one word.
pub(crate) fn words(code: &str) -> Vec<&str> {
    let (mut words, mut at) = (Vec::new(), 0);
    while let Some(first) = code[at..].chars().next() {
        let rest = &code[at..];
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let quoted = rest.trim_start_matches('r').trim_start_matches('#');
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if (first == '"' || rest.starts_with("r\"") || rest.starts_with("r#\""))
            && quoted.starts_with('"')
        {
            string(rest)
        } else if first == '\'' {
            // A letter in quotes, or a lifetime.
            let letter = rest[1..].char_indices().nth(1).is_some_and(|(_, c)| c == '\'');
            let name = rest[1..].find(|c| !is_name(c)).map_or(rest.len(), |end| end + 1);
            if let Some(escaped) = rest.strip_prefix("'\\") {
                escaped.find('\'').map_or(rest.len(), |end| end + 3)
            } else if letter {
                rest[1..].find('\'').map_or(rest.len(), |end| end + 2)
            } else {
                name
            }
        } else if is_name(first) {
            let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            words.push(&rest[..end]);
            end
        } else if rest.starts_with("::") {
            words.push("::");
            2
        } else {
            if !first.is_whitespace() {
                words.push(&rest[..first.len_utf8()]);
            }
            first.len_utf8()
        };
        at += length;
    }
    words
}

/// The length of the string that a text begins with.
fn string(text: &str) -> usize {
    if let Some(raw) = text.strip_prefix('r') {
        let hashes = raw.chars().take_while(|c| *c == '#').count();
        let (start, end) = (hashes + 2, format!("\"{}", "#".repeat(hashes)));
        return text[start..].find(&end).map_or(text.len(), |at| start + at + end.len());
    }
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Adds what a block imports and declares: types, modules, type parameters and the variants of enums.
fn declared(words: &[&str], known: &mut HashSet<String>) {
    let mut at = 0;
    while at < words.len() {
        let end = |from: usize, with: &str| {
            words[from..]
                .iter()
                .position(|word| *word == with)
                .map_or(words.len(), |end| from + end)
        };
        match words[at] {
            "use" => {
                let last = end(at, ";");
                let list = &words[at + 1..last];
                let ends =
                    |number: usize| matches!(list.get(number + 1), None | Some(&("," | "}")));
                for (number, word) in list.iter().enumerate().filter(|(number, _)| ends(*number)) {
                    // `steps::{self, Steps}`: the module.
                    let module =
                        list[..number].iter().rev().skip_while(|word| **word != "{").nth(2);
                    let name = if *word == "self" { module.unwrap_or(word) } else { word };
                    known.insert((*name).to_owned());
                }
                at = last;
            }
            "struct" | "trait" | "type" | "mod" | "enum" => {
                known.extend(words.get(at + 1).map(|name| (*name).to_owned()));
                if words[at] == "enum" {
                    let last = end(at, "}");
                    let variants = words[at..last].windows(2);
                    let variants = variants.filter(|two| matches!(two[0], "{" | "," | "]"));
                    known.extend(variants.map(|two| two[1].to_owned()));
                }
            }
            // Type parameters: `fn sweep<E: Entity, F>`, `impl<T>`.
            "<" if at > 1
                && (words[at - 1] == "impl"
                    || ["fn", "struct", "enum"].contains(&words[at - 2])) =>
            {
                let parameters = words[at..end(at, ">")].windows(2);
                let parameters = parameters.filter(|two| matches!(two[0], "<" | ","));
                known.extend(parameters.map(|two| two[1].to_owned()));
            }
            _ => {}
        }
        at += 1;
    }
}

/// The names that need an import or a declaration.
fn used<'w>(words: &'w [&'w str]) -> impl Iterator<Item = &'w str> {
    let mut in_use = false;
    words.iter().enumerate().filter_map(move |(at, word)| {
        in_use = (in_use && *word != ";") || *word == "use";
        let before = at.checked_sub(1).map_or("", |before| words[before]);
        let is_path = words.get(at + 1) == Some(&"::");
        let first = word.chars().next()?;
        // Constants are in capitals alone.
        let is_type = first.is_uppercase() && word.chars().any(char::is_lowercase);
        let is_module = is_path && first.is_lowercase();
        (!in_use && before != "::" && before != "." && (is_type || is_module)).then_some(*word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_an_import_on_the_page_are_reported() {
        let page = "```rust\nuse rowkey::{Entity, edm::{self, Guid as Id}};\n\n#[derive(Clone, Entity)]\n\
                    struct Order<'a, T> { id: &'a Id, at: edm::DateTime, rest: T, mark: char }\n\
                    enum State { Open, Done(u8) }\n\
                    // A Comment says Nothing.\n\
                    let order = Order { id, mark: 'C', text: \"A \\\" String: Nothing\", raw: r#\"Raw\"# };\n\
                    let other = State::Open.max(Order::KEY).with::<rowkey::Table>();\n```\n\
                    ```rust,ignore\nlet store = Store::<Order>::builder(answers::table(Done)).build()?;\n```\n\
                    ```rs\nlet old = TableClient::new();\n```\n";
        assert_eq!(faults(page), ["11: Store, answers: neither imported nor declared on the page"]);
        let hidden = "```rust\n# use rowkey::Entity;\nlet answer = 1;\n```\n";
        assert_eq!(faults(hidden), ["1: 1 hidden lines: show them, or do without"]);
        assert_eq!(faults("```rust\n#[derive(Clone)]\nstruct A;\n```\n"), Vec::<String>::new());
    }

    #[test]
    fn crates_that_the_dependencies_of_a_page_lack_are_reported() {
        let manifest = "```toml\n[dependencies]\nrowkey = \"0.1\"\nserde_json = \"1\"\n```\n";
        let program =
            "```rust\nuse rowkey::Table;\nuse rowkey_emulator::Server;\n\n#[tokio::main]\n```\n";
        let lacking = |name| format!("1: the [dependencies] of the page lack {name}");
        let found = faults(&format!("{manifest}{program}"));
        assert_eq!(found, [lacking("rowkey_emulator"), lacking("tokio")]);
        assert_eq!(faults(program), Vec::<String>::new());
    }
}
