//! `rowkey serve`, with a script in the place of the server.

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
    let path = folder.join("rowkey-server");
    let script = format!(
        "#!/bin/sh\nprintf '%s:' {name} \"$@\"\nread line; echo \" $line\"; echo error >&2\nexit 42\n"
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn serve(folder: &TempDir, args: &[&str]) -> Command {
    let mut command = Command::new(folder.path().join("bin/rowkey"));
    command.env_clear().env("PATH", folder.path()).arg("serve").args(args);
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
