//! The compiler errors that mistakes in attributes cause. Each file of `ui` makes one mistake; its
//! `.stderr` is the whole message.
//!
//! The files are compiled by the compiler of this test with its libraries, so nothing else is built.
//! `ROWKEY_UI=overwrite` writes the messages instead of comparing them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::print_stderr, reason = "a failure shows each message that differs")]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::{env, fs, thread};

/// The compiler, and the arguments for libraries.
const COMPILER: &[&str] = rowkey_test_compiler::compiler!();

/// The folder in the workspace that names of files in messages are relative to.
const PACKAGE: &str = "crates/rowkey-derive/";

#[test]
fn compile_errors_match_their_expected_output() {
    let files = fs::read_dir("ui").unwrap().map(|file| file.unwrap().path());
    let programs: Vec<_> =
        files.filter(|path| path.extension() == Some(OsStr::new("rs"))).collect();
    assert!(programs.len() > 80, "{} programs", programs.len());
    let (todo, failed) = (Mutex::new(programs), Mutex::new(Vec::new()));
    let work = || {
        while let Some(program) = { todo.lock().unwrap().pop() } {
            if !is_explained(&program) {
                failed.lock().unwrap().push(program);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    assert_eq!(failed.into_inner().unwrap(), Vec::<PathBuf>::new());
}

/// Whether the program fails to compile, with its message.
fn is_explained(program: &Path) -> bool {
    let (compiler, libraries) = COMPILER.split_first().unwrap();
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join(program.file_name().unwrap());
    let compiled = Command::new(compiler)
        .args(libraries)
        // The width that the messages were written with.
        .args(["--crate-name=mistake", "--emit=metadata", "--diagnostic-width=140", "-Adead_code"])
        .arg("-o")
        .arg(made.with_extension("rmeta"))
        .arg(Path::new(PACKAGE).join("tests").join(program))
        // Where cargo compiles members: messages quote their lines.
        .current_dir("../../..")
        .output()
        .unwrap();
    let message = normalized(&String::from_utf8(compiled.stderr).unwrap());
    let file = program.with_extension("stderr");
    if env::var_os("ROWKEY_UI").is_some_and(|how| how == "overwrite") {
        fs::write(file, &message).unwrap();
        return !compiled.status.success();
    }
    let expected = fs::read_to_string(file).unwrap_or_default();
    let is_explained = !compiled.status.success() && message == expected;
    if !is_explained {
        eprintln!("--- {}, expected:\n{expected}--- is:\n{message}", program.display());
    }
    is_explained
}

/// The message without what depends on the machine and on lines of other files.
fn normalized(message: &str) -> String {
    let mut text = String::new();
    for diagnostic in message.split("\n\n") {
        let lines = lines(diagnostic);
        // The column of bars is as wide as the largest number, which may be one of another file.
        let numbers =
            lines.iter().map(|line| line.trim_start().chars().take_while(char::is_ascii_digit));
        let width = numbers.map(Iterator::count).max().unwrap_or_default();
        let column = lines.iter().find_map(|line| line.find("--> ")).unwrap_or_default();
        let excess = " ".repeat(column.saturating_sub(width.max(1)));
        for line in &lines {
            text.push_str(line.strip_prefix(&*excess).unwrap_or(line));
            text.push('\n');
        }
        text.push_str(if lines.is_empty() { "" } else { "\n" });
    }
    format!("{}\n", text.trim_end())
}

/// The lines of a diagnostic, without those that sum up all.
fn lines(diagnostic: &str) -> Vec<String> {
    // Whether the next lines quote another file.
    let mut is_quote = false;
    let mut lines = Vec::new();
    for line in diagnostic.lines() {
        let begun = line.trim_start();
        let sums = ["error: aborting due to ", "For more information about ", "Some errors have "];
        if sums.iter().any(|sum| begun.starts_with(sum)) {
            continue;
        }
        let indent = &line[..line.len() - begun.len()];
        let arrow = ["--> ", "::: "].into_iter().find(|arrow| begun.starts_with(arrow));
        lines.push(if let Some(arrow) = arrow {
            let place = &begun[arrow.len()..];
            let own = place.strip_prefix(PACKAGE);
            is_quote = own.is_none();
            let path = place.trim_end_matches(|last: char| last.is_ascii_digit() || last == ':');
            let place = own.map_or_else(|| format!("$WORKSPACE/{path}"), str::to_owned);
            format!("{indent}{arrow}{place}")
        } else if begun.starts_with("and ") && begun.ends_with(" others") {
            format!("{indent}and $N others")
        } else {
            is_quote &= begun.starts_with(|it: char| it.is_ascii_digit() || "|.".contains(it));
            let code = begun.trim_start_matches(|it: char| is_quote && it.is_ascii_digit());
            format!("{indent}{}{code}", " ".repeat(begun.len() - code.len())).trim_end().to_owned()
        });
    }
    lines
}
