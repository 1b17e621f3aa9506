//! `rowkey serve`: runs the program `rowkey-server`, if it is installed.

use std::convert::Infallible;
use std::env;
use std::ffi::OsString;
use std::io;
use std::process::Command;

use clap::Args;

use crate::error::{Error, Exit, Result};

const EXAMPLES: &str = "\
Examples:
  rowkey serve
  rowkey serve --location ./data --tablePort 10012
  rowkey serve -- --help";

const SERVER: &str = "rowkey-server";

/// Run rowkey-server, the server for tests and development, with these arguments.
///
/// It is looked for beside this program, then in PATH. Its exit code is that of this command.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Serve {
    /// The arguments of rowkey-server, as they are. `--help` and flags of this program stand behind `--`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// Returns only if the server cannot be run.
pub(crate) fn run(Serve { arguments }: Serve) -> Result<Infallible> {
    let name = format!("{SERVER}{}", env::consts::EXE_SUFFIX);
    let beside = env::current_exe().ok().map(|program| program.with_file_name(name));
    let program = match beside.filter(|path| path.is_file()) {
        Some(path) => path.into_os_string(),
        None => SERVER.into(),
    };
    let error = replace(Command::new(&program).args(arguments));
    if error.kind() == io::ErrorKind::NotFound {
        return Err(Error::new(
            Exit::Failed,
            format!(
                "{SERVER} is not installed: it is neither beside this program nor in PATH; install it by \
                 `cargo install {SERVER}`, or in a checkout of the repository by \
                 `cargo install --path crates/{SERVER}`"
            ),
        ));
    }
    let program = program.display();
    Err(Error::new(Exit::Failed, format!("{program} cannot be run: {error}; install it again")))
}

/// The server takes the place of this process, so signals and the exit code are its own.
#[cfg(unix)]
fn replace(command: &mut Command) -> io::Error {
    use std::os::unix::process::CommandExt as _;

    command.exec()
}

/// Waits for the server, and ends with its exit code.
#[cfg(not(unix))]
fn replace(command: &mut Command) -> io::Error {
    match command.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => error,
    }
}
