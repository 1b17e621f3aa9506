//! Publishes the measurements: tables between markers in README.md and in the book, charts beside the
//! book's page. Goals are for those who work on the project, so the book shows figures alone.

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::charts;
use crate::clients::figures::Clients;
use crate::growth::Growth;
use crate::patterns::Patterns;
use crate::report::Table;
use crate::results::Results;
use crate::servers::Servers;

/// The parts whose figures are tables and nothing else.
const TABLES: [&str; 5] = ["durable", "bulk", "copy", "indexed", "scan"];

/// Draws and writes everything that was ever measured.
pub fn all() -> io::Result<()> {
    part::<Servers>("servers", Servers::tables, Some(charts::servers))?;
    part::<Growth>("growth", Growth::tables, Some(charts::growth))?;
    part::<Patterns>("patterns", Patterns::tables, Some(charts::patterns))?;
    part::<Clients>("clients", Clients::tables, Some(charts::clients))?;
    for name in TABLES {
        part::<String>(name, Clone::clone, None)?;
    }
    Ok(())
}

fn part<T: Serialize + DeserializeOwned>(
    name: &str,
    tables: fn(&T) -> String,
    chart: Option<fn(&T) -> String>,
) -> io::Result<()> {
    let Some(Results { circumstances, figures }) = Results::<T>::load(name)? else {
        return Ok(());
    };
    let text = format!("{}\n\n{}", circumstances.say(), tables(&figures));
    let pages =
        [(beside("README.md"), text.clone()), (book("performance.md"), without_goals(&text))];
    for (page, text) in pages {
        let before = fs::read_to_string(&page)?;
        fs::write(&page, between_markers(&before, name, &text))?;
    }
    if let Some(chart) = chart {
        fs::write(book(&format!("performance-{name}.svg")), chart(&figures))?;
    }
    Ok(())
}

/// `page` with `text` where it has markers for `name`.
fn between_markers(page: &str, name: &str, text: &str) -> String {
    let (begin, end) = (format!("<!-- measured: {name} -->"), "<!-- end -->");
    let Some((before, rest)) = page.split_once(&begin) else { return page.to_owned() };
    let Some((_, after)) = rest.split_once(end) else { return page.to_owned() };
    format!("{before}{begin}\n\n{}\n\n{end}{after}", text.trim())
}

/// `text` whose tables have neither verdicts nor columns of goals.
fn without_goals(text: &str) -> String {
    let mut out = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if !line.starts_with('|') {
            out.push_str(line);
            out.push('\n');
            continue;
        }
        let head = cells(line);
        let is_kept: Vec<bool> = head.iter().map(|cell| cell != "goal").collect();
        let kept = |row: Vec<String>| -> Vec<String> {
            let row = row.into_iter().zip(&is_kept).filter(|(_, is_kept)| **is_kept);
            row.map(|(cell, _)| without_verdict(&cell)).collect()
        };
        let head = kept(head);
        let mut table = Table::new(&head.iter().map(String::as_str).collect::<Vec<_>>());
        while let Some(line) = lines.next_if(|line| line.starts_with('|')) {
            // `Table` writes the line below the head itself.
            if !line.starts_with("| ---") {
                table.row(kept(cells(line)));
            }
        }
        out.push_str(&table.render());
    }
    out
}

/// The cells of a row of a table.
fn cells(line: &str) -> Vec<String> {
    line.trim().trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
}

/// A cell without `; ≤ 1.4: met`.
fn without_verdict(cell: &str) -> String {
    let is_verdict = |rest: &str| rest.starts_with(['≤', '≥']);
    match cell.rsplit_once("; ") {
        Some((figure, rest)) if is_verdict(rest) => figure.to_owned(),
        _ => cell.to_owned(),
    }
}

fn beside(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn book(name: &str) -> PathBuf {
    beside("../docs/src/concepts").join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_text_between_the_markers_of_a_section_is_replaced() {
        let page = "a\n<!-- measured: bulk -->\nold\n<!-- end -->\nb\n<!-- end -->\n";
        let new = "a\n<!-- measured: bulk -->\n\nnew\n\n<!-- end -->\nb\n<!-- end -->\n";
        assert_eq!(between_markers(page, "bulk", "new\n"), new);
        assert_eq!(between_markers(page, "scan", "new"), page);
    }

    #[test]
    fn the_published_table_omits_verdicts_and_goals() {
        let measured = "now\n\n| a | b            | goal      |\n| --- | --- | --- |\n\
                        | 1   | 2 (1..3); ≤ 1.4: MISSED | ≤ 3: met |\n\nend\n";
        let shown = "now\n\n| a   | b        |\n| --- | ---      |\n| 1   | 2 (1..3) |\n\nend\n";
        assert_eq!(without_goals(measured), shown);
    }
}
