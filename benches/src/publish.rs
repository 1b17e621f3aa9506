//! Puts what was measured where people read it: tables between markers in README.md and in the book,
//! charts beside the book's page.

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::charts;
use crate::clients::figures::Clients;
use crate::growth::Growth;
use crate::results::Results;
use crate::servers::Servers;

/// The parts whose figures are tables and nothing else.
const TABLES: [&str; 4] = ["durable", "bulk", "indexed", "scan"];

/// Draws and writes everything that was ever measured.
pub fn all() -> io::Result<()> {
    part::<Servers>("servers", Servers::tables, Some(charts::servers))?;
    part::<Growth>("growth", Growth::tables, Some(charts::growth))?;
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
    for page in [beside("README.md"), book("performance.md")] {
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
    fn only_what_is_between_the_markers_of_a_part_is_replaced() {
        let page = "a\n<!-- measured: bulk -->\nold\n<!-- end -->\nb\n<!-- end -->\n";
        let new = "a\n<!-- measured: bulk -->\n\nnew\n\n<!-- end -->\nb\n<!-- end -->\n";
        assert_eq!(between_markers(page, "bulk", "new\n"), new);
        assert_eq!(between_markers(page, "scan", "new"), page);
    }
}
