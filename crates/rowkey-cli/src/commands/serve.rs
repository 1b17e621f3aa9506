//! `rowkey serve`: runs the program `rowkey-server`, if it is installed.

use std::convert::Infallible;
use std::ffi::OsString;

use clap::Args;

use crate::error::{Error, Exit, Result};
use crate::programs;

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
    match programs::find(SERVER) {
        Some(program) => programs::run(&program, &arguments),
        None => Err(Error::new(
            Exit::Failed,
            format!(
                "{SERVER} is not installed: it is neither beside this program nor in PATH; install it by \
                 `cargo install {SERVER}`, or in a checkout of the repository by \
                 `cargo install --path crates/{SERVER}`"
            ),
        )),
    }
}
