//! `rowkey serve` and `rowkey NAME`, with scripts in the place of the programs that they run.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use assert_cmd::Command;
use tempfile::TempDir;

use crate::support::finish;

/// A folder `bin` with the program alone: beside the program of the tests may be a server.
fn installed() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let (from, to) = (env!("CARGO_BIN_EXE_rowkey"), bin.join("rowkey"));
    // A link is found by its own name; between file systems there are none.
    fs::hard_link(from, &to).or_else(|_| fs::copy(from, &to).map(drop)).unwrap();
    folder
}

/// A server that says its name, its arguments and its input, and ends with exit code 42.
fn server(folder: &Path, name: &str) {
    script(folder, "rowkey-server", name);
}

fn script(folder: &Path, file: &str, name: &str) {
    let path = folder.join(file);
    let script = format!(
        "#!/bin/sh\nprintf '%s:' {name} \"$@\"\nread line; echo \" $line\"; echo error >&2\nexit 42\n"
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn serve(folder: &TempDir, args: &[&str]) -> Command {
    let mut command = rowkey(folder, &["serve"]);
    command.args(args);
    command
}

fn rowkey(folder: &TempDir, args: &[&str]) -> Command {
    let mut command = Command::new(folder.path().join("bin/rowkey"));
    command.env_clear().env("PATH", folder.path()).args(args);
    command.current_dir(folder.path()).write_stdin("input\n");
    command
}

#[test]
fn the_server_gets_arguments_and_streams_and_gives_its_exit_code() {
    let folder = installed();
    server(folder.path(), "path");
    let args = ["--tablePort", "0", "-d", "a b", "--oauth=basic", "--", "--help", ""];
    let done = finish(&mut serve(&folder, &args));
    assert_eq!(done.code, 42);
    assert_eq!(
        (&*done.out, &*done.err),
        ("path:--tablePort:0:-d:a b:--oauth=basic:--:--help:: input\n", "error\n")
    );
    let done = finish(&mut serve(&folder, &["--", "--help"]));
    assert_eq!((done.code, &*done.out), (42, "path:--help: input\n"));
    let done = finish(&mut serve(&folder, &["--help"]));
    assert!(done.code == 0 && done.out.contains("rowkey serve -- --help"), "{done:?}");

    // Beside the program is before PATH.
    server(&folder.path().join("bin"), "beside");
    let done = finish(&mut serve(&folder, &[]));
    assert_eq!((done.code, &*done.out), (42, "beside: input\n"));
}

#[test]
fn a_server_that_is_not_installed_is_an_error_that_says_how_to_install_it() {
    let folder = installed();
    let done = finish(&mut serve(&folder, &["--tablePort", "0"]));
    assert_eq!((done.code, &*done.out), (1, ""));
    assert!(done.err.contains("rowkey-server is not installed"), "{done:?}");
    assert!(done.err.contains("`cargo install --path crates/rowkey-server`"), "{done:?}");
}

#[test]
fn a_name_that_is_no_command_runs_the_program_of_that_name_with_all_that_is_behind_it() {
    let folder = installed();
    script(folder.path(), "rowkey-sql", "path");
    // Flags that rowkey has, too, reach the program as they are.
    let args =
        ["sql", "--json", "-c", "SELECT 1", "--profile", "x", "--", "--help", "", "--version"];
    let done = finish(&mut rowkey(&folder, &args));
    assert_eq!(done.code, 42);
    assert_eq!(
        (&*done.out, &*done.err),
        ("path:--json:-c:SELECT 1:--profile:x:--:--help::--version: input\n", "error\n")
    );
    let done = finish(&mut rowkey(&folder, &["sql", "--help"]));
    assert_eq!((done.code, &*done.out), (42, "path:--help: input\n"));

    // Beside the program is before PATH, and a variable of the environment is no flag.
    script(&folder.path().join("bin"), "rowkey-sql", "beside");
    let done = finish(rowkey(&folder, &["sql"]).env("ROWKEY_PROFILES", "profiles.json"));
    assert_eq!((done.code, &*done.out), (42, "beside: input\n"));

    // A command is before a program of its name.
    script(folder.path(), "rowkey-completions", "path");
    let done = finish(&mut rowkey(&folder, &["completions", "bash"]));
    assert!(done.code == 0 && done.out.contains("_rowkey"), "{done:?}");
}

#[test]
fn flags_in_front_of_the_name_of_a_program_are_refused() {
    let folder = installed();
    script(folder.path(), "rowkey-sql", "path");
    for args in [
        &["--json", "sql", "-c", "SELECT 1"][..],
        &["--emulator", "sql"],
        &["--profile", "production", "sql"],
        &["--timeout=5", "sql", "--timeout", "7"],
    ] {
        let done = finish(&mut rowkey(&folder, args));
        assert_eq!((done.code, &*done.out), (2, ""), "{args:?}");
        let flag = args[0].split('=').next().unwrap();
        assert!(done.err.contains(&format!("{flag} in front of `sql`")), "{done:?}");
        assert!(done.err.contains(&format!("`rowkey sql {flag}`")), "{done:?}");
    }
    let done = finish(&mut rowkey(&folder, &["--json", "sql"]));
    let error: serde_json::Value = serde_json::from_str(&done.err).unwrap();
    assert_eq!(error["error"]["kind"], "usage");
}

#[test]
fn a_name_that_is_neither_a_command_nor_a_program_is_an_error_that_names_both() {
    let folder = installed();
    let fails = |args: &[&str]| {
        let done = finish(&mut rowkey(&folder, args));
        assert_eq!((done.code, &*done.out), (2, ""), "{done:?}");
        done.err
    };
    let error = fails(&["sql", "-c", "SELECT 1"]);
    assert!(error.contains("`sql` is no command of rowkey"), "{error}");
    assert!(error.contains("the program rowkey-sql is neither beside rowkey nor"), "{error}");
    assert!(error.contains("`cargo install rowkey-sql`"), "{error}");
    let error = fails(&["--json", "tabels"]);
    assert!(error.contains("rowkey-tabels") && error.contains("perhaps `tables`"), "{error}");
    assert!(error.starts_with("{\"error\""), "{error}");
    let error = fails(&["xyzzy", "--json"]);
    assert!(error.contains("rowkey-xyzzy") && !error.contains("is meant"), "{error}");

    // Paths name no program, and neither is one run that the current folder happens to have.
    script(folder.path(), "rowkey-here", "here");
    fs::create_dir(folder.path().join("rowkey-")).unwrap();
    for name in ["/usr/../rowkey-here", "../rowkey-here", "", "a b"] {
        assert!(fails(&[name]).contains("neither a command of rowkey nor the name"), "{name}");
    }
    for path in ["", ".", "bin:"] {
        let done = finish(rowkey(&folder, &["here"]).env("PATH", path));
        assert_eq!(done.code, 2, "{path}: {done:?}");
    }
    // A file that cannot be run is named.
    fs::write(folder.path().join("rowkey-data"), "text").unwrap();
    let done = finish(&mut rowkey(&folder, &["data"]));
    assert!(done.code == 1 && done.err.contains("rowkey-data cannot be run"), "{done:?}");
}

#[test]
fn the_help_ends_with_other_programs() {
    let folder = installed();
    let done = finish(&mut rowkey(&folder, &["--help"]));
    let end = done.out.trim_end().lines().rev().take(3).collect::<Vec<_>>();
    assert!(end.iter().any(|line| line.contains("rowkey sql runs rowkey-sql")), "{end:?}");
}
