//! The program `rowkey-sql`. Everything is in the library, so that tests and other tools can use it.

use std::process::ExitCode;

fn main() -> ExitCode {
    rowkey_sql::run()
}
