//! Files as tables, and files that statements write.
//!
//! - this file: what the name of a file that is written must not have · `paths`: files by their paths · `sink`: files are written whole or not
//!   at all · `staged`: what is written, until all of it is

use datafusion::common::Result;

use crate::error;

mod paths;
mod sink;
mod staged;

pub(crate) use paths::Paths;
pub(crate) use sink::StagedFiles;

/// What the engine takes for a pattern in a path of this machine: it would write to the folder before it.
const PATTERNS: &str = "?*[";
/// What it takes for something else in an address: it would write to another name.
const OF_ADDRESSES: &str = "?*[#%";

/// Refuses names of files that `COPY … TO` would not write to.
pub(crate) fn check_target(path: &str) -> Result<()> {
    let (refused, place) = match path.contains("://") {
        true => (OF_ADDRESSES, "the address"),
        false => (PATTERNS, "the path"),
    };
    let Some(found) = path.chars().find(|c| refused.contains(*c)) else { return Ok(()) };
    let all: Vec<_> = refused.chars().map(String::from).collect();
    Err(error::plan(format!(
        "COPY does not write to {path}: the {found} has a meaning of its own in {place} of a file; use a name without any of {}",
        all.join(" ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_be_others_are_refused() {
        for path in ["a?.csv", "out/*.parquet", "a[1].csv", "az://c/a#1.csv", "az://c/50%25.csv"] {
            let error = check_target(path).unwrap_err().to_string();
            assert!(error.contains(path) && error.contains("use a name without"), "{error}");
        }
        for path in ["a.csv", "out/a#1.csv", "50%.csv", "out/", "az://c@archive/a b.parquet"] {
            check_target(path).unwrap();
        }
    }
}
