//! Copies the documentation of the derives into a file, so that its examples are tests of this package.

use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let source = "../src/lib.rs";
    println!("cargo::rerun-if-changed={source}");
    // A line of code becomes an empty line: an example has the number of its line.
    let lines = fs::read_to_string(source)?;
    let lines = lines.lines().map(|line| match line.trim_start().strip_prefix("///") {
        Some(text) => format!("{}\n", text.strip_prefix(' ').unwrap_or(text)),
        None => "\n".to_owned(),
    });
    let folder = env::var_os("OUT_DIR").unwrap_or_default();
    fs::write(Path::new(&folder).join("derives.md"), lines.collect::<String>())
}
