//! Copies the documentation of the derives into a file, so that its examples are tests of this package.

use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let mut text = String::new();
    for line in read("lib.rs")?.lines().map(str::trim_start) {
        let page =
            line.strip_prefix("#[doc = include_str!(\"").and_then(|rest| rest.strip_suffix("\")]"));
        // A line of code becomes an empty line: an example has the number of its line, unless a page is before it.
        let comment = line.strip_prefix("///").unwrap_or_default();
        match page {
            Some(page) => text.push_str(&read(page)?),
            None => text.push_str(comment.strip_prefix(' ').unwrap_or(comment)),
        }
        text.push('\n');
    }
    let folder = env::var_os("OUT_DIR").unwrap_or_default();
    fs::write(Path::new(&folder).join("derives.md"), text)
}

fn read(file: &str) -> io::Result<String> {
    let path = Path::new("../src").join(file);
    println!("cargo::rerun-if-changed={}", path.display());
    fs::read_to_string(path)
}
